from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_core.context.boilerplate import find_repeated_lines, is_boilerplate
from rag_core.dates.parse import parse_period
from rag_core.text.answer_type import contains_answer_type, detect_answer_type
from rag_core.text.post_openings import build_text_key
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_SENTENCE_LENGTH
from rag_core.types import Evidence, Passage, PostKey, Source
from rag_core.writing.extract import (
    RankedPieces,
    is_outdated_plan,
    quote_earlier_piece,
    quote_piece,
    rank_pieces,
    select_best_pieces,
)

DAY = datetime(2025, 3, 1, tzinfo=UTC)


def asked(text: str) -> QueryTerms:
    return QueryTerms.of(text, lambda term: 1.0)


def evidence(*texts: str, chats: tuple[int, ...] = (), days: tuple[int, ...] = (), start: int = 0) -> Evidence:
    sources = []
    for n, text in enumerate(texts):
        chat, date = chats[n] if chats else -1, DAY + timedelta(days=days[n] if days else 0)
        passage = Passage(PostKey(chat, n + 1), 0, "", text, start, start + len(text), date)
        sources.append(Source(n + 1, passage, 5.0))
    return Evidence(tuple(sources))


def best(
    question: str, found: Evidence, most: int = 3, margin: float = 3.5, longest: int = MAX_SENTENCE_LENGTH
) -> list[str]:
    pieces = select_best_pieces(asked(question), found, most, margin, longest)
    return [piece.source.passage.text[piece.start : piece.end] for piece in pieces]


def test_the_sentence_that_answers_comes_first() -> None:
    text = "Доброе утро! Мост закрыт до пятницы. Не забудьте зонт, обещают дождь и ветер."
    assert best("До какого дня закрыт мост?", evidence(text))[0] == "Мост закрыт до пятницы."


def test_what_was_asked_for_wins_over_what_repeats_the_question() -> None:
    texts = "О цене абонемента спрашивают часто.", "Абонемент стоит 2 750 рублей."
    assert best("Сколько стоит абонемент?", evidence(*texts))[0] == texts[1]


def test_of_two_equal_posts_of_a_channel_the_later_one_comes_first() -> None:
    texts = "Хлеб стоит 90 рублей.", "Хлеб стоит 95 рублей."
    assert best("Сколько стоит хлеб?", evidence(*texts, days=(0, 30)))[0] == texts[1]


def test_a_later_post_of_another_channel_supersedes_nothing() -> None:
    texts = "Хлеб стоит 90 рублей.", "Хлеб стоит 95 рублей."
    assert best("Сколько стоит хлеб?", evidence(*texts, days=(0, 30), chats=(-1, -2)))[0] == texts[0]


def test_pieces_do_not_overlap_and_are_short_enough_to_be_shown_together() -> None:
    texts = [f"Мост номер {n} закрыт на ремонт до осени, объезд через плотину и площадь. " * 6 for n in range(5)]
    pieces = select_best_pieces(asked("Какой мост закрыт на ремонт?"), evidence(*texts), 5, 100.0)
    assert len(pieces) > 1
    assert sum(piece.end - piece.start for piece in pieces) <= 600
    assert not any(a.overlaps(b) for n, a in enumerate(pieces) for b in pieces[n + 1 :])


def test_a_sentence_longer_than_a_phrase_leaves_room_for_is_quoted_in_part() -> None:
    text = "Мост через реку закрыт на ремонт, " + "потому что опоры его старые и слабые, " * 6 + "до осени."
    assert 240 < len(text) <= MAX_SENTENCE_LENGTH
    (piece,) = best("Почему закрыт мост?", evidence(text), most=1, longest=240)
    assert 0 < len(piece) <= 240


def test_the_far_end_of_an_endless_sentence_can_be_shown() -> None:
    text = "слово " * 200 + "а мост откроют в пятницу"
    assert "пятницу" in best("Когда откроют мост?", evidence(text))[0]


