"""What is a state, read when somebody asks: indexes, queues, gaps, caches, disk, jobs. Each part may fail alone."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.metadata import version
from itertools import chain
from typing import Generic, TypeVar

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from bot import footprint
from bot.desk import Desk
from bot.metrics.meter import Meter
from ingest.duplicates import RECIPE
from rag_core.doors.archive import Archive, backlog, census, channels, copies, figures, gaps, posts, updates
from rag_core.doors.archive.feedback import REASONS
from rag_core.doors.archive.snapshots import found, made_at
from rag_core.errors import RagError

__all__ = ["States"]

_NO_REASON = "none"
# What is counted row by row, and moves slowly: a million rows take a tenth of a second and more.
_SELDOM_S = 300.0
_PATIENCE_S = 3.0  # of one part; Prometheus waits ten for all of them

T = TypeVar("T")

log = logging.getLogger(__name__)


def _gauge(name: str, said: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"citegram_{name}", said, labels=labels)


def _counter(name: str, said: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"citegram_{name}", said, labels=labels)


def _value(name: str, said: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"citegram_{name}", said, value=value)


class _Seldom(Generic[T]):
    """Works something out, and gives the same for a while."""

    def __init__(self, work: Callable[[Archive], Awaitable[T]]) -> None:
        self._work = work
        self._known: tuple[float, T] | None = None

    async def __call__(self, archive: Archive) -> T:
        """The value, perhaps of a few minutes ago."""
        now = time.monotonic()
        if self._known is None or now - self._known[0] >= _SELDOM_S:
            self._known = now, await self._work(archive)
        return self._known[1]


class States:
    """Reads the states of one bot. `desk` gives its tray, None while it is not laid yet."""

    def __init__(self, desk: Callable[[], Desk | None], meter: Meter) -> None:
        self._desk = desk
        self._meter = meter
        self._seq: int | None = None  # of the last change that was counted
        self._changed: dict[tuple[str, str], int] = {}
        self._counting = asyncio.Lock()
        self._rows, self._voted = _Seldom(census.rows_of_posts), _Seldom(census.votes)

    async def read(self) -> list[Metric]:
        """All that can be told now; what cannot is counted as such."""
        told = [_value("event_loop_lag_seconds", "How long the event loop took to come round.", await _lag())]
        silence = self._meter.wire.silence
        if silence is not None:
            said = "Since Telegram last answered for updates, or for the webhook that brings them."
            told.append(_value("telegram_silence_seconds", said, silence))
        desk = self._desk()
        parts = (self._lags, self._sizes, self._posts, self._line, self._waiting, self._votes, self._disk,
                 self._caches, self._jobs)  # fmt: skip
        of_parts = await asyncio.gather(*(self._part(part, desk) for part in parts)) if desk else []
        info = _gauge("build_info", "The version, as a label.", "version")
        info.add_metric([version("citegram")], 1)
        return [info, *told, *chain.from_iterable(of_parts)]

    async def _part(self, part: Callable[[Desk], AsyncIterator[Metric]], desk: Desk) -> list[Metric]:
        name = part.__name__.removeprefix("_")
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return [metric async for metric in part(desk)]
        except (RagError, OSError, TimeoutError) as exc:
            log.info("the metrics of %s cannot be read: %s", name, exc)
            self._meter.instruments.scrape_failures.labels(name).inc()
            return []

    async def _lags(self, desk: Desk) -> AsyncIterator[Metric]:
        """How far each leg is behind the archive."""
        lag = _gauge("index_lag_changes", "Changes that a leg has not taken in: words, vectors, copies.", "leg")
        lag.add_metric(["words"], max(0, await posts.last_seq(desk.archive) - desk.rag.lexical.watermark))
        lag.add_metric(["copies"], await copies.waiting(desk.archive, RECIPE))
        if desk.rag.dense:
            lag.add_metric(["vectors"], await backlog.waiting(desk.archive, desk.rag.dense.vectors.identity))
        yield lag

    async def _sizes(self, desk: Desk) -> AsyncIterator[Metric]:
        """What each leg holds."""
        size = _gauge("index_passages", "Passages that a leg can find.", "leg")
        size.add_metric(["words"], len(desk.rag.lexical))
        if desk.rag.dense:
            size.add_metric(["vectors"], await desk.rag.dense.vectors.count())
        yield size

    async def _posts(self, desk: Desk) -> AsyncIterator[Metric]:
        """What is kept, and what came since the start: read from the last change on, whoever wrote it."""
        async with self._counting:  # two who scrape at once would count the same changes twice
            last = await posts.last_seq(desk.archive)
            after = last if self._seq is None else self._seq
            for source, gone, number in await census.changes_between(desk.archive, after, last):
                key = source, "deleted" if gone else "kept"
                self._changed[key] = self._changed.get(key, 0) + number
            self._seq = last
        changes = _counter("post_changes", "Posts that came, changed or went since the start.", "source", "change")
        for source in ("live", "import"):
            for change in ("kept", "deleted"):
                changes.add_metric([source, change], self._changed.get((source, change), 0))
        yield changes
        yield _value("archive_posts", "Posts in the archive, deleted ones that are remembered among them.",
                     await self._rows(desk.archive))  # fmt: skip
        yield _value("channels", "Channels that the archive knows.", len(await channels.known(desk.archive)))

    async def _line(self, desk: Desk) -> AsyncIterator[Metric]:
        """Questions that wait."""
        line = await census.line(desk.archive)
        oldest = max(0.0, time.time() - line.oldest) if line.oldest else 0.0
        yield _value("questions_waiting", "Questions in the queue.", line.waiting)
        yield _value("questions_running", "Questions that are worked on.", line.running)
        yield _value("oldest_question_seconds", "How long the first in the queue has waited.", oldest)

    async def _waiting(self, desk: Desk) -> AsyncIterator[Metric]:
        """The inbox, what was set aside in it, and times in which posts may have been missed."""
        aside = (await updates.counts(desk.archive))["poison"]
        yield _value("updates_quarantined", "Updates of Telegram's that could not be read.", aside)
        yield _value("updates_waiting", "Updates that are kept and not worked in.", await figures.waiting(desk.archive))
        holes = [len(one) for one in (await gaps.open_gaps(desk.archive)).values()]
        yield _value("gaps_open", "Times in which posts may have been missed, in all channels.", sum(holes))
        yield _value("gap_channels", "Channels with such a time.", len(holes))
        yield _value("channel_gaps_max", "The most such times of one channel.", max(holes, default=0))

    async def _votes(self, desk: Desk) -> AsyncIterator[Metric]:
        """What readers say of answers."""
        told = _gauge("feedback_votes", "Votes on answers; a vote can be changed.", "vote", "reason")
        number = {("good", _NO_REASON): 0, ("bad", _NO_REASON): 0, **{("bad", reason): 0 for reason in REASONS}}
        number |= {
            ("good" if good else "bad", why or _NO_REASON): n for good, why, n in await census.votes(desk.archive)
        }
        for labels, count in number.items():
            told.add_metric(labels, count)
        yield told

    async def _disk(self, desk: Desk) -> AsyncIterator[Metric]:
        """What lies on the disk."""
        folder = desk.archive.folder
        disk = await asyncio.to_thread(footprint.disk, folder)
        sizes = _gauge("disk_bytes", "What lies in the data folder: archive, indexes, backups.", "part")
        for part, size in (("archive", disk.archive), ("indexes", disk.indexes), ("backups", disk.backups)):
            sizes.add_metric([part], size)
        yield sizes
        yield _value("disk_free_bytes", "What is free beside them.", disk.free)
        if backups := await asyncio.to_thread(found, folder):
            moment = made_at(backups[0]).timestamp()
            yield _value("last_backup_timestamp_seconds", "When the last backup was made.", moment)

    async def _caches(self, desk: Desk) -> AsyncIterator[Metric]:
        """How often something was known."""
        caches = desk.rag.caches
        asked = _counter("cache_requests", "Looks into a cache: hit, miss.", "cache", "result")
        for name, cache in (("plans", caches.plans), ("hits", caches.hits), ("verdicts", caches.verdicts)):
            asked.add_metric([name, "hit"], cache.hits)
            asked.add_metric([name, "miss"], cache.looks - cache.hits)
        yield asked

    async def _jobs(self, desk: Desk) -> AsyncIterator[Metric]:
        """Work that runs by itself. Its label is no "job": Prometheus calls its targets so."""
        runs = _counter("job_runs", "Runs of work that goes by itself.", "task")
        failed = _counter("job_failures", "Runs that failed.", "task")
        failing = _gauge("job_failing", "1 where the last run failed.", "task")
        for job in [*desk.indexing.ledger.jobs.values()]:
            runs.add_metric([job.name], job.runs)
            failed.add_metric([job.name], job.failures)
            failing.add_metric([job.name], job.failing)
        for metric in (runs, failed, failing):
            yield metric


async def _lag() -> float:
    began = time.perf_counter()
    await asyncio.sleep(0)
    return time.perf_counter() - began
