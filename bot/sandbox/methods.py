"""Bot API methods: the bot itself, chats, and messages with what they reply to and quote, topic and buttons."""

import json
import re
from collections.abc import Awaitable, Callable
from inspect import isfunction
from math import inf
from typing import Any, get_args, get_type_hints

from aiogram import methods as bot_api
from aiogram.types import InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters

from bot.sandbox import messages, state
from bot.sandbox.messages import BotApiError, Json, bad_request, prepare_rich_message, prepare_text
from bot.sandbox.state import SandboxChat, SandboxState, get_message_key, require_readable_chat, require_writable_chat
from ingest.message_kinds import count_utf16_units

# Entity types that a quote must share with its message: https://core.telegram.org/bots/api#replyparameters
_STYLE_TYPES = {"bold", "italic", "underline", "strikethrough", "spoiler"}
_WHOLE_ENTITY_TYPES = {"custom_emoji", "date_time"}
NO_MARKUP_TEXT = "can't parse entities: the sandbox reads no markup, send entities"


def _dump_entities(entities: list[Any] | None) -> list[Json]:
    return [entity.model_dump(exclude_none=True) for entity in entities or ()]


def build_thread_fields(room: SandboxChat, thread: int | None, parent: Json | None = None) -> Json:
    """Build the topic fields: the requested topic, else that of the replied message."""
    if thread is not None and thread not in room.topics:
        raise bad_request("message thread not found")
    inherited = (parent or {}).get("message_thread_id") if room.forum else None
    topic = thread if thread is not None else inherited
    return {"message_thread_id": topic, "is_topic_message": True} if topic is not None else {}


def _build_reply_fields(world: SandboxState, room: SandboxChat, wanted: ReplyParameters | None) -> Json:
    """Build `reply_to_message` (or `external_reply`) and `quote`; 400 if there is no such message or quote."""
    if wanted is not None and wanted.ephemeral_message_id is not None:
        raise bad_request("a reply to an ephemeral message must be an ephemeral message")
    if wanted is None or not wanted.message_id:
        return {}
    elsewhere = wanted.chat_id is not None and world.room(wanted.chat_id).id != room.id
    source = require_readable_chat(world, wanted.chat_id) if elsewhere else room
    if wanted.message_id not in source.messages and wanted.allow_sending_without_reply is True and not elsewhere:
        return {}
    parent = source.require_message(wanted.message_id, "be replied")
    if elsewhere and (source.protected or parent.get("has_protected_content") or state.SERVICE_FIELDS & parent.keys()):
        return {}  # TDLib sends the message anyway, without a reply and without an error
    quote = _build_quote_fields(parent, wanted)
    if elsewhere:
        external = {"chat": source.wire(), "message_id": parent["message_id"]}
        return {"external_reply": external | {"origin": state.build_message_origin(parent)}} | quote
    return {"reply_to_message": messages.remove_nested_reply(parent)} | quote


def _build_quote_fields(parent: Json, wanted: ReplyParameters) -> Json:
    """Build the quote, which must match the message word for word and in its styles; a blank quote is ignored."""
    if isinstance(wanted.quote_parse_mode, str):
        raise bad_request(NO_MARKUP_TEXT)
    text, entities, lead = messages.clean_text(wanted.quote or "", _dump_entities(wanted.quote_entities))
    if not text:
        return {}
    whole = parent.get("text") or parent.get("caption") or ""
    spans = parent.get("entities") or parent.get("caption_entities") or []
    wanted_position = (wanted.quote_position or 0) + lead
    found = re.finditer(f"(?={re.escape(text)})", whole)  # also where they overlap
    places = [count_utf16_units(whole[: match.start()]) for match in found]
    length = count_utf16_units(text)
    styles = _collect_styles(entities, 0, length)
    fitting = [place for place in places if _collect_styles(spans, place, length) == styles]
    if not fitting or len(text) > messages.MAX_QUOTE_CHARACTERS:
        raise bad_request("QUOTE_TEXT_INVALID")
    kept = [entity for entity in entities if entity["type"] in _STYLE_TYPES | _WHOLE_ENTITY_TYPES]
    position = min(fitting, key=lambda place: abs(place - wanted_position))
    quote: Json = {"text": text, "position": position, "is_manual": True}
    return {"quote": quote | ({"entities": kept} if kept else {})}


