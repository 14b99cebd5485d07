"""The nightly comparison of the archive with its own rules and with both indexes; what is wrong is taken in again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from ingest.comparing import sample, slices
from ingest.index import Indexer
from ingest.notices import Mended, Tell
from ingest.vectors_compared import wrong_vectors
from ingest.words_compared import wrong_words
from rag_core.doors.archive import backlog, channels
from rag_core.doors.archive.inventory import indexable, orphans
from rag_core.errors import ArchiveUnavailable
from rag_core.rag import Rag
from rag_core.types import PostKey

__all__ = ["Found", "check"]

_SAMPLES = 200  # posts compared by their words

_TAMPERED = (
    "In the archive {lost} rows belong to nothing: another program changed the file. No post is lost by that; "
    "`citegram restore` puts back the last backup."
)


@dataclass(frozen=True, slots=True)
class Found:
    """What was compared, and the posts each leg had wrong: they have been, or will be, taken in again."""

    posts: int
    passages: int
    vectors: int | None
    words_wrong: Sequence[PostKey]
    vectors_wrong: Sequence[PostKey]

    def __str__(self) -> str:
        vectors = "" if self.vectors is None else f", {self.vectors} vectors"
        counted = f"{self.posts} posts, {self.passages} passages{vectors}"
        words, meanings = len(self.words_wrong), len(self.vectors_wrong)
        return f"{counted}: {f'taken in again {words} and {meanings}' if words or meanings else 'all right'}"


async def check(rag: Rag, indexer: Indexer, tell: Tell, samples: int = _SAMPLES) -> Found:
    """Look through the archive's file, compare, repair, and have admins told where something was wrong.

    Raises ArchiveUnavailable where the file is damaged or was tampered with, IndexUnavailable, ModelUnavailable.
    """
    await rag.archive.look_through()
    await indexer.catch_up()
    chats = {*await channels.known(rag.archive), *rag.lexical.chats}
    expected = {chat: await indexable(rag.archive, chat) for chat in sorted(chats)}
    some = await asyncio.to_thread(sample, expected, samples)
    words = await wrong_words(rag.archive, rag.lexical, indexer, expected, some)
    for part in slices(words):
        await indexer.renew(part)
    vectors, count = await wrong_vectors(rag.archive, rag.dense, expected, some) if rag.dense else ([], None)
    for part in slices(vectors):
        await backlog.queue(rag.archive, part)
    if wrong := {*words, *vectors}:
        out = sum(key.message_id not in expected.get(key.chat_id, ()) for key in wrong)
        await tell(Mended(again=len(wrong) - out, out=out))
    if lost := await orphans(rag.archive):
        raise ArchiveUnavailable(_TAMPERED.format(lost=lost))
    return Found(sum(map(len, expected.values())), len(rag.lexical), count, words, vectors)
