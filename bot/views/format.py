"""Text formatting: neutralized links, and splitting into messages.

Links: Telegram turns addresses, @names, /commands, #tags, $TAGS, phone and card numbers of any text into links. In
code it does not, and the words can still be copied: https://core.telegram.org/api/entities. Every name and text
that a stranger may choose goes through `neutralize_links`; the session neutralizes what a view overlooked.

Messages: split by length (4096 characters) and by number of entities (Telegram silently drops formatting after
about a hundred), never inside a link. Entities count in UTF-16 units. Limits:
https://core.telegram.org/bots/api#sendmessage
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import accumulate, pairwise
from typing import Any

from aiogram.enums import MessageEntityType
from aiogram.types import MessageEntity
from aiogram.utils.formatting import Code, Text

# Addresses that Telegram may detect, and some more. A word with one capital after a dot ("closed.Come") is no
# address; see is_common_tld in https://github.com/tdlib/td/blob/master/td/telegram/MessageEntity.cpp. All repeats are
# bounded or plainly greedy, so that no text takes long; of an address too long for them the end is found.
_DOT = "[.\u3002\uff0e\uff61]"
LINK_REGEX = (
    r"(?i:\w{0,12}://\S*"
    r"|(?:javascript|data|vbscript|file|mailto|tel|tg|ton):\S+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    rf"|(?<![\w-])(?:[\w-]{{1,63}}{_DOT}){{1,8}}"
    r"(?:xn--[\w-]{1,59}|(?-i:(?![A-Z\u0401\u0410-\u042f][a-z\u0451\u0430-\u044f]+\b))[^\W\d_]{2,24})"
    r"(?::\d+)?(?:[/?#]\S*)?"
    r"|(?<!\d)(?:\d{1,3}\.){3}\d{1,3}(?:[:/]\S*)?"
    r"|(?<!\w)[@/]\w+(?:@\w+)?"
    # a hashtag has a letter: #1 is none
    r"|(?<!\w)[#\uff03](?=\d*[^\W\d])\w+(?:@\w+)?"
    r"|(?<![\w$])(?-i:\$(?:1INCH|[A-Z]{1,8}))(?![\w$])(?:@\w+)?"
    # cards have 13 to 19 digits; phones a plus, or ten digits and more, or the usual groups
    r"|(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)"
    r"|\+[ (]?\d(?:[ ().-]{0,3}\d){6,14}"
    r"|(?<![\w.,])\d{10,15}(?![\w])"
    r"|(?<![\w.,])(?:[0178][ -]?)?\(?\d{3}\)?[ -]\d{3}[ -]?\d{2}[ -]?\d{2}(?!\d))"
)
_LINK_PATTERN = re.compile(LINK_REGEX)
# Commands that the bot's own sentences offer readers to tap.
BOT_COMMANDS = frozenset(
    "about ask bind channels check delete digest forget grant help import link media mode models more mydata new "
    "plan privacy reindex revoke search sets settings sources start stats stop synonyms token unanswered unbind "
    "verify watch watches why".split()
)
_MAX_LINKS = 6  # Telegram drops entities after a hundred per message: the bot's own links must be among them
# Entities in which Telegram detects nothing, and styles that code cannot be combined with.
_LINKLESS_ENTITIES = frozenset({"code", "pre", "text_link", "text_mention", "url", "custom_emoji"})
STYLE_ENTITIES = frozenset({"bold", "italic", "underline", "strikethrough", "spoiler"})


def list_utf16_offsets(text: str) -> list[int]:
    """List the offsets of the characters of a text, and of its end, in UTF-16 units."""
    return list(accumulate((2 if letter > "\uffff" else 1 for letter in text), initial=0))


def find_link_spans(text: str) -> list[tuple[int, int]]:
    """Find the spans of which Telegram may make links; neighbouring spans are merged where there are many."""
    found = [match.span() for match in _LINK_PATTERN.finditer(text)]
    if len(found) <= _MAX_LINKS:
        return found
    cuts = sorted(nlargest(_MAX_LINKS - 1, range(1, len(found)), key=lambda at: found[at][0] - found[at - 1][1]))
    return [(found[start][0], found[end - 1][1]) for start, end in pairwise((0, *cuts, len(found)))]


def neutralize_entities(text: str, entities: Sequence[MessageEntity]) -> list[MessageEntity]:
    """Entities of a message, with code added over all text that Telegram would link, except this bot's commands."""
    spans = [match.span() for match in _LINK_PATTERN.finditer(text) if match[0].removeprefix("/") not in BOT_COMMANDS]
    if not spans:
        return list(entities)
    places = list_utf16_offsets(text)
    closed = sorted((e.offset, e.offset + e.length) for e in entities if e.type in _LINKLESS_ENTITIES)
    holes = [hole for start, end in spans for hole in _subtract_spans(places[start], places[end], closed)]
    if not holes:
        return list(entities)
    kept = []
    for entity in entities:
        pieces = [(entity.offset, entity.offset + entity.length)]
        if entity.type in STYLE_ENTITIES:
            pieces = _subtract_spans(*pieces[0], holes)
        kept += [entity.model_copy(update={"offset": start, "length": end - start}) for start, end in pieces]
    code = [MessageEntity(type="code", offset=start, length=end - start) for start, end in holes]
    return sorted((*kept, *code), key=lambda one: (one.offset, -one.length))


