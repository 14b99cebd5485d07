"""Web page API: /sandbox/* with JSON in both directions; the page itself is served from here, too."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from math import inf
from pathlib import Path

from aiohttp import web

from bot.sandbox import user_actions
from bot.sandbox.answer_sources_and_index_state import DemoObserver
from bot.sandbox.api_errors import BotApiError, bad_request, forbidden
from bot.sandbox.chats import Json, SandboxChat
from bot.sandbox.state import SandboxState
from bot.sandbox.user_actions import UserMessage

_PAGE_FOLDER = Path(__file__).parent / "page"
_MAX_NEWS_WAIT_SECONDS = 25.0  # long polling of the page
_MAX_ANSWER_WAIT_SECONDS = 15.0  # a pressed button or an inline query waits for the bot's answer
_CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_PAGE_HEADERS = {
    "Content-Security-Policy": _CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def add_page_routes(app: web.Application, world: SandboxState, observed: DemoObserver) -> None:
    """Add the page and its API to the server."""

    async def state(request: web.Request) -> web.Response:
        since, user_id = int(request.query.get("since", 0)), int(request.query.get("user", 0))
        await world.bell.until(lambda: world.n != since or world.queue.closed, _MAX_NEWS_WAIT_SECONDS)
        news = build_snapshot(world, since, user_id)
        visible = {chat["id"] for chat in news["chats"]}
        return web.json_response(news | observed.build_page_state(since, visible))

    async def messages(request: web.Request) -> web.Response:
        chat_id = int(request.query["chat"])
        user_id = int(request.query.get("user", 0))
        room = world.room(chat_id)
        if not _is_visible(world, room, user_id):
            raise web.HTTPForbidden
        return web.json_response({"messages": [_build_message(world, room, i) for i in room.messages]})

    async def act(request: web.Request) -> web.Response:
        handler = _ACTION_HANDLERS.get(request.match_info["deed"])
        if handler is None or request.content_type != "application/json":
            raise web.HTTPNotFound
        try:
            return web.json_response({"ok": True, "result": await handler(await request.json(), world)})
        except BotApiError as exc:
            return web.json_response(exc.body(), status=exc.code)

    app.router.add_get("/sandbox/state", state)
    app.router.add_get("/sandbox/messages", messages)
    app.router.add_post("/sandbox/{deed}", act)
    app.router.add_get("/", _serve_page)
    app.router.add_get("/page/{name}", _serve_page)


async def _serve_page(request: web.Request) -> web.StreamResponse:
    file = _PAGE_FOLDER / request.match_info.get("name", "index.html")
    if file.parent != _PAGE_FOLDER or not file.is_file():
        raise web.HTTPNotFound
    return web.FileResponse(file, headers=_PAGE_HEADERS)


def build_snapshot(world: SandboxState, since: int, user_id: int) -> Json:
    """Build the changes after `since` that this user may see; with 0, the chats with their last message."""
    rooms = [room for room in world.rooms.values() if _is_visible(world, room, user_id)]
    if since:
        rooms_by_id = {room.id: room for room in rooms}
        changed = dict.fromkeys(key[1:] for key in world.log[bisect_right(world.log, (since, inf)) :])
        fresh = [(rooms_by_id[chat_id], message_id) for chat_id, message_id in changed if chat_id in rooms_by_id]
    else:
        fresh = [(room, max(room.messages)) for room in rooms if room.messages]
    leaders = {user for room in world.rooms.values() for user, member in room.members.items() if member.leads}
    visible = {room.id for room in rooms}
    now = world.clock()
    drafts = [
        {"chat": chat, "thread": thread, "id": d.draft_id, "text": d.text, "entities": d.entities}
        | {"can_stop": d.can_stop, "left": d.expires - now}
        for (chat, thread), d in world.drafts.items()
        if d.expires > now and chat in visible
    ]
    actions = [
        {"chat": chat, "thread": thread, "action": action, "left": ends - now}
        for (chat, thread), (action, ends) in world.actions.items()
        if ends > now and chat in visible
    ]
    return {
        "n": world.n,
        "run": world.run,
        "me": {"bot": world.bot.wire(), "user": user_id},
        "people": [person.wire() | {"leads": person.id in leaders} for person in world.people.values()],
        "questions": _list_questions(world, user_id, visible),
        "chats": [_build_chat(world, room, user_id) for room in rooms],
        "messages": [_build_message(world, room, message_id) for room, message_id in fresh],
        "commands": _get_commands(world, user_id),
        "drafts": drafts,
        "actions": actions,
    }


def _list_questions(world: SandboxState, user_id: int, visible: set[int]) -> list[str]:
    """List the suggested questions in the user's language; those that fewer people may ask come first."""
    person = world.people.get(user_id)
    own = [one for one in world.suggestions if person and one.lang == person.lang and one.chats <= visible]
    return [one.text for one in sorted(own, key=lambda one: all(world.rooms[chat].username for chat in one.chats))]


