"""Measures: questions are searched, answered, talked about, planned or judged, and claims verified.

Small talk and follow-ups are asked turn by turn as a reader in a private chat asks them. Verdicts are measured on pairs
of claim and evidence, and on claims looked up in a corpus, beside two baselines.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from bot.data_folder import iterate_with_progress_bar
from bot.evaluation import metrics
from bot.evaluation.data import ClaimRow, Dialogue, EvaluationQuery, IndexedDataset, Variant, open_variant, read_corpus
from bot.evaluation.judging import holds_answer
from bot.evaluation.metrics import JudgedAnswer, Metrics, RankedQuery, compute_mean, compute_percentile, judge_answer
from rag_core.answer import answer_question, choose_recipe
from rag_core.calibration import Calibration
from rag_core.conversation.small_talk import detect_talk, strip_courtesies
from rag_core.engine import Engine
from rag_core.errors import ImportRefused, StageTimeout
from rag_core.llm.protocol import FinishReason, Generation, LanguageModel, LlmSession
from rag_core.planning import llm_planner
from rag_core.planning.llm_planner import KnownEntities
from rag_core.planning.plan import make_plan, plan_by_rules
from rag_core.planning.queries import MIN_QUERIES
from rag_core.recipe_steps import search_and_extract
from rag_core.recipes.agent import search_in_rounds
from rag_core.retrieval.channel_answers import is_introduced
from rag_core.retrieval.search import rerank_hits, search_passages
from rag_core.run import Budgets, Run, Stage
from rag_core.settings import RagSettings
from rag_core.storage import channels
from rag_core.storage.visible_posts import fetch_posts
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import AUTO_RECIPE, Answer, Passage, Plan, PostKey, Question, Shortfall
from rag_core.verification import Claim, Label, Verdict
from rag_core.verification.comparison import measure_covered_share
from rag_core.verification.facts import Vocabulary, extract_facts, split_words
from rag_core.verification.judge import ask_yes_no_odds, build_judge_prompts
from rag_core.verification.stance import assess_by_words
from rag_core.verification.verify import plan_claim_search, retrieve_claim_passages, verify_claim

R = TypeVar("R")


def build_question(query: EvaluationQuery, data: IndexedDataset) -> Question:
    """Build the question of a reader who may read all channels, asked when the row says."""
    return Question(query.text, query.lang, query.asked_at or datetime.now(UTC), data.viewer)


async def search_query(query: EvaluationQuery, data: IndexedDataset) -> RankedQuery:
    """Run plan, search and reranker for one question, and judge the ranking that the writer would get.

    With the recipe `agent` that is the evidence after all of its rounds.
    """
    question, rag = build_question(query, data), data.rag
    started = time.perf_counter()
    run, plan = Run(rag.budgets, "search"), Plan(())
    try:
        plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
        if (await run.require(Stage.CHOOSE, choose_recipe(question, plan, rag, run))).recipe == "agent":
            hits = await search_in_rounds(question, plan, rag, run)
        else:
            hits = await search_passages(plan, question, rag, run)
        hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    except StageTimeout:
        hits = ()
    took = (time.perf_counter() - started) * 1000
    ids = dict.fromkeys(data.id_of(hit.passage.key) for hit in hits)
    relevant = await fetch_posts(rag.archive, [key for key, name in data.dataset.ids.items() if name in query.relevant])
    across = query.lang not in {detect_language(post.text) for post in relevant.values()}
    ranked = tuple(name in query.relevant for name in ids)
    return RankedQuery(query.lang, ranked, len(query.relevant), took, across, len(plan.queries))


async def answer_or_refuse(question: Question, rag: Engine) -> Answer:
    """Answer a question; where a stage that it needs ran out of time, an empty answer, which counts as a refusal."""
    try:
        return await answer_question(question, rag)
    except StageTimeout as exc:
        return Answer((), 0.0, AUTO_RECIPE, shortfalls=(Shortfall(Stage.SEARCH, exc.reason),))


async def answer_query(query: EvaluationQuery, data: IndexedDataset) -> JudgedAnswer:
    """Answer one question with `answer_question`, and judge the answer."""
    started = time.perf_counter()
    reply = await answer_or_refuse(build_question(query, data), data.rag)
    took = (time.perf_counter() - started) * 1000
    return replace(
        judge_answer(query, reply, [data.id_of(key) for key in reply.posts()], took, data.run),
        fell_back=data.rag.recipe not in {reply.recipe, AUTO_RECIPE},
    )


async def run_interleaved(
    queries: Sequence[EvaluationQuery],
    ask: Callable[[EvaluationQuery, IndexedDataset], Awaitable[R]],
    ways: Mapping[str, IndexedDataset],
) -> dict[str, list[R]]:
    """Ask every question in each variant, interleaved; each variant comes first equally often.

    Other load on the machine, and caches warmed by the previous variant, then affect all alike.
    """
    names, rows = list(ways), {name: list[R]() for name in ways}
    for n, query in enumerate(iterate_with_progress_bar(queries, "ask")):
        first = n % len(names)
        for name in (*names[first:], *names[:first]):
            rows[name].append(await ask(query, ways[name]))
    return rows


_MAX_TALK_LINES = 2
_FIRST_HITS = 5  # among which a relevant post shows that the follow-up was understood


class JudgedTalk(NamedTuple):
    """A text of small talk, or a question behind a greeting, and whether it was handled."""

    id: str
    lang: str
    search: bool
    handled: bool


class JudgedFollowup(NamedTuple):
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


async def run_dialogues(
    dialogues: Sequence[Dialogue],
    judge: Callable[[Dialogue, int, IndexedDataset], Awaitable[R]],
    settings: RagSettings,
    variant: Variant,
) -> list[R]:
    """Run each dialogue in a chat of its own, over its corpus; each corpus is indexed once. Raises ImportRefused."""
    judged: dict[int, R] = {}
    for corpus in dict.fromkeys(dialogue.corpus for dialogue in dialogues):
        async with open_variant(read_corpus(corpus), settings, variant) as data:
            of_corpus = [(n, one) for n, one in enumerate(dialogues, 1) if one.corpus == corpus]
            for n, dialogue in iterate_with_progress_bar(of_corpus, "ask"):
                judged[n] = await judge(dialogue, n, data)
    if not judged:
        raise ImportRefused("There is no row to measure: name a file with rows.")
    return [judged[n] for n in sorted(judged)]


async def _ask_turn(text: str, dialogue: Dialogue, chat: int, data: IndexedDataset) -> Answer | str:
    """Answer a turn as the bot does: a reply to small talk, or an answer."""
    if (talk := detect_talk(text)) and not await is_introduced(text, data.viewer, data.rag.archive):
        from bot.handlers.questions import render_talk  # here: aiogram takes seconds to load

        known = await channels.load_channels(data.rag.archive)
        return str(render_talk(talk, dialogue.query.lang, known.values()).as_kwargs()["text"])
    return await answer_or_refuse(replace(build_question(dialogue.query, data), text=text, chat=chat), data.rag)


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
    for text in dialogue.turns:
        answer = await _ask_turn(text, dialogue, chat, data)
    alone = await answer_query(query, data)
    if not isinstance(answer, Answer):  # a question that was taken for small talk
        answer = Answer((), 0.0, "talk")
    judged = judge_answer(query, answer, [], 0.0)
    reading = answer.understood or strip_courtesies(dialogue.turns[-1])
    found = (await search_query(replace(query, text=reading), data)).hits[:_FIRST_HITS] if query.relevant else ()
    # a reading that has the content terms and the filters of what was expected asks the same
    asked = [replace(build_question(query, data), text=text) for text in (reading, query.text)]
    filters = [
        (p.since, p.until, p.channels, p.authors, p.origins, p.media, p.files) for p in map(plan_by_rules, asked)
    ]
    same = set(tokenize(query.text)) <= set(tokenize(reading)) and filters[0] == filters[1]
    return JudgedFollowup(
        query.id, query.lang, query.answerable, reading, answer.refused, judged.first_right, judged.shown_right,
        alone.shown_right, any(found) or same,
    )  # fmt: skip


def compute_talk_metrics(rows: Sequence[JudgedTalk]) -> Metrics:
    """Compute the share of rows that were handled: all, those of small talk, and questions behind a greeting."""
    return {
        "handled": compute_mean(row.handled for row in rows),
        "talk_handled": compute_mean(row.handled for row in rows if not row.search),
        "question_answered": compute_mean(row.handled for row in rows if row.search),
    }


def compute_followup_metrics(rows: Sequence[JudgedFollowup]) -> Metrics:
    """Compute the shares of follow-ups understood (of all), answered right (of the answerable), and refused."""
    answerable = [row for row in rows if row.answerable]
    return {
        "understood": compute_mean(row.understood for row in rows),
        "first_right": compute_mean(row.first_right for row in answerable),
        "shown_right": compute_mean(row.shown_right for row in answerable),
        "alone_shown_right": compute_mean(row.alone_right for row in answerable),
        "abstained": compute_mean(row.refused for row in answerable),
        "refused": compute_mean(row.refused for row in rows if not row.answerable),
    }


class JudgedSentence(NamedTuple):
    """First sentence of a question's extract: whether it answers, the extract's confidence and the model's log odds."""

    lang: str
    right: bool
    confidence: float
    odds: float
    seconds: float


