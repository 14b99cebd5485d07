"""Handlers of /settings, /mode, /bind, /unbind: channels, rules and language of a group; time zone and mode of a chat.

Bot admins bind any channel to a group with /bind; the group's own admins use /settings. Readers choose quick (the
recipe `direct`) or thorough (`agent`); bot admins choose the other recipes by name, where a model is there to run them,
and switch recipes on and off for everyone. Everybody in the group sees the buttons: at every press it is checked that
an admin of this very group pressed, under their own name, and that the channel is one that they may bind.
"""

from datetime import datetime, tzinfo
from functools import partial

from aiogram import Bot, F, Router
from aiogram.filters import CommandObject
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Bold, Code, Text, as_list

from bot.access import Refusal, check_may_change_settings, get_reader_id, is_group_admin
from bot.app_context import AppContext
from bot.i18n import LANGUAGES, Translator, choose_interface_language, get_translator
from bot.middlewares import ADMINS_ONLY, IN_GROUP, TO_ASKER, ChatCommand, is_blocked_question
from bot.settings import find_time_zone
from bot.telegram.recheck import View
from bot.telegram.session import publish_group_menu, respond
from bot.views import keyboards
from bot.views.answer import format_channel_title, format_one_line, link_channel_title
from bot.views.channel_card import find_channel_by_token, list_channel_titles, make_channel_token
from bot.views.format import style_text
from bot.views.keyboards import Press, build_keyboard, make_row, on_press, redraw_message
from bot.views.text import cut_lines
from rag_core.answer import RECIPES, load_recipe_switches, set_recipe_enabled
from rag_core.llm.rates import REVIEW, fits_budgets
from rag_core.storage import Archive, channels, readers
from rag_core.types import AGENT_RECIPE, AUTO_RECIPE, DIRECT_RECIPE, Channel, Visibility

router = Router()

_MAX_LABEL_LENGTH = 48
_MAX_TITLES = 10
_LANGUAGE_CHOICES = ("", *LANGUAGES)


@router.message(IN_GROUP, is_blocked_question)
async def _on_blocked_question(message: Message, words: Translator) -> None:
    raise Refusal(words("group-admins-ask"))


@router.message(ChatCommand("settings", addressed_only=True), flags=TO_ASKER)
async def _on_settings(message: Message, given: str, context: AppContext, words: Translator) -> None:
    """Show the settings of a group, or the time zones, after the one that was typed is set."""
    await check_may_change_settings(context.admins, message.chat, get_reader_id(message), words("group-admins-only"))
    if given and find_time_zone(given) is None:
        await respond(message, **words.rich("zone-unknown", example=Code(_EXAMPLE)).as_kwargs())
    elif given or message.chat.type == "private":
        if given:
            await readers.save_chat_zone(context.archive, message.chat.id, given)
        await message.answer(**(await _render_zones(message.chat.id, context, words)).as_kwargs())
    else:
        await message.reply(**(await _render_settings(message.chat.id, context, words)).as_kwargs())


_SETTINGS = "settings group-channels group-bind group-unbind group-cited group-admins group-alone group-lang".split()


@router.callback_query(on_press(*_SETTINGS))
async def _press_settings(
    pressed: CallbackQuery, callback_data: Press, bot: Bot, context: AppContext, words: Translator
) -> None:
    """Change a setting: a button names the target state, so that pressing it twice has the same effect as once."""
    group = pressed.message.chat if pressed.message else None
    mine = group is not None and group.type != "private" and not pressed.from_user.is_bot
    if group is None or not mine or not await is_group_admin(context.admins, pressed.from_user.id, group.id):
        raise Refusal(words("group-admins-only"))
    action, number, archive = callback_data.to, callback_data.number, context.archive
    change = partial(readers.change_group_rules, archive, group.id)
    match action:
        case "group-bind" | "group-unbind":
            offered = {one.chat_id: one for one in await _list_offered_channels(group.id, archive, words)}
            channel = find_channel_by_token(archive, callback_data.token, offered)
            if channel is None:
                raise Refusal(words("settings-channel-gone"))
            if action == "group-unbind":
                await readers.unbind_channel(archive, group.id, channel.chat_id)
            else:
                await readers.bind_channel(archive, group.id, channel.chat_id, own=True)
        case "group-cited":
            await change(cited_only=bool(number))
        case "group-admins":
            await change(admins_ask=bool(number))
        case "group-alone":
            await change(asker_only=bool(number))
            await publish_group_menu(bot, group.id, hide_questions=bool(number))
        case "group-lang":
            chosen = _LANGUAGE_CHOICES[number % len(_LANGUAGE_CHOICES)]
            await change(lang=chosen)
            spoken = choose_interface_language(pressed.from_user.language_code, context.settings.bot.language)
            words = get_translator(chosen or spoken)  # the following sentences are in the chosen language
    if action in ("group-channels", "group-bind", "group-unbind"):
        view = await _render_channel_choices(group.id, number, archive, words)
    else:
        view = await _render_settings(group.id, context, words)
    await redraw_message(pressed, view, "" if action in ("settings", "group-channels") else words("settings-kept"))


