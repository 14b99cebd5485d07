"""Slot filling: put what a follow-up names into the slot of its kind in the earlier question.

Slots are days and times of day, "first" and "last", numbers, groups of people, units, adjectives, and the thing that
is asked about. Russian words are read by a dictionary, English ones by determiners and closed lists of words.
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
_DAY_PATTERN = re.compile(rf"(?<!\w){_DAY}(?!\w)")
_DAYS_PATTERN = re.compile(rf"{_DAY}(?:\s+{_DAY})?")
# Asides of time, which a later follow-up drops: "how much was it before?", "and for children?"
_PAST = (
    r"раньше|прежде|ранее|до (?:этого|того)|в прошлом|before(?: that| this| then)?|earlier|previously|formerly|"
    r"in the past"
)
_PAST_PATTERN = re.compile(rf"(?:до (?:него|нее|них)|before (?:him|her|them|it)|{_PAST})")
_ASIDE_PATTERN = re.compile(rf",?\s\(?(?:{_PAST})\)?$")
_EMPTY_WORDS = frozenset(
    "кто что сколько почем скока как какой какая какое какие каким был была было были стоил стоила стоило стоили "
    "who what which how much many was were did does is are it they cost costs".split()
)
_YEAR_BEFORE_PATTERN = re.compile(
    r"(?:in )?(?:the )?(?:year|month|week) (?:before(?: that)?|earlier)|"
    r"(?:год|месяц|недел)(?:ом|ем|ей)? (?:раньше|до этого)"
)
_THIS_PERIOD = re.compile(r"\bthis (year|month|week)\b|\b(?:в|на) эт(?:ом|ой) (году|месяце|неделе)\b")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_NUMBER_PATTERN = re.compile(r"(?:(?:v|version|версия|номер|№)\s*)?(\d+(?:[.,:]\d+)*)")
_COMPOSED_NUMBER = re.compile(r"(?<![\w.,:])\d+(?:[.,:]\d+)+(?!\w)")
_WHOLE_NUMBER = re.compile(r"(?<![\w.,:])\d+(?![\w.,:]*\d)")
_DETERMINER_LEMMAS = frozenset("какой который этот весь такой мой ваш ваша".split())
_UNIT = (
    r"(?:килограмм\w*|кило|кг|грамм\w*|литр\w*|пачк\w|штук\w|упаковк\w|коробк\w|банк[ау]|бутылк\w|буханк\w|порци\w|чашк\w|"
    r"мешо?к\w?|месяц\w?|год\w?|недел\w|сутк\w|час|день|полгода|"
    r"kilos?|kilograms?|kg|grams?|pounds?|lit(?:er|re)s?|packs?|packets?|bottles?|box|bags?|cups?|slices?|loaf|"
    r"portions?|months?|years?|weeks?|days?|hours?|dozen)"
)
_UNIT_PATTERN = re.compile(rf"(?<!\w)(?:(?:per|a|an|one|за|в)\s+)?{_UNIT}(?!\w)")
_PEOPLE = (
    r"(?:non-?)?(?:members?|students?|children|kids?|child|adults?|pensioners?|seniors?|famil(?:y|ies)|guests?|visitors?|beginners?|"
    r"volunteers?|locals?|residents?|couples?|groups?|babies|toddlers?|teen(?:ager)?s?|veterans?|newcomers?|everyone|"
    r"(?:disabled|old|young) people|schoolchildren|pupils?|teachers?)"
)
_PEOPLE_PATTERN = re.compile(rf"(?:for\s+)?(?:the\s+)?{_PEOPLE}(?!\w)")
_FOR_PEOPLE_PATTERN = re.compile(rf"\bfor\s+(?:the\s+)?{_PEOPLE}(?!\w)")
_PRICE_PATTERN = re.compile(r"\b(?:сто(?:ит|ят|ил\w?)|поч[её]м|цен[аыу]|how much|price|cost)\b")
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


def strip_aside(question: str) -> str:
    """Strip an aside of time at the end of a question ("… before")."""
    aside = _ASIDE_PATTERN.search(fold_case(question))
    return question[: aside.start()] if aside else question


def names_attribute(rest: str) -> bool:
    """Whether a follow-up only names an attribute of the earlier subject: "and the price?"."""
    words = [word for word in _WORD.findall(rest.lower()) if word not in {"the", "its", "their"}]
    return len(words) == 1 and words[0] in _ATTRIBUTES


def replace_slot(question: str, rest: str) -> str | None:
    """Put the words of a follow-up into the slot of their kind; None where none is found."""
    question = strip_aside(question)
    kinds = _replace_year_before, _replace_day, _replace_number, _replace_unit, _replace_people, _replace_verb
    for replace_kind in kinds:
        if replaced := replace_kind(question, rest):
            return replaced
    return None


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


def add_past_aside(question: str, rest: str) -> str | None:
    """Add an aside of time to a question: "and before?", "а до него кто был?"; None where the words say more."""
    words = [word for word in fold_case(rest).split() if word not in _EMPTY_WORDS]
    aside = _PAST_PATTERN.fullmatch(" ".join(words))
    if aside is None:
        return None
    said = "до этого" if aside[0].startswith("до ") else "before" if aside[0].startswith("before") else aside[0]
    return f"{strip_aside(question)} ({said})"


_TURNING_VERB_PATTERN = re.compile(r"(?<!\w)(?:(?:re)?open|close|start|begin|end|finish|leave|arrive|return)s?(?!\w)")


def _replace_verb(question: str, rest: str) -> str | None:
    """Replace the verb by another one of the same form: "открывается" by "закрывается"."""
    if _TURNING_VERB_PATTERN.fullmatch(fold_case(rest)):
        return _replace_last(_TURNING_VERB_PATTERN, question, rest)
    forms = [_read_verb_form(readings) for _, readings in _read_words(rest)]
    if len(forms) != 1 or forms[0] is None:
        return None
    for match, readings in _read_words(question):
        if _read_verb_form(readings) == forms[0]:
            return f"{question[: match.start()]}{rest}{question[match.end() :]}"
    return None


def _read_verb_form(readings: tuple[WordReading, ...]) -> tuple[str, str] | None:
    """Number and gender of a verb, as plain texts: the dictionary's own refuse to be compared with ""."""
    if not readings or readings[0].part != "VERB":
        return None
    return str(readings[0].number), str(readings[0].gender)


