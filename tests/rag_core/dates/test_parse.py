from datetime import UTC, datetime

import pytest
from date_scores import SCORED, read_date_rows, score_dates
from hypothesis import given
from hypothesis import strategies as st
from text_tables import read_table

from rag_core.dates import parse_coming_period, parse_period

LEAP = datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC)  # a Tuesday
PHRASES = [
    "в январе", "в феврале", "в декабре", "in may", "за март 2025", "in february 2024", "в 2024 году", "in 2025",
    "в прошлом году", "в этом году", "last year", "this year", "в прошлом месяце", "last month", "this month",
    "на прошлой неделе", "на этой неделе", "last week", "вчера", "сегодня", "yesterday", "today",
]  # fmt: skip


def days(found):
    bounds = (found.since, found.until) if found else (None, None)
    return " ".join(f"{bound:%Y-%m-%d}" if bound else "-" for bound in bounds)


@pytest.mark.parametrize(("text", "period"), read_table(__file__, "periods.txt"))
def test_words_about_time_seen_from_a_leap_day(text, period):
    assert days(parse_period(text, LEAP)) == period


@pytest.mark.parametrize(("text", "period"), read_table(__file__, "coming.txt"))
def test_a_coming_period_has_not_ended(text, period):
    assert days(parse_coming_period(text, LEAP)) == period


@pytest.mark.parametrize(
    "text",
    [
        "", "паром", "в Мартышкино", "в Майами", "за Мартином", "за 2000 рублей", "for 2024 tickets", "may I",
        "прошлый годовой отчёт", "этажа год", "yesterdays", "the march", "в следующем месяце", "завтра", "через неделю",
        "31 апреля", "32.01.2024", "Первый канал", "Пятница — телеканал", "версия 1.1.30", "счёт 3:2", "в 5 раз",
        "24/7", "9/11", "10:00:00 - 15/15",
        "Последний день Помпеи", "в последние годы жизни", "the last day of school", "in the last year of his life",
    ],
)  # fmt: skip
def test_words_that_only_look_like_time_are_none(text):
    assert parse_period(text, LEAP) is None


@given(st.datetimes(datetime(2010, 1, 1), datetime(2090, 12, 31)), st.sampled_from(PHRASES))
def test_a_period_is_whole_days_and_has_begun(moment, text):
    now = moment.replace(tzinfo=UTC)
    found = parse_period(text, now)
    if found is None:
        assert "20" in text  # it lies in the future
        return
    assert found.since and found.until
    assert found.since < found.until
    assert found.since.tzinfo is UTC
    assert {bound.time() for bound in (found.since, found.until)} == {datetime.min.time()}
    assert found.since <= now or "20" in text


@given(
    st.text(max_size=200)
    | st.lists(st.sampled_from([*PHRASES, "с", "по", "до", "between", "and", "-", "13", "31.12", "99", "i"])).map(
        " ".join
    )
)
def test_any_text_gives_a_period_that_has_begun_or_none(text):
    found = parse_period(text, LEAP)
    if found:
        assert found.since or found.until
        assert found.since is None or found.since <= LEAP
        assert found.since is None or found.until is None or found.since < found.until


@pytest.mark.parametrize("lang", ["ru", "en"])
def test_of_sentences_without_a_date_hardly_one_in_twenty_gives_one(lang, root):
    rows = [row for row in read_date_rows(root / "tests" / "rag_core" / "not_dates") if row.lang == lang]
    figures = score_dates(rows)
    assert len(rows) >= 150
    assert figures["false_finds"] <= 0.05


@pytest.mark.parametrize("lang", ["ru", "en"])
def test_expressions_that_people_type_are_read_and_days_to_come_are_no_filter(lang, root):
    rows = [row for row in read_date_rows(root / "tests" / "data" / "dates") if row.lang == lang]
    figures = score_dates(rows)
    assert len(rows) >= 250
    assert figures["right"] >= 0.95
    assert figures["false_finds"] <= 0.03


@pytest.mark.parametrize(("lang", "least"), [("ru", 0.90), ("en", 0.82)])
def test_the_suites_of_other_programs(lang, least, shared_data):
    rows = [row for row in read_date_rows(shared_data / "temporal_peers") if row.lang == lang]
    assert {row.id for row in rows if row.readings} == {i for i in SCORED if f"-{lang}-" in i}
    assert score_dates(rows)["right"] >= least


def test_words_of_time_are_read_a_thousand_times_a_second(shared_data):
    rows = read_date_rows(shared_data / "temporal_peers")
    # other tests only add to the time: the best counts
    assert max(score_dates(rows)["per_second"] for _ in range(3)) >= 1000
