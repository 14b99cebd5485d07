"""/settings in a group: its own admins say which channels it asks, who asks, how sure an answer must be.

Everybody in the group sees the buttons, and may make up what they carry. So every press is checked: that an
admin of this very group pressed, under their own name, and that the channel may be bound by them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum

from aiogram import F, Router
from aiogram.filters import Command, CommandObject
from aiogram.filters.callback_data import CallbackData
from aiogram.types import CallbackQuery, InlineKeyboardButton, InlineKeyboardMarkup, Message
from aiogram.utils.formatting import Bold, Text, as_list

from bot.access import reader_of
from bot.channels.buttons import mark_of, meant, redraw
from bot.desk import Desk
from bot.gate import leads
from bot.titles import title_of, titled
from bot.words import LANGUAGES, Words, interface_language, words_for
from rag_core.doors.archive import Archive, channels
from rag_core.doors.archive.group_rules import Rules, choose, rules_of
from rag_core.types import Channel, Visibility

__all__ = ["routes"]

_GROUP = F.chat.type.in_({"group", "supergroup"})
_ON_A_LEAF = 8  # a phone shows about so many buttons without scrolling
_LONGEST_LABEL = 48
_MOST_TITLES = 10


class _Do(StrEnum):
    """What a button does. It says what shall be, so that pressing it twice is pressing it once."""

    SHOW = "s"
    CHANNELS = "c"
    BIND = "b"
    UNBIND = "u"
    CITED = "r"
    ANYHOW = "a"
    ADMINS = "m"
    EVERYBODY = "e"
    LANG = "l"


class _Press(CallbackData, prefix="gs"):
    """A button: what it does, the mark of a channel, and a part of the list or the place of a language."""

    do: _Do
    mark: str = ""
    number: int = 0


_RULES: dict[_Do, Callable[[Rules], Rules]] = {
    _Do.CITED: lambda rules: replace(rules, cited_only=True),
    _Do.ANYHOW: lambda rules: replace(rules, cited_only=False),
    _Do.ADMINS: lambda rules: replace(rules, admins_ask=True),
    _Do.EVERYBODY: lambda rules: replace(rules, admins_ask=False),
}
_SPOKEN = ("", *LANGUAGES)


async def _on_settings(message: Message, command: CommandObject, desk: Desk, words: Words) -> None:
    if not command.mention:  # a bare command may be meant for another bot
        return
    if not await leads(reader_of(message), message.chat.id, desk):
        await message.reply(words("group-admins-only"), allow_sending_without_reply=True)
        return
    said, buttons = await _shown(message.chat.id, desk.archive, words)
    await message.reply(**said.as_kwargs(), reply_markup=buttons, allow_sending_without_reply=True)


async def _on_private(message: Message, words: Words) -> None:
    await message.answer(words("settings-in-group"))


async def _on_press(pressed: CallbackQuery, callback_data: _Press, desk: Desk, words: Words) -> None:
    group = pressed.message.chat if pressed.message else None
    mine = group is not None and group.type != "private" and not pressed.from_user.is_bot
    if group is None or not mine or not await leads(pressed.from_user.id, group.id, desk):
        await pressed.answer(words("group-admins-only"), show_alert=True)
        return
    done = await _done(callback_data, group.id, desk.archive, words)
    if not done:
        await pressed.answer(words("settings-channel-gone"), show_alert=True)
        return
    if callback_data.do is _Do.LANG:  # what is said from now on is said in it
        chosen = (await rules_of(desk.archive, group.id)).lang
        spoken = interface_language(pressed.from_user.language_code, desk.settings.bot.language)
        words = words_for(chosen or spoken)
    if callback_data.do in (_Do.CHANNELS, _Do.BIND, _Do.UNBIND):
        said, buttons = await _leaf(group.id, callback_data.number, desk.archive, words)
    else:
        said, buttons = await _shown(group.id, desk.archive, words)
    await redraw(pressed, said, buttons, "" if callback_data.do in (_Do.SHOW, _Do.CHANNELS) else words("settings-kept"))


async def _done(press: _Press, group: int, archive: Archive, words: Words) -> bool:
    """Do what the button says; False where its channel is not one of theirs to bind."""
    if press.do in (_Do.BIND, _Do.UNBIND):
        channel = meant(archive, press.mark, {c.chat_id: c for c in await _offered(group, archive, words)})
        if channel is None:
            return False
        if press.do is _Do.UNBIND:
            await channels.unbind(archive, group, channel.chat_id)
        else:
            await channels.bind(archive, group, channel.chat_id, own=True)
    elif press.do in _RULES:
        await choose(archive, group, _RULES[press.do](await rules_of(archive, group)))
    elif press.do is _Do.LANG:
        lang = _SPOKEN[press.number % len(_SPOKEN)]
        await choose(archive, group, replace(await rules_of(archive, group), lang=lang))
    return True


async def _offered(group: int, archive: Archive, words: Words) -> list[Channel]:
    """What this group asks now, and what its admins may add: what is public, or what an admin of the bot lets them."""
    bound = await channels.bound(archive, group)
    return sorted(
        (
            channel
            for key, channel in (await channels.known(archive)).items()
            if channel.state == "active"
            and (key in bound or channel.bindable or channel.visibility is Visibility.PUBLIC)
        ),
        key=lambda channel: (title_of(channel, words).casefold(), channel.chat_id),
    )


async def _shown(group: int, archive: Archive, words: Words) -> tuple[Text, InlineKeyboardMarkup]:
    """The settings on one screen."""
    rules, bound = await rules_of(archive, group), await channels.bound(archive, group)
    mine = [channel for channel in await _offered(group, archive, words) if channel.chat_id in bound]
    titles = [Text("• ", titled(channel, words)) for channel in mine[:_MOST_TITLES]]
    if (more := len(mine) - len(titles)) > 0:
        titles.append(Text(words("titles-more", more=more)))
    asks = as_list(words("bind-list", count=len(mine)), *titles) if mine else Text(words("settings-no-channels"))
    chosen = as_list(
        words("settings-sure", on="yes" if rules.cited_only else "no"),
        words("settings-who", who="admins" if rules.admins_ask else "everybody"),
        words("settings-lang", lang=rules.lang or "each"),
    )
    said = as_list(Bold(words("settings-title")), asks, chosen, sep="\n\n")
    return said, _keyboard(*([button] for button in _choices(rules, words)))


def _choices(rules: Rules, words: Words) -> Iterator[tuple[str, _Press]]:
    yield words("button-group-channels"), _Press(do=_Do.CHANNELS)
    if rules.cited_only:
        yield words("button-anyhow"), _Press(do=_Do.ANYHOW)
    else:
        yield words("button-cited"), _Press(do=_Do.CITED)
    if rules.admins_ask:
        yield words("button-everybody-asks"), _Press(do=_Do.EVERYBODY)
    else:
        yield words("button-admins-ask"), _Press(do=_Do.ADMINS)
    following = (_SPOKEN.index(rules.lang) + 1) % len(_SPOKEN)
    yield words("button-lang", lang=_SPOKEN[following] or "each"), _Press(do=_Do.LANG, number=following)


async def _leaf(group: int, number: int, archive: Archive, words: Words) -> tuple[Text, InlineKeyboardMarkup]:
    """One part of the channels, each with what pressing it does; the nearest there is."""
    offered, bound = await _offered(group, archive, words), await channels.bound(archive, group)
    last = max(0, len(offered) - 1) // _ON_A_LEAF
    number = max(0, min(number, last))
    rows = []
    for channel in offered[number * _ON_A_LEAF : (number + 1) * _ON_A_LEAF]:
        on = channel.chat_id in bound
        label = f"{'✓' if on else '＋'} {title_of(channel, words, _LONGEST_LABEL)}"
        mark = mark_of(archive, channel.chat_id)
        rows.append([(label, _Press(do=_Do.UNBIND if on else _Do.BIND, mark=mark, number=number))])
    turns = [(words("button-earlier"), _Press(do=_Do.CHANNELS, number=number - 1))] if number > 0 else []
    turns += [(words("button-later"), _Press(do=_Do.CHANNELS, number=number + 1))] if number < last else []
    said = words("settings-channels") if offered else words("settings-none-offered")
    return Text(said), _keyboard(*rows, turns, [(words("button-back"), _Press(do=_Do.SHOW))])


def _keyboard(*rows: list[tuple[str, _Press]]) -> InlineKeyboardMarkup:
    shown = [[InlineKeyboardButton(text=label, callback_data=press.pack()) for label, press in row] for row in rows]
    return InlineKeyboardMarkup(inline_keyboard=[row for row in shown if row])


def routes() -> Router:
    """Handlers of /settings and its buttons."""
    router = Router(name="group settings")
    router.message.register(_on_settings, Command("settings", ignore_case=True), _GROUP)
    router.message.register(_on_private, Command("settings", ignore_case=True), F.chat.type == "private")
    router.callback_query.register(_on_press, _Press.filter())
    return router
