"""Methods about messages: send, edit, delete, forward, copy, pin, documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiogram.methods import (
    CopyMessage,
    DeleteMessage,
    DeleteMessages,
    EditMessageReplyMarkup,
    EditMessageText,
    ForwardMessage,
    PinChatMessage,
    SendDocument,
    SendMessage,
    UnpinChatMessage,
)
from aiogram.types import LinkPreviewOptions

from bot.sandbox.checks import CAPTION, formatted
from bot.sandbox.reach import origin_of, readable, writable
from bot.sandbox.refused import bad
from bot.sandbox.replies import keyboard, marks, named, reply_fields, thread_fields
from bot.sandbox.rooms import Json, Room
from bot.sandbox.world import World

__all__ = ["HANDLERS"]

_CONTENT = ("text", "entities", "caption", "caption_entities", "photo", "document", "poll")
_DELETABLE = 48 * 3600  # seconds, https://core.telegram.org/bots/api#deletemessage
_SAME = (
    "message is not modified: specified new message content and reply markup are exactly the same as "
    "a current content and reply markup of the message"
)


def send_message(call: SendMessage, world: World) -> Json:
    """A text message."""
    room = writable(world, call.chat_id)
    text, entities = formatted(call.text, marks(call.entities), named(call.parse_mode))
    preview = _preview(call.link_preview_options)
    return _deliver(world, room, call, {"text": text, "entities": entities, "link_preview_options": preview})


def send_document(call: SendDocument, world: World) -> Json:
    """A file; the decoder has already put uploaded ones among the world's files."""
    room = writable(world, call.chat_id)
    upload = world.files.get(str(call.document))
    if upload is None:
        raise bad("wrong remote file identifier specified: can't unserialize it. Wrong last symbol")
    given = marks(call.caption_entities)
    caption, entities = formatted(call.caption, given, named(call.parse_mode), CAPTION, empty=True)
    content = {"document": upload.wire(), "caption": caption, "caption_entities": entities}
    return _deliver(world, room, call, content)


def forward_message(call: ForwardMessage, world: World) -> Json:
    """The same message with its origin."""
    room = writable(world, call.chat_id)
    source = _source(world, call.from_chat_id, call.message_id, "forward")
    return _deliver(world, room, call, _content(source) | {"forward_origin": origin_of(source)})


def copy_message(call: CopyMessage, world: World) -> Json:
    """The same content without its origin; the id of the copy."""
    room = writable(world, call.chat_id)
    source = _source(world, call.from_chat_id, call.message_id, "copy")
    content = _content(source)
    if call.caption is not None and "text" not in content:
        given = marks(call.caption_entities)
        caption, entities = formatted(call.caption, given, named(call.parse_mode), CAPTION, empty=True)
        content |= {"caption": caption, "caption_entities": entities}
    return {"message_id": _deliver(world, room, call, content)["message_id"]}


def edit_message_text(call: EditMessageText, world: World) -> Json:
    """Another text; without `reply_markup` the buttons go away. 400 where nothing would change."""
    room, message = _own(world, call.chat_id, call.message_id)
    if "text" not in message:
        raise bad("there is no text in the message to edit")
    text, entities = formatted(call.text, marks(call.entities), named(call.parse_mode))
    markup = keyboard(call.reply_markup)
    now = message["text"], message.get("entities", []), message.get("reply_markup")
    if (text, entities, markup) == now:
        raise bad(_SAME)
    edit: Json = {"text": text, "entities": entities, "reply_markup": markup, "edit_date": int(world.clock())}
    return world.change(room, message["message_id"], **edit)


def edit_reply_markup(call: EditMessageReplyMarkup, world: World) -> Json:
    """Other buttons, or none. Not shown as an edit."""
    room, message = _own(world, call.chat_id, call.message_id)
    markup = keyboard(call.reply_markup)
    if markup == message.get("reply_markup"):
        raise bad(_SAME)
    return world.change(room, message["message_id"], reply_markup=markup)


