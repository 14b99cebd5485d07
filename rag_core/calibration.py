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

from rag_core.models.catalog import ModelSpec
from rag_core.retrieval.fusion import Fusion
from rag_core.settings import RagSettings
from rag_core.types import Certainty

log = logging.getLogger(__name__)


_MOST_LEAD = 4.0  # of a score by words: in a small archive any shared word leads


def estimate_answering(score: float, lead: float, terms: float | None = None) -> float:
    """Probability that a piece answers the question, 0..1.

    `score` of the piece, and its `lead` over the mean of the best pieces of the other posts; `terms`: the weight share
    of the question's terms that it has, where the embedding model did not compare its tokens with the question.
    Logistic regressions on 964 questions over channels that were read, one set held out at a time: right against wrong
    AUC 0.68, right against unanswerable 0.68; on real channels 0.69 to 0.77 and 0.71 to 0.91. Twenty further features
    (of words, of the post, of the number of terms) added at most one point. By words the data give `terms` no weight; a
    post that stands alone in its archive needs it.
    """
    z = -8.42 + 0.279 * score + 0.268 * lead
    if terms is not None:
        z = -4.2 + 0.11 * score + 0.3 * min(_MOST_LEAD, lead) + 3.4 * terms
    return 1 / (1 + math.exp(-max(-50.0, min(50.0, z))))


# Of the retrievers, by model and language.
_FUSIONS = {"minilm-navec": {"en": Fusion("sum", 0.5), "ru": Fusion("sum", 0.2)}}


@dataclass(frozen=True, slots=True)
class Calibration:
    """Calibration: the thresholds of answers (0..1), fusion by embedding model and language, and the fitting data.

    `bar`: from here an answer is shown, as probable; `sure`: from here it is stated without a caveat.
    """

    bar: float = 0.36
    sure: float = 0.88
    data: str = "questions typed by people over invented and real channels"
    date: str = "2026-11-27"
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
        bar = settings.answer.coverage
        if bar is None:
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
