"""What the bot may see and where it may write.

Privacy mode: https://core.telegram.org/bots/features#privacy-mode
"""

from __future__ import annotations

from bot.sandbox.checks import spot
from bot.sandbox.refused import bad, forbidden
from bot.sandbox.rooms import Json, Room
from bot.sandbox.world import World

__all__ = ["SERVICE", "hears", "origin_of", "readable", "writable"]

# A message without content of its own.
SERVICE = {"new_chat_members", "left_chat_member", "pinned_message", "forum_topic_created", "new_chat_title"}


def readable(world: World, chat: int | str | None) -> Room:
    """A chat the bot is in, or a public one; 400 or 403 otherwise."""
    room = world.room(chat)
    if room.kind == "private":
        return room
    mine = room.member(world.bot.id)
    if mine.status == "kicked":
        raise forbidden(f"bot was kicked from the {room.kind} chat")
    if not mine.inside and room.username is None:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    return room


def writable(world: World, chat: int | str | None) -> Room:
    """A chat the bot may write to now; 400 or 403 otherwise."""
    room = readable(world, chat)
    if room.kind != "private" and not room.member(world.bot.id).inside:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    if room.kind == "private":
        person = world.people[room.id]
        if person.blocked:
            raise forbidden("bot was blocked by the user")
        if not person.started:
            raise forbidden("bot can't initiate conversation with a user")
    elif room.kind == "channel" and not room.member(world.bot.id).leads:
        raise bad("need administrator rights in the channel chat")
    elif room.member(world.bot.id).status == "restricted":
        raise bad("not enough rights to send text messages to the chat")
    return room


def hears(world: World, room: Room, message: Json) -> bool:
    """Whether an update about this message reaches the bot."""
    mine = room.member(world.bot.id)
    if room.kind == "private":
        return not world.people[room.id].blocked
    if room.kind == "channel":
        return mine.leads
    if not mine.inside:
        return False
    return mine.leads or world.reads_groups or _addressed(world, room, message)


def _addressed(world: World, room: Room, message: Json) -> bool:
    """Privacy mode: service messages, commands, replies to the bot, mentions of it."""
    parent = message.get("reply_to_message") or {}
    if SERVICE & message.keys() or (parent.get("from") or {}).get("id") == world.bot.id:
        return True
    text = message.get("text") or message.get("caption") or ""
    mine = f"@{world.bot.username}".lower()
    for entity in message.get("entities") or message.get("caption_entities") or ():
        piece = spot(text, entity["offset"], entity["length"]).lower()
        if entity["type"] == "mention" and piece == mine:
            return True
        bare = "@" not in piece and room.bot_spoke  # goes to the bot that spoke last
        if entity["type"] == "bot_command" and (bare or piece.endswith(mine)):
            return True
        if entity["type"] == "text_mention" and entity["user"]["id"] == world.bot.id:
            return True
    return False


def origin_of(message: Json) -> Json:
    """Where a forward or a quote of this message says that it comes from: a Bot API `MessageOrigin`."""
    if known := message.get("forward_origin"):
        return dict(known)
    date, chat = message["date"], message["chat"]
    if chat["type"] == "channel":
        signed = {"author_signature": message["author_signature"]} if "author_signature" in message else {}
        return {"type": "channel", "date": date, "chat": chat, "message_id": message["message_id"]} | signed
    if "from" not in message:
        return {"type": "chat", "date": date, "sender_chat": message.get("sender_chat", chat)}
    return {"type": "user", "date": date, "sender_user": message["from"]}