async def judge_first_sentence(
    query: EvaluationQuery, data: IndexedDataset, model: LanguageModel
) -> JudgedSentence | None:
    """Judge the first sentence found for a question; None where nothing is found. Raises GenerationFailed."""
    question = build_question(query, data)
    rag = replace(data.rag, writer=model, planner=None, calibration=Calibration().without_bars())
    run = Run(rag.budgets, "judge")
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run, by_model=False))
    draft = (await search_and_extract(question, plan, rag, run)).draft
    if not draft.candidates:
        return None
    (prompt,) = await build_judge_prompts(question, draft.candidates[:1], rag)
    async with model.turn(question.viewer.user_id) as session:
        started = time.perf_counter()
        odds = await ask_yes_no_odds(prompt, session)
    right = query.answerable and holds_answer(draft.candidates[0].citations[0].quote, query.answers)
    return JudgedSentence(query.lang, right, draft.likely, odds, time.perf_counter() - started)


def compute_judge_metrics(rows: Sequence[JudgedSentence]) -> Metrics:
    """AUC, right against the others, of the model's log odds and of the confidence; seconds of a judgement."""
    right = np.array([row.right for row in rows], bool)
    return {
        "auc": compute_auc([row.odds for row in rows], right),
        "confidence_auc": compute_auc([row.confidence for row in rows], right),
        "seconds": compute_mean((row.seconds for row in rows), 3),
        "right": compute_mean(row.right for row in rows),
    }