def test_hashtags_mentions_and_links_alone_are_no_sentence() -> None:
    assert best("мост", evidence("#мост @most https://most.ru/most\n12 34")) == []


def test_a_quote_is_cited_where_it_stands_in_its_post() -> None:
    (piece,) = select_best_pieces(asked("мост"), evidence("Утро. Мост открыт.", start=100), 1, 0)
    sentence = quote_piece(piece)
    (citation,) = sentence.citations
    assert sentence.text == citation.quote == "Мост открыт."
    assert (citation.post, citation.start, citation.end) == (PostKey(-1, 1), 106, 118)


@given(st.lists(st.text(max_size=400), max_size=4), st.text(max_size=60), st.integers(30, MAX_SENTENCE_LENGTH))
@example(["AA"], "\U00017000", 30)
def test_every_piece_is_a_part_of_its_text_and_short_enough(texts: list[str], question: str, longest: int) -> None:
    for piece in select_best_pieces(asked(question), evidence(*texts), 3, 3.5, longest):
        assert 0 <= piece.start < piece.end <= len(piece.source.passage.text)
        assert piece.end - piece.start <= longest


def test_what_is_shown_of_one_post_is_not_said_again_in_the_words_of_another() -> None:
    texts = "🎉 Новый рынок открылся 18 октября!", "Новый рынок открылся 18 октября. #рынок", "Рынок работает до шести."
    shown = best("Когда открылся рынок?", evidence(*texts, chats=(-1, -2, -3)), margin=100.0)
    assert sum("18 октября" in piece for piece in shown) == 1
    assert "Рынок работает до шести." in shown


PRICES = "Хлеб подорожал: буханка ржаного стоит 185 ₽.", "Буханка ржаного хлеба стоит 160 ₽.", "Погода хорошая."


def ranked(question: str, found: Evidence) -> RankedPieces:
    return rank_pieces(asked(question), found)


def test_the_newest_value_of_a_series_comes_first_and_the_one_before_it_is_called_earlier() -> None:
    pieces = ranked("Сколько стоит буханка ржаного хлеба?", evidence(*PRICES, days=(300, 0, 400)))
    earlier = quote_earlier_piece(pieces, "ru")
    assert pieces.pieces[0].text == PRICES[0]
    assert earlier is not None
    assert earlier.text == f"Раньше, 1 марта 2025\u202fг.: {PRICES[1]}"
    assert PRICES[1] not in [piece.text for piece in pieces.select(3, 100.0)]


def test_a_question_about_a_time_gets_the_best_post_and_no_series() -> None:
    pieces = ranked("Сколько стоил ржаной хлеб в марте 2025?", evidence(*PRICES, days=(300, 0, 400)))
    assert not pieces.earlier
    assert not pieces.contested


def test_the_value_of_the_time_that_is_asked_about_answers() -> None:
    found, period = evidence(*PRICES, days=(300, 0, 400)), parse_period("в марте 2025", DAY + timedelta(days=500))
    question = asked("Сколько стоила буханка ржаного хлеба в марте 2025?")
    assert rank_pieces(question, found, period=period).pieces[0].text == PRICES[1]
    later = parse_period("в этом году", DAY + timedelta(days=500))
    then = rank_pieces(asked("Сколько стоит буханка ржаного хлеба в этом году?"), found, period=later)
    assert then.pieces[0].text == PRICES[0]
    assert then.dated_otherwise  # it is of the year before


def test_a_report_that_something_changed_may_name_less_of_it() -> None:
    texts = "We meet on Thursdays upstairs at the bakery.", "From 24 September the Thursdays are back in the library."
    found = evidence(*(f"{text}\n#meetings" for text in texts), days=(0, 200))
    pieces = ranked("On Thursdays where do we meet?", found)
    assert [piece.text for piece in (pieces.pieces[0], *pieces.earlier)] == [texts[1], texts[0]]
    assert pieces.best is not None
    assert pieces.best.text == texts[0]  # what was asked is measured on the post that says it


