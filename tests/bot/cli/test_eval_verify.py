import json
from pathlib import Path

import pytest
from driver import write_rows

from bot.evaluation.data import read_claims
from bot.evaluation.measures import VERIFICATION_LAYERS, JudgedClaim, compute_label_metrics, judge_claim_pairs

PAIRS = [
    {"id": f"{right}{n}", "claim": f"The ferry number {n if right else n + 100} leaves at seven", "lang": "en",
     "evidence": f"The ferry number {n} leaves at seven.", "label": "SUPPORTS" if right else "REFUTES", "group": str(n)}
    for n in range(2, 62)
    for right in (True, False)
]  # fmt: skip


def verified(evaluate, folder, corpus, claims):
    write_rows(folder / "corpus.jsonl", corpus)
    write_rows(folder / "claims.jsonl", claims)
    said = evaluate("verify", folder, "--json", "out.json")
    assert said.code == 0, said.err
    return json.loads(Path("out.json").read_text(encoding="utf-8"))["metrics"]["all"]


def test_pairs_are_told_beside_the_majority(evaluate, tmp_path):
    file = write_rows(tmp_path / "pairs.jsonl", PAIRS)
    said = evaluate("verify", file, "--json", "out.json")
    assert said.code == 0, said.err
    assert "balanced_accuracy" in said.out
    written = json.loads(Path("out.json").read_text(encoding="utf-8"))
    assert set(written["layers"]) == set(VERIFICATION_LAYERS)
    assert written["metrics"] == written["layers"]["all"]
    assert written["metrics"]["en"]["balanced_accuracy"] == 1.0
    assert written["layers"]["majority"]["all"]["balanced_accuracy"] == 0.5
    assert (written["rows"], written["settings"]["evidence"]) == (len(PAIRS), "given")


def test_claims_are_looked_up_where_there_is_a_corpus(evaluate, tmp_path):
    corpus = [
        {"id": "ferry", "text": "The ferry to the lighthouse leaves at seven.", "title": "Harbour"},
        {"id": "jam", "text": "Gooseberry jam costs 300 roubles a jar.", "title": "Market"},
    ]
    claims = [
        {"id": id_, "text": text, "label": label, "relevant": relevant, "lang": "en"}
        for id_, text, label, relevant in (
            ("a", "The ferry to the lighthouse leaves at seven.", "SUPPORTS", ["ferry"]),
            ("b", "Gooseberry jam costs 500 roubles a jar.", "REFUTES", ["jam"]),
            ("c", "Elephants sleep standing under old trees.", "NOT_ENOUGH_INFO", []),
        )
    ]
    found = verified(evaluate, tmp_path, corpus, claims)
    assert (found["accuracy"], found["evidence_recall@5"]) == (1.0, 1.0)


def test_claims_are_judged_as_of_their_day_and_by_trap(evaluate, tmp_path):
    corpus = [
        {"id": day, "text": f"Gooseberry jam costs {price} roubles a jar.", "title": "Market", "date": day}
        for price, day in ((300, "2025-03-01"), (350, "2025-09-01"))
    ]
    claim = {"claim": "Gooseberry jam costs 300 roubles a jar.", "lang": "en", "trap": "superseded"}
    claims = [
        claim | {"id": "a", "label": "supported", "asked_at": "2025-06-01T12:00:00+00:00"},
        claim | {"id": "b", "label": "refuted", "asked_at": "2025-10-01T12:00:00+00:00"},
        claim | {"id": "c", "label": "supported", "asked_at": "2025-10-01T12:00:00+00:00"},
    ]
    found = verified(evaluate, tmp_path, corpus, claims)
    assert (found["accuracy_superseded"], found["opposite_superseded"]) == (0.6667, 0.3333)
    assert found["opposite"] == 0.3333


def test_questions_with_answers_are_joined_to_evidence(tmp_path):
    evidence = [{"q": "When?", "a": [{"text": "In May."}, {"text": None}]}, {"q": "Why?", "a": []}]
    claim = {"id": "a", "text": "x", "label": "Conflicting Evidence/Cherrypicking", "evidence": evidence}
    file = write_rows(tmp_path / "claims.jsonl", [claim])
    (row,) = read_claims(tmp_path)
    assert (row.evidence, row.gold) == (("When?\nIn May.", "Why?"), "disputed")
    assert read_claims(file) == [row]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([], "holds no claims"),
        ([{"id": "a", "text": "b"}], "lacks what a claim needs"),
        ([{"id": "a", "text": "b", "label": "SUPPORTS"}], "claims without evidence"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_sentence(evaluate, tmp_path, rows, said):
    told = evaluate("verify", write_rows(tmp_path / "pairs.jsonl", rows))
    assert told.code != 0
    assert said in told.err
    assert "Traceback" not in told.err


def test_figures_are_worked_out_over_the_classes_that_occur():
    pairs = [("supported", "supported"), ("supported", "not_found"), ("not_found", "not_found")]
    pairs += [("disputed", "supported")]
    rows = [JudgedClaim("en", gold, {"all": said}, str(n)) for n, (gold, said) in enumerate(pairs)]
    found = compute_label_metrics(rows, "all")
    assert (found["accuracy"], found["balanced_accuracy"]) == (0.5, 0.5)
    assert compute_label_metrics([], "all")["accuracy"] is None
    assert judge_claim_pairs([]) == []
