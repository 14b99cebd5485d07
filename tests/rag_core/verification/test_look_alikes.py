"""Claims and questions about one thing over posts about another that is called nearly the same."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from rag_core.text.tokens import detect_language
from rag_core.types import Passage, PostKey
from rag_core.verification import Claim, Label
from rag_core.verification.stance import assess_by_words
from rag_core.verification.things import names_thing, speaks_of_other_thing
from rag_core.verification.verify import AssessedPassage, decide_verdict

SET = Path(__file__).parents[2] / "data" / "siblings"
SUPPORTED, CONTRADICTED, NOT_FOUND = Label.SUPPORTED, Label.CONTRADICTED, Label.NOT_FOUND


def judge(claim: str, *posts: tuple[str, str]) -> Label:
    """The verdict on a claim over posts of one channel: (text, day)."""
    said = Claim(claim, detect_language(claim))
    days = [datetime.fromisoformat(day).replace(tzinfo=UTC) for _, day in posts]
    passages = [
        Passage(PostKey(-1001, n), 0, "Harbour · 2026-11-10", text, 0, len(text), day)
        for n, ((text, _), day) in enumerate(zip(posts, days, strict=True))
    ]
    supports = assess_by_words(said, passages)
    return decide_verdict(said, [AssessedPassage(p, s) for p, s in zip(passages, supports, strict=True)])[0].label


@pytest.mark.parametrize(
    ("claim", "post", "label"),
    [
        ("Школьный автобус отправляется в 7:20.", "Дачный автобус отправляется в 7:20.", NOT_FOUND),
        ("Школьный автобус отправляется в 8:05.", "Дачный автобус отправляется в 7:20.", NOT_FOUND),
        ("Урок гитары для взрослых стоит 1100 рублей.", "Урок вокала для взрослых стоит 1100 рублей.", NOT_FOUND),
        ("Урок гитары для детей стоит 1100 рублей.", "Урок гитары для взрослых стоит 1100 рублей.", NOT_FOUND),
        ("Билет в тир для детей стоит 200 рублей.", "Взрослый билет в тир — 500 рублей.", NOT_FOUND),
        ("Билет в тир для детей стоит 200 рублей.", "Детский билет в тир — 200 рублей.", SUPPORTED),
        ("Вход для гостей стоит 300 рублей.", "Вход для членов клуба — 300 рублей.", NOT_FOUND),
        ("The cover for the boat costs 12 euros.", "The rope for the boat costs 12 euros.", NOT_FOUND),
        ("The south pool opens at 7:00.", "The north pool opens at 7:00.", NOT_FOUND),
        ("Anna leads the orchestra.", "Anna leads the choir.", NOT_FOUND),
        ("Группа «Якорь» выступит 6 декабря.", "Группа «Компас» выступит 6 декабря.", NOT_FOUND),
        ("The shop on Forest Street is open until 19:00.", "The shop on River Street is open until 19:00.", NOT_FOUND),
        ("Аптека в доме 8 закрывается в 21:00.", "Аптека в доме 9 закрывается в 21:00.", NOT_FOUND),
        ("Tawny 1.1 supports dark mode.", "Tawny 1.0 supports dark mode.", NOT_FOUND),
        ("Трамвай 15 идёт до вокзала за 20 минут.", "Трамвай 5 идёт до вокзала за 20 минут.", NOT_FOUND),
        ("15-й трамвай идёт до вокзала за 40 минут.", "Трамвай № 15 идёт до вокзала за 40 минут.", SUPPORTED),
        ("Day tickets for the fair cost 40 euros.", "Season tickets for the fair cost 40 euros.", NOT_FOUND),
        ("Прокат каяка стоит 900 рублей.", "Прокат:\n— байдарка 900 ₽\n— каяк 1100 ₽", NOT_FOUND),
        ("Рынок закроют.", "Вокзал не закроют.", NOT_FOUND),
        ("Рынок закроют.", "Рынок не закроют.", CONTRADICTED),
        ("The market will be moved.", "The station will not be moved.", NOT_FOUND),
        ("Вход в музей платный.", "Вход в музей бесплатный.", CONTRADICTED),
        ("Музей возглавила Анна Лис.", "Театр возглавила Анна Лис.", NOT_FOUND),
        ("Лицей возглавила Анна Лис.", "Лицей возглавил Олег Дуб.", CONTRADICTED),
        ("The new chairman signed a treaty with the port.", "The dog and the cat signed a peace treaty.", NOT_FOUND),
        ("Прокат каякав стоит 900 рублей.", "Прокат каяков стоит 900 рублей.", SUPPORTED),
    ],
)  # fmt: skip
def test_a_post_about_another_thing_decides_nothing(claim: str, post: str, label: Label) -> None:
    assert judge(claim, (post, "2026-11-10")) is label


@pytest.mark.parametrize(
    ("claim", "post", "label"),
    [
        ("Льготный билет на яхту стоит 1020 рублей.", "Билет на яхту стоит 1 450 ₽, льготный — 1 020 ₽.", SUPPORTED),
        ("Льготный билет на яхту стоит 1450 рублей.", "Билет на яхту стоит 1 450 ₽, льготный — 1 020 ₽.", CONTRADICTED),
        ("Билет на яхту стоит 1450 рублей.", "Билет на яхту стоит 1 450 ₽, льготный — 1 020 ₽.", SUPPORTED),
        ("Tickets for children are £12.", "Tickets are £12 for adults and £5 for children.", CONTRADICTED),
        ("Children's lessons cost $18.", "Adult lessons cost $18, children's lessons $11.", CONTRADICTED),
        ("Школьный автобус уходит в 7:20.", "Дачный автобус уходит в 7:20, школьный — в 8:05.", CONTRADICTED),
        ("Школьный автобус уходит в 8:05.", "Дачный автобус уходит в 7:20, школьный — в 8:05.", SUPPORTED),
        ("Pilates is on Mondays.", "Yoga is on Mondays, pilates is on Thursdays.", CONTRADICTED),
        ("Route 17 buses run every 12 minutes.",
         "Route 7 buses run every 12 minutes; route 17 buses run every 25 minutes.", CONTRADICTED),
        ("Анна Крылова ведёт оркестр.", "Анна Крылова ведёт хор, Борис Сомов — оркестр.", NOT_FOUND),
    ],
)  # fmt: skip
def test_each_value_of_a_sentence_belongs_to_the_words_beside_it(claim: str, post: str, label: Label) -> None:
    assert judge(claim, (post, "2026-11-10")) is label


def test_a_history_is_told_of_one_thing_alone() -> None:
    members, guests = (
        ("Вход для членов клуба — 300 рублей.", "2026-11-10"),
        ("Вход для гостей — 500 рублей.", "2026-11-12"),
    )
    assert judge("Вход для гостей стоит 300 рублей.", members, guests) is CONTRADICTED
    assert judge("Вход для членов клуба стоит 300 рублей.", members, guests) is SUPPORTED


def test_the_thing_asked_about_is_known_from_its_look_alike() -> None:
    question, own = (
        "When does the pharmacy on Forest Street close?",
        "The pharmacy on Forest Street is open until 21:00.",
    )
    other = "The pharmacy on River Street is open until 19:00."
    assert names_thing(question, own, "en")
    assert not speaks_of_other_thing(question, own, "en")
    assert not names_thing(question, other, "en")
    assert speaks_of_other_thing(question, other, "en")


def test_sixty_claims_about_look_alikes() -> None:
    """The set was written before the code: at most one of sixty confirmed falsely, none turned into its opposite."""
    files = (SET / "corpus.jsonl", SET / "claims.jsonl")
    posts, claims = ([json.loads(line) for line in file.read_text("utf-8").splitlines()] for file in files)
    gold = {"supported": SUPPORTED, "refuted": CONTRADICTED, "not_found": NOT_FOUND}
    found: Counter[tuple[Label, Label]] = Counter()
    for row in claims:
        known = [(post["text"], post["date"][:10]) for post in posts if post["lang"] == row["lang"]]
        found[gold[row["label"]], judge(row["text"], *known)] += 1
    assert sum(count for (right, said), count in found.items() if said is SUPPORTED is not right) <= 1
    assert found[SUPPORTED, CONTRADICTED] == 0
    assert sum(count for (right, said), count in found.items() if right is said) >= 50
    assert sum(count for (right, _), count in found.items() if right is SUPPORTED) == 20