def compute_auc(scores: Sequence[float], right: Sequence[bool] | np.ndarray) -> float | None:
    """Share of pairs of a right and another row in which the right one scores higher; None without such pairs."""
    values, marks = np.array(scores), np.array(right, bool)
    if marks.all() or not marks.any():
        return None
    better = values[marks][:, None] - values[~marks][None]
    return round(float(((better > 0) + 0.5 * (better == 0)).mean()), 4)


class PlanRow(NamedTuple):
    """One question and the plan made for it. `reply` is None if the model did not answer in time.

    The reply `ended` by itself, within its max_tokens; it is `valid` if it is strict JSON too, a plan, and keeps enough
    queries after the rules; `usable` if at least one query of the model is complete.
    """

    lang: str
    reply: Generation | None
    ended: bool
    valid: bool
    usable: bool
    calls: int
    queries: int
    shortfalls: int
    took_ms: float


class ReplyRecorder:
    """Language model that keeps the finished replies of another one in `replies`; also the session of a turn."""

    def __init__(self, model: LanguageModel | LlmSession, replies: list[Generation] | None = None) -> None:
        self._model, self.replies = model, list[Generation]() if replies is None else replies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @asynccontextmanager
    async def turn(self, *given: Any) -> AsyncIterator[ReplyRecorder]:
        """Take a turn."""
        async with self.__getattr__("turn")(*given) as session:
            yield ReplyRecorder(session, self.replies)

    async def stream(self, *given: Any, **options: Any) -> AsyncIterator[str | Generation]:
        """Stream a reply, and keep it."""
        async for piece in self.__getattr__("stream")(*given, **options):
            if isinstance(piece, Generation):
                self.replies.append(piece)
            yield piece


