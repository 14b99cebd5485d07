"""Search: plan to hits, within the filters of the viewer, with query expansion, passages, MMR and a reranker.

With plain RRF, further queries displaced the first hits of the question itself: recall@1 fell from 0.38 to 0.22 on
MuSiQue. So the first five posts of the question's own query are fixed, and weighted RRF orders the rest.

MMR drops hits that are too similar to others. The first 20 texts are exempt: with them MMR cost 2 to 6 points of
recall@20 on MuSiQue. Similarity is the cosine of stored vectors, or the overlap of words where there are none.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import reduce
from operator import and_, mul
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rag_core.engine import CachedHit, Engine
from rag_core.errors import IndexUnavailable, RagError, StageTimeout, VectorsUnavailable
from rag_core.index.bm25_postings import TermStatistics
from rag_core.models.active_models import DenseIndex
from rag_core.planning.queries import match_channel_name
from rag_core.retrieval.fusion import (
    BOTH,
    DENSE,
    LEXICAL,
    Fusion,
    RankedPlaces,
    RetrievalQuery,
    RetrievalResult,
    Vector,
    VectorReader,
    fuse_rankings,
    select_by_mmr,
)
from rag_core.run import Run, Stage
from rag_core.storage import posts
from rag_core.storage.channels import load_channels
from rag_core.storage.index_state import count_queued_posts
from rag_core.storage.posts import PostFacet, fetch_passages, list_neighbour_keys
from rag_core.text.names import NAME_PATTERN, matches_file_name, matches_name
from rag_core.text.query_terms import AnswerType, QueryTerms, contains_answer_type
from rag_core.text.sentences import build_text_key, tokenize_sentences
from rag_core.text.tokens import fold_case, tokenize
from rag_core.types import (
    DENSE_FIRST,
    LEXICAL_ONLY,
    Hit,
    Kind,
    Passage,
    PassageRef,
    Plan,
    PostKeySet,
    Question,
    SearchFilter,
    Shortfall,
    Viewer,
)

# One everyday word covers several media kinds of Telegram.
_MEDIA_KINDS = {
    "photo": ("photo", "live_photo"),
    "video": ("video", "video_note", "animation"),
    "document": ("document", "audio"),
}


async def resolve_filter(plan: Plan, viewer: Viewer, rag: Engine) -> SearchFilter:
    """Resolve the filter: channels, limited to those the viewer may read, period, and the keys of the posts with the
    plan's authors, origins, kinds, files.

    An unknown name gives an empty set of posts, so that nothing is found. Raises ArchiveUnavailable.
    """
    readable = viewer.channels if plan.channels is None else viewer.channels & plan.channels
    slack, archive = timedelta(days=plan.slack), rag.archive
    only = SearchFilter(readable, plan.since and plan.since - slack, plan.until and plan.until + slack)
    key_sets = list[PostKeySet]()

    async def find_by_name(
        facet: PostFacet, names: Sequence[str], matches: Callable[[str, str], bool], *kinds: str
    ) -> PostKeySet:
        written = [value for kind in kinds for value in await posts.list_facet_values(archive, facet, readable, kind)]
        choosing = asyncio.to_thread(lambda: [one for one in written if any(matches(name, one) for name in names)])
        return await posts.find_posts_by_facet(archive, facet, await choosing, readable)

    if plan.media:
        kinds = [kind for word in plan.media for kind in _MEDIA_KINDS.get(word, (word,))]
        key_sets.append(await posts.find_posts_by_facet(archive, PostFacet.MEDIA, kinds, readable))
    if plan.authors:
        key_sets.append(await find_by_name(PostFacet.AUTHOR, plan.authors, matches_name, "%"))
    if plan.origins:
        usernames = {name[1:].lower() for name in plan.origins if name.startswith("@")}
        known = await load_channels(archive) if usernames else {}
        # the @username of a channel that the asker may not read must not be revealed
        chats = [c for c in viewer.channels if c in known and (known[c].username or "").lower() in usernames]
        by_chat = await posts.find_posts_by_facet(archive, PostFacet.ORIGIN_CHAT, chats, readable)
        key_sets.append(by_chat | await find_by_name(PostFacet.ORIGIN, plan.origins, matches_name, "%"))
    if plan.files:
        endings = {f"%.{name.rpartition('.')[2]}%" for name in plan.files}
        key_sets.append(await find_by_name(PostFacet.FILE, plan.files, matches_file_name, *endings))
    return replace(only, keys=reduce(and_, key_sets)) if key_sets else only


async def find_titled_channel(words: str, viewer: Viewer, rag: Engine) -> int | None:
    """Find the channel whose title has all the words, of those that the viewer may read; None if none or several."""
    readable = viewer.select_readable(await load_channels(rag.archive))
    found = match_channel_name(fold_case(words), readable)
    return found.pop() if len(found) == 1 else None


_FEW_HITS = 3  # with fewer lexical hits, the dense index is searched as well
# Factor of the dense weight for a long question without names, whose answer may share few of its words.
# Not fitted: only one of the 1,800 evaluation questions is of this sort.
_DENSE_FIRST_FACTOR = 1.5
_MIN_COSINE = 1e-3  # 16-bit vectors of different languages are orthogonal up to rounding

T = TypeVar("T")


@contextmanager
def run_beside(work: Coroutine[Any, Any, T]) -> Iterator[asyncio.Task[T]]:
    """Run a coroutine beside the block, at whose end it is cancelled. Its error is raised only where it is awaited."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio logs one never awaited
    try:
        yield task
    finally:
        task.cancel()


