"""Figures to ratios, goals and tables a person reads on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OURS = "citegram"
_ORACLE = {"lexical": "rank-bm25", "dense": "numpy scan"}  # what the others should find
_RATES = ("_per_s",)  # more is better

_COMPARED = {"lexical": "query_p95_ms", "dense": "filtered_p95_ms"}  # leg -> the figure that peers are compared by

# size, leg, figure, peer (None: ours alone), "at least" or "at most", how much. With a peer: "at least" so many
# times less than it, or "at most" so many times as much.
GOALS: tuple[tuple[int, str, str, str | None, str, float], ...] = (
    (100_000, "lexical", "query_p95_ms", "rank-bm25", "at least", 300),
    (100_000, "lexical", "build_s", "rank-bm25", "at most", 2.5),
    (100_000, "lexical", "filter_cost", None, "at most", 2),
    (1_000_000, "lexical", "query_p95_ms", None, "at most", 10),
    (1_000_000, "lexical", "query_p95_ms", "rank-bm25", "at least", 100),
    (1_000_000, "lexical", "query_p95_ms", "tantivy", "at most", 4),
    (100_000, "dense", "filtered_p95_ms", None, "at most", 5),
    (100_000, "dense", "filtered_p95_ms", "qdrant-client local", "at least", 100),
    (1_000_000, "dense", "filtered_p95_ms", None, "at most", 25),
    (1_000_000, "dense", "reopen_s", None, "at most", 3),
    (100_000, "whole", "answer_p95_ms", None, "at most", 120),
    (100_000, "whole", "imports_to_ready_s", None, "at most", 3),
    (100_000, "whole", "exec_to_ready_s", None, "at most", 9),
    (1_000_000, "whole", "memory_mb", None, "at most", 4096),
)

Rows = dict[str, dict[str, Any]]  # engine -> figures


def compute_ratios(metrics: Mapping[str, Mapping[str, Rows]]) -> dict[str, Any]:
    """How many times better we are than each peer, by size, leg and figure; and how far the findings agree.

    What was found is taken out of `metrics`; what a filter costs, filtered p95 to p95, and the share of the ten
    nearest that each vector store finds are put in.
    """
    told: dict[str, Any] = {"ratios": {}, "agreement": {}}
    for size, legs in metrics.items():
        told["ratios"][size] = {leg: _better(rows) for leg, rows in legs.items() if leg in _COMPARED}
        told["agreement"][size] = {leg: _agreement(leg, rows) for leg, rows in legs.items() if leg in _COMPARED}
        exact = legs.get("dense", {}).get(_ORACLE["dense"], {}).get("found")
        for leg, rows in legs.items():
            for row in rows.values():
                if (found := row.pop("found", None)) and exact and leg == "dense":
                    row["same_nearest"] = _share_of_nearest(found, exact)
                if "filtered_p95_ms" in row:
                    row["filter_cost"] = row["filtered_p95_ms"] / row["query_p95_ms"]
    return told


def _better(rows: Rows) -> dict[str, dict[str, float]]:
    ours = rows.get(OURS, {})
    return {
        peer: {
            name: ours[name] / value if name.endswith(_RATES) else value / ours[name]
            for name, value in row.items()
            if isinstance(value, float) and ours.get(name) and value
        }
        for peer, row in rows.items()
        if peer != OURS
    }


def _agreement(leg: str, rows: Rows) -> dict[str, float]:
    """Lexical: the largest difference of a score; dense: the share of the ten nearest that are the same."""
    ours, oracle = (rows.get(name, {}).get("found") for name in (OURS, _ORACLE[leg]))
    if not ours or not oracle:
        return {}
    if leg == "lexical":
        pairs = zip(ours, oracle, strict=True)
        return {"score_difference": max(abs(a[1] - b[1]) for x, y in pairs for a, b in zip(x, y, strict=False))}
    return {"same_nearest": _share_of_nearest(ours, oracle)}


def _share_of_nearest(found: Sequence[Sequence[int]], exact: Sequence[Sequence[int]]) -> float:
    return sum(len(set(x) & set(y)) / len(y) for x, y in zip(found, exact, strict=True)) / len(exact)


def check_goals(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the project promises, for what was measured."""
    found = []
    for size, leg, name, peer, way, much in GOALS:
        rows = told["metrics"].get(str(size), {}).get(leg, {})
        ours, theirs = (rows.get(engine, {}).get(name) for engine in (OURS, peer))
        if ours is None or (peer and theirs is None):
            continue
        least = way == "at least"
        value = ours if peer is None else theirs / ours if least else ours / theirs
        against = "" if peer is None else f", {peer} to ours" if least else f", ours to {peer}"
        met = value >= much if least else value <= much
        goal = {"posts": size, "what": f"{leg}, {name}{against}", "goal": f"{way} {much:g}"}
        found.append(goal | {"measured": value, "met": met})
    return found


def format_table(told: Mapping[str, Any]) -> str:
    """Everything, as tables in plain text."""
    lines = list[str]()
    for size, legs in told["metrics"].items():
        for leg, rows in ((leg, rows) for leg, rows in legs.items() if rows):
            names = list(dict.fromkeys(name for row in rows.values() for name in row))
            cells = [[engine, *(_cell(row.get(name)) for name in names)] for engine, row in rows.items()]
            head = ["", *names]
            if leg in _COMPARED:
                head.append(f"{_COMPARED[leg]} to ours")
                for line in cells:
                    times = told["ratios"][size][leg].get(line[0], {}).get(_COMPARED[leg])
                    line.append("" if times is None else f"{_cell(times)}x")
            lines += [f"\n{leg}, {int(size):,} posts", *_aligned([head, *cells])]
            lines += [f"  {name} {value:.2g}" for name, value in told["agreement"][size].get(leg, {}).items()]
    if told["goals"]:
        keys = ("posts", "what", "goal")
        rows = [
            [*(str(g[key]) for key in keys), _cell(g["measured"]), "met" if g["met"] else "MISSED"]
            for g in told["goals"]
        ]
        lines += ["\nWhat was promised", *_aligned([[*keys, "measured", ""], *rows])]
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(
            f"{cell:<{w}}" if n == 0 else f"{cell:>{w}}" for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
