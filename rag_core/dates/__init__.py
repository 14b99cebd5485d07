"""Date parser for questions: time expressions to a range of days, Russian and English.

Examples: "в марте 2025", "last month", "с 3 по 9 июня". Posts lie in the past: a date without a year, or a bare
weekday, means the latest one that has begun. A future date gives no filter.
"""
