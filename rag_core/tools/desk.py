"""What the tools of one question share: the question, the doors, and the posts found so far under their numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from rag_core.doors.archive import channels
from rag_core.errors import RagError
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.tools.wires import MOST_POSTS, Found
from rag_core.types import Draft, Hit, Passage, Question

__all__ = ["Desk", "ToolFailed"]

_SNIPPET = 160  # characters


class ToolFailed(RagError):
    """A tool cannot do what it was asked; the sentence is for the model."""


@dataclass
class Desk:
    """Not frozen: posts gather here. `exact`: the last answer that was counted, not searched, cited already.

    Only posts that the asker may read ever lie here: every tool looks in the viewer's channels alone.
    """

    question: Question
    rag: Rag
    run: Run
    found: list[Hit] = field(default_factory=list)
    batches: list[list[int]] = field(default_factory=list)  # their numbers, as each tool brought them
    exact: Draft | None = None
    reckoned: list[tuple[str, str]] = field(default_factory=list)  # expression, result
    step: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)  # of the trace

    def passage(self, number: int) -> Passage:
        """The post of a number. Raises ToolFailed."""
        if not 1 <= number <= len(self.found):
            raise ToolFailed(f"There is no post {number}: search first, and use the numbers it gives.")
        return self.found[number - 1].passage

    def lay(self, hits: Iterable[Hit]) -> list[int]:
        """The numbers of these hits; those that are new get the next ones, as long as there are any."""
        numbers = []
        for hit in hits:
            at = next((n for n, known in enumerate(self.found) if _same(known, hit)), None)
            if at is None and len(self.found) < MOST_POSTS and hit.passage.key.chat_id in self.question.viewer.channels:
                at = len(self.found)
                self.found.append(hit)
            elif at is not None and hit.score > self.found[at].score:
                self.found[at] = replace(self.found[at], score=hit.score)
            if at is not None:
                numbers.append(at + 1)
        self.batches.append(numbers)
        return numbers

    async def short(self, numbers: Iterable[int]) -> list[Found]:
        """Posts in short."""
        known = await channels.known(self.rag.archive)
        shown = []
        for number in numbers:
            passage = self.passage(number)
            channel = known.get(passage.key.chat_id)
            text = " ".join(passage.text.split())[:_SNIPPET]
            shown.append(
                Found(post=number, channel=channel.title if channel else "", date=passage.date.date(), snippet=text)
            )
        return shown


def _same(one: Hit, other: Hit) -> bool:
    return (one.passage.key, one.passage.start) == (other.passage.key, other.passage.start)