def _collect_styles(entities: list[Json], start: int, length: int) -> set[tuple[object, ...]]:
    """Collect the styles inside a span, with offsets from its start.

    Text styles as covered units, so that adjacent entities equal one; emoji and dates as whole entities with their
    fields.
    """
    inside: set[tuple[object, ...]] = set()
    for entity in entities:
        left = max(entity["offset"], start) - start
        right = min(entity["offset"] + entity["length"], start + length) - start
        if entity["type"] in _STYLE_TYPES:
            inside |= {(entity["type"], place) for place in range(left, right)}
        elif entity["type"] in _WHOLE_ENTITY_TYPES and right > left:
            fields = sorted((name, value) for name, value in entity.items() if name not in ("offset", "length"))
            inside.add((left, right, *fields))
    return inside


def _build_inline_keyboard(markup: object) -> Json | None:
    if not isinstance(markup, InlineKeyboardMarkup):
        return None
    for button in (button for row in markup.inline_keyboard for button in row):
        if button.callback_data is not None and not 1 <= len(button.callback_data.encode()) <= 64:
            raise bad_request("BUTTON_DATA_INVALID")
        if button.url is not None and not button.url.startswith(("http://", "https://", "tg://")):
            raise bad_request(f"inline keyboard button URL '{button.url}' is invalid: Wrong HTTP URL")
        if not button.model_dump(exclude_none=True).keys() - {"text", "style", "icon_custom_emoji_id"}:
            raise bad_request("can't parse inline keyboard button: Text buttons are unallowed in the inline keyboard")
    return markup.model_dump(exclude_none=True) if markup.inline_keyboard else None


_MAX_POLL_SECONDS = 50
_DEFAULT_CONNECTIONS = 40
_COMMAND_PATTERN = re.compile(r"[a-z0-9_]{1,32}")


def get_me(call: bot_api.GetMe, world: SandboxState) -> Json:
    """Describe the bot."""
    off = ("supports_guest_queries", "can_connect_to_business", "has_main_web_app", "has_topics_enabled")
    flags = {"can_join_groups": True, "can_read_all_group_messages": world.reads_groups}
    return world.bot.wire() | flags | {"supports_inline_queries": world.inline} | dict.fromkeys(off, False)


def get_updates(call: bot_api.GetUpdates, world: SandboxState) -> Awaitable[list[Json]]:
    """Long polling for updates."""
    world.queue.allow(call.allowed_updates)
    limit = min(max(call.limit or 100, 1), 100)
    return world.queue.poll(call.offset or 0, limit, min(max(call.timeout or 0, 0), _MAX_POLL_SECONDS))


def set_webhook(call: bot_api.SetWebhook | bot_api.DeleteWebhook, world: SandboxState) -> None:
    """Set the webhook, to which updates are delivered from now on, or remove it."""
    if isinstance(call, bot_api.DeleteWebhook):
        world.queue.hook("")
    else:
        world.queue.allow(call.allowed_updates)
        world.queue.hook(call.url, call.secret_token or "", call.max_connections or _DEFAULT_CONNECTIONS)


def get_webhook_info(call: bot_api.GetWebhookInfo, world: SandboxState) -> Json:
    """Describe the webhook, with the number of pending updates."""
    queue = world.queue
    info: Json = {"url": queue.webhook, "has_custom_certificate": False, "pending_update_count": len(queue.kept)}
    if queue.webhook:
        info["max_connections"] = queue.connections
    if queue.failed:
        info |= {"last_error_date": int(queue.failed[0]), "last_error_message": queue.failed[1]}
    return info | {"allowed_updates": sorted(queue.allowed)}


