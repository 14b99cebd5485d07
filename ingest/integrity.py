"""Integrity check: compare the archive with both indexes and index wrong posts again.

Every post is compared by its number, a sample by its words and by the texts its vectors were made of. The nightly
check repairs; `compare_indexes` only looks, for `citegram doctor`. A rebuild compares differently: the owner of the
vector store writes an inventory of it to a file, and the comparison, for which every text is cut and hashed again,
runs in another process.
"""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ingest.indexer import LexicalIndexer, build_lexical_entry, load_or_embed_vectors, prepare_point, read_posts_again
from ingest.outages import IndexesRepaired, NotifyAdmins
from rag_core.engine import Engine
from rag_core.errors import ArchiveUnavailable, IndexUnavailable, translate_errors
from rag_core.index.lexical_index import LexicalIndex, translate_write_errors
from rag_core.index.vector_store import StoredPoint, VectorStore, hash_to_number, split_batches
from rag_core.models.active_models import DenseIndex
from rag_core.storage import Archive, channels, index_state, posts
from rag_core.storage.index_state import count_orphan_rows, filter_queued_keys, list_indexable_ids
from rag_core.types import Passage, PassageRef, PostKey, SearchFilter

MessageIdsByChat = Mapping[int, set[int]]  # chat id -> message ids

_SLICE_POSTS = 500  # posts at a time


def _find_differing_posts(expected: MessageIdsByChat, there: MessageIdsByChat) -> list[PostKey]:
    chats = sorted({*expected, *there})
    return [PostKey(c, n) for c in chats for n in sorted(expected.get(c, set()) ^ there.get(c, set()))]


async def _list_expected_posts(rag: Engine, samples: int) -> tuple[MessageIdsByChat, list[PostKey]]:
    """All posts that the indexes should hold, and a uniform random sample of up to `samples` of them."""
    chats = {*await channels.load_channels(rag.archive), *rag.lexical.chats}
    expected = {chat: await list_indexable_ids(rag.archive, chat) for chat in sorted(chats)}

    def draw_sample() -> list[PostKey]:
        sizes = {chat: len(numbers) for chat, numbers in expected.items() if numbers}
        drawn = random.choices([*sizes], [*sizes.values()], k=samples) if sizes else ()  # noqa: S311 - no secret
        return [
            PostKey(chat, number)
            for chat, size in sizes.items()
            for number in random.sample(sorted(expected[chat]), min(size, drawn.count(chat)))
        ]

    return expected, await asyncio.to_thread(draw_sample)


async def read_current_passages(archive: Archive, keys: Sequence[PostKey]) -> dict[PostKey, tuple[Passage, ...]]:
    """Passages the indexes should hold for these posts; none for a post the archive does not hold."""
    batch = await read_posts_again(archive, keys)
    return await asyncio.to_thread(lambda: {change.key: batch.passages(change) for change in batch.changes})


# `mark` is a hash of all that is known of a vector: its place, date, language and text.
_INVENTORY_ROW_TYPE = np.dtype([("chat", "<i8"), ("message", "<i8"), ("part", "<i8"), ("mark", "<i8")])
_MAX_PARTS = 1 << 12  # limit of parts per post; a post of 4,096 characters has fewer
_INVENTORY_PAUSE_SECONDS = 0.02  # between pages, so that searches get through


async def write_vector_inventory(vectors: VectorStore, file: Path) -> None:
    """Write an inventory of the vector store to a file. Raises VectorsUnavailable, IndexUnavailable."""
    pages: list[NDArray[np.void]] = []
    async for page in vectors.iterate_points():
        held = [(*one.place.key, one.place.part, _hash_stored_vector(one)) for one in page]
        pages.append(np.array(held, _INVENTORY_ROW_TYPE))
        await asyncio.sleep(_INVENTORY_PAUSE_SECONDS)
    rows = np.concatenate([np.zeros(0, _INVENTORY_ROW_TYPE), *pages])
    with translate_write_errors():
        await asyncio.to_thread(file.write_bytes, rows.tobytes())


