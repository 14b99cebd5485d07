"""Types of verification: label, claim, support by one passage, verdict over all posts.

A claim becomes facts (`facts`), which are compared with those of a sentence (`comparison`, `things`); `stance` reads
from that what a post says of the claim, and `verify` decides over all posts. `support` checks sentences of a model.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from rag_core.types import Channel, Citation, Post, PostKey, Shortfall, format_channel_post_link


class Label(StrEnum):
    """Verification label: what the posts say of a claim."""

    SUPPORTED = "supported"
    CONTRADICTED = "contradicted"
    NOT_FOUND = "not_found"


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement to check: `text` is `message[start:end]` of the message it is from; `lang` is "ru" or "en"."""

    text: str
    lang: str
    start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class Support:
    """Result for one claim and one passage.

    `likely` is the calibrated probability that the passage supports the claim, 0..1; `layer` is the layer that
    decided (rules, words, meaning, cross, judge); `why` names the disagreement, such as "1 200 ≠ 1 500", for traces
    and tests; `start` and `end` are the offsets of the deciding words in the passage's text; `about` is the share of
    the claim's terms that the passage has around them; `leaning` is the label that holds if an earlier post of the
    channel has named the subject.
    """

    label: Label
    likely: float
    layer: str
    why: str = ""
    start: int = 0
    end: int = 0
    about: float = 0.0
    leaning: Label = Label.NOT_FOUND


@dataclass(frozen=True, slots=True)
class Verdict:
    """Verdict on one claim over all posts the asker may read.

    `sources` counts independent posts that support it (copies and forwards once); `earliest` is the first of them;
    `assessed` are the posts that the search found, best first; `against` cites contradicting posts; `superseded` cites the later post of the same channel that changes the value.
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
    assessed: tuple[PostKey, ...] = ()

    @property
    def contested(self) -> bool:
        """Check whether posts disagree and no later post of the same channel supersedes the claim."""
        return self.label is Label.CONTRADICTED and bool(self.citations) and self.superseded is None


@dataclass(frozen=True, slots=True)
class Verification:
    """Verification of a message: a verdict for each claim in the order of the text; `left` claims were not checked.

    No verdicts: the text has no claims. `same` is the post that the message is, word for word.
    """

    verdicts: tuple[Verdict, ...]
    left: int = 0
    shortfalls: tuple[Shortfall, ...] = ()
    trace_id: str = ""
    channels: dict[int, Channel] = field(default_factory=dict)
    same: Post | None = None

    @property
    def same_post_state(self) -> str:
        """Whether a later post changed a statement of the post that the message is: "changed", "holds" or "unknown"."""
        if any(verdict.superseded for verdict in self.verdicts):
            return "changed"
        held = all(verdict.label is Label.SUPPORTED for verdict in self.verdicts)
        return "holds" if self.verdicts and held and not self.left and not self.shortfalls else "unknown"

    def link(self, key: PostKey) -> str:
        """Link to a post, by the current username of its channel."""
        return format_channel_post_link(key, self.channels.get(key.chat_id))

    def posts(self) -> tuple[PostKey, ...]:
        """Posts that are shown, each once: the post that the message is, supporting and contradicting ones claim by claim, then the earliest sources."""
        cited = [c for v in self.verdicts for c in (*v.citations, *v.against, *filter(None, (v.superseded,)))]
        first = [v.earliest for v in self.verdicts if v.earliest]
        same = [self.same.key] if self.same else []
        return tuple(dict.fromkeys((*same, *(citation.post for citation in cited), *first)))


# Stages whose failure leaves the search complete.
NON_SEARCH_STAGES = frozenset({"verify", "rerank", "write", "support", "order", "diverse", "judge"})
