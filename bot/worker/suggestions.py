"""Suggested questions: made from the newest posts in the background, and offered while their posts answer them.

Each question is asked beforehand as a reader of that one channel, without a model; it is kept if its own post answers
it first. So what is offered from a channel depends on this channel alone. Suggestions are kept in memory: a start of
the bot makes the same ones again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain, zip_longest

from bot.stored_answer import hash_text_version
from bot.views.keyboards import make_callback_token
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.storage import channels, post_lookup, posts, visible_posts
from rag_core.storage.monitoring_stats import fetch_queue_stats
from rag_core.text.question_generation import generate_questions
from rag_core.types import DIRECT_RECIPE, Answer, Post, PostKey, Question, Viewer

MAX_SUGGESTIONS = 3
_PER_CHANNEL, _NEWEST_POSTS = 5, 60
_FIRST_RUN_SECONDS, _INTERVAL_SECONDS, _PAUSE_SECONDS = 30.0, 600.0, 0.2
_MAX_BUTTON_CHARACTERS = 60

AnswerFunction = Callable[[Question, Engine], Awaitable[Answer]]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SuggestedQuestion:
    """Question that a post answers; `mark` is the hash of its text at that time."""

    text: str
    lang: str
    post: PostKey
    mark: str


class QuestionSuggester:
    """Suggester of questions: `run` makes them, `suggest` and `find` only give those whose posts are unchanged."""

    def __init__(self, rag: Engine, answer_question: AnswerFunction) -> None:
        self._rag = replace(rag, writer=None, planner=None, recipe=DIRECT_RECIPE, traced=lambda run: None)
        self._answer_question = answer_question
        self._kept: dict[int, list[SuggestedQuestion]] = {}
        self._asked: set[tuple[PostKey, str]] = set()
        self._seq = 0

    async def run(self) -> None:
        """Make suggestions until cancelled, anew whenever posts have changed."""
        await asyncio.sleep(_FIRST_RUN_SECONDS)
        while True:
            with suppress(RagError):  # the archive or an index is down: the next run makes up for it
                seq = await posts.get_last_seq(self._rag.archive)
                if seq != self._seq and self._rag.lexical.watermark >= seq:
                    await self.make_suggestions()
                    self._seq = seq
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def make_suggestions(self) -> None:
        """Ask the questions of the newest posts of each channel until there are enough. Raises RagError."""
        present = set[PostKey]()
        for chat in await channels.load_channels(self._rag.archive):
            kept = await self._drop_changed(self._kept.get(chat, ()))
            self._kept[chat] = kept
            newest = await post_lookup.list_newest_ids(self._rag.archive, chat, _NEWEST_POSTS)
            found = await visible_posts.fetch_posts(self._rag.archive, [PostKey(chat, number) for number in newest])
            present |= found.keys()
            for post in sorted(found.values(), key=lambda one: one.date, reverse=True):
                if len(kept) >= _PER_CHANNEL:
                    break
                await self._try_post(post, kept)
        self._asked = {one for one in self._asked if one[0] in present}

    async def _try_post(self, post: Post, kept: list[SuggestedQuestion]) -> None:
        """Keep the first question of a post that the post answers."""
        mark = hash_text_version(post.text)
        if (post.key, mark) in self._asked:
            return
        # a question asked before its post can be found, or while a search fails, would be given up for good
        if self._rag.lexical.watermark < await posts.get_last_seq(self._rag.archive):
            return
        self._asked.add((post.key, mark))
        for generated in await asyncio.to_thread(lambda: list(generate_questions(post.text))):
            if generated.kind == "count":  # "How many visitors?" says nothing away from its post
                continue
            text = f"{generated.text[:1].upper()}{generated.text[1:]}?"
            if len(text) > _MAX_BUTTON_CHARACTERS or any(text == one.text for one in kept):
                continue
            # readers go first
            while (await fetch_queue_stats(self._rag.archive)).waiting:  # noqa: ASYNC110 - the archive rings no bell
                await asyncio.sleep(_PAUSE_SECONDS)
            viewer = Viewer(0, frozenset({post.key.chat_id}))
            answer = await self._answer_question(Question(text, generated.lang, datetime.now(UTC), viewer), self._rag)
            if answer.shortfalls:
                self._asked.discard((post.key, mark))
            answered = not answer.refused and answer.posts()[:1] == (post.key,)
            if answered and generated.answer in answer.sentences[0].text:
                kept.append(SuggestedQuestion(text, generated.lang, post.key, mark))
                return

    async def suggest(self, viewer: Viewer, lang: str) -> list[SuggestedQuestion]:
        """Suggest up to three questions to a reader, those in their language first, of different channels."""
        by_channel = [self._kept.get(chat, []) for chat in sorted(viewer.channels)]
        mixed = [one for one in chain.from_iterable(zip_longest(*by_channel)) if one is not None]
        preferred = sorted(mixed, key=lambda one: one.lang != lang)
        return (await self._drop_changed(preferred[: 2 * MAX_SUGGESTIONS]))[:MAX_SUGGESTIONS]

    async def find(self, token: str, viewer: Viewer) -> SuggestedQuestion | None:
        """Find the suggestion of a button among those this reader may see; None for one that no longer holds."""
        readable = chain.from_iterable(self._kept.get(chat, ()) for chat in viewer.channels)
        found = [one for one in readable if self.make_token(one) == token]
        return next(iter(await self._drop_changed(found)), None)

    def make_token(self, suggested: SuggestedQuestion) -> str:
        """Make the token of a button; only this archive can make it."""
        return make_callback_token(repr((*suggested.post, suggested.text)), self._rag.archive.identity, size=9)

    async def _drop_changed(self, suggested: Iterable[SuggestedQuestion]) -> list[SuggestedQuestion]:
        listed = list(suggested)
        stored = await visible_posts.fetch_posts(self._rag.archive, [one.post for one in listed])
        return [one for one in listed if one.post in stored and hash_text_version(stored[one.post].text) == one.mark]
