"""Numerals in figures: every usual writing of thousands, cents and scales is one number (Russian and English).

1 050, 1'050, 1.050,00 and 1,050.00 are 1050; 15т.р. and £15k are 15000; 1,2 млн is 1200000. Texts are lower case.
"""

from __future__ import annotations

import re

_SPACES = " \u00a0\u2000-\u200a\u202f\u205f\u3000"  # without tabs and line ends, which part columns and lines
# Not the beginning of a telephone number.
_NO_PHONE = rf"(?![0-9]|[{_SPACES}-][0-9]{{2}}[{_SPACES}-][0-9]{{2}}(?![0-9]))"
# Groups of three behind one separator, then cents behind another.
_GROUPS = (
    rf"(?:(?P<separator>[{_SPACES}'’‘ʼ`´])[0-9]{{3}}(?:(?P=separator)[0-9]{{3}})*+{_NO_PHONE}(?:[.,][0-9]{{1,2}}(?![0-9]))?"
    r"|(?:\.[0-9]{3})++(?:,[0-9]{1,2}(?![0-9])|(?!\.?[0-9]|,[0-9]))|(?:,[0-9]{3})++(?:\.[0-9]{1,2}(?![0-9])|(?!,?[0-9]|\.[0-9])))"
)
FIGURES = rf"[0-9]{{1,3}}{_GROUPS}|\d+(?:[.,]\d+)?"
_FIGURES = re.compile(FIGURES)
_GROUPED = re.compile(rf"[0-9]{{1,3}}{_GROUPS}")
_ONE_GROUP = re.compile(r"[1-9][0-9]{0,2}[.,][0-9]{3}")  # "1.150" may be 1150 or 1.15
_CENTS = re.compile(r"(?<=[0-9]{3})[.,][0-9]{1,2}$")
_NO_DIGIT = re.compile("[^0-9]")

_MONEY_SIGNS = "$€£₽¥"
_MONEY = rf"(?=\.?[{_SPACES}]?(?:[{_MONEY_SIGNS}]|руб|р\b|rub|rur\b|eur|usd\b|gbp\b|евро|долл|pounds?\b|dollars?\b))"
_SCALE_WORDS = (
    (r"тыс\.?|тыщ\w?|тысяч\w{0,3}|thousands?", 1e3), (r"млн\.?|миллион\w{0,3}|millions?|mln\.?|mio", 1e6),
    (r"млрд\.?|миллиард\w{0,3}|billions?|bn", 1e9), (r"трлн\.?|триллион\w{0,3}|trillions?", 1e12),
)  # fmt: skip
# "15т.р.", "5m €", "2кк", "50k", of sums with the sign before them "$5m"; the last three right behind the figures.
_SCALES = (
    *((rf"[{_SPACES}]?(?:{words})(?!\w)", value) for words, value in _SCALE_WORDS),
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
    return _OTHERWISE_WRITTEN.sub(_write_in_digits, low) if _MAYBE_OTHERWISE_WRITTEN.search(low) else low


def _write_in_digits(found: re.Match[str]) -> str:
    figures = _FIGURES.match(found.string, found.start())
    if not figures:
        return found[0]
    scale = find_scale(found.string, *figures.span())
    if scale is None:
        grouped = _GROUPED.fullmatch(figures[0]) and not figures[0].startswith("0")
        return _strip_groups(figures[0]) if grouped else found[0]
    value = round(parse_figures(figures[0])[-1] * scale[0], 6)  # "1.250 млн" is not said of 1250 millions
    words = found[0][len(figures[0]) :].strip()
    return f"{value:.0f} {words if len(words) > _LONGEST_SCALE_LETTERS else ''}" if value.is_integer() else found[0]
