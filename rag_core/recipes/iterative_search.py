"""Recipe `agent`: looks at its own evidence and searches again, for questions that one search does not answer.

A question of several parts is answered part by part (answer_by_parts.py). For a chain ("who leads the club that
published …") names in the best passages become the next queries, together with the words of the question that no
passage covers yet, up to three rounds; this is iterative retrieval as in Trivedi et al., "Interleaving Retrieval with
Chain-of-Thought Reasoning" (2023), by rules in place of a model. Other questions get a second, wider round where the
first one covers them poorly.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rag_core.engine import Engine
from rag_core.planning.question_parts import is_chain
from rag_core.planning.rule_planner import widen_plan
from rag_core.recipe_steps import (
    add_hyde_query,
    complete_answer,
    extract_from_hits,
    gather_or_compose_evidence,
    plan_or_answer_exactly,
    search_and_extract,
    search_by_model_plan,
)
from rag_core.recipes.answer_by_parts import answer_parts, complete_parts
from rag_core.retrieval.fusion_and_mmr import fuse_rankings
from rag_core.retrieval.hybrid import search_hybrid
from rag_core.retrieval.query_and_result import LEXICAL, RetrievalQuery
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import add_neighbours, build_retrieval_query, extract_expansion_names, search_passages
from rag_core.retrieval.search_filters import resolve_filter
from rag_core.stage_runner import Run
from rag_core.stages import Stage
from rag_core.storage.post_lookup import fetch_passages
from rag_core.text.names import find_names
from rag_core.text.tokens import tokenize
from rag_core.types import Draft, Evidence, Hit, Passage, PassageRef, Plan, Question, SearchFilter
from rag_core.writing.extract_draft import extract_closest

# A second round finds posts less similar to the question: it needs a greater probability than a first round.
_SECOND_ROUND_LIKELY = 0.5
_READ_AROUND = 3  # first hits of a second round whose neighbours are read


async def run_agent(question: Question, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Run the recipe `agent`: a draft and its evidence; a draft without sentences is a refusal."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1:
        if answered := await answer_parts(question, parts, rag, run):
            return answered
        plan, _ = await plan_or_answer_exactly(question, rag, run)
        # the posts may say it in one sentence whose words no part has alone
        return await _answer_in_rounds(question, plan, rag, run)
    plan, exact = await plan_or_answer_exactly(question, rag, run)
    if exact is not None:
        return exact, Evidence()
    if is_chain(question.text) and plan.queries:
        draft, evidence = await _extract_from_chain(question, plan, rag, run)
        return await complete_answer(question, plan, draft, evidence, rag, run)
    return await _answer_in_rounds(question, plan, rag, run)


# Iterative retrieval for chains, fitted on the development halves of HotpotQA and MuSiQue (pooled all_relevant@20:
# direct 0.88, agent 0.91). Names are read in so many of the first passages, so many names are searched, with so many
# hits each.
_MAX_ROUNDS, _NAMING_PASSAGES, _MAX_NAMES, _HITS_OF_NAME = 3, 8, 10, 3
# Shares of the weight of the question's words: that ends the search, and with less than which nothing is shown. Of
# chains over XQuAD's unanswerable questions 11 of 13 cover less, of the right ones of HotpotQA and MuSiQue none.
_ENOUGH_COVERED, _LEAST_COVERED = 0.9, 0.6
_PROTECTED_HITS = 3  # first hits of the question itself, which stay first
_CHAIN_FIRST = 3  # passages of the chain that follow these
_LINK_WORTH, _UNLINKED_WORTH = 0.3, 0.3  # of a name without a word of the question, and of words without the name
_RANK_DECAY, _NAME_DECAY = 0.3, 0.1
_MIN_LINK, _HITS_AGAIN = 0.15, 5  # least score of a passage that is kept; hits of the last search


async def search_in_rounds(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Search as the recipe does, without answering: the hits of all rounds and parts, best first."""
    parts = await asyncio.to_thread(complete_parts, question.text, question.asked_at)
    if len(parts) > 1:
        found = [await search_passages(plan, question, rag, run)]
        for part in parts:
            asked = replace(question, text=part.text)
            own, _ = await plan_or_answer_exactly(asked, rag, run)
            found.append(await search_passages(own, asked, rag, run))
        depth = max(map(len, found))
        mixed = [hits[n] for n in range(depth) for hits in found if n < len(hits)]
        return tuple({hit.passage.ref: hit for hit in reversed(mixed)}.values())[::-1]
    if is_chain(question.text):
        return (await search_chain(question, plan, rag, run))[0]
    return await search_passages(plan, question, rag, run)


