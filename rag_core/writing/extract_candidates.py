"""Candidate pieces of the evidence for extractive answers, with their features and scores.

A candidate is a sentence, or up to three neighbouring ones while they stay short: an answer often needs the sentence
before it ("It opened in May"). Candidates are ranked by a weighted sum of a few plain features. The weights were
fitted by logistic regression over pairs (right above wrong) on the XQuAD development questions, and rounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from operator import mul
from typing import NamedTuple

from rag_core.text.answer_type import AnswerType, contains_answer_type
from rag_core.text.polls import find_poll
from rag_core.text.post_openings import build_text_key
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, collect_terms, split_long_span, tokenize_sentences
from rag_core.text.stem_similarity import find_similar_stems
from rag_core.text.tokens import tokenize
from rag_core.types import Evidence, Source

MAX_SENTENCE_GAP = 3  # characters between two sentences that adjoin
_MIN_ROOM = 80  # characters: less says nothing
_MAX_JOINED_SENTENCES = 3  # sentences


class PieceFeatures(NamedTuple):
    """Features of a candidate piece.

    rank: retrieval score of its post over that of the best, 0..1; best: 1 for the best posts
    terms, kin, near, post: weight share of the question's terms in the piece, matched by similar stems only, in the
        neighbouring sentences and the header only, and elsewhere in the post only
    held, hinted: 1 where the piece holds the answer type, 0.5 where the question has none; `hinted` for types that
        almost any sentence may hold
    pairs: share of the question's pairs of neighbouring terms; density: share of the piece's terms that are asked for
    length: characters over MAX_SENTENCE_LENGTH; open_length: the same where any sentence may hold the answer type
    question: 1 where the piece asks something itself
    superseded: share of the later ones among the posts of its channel that hold the answer type near the same terms
    maxsim, cosine, post_maxsim, post_cosine: similarity of the question to the piece and to its post, where the
        embedding model compares tokens (`PassageSimilarity`); else 0
    """

    rank: float
    best: float
    terms: float
    kin: float
    near: float
    post: float
    held: float
    hinted: float
    pairs: float
    density: float
    length: float
    open_length: float
    question: float
    superseded: float
    maxsim: float = 0.0
    cosine: float = 0.0
    post_maxsim: float = 0.0
    post_cosine: float = 0.0

    @property
    def score(self) -> float:
        """Weighted sum, by few features where the piece was compared with the question."""
        total: float = sum(map(mul, _SIMILARITY_WEIGHTS if self.post_cosine else _WEIGHTS, self))
        return total


_WEIGHTS = PieceFeatures(
    rank=4.0,
    best=0.3,
    terms=6.4,
    kin=6.0,
    near=1.2,
    post=-0.4,
    held=2.3,
    hinted=0.5,
    pairs=1.0,
    density=2.2,
    length=-0.4,
    open_length=1.4,
    question=-1.0,
    superseded=-1.2,
)

# Listwise logistic regression (ListNet) over the pieces of questions of channels that were read.
_SIMILARITY_WEIGHTS = PieceFeatures(*[0.0] * 14)._replace(
    rank=3.4, held=1.7, hinted=0.6, length=1.5, question=-2.6, superseded=-1.9, maxsim=27.7, cosine=18.9,
    post_maxsim=-15.0,
)  # fmt: skip

_SAME_AMOUNT = 0.1  # weight share of terms
VAGUE_TYPES = frozenset(
    {
        AnswerType.ANYTHING, AnswerType.YES_NO, AnswerType.STEPS, AnswerType.LIST, AnswerType.STATE, AnswerType.PLACE,
        AnswerType.REASON,
    }
)  # fmt: skip

_LINKS_AND_TAGS = re.compile(r"https?://\S+|[#@]\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class ExtractCandidate:
    """Candidate piece of a source for an extractive answer.

    `start` and `end` are offsets in the passage's text. `useful` is false if the piece holds no query term, no
    related word and no expression of the expected answer type, `holds` without the latter.
    """

    source: Source
    start: int
    end: int
    score: float
    useful: bool
    holds: bool
    features: PieceFeatures

    @property
    def text(self) -> str:
        """Words of the piece."""
        return self.source.passage.text[self.start : self.end]

    @property
    def own(self) -> float:
        """Weight share of the question's terms in the piece, 0..1."""
        return self.features.terms + self.features.kin

    @property
    def topic(self) -> float:
        """Weight share of the question's terms in the piece, beside it and in its post, 0..1."""
        return self.own + self.features.near + self.features.post

    def overlaps(self, other: ExtractCandidate) -> bool:
        """Check whether the pieces overlap in one post, or one piece repeats the words of the other."""
        if self.source.number == other.source.number:
            return self.start < other.end and other.start < self.end
        mine, theirs = self.said, other.said
        return mine in theirs or theirs in mine

    @property
    def said(self) -> str:
        """Words of the piece without punctuation, each between spaces."""
        return f" {build_text_key(self.text)} "


