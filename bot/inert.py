"""Texts of others in a message, with no link in them: what Telegram would make one by itself is set as code.

Telegram turns addresses, @names, /commands, #tags, $TAGS, and numbers of phones and cards of any text into something to
tap. In code it does not, and the words stay as they are and can be copied: https://core.telegram.org/api/entities.
Every name and text that a stranger may choose goes through `inert`; `stray` finds what is left in a message as it is
sent (session.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from heapq import nlargest
from itertools import pairwise

from aiogram.types import MessageEntity
from aiogram.utils.formatting import Code, Text

__all__ = ["ADDRESS", "COMMANDS", "inert", "links", "made_inert", "styled"]

# One that Telegram may see, and some more. A word with one capital after a dot ("closed.Come") is no address; see
# is_common_tld in https://github.com/tdlib/td/blob/master/td/telegram/MessageEntity.cpp. All repeats are bounded or
# take what they see, so that no text takes long; where the front of an address is too long for them, its end is found.
_DOT = "[.\u3002\uff0e\uff61]"
ADDRESS = (
    r"(?i:\w{0,12}://\S*"
    r"|(?:javascript|data|vbscript|file|mailto|tel|tg|ton):\S+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    rf"|(?<![\w-])(?:[\w-]{{1,63}}{_DOT}){{1,8}}"
    r"(?:xn--[\w-]{1,59}|(?-i:(?![A-Z\u0401\u0410-\u042f][a-z\u0451\u0430-\u044f]+\b))[^\W\d_]{2,24})"
    r"(?::\d+)?(?:[/?#]\S*)?"
    r"|(?<!\d)(?:\d{1,3}\.){3}\d{1,3}(?:[:/]\S*)?"
    r"|(?<!\w)[@/]\w+(?:@\w+)?"
    # a tag has a letter: #1 is none
    r"|(?<!\w)[#\uff03](?=\d*[^\W\d])\w+(?:@\w+)?"
    r"|(?<![\w$])(?-i:\$(?:1INCH|[A-Z]{1,8}))(?![\w$])(?:@\w+)?"
    # cards have 13 to 19 digits; phones a plus, or ten digits and more, or the usual groups
    r"|(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)"
    r"|\+[ (]?\d(?:[ ().-]{0,3}\d){6,14}"
    r"|(?<![\w.,])\d{10,15}(?![\w])"
    r"|(?<![\w.,])(?:[0178][ -]?)?\(?\d{3}\)?[ -]\d{3}[ -]?\d{2}[ -]?\d{2}(?!\d))"
)
_ADDRESS = re.compile(ADDRESS)
# What this bot's own sentences tell readers to tap.
COMMANDS = frozenset(
    "ask bind channels check delete forget grant help import link mode models mydata new privacy reindex revoke search "
    "settings sources start stats stop unbind verify why".split()
)
# Telegram forgets entities after a hundred of a message: our own links must be among them.
_MOST = 6
# Entities in which Telegram looks for nothing, and styles, which code cannot have.
_CLOSED = frozenset({"code", "pre", "text_link", "text_mention", "url", "custom_emoji"})
_STYLES = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})


def links(text: str) -> list[tuple[int, int]]:
    """Where something stands that Telegram may make a link of; what is near each other is one where it is much."""
    found = [match.span() for match in _ADDRESS.finditer(text)]
    if len(found) <= _MOST:
        return found
    apart = sorted(nlargest(_MOST - 1, range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1]))
    return [(found[start][0], found[end - 1][1]) for start, end in pairwise((0, *apart, len(found)))]


def made_inert(text: str, entities: Sequence[MessageEntity]) -> list[MessageEntity]:
    """The entities of a message, and code for all in it that would be a link and is no command of this bot."""
    spans = [match.span() for match in _ADDRESS.finditer(text) if match[0].removeprefix("/") not in COMMANDS]
    if not spans:
        return list(entities)
    places = [0]
    for char in text:
        places.append(places[-1] + (2 if char > "\uffff" else 1))
    closed = sorted((e.offset, e.offset + e.length) for e in entities if e.type in _CLOSED)
    holes = [hole for start, end in spans for hole in _without(places[start], places[end], closed)]
    if not holes:
        return list(entities)
    kept = []
    for entity in entities:
        pieces = [(entity.offset, entity.offset + entity.length)]
        if entity.type in _STYLES:
            pieces = _without(*pieces[0], holes)
        kept += [entity.model_copy(update={"offset": start, "length": end - start}) for start, end in pieces]
    code = [MessageEntity(type="code", offset=start, length=end - start) for start, end in holes]
    return sorted((*kept, *code), key=lambda one: (one.offset, -one.length))


def _without(start: int, end: int, others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """What is left of a span outside of others, which are in their order."""
    left = []
    for other_start, other_end in others:
        if other_end <= start or other_start >= end:
            continue
        if start < other_start:
            left.append((start, other_start))
        start = max(start, other_end)
    return [*left, (start, end)] if start < end else left


def inert(text: str) -> Text:
    """The text as it may be put into a message."""
    pieces: list[Text | str] = []
    at = 0
    for start, end in links(text):
        pieces += [text[at:start], Code(text[start:end])]
        at = end
    return Text(*(piece for piece in (*pieces, text[at:]) if piece))


def styled(style: type[Text], text: str, sign: str = "") -> Text:
    """The text in a style such as Bold; where something in it must be code, which has no other, after the sign."""
    return Text(sign, inert(text)) if links(text) else style(text)
