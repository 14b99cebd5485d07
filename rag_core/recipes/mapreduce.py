"""Recipe `mapreduce`, for small models: extract facts from each post, then write the answer from these facts alone.

At most two calls beside one for each post. A fact keeps the number of its post, and is checked against it at once. A
model that ignores the grammar is parsed by the two fields of the reply wherever they stand; where even these are
missing, the post counts as relevant, and its own words are its facts.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, RagError, RecipeFailed
from rag_core.llm import DecodingParams, LanguageModel, LlmSession, Prompt, collect_generation
from rag_core.steps import finish_draft, plan_or_answer_exactly, search_and_extract
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import tokenize
from rag_core.tracing import LlmCosts, Run
from rag_core.types import Draft, Evidence, Passage, Question, Sentence, Shortfall, Source
from rag_core.verification.support import attribute_sentence
from rag_core.writing.extract import quote_piece, select_best_pieces
from rag_core.writing.grammar import LETTERS, parse_answer_line, parse_json_object
from rag_core.writing.prompts import load_prompt, quote_post, quote_question
from rag_core.writing.write import write_draft

__all__ = ["MAP_GRAMMAR", "PassageFacts", "map_passage", "measure_overlap", "parse_map_reply", "run_mapreduce"]

_MAX_FACTS, _MAX_FACT_LENGTH = 3, 200  # facts of a post, characters of each
_REPLY_TOKENS = 240
_MAX_PASSAGE_LENGTH, _MAX_QUESTION_LENGTH = 1400, 400  # characters: about 400 and 100 tokens
MAP_GRAMMAR = "\n".join(
    (
        r'root ::= "{\"relevant\": " (yes | no) "}"',
        r'no ::= "false, \"facts\": []"',
        rf'yes ::= "true, \"facts\": [" fact (", " fact){{0,{_MAX_FACTS - 1}}} "]"',
        rf'fact ::= "\"" [{LETTERS}]{{8,{_MAX_FACT_LENGTH}}} "\""',
    )
)
_RELEVANT_FIELD = re.compile(r"[\"']?relevant[\"']?\s*[:=]\s*[\"']?(true|false|yes|no|да|нет)", re.I)
_FACTS_FIELD = re.compile(r"[\"']?facts[\"']?\s*[:=]\s*\[(.*?)(?:\]|$)", re.I | re.S)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)+)\"")
_NO_WORDS = frozenset({"false", "no", "нет"})


@dataclass(frozen=True, slots=True)
class PassageFacts:
    """What a post gives for a question; `facts` is None where the model's reply did not say."""

    relevant: bool
    facts: tuple[str, ...] | None = None


class _MapReply(BaseModel):
    """The reply as it must be."""

    model_config = ConfigDict(extra="ignore", strict=True)

    relevant: bool
    facts: list[str] = Field(default_factory=list)


async def map_passage(question: Question, passage: Passage, seat: LlmSession, costs: LlmCosts) -> PassageFacts:
    """Ask the model about one post. Raises GenerationFailed."""
    told = load_prompt("map", question.lang)
    asked = quote_question(question.text[:_MAX_QUESTION_LENGTH])
    prompt = Prompt(
        told.system, f"{asked}\n{quote_post(passage.text[:_MAX_PASSAGE_LENGTH], header=passage.header)}", told.shots
    )
    schema: dict[str, Any] = _MapReply.model_json_schema()
    costs.call()
    end = await collect_generation(
        seat.stream(prompt, DecodingParams(_REPLY_TOKENS, temperature=0.0), grammar=MAP_GRAMMAR, schema=schema)
    )
    costs.paid(end.figures)
    return parse_map_reply(end.text)


def parse_map_reply(text: str) -> PassageFacts:
    """The reply: as JSON, else by its two fields, else relevant."""
    try:
        wire = _MapReply.model_validate(parse_json_object(text))
    except ValidationError:
        return _parse_loose_reply(text)
    return PassageFacts(wire.relevant, _clean_facts(wire.facts) if wire.relevant else ())


def _parse_loose_reply(text: str) -> PassageFacts:
    said, listed = _RELEVANT_FIELD.search(text), _FACTS_FIELD.search(text)
    if said and said[1].lower() in _NO_WORDS:
        return PassageFacts(relevant=False, facts=())
    return PassageFacts(relevant=True, facts=_clean_facts(_QUOTED.findall(listed[1])) if listed else None)


def _clean_facts(facts: Sequence[str]) -> tuple[str, ...]:
    """Facts as sentences: without markup, steps of thought or words of the prompt."""
    found = (
        one.text for fact in facts[:_MAX_FACTS] for one in parse_answer_line(fact[:_MAX_FACT_LENGTH], ()) if one.text
    )
    return tuple(dict.fromkeys(found))


