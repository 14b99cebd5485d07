"""Every kind of button, forged, taken from others, late or pressed again: nothing changes, and all is answered."""

import asyncio
import itertools
import logging
import sqlite3
import time
from contextlib import closing

from driver import ADMIN, GROUP, HARBOUR, OTTO, RITA, open_more, wait_until_idle

from bot.views import keyboards

TABLES = "channels posts bindings grants group_rules rebuilds votes".split()
ODD = ["", "0", "-1", "9" * 20, "x", "'; DROP TABLE posts; --", "\u202e", str(OTTO), str(HARBOUR), "True", "None"]
MOST = 64  # bytes: https://core.telegram.org/bots/api#inlinekeyboardbutton


ACTIONS = (*keyboards.ANSWER_ACTIONS, *"""
    channel channel-public channel-pause channel-resume channel-guarded-in channel-bindable channel-remove
    channel-remove-yes channel-leave channel-history channels delete delete-not forget forget-not grant grant-cancel
    group-bind group-channels group-cited group-lang group-unbind history-begin history-cancel history-undo mode
    mode-off model model-pull pin-ask pin-nearest pin-off privacy quote reindex reindex-choose reindex-one
    reindex-stop revoke search search-page settings stop suggestion watch-mute watch-stop zone no-such-action
""".split())  # fmt: skip


def made_up(now):
    """Well-formed data that no button ever had."""
    fields = (("a", OTTO), ("0123456789abcdef", HARBOUR), (str(now), now), (str(now), 0))
    packed = [keyboards.Press(to=to, token=a, number=b).pack() for to in ACTIONS for a, b in fields]
    return packed + [f"b:{to}:a:{10**20}" for to in ACTIONS]  # more than 64 bits


def bent(data):
    """Real data with one field of it replaced, in the ways of ODD; and cut, and with more."""
    parts = data.split(":")
    found = [":".join([*parts[:n], odd, *parts[n + 1 :]]) for n in range(1, len(parts)) for odd in ODD]
    return [one for one in [*found[::3], data[:-1], f"{data}:1", f"{data}0"] if len(one.encode()) <= MOST]


def state(home):
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        found = {table: archive.execute(f"SELECT * FROM {table}").fetchall() for table in TABLES}
        found["asked"] = archive.execute("SELECT * FROM questions WHERE user_id <> ?", (OTTO,)).fetchall()
    return found


def buttons(sandbox, *chats):
    """Data of all buttons in these chats: where it hangs."""
    found = {}
    for chat in chats:
        for number, message in sandbox.world.room(chat).messages.items():
            for row in message.get("reply_markup", {}).get("inline_keyboard", ()):
                found |= {button["callback_data"]: (chat, number) for button in row if "callback_data" in button}
    return found


async def seen_by_others(sandbox, home):
    """The admins and Rita open whatever has buttons; Otto has an answer of his own."""
    for who, text in (
        (ADMIN, "/channels"), (ADMIN, "/grant 777"), (ADMIN, "/reindex"), (ADMIN, "/models"), (ADMIN, "/privacy"),
        (ADMIN, "/delete https://t.me/harbour_news/10"), (ADMIN, "/forget"), (RITA, "/forget"),
        (RITA, "Where does the ferry to Owl Island leave?"), (RITA, "/search ferry"), (ADMIN, "/search the"),
        (RITA, "When is fresh mackerel sold?"), (OTTO, "When is fresh mackerel sold?"),
    ):  # fmt: skip
        await sandbox.say(who, text)
    await sandbox.say(ADMIN, "/settings@citegram_bot", chat_id=GROUP)
    await sandbox.send_file(ADMIN, "result.json", b'{"id": 1}')
    await wait_until_idle(sandbox, home)
    answer = next(one for one in sandbox.world.room(RITA).messages.values() if "Fridays" in one.get("text", ""))
    await open_more(sandbox, answer, RITA)


async def pressed(sandbox, who, chat, message, data):
    """Press all, a few at a time; each must be answered."""
    for some in itertools.batched(data, 12) if hasattr(itertools, "batched") else _batched(data, 12):
        done = await asyncio.gather(*(sandbox.press(who, chat, message, one) for one in some))
        assert [one for one, end in zip(some, done, strict=True) if end["answer"] is None] == []


def _batched(data, size):
    return [data[n : n + size] for n in range(0, len(data), size)]


async def test_no_button_of_others_or_of_nobody_does_anything(sandbox, live, home, caplog):
    async with live(reader_limit=10_000):
        await seen_by_others(sandbox, home)
        theirs, mine = buttons(sandbox, ADMIN, RITA, GROUP), buttons(sandbox, OTTO)
        before, now = state(home), int(time.time())
        real = {":".join(data.split(":")[:2]): data for data in theirs}
        forged = [*made_up(now), *(one for data in real.values() for one in bent(data))]
        assert len(real) >= 20
        _, hangs = next(iter(mine.values()))
        await pressed(sandbox, OTTO, OTTO, hangs, [*theirs, *(d for d in forged if len(d.encode()) <= MOST)])
        in_group = max(sandbox.world.sent[GROUP])
        await pressed(sandbox, RITA, GROUP, in_group, [*buttons(sandbox, ADMIN, GROUP), *forged[::5]])
        await wait_until_idle(sandbox, home)
        assert state(home) == before
    assert [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR and r.name.startswith("bot")] == []


async def test_what_was_granted_removed_or_erased_is_not_done_again_by_the_same_button(sandbox, live, home):
    async with live(reader_limit=10_000):
        await sandbox.say(RITA, "hello")
        await wait_until_idle(sandbox, home)
        for command, undo in ((f"/grant {RITA}", f"/revoke {RITA}"), ("/delete https://t.me/harbour_news/10", None)):
            await sandbox.say(ADMIN, command)
            await wait_until_idle(sandbox, home)
            found = buttons(sandbox, ADMIN)
            await press_all(sandbox, found)
            if undo:
                await sandbox.say(ADMIN, undo)
                await wait_until_idle(sandbox, home)
                new = {data: place for data, place in buttons(sandbox, ADMIN).items() if data not in found}
                await press_all(sandbox, new)
            await wait_until_idle(sandbox, home)
            after = state(home)
            await press_all(sandbox, found)
            await wait_until_idle(sandbox, home)
            assert state(home) == after, command


async def press_all(sandbox, found):
    for data, (chat, number) in found.items():
        await sandbox.press(ADMIN, chat, number, data)
