"""Plain nested values. This file never reads the environment: the `citegram` command does (bot/settings.py)."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["AnswerSettings", "Budgets", "DataSettings", "RagSettings"]


class _Section(BaseModel):
    """A section refuses names it does not know, so that a misspelt setting is noticed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class DataSettings(_Section):
    """Where everything lives."""

    dir: Path = Field(Path("data"), description="Folder of the archive and the indexes.")


class AnswerSettings(_Section):
    """How an answer looks and when one is refused."""

    sentences: int = Field(3, ge=1, le=5, description="At most so many sentences without a model.")
    coverage: float | None = Field(
        None, ge=0, le=1, description="Refuse below this coverage (0-1). Empty: the calibrated value."
    )


class Budgets(_Section):
    """Seconds a stage may take (DESIGN 5)."""

    plan: float = Field(10, gt=0, description="Seconds for planning.")
    search: float = Field(4, gt=0, description="Seconds for one search leg.")
    fetch: float = Field(2, gt=0, description="Seconds for reading the found posts.")
    write: float = Field(60, gt=0, description="Seconds for writing the answer.")


class RagSettings(_Section):
    """Everything `open_rag` needs."""

    data: DataSettings = DataSettings()
    answer: AnswerSettings = AnswerSettings()
    budgets: Budgets = Budgets()
