"""Figures to ratios and tables a person reads on a terminal."""

OURS = "citegram"
_ORACLE = {"lexical": "rank-bm25", "dense": "numpy scan"}  # what the others should find
_COMPARED = {"lexical": "query_p95_ms", "dense": "filtered_p95_ms"}  # leg -> the figure that peers are compared by


def compute_ratios(metrics):
    """How many times faster we are than each peer, by size, leg and peer; and how far the findings agree.

    What was found is taken out of `metrics`; the share of the ten nearest that each vector store finds is put in.
    """
    told = {"ratios": {}, "agreement": {}}
    for size, legs in metrics.items():
        compared = {leg: rows for leg, rows in legs.items() if leg in _COMPARED and OURS in rows}
        told["ratios"][size] = {
            leg: {peer: row[_COMPARED[leg]] / rows[OURS][_COMPARED[leg]] for peer, row in rows.items() if peer != OURS}
            for leg, rows in compared.items()
        }
        told["agreement"][size] = {leg: _agreement(leg, rows) for leg, rows in compared.items()}
        for leg, rows in legs.items():
            exact = rows.get(_ORACLE.get(leg, ""), {}).get("found")
            for row in rows.values():
                found = row.pop("found", None)
                if found and exact and leg == "dense":
                    row["same_nearest"] = _share_of_nearest(found, exact)
    return told


def _agreement(leg, rows):
    """Lexical: the largest difference of a score; dense: the share of the ten nearest that are the same."""
    ours, oracle = (rows.get(name, {}).get("found") for name in (OURS, _ORACLE[leg]))
    if not ours or not oracle:
        return {}
    if leg == "lexical":
        pairs = zip(ours, oracle, strict=True)
        return {"score_difference": max(abs(a[1] - b[1]) for x, y in pairs for a, b in zip(x, y, strict=False))}
    return {"same_nearest": _share_of_nearest(ours, oracle)}


def _share_of_nearest(found, exact):
    return sum(len(set(x) & set(y)) / len(y) for x, y in zip(found, exact, strict=True)) / len(exact)


def format_table(told):
    lines = []
    for size, legs in told["metrics"].items():
        for leg, rows in ((leg, rows) for leg, rows in legs.items() if rows):
            names = list(dict.fromkeys(name for row in rows.values() for name in row))
            cells = [[engine, *(_cell(row.get(name)) for name in names)] for engine, row in rows.items()]
            lines += [f"\n{leg}, {int(size):,} posts", *_aligned([["", *names], *cells])]
            for peer, times in told["ratios"][size].get(leg, {}).items():
                lines.append(f"  {peer}: {_COMPARED[leg]} {_cell(times)} times ours")
            lines += [f"  {name} {value:.2g}" for name, value in told["agreement"][size].get(leg, {}).items()]
    return "\n".join(lines)


def _cell(value):
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _aligned(rows):
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        yield "  " + "  ".join(
            f"{cell:<{w}}" if n == 0 else f"{cell:>{w}}" for n, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
