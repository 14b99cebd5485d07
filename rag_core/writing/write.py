"""Answer generation: a model writes sentences, each checked against its posts before it is shown; and headings.

The posts are data between markers that they cannot forge. A sentence counts only after it is parsed, cleaned, supported
and cited.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.evidence import PromptBudget, build_prompt_budget, check_citations, fit_excerpts, join_excerpts
from rag_core.llm.protocol import DecodingParams, FinishReason, Generation, LanguageModel, LlmSession, Prompt
from rag_core.run import LlmCosts, Run, Stage
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.text.tokens import detect_language
from rag_core.types import Draft, DroppedSentence, DropReason, Evidence, Passage, Post, Question, Sentence, Source
from rag_core.verification.support import MIN_SUPPORT, attribute_sentence, explain_drop, measure_support
from rag_core.writing import prompts
from rag_core.writing.prompts import load_prompt


async def write_draft(
    question: Question, evidence: Evidence, rag: Engine, run: Run, shown: Evidence | None = None
) -> Draft:
    """Write an answer from the evidence; a draft without sentences means that the posts do not answer.

    `shown` replaces the evidence in the prompt, with the same source numbers; the result is checked against
    `evidence` all the same. Each kept sentence is passed to `run.on_sentence` at once. Call it inside a stage. Raises
    GenerationFailed if no written sentence is kept, StageTimeout, ArchiveUnavailable.
    """
    if (model := rag.writer) is None:
        raise GenerationFailed("There is no model to write with: set LLM__MODEL.")
    state = _WritingState(question, rag, run, {source.number: source for source in evidence.sources})
    try:
        async with run.open_session(model, question.viewer.user_id) as seat:
            state.costs.begin()
            budget = await build_prompt_budget(question, shown or evidence, model, rag.settings.llm, seat)
            await _write_answer(budget, seat, state)
    finally:
        reasons = Counter(f"left_out_{one.reason}" for one in state.dropped)
        run.note(**state.costs.to_counts(), sentences=len(state.kept), left_out=len(state.dropped), **reasons)
        run.dropped += state.dropped
        lines = [f"kept: {one.text}" for one in state.kept] + [f"{one.reason}: {one.text}" for one in state.dropped]
        run.show("write", lines or [state.refusal] * state.refused)
    if not state.kept and not state.refused:
        raise GenerationFailed("The model wrote no sentence that the posts say: try another model with LLM__MODEL.")
    return Draft(tuple(state.kept), model=model.name, doubted=tuple(one.text for one in state.dropped if one.text))


@dataclass
class _WritingState:
    """State of an answer while it is written. Mutable: sentences are kept or dropped one by one."""

    question: Question
    rag: Engine
    run: Run
    sources: dict[int, Source]
    costs: LlmCosts = field(default_factory=LlmCosts)
    kept: list[Sentence] = field(default_factory=list)
    dropped: list[DroppedSentence] = field(default_factory=list)
    refused: bool = False
    full: bool = False

    async def line(self, line: str, *, cut: bool = False) -> None:
        """Keep the supported sentences of a line."""
        if prompts.equals_phrase(line, self.refusal):
            self.refused = True
            return
        for written in prompts.parse_answer_line(line, self.sources):
            text, sources = written.text, [self.sources[number] for number in written.numbers]
            # the rule check takes milliseconds per post: keep it off the event loop
            sentence = await asyncio.to_thread(attribute_sentence, text, sources) if text else None
            reason = DropReason.CHANGED if sentence else await asyncio.to_thread(explain_drop, text, sources)
            if sentence:  # and its posts are unchanged in the archive
                kept = await check_citations(Draft((sentence,)), self.question.viewer, self.rag)
                sentence = next(iter(kept), None)
            if sentence is None:
                if written.numbers or not cut:
                    posts = tuple(source.passage.key for source in sources)
                    self.dropped.append(DroppedSentence(text, reason, posts))
            elif sum(len(one.text) for one in (*self.kept, sentence)) > MAX_ANSWER_LENGTH:
                self.full = True
            elif all(sentence.text != one.text for one in self.kept):
                self.kept.append(sentence)
                self.costs.note_first_sentence()
                if self.run.on_sentence:
                    self.run.on_sentence(sentence)

    @property
    def refusal(self) -> str:
        """Fixed phrase for "the posts do not say"."""
        return load_prompt("write", self.question.lang).parts["refusal"]


async def _write_answer(budget: PromptBudget, seat: LlmSession, state: _WritingState) -> None:
    numbers = [excerpt.source.number for excerpt in budget.excerpts]
    state.sources = {number: state.sources[number] for number in numbers}
    grammar = prompts.build_answer_grammar(numbers, state.refusal, budget.sentences, budget.characters)
    llm = state.rag.settings.llm
    decoding = DecodingParams(budget.tokens, temperature=llm.temperature, top_p=llm.top_p, seed=llm.seed)
    lines = prompts.LineSplitter()
    state.costs.calls += 1
    async with aclosing(
        cast(AsyncGenerator[str | Generation, None], seat.stream(budget.prompt, decoding, grammar=grammar))
    ) as stream:
        async for piece in stream:
            if isinstance(piece, Generation):
                state.costs.figures.append(piece.figures)
                await state.line(lines.end(), cut=piece.finish is FinishReason.LENGTH)
                return
            for line in lines.feed(piece):
                await state.line(line)
            if state.full:
                return


_MAX_HEADING_POSTS, _MAX_HEADING_POST_LENGTH = 4, 600
_MAX_HEADING_LENGTH, _MAX_HEADING_TOKENS = 90, 40


async def write_heading(found: Sequence[Post], viewer_id: int, rag: Engine) -> str:
    """Write a heading that posts about one subject support; "" where no model is idle, or it fails or says else."""
    model = rag.writer
    if model is None or model.waiting:  # readers' questions go first
        return ""
    run, template = Run(rag.budgets, "digest"), load_prompt("heading", detect_language(found[0].text))
    texts = (post.text[:_MAX_HEADING_POST_LENGTH] for post in found[:_MAX_HEADING_POSTS])
    shown = "\n".join(map(prompts.quote_post, texts))
    prompt = Prompt(template.system, shown, template.shots)
    decoding, grammar = DecodingParams(_MAX_HEADING_TOKENS, 0.0), prompts.build_paragraph_grammar(_MAX_HEADING_LENGTH)
    asking = run.ask_model(model, viewer_id, prompt, decoding, grammar=grammar)
    reply = await run.attempt(Stage.WRITE, asking, "")
    said = " ".join(prompts.clean_reply(reply).split())[:_MAX_HEADING_LENGTH].rstrip(" .")
    passages = [Passage(post.key, 0, "", post.text, 0, len(post.text), post.date) for post in found]
    support = await asyncio.to_thread(measure_support, said, passages)
    return said if support >= rag.settings.verify.threshold else ""


_MAX_SCORE, _GOOD_SCORE = 10, 8  # a draft with a good score is not rewritten
_MAX_MISSING_LENGTH = 120  # characters
_REPLY_TOKENS, _SPARE_TOKENS, _MIN_EVIDENCE_TOKENS = 160, 64, 96
_CONFIDENCE_FLOOR = 0.7  # share of a draft's confidence kept at score 0: judging models are often wrong
JUDGEMENT_GRAMMAR = rf"""root ::= "{{\"score\": " score ", \"missing\": \"" missing "\", \"unsupported\": " numbers "}}"
missing ::= char{{0,{_MAX_MISSING_LENGTH}}}
score ::= [0-9] | "10"
char ::= [{prompts.LETTERS}]
numbers ::= "[]" | "[" [1-9] (", " [1-9]){{0,4}} "]"
"""


class Judgement(BaseModel):
    """A model's judgement of a draft.

    `missing` says what the answer lacks, `unsupported` holds the numbers (from 1) of sentences that the posts do not
    state.
    """

    model_config = ConfigDict(strict=True, extra="ignore")

    score: int = Field(ge=0, le=_MAX_SCORE)
    missing: str = ""
    unsupported: list[int] = Field(default_factory=list)


def measure_draft_support(draft: Draft, evidence: Evidence) -> float:
    """Mean support of a draft's sentences by the posts they cite, 0..1; a sentence below MIN_SUPPORT counts as 0."""
    scores = []
    for sentence in draft.sentences:
        cited = {citation.post for citation in sentence.citations}
        scores.append(measure_support(sentence.text, [s.passage for s in evidence.sources if s.passage.key in cited]))
    return sum(score for score in scores if score >= MIN_SUPPORT) / len(scores) if scores else 0.0