async def measure_plan(
    question: Question, around: KnownEntities, planner: LanguageModel, budgets: Budgets
) -> PlanRow | None:
    """Plan one question by rules and model; None if there is nothing to plan."""
    by_rules = plan_by_rules(question)
    if not by_rules.queries:
        return None
    run, model, started = Run(budgets, "plans"), ReplyRecorder(planner), time.perf_counter()
    plan = await llm_planner.plan_by_model(question, by_rules, around, cast(LanguageModel, model), run)
    took, replies = (time.perf_counter() - started) * 1000, model.replies
    reply = replies[0] if replies else None
    ended = reply is not None and reply.finish is FinishReason.STOP
    strict = llm_planner.parse_strictly(reply.text) if reply and ended else None
    return PlanRow(
        lang=question.lang,
        reply=reply,
        ended=ended,
        valid=strict is not None and len(plan.queries) >= MIN_QUERIES,
        usable=reply is not None and bool(llm_planner.parse_proposal(reply.text).queries),
        calls=len(replies),
        queries=len(plan.queries),
        shortfalls=len(run.shortfalls),
        took_ms=sum(reply.figures.took_ms for reply in replies) or took,
    )


def compute_plan_metrics(rows: Sequence[PlanRow]) -> Metrics:
    """Compute the metrics of plans; those of the model's work cover the replies that it finished."""
    replies = [row.reply.figures for row in rows if row.reply]
    seconds = sum(figures.took_ms - figures.first_ms for figures in replies) / 1000
    took = [row.took_ms for row in rows]
    return {
        "valid": compute_mean(row.valid for row in rows),
        "ended": compute_mean(row.ended for row in rows),
        "usable": compute_mean(row.usable for row in rows),
        "mean_queries": compute_mean((row.queries for row in rows), 3),
        "rewritten": compute_mean(row.calls > 1 for row in rows),
        "shortfalls": compute_mean(row.shortfalls > 0 for row in rows),
        "calls": compute_mean((row.calls for row in rows), 3),
        "tokens": compute_mean((figures.tokens for figures in replies), 1),
        "tokens_per_s": round(sum(figures.tokens for figures in replies) / seconds, 1) if seconds > 0 else None,
        "latency_ms_p50": compute_percentile(took, 50, 1),
        "latency_ms_p95": compute_percentile(took, 95, 1),
    }


VERIFICATION_LAYERS = ("majority", "coverage", "all")
_COVERAGE_BAR = 0.5  # of the baseline: share of a claim's words that its evidence has
# With these traps a post says something close to a claim on which there is not enough: to support it is the opposite.
_TEMPTING_TRAPS = frozenset({"plan", "rumour", "other_thing"})


class JudgedClaim(NamedTuple):
    """One claim: its gold label, the label by each layer, and the share of its evidence in the first five hits."""

    lang: str
    gold: str
    said: dict[str, str]
    group: str
    found: float | None = None
    trap: str = ""

    def is_opposite(self, layer: str) -> bool:
        """Check whether the label says the opposite of the truth: a wrong answer that a reader would print."""
        pair = self.gold, self.said[layer]
        return pair in {("contradicted", "supported"), ("supported", "contradicted")} or (
            pair == ("not_found", "supported") and self.trap in _TEMPTING_TRAPS
        )


def compute_label_metrics(rows: Sequence[JudgedClaim], layer: str) -> Metrics:
    """Compute accuracy, mean recall over the occurring classes, with its 95 % interval, by group.

    `opposite` is the share of labels that say the opposite; with traps, accuracy and opposite by trap stand after them.
    """
    balanced, low, high = _compute_balanced_accuracy(rows, layer) if rows else (None, None, None)
    found: Metrics = {
        "accuracy": compute_mean(row.gold == row.said[layer] for row in rows),
        "opposite": compute_mean(row.is_opposite(layer) for row in rows),
        "balanced_accuracy": balanced,
        "balanced_accuracy_low": low,
        "balanced_accuracy_high": high,
        "evidence_recall@5": compute_mean(row.found for row in rows if row.found is not None),
    }
    for trap in sorted({row.trap for row in rows} - {""}):
        trapped = [row for row in rows if row.trap == trap]
        found[f"accuracy_{trap}"] = compute_mean(row.gold == row.said[layer] for row in trapped)
        found[f"opposite_{trap}"] = compute_mean(row.is_opposite(layer) for row in trapped)
    return found


