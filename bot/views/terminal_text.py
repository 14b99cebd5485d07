"""Answers, verdicts, plans and traces as plain text for the terminal and for admins."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, tzinfo
from typing import Any

from bot.control import AnswerJson, PlanJson, VerdictsJson
from bot.i18n import Translator
from bot.views.text import (
    WRITING_STAGES,
    RenderContext,
    dump_json,
    format_author,
    format_day_and_edit,
    format_media_place,
    format_missing_parts,
    format_moment,
    join_lines,
    strip_control_characters,
)
from rag_core.engine import Engine
from rag_core.planning.plan import format_plan, make_plan
from rag_core.retrieval.search import resolve_filter, search_dense, search_lexical, search_passages
from rag_core.run import Run, Stage
from rag_core.storage import channels
from rag_core.types import Certainty, Channel, Origin, PostKey, Question, format_channel_post_link
from rag_core.verification import NON_SEARCH_STAGES, Label

_MAX_EXCERPT_LENGTH = 200


def format_answer_text(found: AnswerJson, words: Translator, zone: tzinfo) -> str:
    """Format the answer: sentences with source numbers, then the sources; for a refusal the nearest posts."""
    answer = found["answer"]
    if found["reply"]:
        return strip_control_characters(found["reply"])
    if answer["refused"]:
        lines = [describe_refusal(found, words)]
        sources = [_format_source_lines(source, words, zone) for source in found["nearest"]]
        lines[0] += f" {words('nearest')}" if sources else ""
    else:
        first, further = list[str](), list[str]()
        for place, (sentence, marks) in enumerate(zip(answer["sentences"], found["marks"], strict=True)):
            line = f"{strip_control_characters(sentence['text'])} {' '.join(f'[{n}]' for n in marks)}"
            (further if place and sentence["further"] else first).append(line)
        lines = first + further
        if answer["certainty"] == Certainty.PROBABLE:
            heading = [words("answer-further")] if further else []
            lines = [words("answer-probable"), *first, *heading, *further]
        lines += [format_missing_parts(answer["missing"], words)] if answer["missing"] else []
        sources = [f"[{n}] {_format_source_lines(source, words, zone)}" for n, source in enumerate(found["sources"], 1)]
    if found["understood"]:
        lines.insert(0, words("answer-understood", question=strip_control_characters(found["understood"])))
    if answer["model"]:
        sources += ["", words("footer-model", model=strip_control_characters(answer["model"]))]
    return "\n".join((*lines, "", *sources)).rstrip()


def describe_refusal(found: AnswerJson, words: Translator) -> str:
    """Sentence of a refusal; where a part of the search failed, "it is not there" would be an unfounded claim."""
    partly = set(found["answer"]["without"]) - WRITING_STAGES
    return words("refused-partly" if partly else "refused-unsure" if found["nearest"] else "refused")


def _format_source_lines(source: dict[str, str], words: Translator, zone: tzinfo) -> str:
    who = format_author(Channel(0, source["title"]), Origin(source["origin"]) if "origin" in source else None, words)
    edited = datetime.fromisoformat(source["edited"]) if "edited" in source else None
    date = format_day_and_edit(datetime.fromisoformat(source["date"]), edited, RenderContext(words, zone))
    text = " ".join(strip_control_characters(source["words"]).split())
    if len(text) > _MAX_EXCERPT_LENGTH:
        text = text[:_MAX_EXCERPT_LENGTH].rsplit(" ", 1)[0] + "…"
    more = [f"“{text}”"] if text else []
    more += map(strip_control_characters, source.get("addresses", "").split("\n"))
    place = f", {format_media_place(source['file'], int(source['place'] or 0), words)}" if "file" in source else ""
    return "\n    ".join((f"{source['link']}  {who}, {date}{place}".lstrip(), *filter(None, more)))


def format_verdicts_text(found: VerdictsJson, words: Translator, zone: tzinfo) -> str:
    """Format the verdicts as text."""
    if not found["verdicts"]:
        return words("verify-nothing")
    missing = bool(set(found["without"]) - NON_SEARCH_STAGES)
    blocks = []
    if same := found["same"]:
        day = words.date(datetime.fromisoformat(same["date"]), zone)
        title = strip_control_characters(same["title"]) or words("unnamed-channel")
        blocks = [f"{words('verify-same', day=day, channel=title, state=same['state'])}\n  {same['link']}"]
    blocks += [
        "\n".join(_format_verdict_lines(verdict, missing, RenderContext(words, zone))) for verdict in found["verdicts"]
    ]
    notes = [words("verify-left", count=found["left"])] if found["left"] else []
    notes += dict.fromkeys(words("shortfall", stage=stage, count=0) for stage in found["without"])
    return "\n\n".join((*blocks, *notes))


def _format_verdict_lines(verdict: dict[str, Any], missing: bool, context: RenderContext) -> Iterator[str]:
    words, later = context.words, verdict["superseded"]
    yield words("verify-claim", claim=strip_control_characters(verdict["claim"]))
    contested = verdict["label"] == Label.CONTRADICTED.value and verdict["citations"] and not later
    missed = missing and verdict["label"] == Label.NOT_FOUND.value
    if later:
        yield words("verify-outdated", day=words.date(datetime.fromisoformat(later["date"]), context.zone))
    elif missed:
        yield words("verify-partly")
    else:
        yield words("verify-label", label="contested" if contested else verdict["label"])
    if later:
        yield words("verify-superseded")
        yield from _format_quote_lines([later], context)
        if verdict["citations"]:
            yield words("verify-before")
    yield from _format_quote_lines(verdict["citations"], context)
    if first := verdict["earliest"]:
        moment = datetime.fromisoformat(first["date"])
        when = format_moment(moment, context)
        yield words("verify-sources", count=verdict["sources"], first=first["link"], when=when)
    others = [quote for quote in verdict["against"] if not later or quote["link"] != later["link"]]
    if others and verdict["citations"]:
        yield words("verify-against", count=len(others))
    yield from _format_quote_lines(others, context)


def _format_quote_lines(quotes: list[dict[str, str]], context: RenderContext) -> Iterator[str]:
    for quote in quotes:
        date = format_day_and_edit(datetime.fromisoformat(quote["date"]), None, context)
        yield f"  “{strip_control_characters(quote['quote'])}”"
        yield f"  {quote['link']}  {strip_control_characters(quote['title'])}, {date}"


def format_channel_list(known: Iterable[Channel], words: Translator) -> str:
    """Format the sentence that names the channels which are read."""
    titles = sorted((format_author(channel, None, words) for channel in known), key=str.casefold)
    return words("smalltalk-about-channel", count=len(titles), titles=", ".join(titles), more=0)


_SHOWN_RANKS = 10


async def plan_as_json(question: Question, rag: Engine) -> PlanJson:
    """Plan a question, search, and rank; nothing is answered. Raises RagError."""
    run, known = Run(rag.budgets, "plan"), await channels.load_channels(rag.archive)
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
    readable = {chat: channel for chat, channel in known.items() if chat in question.viewer.channels}
    hits = await search_passages(plan, question, rag, run)
    ranks: dict[str, dict[PostKey, int]] = {"lexical": {}, "dense": {}}
    if hits:
        only = await run.require(Stage.FILTER, resolve_filter(plan, question.viewer, rag))
        lexical = search_lexical(plan.queries[0], only, plan.k_per_query, rag, plan.aliases)
        found = (
            await run.require(Stage.LEXICAL, lexical),
            (
                await run.attempt(
                    Stage.DENSE, search_dense(plan.queries[0], only, plan.k_per_query, rag.dense), ([], None)
                )
            )[0],
        )
        for of_leg, ranked in zip(ranks.values(), found, strict=True):
            for n, (place, _) in enumerate(ranked, 1):
                of_leg.setdefault(place.key, n)
    fused = [
        {"link": format_channel_post_link(hit.passage.key, readable.get(hit.passage.key.chat_id)),
         "score": round(hit.score, 3)} | {leg: of_leg.get(hit.passage.key) for leg, of_leg in ranks.items()}
        for hit in hits[:_SHOWN_RANKS]
    ]  # fmt: skip
    return PlanJson(plan=format_plan(plan, readable), legs=plan.legs, reasons=list(plan.reasons), fused=fused)


def format_plan_lines(found: PlanJson) -> list[str]:
    """Format a plan and its ranks, one line each."""
    lines = [f"{name}: {dump_json(value)}" for name, value in found["plan"].items() if value]
    lines += [f"legs: {found['legs']}", *(f"route: {reason}" for reason in found["reasons"])]
    for n, row in enumerate(found["fused"], 1):
        ranks = " ".join(f"{leg}={row[leg] or '-'}" for leg in ("lexical", "dense"))
        lines.append(f"{n:2}. {row['score']:.3f} {ranks}  {row['link']}")
    return [strip_control_characters(line) for line in lines]


def format_answer_trace(found: AnswerJson) -> list[str]:
    """Format the stages of the answer, one line each, and below them what each of them found."""
    lines = format_stages(found["trace"])
    for stage, result in found["results"]:
        lines += [f"--- {stage}", *(f"  {join_lines(line)}" for line in result)]
    return lines


def format_stages(spans: Iterable[Mapping[str, Any]]) -> list[str]:
    """Format the stages of a run, one line each."""
    lines = []
    for span in spans:
        counts = " ".join(f"{name}={value}" for name, value in span["counts"].items())
        error = f"  {span['error']}" if span["error"] else ""
        lines.append(f"{span['stage']:10} {span['took_ms']:8.1f} ms  {counts}{error}")
    return lines
