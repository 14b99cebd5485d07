"""Changes of chats that only tests make in the sandbox: titles, blocked bots, topics."""

from bot.sandbox.state import Membership, can_bot_see

_TOPIC_ICON_COLOUR = 7322096  # https://core.telegram.org/bots/api#createforumtopic


def rename_chat(world, chat_id, title, *, username=None, by=None):
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


def set_bot_blocked(world, user_id):
    person, bot = world.people[user_id], world.bot
    person.blocked = True
    change = {
        "chat": world.room(user_id).wire(),
        "from": person.wire(),
        "date": int(world.clock()),
        "old_chat_member": Membership("member").wire(bot, "private"),
        "new_chat_member": Membership("kicked").wire(bot, "private"),
    }
    world.queue.push("my_chat_member", change)


def create_topic(world, chat_id, user_id, name):
    room = world.room(chat_id)
    created = {"name": name, "icon_color": _TOPIC_ICON_COLOUR}
    thread = room.last_id + 1
    room.topics[thread] = name
    fields = {"from": world.people[user_id].wire(), "forum_topic_created": created}
    message = world.add(room, fields | {"message_thread_id": thread, "is_topic_message": True})
    if room.member(world.bot.id).inside:
        world.queue.push("message", message)
    return thread
