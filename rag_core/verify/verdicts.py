"""Is it so? A text goes in; for each of its claims what the posts say of it comes out, with the words that say so."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from rag_core.cite import standing
from rag_core.doors.archive import channels, posts
from rag_core.rag import Rag
from rag_core.rounds import say_what_is_missing
from rag_core.sentences import sentences
from rag_core.stage import Run
from rag_core.types import Channel, Passage, PostKey, Question, Shortfall, link_of
from rag_core.verify.claims import claims_of
from rag_core.verify.looking import looked_for, newer, statement
from rag_core.verify.ruling import later_in, ruled
from rag_core.verify.sources import origins
from rag_core.verify.telling import Weighed
from rag_core.verify.verdict import Claim, Label, Verdict
from rag_core.verify.weigh import decide, weigh

__all__ = ["LONGEST_MESSAGE", "MOST_CLAIMED", "MOST_CLAIMS", "SEARCHED", "Verification", "verify"]

# Stages without which everything was searched all the same.
SEARCHED = frozenset({"verify", "rerank", "write", "support", "diverse", "judge"})

# A long post has a dozen; more verdicts than this nobody reads, and each is a search of its own.
MOST_CLAIMS = 8
# Characters of all claims that are looked up, as many as a question may have; and of a message, as many as a post has.
MOST_CLAIMED = 1000
LONGEST_MESSAGE = 4096


@dataclass(frozen=True, slots=True)
class Verification:
    """A verdict for each claim, in the order of the text; `left` claims more were not looked at.

    Without verdicts: there is nothing in the text that could be so or not.
    """

    verdicts: tuple[Verdict, ...]
    left: int = 0
    shortfalls: tuple[Shortfall, ...] = ()
    trace_id: str = ""
    channels: dict[int, Channel] = field(default_factory=dict)

    def link(self, key: PostKey) -> str:
        """The link that opens a post, with the username the channel has now."""
        return link_of(key, self.channels.get(key.chat_id))

    def posts(self) -> tuple[PostKey, ...]:
        """The posts that are named, each once: those that bear a claim out, then those against it."""
        cited = [c for v in self.verdicts for c in (*v.citations, *v.against, *filter(None, (v.superseded,)))]
        first = [v.earliest for v in self.verdicts if v.earliest]
        return tuple(dict.fromkeys((*(citation.post for citation in cited), *first)))


async def verify(question: Question, rag: Rag) -> Verification:
    """Hold a text against what its asker may read: `question.text` is what is said.

    Raises RagError where that cannot be known: an index that is down is never "the posts do not say".
    """
    run = Run(rag.settings.budgets, "verify", shortfalls=list(rag.without))
    try:
        async with run.stage("plan"):
            claims, unread = await asyncio.to_thread(_claimed, question)
            run.note(claims=len(claims))
        known = await channels.known(rag.archive)
        readable = {chat: channel for chat, channel in known.items() if chat in question.viewer.channels}
        chosen = _chosen(claims)
        verdicts = [await _verdict(claim, question, readable, rag, run) for claim in chosen]
        if any(verdict.label is Label.NOT_FOUND for verdict in verdicts):
            await say_what_is_missing(question.viewer, rag, run)
        said = tuple(dict.fromkeys(run.shortfalls))
        return Verification(tuple(verdicts), len(claims) - len(chosen) + unread, said, run.trace_id, readable)
    finally:
        rag.traced(run)


def _claimed(question: Question) -> tuple[tuple[Claim, ...], int]:
    """The claims of a message, and how many sentences behind its first `LONGEST_MESSAGE` characters were not read."""
    text = question.text
    unread = sentences(text[LONGEST_MESSAGE:]) if len(text) > LONGEST_MESSAGE else []
    return claims_of(text[:LONGEST_MESSAGE], question.lang), len(unread)


def _chosen(claims: Sequence[Claim]) -> Sequence[Claim]:
    """The first claims, at most `MOST_CLAIMS` of `MOST_CLAIMED` characters together; the first one in any case."""
    lengths = accumulate(len(claim.text) for claim in claims[:MOST_CLAIMS])
    return claims[: max(1, sum(length <= MOST_CLAIMED for length in lengths))]


async def _verdict(claim: Claim, question: Question, known: dict[int, Channel], rag: Rag, run: Run) -> Verdict:
    """The verdict on one claim; that of a moment ago where nothing has changed since."""
    key = _key(claim, question, await posts.last_seq(rag.archive))
    version, before = rag.version, len(run.shortfalls)
    if (ready := rag.caches.verdicts.get(key, version)) is not None:
        return replace(ready, claim=claim)
    verdict = await _looked_up(claim, replace(question, text=claim.text, lang=claim.lang), known, rag, run)
    if len(run.shortfalls) == before:  # what was found with something missing is not all there is
        rag.caches.verdicts.put(key, version, verdict)
    return verdict


def _key(claim: Claim, question: Question, change: int) -> Hashable:
    """All that a verdict depends on. It holds words of posts, so that any change of the archive counts."""
    said = " ".join(claim.text.casefold().replace("ё", "е").split()).strip(" .!")
    return said, claim.lang, question.viewer.channels, question.asked_at.date(), change


async def _looked_up(claim: Claim, question: Question, known: dict[int, Channel], rag: Rag, run: Run) -> Verdict:
    plan, weight = statement(question), rag.lexical.statistics(question.viewer.channels).weight
    first = await _weighed(claim, await looked_for(question, plan, rag, run), question, rag, run)
    seen = {(one.passage.key, one.passage.part) for one in first}
    since = later_in(claim, first, weight)
    more = [p for p in await newer(question, plan, since, rag, run) if (p.key, p.part) not in seen]
    verdict, bearing = ruled(claim, first + await _weighed(claim, more, question, rag, run), weight)
    found = await run.require("copies", origins(bearing, question.viewer, known, rag))
    return replace(verdict, sources=found.count, earliest=found.earliest)


async def _weighed(claim: Claim, passages: Sequence[Passage], question: Question, rag: Rag, run: Run) -> list[Weighed]:
    """What each passage says of the claim. By rules alone where the rest fails; without what has gone meanwhile."""
    if not passages:
        return []
    supports = await run.attempt("verify", weigh(claim, passages, question.viewer, rag, run), list)
    if not supports:
        supports = await asyncio.to_thread(
            lambda: [decide(claim.text, passage.text, claim.lang) for passage in passages]
        )
    here = set(await run.require("nearest", standing(passages, question.viewer, rag)))
    return [Weighed(p, support) for p, support in zip(passages, supports, strict=True) if p in here]