async def reflect_on_draft(question: Question, draft: Draft, evidence: Evidence, rag: Engine, run: Run) -> Draft:
    """Judge a draft and rewrite it once if needed; return the better draft, with the score in its confidence.

    A draft without sentences, and any draft if there is no model, is returned unchanged. So is a draft that no model
    wrote (quotes, counts): it holds nothing made up.
    """
    model = rag.writer
    if model is None or not draft.sentences or draft.model is None:
        return draft
    judged = await run.attempt(Stage.REFLECT, _request_judgement(question, draft, evidence, model, run), None)
    if judged is None:
        return draft
    factor = _CONFIDENCE_FLOOR + (1 - _CONFIDENCE_FLOOR) * judged.score / _MAX_SCORE
    confident = replace(draft, likely=draft.likely * factor)
    if judged.score >= _GOOD_SCORE and not judged.unsupported:
        return confident
    extended = question
    if judged.missing:
        again_text = load_prompt("reflect", question.lang).parts["again"]
        extended = replace(question, text=again_text.format(question.text, judged.missing))
    # written again, its sentences are not streamed before it is chosen
    shown, run.on_sentence = run.on_sentence, None
    before = list(run.shortfalls)
    try:
        again = await run.attempt(Stage.WRITE, write_draft(extended, evidence, rag, run), Draft())
    finally:
        run.on_sentence = shown
        run.shortfalls[:] = before  # shortfalls of a draft that may never be shown do not matter
    # the rule check takes milliseconds per post: keep it off the event loop
    better = bool(again.sentences) and await asyncio.to_thread(
        lambda: measure_draft_support(again, evidence) >= measure_draft_support(draft, evidence)
    )
    return replace(again, likely=confident.likely) if better else confident


