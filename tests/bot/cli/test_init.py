"""`citegram init`: the token is checked with a Bot API server before it is written, and nothing else is changed."""

import argparse
import io
import stat
from pathlib import Path

import pytest

from bot.cli import run as run_command
from bot.settings import Settings
from rag_core.errors import SettingsWrong

ENV = Path(".env")


class Stdin(io.StringIO):
    """Standard input that is no terminal."""


@pytest.fixture
def init(sandbox, tmp_path, monkeypatch):
    """Run the command in an empty folder, with the sandbox as Telegram and the token from stdin."""
    monkeypatch.chdir(tmp_path)

    async def command(token, *words, api=sandbox.url):
        monkeypatch.setattr("sys.stdin", Stdin(token))
        parser = argparse.ArgumentParser()
        run_command.declare(parser, "init")
        args = parser.parse_args(words)
        return int(await args.run(args, Settings.model_validate({"bot": {"api": api}})))

    return command


async def test_a_right_token_is_written_for_its_owner_only(init, sandbox, capsys):
    assert await init(f" {sandbox.token}\n") == 0
    assert ENV.read_text() == f"BOT__TOKEN={sandbox.token}\n"
    assert stat.S_IMODE(ENV.stat().st_mode) == 0o600
    said = capsys.readouterr()
    assert sandbox.token not in said.out + said.err
    assert "citegram run, and send /start to https://t.me/" in said.out
    assert [file.name for file in Path().iterdir()] == [".env"]


@pytest.mark.parametrize("token", ["", "\n", "no token", "43:STRANGER"])
async def test_a_wrong_token_changes_nothing(init, token):
    ENV.write_text("BOT__ADMINS=1\n")
    with pytest.raises(SettingsWrong, match=r"BotFather.*\.$"):
        await init(token)
    assert ENV.read_text() == "BOT__ADMINS=1\n"


async def test_where_telegram_cannot_be_reached_a_token_is_kept_only_if_that_is_meant(
    init, sandbox, monkeypatch, capsys
):
    nowhere = "http://127.0.0.1:9"
    with pytest.raises(SettingsWrong, match=r"cannot be reached.* citegram init --unchecked\.$"):
        await init(sandbox.token, api=nowhere)
    with pytest.raises(SettingsWrong, match="is not a token"):
        await init("no token", "--unchecked", api=nowhere)
    monkeypatch.setattr("getpass.getpass", lambda prompt: sandbox.token)
    with monkeypatch.context() as patch:
        patch.setattr(Stdin, "isatty", lambda stdin: True)
        with pytest.raises(SettingsWrong, match="cannot be reached"):
            await init("n\n", api=nowhere)
        assert not ENV.exists()
        assert await init("y\n", api=nowhere) == 0
    assert ENV.read_text() == f"BOT__TOKEN={sandbox.token}\n"
    ENV.unlink()
    assert await init(sandbox.token, "--unchecked", api=nowhere) == 0
    assert ENV.read_text() == f"BOT__TOKEN={sandbox.token}\n"
    assert "The token is in .env, unchecked." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# mine\r\nBOT__ADMINS=1", "# mine\r\nBOT__ADMINS=1\nBOT__TOKEN={}\n"),
        ("# BOT__TOKEN=\n\n# Ids.\nBOT__ADMINS=1\n", "# BOT__TOKEN=\nBOT__TOKEN={}\n\n# Ids.\nBOT__ADMINS=1\n"),
        ("export BOT__TOKEN =\nX=é\n", "BOT__TOKEN={}\nX=é\n"),
        ("BOT__TOKEN='{}'\r\nX=1\r\n", "BOT__TOKEN={}\r\nX=1\r\n"),
        ("MY_BOT__TOKEN=2\nX=BOT__TOKEN=1\n", "MY_BOT__TOKEN=2\nX=BOT__TOKEN=1\nBOT__TOKEN={}\n"),
    ],
)
async def test_other_lines_stay_as_they_are(init, sandbox, before, after):
    ENV.write_bytes(before.format(sandbox.token).encode())
    ENV.chmod(0o644)
    assert await init(sandbox.token) == 0
    assert ENV.read_bytes().decode() == after.format(sandbox.token)
    assert stat.S_IMODE(ENV.stat().st_mode) == 0o600


async def test_another_token_is_replaced_only_when_that_is_meant(init, sandbox, monkeypatch):
    other = "BOT__TOKEN=7:OTHER\n"
    ENV.write_text(other)
    with pytest.raises(SettingsWrong, match="--replace"):
        await init(sandbox.token)
    monkeypatch.setattr(Stdin, "isatty", lambda stdin: True)
    monkeypatch.setattr("getpass.getpass", lambda prompt: sandbox.token)
    assert await init("n\n") == 1
    assert ENV.read_text() == other
    assert await init("y\n") == 0
    assert ENV.read_text() == f"BOT__TOKEN={sandbox.token}\n"
    ENV.write_text(other)
    assert await init("", "--replace") == 0
    assert ENV.read_text() == f"BOT__TOKEN={sandbox.token}\n"


async def test_a_link_stays_a_link_and_a_token_of_the_environment_is_mentioned(init, sandbox, monkeypatch, capsys):
    Path("real").write_text("")
    ENV.symlink_to("real")
    monkeypatch.setenv("BOT__TOKEN", "7:OTHER")
    assert await init(sandbox.token) == 0
    assert ENV.is_symlink()
    assert Path("real").read_text() == f"BOT__TOKEN={sandbox.token}\n"
    assert "environment" in capsys.readouterr().err
