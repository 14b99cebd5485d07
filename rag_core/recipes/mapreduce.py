"""Recipe `mapreduce`, for small models: extract facts from each post, then write the answer from these facts alone.

Planned by rules: one call for each post, and one for the answer. A model that would take long to write the answer is
not asked for it: the facts of the best posts are shown as they are.
A fact keeps the number of its post, and is checked against it at once.
The reply of a model that ignores the grammar is searched for its two fields; where even these are missing, the post
counts as relevant, and its own words are its facts.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, ModelTooSlow, RagError
from rag_core.llm.protocol import DecodingParams, LanguageModel, LlmSession, Prompt, collect_generation
from rag_core.llm.rates import has_time_to_reduce
from rag_core.recipe_steps import Round, answer_exactly, finish_draft, keep_extract, require_model, search_and_extract
from rag_core.run import LlmCosts, Run, Stage
from rag_core.text.query_terms import QueryTerms
from rag_core.text.tokens import tokenize
from rag_core.types import Draft, Evidence, Passage, Plan, Question, Sentence, Shortfall, Source
from rag_core.verification.support import attribute_sentence
from rag_core.writing.extract import quote_piece, rank_pieces
from rag_core.writing.prompts import (
    LETTERS,
    load_prompt,
    parse_answer_line,
    parse_json_object,
    quote_post,
    quote_question,
)
from rag_core.writing.write import write_draft

_MAX_POSTS = 5  # posts that are read
_MAX_FACTS, _MAX_FACT_LENGTH = 3, 200  # facts of a post, characters of each
_SHOWN_FACTS = 3  # facts shown where the model did not write an answer from them
_READING_TIME_SHARE = 0.7  # of the time for reading; after it no further post is started
_MIN_OVERLAP = 0.2  # below this overlap of question and answer, the answer may be off topic
_REPLY_TOKENS = 240
_MAX_PASSAGE_LENGTH, _MAX_QUESTION_LENGTH = 1400, 400  # characters: about 400 and 100 tokens
MAP_GRAMMAR = rf"""
root ::= "{{\"relevant\": " (yes | no) "}}"
no ::= "false, \"facts\": []"
yes ::= "true, \"facts\": [" fact (", " fact){{0,{_MAX_FACTS - 1}}} "]"
fact ::= "\"" [{LETTERS}]{{8,{_MAX_FACT_LENGTH}}} "\""
"""
_RELEVANT_FIELD = re.compile(r"[\"']?relevant[\"']?\s*[:=]\s*[\"']?(true|false|yes|no|да|нет)", re.I)
_FACTS_FIELD = re.compile(r"[\"']?facts[\"']?\s*[:=]\s*\[(.*?)(?:\]|$)", re.I | re.S)
_JSON_STRING = re.compile(r"\"((?:[^\"\\]|\\.)+)\"")


class _MapReply(BaseModel):
    model_config = ConfigDict(strict=True)

    relevant: bool
    facts: list[str] = Field(default_factory=list)


async def run_mapreduce(question: Question, plan: Plan, rag: Engine, run: Run) -> Round:
    """Run the recipe `mapreduce`. Raises RecipeFailed without a model, GenerationFailed."""
    model = require_model("mapreduce", rag.writer)
    if exact := await answer_exactly(question, plan, rag, run):
        return Round(plan, exact)
    extracted = await search_and_extract(question, plan, rag, run)
    extract, sources = extracted.draft, extracted.evidence.sources
    if run.on_extract and extract.sentences:
        await run.on_extract(extract)
    asked = QueryTerms.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
    facts = await run.require(Stage.MAP, _map_sources(question, asked, sources[:_MAX_POSTS], model, rag, run))
    run.show("map", (f"[{number}] {fact.text}" for number, found in facts.items() for fact in found))
    kept = tuple(source for source in sources if facts.get(source.number))
    # the facts of the best posts stand where there is no time to write, or the model fails
    draft = Draft(tuple(facts[source.number][0] for source in kept[:_SHOWN_FACTS]), model=model.name)
    if kept and has_time_to_reduce(model.rates):
        # in the prompt the text of a post is replaced by its facts
        texts = {number: "\n".join(fact.text for fact in found) for number, found in facts.items()}
        shown = Evidence(tuple(replace(s, passage=replace(s.passage, text=texts[s.number])) for s in kept))
        draft = await run.attempt(Stage.WRITE, write_draft(question, Evidence(kept), rag, run, shown), draft)
    if draft.sentences:
        # the weight share of the question's terms in the answer and its quotes
        quotes = [citation.quote for sentence in draft.sentences for citation in sentence.citations]
        terms = frozenset(term for text in (*(one.text for one in draft.sentences), *quotes) for term in tokenize(text))
        overlap = min(1.0, asked.matched_share(terms) + asked.similar_share(terms))
        if overlap < _MIN_OVERLAP:
            doubt = "The answer has few of the question's words: it may be about something else."
            run.shortfalls.append(Shortfall("overlap", doubt))
        draft = replace(draft, likely=overlap).graded_by(extract)
    else:
        draft = keep_extract(extract, model.name, run)
    return await finish_draft(question, replace(extracted, draft=draft), rag, run)


async def _map_sources(
    question: Question, asked: QueryTerms, sources: Sequence[Source], model: LanguageModel, rag: Engine, run: Run
) -> Mapping[int, tuple[Sentence, ...]]:
    """Read one source after another, while there is time: its facts by its number."""
    facts: dict[int, tuple[Sentence, ...]] = {}
    costs, failed, relevant = LlmCosts(), 0, 0

    def keep_supported(texts: tuple[str, ...] | None, source: Source) -> tuple[Sentence, ...]:
        """Keep the facts that the post supports; its best quote where the model only found it relevant."""
        if texts is None:
            return tuple(map(quote_piece, rank_pieces(asked, Evidence((source,))).pieces[:1]))
        return tuple(fact for text in texts if (fact := attribute_sentence(text, [source])))

    try:
        async with run.open_session(model, question.viewer.user_id) as session:
            costs.begin()
            until = time.monotonic() + _READING_TIME_SHARE * min(rag.budgets.map, run.left)
            for source in sources:
                if time.monotonic() > until:
                    break
                try:
                    texts = await map_passage(question, source.passage, session, costs)
                except ModelTooSlow:
                    if not facts:
                        raise
                    break
                except RagError:
                    failed += 1
                    continue
                relevant += texts != ()
                # the rules take milliseconds for each post: in a thread, not on the event loop
                facts[source.number] = await asyncio.to_thread(keep_supported, texts, source)
    finally:
        run.note(**costs.to_counts(), failed=failed, relevant=relevant, facts=sum(map(len, facts.values())))
    if failed and not facts:
        raise GenerationFailed("The model read none of the posts: try another one with LLM__MODEL.")
    return facts


async def map_passage(
    question: Question, passage: Passage, session: LlmSession, costs: LlmCosts
) -> tuple[str, ...] | None:
    """Ask the model for the facts of one post, as `parse_map_reply`. Raises GenerationFailed."""
    template = load_prompt("map", question.lang)
    asked = quote_question(question.text[:_MAX_QUESTION_LENGTH])
    post = quote_post(passage.text[:_MAX_PASSAGE_LENGTH], header=passage.header)
    prompt = Prompt(template.system, f"{asked}\n{post}", template.shots)
    decoding, schema = DecodingParams(_REPLY_TOKENS, temperature=0.0), _MapReply.model_json_schema()
    costs.calls += 1
    end = await collect_generation(session.stream(prompt, decoding, grammar=MAP_GRAMMAR, schema=schema))
    costs.figures.append(end.figures)
    return parse_map_reply(end.text)


def parse_map_reply(text: str) -> tuple[str, ...] | None:
    """Parse a reply as JSON, else by its two fields: the facts, none of a post that is not relevant.

    None: the post is relevant or may be, and the reply has no facts.
    """
    facts: Sequence[str]
    try:
        reply = _MapReply.model_validate(parse_json_object(text))
        facts = reply.facts if reply.relevant else ()
    except ValidationError:
        relevant, field = _RELEVANT_FIELD.search(text), _FACTS_FIELD.search(text)
        if relevant and relevant[1].lower() in {"false", "no", "нет"}:
            return ()
        if field is None:
            return None
        facts = _JSON_STRING.findall(field[1])
    # sentences without markup, reasoning or words of the prompt
    lines = (one.text for fact in facts[:_MAX_FACTS] for one in parse_answer_line(fact[:_MAX_FACT_LENGTH], ()))
    return tuple(dict.fromkeys(filter(None, lines)))
