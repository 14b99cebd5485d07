"""Index updates: split posts into passages; bring both indexes up to the archive, each with its only writer.

A watermark says which changes the lexical index lacks. Vectors are made for the newest posts first; the lexical index
never waits for them.

Most posts are one passage. A long post is cut at the end of a paragraph, else of a sentence, else of a word, so that
its passages have about equal length.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rag_core.index.lexical_index import IndexEntry, LexicalIndex, get_lexical_folder
from rag_core.storage import Archive, channels, index_state, posts, visible_posts
from rag_core.storage.posts import PostChange
from rag_core.text.post_text import build_header
from rag_core.text.query_terms import annotate_answer_kinds
from rag_core.text.tokens import detect_language, fold_characters, normalize_characters, tokenize
from rag_core.types import Channel, Passage, PassageRef, Post, PostKey

if TYPE_CHECKING:
    from rag_core.index.vector_store import StoredPoint, VectorStore
    from rag_core.models.onnx_models import Embedder

# 200-300 tokens, overlap 50. A run of up to six letters is about one token of a multilingual
# model (English words have 1.3 of its tokens, Russian ones 1.9), a punctuation mark is one.
_TOKEN_PATTERN = re.compile(r"\w{1,6}|[^\w\s]")
_MAX_TOKENS = 300
_OVERLAP_TOKENS = 50
# How far a cut or a start may move to reach the end of a paragraph or sentence.
_LEEWAY_TOKENS = 40
_SENTENCE_ENDS = frozenset('.!?…»"”)')

_Span = tuple[int, int]


def split_into_passages(post: Post, channel: Channel, parent: str | None) -> tuple[Passage, ...]:
    """Split a post into passages, none without text and file name; `parent` is the text it replies to."""
    if post.text.strip():
        cuts = _find_cuts(post.text)
    elif post.media and post.media.file_name:
        cuts = [(0, 0)]
    else:
        return ()
    line = normalize_characters(build_header(post, channel, parent))
    name = (post.media and post.media.file_name) or ""
    key, topic = post.key, post.topic
    whole = Passage(key, 0, line, "", 0, 0, post.date, post.edited, post.origin, file_name=name, topic=topic)
    return tuple(
        replace(whole, part=part, text=post.text[start:end], start=start, end=end)
        for part, (start, end) in enumerate(cuts)
    )


def _find_cuts(text: str) -> list[_Span]:
    """Cut a text into spans of about equal length, which overlap."""
    tokens = [match.span() for match in _TOKEN_PATTERN.finditer(text)]
    spans, first = [], 0
    while True:
        last, left = len(tokens), len(tokens) - first
        if left > _MAX_TOKENS:
            parts = ceil((left - _OVERLAP_TOKENS) / (_MAX_TOKENS - _OVERLAP_TOKENS))
            size = ceil((left + _OVERLAP_TOKENS * (parts - 1)) / parts)
            ends = range(first + size - _LEEWAY_TOKENS, first + min(size + _LEEWAY_TOKENS, _MAX_TOKENS) + 1)
            last = _choose_cut(text, tokens, ends)
        # rare characters outside any token stay with their neighbour
        start = 0 if first == 0 else tokens[first][0]
        piece = text[start : len(text) if last == len(tokens) else tokens[last][0]]
        start += len(piece) - len(piece.lstrip())
        spans.append((start, start + len(piece.strip())))
        if last == len(tokens):
            return spans
        begin = last - _OVERLAP_TOKENS
        first = _choose_cut(text, tokens, range(begin - _LEEWAY_TOKENS // 2, begin + _LEEWAY_TOKENS // 2))


def _choose_cut(text: str, tokens: list[_Span], candidates: range) -> int:
    """Token before which to cut: the end of a paragraph, else of a sentence, else of a word; the latest of equals."""

    def rank(at: int) -> tuple[int, int]:
        end = tokens[at - 1][1]
        gap = text[end : tokens[at][0]]
        if "\n" in gap:
            return 3, at
        return (2 if text[end - 1] in _SENTENCE_ENDS else 1) if gap else 0, at

    return max(candidates, key=rank)


_BATCH_CHANGES = 2000  # changes at a time: about half a second of work before a search finds them
_SAVE_AFTER_CHANGES = 5000  # changes: repeated after a crash, within a few seconds


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Batch of post changes, with the channels and replied-to texts for their headers."""

    changes: Sequence[PostChange]
    known: dict[int, Channel]
    parents: dict[PostKey, str]

    def passages(self, change: PostChange) -> tuple[Passage, ...]:
        """Passages of a changed post; none if it is deleted."""
        if change.post is None:
            return ()
        channel = self.known.get(change.key.chat_id) or Channel(change.key.chat_id, "")
        return split_into_passages(change.post, channel, self.parents.get(change.key))