_MAX_POSTS = 5  # posts that are read
_READING_TIME_SHARE = 0.7  # of the time for reading, after which no further post is begun
_SHOWN_FACTS = 3  # facts shown where they could not be put together
_MIN_OVERLAP = 0.2  # overlap of question and answer below which the answer may be about something else
_NO_MODEL = "The recipe mapreduce needs a language model: set LLM__MODEL."
_NOTHING_READ = "The model read none of the posts: try another one with LLM__MODEL."
_LOW_OVERLAP = "The answer has few of the question's words: it may be about something else."


async def run_mapreduce(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """A draft from facts and the evidence it stands on. Raises RecipeFailed without a model, GenerationFailed."""
    model = rag.writer
    if model is None:
        raise RecipeFailed(_NO_MODEL)
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    extract, evidence = await search_and_extract(question, plan, rag, run)
    if run.on_extract and extract.sentences:
        await run.on_extract(extract)
    facts = await run.require("map", _map_sources(question, evidence.sources[:_MAX_POSTS], model, rag, run))
    kept = Evidence(tuple(source for source in evidence.sources if facts.get(source.number)))
    draft = await _reduce_facts(question, kept, facts, rag, run) if kept.sources else Draft()
    if not draft.sentences:
        return await finish_draft(question, plan, Draft((), extract.covered), evidence, rag, run)
    alike = measure_overlap(question, draft, rag)
    if alike < _MIN_OVERLAP:
        run.shortfalls.append(Shortfall("overlap", _LOW_OVERLAP))
    return await finish_draft(question, plan, replace(draft, covered=alike), evidence, rag, run)


async def _map_sources(
    question: Question, sources: Sequence[Source], model: LanguageModel, rag: Engine, run: Run
) -> Mapping[int, tuple[Sentence, ...]]:
    """Number of a source -> its facts, each a sentence that it bears out. Raises GenerationFailed."""
    found: dict[int, tuple[Sentence, ...]] = {}
    costs, failed, relevant = LlmCosts(), 0, 0
    try:
        async with run.seated(model, question.viewer.user_id) as seat:
            costs.begin()
            until = time.monotonic() + _READING_TIME_SHARE * min(rag.settings.budgets.map, run.left)
            for source in sources:
                if time.monotonic() > until:
                    break
                try:
                    one = await map_passage(question, source.passage, seat, costs)
                except RagError:
                    failed += 1
                    continue
                relevant += one.relevant
                # rules over words take milliseconds for each post: not on the event loop
                found[source.number] = await asyncio.to_thread(_keep_supported_facts, question, one, source, rag)
    finally:
        run.note(**costs.noted(), failed=failed, relevant=relevant, facts=sum(map(len, found.values())))
    if failed and not found:
        raise GenerationFailed(_NOTHING_READ)
    return found


def _keep_supported_facts(question: Question, one: PassageFacts, source: Source, rag: Engine) -> tuple[Sentence, ...]:
    """The facts that the post says; its own words where the model only found it relevant."""
    if not one.relevant:
        return ()
    if one.facts is None:
        asked = QueryTerms.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
        pieces = select_best_pieces(asked, Evidence((source,)), 1, 0.0)
        return tuple(quote_piece(piece) for piece in pieces)
    return tuple(fact for text in one.facts if (fact := attribute_sentence(text, [source])))


async def _reduce_facts(
    question: Question, evidence: Evidence, facts: Mapping[int, tuple[Sentence, ...]], rag: Engine, run: Run
) -> Draft:
    """The answer from facts; the facts themselves where the model does not put them together."""
    shown = Evidence(tuple(_replace_text_by_facts(source, facts[source.number]) for source in evidence.sources))
    model = rag.writer.name if rag.writer else None
    firsts = [fact for several in facts.values() for fact in several[:1]]
    own = Draft(tuple(firsts[:_SHOWN_FACTS]), model=model)
    return await run.attempt("write", write_draft(question, evidence, rag, run, shown), own)


def _replace_text_by_facts(source: Source, facts: Sequence[Sentence]) -> Source:
    """The source as the model is shown it: its facts, and nothing else of it."""
    return replace(source, passage=replace(source.passage, text="\n".join(fact.text for fact in facts)))


def measure_overlap(question: Question, draft: Draft, rag: Engine) -> float:
    """The share of the question's weight whose terms stand in the answer or in the words it cites, 0..1."""
    asked = QueryTerms.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
    said = [sentence.text for sentence in draft.sentences]
    said += [citation.quote for sentence in draft.sentences for citation in sentence.citations]
    there = frozenset(term for text in said for term in tokenize(text))
    return min(1.0, asked.met(there) + asked.kin(there))
