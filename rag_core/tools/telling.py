"""Tools that say something of posts: summarize, verify."""

from __future__ import annotations

import asyncio

from rag_core.analysis import language_of
from rag_core.asked import Asked
from rag_core.extract import best_pieces
from rag_core.tools.desk import Desk
from rag_core.tools.wires import Checked, Claimed, Numbers, Text, Told
from rag_core.types import Evidence, Source
from rag_core.verify import Label
from rag_core.verify.weigh import decide

__all__ = ["summarize", "verify"]

_SENTENCES, _MARGIN, _LONGEST = 3, 6.0, 240
_DECIDING = 3  # posts named with a verdict


async def summarize(asked: Numbers, desk: Desk) -> Told:
    """What posts say of the question, in a few of their own sentences: nothing is made up, so all can be cited."""
    numbers = list(dict.fromkeys(asked.posts))
    evidence = Evidence(tuple(Source(n, desk.passage(n), 1.0) for n in numbers))
    about = Asked.of(desk.question.text, desk.rag.lexical.statistics(desk.question.viewer.channels).weight)
    pieces = await asyncio.to_thread(best_pieces, about, evidence, _SENTENCES, _MARGIN, _LONGEST)
    said = [(piece.source, piece.source.passage.text[piece.start : piece.end]) for piece in pieces]
    return Told(sentences=[Text(post=s.number, date=s.passage.date.date(), text=text) for s, text in said])


async def verify(asked: Claimed, desk: Desk) -> Checked:
    """Whether the posts found so far say a claim: one that bears it out outweighs those that say otherwise."""
    lang = language_of(asked.claim)
    found = await asyncio.to_thread(lambda: [decide(asked.claim, hit.passage.text, lang) for hit in desk.found])
    for label in (Label.SUPPORTED, Label.CONTRADICTED):
        deciding = [(one.likely, n) for n, one in enumerate(found, 1) if one.label is label]
        if deciding:
            surest = (max if label is Label.SUPPORTED else min)(deciding)[0]
            numbers = [n for _, n in deciding][:_DECIDING]
            return Checked(label=label.value, confidence=round(surest, 3), posts=numbers)
    return Checked(
        label=Label.NOT_FOUND.value, confidence=round(max((one.likely for one in found), default=0.0), 3), posts=[]
    )