async def search_hybrid(query: RetrievalQuery, rag: Engine, run: Run) -> RetrievalResult:
    """Search the lexical and the dense index, as `query.legs` says, and fuse both rankings.

    If one index fails, the other alone answers. Raises IndexUnavailable, StageTimeout where neither gives hits.
    """
    failed: RagError | None = None
    dense = rag.dense  # another one may take its place meanwhile

    async def search_by_meaning(*, wanted: bool) -> tuple[RankedPlaces, Vector | None]:
        if not wanted:
            return [], None
        return await run.attempt(Stage.DENSE, search_dense(query.text, query.only, query.k, dense), ([], None))

    own = set(tokenize(query.text))
    words = " ".join((query.text, *(word for word in query.should if not own.issuperset(tokenize(word)))))
    with run_beside(search_by_meaning(wanted=query.legs != LEXICAL_ONLY)) as searching:
        try:
            terms = search_lexical(words, query.only, query.k, rag, query.aliases)
            lexical = await run.require(Stage.LEXICAL, terms)
        except (IndexUnavailable, StageTimeout) as exc:
            lexical, failed = [], exc
        near, vector = await searching
    if query.legs == LEXICAL_ONLY and len(lexical) < _FEW_HITS:
        near, vector = await search_by_meaning(wanted=dense is not None)
    if failed:
        if not near:
            raise failed
        run.note_shortfall(Stage.LEXICAL, failed)
    found_by = {place: LEXICAL for place, _ in lexical}
    found_by |= {place: BOTH if place in found_by else DENSE for place, _ in near}
    vectors = VectorReader(dense.vectors, dense.embedder) if dense and vector is not None else None
    ranked = fuse_retrievers(lexical, near, query, rag)
    return RetrievalResult(ranked, found_by, vector, failed is None, dict(near), vectors)


async def search_lexical(
    query: str, only: SearchFilter, n: int, rag: Engine, aliases: Sequence[tuple[str, str]] = ()
) -> RankedPlaces:
    """Search the lexical index for the words of a question, their synonyms and translations, best first."""
    asked = QueryTerms.of(query, rag.lexical.statistics(only.channels).weight, aliases)
    variants = asked.weigh_variants()
    terms = [*asked.order, *(phrase for phrase in variants if phrase not in asked.share)]
    # numpy releases the GIL while it scores, so a large index does not block the event loop
    return await asyncio.to_thread(rag.lexical.search, terms, only, n, variants)


async def search_dense(
    query: str, only: SearchFilter, n: int, dense: DenseIndex | None
) -> tuple[RankedPlaces, Vector | None]:
    """Search the dense index, best first; also returns the query vector. Empty and None without an embedding model.

    Passages with a cosine of 0 or below are dropped: they have nothing in common with the question.
    """
    if dense is None:
        return [], None
    vector = await dense.embedder.query(query)
    if not vector.any():
        return [], None  # the model knows no word of the query
    hits = await dense.vectors.search(vector, only, n)
    return [(place, score) for place, score in hits if score > _MIN_COSINE], vector


