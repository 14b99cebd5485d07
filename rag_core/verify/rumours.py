"""What a post tells only to say that it is not so, and what it tells as hearsay. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rag_core.verify.facts import Stated
from rag_core.verify.words import folded

__all__ = ["belied", "hearsay"]

_SAME = 0.5  # of the claim's words in the sentence: it is the claim that is called false
_SHOWN = 40  # characters of what is called false
_FALSE = re.compile(
    r"(?<!\w)(?:неправда|не правда|неверно, что|не соответству(?:ет|ют) действительности|не подтвердил(?:ся|ась|ись|ось)|"
    r"вопреки слухам|фейк|выдумк[аи]|вранье|(?:это|[-–—]) (?:ложь|миф|утка)|not true|untrue|no truth (?:in|to)|"
    r"contrary to (?:the )?rumou?rs?|(?:is|are|was|were|it's|that's|all|both|[-–—:]) (?:simply |quite |just )?(?:false|a (?:lie|myth|hoax)|nonsense)|"
    r"(?:untrue|unfounded|groundless)|it is false that)(?!\w)"
)
_NEXT = re.compile(
    r"\W*(?:(?:но |but )?(?:это|все это|that is|that's|this is|it is|it's|they are) )?"
    r"(?:неправда|не правда|не так|неверно|ложь|выдумк[аи]|фейк|вранье|not (?:true|so)|untrue|false|a (?:lie|hoax)|nonsense)(?=\s*(?:[.,;:!?…—–-]|$))"
)
_HEARSAY = re.compile(
    r"(?<!\w)(?:слух(?:и|ам|ах|ов)?|поговаривают|сплетни|говорят,? (?:что|будто)|rumou?rs?|rumou?red|gossip|hearsay|word has it)(?!\w)"
)


def belied(
    claim: Stated, best: Stated, text: Sequence[Stated], about: float, denied: Iterator[tuple[bool, str]]
) -> Iterator[tuple[bool, str]]:
    """The denials that differ; where the post calls the sentence false, a claim that does not deny it differs."""
    if about < _SAME or not _called_false(best, text) or _says(_FALSE, claim) or _says(_HEARSAY, claim):
        yield from denied
        return
    called = [found.span() for found in _FALSE.finditer(folded(best.text))]
    outside = [scope for scope in best.denied if not any(start <= scope.at < end for start, end in called)]
    if len(claim.denied) % 2 == len(outside) % 2:
        yield True, f"{claim.text.strip(' .!')[:_SHOWN]} ≠ called false"


def _called_false(best: Stated, text: Sequence[Stated]) -> bool:
    at = next((n for n, one in enumerate(text) if one is best), len(text))
    behind = text[at + 1] if at + 1 < len(text) else None
    return _says(_FALSE, best) or (behind is not None and bool(_NEXT.match(folded(behind.text))))


def _says(what: re.Pattern[str], sentence: Stated) -> bool:
    return bool(what.search(folded(sentence.text)))


def hearsay(claim: Stated, best: Stated, about: float) -> Iterator[str]:
    """What the sentence only passes on, and the claim says is so."""
    if about >= _SAME and not _says(_HEARSAY, claim) and not _says(_FALSE, best) and _says(_HEARSAY, best):
        yield "hearsay"