async def search_chain(
    question: Question, plan: Plan, rag: Engine, run: Run
) -> tuple[tuple[Hit, ...], list[Passage], float]:
    """Search in rounds: all hits, best first, the passages of the chain as they were found, and their coverage."""
    first = await search_passages(plan, question, rag, run)
    if not first:
        return (), [], 0.0
    only = await run.require(Stage.FILTER, resolve_filter(plan, question.viewer, rag))
    chain = _Chain(question, plan, first, rag)
    for _ in range(_MAX_ROUNDS):
        names = chain.list_next_names()
        if not names or chain.covered >= _ENOUGH_COVERED:
            break
        more = await run.attempt(Stage.FOLLOW, chain.search_names(names, only), list[list[Passage]])
        if not more or not chain.extend(names, more):
            break
    if len(chain.passages) > 1:
        query = build_retrieval_query(plan, question, only)
        await run.attempt(Stage.FOLLOW, chain.search_missing_words(query, run), None)
    return chain.order_hits(), chain.passages, chain.covered


class _Chain:
    """Chain of passages: each covers words of the question that those before it lack, and holds a name from them."""

    def __init__(self, question: Question, plan: Plan, first: Sequence[Hit], rag: Engine) -> None:
        self._rag, self._first = rag, first
        self._statistics = rag.lexical.statistics(question.viewer.channels)
        asked = tuple(dict.fromkeys(tokenize(plan.asked or question.text)))
        self._weights = {term: self._statistics.weight(term) for term in asked}
        self._total = sum(self._weights.values()) or 1.0
        self._terms: dict[PassageRef, frozenset[str]] = {}
        self._found = {hit.passage.ref: hit.passage for hit in first}
        self._scores: dict[PassageRef, float] = {}
        self._again: list[PassageRef] = []
        self.passages = [first[0].passage]

    @property
    def covered(self) -> float:
        """Share of the weight of the question's words that the chain covers (0-1)."""
        return 1.0 - sum(map(self._weights.__getitem__, self._list_missing())) / self._total

    def _list_missing(self) -> list[str]:
        held = frozenset[str]().union(*map(self._get_terms, self.passages))
        return [term for term in self._weights if term not in held]

    def _get_terms(self, passage: Passage) -> frozenset[str]:
        if passage.ref not in self._terms:
            self._terms[passage.ref] = frozenset(tokenize(f"{passage.header} {passage.text}"))
        return self._terms[passage.ref]

    def list_next_names(self) -> dict[str, frozenset[str]]:
        """List names to search for, rare and often named first, with their terms; none of the question's own."""
        counts: dict[str, float] = {}
        read = [hit.passage for hit in self._first[:_NAMING_PASSAGES]]
        for weight, passage in (*((1 / n, p) for n, p in enumerate(read, 1)), *((1.0, p) for p in self.passages[1:])):
            times = Counter(match[0] for match in find_names(passage.text) if len(match[0]) > 3)
            for name, many in times.items():
                counts[name] = counts.get(name, 0.0) + weight * min(many, 2)
        terms = {name: frozenset(tokenize(name)) for name in counts}
        named = [name for name, own in terms.items() if own and not own & self._weights.keys()]

        def worth(name: str) -> float:
            return counts[name] * sum(map(self._statistics.weight, terms[name])) / len(terms[name])

        return {name: terms[name] for name in sorted(named, key=worth, reverse=True)[:_MAX_NAMES]}

    async def search_names(self, names: Mapping[str, Collection[str]], only: SearchFilter) -> list[list[Passage]]:
        """Search each name with the words of the question that are not covered yet; passages by name."""
        missing = self._list_missing()

        def search() -> list[list[PassageRef]]:
            queries = [[*terms, *missing] for terms in names.values()]
            return [[place for place, _ in self._rag.lexical.search(q, only, _HITS_OF_NAME)] for q in queries]

        ranked = await asyncio.to_thread(search)
        passages = await fetch_passages(self._rag.archive, [place for places in ranked for place in places])
        return [[passages[place] for place in places if place in passages] for places in ranked]

    def extend(self, names: Mapping[str, frozenset[str]], found: Sequence[Sequence[Passage]]) -> bool:
        """Score what was found, and add the best passage to the chain; False where there is none."""
        missing = self._list_missing()
        for n, (terms, passages) in enumerate(zip(names.values(), found, strict=True)):
            for rank, passage in enumerate(passages):
                held = self._get_terms(passage)
                score = self._score(len(terms & held) / len(terms), held, missing)
                score /= (1 + _RANK_DECAY * rank) * (1 + _NAME_DECAY * n)
                self._found.setdefault(passage.ref, passage)
                self._scores[passage.ref] = max(self._scores.get(passage.ref, 0.0), score)
        candidates = dict(self._scores)
        for rank, hit in enumerate(self._first[:20]):
            held = self._get_terms(hit.passage)
            linked = float(any(terms <= held for terms in names.values()))
            score = self._score(linked, held, missing) / (1 + _RANK_DECAY * rank / 4)
            candidates[hit.passage.ref] = max(candidates.get(hit.passage.ref, 0.0), score)
        for passage in self.passages:
            candidates.pop(passage.ref, None)
        if not candidates or max(candidates.values()) <= 0:
            return False
        self.passages.append(self._found[max(candidates, key=lambda place: (candidates[place], place))])
        return True

    async def search_missing_words(self, query: RetrievalQuery, run: Run) -> None:
        """Search the words that are still missing, with the names of the passage found first, by both retrievers."""
        missing = set(self._list_missing())
        words = [word for word in query.text.split() if not missing.isdisjoint(tokenize(word))]
        if names := extract_expansion_names(query.text, self.passages[1:2]):
            again = replace(query, text=" ".join((*words, names)))
            places = [place for place, _ in (await search_hybrid(again, self._rag, run)).ranked[:_HITS_AGAIN]]
            found = await fetch_passages(self._rag.archive, places)
            self._again = [found[place].ref for place in places if place in found]
            self._found = {passage.ref: passage for passage in found.values()} | self._found

    def _score(self, linked: float, held: Collection[str], missing: Sequence[str]) -> float:
        gain = sum(self._weights[term] for term in missing if term in held) / self._total
        return linked * (_LINK_WORTH + gain) + _UNLINKED_WORTH * gain

    def order_hits(self) -> tuple[Hit, ...]:
        """Order the hits: the first of the question, the chain, and the others by reciprocal rank fusion."""
        ranked = sorted(self._scores.items(), key=lambda pair: (-pair[1], pair[0]))
        own, linked = [hit.passage.ref for hit in self._first], [p for p, score in ranked if score > _MIN_LINK]
        rest = [place for place, _ in fuse_rankings([own, linked, self._again])]
        order = dict.fromkeys(
            (*own[:_PROTECTED_HITS], *(passage.ref for passage in self.passages[:_CHAIN_FIRST]), *rest)
        )
        hits = {hit.passage.ref: hit for hit in self._first}
        return tuple(
            replace(hits[place], score=1 / n) if place in hits else Hit(self._found[place], 1 / n, LEXICAL)
            for n, place in enumerate(order, 1)
        )


