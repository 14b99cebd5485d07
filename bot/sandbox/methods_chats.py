"""Methods about chats and what happens in them besides messages: drafts, reactions, buttons ..."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiogram.enums import ChatAction
from aiogram.methods import (
    AnswerCallbackQuery,
    GetChat,
    GetChatAdministrators,
    GetChatMember,
    GetChatMemberCount,
    GetFile,
    LeaveChat,
    SendChatAction,
    SendMessageDraft,
    SetMessageReaction,
)

from bot.sandbox.checks import formatted
from bot.sandbox.membership import set_member
from bot.sandbox.reach import readable, writable
from bot.sandbox.refused import bad, forbidden
from bot.sandbox.replies import marks, named, thread_fields
from bot.sandbox.rooms import Json
from bot.sandbox.world import Draft, Upload, World

__all__ = ["HANDLERS", "REACTIONS"]

_DRAFT_LASTS = 30.0  # seconds, https://core.telegram.org/bots/api#sendmessagedraft
_DOWNLOAD = 20 * 2**20  # bytes, https://core.telegram.org/bots/api#getfile
_ACTIONS = frozenset(action.value for action in ChatAction)
# https://core.telegram.org/bots/api#reactiontypeemoji
_EMOJIS = (
    "❤ 👍 👎 🔥 🥰 👏 😁 🤔 🤯 😱 🤬 😢 🎉 🤩 🤮 💩 🙏 👌 🕊 🤡 🥱 🥴 😍 🐳 ❤‍🔥 "
    "🌚 🌭 💯 🤣 ⚡ 🍌 🏆 💔 🤨 😐 🍓 🍾 💋 🖕 😈 😴 😭 🤓 👻 👨‍💻 👀 🎃 🙈 😇 😨 "
    "🤝 ✍ 🤗 🫡 🎅 🎄 ☃ 💅 🤪 🗿 🆒 💘 🙉 🦄 😘 💊 🙊 😎 👾 🤷‍♂ 🤷 🤷‍♀ 😡 "
)
REACTIONS = frozenset(_EMOJIS.split())


def get_chat(call: GetChat, world: World) -> Json:
    """Everything about a chat the bot is in."""
    return readable(world, call.chat_id).full()


def get_chat_member(call: GetChatMember, world: World) -> Json:
    """What somebody is in a chat; in channels only for an administrator."""
    room = readable(world, call.chat_id)
    if room.kind == "private":
        raise bad("there are no members in the private chat")
    if room.kind == "channel" and call.user_id != world.bot.id and not room.member(world.bot.id).leads:
        raise bad("member list is inaccessible")
    person = world.bot if call.user_id == world.bot.id else world.people.get(call.user_id)
    if person is None:
        raise bad("user not found")
    return room.member(call.user_id).wire(person, room.kind)


def get_administrators(call: GetChatAdministrators, world: World) -> list[Json]:
    """The owner and the administrators."""
    room = readable(world, call.chat_id)
    if room.kind == "private":
        raise bad("there are no administrators in the private chat")
    everybody = world.people | {world.bot.id: world.bot}
    leaders = [(user_id, member) for user_id, member in room.members.items() if member.leads]
    return [member.wire(everybody[user_id], room.kind) for user_id, member in leaders]


def get_member_count(call: GetChatMemberCount, world: World) -> int:
    """How many are in the chat."""
    room = readable(world, call.chat_id)
    return 2 if room.kind == "private" else sum(member.inside for member in room.members.values())


def leave(call: LeaveChat, world: World) -> bool:
    """The bot goes, and is told so like of everything that happens to it."""
    room = readable(world, call.chat_id)
    if room.kind == "private":
        raise bad("chat member status can't be changed in private chats")
    if not room.member(world.bot.id).inside:
        raise forbidden(f"bot is not a member of the {room.kind} chat")
    set_member(world, room.id, world.bot.id, "left")
    return True


def send_action(call: SendChatAction, world: World) -> bool:
    """ "Typing" and the like."""
    room = writable(world, call.chat_id)
    if call.action not in _ACTIONS:
        raise bad("wrong parameter action in request")
    thread_fields(room, call.message_thread_id)
    world.act(room, call.message_thread_id, call.action)
    return True


def send_draft(call: SendMessageDraft, world: World) -> bool:
    """A message that is still being written; one a chat and topic, for half a minute."""
    room = writable(world, call.chat_id)
    if room.kind != "private":
        raise bad("message drafts are available only in private chats")
    if not call.draft_id:
        raise bad("draft_id must be non-zero")
    thread_fields(room, call.message_thread_id)
    text, entities = formatted(call.text, marks(call.entities), named(call.parse_mode), empty=True)
    ends = world.clock() + _DRAFT_LASTS
    draft = Draft(call.draft_id, text, entities, bool(call.can_stop), bool(call.keep_on_stop), ends)
    world.drafts[room.id, call.message_thread_id or 0] = draft
    world.changed()
    return True


def set_reaction(call: SetMessageReaction, world: World) -> bool:
    """At most one emoji a message for a bot; none takes it away."""
    room = readable(world, call.chat_id)
    if call.message_id not in room.messages:
        raise bad("message to react not found")
    emojis = [getattr(reaction, "emoji", "") for reaction in call.reaction or ()]
    if len(emojis) > 1:
        raise bad("REACTIONS_TOO_MANY")
    if any(emoji not in REACTIONS for emoji in emojis):
        raise bad("REACTION_INVALID")
    world.reactions.setdefault((room.id, call.message_id), {})[world.bot.id] = emojis
    world.touch(room, call.message_id)
    return True


def answer_callback(call: AnswerCallbackQuery, world: World) -> bool:
    """The end of a button's spinning; once a query."""
    query = world.queries.get(call.callback_query_id)
    if query is None or query.answer is not None:
        raise bad("query is too old and response timeout expired or query ID is invalid")
    if len(call.text or "") > 200:
        raise bad("MESSAGE_TOO_LONG")
    query.answer = {"text": call.text or "", "alert": bool(call.show_alert), "url": call.url}
    world.changed()
    return True


def get_file(call: GetFile, world: World) -> Json:
    """Where a file can be fetched."""
    upload = world.files.get(call.file_id)
    if upload is None:
        raise bad("wrong file_id or the file is temporarily unavailable")
    if world.local is None and len(upload.data) > _DOWNLOAD:
        raise bad("file is too big")
    known = upload.wire()
    kept = {name: known[name] for name in ("file_id", "file_unique_id", "file_size")}
    return kept | {"file_path": _on_disk(upload, world.local) if world.local else upload.path()}


def _on_disk(upload: Upload, folder: Path) -> str:
    """The absolute path that a server with --local gives instead."""
    file = folder / upload.path()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(upload.data)
    return str(file)


HANDLERS: dict[Any, Callable[..., Any]] = {
    AnswerCallbackQuery: answer_callback,
    GetChat: get_chat,
    GetChatAdministrators: get_administrators,
    GetChatMember: get_chat_member,
    GetChatMemberCount: get_member_count,
    GetFile: get_file,
    LeaveChat: leave,
    SendChatAction: send_action,
    SendMessageDraft: send_draft,
    SetMessageReaction: set_reaction,
}