def _enumerate_spans(text: str, found: list[TextSpan], longest: int) -> list[tuple[TextSpan, int, int]]:
    """Candidate spans, none longer than `longest`: (span, first sentence, last sentence)."""
    result: list[tuple[TextSpan, int, int]] = []
    for i, (start, end) in enumerate(found):
        if end - start > longest:
            result += [(window, i, i) for window in split_long_span(text, (start, end), longest)]
            continue
        for j in range(i, min(i + _MAX_JOINED_SENTENCES, len(found))):
            if found[j][1] - start > longest:
                break
            result.append(((start, found[j][1]), i, j))
    return result


def _get_line(text: str, at: int) -> str:
    """Line of a text around an offset."""
    end = text.find("\n", at)
    return text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)]


def _has_plain_words(text: str) -> bool:
    """Check for a word that is no hashtag, mention or link."""
    return bool(_LETTERS.search(_LINKS_AND_TAGS.sub(" ", text)))


def _list_sentences(source: Source, evidence: Evidence) -> list[TextSpan]:
    """List the sentences of a source that may answer: without boilerplate, polls, and links or tags alone.

    A link that a colon announces stays. Of a poll its description, else its explanation, states something.
    """
    text, repeated = source.passage.text, evidence.boilerplate.get(source.passage.key.chat_id, frozenset())
    spans = [span for span, _ in tokenize_sentences(text)]
    if poll := find_poll(source.passage):
        spans = [span for span in spans if not text[slice(*span)].endswith("?")]
        spans = [span for span in spans if span[1] <= poll[0]] or [span for span in spans if span[0] >= poll[1]]
    return [
        (a, b)
        for a, b in spans
        if (_has_plain_words(text[a:b]) or text[max(0, a - MAX_SENTENCE_GAP) : a].rstrip().endswith(":"))
        and not (repeated and build_text_key(_get_line(text, a)) in repeated)
    ]


@dataclass(frozen=True, slots=True)
class _ScoredSource:
    """Source with the features that all its pieces share; `words` are the stems of its text and header."""

    source: Source
    words: frozenset[str]
    rank: float
    best: float
    superseded: float


def _score_sources(asked: QueryTerms, evidence: Evidence) -> list[_ScoredSource]:
    """Score the sources: rank, and whether later posts of the same channel say as much about the same."""
    top = max((source.score for source in evidence.sources), default=0.0)
    words = [frozenset(tokenize(s.passage.header)) | collect_terms(s.passage.text) for s in evidence.sources]
    said = [
        asked.matched_share(there)
        + asked.similar_share(there)
        + contains_answer_type(asked.want, s.passage.text, asked.text)
        for s, there in zip(evidence.sources, words, strict=True)
    ]
    scored = []
    for source, there, amount in zip(evidence.sources, words, said, strict=True):
        siblings = [
            other.passage.date
            for other, much in zip(evidence.sources, said, strict=True)
            if other is not source
            and other.passage.key.chat_id == source.passage.key.chat_id
            and much >= amount - _SAME_AMOUNT
        ]
        later = sum(date > source.passage.date for date in siblings)
        rank = source.score / top if top > 0 else 1.0
        scored.append(
            _ScoredSource(source, there, rank, float(source.score >= top), later / len(siblings) if siblings else 0.0)
        )
    return scored


class _TermIndex:
    """Inverted index of a question: words of a source to the terms they match, in time linear in the words.

    `kin` maps each term to its similar stems with their similarities, most similar first.
    """

    def __init__(self, asked: QueryTerms, kin: Mapping[str, Sequence[tuple[float, str]]]) -> None:
        self._share = asked.share
        self._exact: dict[str, list[tuple[str, float]]] = {term: [(term, 1.0)] for term in asked.share}
        self._similar: dict[str, list[tuple[str, float]]] = {}
        for term in asked.share:
            for variant, weight in asked.variants.get(term, {}).items():
                self._exact.setdefault(variant, []).append((term, weight))
            for similarity, other in kin.get(term, ()):
                self._similar.setdefault(other, []).append((term, similarity))

    def measure(self, words: frozenset[str]) -> tuple[float, float]:
        """Weight shares of the terms that words match, as `QueryTerms.met` and `QueryTerms.kin`."""
        met = self._find_best(words, self._exact)
        similar, kin = self._find_best(words, self._similar), 0.0
        for term, credit in similar.items():
            if term not in words:
                kin += self._share[term] * max(0.0, credit - met.get(term, 0.0))
        covered = 0.0
        for term, credit in met.items():
            covered += self._share[term] * credit
        return covered, kin

    def _find_best(self, words: frozenset[str], index: Mapping[str, Sequence[tuple[str, float]]]) -> dict[str, float]:
        best: dict[str, float] = {}
        for word in index.keys() & words if index else ():
            for term, credit in index[word]:
                if credit > best.get(term, 0.0):
                    best[term] = credit
        return best


