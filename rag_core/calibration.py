"""Calibration: the probability that a piece answers, thresholds of answers and claims, and fusion weights.

They decide when an answer is shown, when a claim counts as supported, and how the rankings are fused for each embedding
model and language. `citegram eval calibrate` fits thresholds and fusion.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rag_core.models.catalog import ModelSpec
from rag_core.retrieval.fusion import Fusion
from rag_core.settings import RagSettings
from rag_core.types import Certainty

log = logging.getLogger(__name__)


_MOST_LEAD = 4.0  # of a score by words: in a small archive any shared word leads


class AnsweringFeatures(NamedTuple):
    """Features of the best piece, from which the probability is estimated that it answers.

    score: of the piece, and its `lead` over the mean, `clear_lead` over the best, of the best pieces of other posts
    rank, cosine, held, terms: as in `PieceFeatures`
    weakest: mean cosine of the two tokens of the question that the piece meets least
    advantage: MaxSim of the piece, less its mean over the posts found
    strongest: highest cosine of any token of the question in any of the posts
    tokens: number of the question's tokens
    foreign: 1 where the piece is of another language than the question
    """

    score: float
    lead: float
    clear_lead: float
    rank: float
    cosine: float
    held: float
    terms: float
    weakest: float
    advantage: float
    strongest: float
    tokens: float
    foreign: float


# The matrix of a quadratic form of (1, features), and the least and the most of each in the data.
_ANSWERING = np.load(Path(__file__).with_name("answering.npy"))
_FORM, _LEAST, _MOST = _ANSWERING[:-2], _ANSWERING[-2], _ANSWERING[-1]


def estimate_answering(features: AnsweringFeatures) -> float:
    """Probability that a piece answers the question, 0..1, where the embedding model compared its tokens with it.

    A logistic regression of second degree, by `tests/data/reading/fit.py` on 8,145 questions over 82 invented channels.
    """
    known = np.clip((1.0, *features), _LEAST, _MOST)
    return 1 / (1 + math.exp(-float(known @ _FORM @ known)))


def estimate_answering_by_words(score: float, lead: float, terms: float) -> float:
    """Probability that a piece answers the question, 0..1, where no tokens were compared.

    `terms`: the weight share of the question's terms that it has. By words the data give it no weight; a post that
    stands alone in its archive needs it.
    """
    return 1 / (1 + math.exp(4.2 - 0.11 * score - 0.3 * min(_MOST_LEAD, lead) - 3.4 * terms))


# Of the retrievers, by model and language.
_FUSIONS = {"minilm-navec": {"en": Fusion("sum", 0.5), "ru": Fusion("sum", 0.2)}}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration: the thresholds of answers (0..1), fusion by embedding model and language, and the fitting data.

    `bar`: from here an answer is shown, as probable; `sure`: from here it is stated without a caveat.
    """

    bar: float = 0.42
    sure: float = 0.85
    data: str = "questions typed by people over invented and real channels"
    date: str = "2026-11-28"
    fusions: Mapping[str, Mapping[str, Fusion]] = field(default_factory=lambda: _FUSIONS)

    def fusion(self, model: ModelSpec, lang: str, weight: float | None = None) -> Fusion:
        """Fusion for a question in `lang`; with `weight`, the dense weight of the recipe council, a sum of scores."""
        if weight is None and (fitted := self.fusions.get(model.name, {}).get(lang)):
            return fitted
        own = next((part.dense_weight for part in model.parts if lang in part.languages), model.dense_weight)
        return Fusion("sum", own if weight is None else weight)

    def grade(self, likely: float) -> Certainty:
        """Degree of certainty at a probability of a right answer."""
        if likely < self.bar:
            return Certainty.NONE
        return Certainty.SURE if likely >= self.sure else Certainty.PROBABLE

    def without_bars(self) -> Calibration:
        """Copy that refuses nothing."""
        return replace(self, bar=0.0, sure=0.0)

    @classmethod
    def load(cls, settings: RagSettings) -> Calibration:
        """Load the calibration: the setting if given, else the stored values, else the built-in ones."""
        found = cls()
        try:
            stored = json.loads(cls.file(settings).read_text(encoding="utf-8"))
            own = {
                model: {lang: Fusion(str(f["kind"]), float(f["dense"])) for lang, f in langs.items()}
                for model, langs in stored["fusions"].items()
            }
            bars = float(stored["bar"]), float(stored["sure"])
            found = cls(*bars, str(stored["data"]), str(stored["date"]), {**_FUSIONS, **own})
        except FileNotFoundError:
            pass
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            log.warning("calibration.json cannot be read: the project's own values are used")
        if (bar := settings.answer.coverage) is None:
            return found
        return replace(found, bar=bar, sure=max(bar, found.sure), data="the setting ANSWER__COVERAGE", date="")

    def save(self, settings: RagSettings) -> Path:
        """Save to `calibration.json` in the data directory; returns the path."""
        file = self.file(settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1), encoding="utf-8")
        return file

    @staticmethod
    def file(settings: RagSettings) -> Path:
        """Path of `calibration.json`."""
        return settings.data.dir / "calibration.json"
