from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_core.calibration import AnsweringFeatures, estimate_answering, estimate_answering_by_words
from rag_core.dates import parse_period
from rag_core.evidence import find_repeated_lines, is_boilerplate
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, build_text_key
from rag_core.types import Evidence, Passage, PostKey, Question, Source, Viewer
from rag_core.writing.extract import RankedPieces, is_outdated_plan, quote_earlier_piece, quote_piece, rank_pieces
from rag_core.writing.extract_candidates import ExtractCandidate, PieceFeatures

DAY = datetime(2025, 3, 1, tzinfo=UTC)


def asked(text):
    return QueryTerms.of(text, lambda term: 1.0)


def evidence(*texts, chats=(), days=(), start=0):
    sources = []
    for n, text in enumerate(texts):
        chat, date = chats[n] if chats else -1, DAY + timedelta(days=days[n] if days else 0)
        passage = Passage(PostKey(chat, n + 1), 0, "", text, start, start + len(text), date)
        sources.append(Source(n + 1, passage, 5.0))
    return Evidence(tuple(sources))


def best(question, found, most=3):
    pieces = rank_pieces(asked(question), found).select(most)
    return [piece.source.passage.text[piece.start : piece.end] for piece in pieces]


LEVELS = "There are three levels of forbidding evil:\nFirst with the hand, " + "then with the tongue and so on, " * 12
JOIN = "Our brother started a new channel, please join:\nhttps://t.me/madrasa\nGood night to all of you."


@pytest.mark.parametrize(
    ("question", "found", "shown"),
    [
        (
            "До какого дня закрыт мост?",
            evidence("Доброе утро! Мост закрыт до пятницы. Не забудьте зонт, обещают дождь и ветер."),
            "Мост закрыт до пятницы.",
        ),
        (
            "Сколько стоит абонемент?",
            evidence("О цене абонемента спрашивают часто.", "Абонемент стоит 2 750 рублей."),
            "Абонемент стоит 2 750 рублей.",
        ),
        ("Когда откроют мост?", evidence("слово " * 200 + "а мост откроют в пятницу"), "пятницу"),
        ("Почему новый замок?", evidence("Новый замок на воротах. Старый замёрз."), "Старый замёрз."),
        ("new channel to join", evidence(JOIN), "https://t.me/madrasa"),  # a colon announces it
        ("levels of forbidding evil", evidence(LEVELS), "with the hand"),  # of what it announces the beginning
    ],
)
def test_the_piece_that_answers_comes_first(question, found, shown):
    assert shown in best(question, found)[0]


def test_hashtags_mentions_and_links_alone_are_no_sentence():
    assert best("мост", evidence("#мост @most https://most.ru/most\n12 34")) == []


def test_pieces_do_not_overlap_and_are_short_enough_to_be_shown_together():
    texts = [f"Мост номер {n} закрыт на ремонт до осени, объезд через плотину и площадь. " * 6 for n in range(5)]
    pieces = rank_pieces(asked("Какой мост закрыт на ремонт?"), evidence(*texts)).select(5)
    assert len(pieces) > 1
    assert sum(piece.end - piece.start for piece in pieces) <= 600
    assert not any(a.overlaps(b) for n, a in enumerate(pieces) for b in pieces[n + 1 :])


def test_a_quote_is_cited_where_it_stands_in_its_post():
    piece = rank_pieces(asked("мост"), evidence("Утро. Мост открыт.", start=100)).pieces[0]
    sentence = quote_piece(piece)
    (citation,) = sentence.citations
    assert sentence.text == citation.quote == "Мост открыт."
    assert (citation.post, citation.start, citation.end) == (PostKey(-1, 1), 106, 118)


@given(st.lists(st.text(max_size=400), max_size=4), st.text(max_size=60), st.integers(30, MAX_SENTENCE_LENGTH))
@example(["AA"], "\U00017000", 30)
def test_every_piece_is_a_part_of_its_text_and_short_enough(texts, question, longest):
    for piece in rank_pieces(asked(question), evidence(*texts), longest).pieces:
        assert 0 <= piece.start < piece.end <= len(piece.source.passage.text)
        assert piece.end - piece.start <= longest


def test_what_is_shown_of_one_post_is_not_said_again_in_the_words_of_another():
    texts = "🎉 Новый рынок открылся 18 октября!", "Новый рынок открылся 18 октября. #рынок", "Рынок работает до шести."
    shown = best("Когда открылся рынок?", evidence(*texts, chats=(-1, -2, -3)))
    assert sum("18 октября" in piece for piece in shown) == 1
    assert "Рынок работает до шести." in shown


PRICES = "Хлеб подорожал: буханка ржаного стоит 185 ₽.", "Буханка ржаного хлеба стоит 160 ₽.", "Погода хорошая."


def ranked(question, found):
    return rank_pieces(asked(question), found)


