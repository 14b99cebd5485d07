"""Answer updates: an answer whose cited words were edited or deleted says so in its message, and shows them no more.

Answers of the last two days are looked at after a start, and when a post that they cite was edited or deleted. The
sentences that still stand are rendered again, each change is told once, and the edit passes the same access check as
every message. Of a text that was checked the quotes that still stand are shown, and the verdict falls.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramAPIError
from aiogram.utils.formatting import Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.repeated_job import repeat_job
from bot.stored_answer import CitedPost, CitedSpan, StoredAnswer, StoredSentence, load_cited_text, parse_stored_answer
from bot.telegram.recheck_before_sending import (
    ContentWithdrawn,
    RecheckUnavailable,
    collect_content_of_posts,
    recheck_before_sending,
)
from bot.telegram.sending_backoff import PERMANENT_ERRORS, get_backoff, send_in_background
from bot.views.answer import get_answer_translator, link_number, render_stored_sentences
from bot.views.keyboards import build_answer_keyboard, build_quote_keyboard, update_vote_counts
from bot.views.message_formatting import split_pages
from bot.views.post_formatting import RenderContext
from rag_core.storage import Archive, channels, posts, questions, visible_posts
from rag_core.storage.questions import AnsweredQuestion
from rag_core.types import Channel, Post, PostKey

_MAX_ANSWER_AGE = timedelta(hours=48)  # Telegram's limit for deleting a message, and so for taking words back
_INTERVAL_SECONDS, _MAX_PAUSE_SECONDS = 1.0, 60.0
_DEBOUNCE_SECONDS = 3.0  # authors mend a post several times in a row
_MIN_EDIT_INTERVAL_SECONDS = 60.0  # between two edits of one answer
_JOB = "edits"


class AnswerUpdater:
    """Answer updater. One per process."""

    def __init__(self, bot: Bot, context: AppContext) -> None:
        self._bot, self._context, self._archive = bot, context, context.archive
        self._seq = -1  # last change that was read
        self._due: dict[PostKey, float] = {}  # changed post -> when its answers are looked at
        self._edited_at: dict[int, float] = {}  # question -> last edit of its answer

    async def run(self) -> None:
        """Update answers until cancelled."""
        job_log = self._context.indexing.job_log
        await repeat_job(job_log, _JOB, self._update_due, _INTERVAL_SECONDS, _MAX_PAUSE_SECONDS)

    async def _update_due(self) -> None:
        if self._seq < 0:  # after the start answers to posts that changed meanwhile are looked at, too
            last = await posts.get_last_seq(self._archive)
            await self._update_answers(None)
            self._seq = last
        seq = self._seq
        while changes := await posts.list_post_changes(self._archive, seq):
            for change in changes:
                if change.post is None or change.post.edited:
                    self._due.setdefault(change.key, time.monotonic() + _DEBOUNCE_SECONDS)
            seq = changes[-1].seq
        self._seq = seq
        ripe = {key for key, moment in self._due.items() if moment <= time.monotonic()}
        if ripe:
            await self._update_answers(ripe)

    async def _update_answers(self, keys: Collection[PostKey] | None) -> None:
        """Update the answers that cite one of these posts (None: any); what has to wait is looked at again later."""
        now = time.monotonic()
        self._edited_at = {n: at for n, at in self._edited_at.items() if now - at < _MIN_EDIT_INTERVAL_SECONDS}
        later: dict[PostKey, float] = {}
        since = datetime.now(UTC) - _MAX_ANSWER_AGE
        for asked in await questions.list_answers_citing(self._archive, keys, since):
            answer = parse_stored_answer(asked.answer)
            edited_at = self._edited_at.get(asked.id, now - _MIN_EDIT_INTERVAL_SECONDS)
            again = max(edited_at + _MIN_EDIT_INTERVAL_SECONDS, now + get_backoff(self._bot).get_wait(asked.chat_id))
            if again <= now:
                try:
                    await self._update_answer(asked, answer)
                    continue
                except ContentWithdrawn:  # changed again meanwhile
                    again = now + _DEBOUNCE_SECONDS
                except (TelegramAPIError, ClientDecodeError, RecheckUnavailable) as exc:
                    self._context.indexing.job_log.record_failure(
                        _JOB, f"An answer was not updated: {type(exc).__name__}."
                    )
                    again = now + _MIN_EDIT_INTERVAL_SECONDS
            later |= {one.key: again for one in answer.cited if keys is None or one.key in keys}
        self._due = {key: at for key, at in self._due.items() if keys is None or key not in keys} | later

    async def _update_answer(self, asked: AnsweredQuestion, answer: StoredAnswer) -> None:
        """Edit an answer where words that it cites are gone, if its message does not say so yet."""
        reader = access.get_question_reader(asked)
        viewer = await access.build_viewer(self._context.admins, reader)
        if any(viewer.may_miss(one.key.chat_id) for one in answer.cited):
            raise RecheckUnavailable("Telegram did not say whether the reader is still a member.")
        cited = [one for one in answer.cited if one.key.chat_id in viewer.channels]
        stored = await visible_posts.fetch_posts(self._archive, [one.key for one in cited])
        content = collect_content_of_posts(stored.values())
        texts = await _load_cited_texts(cited, stored, self._archive)

        def stands(place: CitedSpan) -> bool:
            return place.key in texts and texts[place.key][place.start : place.end] in stored[place.key].text

        gone = {place.key for place in answer.quotes if not stands(place)}
        changed = {(*one.key, one.key not in stored) for one in cited if one.key in gone or one.key not in stored}
        if changed <= answer.noted:
            return
        words = await get_answer_translator(asked, self._archive)
        known = await channels.load_channels(self._archive)
        zone = await self._context.load_zone(asked.chat_id)
        shown = RenderContext(words, zone, group=not asked.private)
        if asked.kind == "verify":
            standing = [StoredSentence("", 0, (place,)) for place in answer.quotes if stands(place)]
        else:
            standing = [one for one in answer.sentences if one.places and all(map(stands, one.places))]
        blocks = render_stored_sentences(answer, standing, texts, stored, known, shown)
        said = _render_changes(answer, changed, known, words, verdict=asked.kind == "verify")
        text = as_list(said, *blocks, sep="\n\n")
        # a message that the reader deleted needs no edit
        recheck = recheck_before_sending(content, reader, self._context.admins)
        with recheck, send_in_background(), suppress(*PERMANENT_ERRORS):
            await self._edit_messages(asked, answer, text, words)
        self._edited_at[asked.id] = time.monotonic()
        await questions.save_noted_changes(self._archive, asked.id, changed)

    async def _edit_messages(
        self, asked: AnsweredQuestion, answer: StoredAnswer, text: Text, words: Translator
    ) -> None:
        pages = split_pages(text)[: len(answer.messages)]
        if asked.kind == "verify":
            buttons = build_quote_keyboard(answer, self._archive, words)
        else:
            votes = await questions.count_votes_on_answer(self._archive, asked.id)
            buttons = update_vote_counts(build_answer_keyboard(asked, answer, words), votes)
        for number, (message_id, page) in enumerate(zip(answer.messages, pages, strict=False), 1):
            await self._bot.edit_message_text(
                page.text,
                chat_id=asked.chat_id,
                message_id=message_id,
                entities=list(page.entities),
                reply_markup=buttons if number == len(pages) else None,
            )
        for message_id in answer.messages[len(pages) :]:
            await self._bot.delete_message(asked.chat_id, message_id)


async def _load_cited_texts(
    cited: Sequence[CitedPost], stored: Mapping[PostKey, Post], archive: Archive
) -> dict[PostKey, str]:
    """Load the texts that posts had when they were cited; a post that is gone, or a text that is unknown, has none."""
    texts = {one.key: await load_cited_text(stored[one.key], one.mark, archive) for one in cited if one.key in stored}
    return {key: text for key, text in texts.items() if text is not None}


def _render_changes(
    answer: StoredAnswer,
    changed: Collection[tuple[int, int, bool]],
    known: Mapping[int, Channel],
    words: Translator,
    *,
    verdict: bool,
) -> Text:
    """Render the line that says which posts changed, by their numbers in the answer."""
    parts: list[Text] = []
    for number, one in enumerate(answer.cited, 1):
        for deleted in (False, True):
            if (*one.key, deleted) in changed:
                label = Text(f"[{number}]") if deleted else link_number(number, one.key, known)
                parts.append(words.rich("stale-post", number=label, gone="yes" if deleted else "no"))
    return words.rich("verdict-stale" if verdict else "answer-stale", posts=as_list(*parts, sep=", "))
