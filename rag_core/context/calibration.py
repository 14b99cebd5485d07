"""Calibration: fitted thresholds of answers and claims, and fusion weights.

They decide when an answer is shown, when a claim counts as supported, and how the rankings are fused for each embedding
model and language. `citegram eval calibrate` fits them.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from rag_core.models.catalog import ModelSpec
from rag_core.retrieval.fusion import Fusion
from rag_core.settings import RagSettings
from rag_core.types import Certainty

if TYPE_CHECKING:
    from rag_core.context.coverage import Coverage

log = logging.getLogger(__name__)


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


# By model and language.
_FUSIONS = {"minilm-navec": {"en": Fusion("sum", 0.5), "ru": Fusion("sum", 0.2)}}
# For longer questions, by model and language. The cosine of the Russian half of the offline model is weak: there it
# adds nothing (XQuAD, RuBQ).
_COSINE_CALIBRATIONS = {"minilm-navec": {"en": CosineCalibration(1.38, 4.15, -1.5)}}
# Of the best posts of everyday questions; for brief questions the difference from it counts (`Coverage.likeness`).
_MEAN_COSINES = {"minilm-navec": {"en": 0.313, "ru": 0.39}}


@dataclass(frozen=True, slots=True)
class ClaimThreshold:
    """Probability threshold above which a sentence counts as supported; at most `target` unsupported ones may pass.

    Measured on data not used for fitting: `passed` is the share of unsupported sentences above the threshold, `kept`
    the share of supported ones.
    """

    bar: float = 0.658
    target: float = 0.05
    passed: float = 0.042
    kept: float = 0.189
    data: str = "terra_ru_nli, fever_symmetric"
    date: str = "2026-11-20"


# Of the bars, for a question of few terms.
_BRIEF_SHARE, _BRIEF_SURE_SHARE = 0.64, 1.1
_FOREIGN_SHARE = 1.2  # of the lower bar, for a post of another language: a few loan words match by chance


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration: the thresholds of answers (0..1), fusion by embedding model and language, and the fitting data.

    `bar`: from here an answer is shown, as probable; `sure`: from here it is stated without a caveat.
    """

    bar: float = 0.5
    sure: float = 0.55
    data: str = "XQuAD (RU, EN) alone and among Russian news posts, RuBQ; questions typed by people over channels"
    date: str = "2026-11-22"
    fusions: Mapping[str, Mapping[str, Fusion]] = field(default_factory=lambda: _FUSIONS)
    claims: ClaimThreshold = ClaimThreshold()
    fusion_kind: str = ""  # of the settings; "": as fitted for the model

    def fusion(self, model: ModelSpec, lang: str, weight: float | None = None) -> Fusion:
        """Fusion for a question in `lang`; `weight` is a setting that overrides the dense weight."""
        fitted = self.fusions.get(model.name, {}).get(lang)
        default = fitted or Fusion("sum", model.weight(lang))
        default = replace(default, kind=self.fusion_kind or default.kind)
        return default if weight is None else Fusion(default.kind, weight)

    def likely(self, coverage: Coverage, cosine: float, model: ModelSpec | None, lang: str) -> float:
        """Probability of a right answer, 0..1: by words, for longer questions with the cosine if it is calibrated."""
        likeness = _COSINE_CALIBRATIONS.get(model.name, {}).get(lang) if model and not coverage.brief else None
        return likeness(coverage.likely, cosine) if likeness else coverage.likely

    def likeness(self, cosine: float, model: ModelSpec | None, lang: str) -> float:
        """Cosine over the model's mean one; 0 for a model that is not calibrated."""
        mean = _MEAN_COSINES.get(model.name, {}).get(lang) if model else None
        return 0.0 if mean is None else cosine - mean

    def grade(self, covered: float, *, brief: bool = False, lenient: bool = False, foreign: bool = False) -> Certainty:
        """Degree of certainty at a probability of a right answer; `brief` and `lenient` as in `Coverage`.

        `foreign`: the post is of another language than the question.
        """
        if covered >= self.sure * (_BRIEF_SURE_SHARE if brief else 1.0):
            return Certainty.SURE
        share = _FOREIGN_SHARE if foreign else _BRIEF_SHARE if lenient else 1.0
        return Certainty.PROBABLE if covered >= self.bar * share else Certainty.NONE

    @classmethod
    def load(cls, settings: RagSettings) -> Calibration:
        """Load the calibration: the setting if given, else the stored values, else the built-in ones."""
        kind = {"rrf": "rrf", "weighted": "sum"}.get(settings.retrieval.fusion, "")
        stored = replace(cls._stored(settings), fusion_kind=kind)
        if settings.answer.coverage is not None:
            bar = settings.answer.coverage
            return replace(stored, bar=bar, sure=max(bar, stored.sure), data="the setting ANSWER__COVERAGE", date="")
        return stored

    @classmethod
    def _stored(cls, settings: RagSettings) -> Calibration:
        try:
            stored = json.loads(cls.file(settings).read_text(encoding="utf-8"))
            own = {
                model: {lang: Fusion(str(f["kind"]), float(f["dense"])) for lang, f in langs.items()}
                for model, langs in stored.get("fusions", {}).items()
            }
            claims = ClaimThreshold(**stored["claims"]) if "claims" in stored else ClaimThreshold()
            bars = float(stored["bar"]), float(stored.get("sure", stored["bar"]))
            return cls(*bars, str(stored["data"]), str(stored["date"]), {**_FUSIONS, **own}, claims)
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