def test_a_successor_comes_first_and_what_it_supersedes_is_earlier():
    pieces = ranked("Сколько стоит буханка ржаного хлеба?", evidence(*PRICES, days=(300, 0, 400)))
    old, new = (next(one for one in pieces.pieces if one.text == text) for text in (PRICES[1], PRICES[0]))
    pieces = pieces.put_first(new, [old])
    earlier = quote_earlier_piece(pieces, Question("", "ru", DAY, Viewer(1, frozenset())))
    assert pieces.pieces[0].text == PRICES[0]
    assert PRICES[1] not in [one.text for one in pieces.pieces]
    assert pieces.is_contested
    assert earlier.text == f"Раньше, 1 марта 2025: {PRICES[1]}"


def test_a_question_about_a_time_gets_the_value_of_that_time_and_no_series():
    found, period = evidence(*PRICES, days=(300, 0, 400)), parse_period("в марте 2025", DAY + timedelta(days=500))
    pieces = rank_pieces(asked("Сколько стоила буханка ржаного хлеба в марте 2025?"), found, period=period)
    assert pieces.pieces[0].text == PRICES[1]
    assert not pieces.earlier
    assert not pieces.may_be_superseded


ROAD = "Когда откроют мост? Он закрыт до пятницы. Объезд через плотину."
CLOSED = "Он закрыт до пятницы."


@pytest.mark.parametrize(
    ("question", "part", "score", "shown"),
    [
        ("Закрыт ли мост?", CLOSED, 2.6, CLOSED),
        ("Закрыт ли мост?", CLOSED, 2.4, ROAD),  # what stands around it adds to it
        ("Закрыт ли мост?", "Когда откроют мост?", 2.9, ROAD),  # a question is no answer
        ("Закрыт ли мост?", "Когда откроют мост? " + CLOSED, 2.9, "Когда откроют мост? " + CLOSED),
        ("Почему закрыт мост?", CLOSED, 2.9, ROAD),
        ("Какие мосты закрыты?", CLOSED, 2.9, ROAD),
    ],
)
def test_sentences_that_add_little_to_the_first_piece_are_left_out(question, part, score, shown):
    source = evidence(ROAD).sources[0]
    features = PieceFeatures(rank=1.0, terms=1.0, held=1.0, length=0.2, post_maxsim=0.9)
    start = ROAD.index(part)
    pieces = (
        ExtractCandidate(source, 0, len(ROAD), 3.0, True, features),
        ExtractCandidate(source, start, start + len(part), score, True, features),
    )
    assert [one.text for one in RankedPieces(asked(question), pieces).select(3)] == [shown]
    assert [one.text for one in RankedPieces(asked(question), pieces).select(1)] == [shown]
    assert [one.text for one in RankedPieces(asked(question), pieces).select(3, whole=True)] == [ROAD]


def test_a_piece_that_supersedes_another_is_shortened_too():
    old, new = evidence("Мост закрыт до мая.", ROAD).sources
    features = PieceFeatures(rank=1.0, terms=1.0, held=1.0, length=0.2, post_maxsim=0.9)
    start = ROAD.index(CLOSED)
    first = ExtractCandidate(old, 0, 19, 5.0, True, features)
    part, whole = (
        ExtractCandidate(new, start, start + len(CLOSED), 2.6, True, features),
        ExtractCandidate(new, 0, len(ROAD), 3.0, True, features),
    )
    pieces = RankedPieces(asked("Закрыт ли мост?"), (first, whole, part)).put_first(whole, (first,))
    assert [(one.text, one.score) for one in pieces.pieces] == [(ROAD, 5.0), (CLOSED, 4.6)]
    assert [one.text for one in pieces.select(3)] == [CLOSED]
    assert pieces.earlier is first


def test_further_pieces_are_of_other_posts():
    texts = "Мост закрыт. Мост старый.", "Мост открыт.", "Мост новый."
    pieces = ranked("мост", evidence(*texts)).select(3)
    assert sorted(piece.source.number for piece in pieces) == [1, 2, 3]


@pytest.mark.parametrize(("score", "shown"), [(0.1, [1, 1]), (5.0, [1, 2])])
def test_where_no_other_post_is_near_more_of_the_first_is_shown(score, shown):
    first = (
        "Визу в Японию теперь выдают по документам, которых стало меньше: бронь и оплата отеля консульству не нужны. "
        "Принести по-прежнему следует загранпаспорт, копию внутреннего паспорта, справку о доходах за полгода, бронь "
        "билета на самолёт в обе стороны и заполненную от руки анкету с двумя одинаковыми фотографиями."
    )
    posts = evidence(first, "Документы принимают по вторникам.")
    found = replace(posts, sources=(posts.sources[0], replace(posts.sources[1], score=score)))
    chosen = ranked("документы на визу в Японию", found).select(3)
    assert [one.source.number for one in chosen[:2]] == shown
    assert not chosen[0].overlaps(chosen[1])