async def _list_offered_channels(group: int, archive: Archive, words: Translator) -> list[Channel]:
    """List the bound channels and those that the group's admins may bind: public ones, or opened by a bot admin."""
    bound = await readers.list_bound_channels(archive, group)
    known = (await channels.load_channels(archive)).values()
    active = [one for one in known if one.state == "active"]
    offered = [c for c in active if c.chat_id in bound or c.bindable or c.visibility is Visibility.PUBLIC]
    return sorted(offered, key=lambda one: (format_channel_title(one, words).casefold(), one.chat_id))


async def _render_settings(group: int, context: AppContext, words: Translator) -> View:
    archive, zone = context.archive, await context.load_zone(group)
    rules = await readers.load_group_rules(archive, group)
    bound = await readers.list_bound_channels(archive, group)
    mine = [channel for channel in await _list_offered_channels(group, archive, words) if channel.chat_id in bound]
    titles = cut_lines([Text("• ", link_channel_title(channel, words)) for channel in mine], _MAX_TITLES, words)
    asks = as_list(words("bind-list", count=len(mine)), *titles) if mine else Text(words("settings-no-channels"))
    chosen = as_list(
        words("settings-sure", on="yes" if rules.cited_only else "no"),
        words("settings-who", who="admins" if rules.admins_ask else "everybody"),
        words("settings-answers", who="asker" if rules.asker_only else "everybody"),
        words("settings-lang", lang=rules.lang or "each"),
        words("settings-zone", zone=_format_zone(zone, words)),
    )
    text = as_list(Bold(words("settings-title")), asks, chosen, sep="\n\n")
    following = (_LANGUAGE_CHOICES.index(rules.lang) + 1) % len(_LANGUAGE_CHOICES)
    buttons = (
        (words("button-group-channels"), "group-channels", 0),
        (words("button-cited", on="yes" if rules.cited_only else "no"), "group-cited", not rules.cited_only),
        (words("button-admins-ask", on="yes" if rules.admins_ask else "no"), "group-admins", not rules.admins_ask),
        (words("button-answer-asker", on="yes" if rules.asker_only else "no"), "group-alone", not rules.asker_only),
        (words("button-lang", lang=_LANGUAGE_CHOICES[following] or "each"), "group-lang", following),
        (words("button-zone"), "zone", 0),
    )
    return View(text, buttons=build_keyboard(*(make_row(label, to, number=int(n)) for label, to, n in buttons)))


async def _render_channel_choices(group: int, number: int, archive: Archive, words: Translator) -> View:
    """Render a page of the channels with their buttons; the nearest page where this one does not exist."""
    offered = await _list_offered_channels(group, archive, words)
    bound = await readers.list_bound_channels(archive, group)
    shown, number, last = keyboards.cut_page(offered, number, keyboards.CHANNELS_PER_PAGE)
    rows = []
    for channel in shown:
        sign, to = ("✓", "group-unbind") if channel.chat_id in bound else ("＋", "group-bind")
        label = f"{sign} {format_channel_title(channel, words, _MAX_LABEL_LENGTH)}"
        rows.append(make_row(label, to, make_channel_token(archive, channel.chat_id), number))
    turns = keyboards.build_page_row(number, last, lambda n: Press(to="group-channels", number=n), words)
    text = words("settings-channels") if offered else words("settings-none-offered")
    return View(Text(text), buttons=build_keyboard(*rows, turns, make_row(words("button-back"), "settings")))


