"""Verdicts over a small library: which post decides, who is a source, what changes, and what is never said."""

from dataclasses import replace
from datetime import timedelta

import pytest

from ingest.copies import CopyIndexer
from rag_core.errors import IndexUnavailable
from rag_core.index.lexical_index import LexicalIndex
from rag_core.run import Budgets
from rag_core.storage import channels, visible_posts
from rag_core.types import Channel, Origin, PostKey, Visibility
from rag_core.verification import Label
from rag_core.verification.verify import MAX_CHECKED_CLAIMS, plan_claim_search, verify_text

FERRY = "The ferry to Owl Island leaves at 7:30 every morning."
TICKET = "A ferry ticket costs twelve euros."


async def verified(library, text, **see):
    return await verify_text(library.question(text, **see), library.rag)


async def verdict(library, text, **see):
    (only,) = (await verified(library, text, **see)).verdicts
    return only


def stages(library):
    return [span.stage for span in library.runs[-1].spans]


async def test_a_supported_claim_has_the_words_of_its_post(library):
    found = await verdict(library, FERRY)
    (citation,) = found.citations
    assert (found.label, found.sources, found.earliest) == (Label.SUPPORTED, 1, citation.post)
    assert citation.post == PostKey(library.harbour, 1)
    stored = (await visible_posts.fetch_posts(library.rag.archive, [citation.post]))[citation.post]
    assert stored.text[citation.start : citation.end] == citation.quote
    assert "leaves at 7:30" in citation.quote


@pytest.mark.parametrize(
    ("claim", "label"),
    [
        ("The ferry to Owl Island leaves at 9:15 every morning.", Label.CONTRADICTED),
        ("Абонемент в мастерскую стоит 3 100 рублей в месяц.", Label.CONTRADICTED),
        ("Абонемент в мастерскую стоит 2750 рублей в месяц.", Label.SUPPORTED),
        ("The harbour master bought a zeppelin in Lisbon.", Label.NOT_FOUND),
    ],
)
async def test_without_a_model_rules_decide(library, claim, label):
    found = await verdict(library, claim)
    assert found.label is label
    assert bool(found.citations) == (label is Label.SUPPORTED)
    assert bool(found.against) == (label is Label.CONTRADICTED)


async def test_days_and_numbers_of_a_claim_are_no_filter_of_posts(library):
    plan = plan_claim_search(library.question("Since yesterday a PDF file costs 12 euros in 1990, says @harbour_news."))
    assert (plan.since, plan.until, plan.channels, plan.has_filters) == (None, None, None, False)
    assert any("12" not in query for query in plan.queries)


async def test_a_later_post_of_the_channel_supersedes_the_claim(library, make_post):
    assert (await verdict(library, TICKET)).label is Label.SUPPORTED
    await library.keep(make_post(7, "A ferry ticket costs fifteen euros.", chat=library.harbour, days=90))
    old, new = await verdict(library, TICKET), await verdict(library, "A ferry ticket costs fifteen euros.")
    assert old.label is Label.CONTRADICTED
    assert old.superseded.post == PostKey(library.harbour, 7)
    assert [c.post.message_id for c in old.citations] == [5]
    assert (new.label, new.superseded, new.against) == (Label.SUPPORTED, None, ())


async def test_channels_that_disagree_are_shown_side_by_side(library, make_post):
    await library.keep(make_post(9, "A ferry ticket costs fifteen euros.", chat=library.kiln, days=90))
    found = await verdict(library, TICKET)
    assert found.superseded is None
    assert [c.post for c in found.citations] == [PostKey(library.harbour, 5)]
    assert [c.post for c in found.against] == [PostKey(library.kiln, 9)]
    assert found.against[0].date > found.citations[0].date


