"""What a post says of a claim: each row of `claims.txt` is "yes", "no" or "open", or "not" one of them."""

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from text_tables import read_table

from rag_core.text.tokens import detect_language
from rag_core.types import Passage, PostKey
from rag_core.verification import Claim, Label
from rag_core.verification.stance import assess_by_words
from rag_core.verification.things import tells_apart
from rag_core.verification.verify import AssessedPassage, decide_verdict, extract_claims

SIBLINGS = Path(__file__).parents[2] / "data" / "siblings"
LABELS = {"yes": Label.SUPPORTED, "no": Label.CONTRADICTED, "open": Label.NOT_FOUND}


def judge(claim, *posts):
    """The verdict on a claim over posts of one channel: (text, day)."""
    said = Claim(claim, detect_language(claim))
    dated = [(text, datetime.fromisoformat(day).replace(tzinfo=UTC)) for text, day in posts]
    passages = [
        Passage(PostKey(-1001, n), 0, "Harbour News · 2025-03-04", text, 0, len(text), day)
        for n, (text, day) in enumerate(dated)
    ]
    supports = assess_by_words(said, passages)
    assert all(0 <= one.start <= one.end <= len(text) for one, (text, _) in zip(supports, posts, strict=True))
    return decide_verdict(said, list(map(AssessedPassage, passages, supports)))[0].label


@pytest.mark.parametrize(("verdict", "claim", "post"), read_table(__file__, "claims.txt"))
def test_a_post_says_this_of_a_claim(verdict, claim, post):
    found = judge(claim, (post, "2025-03-04"))
    if verdict.startswith("not "):
        assert found is not LABELS[verdict.removeprefix("not ")]
    else:
        assert found is LABELS[verdict]


@pytest.mark.parametrize(
    ("claim", "quoted", "rest"),
    [
        ("The bridge is closed.", "Is the bridge closed? No and no.", "\nThe ferry is late."),
        ("Мост закрыли.", "Пишут, что мост закрыли. Это неправда.", " Паром ходит."),
        ("Мост открыли.", "Мост открыли во вторник.", " Паром ходит."),
    ],
)
def test_a_question_or_rumour_is_quoted_with_its_reply(claim, quoted, rest):
    text = quoted + rest
    passage = Passage(PostKey(-1001, 1), 0, "Harbour News", text, 0, len(text), datetime(2025, 3, 4, tzinfo=UTC))
    (support,) = assess_by_words(Claim(claim, detect_language(claim)), [passage])
    assert support.label is not Label.NOT_FOUND
    assert text[support.start : support.end] == quoted


def test_a_history_is_told_of_one_thing_alone():
    members, guests = (
        ("Вход для членов клуба — 300 рублей.", "2026-11-10"),
        ("Вход для гостей — 500 рублей.", "2026-11-12"),
    )
    assert judge("Вход для гостей стоит 300 рублей.", members, guests) is LABELS["no"]
    assert judge("Вход для членов клуба стоит 300 рублей.", members, guests) is LABELS["yes"]


@pytest.mark.parametrize(
    ("claim", "line", "verdict"),
    [
        ("Ржаной подовый стоит 140 рублей.", "ржаной 160 ₽", "no"),
        ("Ржаной подовый стоит 140 рублей.", "С 1 марта багет 95 ₽, ржаной 160 ₽, плетёнка 120 ₽", "no"),
        ("Мешок угля 10 кг стоит 500 рублей.", "С мая мешок 10 кг — 560 ₽", "no"),
        ("A jar of honey costs 300 roubles.", "Jar, from June: 340 roubles", "no"),
        ("Ржаной подовый стоит 140 рублей.", "ржаной с тмином 180 ₽", "yes"),
        ("Ржаной подовый стоит 140 рублей.", "багет 95 ₽", "yes"),
        ("Мешок угля 10 кг стоит 500 рублей.", "мешок 25 кг — 900 ₽", "yes"),
        ("Anna Berg is the harbour master.", "The new harbour master is Tom Reed.", "no"),
        ("Анна Берг — начальник порта.", "Порт выбрал нового начальника: Олег Рид.", "no"),
    ],
)
def test_a_later_line_changes_what_an_earlier_post_said(claim, line, verdict):
    assert judge(claim, (claim, "2025-03-01"), (line, "2025-04-01")) is LABELS[verdict]
    assert judge(claim, (claim, "2025-03-01"), (line, "2025-02-01")) is LABELS["yes"]


def test_the_thing_asked_about_is_known_from_its_look_alike():
    question = "When does the pharmacy on Forest Street close?"
    own, other = (f"The pharmacy on {street} Street is open until 21:00." for street in ("Forest", "River"))
    assert tells_apart(question, own, other, "en")  # the first names it, the second speaks of another one
    assert not tells_apart(question, own, own, "en")
    assert not tells_apart(question, other, other, "en")
    assert not tells_apart(question, other, own, "en")


def test_sixty_claims_about_look_alikes():
    """The set was written before the code: at most one of sixty confirmed falsely, none turned into its opposite."""
    posts, claims = (
        [json.loads(line) for line in (SIBLINGS / name).read_text("utf-8").splitlines()]
        for name in ("corpus.jsonl", "claims.jsonl")
    )
    gold = {"supported": LABELS["yes"], "refuted": LABELS["no"], "not_found": LABELS["open"]}
    found = Counter()
    for row in claims:
        known = [(post["text"], post["date"][:10]) for post in posts if post["lang"] == row["lang"]]
        found[gold[row["label"]], judge(row["text"], *known)] += 1
    assert sum(count for (right, said), count in found.items() if said is Label.SUPPORTED is not right) <= 1
    assert found[Label.SUPPORTED, Label.CONTRADICTED] == 0
    assert sum(count for (right, said), count in found.items() if right is said) >= 50
    assert sum(count for (right, _), count in found.items() if right is Label.SUPPORTED) == 20


PIECES = st.sampled_from(
    """не нет never not 5 млн 2 750 ₽ 7:30 12.08 половине седьмого в пн-пт Sundays Иван Петров Apache licence MIT
    говорят, что неправда « » " ' — ( ) [1] #тег @channel https://t.me/a/1 he он она may должен half past six 漢字 🔥 İ
    — -- . ! ? \n \x00 \u202e e\u0301 ﬁ 'ь ъ ы a б 1/2 ½ ٣ 10% $ € 4-17-19 8–20 №""".split(" ")
)
TEXT = st.lists(PIECES, max_size=30).map(" ".join) | st.text(max_size=120) | st.lists(PIECES, max_size=12).map("".join)


@given(TEXT, TEXT)
def test_any_claim_is_weighed_against_any_post(claim, post):
    assert judge(claim, (post, "2025-03-04")) in Label
    for one in extract_claims(claim):
        assert claim[one.start : one.end] == one.text