def _replace_year_before(question: str, rest: str) -> str | None:
    asked = _YEAR_BEFORE_PATTERN.fullmatch(fold_case(rest))
    if asked is None:
        return None
    if year := _YEAR.search(question):
        return f"{question[: year.start()]}{int(year[0]) - 1}{question[year.end() :]}"
    this = _THIS_PERIOD.search(fold_case(question))
    if this is None:
        return None
    last = "на прошлой" if this[2] == "неделе" else "в прошлом" if this[2] else "last"
    return f"{question[: this.start()]}{last} {this[1] or this[2]}{question[this.end() :]}"


def _replace_day(question: str, rest: str) -> str | None:
    return _replace_last(_DAY_PATTERN, question, rest) if _DAYS_PATTERN.fullmatch(fold_case(rest)) else None


def _replace_number(question: str, rest: str) -> str | None:
    if (number := _NUMBER_PATTERN.fullmatch(fold_case(rest))) is None:
        return None
    same = _COMPOSED_NUMBER if re.search(r"[.,:]", number[1]) else _WHOLE_NUMBER
    return _replace_last(same, question, number[1])


def _replace_unit(question: str, rest: str) -> str | None:
    return _replace_last(_UNIT_PATTERN, question, rest) if _UNIT_PATTERN.fullmatch(fold_case(rest)) else None


def _replace_last(pattern: re.Pattern[str], question: str, words: str) -> str | None:
    found = list(pattern.finditer(fold_case(question)))
    return f"{question[: found[-1].start()]}{words}{question[found[-1].end() :]}" if found else None


