"""Web page of the sandbox: its API /sandbox/*, what people do there, and what the page shows of the bot's work."""

from __future__ import annotations

import mimetypes
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from math import inf
from pathlib import Path
from secrets import randbelow, token_urlsafe
from typing import NamedTuple

from aiohttp import web

from bot.sandbox import messages, state
from bot.sandbox.messages import BotApiError, Json, bad_request, prepare_text, remove_nested_reply
from bot.sandbox.methods import CONTENT_FIELDS, build_thread_fields
from bot.sandbox.state import PressedButton, SandboxChat, SandboxState, build_message_origin, is_message_visible
from rag_core.types import Answer, Citation, Post, PostKey, Source

_PAGE_FOLDER = Path(__file__).parent / "page"
_MAX_NEWS_WAIT_SECONDS = 25.0  # long polling of the page
_MAX_ANSWER_WAIT_SECONDS = 15.0  # a pressed button or an inline query waits for the bot's answer
_PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_SHOWN_PICTURES = frozenset({"image/jpeg", "image/png", "image/webp", "image/gif"})


def add_page_routes(app: web.Application, world: SandboxState, observed: DemoObserver) -> None:
    """Add the page and its API to the server."""

    async def serve_state(request: web.Request) -> web.Response:
        since, user_id = int(request.query.get("since", 0)), int(request.query.get("user", 0))
        await world.bell.until(lambda: world.n != since or world.queue.closed, _MAX_NEWS_WAIT_SECONDS)
        news = build_snapshot(world, since, user_id)
        visible = {chat["id"] for chat in news["chats"]}
        return web.json_response(news | observed.build_page_state(since, visible))

    async def serve_messages(request: web.Request) -> web.Response:
        room, user_id = world.room(int(request.query["chat"])), int(request.query.get("user", 0))
        if not _is_visible(room, user_id):
            raise web.HTTPForbidden
        keys = [key for key in room.messages if is_message_visible(key, user_id)]
        return web.json_response({"messages": [_build_message(world, room, key) for key in keys]})

    async def act(request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise web.HTTPNotFound
        try:
            result = await _act(world, request.match_info["deed"], await request.json())
            return web.json_response({"ok": True, "result": result})
        except BotApiError as exc:
            return web.json_response(exc.body(), status=exc.code)

    async def serve_picture(request: web.Request) -> web.Response:
        upload = world.files.get(request.match_info["id"])  # an id that only those know who see its message
        if upload is None or upload.mime not in _SHOWN_PICTURES:
            raise web.HTTPNotFound
        return web.Response(body=upload.data, content_type=upload.mime, headers=_PAGE_HEADERS)

    async def serve_page(request: web.Request) -> web.StreamResponse:
        file = _PAGE_FOLDER / request.match_info.get("name", "index.html")
        if file.parent != _PAGE_FOLDER or not file.is_file():
            raise web.HTTPNotFound
        return web.FileResponse(file, headers=_PAGE_HEADERS)

    app.router.add_get("/sandbox/state", serve_state)
    app.router.add_get("/sandbox/messages", serve_messages)
    app.router.add_get("/sandbox/picture/{id}", serve_picture)
    app.router.add_post("/sandbox/{deed}", act)
    app.router.add_get("/", serve_page)
    app.router.add_get("/page/{name}", serve_page)


def build_snapshot(world: SandboxState, since: int, user_id: int) -> Json:
    """Build the changes after `since` that this user may see; with 0, the chats with their last message."""
    rooms = {room.id: room for room in world.rooms.values() if _is_visible(room, user_id)}
    if since:
        changed = dict.fromkeys(key[1:] for key in world.log[bisect_right(world.log, (since, inf)) :])
        fresh = [(rooms[chat], key) for chat, key in changed if chat in rooms and is_message_visible(key, user_id)]
    else:
        fresh = [(room, max(room.messages)) for room in rooms.values() if room.messages and max(room.messages) > 0]
    person = world.people.get(user_id)
    leaders = {user for room in world.rooms.values() for user, member in room.members.items() if member.leads}
    now = world.clock()
    # suggested questions in the user's language; those that fewer people may ask come first
    own = [one for one in world.suggestions if person and one.lang == person.lang and one.chats <= rooms.keys()]
    own.sort(key=lambda one: all(world.rooms[chat].username for chat in one.chats))
    chats = [
        room.wire()
        | {"can_post": room.kind != "channel" or room.member(user_id).leads}
        | {"members": sum(member.inside for member in room.members.values())}
        for room in rooms.values()
    ]
    drafts = [
        {"chat": chat, "thread": thread, "id": d.draft_id, "text": d.text, "entities": d.entities}
        | {"rich_message": d.rich, "can_stop": d.can_stop, "left": d.expires - now}
        for (chat, thread), d in world.drafts.items()
        if d.expires > now and chat in rooms
    ]
    actions = [
        {"chat": chat, "thread": thread, "action": action, "left": ends - now}
        for (chat, thread), (action, ends) in world.actions.items()
        if ends > now and chat in rooms
    ]
    return {
        "n": world.n,
        "run": world.run,
        "zone": world.zone,
        "me": {"bot": world.bot.wire(), "user": user_id},
        "people": [person.wire() | {"leads": person.id in leaders} for person in world.people.values()],
        "questions": [one.text for one in own],
        "chats": chats,
        "messages": [_build_message(world, room, message_id) for room, message_id in fresh],
        "commands": state.list_commands(world, world.rooms[user_id], user_id) if person else [],
        "drafts": drafts,
        "actions": actions,
    }


def _is_visible(room: SandboxChat, user_id: int) -> bool:
    if room.kind == "private":
        return room.id == user_id
    return room.member(user_id).inside or (room.kind == "channel" and room.username is not None)


def _build_message(world: SandboxState, room: SandboxChat, message_id: int) -> Json:
    """Build a message for the page: an ephemeral one has as its id its place among the others, and a `key`."""
    message = room.messages.get(message_id)
    place = {"message_id": room.places[message_id], "key": message_id} if message_id < 0 else {"message_id": message_id}
    if message is None:
        return place | {"chat": {"id": room.id}, "deleted": True}
    reactions = world.reactions.get((room.id, message_id), {})
    emojis = [emoji for user_emojis in reactions.values() for emoji in user_emojis]
    return message | place | ({"reactions": {emoji: emojis.count(emoji) for emoji in emojis}} if emojis else {})


async def _act(world: SandboxState, deed: str, body: Json) -> object:
    user_id, chat_id = int(body["user"]), int(body.get("chat") or body["user"])
    room = world.room(chat_id)
    leads = room.member(user_id).leads
    if not leads and (deed == "post" or (deed in ("edit", "delete", "choose") and room.kind == "channel")):
        raise BotApiError(403, "only an administrator of the channel can do this")
    if not all(is_message_visible(int(body.get(name) or 1), user_id) for name in ("message", "reply_to")):
        raise bad_request("message not found")
    if deed in ("edit", "delete") and room.kind != "channel":
        writer = room.messages.get(int(body["message"]), {}).get("from", {})
        if writer.get("id") != user_id:
            raise bad_request(f"message can't be {'edited' if deed == 'edit' else 'deleted'}")
    match deed:
        case "say":
            source = body.get("forward_of")
            origin = (int(source[0]), int(source[1])) if source else None
            message = UserMessage(str(body["text"]), body.get("reply_to"), body.get("thread"), origin)
            return send_as_person(world, user_id, chat_id, message)
        case "post":
            text, file = str(body["text"]), body.get("file")
            extra = _attach_file(world, str(file["name"]), str(file["data"]), text) if file else None
            return post_as_channel(world, chat_id, UserMessage("" if file else text, body.get("reply_to"), extra=extra))
        case "edit":
            return edit_as_author(world, chat_id, int(body["message"]), str(body["text"]))
        case "delete":
            delete_as_author(world, chat_id, int(body["message"]))
            return {}
        case "press":
            query_id = press_button(world, user_id, chat_id, int(body["message"]), str(body["data"]))
        case "inline":
            if not world.inline:
                return {"query": None, "answer": None}
            query_id = type_inline_query(world, user_id, str(body["text"]))
        case "choose":
            return send_inline_result(world, user_id, chat_id, str(body["query"]), str(body["result"]))
        case "stop":
            stop_draft_as_person(world, user_id, int(body["draft"]))
            return {}
        case _:
            raise web.HTTPNotFound
    query = world.queries[query_id]
    await world.bell.until(lambda: query.answer is not None or world.queue.closed, _MAX_ANSWER_WAIT_SECONDS)
    return {"query": query_id, "answer": query.answer}


def _attach_file(world: SandboxState, name: str, data: str, caption: str) -> Json:
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    upload = state.UploadedFile(token_urlsafe(12), name, kind, b64decode(data))
    world.files[upload.file_id] = upload
    clean, entities = prepare_text(caption, None, messages.MAX_CAPTION_CHARACTERS, empty=True)
    fields: Json = {"text": None, "caption": clean, "caption_entities": entities}
    if kind.startswith("image/"):
        return fields | {"photo": [upload.wire() | {"width": 800, "height": 600}]}
    if kind.startswith("audio/"):
        return fields | {"audio": upload.wire() | {"duration": 0}}
    return fields | {"document": upload.wire()}


_CHANNEL_SERVICE_USER = {"id": 777000, "is_bot": False, "first_name": "Telegram"}


class UserMessage(NamedTuple):
    """A message to write, whose entities are detected; `forward_of`: (chat id, message id).

    `extra` are raw Bot API fields that override: media, an origin that is hidden, what an inline result has.
    """

    text: str = ""
    reply_to: int | None = None
    thread: int | None = None
    forward_of: tuple[int, int] | None = None
    extra: Mapping[str, object] | None = None


def send_as_person(world: SandboxState, user_id: int, chat_id: int, deed: UserMessage) -> Json:
    """Write as a person in a private chat or a group."""
    room, person = world.room(chat_id), world.people[user_id]
    if room.kind != "private" and not room.member(user_id).inside:
        raise BotApiError(403, "this person is not a member of the chat")
    if room.kind == "private":
        person.started, person.blocked = True, False
    fields = {"from": person.wire()} | _build_message_fields(world, room, deed)
    if (deed.reply_to or 0) < 0 or (room.kind != "private" and _is_ephemeral_command(world, room, fields)):
        message = world.add_ephemeral(room, person, fields)
        world.queue.push("message", message)
        return message
    return _push_update(world, room, "message", world.add(room, fields))


def _is_ephemeral_command(world: SandboxState, room: SandboxChat, fields: Json) -> bool:
    first = next(iter(fields.get("entities", ())), None)
    if not world.ephemeral or first is None or first["type"] != "bot_command" or first["offset"]:
        return False
    name, _, bot = messages.extract_entity_text(fields["text"], 0, first["length"])[1:].lower().partition("@")
    menu = state.list_commands(world, room, fields["from"]["id"])
    ours = bot in ("", (world.bot.username or "").lower())
    return ours and any(one.get("is_ephemeral") for one in menu if one["command"] == name)


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
        head["forward_origin"] = build_message_origin(message)
        _push_update(world, group, "message", world.add(group, head | body))
    return message


def edit_as_author(world: SandboxState, chat_id: int, message_id: int, text: str) -> Json:
    """Edit a text or caption as a person or channel; without a change there is no update."""
    room = world.room(chat_id)
    old = room.require_message(message_id, "edit")
    field, marks = ("text", "entities") if "text" in old else ("caption", "caption_entities")
    clean, entities = prepare_text(text, empty=field == "caption")
    if clean == old.get(field, ""):
        return old
    fields: Json = {field: clean, marks: entities, "edit_date": int(world.clock())}
    kind = "edited_channel_post" if room.kind == "channel" else "edited_message"
    return _push_update(world, room, kind, world.change(room, message_id, **fields))


def delete_as_author(world: SandboxState, chat_id: int, message_id: int) -> None:
    """Delete a message for everybody as a person or channel. Telegram sends bots no update about it."""
    room = world.room(chat_id)
    room.require_message(message_id, "delete")
    world.remove(room, message_id)


def press_button(world: SandboxState, user_id: int, chat_id: int, message_id: int, data: str) -> str:
    """Press an inline button; returns the id of the query. Replayed and invented data are possible, as in Telegram."""
    room = world.room(chat_id)
    message = room.messages.get(message_id) or {"chat": room.wire(), "message_id": max(message_id, 0), "date": 0}
    query_id = str(randbelow(10**18))
    world.queries[query_id] = PressedButton(user_id, room.id, world.clock(), key=message_id)
    query = {"id": query_id, "from": world.people[user_id].wire(), "chat_instance": str(abs(room.id) * 31)}
    world.queue.push("callback_query", query | {"message": message, "data": data})
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
    fields: Json = {}
    if written.forward_of:
        chat_id, message_id = written.forward_of
        source = world.room(chat_id).require_message(message_id, "forward")
        fields = {name: source[name] for name in CONTENT_FIELDS if name in source and not written.text}
        fields["forward_origin"] = build_message_origin(source)
    if written.text or not (fields.keys() | extra.keys()) & set(CONTENT_FIELDS):
        text, entities = prepare_text(written.text)
        fields |= {"text": text, "entities": entities}
    parent = room.require_message(written.reply_to, "be replied") if written.reply_to else None
    # that of a reply to an ephemeral message may be left out, as https://core.telegram.org/bots/api#message says
    fields |= {"reply_to_message": remove_nested_reply(parent)} if parent and (written.reply_to or 0) > 0 else {}
    return fields | build_thread_fields(room, written.thread, parent) | extra


def _push_update(world: SandboxState, room: SandboxChat, kind: str, message: Json) -> Json:
    if state.can_bot_see(world, room, message):
        world.queue.push(kind, message)
    return message


_MAX_ANSWERS = 500  # older ones have reached any open page
_MAX_SHOWN_POSTS = 5  # best posts shown with an answer, besides the cited ones


class DemoObserver:
    """`bot.indexing.BotObserver` that keeps what the page shows."""

    def __init__(self, world: SandboxState) -> None:
        self._world = world
        self._answers: dict[tuple[int, int], tuple[int, list[Json]]] = {}
        self._waiting: dict[str, int] = {}
        self._indexed_texts: dict[PostKey, dict[str, str]] = {}
        self._initial_texts: dict[PostKey, str] = {}
        self._initial_change = inf

    def show_answer(self, chat_id: int, message_id: int, answer: Answer) -> None:
        """Record the posts that an answer was found by."""
        self._world.changed()
        citations = [citation for sentence in answer.sentences for citation in sentence.citations]
        cited = {key: [one for one in citations if one.post == key] for key in answer.posts()}
        numbers = {key: n for n, key in enumerate(cited, 1)}
        found = answer.found if answer.sentences else ()  # of a refusal nothing was found
        shown = [
            _build_searched_post(source, cited.get(source.passage.key, ()))
            | {"number": numbers.get(source.passage.key)}
            for n, source in enumerate(found)
            if n < _MAX_SHOWN_POSTS or source.passage.key in cited
        ]
        searched = {source.passage.key for source in found}
        for key, cited_here in cited.items():
            if key not in searched:  # cited from dates and counts, which no retriever found
                first = cited_here[0]
                head = {"post": list(key), "date": first.date.timestamp(), "leg": "", "number": numbers[key]}
                shown.append(head | {"pieces": [[first.quote, True]]})
        self._answers[chat_id, message_id] = self._world.n, shown
        if len(self._answers) > _MAX_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def show_progress(self, leg: str, waiting: int, taken: Sequence[Post]) -> None:
        """Record the progress of an index. The first report marks the posts that existed before the bot began."""
        if self._initial_change == inf:
            self._initial_texts = {PostKey(chat, n): self._get_text(chat, n) for _, chat, n in self._world.log}
            self._initial_change = self._world.n
        for post in taken:
            self._indexed_texts.setdefault(post.key, {})[leg] = post.text.strip()
        if taken or self._waiting.get(leg) != waiting:
            self._waiting[leg] = waiting
            self._world.changed()

    def build_page_state(self, since: int, visible: Collection[int]) -> Json:
        """Build the answers observed after `since` and the state of indexing, for a page that sees these chats."""
        rooms, log = self._world.rooms, self._world.log
        insights = {}
        for (chat, message), (n, posts) in self._answers.items():
            if n > since and chat in visible:
                # of a chat that is here only what this person can open
                insights[f"{chat}/{message}"] = [
                    post
                    for post in posts
                    if (home := post["post"])[0] not in rooms
                    or (home[0] in visible and home[1] in rooms[home[0]].messages)
                ]
        # by which retrievers each post is found with its current text that came or changed since the bot began
        findable = {}
        since_start = log[bisect_right(log, (self._initial_change, inf)) :]
        for key in dict.fromkeys(PostKey(*one[1:]) for one in since_start):
            room = rooms[key.chat_id]
            if key.chat_id not in visible or room.kind != "channel" or not room.member(self._world.bot.id).inside:
                continue
            now = self._get_text(*key)
            if now and now != self._initial_texts.get(key):
                texts = self._indexed_texts.get(key, {})
                findable[f"{key.chat_id}/{key.message_id}"] = [leg for leg, text in texts.items() if text == now]
        indexing = {leg: {"waiting": waiting} for leg, waiting in self._waiting.items()}
        return {"insights": insights, "indexing": indexing, "findable": findable}

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