def set_my_commands(call: bot_api.SetMyCommands | bot_api.DeleteMyCommands, world: SandboxState) -> None:
    """Set or remove the commands for a scope and a language."""
    given = call.commands if isinstance(call, bot_api.SetMyCommands) else []
    if len(given) > 100:
        raise bad_request("BOT_COMMANDS_TOO_MUCH")
    for command in given:
        if not _COMMAND_PATTERN.fullmatch(command.command.removeprefix("/")):
            raise bad_request("BOT_COMMAND_INVALID")
        if not 1 <= len(command.description) <= 256:
            raise bad_request("BOT_COMMAND_DESCRIPTION_INVALID")
    scope = call.scope.model_dump(exclude_none=True) if call.scope else {"type": "default"}
    key = json.dumps(scope, sort_keys=True), call.language_code or ""
    world.commands.pop(key, None)
    if given:
        world.commands[key] = [command.model_dump(exclude_none=True) for command in given]
    world.changed()


_ACTION_SECONDS = 5.0  # https://core.telegram.org/bots/api#sendchataction
_DRAFT_SECONDS = 30.0  # https://core.telegram.org/bots/api#sendmessagedraft
_MAX_INLINE_RESULTS, _INLINE_SECONDS = 50, 10.0  # https://core.telegram.org/bots/api#answerinlinequery
_MAX_DOWNLOAD_BYTES = 20 * 2**20  # https://core.telegram.org/bots/api#getfile
# https://core.telegram.org/bots/api#reactiontypeemoji
_REACTION_EMOJIS = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 "
    "🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 "
    "🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡 "
)
ALLOWED_REACTIONS = frozenset(_REACTION_EMOJIS.split())


def get_chat(call: bot_api.GetChat, world: SandboxState) -> Json:
    """Get all fields of a chat that the bot can read."""
    return require_readable_chat(world, call.chat_id).full()


def get_chat_member(call: bot_api.GetChatMember, world: SandboxState) -> Json:
    """Get a membership; in channels only for an administrator."""
    room = require_readable_chat(world, call.chat_id)
    if room.kind == "private":
        raise bad_request("there are no members in the private chat")
    if room.kind == "channel" and call.user_id != world.bot.id and not room.member(world.bot.id).leads:
        raise bad_request("member list is inaccessible")
    person = world.bot if call.user_id == world.bot.id else world.people.get(call.user_id)
    if person is None:
        raise bad_request("user not found")
    return room.member(call.user_id).wire(person, room.kind)


def leave_chat(call: bot_api.LeaveChat, world: SandboxState) -> None:
    """Let the bot leave; it gets an update, as for every change of its membership."""
    room = require_readable_chat(world, call.chat_id)
    if room.kind == "private":
        raise bad_request("chat member status can't be changed in private chats")
    if not room.member(world.bot.id).inside:
        raise BotApiError(403, f"bot is not a member of the {room.kind} chat")
    state.set_chat_member(world, room.id, world.bot.id, "left")


def send_chat_action(call: bot_api.SendChatAction, world: SandboxState) -> None:
    """Show "typing" or another chat action."""
    room = require_writable_chat(world, call.chat_id)
    build_thread_fields(room, call.message_thread_id)
    world.actions[room.id, call.message_thread_id or 0] = call.action, world.clock() + _ACTION_SECONDS
    world.changed()


def set_draft(call: bot_api.SendMessageDraft | bot_api.SendRichMessageDraft, world: SandboxState) -> None:
    """Set a draft, of a text or a rich message; one for each chat and topic, for half a minute."""
    text, entities, rich = "", list[Json](), None
    if isinstance(call, bot_api.SendRichMessageDraft):
        rich = prepare_rich_message(call.rich_message, draft=True)
    else:
        text, entities = prepare_text(call.text, _dump_entities(call.entities), empty=True)
    room = require_writable_chat(world, call.chat_id)
    if room.kind != "private":
        raise bad_request("message drafts are available only in private chats")
    if not call.draft_id:
        raise bad_request("draft_id must be non-zero")
    build_thread_fields(room, call.message_thread_id)
    ends = world.clock() + _DRAFT_SECONDS
    draft = state.SandboxDraft(call.draft_id, text, entities, bool(call.can_stop), ends, rich)
    world.drafts[room.id, call.message_thread_id or 0] = draft
    world.changed()


