"""Rights in the chats of the sandbox: what the bot may read and write, what it sees (privacy mode), and memberships."""

from __future__ import annotations

from bot.sandbox.api_errors import bad_request, forbidden
from bot.sandbox.chats import Json, Membership, SandboxChat
from bot.sandbox.message_text_and_entities import extract_entity_text
from bot.sandbox.state import SERVICE_FIELDS, SandboxState


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
    if room.kind == "private":
        person = world.people[room.id]
        if person.blocked:
            raise forbidden("bot was blocked by the user")
        if not person.started:
            raise forbidden("bot can't initiate conversation with a user")
        return room
    membership = room.member(world.bot.id)
    if not membership.inside:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    if room.kind == "channel" and not membership.leads:
        raise bad_request("need administrator rights in the channel chat")
    if membership.status == "restricted":
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
    """Whether privacy mode lets a message through: service messages, commands, replies to the bot, mentions of it,
    and what is sent via the bot.
    """
    parent = message.get("reply_to_message") or {}
    if SERVICE_FIELDS & message.keys() or "via_bot" in message:
        return True
    if (parent.get("from") or {}).get("id") == world.bot.id:
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
    if room.kind != "channel" and old.inside != new.inside:  # a service message of the group
        fields: Json = {"new_chat_members": [person.wire()]} if new.inside else {"left_chat_member": person.wire()}
        message = world.add(room, {"from": change["from"]} | fields)
        if room.member(bot.id).inside:
            world.queue.push("message", message)
    world.changed()