def _is_visible(world: SandboxState, room: SandboxChat, user_id: int) -> bool:
    if room.kind == "private":
        return room.id == user_id
    return room.member(user_id).inside or (room.kind == "channel" and room.username is not None)


def _build_chat(world: SandboxState, room: SandboxChat, user_id: int) -> Json:
    inside = sum(member.inside for member in room.members.values())
    rights = {"can_post": room.kind != "channel" or room.member(user_id).leads, "members": inside}
    return room.wire() | rights


def _build_message(world: SandboxState, room: SandboxChat, message_id: int) -> Json:
    message = room.messages.get(message_id)
    if message is None:
        return {"message_id": message_id, "chat": {"id": room.id}, "deleted": True}
    reactions = world.reactions.get((room.id, message_id), {})
    emojis = [emoji for user_emojis in reactions.values() for emoji in user_emojis]
    return message | ({"reactions": {emoji: emojis.count(emoji) for emoji in emojis}} if emojis else {})


def _get_commands(world: SandboxState, user_id: int) -> list[Json]:
    """Get the commands of the narrowest scope, as clients choose them for a private chat."""
    person = world.people.get(user_id)
    lang = ((person.lang if person else None) or "").split("-")[0]
    scopes = ({"chat_id": user_id, "type": "chat"}, {"type": "all_private_chats"}, {"type": "default"})
    keys = [(json.dumps(scope), code) for scope in scopes for code in (lang, "")]
    return next((world.commands[key] for key in keys if world.commands.get(key)), [])


async def _handle_say(body: Json, world: SandboxState) -> Json:
    user_id = int(body["user"])
    value = body.get("forward_of")
    message = UserMessage(
        str(body["text"]), body.get("reply_to"), body.get("thread"), (int(value[0]), int(value[1])) if value else None
    )
    return user_actions.send_as_person(world, user_id, int(body.get("chat") or user_id), message)


def _require_admin(body: Json, world: SandboxState) -> None:
    if not world.room(int(body["chat"])).member(int(body["user"])).leads:
        raise forbidden("only an administrator of the channel can do this")


async def _handle_post(body: Json, world: SandboxState) -> Json:
    _require_admin(body, world)
    return user_actions.post_as_channel(world, int(body["chat"]), UserMessage(str(body["text"]), body.get("reply_to")))


def _find_own_message(body: Json, world: SandboxState, refusal: str) -> tuple[SandboxChat, int]:
    """Find the message that this person wrote, or may change as an administrator of the channel."""
    room, message_id = world.room(int(body["chat"])), int(body["message"])
    if room.kind == "channel":
        _require_admin(body, world)
    elif room.messages.get(message_id, {}).get("from", {}).get("id") != int(body["user"]):
        raise bad_request(refusal)
    return room, message_id


async def _handle_edit(body: Json, world: SandboxState) -> Json:
    room, message_id = _find_own_message(body, world, "message can't be edited")
    return user_actions.edit_as_author(world, room.id, message_id, str(body["text"]))


async def _handle_delete(body: Json, world: SandboxState) -> Json:
    room, message_id = _find_own_message(body, world, "message can't be deleted")
    user_actions.delete_as_author(world, room.id, message_id)
    return {}


async def _handle_press(body: Json, world: SandboxState) -> Json:
    args = int(body["user"]), int(body["chat"]), int(body["message"]), str(body["data"])
    return {"answer": await _wait_for_answer(world, user_actions.press_button(world, *args))}


async def _wait_for_answer(world: SandboxState, query_id: str) -> Json | None:
    query = world.queries[query_id]
    await world.bell.until(lambda: query.answer is not None or world.queue.closed, _MAX_ANSWER_WAIT_SECONDS)
    return query.answer


async def _handle_inline(body: Json, world: SandboxState) -> Json:
    if not world.inline:
        return {"query": None, "answer": None}
    query_id = user_actions.type_inline_query(world, int(body["user"]), str(body["text"]))
    return {"query": query_id, "answer": await _wait_for_answer(world, query_id)}


async def _handle_choose(body: Json, world: SandboxState) -> Json:
    if world.room(int(body["chat"])).kind == "channel":
        _require_admin(body, world)
    args = int(body["user"]), int(body["chat"]), str(body["query"]), str(body["result"])
    return user_actions.send_inline_result(world, *args)


async def _handle_stop(body: Json, world: SandboxState) -> Json:
    user_actions.stop_draft_as_person(world, int(body["user"]), int(body["draft"]))
    return {}


_ACTION_HANDLERS: dict[str, Callable[[Json, SandboxState], Awaitable[Json]]] = {
    "say": _handle_say,
    "post": _handle_post,
    "edit": _handle_edit,
    "delete": _handle_delete,
    "press": _handle_press,
    "inline": _handle_inline,
    "choose": _handle_choose,
    "stop": _handle_stop,
}
