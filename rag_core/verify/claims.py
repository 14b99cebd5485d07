"""A message to the things it claims: sentences, parted where two facts are joined, without what claims nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from rag_core.analysis import language_of
from rag_core.sentences import LONGEST, parted, sentences
from rag_core.verify.claimed import asked_of, claims_something, stands_alone
from rag_core.verify.facts import LONGEST_STATED
from rag_core.verify.verdict import Claim

__all__ = ["claims_of"]

MOST = 20  # claims of one message: nobody reads more verdicts
_MOST_JOINTS = 40  # of a sentence: words and marks at which it may be parted
_JOINED = re.compile(
    r"(?P<semicolon>\s*;\s+)|,?\s+(?P<word>а также|причем|а|но|и|однако|зато|and|but|while|whereas)\s+(?=[^\W_])|,\s+(?P<also>then|also|затем|также)\s+"
)
_DEPENDS = re.compile(
    r"(?:^|[\s,])(?:если|чтобы|хотя|когда|пока|потому что|так как|поскольку|котор\w+|что|if|unless|although|though|when|because|since|that|which|who|"
    r"between|both|either|neither|между|как)\s",
    re.I,
)
_EDGE = " \t\n\"'«»“”„*•–—-,;?"


def claims_of(text: str, lang: str) -> tuple[Claim, ...]:
    """The claims of a message in order, each a part of it word for word; a sentence in another language has its own."""
    found: list[Claim] = []
    seen: set[str] = set()
    for start, end in sentences(text):
        if not claims_something(text[start:end]):
            continue
        start += asked_of(text[start:end])
        for at, to in _parts(text, start, end):
            at, to = _trimmed(text, at, to)
            said = text[at:to]
            if said and said.casefold() not in seen:
                seen.add(said.casefold())
                found.append(Claim(said, _lang(said, lang), at, to))
            if len(found) == MOST:
                return tuple(found)
    return tuple(found)


def _lang(said: str, lang: str) -> str:
    letters = [c for c in said.lower() if c.isalpha()]
    cyrillic = sum("а" <= c <= "я" or c == "ё" for c in letters)
    return "ru" if cyrillic > 0.8 * len(letters) else "en" if not cyrillic else language_of(said) if letters else lang


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The sentence, or its parts where each has a subject and a verb of its own and none leans on another."""
    if not _DEPENDS.search(f" {text[start:end]}"):
        at, parts = start, []
        for joint in islice(_JOINED.finditer(text, start, end), _MOST_JOINTS):
            before = text[at : min(joint.start(), at + LONGEST)]
            if stands_alone(before) and stands_alone(text[joint.end() : min(end, joint.end() + LONGEST)]):
                parts.append((at, joint.start()))
                at = joint.end()
        yield from parts
        start = at
    if end - start <= LONGEST_STATED:
        yield start, end
        return
    yield from (part for part in parted(text, (start, end), LONGEST_STATED) if claims_something(text[slice(*part)]))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    opening, closing = '«"“„(', '»"”)'
    while start < end and ((text[start] in _EDGE and text[start] not in opening) or text[start].isspace()):
        start += 1
    while end > start and ((text[end - 1] in _EDGE and text[end - 1] not in closing) or text[end - 1].isspace()):
        end -= 1
    return start, end
