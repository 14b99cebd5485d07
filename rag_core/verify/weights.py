"""What was fitted for verification: weights of what the checks see, and where a claim counts as supported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from rag_core.calibration import Likeness

__all__ = ["AGREED", "BAR", "MEANING", "WEIGHTS", "Weights"]

# Fitted on terra_ru_nli (860 pairs, RU) and fever_symmetric (455 pairs, EN), on 2026-11-20.
BAR = 0.5  # likely: from here on a claim without objection is supported
# At least so likely where nothing is objected to, a number, date or name agrees, and half of the words are in one
# sentence: of such pairs 0.52 to 0.72 are supported.
AGREED = 0.55


@dataclass(frozen=True, slots=True)
class Weights:
    """A logistic regression over `NAMES`: shift and weights, ridge 5 on standardised values."""

    shift: float
    values: tuple[float, ...]

    NAMES: ClassVar[tuple[str, ...]] = (
        "near", "met", "met_cubed", "all_met", "pairs", "in_order", "last_met", "denies", "denials_differ", "denial",
        "opposite", "name", "moment", "number", "only", "length",
    )  # fmt: skip


# `citegram eval verify` prints what they are worth on data they were not fitted on.
WEIGHTS: Mapping[str, Weights] = {
    "ru": Weights(
        -0.900,
        (
            -0.554,
            1.874,
            0.029,
            -0.205,
            0.023,
            -0.241,
            0.310,
            -0.242,
            -0.197,
            -1.513,
            -1.914,
            -0.385,
            0.000,
            -2.319,
            -1.236,
            0.015,
        ),
    ),
    "en": Weights(
        0.325,
        (
            -0.192,
            -0.192,
            1.367,
            0.939,
            0.736,
            -0.166,
            0.645,
            1.464,
            -0.944,
            -2.251,
            -3.319,
            0.158,
            -3.199,
            0.423,
            0.043,
            -0.409,
        ),
    ),
}
# By embedding model and language: what the cosine of the likest sentence adds; where a model tells nothing, no row.
# On fever_symmetric it adds nothing to words (0.69 with it, 0.71 without), but speaks against what is far off.
MEANING: Mapping[str, Mapping[str, Likeness]] = {"minilm-navec": {"en": Likeness(0.85, 0.38, -0.23)}}
