"""From what each passage says of a claim to one verdict: the newest word of a channel counts, and others beside it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rag_core.asked import Weigh
from rag_core.support import best_quote
from rag_core.types import Citation, Passage
from rag_core.verify.telling import Weighed, telling, widened
from rag_core.verify.verdict import Claim, Label, Verdict

__all__ = ["later_in", "ruled"]

_MOST_SHOWN = 3  # posts for a claim, and as many against it
# Likely so, but for a word that could not be matched: enough to keep last year's dates from denying this year's.
_NEARLY = 0.45
_MOST_CHANNELS = 3  # that are asked what they said later


def later_in(claim: Claim, weighed: Sequence[Weighed], weight: Weigh) -> dict[int, datetime]:
    """Where to look for a later word: channels that speak of the claim, and when the surest of their posts did."""
    since: dict[int, datetime] = {}
    for one in telling(claim, weighed, weight):
        if len(since) < _MOST_CHANNELS:
            since.setdefault(one.passage.key.chat_id, one.passage.date)
    return since


def ruled(claim: Claim, weighed: Sequence[Weighed], weight: Weigh) -> tuple[Verdict, tuple[Passage, ...]]:
    """The verdict, its sources uncounted, and all the passages that bear the claim out."""
    told = telling(claim, weighed, weight)
    backing = [one for one in told if one.support.label is Label.SUPPORTED]
    nearly = [one for one in weighed if one.support.label is Label.NOT_FOUND and one.support.likely >= _NEARLY]
    against = [one for one in told if one.support.label is Label.CONTRADICTED and not _outlived(one, backing + nearly)]
    if not backing and not against:
        best = max(weighed, key=lambda one: one.support.likely, default=None)
        return Verdict(claim, Label.NOT_FOUND, *((best.support.likely, best.support.layer) if best else (0.0,))), ()
    changed = _changed(backing, against)
    label = Label.SUPPORTED if backing and not changed and _outweighs(backing, against) else Label.CONTRADICTED
    first = max(backing if label is Label.SUPPORTED else against, key=lambda one: one.sure)
    others = sorted((one for one in against if one is not changed), key=lambda one: one.passage.date, reverse=True)
    verdict = Verdict(
        claim,
        label,
        first.support.likely,
        first.support.layer,
        _cited(claim, backing),
        _cited(claim, ([changed] if changed else []) + others),
        superseded=_citation(claim, changed) if changed else None,
    )
    return verdict, tuple(one.passage for one in backing)


def _outlived(one: Weighed, backing: Iterable[Weighed]) -> bool:
    """Whether its channel has said later that it is, or nearly is, as claimed."""
    key, date = one.passage.key, one.passage.date
    return any(b.passage.key.chat_id == key.chat_id and b.passage.date >= date for b in backing)


def _changed(backing: Sequence[Weighed], against: Sequence[Weighed]) -> Weighed | None:
    """The latest post that says otherwise, of a channel that said so before; None where another said so since."""
    said = {one.passage.key.chat_id for one in backing}
    later = [one for one in against if one.passage.key.chat_id in said]
    last = max(later, key=lambda one: one.passage.date, default=None)
    if last is None or any(one.passage.date > last.passage.date for one in backing):
        return None
    return last


def _outweighs(backing: Sequence[Weighed], against: Sequence[Weighed]) -> bool:
    return max(one.sure for one in backing) >= max((one.sure for one in against), default=0.0)


def _cited(claim: Claim, told: Iterable[Weighed]) -> tuple[Citation, ...]:
    """A quote of each of the first posts."""
    first: dict[object, Weighed] = {}
    for one in told:
        first.setdefault(one.passage.key, one)
    return tuple(c for one in list(first.values())[:_MOST_SHOWN] if (c := _citation(claim, one)))


def _citation(claim: Claim, one: Weighed) -> Citation | None:
    """The words that decide, as they stand in the post."""
    passage, span = one.passage, (one.support.start, one.support.end)
    if span[0] >= span[1]:
        span = best_quote(claim.text, passage) or (0, 0)
    start, end = widened(claim, passage.text, span)
    quote, at = passage.text[start:end], passage.start + start
    return Citation(passage.key, quote, at, at + len(quote), passage.date) if quote else None
