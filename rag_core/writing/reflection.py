"""Reflection: a model scores a draft against question and evidence, and the draft is rewritten once at most.

It is used only in chats with a careful mode. The first draft stays where the second one has less support.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_core.context.evidence import fit_excerpts, order_for_prompt
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, LlmSession, Prompt
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.types import Draft, Evidence, Question
from rag_core.verification.support import MIN_SUPPORT, measure_support
from rag_core.writing.grammar import LETTERS
from rag_core.writing.prompt_loading import escape_prompt_text, load_prompt, quote_question
from rag_core.writing.reply_parsing import parse_json_object
from rag_core.writing.write import write_draft

_MAX_SCORE, _GOOD_SCORE = 10, 8  # a draft with a good score is not rewritten
_MAX_MISSING_LENGTH = 120  # characters
_REPLY_TOKENS, _SPARE_TOKENS, _MIN_EVIDENCE_TOKENS = 160, 64, 96
_CONFIDENCE_FLOOR = 0.7  # share of a draft's confidence kept at score 0: judging models are often wrong
_JUDGEMENT_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": _MAX_SCORE},
        "missing": {"type": "string", "maxLength": _MAX_MISSING_LENGTH},
        "unsupported": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["score", "missing", "unsupported"],
    "additionalProperties": False,
}
JUDGEMENT_GRAMMAR = rf"""root ::= "{{\"score\": " score ", \"missing\": \"" missing "\", \"unsupported\": " numbers "}}"
missing ::= char{{0,{_MAX_MISSING_LENGTH}}}
score ::= [0-9] | "10"
char ::= [{LETTERS}]
numbers ::= "[]" | "[" [1-9] (", " [1-9]){{0,4}} "]"
"""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A model's judgement of a draft.

    `score` is 0..10, `missing` says what the answer lacks, `unsupported` holds the numbers (from 1) of sentences that
    the posts do not state.
    """

    score: int
    missing: str = ""
    unsupported: tuple[int, ...] = ()

    @property
    def content(self) -> bool:
        """Check whether the draft needs no rewriting."""
        return self.score >= _GOOD_SCORE and not self.unsupported


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
    confident = replace(
        draft, covered=draft.covered * (_CONFIDENCE_FLOOR + (1 - _CONFIDENCE_FLOOR) * judged.score / _MAX_SCORE)
    )
    if judged.content:
        return confident
    again = await _rewrite_draft(question, confident, judged, evidence, rag, run)
    # the rule check takes milliseconds per post: keep it off the event loop
    better = bool(again.sentences) and await asyncio.to_thread(
        lambda: measure_draft_support(again, evidence) >= measure_draft_support(draft, evidence)
    )
    return replace(again, covered=confident.covered) if better else confident


async def _rewrite_draft(
    question: Question, draft: Draft, judged: Judgement, evidence: Evidence, rag: Engine, run: Run
) -> Draft:
    """Write the answer again, asking for what is missing; its sentences are not streamed before it is chosen."""
    extended_question = question
    if judged.missing:
        extended_question = replace(
            question, text=load_prompt("reflect", question.lang).parts["again"].format(question.text, judged.missing)
        )
    shown, run.on_sentence = run.on_sentence, None
    before = list(run.shortfalls)
    try:
        return await run.attempt(Stage.WRITE, write_draft(extended_question, evidence, rag, run), Draft())
    finally:
        run.on_sentence = shown
        run.shortfalls[:] = before  # shortfalls of a draft that may never be shown do not matter


async def _request_judgement(
    question: Question, draft: Draft, evidence: Evidence, model: LanguageModel, run: Run
) -> Judgement | None:
    """Ask the model for a judgement. Call it inside a stage. Raises GenerationFailed."""
    template = load_prompt("reflect", question.lang)
    lines = "\n".join(f"{n}. {escape_prompt_text(sentence.text)}" for n, sentence in enumerate(draft.sentences, 1))
    request = f"{quote_question(question.text)}\n<draft>\n{lines}\n</draft>"

    async def build_prompt(seat: LlmSession) -> Prompt:
        """Put the posts that fit before the question and the draft with numbered sentences."""
        used = sum(await seat.count([template.system, request, *(text for shot in template.shots for text in shot)]))
        left = model.context - used - _REPLY_TOKENS - _SPARE_TOKENS
        excerpts = await fit_excerpts(evidence, question.text, left, seat) if left >= _MIN_EVIDENCE_TOKENS else []
        posts = "\n".join(excerpt.quoted for excerpt in order_for_prompt(excerpts))
        return Prompt(template.system, f"{posts}\n{request}", template.shots)

    decoding, schema = DecodingParams(_REPLY_TOKENS, 0.0), _JUDGEMENT_SCHEMA
    reply = await run.ask_model(
        model, question.viewer.user_id, build_prompt, decoding, grammar=JUDGEMENT_GRAMMAR, schema=schema
    )
    judged = parse_judgement(reply, len(draft.sentences))
    if judged is None:
        raise GenerationFailed("The model's judgement of the answer could not be read: the answer is as it was.")
    run.note(score=judged.score, unsupported=len(judged.unsupported))
    return judged


def parse_judgement(text: str, sentences: int) -> Judgement | None:
    """Parse a judgement from a model's reply, ignoring text around the JSON; None if it has no valid score."""
    reply = parse_json_object(text)
    if reply is None:
        return None
    score, missing, unsupported = reply.get("score"), reply.get("missing"), reply.get("unsupported")
    if isinstance(score, bool) or not isinstance(score, int) or not 0 <= score <= _MAX_SCORE:
        return None
    numbers = (
        [n for n in unsupported if isinstance(n, int) and 1 <= n <= sentences] if isinstance(unsupported, list) else []
    )
    lacks = escape_prompt_text(missing)[:_MAX_MISSING_LENGTH] if isinstance(missing, str) else ""
    return Judgement(score, lacks, tuple(dict.fromkeys(numbers)))
