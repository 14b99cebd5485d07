"""Recipe `mapreduce`, for small models: extract facts from each post, then write the answer from these facts alone.

At most two calls besides one for each post: the short plan (keywords, filters) and the answer. A model that would take
long to write the answer is not asked for it: the facts of the best posts are shown as they are.
A fact keeps the number of its post, and is checked against it at once.
The reply of a model that ignores the grammar is searched for its two fields; where even these are missing, the post
counts as relevant, and its own words are its facts.
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
from rag_core.errors import GenerationFailed, ModelTooSlow, RagError, RecipeFailed
from rag_core.llm.protocol import DecodingParams, LanguageModel, LlmSession, Prompt, collect_generation
from rag_core.llm.rates import has_time_to_reduce
from rag_core.recipe_steps import Round, finish_draft, keep_extract, plan_or_answer_exactly, search_and_extract
from rag_core.run import LlmCosts, Run, Stage
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import tokenize
from rag_core.types import Draft, Evidence, Passage, Question, Sentence, Shortfall, Source
from rag_core.verification.support import attribute_sentence
from rag_core.writing.extract import quote_piece, select_best_pieces
from rag_core.writing.prompts import (
    LETTERS,
    load_prompt,
    parse_answer_line,
    parse_json_object,
    quote_post,
    quote_question,
)
from rag_core.writing.write import write_draft

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
    """Relevance of a post and its facts; `facts` is None where the model's reply has none."""

    relevant: bool
    facts: tuple[str, ...] | None = None


class _MapReply(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True)

    relevant: bool
    facts: list[str] = Field(default_factory=list)


async def map_passage(question: Question, passage: Passage, session: LlmSession, costs: LlmCosts) -> PassageFacts:
    """Ask the model about one post. Raises GenerationFailed."""
    template = load_prompt("map", question.lang)
    asked = quote_question(question.text[:_MAX_QUESTION_LENGTH])
    post = quote_post(passage.text[:_MAX_PASSAGE_LENGTH], header=passage.header)
    prompt = Prompt(template.system, f"{asked}\n{post}", template.shots)
    schema: dict[str, Any] = _MapReply.model_json_schema()
    costs.calls += 1
    end = await collect_generation(
        session.stream(prompt, DecodingParams(_REPLY_TOKENS, temperature=0.0), grammar=MAP_GRAMMAR, schema=schema)
    )
    costs.figures.append(end.figures)
    return parse_map_reply(end.text)


def parse_map_reply(text: str) -> PassageFacts:
    """Parse a reply as JSON, else by its two fields; without them the post counts as relevant."""
    try:
        reply = _MapReply.model_validate(parse_json_object(text))
    except ValidationError:
        relevant, facts = _RELEVANT_FIELD.search(text), _FACTS_FIELD.search(text)
        if relevant and relevant[1].lower() in _NO_WORDS:
            return PassageFacts(relevant=False, facts=())
        return PassageFacts(relevant=True, facts=_clean_facts(_QUOTED.findall(facts[1])) if facts else None)
    return PassageFacts(reply.relevant, _clean_facts(reply.facts) if reply.relevant else ())


def _clean_facts(facts: Sequence[str]) -> tuple[str, ...]:
    """Split facts into sentences, without markup, reasoning or words of the prompt."""
    sentences = (
        one.text for fact in facts[:_MAX_FACTS] for one in parse_answer_line(fact[:_MAX_FACT_LENGTH], ()) if one.text
    )
    return tuple(dict.fromkeys(sentences))


_MAX_POSTS = 5  # posts that are read
_READING_TIME_SHARE = 0.7  # of the time for reading; after it no further post is started
_SHOWN_FACTS = 3  # facts shown where the model did not write an answer from them
_MIN_OVERLAP = 0.2  # below this overlap of question and answer, the answer may be off topic


