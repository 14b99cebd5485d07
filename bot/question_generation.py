"""Question generation by rules: short questions of readers about a value that a post states, in other words than its own.

A value is a price, a date, a time of day or a count. The question is made of the question word of its kind and the
thing that the value belongs to: in Russian the nearest noun in the nominative before it, in English the subject of
the sentence. Sentences in which such a thing is not found make no question.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rag_core.text.sentences import split_sentences
from rag_core.text.tokens import detect_language, read_word, tokenize

_MIN_NOUN_LENGTH = 3
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
    ("count", re.compile(r"(?<![\d:.,/№#-])\b(?!(?:19|20)\d\d\b)(?:\d{2,}|[3-9])\s(?=[а-яёa-z]{4,})")),
)  # fmt: skip
_TEMPLATES = {
    ("price", "ru"): "сколько стоит {}", ("price", "en"): "how much is the {}",
    ("until", "ru"): "до скольки {}", ("until", "en"): "how late is the {} open",
    ("hour", "ru"): "во сколько {}", ("hour", "en"): "what time is the {}",
    ("when", "ru"): "когда {}", ("when", "en"): "when is the {}",
    ("count", "ru"): "сколько {}", ("count", "en"): "how many {}",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_RUSSIAN_NAME = re.compile(r"(?: (?:в|на|от|у) | )«[^«»]{2,30}»")
_ENGLISH_VERB = re.compile(
    r"\b(?:is|are|was|were|will|costs?|opens?|closes?|starts?|begins?|takes?|runs?|leaves?|meets?|has|have|had|goes|went|stays|"
    r"ends?|lasts?|arrives?|rose|fell|moved?|moves|came|comes|ran|cost|opened|closed|started|began|took|left|met)\b"
)
_ENGLISH_SUBJECT = re.compile(
    r"(?:.*,\s)?(?:(?:The|the|Our|our|An?|an?|This|Next)\s)(?P<thing>[A-Za-z][a-z-]+(?:\s[A-Za-z][a-z-]+){0,3})\s$"
)
_ENGLISH_ITEM = re.compile(r"(?P<thing>[A-Za-z][a-z-]+(?:\s[a-z][a-z-]+){0,2})\s?[:—–-]?\s?$")
_ENGLISH_PAID_FOR = re.compile(
    r"\s(?:for|per)\s(?:an?\s|the\s|one\s)?(?P<thing>[a-z][a-z-]+(?:\s[a-z][a-z-]+)?)(?=[.,;!)]|$)"
)
_NO_SUBJECTS = frozenset(
    "we you i it they he she there this that these those who what which one and but so or if when while as then now "
    "here not no please about only just from until till to by at on in for with of all both each every more most some any "
    "us our your their his her its my would be been again second first third last next another other same".split()
)
# Words for times, units and the reader are no things to ask about.
_NO_THINGS = frozenset(
    "год месяц неделя день час минута время утро вечер ночь сегодня завтра январь февраль март апрель май июнь июль август "
    "сентябрь октябрь ноябрь декабрь понедельник вторник среда четверг пятница суббота воскресенье рубль евро процент раз "
    "человек штука друг дорогой цена стоимость итог номер пост канал сезон пора начало конец дата старт слух напоминание часть тысяча миллион "
    "week month year day hour minute time post channel people percent price cost fee date".split()
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
            if (value := pattern.search(sentence)) and (thing := _find_thing(sentence, value, kind, lang)):
                answer = value[1] if value.re.groups else value[0].strip()
                topic = (kind, *sorted(set(tokenize(thing))))
                asked = _TEMPLATES[kind, lang].format(thing)
                # of a Russian thing the first word has its number: the noun, or the adjective before it
                first = _WORD.search(thing.lower()) if kind == "price" else None
                if first and first[0] >= "а" and read_word(first[0])[0].number == "plur":
                    asked = asked.replace("стоит", "стоят")
                yield GeneratedQuestion(asked, answer, kind, lang, topic)
                break


def _find_thing(sentence: str, value: re.Match[str], kind: str, lang: str) -> str:
    """Find the thing that a value belongs to, in the form in which it is asked about; "" where none is sure."""
    if kind == "count":
        counted = _WORD.match(sentence, value.end())
        noun = counted[0].lower() if counted else ""
        if not noun or lang == "en":
            return noun if noun.endswith("s") and noun.removesuffix("s") not in _NO_THINGS else ""
        reading = read_word(noun)[0]
        plural = reading.part == "NOUN" and reading.case == "gent" and reading.number == "plur"
        return noun if plural and reading.lemma not in _NO_THINGS else ""
    before = sentence[: value.start()]
    if lang == "ru":
        return _find_russian_thing(before)
    # the subject of the first verb; of a price also what it is paid for, or the item of a list
    verb = _ENGLISH_VERB.search(before)
    found = _ENGLISH_SUBJECT.fullmatch(before, 0, verb.start()) if verb else None
    if found is None and kind == "price":
        found = _ENGLISH_PAID_FOR.match(sentence, value.end()) or (None if verb else _ENGLISH_ITEM.fullmatch(before))
    thing = found["thing"] if found else ""
    if found and not found.start("thing"):  # the first word of the sentence
        thing = thing[0].lower() + thing[1:]
    words = thing.lower().split()
    unclear = not words or (_NO_SUBJECTS | _NO_THINGS).intersection(words) or any(word.endswith("ly") for word in words)
    return "" if unclear else thing


def _find_russian_thing(before: str) -> str:
    """Find the nearest noun in the nominative before a value, with its adjective and its genitive or name.

    Names keep their case and quotation marks: "третий курс Глеба", "месяц в «Щуке»".
    """
    found = list(_WORD.finditer(before))[-12:]
    words = [(match, read_word(match[0].lower())[0]) for match in found]
    for at in range(len(words) - 1, -1, -1):
        noun, reading = words[at]
        nominative = reading.part == "NOUN" and reading.case == "nomn" and not reading.name
        if not nominative or len(reading.lemma) < _MIN_NOUN_LENGTH or reading.lemma in _NO_THINGS:
            continue
        quoted = before[: noun.start()].endswith("«")
        phrase = f"«{noun[0]}»" if quoted else noun[0].lower()
        if at and words[at - 1][1].part == "ADJF" and words[at - 1][1].case == "nomn":
            phrase = f"{words[at - 1][0][0].lower()} {phrase}"
        if name := _RUSSIAN_NAME.match(before, noun.end()):
            return phrase + name[0]
        after = found[at + 1][0] if at + 1 < len(found) else ""
        owner = [r for r in read_word(after.lower())[:2] if r.part == "NOUN" and r.case == "gent"] if after else []
        if owner and owner[0].lemma not in _NO_THINGS:
            phrase += f" {after if owner[0].name else after.lower()}"
        return phrase
    return ""
