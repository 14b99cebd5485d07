import asyncio

import pytest
from chaos.bot_process import fork_process
from driver import HARBOUR, OTTO

from bot.data_folder import find_exposed_files

EXPORT = b"""{"name": "Bakery", "type": "public_channel", "id": 77, "messages": [
 {"id": 1, "type": "message", "date_unixtime": "1700000000", "text": "Rolls are ready at six in the morning."}]}"""


RUN = "import os, sys; from bot.__main__ import main; os.umask(0o022); sys.argv[1:] = {}; sys.exit(main())"


@pytest.mark.timeout(300)  # two processes start
async def test_a_session_leaves_only_private_files(sandbox, tmp_path):
    given = {"BOT__TOKEN": sandbox.token, "BOT__API": sandbox.url, "DATA__DIR": "home",
             "MODELS__EMBEDDER": "none", "LLM__MODEL": "none", "BOT__ADMINS": "501"}  # fmt: skip
    bot, backup = (fork_process(given, tmp_path / "log", exec, RUN.format([word]), {}) for word in ("run", "backup"))
    bot.start()
    try:
        async with asyncio.timeout(200):
            while not any(call["method"] == "getUpdates" for call in sandbox.transcript):  # noqa: ASYNC110 - no bell rings
                await asyncio.sleep(0.05)
        await sandbox.post(HARBOUR, "The ferry leaves at seven from pier four.")
        await sandbox.send_file(501, "result.json", EXPORT, "/import")
        await sandbox.say(OTTO, "When does the ferry leave?")
        await sandbox.replies(OTTO, timeout=100)
        walk(tmp_path / "home")  # while it runs: the socket and what is half done too
    finally:
        bot.terminate()
        await asyncio.to_thread(bot.join)
    assert bot.exitcode == 0
    backup.start()
    await asyncio.to_thread(backup.join)
    assert backup.exitcode == 0
    found = walk(tmp_path / "home")
    assert {"citegram.db", "citegram.lock"} <= found
    assert len(found) > 5


def walk(folder):
    """The names of all below a folder, after their modes were looked at."""
    found = {folder, *folder.rglob("*")}
    modes = {}
    for path in found:
        try:
            modes[path] = path.lstat().st_mode
        except FileNotFoundError:  # a journal comes and goes
            continue
    assert [str(path) for path, mode in modes.items() if mode & 0o077] == []
    return {path.name for path in modes}


@pytest.mark.parametrize(("mode", "said"), [(0o644, 1), (0o640, 1), (0o600, 0)])
def test_settings_that_others_may_read_are_said(tmp_path, mode, said):
    env, home = tmp_path / ".env", tmp_path / "data"
    home.mkdir(mode=0o700)
    env.touch()
    env.chmod(mode)
    (home / "citegram.db").touch(mode=0o644)
    found = list(find_exposed_files(env, home))
    assert len(found) == said
    assert all("chmod 600" in sentence for sentence in found)
    home.chmod(0o755)
    assert len(list(find_exposed_files(env, home))) == said + 1
    assert list(find_exposed_files(tmp_path / "none", tmp_path / "nothing")) == []