async def _request_judgement(
    question: Question, draft: Draft, evidence: Evidence, model: LanguageModel, run: Run
) -> Judgement | None:
    """Ask the model for a judgement. Call it inside a stage. Raises GenerationFailed."""
    template = load_prompt("reflect", question.lang)
    said = (prompts.escape_prompt_text(sentence.text) for sentence in draft.sentences)
    lines = "\n".join(f"{n}. {text}" for n, text in enumerate(said, 1))
    request = f"{prompts.quote_question(question.text)}\n<draft>\n{lines}\n</draft>"

    async def build_prompt(seat: LlmSession) -> Prompt:
        """Put the posts that fit before the question and the draft with numbered sentences."""
        used = sum(await seat.count([template.system, request, *(text for shot in template.shots for text in shot)]))
        left = model.context - used - _REPLY_TOKENS - _SPARE_TOKENS
        excerpts = await fit_excerpts(evidence, question.text, left, seat) if left >= _MIN_EVIDENCE_TOKENS else []
        return Prompt(template.system, f"{join_excerpts(excerpts)}\n{request}", template.shots)

    decoding, schema = DecodingParams(_REPLY_TOKENS, 0.0), Judgement.model_json_schema()
    reply = await run.ask_model(
        model, question.viewer.user_id, build_prompt, decoding, grammar=JUDGEMENT_GRAMMAR, schema=schema
    )
    judged = parse_judgement(reply, len(draft.sentences))
    if judged is None:
        raise GenerationFailed("The model's judgement of the answer could not be read: the answer is as it was.")
    run.note(score=judged.score, unsupported=len(judged.unsupported))
    return judged


def parse_judgement(text: str, sentences: int) -> Judgement | None:
    """Parse a judgement of a draft of `sentences` sentences, ignoring text around the JSON; None if it is not valid."""
    try:
        judged = Judgement.model_validate(prompts.parse_json_object(text))
    except ValidationError:
        return None
    there = sorted({n for n in judged.unsupported if 1 <= n <= sentences})
    missing = prompts.escape_prompt_text(judged.missing)[:_MAX_MISSING_LENGTH]
    return judged.model_copy(update={"missing": missing, "unsupported": there})
