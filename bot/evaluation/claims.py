"""Claims with what is known of them: beside given evidence, or to be looked up in a corpus."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bot.evaluation.datasets import rows_of
from rag_core.analysis import language_of
from rag_core.errors import ImportRefused

__all__ = ["CLAIMS", "Row", "read_claims"]

CLAIMS = "claims.jsonl"
# How the public sets name what we call supported, contradicted, not_found; "disputed" has evidence of both.
_GOLD = {
    "supports": "supported", "supported": "supported", "refutes": "contradicted", "refuted": "contradicted",
    "contradicted": "contradicted", "not_enough_info": "not_found", "not enough evidence": "not_found",
    "not_supported": "not_found", "not_found": "not_found", "disputed": "disputed",
    "conflicting evidence/cherrypicking": "disputed",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A claim, its evidence (none where it is to be looked up), and what is right; `group` rows share documents."""

    id: str
    lang: str
    claim: str
    evidence: tuple[str, ...]
    gold: str
    group: str


def read_claims(place: Path) -> list[Row]:
    """The claims of a file, or of `claims.jsonl` in a folder. Raises ImportRefused."""
    file = place / CLAIMS if place.is_dir() else place
    found = [_row(row, file) for row in rows_of(file)]
    if not found:
        raise ImportRefused(f"{file} holds no claims: name a file of claims in JSON Lines.")
    return found


def _row(row: dict[str, Any], file: Path) -> Row:
    try:
        text = str(row["claim"] if "claim" in row else row["text"])
        evidence = tuple(_evidence(row.get("evidence")))
        group = str(row.get("group") or (evidence[0] if evidence else row["id"]))
        gold = _GOLD[str(row["label"]).lower()]
        return Row(str(row["id"]), row.get("lang") or language_of(text), text, evidence, gold, group)
    except (KeyError, TypeError) as exc:
        raise ImportRefused(f"A row of {file} lacks what a claim needs: id, claim, label ({exc}).") from exc


def _evidence(given: object) -> Iterator[str]:
    """A text, or questions each with its answers; ids of a corpus are no evidence by themselves."""
    if isinstance(given, str):
        yield given
    for part in given if isinstance(given, list) else []:
        if isinstance(part, dict) and "q" in part:
            answers = " ".join(str(answer.get("text") or "") for answer in part.get("a") or [])
            yield f"{part['q']}\n{answers}".strip()
