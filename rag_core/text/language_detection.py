"""Language detection, Russian or English, by the function words of a text and its letters."""

from __future__ import annotations

from rag_core.text.tokens import ENGLISH_STOP_WORDS, RUSSIAN_STOP_WORDS, WORD


def detect_language(text: str) -> str:
    """Detect the language, "ru" or "en", by function words, else by letters: a third of them Cyrillic is Russian.

    Function words come first: a Russian question about the Golden Gate Quartet has more Latin letters than
    Cyrillic ones, an English one about Кирпичики more Cyrillic ones.
    """
    low = text.lower().replace("ё", "е")
    words = WORD.findall(low)
    russian, english = (sum(word in stops for word in words) for stops in (RUSSIAN_STOP_WORDS, ENGLISH_STOP_WORDS))
    if russian != english:
        return "ru" if russian > english else "en"
    letters = [c for c in low if c.isalpha()]
    cyrillic = sum("а" <= c <= "я" for c in letters)
    return "ru" if letters and cyrillic * 3 >= len(letters) else "en"