def _replace_people(question: str, rest: str) -> str | None:
    if _PEOPLE_PATTERN.fullmatch(fold_case(rest)):
        wanted = rest if fold_case(rest).startswith("for ") else f"for {rest}"
        return _replace_last(_FOR_PEOPLE_PATTERN, question, wanted) or f"{question} {wanted}"
    if detect_language(rest) == "ru" and _are_people(rest):
        for match, readings in _read_words(question):
            if any(r.part == "NOUN" and r.animate and r.case == "datv" and not r.name for r in readings[:2]):
                return f"{question[: match.start()]}{rest}{question[match.end() :]}"
        return f"{question} {rest}"
    return None


def _are_people(rest: str) -> bool:
    """Whether Russian words are people in the dative: "детям", "взрослым пенсионерам"."""
    readings = [read for _, read in _read_words(rest)]
    return (
        bool(readings)
        and all(any(r.case == "datv" for r in read) for read in readings)
        and any(r.part == "NOUN" and r.animate and r.case == "datv" and not r.name for r in readings[-1])
    )


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
    """Replace the noun in the nominative with its adjectives, in questions of price with its genitives too.

    Of an attribute ("курс доллара") the noun in the genitive is replaced.
    """
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
    price = _PRICE_PATTERN.search(fold_case(question))
    while last + 1 < len(words) and (
        any(map(_is_adjective, words[last + 1][1][:1])) or (price and _is_genitive(words[last + 1][1]))
    ):
        last += 1
    return f"{question[: words[first][0].start()]}{rest}{question[words[last][0].end() :]}"


def _is_genitive(readings: tuple[WordReading, ...]) -> bool:
    return any(r.part == "NOUN" and r.case == "gent" for r in readings[:1])


def _replace_english_thing(question: str, rest: str) -> str | None:
    if len(rest.split()) > 4:
        return None
    found = _ENGLISH_THING_PATTERN.search(fold_case(question))
    determiner = _DETERMINER_PATTERN.match(fold_case(rest))
    if of := _ATTRIBUTE_OF_PATTERN.search(fold_case(question)):
        return f"{question[: of.start('thing')]}{rest}{question[of.end('thing') :]}"
    if found is None or (determiner is None and not _PRICE_PATTERN.search(fold_case(question))):
        return None
    if determiner and (determiner["det"] == "the") != (found["det"] == "the"):
        return None
    start = found.start("det") if determiner else found.start("thing")
    return f"{question[:start]}{rest}{question[found.end('thing') :]}"


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


def drop_beneficiary(question: str) -> str:
    """Drop the group of people at the end of a question ("… for members")."""
    found = re.search(rf"{_FOR_PEOPLE_PATTERN.pattern}$", fold_case(question))
    return question[: found.start()].rstrip() if found else question


def extract_noun_phrase(subject: str) -> str:
    """Extract the nouns of a Russian subject with what belongs to them: without verbs, adverbs and times of day."""
    kept, end = [], 0
    for match, readings in _read_words(subject):
        if readings and readings[0].part in {"VERB", "ADVB", "PRED", "PRCL", "CONJ", "NPRO"}:
            kept.append(subject[end : match.start()])
            end = match.end()
    phrase = " ".join("".join((*kept, subject[end:])).split())
    return phrase if _WORD.search(phrase) else subject


def find_antecedent(question: str, gender: str, number: str) -> str | None:
    """Find the noun phrase of a Russian question with which a pronoun agrees; its adjectives and genitives with it."""
    words = list(_read_words(question))
    at = next(
        (
            n
            for n, (_, read) in enumerate(words)
            if any(_agrees(r, gender, number) and r.case in {"nomn", "accs"} for r in read[:2])
        ),
        next((n for n, (_, read) in enumerate(words) if any(_agrees(r, gender, number) for r in read[:1])), None),
    )
    if at is None or _DAY_PATTERN.fullmatch(words[at][0][0].lower()):
        return None
    first = last = at
    while first and any(map(_is_adjective, words[first - 1][1][:1])):
        first -= 1
    while last + 1 < len(words) and any(
        _is_adjective(r) or (r.part == "NOUN" and r.case == "gent") for r in words[last + 1][1][:1]
    ):
        last += 1
    return question[words[first][0].start() : words[last][0].end()]
