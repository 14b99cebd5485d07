"""How much of the posts a model can be shown, and how much it can write: a context is shared between both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_core.doors.llm import LanguageModel, Prompt, Seat
from rag_core.errors import GenerationFailed
from rag_core.fitting import Excerpt, fitted, in_order
from rag_core.prompts import Script, script
from rag_core.quoting import quoted_question, spoken
from rag_core.sentences import LONGEST
from rag_core.settings import LlmSettings
from rag_core.types import Evidence, Question

__all__ = ["Room", "room_for"]

_MESSAGE = 12  # tokens that a chat template puts around a message, at most
_MARGIN = 32
_LEAST, _WITH_SHOTS = 96, 400  # tokens of posts: below, nothing can be written; below, the examples are left out
_MOST_SENTENCES, _GOOD_SENTENCE = 4, 120  # a sentence that is given fewer characters is seldom whole
_SHORTEST = 40
_CITED = 13  # tokens of the numbers behind a sentence, at most
_SPARE = 1.25  # names and rare words take more tokens than the posts do on average


@dataclass(frozen=True, slots=True)
class Room:
    """The prompt of one answer and its bounds: `tokens` of the reply, sentences, characters of each."""

    prompt: Prompt
    excerpts: Sequence[Excerpt]
    tokens: int
    sentences: int
    characters: int


async def room_for(
    question: Question, evidence: Evidence, model: LanguageModel, settings: LlmSettings, seat: Seat
) -> Room:
    """The prompt with as much of the evidence as fits. Raises GenerationFailed where no post fits at all."""
    told = script("write", question.lang)
    asked = await _asked(question, model.context // 4, seat)
    examples = [text for shot in told.shots for text in shot]
    system, extra, ask, *shots = await seat.count([told.system, "\n".join(told.parts.values()), asked, *examples])
    answer = min(settings.answer_tokens, model.context // 3)
    drafted = answer // 2 + extra if settings.two_pass else 0
    left = model.context - system - ask - answer - drafted - 2 * _MESSAGE - _MARGIN
    with_shots = left - sum(shots) - _MESSAGE * len(shots)
    shown = with_shots >= min(_WITH_SHOTS, settings.evidence_tokens)
    left = min(with_shots if shown else left, settings.evidence_tokens)
    excerpts = await fitted(evidence, question.text, left, seat) if left >= _LEAST else []
    if not excerpts:
        raise GenerationFailed("No post fits into the model's context beside the question: raise LLM__CONTEXT.")
    sentences, characters = _bounds(excerpts, answer)
    return Room(_prompt(told, excerpts, asked, shots=shown), excerpts, answer, sentences, characters)


async def _asked(question: Question, most: int, seat: Seat) -> str:
    """The question as it is quoted; of one that would fill the context, the beginning."""
    quoted = quoted_question(question.text)
    (tokens,) = await seat.count([quoted])
    plain = spoken(question.text)
    return quoted if tokens <= most else quoted_question(plain[: int(len(plain) * 0.9 * most / tokens)])


def _prompt(told: Script, excerpts: Sequence[Excerpt], asked: str, *, shots: bool) -> Prompt:
    posts = "\n".join(excerpt.quoted for excerpt in in_order(excerpts))
    return Prompt(told.system, f"{posts}\n{asked}", told.shots if shots else ())


def _bounds(excerpts: Sequence[Excerpt], answer: int) -> tuple[int, int]:
    """Sentences and characters of each such that the longest answer fits into so many tokens, as these posts count."""
    rate = _SPARE * sum(e.tokens for e in excerpts) / max(1, sum(len(e.quoted) for e in excerpts))
    characters = int((answer - _CITED * _MOST_SENTENCES) / rate)
    sentences = max(1, min(_MOST_SENTENCES, characters // _GOOD_SENTENCE))
    return sentences, max(_SHORTEST, min(LONGEST, characters // sentences))
