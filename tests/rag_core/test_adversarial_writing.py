"""What a hostile model writes, through write, verify and cite: nothing that its posts do not say gets out."""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

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


DRAFTS = Path(__file__).parents[1] / "data/hostile_drafts.jsonl"  # over PASSAGES, with 15 tricks


@dataclass(frozen=True, slots=True)
class Told:
    """One sentence of a draft. `cited` is what the draft names; `by` is the passages of the evidence that say it.

    With `together` only all of `by` say the whole of it, otherwise each does. `never` are words that no reader may
    see whatever becomes of the sentence.
    """

    trick: str
    text: str
    cited: tuple[int, ...]
    by: tuple[int, ...] = ()
    together: bool = False
    never: tuple[str, ...] = ()


def may_be_shown(told, citations):
    """Whether the sentence may reach a reader with these citations: they are real and say it."""
    named = set(told.by) & set(citations)
    return bool(named) and (not told.together or named == set(told.by))


def write_raw(draft):
    """One sentence per line, then the numbers of the passages it stands on."""
    return "\n".join(f"{one.text} {''.join(f'[{n}]' for n in one.cited)}".rstrip() for one in draft)


def leaks(draft, shown):
    """Tricks of which something was shown that the cited posts do not say."""
    found = [told.trick for told in draft for never in told.never if any(never in one.text for one in shown)]
    for one in shown:
        cited = [citation.post.message_id for citation in one.citations]
        lines = [told for told in draft if one.text.rstrip(".") in told.text or told.text in one.text]
        if not any(may_be_shown(told, cited) for told in lines) and one.support < 1.0:
            found += [told.trick for told in lines] or ["of no line"]
    return found


async def written(drafts):
    """What leaked, by trick, and how many sentences were shown."""
    leaked = Counter()
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
            await channels.save_channel(rag.archive, Channel(CHAT, "Town", "town", visibility=Visibility.PUBLIC))
            await posts.save_posts(rag.archive, KEPT, source="test")
            question = Question("What is new in town?", "en", NOON, Viewer(1, frozenset({CHAT})))
            for draft in drafts:
                model, run = FakeLlm(write_raw(draft), context=8192), Run(rag.budgets, "direct")
                try:
                    wrote = await run.require("write", write_draft(question, EVIDENCE, replace(rag, writer=model), run))
                    shown = list(wrote.sentences)
                except GenerationFailed:
                    shown = []
                number += len(shown)
                leaked.update(leaks(draft, shown))
    return leaked, number


async def test_nothing_that_the_posts_do_not_say_gets_out():
    rows = DRAFTS.read_text(encoding="utf-8").splitlines()[: choose_size(250, 120)]
    drafts = [[Told(**one) for one in json.loads(row)] for row in rows]
    assert len({one.trick for draft in drafts for one in draft}) == 15
    leaked, shown = await written(drafts)
    assert shown > len(drafts) / 10
    assert not leaked


def test_a_true_sentence_may_be_shown_with_the_right_citation_only():
    one, both = Told("wrong citation", "x", (2,), (1,)), Told("glued", "x; y", (1,), (1, 2), together=True)
    assert not may_be_shown(one, one.cited) and not may_be_shown(both, both.cited)
    assert [may_be_shown(one, (1,)), may_be_shown(one, (2, 9)), may_be_shown(both, (1, 2, 3))] == [True, False, True]
