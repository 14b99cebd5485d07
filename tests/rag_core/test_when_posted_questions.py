"""When was it posted: questions with the first words of a real post, in everyday verbs, want the day of that post."""

import gzip
import json
import random
import re
from datetime import UTC, datetime
from itertools import islice

import pytest
from sample_sizes import choose_size

from ingest.indexer import LexicalIndexer
from rag_core import Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.dates import format_day
from rag_core.storage import channels, posts
from rag_core.types import Channel, Post, PostKey, Visibility

QUESTIONS = choose_size(100, 24)
LEAST_RIGHT = 0.95 * QUESTIONS
ASKED = (
    "когда выложили «{}»", "Когда запостили «{}»?", "когда опубликовали {}", "какого числа выложили «{}»",
    "когда кинули «{}»", "а когда вы публиковали «{}»?", "when did you post “{}”", "when was “{}” posted?",
)  # fmt: skip


@pytest.mark.slow
async def test_of_real_posts_the_day_is_told(tmp_path, shared_data):
    with gzip.open(shared_data / "tg_ru_news" / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in islice(lines, 0, None, choose_size(1, 6))]
    chats = {name: -1001 - n for n, name in enumerate(sorted({row["channel"] for row in rows}))}
    kept = [
        Post(PostKey(chats[row["channel"]], n), datetime.fromisoformat(row["date"]), row["text"])
        for n, row in enumerate(rows, 1)
    ]
    openings = {}
    for post in kept:
        words = re.findall(r"[^\W_]+(?:[-'’][^\W_]+)*", post.text.partition("\n")[0])
        if len(words) >= 6:
            openings.setdefault(" ".join(words[:6]), []).append(post)
    of_one_day = sorted(words for words, found in openings.items() if len({p.date.date() for p in found}) == 1)
    chosen = random.Random(7).sample(of_one_day, QUESTIONS)
    right, wrong = 0, []
    async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path}})) as rag:
        for name, chat in chats.items():
            await channels.save_channel(rag.archive, Channel(chat, name, name, visibility=Visibility.PUBLIC))
        await posts.save_posts(rag.archive, kept, source="import")
        await LexicalIndexer(rag.archive, rag.lexical).catch_up()
        viewer = Viewer(1, frozenset(chats.values()))
        for n, words in enumerate(chosen):
            text = ASKED[n % len(ASKED)].format(words)
            lang = "en" if text.startswith("when") else "ru"
            answer = await answer_question(Question(text, lang, datetime(2025, 1, 9, tzinfo=UTC), viewer), rag)
            day = format_day(openings[words][0].date, lang)
            if answer.sentences and day in answer.sentences[0].text:
                right += 1
            else:
                wrong.append((text, day, [sentence.text for sentence in answer.sentences]))
    assert right >= LEAST_RIGHT, wrong
