"""The watching port: its page of metrics as a table."""

import asyncio

import aiohttp
from prometheus_client.parser import text_string_to_metric_families


async def fetch_text(port, page):
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}/{page}") as response:
        kind = response.headers["Content-Type"]
        assert page != "metrics" or kind.startswith("text/plain; version="), kind  # else Prometheus takes no page
        return response.status, await response.text()


def parse_metrics(text):
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return found


async def fetch_metrics(port):
    _, text = await fetch_text(port, "metrics")
    return parse_metrics(text)


def get_value(found, name, **labels):
    wanted = set(labels.items())
    return sum(number for have, number in found.get(name, {}).items() if wanted <= have)


async def wait_for(port, true):
    async with asyncio.timeout(30):
        while not true(found := await fetch_metrics(port)):  # noqa: ASYNC110 - the page rings no bell
            await asyncio.sleep(0.02)
    return found
