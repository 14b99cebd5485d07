"""Sources of answers and state of indexing, for the page: how answers were found, which posts are indexed by now."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from math import inf

from bot.sandbox.chats import Json
from bot.sandbox.state import SandboxState
from rag_core.types import Answer, Citation, Post, PostKey, Source

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
