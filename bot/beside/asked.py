"""What is asked on the terminal, which sees every channel, and how it was answered."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime, tzinfo
from typing import Any

from rag_core.analysis import language_of
from rag_core.doors.archive import channels
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.types import Question, Viewer

__all__ = ["Notebook", "asked"]


async def asked(text: str, rag: Rag, zone: tzinfo) -> Question | None:
    """A question over every channel, by somebody in this time zone; None where there are no channels."""
    viewer = Viewer(0, frozenset(await channels.known(rag.archive)))
    return Question(text, language_of(text), datetime.now(zone), viewer) if viewer.channels else None


class Notebook:
    """The run of one question: give `rag` to what answers, then read `spans`."""

    def __init__(self, rag: Rag) -> None:
        self._before, self._runs = rag.traced, list[Run]()
        self.rag = replace(rag, traced=self._note)

    def _note(self, run: Run) -> None:
        self._runs.append(run)
        self._before(run)

    def spans(self) -> list[dict[str, Any]]:
        """Its stages, in the order they ended."""
        return [asdict(span) for run in self._runs for span in run.spans]