async def read_changes(archive: Archive, after: int) -> ChangeBatch:
    """Read the next changes after the sequence number `after`. Raises ArchiveUnavailable."""
    return await _read_header_sources(archive, await posts.list_post_changes(archive, after, _BATCH_CHANGES))


async def read_posts_again(archive: Archive, keys: Sequence[PostKey], seq: int = 0) -> ChangeBatch:
    """Read the current state of these posts as changes with the sequence number `seq`. Raises ArchiveUnavailable."""
    stored = await visible_posts.fetch_posts(archive, keys)
    return await _read_header_sources(archive, [PostChange(seq, key, stored.get(key)) for key in keys])


async def _read_header_sources(archive: Archive, changes: Sequence[PostChange]) -> ChangeBatch:
    known = await channels.load_channels(archive) if changes else {}
    replying = [change.key for change in changes if change.post and change.post.reply_to]
    return ChangeBatch(changes, known, await visible_posts.fetch_replied_texts(archive, replying))


def build_lexical_entry(p: Passage) -> IndexEntry:
    """Convert a passage to an entry of the lexical index."""
    header, own = tokenize(p.header), tokenize(p.text)
    header_only = frozenset(header).difference(own, tokenize(p.file_name))
    terms = [*header, *own, *annotate_answer_kinds(p.text)]
    return IndexEntry(PassageRef(p.key, p.part, p.start, p.end), p.date, terms, header_only)


class LexicalIndexer:
    """Indexer that brings the lexical index up to the archive and saves it to disk. One per process."""

    def __init__(self, archive: Archive, lexical: LexicalIndex) -> None:
        self._archive = archive
        self.lexical = lexical
        self._unsaved = 0
        self._turn = asyncio.Lock()

    async def catch_up(self, progress: Callable[[int], None] = lambda done: None, *, save: bool = True) -> int:
        """Index the changes since the watermark; return the number of changed posts.

        `progress` gets the number of changes done so far; without `save` nothing is written to disk, for a process
        that does not own the folder. Raises ArchiveUnavailable, IndexUnavailable.
        """
        done = 0
        async with self._turn:
            while (batch := await read_changes(self._archive, self.lexical.watermark)).changes:
                await _run_to_completion(self._take, batch)
                done += len(batch.changes)
                progress(done)
            if save and self._unsaved >= _SAVE_AFTER_CHANGES:
                await self._save()
        return done

    async def save(self) -> None:
        """Save the index to disk if it changed since the last save. Raises IndexUnavailable."""
        async with self._turn:
            if self._unsaved:
                await self._save()

    async def _save(self) -> None:
        await _run_to_completion(self.lexical.save, get_lexical_folder(self._archive.folder), self._archive.identity)
        self._unsaved = 0

    async def renew(self, keys: Sequence[PostKey]) -> None:
        """Index these posts again as they are in the archive; remove those that it no longer holds."""
        async with self._turn:
            batch = await read_posts_again(self._archive, keys, self.lexical.watermark)
            await _run_to_completion(self._take, batch)

    async def put_in_place(self, fresh: LexicalIndex) -> None:
        """Bring a newly built index up to date, save it, and swap it in for the one in use.

        Searches use the old index until then, and keep using it if this fails. Raises ArchiveUnavailable,
        IndexUnavailable.
        """
        fresh_indexer = LexicalIndexer(self._archive, fresh)
        await fresh_indexer.catch_up(save=False)  # most of the work, while new posts are still indexed
        async with self._turn:
            await fresh_indexer.catch_up(save=False)
            await fresh_indexer._save()
            await _run_to_completion(self.lexical.adopt, fresh)
            self._unsaved = 1  # remains of the old index are cleaned up by the next save

    def _take(self, batch: ChangeBatch) -> None:
        # text analysis is slow, so it is done before the old entries are replaced at once
        entries = [build_lexical_entry(passage) for change in batch.changes for passage in batch.passages(change)]
        self.lexical.replace([change.key for change in batch.changes], entries)
        # the watermark comes last: after a crash before this line the batch is repeated
        self.lexical.watermark = batch.changes[-1].seq
        self._unsaved += len(batch.changes)


async def _run_to_completion(work: Callable[..., None], *given: object) -> None:
    """Run blocking work in a thread to its end, even if cancelled: nothing else may touch the index before."""
    running = asyncio.ensure_future(asyncio.to_thread(work, *given))
    try:
        await asyncio.shield(running)
    finally:
        await asyncio.wait({running})


