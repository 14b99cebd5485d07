from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiogram import Bot
from aiogram.exceptions import ClientDecodeError, TelegramNetworkError, TelegramRetryAfter, TelegramServerError

from bot.sandbox import Sandbox
from bot.sandbox.server import FaultKind

READER, GROUP = 500, -1002


@pytest.fixture
def now() -> list[float]:
    return [1_800_000_000.0]


@pytest.fixture
async def sandbox(now: list[float]) -> AsyncIterator[Sandbox]:
    sandbox = Sandbox(clock=lambda: now[0])
    sandbox.world.add_person(READER, "Rita")
    sandbox.world.add_group(GROUP, "Neighbours", members=[READER])
    await sandbox.start()
    await sandbox.say(READER, "hi")
    yield sandbox
    await sandbox.stop()


@pytest.mark.parametrize(
    ("kind", "error", "arrived"),
    [
        ("429", TelegramRetryAfter, 0),
        ("500", TelegramServerError, 0),
        ("502html", ClientDecodeError, 0),
        ("drop", TelegramNetworkError, 0),
        ("lost", TelegramNetworkError, 1),
    ],
)
async def test_a_fault_hits_so_many_calls_of_its_method(
    sandbox: Sandbox, bot: Bot, kind: FaultKind, error: type[Exception], arrived: int
) -> None:
    sandbox.faults.fail_next("sendMessage", kind, times=2)
    assert (await bot.get_me()).id == 42
    for _ in range(2):
        with pytest.raises(error):
            await bot.send_message(READER, "x")
    await bot.send_message(READER, "through")
    assert len(sandbox.world.sent[READER]) == 2 * arrived + 1


async def test_retry_after_is_the_one_asked_for(sandbox: Sandbox, bot: Bot) -> None:
    sandbox.faults.fail_next("*", "429", retry_after=17)
    with pytest.raises(TelegramRetryAfter) as caught:
        await bot.send_chat_action(READER, "typing")
    assert caught.value.retry_after == 17


async def test_a_stalled_call_is_carried_out_late(sandbox: Sandbox, bot: Bot) -> None:
    sandbox.faults.fail_next("sendMessage", "stall", seconds=0.3)
    call = asyncio.create_task(bot.send_message(READER, "x"))
    await asyncio.sleep(0.1)
    assert not call.done()
    assert (await call).text == "x"