def test_a_count_of_what_is_asked_supersedes_an_earlier_one() -> None:
    texts = "Подписи собирают в библиотеке, нужно 400, сегодня 263.", "Четыреста двенадцать подписей!"
    assert ranked("сколько подписей собрали", evidence(*texts, days=(0, 20))).pieces[0].text == texts[1]


def test_a_price_that_changed_is_found_by_other_words_of_the_post_that_names_it() -> None:
    texts = "Проезд в городском автобусе 36 рублей.", "С 1 января автобус дорожает, билет 40 рублей.", "Кофе 90 рублей."
    pieces = ranked("сколько стоит проезд", evidence(*texts, days=(0, 300, 400)))
    assert pieces.contested
    assert pieces.pieces[0].text == texts[1]


def test_how_a_price_changed_is_answered_by_the_whole_series() -> None:
    texts = "Буханка ржаного 140 ₽.", "Погода.", "Ржаной теперь 185 ₽, пшеничный 210 ₽.", "Ржаной хлеб 160 ₽."
    pieces = ranked("как менялась цена ржаного", evidence(*texts, days=(0, 10, 300, 100)))
    assert [piece.text for piece in pieces.series] == [texts[0], texts[3], texts[2]]
    assert not ranked("какая цена ржаного", evidence(*texts, days=(0, 10, 300, 100))).series


def test_the_post_that_the_search_ranks_first_is_among_the_closest() -> None:
    texts = ["Сова на горке."] * 3 + ["Телескоп видно, мост закрыт."]
    found = evidence(*(f"{text} {'а' * n}" for n, text in enumerate(texts)))
    found = replace(found, sources=(*found.sources[:3], replace(found.sources[3], score=9.0)))
    pieces = ranked("сова на горке и телескоп", found).select_closest(3, found)
    assert 4 in [piece.source.number for piece in pieces]


@pytest.mark.parametrize(
    ("question", "text", "held"),
    [
        ("how many perseids did you see", "Perseids: Tuesday 12 August, from 21:30.", False),
        ("how many perseids did you see", "73 Perseids in four hours.", True),
        ("how old is Kofi", "Kofi solders on 28 February.", False),
        ("how old is Danila", "Danila is 11 years old.", True),
        ("сколько раз переносили открытие", "Открытие 18 октября.", False),
        ("сколько раз переносили открытие", "Открытие переносили дважды.", True),
        ("how long does it take", "The line had 300 people.", False),
        ("how long does it take", "It takes forty minutes.", True),
        ("сколько мешков собрали", "Субботник 2025.", False),
        ("когда библиотека работает", "По будням до 20:00.", True),
    ],
)
def test_a_number_of_another_measure_does_not_answer(question: str, text: str, held: bool) -> None:
    assert contains_answer_type(detect_answer_type(question), text, question) is held


def test_other_channels_are_no_series() -> None:
    found = evidence(*PRICES, days=(300, 0, 400), chats=(-1, -2, -1))
    assert not ranked("Сколько стоит буханка ржаного хлеба?", found).earlier


def test_a_newer_price_of_perhaps_the_same_thing_makes_an_answer_doubtful() -> None:
    texts = "Бассейн, разовое посещение: 320 ₽.", "С января разовое посещение 400 ₽."
    pieces = ranked("Сколько стоит разовое посещение бассейна?", evidence(*texts, days=(0, 300)))
    assert pieces.contested
    assert [piece.text for piece in pieces.select_closest(3, evidence(*texts))] == [texts[1], texts[0]]
    assert pieces.best is not None
    assert pieces.best.text == texts[0]


def test_the_closest_pieces_are_of_different_posts() -> None:
    texts = "Мост закрыт. Мост старый.", "Мост открыт.", "Мост новый."
    pieces = ranked("мост", evidence(*texts)).select_closest(3, evidence(*texts))
    assert sorted(piece.source.number for piece in pieces) == [1, 2, 3]


