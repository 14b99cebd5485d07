"""The program of the child process that builds a lexical index anew, beside the one that is searched.

Analysis is Python and would hold the interpreter of the bot; here it has one of its own, and gives way to
everything else. What is built is saved now and then, so that who was killed goes on from there:

    lexical.next/current.json  the index so far, tied to its rebuild
    lexical.next/walk.json     how far the archive has been read
    lexical.next/stock         what the vector store held at the start (stock.py), where there is one

The first line of its input says where words are kept (`WordIndex.told`; it may hold a key). It says how far it is
in lines of JSON, and waits after each for a line that says go on: at the end of the input nobody waits for it any
more.
"""

from __future__ import annotations

import argparse
import asyncio
import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ingest.index import entry, read
from ingest.stock import Stock
from rag_core.doors.archive import Archive, posts, rebuilds
from rag_core.doors.words import WordIndex, heard_words, new_words, saved_words
from rag_core.errors import IndexUnavailable, RagError, raised_as
from rag_core.rag import load_lexical
from rag_core.settings import QdrantSettings
from rag_core.types import Passage, PostKey

__all__ = ["SAVE_EVERY_S", "Walk", "identity", "main", "next_folder", "stock_file"]

# Whoever asks a question comes first: of a core that others want too it gets a thirtieth, not the hundredth that
# would let a busy model stop it, and all of one that nobody wants.
_NICE = 15
# Between two saves: what a kill makes the next one do again. And at most a tenth of the time is spent on saving.
SAVE_EVERY_S = 5.0
_SAVE_SHARE = 10
_MOST_KEYS = 2000  # of a line
_WALK = "walk.json"


def next_folder(archive: Path) -> Path:
    """Where the new index is built, in the folder of an archive."""
    return archive / "lexical.next"


def stock_file(archive: Path) -> Path:
    """Where what the vector store holds is written down."""
    return next_folder(archive) / "stock"


def identity(archive: Archive, rebuild: int) -> str:
    """What an unfinished index is saved under: no other rebuild takes it for its own, and no start for the real one."""
    return f"{archive.identity} rebuild {rebuild}"


class _Alone(Exception):
    """Nobody waits for us any more."""


