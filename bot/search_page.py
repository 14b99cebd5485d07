"""A page of /search: what was understood, how much was found, and five posts with the words in bold.

Built from text and entities only; links come from the archive, never out of a post.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from operator import itemgetter

from aiogram.utils.formatting import Bold, Code, Italic, Text, as_list

from bot.inert import inert, links, styled
from bot.plain import Shown, dated, plain, speaker
from bot.render import link
from bot.titles import one_line, title_of
from bot.words import Words
from rag_core.listing import Found, Listing
from rag_core.spots import Spots, around
from rag_core.types import Channel, post_link

__all__ = ["ON_A_PAGE", "entries_of", "last_page", "page"]

ON_A_PAGE = 5
# So much of names and texts that a page of nothing but emoji, which count twice, fits 4096 characters.
_SNIPPET, _NAME, _WORDS = 180, 48, 80
_MOST_NAMED = 2  # channels, authors and the like
# Telegram forgets entities after about a hundred of a message, also those that it finds in a text by itself.
_MOST_BOLD, _MOST_ACTIVE = 8, 5
_ACTIVE = re.compile(r"(?<!\w)[@#$/]\w|\w[.@][^\W\d_]|://|\d{7,}")

_MOMENT = timedelta(microseconds=1)


def last_page(listing: Listing) -> int:
    """The number of the last page, from 0."""
    return max(0, len(listing.found) - 1) // ON_A_PAGE


def entries_of(listing: Listing, number: int) -> Sequence[Found]:
    """The posts that a page shows."""
    return listing.found[number * ON_A_PAGE : (number + 1) * ON_A_PAGE]


def page(listing: Listing, number: int, shown: Shown) -> Text:
    """One page of what was found; a sentence that says what to try where nothing was."""
    words = shown.words
    if not listing.found:
        blocks = [Text(_nothing(listing, words))]
    else:
        first = number * ON_A_PAGE
        entries = entries_of(listing, number)
        blocks = [_head(listing, number, shown)]
        for place, found in enumerate(entries, first):
            if place == listing.whole and place:
                blocks.append(Italic(words("search-near")))
            blocks.append(_entry(place + 1, found, listing, shown))
    if notes := dict.fromkeys(words("shortfall", stage=s.stage) for s in listing.shortfalls):
        blocks.append(Italic("\n".join(notes)))
    return as_list(*blocks, sep="\n\n")


def _nothing(listing: Listing, words: Words) -> str:
    # where a part of the search failed, "there is none" would be a claim we cannot make
    if listing.shortfalls:
        return words("search-nothing-partly")
    filters = [words("search-quoted", text=one_line(piece, _NAME)) for piece in listing.sought.filters]
    if not filters:
        quoted = any(phrase[0] not in "#@" for phrase in listing.sought.plan.must)
        return words("search-nothing-quoted" if quoted else "search-nothing")
    return words("search-nothing-filtered", filters=f" {words('search-or')} ".join(filters))


def _head(listing: Listing, number: int, shown: Shown) -> Text:
    words, sought = shown.words, listing.sought
    named = one_line(sought.words, _WORDS)
    what: list[Text | str] = [styled(Bold, named) if named else words("search-all")]
    what += [*_days(listing, shown), *_channels(listing, words)]
    what += [words.rich("search-quoted", text=inert(one_line(piece, _NAME))) for piece in sought.beside[:_MOST_NAMED]]
    said = words.rich("search-for", what=as_list(*what, sep=" · "))
    return as_list(said, " · ".join((*_counts(listing, words), *_place(listing, number, words))))


def _days(listing: Listing, shown: Shown) -> Iterator[str]:
    """The days that were searched, in the reader's time zone."""
    words, only = shown.words, listing.only
    since = words.date(only.since, shown.zone) if only.since else ""
    until = words.date(only.until - _MOMENT, shown.zone) if only.until else ""
    if since and until:
        yield since if since == until else words("search-between", since=since, until=until)
    elif since:
        yield words("search-since", date=since)
    elif until:
        yield words("search-until", date=until)


def _channels(listing: Listing, words: Words) -> Iterator[str]:
    chosen = listing.sought.plan.channels or ()
    named = [title_of(c, words, _NAME) for key, c in sorted(listing.channels.items()) if key in chosen]
    yield from named[:_MOST_NAMED]
    if (more := len(named) - _MOST_NAMED) > 0:
        yield words("titles-more", more=more)


def _counts(listing: Listing, words: Words) -> Iterator[str]:
    whole, near = listing.whole, len(listing.found) - listing.whole
    if not whole and not listing.shortfalls:
        yield words("search-none-whole", count=near)
        return
    if whole:
        yield words("search-more" if listing.more else "search-count", count=listing.matching)
    if listing.matching > whole and not listing.more:
        yield words("search-different", count=whole)
    if near:
        yield words("search-similar", count=near)


def _place(listing: Listing, number: int, words: Words) -> Iterator[str]:
    if last := last_page(listing):
        yield words("search-page", page=number + 1, pages=last + 1)


def _entry(place: int, found: Found, listing: Listing, shown: Shown) -> Text:
    """A post: who speaks as the link to it, its day, in how many other channels it is, and a piece of its text."""
    post, words = found.post, shown.words
    channel = listing.channels.get(post.key.chat_id) or Channel(post.key.chat_id, "")
    origin = replace(post.origin, name=one_line(post.origin.name, _NAME)) if post.origin else None
    who = speaker(replace(channel, title=title_of(channel, words, _NAME)), origin, words)
    marks = [dated(post.date, post.edited, shown)]
    if others := {key.chat_id for key in found.copies} - {post.key.chat_id}:
        marks.append(words("source-copies", count=len(others)))
    head = Text(f"{place}. ", link(who, post_link(post.key, channel.username)), " · ", " · ".join(marks))
    snippet = _snippet(found.text, listing.spots)
    return Text(head, "\n", snippet) if one_line(snippet.render()[0]) else head


def _snippet(said: str, spots: Spots) -> Text:
    """The piece of a text that shows best what was looked for, on one line, with that in bold."""
    line = " ".join(plain(said).split())
    found = spots.within(line)
    start, end = around(line, found, _SNIPPET)
    active = list(_ACTIVE.finditer(line, start, end))
    if len(active) > _MOST_ACTIVE:
        end = max(active[_MOST_ACTIVE].start(), start + 1)
    said = line[start:end].rstrip(" ,;:–—-") if end < len(line) else line[start:end]
    taken = links(said)
    bold = ((spot.start - start, spot.end - start) for spot in found if spot.start >= start)
    free = (one for one in bold if one[1] <= len(said) and all(one[1] <= a or b <= one[0] for a, b in taken))
    marks = [*((*span, Code) for span in taken), *((*span, Bold) for span in islice(free, _MOST_BOLD))]
    pieces: list[Text | str] = ["…"] if start else []
    at = 0
    for a, b, style in sorted(marks, key=itemgetter(0)):
        pieces += [said[at:a], style(said[a:b])]
        at = b
    return Text(*filter(None, (*pieces, said[at:], "…" if end < len(line) else "")))
