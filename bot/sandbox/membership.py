"""Coming and going: who is what in which chat, and the updates that tell the bot."""

from __future__ import annotations

from bot.sandbox.reach import hears
from bot.sandbox.rooms import Json, Membership
from bot.sandbox.world import World

__all__ = ["block", "make_topic", "rename", "set_member"]

_BLUE = 7322096  # a topic icon colour, https://core.telegram.org/bots/api#createforumtopic


def set_member(
    world: World, chat_id: int, user_id: int, status: str, *, by: int | None = None, is_member: bool = True
) -> None:
    """Somebody (or the bot) becomes something in a chat; `by` did it, or they themselves.

    The bot hears about itself always, about others only as an administrator.
    """
    room, new = world.room(chat_id), Membership(status, is_member)
    old, bot = room.member(user_id), world.bot
    told = room.member(bot.id).leads or new.leads
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
    elif told:
        world.queue.push("chat_member", change)
    if room.kind != "channel" and old.inside != new.inside:
        _announce(world, chat_id, (actor or person).wire(), person.wire(), joined=new.inside)
    world.changed()


def _announce(world: World, chat_id: int, actor: Json, person: Json, *, joined: bool) -> None:
    """The service message of a group."""
    room = world.room(chat_id)
    what: Json = {"new_chat_members": [person]} if joined else {"left_chat_member": person}
    message = world.add(room, {"from": actor} | what)
    if room.member(world.bot.id).inside:
        world.queue.push("message", message)


def rename(world: World, chat_id: int, title: str, *, username: str | None = None, by: int | None = None) -> None:
    """A chat gets another title, of which a service message tells, and another username, of which none does."""
    room = world.room(chat_id)
    renamed, room.title, room.username = title != room.title, title, username
    world.changed()
    if not renamed:
        return
    sender = {"sender_chat": room.wire()} if room.kind == "channel" else {"from": world.people[by or 0].wire()}
    message = world.add(room, sender | {"new_chat_title": title})
    if hears(world, room, message):
        world.queue.push("channel_post" if room.kind == "channel" else "message", message)


def block(world: World, user_id: int, *, blocked: bool = True) -> None:
    """A user blocks the bot, or lets it in again."""
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


def make_topic(world: World, chat_id: int, user_id: int, name: str) -> int:
    """Open a topic in a forum; its thread id."""
    room = world.room(chat_id)
    created = {"name": name, "icon_color": _BLUE}
    thread = room.last_id + 1
    room.topics[thread] = name
    fields = {"from": world.people[user_id].wire(), "forum_topic_created": created}
    message = world.add(room, fields | {"message_thread_id": thread, "is_topic_message": True})
    if room.member(world.bot.id).inside:
        world.queue.push("message", message)
    return thread