def _subtract_spans(start: int, end: int, others: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Parts of a span that lie outside of others, which must be sorted."""
    left = []
    for other_start, other_end in others:
        if other_end <= start or other_start >= end:
            continue
        if start < other_start:
            left.append((start, other_start))
        start = max(start, other_end)
    return [*left, (start, end)] if start < end else left


def neutralize_links(text: str) -> Text:
    """Set as code what Telegram would link in a text."""
    pieces: list[Text | str] = []
    at = 0
    for start, end in find_link_spans(text):
        pieces += [text[at:start], Code(text[start:end])]
        at = end
    return Text(*(piece for piece in (*pieces, text[at:]) if piece))


def style_text(style: type[Text], text: str, sign: str = "") -> Text:
    """Apply a style such as Bold; where the text needs code, which takes no style, put `sign` before it instead."""
    return Text(sign, neutralize_links(text)) if find_link_spans(text) else style(text)


MAX_MESSAGE_LENGTH = 4096
MAX_ENTITIES = 100  # Telegram silently drops formatting after about a hundred entities per message
_CUT_SEPARATORS = ("\n\n", "\n", " ")  # best places to cut, in order: between paragraphs, lines, words
# Entities that Telegram may detect by itself: links, mentions, hashtags, commands. They count as well.
_AUTO_ENTITY_PATTERN = re.compile(r"(?<!\w)[@#$/]\w|\w\.\w|://")
QUOTE_TYPES = {MessageEntityType.BLOCKQUOTE, MessageEntityType.EXPANDABLE_BLOCKQUOTE}


@dataclass(frozen=True, slots=True)
class Page:
    """One message: its text and entities, ready for `sendMessage`."""

    text: str
    entities: tuple[MessageEntity, ...]

    def as_kwargs(self) -> dict[str, Any]:
        """Arguments of `sendMessage`, as of a formatted text."""
        return {"text": self.text, "entities": list(self.entities)}


def split_pages(content: Text, limit: int = MAX_MESSAGE_LENGTH) -> list[Page]:
    """Cut `content` into messages of at most `limit` UTF-16 units, none of them blank.

    A quote that crosses a cut becomes two quotes; any other entity is cut only when it alone is too long.
    """
    splitter, start = _MessageSplitter(*content.render()), 0
    cut: list[Page] = []
    while start < len(splitter.text):
        end = splitter.cut(start, limit)
        if page := splitter.page(start, end):
            cut.append(page)
        start = end
    return cut


class _MessageSplitter:
    """Splits a text into messages; maps between code points (to cut at) and UTF-16 units (to measure)."""

    def __init__(self, text: str, entities: Sequence[MessageEntity]) -> None:
        self.text = text
        self.entities = entities
        self.units = list_utf16_offsets(text)
        self.points = {unit: point for point, unit in enumerate(self.units)}
        self.found = [self.units[match.start()] for match in _AUTO_ENTITY_PATTERN.finditer(text)]

    def cut(self, start: int, limit: int) -> int:
        """End of the message that begins at `start`."""
        begun = self.units[start]
        end = bisect_right(self.units, begun + limit) - 1
        inside = [e.offset for e in self.entities if begun < e.offset + e.length]
        inside = sorted([*inside, *(place for place in self.found if begun <= place)])
        if len(inside) > MAX_ENTITIES:
            end = min(end, max(start + 1, self.points[inside[MAX_ENTITIES]]))
        end = max(end, start + 1)
        if end == len(self.text):
            return end
        kept = [e for e in self.entities if e.type not in QUOTE_TYPES and e.length <= limit]
        # Separators of the second half first: a short message followed by a long one reads worse than a plain cut.
        for place in self._cut_places(start, end):
            if not any(e.offset < self.units[place] < e.offset + e.length for e in kept):
                return place
        return end

    def _cut_places(self, start: int, end: int) -> Iterator[int]:
        """Places to cut, best first: separators in the second half, separators in the first, then any place."""
        middle = (start + end) // 2
        for low, high in ((middle, end), (start, middle)):
            for seam in _CUT_SEPARATORS:
                found = self.text.rfind(seam, low, high)
                while found >= 0 and found + len(seam) > start:
                    yield found + len(seam)
                    found = self.text.rfind(seam, low, found) if found > low else -1
        yield from range(end, start, -1)

    def page(self, start: int, end: int) -> Page | None:
        """Message between two places, without white space at its ends; None where nothing is left."""
        raw = self.text[start:end]
        if not raw.strip():
            return None
        first = self.units[start + len(raw) - len(raw.lstrip())]
        last = self.units[start + len(raw.rstrip())]
        shown = []
        for entity in self.entities:
            begin, stop = max(entity.offset, first), min(entity.offset + entity.length, last)
            if begin < stop and self.text[self.points[begin] : self.points[stop]].strip():
                shown.append(entity.model_copy(update={"offset": begin - first, "length": stop - begin}))
        return Page(raw.strip(), tuple(shown))
