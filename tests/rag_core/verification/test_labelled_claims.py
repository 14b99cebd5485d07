"""What the measures of verification hold, and what will count as right.

`verify_claims.json`: a verdict on a claim is right when its label is the claim's and, unless that is not_found, it
cites `post` (or a copy of it, named under `or`). An outdated claim is right when the verdict is superseded, outdated
or contradicted and cites the newer post. A claim that one post says and another denies has both: `also_says` says it,
`post` denies it; it is right when the verdict is contradicted or shows a conflict, and cites the one that denies it.
The asker sees the three public channels.
`paraphrases.jsonl`: no claim may be called contradicted by its evidence.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[1]
AS_GOOD = {
    "supported": {"supported"},
    "contradicted": {"contradicted"},
    "outdated": {"outdated", "superseded", "contradicted"},
    "not_found": {"not_found"},
}


def is_right(claim: dict[str, Any], label: str, cited: Collection[str]) -> bool:
    """Whether a verdict with this label that cites these posts ("channel/id") is right about the claim."""
    wanted = AS_GOOD[claim["label"]] | ({"conflict"} if "also_says" in claim else set())
    if label not in wanted:
        return False
    return claim["post"] is None or bool({claim["post"], *claim.get("or", ())} & set(cited))


@pytest.fixture(scope="module")
def claims() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((HERE / "verify_claims.json").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module")
def dates(root: Path) -> dict[str, datetime]:
    """When each entry of the sample channels was posted, local time."""
    return {
        f"{file.parent.name}/{entry['id']}": datetime.fromisoformat(entry["date"])
        for file in (root / "bot/sandbox/channels").glob("*/result.json")
        for entry in json.loads(file.read_text(encoding="utf-8"))["messages"]
    }


def test_there_are_forty_claims_of_every_label_in_both_languages(claims: list[dict[str, Any]]) -> None:
    counted = Counter(claim["label"] for claim in claims)
    assert counted == {"supported": 10, "contradicted": 14, "outdated": 6, "not_found": 10}
    assert sum("also_says" in claim for claim in claims) == 6
    assert len({claim["text"] for claim in claims}) == 40
    assert min(Counter(claim["lang"] for claim in claims).values()) >= 15


def test_every_post_a_verdict_must_cite_is_there_and_older_than_the_question(
    claims: list[dict[str, Any]], dates: dict[str, datetime]
) -> None:
    for claim in claims:
        named = [claim["post"], claim.get("also_says"), *claim.get("or", ())]
        asked = datetime.fromisoformat(claim["asked_at"]).replace(tzinfo=None)
        assert (claim["post"] is None) == (claim["label"] == "not_found"), claim
        for post in filter(None, named):
            assert dates[post] < asked, claim
            assert not post.startswith("owl-hill-members/"), claim


def test_only_the_right_label_with_the_right_post_is_right(claims: list[dict[str, Any]]) -> None:
    for claim in claims:
        post = [claim["post"]] if claim["post"] else []
        assert is_right(claim, claim["label"], post)
        if claim["post"]:
            assert not is_right(claim, claim["label"], ["kirpichiki/3"])
            assert not is_right(claim, "not_found", post)
        if claim["label"] == "supported":
            assert not is_right(claim, "contradicted", post)


def test_there_are_a_hundred_true_paraphrases_in_each_language() -> None:
    rows = [json.loads(line) for line in (HERE / "paraphrases.jsonl").read_text(encoding="utf-8").splitlines()]
    counted = Counter(row["lang"] for row in rows)
    assert counted["ru"] >= 100
    assert counted["en"] >= 100
    assert len({row["claim"] for row in rows}) == len(rows)
    for row in rows:
        assert set(row) == {"lang", "claim", "evidence"}
        assert row["claim"] not in row["evidence"], row