def test_a_post_that_says_much_less_of_the_question_is_not_among_the_closest_unless_it_is_a_part_of_a_chain() -> None:
    found = evidence("Мост у рынка закрыт до мая.", "Рынок открыт.", "Мост у рынка чинят.")
    pieces = ranked("мост у рынка закрыт", found)
    assert [piece.source.number for piece in pieces.select_closest(3, found)] == [1, 3]
    assert [piece.source.number for piece in pieces.select_closest(3, found, chained=True)] == [1, 3, 2]


def test_lines_that_a_channel_repeats_and_polls_answer_nothing() -> None:
    footer = "Наш мост · @most"
    lines = find_repeated_lines([f"Новость {n}.\n{footer}" for n in range(10)] + ["Мост открыт."])
    assert lines == {build_text_key(footer)}
    found = evidence(f"Мост открыт.\n{footer}", "Нужен ли мост?\n— Да\n— Нет")
    said = [p.text for p in ranked("мост", replace(found, boilerplate={-1: lines})).pieces]
    assert said == ["Мост открыт."]
    assert is_boilerplate(f"{footer}\n\n{footer}", lines)
    assert not is_boilerplate(f"Мост открыт.\n{footer}", lines)
    assert not is_boilerplate(footer, frozenset())


def test_four_posts_are_too_few_to_call_a_line_boilerplate() -> None:
    assert not find_repeated_lines(["Хлеб 90 ₽"] * 4)


def test_why_is_answered_with_the_sentence_that_follows() -> None:
    assert best("Почему новый замок?", evidence("Новый замок на воротах. Старый замёрз."))[0].endswith("Старый замёрз.")


def test_a_later_post_that_says_as_much_makes_the_best_piece_disputable() -> None:
    texts = "Сторож Панин дежурит.", "Сторож Уваров дежурит ночью."
    for days, chats, disputable in (((0, 30), (-1, -1), True), ((30, 0), (-1, -1), False), ((0, 30), (-1, -2), False)):
        first, second = evidence(*texts, days=days, chats=chats).sources
        found = ranked("сторож дежурит", Evidence((replace(first, score=25.0), second)))
        assert found.pieces[0].text == texts[0]
        assert found.disputable is disputable


@pytest.mark.parametrize(
    ("question", "text", "disputable"),
    [
        ("сколько стоит загранпаспорт", "Нужен загранпаспорт. Подпись выдают бесплатно.", True),
        ("сколько стоит загранпаспорт", "Загранпаспорт стоит 2 000 рублей.", False),
        ("бассейн цены", "Бассейн, цены:\n\nразовое посещение 320 ₽", False),
        ("what did he sleep on", "There is nothing better than this sleep.", True),
        ("sleep", "There is nothing better than this sleep.", False),
        ("what does hasan gharib mean", "Hasan gharib means a sound report of one line.", False),
        ("паром старый причал", "Причал открыт.", True),  # less than most of the question
        ("паром старый причал", "Паром ходит на старый причал.", False),
        ("паром", "", False),
        ("who is moth", "Moth says it is DNS.", True),
        ("who is moth", "For newcomers, Moth is Timothy Oakes.", False),
        ("is the late friday boat going", "The late bus was full again. Boats carry bread. We sail on Friday.", True),
        ("is the late friday boat going", "The late Friday boat is going.", False),
        ("how do i get the mirror aligned", "It takes an hour to get the mirror aligned. Do ask.", False),
    ],
)
def test_nothing_is_sure_that_one_sentence_does_not_say_of_the_thing_that_is_asked_for(
    question: str, text: str, disputable: bool
) -> None:
    assert ranked(question, evidence(text)).disputable is disputable


def test_nothing_is_sure_by_the_title_of_a_channel() -> None:
    for question, text, title in (
        ("can i pay by card on boats", "Cards are sold out.", "Harbour boats"),
        ("how do i get to crow hill", "It takes an hour to get the mirror aligned. Do ask.", "Crow Hill"),
    ):
        assert ranked(question, titled(evidence(text), title)).disputable