def set_message_reaction(call: bot_api.SetMessageReaction, world: SandboxState) -> None:
    """Set the bot's reaction: at most one emoji for each message; none removes it."""
    room = require_readable_chat(world, call.chat_id)
    room.require_message(call.message_id, "react")
    emojis = [getattr(reaction, "emoji", "") for reaction in call.reaction or ()]
    if len(emojis) > 1:
        raise bad_request("REACTIONS_TOO_MANY")
    if any(emoji not in ALLOWED_REACTIONS for emoji in emojis):
        raise bad_request("REACTION_INVALID")
    world.reactions.setdefault((room.id, call.message_id), {})[world.bot.id] = emojis
    world.changed(room, call.message_id)


def _get_open_query(world: SandboxState, query_id: str, seconds: float = inf) -> state.PressedButton:
    query = world.queries.get(query_id)
    if query is None or query.answer is not None or world.clock() - query.at > seconds:
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    return query


def answer_callback_query(call: bot_api.AnswerCallbackQuery, world: SandboxState) -> None:
    """Answer a callback query; only once."""
    query = _get_open_query(world, call.callback_query_id)
    if len(call.text or "") > 200:
        raise bad_request("MESSAGE_TOO_LONG")
    query.answer = {"text": call.text or "", "alert": bool(call.show_alert), "url": call.url}
    world.changed()


def answer_inline_query(call: bot_api.AnswerInlineQuery, world: SandboxState) -> None:
    """Answer an inline query with articles; only once, and within ten seconds."""
    query = _get_open_query(world, call.inline_query_id, _INLINE_SECONDS)
    if len(call.results) > _MAX_INLINE_RESULTS:
        raise bad_request("RESULTS_TOO_MUCH")
    results = list(map(_dump_article, call.results))
    if len({one["id"] for one in results}) < len(results) or any(len(one["id"].encode()) > 64 for one in results):
        raise bad_request("RESULT_ID_INVALID")
    query.answer = {"results": results, "personal": bool(call.is_personal), "cache_time": call.cache_time}
    query.answer["button"] = call.button.model_dump(exclude_none=True) if call.button else None
    world.changed()


def _dump_article(article: Any) -> Json:
    dumped: Json = article.model_dump(mode="json", exclude_none=True, exclude_unset=True)
    content = dumped["input_message_content"]
    content["text"], content["entities"] = prepare_text(content["message_text"], content.get("entities"))
    return dumped


def answer_guest_query(call: bot_api.AnswerGuestQuery, world: SandboxState) -> Json:
    """Answer a guest query with one message."""
    query = _get_open_query(world, call.guest_query_id)
    query.answer = _dump_article(call.result)["input_message_content"]
    world.changed()
    return {"inline_message_id": call.guest_query_id}


def get_file(call: bot_api.GetFile, world: SandboxState) -> Json:
    """Get the download path of a file."""
    upload = world.files.get(call.file_id)
    if upload is None:
        raise bad_request("wrong file_id or the file is temporarily unavailable")
    if world.local is None and len(upload.data) > _MAX_DOWNLOAD_BYTES:
        raise bad_request("file is too big")
    path = upload.path()
    if world.local:  # a server with --local writes the file to disk, and returns its absolute path
        file = world.local / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(upload.data)
        path = str(file)
    fields = upload.wire()
    return {name: fields[name] for name in ("file_id", "file_unique_id", "file_size")} | {"file_path": path}


CONTENT_FIELDS = ("text", "entities", "rich_message", "caption", "caption_entities", "photo", "document", "poll")
_DELETABLE_SECONDS = 48 * 3600  # https://core.telegram.org/bots/api#deletemessage
_NOT_MODIFIED_TEXT = (
    "message is not modified: specified new message content and reply markup are exactly the same as "
    "a current content and reply markup of the message"
)


def send_message(
    call: bot_api.SendMessage | bot_api.SendRichMessage | bot_api.SendDocument, world: SandboxState
) -> Json:
    """Send a text, a rich message, or a file, which is among the state's files already."""
    room, content = require_writable_chat(world, call.chat_id), Json()
    if isinstance(call, bot_api.SendRichMessage):
        content = {"rich_message": prepare_rich_message(call.rich_message)}
    elif isinstance(call, bot_api.SendDocument):
        given_entities = _dump_entities(call.caption_entities)
        caption, entities = prepare_text(call.caption, given_entities, messages.MAX_CAPTION_CHARACTERS, empty=True)
        upload = world.files[str(call.document)]  # of this very call
        content = {"document": upload.wire(), "caption": caption, "caption_entities": entities}
    else:
        text, entities = prepare_text(call.text, _dump_entities(call.entities))
        options = call.link_preview_options
        preview = options.model_dump(exclude_unset=True) if isinstance(options, LinkPreviewOptions) else None
        content = {"text": text, "entities": entities, "link_preview_options": preview}
    return _add_bot_message(world, room, call, content)


