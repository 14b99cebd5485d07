"""What a hostile model writes, line by line through write, verify and cite: nothing that its posts do not say gets out.

python tests/rag_core/test_adversarial_writing.py 10000 counts over more drafts than the test.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from adversarial_drafts import AdversarialDraft, drafts, may_be_shown
from scripted_model import FakeLlm
from test_adversarial_drafts_generator import PASSAGES

from rag_core import Question, RagSettings, Viewer, open_engine
from rag_core.errors import GenerationFailed
from rag_core.storage import channels, posts
from rag_core.tracing import Run
from rag_core.types import Channel, Evidence, Passage, Post, PostKey, Sentence, Source, Visibility
from rag_core.writing.write import write_draft

CHAT, NOON = -1001, datetime(2025, 3, 1, 12, tzinfo=UTC)
KEPT = [Post(PostKey(CHAT, n), NOON, text) for n, text in enumerate(PASSAGES, 1)]
EVIDENCE = Evidence(
    tuple(
        Source(n, Passage(p.key, 0, "Town · 2025-03-01", p.text, 0, len(p.text), NOON), 1.0)
        for n, p in enumerate(KEPT, 1)
    )
)


def leaks(draft: AdversarialDraft, shown: list[Sentence]) -> list[str]:
    """Tricks of which something was shown that the cited posts do not say."""
    found = [told.trick for told in draft.told for never in told.never if any(never in one.text for one in shown)]
    for one in shown:
        cited = [citation.post.message_id for citation in one.citations]
        lines = [told for told in draft.told if one.text.rstrip(".") in told.text or told.text in one.text]
        if not any(may_be_shown(told, cited) for told in lines) and one.support < 1.0:
            found += [told.trick for told in lines] or ["of no line"]
    return found


async def written(count: int) -> tuple[Counter[str], int]:
    """What leaked, by trick, and how many sentences were shown."""
    leaked: Counter[str] = Counter()
    number = 0
    with tempfile.TemporaryDirectory() as folder:
        async with open_engine(RagSettings.model_validate({"data": {"dir": folder}})) as rag:
            await channels.save_channel(rag.archive, Channel(CHAT, "Town", "town", visibility=Visibility.PUBLIC))
            await posts.save_posts(rag.archive, KEPT, source="test")
            question = Question("What is new in town?", "en", NOON, Viewer(1, frozenset({CHAT})))
            for draft in islice(drafts(PASSAGES, seed=3), count):
                model, run = FakeLlm(draft.raw, context=8192), Run(rag.settings.budgets, "direct")
                try:
                    wrote = await run.require("write", write_draft(question, EVIDENCE, replace(rag, writer=model), run))
                    shown = list(wrote.sentences)
                except GenerationFailed:
                    shown = []
                number += len(shown)
                leaked.update(leaks(draft, shown))
    return leaked, number


async def test_nothing_that_the_posts_do_not_say_gets_out() -> None:
    leaked, shown = await written(250)
    assert shown > 25
    assert not leaked


if __name__ == "__main__":
    print(asyncio.run(written(int(sys.argv[1]))))
