"""`citegram doctor`: what is set, what is there, what is wrong and what to do about it."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import AiogramError
from aiogram.utils.token import TokenValidationError

from bot.beside.client import Owner, OwnerSilent, alone_or_beside
from bot.beside.facts import DenseFacts, Facts, facts
from bot.plain import plain
from bot.settings import Settings
from rag_core.doors.archive import Archive, channels, jobs, posts, rebuilds, updates
from rag_core.errors import RagError
from rag_core.rag import open_rag
from rag_core.types import Visibility

__all__ = ["declare", "run"]

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
    owner, known = await _indexes(settings)
    archive = await Archive.open(settings.data.dir)
    try:
        indexes = _legs(archive, owner, known)
        for checks in (_disk(settings), _archive(archive), indexes, _work(archive, owner), _bot(settings)):
            async for fine, what in checks:
                print(f"{'ok  ' if fine else '    ' if fine is None else 'BAD '} {what}")
                wrong += fine is False
    finally:
        await archive.close()
    return 1 if wrong else 0


async def _indexes(settings: Settings) -> tuple[Finding | None, Facts | None]:
    """Who holds the folder, where it is another process; and what is known of the indexes."""
    try:
        async with alone_or_beside(settings.data.dir) as owner:
            if owner is not None:
                return await _asked(owner)
            async with open_rag(settings.rag()) as rag:
                return None, await facts(rag)
    except OwnerSilent as exc:
        return Finding(False, exc.reason), None


async def _asked(owner: Owner) -> tuple[Finding, Facts | None]:
    try:
        known, seconds = await owner.doctor()
    except RagError as exc:
        return Finding(False, exc.reason), None
    hours, minutes = divmod(seconds // 60, 60)
    runs = f"for {hours} h {minutes} min" if seconds >= 60 else f"for {seconds} s"
    return Finding(True, f"a bot runs here: process {owner.process}, Citegram {owner.version}, {runs}"), known


async def _disk(settings: Settings) -> AsyncIterator[Finding]:
    folder = settings.data.dir.resolve()
    free = shutil.disk_usage(folder).free
    yield Finding(
        free > _LEAST_FREE, f"{folder}: {free / 1e9:.1f} GB free{'' if free > _LEAST_FREE else ': make room'}"
    )


async def _archive(archive: Archive) -> AsyncIterator[Finding]:
    known = await channels.known(archive)
    if not known:
        yield Finding(None, "no channels yet: citegram import result.json, or make the bot admin of a channel")
    for channel in known.values():
        count = await posts.count(archive, channel.chat_id)
        closed = " (admins only: publish it with /channels)" if channel.visibility is Visibility.ADMINS else ""
        yield Finding(
            None, f"{plain(channel.title)}: {count} posts, {channel.state}, {channel.visibility.value}{closed}"
        )
    inbox = await updates.counts(archive)
    yield Finding(inbox["poison"] == 0, f"inbox: {inbox['pending']} waiting, {inbox['poison']} in quarantine")


async def _legs(archive: Archive, owner: Finding | None, known: Facts | None) -> AsyncIterator[Finding]:
    held = f"archive: {await posts.count(archive)} posts"
    if owner is not None:
        yield owner
    if known is None:
        yield Finding(None, held)
        return
    behind = known["behind"]
    when = "the bot takes them in" if owner else "taken in at the next start"
    late = f"{behind} changes behind ({when})" if behind else "up to date"
    yield Finding(None if behind else True, f"{held}; lexical index: {known['passages']} passages, {late}")
    for reason in known["without"]:
        yield Finding(False, f"search by meaning is off: {reason}")
    if known["dense"]:
        yield _dense(known["dense"])
    elif not known["without"]:
        yield Finding(None, "search by words alone: citegram models pull offline adds search by meaning")
    yield Finding(None, "no writer: answers are word for word from the posts")
    yield Finding(None, f"bar for answers: {known['bar']}")


async def _work(archive: Archive, owner: Finding | None) -> AsyncIterator[Finding]:
    """Work the bot has begun on its own, or was told to."""
    if (rebuild := await rebuilds.running(archive)) is not None:
        now = "is being rebuilt" if owner else "is half rebuilt (it goes on when the bot runs)"
        yield Finding(None, f"the index {now}: {rebuild.done} of {rebuild.total} posts")
    ran = await jobs.recorded(archive)
    for job in ran:
        if job.failing:
            yield Finding(False, f"the job {job.name} failed ({job.failed_at:%Y-%m-%d %H:%M} UTC): {job.error}")
    if ran and not any(job.failing for job in ran):
        yield Finding(True, f"scheduled jobs: {', '.join(job.name for job in ran)}; each ended well")


def _dense(known: DenseFacts) -> Finding:
    held, waiting = f"{known['model']}: {known['vectors']} vectors", known["waiting"]
    if not waiting:
        return Finding(True, f"{held}, up to date")
    minutes = max(1, round(known["seconds"] / 60))
    return Finding(None, f"{held}, {waiting} posts to come: about {minutes} min of work while the bot runs")


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
