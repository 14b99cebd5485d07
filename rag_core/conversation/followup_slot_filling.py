"""Slot filling: put the thing that a follow-up names in the place of that of the earlier question.

Russian words are read by a dictionary, English ones by determiners.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rag_core.text.language_detection import detect_language
from rag_core.text.morphology import WordReading, read_word
from rag_core.text.tokens import fold_case

_MAX_WORDS = 40  # words of a question that are read by the dictionary
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_DAY = (
    r"(?:(?:в|во|по|на|к|on|in|at|over|during|for)\s+)?(?:the\s+)?(?:"
    r"понедельник\w*|вторник\w*|сред[ауеы]|средам|четверг\w*|пятниц\w+|суббот\w+|воскресень\w+|будн\w+|выходн\w+|"
    r"праздник\w*|рабочие дни|сегодня|завтра|послезавтра|вчера|утр\w{1,3}|вечер\w{0,3}|днем|ночью|летом|зимой|"
    r"весной|осенью|каникул\w*|(?:mon|tues|wednes|thurs|fri|satur|sun)days?|weekdays?|weekends?|"
    r"(?:bank |public )?holidays?|today|tonight|tomorrow|yesterday|mornings?|evenings?|afternoons?|nights?|"
    r"summer|winter|spring|autumn)"
)
_DAYS_PATTERN = re.compile(rf"{_DAY}(?:\s+{_DAY})?")
_DETERMINER_LEMMAS = frozenset("какой который этот весь такой мой ваш ваша".split())
_ATTRIBUTES = frozenset(
    "цена цены курс стоимость адрес телефон номер время часы расписание график дата место вход билет билеты скидка "
    "скидки автор причина итог price prices cost costs address phone number time hours schedule date place entrance "
    "ticket tickets discount discounts author reason result score".split()
)
_PREPOSITION_PATTERN = re.compile(
    r"(?:в|во|на|по|о|об|про|для|без|из|с|со|у|от|до|за|in|on|at|about|for|from|to|with|by|near)\s"
)
_ENGLISH_THING_PATTERN = re.compile(
    r"\b(?:how much|how many|what|when|where|who)\b[^,]*?\b(?P<det>a|an|the|some)\s+(?P<thing>\w+(?:\s+\w+)*?)"
    r"(?=\s+(?:cost|costs|for|in|on|at|by|to|from|with|open|opens|close|closes|start|starts|begin|begins|work|works|now|today)\b|\s*$)"
)
_ATTRIBUTE_OF_PATTERN = re.compile(r"\b(?:price|cost|rate|address|schedule|date|time) of (?P<thing>(?:the |an? )?\w+)")
_PRO_FORM_PATTERN = re.compile(r"\bones?$")
_DETERMINER_PATTERN = re.compile(r"(?P<det>a|an|the|some)\s+")


def names_attribute(rest: str) -> bool:
    """Whether a follow-up only names an attribute of the earlier subject: "and the price?"."""
    words = [word for word in _WORD.findall(rest.lower()) if word not in {"the", "its", "their"}]
    return len(words) == 1 and words[0] in _ATTRIBUTES


def replace_thing(question: str, rest: str) -> str | None:
    """Replace the thing of a question, or its adjective, by another one; None where the words are of another kind."""
    if preposition := _PREPOSITION_PATTERN.match(fold_case(rest)):
        wanted = {r.case for _, readings in list(_read_words(rest[preposition.end() :]))[-1:] for r in readings[:2]}
        for found in reversed(list(re.finditer(rf"(?<!\w){re.escape(preposition[0])}(\w+)", fold_case(question)))):
            same_case = not wanted or wanted & {r.case for r in read_word(found[1])[:2]}
            if same_case and not _DAYS_PATTERN.fullmatch(found[0]):
                return f"{question[: found.start()]}{rest}{question[found.end() :]}"
        return None
    if _PRO_FORM_PATTERN.search(fold_case(rest)):
        return None
    if detect_language(rest) == "ru":
        return _replace_adjective(question, rest) or _replace_russian_thing(question, rest)
    return _replace_english_thing(question, rest)


def _read_words(text: str) -> Iterator[tuple[re.Match[str], tuple[WordReading, ...]]]:
    for number, match in enumerate(_WORD.finditer(text)):
        if number == _MAX_WORDS:
            return
        yield match, read_word(match[0].lower()) if re.search("[а-яё]", match[0].lower()) else ()


def _is_adjective(reading: WordReading) -> bool:
    return reading.part == "ADJF" and reading.lemma not in _DETERMINER_LEMMAS


def _replace_adjective(question: str, rest: str) -> str | None:
    """Replace an adjective by another one of the same form: "ржаной" by "пшеничный", "первый" by "последний"."""
    words = list(_read_words(rest))
    if len(words) != 1:
        return None
    forms = {(r.case, r.gender, r.number) for r in words[0][1] if _is_adjective(r)}
    for match, readings in reversed(list(_read_words(question))):
        if forms & {(r.case, r.gender, r.number) for r in readings if _is_adjective(r)}:
            return f"{question[: match.start()]}{rest}{question[match.end() :]}"
    return None


def _is_subject_noun(word: re.Match[str], readings: tuple[WordReading, ...]) -> bool:
    """Whether a word is a noun in the nominative, also one that has a single form for all cases ("латте")."""
    return any(r.part == "NOUN" and (r.case == "nomn" or r.lemma == fold_case(word[0])) for r in readings[:3])


def _replace_russian_thing(question: str, rest: str) -> str | None:
    """Replace the noun in the nominative with its adjectives; of an attribute ("курс доллара") that in the genitive."""
    new, words = list(_read_words(rest)), list(_read_words(question))
    nouns = [n for n, word in enumerate(new) if _is_subject_noun(*word)]
    at = next((n for n, word in enumerate(words) if _is_subject_noun(*word)), None)
    others = {"VERB", "INFN", "PREP", "NPRO"}
    if at is None or not nouns or nouns[0] > 1 or any(r.part in others for _, read in new for r in read[:1]):
        return None
    first = last = at
    if fold_case(words[at][0][0]) in _ATTRIBUTES and at + 1 < len(words) and _is_genitive(words[at + 1][1]):
        first = last = at + 1
    while first and any(map(_is_adjective, words[first - 1][1][:1])):
        first -= 1
    while last + 1 < len(words) and any(map(_is_adjective, words[last + 1][1][:1])):
        last += 1
    return f"{question[: words[first][0].start()]}{rest}{question[words[last][0].end() :]}"


def _is_genitive(readings: tuple[WordReading, ...]) -> bool:
    return any(r.part == "NOUN" and r.case == "gent" for r in readings[:1])


def _replace_english_thing(question: str, rest: str) -> str | None:
    if len(rest.split()) > 4:
        return None
    if of := _ATTRIBUTE_OF_PATTERN.search(fold_case(question)):
        return f"{question[: of.start('thing')]}{rest}{question[of.end('thing') :]}"
    found, determiner = _ENGLISH_THING_PATTERN.search(fold_case(question)), _DETERMINER_PATTERN.match(fold_case(rest))
    if found is None or determiner is None or (determiner["det"] == "the") != (found["det"] == "the"):
        return None
    return f"{question[: found.start('det')]}{rest}{question[found.end('thing') :]}"


def find_russian_noun(text: str, gender: str, number: str) -> bool:
    """Whether a Russian text has a noun of a number and a gender, "" for any gender."""
    return any(_agrees(r, gender, number) for _, read in _read_words(text) for r in read[:1])


def _agrees(reading: WordReading, gender: str, number: str) -> bool:
    in_number = number == "plur" if reading.number == "plur" else number != "plur"
    return reading.part == "NOUN" and in_number and (not gender or number == "plur" or reading.gender == gender)


def is_russian_name(name: str, gender: str) -> bool:
    """Whether a Russian name may be that of a person or thing of a gender; always for one in another script."""
    return all(
        any((r.name or r.part == "NOUN") and (not r.gender or r.gender == gender) for r in readings)
        for match, readings in _read_words(name)
        if readings
    )
