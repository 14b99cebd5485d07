"""The `citegram` command: runs a subcommand with its settings; an error becomes one sentence and an exit code.

0 fine, 1 failed, 2 wrong use. Only the module of the given command is imported: some load aiogram, which takes seconds.
"""

from __future__ import annotations

import argparse
import difflib
import errno
import gc
import os
import re
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn


class Command(NamedTuple):
    """Command of the terminal: module of bot/cli, help in one line, and examples."""

    module: str
    help: str
    examples: tuple[str, ...]  # those of a subcommand begin with both names


COMMANDS = {
    "demo": Command(
        "demo", "try everything on this machine: no token, no network",
        ("demo", 'demo --once "How much is the upgrade arm?"'),
    ),
    "init": Command("run", "put your bot's token into .env, and check it", ("init", "init < token.txt")),
    "run": Command("run", "run the bot (needs a token: citegram init)", ("run", "--data /srv/citegram run")),
    "import": Command(
        "data", "import an export of Telegram Desktop (result.json)",
        ("import ChatExport/result.json", "import ChatExport --username @channel"),
    ),
    "history": Command(
        "data", "fetch the channels' earlier posts from Telegram; how far that is",
        ("history", "history estimate @channel", "history begin @channel --since 2024-01-01",
         "history pause @channel"),
    ),
    "media": Command(
        "data", "pictures, voices and documents of posts: how many are read; read the rest",
        ("media", "media read", "media pause"),
    ),
    "ask": Command(
        "ask", "ask one question; you may read every channel",
        ('ask "what is new?"', 'ask "How much is membership?" --trace', "ask < question.txt"),
    ),
    "chat": Command("ask", "talk to your channels; it remembers what you asked", ("chat", "chat --recipe agent")),
    "verify": Command(
        "ask", "check what a text claims against the posts",
        ('verify "The bus costs 40 rubles."', "verify < article.txt"),
    ),
    "mcp": Command(
        "mcp", "let an assistant ask your channels (MCP over stdin and stdout)", ("mcp", "mcp --as-reader"),
    ),
    "digest": Command("ask", "what is new, each event once", ("digest", "digest --days 1 --json")),
    "doctor": Command("doctor", "check everything, and say what to do", ("doctor", "doctor --json")),
    "models": Command(
        "models", "list the models, get them, choose among them",
        ("models list", "models list --all", "models pull offline-writer", "models use offline-writer"),
    ),
    "reindex": Command(
        "data", "build the search anew; the old one answers meanwhile",
        ("reindex", "reindex --channel @channel"),
    ),
    "backup": Command("data", "back the posts up now, also while the bot runs", ("backup",)),
    "restore": Command(
        "data", "put a backup back; the bot must be stopped",
        ("restore", "restore data/backups/citegram-20250101-031500.db"),
    ),
    "trace": Command("data", "how an answer was made: stages, timings, counts", ("trace 3f9a0c1d --json",)),
    "eval": Command(
        "eval", "measure how good the answers are, on your own questions",
        ("eval make mine", "eval answers mine --compare direct,agent", "eval retrieval mine --all",
         "eval talk talk.jsonl", "eval followups mine", "eval plans mine/queries.jsonl --model model.gguf",
         "eval judge mine --limit 40", "eval verify mine", "eval calibrate mine"),
    ),
}  # fmt: skip


def _is_command_of_chat(name: str) -> bool:
    from bot.views.format import BOT_COMMANDS  # with aiogram, which takes a second

    return name in BOT_COMMANDS