def _compute_balanced_accuracy(rows: Sequence[JudgedClaim], layer: str) -> tuple[float, float, float]:
    """Mean recall, with its bootstrap interval over groups (Efron 1979): rows of one group are not independent."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for row in rows:
        groups.setdefault(row.group, []).append((row.gold, row.said[layer]))
    lists, draw = list(groups.values()), np.random.default_rng(0)
    drawn = [range(len(lists)), *draw.integers(len(lists), size=(metrics.BOOTSTRAP_DRAWS, len(lists)))]
    recalls = []
    for numbers in drawn:
        flags: dict[str, list[bool]] = {}
        for gold, label in (pair for n in numbers for pair in lists[n]):
            flags.setdefault(gold, []).append(label == gold)
        recalls.append(float(np.mean([np.mean(found) for found in flags.values()])))
    whole, (low, high) = recalls[0], np.percentile(recalls[1:], (2.5, 97.5))
    return round(whole, 4), round(float(low), 4), round(float(high), 4)


def judge_claim_pairs(rows: Sequence[ClaimRow]) -> list[JudgedClaim]:
    """Judge claims with given evidence. Where a language has but one label beside "supported", all others are that."""
    judged = []
    for lang in sorted({row.lang for row in rows}):
        in_language = [row for row in rows if row.lang == lang]
        golds = Counter(row.gold for row in in_language)
        others = golds.keys() - {"supported"}
        other = next(iter(others)) if "supported" in golds and len(others) == 1 else None
        for row in in_language:
            now = datetime.now(UTC)
            evidence = [Passage(PostKey(0, 0), 0, "", text, 0, len(text), now) for text in row.evidence]
            supports = assess_by_words(Claim(row.claim, row.lang), evidence)
            labels = {
                "coverage": _label_by_coverage(row, row.evidence),
                "all": _join_labels([support.label for support in supports]),
            }
            if other is not None:
                labels = {layer: label if label == "supported" else other for layer, label in labels.items()}
            majority = golds.most_common(1)[0][0]
            judged.append(JudgedClaim(row.lang, row.gold, {"majority": majority, **labels}, row.group))
    return judged


def _label_by_coverage(row: ClaimRow, texts: Sequence[str]) -> str:
    words = extract_facts(row.claim, row.lang).words
    shares = [measure_covered_share(words, Vocabulary(split_words(text))) for text in texts]
    return _join_labels([Label.SUPPORTED if share >= _COVERAGE_BAR else Label.NOT_FOUND for share in shares])


def _join_labels(labels: Sequence[Label]) -> str:
    if Label.SUPPORTED in labels:
        return "disputed" if Label.CONTRADICTED in labels else str(Label.SUPPORTED)
    return str(Label.CONTRADICTED if Label.CONTRADICTED in labels else Label.NOT_FOUND)


async def verify_in_corpus(rows: Sequence[ClaimRow], data: IndexedDataset) -> list[JudgedClaim]:
    """Verify claims against an indexed corpus as `/verify` does, in the order of the rows."""
    most = Counter(row.gold for row in rows).most_common(1)[0][0]
    judged = []
    for row in iterate_with_progress_bar(rows, "verify"):
        run = Run(data.rag.budgets, "verify")
        question = Question(row.claim, row.lang, row.asked_at or datetime.now(UTC), data.viewer)
        plan = replace(plan_claim_search(question), until=row.asked_at)
        claim = Claim(row.claim, row.lang, 0, len(row.claim))
        try:
            passages = await retrieve_claim_passages(question, plan, data.rag, run)
            verdict = await verify_claim(claim, question, plan, {}, data.rag, run)
        except StageTimeout:
            passages, verdict = (), Verdict(claim, Label.NOT_FOUND, 0.0)
        names = list(dict.fromkeys(data.id_of(p.key) for p in passages))[:5]
        recall = sum(name in row.relevant for name in names) / len(row.relevant) if row.relevant else None
        said = "disputed" if verdict.contested else str(verdict.label)
        labels = {
            "majority": most,
            "coverage": _label_by_coverage(row, [p.text for p in passages]),
            "all": row.gold if row.disputed and said == "disputed" else said,
        }
        judged.append(JudgedClaim(row.lang, row.gold, labels, row.group, recall, row.trap))
    return judged
