"""Program that changes the embedder of a folder, and says when its engine is open: a test kills it."""

import asyncio
import sys

import onnxruntime  # noqa: F401 - whoever is forked from this has it
import tokenizers  # noqa: F401

from ingest.indexer import DenseIndexer
from ingest.rebuild import EmbedderChange
from rag_core import RagSettings, open_engine


async def change_embedder(settings):
    async with open_engine(RagSettings.model_validate_json(settings), language=False) as rag:
        change = EmbedderChange(rag, DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder))
        print("open", flush=True)
        await change.run()


if __name__ == "__main__":
    asyncio.run(change_embedder(sys.argv[1]))
