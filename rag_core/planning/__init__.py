"""Query planning: a question to its intent, topic, period, filters and search queries.

Rules always make the plan; a model adds to it where there is one.
"""