def test_pieces_of_another_language_are_not_shown_below_one_of_the_own():
    found = evidence("The bridge is closed.", "Мост bridge закрыт.", "The bridge is narrow.")
    found = Evidence(tuple(replace(one, score=5.0 - one.number) for one in found.sources))
    assert [piece.source.number for piece in ranked("bridge closed", found).select(3)] == [1, 3]


def test_two_posts_that_answer_alike_contest_each_other():
    alike = evidence("Лодка отходит в 9:00 по будням.", "Лодка отходит в 11:00 по выходным.", chats=(-1, -2))
    assert ranked("когда отходит лодка", alike).is_contested
    assert not ranked("когда отходит лодка", evidence("Лодка отходит в 9:00.", "Погода хорошая.")).is_contested


@given(st.floats(0, 60), st.floats(-5, 30), st.floats(0, 60), st.floats(0, 1))
def test_by_words_a_better_piece_is_never_less_likely(score, lead, more, terms):
    likely = estimate_answering_by_words(score, lead, terms)
    assert 0 <= likely <= estimate_answering_by_words(score + more, lead, terms) <= 1
    assert likely <= estimate_answering_by_words(score, lead + more, terms)


# Of pieces of the data: the mean of those that answer, and of those that do not.
ANSWERING = AnsweringFeatures(28, 4, 2.5, 0.95, 0.5, 0.8, 0.6, 0.3, 0.1, 0.8, 8, 0)
BESIDE = AnsweringFeatures(22, 1.5, 0.5, 0.8, 0.3, 0.5, 0.3, 0.15, 0.03, 0.6, 9, 0)


def test_what_answers_is_likelier_than_what_stands_beside_it():
    assert estimate_answering(BESIDE) < estimate_answering(ANSWERING)


@given(st.builds(AnsweringFeatures, *[st.sampled_from((-1e6, 1e6))] * len(AnsweringFeatures._fields)))
def test_beyond_the_data_nothing_is_likelier_than_at_its_edge(features):
    assert 0 <= estimate_answering(features) <= 1
    assert estimate_answering(features) == estimate_answering(AnsweringFeatures(*(one * 1e6 for one in features)))


def test_how_a_price_changed_is_answered_by_the_whole_series():
    texts = "Буханка ржаного 140 ₽.", "Погода.", "Ржаной теперь 185 ₽, пшеничный 210 ₽.", "Ржаной хлеб 160 ₽."
    pieces = ranked("как менялась цена ржаного", evidence(*texts, days=(0, 10, 300, 100)))
    assert [piece.text for piece in pieces.series] == [texts[0], texts[3], texts[2]]
    assert not ranked("какая цена ржаного", evidence(*texts, days=(0, 10, 300, 100))).series


def test_lines_that_a_channel_repeats_and_polls_answer_nothing():
    footer = "Наш мост · @most"
    lines = find_repeated_lines([f"Новость {n}.\n{footer}" for n in range(10)] + ["Мост открыт."])
    assert lines == {build_text_key(footer)}
    found = evidence(f"Мост открыт.\n{footer}", "Нужен ли мост?\n— Да\n— Нет")
    said = [p.text for p in ranked("мост", replace(found, boilerplate={-1: lines})).pieces]
    assert said == ["Мост открыт."]
    assert is_boilerplate(f"{footer}\n\n{footer}", lines)
    assert not is_boilerplate(f"Мост открыт.\n{footer}", lines)
    assert not is_boilerplate(footer, frozenset())
    assert not find_repeated_lines(["Хлеб 90 ₽"] * 4)  # too few


@pytest.mark.parametrize(
    ("text", "days", "outdated"),
    [
        ("Мост откроют 1 мая.", 30, False), ("Мост откроют 1 мая.", 90, True), ("Мост открыли 20 февраля.", 90, False),
        ("Мост открыт с 1 мая.", 90, False), ("Мост закрыт с 1 мая по 5 мая.", 90, True), ("Мост откроют.", 90, False),
    ],
)  # fmt: skip
def test_a_plan_is_outdated_once_its_day_has_passed(text, days, outdated):
    (piece,) = rank_pieces(asked("мост"), evidence(text)).pieces
    assert is_outdated_plan(piece, DAY + timedelta(days=days)) is outdated


@pytest.mark.parametrize(
    ("text", "other"), [("Мост bridge открыт.", True), ("The bridge is open.", False), ("", False)]
)
def test_a_post_of_another_language_says_so(text, other):
    assert ranked("when is the bridge open", evidence(text)).in_other_language is other


def test_what_the_title_of_a_channel_names_is_met_in_all_its_posts():
    texts = "Закрыто по воскресеньям, в субботу до 15:00.", "По воскресеньям автобус ходит до 18:00."
    sources = zip(evidence(*texts, chats=(-1, -2)).sources, ("Мухтар, ветклиника", "Дачи"), strict=True)
    found = Evidence(tuple(replace(one, passage=replace(one.passage, header=title)) for one, title in sources))
    assert best("до скольки ветклиника в воскресенье", found)[0] == texts[0]
