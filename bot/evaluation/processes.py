"""Variants in processes of their own: the same questions in lockstep, so that memory differs and other load does not.

Each process indexes the dataset and opens its models; then one question after the other is asked of all, and each
process is the first equally often.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Awaitable, Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from tqdm import tqdm

from bot.evaluation.datasets import Dataset, EvaluationQuery
from bot.evaluation.index import IndexedDataset, Variant, build_variant_settings, open_indexed_dataset
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.settings import RagSettings

R = TypeVar("R")
AskQuestion = Callable[[EvaluationQuery, IndexedDataset], Awaitable[R]]
DescribeEngine = Callable[[Engine], dict[str, Any]]
_EXIT_S = 10.0  # for a process to end by itself
_ENDED = "The process of {} ended: there may be too little memory for all at once, so name fewer recipes."


async def run_in_processes(
    queries: Sequence[EvaluationQuery], ask: AskQuestion[R], variants: Mapping[str, Variant], dataset: Dataset,
    settings: RagSettings, describe: DescribeEngine,
) -> tuple[dict[str, list[R]], dict[str, Any]]:  # fmt: skip
    """Ask every question in each variant; also returns the description of the first engine. Raises RagError."""
    return await asyncio.to_thread(_run_lockstep, queries, ask, variants, dataset, settings, describe)


def _run_lockstep(
    queries: Sequence[EvaluationQuery], ask: AskQuestion[R], variants: Mapping[str, Variant], dataset: Dataset,
    settings: RagSettings, describe: DescribeEngine,
) -> tuple[dict[str, list[R]], dict[str, Any]]:  # fmt: skip
    context = multiprocessing.get_context("spawn")
    rows: dict[str, list[R]] = {name: [] for name in variants}
    pipes: dict[str, Connection] = {}
    processes, about = [], dict[str, Any]()
    try:
        for name, variant in variants.items():
            pipes[name], theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, ask, variant, dataset, settings, describe))
            process.start()
            processes.append(process)
            theirs.close()
            about = about or _receive(name, pipes[name])
            if name != next(iter(variants)):
                _receive(name, pipes[name])
        names = list(variants)
        for n, query in enumerate(tqdm(queries, desc="ask", delay=1, leave=False, disable=None)):
            first = n % len(names)
            for name in (*names[first:], *names[:first]):
                pipes[name].send(query)
                rows[name].append(_receive(name, pipes[name]))
    finally:
        for pipe in pipes.values():
            pipe.close()
        for process in processes:
            process.join(_EXIT_S)
            process.kill()
    return rows, about


def _receive(name: str, pipe: Connection) -> Any:
    try:
        received = pipe.recv()
    except EOFError:
        raise RagError(_ENDED.format(name)) from None
    if isinstance(received, Exception):
        raise received
    return received


def _serve(pipe: Connection, ask: AskQuestion[R], variant: Variant, dataset: Dataset, settings: RagSettings,
           describe: DescribeEngine) -> None:  # fmt: skip
    """Index the dataset and answer the questions that come, until the pipe is closed."""

    async def serve() -> None:
        async with open_indexed_dataset(dataset, build_variant_settings(settings, [variant])) as opened:
            data = opened.select_variant(variant)
            pipe.send(describe(data.rag))
            while True:
                try:
                    query = await asyncio.to_thread(pipe.recv)
                except EOFError:
                    return
                pipe.send(await ask(query, data))

    try:
        asyncio.run(serve())
    except BrokenPipeError:
        pass
    except RagError as exc:
        pipe.send(RagError(exc.reason))
