"""`citegram doctor`: what is set, what is there, what is wrong and what to do about it."""

from __future__ import annotations

import argparse
import shutil
import time
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import AiogramError
from aiogram.utils.token import TokenValidationError

from bot.render import plain
from bot.settings import Settings
from ingest.dense import DenseIndexer
from rag_core.doors.archive import channels, posts, updates
from rag_core.rag import Rag, open_rag
from rag_core.types import Visibility

__all__ = ["declare", "run"]

_SAMPLES = 16  # texts that are embedded to say how long a backlog takes
_SAMPLE = "Паром уходит в половине восьмого. The ferry leaves at half past seven, and comes back before dark. " * 2
_LEAST_FREE = 1 << 30  # bytes: an index is written beside the old one, so that room for both must be there


class Finding(NamedTuple):
    """One line of the report; `fine` None is neither good nor bad."""

    fine: bool | None
    what: str


def declare(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser("doctor", help="check settings, token, archive and indexes")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Check and print. Returns 1 where something is wrong."""
    wrong = 0
    async with open_rag(settings.rag()) as rag:
        for checks in (_disk(settings), _archive(rag), _bot(settings)):
            async for fine, what in checks:
                print(f"{'ok  ' if fine else '    ' if fine is None else 'BAD '} {what}")
                wrong += fine is False
    return 1 if wrong else 0


async def _disk(settings: Settings) -> AsyncIterator[Finding]:
    folder = settings.data.dir.resolve()
    free = shutil.disk_usage(folder).free
    yield Finding(
        free > _LEAST_FREE, f"{folder}: {free / 1e9:.1f} GB free{'' if free > _LEAST_FREE else ': make room'}"
    )


async def _archive(rag: Rag) -> AsyncIterator[Finding]:
    known = await channels.known(rag.archive)
    total, behind = await posts.count(rag.archive), await posts.last_seq(rag.archive) - rag.lexical.watermark
    if not known:
        yield Finding(None, "no channels yet: citegram import result.json, or make the bot admin of a channel")
    for channel in known.values():
        count = await posts.count(rag.archive, channel.chat_id)
        closed = " (admins only: publish it with /channels)" if channel.visibility is Visibility.ADMINS else ""
        yield Finding(
            None, f"{plain(channel.title)}: {count} posts, {channel.state}, {channel.visibility.value}{closed}"
        )
    late = f"{behind} changes behind (taken in at the next start)" if behind else "up to date"
    held = f"archive: {total} posts; lexical index: {len(rag.lexical)} passages, {late}"
    yield Finding(None if behind else True, held)
    inbox = await updates.counts(rag.archive)
    yield Finding(inbox["poison"] == 0, f"inbox: {inbox['pending']} waiting, {inbox['poison']} in quarantine")
    async for finding in _dense(rag):
        yield finding
    yield Finding(None, "no writer: answers are word for word from the posts")
    yield Finding(None, f"bar for answers: {rag.calibration.bar} ({rag.calibration.data})")


async def _dense(rag: Rag) -> AsyncIterator[Finding]:
    for shortfall in rag.without:
        yield Finding(False, f"search by meaning is off: {shortfall.reason}")
    if rag.dense is None:
        if not rag.without:
            yield Finding(None, "search by words alone: citegram models pull offline adds search by meaning")
        return
    waiting = await DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder).waiting()
    held = f"{rag.dense.model.name}: {await rag.dense.vectors.count()} vectors"
    if not waiting:
        yield Finding(True, f"{held}, up to date")
        return
    started = time.perf_counter()
    await rag.dense.embedder.passages([_SAMPLE] * _SAMPLES)
    left = (time.perf_counter() - started) / _SAMPLES * waiting
    yield Finding(
        None, f"{held}, {waiting} posts to come: about {max(1, round(left / 60))} min of work while the bot runs"
    )


async def _bot(settings: Settings) -> AsyncIterator[Finding]:
    token, proxy = settings.bot.token.get_secret_value(), settings.bot.proxy.get_secret_value()
    if not settings.bot.admins:
        yield Finding(None, "no admins: send /start to the bot, it tells you the line for .env")
    if not token:
        yield Finding(None, "BOT__TOKEN is empty: get one from @BotFather, or try citegram demo")
        return
    session = AiohttpSession(proxy=proxy or None, api=TelegramAPIServer.from_base(settings.bot.api), timeout=10)
    try:
        async with Bot(token, session=session).context() as bot:
            me = await bot.get_me()
    except TokenValidationError:
        yield Finding(False, "BOT__TOKEN is not a token: copy it from @BotFather again")
    except AiogramError as exc:
        yield Finding(False, f"{settings.bot.api} did not accept the bot ({type(exc).__name__}): check BOT__TOKEN, "
                      "BOT__API, BOT__PROXY and the network")  # fmt: skip
    else:
        reads = "all messages of its groups" if me.can_read_all_group_messages else "commands and replies in groups"
        yield Finding(True, f"@{me.username} is known to {settings.bot.api}; it gets {reads}")