@dataclass(slots=True)
class Walk:
    """An index under way: all posts up to `cursor` are in it, of the channel `only` or of all channels."""

    archive: Archive
    rebuild: int
    lexical: WordIndex
    cursor: int = 0
    only: int | None = None

    @classmethod
    async def begun(
        cls, archive: Archive, rebuild: int, chat_id: int | None, qdrant: QdrantSettings | None = None
    ) -> Walk:
        """Go on from what was saved, or begin: with nothing, or with the index in use without the channel."""
        return await cls._resumed(archive, rebuild, qdrant) or await cls._fresh(archive, rebuild, chat_id, qdrant)

    @classmethod
    async def _resumed(cls, archive: Archive, rebuild: int, qdrant: QdrantSettings | None) -> Walk | None:
        folder = next_folder(archive.folder)
        lexical = await asyncio.to_thread(saved_words, qdrant, folder, identity(archive, rebuild))
        if lexical is None:
            return None
        try:
            saved = json.loads((folder / _WALK).read_text(encoding="utf-8"))
            walk = cls(archive, rebuild, lexical, int(saved["cursor"]), saved["only"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if walk.only is None and lexical.watermark < walk.cursor:
            return None  # a server has lost what was in it
        last = await posts.last_seq(archive)  # less than before where a backup was put back
        return walk if max(walk.cursor, lexical.watermark) <= last else None

    @classmethod
    async def _fresh(cls, archive: Archive, rebuild: int, chat_id: int | None, qdrant: QdrantSettings | None) -> Walk:
        served = qdrant is not None and qdrant.words  # what is on a server cannot be copied: all of it is built anew
        if chat_id is None or served:
            lexical = await asyncio.to_thread(new_words, qdrant)
        else:
            lexical = await load_lexical(archive)
        if not lexical.watermark:
            chat_id = None  # there is nothing yet to exchange a channel of
        else:
            assert chat_id is not None
            lexical.remove_channel(chat_id)
        return cls(archive, rebuild, lexical, 0, chat_id)

    async def step(self) -> dict[PostKey, tuple[Passage, ...]] | None:
        """Take in the next posts; their passages, or None at the end."""
        batch = await read(self.archive, self.cursor)
        if not batch.changes:
            return None
        ours = [change for change in batch.changes if self.only in (None, change.key.chat_id)]
        ready = {change.key: batch.passages(change) for change in ours}
        self.lexical.replace(ready, [entry(p) for passages in ready.values() for p in passages])
        self.cursor = batch.changes[-1].seq
        if self.only is None:  # of one channel: the others are as far as they were
            self.lexical.watermark = self.cursor
        return ready

    def save(self) -> None:
        """Write down what there is. Raises IndexUnavailable."""
        folder = next_folder(self.archive.folder)
        self.lexical.save(folder, identity(self.archive, self.rebuild))
        # After the index: where this is missed, the last posts are put in place of themselves.
        with raised_as(IndexUnavailable, OSError, say="The index cannot be written to disk ({}): free some space."):
            staged = folder / f"{_WALK}.tmp"
            staged.write_text(json.dumps({"cursor": self.cursor, "only": self.only}), encoding="utf-8")
            staged.replace(folder / _WALK)


def _say(**message: object) -> None:
    try:
        print(json.dumps(message), flush=True)
    except BrokenPipeError:
        raise _Alone from None


async def _told_to_go_on() -> None:
    if not await asyncio.to_thread(sys.stdin.readline):
        raise _Alone


class _Progress:
    """What is told, and when is saved."""

    def __init__(self, walk: Walk, done: int, total: int, save_every: float) -> None:
        self._walk, self._done, self._total, self._save_every = walk, done, total, save_every
        self._next_save = time.monotonic() + save_every

    async def tell(self, before: int, renew: Sequence[PostKey]) -> None:
        """Say how far the walk is, since `before`, and which posts are to be embedded again; save now and then."""
        walk = self._walk
        self._done += await rebuilds.count(walk.archive, walk.only, before, walk.cursor)
        self._total = max(self._done, self._total)
        for at in range(0, max(1, len(renew)), _MOST_KEYS):
            _say(done=self._done, total=self._total, renew=renew[at : at + _MOST_KEYS])
            await _told_to_go_on()
        if time.monotonic() > self._next_save:
            started = time.monotonic()
            walk.save()
            took = time.monotonic() - started
            pause = max(self._save_every, _SAVE_SHARE * took) if self._save_every else 0.0
            self._next_save = time.monotonic() + pause


async def _built(walk: Walk, stock: Stock | None, model: str, save_every: float) -> None:
    done = await rebuilds.count(walk.archive, walk.only, 0, walk.cursor)
    total = done + await rebuilds.count(walk.archive, walk.only, walk.cursor, await posts.last_seq(walk.archive))
    progress, before = _Progress(walk, done, total, save_every), walk.cursor
    await progress.tell(before, ())
    while (ready := await walk.step()) is not None:
        await progress.tell(before, stock.differing(ready, model) if stock else ())
        before = walk.cursor
    await progress.tell(before, stock.surplus(walk.lexical) if stock else ())
    walk.save()


async def _main(args: argparse.Namespace) -> None:
    qdrant = heard_words(await asyncio.to_thread(sys.stdin.readline))
    archive = await Archive.open(args.folder)
    try:
        walk = await Walk.begun(archive, args.rebuild, args.channel, qdrant)
        stock = Stock(stock_file(args.folder), walk.only) if args.model else None
        await _built(walk, stock, args.model, args.save_every)
        _say(finished=True)
    except RagError as exc:
        _say(failed=exc.reason)
    finally:
        await archive.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Build, and end; what went wrong has been said."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("rebuild", type=int)
    parser.add_argument("--channel", type=int)
    parser.add_argument("--model", default="")
    parser.add_argument("--save-every", type=float, default=SAVE_EVERY_S, help="seconds at least; 0: always")
    args = parser.parse_args(argv)
    # The parent decides when to stop: a Ctrl-C in the terminal reaches both.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    # One that lost its parent ends at its next word; until then its folder is not ours.
    with (args.folder / "rebuild.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            asyncio.run(_main(args))
        except _Alone:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
