"""User actions: people write, post, edit, forward, and press buttons; the bot gets the updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from secrets import randbelow, token_urlsafe

from bot.sandbox.api_errors import bad_request, forbidden
from bot.sandbox.chat_rights import can_bot_see
from bot.sandbox.chats import Json, SandboxChat, remove_nested_reply
from bot.sandbox.message_text_and_entities import prepare_text
from bot.sandbox.messages_of_posts import build_photo
from bot.sandbox.methods import CONTENT_FIELDS, build_thread_fields
from bot.sandbox.state import PressedButton, SandboxState, build_message_origin

_CHANNEL_SERVICE_USER = {"id": 777000, "is_bot": False, "first_name": "Telegram"}


@dataclass(frozen=True, slots=True)
class UserMessage:
    """A message to write. `origin`: a raw MessageOrigin, a hidden name, or (chat id, message id).

    `album` makes it a photo of that media group with the text as its caption; `extra` are raw Bot API fields that
    override. Entities are detected in `text`.
    """

    text: str = ""
    reply_to: int | None = None
    thread: int | None = None
    origin: Mapping[str, object] | str | tuple[int, int] | None = None
    album: str | None = None
    extra: Mapping[str, object] | None = None


def send_as_person(world: SandboxState, user_id: int, chat_id: int, deed: UserMessage) -> Json:
    """Write as a person in a private chat or a group."""
    room, person = world.room(chat_id), world.people[user_id]
    if room.kind != "private" and not room.member(user_id).inside:
        raise forbidden("this person is not a member of the chat")
    if room.kind == "private":
        person.started, person.blocked = True, False
    message = world.add(room, {"from": person.wire()} | _build_message_fields(world, room, deed))
    _push_update(world, room, "message", message)
    return message


def post_as_channel(world: SandboxState, chat_id: int, deed: UserMessage) -> Json:
    """Write as a channel; its discussion group, if any, gets Telegram's automatic copy."""
    room = world.room(chat_id)
    if room.kind != "channel":
        raise bad_request("this is not a channel")
    head = {"sender_chat": room.wire()} | ({"has_protected_content": True} if room.protected else {})
    message = world.add(room, head | _build_message_fields(world, room, deed))
    _push_update(world, room, "channel_post", message)
    if room.linked is not None:
        group = world.room(room.linked)
        head = {"from": _CHANNEL_SERVICE_USER, "sender_chat": room.wire(), "is_automatic_forward": True}
        body = {name: message[name] for name in CONTENT_FIELDS if name in message}
        _push_update(
            world, group, "message", world.add(group, head | body | {"forward_origin": build_message_origin(message)})
        )
    return message


def edit_as_author(world: SandboxState, chat_id: int, message_id: int, text: str) -> Json:
    """Edit a text or caption as a person or channel; without a change there is no update."""
    room = world.room(chat_id)
    old = room.messages.get(message_id)
    if old is None:
        raise bad_request("message to edit not found")
    field = "text" if "text" in old else "caption"
    marks = "entities" if field == "text" else "caption_entities"
    clean, entities = prepare_text(text, empty=field == "caption")
    if clean == old.get(field, ""):
        return old
    fields: Json = {field: clean, marks: entities, "edit_date": int(world.clock())}
    message = world.change(room, message_id, **fields)
    _push_update(world, room, "edited_channel_post" if room.kind == "channel" else "edited_message", message)
    return message


def delete_as_author(world: SandboxState, chat_id: int, message_id: int) -> None:
    """Delete a message for everybody as a person or channel. Telegram sends bots no update about it."""
    room = world.room(chat_id)
    if message_id not in room.messages:
        raise bad_request("message to delete not found")
    world.remove(room, message_id)


