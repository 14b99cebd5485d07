"""`citegram init` and `run`: set-up and start of the bot."""

import argparse
import getpass
import logging
import os
import re
import shutil
import sys
from pathlib import Path

from aiogram.exceptions import AiogramError, TelegramNetworkError
from pydantic import SecretStr

from bot.app import run_bot
from bot.data_folder import find_exposed_files, open_private_file
from bot.doctor.telegram_checks import check_proxy, explain_call_error, open_bot
from bot.logs import register_secrets
from bot.settings import BotSettings, Settings, read_settings
from rag_core.errors import SettingsWrong, translate_errors
from rag_core.processes import limit_malloc_arenas

log = logging.getLogger(__name__)

# A thread that searches holds Python's lock for this long while others ask for it. The event loop gives the lock away
# with every read: at the usual 5 ms it waited longer, and 100 questions at once took a quarter longer.
_THREAD_SWITCH_SECONDS = 0.0005


def declare(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments to the parser of `init`; `run` has none."""
    if name == "run":
        parser.set_defaults(run=run, chatty=True)
        return
    replace = "replace another token in .env without asking (default: ask)"
    parser.add_argument("--replace", action="store_true", help=replace)
    unchecked = "keep the token without asking Telegram (default: check it)"
    parser.add_argument("--unchecked", action="store_true", help=unchecked)
    parser.set_defaults(run=_run_init)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until stopped. Returns the exit code."""
    limit_malloc_arenas()
    sys.setswitchinterval(_THREAD_SWITCH_SECONDS)
    for sentence in find_exposed_files(_ENV_FILE, settings.data.dir):
        log.warning("%s", sentence)
    await run_bot(settings)
    return 0


_ENV_FILE = Path(".env")
_TOKEN_LINE = re.compile(r"[ \t]*(?:export[ \t]+)?BOT__TOKEN[ \t]*=[ \t]*(.*?)[ \t]*(\r?\n|$)", re.IGNORECASE)
_COMMENTED_TOKEN_LINE = re.compile(r"[ \t]*#[ \t]*BOT__TOKEN[ \t]*=", re.IGNORECASE)
_MAX_TOKEN_LENGTH = 200
_NO_TOKEN_TEXT = "No token came: run citegram init again, and paste the one that @BotFather gave you."  # noqa: S105
_NOT_WRITABLE_TEXT = f"{_ENV_FILE} cannot be read and written ({{}}): look at the file, then try again."


async def _run_init(args: argparse.Namespace, settings: Settings) -> int:
    token = ""
    if sys.stdin is not None and sys.stdin.isatty():
        print("Get a token: open https://t.me/BotFather, send /newbot, and copy what it gives you.")
        token = getpass.getpass("Token (it stays hidden): ").strip()
    elif sys.stdin is not None:
        with translate_errors(SettingsWrong, UnicodeDecodeError, say=_NO_TOKEN_TEXT):
            token = sys.stdin.readline(_MAX_TOKEN_LENGTH).strip()
    if not token:
        raise SettingsWrong(_NO_TOKEN_TEXT)
    register_secrets([token])
    chosen = settings.bot.model_copy(update={"token": SecretStr(token)})
    name = await _check_token(chosen, ask=not args.unchecked)
    with translate_errors(SettingsWrong, OSError, UnicodeDecodeError, say=_NOT_WRITABLE_TEXT):
        lines = _ENV_FILE.read_bytes().decode().splitlines(keepends=True) if _ENV_FILE.exists() else []
    others = {found[1].strip("\"'") for line in lines if (found := _TOKEN_LINE.fullmatch(line))} - {"", token}
    if others and not args.replace:
        if not sys.stdin.isatty():
            raise SettingsWrong(f"{_ENV_FILE} has another token: add --replace to put this one in its place.")
        if not _confirm(f"{_ENV_FILE} has another token. Replace it by {f'that of @{name}' if name else 'this one'}?"):
            print("Nothing was changed.")
            return 1
    with translate_errors(SettingsWrong, OSError, say=_NOT_WRITABLE_TEXT):
        _write_private_file(_ENV_FILE, "".join(_set_token(lines, token)))
    print(f"The token of @{name} is in {_ENV_FILE}." if name else f"The token is in {_ENV_FILE}, unchecked.")
    given = Path(sys.argv[0])  # this program by its path, where the shell would not find it
    command = "citegram" if given.name != "citegram" or shutil.which("citegram") else str(given)
    print(f"Now start the bot with {command} run, and send /start to {f'https://t.me/{name}' if name else 'it'}.")
    if read_settings(_ENV_FILE).bot.token.get_secret_value() != token:
        text = "BOT__TOKEN is also set in the environment, which goes before .env: take it out there."
        print(text, file=sys.stderr)
    return 0


async def _check_token(settings: BotSettings, *, ask: bool) -> str:
    """Check a token, unless `ask` is false also with Telegram. Raises SettingsWrong.

    Returns the bot's name; "" where the token is kept though Telegram was not asked or cannot be reached.
    """
    async with open_bot(settings) as bot:
        if not ask:
            return ""
        await check_proxy(settings)
        try:
            return (await bot.get_me()).username or ""
        except (AiogramError, TimeoutError) as exc:
            reason = explain_call_error(exc, settings)
            if isinstance(exc, TelegramNetworkError | TimeoutError):
                if sys.stdin.isatty() and _confirm(f"{reason}\nKeep the token without a check?"):
                    return ""
                reason = f"{reason} To keep the token without a check: citegram init --unchecked."
            raise SettingsWrong(reason) from None


def _confirm(question: str) -> bool:
    return input(f"{question} [y/N] ").strip().lower() in {"y", "yes"}


def _set_token(lines: list[str], token: str) -> list[str]:
    """Set the token in the lines of a file: in its own line, else below the one that is commented out, else last."""
    wanted = f"BOT__TOKEN={token}"
    if any(map(_TOKEN_LINE.fullmatch, lines)):
        return [f"{wanted}{found[2]}" if (found := _TOKEN_LINE.fullmatch(line)) else line for line in lines]
    place = next((n for n, line in enumerate(lines, 1) if _COMMENTED_TOKEN_LINE.match(line)), len(lines))
    before = lines[:place]
    if before and not before[-1].endswith("\n"):
        before[-1] += "\n"
    return [*before, f"{wanted}\n", *lines[place:]]


def _write_private_file(file: Path, text: str) -> None:
    """Replace a file, or what it links to, by one that only its owner may read. It is whole at every moment."""
    target = file.resolve()
    new = target.with_name(f"{target.name}.{os.getpid()}.new")
    try:
        with open_private_file(new) as written:
            written.write(text.encode())
            written.flush()
            os.fsync(written.fileno())
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)
