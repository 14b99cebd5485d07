"""The `citegram` command: runs a subcommand with its settings; an error becomes one sentence and an exit code.

0 fine, 1 failed, 2 wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from bot.logs import (
    collect_secrets,
    protect_process_output,
    register_secrets,
    set_log_format,
    set_text_logging,
    set_up_logging,
)
from bot.settings import read_settings
from rag_core.errors import RagError

__all__ = ["main"]

# Command name -> module of bot/cli. Some load aiogram, which takes seconds, so only the named ones are imported.
_COMMAND_MODULES = {
    "run": "run",
    "demo": "demo",
    "ask": "ask",
    "verify": "verify",
    "import": "imports",
    "reindex": "reindex",
    "models": "models",
    "trace": "trace",
    "doctor": "doctor",
    "backup": "backups",
    "restore": "backups",
    "eval": "eval",
}


def _build_parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="citegram", description="Answers from Telegram channels, every sentence cited."
    )
    parser.add_argument("--version", action="version", version=f"citegram {version('citegram')}")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where everything lives (default: DATA__DIR or ./data)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more about what happens")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = [_COMMAND_MODULES[word] for word in argv if word in _COMMAND_MODULES]
    for module in dict.fromkeys(named or _COMMAND_MODULES.values()):
        import_module(f"bot.cli.{module}").declare(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:  # started as a process
        protect_process_output()
        os.umask(0o077)  # files written here hold channel texts: readable by the owner only
    arguments = sys.argv[1:] if argv is None else argv
    args = _build_parser(arguments).parse_args(arguments)
    set_up_logging(args.verbose or getattr(args, "chatty", False))
    try:
        settings = read_settings(data_dir=args.data)
        register_secrets(collect_secrets(settings))
        set_text_logging(settings.log.texts)
        set_log_format(settings.log.format)
        return int(asyncio.run(args.run(args, settings)))
    except RagError as exc:
        print(exc.reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
