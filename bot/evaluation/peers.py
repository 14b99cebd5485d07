"""dateparser alone, as its users call it: what our own rules of time are measured beside."""

from __future__ import annotations

import warnings
from datetime import UTC, date, datetime, time, timedelta

from dateutil.relativedelta import relativedelta

from rag_core.when import Period

__all__ = ["dateparser_alone"]

_LANGUAGES = ["ru", "en"]  # it is not told which, as our own reader is not


def dateparser_alone(text: str, ref: datetime) -> Period | None:
    """The whole text as a date, else the first date that dateparser finds in it, as long as dateparser says it is.

    The past is preferred, as a search over posts wants it.
    """
    from dateparser.date import DateDataParser
    from dateparser.search import search_dates

    settings = {"RELATIVE_BASE": ref.replace(tzinfo=None), "PREFER_DATES_FROM": "past"}
    reader = DateDataParser(languages=_LANGUAGES, settings=settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of days without a year, and of what later versions will do
        whole = reader.get_date_data(text)
        if whole.date_obj:
            return _lasting(whole.date_obj.date(), whole.period)
        for words, moment in search_dates(text, languages=_LANGUAGES, settings=settings) or ():
            return _lasting(moment.date(), reader.get_date_data(words).period or "day")
    return None


def _lasting(day: date, period: str) -> Period:
    if day.year == date.max.year:
        return Period(_midnight(day), None, "")
    if period == "week":
        since, until = day - timedelta(days=day.weekday()), day - timedelta(days=day.weekday() - 7)
    elif period == "month":
        since = day.replace(day=1)
        until = since + relativedelta(months=1)
    elif period == "year":
        since = day.replace(month=1, day=1)
        until = since + relativedelta(years=1)
    else:
        since, until = day, day + timedelta(days=1)
    return Period(_midnight(since), _midnight(until), "")


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)
