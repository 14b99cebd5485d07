"""Prompt budget: fit the evidence into the model's context, and limit the answer; both share one context.

The more relevant a post, the more of it is shown. Posts keep the numbers they have in the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rag_core.errors import GenerationFailed
from rag_core.llm import LanguageModel, LlmSession, Prompt
from rag_core.settings import LlmSettings
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.types import Evidence, Question, Source
from rag_core.writing.prompts import PromptTemplate, escape_prompt_text, load_prompt, quote_post, quote_question

__all__ = ["Excerpt", "PromptBudget", "build_prompt_budget", "fit_excerpts", "order_for_prompt"]

_MIN_SOURCE_SHARE = 0.2  # of the best post's room, for one that was hardly found
_SEAM_TOKENS = 2  # tokens that a line end, or a cut between two pieces, may cost beside the pieces' own
_GAP = " … "


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What is shown of a source, and about how many tokens it takes with its markers."""

    source: Source
    text: str
    tokens: int

    @property
    def quoted(self) -> str:
        """As it stands in the prompt."""
        return quote_post(self.text, self.source.number, self.source.passage.header)


@dataclass(frozen=True, slots=True)
class _ExcerptPiece:
    span: TextSpan
    tokens: int
    worth: float


async def fit_excerpts(evidence: Evidence, question: str, tokens: int, seat: LlmSession) -> list[Excerpt]:
    """Excerpts of at most `tokens` tokens together, best first. What no longer fits is left out; that is no error.

    Room is shared in proportion to relevance; what a short post leaves is for those behind it. Of a post that is too
    long the sentences stay that have most of the question's words, in their order. Raises GenerationFailed.
    """
    sources = [source for source in evidence.sources if source.passage.text.strip()]
    spans = [_split_into_pieces(source.passage.text) for source in sources]
    texts = [source.passage.text[a:b] for source, found in zip(sources, spans, strict=True) for a, b in found]
    frames = [quote_post("", source.number, source.passage.header) for source in sources]
    counts = iter(await seat.count([*frames, *texts]))
    framed = [next(counts) + _SEAM_TOKENS for _ in frames]
    asked, top = frozenset(tokenize(question)), max((source.score for source in sources), default=0.0)
    weights = [max(_MIN_SOURCE_SHARE, source.score / top) if top > 0 else 1.0 for source in sources]
    shown: list[Excerpt] = []
    left = tokens
    for n, source in enumerate(sources):
        found = [
            _ExcerptPiece((a, b), next(counts) + _SEAM_TOKENS, _count_question_terms(source.passage.text[a:b], asked))
            for a, b in spans[n]
        ]
        room = int(left * weights[n] / sum(weights[n:])) - framed[n]
        if excerpt := _build_excerpt(source, found, room, left - framed[n], framed[n]):
            shown.append(excerpt)
            left -= excerpt.tokens
    return shown


def order_for_prompt(excerpts: Sequence[Excerpt]) -> list[Excerpt]:
    """As a model reads them best: the first first, the second last, the weakest in the middle.

    Source: Liu et al., "Lost in the Middle" (2023), https://arxiv.org/abs/2307.03172
    """
    return [*excerpts[:1], *excerpts[2:], *excerpts[1:2]]


def _split_into_pieces(text: str) -> list[TextSpan]:
    """Sentences; those too long for one, in pieces that do not overlap."""
    found: list[TextSpan] = []
    for sentence in split_sentences(text):
        end = sentence[0]
        for start, stop in split_long_span(text, sentence):
            if stop > end:
                found.append((max(start, end), stop))
                end = stop
    return found


def _count_question_terms(text: str, asked: frozenset[str]) -> float:
    return len(asked & frozenset(tokenize(text)))


def _build_excerpt(source: Source, found: list[_ExcerptPiece], room: int, most: int, framed: int) -> Excerpt | None:
    """The best pieces that fit into `room`; the best one alone may take up to `most`."""
    chosen: list[_ExcerptPiece] = []
    for piece in sorted(found, key=lambda piece: (-piece.worth, piece.span)):
        if piece.tokens <= room or (not chosen and piece.tokens <= most):
            chosen.append(piece)
            room -= piece.tokens
    if not chosen:
        return None
    text = source.passage.text
    chosen.sort(key=lambda piece: piece.span)
    shown, end = "", None
    for piece in chosen:
        start, stop = piece.span
        between = "" if end is None else text[end:start] if not text[end:start].strip() else _GAP
        shown, end = shown + between + text[start:stop], stop
    return Excerpt(source, shown, framed + sum(piece.tokens for piece in chosen))


