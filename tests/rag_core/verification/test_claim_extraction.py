import pytest

from rag_core.verification.verify import MAX_CLAIMS_PER_MESSAGE, extract_claims


def said(text):
    found = extract_claims(text)
    assert all(text[claim.start : claim.end] == claim.text for claim in found)
    return [claim.text for claim in found]


@pytest.mark.parametrize(
    ("text", "claims"),
    [
        (
            "Паром стоит 500 рублей, а музей закрыт по понедельникам.",
            ["Паром стоит 500 рублей", "музей закрыт по понедельникам."],
        ),
        (
            "Президент подписал закон; он вступит в силу 1 мая.",
            ["Президент подписал закон", "он вступит в силу 1 мая."],
        ),
        (
            "The bridge was closed on Monday and the ferry costs 5 dollars.",
            ["The bridge was closed on Monday", "the ferry costs 5 dollars."],
        ),
        ("Музей открыт. Паром ходит в 7:30!", ["Музей открыт.", "Паром ходит в 7:30!"]),
    ],
)
def test_two_facts_are_two_claims(text, claims):
    assert said(text) == claims


@pytest.mark.parametrize(
    "text",
    [
        "Иван и Мария поженились в 2020 году.",
        "Tom and Ann met in Paris and married in Rome.",
        "Завод построили в 1950 году и закрыли в 1990 году.",
        "He said that the bridge was closed and the ferry was late.",
        "Если мост закроют, а паром не пойдёт, город останется без хлеба.",
        "Паром отменён.Завтра",
    ],
)
def test_a_sentence_whose_parts_lean_on_each_other_stays_whole(text):
    assert said(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        "Привет!",
        "Hello everyone!",
        "Заслонка · Кирпичная, 14 · @zaslonka_talminsk",
        "🔴 [Подписаться](https://t.me/news) | [Прислать новость](https://t.me/news_bot)",
        "Harbour News | 12 Pier Street | t.me/harbour",
        "Thanks for reading.",
        "Когда откроют мост?",
        "What does the ferry cost?",
        "#новости #мост",
        "https://t.me/harbour/12",
        "@ferry_desk",
        "",
        "   \n",
        "!!!",
        "Добрый день, друзья!",
    ],
)
def test_greetings_questions_hashtags_and_links_claim_nothing(text):
    assert said(text) == []


def test_what_is_asked_to_be_true_is_the_claim():
    assert said("Правда ли, что мост закрыли 5 мая?") == ["мост закрыли 5 мая"]
    assert said("Is it true that the bridge is closed?") == ["the bridge is closed"]


def test_a_sentence_in_another_language_says_so_and_none_is_counted_twice():
    claims = extract_claims("Мост закрыт на ремонт. The bridge is closed. Мост закрыт на ремонт.")
    assert [claim.lang for claim in claims] == ["ru", "en"]


def test_a_very_long_message_gives_only_so_many_claims():
    text = " ".join(f"The ferry number {n} was late." for n in range(60))
    assert len(extract_claims(text)) == MAX_CLAIMS_PER_MESSAGE
