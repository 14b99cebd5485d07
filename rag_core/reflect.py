"""A second look at a draft: a model scores it against question and evidence, and it is written once more at most.

The first draft stays where the second is supported worse. Off unless a chat is careful.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rag_core.costs import Costs
from rag_core.doors.llm import Decoding, LanguageModel, Prompt, Seat, finished
from rag_core.errors import GenerationFailed
from rag_core.fitting import fitted, in_order
from rag_core.prompts import script
from rag_core.quoting import quoted_question, spoken
from rag_core.rag import Rag
from rag_core.replies import LETTERS, object_in
from rag_core.stage import Run
from rag_core.support import ENOUGH, supported
from rag_core.types import Draft, Evidence, Question, Sentence
from rag_core.write import write

__all__ = ["GRAMMAR", "Judgement", "borne_out", "judgement", "reflected"]

_BEST, _GOOD = 10, 8  # a score that is good is not written again
_MISSING = 120  # characters
_TOKENS, _SPARE, _LEAST = 160, 64, 96
_FLOOR = 0.7  # of a draft's confidence is left where the model scores it 0: models that score are often wrong
_UNREADABLE = "The model's judgement of the answer could not be read: the answer is as it was."
_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "score": {"type": "integer", "minimum": 0, "maximum": _BEST},
        "missing": {"type": "string", "maxLength": _MISSING},
        "unsupported": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["score", "missing", "unsupported"],
    "additionalProperties": False,
}
GRAMMAR = rf"""root ::= "{{\"score\": " score ", \"missing\": \"" missing "\", \"unsupported\": " numbers "}}"
missing ::= char{{0,{_MISSING}}}
score ::= [0-9] | "10"
char ::= [{LETTERS}]
numbers ::= "[]" | "[" [1-9] (", " [1-9]){{0,4}} "]"
"""
Worth = Callable[[Draft, Evidence], float]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Score 0..10, what the answer lacks, and the numbers (from 1) of sentences that the posts do not say."""

    score: int
    missing: str = ""
    unsupported: tuple[int, ...] = ()

    @property
    def content(self) -> bool:
        """Whether nothing is left to be done."""
        return self.score >= _GOOD and not self.unsupported


def borne_out(draft: Draft, evidence: Evidence) -> float:
    """The mean support of a draft's sentences by the posts they cite, 0..1; a sentence without support counts 0."""
    scores = [_support(sentence, evidence) for sentence in draft.sentences]
    return sum(score if score >= ENOUGH else 0.0 for score in scores) / len(scores) if scores else 0.0


def _support(sentence: Sentence, evidence: Evidence) -> float:
    cited = {citation.post for citation in sentence.citations}
    return supported(sentence.text, [s.passage for s in evidence.sources if s.passage.key in cited])


async def reflected(
    question: Question, draft: Draft, evidence: Evidence, rag: Rag, run: Run, worth: Worth = borne_out
) -> Draft:
    """The draft, or a better one, with the score in its confidence; as it is without a model, and without sentences.

    Drafts that are word for word or worked out are not looked at: there is nothing in them to be wrong.
    """
    model = rag.writer
    if model is None or not draft.sentences or draft.model is None:
        return draft
    judged = await run.attempt("reflect", _judged(question, draft, evidence, model, run), None)
    if judged is None:
        return draft
    confident = replace(draft, covered=draft.covered * (_FLOOR + (1 - _FLOOR) * judged.score / _BEST))
    if judged.content:
        return confident
    again = await _refined(question, confident, judged, evidence, rag, run)
    # rules over words take milliseconds for each post: not on the event loop
    better = bool(again.sentences) and await asyncio.to_thread(lambda: worth(again, evidence) >= worth(draft, evidence))
    return replace(again, covered=confident.covered) if better else confident


async def _refined(
    question: Question, draft: Draft, judged: Judgement, evidence: Evidence, rag: Rag, run: Run
) -> Draft:
    """The answer written once more, with what was missing said; nothing of it is shown before it is chosen."""
    asked = question
    if judged.missing:
        asked = replace(
            question, text=script("reflect", question.lang).parts["again"].format(question.text, judged.missing)
        )
    shown, run.on_sentence = run.on_sentence, None
    before = list(run.shortfalls)
    try:
        return await run.attempt("write", write(asked, evidence, rag, run), Draft())
    finally:
        run.on_sentence = shown
        run.shortfalls[:] = before  # what a draft that may not be shown lacks is of no interest


async def _judged(
    question: Question, draft: Draft, evidence: Evidence, model: LanguageModel, run: Run
) -> Judgement | None:
    """To be called in a stage. Raises GenerationFailed."""
    costs = Costs()
    async with run.seated(model, question.viewer.user_id) as seat:
        prompt = await _prompt(question, draft, evidence, model, seat)
        costs.call()
        end = await finished(seat.stream(prompt, Decoding(_TOKENS, 0.0), grammar=GRAMMAR, schema=_SCHEMA))
    costs.paid(end.figures)
    judged = judgement(end.text, len(draft.sentences))
    if judged is None:
        raise GenerationFailed(_UNREADABLE)
    run.note(**costs.noted(), score=judged.score, unsupported=len(judged.unsupported))
    return judged


async def _prompt(question: Question, draft: Draft, evidence: Evidence, model: LanguageModel, seat: Seat) -> Prompt:
    """Posts as far as they fit, the question and the draft, its sentences numbered."""
    told = script("reflect", question.lang)
    lines = "\n".join(f"{n}. {spoken(sentence.text)}" for n, sentence in enumerate(draft.sentences, 1))
    asked = f"{quoted_question(question.text)}\n<draft>\n{lines}\n</draft>"
    used = sum(await seat.count([told.system, asked, *(text for shot in told.shots for text in shot)]))
    left = model.context - used - _TOKENS - _SPARE
    excerpts = await fitted(evidence, question.text, left, seat) if left >= _LEAST else []
    posts = "\n".join(excerpt.quoted for excerpt in in_order(excerpts))
    return Prompt(told.system, f"{posts}\n{asked}", told.shots)


def judgement(text: str, sentences: int) -> Judgement | None:
    """What a model's reply says, whatever stands around it; None where it says no score."""
    said = object_in(text)
    if said is None:
        return None
    score, missing, wrong = said.get("score"), said.get("missing"), said.get("unsupported")
    if isinstance(score, bool) or not isinstance(score, int) or not 0 <= score <= _BEST:
        return None
    numbers = [n for n in wrong if isinstance(n, int) and 1 <= n <= sentences] if isinstance(wrong, list) else []
    lacks = spoken(missing)[:_MISSING] if isinstance(missing, str) else ""
    return Judgement(score, lacks, tuple(dict.fromkeys(numbers)))