def _score_candidates(
    asked: QueryTerms, scored: _ScoredSource, evidence: Evidence, longest: int
) -> list[ExtractCandidate]:
    """Score every piece of a source."""
    source, text = scored.source, scored.source.passage.text
    similarity = evidence.similarities.get(source.number)
    found = _list_sentences(source, evidence)
    terms_of = dict(tokenize_sentences(text))
    stems = [frozenset(terms_of[span]) for span in found]
    title, _, beside = source.passage.header.partition(" · ")
    scope, around = frozenset(tokenize(title)), frozenset(tokenize(beside))
    pairs = set(pairwise(asked.order))
    kin_of = find_similar_stems(asked.share, chain.from_iterable(stems))
    index = _TermIndex(asked, kin_of)
    everywhere, _ = index.measure(scored.words)
    related = asked.share.keys() | {other for near in kin_of.values() for _, other in near}
    useful = [not related.isdisjoint(there) for there in stems]
    vague_type, any_type = asked.want in VAGUE_TYPES, asked.want is AnswerType.ANYTHING
    result = []
    for (start, end), i, j in _enumerate_spans(text, found, longest):
        if (
            i < j
            and not useful[i]
            and (vague_type or not contains_answer_type(asked.want, text[slice(*found[i])], asked.text))
        ):
            continue  # a greeting before the answer is none of it
        piece = text[start:end]
        if (start, end) == (found[i][0], found[j][1]):
            order = [term for span in found[i : j + 1] for term in terms_of[span]]
        else:  # a part of a long sentence
            order = tokenize(piece)
        here = frozenset(order)
        # all posts of a channel are about what its title names: "the ferry", "у вас в клинике"
        near = frozenset().union(around, *stems[max(0, i - 1) : i], *stems[j + 1 : j + 2]) - here - scope
        (met, kin), (nearby, _) = index.measure(here | scope), index.measure(near)
        has = contains_answer_type(asked.want, piece, asked.text)
        held = 0.5 if any_type else float(has)
        vague = vague_type and not any_type
        features = PieceFeatures(
            rank=scored.rank,
            best=scored.best,
            terms=met,
            kin=kin,
            near=nearby,
            post=everywhere - met - nearby,
            held=0.5 if vague else held,
            hinted=held if vague else 0.5,
            pairs=len(pairs & set(pairwise(order))) / max(1, len(pairs)),
            density=len(here & asked.share.keys()) / max(5, len(here)),
            length=(end - start) / MAX_SENTENCE_LENGTH,
            open_length=(end - start) / MAX_SENTENCE_LENGTH if vague_type else 0.0,
            question=float(piece.rstrip().endswith("?")),
            superseded=scored.superseded,
        )
        if similarity:
            maxsim, cosine = similarity.measure_piece((start, end))
            features = features._replace(
                maxsim=maxsim, cosine=cosine, post_maxsim=similarity.post, post_cosine=similarity.cosine
            )
        worth = met + kin > 0 or (has and not any_type)
        result.append(ExtractCandidate(source, start, end, features.score, worth, has, features))
    return result


def extend_forward(piece: ExtractCandidate, evidence: Evidence, longest: int) -> ExtractCandidate:
    """Extend a piece by the sentences that follow it in the post, while it stays short: they say why, how or which."""
    end, text = piece.end, piece.source.passage.text
    for start, stop in _list_sentences(piece.source, evidence):
        if start < end:
            continue
        room = longest - (start - piece.start)
        if start - end <= MAX_SENTENCE_GAP and _MIN_ROOM <= room < stop - start and text[end - 1] == ":":
            # of what a colon announces at least the beginning
            end = next((b for _, b in split_long_span(text, (start, stop), room)[:1]), end)
        if start - end > MAX_SENTENCE_GAP or stop - piece.start > longest:
            break
        end = stop
    return replace(piece, end=end)


def rank_candidates(
    asked: QueryTerms, evidence: Evidence, longest: int = MAX_SENTENCE_LENGTH
) -> list[ExtractCandidate]:
    """Rank all pieces of the evidence, best first; `longest` is in characters."""
    scored = _score_sources(asked, evidence)
    return sorted(
        (c for one in scored for c in _score_candidates(asked, one, evidence, longest)), key=lambda c: -c.score
    )
