"""Telegram: can it be reached, is the token right, what does the bot get, who brings updates, is our clock right."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from aiogram import Bot
from aiogram.exceptions import AiogramError
from aiogram.types import User, WebhookInfo
from aiohttp import ClientError, ClientTimeout

from bot.doctor.findings import Case, Finding
from bot.doctor.line import PATIENCE_S, connected, proxied, told
from bot.session import Session

__all__ = ["clock", "telegram"]

_FAR_OFF_S = 30.0
_RECENT = timedelta(hours=1)
_MANY = 100  # updates that wait

_NO_TOKEN = "BOT__TOKEN is empty: get one from @BotFather, or try citegram demo"  # noqa: S105
_CLOCK = (
    "The clock of this machine is {off:.0f} s {how} that of {api}: set it right (timedatectl set-ntp true), for words "
    "of time and gaps go by it."
)
_TAKEN = "A webhook at {host} takes the bot's updates away: restart the bot, which removes it, or set WEBHOOK__URL."
_OTHER = "Telegram brings the updates to {there}, and WEBHOOK__URL says {wanted}: restart the bot, which sets it."
_FAILING = (
    "Telegram could not bring updates to {host} at {at:%H:%M} UTC ({said}): look at the proxy before the bot, its "
    "certificate and WEBHOOK__PORT."
)


async def telegram(case: Case) -> AsyncIterator[Finding]:
    """The proxy, the token, what the bot is told in groups, and the webhook."""
    given = case.settings.bot
    if not given.token.get_secret_value():
        yield Finding(None, _NO_TOKEN)
        return
    if place := await proxied(given):
        yield Finding(True, f"the proxy {place} takes connections")
    async with connected(given) as bot:
        try:
            yield _known(await bot.get_me(), given.api)
            for finding in _hook(await bot.get_webhook_info(), case):
                yield finding
        except (AiogramError, TimeoutError) as exc:
            yield Finding(False, told(exc, given))


def _known(me: User, api: str) -> Finding:
    reads = "all messages of its groups" if me.can_read_all_group_messages else "commands and replies in groups"
    return Finding(True, f"@{me.username} is known to {api}; it gets {reads}")


def _hook(info: WebhookInfo, case: Case) -> list[Finding]:
    """Where updates go, against where they should go. Of an address only the host is shown: the rest may be secret."""
    wanted = case.settings.webhook.url
    host, found = urlsplit(info.url).hostname or "", list[Finding]()
    if info.url and not wanted:
        found.append(Finding(False, _TAKEN.format(host=host)))
    elif info.url != wanted:
        said = _OTHER.format(there=host or "nobody", wanted=urlsplit(wanted).hostname)
        found.append(Finding(False if case.runs else None, said))
    elif info.url:
        found.append(Finding(True, f"updates come by webhook to {host}"))
    if info.url and (at := info.last_error_date) and datetime.now(UTC) - at < _RECENT:
        found.append(Finding(False, _FAILING.format(host=host, at=at, said=info.last_error_message)))
    if info.pending_update_count > _MANY:
        found.append(Finding(None, f"{info.pending_update_count} updates wait at Telegram for the bot"))
    return found


async def clock(case: Case) -> AsyncIterator[Finding]:
    """This machine's clock against the date of the Bot API server's answer; silent where it does not answer."""
    given = case.settings.bot
    if not given.token.get_secret_value():
        return
    async with connected(given) as bot:
        asked = time.time()
        theirs = await _date(bot, given.api)
        ours = (asked + time.time()) / 2
    if theirs is None:
        return
    off = ours - theirs.timestamp()
    if abs(off) > _FAR_OFF_S:
        how = "ahead of" if off > 0 else "behind"
        yield Finding(False, _CLOCK.format(off=abs(off), how=how, api=given.api))
    else:
        yield Finding(True, f"the clock agrees with {given.api}")


async def _date(bot: Bot, api: str) -> datetime | None:
    assert isinstance(bot.session, Session)
    session = await bot.session.create_session()
    try:
        async with session.get(api, allow_redirects=False, timeout=ClientTimeout(total=PATIENCE_S)) as answer:
            return parsedate_to_datetime(answer.headers["Date"])
    except (ClientError, OSError, TimeoutError, KeyError, ValueError):
        return None  # the check of Telegram says so