async def run_mapreduce(question: Question, rag: Engine, run: Run) -> Round:
    """Run the recipe `mapreduce`. Raises RecipeFailed without a model, GenerationFailed."""
    model = rag.writer
    if model is None:
        raise RecipeFailed("The recipe mapreduce needs a language model: set LLM__MODEL.")
    plan, exact = await plan_or_answer_exactly(question, rag, run, by_model=True)
    if exact is not None:
        return Round(plan, exact)
    extracted = await search_and_extract(question, plan, rag, run)
    extract, evidence = extracted.draft, extracted.evidence
    if run.on_extract and extract.sentences:
        await run.on_extract(extract)
    facts = await run.require(Stage.MAP, _map_sources(question, evidence.sources[:_MAX_POSTS], model, rag, run))
    run.show("map", (f"[{number}] {fact.text}" for number, found in facts.items() for fact in found))
    kept = Evidence(tuple(source for source in evidence.sources if facts.get(source.number)))
    draft = await _reduce_facts(question, kept, facts, model, rag, run) if kept.sources else Draft()
    if not draft.sentences:
        return await finish_draft(question, replace(extracted, draft=keep_extract(extract, model.name, run)), rag, run)
    # the weight share of the question's terms in the answer and its quotes
    asked = QueryTerms.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
    quotes = [citation.quote for sentence in draft.sentences for citation in sentence.citations]
    terms = frozenset(term for text in (*(one.text for one in draft.sentences), *quotes) for term in tokenize(text))
    overlap = min(1.0, asked.matched_share(terms) + asked.similar_share(terms))
    if overlap < _MIN_OVERLAP:
        doubt = "The answer has few of the question's words: it may be about something else."
        run.shortfalls.append(Shortfall("overlap", doubt))
    reduced = replace(draft, covered=overlap).graded_by(extract)
    return await finish_draft(question, replace(extracted, draft=reduced), rag, run)


async def _map_sources(
    question: Question, sources: Sequence[Source], model: LanguageModel, rag: Engine, run: Run
) -> Mapping[int, tuple[Sentence, ...]]:
    facts: dict[int, tuple[Sentence, ...]] = {}
    costs, failed, relevant = LlmCosts(), 0, 0
    try:
        async with run.open_session(model, question.viewer.user_id) as session:
            costs.begin()
            until = time.monotonic() + _READING_TIME_SHARE * min(rag.budgets.map, run.left)
            for source in sources:
                if time.monotonic() > until:
                    break
                try:
                    one = await map_passage(question, source.passage, session, costs)
                except ModelTooSlow:
                    if not facts:
                        raise
                    break
                except RagError:
                    failed += 1
                    continue
                relevant += one.relevant
                # the rules take milliseconds for each post: in a thread, not on the event loop
                facts[source.number] = await asyncio.to_thread(_keep_supported_facts, question, one, source, rag)
    finally:
        run.note(**costs.to_counts(), failed=failed, relevant=relevant, facts=sum(map(len, facts.values())))
    if failed and not facts:
        raise GenerationFailed("The model read none of the posts: try another one with LLM__MODEL.")
    return facts


def _keep_supported_facts(question: Question, one: PassageFacts, source: Source, rag: Engine) -> tuple[Sentence, ...]:
    """Keep the facts that the post supports; its best quote where the model only found it relevant."""
    if not one.relevant:
        return ()
    if one.facts is None:
        asked = QueryTerms.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
        return tuple(map(quote_piece, select_best_pieces(asked, Evidence((source,)), 1, 0.0)))
    return tuple(fact for text in one.facts if (fact := attribute_sentence(text, [source])))


async def _reduce_facts(
    question: Question,
    evidence: Evidence,
    facts: Mapping[int, tuple[Sentence, ...]],
    model: LanguageModel,
    rag: Engine,
    run: Run,
) -> Draft:
    """Write the answer from the facts; the first facts where there is no time, or the model fails."""
    first_facts = [fact for of_source in facts.values() for fact in of_source[:1]]
    fallback = Draft(tuple(first_facts[:_SHOWN_FACTS]), model=model.name)
    if not has_time_to_reduce(model.rates):
        return fallback
    # in the prompt the text of a post is replaced by its facts
    texts = {number: "\n".join(fact.text for fact in found) for number, found in facts.items()}
    shown = Evidence(tuple(replace(s, passage=replace(s.passage, text=texts[s.number])) for s in evidence.sources))
    return await run.attempt(Stage.WRITE, write_draft(question, evidence, rag, run, shown), fallback)
