"""Verdicts for the terminal: reached where the indexes are, printed where they were asked for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo
from typing import Any, TypedDict

from bot.beside.asked import Notebook, asked
from bot.plain import Shown, dated, plain
from bot.words import Words
from rag_core.doors.archive import posts
from rag_core.rag import Rag
from rag_core.types import Citation
from rag_core.verify.verdict import Label, Verdict
from rag_core.verify.verdicts import SEARCHED, Verification, verify

__all__ = ["Verified", "spelt", "verified"]


class Verified(TypedDict):
    """Verdicts as they go over the socket and as `--json` prints them. Dates are ISO texts in UTC."""

    verdicts: list[dict[str, Any]]
    left: int
    without: list[str]
    trace_id: str
    trace: list[dict[str, Any]]


async def verified(rag: Rag, text: str, zone: tzinfo, *, trace: bool) -> Verified | None:
    """Hold a text against every channel, for somebody in this time zone; None where there are no channels."""
    question = await asked(text, rag, zone)
    if question is None:
        return None
    notebook = Notebook(rag)
    found = await verify(question, notebook.rag)
    named = await posts.get(rag.archive, found.posts())
    dates = {key: post.date.isoformat() for key, post in named.items()}
    return Verified(
        verdicts=[_plain(v, found) | _first(v, found, dates) for v in found.verdicts],
        left=found.left,
        without=[shortfall.stage for shortfall in found.shortfalls],
        trace_id=found.trace_id,
        trace=notebook.spans() if trace else [],
    )


def spelt(found: Verified, words: Words, zone: tzinfo) -> str:
    """The verdicts as text."""
    if not found["verdicts"]:
        return words("verify-nothing")
    missing = bool(set(found["without"]) - SEARCHED)
    blocks = ["\n".join(_lines(verdict, missing, Shown(words, zone))) for verdict in found["verdicts"]]
    notes = [words("verify-left", count=found["left"])] if found["left"] else []
    notes += dict.fromkeys(words("shortfall", stage=stage) for stage in found["without"])
    return "\n\n".join((*blocks, *notes))


def _lines(verdict: dict[str, Any], missing: bool, shown: Shown) -> Iterator[str]:
    words, later = shown.words, verdict["superseded"]
    yield words("verify-claim", claim=plain(verdict["claim"]))
    contested = verdict["label"] == Label.CONTRADICTED.value and verdict["citations"] and not later
    missed = missing and verdict["label"] == Label.NOT_FOUND.value
    yield (
        words("verify-partly")
        if missed
        else words("verify-label", label="contested" if contested else verdict["label"])
    )
    if later:
        yield words("verify-superseded")
        yield from _quotes([later], shown)
        if verdict["citations"]:
            yield words("verify-before")
    yield from _quotes(verdict["citations"], shown)
    if first := verdict["earliest"]:
        moment = datetime.fromisoformat(first["date"])
        when = f"{words.date(moment, shown.zone)}, {moment.astimezone(shown.zone):%H:%M}"
        yield words("verify-sources", count=verdict["sources"], first=first["link"], when=when)
    others = [quote for quote in verdict["against"] if not later or quote["link"] != later["link"]]
    if others and verdict["citations"]:
        yield words("verify-against", count=len(others))
    yield from _quotes(others, shown)


def _quotes(quotes: list[dict[str, str]], shown: Shown) -> Iterator[str]:
    for quote in quotes:
        date = dated(datetime.fromisoformat(quote["date"]), None, shown)
        yield f"  “{plain(quote['quote'])}”"
        yield f"  {quote['link']}  {plain(quote['title'])}, {date}"


def _plain(verdict: Verdict, found: Verification) -> dict[str, Any]:
    return {
        "claim": verdict.claim.text,
        "label": verdict.label.value,
        "likely": round(verdict.likely, 4),
        "layer": verdict.layer,
        "citations": [_cited(c, found) for c in verdict.citations],
        "against": [_cited(c, found) for c in verdict.against],
        "superseded": _cited(verdict.superseded, found) if verdict.superseded else None,
        "sources": verdict.sources,
    }


def _first(verdict: Verdict, found: Verification, dates: dict[Any, str]) -> dict[str, Any]:
    key = verdict.earliest
    return {"earliest": {"link": found.link(key), "date": dates[key]} if key and key in dates else None}


def _cited(citation: Citation, found: Verification) -> dict[str, str]:
    channel = found.channels.get(citation.post.chat_id)
    return {
        "link": found.link(citation.post),
        "title": channel.title if channel else "",
        "quote": citation.quote,
        "date": citation.date.isoformat(),
    }
