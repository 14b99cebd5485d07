"""Secrets stay inside: whatever raises with a token in its address, whatever is printed, however a process ends."""

import json
import logging

import pytest
from chaos.bot_process import fork_process
from pydantic import BaseModel, SecretStr

from bot import logs
from bot.__main__ import main
from bot.logs import PrivacyFilter, collect_secrets, redact_secrets, register_secrets
from bot.settings import Settings, read_settings

TOKEN = "123456789:" + "AAE" + "x" * 32
KEY = "key-of-the-model-server"
PROXY = "socks5://porter:pass-of-the-porter@127.0.0.1:9"
SETTINGS = {"BOT__TOKEN": TOKEN, "LLM__KEY": KEY, "QDRANT__KEY": "key-of-the-vectors", "BOT__PROXY": PROXY}
SECRETS = (TOKEN, TOKEN[10:], KEY, "key-of-the-vectors", "pass-of-the-porter")

# A process of the product in which everything fails that can, with the token in what it says.
FAILS = """
import asyncio, gc, json, logging, sys, threading, types, warnings
from aiogram.exceptions import TelegramNetworkError
from aiogram.methods import GetMe
from aiohttp import ClientResponseError, RequestInfo
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL
import bot.__main__ as front
from rag_core.errors import SettingsWrong

url = "https://api.telegram.org/bot{token}/getMe"

def failed():
    known = RequestInfo(URL(url), "GET", CIMultiDictProxy(CIMultiDict()), URL(url))
    return ClientResponseError(known, (), status=404, message=f"no {{url}} with {key} by {proxy}")

class Odd:
    def __del__(self):
        raise failed()

async def run(args, settings):
    loop, log = asyncio.get_running_loop(), logging.getLogger("bot.x")
    log.error("said %s", failed())
    log.error("told", exc_info=failed(), stack_info=True)
    log.error("sent", exc_info=TelegramNetworkError(GetMe(), url))
    loop.call_exception_handler({{"message": f"lost {{url}}", "exception": failed()}})
    loop.call_soon(lambda: (_ for _ in ()).throw(failed()))
    lost = asyncio.ensure_future(asyncio.sleep(0))
    async def unheard():
        raise failed()
    task = asyncio.create_task(unheard())
    thread = threading.Thread(target=lambda: (_ for _ in ()).throw(failed()))
    thread.start(); thread.join()
    await asyncio.sleep(0.05)
    del task; gc.collect()
    warnings.warn(f"old {{url}}", stacklevel=1)
    Odd(); gc.collect()
    print(f"printed {{url}}")
    print(json.dumps({{"url": url, "key": "{key}"}}))
    print(repr(settings), file=sys.stderr)
    if "{end}" == "reason":
        raise SettingsWrong(f"{{url}} cannot be used with {proxy}.")
    raise failed()

def declare(parser, _):
    parser.set_defaults(run=run)

sys.modules["bot.cli.doctor"] = types.SimpleNamespace(declare=declare)
sys.argv = ["citegram", "doctor"]
sys.exit(front.main())
"""


def forked(log, settings, target, *args):
    """A process with these settings: its exit code, and all that it wrote."""
    process = fork_process(settings, log, target, *args)
    process.start()
    process.join(280)
    return process.exitcode, log.read_text(encoding="utf-8")


@pytest.mark.parametrize("end", ["exception", "reason"])
@pytest.mark.timeout(300)
def test_a_process_in_which_all_fails_tells_no_secret(tmp_path, end):
    code, written = forked(
        tmp_path / "log", SETTINGS, exec, FAILS.format(token=TOKEN, key=KEY, proxy=PROXY, end=end), {}
    )
    assert code == 1, written
    assert [secret for secret in SECRETS if secret in written] == []
    told = ["said", "told", "sent", "lost", "old ", "printed", "Task exception", "<secret>"]
    assert [word for word in told if word not in written] == []
    assert written.count("Traceback") >= 5
    (printed,) = (line for line in written.splitlines() if line.startswith('{"url"'))
    assert json.loads(printed)["key"] == "<secret>"
    assert written.count("nobody expected this") == 2  # of the thread and of the destructor
    assert written.endswith("cannot be used with <secret>.\n") == (end == "reason")


