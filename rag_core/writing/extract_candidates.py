"""Candidate pieces of the evidence for extractive answers, with their features and scores, and which supersede others.

A candidate is a sentence, or up to three neighbouring ones while they stay short: an answer often needs the sentence
before it ("It opened in May"). Candidates are ranked by a weighted sum of a few features.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import itemgetter, mul
from typing import TYPE_CHECKING, NamedTuple

from rag_core.text.post_text import find_poll
from rag_core.text.query_terms import VAGUE_TYPES, QueryTerms, TermWeight, contains_answer_type
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, build_text_key, split_long_span, tokenize_sentences
from rag_core.text.tokens import detect_language, find_similar_stems, tokenize
from rag_core.types import Evidence, PostKey, Source
from rag_core.verification.things import tells_apart

if TYPE_CHECKING:
    from rag_core.models.onnx_models import PieceSimilarity

MAX_SENTENCE_GAP = 3  # characters between two sentences that adjoin
_MIN_ROOM = 80  # characters: less says nothing
_MAX_JOINED_SENTENCES = 3  # sentences


class PieceFeatures(NamedTuple):
    """Features of a candidate piece.

    rank: retrieval score of its post over that of the best, 0..1
    terms: weight share of the question's terms in the piece and in the title of its channel, similar stems in part
    held: 1 where the piece holds the answer type, 0.5 where no pattern tells it
    length: characters over MAX_SENTENCE_LENGTH
    maxsim, cosine, prior, post_maxsim: similarity of the question to the piece and to its post (`PieceSimilarity`,
        `PassageSimilarity`); 0 where the embedding model does not compare tokens
    """

    rank: float
    terms: float
    held: float
    length: float
    maxsim: float = 0.0
    cosine: float = 0.0
    prior: float = 0.0
    post_maxsim: float = 0.0

    @property
    def is_compared(self) -> bool:
        """Whether the embedding model compared the tokens of the question with those of the post."""
        return bool(self.post_maxsim)

    @property
    def score(self) -> float:
        """Weighted sum, by which pieces are ordered."""
        total: float = sum(map(mul, _WEIGHTS if self.is_compared else _WEIGHTS_BY_WORDS, self))
        return total


# Between those of a listwise logistic regression (ListNet, Cao et al. 2007) over questions of channels that nothing was
# trained on and those that put most right pieces first on older sets; by words fitted without the tokens' comparison.
_WEIGHTS = PieceFeatures(
    rank=2.7, terms=0.0, held=1.1, length=0.2, maxsim=24.0, cosine=16.0, prior=1.0, post_maxsim=-7.6
)
_WEIGHTS_BY_WORDS = PieceFeatures(rank=3.8, terms=3.8, held=2.0, length=0.0)

_LINKS_AND_TAGS = re.compile(r"https?://\S+|[#@]\w+")
_LETTERS = re.compile(r"[^\W\d_]{2,}")


@dataclass(frozen=True, slots=True)
class ExtractCandidate:
    """Candidate piece of a source; `start`, `end`: offsets in the passage's text; `holds`: it holds the answer type."""

    source: Source
    start: int
    end: int
    score: float
    holds: bool
    features: PieceFeatures

    @property
    def text(self) -> str:
        """Words of the piece."""
        return self.source.passage.text[self.start : self.end]

    def overlaps(self, other: ExtractCandidate) -> bool:
        """Check whether the pieces overlap in one post, or one piece repeats the words of the other."""
        if self.source.number == other.source.number:
            return self.start < other.end and other.start < self.end
        mine, theirs = (f" {build_text_key(one.text)} " for one in (self, other))
        return mine in theirs or theirs in mine


_Piece = tuple[TextSpan, int, int]  # where it is, and its first and last sentence


def _enumerate_pieces(text: str, sentences: Sequence[TextSpan], longest: int) -> Iterator[_Piece]:
    """Enumerate the pieces of a text, none longer than `longest` characters."""
    for i, (start, end) in enumerate(sentences):
        if end - start > longest:
            yield from ((window, i, i) for window in split_long_span(text, (start, end), longest))
        for j, (_, stop) in enumerate(sentences[i : i + _MAX_JOINED_SENTENCES], i):
            if stop - start > longest:
                break
            yield (start, stop), i, j