def copy_message(call: bot_api.CopyMessage, world: SandboxState) -> Json:
    """Copy the content of a message without its origin; returns the id of the copy."""
    room = require_writable_chat(world, call.chat_id)
    room_from = require_readable_chat(world, call.from_chat_id)
    source = room_from.require_message(call.message_id, "copy")
    if source.get("has_protected_content") or room_from.protected:
        raise bad_request("message has protected content and can't be forwarded")
    content = {name: source[name] for name in CONTENT_FIELDS if name in source}
    if not content:
        raise bad_request("message can't be copied")
    return {"message_id": _add_bot_message(world, room, call, content)["message_id"]}


def edit_message(
    call: bot_api.EditMessageText | bot_api.EditMessageReplyMarkup | bot_api.EditEphemeralMessageText
    | bot_api.EditEphemeralMessageReplyMarkup,
    world: SandboxState,
) -> Json | bool:  # fmt: skip
    """Edit a text or rich message, or its buttons alone; without `reply_markup` these are removed.

    400 if nothing would change. The buttons of an ordinary message change without an edit date.
    """
    ephemeral, new = hasattr(call, "ephemeral_message_id"), Json()
    room, key = (_find_ephemeral_message if ephemeral else _find_own_message)(world, call)
    message = room.messages[key]
    if isinstance(call, bot_api.EditMessageText | bot_api.EditEphemeralMessageText):
        if not (ephemeral or {"text", "rich_message"} & message.keys()):
            raise bad_request("there is no text in the message to edit")
        if call.rich_message is not None:
            new = {"text": None, "entities": None, "rich_message": prepare_rich_message(call.rich_message)}
        else:
            text, entities = prepare_text(call.text, _dump_entities(call.entities))
            new = {"text": text, "entities": entities, "rich_message": None}
    new["reply_markup"] = _build_inline_keyboard(call.reply_markup)
    if all((message.get(name) or None) == (value or None) for name, value in new.items()):
        raise bad_request(_NOT_MODIFIED_TEXT)
    if not isinstance(call, bot_api.EditMessageReplyMarkup):
        new["edit_date"] = int(world.clock())
    edited = world.change(room, key, **new)
    return ephemeral or edited


def delete_message(call: bot_api.DeleteMessage | bot_api.DeleteEphemeralMessage, world: SandboxState) -> None:
    """Delete a message for everybody, or an ephemeral one, whose id may then be used again."""
    if isinstance(call, bot_api.DeleteEphemeralMessage):
        world.remove(*_find_ephemeral_message(world, call))
        return
    room = require_readable_chat(world, call.chat_id)
    message = room.require_message(call.message_id, "delete")
    is_own = call.message_id in world.sent.get(room.id, ())
    may_delete_others = room.kind == "private" or room.member(world.bot.id).leads
    fresh = world.clock() - message["date"] < _DELETABLE_SECONDS
    if not (is_own or may_delete_others) or not (fresh or room.member(world.bot.id).leads):
        raise bad_request("message can't be deleted for everyone")
    world.remove(room, call.message_id)


_ACTION_RIGHT_SECONDS = 15.0  # to answer a press or an ephemeral message


