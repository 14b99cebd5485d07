"""What a hostile model writes, line by line through write, verify and cite: nothing that its posts do not say gets out.

python tests/rag_core/test_adversarial_writing.py 10000 counts over more drafts than the test.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from adversarial_drafts import TRICKS, Told, drafts, may_be_shown
from minimal_edits import figures
from sample_sizes import choose_size
from scripted_model import FakeLlm

from rag_core import Question, RagSettings, Viewer, open_engine
from rag_core.errors import GenerationFailed
from rag_core.run import Run
from rag_core.storage import channels, posts
from rag_core.types import Channel, Evidence, Passage, Post, PostKey, Source, Visibility
from rag_core.writing.write import write_draft

PASSAGES = (
    "С 1 февраля проезд в городском автобусе 36 рублей вместо 32. По карте школьника по-прежнему половина цены.",
    "Новый президент клуба Томаш Вильк открыл вечер в Политехе. Пришли 140 человек, вечер не был коротким для Норы.",
    "The ferry to Owl Island leaves at 7:30 every morning from pier four. Captain Noor Haddad opened the season.",
    "Membership for 2026 rises to 1,500 roubles on 5 November. The shop is open on Saturday and Anna keeps the keys.",
    "Бассейн открыт с 10 августа, сообщил директор Бубнов. Насос привезли из Китая на прошлой неделе двумя машинами.",
)

CHAT, NOON = -1001, datetime(2025, 3, 1, 12, tzinfo=UTC)
KEPT = [Post(PostKey(CHAT, n), NOON, text) for n, text in enumerate(PASSAGES, 1)]
EVIDENCE = Evidence(
    tuple(
        Source(n, Passage(p.key, 0, "Town · 2025-03-01", p.text, 0, len(p.text), NOON), 1.0)
        for n, p in enumerate(KEPT, 1)
    )
)


def leaks(draft, shown):
    """Tricks of which something was shown that the cited posts do not say."""
    found = [told.trick for told in draft.told for never in told.never if any(never in one.text for one in shown)]
    for one in shown:
        cited = [citation.post.message_id for citation in one.citations]
        lines = [told for told in draft.told if one.text.rstrip(".") in told.text or told.text in one.text]
        if not any(may_be_shown(told, cited) for told in lines) and one.support < 1.0:
            found += [told.trick for told in lines] or ["of no line"]
    return found


async def written(count):
    """What leaked, by trick, and how many sentences were shown."""
    leaked = Counter()
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
            await channels.save_channel(rag.archive, Channel(CHAT, "Town", "town", visibility=Visibility.PUBLIC))
            await posts.save_posts(rag.archive, KEPT, source="test")
            question = Question("What is new in town?", "en", NOON, Viewer(1, frozenset({CHAT})))
            for draft in islice(drafts(PASSAGES, seed=2), count):
                model, run = FakeLlm(draft.raw, context=8192), Run(rag.budgets, "direct")
                try:
                    wrote = await run.require("write", write_draft(question, EVIDENCE, replace(rag, writer=model), run))
                    shown = list(wrote.sentences)
                except GenerationFailed:
                    shown = []
                number += len(shown)
                leaked.update(leaks(draft, shown))
    return leaked, number


async def test_nothing_that_the_posts_do_not_say_gets_out():
    leaked, shown = await written(count := choose_size(250, 120))  # of this seed every trick is among the first
    assert shown > count / 10
    assert not leaked


def test_every_trick_is_played_and_what_is_called_said_stands_in_the_named_passages():
    told = [one for draft in islice(drafts(PASSAGES), choose_size(2000, 1000)) for one in draft.told]
    counted = Counter(one.trick for one in told)
    assert set(counted) == set(TRICKS)
    assert min(counted.values()) >= 5, counted
    assert 0.1 < sum(one.said for one in told) / len(told) < 0.5
    for one in told:
        stands = any(one.text in PASSAGES[n - 1] for n in one.cited if 0 < n <= len(PASSAGES))
        assert stands is one.said or (one.said and (one.never or one.together)), one
        if one.trick in ("invented number", "mixed halves"):
            assert figures(one.text) - figures(PASSAGES[one.cited[0] - 1]), one


def test_a_true_sentence_may_be_shown_with_the_right_citation_only():
    one, both = Told("wrong citation", "x", (2,), (1,)), Told("glued", "x; y", (1,), (1, 2), together=True)
    assert not one.said and not both.said
    assert [may_be_shown(one, (1,)), may_be_shown(one, (2, 9)), may_be_shown(both, (1, 2, 3))] == [True, False, True]


if __name__ == "__main__":
    print(asyncio.run(written(int(sys.argv[1]))))
