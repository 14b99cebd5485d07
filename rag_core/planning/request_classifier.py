"""What a message asks of channels as a whole, if it asks no fact: a linear classifier of character n-grams.

Character n-grams in word boundaries (Joachims, "Text Categorization with Support Vector Machines", 1998, for linear
models of sparse text; Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009) need neither a
list of words nor an embedding model, and misspelt words share most of theirs. Fitted by `tests/data/intents/fit.py`.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_core.text.tokens import fold_case, tokenize


class Request(StrEnum):
    """What a message asks for: a fact or anything else, what was posted of late, what is to come, the posts about a
    topic, what a channel is about, or who runs it.

    The order is that of the columns of the weights.
    """

    OTHER = "other"
    DIGEST = "digest"
    COMING = "coming"
    POSTS = "posts"
    ABOUT = "about_channel"
    OWNER = "owner"


HASHED_TERMS = 1 << 15  # n-grams that share a place are told apart by the others of their word
_SHORTEST, _LONGEST, _MAX_WORDS = 2, 5, 60  # characters of an n-gram, and words of a message
_MIN_PROBABILITY = 0.4
_WORD = re.compile(r"\w+")


def hash_terms(text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Hash the n-grams of the words of a message, and pairs of words: their places, and weights of length 1."""
    words = _WORD.findall(re.sub(r"\d+", "0", fold_case(text)))[:_MAX_WORDS]
    terms = [f"{one} {other}" for one, other in zip(("^", *words), (*words, "$"), strict=True)]
    for word in (f" {word[:100]} " for word in words):
        terms += [word[at : at + n] for n in range(_SHORTEST, _LONGEST + 1) for at in range(len(word) - n + 1)]
        terms += [word] if len(word) > _LONGEST else []
    counts = Counter(zlib.crc32(term.encode("utf-8", "replace")) % HASHED_TERMS for term in terms)
    weights = np.sqrt(np.array(list(counts.values()), float))
    return np.array(list(counts), int), weights / max(float(np.linalg.norm(weights)), 1e-9)


class _Weights(NamedTuple):
    """Weights, shape (HASHED_TERMS, requests), constants, and the hashes of terms that recur in requests."""

    weights: NDArray[Any]
    constants: NDArray[Any]
    recurrent: frozenset[int]


@cache
def load_weights() -> _Weights:
    """Load the weights that `tests/data/intents/fit.py` wrote."""
    with np.load(Path(__file__).with_name("request_weights.npz")) as stored:
        return _Weights(
            stored["weights"] * stored["scale"], stored["constants"], frozenset(stored["recurrent"].tolist())
        )


def estimate_requests(text: str) -> dict[Request, float]:
    """Estimate how likely a message is each request; the probabilities add up to 1."""
    places, found = hash_terms(text)
    weights = load_weights()
    scores = found @ weights.weights[places] + weights.constants
    likely = np.exp(scores - scores.max())
    return dict(zip(Request, (likely / likely.sum()).tolist(), strict=True))


def classify_request(text: str, least: float = _MIN_PROBABILITY) -> Request:
    """Classify a message; OTHER where no request has at least this probability."""
    likely = estimate_requests(text)
    best = max(likely, key=lambda one: likely[one])
    return best if likely[best] >= least else Request.OTHER


def hash_term(term: str) -> int:
    """Hash a term of the index."""
    return zlib.crc32(term.encode("utf-8", "replace"))


def may_be_name(word: str) -> bool:
    """Whether a word may name something: it does not recur in the requests of several people."""
    return not word.isdecimal() and any(hash_term(term) not in load_weights().recurrent for term in tokenize(word))