def fuse_retrievers(lexical: RankedPlaces, near: RankedPlaces, query: RetrievalQuery, rag: Engine) -> RankedPlaces:
    """Fuse the rankings of both searches, as fitted for the model and the question's language."""
    if not near or rag.dense is None:
        return lexical
    fusion = rag.calibration.fusion(rag.dense.model, query.lang, rag.dense_weight)
    if query.legs == DENSE_FIRST:
        fusion = replace(fusion, dense=min(1.0, _DENSE_FIRST_FACTOR * fusion.dense))
    return fusion(lexical, near, query.k)


_PROTECTED_POSTS = 5  # first posts of the question's own query, fixed at the top
# Smaller than the usual 60, with which two votes for a bad hit outweighed the sixth of the question's own hits: on
# HotpotQA recall@10 rose from 0.89 to 0.98, on MuSiQue from 0.68 to 0.72.
_RRF_K = 10
# RRF weights of a further query, and of the query expanded with names from the first hits.
VARIANT_WEIGHT, EXPANSION_WEIGHT = 0.15, 1.0
HYDE_WEIGHT = 1.0  # RRF weight of the hypothetical post (HyDE); not fitted, and behind the first five as well
_EXPANSION_PASSAGES, _EXPANSION_NAMES = 2, 6


def extract_expansion_names(question: str, passages: Sequence[Passage]) -> str:
    """Extract up to six names from the two best passages that the question lacks, for multi-hop questions."""
    asked = set(tokenize(question))
    names = (name[0] for passage in passages[:_EXPANSION_PASSAGES] for name in NAME_PATTERN.finditer(passage.text))
    counts = Counter(name for name in names if len(name) > 3 and asked.isdisjoint(tokenize(name)))
    return " ".join(name for name, _ in counts.most_common(_EXPANSION_NAMES))


def append_expansion_hits(own: RankedPlaces, others: Sequence[tuple[RankedPlaces, float]]) -> RankedPlaces:
    """Fix the first hits of `own`, then append all others by weighted RRF; scores are those of `own`, or 0."""
    rankings = [[place for place, _ in ranking] for ranking, _ in ((own, 1.0), *others)]
    voted = fuse_rankings(rankings, [1.0, *(weight for _, weight in others)], _RRF_K)
    scores = dict(own)
    stay = set(list(dict.fromkeys(place.key for place, _ in own))[:_PROTECTED_POSTS])
    last = max((n for n, (place, _) in enumerate(own, 1) if place.key in stay), default=0)
    first = [place for place, _ in own[:last] if place.key in stay]
    fixed = set(first)
    rest = [place for place, _ in voted if place not in fixed]
    return [(place, scores.get(place, 0.0)) for place in (*first, *rest)]


# Order by features, a linear model for both languages: everyday questions ask how things are now and name the kind of
# the answer, so the newest of several posts about a price holds, and a post with a price answers. They are fitted
# by listwise logistic regression (ListNet, Cao et al. 2007) on everyday questions, one channel held out at a time.
_MAX_MEASURED = 40  # hits; the others keep their order below them
_RECENCY_DAYS = 365.0  # after so many days a post's bonus has fallen to 1/e
# Words that ask for what was: then the newest post has no bonus.
_PAST = re.compile(
    r"\b(?:(?:19|20)\d\d|перв\w+|раньше|был[аио]?|прошл\w+|first|last (?:year|month|time)|used to|were|was|did)\b", re.I
)


class HitFeatures(NamedTuple):
    """Features of a hit, each 0..1.

    score: of the fusion, as a share of the best
    terms, beginning: weight share of the question's terms in the passage, and in its header and first sentence
    recency: `terms`, less the older the post; 0 for a question about the past
    likeness: cosine of the dense search, 0 for a hit that it did not find
    wanted: `terms` near a sentence that holds the wanted kind of answer
    """

    score: float
    terms: float
    beginning: float
    recency: float
    likeness: float
    wanted: float


# Of the order, fitted as above, with `terms` raised until nothing was lost on XQuAD.
ORDER_WEIGHTS = HitFeatures(score=1.0, terms=0.75, beginning=0.35, recency=1.15, likeness=0.43, wanted=0.4)
# Of the scores that later steps read. The extract weighs how new a post is by itself (`superseded`, series): with the
# scores of the order recency counted twice, and 2.4 points less of the sample answers were shown.
_RELEVANCE = HitFeatures(score=1.0, terms=0.75, beginning=0.3, recency=0.45, likeness=0.0, wanted=0.35)