def test_the_post_that_says_what_a_thing_is_comes_first() -> None:
    texts = "Moth says it is DNS.", "For newcomers, Moth is Timothy Oakes."
    assert best("who is moth", evidence(*texts))[0] == texts[1]


@pytest.mark.parametrize(
    ("question", "older", "newer"),
    [
        ("does the sauna work again", "The sauna still does not work.", "The sauna is hot again!"),
        ("лифт починили?", "Лифт не починили: ждём мастера.", "Лифт снова работает."),
        ("is the library back from repairs", "The library closes for repairs.", "We are back in the library."),
    ],
)
def test_the_newest_state_of_a_thing_comes_first(question: str, older: str, newer: str) -> None:
    assert ranked(question, evidence(older, newer, days=(0, 30))).pieces[0].text == newer
    assert ranked(question, evidence(older, "The bridge is open again.", days=(0, 30))).pieces[0].text == older
    assert ranked(question, evidence(older, newer, days=(0, 30), chats=(-1, -2))).pieces[0].text == older


def test_of_posts_about_a_thing_the_newest_tells_how_it_stands_and_counting_it_tells_nothing() -> None:
    posts = (
        "The bridge is shut for repairs.",
        "The bridge opens in June, the railings are late.",
        "The year in numbers: 1 bridge, 2 lifts, 84 sacks, 3 cats.",
        "A café opened by the station.",
    )
    found = evidence(*posts, days=(0, 60, 300, 310))
    latest, told = ranked("what's up with the bridge", found).select_latest(3, found)
    assert latest[0].text == posts[1]
    assert told and posts[3] not in [piece.text for piece in latest]
    assert ranked("what's up with the bridge", evidence()).select_latest(3, evidence()) == ([], False)


def test_a_later_post_of_the_story_may_name_only_its_most_telling_word() -> None:
    begun, other, ended = (
        "A camera under a salad lid.",
        "Plates are solved with any camera.",
        "First light for the salad.",
    )
    found = evidence(begun, other, ended, days=(0, 10, 20))
    latest, _ = ranked("did the salad camera get going", found).select_latest(2, found)
    assert [piece.text for piece in latest] == [ended, begun]


def test_a_single_post_about_a_thing_is_shown_beside_others_and_not_as_told() -> None:
    found = evidence("The north bridge is shut.", "The school play is in May.", days=(0, 10))
    latest, told = ranked("what's up with the north bridge", found).select_latest(2, found)
    assert (len(latest), told) == (2, False)


@pytest.mark.parametrize(("score", "shown"), [(0.5, [1, 1]), (5.0, [1, 2])])
def test_where_no_other_post_is_near_more_of_the_first_is_shown(score: float, shown: list[int]) -> None:
    first = (
        "Визу в Японию теперь выдают по документам, которых стало меньше: бронь и оплата отеля консульству не нужны. "
        "Принести по-прежнему следует загранпаспорт, копию внутреннего паспорта, справку о доходах за полгода, бронь "
        "билета на самолёт в обе стороны и заполненную от руки анкету с двумя одинаковыми фотографиями."
    )
    posts = evidence(first, "Документы на визу принимают по вторникам.")
    found = replace(posts, sources=(posts.sources[0], replace(posts.sources[1], score=score)))
    chosen = ranked("документы на визу в Японию", found).select_closest(3, found)
    assert [one.source.number for one in chosen[:2]] == shown
    assert not chosen[0].overlaps(chosen[1])


@pytest.mark.parametrize("question", ["когда следующая ярмарка?", "когда откроется ярмарка?", "when is the next fair?"])
def test_a_day_that_has_passed_is_not_the_next(question: str) -> None:
    texts = "Ярмарка, the fair: 12.04.2025.", "Ярмарка, the fair: 3.05.2025."
    found, now = evidence(*texts, days=(0, 1)), DAY + timedelta(days=50)
    coming = rank_pieces(asked(question), found, now=now)
    assert (coming.pieces[0].text, coming.passed) == (texts[1], False)
    gone = rank_pieces(asked(question), found, now=now + timedelta(days=60))
    assert gone.passed
    assert gone.may_not_answer
    then = rank_pieces(asked("когда была ярмарка?"), found, now=now + timedelta(days=60))
    assert not then.passed