# Posts of a batch: about a second of embedding on a small machine; then newer posts may go first. Where embedding is
# quick, or stored vectors are reused, batches grow: what else a batch takes, requests to a server and commits to disk,
# hardly depends on its size.
_BATCH_POSTS, _MAX_BATCH_POSTS = 32, 256
_BATCH_SECONDS = 1.0


def hash_embedded_text(model: str, text: str) -> str:
    """Hash of model and text: the same model gives the same text the same vector."""
    return hashlib.sha256(f"{model}\0{text}".encode()).hexdigest()[:32]


def prepare_point(p: Passage, model: str) -> tuple[str, StoredPoint]:
    """Prepare a passage for the vector store: the text to embed, and the payload of its point."""
    from rag_core.index.vector_store import StoredPoint

    text = fold_characters(f"{p.header}\n{p.text}")
    place = PassageRef(p.key, p.part, p.start, p.end)
    return text, StoredPoint(place, int(p.date.timestamp()), detect_language(p.text), hash_embedded_text(model, text))


async def load_or_embed_vectors(
    store: VectorStore, embedder: Embedder, ready: Iterable[tuple[str, StoredPoint]]
) -> dict[str, NDArray[np.float32]]:
    """Vectors by text hash; stored ones are not computed again. A text that embeds to zero has none."""
    texts = {point.text_hash: text for text, point in ready}
    vectors = dict(await store.by_hash(list(texts))) if texts else {}
    if missing := [text_hash for text_hash in texts if text_hash not in vectors]:
        rows = await embedder.passages([texts[text_hash] for text_hash in missing])
        vectors |= {text_hash: row for text_hash, row in zip(missing, rows, strict=True) if np.any(row)}
    return vectors


async def embed_posts(archive: Archive, store: VectorStore, embedder: Embedder, keys: Sequence[PostKey]) -> float:
    """Bring the vectors of these posts up to the archive; returns the seconds that the vectors took."""
    from rag_core.index.vector_store import VectorPoint

    changed = await read_posts_again(archive, keys)
    ready = [prepare_point(p, embedder.name) for change in changed.changes for p in changed.passages(change)]
    started = time.monotonic()
    vectors = await load_or_embed_vectors(store, embedder, ready)
    seconds = time.monotonic() - started
    points = [
        VectorPoint(place, datetime.fromtimestamp(date, UTC), lang, text_hash, vectors[text_hash])
        for _, (place, date, lang, text_hash) in ready
        if text_hash in vectors
    ]
    # Points are written before surplus parts are removed, so that no search misses a post in between. After a
    # crash here the posts are still to be done.
    if points:
        await store.upsert(points)
    await store.remove(keys, but=[point.place for point in points])
    return seconds


@dataclass(slots=True)
class BatchSize:
    """Number of posts embedded at a time, adapted to how long the last batch took."""

    posts: int = _BATCH_POSTS

    def adapt(self, seconds: float) -> None:
        """Take fewer posts where a batch takes longer than a second, more where it takes less than half of one."""
        if seconds > _BATCH_SECONDS:
            self.posts = max(_BATCH_POSTS, self.posts // 2)
        elif seconds < _BATCH_SECONDS / 2:
            self.posts = min(_MAX_BATCH_POSTS, self.posts * 2)


class DenseIndexer:
    """Indexer that brings the vector store up to the archive. One per process."""

    def __init__(self, archive: Archive, vectors: VectorStore, embedder: Embedder) -> None:
        self._archive = archive
        self.vectors = vectors
        self.embedder = embedder
        self.turn = asyncio.Lock()  # whoever holds it may exchange vectors and embedder
        self._batch = BatchSize()

    async def catch_up(self, progress: Callable[[int], None] = lambda done: None, *, most: int | None = None) -> int:
        """Embed up to `most` queued posts (default: all); return their number, which `progress` gets too.

        Raises ArchiveUnavailable, VectorsUnavailable, ModelUnavailable; finished batches stay saved.
        """
        done = 0
        async with self.turn:
            while most is None or done < most:
                # each time, as newer posts go first
                await index_state.queue_changed_posts(self._archive, self.vectors.about.identity, self.embedder.name)
                size = self._batch.posts if most is None else min(self._batch.posts, most - done)
                batch = await index_state.list_queued_posts(self._archive, size)
                if not batch:
                    break
                keys = [key for key, _ in batch]
                self._batch.adapt(await embed_posts(self._archive, self.vectors, self.embedder, keys))
                await self.vectors.flush()  # first: a power cut must not lose what the queue no longer holds
                await index_state.dequeue_posts(self._archive, batch)
                done += len(batch)
                progress(done)
        return done

    async def waiting(self) -> int:
        """Count the changes still to embed."""
        return await index_state.count_unembedded_changes(self._archive, self.vectors.about.identity)