@pytest.mark.parametrize("words", [["doctor"], ["-v", "run"]])
@pytest.mark.timeout(300)
def test_no_command_tells_a_secret(tmp_path, words):
    odd = {"BOT__API": "http://127.0.0.1:9", "BOT__ADMINS": "1", "MODELS__EMBEDDER": "none", "LLM__MODEL": "none"}
    given = {"BOT__PROXY": "gopher://porter:pass-of-the-porter@x"} if "run" in words else {"BOT__PROXY": ""}
    _, written = forked(tmp_path / "log", SETTINGS | odd | given, main, words)
    assert written
    assert [secret for secret in SECRETS if secret in written] == []


def test_a_secret_is_known_by_its_looks_or_its_value(monkeypatch):
    monkeypatch.setattr(logs, "_known_secrets", set())
    register_secrets([KEY, "tiny"])
    assert redact_secrets(f"GET /bot{TOKEN}/getMe") == "GET /bot<token>/getMe"
    assert redact_secrets(f"by {PROXY}") == "by socks5://<secret>@127.0.0.1:9"
    assert redact_secrets(f"a tiny {KEY}.") == "a tiny <secret>."
    assert redact_secrets("at 10:30, post 1234567:ok https://t.me/x") == "at 10:30, post 1234567:ok https://t.me/x"
    assert redact_secrets("9" * 100_000) == "9" * 100_000


@pytest.mark.parametrize(
    "address",
    [
        "http://porter:pass-of-the-porter@127.0.0.1:9/v1",
        "https://:pass-of-the-porter@host/",
        "https://pass-of-the-porter@host:6333",
        "socks5://" + "u" * 300 + ":pass-of-the-porter" + "x" * 300 + "@[::1]:1080",
        f"https://api.telegram.org/bot{TOKEN.replace(':', '%3A')}/getMe",
    ],
)
def test_a_secret_in_an_address_is_left_out_however_it_is_written(address):
    said = redact_secrets(f"cannot reach {address}, trying again; see https://t.me/@news and https://host/@me")
    assert "pass-of-the-porter" not in said
    assert TOKEN.partition(":")[2] not in said
    assert said.endswith(", trying again; see https://t.me/@news and https://host/@me")


def test_the_password_of_an_address_is_known_without_it():
    llm = {"url": "http://porter:pass%2Dof-the-porter@127.0.0.1:9"}
    settings = Settings.model_validate({"llm": llm, "qdrant": {"url": "https://me:key-of-vectors@host"},
                                        "bot": {"proxy": PROXY}})  # fmt: skip
    found = set(collect_secrets(settings))
    assert {"pass-of-the-porter", "pass%2Dof-the-porter", "key-of-vectors", PROXY} <= found


def test_a_stack_in_a_record_is_looked_at_too():
    record = logging.LogRecord("x", logging.ERROR, "", 0, "%s", (TOKEN,), None, sinfo=f"Stack: {TOKEN}")
    assert PrivacyFilter().filter(record)
    assert TOKEN not in logging.Formatter().format(record)


def _trees(tree):
    below = [field.annotation for field in tree.model_fields.values()]
    return [tree, *(one for b in below if isinstance(b, type) and issubclass(b, BaseModel) for one in _trees(b))]


def test_whatever_is_named_like_a_secret_is_one():
    """`tokens` are counted, and no secret."""
    found = []
    for tree in _trees(Settings):
        for name, field in tree.model_fields.items():
            if {"token", "secret", "key", "password", "proxy"} & set(name.split("_")):
                found.append(name)
                assert field.annotation is SecretStr, f"{tree.__name__}.{name}"
    assert len(found) >= 4


def test_the_settings_do_not_show_their_secrets_and_all_are_found(monkeypatch):
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    settings = read_settings(None)
    assert not any(secret in f"{settings!r}{settings.model_dump_json()}{settings}" for secret in SECRETS)
    assert set(collect_secrets(settings)) == {TOKEN, KEY, "key-of-the-vectors", PROXY, "pass-of-the-porter"}
