from datetime import UTC, datetime

import pytest
from date_scores import SCORED, read_date_rows, score_dates
from hypothesis import given
from hypothesis import strategies as st

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


PERIODS = """
что было вчера? = 2028-02-28 2028-02-29 | today's posts = 2028-02-29 2028-03-01
в прошлом году = 2027-01-01 2028-01-01 | в этом году = 2028-01-01 2029-01-01 | last month = 2028-01-01 2028-02-01
за этот месяц = 2028-02-01 2028-03-01 | на прошлой неделе = 2028-02-21 2028-02-28 | this week = 2028-02-28 2028-03-06
в феврале = 2028-02-01 2028-03-01 | в марте = 2027-03-01 2027-04-01 | в декабре = 2027-12-01 2028-01-01
в мае 2025 г. = 2025-05-01 2025-06-01 | в феврале 2027 года = 2027-02-01 2027-03-01
In May of 2024 = 2024-05-01 2024-06-01 | in 2024 about the ferry = 2024-01-01 2025-01-01
за 2024 год = 2024-01-01 2025-01-01 | во вторник = 2028-02-29 2028-03-01 | в прошлую среду = 2028-02-23 2028-02-24
on Friday = 2028-02-25 2028-02-26 | с марта по май = 2027-03-01 2027-06-01
с декабря по январь = 2027-12-01 2028-02-01 | between 3 and 9 June = 2027-06-03 2027-06-10
с 13 по 15 июля 2025 года = 2025-07-13 2025-07-16 | August 10 - 22, 2012 = 2012-08-10 2012-08-23
за последние 3 месяца = 2027-11-29 2028-03-01 | за неделю = 2028-02-22 2028-03-01
last quarter = 2027-10-01 2028-01-01 | two weeks ago = 2028-02-15 2028-02-16 | since March = 2027-03-01 -
после 5 января = 2028-01-06 - | до Нового года = - 2028-01-01 | 31.10.74 = 1974-10-31 1974-11-01
посты от 12.02 = 2028-02-12 2028-02-13 | двадцать четвёртого февраля = 2028-02-24 2028-02-25
15 числа = 2028-02-15 2028-02-16 | прошлым летом = 2027-06-01 2027-09-01
в конце прошлого года = 2027-09-01 2028-01-01 | в декабре прошлого года = 2027-12-01 2028-01-01
the last week of July = 2027-07-26 2027-08-02 | first tuesday of last month = 2028-01-04 2028-01-05
во втором квартале 2026 = 2026-04-01 2026-07-01 | September-2020-23 = 2020-09-23 2020-09-24
29 февраля = 2028-02-29 2028-03-01
what was posted at the weekend = 2028-02-26 2028-02-28
новости последней недели = 2028-02-21 2028-02-28 | 13 май. 2005 = 2005-05-13 2005-05-14
что было в ноябре прошлого? = 2027-11-01 2027-12-01 | between christmas and new year = 2027-12-25 2028-01-02
since last christmas = 2027-12-25 - | на майские = 2027-05-01 2027-05-12 | под новый год = 2027-12-25 2028-01-01
в последние сутки = 2028-02-28 2028-03-01
"""
COMING = """
what's on this weekend = 2028-03-04 2028-03-06 | что будет в субботу = 2028-03-04 2028-03-05
quiz next Friday, 7.30pm = 2028-03-10 2028-03-11 | планы на 3 марта = 2028-03-03 2028-03-04
завтра в парке = 2028-03-01 2028-03-02 | чё на след неделе = 2028-03-06 2028-03-13
any plans for April = 2028-04-01 2028-05-01 | what was on yesterday = - - | last weekend = - -
may I come on Saturday = 2028-03-04 2028-03-05
"""


@pytest.mark.parametrize("row", PERIODS.strip().replace("\n", " | ").split(" | "))
def test_words_about_time_seen_from_a_leap_day(row):
    text, period = row.split(" = ")
    assert days(parse_period(text, LEAP)) == period


@pytest.mark.parametrize("row", COMING.strip().replace("\n", " | ").split(" | "))
def test_a_coming_period_has_not_ended(row):
    text, period = row.split(" = ")
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
