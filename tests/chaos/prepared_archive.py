"""A channel's past: posts in the shape of Telegram Desktop's exports, and a data folder that has taken some in."""

import asyncio
import json
import random

from chaos.channel_traffic import CHANNELS
from chaos.expected_posts import ExpectedPost

from ingest.exports import import_export
from ingest.indexer import LexicalIndexer
from ingest.json_export import ImportOptions
from rag_core import RagSettings, open_engine
from rag_core.storage import channels
from rag_core.types import PostKey

# Where these posts begin: far from what is posted live.
OLD, EXPORTED = 100_000, 500_000
_SINCE = 1_600_000_000
_WORDS = (
    "ferry pier harbour island ticket weather captain bridge market lantern engine winter museum orchard kettle "
    "паром причал гавань остров билет погода капитан мост рынок фонарь мотор зима музей сад чайник"
).split()


def make_expected_posts(first, number, seed):
    rng, chat = random.Random(seed), CHANNELS[-1].chat_id
    return [
        ExpectedPost(PostKey(chat, n), _SINCE + 600 * (n - first), [f"{' '.join(rng.choices(_WORDS, k=12))} zs{n}x"])
        for n in range(first, first + number)
    ]


def write_export(folder, posts):
    channel = CHANNELS[-1]
    messages = [
        {"id": one.key.message_id, "type": "message", "date": "2020-09-13T12:26:40", "date_unixtime": str(one.date)}
        | {"from": channel.title, "from_id": f"channel{-channel.chat_id - 10**12}", "text": one.text}
        | {"text_entities": [{"type": "plain", "text": one.text}]}
        for one in posts
    ]
    head = {"name": channel.title, "type": "public_channel", "id": -channel.chat_id - 10**12}
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "result.json"
    file.write_text(json.dumps(head | {"messages": messages}, ensure_ascii=False), encoding="utf-8")
    return file


def prepare_archive(folder, posts):
    """Make a data folder with all channels and these posts, indexed by words."""
    asyncio.run(_keep(folder, write_export(folder.with_name(f"{folder.name} export"), posts)))


async def _keep(folder, file):
    settings = {"data": {"dir": folder}, "models": {"embedder": "none", "reranker": "none"}}
    async with open_engine(RagSettings.model_validate(settings), language=False) as rag:
        for channel in CHANNELS:
            await channels.save_channel(rag.archive, channel)
        await import_export(rag.archive, file, ImportOptions(CHANNELS[-1].username))
        indexer = LexicalIndexer(rag.archive, rag.lexical)
        await indexer.catch_up()
        await indexer.save()
