"""Types of verification: label, claim, support by one passage, verdict over all posts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from rag_core.types import Citation, PostKey

__all__ = ["Claim", "Label", "Support", "Verdict"]


class Label(StrEnum):
    """What posts say of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that is said: `text` is `whole[start:end]` of the message it stands in; `lang` is "ru" or "en"."""

    text: str
    lang: str
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Support:
    """What one passage says of one claim.

    `likely` is how likely the passage supports it, 0..1, calibrated; `layer` decided (rules, words, meaning, cross,
    judge); `why` names what did not agree, such as "1 200 ≠ 1 500", for traces and tests; `start` and `end` are where
    the words that decide stand in the passage's text.
    """

    label: Label
    likely: float
    layer: str
    why: str = ""
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all the posts that the asker may read say of one claim.

    `sources` counts independent posts that support it (copies and forwards once); `earliest` is the first of them;
    `against` are posts that say otherwise; `superseded` is the later post of the same channel that changes the value.
    """

    claim: Claim
    label: Label
    likely: float
    layer: str = ""
    citations: tuple[Citation, ...] = ()
    against: tuple[Citation, ...] = ()
    sources: int = 0
    earliest: PostKey | None = None
    superseded: Citation | None = None

    @property
    def contested(self) -> bool:
        """Whether posts disagree now, and none of them takes the word of another back."""
        return self.label is Label.CONTRADICTED and bool(self.citations) and self.superseded is None