def rerank_by_features(
    found: RetrievalResult, passages: Mapping[PassageRef, Passage], plan: Plan, question: Question,
    statistics: TermStatistics,
) -> list[tuple[PassageRef, float]]:  # fmt: skip
    """Rerank the hits of the question's own query that have a passage; scores fall with the order, the best is 1."""
    asked = QueryTerms.of(plan.asked or plan.queries[0], statistics.weight, plan.aliases)
    present = not (plan.since or plan.until or _PAST.search(question.text))
    top = max((score for _, score in found.ranked), default=0.0) or 1.0
    known = [(place, score) for place, score in found.ranked if place in passages]
    measured = []
    for place, score in known[:_MAX_MEASURED]:
        passage = passages[place]
        header, split = frozenset(tokenize(passage.header)), tokenize_sentences(passage.text)
        terms = [stems for _, stems in split]
        met = asked.matched_share(header.union(*terms))
        age = max(0.0, (question.asked_at - passage.date).total_seconds() / 86_400)
        wanted = 0.0
        if asked.want is not AnswerType.ANYTHING:
            # the terms near the best sentence with the wanted kind of answer: "Bread. 90 a loaf."; the kind takes
            # longer to look for than the terms: best first, up to the first that has it
            near = [(asked.matched_share(header.union(*terms[max(0, n - 1) : n + 1])), n) for n in range(len(split))]
            texts = ((share, passage.text[slice(*split[n][0])]) for share, n in sorted(near, reverse=True) if share)
            holding = (share for share, text in texts if contains_answer_type(asked.want, text, question.text))
            wanted = next(holding, 0.0)
        features = HitFeatures(
            score=score / top,
            terms=met,
            beginning=asked.matched_share(header.union(*terms[:1])),
            recency=met * math.exp(-age / _RECENCY_DAYS) if present else 0.0,
            likeness=found.cosines.get(place, 0.0),
            wanted=wanted,
        )
        measured.append((place, features))
    measured.sort(key=lambda hit: -sum(map(mul, ORDER_WEIGHTS, hit[1])))
    ordered, least = list[tuple[PassageRef, float]](), math.inf
    for place, features in measured:
        least = min(least, sum(map(mul, _RELEVANCE, features)))
        ordered.append((place, least))
    ordered += [(place, least * score / top) for place, score in known[_MAX_MEASURED:]]
    return [(place, score / (ordered[0][1] or 1.0)) for place, score in ordered]


_MULTI_HOP_TERMS = 5  # least number of terms of a multi-hop question
_FETCHED_PASSAGES = 80  # least number of passages read for MMR; else twice the number kept


