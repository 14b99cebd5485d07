import resource
import sqlite3
from contextlib import closing
from statistics import median

from sample_sizes import choose_size
from slow_model import SlowLlm, use_writer

READERS = range(10_000, 10_000 + choose_size(200, 20))
MOST_KB = min(100_000, 2500 * len(READERS))  # more memory than before they asked
WRITTEN = "The ferry leaves at 7:30 every morning. [1]\n"


async def test_readers_at_once_wait_fairly_and_all_are_answered(sandbox, live, home, monkeypatch):
    use_writer(monkeypatch, SlowLlm(WRITTEN, 0.05))
    for reader in READERS:
        sandbox.world.add_person(reader, f"R{reader}")
    async with live():
        for reader in READERS:
            await sandbox.say(reader, f"When does the ferry to Owl Island leave, asks {reader}?")
        begun, before = sandbox.world.clock(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for reader in READERS:
            (reply,) = await sandbox.replies(reader, timeout=60)
            assert "Written by slow" in reply["text"]
    came = {int(c["params"]["chat_id"]): c["at"] - begun for c in sandbox.transcript if c["method"] == "sendMessage"}
    assert set(came) == set(READERS)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KB
    assert max(came.values()) <= 2.5 * median(came.values())
    with closing(sqlite3.connect(home / "citegram.db")) as archive:
        states = archive.execute("SELECT state, count(*) FROM questions GROUP BY state").fetchall()
    assert states == [("answered", len(READERS))]
