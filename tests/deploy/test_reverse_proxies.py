"""The proxies of deploy/README.md, word for word, between the sandbox's Telegram and the bot."""

import asyncio
import os
import re
import shutil
from contextlib import asynccontextmanager

import aiohttp
import pytest
from driven_sandbox import DrivenSandbox
from local_server import find_free_port

from bot.cli.demo import run_demo_bot
from bot.settings import Settings

OTTO = 502
URL = "https://bot.example.org/telegram/f3a9"
SECRET = "of-the-tests"


def configured(root, name, bot, proxy, folder):
    """The snippet of the page, with these ports and without a certificate."""
    page = (root / "deploy" / "README.md").read_text("utf-8")
    (snippet,) = re.findall(rf"```{name}\n(.*?)```", page, re.DOTALL)
    assert "127.0.0.1:8080" in snippet
    snippet = snippet.replace("127.0.0.1:8080", f"127.0.0.1:{bot}")
    if name == "caddy":
        return "{\n admin off\n}\n" + snippet.replace("bot.example.org", f"http://:{proxy}", 1)
    temporary = "".join(
        f"{what}_temp_path {folder}/{what};" for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    server = f"server {{ listen 127.0.0.1:{proxy}; {snippet} }}"
    # Its workers are nobody otherwise, and this folder is root's.
    user = "" if os.getuid() else "user root;"
    return f"{user} daemon off; pid {folder}/pid; events {{}} http {{ access_log off; {temporary} {server} }}"


@asynccontextmanager
async def standing(root, name, bot, folder):
    """The proxy, from when it listens to when it has ended."""
    command = shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")
    if command is None:
        pytest.skip(f"{name} is not here: apt-get install {name}")
    port, file = find_free_port(), folder / name
    file.write_text(configured(root, name, bot, port, folder), "utf-8")
    words = {
        "nginx": ["-e", "stderr", "-c", str(file)],
        "caddy": ["run", "--adapter", "caddyfile", "--config", str(file)],
    }
    process = await asyncio.create_subprocess_exec(
        command, *words[name], env={"HOME": str(folder)}, stderr=asyncio.subprocess.DEVNULL
    )
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    assert process.returncode is None
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


@pytest.mark.parametrize("name", ["nginx", "caddy"])
async def test_a_question_gets_through_the_proxy_of_the_page_and_nobody_else_does(root, tmp_path, name):
    sandbox, port = DrivenSandbox(), find_free_port()
    sandbox.world.add_person(OTTO, "Otto", lang="en")
    sandbox.hooks.unit = 0.01
    await sandbox.start()
    given = {"bot": {"token": sandbox.token, "api": sandbox.url, "admins": (OTTO,)}}
    given |= {"data": {"dir": tmp_path / "data"}, "webhook": {"url": URL, "secret": SECRET, "port": port}}
    try:
        async with standing(root, name, port, tmp_path) as proxy, run_demo_bot(Settings.model_validate(given)):
            sandbox.hooks.behind["https://bot.example.org"] = proxy
            await sandbox.say(OTTO, "/help")
            (reply,) = await sandbox.replies(OTTO, timeout=60)
            assert reply["text"].startswith("Just write your question")
            assert await knock(f"{proxy}/telegram/f3a9", "wrong") == 401
            assert await knock(f"{proxy}/telegram/f3a9/x", SECRET) == 404
            sandbox.push({"brand_new_kind": {"text": "x" * 3_000_000}})
            assert await sandbox.world.queue.bell.until(lambda: not sandbox.world.queue.kept, 60)
    finally:
        await sandbox.stop()


async def knock(address, secret):
    headers = {"X-Telegram-Bot-Api-Secret-Token": secret}
    async with aiohttp.ClientSession() as http, http.post(address, json={"update_id": 1}, headers=headers) as answer:
        return answer.status