# Time zones of a chat, from west to east; others can be typed. "Yesterday" is understood in it; times are shown in it.
_OFFERED = (
    "America/Los_Angeles", "America/New_York", "UTC", "Europe/London", "Europe/Berlin", "Europe/Kyiv",
    "Europe/Kaliningrad", "Europe/Moscow", "Europe/Samara", "Asia/Tbilisi", "Asia/Almaty", "Asia/Yekaterinburg",
    "Asia/Omsk", "Asia/Novosibirsk", "Asia/Irkutsk", "Asia/Yakutsk", "Asia/Vladivostok", "Asia/Kamchatka",
)  # fmt: skip
_EXAMPLE = "/settings Europe/Madrid"


def _format_zone(zone: tzinfo, words: Translator) -> str:
    return words("zone-name", zone=str(zone).rpartition("/")[2])


async def _render_zones(chat_id: int, context: AppContext, words: Translator) -> View:
    chosen = await context.load_zone(chat_id)

    def format_clock(zone: tzinfo) -> str:
        return f"{_format_zone(zone, words)}, {datetime.now(zone):%H:%M}"

    buttons: list[keyboards.LabelledPress] = [
        (("✓ " if str(zone) == str(chosen) else "") + format_clock(zone), Press(to="zone", token=name))
        for name in _OFFERED
        if (zone := find_time_zone(name))
    ]
    text = words.rich("zone-now", zone=format_clock(chosen), example=Code(_EXAMPLE))
    return View(text, buttons=build_keyboard(*keyboards.split_rows(buttons, 2)))


