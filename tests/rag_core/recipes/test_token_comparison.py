"""The preview compares tokens as the answer does, and no search of a question compares a post again."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from bot.data_folder import catch_up_indexes
from rag_core import Question, RagSettings, Viewer, open_engine, recipe_steps
from rag_core.errors import ModelUnavailable
from rag_core.planning.plan import plan_by_rules, widen_plan
from rag_core.recipe_steps import extract_from_hits, report_extract
from rag_core.retrieval.search import search_passages
from rag_core.run import Run
from rag_core.storage import channels, posts
from rag_core.types import Channel, Visibility

CHAT = -1001
TEXTS = (
    "The ferry to Owl Island leaves at 7:30 every morning from pier four.",
    "A ferry ticket costs twelve euros; children under six sail for nothing.",
    "The ferry is out of service: the engine needs a new pump.",
)
ASKED = Question("How much is a ferry ticket?", "en", datetime(2025, 6, 1, tzinfo=UTC), Viewer(1, frozenset({CHAT})))


class CountingEmbedder:
    def __init__(self, embedder):
        self._embedder, self.compared, self.fails = embedder, [], False

    def __getattr__(self, name):
        return getattr(self._embedder, name)

    async def compare(self, question, texts):
        self.compared += texts
        if self.fails:
            raise ModelUnavailable("It cannot be read.")
        return await self._embedder.compare(question, texts)


@pytest.fixture
async def rag(tmp_path, multilingual_model, make_post):
    models = {"embedder": "e5-small-centred", "dir": multilingual_model.parent}
    async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path}, "models": models})) as opened:
        await channels.save_channel(opened.archive, Channel(CHAT, "Harbour", visibility=Visibility.PUBLIC))
        await posts.save_posts(opened.archive, [make_post(n, text) for n, text in enumerate(TEXTS, 1)], source="live")
        await catch_up_indexes(opened)
        yield replace(opened, dense=replace(opened.dense, embedder=CountingEmbedder(opened.dense.embedder)))


async def test_preview_and_second_search_compare_each_post_once(rag, monkeypatch):
    previews, ranked = [], []

    async def keep(draft):
        previews.append(draft)

    def rank(question, plan, evidence, rag):
        ranked.append({number: one.post for number, one in evidence.similarities.items()})
        return ranking(question, plan, evidence, rag)

    ranking = recipe_steps.rank_evidence
    monkeypatch.setattr(recipe_steps, "rank_evidence", rank)
    run, plan = Run(rag.budgets, "direct", on_extract=keep), plan_by_rules(ASKED, {})
    hits = await search_passages(plan, ASKED, rag, run)
    assert len(hits) > 1
    await report_extract(ASKED, plan, hits[:1], rag, run)
    await report_extract(ASKED, plan, hits, rag, run)
    draft = (await extract_from_hits(ASKED, plan, hits, rag, run)).draft
    await extract_from_hits(ASKED, widen_plan(plan), hits[::-1], rag, run)
    assert previews[-1].sentences == draft.sentences
    assert [len(one) for one in ranked] == [1, *[len(hits)] * 3]
    compared = rag.dense.embedder.compared
    assert sorted(compared) == sorted(hit.passage.text for hit in hits)


async def test_a_comparison_that_fails_is_not_tried_again(rag):
    rag.dense.embedder.fails = True
    run, plan = Run(rag.budgets, "direct"), plan_by_rules(ASKED, {})
    hits = await search_passages(plan, ASKED, rag, run)
    for _ in range(2):
        extracted = await extract_from_hits(ASKED, plan, hits, rag, run)
        assert extracted.draft.sentences and not extracted.evidence.similarities
    assert [one.stage for one in run.shortfalls] == ["compare"]


async def test_posts_that_were_read_ahead_are_not_read_by_a_question(rag, monkeypatch):
    embedder = rag.dense.embedder
    before = await embedder.compare(ASKED.text, TEXTS)
    await embedder.read_ahead(["Another post.", *TEXTS])
    read = []
    network = embedder._networks[0]
    monkeypatch.setattr(network, "embed_tokens", lambda text, kind: read.append(text) or embed(text, kind))
    embed = type(network).embed_tokens.__get__(network)
    after = await embedder.compare(ASKED.text, ["Another post.", *TEXTS])
    assert read == [ASKED.text]
    assert [one.post for one in after[1:]] == [one.post for one in before]


async def test_a_question_is_read_once_whatever_is_compared_with_it(rag, monkeypatch):
    embedder, text, read = rag.dense.embedder, "How long is the fence by the school?", []
    network = embedder._networks[0]
    run = network._offline
    monkeypatch.setattr(network, "_offline", lambda batch: read.extend(batch) or run(batch))
    vector = await embedder.query(text)
    for post in ("A post of its own kind.", "Another of that kind."):
        await embedder.compare(text, [post])
    assert [one for one in read if text in one] == [network.row.query_prefix + text]
    assert (await embedder.query(text) == vector).all()
    await rag.forget_questions()
    assert (await embedder.query(text) == vector).all()
    assert len([one for one in read if text in one]) == 2
