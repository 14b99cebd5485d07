"""Answers that need no search: pinned posts, and the questions that readers are offered.

A pin holds the post and a keyed hash of the question's terms, none of its words; readers of the channel who ask alike
get the beginning of the post as it stands now.

Suggested questions are made from the newest posts in the background. Each is asked beforehand as a reader of that one
channel, without a model, and kept if its own post surely answers it first: what is offered from a channel depends on it
alone. One is offered at a time, and to a reader once in a talk.
"""

import asyncio
import logging
from base64 import urlsafe_b64encode
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import accumulate, chain, zip_longest

from cachetools import LRUCache

from bot.question_generation import generate_questions
from bot.stored_answer import hash_text_version
from bot.views.keyboards import make_callback_token
from rag_core.answer import answer_question
from rag_core.conversation.followups import find_question_names, follows_earlier_question, remember_answer
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.run import get_or_make_request_id
from rag_core.storage import Archive, channels, posts, visible_posts
from rag_core.storage.questions import fetch_queue_stats
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import DIRECT_RECIPE, Answer, Certainty, Post, PostKey, Question, Viewer
from rag_core.writing.extract import quote_span

PINNED_RECIPE = "pinned"
_MAX_PIN_LENGTH = 600  # characters shown of the post


def extract_question_terms(text: str) -> frozenset[str]:
    """Extract the terms by which questions are alike: all but the words of asking, or all where there are no others."""
    terms = frozenset(tokenize(text))
    return frozenset(term for term in terms if not is_asking_word(term)) or terms


def hash_question(text: str, archive: Archive) -> str:
    """Hash the terms of a question with the archive's key: the same for questions that are alike."""
    terms = " ".join(sorted(extract_question_terms(text)))
    return urlsafe_b64encode(blake2b(terms.encode(), key=archive.identity.encode(), digest_size=9).digest()).decode()


async def answer_from_pin(question: Question, rag: Engine) -> Answer | None:
    """Answer from the pinned post; None where no post is pinned that this asker may read, or for a follow-up."""
    hashed = hash_question(question.text, rag.archive)
    pinned = await channels.find_pinned_post(rag.archive, hashed, question.viewer.channels)
    post = (await visible_posts.fetch_posts(rag.archive, [pinned])).get(pinned) if pinned else None
    if post is None:
        return None
    spans = [first for one in split_sentences(post.text) for first in split_long_span(post.text, one)[:1]]
    lengths = accumulate(end - start for start, end in spans)
    beginning = [span for span, length in zip(spans, lengths, strict=True) if length <= _MAX_PIN_LENGTH]
    sentences = tuple(quote_span(post, span) for span in beginning)
    if not sentences or await follows_earlier_question(question, rag):
        return None
    titles = question.viewer.select_readable(await channels.load_channels(rag.archive))
    answer = Answer(sentences, 1.0, PINNED_RECIPE, trace_id=get_or_make_request_id(), channels=titles)
    await remember_answer(question, answer, rag)
    return answer


_MAX_READERS = 1000  # whose questions of the last talk are remembered: each is offered once
_PER_CHANNEL, _NEWEST_POSTS = 5, 60
_FIRST_RUN_SECONDS, _INTERVAL_SECONDS, _PAUSE_SECONDS = 30.0, 600.0, 0.2
_MAX_BUTTON_CHARACTERS = 60

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

    def __init__(self, rag: Engine) -> None:
        self._rag = replace(rag, writer=None, planner=None, recipe=DIRECT_RECIPE, traced=lambda run: None)
        self._kept: dict[int, list[SuggestedQuestion]] = {}
        self._asked: set[tuple[PostKey, str]] = set()
        self._offered: LRUCache[int, set[str]] = LRUCache(_MAX_READERS)
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
            newest = sorted(await posts.list_message_ids(self._rag.archive, chat, _NEWEST_POSTS), reverse=True)
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
            text = f"{generated.text[:1].upper()}{generated.text[1:]}?"
            # "How many visitors?", "When is the schedule?", "How much is the third course?" say nothing away from
            # their posts: a name says whose it is
            if generated.kind in {"count", "when"} or not find_question_names(text):
                continue
            if len(text) > _MAX_BUTTON_CHARACTERS or any(text == one.text for one in kept):
                continue
            # readers go first
            while (await fetch_queue_stats(self._rag.archive)).waiting:  # noqa: ASYNC110 - the archive rings no bell
                await asyncio.sleep(_PAUSE_SECONDS)
            viewer = Viewer(0, frozenset({post.key.chat_id}))
            answer = await answer_question(Question(text, generated.lang, datetime.now(UTC), viewer), self._rag)
            if answer.shortfalls:
                self._asked.discard((post.key, mark))
            answered = answer.certainty is Certainty.SURE and answer.posts()[:1] == (post.key,)
            if answered and generated.answer in answer.sentences[0].text:
                kept.append(SuggestedQuestion(text, generated.lang, post.key, mark))
                return

    async def suggest(self, viewer: Viewer, lang: str, without: Collection[PostKey] = ()) -> SuggestedQuestion | None:
        """Suggest a question in a reader's language that was not offered in this talk; none of the posts `without`."""
        offered = self._offered.get(viewer.user_id, set())
        by_channel = [self._kept.get(chat, []) for chat in sorted(viewer.channels)]
        mixed = [one for one in chain.from_iterable(zip_longest(*by_channel)) if one is not None]
        new = [one for one in mixed if one.lang == lang and one.post not in without and one.text not in offered]
        return next(iter(await self._drop_changed(new)), None)

    def note_offered(self, reader: int, text: str) -> None:
        """Note that a reader was offered a question, in memory alone."""
        self._offered.setdefault(reader, set()).add(text)

    def forget_offered(self, reader: int) -> None:
        """Forget what a reader was offered: a new talk begins."""
        self._offered.pop(reader, None)

    async def find(self, token: str, viewer: Viewer) -> SuggestedQuestion | None:
        """Find the suggestion of a button among those this reader may see; None for one that no longer holds."""
        readable = chain.from_iterable(self._kept.get(chat, ()) for chat in viewer.channels)
        found = [one for one in readable if self.make_token(one) == token]
        return next(iter(await self._drop_changed(found)), None)

    def make_token(self, suggested: SuggestedQuestion) -> str:
        """Make the token of a button; only this archive can make it."""
        return make_callback_token(repr((*suggested.post, suggested.text)), self._rag.archive.identity, size=9)

    async def _drop_changed(self, suggested: Collection[SuggestedQuestion]) -> list[SuggestedQuestion]:
        stored = await visible_posts.fetch_posts(self._rag.archive, [one.post for one in suggested])
        return [one for one in suggested if one.post in stored and hash_text_version(stored[one.post].text) == one.mark]
