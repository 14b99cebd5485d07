"""Views: answers, verdicts, search results and keyboards as formatted text. They change nothing."""
