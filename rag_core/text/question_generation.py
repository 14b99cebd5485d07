"""Question generation by rules: short questions of readers about a value that a post states, in other words than its own.

A value is a price, a date, a time of day or a count. The question is made of the question word of its kind and the
thing that the value belongs to: in Russian the nearest noun in the nominative before it, in English the subject of
the sentence. Sentences in which such a thing is not found make no question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_core.text.morphology import WordReading, read_word
from rag_core.text.sentences import split_sentences
from rag_core.text.tokens import detect_language, tokenize

__all__ = ["GeneratedQuestion", "generate_questions"]

_MAX_SENTENCE_CHARACTERS, _MAX_SENTENCES = 300, 20
_MONTHS_RU = "января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"
_MONTHS_EN = "January|February|March|April|May|June|July|August|September|October|November|December"
_AMOUNT = r"\d{1,3}(?:[ \u00a0\u202f,]\d{3})+(?!\d)|\d+(?:[.,]\d{1,2})?"
# Kinds of values, in the order in which they are looked for.
_VALUE_PATTERNS = (
    ("price", re.compile(
        rf"(?:€|\$|£)\s?(?:{_AMOUNT})|(?:{_AMOUNT})\s?(?:₽|€|\$|руб(?:л\w+)?\b|р\.|евро\b|доллар\w*|тенге\b|rubles?\b|euros?\b|dollars?\b)"
    )),
    ("until", re.compile(r"(?:\bдо|\buntil|\btill)\s(\d{1,2}[:.]\d\d)\b")),
    ("hour", re.compile(r"(?:\bв|\bс|\bat|\bfrom)\s(\d{1,2}[:.]\d\d)\b")),
    ("when", re.compile(
        rf"\b\d{{1,2}}(?:-?го|-е)?\s(?:{_MONTHS_RU})\b|\b\d{{1,2}}(?:st|nd|rd|th)?\s(?:of\s)?(?:{_MONTHS_EN})\b|\b(?:{_MONTHS_EN})\s\d{{1,2}}\b"
    )),
    ("count", re.compile(r"(?<![\d:.,/№#-])\b\d{2,}\s(?=[а-яёa-z]{4,})")),
)  # fmt: skip
_TEMPLATES = {
    ("price", "ru"): "сколько стоит {}", ("price", "en"): "how much is the {}",
    ("until", "ru"): "до скольки {}", ("until", "en"): "how late is the {} open",
    ("hour", "ru"): "во сколько {}", ("hour", "en"): "what time is the {}",
    ("when", "ru"): "когда {}", ("when", "en"): "when is the {}",
    ("count", "ru"): "сколько {}", ("count", "en"): "how many {}",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_ENGLISH_SUBJECT = re.compile(
    r"^(?:\W*(?:The|Our|A|An|This|Next)\s)(?P<thing>[a-z][\w-]*(?:\s[a-z][\w-]*){0,2}?)\s(?:now\s|still\s|also\s)?"
    r"(?:is|are|was|will|costs?|opens?|closes?|starts?|begins?|takes?|runs?|leaves?|meets?|has|have|goes|stays)\b"
)
# Words for times, units and the reader are no things to ask about.
_NO_THINGS = frozenset(
    "год месяц неделя день час минута время утро вечер ночь сегодня завтра январь февраль март апрель май июнь июль август "
    "сентябрь октябрь ноябрь декабрь понедельник вторник среда четверг пятница суббота воскресенье рубль евро процент раз "
    "человек штука друг дорогой цена стоимость итог номер пост канал сезон пора начало конец год часть тысяча миллион "
    "week month year day hour minute time post channel people percent".split()
)


@dataclass(frozen=True, slots=True)
class GeneratedQuestion:
    """Question and the value that answers it, as the post writes it; `topic`: kind and stems, equal for one attribute."""

    text: str
    answer: str
    kind: str
    lang: str
    topic: tuple[str, ...]


def generate_questions(text: str) -> Iterator[GeneratedQuestion]:
    """Generate the questions of a post, at most one for each sentence."""
    for number, (start, end) in enumerate(split_sentences(text)):
        sentence = " ".join(text[start:end].split())
        if number == _MAX_SENTENCES:
            return
        if len(sentence) > _MAX_SENTENCE_CHARACTERS or "http" in sentence or "?" in sentence:
            continue
        lang = detect_language(sentence)
        for kind, pattern in _VALUE_PATTERNS:
            value = pattern.search(sentence)
            if value is None:
                continue
            thing = _find_thing(sentence, value, kind, lang)
            if thing:
                asked = _TEMPLATES[kind, lang].format(thing)
                answer = value[1] if value.re.groups else value[0].strip()
                yield GeneratedQuestion(asked, answer, kind, lang, (kind, *sorted(set(tokenize(thing)))))
                break


def _find_thing(sentence: str, value: re.Match[str], kind: str, lang: str) -> str:
    """Find the thing that a value belongs to, in the form in which it is asked about; "" where none is sure."""
    if kind == "count":
        noun = _WORD.match(sentence, value.end())
        return _format_counted(noun[0].lower(), lang) if noun else ""
    if lang == "en":
        subject = _ENGLISH_SUBJECT.match(sentence)
        thing = subject["thing"] if subject and subject.end() <= value.start() + 1 else ""
        return "" if _NO_THINGS.intersection(thing.split()) else thing
    return _find_russian_thing(sentence[: value.start()])


def _format_counted(noun: str, lang: str) -> str:
    if lang == "en":
        return noun if noun.endswith("s") and noun.removesuffix("s") not in _NO_THINGS else ""
    reading = read_word(noun)[0]
    counted = reading.part == "NOUN" and reading.case == "gent" and reading.number == "plur"
    return noun if counted and reading.lemma not in _NO_THINGS else ""


def _find_russian_thing(before: str) -> str:
    """Find the nearest noun in the nominative before a value, with its adjective and its genitive."""
    words = [(match[0].lower(), read_word(match[0].lower())[0]) for match in list(_WORD.finditer(before))[-12:]]
    for at in range(len(words) - 1, -1, -1):
        word, reading = words[at]
        if not _is_thing(reading):
            continue
        phrase = [word]
        if at and words[at - 1][1].part == "ADJF" and words[at - 1][1].case == "nomn":
            phrase.insert(0, words[at - 1][0])
        if at + 1 < len(words) and words[at + 1][1].part == "NOUN" and words[at + 1][1].case == "gent":
            phrase.append(words[at + 1][0])
        return " ".join(phrase)
    return ""


def _is_thing(reading: WordReading) -> bool:
    return reading.part == "NOUN" and reading.case == "nomn" and not reading.name and reading.lemma not in _NO_THINGS