def test_the_next_of_something_is_told_by_a_post_with_a_coming_day_or_a_recent_one() -> None:
    texts = "Ярмарка ярмарка, the fair of fairs: in summer.", "On 3.05.2025 we hold a fair, ярмарка."
    found, now = evidence(*texts, days=(0, 1)), DAY + timedelta(days=50)
    coming = rank_pieces(asked("when is the next fair, следующая ярмарка?"), found, now=now)
    assert (coming.pieces[0].text, coming.passed) == (texts[1], False)
    vague = evidence(texts[0], days=(0,))
    assert not rank_pieces(asked("when is the next fair?"), vague, now=DAY + timedelta(days=50)).passed
    assert rank_pieces(asked("when is the next fair?"), vague, now=DAY + timedelta(days=70)).passed
    weekly = evidence("A fair every Tuesday at 19:00.", days=(0,))
    assert not rank_pieces(asked("when is the next fair?"), weekly, now=DAY + timedelta(days=70)).passed


def test_a_span_of_days_has_passed_with_its_last() -> None:
    found = evidence("Воду отключат с 12 по 25 апреля.")
    assert not rank_pieces(asked("когда отключат воду?"), found, now=DAY + timedelta(days=10)).passed
    assert rank_pieces(asked("когда отключат воду?"), found, now=DAY + timedelta(days=90)).passed


def test_a_plan_is_outdated_once_its_day_has_passed() -> None:
    (piece,) = rank_pieces(asked("мост"), evidence("Мост откроют 1 мая.")).pieces
    assert not is_outdated_plan(piece, DAY + timedelta(days=30))
    assert is_outdated_plan(piece, DAY + timedelta(days=90))
    (report,) = rank_pieces(asked("мост"), evidence("Мост открыли 20 февраля.")).pieces
    assert not is_outdated_plan(report, DAY + timedelta(days=90))
    (lasting,) = rank_pieces(asked("мост"), evidence("Мост открыт с 1 мая.")).pieces
    assert not is_outdated_plan(lasting, DAY + timedelta(days=90))
    (ended,) = rank_pieces(asked("мост"), evidence("Мост закрыт с 1 мая по 5 мая.")).pieces
    assert is_outdated_plan(ended, DAY + timedelta(days=90))
    (bare,) = rank_pieces(asked("мост"), evidence("Мост откроют.")).pieces
    assert not is_outdated_plan(bare, DAY + timedelta(days=90))


def test_an_amount_of_a_currency_is_not_its_price() -> None:
    question = "сколько стоит доллар"
    want = detect_answer_type(question)
    assert not contains_answer_type(want, "Счета по 100 долларов.", question)
    assert contains_answer_type(want, "Доллар стоит 93 рубля.", question)
    assert contains_answer_type(want, "Телескоп за 100 долларов.", "сколько стоит телескоп в долларах")


def test_a_value_may_be_asked_for_after_its_name() -> None:
    assert detect_answer_type("ставка какая") is detect_answer_type("какая ставка")


def test_a_post_of_another_language_says_so() -> None:
    assert ranked("when is the bridge open", evidence("Мост bridge открыт.")).in_other_language
    assert not ranked("when is the bridge open", evidence("The bridge is open.")).in_other_language
    assert not ranked("when is the bridge open", evidence("")).in_other_language


def test_a_newer_price_that_says_it_changed_is_not_doubtful() -> None:
    texts = "Бассейн: разовое посещение 320 рублей.", "С 12 января: месяц 2 750 рублей, разово 400 рублей."
    ranked = rank_pieces(asked("бассейн разовое посещение сколько стоит"), evidence(*texts, days=(0, 300)))
    assert ranked.contested
    assert ranked.pieces[0].text == texts[1]
    assert not ranked.may_not_answer


