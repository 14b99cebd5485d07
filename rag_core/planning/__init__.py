"""Query planning: a question to its intent, topic, period, filters and search queries."""