async def _extract_from_chain(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Quote the closest sentence of each passage of the chain; never as sure, because no post says the whole."""
    hits, chain, covered = await search_chain(question, plan, rag, run)
    # one passage has the words of the whole question, or all of them lack too many: it is no chain for these posts
    if len(chain) < 2 or covered < _LEAST_COVERED:
        return await search_and_extract(question, plan, rag, run)
    ordered = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    evidence = await gather_or_compose_evidence(question, ordered, rag, run)
    of_chain = {passage.key for passage in chain}
    linked = tuple(source for source in evidence.sources if source.passage.key in of_chain)
    async with run.stage(Stage.EXTRACT):
        draft = await asyncio.to_thread(extract_closest, question, plan, replace(evidence, sources=linked), rag)
        run.note(sources=len(evidence.sources), rounds=len(chain), sentences=len(draft.sentences))
    return draft, evidence


@dataclass(frozen=True, slots=True)
class _SearchRound:
    plan: Plan
    draft: Draft
    evidence: Evidence


async def _answer_in_rounds(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Draft, Evidence]:
    """Answer by one search, and by a second, wider one where nothing in the first is read as an answer."""
    draft, evidence = await search_and_extract(question, plan, rag, run)
    first = best = _SearchRound(*await search_by_model_plan(question, plan, draft, evidence, rag, run))
    if plan.queries and not first.draft.sentences:
        best = await _search_again(question, first, rag, run)
    return await complete_answer(question, best.plan, best.draft, best.evidence, rag, run)


async def _search_again(question: Question, first: _SearchRound, rag: Engine, run: Run) -> _SearchRound:
    """Search again with twice as many hits, both retrievers and other words; the better of both rounds."""
    plan = await add_hyde_query(question, widen_plan(first.plan), first.draft, rag, run)
    # the second round may fail: the result of the first is kept
    second = await run.attempt(Stage.AGAIN, _run_second_round(question, plan, rag, run), first)
    return second if second.draft.covered >= _SECOND_ROUND_LIKELY else first


async def _run_second_round(question: Question, plan: Plan, rag: Engine, run: Run) -> _SearchRound:
    """Search, and read the posts around the first hits too."""
    async with run.use_separate_budgets():  # its stages have their own budgets
        hits = await search_passages(plan, question, rag, run)
        hits = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
        hits = await run.attempt(Stage.FOLLOW, add_neighbours(hits, _READ_AROUND, plan, question.viewer, rag), hits)
        return _SearchRound(plan, *await extract_from_hits(question, plan, hits, rag, run))