def test_a_later_price_of_another_thing_contests_nothing() -> None:
    texts = "Разовое посещение бассейна стоит 320 рублей.", "Пачка кофе стоит 500 рублей."
    ranked = rank_pieces(asked("сколько стоит разовое посещение бассейна утром"), evidence(*texts, days=(0, 30)))
    assert not ranked.contested


def test_a_link_that_a_colon_announces_is_shown() -> None:
    text = "Our brother started a new channel, please join:\nhttps://t.me/madrasa\nGood night to all of you."
    assert "https://t.me/madrasa" in best("new channel to join", evidence(text), most=1)[0]


def test_of_another_language_only_the_best_post_is_among_the_closest() -> None:
    found = evidence("The bridge is closed.", "Мост 27 открыт утром.", "The bridge is narrow.")
    found = Evidence(tuple(replace(one, score=5.0 - one.number) for one in found.sources))
    closest = rank_pieces(asked("bridge 27 closed"), found).select_closest(3, found)
    assert [piece.source.number for piece in closest] == [1, 3]


def test_of_what_a_colon_announces_the_beginning_is_shown() -> None:
    text = "There are three levels of forbidding evil:\nFirst with the hand, " + "then with the tongue and so on, " * 12
    assert "with the hand" in best("levels of forbidding evil", evidence(text), most=1)[0]


def titled(found: Evidence, *titles: str) -> Evidence:
    sources = zip(found.sources, titles, strict=True)
    return Evidence(tuple(replace(one, passage=replace(one.passage, header=title)) for one, title in sources))


def test_what_the_title_of_a_channel_names_is_met_in_all_its_posts() -> None:
    texts = "Закрыто по воскресеньям, в субботу до 15:00.", "По воскресеньям автобус ходит до 18:00."
    found = titled(evidence(*texts, chats=(-1, -2)), "Мухтар, ветклиника", "Дачи")
    assert best("до скольки ветклиника в воскресенье", found)[0] == texts[0]


@pytest.mark.parametrize(
    ("question", "text", "unsure"),
    [
        ("Why was the start moved?", "The start was moved, the reasons are not known.", True),
        ("Why was the start moved?", "The start was moved because of fog.", False),
        ("Почему перенесли старт?", "Старт перенесли, причину не называют.", True),
        ("When does the day of rest end?", "When does the day of rest end?\nBy our editor", True),
        ("Who runs the club?", "The club: chaired by Delphine Marsh.", False),
        ("When does the gate close?", "The gate closes at midnight.", False),
        ("Сколько стоит парковка?", "Парковка у моста открыта.", True),
        ("Сколько стоит парковка?", "Парковка у моста: 50 ₽ в час.", False),
        ("сколько лет трубе завода", "Труба завода поставлена в 1911 году.", False),
        ("how many members", "The rate of members goes up to 900.", True),
        ("how many members", "We are 30 members now.", False),
        ("Мост закрыли?", "Говорят, мост закрыли.", True),
        ("Мост закрыли?", "Мост закрыли.", False),
        ("is bus 27 free", "Free, as ever. Bus 27 runs late that night.", True),
        ("is bus 27 free", "Bus 27 runs late that night. It is free.", False),
    ],
)
def test_hearsay_questions_and_what_lacks_the_asked_for_or_says_it_before_its_subject_may_not_answer(
    question: str, text: str, unsure: bool
) -> None:
    assert rank_pieces(asked(question), evidence(text)).may_not_answer == unsure


def test_a_new_price_in_a_list_below_the_line_that_says_so_holds() -> None:
    texts = "Цены:\n• приём 900 ₽\n• укол 300 ₽", "С июля меняем часть цен:\nприём 1 100 ₽\nповторный 600 ₽"
    assert "1 100" in best("сколько стоит приём", evidence(*texts, days=(0, 30)))[0]
