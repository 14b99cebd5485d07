"""Calibration: the fitted model of coverage, thresholds of answers and claims, and fusion weights.

They decide when an answer is shown, when a claim counts as supported, and how the rankings are fused for each embedding
model and language. `citegram eval calibrate` fits thresholds and fusion.

Coverage decides between an answer and a refusal. Two logistic regressions over a few features of the question, the best
post and its best piece: one for brief everyday questions, whose words posts seldom repeat, and one for longer ones. The
weights of the first were fitted on questions typed by people over channels and on short ones of XQuAD, each channel in
turn left out (`citegram eval coverage`), those of the second on XQuAD with whole articles removed, alone and among
Russian news, and RuBQ over the news.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from rag_core.models.catalog import ModelSpec
from rag_core.retrieval.fusion_and_mmr import Fusion
from rag_core.settings import RagSettings
from rag_core.types import Certainty

log = logging.getLogger(__name__)

FEW_TERMS = math.log(4.5)  # logarithm of the most terms of a brief question
FEW_TRANSLATED_TERMS = math.log(6.5)  # of more, a post of another language has translations by chance
_MANY_WORDS = 9
_ALL_KNOWN, _NEARLY_KNOWN, _MOSTLY_KNOWN, _HALF_KNOWN = 0.99, 0.8, 0.65, 0.55  # of the weight of a question
_TYPICAL_CHANCES = 2.9  # value of `chances` in a few hundred posts, on which the other weights were fitted

# Of the model for brief questions, as in `CoverageFeatures.brief_features`; more evidence never counts against.
BRIEF_SIGNS = {
    "strength": 1, "kin": 1, "count": 1, "length": 1, "chances": -1, "piece": 1, "contested": -1, "held": 1,
    "likeness": 1,
}  # fmt: skip
_LEAST_PIECE = 0.25  # of a brief question's weight; below, only its most common words are met
_BRIEF_SHIFT = -5.45
_BRIEF_WEIGHTS = (0.94, 2.61, 2.63, 1.58, -0.24, 2.08, -0.84, 1.24, 1.89)


@dataclass(frozen=True, slots=True)
class CoverageFeatures:
    """Features of how well a post covers a question.

    strength: BM25 score of the post over the weight of all query terms
    kin: share of the query weight matched by similar stems only, 0..1
    names: share of the question's names in the post, 0..1; 0.5 where the question has none
    count: share of the query terms in the post, similar stems in part, 0..1; of a brief question without words of
        asking
    length: logarithm of the number of query terms; a share of few terms is more easily matched by chance
    known: share of the query weight matched by any post that the asker may read, or in other words by this one; terms
        that other posts have and this one lacks count against it
    heard: as `known`, and the words of asking
    chances: logarithm of the number of posts with a query term, summed over the terms; among many posts one
        matches by chance
    piece: share of the query weight matched by the piece itself, similar stems in part
    contested: 1 where a later post of the same channel may give another value
    words: number of words in the question, with those that are no terms
    held: 1 where the piece holds a value of the wanted kind, 0.5 where almost any sentence may
    likeness: cosine of the post to the question over the mean one; 0 without a result of the dense retriever
    translated: whether the post is of another language than the question, which has few terms: they are met by
        translations
    """

    strength: float = 0.0
    kin: float = 0.0
    names: float = 0.0
    count: float = 0.0
    length: float = 0.0
    known: float = 0.0
    heard: float = 0.0
    chances: float = _TYPICAL_CHANCES
    piece: float = 0.0
    contested: float = 0.0
    words: int = 0
    held: float = 0.5
    likeness: float = 0.0
    translated: bool = False

    @property
    def brief(self) -> bool:
        """Whether the question has few terms, and no name that the post lacks; a few more if translations meet them.

        The model for longer questions was fitted on the words of one language.
        """
        return self.translated or (self.length <= FEW_TERMS and (self.names == 0.5 or self.names > 0.99))

    @property
    def partial(self) -> bool:
        """Whether no post knows a word of a brief question, or the post has none of its names: nothing is sure then.

        Of a longer question, no post knows a good part.
        """
        return self.heard < (_ALL_KNOWN if self.brief else _NEARLY_KNOWN) or self.names == 0.0

    @property
    def lenient(self) -> bool:
        """Whether the lower threshold of brief questions holds.

        A question of many words names its topic: a post that lacks most of it is about something else. So is any post
        if no post has the telling words of the question, or the piece no value of the wanted kind. A post of another
        language is more likely meant where the posts lack a good part of the question's own words.
        """
        if self.translated:
            return self.heard < _NEARLY_KNOWN and self.names > 0 and self.held > 0
        written_out = self.words >= _MANY_WORDS and (self.count < 0.5 or self.known < _MOSTLY_KNOWN)
        return self.brief and self.held > 0 and self.known >= _HALF_KNOWN and not written_out

    @property
    def brief_features(self) -> tuple[float, ...]:
        """Features of the model for brief questions, in the order of BRIEF_SIGNS."""
        chances = self.chances - _TYPICAL_CHANCES
        return (
            self.strength, self.kin, self.count, min(self.length, FEW_TERMS), chances, self.piece, self.contested,
            self.held, self.likeness,
        )  # fmt: skip

    @property
    def likely(self) -> float:
        """Probability that the post answers the question, 0..1."""
        if self.brief and self.piece < _LEAST_PIECE:
            return 0.0
        if self.brief:
            z = _BRIEF_SHIFT + sum(w * v for w, v in zip(_BRIEF_WEIGHTS, self.brief_features, strict=True))
        else:
            z = (
                -11.2
                + 10.9 * self.strength
                + 10.9 * self.kin
                + 2.8 * self.names
                + 2.7 * self.count
                + 3.0 * self.length
                - 2.5 * self.known
                - 0.2 * (self.chances - _TYPICAL_CHANCES)
            )
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, z))))


@dataclass(frozen=True, slots=True)
class CosineCalibration:
    """Logistic calibration of a lexical probability by the cosine: logit' = words·logit + cosine·cos + shift."""

    words: float = 1.0
    cosine: float = 0.0
    shift: float = 0.0

    def __call__(self, likely: float, cosine: float) -> float:
        """Probability that the post answers the question, 0..1; `likely` is the lexical one."""
        likely = min(max(likely, 1e-12), 1 - 1e-12)
        z = self.words * math.log(likely / (1 - likely)) + self.cosine * cosine + self.shift
        return 1 / (1 + math.exp(-max(-50.0, min(50.0, z))))


