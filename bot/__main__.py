"""The `citegram` command: words to settings and a function, errors to one sentence and an exit code.

0 fine, 1 failed, 2 wrong use.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from bot.settings import read_settings
from bot.tokens import TokenFilter
from rag_core.errors import RagError

__all__ = ["main"]

# By the room that declares it. Some load aiogram, which takes seconds, so only those that are named are opened.
_COMMANDS = {
    "run": "serve",
    "demo": "demo",
    "ask": "ask",
    "import": "importing",
    "reindex": "reindexing",
    "models": "models",
    "doctor": "doctor",
    "backup": "backups",
    "restore": "backups",
    "eval": "evaluate",
}


def _parser(argv: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="citegram", description="Answers from Telegram channels, every sentence cited."
    )
    parser.add_argument("--version", action="version", version=f"citegram {version('citegram')}")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where everything lives (default: DATA__DIR or ./data)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more about what happens")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    named = [_COMMANDS[word] for word in argv if word in _COMMANDS]
    for room in dict.fromkeys(named or _COMMANDS.values()):
        import_module(f"bot.commands.{room}").declare(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = sys.argv[1:] if argv is None else argv
    args = _parser(given).parse_args(given)
    _log(args.verbose or getattr(args, "chatty", False))
    try:
        return int(asyncio.run(args.run(args, read_settings(data_dir=args.data))))
    except RagError as exc:
        print(exc.reason, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _log(verbose: bool) -> None:
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING,
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")  # fmt: skip
    for handler in logging.getLogger().handlers:
        handler.addFilter(TokenFilter())


if __name__ == "__main__":
    sys.exit(main())
