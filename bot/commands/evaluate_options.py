"""The options that the evaluations share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from bot.evaluation.ways import RECIPES

__all__ = ["among", "data", "figures", "models", "share", "ways"]


def data(parser: argparse.ArgumentParser) -> None:
    """What is asked, of which posts."""
    parser.add_argument(
        "folder", type=Path, metavar="DIR", help="folder with queries.jsonl and corpus.jsonl or an export"
    )
    parser.add_argument(
        "--distractors", type=Path, nargs="+", default=[], metavar="FILE", help="posts added to the corpus"
    )
    among(parser, "questions")


def among(parser: argparse.ArgumentParser, what: str) -> None:
    """How many of the rows are measured, and which."""
    parser.add_argument("--limit", type=_count, metavar="N", help=f"only so many {what}: the first")
    parser.add_argument("--seed", type=_seed, metavar="N", help=f"with --limit: {what} drawn by this number instead")


def models(parser: argparse.ArgumentParser) -> None:
    """With which of the models."""
    legs = "which search legs (default: both, where a model was pulled)"
    parser.add_argument("--legs", choices=("lexical", "dense", "hybrid"), help=legs)
    parser.add_argument("--rerank", choices=("on", "off"), help="with the reranker or without (default: on, if pulled)")


def ways(parser: argparse.ArgumentParser, known: Collection[str]) -> None:
    """In which way, or in which ways beside each other."""
    parser.add_argument(
        "--recipe", type=_recipe, default="direct", metavar="NAME", help=f"how answers are made: {', '.join(RECIPES)}"
    )
    plan = "off: the question as the one query, no filters, both legs (default: on)"
    parser.add_argument("--plan", choices=("on", "off"), default="on", help=plan)
    compare = f"the same questions in several ways, the first being what the others are measured by: {', '.join(known)}"
    parser.add_argument("--compare", type=_names(known), metavar="A,B", help=compare)


def figures(parser: argparse.ArgumentParser, plot: str = "") -> None:
    """Where the figures go; `plot` says what a picture of them shows."""
    parser.add_argument("--json", type=Path, metavar="OUT", dest="json_out", help="write the figures to a file")
    if plot:
        parser.add_argument("--plot", type=_picture, metavar="OUT.png", help=f"draw {plot} (needs citegram[plots])")


def share(text: str) -> float:
    """A share between 0 and 1. Raises ArgumentTypeError."""
    with suppress(ValueError):
        if 0 < (found := float(text)) < 1:
            return found
    raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1, such as 0.05")


def _count(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0, such as 50")
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number, such as 42")
    return int(text)


def _recipe(text: str) -> str:
    if text not in RECIPES:
        raise argparse.ArgumentTypeError(f"{text!r} is no recipe: there is {', '.join(RECIPES)}")
    return text


def _names(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def parsed(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name!r} cannot be compared: there are {', '.join(known)}")
        if len(names) < 2:
            raise argparse.ArgumentTypeError(f"{text!r} names one thing: two are compared, such as plan-on,plan-off")
        return names

    return parsed


def _picture(text: str) -> Path:
    if not text.lower().endswith(".png"):
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a picture, such as recall.png")
    return Path(text)
