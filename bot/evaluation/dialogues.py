"""Dialogue evaluation: small talk and follow-ups, asked turn by turn as a reader in a private chat asks them.

A row of small talk is `{id, text, lang, kind?, search?}`: without `search` the right reply is a line or two of the
bot's own, with it an answer (`relevant, answers`). A row of follow-ups is `{id, lang, turns, expect, relevant,
answers, answerable?}`: the last turn is judged, and `expect` is the same question asked alone. `corpus` names a
folder beside the file; without it the corpus is the folder of the file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from bot.cli.progress_bar import iterate_with_progress_bar
from bot.evaluation.answer_metrics import Metrics, compute_mean, judge_answer
from bot.evaluation.ask_and_judge import answer_or_refuse, answer_query, search_query
from bot.evaluation.datasets import EvaluationQuery, parse_query, read_corpus, read_json_lines
from bot.evaluation.evaluation_variants import Variant, build_variant_settings
from bot.evaluation.indexed_dataset import IndexedDataset, open_indexed_dataset
from bot.handlers.small_talk import render_talk
from bot.settings import Settings
from rag_core.conversation.small_talk import detect_talk, strip_courtesies
from rag_core.errors import ImportRefused
from rag_core.planning.plan import plan_by_rules
from rag_core.retrieval.channel_answers import is_introduced
from rag_core.storage import channels
from rag_core.text.language_detection import detect_language
from rag_core.text.tokens import tokenize
from rag_core.types import Answer, Question

_MAX_TALK_LINES = 2
_FIRST_HITS = 5  # among which a relevant post shows that the follow-up was understood


@dataclass(frozen=True, slots=True)
class Dialogue:
    """Turns of a reader, of which the last is judged; `query` is its gold, with the text of `expect` if given."""

    turns: tuple[str, ...]
    query: EvaluationQuery
    search: bool
    corpus: Path

    @property
    def asked_at(self) -> datetime:
        """Moment of asking."""
        return self.query.asked_at or datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class JudgedTalk:
    """A text of small talk, or a question behind a greeting, and whether it was handled."""

    id: str
    lang: str
    search: bool
    handled: bool


@dataclass(frozen=True, slots=True)
class JudgedFollowup:
    """A follow-up and how it was read; `alone_right`: a right answer is shown to `expect` asked alone."""

    id: str
    lang: str
    answerable: bool
    reading: str
    refused: bool
    first_right: bool
    shown_right: bool
    alone_right: bool
    understood: bool


def read_dialogues(file: Path, without_corpus: Path | None = None) -> list[Dialogue]:
    """Read the rows of small talk or follow-ups. Raises ImportRefused.

    `without_corpus`: the corpus where neither a row nor the folder of the file has one.
    """
    own = file.parent
    if without_corpus and not any(own.glob("**/result.json")) and not any(own.glob("corpus.jsonl")):
        own = without_corpus
    return [_parse_dialogue(row, file, own) for row in read_json_lines(file)]


def _parse_dialogue(row: dict[str, Any], file: Path, own: Path) -> Dialogue:
    turns = tuple(map(str, row.get("turns") or [row.get("text") or ""]))
    query = parse_query({**row, "text": row.get("expect") or turns[-1]}, file)
    corpus = file.parent / str(row["corpus"]) if row.get("corpus") else own
    return Dialogue(turns, query, bool(row.get("search")), corpus)


R = TypeVar("R")


async def run_dialogues(
    dialogues: Sequence[Dialogue],
    judge: Callable[[Dialogue, int, IndexedDataset], Awaitable[R]],
    settings: Settings,
    variant: Variant,
) -> list[R]:
    """Run each dialogue in a chat of its own, over its corpus; each corpus is indexed once. Raises ImportRefused."""
    judged: dict[int, R] = {}
    for corpus in dict.fromkeys(dialogue.corpus for dialogue in dialogues):
        opening = open_indexed_dataset(read_corpus(corpus), build_variant_settings(settings.rag(), [variant]))
        async with opening as opened:
            data = opened.select_variant(variant)
            of_corpus = [(n, one) for n, one in enumerate(dialogues, 1) if one.corpus == corpus]
            for n, dialogue in iterate_with_progress_bar(of_corpus, "ask"):
                judged[n] = await judge(dialogue, n, data)
    if not judged:
        raise ImportRefused("There is no row to measure: name a file with rows.")
    return [judged[n] for n in sorted(judged)]


async def _ask_turn(text: str, dialogue: Dialogue, chat: int, data: IndexedDataset) -> Answer | str:
    """Answer a turn as the bot does: a reply to small talk, or an answer."""
    lang = dialogue.query.lang
    if (talk := detect_talk(text)) and not await is_introduced(text, data.viewer, data.rag.archive):
        known = await channels.load_channels(data.rag.archive)
        return str(render_talk(talk, lang, known.values()).as_kwargs()["text"])
    return await answer_or_refuse(Question(text, lang, dialogue.asked_at, data.viewer, chat), data.rag)


async def judge_talk(dialogue: Dialogue, chat: int, data: IndexedDataset) -> JudgedTalk:
    """Judge a reply to small talk: no search, at most two lines, the reader's language; a question is answered."""
    reply, query = await _ask_turn(dialogue.turns[-1], dialogue, chat, data), dialogue.query
    if isinstance(reply, Answer):
        handled = dialogue.search and judge_answer(query, reply, [], 0.0).shown_right
    else:
        lines = [line for line in reply.splitlines() if line.strip()]
        in_language = detect_language(reply) == query.lang
        handled = not dialogue.search and 0 < len(lines) <= _MAX_TALK_LINES and in_language
    return JudgedTalk(query.id, query.lang, dialogue.search, handled)


