"""The watching port: its page of metrics as a table."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Table = dict[str, dict[Labels, float]]  # name of a series -> labels -> value


async def fetch_text(port: int, page: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/{page}") as response:
        return response.status, await response.text()


def parse_metrics(text: str) -> Table:
    found: Table = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


async def fetch_metrics(port: int) -> Table:
    _, text = await fetch_text(port, "metrics")
    return parse_metrics(text)


def get_value(found: Table, name: str, **labels: Any) -> float:
    """The sum of a series over what is not named."""
    wanted = set(labels.items())
    return sum(number for have, number in found.get(name, {}).items() if wanted <= have)


async def wait_for(port: int, true: Callable[[Table], Any]) -> Table:
    """The first page of metrics of which something is true."""
    async with asyncio.timeout(30):
        while not true(found := await fetch_metrics(port)):  # noqa: ASYNC110 - the page rings no bell
            await asyncio.sleep(0.02)
    return found