def _list_sentences(source: Source, evidence: Evidence) -> list[TextSpan]:
    """List the sentences of a source that may answer: without boilerplate, polls, and links or tags alone."""
    text, repeated = source.passage.text, evidence.boilerplate.get(source.passage.key.chat_id, frozenset())
    spans = [span for span, _ in tokenize_sentences(text)]
    if poll := find_poll(source.passage):
        spans = [span for span in spans if not text[slice(*span)].endswith("?")]
        spans = [span for span in spans if span[1] <= poll[0]] or [span for span in spans if span[0] >= poll[1]]
    kept = []
    for a, b in spans:
        end = text.find("\n", a)
        line = text[text.rfind("\n", 0, a) + 1 : end if end >= 0 else len(text)]
        telling = _LETTERS.search(_LINKS_AND_TAGS.sub(" ", text[a:b]))
        announced = text[max(0, a - MAX_SENTENCE_GAP) : a].rstrip().endswith(":")
        if (telling or announced) and not (repeated and build_text_key(line) in repeated):
            kept.append((a, b))
    return kept


def _score_candidates(
    asked: QueryTerms,
    evidence: Evidence,
    source: Source,
    found: Sequence[TextSpan],
    pieces: Sequence[_Piece],
    compared: Sequence[PieceSimilarity | None],
) -> list[ExtractCandidate]:
    """Score every piece of a source with the sentences `found`; `compared`: its similarity to the question."""
    text, top = source.passage.text, max(one.score for one in evidence.sources)
    similarity = evidence.similarities.get(source.number)
    terms_of = dict(tokenize_sentences(text))
    stems = [frozenset(terms_of[span]) for span in found]
    scope = frozenset(tokenize(source.passage.title))
    kin_of = find_similar_stems(asked.share, chain.from_iterable(stems))
    # the terms that each word matches, as itself, a variant or a similar stem, with its credit, 0..1
    credits: dict[str, list[tuple[str, float]]] = {}
    for term in asked.share:
        kin = {other: likeness for likeness, other in kin_of.get(term, ())}
        for words in (kin, asked.variants.get(term, {}), {term: 1.0}):
            for word, credit in words.items():
                credits.setdefault(word, []).append((term, credit))
    related = asked.share.keys() | {other for near in kin_of.values() for _, other in near}
    useful = [not related.isdisjoint(there) for there in stems]
    vague = asked.want in VAGUE_TYPES
    result = []
    for ((start, end), i, j), similar in zip(pieces, compared, strict=True):
        opening, piece = text[slice(*found[i])], text[start:end]
        if i < j and not useful[i] and (vague or not contains_answer_type(asked.want, opening, asked.text)):
            continue  # a greeting before the answer is none of it
        part = (start, end) != (found[i][0], found[j][1])  # of a long sentence
        here = frozenset(tokenize(piece)) if part else frozenset().union(*stems[i : j + 1])
        met: dict[str, float] = {}
        # all posts of a channel are about what its title names: "the ferry", "у вас в клинике"
        for word in credits.keys() & (here | scope):
            for term, credit in credits[word]:
                met[term] = max(credit, met.get(term, 0.0))
        has = contains_answer_type(asked.want, piece, asked.text)
        features = PieceFeatures(
            rank=source.score / top if top > 0 else 1.0,
            terms=sum(share * met[term] for term, share in asked.share.items() if term in met),
            held=0.5 if vague else float(has),
            length=(end - start) / MAX_SENTENCE_LENGTH,
            post_maxsim=similarity.post if similarity else 0.0,
            **(similar._asdict() if similar else {}),
        )
        result.append(ExtractCandidate(source, start, end, features.score, has, features))
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
    """Rank all pieces of the evidence, best first, none longer than `longest` characters."""
    parts = []
    for source in evidence.sources:
        sentences = _list_sentences(source, evidence)
        parts.append((source, sentences, list(_enumerate_pieces(source.passage.text, sentences, longest))))
    near = [evidence.similarities.get(source.number) for source, *_ in parts]
    places = [[place for place, *_ in pieces] for *_, pieces in parts]
    compared: list[Sequence[PieceSimilarity | None]] = [
        similarity.measure_pieces(spans) if similarity else [None] * len(spans)
        for similarity, spans in zip(near, places, strict=True)
    ]
    scored = (_score_candidates(asked, evidence, *one, measured) for one, measured in zip(parts, compared, strict=True))
    return sorted(chain.from_iterable(scored), key=lambda one: -one.score)


