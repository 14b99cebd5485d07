"""Entity linking: the channels and authors of the posts that a question names; and the languages of the posts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rag_core.text.language_detection import detect_language
from rag_core.text.names import matches_name, transliterate_word
from rag_core.text.tokens import tokenize
from rag_core.types import Channel

LANGUAGE_NAMES = {"en": "English", "ru": "Russian"}
_WORD = re.compile(r"[^\W_]+")
_NAME_OR_NUMBER = re.compile(r"[A-ZА-ЯЁ\d]")


class QuestionWords:
    """Terms of a question in both scripts."""

    def __init__(self, text: str) -> None:
        own = _WORD.findall(text)
        spelt = (other for word in own for other in transliterate_word(word))
        self.terms = frozenset(tokenize(" ".join((*own, *spelt))))

    def of(self, name: str) -> bool:
        """Whether the question contains at least one word of a name."""
        return not self.terms.isdisjoint(tokenize(" ".join(_WORD.findall(name))))

    def says(self, phrase: str) -> bool:
        """Whether the question contains all words of a phrase, of one at least."""
        words = tokenize(phrase)
        return bool(words) and self.terms.issuperset(words)

    def vouches_for(self, phrase: str) -> bool:
        """Whether all names and numbers of a phrase are in the question; others are invented by the model."""
        telling = [word for word in _WORD.findall(phrase) if _NAME_OR_NUMBER.search(word)]
        return self.terms.issuperset(tokenize(" ".join(telling)))


@dataclass(frozen=True, slots=True)
class KnownEntities:
    """Channels by id that the asker may read, and the authors and languages of their posts."""

    channels: Mapping[int, Channel] = field(default_factory=dict)
    authors: Sequence[str] = ()
    languages: frozenset[str] = frozenset()

    def other_language(self, text: str) -> str:
        """The other language of the posts, "ru" or "en", that differs from that of the text; else empty."""
        return next(iter(self.languages & LANGUAGE_NAMES.keys() - {detect_language(text)}), "")

    def spoken_of(self, spoken: QuestionWords) -> list[Channel]:
        """Channels with a word of their title or username in the question, in a stable order."""
        named = [c for c in self.channels.values() if spoken.of(f"{c.title} {c.username or ''}")]
        return sorted(named, key=lambda channel: channel.chat_id, reverse=True)

    def channels_called(self, said: str, spoken: QuestionWords) -> frozenset[int] | None:
        """Channels with this username or beginning of the title, if the question says it whole; else None."""
        name = said.strip().removeprefix("@").casefold()
        named = (c for c in self.spoken_of(spoken) if spoken.says(c.username or " ") or spoken.says(c.title))
        meant = list(named) if name else []
        exact = [c.chat_id for c in meant if (c.username or "").casefold() == name]
        return frozenset(exact or [c.chat_id for c in meant if c.title.casefold().startswith(name)]) or None

    def authors_called(self, said: str, spoken: QuestionWords) -> tuple[str, ...]:
        """The name as a one-element tuple, if it is a known author and the question names it; else empty."""
        known = bool(said) and spoken.of(said) and any(matches_name(said, author) for author in self.authors)
        return (said,) if known else ()
