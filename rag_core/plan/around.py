"""What a model may name in a plan: channels, authors and languages that are there, and that the question speaks of."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rag_core.analysis import language_of, terms
from rag_core.named import same_name
from rag_core.plan.script import other_script
from rag_core.types import Channel

__all__ = ["LANGUAGES", "Around", "Spoken"]

LANGUAGES = {"en": "English", "ru": "Russian"}
_WORD = re.compile(r"[^\W_]+")
_TELLING = re.compile(r"[A-ZА-ЯЁ\d]")  # a name or a number


@dataclass(frozen=True)
class Spoken:
    """The words of a question, also as they are spelt in the other script."""

    text: str

    @cached_property
    def terms(self) -> frozenset[str]:
        """Terms of both scripts."""
        own = _WORD.findall(self.text)
        return frozenset(terms(" ".join((*own, *(spelt for word in own for spelt in other_script(word))))))

    def of(self, name: str) -> bool:
        """Whether it speaks of a name: one of the name's words stands in it."""
        return not self.terms.isdisjoint(terms(" ".join(_WORD.findall(name))))

    def says(self, phrase: str) -> bool:
        """Whether all words of a phrase are the question's."""
        return self.terms.issuperset(terms(phrase))

    def vouches_for(self, phrase: str) -> bool:
        """Whether a phrase has no name and no number but those of the question: others are made up."""
        telling = [word for word in _WORD.findall(phrase) if _TELLING.search(word)]
        return self.terms.issuperset(terms(" ".join(telling)))


@dataclass(frozen=True, slots=True)
class Around:
    """Channels by id that the asker may read, the authors and the languages of their posts."""

    channels: Mapping[int, Channel] = field(default_factory=dict)
    authors: Sequence[str] = ()
    languages: frozenset[str] = frozenset()

    def other_language(self, text: str) -> str:
        """The language that posts are in beside that of the text: "ru", "en", or nothing."""
        return next(iter(self.languages & LANGUAGES.keys() - {language_of(text)}), "")

    def spoken_of(self, spoken: Spoken) -> list[Channel]:
        """The channels that the question may mean, always in the same order."""
        found = [c for c in self.channels.values() if spoken.of(f"{c.title} {c.username or ''}")]
        return sorted(found, key=lambda channel: channel.chat_id, reverse=True)

    def channels_called(self, said: str, spoken: Spoken) -> frozenset[int] | None:
        """The channels of that username, or whose title begins so; None where the question speaks of none of them."""
        name = said.strip().removeprefix("@").casefold()
        meant = self.spoken_of(spoken) if name else []
        exact = [c.chat_id for c in meant if (c.username or "").casefold() == name]
        return frozenset(exact or [c.chat_id for c in meant if c.title.casefold().startswith(name)]) or None

    def authors_called(self, said: str, spoken: Spoken) -> tuple[str, ...]:
        """The name, where it is one of the authors and the question speaks of it."""
        known = bool(said) and spoken.of(said) and any(same_name(said, author) for author in self.authors)
        return (said,) if known else ()
