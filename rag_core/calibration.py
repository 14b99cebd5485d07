"""What was fitted on data: when an answer is likely enough to be shown. Written by `citegram eval calibrate`."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

from rag_core.settings import RagSettings

__all__ = ["Calibration"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Calibration:
    """The bar an answer must pass (0..1), and where the figure comes from."""

    bar: float = 0.5
    data: str = "XQuAD (RU, EN) alone and among Russian news posts, RuBQ: at most 8 % of answerable questions refused"
    date: str = "2026-11-20"

    @classmethod
    def load(cls, settings: RagSettings) -> Calibration:
        """The setting where one is given, else what was fitted here, else what the project came with."""
        if settings.answer.coverage is not None:
            return cls(settings.answer.coverage, "the setting ANSWER__COVERAGE", "")
        try:
            stored = json.loads(cls.file(settings).read_text(encoding="utf-8"))
            return cls(float(stored["bar"]), str(stored["data"]), str(stored["date"]))
        except FileNotFoundError:
            return cls()
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("calibration.json cannot be read: the project's own values are used")
            return cls()

    def save(self, settings: RagSettings) -> Path:
        """Keep it beside the archive."""
        file = self.file(settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(asdict(self), ensure_ascii=False, indent=1), encoding="utf-8")
        return file

    @staticmethod
    def file(settings: RagSettings) -> Path:
        """Where it is kept."""
        return settings.data.dir / "calibration.json"
