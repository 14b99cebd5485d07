"""Why a file cannot be imported, as the id of a sentence and its values: the child's language is not the reader's."""

from __future__ import annotations

__all__ = ["Refusal"]


class Refusal(Exception):
    """`sentence` is an id of `locales/*.ftl`."""

    def __init__(self, sentence: str, **values: str | int) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.values = values