class CommandParser(argparse.ArgumentParser):
    """Argument parser that suggests the nearest command, option or value for a misspelt one."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and exit with 2."""
        if found := re.search(r"invalid choice: '([^']*)'|unrecognized arguments: (-\S+)", message):
            wrong = found[1] or found[2]
            near = difflib.get_close_matches(wrong, self.list_words(), 1)
            if wrong.partition("=")[0] in self._option_string_actions:
                message = f"put {wrong} before the command: citegram {wrong} …"
            elif message.startswith("argument COMMAND:") and _is_command_of_chat(wrong):
                message = f"there is no {wrong} on the terminal: send /{wrong} to the bot"
            elif near and near[0] != wrong:  # an option of another command is spelt rightly
                message = f"there is no {wrong}; did you mean {near[0]}?"
            elif message.startswith("argument COMMAND:"):
                message = f"there is no {wrong}: citegram --help lists the commands"
        super().error(message)

    def set_examples(self, examples: Sequence[str]) -> None:
        """Show the examples below the help, and below that of each subcommand its own."""
        self.formatter_class = argparse.RawDescriptionHelpFormatter
        self.epilog = "\n".join(["examples:", *(f"  citegram {example}" for example in examples)])
        for parser in self.list_subparsers().values():
            parser.set_examples([one for one in examples if f"citegram {one} ".startswith(f"{parser.prog} ")])

    def list_words(self) -> Iterator[str]:
        """List the words that may be written, also after a subcommand: options, commands, values."""
        for action in self._actions:
            yield from action.option_strings
            yield from map(str, action.choices or ())
        for parser in self.list_subparsers().values():
            yield from parser.list_words()

    def list_subparsers(self) -> dict[str, CommandParser]:
        """List the parsers of the subcommands by name."""
        return {
            name: parser
            for action in self._actions
            if isinstance(action, argparse._SubParsersAction)
            for name, parser in action.choices.items()
        }


class _PrintAbout(argparse.Action):
    """Prints the version, or what can be set: no setting is read, as one of `.env` may have a mistake."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        if self.dest == "version":
            from importlib.metadata import version

            print(f"citegram {version('citegram')}")
        else:
            from bot.settings import format_settings

            print(format_settings())
        parser.exit()


def build_parser(named: Sequence[str]) -> CommandParser:
    """Build the parser; only the commands among `named` get their arguments."""
    parser = CommandParser(prog="citegram", description="Answers from Telegram channels, every sentence cited.")
    parser.set_examples(("demo", "init", 'ask "what is new?"', "ask --help"))
    parser.add_argument("--version", action=_PrintAbout, nargs=0, help="show the version and exit")
    parser.add_argument("--settings", action=_PrintAbout, nargs=0, help="show all settings and exit")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="where everything lives (default: DATA__DIR or ./data)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="say more about what happens")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        added = commands.add_parser(name, description=command.help, help=command.help)
        if name in named:
            import_module(f"bot.cli.{command.module}").declare(added, name)
            added.set_examples(command.examples)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; 130 after Ctrl-C, 141 where nobody reads the output any more."""
    try:
        return _run_command(argv)
    except KeyboardInterrupt:
        print("\nStopped.", file=sys.stderr)
        return 130
    except OSError as exc:
        enough = isinstance(exc, BrokenPipeError)  # for who reads the output, such as head
        if not enough and exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if enough:
            return 141
        print("The disk is full: free some space, then run the command again.", file=sys.stderr)
        return 1


def _stop_at_once(*_: object) -> NoReturn:
    os.write(sys.stderr.fileno(), b"\nStopped.\n")
    os._exit(130)


def _run_command(argv: Sequence[str] | None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    if argv is None:  # started as a process
        gc.disable()  # what modules make stays: looking for garbage among it takes a tenth of the start
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where a shell has it ignored
            # An exception that is raised in a callback of the garbage of an import is dropped: the command would go on.
            signal.signal(signal.SIGINT, _stop_at_once)
    parser = build_parser(arguments)
    if not arguments:
        parser.print_help(sys.stderr)
        return 2
    args = parser.parse_args(arguments)
    # After the parser: help and wrong use need none of it.
    import asyncio

    from bot import logs
    from bot.settings import read_settings
    from rag_core.errors import RagError

    if argv is None:
        if signal.getsignal(signal.SIGINT) is _stop_at_once:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        gc.freeze()
        gc.enable()
        logs.protect_process_output()
        os.umask(0o077)  # files written here hold channel texts: readable by the owner only
    logs.set_up_logging(args.verbose or getattr(args, "chatty", False))
    try:
        settings = read_settings(data_dir=args.data)
        logs.register_secrets(logs.collect_secrets(settings))
        logs.set_text_logging(settings.log.texts)
        logs.set_log_format(settings.log.format)
        return int(asyncio.run(args.run(args, settings)))
    except KeyboardInterrupt:
        print(f"\n{getattr(args, 'stopped', 'Stopped.')}", file=sys.stderr)
        return 130
    except RagError as exc:
        reason = exc.reason  # names options of the terminal, where the bot's sentence names its commands
        if lang := getattr(args, "lang", ""):  # of the question
            from bot.i18n import get_translator

            reason = get_translator(lang).error(exc)
        print(reason, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