@router.callback_query(on_press("zone"))
async def _press_zone(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    message, name = pressed.message, callback_data.token
    if message is None:
        raise Refusal(words("group-admins-only"))
    await check_may_change_settings(context.admins, message.chat, pressed.from_user.id, words("group-admins-only"))
    if name in _OFFERED:
        await readers.save_chat_zone(context.archive, message.chat.id, name)
    view = await _render_zones(message.chat.id, context, words)
    await redraw_message(pressed, view, words("settings-kept") if name else "")


@router.message(ChatCommand("bind", "unbind"), flags=ADMINS_ONLY | TO_ASKER)
async def _on_bind(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    if message.chat.type == "private":
        raise Refusal(words("bind-in-group"))
    asked, archive, group = (command.args or "").strip(), context.archive, message.chat.id
    known = await channels.load_channels(archive)
    channel = channels.find_channel(asked, known) if asked else None
    title = style_text(Bold, format_channel_title(channel, words)) if channel else Text()
    if not asked:
        bound = await readers.list_bound_channels(archive, group)
        listed = [one for chat_id, one in known.items() if chat_id in bound]
        how = words.rich("bind-how", example=Code("/bind @channel"))
        text = as_list(words("bind-none"), how)
        if listed:
            text = as_list(words("bind-list", count=len(listed)), list_channel_titles(listed, words), "", how)
    elif channel is None:
        text = words.rich("bind-unknown", name=format_one_line(asked))
    elif command.command.lower() == "unbind":
        await readers.unbind_channel(archive, group, channel.chat_id)
        text = words.rich("bind-undone", title=title)
    elif channel.state == "pending":
        text = words.rich("bind-pending", title=title)
    else:
        await readers.bind_channel(archive, group, channel.chat_id)
        text = words.rich("bind-done", title=title)
    await message.reply(**text.as_kwargs())


@router.message(F.migrate_to_chat_id)
async def _on_supergroup_migration(message: Message, bot: Bot, context: AppContext) -> None:
    assert message.migrate_to_chat_id is not None
    await readers.move_group(context.archive, message.chat.id, message.migrate_to_chat_id)
    if (await readers.load_group_rules(context.archive, message.migrate_to_chat_id)).asker_only:
        await publish_group_menu(bot, message.migrate_to_chat_id, hide_questions=True)


_READER_MODES = {"auto": AUTO_RECIPE, "quick": DIRECT_RECIPE, "thorough": AGENT_RECIPE}
_MESSAGE_FORMS = {"rich": True, "plain": False}  # as typed after /mode


@router.message(ChatCommand("mode"), flags=TO_ASKER)
async def _on_mode(message: Message, given: str, addressed: bool, context: AppContext, words: Translator) -> None:
    wanted, reader = given.casefold(), get_reader_id(message)
    typed = {
        words(name, recipe=one).casefold(): one for name in ("mode-name", "mode-word") for one in _READER_MODES.values()
    }
    wanted = (typed | _READER_MODES).get(wanted, wanted)
    offered, _ = _list_offered_modes(context, admin=reader in context.admins)
    if not (addressed or wanted in offered or wanted in _MESSAGE_FORMS):
        return
    if wanted in _MESSAGE_FORMS:
        await check_may_change_settings(context.admins, message.chat, reader, words("mode-not-yours"))
        await readers.save_rich_chat(context.archive, message.chat.id, rich=_MESSAGE_FORMS[wanted])
    elif wanted and wanted not in offered:
        raise Refusal(words("mode-unknown", names=", ".join(words("mode-word", recipe=name) for name in offered)))
    elif wanted:
        await _choose_mode(message, wanted, reader, context, words)
    await message.answer(**(await _render_mode(context, message, words, reader)).as_kwargs())


@router.callback_query(on_press("mode", "mode-form", "mode-on", "mode-off"))
async def _press_mode(pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator) -> None:
    message, reader = pressed.message, pressed.from_user.id
    if not isinstance(message, Message):
        await pressed.answer()
        return
    admin, action, name = reader in context.admins, callback_data.to, callback_data.token
    if action == "mode" and name in _list_offered_modes(context, admin=admin)[0]:
        await _choose_mode(message, name, reader, context, words)
    elif action == "mode-form":
        await check_may_change_settings(context.admins, message.chat, reader, words("mode-not-yours"))
        await readers.save_rich_chat(context.archive, message.chat.id, rich=bool(callback_data.number))
    elif action == "mode" or not admin or message.chat.type != "private":
        raise Refusal(words("mode-not-yours"))
    elif action in {"mode-on", "mode-off"} and name in RECIPES:
        await set_recipe_enabled(context.rag, name, on=action == "mode-on")
    await redraw_message(pressed, await _render_mode(context, message, words, reader))


def _list_offered_modes(context: AppContext, *, admin: bool) -> tuple[list[str], list[str]]:
    """List the modes that may be chosen, and those that the model is too slow for.

    Only admins choose the other recipes by name, and the review.
    """
    offered, slow, writer = list(_READER_MODES.values()), list[str](), context.rag.writer
    if admin and writer:
        for name in [*(name for name in RECIPES if name not in (DIRECT_RECIPE, AGENT_RECIPE)), REVIEW]:
            (offered if fits_budgets(name, writer.rates, context.rag.budgets) else slow).append(name)
    return offered, slow


async def _choose_mode(message: Message, wanted: str, reader: int, context: AppContext, words: Translator) -> None:
    await check_may_change_settings(context.admins, message.chat, reader, words("mode-not-yours"))
    now = await readers.load_answer_mode(context.archive, message.chat.id)
    recipe, careful = (now.recipe, not now.careful) if wanted == REVIEW else (wanted, now.careful)
    await readers.save_answer_mode(context.archive, message.chat.id, readers.AnswerMode(recipe, careful))


async def _render_mode(context: AppContext, message: Message, words: Translator, reader: int) -> View:
    """Render the mode of a chat with its buttons; for an admin in private also the switches for everyone."""
    now = await readers.load_answer_mode(context.archive, message.chat.id)
    state, admin = await load_recipe_switches(context.rag), reader in context.admins
    pinned = {now.recipe, *([REVIEW] if now.careful else [])}
    offered, slow = _list_offered_modes(context, admin=admin)
    usable = [name for name in offered if state.get(name, True)]
    lines = [words("mode-now", mode=words("mode-name", recipe=now.recipe)), words("mode-about", recipe=now.recipe)]
    if now.careful:
        lines.append(words("mode-careful-on"))
    if not state.get(now.recipe, True):
        lines.append(words("mode-off-now"))
    rich = await readers.is_rich_chat(context.archive, message.chat.id)
    lines.append(words("mode-form", rich="yes" if rich else "no"))
    if slow:
        lines.append(words("mode-too-slow", names=", ".join(words("mode-name", recipe=name) for name in slow)))
    names = [*usable, *sorted(pinned - set(usable))]
    rows = [make_row(("✓ " if one in pinned else "") + words("mode-name", recipe=one), "mode", one) for one in names]
    rows.append(make_row(words("button-form", rich="yes" if rich else "no"), "mode-form", number=int(not rich)))
    if admin and message.chat.type == "private":
        for name in (one for one in offered if one in state):
            label = words("mode-switch-off" if state[name] else "mode-switch-on", mode=words("mode-name", recipe=name))
            rows.append(make_row(label, "mode-off" if state[name] else "mode-on", name))
    return View(Text("\n".join(lines)), buttons=build_keyboard(*rows))