_MESSAGE_TOKENS = 12  # tokens that a chat template puts around a message, at most
_MARGIN_TOKENS = 32
_MIN_EVIDENCE_TOKENS, _MIN_TOKENS_WITH_EXAMPLES = (
    96,
    400,
)  # tokens of posts: below, nothing can be written; below, the examples are left out
_MAX_SENTENCES, _GOOD_SENTENCE_LENGTH = 4, 120  # a sentence that is given fewer characters is seldom whole
_MIN_SENTENCE_LENGTH = 40
_CITATION_TOKENS = 13  # tokens of the numbers behind a sentence, at most
_TOKEN_RATE_RESERVE = 1.25  # names and rare words take more tokens than the posts do on average


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """The prompt of one answer and its bounds: `tokens` of the reply, sentences, characters of each."""

    prompt: Prompt
    excerpts: Sequence[Excerpt]
    tokens: int
    sentences: int
    characters: int


async def build_prompt_budget(
    question: Question, evidence: Evidence, model: LanguageModel, settings: LlmSettings, seat: LlmSession
) -> PromptBudget:
    """The prompt with as much of the evidence as fits. Raises GenerationFailed where no post fits at all."""
    told = load_prompt("write", question.lang)
    asked = await _fit_question(question, model.context // 4, seat)
    examples = [text for shot in told.shots for text in shot]
    system, extra, ask, *shots = await seat.count([told.system, "\n".join(told.parts.values()), asked, *examples])
    answer = min(settings.answer_tokens, model.context // 3)
    drafted = answer // 2 + extra if settings.two_pass else 0
    left = model.context - system - ask - answer - drafted - 2 * _MESSAGE_TOKENS - _MARGIN_TOKENS
    with_shots = left - sum(shots) - _MESSAGE_TOKENS * len(shots)
    shown = with_shots >= min(_MIN_TOKENS_WITH_EXAMPLES, settings.evidence_tokens)
    left = min(with_shots if shown else left, settings.evidence_tokens)
    excerpts = await fit_excerpts(evidence, question.text, left, seat) if left >= _MIN_EVIDENCE_TOKENS else []
    if not excerpts:
        raise GenerationFailed("No post fits into the model's context beside the question: raise LLM__CONTEXT.")
    sentences, characters = _limit_sentences(excerpts, answer)
    return PromptBudget(_build_prompt(told, excerpts, asked, shots=shown), excerpts, answer, sentences, characters)


async def _fit_question(question: Question, most: int, seat: LlmSession) -> str:
    """The question as it is quoted; of one that would fill the context, the beginning."""
    quoted = quote_question(question.text)
    (tokens,) = await seat.count([quoted])
    plain = escape_prompt_text(question.text)
    return quoted if tokens <= most else quote_question(plain[: int(len(plain) * 0.9 * most / tokens)])


def _build_prompt(told: PromptTemplate, excerpts: Sequence[Excerpt], asked: str, *, shots: bool) -> Prompt:
    posts = "\n".join(excerpt.quoted for excerpt in order_for_prompt(excerpts))
    return Prompt(told.system, f"{posts}\n{asked}", told.shots if shots else ())


def _limit_sentences(excerpts: Sequence[Excerpt], answer: int) -> tuple[int, int]:
    """Sentences and characters of each such that the longest answer fits into so many tokens, as these posts count."""
    rate = _TOKEN_RATE_RESERVE * sum(e.tokens for e in excerpts) / max(1, sum(len(e.quoted) for e in excerpts))
    characters = int((answer - _CITATION_TOKENS * _MAX_SENTENCES) / rate)
    sentences = max(1, min(_MAX_SENTENCES, characters // _GOOD_SENTENCE_LENGTH))
    return sentences, max(_MIN_SENTENCE_LENGTH, min(MAX_SENTENCE_LENGTH, characters // sentences))