class VectorInventory:
    """Inventory of the vector store from a file, for one channel or all; posts that changed since seem to differ."""

    def __init__(self, file: Path, chat_id: int | None = None) -> None:
        """Read the file; without it nothing is in the store. Raises IndexUnavailable."""
        said = "The list of stored vectors cannot be read ({}): start again."
        with translate_errors(IndexUnavailable, OSError, say=said):
            rows = np.frombuffer(file.read_bytes(), _INVENTORY_ROW_TYPE)
        self._rows = rows if chat_id is None else rows[rows["chat"] == chat_id]
        # int64's greatest ends them, so that `searchsorted` always returns a valid index
        self._marks = np.append(np.sort(self._rows["mark"]), np.iinfo(np.int64).max)

    def find_differing(self, ready: Mapping[PostKey, Sequence[Passage]], model: str) -> list[PostKey]:
        """Posts with a passage whose current vector is not in the inventory."""
        every = [(key, prepare_point(p, model)[1]) for key, passages in ready.items() for p in passages]
        marks = np.array([_hash_stored_vector(point) for _, point in every], np.int64)
        there = self._marks[np.searchsorted(self._marks, marks)] == marks
        return list(dict.fromkeys(key for (key, _), found in zip(every, there.tolist(), strict=True) if not found))

    def find_surplus(self, lexical: LexicalIndex) -> list[PostKey]:
        """Posts with parts that the lexical index, which is complete, does not hold."""
        found: list[PostKey] = []
        for chat in np.unique(self._rows["chat"]).tolist():
            rows = self._rows[self._rows["chat"] == chat]
            messages, parts = lexical.parts_of(chat)
            held, right = rows["message"] * _MAX_PARTS + rows["part"], messages * _MAX_PARTS + parts.astype(np.int64)
            known = np.isin(held, right)
            found += (PostKey(chat, message) for message in np.unique(rows["message"][~known]).tolist())
        return found


def _hash_stored_vector(held: StoredPoint) -> int:
    return hash_to_number(repr(tuple(held)))


def _find_miscounted_posts(lexical: LexicalIndex, expected: MessageIdsByChat) -> list[PostKey]:
    there = {chat: set(np.unique(lexical.parts_of(chat)[0]).tolist()) for chat in list(lexical.chats)}
    return _find_differing_posts(expected, there)


async def _compare_lexical_posts(archive: Archive, lexical: LexicalIndex, keys: Sequence[PostKey]) -> list[PostKey]:
    """Find the posts whose parts or words in the lexical index differ from the archive."""
    ready = await read_current_passages(archive, keys)

    def is_found(passage: Passage) -> bool:
        wanted = build_lexical_entry(passage)
        second = SearchFilter(frozenset({passage.key.chat_id}), passage.date, passage.date + timedelta(seconds=1))
        return not wanted.terms or wanted.place in lexical.matching(sorted(set(wanted.terms)), second)

    def find_differences() -> list[PostKey]:
        parts: dict[PostKey, set[int]] = {key: set() for key in ready}
        for chat in {key.chat_id for key in ready}:
            messages, numbers = lexical.parts_of(chat)
            ours = np.isin(messages, [key.message_id for key in ready if key.chat_id == chat])
            for message, part in zip(messages[ours].tolist(), numbers[ours].tolist(), strict=True):
                parts[PostKey(chat, message)].add(part)
        return [
            key
            for key, passages in ready.items()
            if parts[key] != {p.part for p in passages} or not all(map(is_found, passages))
        ]

    return await asyncio.to_thread(find_differences)


_COMPARISON_PAUSE_SECONDS = 0.01  # between pages, so that searches get through
_MIN_COSINE = 0.999  # cosine of a vector with its copies stored in 16 bits


async def _find_wrong_vector_posts(
    archive: Archive, dense: DenseIndex, expected: MessageIdsByChat, some: Sequence[PostKey]
) -> tuple[list[PostKey], int]:
    """Find posts that the vector store holds wrongly; return them and the number of vectors."""
    there, count = dict[int, set[int]](), 0
    marks: dict[PostKey, set[str]] = {key: set() for key in some}  # text hashes of the sample
    async for page in dense.vectors.iterate_points():
        for held in page:
            key = held.place.key
            there.setdefault(key.chat_id, set()).add(key.message_id)
            if key in marks:
                marks[key].add(held.text_hash)
        count += len(page)
        await asyncio.sleep(_COMPARISON_PAUSE_SECONDS)
    suspects = await asyncio.to_thread(_find_differing_posts, expected, there)
    for part in split_batches(some, _SLICE_POSTS):
        for key, passages in (await read_current_passages(archive, part)).items():
            if marks[key] != {prepare_point(p, dense.embedder.name)[1].text_hash for p in passages}:
                suspects.append(key)
    await index_state.queue_changed_posts(archive, dense.vectors.about.identity, dense.embedder.name)
    wrong: list[PostKey] = []
    for part in split_batches(dict.fromkeys(suspects), _SLICE_POSTS):
        wrong += await _compare_vector_posts(archive, dense, part)
    return wrong, count


