"""Verdicts as a reader sees them: each claim, what the posts say of it in plain words, quotes with links and days."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aiogram.utils.formatting import BlockQuote, Bold, Italic, Text, as_list

from bot.inert import inert
from bot.kept import Json, mark
from bot.plain import Shown, dated, plain, speaker
from bot.render import link, titled
from rag_core.types import Citation, Post, PostKey
from rag_core.verify.verdict import Label, Verdict
from rag_core.verify.verdicts import SEARCHED, Verification

__all__ = ["kept_verdicts", "verdict_page"]

_MARKS_WITHIN = str.maketrans("«»“”", "„“‘’")


def verdict_page(found: Verification, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    """All the verdicts as one formatted text; `posts` are those they name."""
    words = shown.words
    if not found.verdicts:
        return Text(words("verify-nothing"))
    several = len(found.verdicts) > 1
    blocks = [
        as_list(*_lines(verdict, f"{number}. " if several else "", found, posts, shown))
        for number, verdict in enumerate(found.verdicts, 1)
    ]
    notes = [words("verify-left", count=found.left)] if found.left else []
    notes += dict.fromkeys(words("shortfall", stage=shortfall.stage) for shortfall in found.shortfalls)
    if notes:
        blocks.append(Text(Italic("\n".join(notes))))
    return as_list(*blocks, sep="\n\n")


def _partly(found: Verification) -> bool:
    """Whether something was not searched, so that "the posts do not say" would be more than is known."""
    return bool({shortfall.stage for shortfall in found.shortfalls} - SEARCHED)


def kept_verdicts(found: Verification, posts: Mapping[PostKey, Post]) -> Json:
    """What is kept of them, for /why: the posts they stand on, as bot/kept.py keeps those of an answer."""
    cited = [c for v in found.verdicts for c in (*v.citations, *v.against)]
    dates = {c.post: int(c.date.timestamp()) for c in cited}
    return {
        "refused": all(verdict.label is Label.NOT_FOUND for verdict in found.verdicts),
        "verdicts": [verdict.label.value for verdict in found.verdicts],
        "sentences": [
            {
                "around": "",
                "support": v.likely,
                "citations": [[*c.post, c.start, c.end] for c in (*v.citations, *v.against)],
            }
            for v in found.verdicts
        ],
        "cited": [[*key, date, mark(posts[key].text) if key in posts else ""] for key, date in dates.items()],
        "shortfalls": [shortfall.stage for shortfall in found.shortfalls],
        "trace_id": found.trace_id,
    }


def _inner(text: str) -> str:
    """Quotation marks within quotation marks."""
    return text.translate(_MARKS_WITHIN)


def _lines(
    verdict: Verdict, number: str, found: Verification, posts: Mapping[PostKey, Post], shown: Shown
) -> Iterator[Text]:
    words = shown.words
    yield Text(number, words.rich("verify-claim", claim=inert(_inner(" ".join(plain(verdict.claim.text).split())))))
    missed = verdict.label is Label.NOT_FOUND and _partly(found)
    yield Text(
        Bold(
            words("verify-partly")
            if missed
            else words("verify-label", label="contested" if verdict.contested else verdict.label.value)
        )
    )
    for_it, against = verdict.citations, verdict.against
    if verdict.superseded:
        yield Text(words("verify-superseded"))
        yield _quotes([verdict.superseded], found, posts, shown)
        against = tuple(c for c in against if c.post != verdict.superseded.post)
        if for_it:
            yield Text(words("verify-before"))
    if for_it:
        yield _quotes(for_it, found, posts, shown)
        yield from _counted(verdict, found, posts, shown)
    if against:
        if for_it:
            yield Text(words("verify-against", count=len(against)))
        yield _quotes(against, found, posts, shown)


def _quotes(citations: Sequence[Citation], found: Verification, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    return BlockQuote(as_list(*(_quote(citation, found, posts, shown) for citation in citations), sep="\n\n"))


def _quote(citation: Citation, found: Verification, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    post = posts.get(citation.post)
    who = titled(
        found.channels.get(citation.post.chat_id), post.origin if post else None, found.link(citation.post), shown.words
    )
    when = dated(citation.date, post.edited if post else None, shown)
    return Text(inert(plain(citation.quote)), "\n", who, " · ", when)


def _counted(verdict: Verdict, found: Verification, posts: Mapping[PostKey, Post], shown: Shown) -> Iterator[Text]:
    """How many independent sources bear it out, and who was first and when; the day too where it is another one."""
    words, key = shown.words, verdict.earliest
    first = posts.get(key) if key else None
    if key is None or first is None or verdict.sources < 1:
        return
    channel = found.channels.get(key.chat_id)
    name = f"@{channel.username}" if channel and channel.username else speaker(channel, None, words)
    date, shown_date = (moment.astimezone(shown.zone) for moment in (first.date, verdict.citations[0].date))
    same = date.date() == shown_date.date()
    when = f"{date:%H:%M}" if same else f"{words.date(date, shown.zone)}, {date:%H:%M}"
    who = link(name, found.link(key))
    yield words.rich("verify-sources", count=verdict.sources, first=who, when=when)
