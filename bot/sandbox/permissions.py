"""Permissions: which messages the bot sees, where it may write, and changes of membership with their updates.

Privacy mode: https://core.telegram.org/bots/features#privacy-mode
"""

from __future__ import annotations

from bot.sandbox.chats import Json, Membership, SandboxChat
from bot.sandbox.entities import bad_request, extract_entity_text, forbidden
from bot.sandbox.state import SandboxState

# Fields of service messages, which have no content of their own.
SERVICE_FIELDS = {"new_chat_members", "left_chat_member", "pinned_message", "forum_topic_created", "new_chat_title"}


def require_readable_chat(world: SandboxState, chat: int | str | None) -> SandboxChat:
    """Get a chat that the bot is in, or a public one; 400 or 403 otherwise."""
    room = world.room(chat)
    if room.kind == "private":
        return room
    membership = room.member(world.bot.id)
    if membership.status == "kicked":
        raise forbidden(f"bot was kicked from the {room.kind} chat")
    if not membership.inside and room.username is None:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    return room


def require_writable_chat(world: SandboxState, chat: int | str | None) -> SandboxChat:
    """Get a chat that the bot may write to now; 400 or 403 otherwise."""
    room = require_readable_chat(world, chat)
    if room.kind != "private" and not room.member(world.bot.id).inside:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    if room.kind == "private":
        person = world.people[room.id]
        if person.blocked:
            raise forbidden("bot was blocked by the user")
        if not person.started:
            raise forbidden("bot can't initiate conversation with a user")
    elif room.kind == "channel" and not room.member(world.bot.id).leads:
        raise bad_request("need administrator rights in the channel chat")
    elif room.member(world.bot.id).status == "restricted":
        raise bad_request("not enough rights to send text messages to the chat")
    return room


def can_bot_see(world: SandboxState, room: SandboxChat, message: Json) -> bool:
    """Whether the bot gets an update about this message."""
    membership = room.member(world.bot.id)
    if room.kind == "private":
        return not world.people[room.id].blocked
    if room.kind == "channel":
        return membership.leads
    if not membership.inside:
        return False
    return membership.leads or world.reads_groups or _is_addressed_to_bot(world, room, message)


def _is_addressed_to_bot(world: SandboxState, room: SandboxChat, message: Json) -> bool:
    """Whether privacy mode lets a message through: service messages, commands, replies to the bot, mentions of it."""
    parent = message.get("reply_to_message") or {}
    if SERVICE_FIELDS & message.keys() or (parent.get("from") or {}).get("id") == world.bot.id:
        return True
    text = message.get("text") or message.get("caption") or ""
    mention = f"@{world.bot.username}".lower()
    for entity in message.get("entities") or message.get("caption_entities") or ():
        piece = extract_entity_text(text, entity["offset"], entity["length"]).lower()
        if entity["type"] == "mention" and piece == mention:
            return True
        bare = "@" not in piece and room.bot_spoke  # a bare command goes to the bot that wrote last
        if entity["type"] == "bot_command" and (bare or piece.endswith(mention)):
            return True
        if entity["type"] == "text_mention" and entity["user"]["id"] == world.bot.id:
            return True
    return False


def build_message_origin(message: Json) -> Json:
    """Build the Bot API `MessageOrigin` of a forward or quote of this message."""
    if origin := message.get("forward_origin"):
        return dict(origin)
    date, chat = message["date"], message["chat"]
    if chat["type"] == "channel":
        signed = {"author_signature": message["author_signature"]} if "author_signature" in message else {}
        return {"type": "channel", "date": date, "chat": chat, "message_id": message["message_id"]} | signed
    if "from" not in message:
        return {"type": "chat", "date": date, "sender_chat": message.get("sender_chat", chat)}
    return {"type": "user", "date": date, "sender_user": message["from"]}


_TOPIC_ICON_COLOUR = 7322096  # https://core.telegram.org/bots/api#createforumtopic


def set_chat_member(
    world: SandboxState, chat_id: int, user_id: int, status: str, *, by: int | None = None, is_member: bool = True
) -> None:
    """Set the status of a user or the bot in a chat; `by` is the actor, by default the user.

    The bot always gets updates about itself, and about others only as an administrator.
    """
    room, new = world.room(chat_id), Membership(status, is_member)
    old, bot = room.member(user_id), world.bot
    is_reported = room.member(bot.id).leads or new.leads
    room.members[user_id] = new
    person = bot if user_id == bot.id else world.people[user_id]
    actor = world.people.get(by) if by else None
    change: Json = {
        "chat": room.wire(),
        "from": (actor or person).wire(),
        "date": int(world.clock()),
        "old_chat_member": old.wire(person, room.kind),
        "new_chat_member": new.wire(person, room.kind),
    }
    if user_id == bot.id:
        world.queue.push("my_chat_member", change)
    elif is_reported:
        world.queue.push("chat_member", change)
    if room.kind != "channel" and old.inside != new.inside:
        _announce_membership(world, chat_id, (actor or person).wire(), person.wire(), joined=new.inside)
    world.changed()


def _announce_membership(world: SandboxState, chat_id: int, actor: Json, person: Json, *, joined: bool) -> None:
    """Add the service message of a group, and queue its update."""
    room = world.room(chat_id)
    service_fields: Json = {"new_chat_members": [person]} if joined else {"left_chat_member": person}
    message = world.add(room, {"from": actor} | service_fields)
    if room.member(world.bot.id).inside:
        world.queue.push("message", message)


def rename_chat(
    world: SandboxState, chat_id: int, title: str, *, username: str | None = None, by: int | None = None
) -> None:
    """Set the title, with a service message if it changes, and the username, without one."""
    room = world.room(chat_id)
    renamed, room.title, room.username = title != room.title, title, username
    world.changed()
    if not renamed:
        return
    sender = {"sender_chat": room.wire()} if room.kind == "channel" else {"from": world.people[by or 0].wire()}
    message = world.add(room, sender | {"new_chat_title": title})
    if can_bot_see(world, room, message):
        world.queue.push("channel_post" if room.kind == "channel" else "message", message)


def set_bot_blocked(world: SandboxState, user_id: int, *, blocked: bool = True) -> None:
    """Let a user block or unblock the bot."""
    person, bot = world.people[user_id], world.bot
    person.blocked = blocked
    before, after = ("member", "kicked") if blocked else ("kicked", "member")
    change: Json = {
        "chat": world.room(user_id).wire(),
        "from": person.wire(),
        "date": int(world.clock()),
        "old_chat_member": Membership(before).wire(bot, "private"),
        "new_chat_member": Membership(after).wire(bot, "private"),
    }
    world.queue.push("my_chat_member", change)


def create_topic(world: SandboxState, chat_id: int, user_id: int, name: str) -> int:
    """Open a topic in a forum; returns its thread id."""
    room = world.room(chat_id)
    created = {"name": name, "icon_color": _TOPIC_ICON_COLOUR}
    thread = room.last_id + 1
    room.topics[thread] = name
    fields = {"from": world.people[user_id].wire(), "forum_topic_created": created}
    message = world.add(room, fields | {"message_thread_id": thread, "is_topic_message": True})
    if room.member(world.bot.id).inside:
        world.queue.push("message", message)
    return thread
