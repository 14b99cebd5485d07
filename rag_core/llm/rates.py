"""Rates of a model, measured at its load and once more while idle, kept beside its file; which stages end in time.

The file `rates.json` holds the fields of `LocalSpeed` and `made_by`: the file, the machine and the settings that they
hold for. A file of others is measured anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rag_core.llm.protocol import LanguageModel, TokenRates
from rag_core.models.catalog import WRITERS, names_model
from rag_core.run import Budgets, Stage
from rag_core.safe_files import read_regular_file

_RATES_FILE = "rates.json"


@dataclass(frozen=True, slots=True)
class LocalSpeed(TokenRates):
    """Rates as measured, and the features of this build of llama.cpp."""

    gpu: bool  # whether the build supports a GPU
    threads: int
    parameters: int
    bytes: int


def load_speed(folder: Path, made_by: Mapping[str, Any] | None = None) -> LocalSpeed | None:
    """Load the speed that was measured, with `made_by` where it is given; None where there is none."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        kept = json.loads(read_regular_file(folder / _RATES_FILE))
        sound = all(math.isfinite(kept[rate]) and kept[rate] > 0 for rate in ("prefill", "decode"))
        if sound and made_by in (None, kept["made_by"]):
            return LocalSpeed(**{field.name: kept[field.name] for field in fields(LocalSpeed)})
    return None


def save_speed(folder: Path, speed: LocalSpeed, made_by: Mapping[str, Any]) -> None:
    """Save the speed; a folder that cannot be written is no error: it is measured again at the next start."""
    with suppress(OSError):
        (folder / _RATES_FILE).write_text(json.dumps({**asdict(speed), "made_by": made_by}), encoding="utf-8")


# Tokens of a usual prompt and of its reply, counted on the sample channels; a common prefix is read once.
_TOKENS = {
    Stage.JUDGE: (90, 1), Stage.PLAN: (700, 90), Stage.WRITE: (900, 150), Stage.PREDICT: (200, 60),
    Stage.STEP: (250, 70), Stage.PARTS: (600, 100), Stage.REFLECT: (900, 40),
}  # fmt: skip
COUNCIL_POSTS, COUNCIL_PREDICTIONS = 20, 3  # judged, and then read one by one, where each takes seconds
MAX_REACT_STEPS = 4
_REDUCE_TOKENS, _STEP_PREFIX = (480, 60), 1000
_MAX_WRITE_S = 20.0  # the posts' own words are shown at once: whoever reads them waits no longer for a written answer


@dataclass(frozen=True, slots=True)
class StageEstimate:
    """Seconds that a usual prompt of a stage takes, and the seconds that the stage has."""

    stage: str
    seconds: float
    limit: float

    @property
    def fits(self) -> bool:
        """Whether the stage ends in time."""
        return self.seconds <= self.limit


def estimate_stages(rates: TokenRates, budgets: Budgets) -> tuple[StageEstimate, ...]:
    """Estimate judging, planning and writing, in this order."""
    limits = {Stage.JUDGE: budgets.judge, Stage.PLAN: budgets.plan, Stage.WRITE: min(budgets.write, _MAX_WRITE_S)}
    return tuple(StageEstimate(stage, rates.estimate_seconds(*_TOKENS[stage]), most) for stage, most in limits.items())


def judges_only(name: str) -> bool:
    """Whether a model is known, by its name or that in its file, to be too small to plan and to write."""
    return any(row.judges_only and names_model(name, row.name) for row in WRITERS)


def writes_in_time(model: LanguageModel, budgets: Budgets) -> bool:
    """Whether a model can write, and ends before its reader has left; as of a server where rates are unknown."""
    if judges_only(model.name):
        return False
    return model.rates is None or estimate_stages(model.rates, budgets)[-1].fits


REVIEW = "careful"  # no recipe: the review of the draft of any recipe
_FALLBACK_SECONDS, _FALLBACK_SHARE = 15.0, 1 / 3


def reserve_for_fallback(whole: float) -> float:
    """Seconds of a question that are kept back for `direct`, which answers where another recipe fails."""
    return min(_FALLBACK_SECONDS, _FALLBACK_SHARE * whole)


def fits_budgets(recipe: str, rates: TokenRates | None, budgets: Budgets) -> bool:
    """Whether each call of a recipe can end in its stage, and all in the question; True where rates are unknown."""
    if rates is None:
        return True
    # the model's stages besides those of `direct`, with the tokens of prompts and replies
    calls = {
        "council": [Stage.JUDGE, *[Stage.PREDICT] * COUNCIL_PREDICTIONS, Stage.WRITE, Stage.PARTS],
        "react": [*[Stage.STEP] * MAX_REACT_STEPS, Stage.WRITE],
        REVIEW: [Stage.WRITE, Stage.REFLECT, Stage.WRITE],
    }.get(recipe, [])
    tokens = [(stage, *_TOKENS[stage]) for stage in calls]
    if recipe == "council":
        tokens[0] = (Stage.JUDGE, COUNCIL_POSTS * _TOKENS[Stage.JUDGE][0], 0)
    elif recipe == "react":
        read, written = _TOKENS[Stage.STEP]
        tokens[0] = (Stage.STEP, _STEP_PREFIX + read, written)
    took = [(stage, rates.estimate_seconds(*both)) for stage, *both in tokens]
    left = budgets.question - reserve_for_fallback(budgets.question)
    in_stages = all(seconds <= getattr(budgets, stage.budget) for stage, seconds in took)
    return in_stages and sum(seconds for _, seconds in took) <= left


_MAX_REDUCE_SECONDS = 10.0  # the facts are there already: a reader does not wait longer for them in other words


def has_time_to_reduce(rates: TokenRates | None) -> bool:
    """Whether a model writes an answer from the facts of a few posts soon enough; True for unknown rates."""
    return rates is None or rates.estimate_seconds(*_REDUCE_TOKENS) <= _MAX_REDUCE_SECONDS