def delete_message(call: DeleteMessage, world: World) -> bool:
    """Gone for everybody."""
    room = readable(world, call.chat_id)
    message = room.messages.get(call.message_id)
    if message is None:
        raise bad("message to delete not found")
    mine = call.message_id in world.sent.get(room.id, ())
    theirs = room.kind == "private" or room.member(world.bot.id).leads
    fresh = world.clock() - message["date"] < _DELETABLE
    if not (mine or theirs) or not (fresh or room.member(world.bot.id).leads):
        raise bad("message can't be deleted for everyone")
    world.remove(room, call.message_id)
    return True


def delete_messages(call: DeleteMessages, world: World) -> bool:
    """Several at once; those that are not there are skipped."""
    room = readable(world, call.chat_id)
    for message_id in call.message_ids:
        if message_id in room.messages:
            delete_message(DeleteMessage(chat_id=room.id, message_id=message_id), world)
    return True


def pin(call: PinChatMessage, world: World) -> bool:
    """Pin a message."""
    room = writable(world, call.chat_id)
    if call.message_id not in room.messages:
        raise bad("message to pin not found")
    room.pinned = call.message_id
    world.changed()
    return True


def unpin(call: UnpinChatMessage, world: World) -> bool:
    """Unpin the pinned message."""
    room = writable(world, call.chat_id)
    if room.pinned is None or (call.message_id and call.message_id != room.pinned):
        raise bad("message to unpin not found")
    room.pinned = None
    world.changed()
    return True


def _deliver(world: World, room: Room, call: Any, content: Json) -> Json:
    """Put a message of the bot where it belongs."""
    old_style = getattr(call, "reply_to_message_id", None)
    reply = reply_fields(world, room, getattr(call, "reply_parameters", None), old_style)
    thread = thread_fields(room, call.message_thread_id, reply.get("reply_to_message"))
    sender = {"sender_chat": room.wire()} if room.kind == "channel" else {"from": world.bot.wire()}
    protected = {"has_protected_content": True} if call.protect_content is True or room.protected else {}
    markup = {"reply_markup": keyboard(getattr(call, "reply_markup", None))}
    world.settle(room, thread.get("message_thread_id"))
    message = world.add(room, sender | content | reply | thread | markup | protected)
    room.bot_spoke = True
    world.sent.setdefault(room.id, []).append(message["message_id"])
    return message


def _preview(options: object) -> Json | None:
    return options.model_dump(exclude_unset=True) if isinstance(options, LinkPreviewOptions) else None


def _own(world: World, chat: int | str | None, message_id: int | None) -> tuple[Room, Json]:
    """A message of the bot that it may edit."""
    room = readable(world, chat)
    if not message_id:
        raise bad("message identifier is not specified")
    if message_id not in room.messages:
        raise bad("message to edit not found")
    if message_id not in world.sent.get(room.id, ()):
        raise bad("message can't be edited")
    return room, room.messages[message_id]


def _source(world: World, chat: int | str, message_id: int, verb: str) -> Json:
    room = readable(world, chat)
    message = room.messages.get(message_id)
    if message is None:
        raise bad(f"message to {verb} not found")
    if message.get("has_protected_content") or room.protected:
        raise bad("message has protected content and can't be forwarded")
    if not _content(message):
        raise bad(f"message can't be {'forwarded' if verb == 'forward' else 'copied'}")
    return message


def _content(message: Json) -> Json:
    return {name: message[name] for name in _CONTENT if name in message}


HANDLERS: dict[Any, Callable[..., Any]] = {
    CopyMessage: copy_message,
    DeleteMessage: delete_message,
    DeleteMessages: delete_messages,
    EditMessageReplyMarkup: edit_reply_markup,
    EditMessageText: edit_message_text,
    ForwardMessage: forward_message,
    PinChatMessage: pin,
    SendDocument: send_document,
    SendMessage: send_message,
    UnpinChatMessage: unpin,
}