async def judge_followup(dialogue: Dialogue, chat: int, data: IndexedDataset) -> JudgedFollowup:
    """Judge the last turn of a dialogue: its reading, and the answer beside that to `expect` asked alone."""
    query = dialogue.query
    for text in dialogue.turns[:-1]:
        await _ask_turn(text, dialogue, chat, data)
    answer = await _ask_turn(dialogue.turns[-1], dialogue, chat, data)
    alone = await answer_query(query, data)
    if not isinstance(answer, Answer):  # a question that was taken for small talk
        answer = Answer((), 0.0, "talk")
    judged = judge_answer(query, answer, [], 0.0)
    reading = answer.understood or strip_courtesies(dialogue.turns[-1])
    found = (await search_query(replace(query, text=reading), data)).hits[:_FIRST_HITS] if query.relevant else ()
    return JudgedFollowup(
        query.id, query.lang, query.answerable, reading, answer.refused, judged.first_right, judged.shown_right,
        alone.shown_right, any(found) or _asks_the_same(reading, dialogue, data),
    )  # fmt: skip


def _asks_the_same(reading: str, dialogue: Dialogue, data: IndexedDataset) -> bool:
    """Whether a reading has the content terms and the filters of what was expected."""
    expected, lang = dialogue.query.text, dialogue.query.lang
    plans = [plan_by_rules(Question(text, lang, dialogue.asked_at, data.viewer)) for text in (reading, expected)]
    filters = [(p.since, p.until, p.channels, p.authors, p.origins, p.media, p.files) for p in plans]
    return set(tokenize(expected)) <= set(tokenize(reading)) and filters[0] == filters[1]


def compute_talk_metrics(rows: Sequence[JudgedTalk]) -> Metrics:
    """Compute the share of rows that were handled: all, those of small talk, and questions behind a greeting."""
    return {
        "handled": compute_mean([row.handled for row in rows]),
        "talk_handled": compute_mean([row.handled for row in rows if not row.search]),
        "question_answered": compute_mean([row.handled for row in rows if row.search]),
    }


def compute_followup_metrics(rows: Sequence[JudgedFollowup]) -> Metrics:
    """Compute the shares of follow-ups understood (of all), answered right (of the answerable), and refused."""
    answerable = [row for row in rows if row.answerable]
    return {
        "understood": compute_mean([row.understood for row in rows]),
        "first_right": compute_mean([row.first_right for row in answerable]),
        "shown_right": compute_mean([row.shown_right for row in answerable]),
        "alone_shown_right": compute_mean([row.alone_right for row in answerable]),
        "abstained": compute_mean([row.refused for row in answerable]),
        "refused": compute_mean([row.refused for row in rows if not row.answerable]),
    }