def _add_ephemeral_message(world: SandboxState, room: SandboxChat, call: Any, content: Json) -> Json:
    """Send to one member of a group: as an administrator at any time, else in answer to what the member just did.

    Source: https://core.telegram.org/bots/api#ephemeral-messages-and-commands
    """
    given, wanted, now = call.ephemeral_message_parameters, call.reply_parameters, world.clock()
    receiver = world.people.get(given.receiver_user_id)
    if room.kind not in ("group", "supergroup"):
        raise bad_request("ephemeral messages can be sent only to groups and supergroups")
    if receiver is None or not room.member(receiver.id).inside:
        raise bad_request("receiver of the ephemeral message is not a member of the chat")
    pressed = world.queries.get(given.callback_query_id or "")
    if given.callback_query_id and (pressed is None or (pressed.user_id, pressed.chat_id) != (receiver.id, room.id)):
        raise bad_request("query is too old and response timeout expired or query ID is invalid")
    if given.replace_callback_query_message and (pressed is None or pressed.key < 0):
        raise bad_request("an ephemeral message can't replace another one")
    may, reply = room.member(world.bot.id).leads, Json()
    may |= pressed is not None and now - pressed.at <= _ACTION_RIGHT_SECONDS
    if wanted is not None and wanted.ephemeral_message_id is not None:
        number = {"ephemeral_message_id": wanted.ephemeral_message_id}
        asked = room.messages.get(get_message_key({"from": receiver.wire()} | number))
        if asked is None or "receiver_user" in asked or now - asked["date"] > _ACTION_RIGHT_SECONDS:
            raise bad_request("message to be replied not found")
        may = True
    elif wanted is not None:
        if wanted.chat_id is not None and world.room(wanted.chat_id).id != room.id:
            raise bad_request("an ephemeral message can't be a reply to a message in another chat")
        reply = _build_reply_fields(world, room, wanted.model_copy(update={"quote": None}))
    if not may:
        raise bad_request("not enough rights to send ephemeral messages")
    if call.reply_markup and any(button.login_url for row in call.reply_markup.inline_keyboard for button in row):
        raise bad_request("login_url buttons can't be used in ephemeral messages")
    fields = {"from": world.bot.wire(), "receiver_user": receiver.wire()} | content | reply
    fields |= build_thread_fields(room, call.message_thread_id, reply.get("reply_to_message"))
    message = world.add_ephemeral(room, receiver, fields | {"reply_markup": _build_inline_keyboard(call.reply_markup)})
    world.sent.setdefault(room.id, []).append(get_message_key(message))
    return message


def _find_ephemeral_message(world: SandboxState, call: Any) -> tuple[SandboxChat, int]:
    room, edits = require_readable_chat(world, call.chat_id), not isinstance(call, bot_api.DeleteEphemeralMessage)
    whose = {"receiver_user": {"id": call.receiver_user_id}, "ephemeral_message_id": call.ephemeral_message_id}
    message = room.messages.get(key := get_message_key(whose))
    if message is None or "receiver_user" not in message:
        raise bad_request(f"message to {'edit' if edits else 'delete'} not found")
    if edits and not room.member(world.bot.id).leads and world.clock() - message["date"] > world.edit_seconds:
        raise bad_request("message can't be edited")
    return room, key


def _find_own_message(world: SandboxState, call: Any) -> tuple[SandboxChat, int]:
    room = require_readable_chat(world, call.chat_id)
    room.require_message(call.message_id, "edit")
    if call.message_id not in world.sent.get(room.id, ()):
        raise bad_request("message can't be edited")
    return room, call.message_id


def _add_bot_message(world: SandboxState, room: SandboxChat, call: Any, content: Json) -> Json:
    if getattr(call, "ephemeral_message_parameters", None):
        return _add_ephemeral_message(world, room, call, content)
    reply = _build_reply_fields(world, room, call.reply_parameters)
    thread = build_thread_fields(room, call.message_thread_id, reply.get("reply_to_message"))
    sender = {"sender_chat": room.wire()} if room.kind == "channel" else {"from": world.bot.wire()}
    protected = {"has_protected_content": True} if call.protect_content is True or room.protected else {}
    markup = {"reply_markup": _build_inline_keyboard(call.reply_markup)}
    place = room.id, thread.get("message_thread_id") or 0
    world.drafts.pop(place, None)
    world.actions.pop(place, None)
    message = world.add(room, sender | content | reply | thread | markup | protected)
    room.bot_spoke = True
    world.sent.setdefault(room.id, []).append(message["message_id"])
    return message


HANDLERS: dict[type[bot_api.TelegramMethod[Any]], Callable[..., Any]] = {
    kind: handler
    for name, handler in list(globals().items())
    if isfunction(handler) and not name.startswith("_") and "call" in (hints := get_type_hints(handler))
    for kind in get_args(hints["call"]) or (hints["call"],)
}
