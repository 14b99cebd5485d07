"""What every recipe ends in: cite, then verify. Nothing is shown that has not come through here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rag_core.cite import cite
from rag_core.rag import Rag
from rag_core.stage import Run
from rag_core.support import ENOUGH, supported
from rag_core.types import Draft, Evidence, Question, Sentence, Shortfall
from rag_core.verify.drafted import borne_out

__all__ = ["tail", "verified"]

_LEFT_OUT = "Sentences were left out: the posts they name do not say them."


async def tail(draft: Draft, evidence: Evidence, question: Question, rag: Rag, run: Run) -> tuple[Sentence, ...]:
    """The sentences of a draft that stand in their posts now, and that these posts say.

    Raises ArchiveUnavailable, StageTimeout. Without verification only what is word for word is shown.
    """
    standing = await run.require("cite", cite(draft, question.viewer, rag))
    if all(sentence.support == 1.0 for sentence in standing):
        return standing  # their own words, or worked out from them
    own = tuple(sentence for sentence in standing if sentence.support == 1.0)
    kept = await run.attempt("verify", verified(standing, evidence, question.lang, run), own)
    if len(kept) < len(standing):
        run.shortfalls.append(Shortfall("support", _LEFT_OUT))
    return kept


async def verified(sentences: Sequence[Sentence], evidence: Evidence, lang: str, run: Run) -> tuple[Sentence, ...]:
    """The sentences that are their posts' own words, or that their posts bear out. To be called in a stage.

    A citation that does not bear its sentence out is left away, or another post that does is cited instead.
    """
    found = await asyncio.to_thread(lambda: [_held(sentence, evidence, lang) for sentence in sentences])
    kept = tuple(sentence for sentence in found if sentence is not None)
    run.note(claims=len(found), verified=len(kept))
    return kept


def _held(sentence: Sentence, evidence: Evidence, lang: str) -> Sentence | None:
    cited = {citation.post for citation in sentence.citations}
    passages = [source.passage for source in evidence.sources if source.passage.key in cited]
    if sentence.support < 1.0 and supported(sentence.text, passages) < ENOUGH:
        return None
    return borne_out(sentence, evidence.sources, lang)
