"""The hostile posts and questions of tests/hostile, spelled out.

A row: `text`, in which {repeat} stands for `repeat` (a piece, and how many times); a post's `asked` is a question that
finds it, and its `entities` are `count` alike, each `step` units further and `shrink` units shorter.
"""

import json
import re
from functools import cache
from pathlib import Path

from sample_sizes import FULL

from rag_core.writing.prompts import load_prompt

_HERE = Path(__file__).parents[1] / "hostile"
PIECES = 8  # words in a row of a prompt that are no chance


def _rows(name):
    rows = [json.loads(line) for line in (_HERE / name).read_text(encoding="utf-8").splitlines()]
    for row in rows:
        piece, times = row.pop("repeat", ("", 0))
        row["text"] = row["text"].replace("{repeat}", piece * times)
    return rows


def posts():
    return _rows("posts.jsonl")


def questions():
    return _rows("questions.jsonl")


def every_other(rows, turn):
    """Of each kind every other row, by turns of each language, and the only row of a kind; turns 0 and 1 are all."""
    kinds = {}
    for row in rows:
        kinds.setdefault(row["kind"], []).append(row)
    return [
        row
        for turned, some in enumerate(kinds.values(), turn)
        for n, row in enumerate(some)
        if FULL or len(some) == 1 or (turned + n + n // 2) % 2 == 0
    ]


def entities(row, longest=1 << 30):
    """The entities of a post, as far as they lie within `longest` units."""
    given = dict(row.get("entities", {}))
    count, step, shrink = given.pop("count", 0), given.pop("step", 0), given.pop("shrink", 0)
    each = [given | {"offset": given["start"] + n * step, "length": given["length"] - n * shrink} for n in range(count)]
    kept = [one for one in each if one["length"] > 0 and one["offset"] + one["length"] <= longest]
    return [{name: value for name, value in one.items() if name != "start"} for one in kept]


def _shingles(text):
    words = re.findall(r"[^\W_]+", text.lower())
    return {tuple(words[n : n + PIECES]) for n in range(len(words) - PIECES + 1)}


def prompt_leaks(text):
    """Rows of words of a prompt that stand in a text."""
    return _shingles(text) & _prompt_shingles()


@cache
def _prompt_shingles():
    told = [load_prompt(name, lang).system for name in ("write", "support", "hyde") for lang in ("en", "ru")]
    return set().union(*map(_shingles, [*told, *(load_prompt(name, "all").system for name in ("plan", "judge"))]))
