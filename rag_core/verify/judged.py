"""The fourth layer: a language model says whether a passage bears the claim out, in one of two words."""

from __future__ import annotations

from collections.abc import Sequence

from rag_core.doors.llm import Seat
from rag_core.judge import odds_of
from rag_core.prompts import script
from rag_core.quoting import quoted_claim
from rag_core.types import Passage
from rag_core.verify.verdict import Claim

__all__ = ["by_judge"]


async def by_judge(claim: Claim, passages: Sequence[Passage], seat: Seat) -> list[float]:
    """Log P(yes) - log P(no) that each passage says the claim, in their order. Raises GenerationFailed."""
    return await odds_of(claim.text, quoted_claim, script("support", claim.lang), passages, seat)
