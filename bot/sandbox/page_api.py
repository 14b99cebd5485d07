"""Web page of the sandbox: its API /sandbox/*, what people do there, and what the page shows of the bot's work.

People write, post, edit, forward, and press buttons; the bot gets the updates. An observer of the bot records how
answers were found, and which posts are indexed by now.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from secrets import randbelow, token_urlsafe

from aiohttp import web

from bot.sandbox.messages import (
    BotApiError,
    Json,
    bad_request,
    build_photo,
    forbidden,
    prepare_text,
    remove_nested_reply,
)
from bot.sandbox.methods import CONTENT_FIELDS, build_thread_fields
from bot.sandbox.state import (
    PressedButton,
    SandboxChat,
    SandboxState,
    build_message_origin,
    can_bot_see,
)
from rag_core.types import Answer, Citation, Post, PostKey, Source

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
    return send_as_person(world, user_id, int(body.get("chat") or user_id), message)


def _require_admin(body: Json, world: SandboxState) -> None:
    if not world.room(int(body["chat"])).member(int(body["user"])).leads:
        raise forbidden("only an administrator of the channel can do this")


async def _handle_post(body: Json, world: SandboxState) -> Json:
    _require_admin(body, world)
    return post_as_channel(world, int(body["chat"]), UserMessage(str(body["text"]), body.get("reply_to")))


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
    return edit_as_author(world, room.id, message_id, str(body["text"]))


async def _handle_delete(body: Json, world: SandboxState) -> Json:
    room, message_id = _find_own_message(body, world, "message can't be deleted")
    delete_as_author(world, room.id, message_id)
    return {}


async def _handle_press(body: Json, world: SandboxState) -> Json:
    args = int(body["user"]), int(body["chat"]), int(body["message"]), str(body["data"])
    return {"answer": await _wait_for_answer(world, press_button(world, *args))}


async def _wait_for_answer(world: SandboxState, query_id: str) -> Json | None:
    query = world.queries[query_id]
    await world.bell.until(lambda: query.answer is not None or world.queue.closed, _MAX_ANSWER_WAIT_SECONDS)
    return query.answer


async def _handle_inline(body: Json, world: SandboxState) -> Json:
    if not world.inline:
        return {"query": None, "answer": None}
    query_id = type_inline_query(world, int(body["user"]), str(body["text"]))
    return {"query": query_id, "answer": await _wait_for_answer(world, query_id)}


async def _handle_choose(body: Json, world: SandboxState) -> Json:
    if world.room(int(body["chat"])).kind == "channel":
        _require_admin(body, world)
    args = int(body["user"]), int(body["chat"]), str(body["query"]), str(body["result"])
    return send_inline_result(world, *args)


async def _handle_stop(body: Json, world: SandboxState) -> Json:
    stop_draft_as_person(world, int(body["user"]), int(body["draft"]))
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


_MAX_ANSWERS = 500  # older ones have reached any open page
_MAX_SHOWN_POSTS = 5  # best posts shown with an answer, besides the cited ones


class DemoObserver:
    """`bot.indexing.BotObserver` that keeps what the page shows."""

    def __init__(self, world: SandboxState) -> None:
        self._world = world
        self._answers: dict[tuple[int, int], tuple[int, list[Json]]] = {}
        self._waiting: dict[str, int] = {}
        self._indexed_texts: dict[PostKey, dict[str, str]] = {}
        self._initial_texts: dict[PostKey, str] | None = None
        self._initial_change = 0

    def show_answer(self, chat_id: int, message_id: int, answer: Answer) -> None:
        """Record the posts that an answer was found by."""
        self._world.changed()
        cited: dict[PostKey, list[Citation]] = {}
        for sentence in answer.sentences:
            for citation in sentence.citations:
                cited.setdefault(citation.post, []).append(citation)
        numbers = {key: n for n, key in enumerate(answer.posts(), 1)}
        shown = [
            _build_searched_post(source, cited.get(source.passage.key, ()))
            | {"number": numbers.get(source.passage.key)}
            for n, source in enumerate(answer.found)
            if n < _MAX_SHOWN_POSTS or source.passage.key in cited
        ]
        known = {source.passage.key for source in answer.found}
        counted = [
            _build_counted_post(citations[0]) | {"number": numbers[key]}
            for key, citations in cited.items()
            if key not in known
        ]
        self._answers[chat_id, message_id] = self._world.n, shown + counted
        if len(self._answers) > _MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def show_progress(self, leg: str, waiting: int, taken: Sequence[Post]) -> None:
        """Record the progress of an index. The first report marks the posts that existed before the bot began."""
        if self._initial_texts is None:
            self._initial_texts = {PostKey(chat, n): self._get_text(chat, n) for _, chat, n in self._world.log}
            self._initial_change = self._world.n
        for post in taken:
            self._indexed_texts.setdefault(post.key, {})[leg] = post.text.strip()
        if taken or self._waiting.get(leg) != waiting:
            self._waiting[leg] = waiting
            self._world.changed()

    def build_page_state(self, since: int, visible: Collection[int]) -> Json:
        """Build the answers observed after `since` and the state of indexing, for a page that sees these chats."""
        insights = {
            f"{chat}/{message}": [post for post in posts if self._can_open(post, visible)]
            for (chat, message), (n, posts) in self._answers.items()
            if n > since and chat in visible
        }
        findable = {}  # by which retrievers each new post is found with its current text
        for key in self._list_new_posts(visible):
            texts, now = self._indexed_texts.get(key, {}), self._get_text(*key)
            findable[f"{key.chat_id}/{key.message_id}"] = [leg for leg, text in texts.items() if text == now]
        indexing = {leg: {"waiting": waiting} for leg, waiting in self._waiting.items()}
        return {"insights": insights, "indexing": indexing, "findable": findable}

    def _can_open(self, post: Json, visible: Collection[int]) -> bool:
        chat, message = post["post"]
        room = self._world.rooms.get(chat)
        return room is None or (chat in visible and message in room.messages)

    def _list_new_posts(self, visible: Collection[int]) -> list[PostKey]:
        """List the posts added or changed since the bot began, in channels that it reads."""
        log = self._world.log
        if self._initial_texts is None:
            return []
        changed = dict.fromkeys(PostKey(*key[1:]) for key in log[bisect_right(log, (self._initial_change, inf)) :])
        return [
            key
            for key in changed
            if key.chat_id in visible
            and (room := self._world.rooms[key.chat_id]).kind == "channel"
            and room.member(self._world.bot.id).inside
            and self._get_text(*key) not in ("", self._initial_texts.get(key))
        ]

    def _get_text(self, chat_id: int, message_id: int) -> str:
        message = self._world.rooms[chat_id].messages.get(message_id, {})
        return str(message.get("text") or message.get("caption") or "").strip()


def _build_searched_post(source: Source, cited: Sequence[Citation]) -> Json:
    passage = source.passage
    head = {"post": list(passage.key), "date": passage.date.timestamp(), "leg": source.leg}
    spans = sorted((max(c.start - passage.start, 0), min(c.end, passage.end) - passage.start) for c in cited)
    pieces: list[list[object]] = []
    at = 0
    for start, end in spans:
        if end <= max(at, start):
            continue
        pieces += [[passage.text[at:start], False], [passage.text[max(at, start) : end], True]]
        at = end
    return head | {"pieces": [piece for piece in [*pieces, [passage.text[at:], False]] if piece[0]]}


def _build_counted_post(citation: Citation) -> Json:
    """Build a post cited by an answer from dates and counts, which no retriever found."""
    head = {"post": list(citation.post), "date": citation.date.timestamp(), "leg": ""}
    return head | {"pieces": [[citation.quote, True]]}
