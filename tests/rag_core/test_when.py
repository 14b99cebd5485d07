from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_core.when import period

LEAP = datetime(2028, 2, 29, 23, 59, 59, tzinfo=UTC)  # a Tuesday
PHRASES = [
    "в январе", "в феврале", "в декабре", "in may", "за март 2025", "in february 2024", "в 2024 году", "in 2025",
    "в прошлом году", "в этом году", "last year", "this year", "в прошлом месяце", "last month", "this month",
    "на прошлой неделе", "на этой неделе", "last week", "вчера", "сегодня", "yesterday", "today",
]  # fmt: skip


def days(text: str, now: datetime = LEAP) -> tuple[str, str] | None:
    found = period(text, now)
    return (found.since.date().isoformat(), found.until.date().isoformat()) if found else None


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("что было вчера?", "2028-02-28", "2028-02-29"),
        ("today's posts", "2028-02-29", "2028-03-01"),
        ("в прошлом году", "2027-01-01", "2028-01-01"),
        ("в этом году", "2028-01-01", "2029-01-01"),
        ("last month", "2028-01-01", "2028-02-01"),
        ("за этот месяц", "2028-02-01", "2028-03-01"),
        ("на прошлой неделе", "2028-02-21", "2028-02-28"),
        ("this week", "2028-02-28", "2028-03-06"),
        ("в феврале", "2028-02-01", "2028-03-01"),
        ("в марте", "2027-03-01", "2027-04-01"),  # the latest that has begun
        ("в декабре", "2027-12-01", "2028-01-01"),
        ("в мае 2025 г.", "2025-05-01", "2025-06-01"),
        ("в феврале 2027 года", "2027-02-01", "2027-03-01"),
        ("In May of 2024", "2024-05-01", "2024-06-01"),
        ("in 2024 about the ferry", "2024-01-01", "2025-01-01"),
        ("за 2024 год", "2024-01-01", "2025-01-01"),
    ],
)
def test_words_about_time_seen_from_a_leap_day(text: str, since: str, until: str) -> None:
    assert days(text) == (since, until)


@pytest.mark.parametrize(
    "text",
    [
        "", "паром", "в Мартышкино", "в Майами", "за Мартином", "за 2000 рублей", "for 2024 tickets", "may I",
        "в 1999 году", "прошлый годовой отчёт", "этажа год", "yesterdays", "the march", "во вторник",
    ],
)  # fmt: skip
def test_words_that_only_look_like_time_are_none(text: str) -> None:
    assert days(text) is None


def test_the_words_are_given_back_as_they_stand_in_the_lower_case_text() -> None:
    found = period("Сколько постов о пароме В МАЕ 2025 года?", LEAP)
    assert found is not None
    assert found.words == "в мае 2025 года"


@given(st.datetimes(datetime(2010, 1, 1), datetime(2090, 12, 31)), st.sampled_from(PHRASES))
def test_a_period_is_whole_days_and_has_begun(moment: datetime, text: str) -> None:
    now = moment.replace(tzinfo=UTC)
    found = period(text, now)
    assert found is not None
    assert found.since < found.until
    assert found.since.tzinfo is UTC
    assert {bound.time() for bound in (found.since, found.until)} == {datetime.min.time()}
    assert found.since <= now or "20" in text


@given(st.dates(date(2010, 1, 1), date(2090, 12, 31)))
def test_yesterday_and_today_adjoin_at_every_end_of_a_month(day: date) -> None:
    now = datetime(day.year, day.month, day.day, 23, 59, tzinfo=UTC)
    yesterday, today = period("вчера", now), period("сегодня", now)
    assert yesterday and today
    assert yesterday.until == today.since
    assert today.since.date() == day
    assert yesterday.since == today.since - timedelta(days=1)
