"""Measured rates of a local model: measured once, kept in a file beside the model, corrected by what is generated.

The file `rates.json` holds the fields of `LocalSpeed` and `made_by`: the file, the machine and the settings that they
hold for. A file of others is measured anew.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rag_core.llm.protocol import GenerationStats, TokenRates
from rag_core.untrusted_files import read_regular_file

_RATES_FILE = "rates.json"


@dataclass(frozen=True, slots=True)
class LocalSpeed:
    """Tokens per second of prompt and reply, as measured, and the features of this build of llama.cpp."""

    prefill: float
    decode: float
    gpu: bool  # whether the build supports a GPU
    threads: int
    parameters: int
    bytes: int


def load_rates(folder: Path) -> TokenRates | None:
    """Load the rates that a model's load left in its folder, whatever they hold for; None where there are none."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        return _read_rates(json.loads(read_regular_file(folder / _RATES_FILE)))
    return None


def _read_rates(kept: Mapping[str, Any]) -> TokenRates:
    """Rates of the file's contents. Raises KeyError, TypeError, ValueError."""
    rates = TokenRates(float(kept["prefill"]), float(kept["decode"]))
    if not all(math.isfinite(rate) and rate > 0 for rate in (rates.prefill, rates.decode)):
        raise ValueError("a rate is no number above 0")
    return rates


def load_speed(folder: Path, made_by: Mapping[str, Any]) -> LocalSpeed | None:
    """Load the speed that was measured with the same file, machine and settings; None where there is none."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
        kept = json.loads(read_regular_file(folder / _RATES_FILE))
        _read_rates(kept)
        if kept["made_by"] == made_by:
            return LocalSpeed(**{field: kept[field] for field in LocalSpeed.__slots__})
    return None


def save_speed(folder: Path, speed: LocalSpeed, made_by: Mapping[str, Any]) -> None:
    """Save the speed; a folder that cannot be written is no error: it is measured again at the next start."""
    with suppress(OSError):
        (folder / _RATES_FILE).write_text(json.dumps({**asdict(speed), "made_by": made_by}), encoding="utf-8")


# Weight of one generation, and limits of all corrections: other programs may have slowed down the machine for a while.
_NEW_WEIGHT, _MIN_FACTOR, _MAX_FACTOR = 0.2, 1 / 3, 3.0
_MIN_EVALUATED, _MIN_WRITTEN = 32, 8  # of fewer tokens no rate can be told


def correct_rates(rates: TokenRates, measured: LocalSpeed, figures: GenerationStats) -> TokenRates:
    """Correct the rates by one generation."""
    wrote_ms = figures.took_ms - figures.first_ms
    prefill = decode = 0.0
    if figures.evaluated >= _MIN_EVALUATED and figures.first_ms > 0:
        prefill = 1000 * figures.evaluated / figures.first_ms
    if figures.tokens >= _MIN_WRITTEN and wrote_ms > 0:
        decode = 1000 * (figures.tokens - 1) / wrote_ms
    return TokenRates(
        _average(rates.prefill, prefill, measured.prefill), _average(rates.decode, decode, measured.decode)
    )


def _average(before: float, seen: float, measured: float) -> float:
    after = (1 - _NEW_WEIGHT) * before + _NEW_WEIGHT * seen if seen else before
    return min(max(after, _MIN_FACTOR * measured), _MAX_FACTOR * measured)
