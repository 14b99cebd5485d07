"""`citegram completion bash|zsh`: a script that completes commands and options."""

from __future__ import annotations

import argparse

from bot.settings import Settings

_BASH_SCRIPT = """\
_citegram() {{
  local words="" path="" word
  for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
    case "$path/$word" in {paths}) path="$path/$word" ;; esac
  done
  case "$path" in
{cases}
  esac
  COMPREPLY=($(compgen -W "$words" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _citegram citegram"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of the command."""
    parser.add_argument("shell", choices=("bash", "zsh"), help="the shell that the script is for")
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the script. Returns the exit code."""
    from bot.__main__ import COMMANDS, CommandParser, build_parser

    words_by_path: dict[str, str] = {}

    def collect(parser: CommandParser, path: str) -> None:
        below = parser.list_subparsers()
        words_by_path[path] = " ".join([*(word for word in parser.list_own_words() if word not in below), *below])
        for name, one in below.items():
            collect(one, f"{path}/{name}")

    collect(build_parser(tuple(COMMANDS)), "")
    cases = "\n".join(f'    "{path}") words="{words}" ;;' for path, words in words_by_path.items())
    script = _BASH_SCRIPT.format(paths="|".join(path for path in words_by_path if path), cases=cases)
    print(("autoload -U +X bashcompinit && bashcompinit\n" if args.shell == "zsh" else "") + script)
    return 0