async def _compare_vector_posts(archive: Archive, dense: DenseIndex, some: Sequence[PostKey]) -> list[PostKey]:
    """Find the posts whose vectors are missing from the store or differ; queued posts are left out."""
    queued = await filter_queued_keys(archive, some)
    keys = [key for key in some if key not in queued]
    ready = {
        key: [prepare_point(p, dense.embedder.name) for p in passages]
        for key, passages in (await read_current_passages(archive, keys)).items()
    }
    # One part beyond the last is read too: it may remain of a post that became shorter.
    beyond = {key: PassageRef(key, len(parts), 0, 0) for key, parts in ready.items()}
    every = [one for parts in ready.values() for one in parts]
    stored = await dense.vectors.vectors_of([*(point.place for _, point in every), *beyond.values()])
    right = await load_or_embed_vectors(dense.vectors, dense.embedder, every)

    def is_right(place: PassageRef, text_hash: str) -> bool:
        one, other = stored.get(place), right.get(text_hash)
        if one is None or other is None:
            return one is other
        return float(one @ other) > _MIN_COSINE * float(np.linalg.norm(one) * np.linalg.norm(other))

    return [
        key
        for key, parts in ready.items()
        if beyond[key] in stored or not all(is_right(point.place, point.text_hash) for _, point in parts)
    ]


_QUICK_SAMPLES = 50  # posts compared by words
_MAX_TRIES = 3


async def compare_indexes(rag: Engine) -> dict[str, int] | None:
    """Compare up-to-date indexes with the archive; None if new posts keep changing them meanwhile.

    Counts the posts compared by number, `some` compared by words, and the wrong posts of each index. Raises
    ArchiveUnavailable, IndexUnavailable, ModelUnavailable.
    """
    for _ in range(_MAX_TRIES):
        before = await posts.get_last_seq(rag.archive), rag.lexical.watermark
        expected, some = await _list_expected_posts(rag, _QUICK_SAMPLES)
        miscounted = await asyncio.to_thread(_find_miscounted_posts, rag.lexical, expected)
        words = {*miscounted, *await _compare_lexical_posts(rag.archive, rag.lexical, some)}
        vectors = await _compare_vector_posts(rag.archive, rag.dense, some) if rag.dense else ()
        if before == (await posts.get_last_seq(rag.archive), rag.lexical.watermark):
            compared = sum(map(len, expected.values()))
            return {"posts": compared, "some": len(some), "words": len(words), "vectors": len(vectors)}
    return None


_NIGHTLY_SAMPLES = 200  # posts compared by words


@dataclass(frozen=True, slots=True)
class IntegrityReport:
    """Result of an integrity check: what was compared, and the wrong posts of each index, which are indexed again."""

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


async def check_integrity(
    rag: Engine, indexer: LexicalIndexer, tell: NotifyAdmins, samples: int = _NIGHTLY_SAMPLES
) -> IntegrityReport:
    """Check the archive file, compare and repair both indexes, and notify admins of errors.

    Raises ArchiveUnavailable if the file is damaged or was tampered with, IndexUnavailable, ModelUnavailable.
    """
    await rag.archive.check_pages()
    await indexer.catch_up()
    expected, some = await _list_expected_posts(rag, samples)
    # all are compared by number, the sample by words; a post that changes meanwhile seems wrong for a moment
    miscounted = await asyncio.to_thread(_find_miscounted_posts, rag.lexical, expected)
    words = list(dict.fromkeys([*miscounted, *some]))
    for _ in range(2):
        await indexer.catch_up()
        words = [
            key
            for part in split_batches(words, _SLICE_POSTS)
            for key in await _compare_lexical_posts(rag.archive, rag.lexical, part)
        ]
    for part in split_batches(words, _SLICE_POSTS):
        await indexer.renew(part)
    vectors, count = await _find_wrong_vector_posts(rag.archive, rag.dense, expected, some) if rag.dense else ([], None)
    for part in split_batches(vectors, _SLICE_POSTS):
        await index_state.queue_posts(rag.archive, part)
    if wrong := {*words, *vectors}:
        out = sum(key.message_id not in expected.get(key.chat_id, ()) for key in wrong)
        await tell(IndexesRepaired(again=len(wrong) - out, out=out))
    if lost := await count_orphan_rows(rag.archive):
        raise ArchiveUnavailable(
            f"In the archive {lost} rows belong to nothing: another program changed the file. No post is lost by that; "
            "`citegram restore` puts back the last backup."
        )
    return IntegrityReport(sum(map(len, expected.values())), len(rag.lexical), count, words, vectors)
