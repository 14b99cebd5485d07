"""An answer for the terminal: made where the indexes are, printed where it was asked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, tzinfo
from typing import Any, TypedDict

from bot.beside.asked import Notebook, asked
from bot.plain import WRITING, Shown, dated, plain, speaker
from bot.words import Words
from rag_core.answering import answer
from rag_core.doors.archive import posts
from rag_core.doors.archive.modes import AUTO
from rag_core.rag import Rag
from rag_core.types import Answer, Channel, Origin, Passage, Post, PostKey

__all__ = ["Told", "staged", "told", "traced", "written"]


class Told(TypedDict):
    """What is known of an answer, as it goes over the socket. Dates are ISO texts in UTC."""

    answer: dict[str, Any]  # as printed by --json
    marks: list[list[int]]  # for each sentence the numbers of its sources
    sources: list[dict[str, str]]  # link, title, date, edited, origin where it has them; by number, from 1
    nearest: list[dict[str, str]]  # the same, of a refusal
    trace: list[dict[str, Any]]


async def told(rag: Rag, text: str, zone: tzinfo, *, trace: bool, recipe: str = AUTO) -> Told | None:
    """Answer somebody in this time zone who may read every channel; None where there are none."""
    question = await asked(text, rag, zone)
    if question is None:
        return None
    notebook = Notebook(rag)
    given = await answer(question, replace(notebook.rag, recipe=recipe))
    numbers = {key: n for n, key in enumerate(given.posts(), 1)}
    dates = {c.post: c.date for s in given.sentences for c in s.citations}
    cited = await posts.get(rag.archive, numbers)
    return Told(
        answer=_plain(given, cited),
        marks=[[numbers[key] for key in dict.fromkeys(c.post for c in s.citations)] for s in given.sentences],
        sources=[_source(given, key, dates[key], cited.get(key)) for key in numbers],
        nearest=[_source(given, p.key, p.date, p) for p in given.nearest],
        trace=notebook.spans() if trace else [],
    )


def written(found: Told, words: Words, zone: tzinfo) -> str:
    """The answer as text: sentences with numbers, then their sources; or what was nearest."""
    given = found["answer"]
    if given["refused"]:
        # where a part of the search failed, "it is not there" would be a claim we cannot make
        lines = [words("refused-partly" if set(given["without"]) - WRITING else "refused")]
        sources = [_line(source, words, zone) for source in found["nearest"]]
        sources[:0] = [words("nearest", count=len(sources))] if sources else []
    else:
        marked = zip(given["sentences"], found["marks"], strict=True)
        lines = [f"{plain(s['text'])} {' '.join(f'[{n}]' for n in marks)}" for s, marks in marked]
        sources = [f"[{n}] {_line(source, words, zone)}" for n, source in enumerate(found["sources"], 1)]
    if given["model"]:
        sources += ["", words("footer-model", model=plain(given["model"]))]
    return "\n".join((*lines, "", *sources)).rstrip()


def traced(found: Told) -> list[str]:
    """The stages of the answer, a line each."""
    return staged(found["trace"])


def staged(spans: Iterable[Mapping[str, Any]]) -> list[str]:
    """The stages of a run, a line each."""
    lines = []
    for span in spans:
        counts = " ".join(f"{name}={value}" for name, value in span["counts"].items())
        error = f"  {span['error']}" if span["error"] else ""
        lines.append(f"{span['stage']:10} {span['took_ms']:8.1f} ms  {counts}{error}")
    return lines


def _line(source: dict[str, str], words: Words, zone: tzinfo) -> str:
    who = speaker(Channel(0, source["title"]), Origin(source["origin"]) if "origin" in source else None, words)
    edited = datetime.fromisoformat(source["edited"]) if "edited" in source else None
    date = dated(datetime.fromisoformat(source["date"]), edited, Shown(words, zone))
    return f"{source['link']}  {who}, {date}"


def _source(given: Answer, key: PostKey, date: datetime, post: Post | Passage | None) -> dict[str, str]:
    channel = given.channels.get(key.chat_id)
    about = {"link": given.link(key), "title": channel.title if channel else "", "date": date.isoformat()}
    return about | _marks(key, post)


def _marks(key: PostKey, post: Post | Passage | None) -> dict[str, str]:
    """When it was edited, and whose words it has where it is a forward."""
    edited = {"edited": post.edited.isoformat()} if post and post.edited else {}
    origin = post.origin if post else None
    return edited | ({"origin": origin.name} if origin and origin.chat_id != key.chat_id else {})


def _plain(given: Answer, cited: Mapping[PostKey, Post]) -> dict[str, Any]:
    return {
        "refused": given.refused,
        "sentences": [
            {"text": s.text, "support": s.support,
             "citations": [{"link": given.link(c.post), "quote": c.quote, "date": c.date.isoformat()}
                           | _marks(c.post, cited.get(c.post)) for c in s.citations]}
            for s in given.sentences
        ],
        "nearest": [given.link(p.key) for p in given.nearest],
        "confidence": round(given.confidence, 4),
        "recipe": given.recipe,
        "model": given.model,
        "without": [s.stage for s in given.shortfalls],
        "trace_id": given.trace_id,
    }  # fmt: skip