def estimate_by_similarity(score: float, margin: float, cosine: float) -> float:
    """Probability that a piece which was compared with the question answers it, 0..1.

    `score` of the piece, its `margin` over the best piece of another post, and its `cosine` to the question. Fitted on
    446 questions over invented channels, one set held out at a time: right against wrong or unanswerable AUC 0.69, and
    0.82 on real channels that nothing was fitted on, where `CoverageFeatures.likely` has 0.65 and 0.74; added to these
    three, it gains nothing.
    """
    return 1 / (1 + math.exp(9.2 - 0.105 * score - 0.146 * margin - 7.0 * cosine))


# By model and language.
_FUSIONS = {"minilm-navec": {"en": Fusion("sum", 0.5), "ru": Fusion("sum", 0.2)}}
# For longer questions, by model and language. The cosine of the Russian half of the offline model is weak: there it
# adds nothing (XQuAD, RuBQ).
_COSINE_CALIBRATIONS = {"minilm-navec": {"en": CosineCalibration(1.38, 4.15, -1.5)}}


# Of the bars, for a question of few terms.
_BRIEF_SHARE, _BRIEF_SURE_SHARE = 0.64, 1.1
# Of the lower bar, for a post of another language: a few words match by chance, fewer where the posts lack its words.
_FOREIGN_SHARE, _LENIENT_FOREIGN_SHARE = 1.3, 0.92


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration: the thresholds of answers (0..1), fusion by embedding model and language, and the fitting data.

    `bar`: from here an answer is shown, as probable; `sure`: from here it is stated without a caveat; the two others
    are those of `estimate_by_similarity`.
    """

    bar: float = 0.5
    sure: float = 0.55
    data: str = "XQuAD (RU, EN) alone and among Russian news posts, RuBQ; questions typed by people over channels"
    date: str = "2026-11-22"
    fusions: Mapping[str, Mapping[str, Fusion]] = field(default_factory=lambda: _FUSIONS)
    fusion_kind: str = ""  # of the settings; "": as fitted for the model
    similarity_bar: float = 0.35
    similarity_sure: float = 0.58

    def fusion(self, model: ModelSpec, lang: str, weight: float | None = None) -> Fusion:
        """Fusion for a question in `lang`; `weight` is a setting that overrides the dense weight."""
        fitted = self.fusions.get(model.name, {}).get(lang)
        default = fitted or Fusion("sum", model.weight(lang))
        default = replace(default, kind=self.fusion_kind or default.kind)
        return default if weight is None else Fusion(default.kind, weight)

    def likely(self, coverage: CoverageFeatures, cosine: float, model: ModelSpec | None, lang: str) -> float:
        """Probability of a right answer, 0..1: by words, for longer questions with the cosine if it is calibrated."""
        likeness = _COSINE_CALIBRATIONS.get(model.name, {}).get(lang) if model and not coverage.brief else None
        return likeness(coverage.likely, cosine) if likeness else coverage.likely

    def likeness(self, cosine: float, model: ModelSpec | None, lang: str) -> float:
        """Cosine over the model's mean one; 0 for a model that is not calibrated."""
        mean = model.mean_cosines.get(lang) if model else None
        return 0.0 if model is None or mean is None else (cosine - mean) * model.cosine_scale

    def grade(self, covered: float, *, brief: bool = False, lenient: bool = False, foreign: bool = False) -> Certainty:
        """Degree of certainty at a probability of a right answer; `brief` and `lenient` as in `CoverageFeatures`.

        `foreign`: the post is of another language than the question.
        """
        strict, eased = (_FOREIGN_SHARE, _LENIENT_FOREIGN_SHARE) if foreign else (1.0, _BRIEF_SHARE)
        if covered < self.bar * (eased if lenient else strict):
            return Certainty.NONE
        return Certainty.SURE if covered >= self.sure * (_BRIEF_SURE_SHARE if brief else 1.0) else Certainty.PROBABLE

    def grade_by_similarity(self, likely: float) -> Certainty:
        """Degree of certainty at a probability by `estimate_by_similarity`."""
        if likely < self.similarity_bar:
            return Certainty.NONE
        return Certainty.SURE if likely >= self.similarity_sure else Certainty.PROBABLE

    def without_bars(self) -> Calibration:
        """Copy that refuses nothing."""
        return replace(self, bar=0.0, sure=0.0, similarity_bar=0.0, similarity_sure=0.0)

    @classmethod
    def load(cls, settings: RagSettings) -> Calibration:
        """Load the calibration: the setting if given, else the stored values, else the built-in ones."""
        kind = {"rrf": "rrf", "weighted": "sum"}.get(settings.retrieval.fusion, "")
        stored = replace(cls._stored(settings), fusion_kind=kind)
        if settings.answer.coverage is not None:
            bar = settings.answer.coverage
            return replace(
                stored,
                bar=bar,
                sure=max(bar, stored.sure),
                similarity_bar=bar,
                similarity_sure=max(bar, stored.similarity_sure),
                data="the setting ANSWER__COVERAGE",
                date="",
            )
        return stored

    @classmethod
    def _stored(cls, settings: RagSettings) -> Calibration:
        try:
            stored = json.loads(cls.file(settings).read_text(encoding="utf-8"))
            own = {
                model: {lang: Fusion(str(f["kind"]), float(f["dense"])) for lang, f in langs.items()}
                for model, langs in stored.get("fusions", {}).items()
            }
            bars = float(stored["bar"]), float(stored.get("sure", stored["bar"]))
            kept = cls(*bars, str(stored["data"]), str(stored["date"]), {**_FUSIONS, **own})
            return replace(
                kept,
                similarity_bar=float(stored.get("similarity_bar", kept.similarity_bar)),
                similarity_sure=float(stored.get("similarity_sure", kept.similarity_sure)),
            )
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            log.warning("calibration.json cannot be read: the project's own values are used")
            return cls()

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
