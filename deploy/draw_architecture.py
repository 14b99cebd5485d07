"""The picture of ARCHITECTURE.md: packages, storage and indexes, the path of a question and of a post.

Run it with .venv/bin/python deploy/draw_architecture.py, in the development environment (make test).
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

PICTURE = Path(__file__).parent / "pictures" / "architecture.png"

INK, SOFT, LINE = "#22303c", "#5d6b78", "#b9c4cd"
QUESTION, POST = "#2f6fde", "#e0762a"
TELEGRAM, BOT, CORE, INGEST, STORES = "#e3f1fb", "#f1f6fd", "#f3f1fc", "#fef4e9", "#eef6f0"

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, bottom, width, height


def card(ax: Axes, box: Box, colour: str, title: str = "", about: str = "", *, at: Point = (2.2, 2.7)) -> None:
    """A package: a light field with its name and what it is for, `at` so far from its upper left corner."""
    left, bottom, width, height = box
    style = "round,pad=0,rounding_size=1.6"
    ax.add_patch(FancyBboxPatch((left, bottom), width, height, boxstyle=style, fc=colour, ec=LINE, lw=1.1))
    x, y = left + at[0], bottom + height - at[1]
    ax.text(x, y, title, fontsize=15, fontweight="bold", color=INK, va="center")
    ax.text(x, y - 1.7, about, fontsize=9.6, color=SOFT, va="top", linespacing=1.4)


def chip(ax: Axes, box: Box, name: str, about: str = "", number: str = "", colour: str = QUESTION) -> None:
    """A part of a package, with the number of its line in the page."""
    left, bottom, width, height = box
    style = "round,pad=0,rounding_size=1.0"
    ax.add_patch(FancyBboxPatch((left, bottom), width, height, boxstyle=style, fc="white", ec=LINE, lw=1.1, zorder=3))
    middle = left + width / 2
    ax.text(middle, bottom + height * (0.64 if about else 0.5), name, fontsize=11, fontweight="bold", color=INK,
            ha="center", va="center", zorder=4)  # fmt: skip
    ax.text(middle, bottom + height * 0.3, about, fontsize=8.6, color=SOFT, ha="center", va="center", zorder=4)
    if number:
        badge(ax, (left + 0.4, bottom + height), number, colour)


def badge(ax: Axes, at: Point, number: str, colour: str) -> None:
    """The number of a line in the page, on a dot."""
    ax.text(*at, number, fontsize=8.6, fontweight="bold", color="white", ha="center", va="center", zorder=6,
            bbox={"boxstyle": "circle,pad=0.28", "fc": colour, "ec": "white", "lw": 1.2})  # fmt: skip


def arrow(ax: Axes, start: Point, end: Point, colour: str, *, bend: float = 0.0, width: float = 2.0) -> None:
    """A step of a path."""
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=13, lw=width, color=colour, shrinkA=0, shrinkB=0,
                        connectionstyle=f"arc3,rad={bend}", zorder=5)
    )  # fmt: skip


def may_import(ax: Axes, start: Point, end: Point) -> None:
    """An arrow between packages."""
    ax.add_patch(
        FancyArrowPatch(start, end, arrowstyle="simple,head_length=9,head_width=15,tail_width=6", color="#aab5bf",
                        shrinkA=0, shrinkB=0, zorder=2)
    )  # fmt: skip


def packages(ax: Axes) -> None:
    """The fields, from the outside in."""
    card(ax, (4, 84, 152, 8.6), TELEGRAM)
    ax.text(80, 88.3, "Telegram", fontsize=15, fontweight="bold", color=INK, ha="center", va="center")
    ax.text(9, 88.3, "readers and groups ask", fontsize=11, color=QUESTION, va="center")
    ax.text(151, 88.3, "channels post and edit", fontsize=11, color=POST, va="center", ha="right")
    about = "polls or has a webhook,\ndecides who may read what;\nmonitoring and doctor look on"
    card(ax, (4, 61, 152, 17), BOT, "bot", about, at=(61.5, 4.6))
    card(ax, (4, 33.5, 106, 21.5), CORE, "rag_core", "a question in, a cited answer out")
    card(ax, (116, 33.5, 40, 21.5), INGEST, "ingest", "posts into indexes", at=(15.5, 2.7))
    card(
        ax,
        (4, 9, 152, 18),
        STORES,
        "rag_core: storage, index, models, llm",
        "what touches the disk, a model or a server",
    )
    for start, end in (((34, 61), (34, 55.6)), ((151, 61), (151, 55.6)), ((116, 36), (110.6, 36)),
                       ((22, 33.5), (22, 27.6))):  # fmt: skip
        may_import(ax, start, end)


def question(ax: Axes) -> None:
    """The path of a question, left to right and back."""
    y = 64
    chip(ax, (8, y, 17, 8), "dispatcher", "each update once", "2")
    chip(ax, (29, y, 14, 8), "access", "who may read", "3")
    chip(ax, (47, y, 14, 8), "worker", "fair order", "4")
    chip(ax, (92.5, y, 15, 8), "views", "text and links", "10")
    chip(ax, (8, 36, 30, 11), "recipes", "direct · agent · mapreduce\ncouncil · react; shared: steps")
    stages = (("plan", "5"), ("search", "6"), ("rerank", "7"), ("write", "8"), ("cite, verify", "9"))
    lefts = (49, 61, 72.5, 84, 93.5)
    widths = (10, 9.5, 9.5, 7.5, 13)
    for (name, number), left, width in zip(stages, lefts, widths, strict=True):
        chip(ax, (left, 37.5, width, 8), name, number=number)
    for n in range(4):
        arrow(ax, (lefts[n] + widths[n], 41.5), (lefts[n + 1], 41.5), QUESTION)
    arrow(ax, (38, 41.5), (49, 41.5), LINE, width=1.4)
    arrow(ax, (16.5, 84), (16.5, 72), QUESTION)
    badge(ax, (16.5, 81), "1", QUESTION)
    arrow(ax, (25, 68), (29, 68), QUESTION)
    arrow(ax, (43, 68), (47, 68), QUESTION)
    arrow(ax, (54, 64), (54, 45.5), QUESTION)
    arrow(ax, (100, 45.5), (100, 64), QUESTION)
    arrow(ax, (100, 72), (100, 84), QUESTION)


def post(ax: Axes) -> None:
    """The path of a post, into the archive and both indexes."""
    chip(ax, (137, 64, 15, 8), "session", "keeps, confirms", "2", POST)
    chip(ax, (116.5, 64, 14, 8), "indexing", "wakes", "3", POST)
    row = (("inbox", "4"), ("parse", "5"), ("store", "6"))
    for (name, number), left in zip(row, (118.5, 131, 143.5), strict=True):
        chip(ax, (left, 42.3, 10, 5), name, "", number, POST)
    for name, number, left in (("dedup", "7", 143.5), ("words", "8", 131), ("vectors", "9", 118.5)):
        chip(ax, (left, 35, 10, 5), name, "", number, POST)
    arrow(ax, (144.5, 84), (144.5, 72), POST)
    badge(ax, (144.5, 81), "1", POST)
    arrow(ax, (137, 68), (130.5, 68), POST)
    arrow(ax, (123.5, 64), (123.5, 47.3), POST)
    for start, end in (((128.5, 44.8), (131, 44.8)), ((141, 44.8), (143.5, 44.8)), ((148.5, 42.3), (148.5, 40)),
                       ((143.5, 37.5), (141, 37.5)), ((131, 37.5), (128.5, 37.5))):  # fmt: skip
        arrow(ax, start, end, POST)
    arrow(ax, (136, 35), (136, 27.2), POST)
    badge(ax, (136, 31.2), "10", POST)


def stores(ax: Axes) -> None:
    """Storage, indexes and models, and what each stands on."""
    behind = (
        ("storage", "SQLite: the truth"),
        ("index: words", "BM25: folder or Qdrant"),
        ("index: vectors", "meaning: folder or Qdrant"),
        ("models", "ONNX: embed, rerank"),
        ("llm", "llama.cpp or a server"),
        ("download", "hub, packages"),
    )
    for n, (name, about) in enumerate(behind):
        chip(ax, (8 + 24.4 * n, 11, 21.5, 8), name, about)


def legend(ax: Axes) -> None:
    """What the colours say."""
    for left, colour, said in ((5, QUESTION, "the path of a question"), (45, POST, "the path of a post")):
        arrow(ax, (left, 4.5), (left + 6, 4.5), colour)
        ax.text(left + 7.5, 4.5, said, fontsize=10.5, color=INK, va="center")
    may_import(ax, (81, 4.5), (88, 4.5))
    ax.text(89.5, 4.5, "who may import whom; numbers are the lines of the page", fontsize=10.5, color=INK, va="center")


def draw(target: Path) -> None:
    """Draw the picture into a file."""
    figure, ax = plt.subplots(figsize=(16, 9.5), dpi=120)
    ax.set(xlim=(2, 158), ylim=(2, 94))
    ax.axis("off")
    for part in (packages, question, post, stores, legend):
        part(ax)
    figure.savefig(target, bbox_inches="tight", pad_inches=0.15, facecolor="white")
    plt.close(figure)


if __name__ == "__main__":
    draw(PICTURE)
    print(PICTURE)