def press_button(world: SandboxState, user_id: int, chat_id: int, message_id: int, data: str) -> str:
    """Press an inline button; returns the id of the query. Replayed and invented data are possible, as in Telegram."""
    room = world.room(chat_id)
    message = room.messages.get(message_id)
    missing = {"chat": room.wire(), "message_id": message_id, "date": 0}
    query_id = str(randbelow(10**18))
    world.queries[query_id] = PressedButton(user_id, room.id)
    query = {"id": query_id, "from": world.people[user_id].wire(), "chat_instance": str(abs(room.id) * 31)}
    world.queue.push("callback_query", query | {"message": message or missing, "data": data})
    world.changed()
    return query_id


def type_inline_query(world: SandboxState, user_id: int, text: str) -> str:
    """Type "@bot text" in some chat; returns the id of the query."""
    query_id = str(randbelow(10**18))
    world.queries[query_id] = PressedButton(user_id, user_id, world.clock())
    query = {"id": query_id, "from": world.people[user_id].wire(), "query": text, "offset": ""}
    world.queue.push("inline_query", query)
    return query_id


def send_inline_result(world: SandboxState, user_id: int, chat_id: int, query_id: str, result_id: str) -> Json:
    """Send an article that answered an inline query into a chat, as the person who typed the query."""
    query, room = world.queries.get(query_id), world.room(chat_id)
    articles = query.answer.get("results", ()) if query and query.user_id == user_id and query.answer else ()
    content = next((one["input_message_content"] for one in articles if one["id"] == result_id), None)
    if content is None:
        raise bad_request("RESULT_ID_INVALID")
    body = {name: content[name] for name in ("text", "entities")} | {"via_bot": world.bot.wire()}
    if room.kind == "channel":
        return post_as_channel(world, chat_id, UserMessage(extra=body))
    return send_as_person(world, user_id, chat_id, UserMessage(extra=body))


def stop_draft_as_person(world: SandboxState, chat_id: int, draft_id: int) -> None:
    """Press the stop button of a draft that has one."""
    for (chat, thread), draft in list(world.drafts.items()):
        if chat == chat_id and draft.draft_id == draft_id and draft.can_stop:
            del world.drafts[chat, thread]
            payload = {"chat": world.room(chat_id).wire(), "draft_id": draft_id}
            topic = {"message_thread_id": thread} if thread else {}
            world.queue.push("stopped_message_generation", payload | topic)
            world.changed()


def _build_message_fields(world: SandboxState, room: SandboxChat, written: UserMessage) -> Json:
    extra = dict(written.extra or {})
    fields: Json = _build_forward_fields(world, written) if written.origin else {}
    if written.text or not (fields.keys() | extra.keys()) & set(CONTENT_FIELDS):
        text, entities = prepare_text(written.text, empty=written.album is not None)
        names = ("caption", "caption_entities") if written.album else ("text", "entities")
        fields |= dict(zip(names, (text, entities), strict=True))
    if written.album:
        fields |= {"photo": build_photo(token_urlsafe(6)), "media_group_id": written.album}
    parent = room.messages.get(written.reply_to or 0)
    if written.reply_to and parent is None:
        raise bad_request("message to be replied not found")
    fields |= {"reply_to_message": remove_nested_reply(parent)} if parent else {}
    return fields | build_thread_fields(room, written.thread, parent) | extra


def _build_forward_fields(world: SandboxState, written: UserMessage) -> Json:
    if isinstance(written.origin, tuple):
        source = world.room(written.origin[0]).messages.get(written.origin[1])
        if source is None:
            raise bad_request("message to forward not found")
        body = {name: source[name] for name in CONTENT_FIELDS if name in source} if not written.text else {}
        return body | {"forward_origin": build_message_origin(source)}
    if isinstance(written.origin, str):
        name = {"type": "hidden_user", "sender_user_name": written.origin}
        return {"forward_origin": name | {"date": int(world.clock())}}
    return {"forward_origin": dict(written.origin or {})}


def _push_update(world: SandboxState, room: SandboxChat, kind: str, message: Json) -> None:
    if can_bot_see(world, room, message):
        world.queue.push(kind, message)
