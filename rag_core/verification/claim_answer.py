"""Answer to "is it true that": yes or no, with the words of the posts that decide it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rag_core.engine import Engine
from rag_core.run import Run
from rag_core.storage import channels
from rag_core.text.sentences import split_long_span
from rag_core.types import Certainty, Citation, Draft, Plan, Question, Sentence
from rag_core.verification.claim_extraction import extract_claims
from rag_core.verification.verdict_types import Label, Verdict
from rag_core.verification.verify import plan_claim_search, verify_claim
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_conflict, format_yes_or_no


async def answer_claim(question: Question, plan: Plan, rag: Engine, run: Run) -> Draft | None:
    """Verify what is asked to be true, within the channels of the plan; None where posts decide nothing.

    Raises RagError.
    """
    claims = extract_claims(question.text)
    if len(claims) != 1:
        return None
    claimed = replace(question, text=claims[0].text)
    search = replace(plan_claim_search(claimed), channels=plan.channels)
    known = await channels.load_channels(rag.archive)
    verdict = await verify_claim(claims[0], claimed, search, known, rag, run)
    sentences = tuple(_phrase_verdict(verdict, question.lang))
    if not sentences:
        return None
    # of 30 claims 22 were answered rightly and 3 the opposite: never sure
    return Draft(sentences, max(verdict.likely, 1 - verdict.likely), certainty=Certainty.PROBABLE)


def _phrase_verdict(verdict: Verdict, lang: str) -> Iterator[Sentence]:
    """Yes or no with the deciding quote; where channels disagree, the other side too."""
    holds = verdict.label is Label.SUPPORTED
    deciding = verdict.citations if holds else (*filter(None, (verdict.superseded,)), *verdict.against)
    if verdict.label is Label.NOT_FOUND or not deciding:
        return
    first = _shorten_quote(deciding[0])
    yield Sentence(format_yes_or_no(first.quote, lang, holds=holds), (first,))
    if verdict.contested:
        other = _shorten_quote(verdict.citations[0])
        yield Sentence(f"{format_conflict(first.date, other.date, lang)} {other.quote}", (other,))


def _shorten_quote(citation: Citation) -> Citation:
    span = 0, len(citation.quote)
    start, end = next(iter(split_long_span(citation.quote, span, MAX_FRAMED_QUOTE_LENGTH)), span)
    place = citation.start + start
    return replace(citation, quote=citation.quote[start:end], start=place, end=citation.start + end)
