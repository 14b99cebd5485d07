"""The queue for the model: fair between readers, told by place."""

from __future__ import annotations

import asyncio

import pytest

from rag_core.errors import GenerationFailed
from rag_core.llm.turns import FairScheduler

pytestmark = pytest.mark.slow


class Hall:
    """Readers who wait, are served and leave, in the order of `served`."""

    def __init__(self) -> None:
        self.turns = FairScheduler()
        self.served: list[str] = []
        self.places: dict[str, list[int]] = {}
        self.leave = asyncio.Event()
        self.tasks: list[asyncio.Task[None]] = []

    async def _visit(self, reader: int, name: str) -> None:
        async with self.turns.acquire(reader, self.places.setdefault(name, []).append):
            self.served.append(name)
            await self.leave.wait()
            await asyncio.sleep(0)

    async def come(self, *visits: str) -> None:
        """ "1a" is reader 1 with the request a."""
        for name in visits:
            self.tasks.append(asyncio.create_task(self._visit(int(name[0]), name)))
            await asyncio.sleep(0)

    async def empty(self) -> None:
        self.leave.set()
        await asyncio.gather(*self.tasks, return_exceptions=True)


async def test_readers_take_turns_and_each_ones_requests_keep_their_order() -> None:
    hall = Hall()
    await hall.come("1a", "1b", "1c", "1d", "2a", "3a", "2b")
    await hall.empty()
    assert hall.served == ["1a", "1b", "2a", "3a", "1c", "2b", "1d"]


async def test_who_has_just_been_served_stands_behind_everybody_else() -> None:
    hall = Hall()
    await hall.come("1a", "2a", "3a")
    await hall.come("1b", "2b")
    await hall.empty()
    assert hall.served == ["1a", "2a", "3a", "1b", "2b"]


async def test_places_are_told_as_they_change() -> None:
    hall = Hall()
    await hall.come("1a", "1b", "1c", "2a")
    assert hall.turns.waiting == 4
    assert hall.places == {"1a": [0], "1b": [1], "1c": [2, 3], "2a": [2]}
    await hall.empty()
    assert hall.places == {"1a": [0], "1b": [1, 0], "1c": [2, 3, 2, 1, 0], "2a": [2, 1, 0]}
    assert hall.turns.waiting == 0


async def test_who_gives_up_leaves_the_queue_and_the_others_move_up() -> None:
    hall = Hall()
    await hall.come("1a", "2a", "3a")
    hall.tasks[1].cancel()
    await asyncio.sleep(0)
    assert hall.places["3a"] == [2, 1]
    assert hall.turns.waiting == 2
    await hall.empty()
    assert hall.served == ["1a", "3a"]


async def test_a_turn_that_comes_to_somebody_who_is_just_giving_up_goes_to_the_next() -> None:
    hall = Hall()
    await hall.come("1a", "2a", "3a")
    hall.leave.set()
    hall.tasks[0].add_done_callback(lambda _: hall.tasks[1].cancel())
    await hall.empty()
    assert hall.served[0] == "1a"
    assert hall.served[-1] == "3a"
    assert hall.turns.waiting == 0


async def test_a_seat_is_not_given_to_somebody_who_was_cancelled_a_moment_before() -> None:
    hall = Hall()
    await hall.come("1a", "2a", "3a")
    async with asyncio.timeout(30):
        hall.leave.set()
        await asyncio.sleep(0)  # the one in the seat is about to leave
        hall.tasks[1].cancel()
        await hall.empty()
    assert hall.served == ["1a", "3a"]


async def test_an_urgent_turn_is_the_next_one() -> None:
    hall = Hall()
    await hall.come("1a", "2a")

    async def acquire_first() -> None:
        async with hall.turns.acquire(None):
            hall.served.append("urgent")

    hall.tasks.append(asyncio.create_task(acquire_first()))
    await asyncio.sleep(0)
    await hall.empty()
    assert hall.served == ["1a", "urgent", "2a"]


async def test_when_there_are_no_more_turns_everybody_is_told() -> None:
    hall = Hall()
    await hall.come("1a", "2a")
    hall.turns.close("Closed.")
    with pytest.raises(GenerationFailed, match="Closed"):
        await hall.tasks[1]
    with pytest.raises(GenerationFailed, match="Closed"):
        async with hall.turns.acquire(3):
            pass
    await hall.empty()
    assert hall.served == ["1a"]
    assert hall.turns.waiting == 0


async def test_an_error_in_a_turn_gives_the_seat_to_the_next() -> None:
    turns = FairScheduler()
    with pytest.raises(ZeroDivisionError):
        async with turns.acquire(1):
            raise ZeroDivisionError
    async with asyncio.timeout(30), turns.acquire(1):
        pass
