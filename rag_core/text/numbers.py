"""Numbers: in figures and words to values with units ("5 млн", "5 000 000", "half a million"), and in digits alone.

Pure functions, Russian and English, of lower-case texts. Every usual writing of thousands, cents and scales is one
number: 1 050, 1'050, 1.050,00 and 1,050.00 are 1050; 15т.р. and £15k are 15000; 1,2 млн is 1200000.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

# Compiles a pattern with its first use: a question needs a third of them, and to compile all takes a third of a second.
compile_pattern = cache(re.compile)

_SPACES = " \u00a0\u2000-\u200a\u202f\u205f\u3000"  # without tabs and line ends, which part columns and lines
# Not the beginning of a telephone number.
_NO_PHONE = rf"(?![0-9]|[{_SPACES}-][0-9]{{2}}[{_SPACES}-][0-9]{{2}}(?![0-9]))"
# Groups of three behind one separator, then cents behind another.
_GROUPS = (
    rf"(?:(?P<separator>[{_SPACES}'’‘ʼ`´])[0-9]{{3}}(?:(?P=separator)[0-9]{{3}})*+{_NO_PHONE}(?:[.,][0-9]{{1,2}}(?![0-9]))?"
    r"|(?:\.[0-9]{3})++(?:,[0-9]{1,2}(?![0-9])|(?!\.?[0-9]|,[0-9]))|(?:,[0-9]{3})++(?:\.[0-9]{1,2}(?![0-9])|(?!,?[0-9]|\.[0-9])))"
)
FIGURES = rf"[0-9]{{1,3}}{_GROUPS}|\d+(?:[.,]\d+)?"
_WRITTEN_FIGURES = re.compile(FIGURES)
_GROUPED = re.compile(rf"[0-9]{{1,3}}{_GROUPS}")
_ONE_GROUP = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")  # "1.150" may be 1150 or 1.15
_CENTS = re.compile(r"(?<=[0-9]{3})[.,][0-9]{1,2}$")
_NO_DIGIT = re.compile("[^0-9]")

_MONEY_SIGNS = "$€£₽¥"
_MONEY = rf"(?=\.?[{_SPACES}]?(?:[{_MONEY_SIGNS}]|руб|р\b|rub|rur\b|eur|usd\b|gbp\b|евро|долл|pounds?\b|dollars?\b))"
_SCALES_IN_FIGURES = (
    (r"тыс\.?|тыщ\w?|тысяч\w{0,3}|thousands?", 1e3), (r"млн\.?|миллион\w{0,3}|millions?|mln\.?|mio", 1e6),
    (r"млрд\.?|миллиард\w{0,3}|billions?|bn", 1e9), (r"трлн\.?|триллион\w{0,3}|trillions?", 1e12),
)  # fmt: skip
# "15т.р.", "5m €", "2кк", "50k", of sums with the sign before them "$5m"; the last three right behind the figures.
_SCALES = (
    *((rf"[{_SPACES}]?(?:{words})(?!\w)", value) for words, value in _SCALES_IN_FIGURES),
    (rf"[{_SPACES}]?т{_MONEY}\.?", 1e3), (rf"[{_SPACES}]?[mм]{_MONEY}", 1e6), (r"(?:кк|kk)(?!\w)", 1e6), (r"[kк](?!\w)", 1e3),
    (r"mn?(?!\w)", 1e6), (r"b(?!\w)", 1e9),
)  # fmt: skip
_SCALE = rf"(?=[{_SPACES}]?[тмкtmkb])(?:{'|'.join(pattern for pattern, _ in _SCALES)})"
_COMPILED_SCALES = [(re.compile(pattern), value) for pattern, value in _SCALES]
_SUM_SCALES, _LONGEST_SCALE_LETTERS = 2, 2  # how many are of sums alone; characters


def find_scale(low: str, start: int, end: int) -> tuple[float, int] | None:
    """Find the scale right behind the figures low[start:end], as in "15т.р.", "$5m", "1,2 млн"; and where it ends."""
    is_sum = low[max(0, start - 2) : start].strip().endswith(tuple(_MONEY_SIGNS))
    rows = _COMPILED_SCALES if is_sum else _COMPILED_SCALES[:-_SUM_SCALES]
    return next(((value, found.end()) for pattern, value in rows if (found := pattern.match(low, end))), None)


def _strip_groups(written: str) -> str:
    """Figures without the separators of thousands and cents of nothing: "1.250,00" is "1250"."""
    cents = _CENTS.search(written)
    whole = _NO_DIGIT.sub("", written[: cents.start()] if cents else written)
    return f"{whole}.{cents[0][1:]}" if cents and cents[0].strip(".,0") else whole


def parse_figures(written: str) -> tuple[float, ...]:
    """Values that figures may have, the likelier first: "1.150" is 1150 or 1.15, "1.250,00" is 1250 alone."""
    grouped = _GROUPED.fullmatch(written) and not written.startswith("0")
    if grouped and not _ONE_GROUP.fullmatch(written):
        return (float(_strip_groups(written)),)
    try:
        plain = float(written.replace(",", "."))
    except ValueError:  # "014 220", of a telephone
        plain = float("".join(filter(str.isdecimal, written)))
    return (float(_strip_groups(written)), plain) if grouped else (plain,)


# Figures with groups or a scale. Both patterns begin with a digit, so that looking for them is fast.
_MAYBE_OTHERWISE_WRITTEN = re.compile(rf"[0-9](?:[{_SPACES}'’‘ʼ`´.,][0-9]{{3}}|[{_SPACES}]?[тмкtmkb])")
_OTHERWISE_WRITTEN = re.compile(
    rf"[0-9](?<![\w.,:+][0-9])(?:[0-9]{{0,2}}{_GROUPS}(?:{_SCALE})?|[0-9]*(?:[.,][0-9]{{1,3}})?(?:{_SCALE}))"
)


def write_numbers_in_digits(low: str) -> str:
    """Write the numbers of a lower-case text in digits alone: "1 050", "15т.р.", "1,2 млн" are "1050", "15000", "1200000"."""
    if not _MAYBE_OTHERWISE_WRITTEN.search(low):
        return low
    pieces, end = list[str](), 0
    for found in _OTHERWISE_WRITTEN.finditer(low):
        figures, written = _WRITTEN_FIGURES.match(low, found.start()), found[0]
        if figures and (scale := find_scale(low, *figures.span())):
            value = round(parse_figures(figures[0])[-1] * scale[0], 6)  # "1.250 млн" is not said of 1250 millions
            words = written[len(figures[0]) :].strip()
            if value.is_integer():
                written = f"{value:.0f} {words if len(words) > _LONGEST_SCALE_LETTERS else ''}"
        elif figures and _GROUPED.fullmatch(figures[0]) and not figures[0].startswith("0"):
            written = _strip_groups(figures[0])
        pieces += low[end : found.start()], written
        end = found.end()
    return "".join((*pieces, low[end:]))


# Words of numbers in all their forms, also of dates and hours.
_CARDINAL_WORDS = {
    0: "ноль нуля zero", 1: "один одна одно одного одной одному одним одну one", 2: "два две двух двум двумя двое двоих оба обе обоих two both",
    3: "три трех трем тремя трое троих three", 4: "четыре четырех четырем четырьмя четверо four",
    5: "пять пяти пятью пятеро five", 6: "шесть шести шестью шестеро six", 7: "семь семи семью семеро seven",
    8: "восемь восьми восемью восьмью eight", 9: "девять девяти девятью nine", 10: "десять десяти десятью десяток ten",
    11: "eleven", 12: "twelve dozen", 13: "thirteen", 14: "fourteen", 15: "fifteen", 16: "sixteen",
    17: "seventeen", 18: "eighteen", 19: "nineteen", 20: "двадцать двадцати двадцатью twenty", 30: "тридцать тридцати тридцатью thirty",
    40: "сорок сорока forty", 50: "пятьдесят пятидесяти fifty", 60: "шестьдесят шестидесяти sixty",
    70: "семьдесят семидесяти seventy", 80: "восемьдесят восьмидесяти eighty", 90: "девяносто девяноста ninety",
    100: "сто ста", 200: "двести двухсот двумстам", 300: "триста трехсот", 400: "четыреста четырехсот", 500: "пятьсот пятисот",
    600: "шестьсот шестисот", 700: "семьсот семисот", 800: "восемьсот восьмисот", 900: "девятьсот девятисот",
    1.5: "полтора полторы полутора", 0.5: "половина половину половины половиной half", 0.25: "четверть четверти quarter",
    1 / 3: "треть трети",
}  # fmt: skip
CARDINALS = {word: float(value) for value, words in _CARDINAL_WORDS.items() for word in words.split()}
_TEENS_RU = [f"{base}надцат" for base in "один две три четыр пят шест сем восем девят".split()]
CARDINALS |= {stem + end: float(n) for n, stem in enumerate(_TEENS_RU, 11) for end in ("ь", "и", "ью")}
ORDINALS_EN = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
    "sixteenth seventeenth eighteenth nineteenth twentieth"
).split()
ORDINAL_STEMS_RU = dict(enumerate([*"перв втор трет четверт пят шест седьм восьм девят десят".split(), *_TEENS_RU, "двадцат"], 1)) | {
    30: "тридцат", 40: "сороков", 50: "пятидесят", 60: "шестидесят", 70: "семидесят", 80: "восьмидесят", 90: "девяност", 2000: "двухтысячн",
}  # fmt: skip
ORDINAL_ENDINGS_RU = "ое ого ому ым ый ая ую ой ом ье ьего ьему ьем ий ья ью ьей ей".split()
ORDINALS = {word: n for n, word in enumerate(ORDINALS_EN, 1)} | {"thirtieth": 30}
ORDINALS |= {
    stem + end: n
    for n, stem in ORDINAL_STEMS_RU.items()
    for end in (*ORDINAL_ENDINGS_RU, *("ые ых".split() if n < 20 else ()))
}
_SCALE_WORDS = (
    *_SCALES_IN_FIGURES, (r"десятк\w{1,3}", 10.0), (r"дюжин\w{0,3}|dozens?", 12.0), (r"сот(?:ен|ни|ню|ня)|сотн\w{1,3}|hundreds?", 100.0),
)  # fmt: skip
_NUMBER_TOKEN = re.compile(
    rf"(?P<figures>{FIGURES})(?P<tail>-?(?:st|nd|rd|th|й|го|му|я|е|ой|ый|ая|ое|х|м)\b)?|[^\W\d_]+\.?"
)
_CURRENCY_WORDS = {
    "rub": r"₽|руб\w*\.?|р\.|р\b|rub\b|rur\b|roubles?|rubles?", "usd": r"\$|доллар\w*|usd|dollars?|bucks", "eur": r"€|евро|euros?|eur\b",
    "gbp": r"£|фунт\w* стерлингов|pounds?(?: sterling)?", "cny": r"¥|юан\w+|yuan", "uah": r"грив\w+|hryvnias?",
    "%": r"%|процент\w*|проц\.|percent\w*|per cent", "pp": r"п\.\s?п\.|процентн\w+ пункт\w*|percentage points?",
}  # fmt: skip
CURRENCIES = frozenset(_CURRENCY_WORDS) - {"%", "pp"}
CURRENCY = "|".join(_CURRENCY_WORDS[name] for name in sorted(CURRENCIES))  # as a pattern
_MEASURE_UNITS = (
    ("km/h", 1.0, r"км/ч|км в час|километр\w* в час|km/h|kmh\b|kph\b|kilomet\w+ (?:per|an) hour"),
    ("km/h", 1.609, r"mph\b|miles (?:per|an) hour|миль в час"),
    ("m", 1000.0, r"км\b|километр\w*|km\b|kilomet\w+"), ("m", 0.01, r"см\b|сантиметр\w*|cm\b|centimet\w+"), ("m", 1.0, r"м\b|метр\w{0,3}\b|met(?:er|re)s?"),
    ("g", 1000.0, r"кг\b|килограмм\w*|kg\b|kilo\w*"), ("g", 1e6, r"т\b|тонн\w{0,3}\b|tons?\b|tonnes?\b"), ("g", 1.0, r"грамм\w{0,3}\b|grams?\b"),
    ("mile", 1.0, r"миль\b|миля|мили\b|miles?\b"), ("degree", 1.0, r"°|градус\w*|degrees?"),
    ("s", 60.0, r"минут\w*|мин\b|minutes?|min\b"), ("s", 3600.0, r"час(?:а|ов|ам|ами)?\b|ч\b|hours?|hrs?\b"), ("s", 1.0, r"секунд\w*|seconds?"),
    ("day", 7.0, r"недел\w+|weeks?"), ("day", 1.0, r"дн(?:я|ей|и|ям|ями)\b|день|сут(?:ки|ок)|days?"),
    ("month", 12.0, r"год(?:а|у|ом|ы|ам)?\b|лет\b|years?|yrs?\b"), ("month", 1.0, r"месяц\w*|months?"),
)  # fmt: skip
_ALL_UNITS = [(name, 1.0, p) for name, p in _CURRENCY_WORDS.items()] + list(_MEASURE_UNITS)
_UNITS_AFTER = [(name, scale, rf"[\s\u00a0-]{{0,2}}(?:of\s+the\s+)?(?:{p})") for name, scale, p in _ALL_UNITS]
_CURRENCIES_BEFORE = [(name, rf"(?:{p})\s?$") for name, p in _CURRENCY_WORDS.items() if name in CURRENCIES]
_HEDGE_WORDS = (
    ("about", r"около|примерно|приблизительно|почти|порядка|about|around|approximately|nearly|almost|some|roughly|~"),
    ("over", r"более(?: чем)?|больше(?: чем)?|свыше|over|more than|at least|не менее|не меньше|above|exceeding"),
    ("under", r"менее(?: чем)?|меньше(?: чем)?|under|less than|fewer than|at most|не более|не больше|up to|below"),
)
_HEDGE_PATTERNS = [
    ("over", r"не (?:менее|меньше)(?: чем)?\s*$"),
    ("under", r"не (?:более|больше)(?: чем)?\s*$|no more than\s*$"),
    *((name, rf"(?:^|\W)(?:{words})\s*(?:in\s+)?[$€£]?$") for name, words in _HEDGE_WORDS),
]
_FRACTIONS = {0.5, 0.25, 1 / 3}


@dataclass(frozen=True, slots=True)
class Number:
    """Number at [start:end] with its possible values in `unit` ("" for a bare count); `noun` is the counted thing.

    `hedge` is "about", "over" or "under". A `weak` number ("one", "first", "both") may not be meant as a number.
    """

    values: tuple[float, ...]
    unit: str
    noun: str
    start: int
    end: int
    hedge: str = ""
    weak: bool = False


NumberPart = tuple[int, int, float, str, str]  # start, end, value, kind of token, text as written


def parse_numbers(low: str, lang: str) -> list[Number]:
    """Parse the numbers of a lower-case text without ё, in order."""
    runs: list[list[NumberPart]] = []  # of one number each: two hundred and fifty, 5 млн, двадцать пять
    for part in _scan_number_parts(low, lang):
        if runs and _continues_number(runs[-1], part):
            runs[-1].append(part)
        else:
            runs.append([part])
    numbers = []
    for run in runs:
        if run[0][3] == "scale" and not _STANDALONE_SCALE.match(run[0][4]):
            continue  # a scale alone is seldom one
        start, end, value = run[0][0], run[-1][1], _compose_value(run)
        readings = parse_figures(run[0][4]) if run[0][3] == "figures" else (run[0][2],)
        values = {_compose_value([(*run[0][:2], one, *run[0][3:]), *run[1:]]) for one in readings}
        half_an = _HALF_AN.match(low, end) if run[0][4] == "half" else None
        after = half_an.end() if half_an else end
        counted = _COUNTED_NOUN.match(low[after : after + _MAX_NOUN_LENGTH])
        noun = " ".join(filter(None, counted.groups())) if counted else ""
        units = (one for one in _UNITS_AFTER if compile_pattern(one[2]).match(low, after))
        metres = low.startswith("м.", after)  # an abbreviation as often
        unit, scale, _ = next((one for one in units if not (metres and one[:2] == ("m", 1.0))), ("", 1.0, ""))
        if not unit:
            before = low[max(0, start - _MAX_CURRENCY_LENGTH) : start]
            unit = next((name for name, p in _CURRENCIES_BEFORE if compile_pattern(p).search(before)), "")
        if not unit and value in _FRACTIONS and run[0][3] == "word":
            unit, scale = "%", 100.0
        if run[0][3] == "ordinal":
            unit = "ordinal"
        weak = run[0][3] != "figures" and (value in {0.0, 1.0} or unit == "ordinal" or run[0][4] in _WEAK_WORDS)
        before = low[max(0, start - 20) : start]
        hedge = next((name for name, words in _HEDGE_PATTERNS if compile_pattern(words).search(before)), "")
        numbers.append(Number(tuple(sorted(v * scale for v in values)), unit, noun, start, end, hedge, weak))
    return numbers


_WEAK_WORDS = frozenset("оба обе обоих both second секунд".split())
_MIN_HALF_LENGTH = 7  # letters: "полмиллиона" is longer
_HALF_AN = re.compile(r"\s+an?(?=\s)")
_COUNTED_NOUN = re.compile(r"[\s\u00a0-]{1,2}([^\W\d_]+)(?:\s+([^\W\d_]+))?")
_MAX_NOUN_LENGTH, _MAX_CURRENCY_LENGTH = 50, 12  # characters


def _scan_number_parts(low: str, lang: str) -> Iterator[NumberPart]:
    read_to = 0
    for token in _NUMBER_TOKEN.finditer(low):
        written, at, to = token[0], token.start(), token.end()
        if token["figures"]:
            if at < read_to or (at and (low[at - 1].isalpha() or low[at - 1] == "_")):
                continue  # "covid19" is a name
            sort = "ordinal" if token["tail"] and token["tail"].strip("-") not in {"х", "м"} else "figures"
            values = parse_figures(token["figures"])
            yield at, to, values[0 if lang == "en" or "." in written else -1], sort, token["figures"]
            if sort == "figures" and (found := find_scale(low, at, to)):
                factor, read_to = found
                yield to, read_to, factor, "scale", low[to:read_to].strip()
            continue
        scale = _find_scale(written) if at >= read_to else None
        word = written.rstrip(".")
        if scale is None and word != written:  # the end of a sentence: "two dozen."
            scale, written, to = _find_scale(word) if at >= read_to else None, word, to - 1
        if scale is not None:
            yield at, to, scale, "scale", written
        elif word in CARDINALS:
            yield at, to, CARDINALS[word], "word", word
        elif word in ORDINALS:
            yield at, to, ORDINALS[word], "ordinal", word
        elif word in {"полчаса", "получаса"}:
            yield at, to - len("часа"), 0.5, "word", word
        elif word.startswith("пол") and len(word) > _MIN_HALF_LENGTH and (half := _find_scale(word[3:])):
            yield at, to, half / 2, "word", word


def _find_scale(word: str) -> float | None:
    return next((value for pattern, value in _SCALE_WORDS if compile_pattern(pattern).fullmatch(word)), None)


# "a million", "a dozen" and "тысяча" are numbers, "thousands of" is not
_STANDALONE_SCALE = re.compile(
    r"(?:тысяч|сотн|дюжин|миллион|миллиард|million|thousand|hundred|billion|dozen)(?!\w*(?:s|ы|и|ов)$|$(?<=ч))"
)


_HALF, _AND_A_HALF_GAPS = 0.5, (3, 7)  # "два с половиной", "two and a half": characters between the parts


def _continues_number(run: list[NumberPart], part: NumberPart) -> bool:
    _, end, value, sort, word = run[-1]
    gap = part[0] - end
    if gap > 7 or part[3] == "figures" or sort == "ordinal":
        return False
    if part[2] == _HALF and part[3] == "word" and gap in _AND_A_HALF_GAPS:
        return value >= 1
    if part[3] == "scale":
        return gap <= 3 or (value == 0.5 and gap <= 4)
    if gap > 1:
        return part[3] == "word" and word.startswith("hundred") and gap <= 5 and part[2] < 100
    below = 10 if value < 100 else min(value, 1000)
    return sort != "figures" and value >= 20 and 1 <= part[2] < below


def _compose_value(run: list[NumberPart]) -> float:
    total, current = 0.0, 0.0
    for _, _, value, sort, _ in run:
        current = (current or 1.0) * value if sort == "scale" else current + value
        if sort == "scale" and value > 100:
            total, current = total + current, 0.0
    return round(total + current, 9)


_DIGIT_GROUP_SEPARATOR = re.compile(r"(?<=\d)[\s'’‘ʼ,](?=\d{3}(?!\d))")
_FIGURES = re.compile(r"\d+(?:[.,:]\d+)*")


def join_digit_groups(text: str) -> str:
    """Remove the separators of thousands: 2 750 and 2,750 become 2750."""
    return _DIGIT_GROUP_SEPARATOR.sub("", text)


def extract_figures(text: str) -> frozenset[str]:
    """Extract the numbers written in figures, normalised: 2 750 is 2,750 and 2750; 03 is 3; 3,5 is 3.5."""
    found = _FIGURES.findall(join_digit_groups(text))
    return frozenset(number.replace(",", ".").lstrip("0") or "0" for number in found)