_LONG_POST = 800  # characters, from which on a post counts as long


class SuccessionFeatures(NamedTuple):
    """What tells whether a piece of a later post supersedes an older piece.

    gap: how far their scores are apart: both must answer the question
    likeness: cosine of the two; where tokens are not compared, the weight share of the older piece's terms in its post
    found: 1 for the first post in the search for the words of the older piece, 1/2 for the second; 0 for one not found
    length: characters of its post, over 800, at most 1
    """

    gap: float
    likeness: float
    found: float
    length: float


# Least log odds, constants and weights: where tokens are compared, from a probability of 0.45 on; by words from 0.3
# on, as a correction in other words ("the fair is put back") is hardly alike there.
_SUCCESSION = -0.2, -2.26, SuccessionFeatures(-0.59, 3.73, 1.32, -0.77)
_SUCCESSION_BY_WORDS = -0.85, -0.31, SuccessionFeatures(-0.61, 5.63, 0.45, -3.08)


def find_successor(
    piece: ExtractCandidate, asked: QueryTerms, evidence: Evidence, found: Sequence[PostKey], weight: TermWeight
) -> ExtractCandidate | None:
    """Find the piece that supersedes another, among the later posts of its channel in the evidence; None without one.

    `found`: the posts of the search for its words, best first. By logistic regression, with sets held out as good as in
    it (`tests/data/reading/fit.py`).
    """
    least, constant, weights = _SUCCESSION if piece.features.is_compared else _SUCCESSION_BY_WORDS
    later = list_successors(piece, asked, evidence, found, weight)
    odds = [(constant + sum(map(mul, weights, features)), one) for one, features in later]
    lang = detect_language(asked.text)
    for _, one in sorted((pair for pair in odds if pair[0] >= least), key=itemgetter(0), reverse=True):
        # one piece names what is asked about, and the post of the other speaks of another one of its kind
        pairs = ((piece, one), (one, piece))
        if not any(tells_apart(asked.text, a.text, b.source.passage.text, lang) for a, b in pairs):
            return one
    return None


def list_successors(
    piece: ExtractCandidate, asked: QueryTerms, evidence: Evidence, found: Sequence[PostKey], weight: TermWeight
) -> list[tuple[ExtractCandidate, SuccessionFeatures]]:
    """List the best piece of each later post of the piece's channel, with what tells whether it supersedes it."""
    old = piece.source.passage
    later = [s for s in evidence.sources if s.passage.key.chat_id == old.key.chat_id and s.passage.date > old.date]
    best = dict[PostKey, ExtractCandidate]()
    for one in rank_candidates(asked, replace(evidence, sources=(*evidence.sources[:1], *later))):
        if one.source in later:
            best.setdefault(one.source.passage.key, one)
    compared, own = evidence.similarities, {term: weight(term) for term in tokenize(piece.text)}
    vector = compared[piece.source.number].embed_piece(piece.start, piece.end) if piece.features.is_compared else None
    places, listed = {key: 1 / rank for rank, key in enumerate(found, 1)}, []
    for key, one in best.items():
        text, similarity = one.source.passage.text, compared.get(one.source.number)
        if vector is None:
            there = own.keys() & set(chain.from_iterable(terms for _, terms in tokenize_sentences(text)))
            likeness = sum(own[term] for term in there) / max(sum(own.values()), 1e-9)
        else:
            likeness = float(vector @ similarity.embed_piece(one.start, one.end)) if similarity else 0.0
        features = SuccessionFeatures(
            gap=abs(one.score - piece.features.score),
            likeness=likeness,
            found=places.get(key, 0.0),
            length=min(1.0, len(text) / _LONG_POST),
        )
        listed.append((one, features))
    return listed