async def test_copies_forwards_and_repeats_are_one_source(library, make_post):
    text = "The drawbridge was raised 214 times this winter, the harbour office counted."
    first = make_post(20, text, chat=library.harbour, days=5)
    forward = make_post(21, text, chat=library.kiln, days=6, origin=Origin("Harbour News", library.harbour, 20))
    again = make_post(22, "Winter in figures: the drawbridge was raised 214 times.", chat=library.harbour, days=9)
    await library.keep(again, forward, first)
    await CopyIndexer(library.rag.archive).catch_up()
    found = await verdict(library, "The drawbridge was raised 214 times this winter.")
    assert (found.label, found.sources, found.earliest) == (Label.SUPPORTED, 1, first.key)
    own = make_post(23, "We watched: the drawbridge was raised 214 times this winter.", chat=library.kiln, days=10)
    await library.keep(own)
    assert (await verdict(library, "The drawbridge was raised 214 times this winter.")).sources == 2


async def test_nothing_is_told_of_a_channel_that_the_asker_may_not_read(library, make_post):
    secret = "The treasurer hid the silver trophy under the staircase."
    await library.keep(make_post(1, secret, chat=library.safe))
    every = (library.harbour, library.kiln, library.safe)
    assert (await verdict(library, secret, see=every)).label is Label.SUPPORTED
    assert await verdict(library, secret) == replace(await verdict(library, secret, see=(library.kiln,)))
    found = await verified(library, secret)
    assert found.verdicts[0].label is Label.NOT_FOUND
    assert library.safe not in found.channels
    assert found.posts() == ()
    assert (await verdict(library, secret, see=every)).label is Label.SUPPORTED


async def test_a_verdict_quotes_nothing_that_was_edited_since(library, make_post):
    assert any("twelve" in c.quote for c in (await verdict(library, TICKET)).citations)
    date = make_post(5, "", chat=library.harbour, days=40).date
    edited = make_post(5, "A ferry ticket costs nineteen euros.", chat=library.harbour, days=40)
    await library.keep(replace(edited, edited=date + timedelta(days=1)), index=False)
    assert not any("twelve" in c.quote for c in (await verdict(library, TICKET)).citations)


async def test_so_many_claims_are_looked_at_and_no_more(library):
    text = "\n".join(f"The ferry number {n} carries {n + 40} dogs." for n in range(MAX_CHECKED_CLAIMS + 2))
    found = await verified(library, text)
    assert (len(found.verdicts), found.left) == (MAX_CHECKED_CLAIMS, 2)
    assert (await verified(library, "?!")).verdicts == ()


async def test_an_index_that_is_down_is_an_error(library, monkeypatch):
    def broken(*_):
        raise IndexUnavailable("The index is damaged: rebuild it.")

    monkeypatch.setattr(LexicalIndex, "search", broken)
    with pytest.raises(IndexUnavailable):
        await verified(library, FERRY)
    assert library.runs[-1].recipe == "verify"


async def test_an_index_that_is_behind_is_said(library, make_post):
    await library.keep(make_post(50, "The zeppelin has landed.", chat=library.harbour), index=False)
    found = await verified(library, "The zeppelin has landed.")
    assert found.verdicts[0].label is Label.NOT_FOUND
    assert [shortfall.stage for shortfall in found.shortfalls] == ["search"]


async def test_rules_stand_in_where_the_weighing_takes_too_long(tmp_path, open_library, make_post):
    async with open_library(tmp_path, budgets=Budgets(verify=1e-6)) as library:
        await library.keep(make_post(1, FERRY, chat=library.harbour))
        found = await verified(library, FERRY)
        assert found.verdicts[0].label is Label.SUPPORTED
        assert [shortfall.stage for shortfall in found.shortfalls] == ["verify"]


async def test_the_trace_holds_no_words(library):
    found = await verified(library, FERRY)
    spans = library.runs[-1].spans
    assert {"plan", "lookup", "lexical", "verify", "copies"} <= {span.stage for span in spans}
    assert found.trace_id == library.runs[-1].trace_id
    assert not any("ferry" in str(span.counts).lower() for span in spans)


@pytest.mark.parametrize("title", ["The ferry is cancelled", "The ferry leaves on 5 May 2026", "It costs 900 euros"])
async def test_the_title_of_a_channel_bears_nothing_out(library, make_post, title):
    await channels.save_channel(library.rag.archive, Channel(library.harbour, title, visibility=Visibility.PUBLIC))
    await library.keep(make_post(60, "The ferry leaves at 7:30 every day.", chat=library.harbour, days=90))
    assert (await verdict(library, f"{title}.")).label is not Label.SUPPORTED
