"""Citegram, asked by lines: one archive of all channels, each question by its reader and at its moment.

.venv/bin/python tests/bench/channels/ask_citegram.py DIR DATA [--models DIR] [--writer GGUF]
"""

import argparse
import asyncio
import json
import sys
from datetime import datetime
from pathlib import Path

from bot.data_folder import catch_up_indexes
from rag_core import Question, RagSettings, Viewer, answer_question, open_engine
from rag_core.storage import channels, posts
from rag_core.text.tokens import detect_language
from rag_core.types import Channel, Post, PostKey, Visibility
from rag_core.verification.verify import verify_text


async def import_posts(folder, rag):
    """Archive and index the posts. Returns the chat of each channel by name."""
    chats = {}
    for number, file in enumerate(sorted(folder.glob("channels/*.jsonl")), 1):
        rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        name, closed = rows[0]["channel"], rows[0]["channel"].startswith("c/")
        chat = chats[name] = int(f"-100{name[2:]}") if closed else -1_000_000_000_000 - number
        visibility = Visibility.PUBLIC if rows[0]["visibility"] == "public" else Visibility.MEMBERS
        channel = Channel(chat, rows[0]["title"], None if closed else name, visibility=visibility)
        await channels.save_channel(rag.archive, channel)
        made = [
            Post(PostKey(chat, int(row["link"].rsplit("/", 1)[1])), datetime.fromisoformat(row["date"]), row["text"])
            for row in rows
        ]
        await posts.save_posts(rag.archive, made, source="import")
    await catch_up_indexes(rag)
    return chats


async def answer(request, chat, chats, rag):
    """Answer as readers get it: a question in the conversation `chat`, a claim as by /verify."""
    viewer, asked_at = Viewer(1, frozenset(chats[name] for name in request["reader"])), request["asked_at"]
    text = request.get("claim") or request["question"]
    question = Question(text, detect_language(text), datetime.fromisoformat(asked_at), viewer, chat)
    if "claim" in request:
        verified = await verify_text(question, rag)
        verdict = verified.verdicts[0] if verified.verdicts else None
        cited = [*verdict.citations, *verdict.against] if verdict else []
        label = "disputed" if verdict and verdict.contested else verdict.label.value if verdict else "not_found"
        return {"verdict": label, "text": label, "links": [verified.link(one.post) for one in cited]}
    answered = await answer_question(question, rag)
    return {
        "sentences": [sentence.text for sentence in answered.sentences],
        "links": [answered.link(key) for key in answered.posts()],
        "refused": answered.refused,
    }


async def serve(args):
    """Answer a line for each line; follow-ups continue the conversation of the line before."""
    settings = RagSettings.model_validate({
        "data": {"dir": args.data},
        "models": {"dir": args.models, "embedder": "auto" if args.models else "none"},
        "llm": {"model": str(args.writer or "none")},
    })  # fmt: skip
    async with open_engine(settings) as rag:
        chats = await import_posts(args.folder, rag)
        print("ready", flush=True)
        chat = 1
        for line in sys.stdin:
            request = json.loads(line)
            chat += not request["history"]
            print(json.dumps(await answer(request, chat, chats, rag), ensure_ascii=False), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--models", type=Path)
    parser.add_argument("--writer", type=Path)
    given = parser.parse_args()
    if given.models and not given.models.is_dir():  # else words alone would be measured
        parser.error(f"{given.models} is no folder of models: make demo pulls the embedder into data/models.")
    asyncio.run(serve(given))