async def search_passages(plan: Plan, question: Question, rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Search the passages of a plan, best first. Raises IndexUnavailable, ArchiveUnavailable, StageTimeout."""
    if not plan.queries or not question.viewer.channels:
        return ()
    async with run.stage(Stage.LOOKUP):
        # authors, kinds and the like are looked up in the archive, which may be ahead of the index
        seq = await posts.get_last_seq(rag.archive) if plan.has_filters else 0
        key, version = (plan, question.lang, question.viewer.channels, seq), rag.version
        hits = rag.caches.hits.get(key, version)
        run.note(cache_hit=float(hits is not None))
    if hits is None and plan.kind is Kind.POSTED:  # a question such as "what is new" has no term to search for
        only = await run.require(Stage.FILTER, resolve_filter(plan, question.viewer, rag))
        listed = await run.require(Stage.LEXICAL, asyncio.to_thread(rag.lexical.all_of, only))
        newest = listed[: -rag.keep - 1 : -1]
        hits = tuple(CachedHit(place, 1 / rank, LEXICAL, 0.0) for rank, place in enumerate(newest, 1))
        rag.caches.hits.store(key, version, hits)
    if hits is not None:
        passages = await run.require(Stage.FETCH, fetch_passages(rag.archive, [hit.place for hit in hits]))
    else:
        before = len(run.shortfalls)
        hits, passages = await _run_search(plan, question, rag, run)
        if len(run.shortfalls) == before:  # an incomplete result is not cached
            rag.caches.hits.store(key, version, hits)
    known = (hit for hit in hits if hit.place in passages)
    found = tuple(Hit(passages[hit.place], hit.score, hit.leg, hit.likeness) for hit in known)
    run.show("search", (format_hit(hit) for hit in found[:_SHOWN_HITS]))
    return found


_SHOWN_HITS, _SHOWN_LENGTH = 10, 80  # of a result on the terminal, and characters of each


def format_hit(hit: Hit) -> str:
    """Format a hit as one line for the terminal."""
    words = " ".join(hit.passage.text.split())[:_SHOWN_LENGTH]
    return f"{hit.score:.3f} {hit.leg} {hit.passage.key.chat_id}/{hit.passage.key.message_id} {words}"


async def _run_search(
    plan: Plan, question: Question, rag: Engine, run: Run
) -> tuple[tuple[CachedHit, ...], dict[PassageRef, Passage]]:
    only = await run.require(Stage.FILTER, resolve_filter(plan, question.viewer, rag))
    text = plan.asked or plan.queries[0]
    query = RetrievalQuery(text, plan.legs, plan.k_per_query, only, question.lang, plan.should, plan.aliases)
    multi_hop = len(plan.queries) > 1 and len(tokenize(text)) >= _MULTI_HOP_TERMS
    further_queries = (*plan.queries[1:], " ".join(plan.must)) if plan.must else plan.queries[1:]
    with ExitStack() as running:
        # beside the own query: this process has nothing to do while another compares the vectors
        variants = expansions = None
        if further_queries:  # in one thread: searches are short, and threads would compete
            terms = [*map(tokenize, further_queries)]
            searching = asyncio.to_thread(rag.lexical.search_each, terms, only, plan.k_per_query)
            variants = running.enter_context(run_beside(searching))
        own = await search_hybrid(query, rag, run)
        places = [place for place, _ in own.ranked]
        # the names of the two best are searched while all others are read and ordered
        best = places[:_EXPANSION_PASSAGES] if own.by_words and multi_hop else []
        passages = await run.require(Stage.FETCH, fetch_passages(rag.archive, best)) if best else {}
        if best or plan.like:
            expanding = _run_expansions(plan, query, own, [*passages.values()], rag, run)
            expansions = running.enter_context(run_beside(expanding))
        passages |= await run.require(Stage.FETCH, fetch_passages(rag.archive, places[len(best) :]))
        statistics = rag.lexical.statistics(question.viewer.channels)
        ordering = asyncio.to_thread(rerank_by_features, own, passages, plan, question, statistics)
        ranked = await run.attempt(Stage.ORDER, ordering, [pair for pair in own.ranked if pair[0] in passages])
        own = replace(own, ranked=ranked)
        further: list[tuple[RankedPlaces, float]] = []
        if own.by_words and variants:
            others = await run.attempt(Stage.QUERIES, variants, list[RankedPlaces])
            further = [(ranking, VARIANT_WEIGHT) for ranking in others]
        if own.by_words and expansions:
            further += await expansions
        fused = append_expansion_hits(own.ranked, further) if further else own.ranked
        fused = fused[: max(_FETCHED_PASSAGES, 2 * rag.keep)]
        more = [place for place, _ in fused if place not in passages]
        passages |= await run.require(Stage.FETCH, fetch_passages(rag.archive, more)) if more else {}
        fused = [pair for pair in fused if pair[0] in passages]
        first = fused[: rag.keep]
        diversifying = diversify_hits(fused if plan.diverse else first, own, passages, rag)
        likeness, fused = await run.attempt(Stage.DIVERSE, diversifying, (dict[PassageRef, float](), first))
    legs = own.found_by
    hits = (CachedHit(place, score, legs.get(place, LEXICAL), likeness.get(place, 0.0)) for place, score in fused)
    return tuple(hits), passages


async def _run_expansions(
    plan: Plan, query: RetrievalQuery, own: RetrievalResult, best: Sequence[Passage], rag: Engine, run: Run
) -> list[tuple[RankedPlaces, float]]:
    """Search with names from the `best` passages, and by HyDE; returns rankings with their RRF weights."""
    rankings: list[tuple[RankedPlaces, float]] = []

    async def search_again(text: str) -> RankedPlaces:
        """Search the question with these names again."""
        searching = search_lexical(text, query.only, query.k, rag, query.aliases)
        if own.vectors is None:
            return await searching
        with run_beside(own.vectors.embedder.query(text)) as embedding:  # outside of Python's lock
            lexical = await searching
            # of the hits at hand only: to compare all vectors once more took a fifth of the time of an answer
            places = dict.fromkeys(place for place, _ in (*lexical, *own.ranked))
            try:
                stored, vector = await own.vectors.read([*places]), await embedding
            except VectorsUnavailable:  # words alone; the choice of diverse hits meets it too, and it is told there
                return lexical
        cosines = ((place, float(there @ vector)) for place, there in stored.items())
        near = sorted((pair for pair in cosines if pair[1] > _MIN_COSINE), key=lambda pair: -pair[1])
        return fuse_retrievers(lexical, near, query, rag)

    if names := extract_expansion_names(query.text, best):
        again = search_again(f"{query.text} {names}")
        rankings.append((await run.attempt(Stage.FURTHER, again, list), EXPANSION_WEIGHT))
    if plan.like and own.by_words:
        similar, _ = await run.attempt(Stage.DENSE, search_dense(plan.like, query.only, query.k, rag.dense), ([], None))
        rankings.append((similar, HYDE_WEIGHT))
    return rankings


MAX_RERANKED = 20  # passages: more would take too long, and the answer is seldom beyond them
_FEW_RANKED = 20  # hits: among so few a clear lead in one ranking is enough
_MIN_RERANKED = 2
_RERANKER_WEIGHT = 0.5  # half and half with the fused scores: each uses evidence that the other lacks
_CLEAR_LEAD = 0.35  # lead of the first hit over the second, relative to its score: reranking would not change it
_USABLE_BUDGET_SHARE = 0.8  # share of the budget that is planned: text length and machine load vary


async def rerank_hits(question: Question, hits: tuple[Hit, ...], rag: Engine, run: Run) -> tuple[Hit, ...]:
    """Rerank the first hits by a cross-encoder, as many as the budget allows; the rest keep their order.

    Unchanged without a reranker, for a language it does not know, and where the first hit leads so clearly that it is
    not worth the wait. Raises ModelUnavailable, StageTimeout; the caller then falls back to the fused order.
    """
    reranker = rag.reranker
    if reranker is None or question.lang not in reranker.languages or len(hits) < _MIN_RERANKED:
        return hits
    trusted = hits[0].leg == BOTH or len(hits) <= _FEW_RANKED  # among many hits a lead in both rankings
    if trusted and (hits[0].score - hits[1].score) / (hits[0].score or 1.0) > _CLEAR_LEAD:
        return hits
    affordable = int(rag.budgets.rerank * _USABLE_BUDGET_SHARE / max(reranker.pair_s, 1e-6))
    first = hits[: min(MAX_RERANKED, affordable)]
    run.note(reranked=len(first) if len(first) >= _MIN_RERANKED else 0)
    if len(first) < _MIN_RERANKED:
        return hits
    texts = [f"{hit.passage.header}\n{hit.passage.text}" for hit in first]
    reranked = sorted(enumerate(await reranker.scores(question.text, texts)), key=lambda pair: -pair[1])
    blended = Fusion(dense=_RERANKER_WEIGHT)([(n, hit.score) for n, hit in enumerate(first)], reranked)
    # hits that were not reranked stay below: reranked ones score 1 to 2, the others at most 1
    top = max(hits[0].score, 1e-9)
    below = (replace(hit, score=min(1.0, hit.score / top)) for hit in hits[len(first) :])
    return (*(replace(first[n], score=1.0 + score) for n, score in blended), *below)


_NEIGHBOUR_SCORE = 0.5  # of a post beside a hit, as a share of the hit's


async def add_neighbours(hits: Sequence[Hit], first: int, plan: Plan, viewer: Viewer, rag: Engine) -> tuple[Hit, ...]:
    """Add the posts around the first hits: before, after, replied to, and replies; an album is one post.

    A question and its answer are often two posts, of which only one has the words that were searched. What the filters
    of the plan leave out is not added.
    """
    only = await resolve_filter(plan, viewer, rag)
    around = await list_neighbour_keys(rag.archive, [hit.passage.key for hit in hits[:first]])
    keys = PostKeySet.of({key for near in around.values() for key in near} - {hit.passage.key for hit in hits})
    allowed = replace(only, keys=keys if only.keys is None else only.keys & keys)
    places = {place.key: place for place in await asyncio.to_thread(rag.lexical.all_of, allowed)}
    passages = await fetch_passages(rag.archive, [*places.values()])
    joined: dict[PassageRef, Hit] = {}
    for hit in hits:
        joined.setdefault(hit.passage.ref, hit)
        for place in filter(None, map(places.get, around.get(hit.passage.key, ()))):
            if place in passages:
                joined.setdefault(place, Hit(passages[place], hit.score * _NEIGHBOUR_SCORE, LEXICAL))
    return tuple(joined.values())


_PROTECTED_HITS = 20  # first texts exempt from MMR, which cost 2 to 6 points of recall@20 on MuSiQue among them


async def diversify_hits(
    fused: RankedPlaces, own: RetrievalResult, passages: dict[PassageRef, Passage], rag: Engine
) -> tuple[dict[PassageRef, float], RankedPlaces]:
    """Select diverse hits by MMR: the cosine of each to the question, and the kept ones. Raises VectorsUnavailable."""
    stored = await own.vectors.read([place for place, _ in fused]) if own.vectors else {}
    likeness = {} if own.vector is None else {place: float(there @ own.vector) for place, there in stored.items()}
    return likeness, await asyncio.to_thread(_select_diverse, fused, stored, passages, rag)


def _select_diverse(
    fused: RankedPlaces, stored: dict[PassageRef, Vector], passages: dict[PassageRef, Passage], rag: Engine
) -> RankedPlaces:
    """Select by MMR, with stored vectors or else shared terms; identical texts count once."""
    text_keys = {place: build_text_key(passages[place].text) for place, _ in fused}
    groups: dict[str, RankedPlaces] = {}
    for place, score in fused:
        groups.setdefault(text_keys[place] or str(place), []).append((place, score))
    firsts = [group[0] for group in groups.values()]
    if len(firsts) <= rag.keep:
        return fused
    protected = min(_PROTECTED_HITS, rag.keep)
    exempt, rest = firsts[:protected], firsts[protected:]
    ranked = [(place, 1 - n / len(rest)) for n, (place, _) in enumerate(rest)]
    alike: NDArray[np.floating[Any]] | None = None
    if any(place not in stored for place, _ in rest):  # the Jaccard similarity of each pair of texts
        sets = [frozenset(text_keys[place].split()) for place, _ in rest]
        numbers = {word: n for n, word in enumerate(frozenset().union(*sets))}
        holds = np.zeros((len(sets), len(numbers)), np.float32)
        for row, words in zip(holds, sets, strict=True):
            row[[numbers[word] for word in words]] = 1
        shared = (holds @ holds.T).astype(np.float64)
        sizes = shared.diagonal()
        alike = shared / np.maximum(1, sizes[:, None] + sizes - shared)
    chosen = select_by_mmr(ranked, stored, rag.keep - len(exempt), rag.settings.retrieval.diversity, alike)
    kept = {place for place, _ in (*exempt, *chosen)}
    selected = {place for group in groups.values() if group[0][0] in kept for place, _ in group}
    return [pair for pair in fused if pair[0] in selected]


# Posts to embed that are worth telling: fewer are new ones, which wait for seconds.
_MANY_UNEMBEDDED = 256


async def note_unindexed_posts(viewer: Viewer, rag: Engine, run: Run, *, vectors: bool) -> None:
    """Report a shortfall where the index lags behind the archive (first start, rebuild).

    `vectors`: also where they lag far behind (a new model, another store). Only what this viewer may read counts.
    """
    if behind := await posts.count_unindexed_posts(rag.archive, rag.lexical.watermark, viewer.channels):
        run.shortfalls.append(Shortfall("search", f"{behind} changes of posts are not in the index yet."))
    many = _MANY_UNEMBEDDED
    if vectors and rag.dense and await count_queued_posts(rag.archive, viewer.channels, many) == many:
        reason = f"At least {many} posts are not embedded yet: they are searched by words only."
        run.shortfalls.append(Shortfall("unembedded", reason))
