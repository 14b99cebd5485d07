"""Minimal edits of real posts: one number, date, name or negation changed, so that the post no longer says it.

The posts are read where they lie and never kept here. The same seed and the same posts give the same edits.
"""

import gzip
import json
import random
import re
import unicodedata
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain, islice, zip_longest
from pathlib import Path

from sample_sizes import choose_size

ROOT = Path(__file__).parents[2]
_ROWS = (ROOT / "tests/data/minimal_edits/words.jsonl").read_text("utf-8").splitlines()  # each says what it is for
NAMES, FIRST_NAMES, MONTHS, DAYS, NUMBER_WORDS, NUMERALS, NEGATIONS, UNSURE, HEDGES, VERBS, ANTONYMS = (
    json.loads(row)["words"] for row in _ROWS
)
KINDS = ("number", "date", "name", "negation")
EACH = choose_size(70, 20)  # of each kind and language, where the posts hold as many
PER_SENTENCE = {"ru": 1, "en": 3}  # English posts are few


@dataclass(frozen=True, slots=True)
class Edit:
    """A sentence of a post and what became of it; `evidence` is the whole post, which says `original`."""

    lang: str
    kind: str
    original: str
    claim: str
    evidence: str
    old: str
    new: str


_PAIRS = {lang: [pair.split("/") for pair in pairs.split()] for lang, pairs in ANTONYMS.items()}
_OPPOSITE = {lang: dict(pairs) | {new: old for old, new in pairs} for lang, pairs in _PAIRS.items()}


@lru_cache(maxsize=8)
def folded(text):
    """Lower case without diacritics and marks of transliteration; ё is е."""
    return re.sub(r"[\u0300-\u036fʿʾ’‘'`]", "", unicodedata.normalize("NFKD", text.lower()))


@lru_cache(maxsize=8)
def figures(text):
    """Every number of a text as digits, whole and in its parts."""
    joined = re.sub(r"(?<=\d)[   ](?=\d{3}\b)|(?<=\d),(?=\d{3}\b)", "", text)
    whole = re.findall(r"\d+(?:[.,:]\d+)*", f"{text} {joined}")
    return {one.replace(",", ".") for one in whole} | {part for one in whole for part in re.split(r"[.,:]", one)}


def _plain(text):
    if isinstance(text, str):
        return text
    return "".join(piece if isinstance(piece, str) else piece["text"] for piece in text)


def _exported(file):
    for entry in json.loads(file.read_text(encoding="utf-8"))["messages"]:
        yield _plain(entry.get("text", ""))


def real_posts(shared):
    """The texts of the sample channels and of real ones; each text once."""
    texts = []
    for file in sorted((ROOT / "bot/sandbox/channels").glob("*/result.json")):
        texts.extend(_exported(file))
    brief = choose_size(1, 6)  # every so many of the Russian posts
    for name, step in {"tg_ru_news": 3 * brief, "tg_ru_official": brief, "tg_ru_finance": brief}.items():
        with gzip.open(shared / name / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
            texts.extend(json.loads(line)["text"] for line in islice(lines, 0, None, step))
    texts.extend(_exported(shared / "tg_export_en/json/result.json"))
    return list(dict.fromkeys(text for text in texts if text))


_BREAK = re.compile(
    r"(?<=[^\W\d_]{3}[.!?…])[\"»”’)]*\s+(?=[^\w\s]?[^\W\d_a-zа-яё])|(?<=[%₽\d)][.!])\s+(?=[A-ZА-ЯЁ])|\n+"
)
_ODD = re.compile(r"^Об? |https?:|t\.me|@|#|\*\*|__|[\[\]|`~]|[\u0600-\u06ff]|\d\)|^\W*\d+[.)]|[:;,—–-]$")


def sentences(text):
    """Sentences fit to be claims: whole, of a fair length, without links, markup or lists."""
    for piece in _BREAK.split(text):
        piece = piece.strip().lstrip("•–—-📌📍⚡❗️🔴⚪ ").strip()
        if language(piece) == "en" and piece[-1] not in '.!…”"':
            continue  # a heading
        if 35 <= len(piece) <= 220 and not _ODD.search(piece) and len(piece.split()) >= 6 and "?" not in piece:
            yield piece


def language(text):
    cyrillic, latin = len(re.findall("[а-яё]", text.lower())), len(re.findall(r"[^\W\d_а-яёА-ЯЁ]", text))
    if cyrillic > 3 * latin:
        return "ru"
    return "en" if not cyrillic and latin and len(re.findall("[\u0600-\u06ff]", text)) * 10 < latin else None


_NUMBER = re.compile(
    r"(?<![\w.,:/№#+()\-–—−’'])(?:\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\w)"
    r"|\d+(?:[.,:]\d+)?(?![\d.,:]*\d)(?![\w/\-–—()]))"
)


def _numbers(sentence, lang, rng):
    for m in _NUMBER.finditer(sentence):
        if re.search(HEDGES[lang], sentence[: m.start()]) or _dated(sentence, m.end(), lang):
            continue
        yield "number", m.start(), m.end(), _other_number(m[0], sentence[m.end() :], rng)
    for row in NUMBER_WORDS[lang]:
        for m in re.finditer(rf"(?<![\w-])(?:{'|'.join(row)})(?![\w-])", sentence):
            if not re.search(HEDGES[lang], sentence[: m.start()]) and not _dated(sentence, m.end(), lang):
                yield "number", m.start(), m.end(), rng.choice([word for word in row if word != m[0]])


def _dated(sentence, end, lang):
    months = "|".join(chain(*MONTHS[lang]))
    return bool(re.match(rf"\s+(?:{months}|hundred|thousand|тысяч|сот|times|of\b)", sentence[end:]))


def _other_number(old, after, rng):
    """Another number of the same shape and the same plural form: 14:30 -> 14:50, 5 -> 8, 21 -> 41, 2 100 -> 2 700."""
    if ":" in old:
        hour, minute = old.split(":")
        other = rng.choice([m for m in ("00", "10", "15", "20", "30", "40", "45", "50") if m != minute])
        return (
            f"{hour}:{other}"
            if rng.random() < 0.5
            else f"{(int(hour) + rng.choice([1, 2, 3])) % 24:0{len(hour)}}:{minute}"
        )
    lone = len(old) == 1
    places = [i for i, c in enumerate(old) if c.isdigit()]
    last = places[-1]
    place = rng.choice(places if lone else [i for i in places[:-1] if i != last - 1 or old[i] != "1"] or [last])
    if re.match(r"\s?%", after) and int(re.split(r"[.,]", old)[0]) >= 100:
        place = last
    if re.fullmatch(r"(?:19|20)\d\d", old):
        place = rng.choice([2, 3])
    digits = "56789" if lone and old in "056789" else "234" if lone and old in "234" else "123456789"
    if place == last - 1 or (place == last and not lone):
        digits = "23456789"  # eleven to nineteen have another plural form than twenty-one
    choice = rng.choice([d for d in digits if d != old[place]])
    return old[:place] + choice + old[place + 1 :]


def _dates(sentence, lang, rng):
    for row in MONTHS[lang]:
        names = "|".join(row)
        both = rf"(?<![\d.:–-])(?P<day>\d{{1,2}}) (?P<month>{names})\b"
        if lang == "en":
            lead = "in|of|from|until|since|of the month of|in the month of"
            both += rf"|(?P<month2>{names}) (?P<day2>\d{{1,2}})(?!\d)|\b(?:{lead}) (?P<month3>{names})(?![\w-])"
        for m in re.finditer(both, sentence):
            for name, value in m.groupdict().items():
                if value:
                    other = rng.choice([x for x in row if x != value]) if "month" in name else _other_day(value, rng)
                    yield "date", m.start(name), m.end(name), other
    for row in DAYS[lang]:
        for m in re.finditer(rf"\b(?:{'|'.join(row)})\b", sentence):
            yield "date", m.start(), m.end(), rng.choice([x for x in row if x != m[0]])
    for m in re.finditer(r"(?<![\d.])(\d\d)\.(?:0[1-9]|1[0-2])\.20\d\d(?!\d)", sentence):
        yield "date", m.start(1), m.end(1), f"{int(_other_day(m[1], rng)):02}"


def _other_day(old, rng):
    return str(rng.choice([day for day in range(1, 29) if abs(day - int(old)) > 1]))


_NAME_ROWS = defaultdict(list)
for _lang, _rows in NAMES.items():
    for _before, _names_of_row, _after in _rows:
        _row = _names_of_row.split("|") if "|" in _names_of_row else _names_of_row.split()
        _alone = _after or r"(?![\w-]| [А-ЯЁ])"
        _found = rf"{_before}(?<![\w«\"@./-])(?:{'|'.join(map(re.escape, _row))}){_alone}"
        _NAME_ROWS[_lang].append((_row, re.compile(_found)))


def _names(sentence, lang, people, rng):
    for row, pattern in _NAME_ROWS[lang]:
        for m in pattern.finditer(sentence):
            if lang == "ru" and re.search(r"[А-ЯЁ]\w+ $", sentence[: m.start()]):
                continue  # a first name stands before it
            yield "name", m.start(), m.end(), rng.choice([x for x in row if x not in (m[0], "России")])
    for row in people if lang == "ru" else []:
        for m in re.finditer("|".join(row) or r"$^", sentence):
            others = [x for x in row if not set(x.split()) & set(m[0].split())]
            if others and not re.match(r"\w", sentence[m.end() :]):
                yield "name", m.start(), m.end(), rng.choice(others)


def _negations(sentence, lang, rng):
    no = list(re.finditer(NEGATIONS[lang], sentence, re.I))
    if len(no) == 1:
        yield from _affirmed(sentence, lang, no[0])
    if no or re.search(UNSURE[lang], sentence, re.I):
        return
    for m in re.finditer(r"(?<![\w-])[a-zа-яё]+(?![\w-])", sentence):
        if m[0] in _OPPOSITE[lang]:
            yield "negation", m.start(), m.end(), _OPPOSITE[lang][m[0]]
    words = VERBS[lang].split()
    if lang == "en" and re.match(r"\W*(?:all|every|both|each|some|most)\b", sentence, re.I):
        return
    found = re.search(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w’'-])", sentence)
    if found and found[0] in ("has", "had") and not re.match(r" (?:been|\w+ed|\w+en)\b", sentence[found.end() :]):
        return  # to have, not the auxiliary
    aside = (
        r"\b(?:котор\w+|что|чем|бывш\w*|еще|ещё|также)\b"
        if lang == "ru"
        else r"\b(?:who|that|which|because|while|as|there|only|whose|one)\b"
    )
    if (
        found
        and not re.search(aside, sentence[: found.end()], re.I)
        and not re.match(r"[.,]| also| only| I\b| [Hh]e\b| [Ss]he\b| it\b| they\b", sentence[found.end() :])
    ):
        changed = f"не {found[0]}" if lang == "ru" else f"{found[0]} not"
        yield "negation", found.start(), found.end(), changed


def _affirmed(sentence, lang, no):
    """The sentence without its only negation, where what is left is a sentence."""
    if re.search(rf"{UNSURE[lang]}|\b(?:пока|чуть|почти|практически|поч[её]м|so that)\b", sentence, re.I):
        return
    after, before = sentence[no.end() :], sentence[: no.start()]
    if (
        lang == "ru"
        and no[0] == "не"
        and re.match(r" [а-яё]+(?:ет|ут|ют|ит|ят|ат|ется|ются|ится|ал|ала|али|ил|ила|или|ло|ся|сь|ём|ем)\b", after)
    ):
        if not re.match(r" (?:\w+тесь|только|менее|более|раз|хватает|хватало)", after):
            yield "negation", no.start(), no.end() + 1, ""
    elif (
        lang == "en"
        and no[0] == "not"
        and re.search(r"\b(?:is|are|was|were|will|can|should|must|does|do|did|has|have) $", before)
    ):
        if not re.match(r" (?:only|just|because|even|yet|any|be\b.* but)", after) and " but " not in after:
            yield "negation", no.start(), no.end() + 1, ""
    elif lang == "en" and no[0] == "cannot":
        yield "negation", no.start(), no.end(), "can"
    elif lang == "en" and no[0] in ("n't", "n’t") and not re.search(r"\b(?:ca|wo|sha)$", before):
        yield "negation", no.start(), no.end(), ""


def _people(posts):
    """Full names in the nominative that several posts give, by gender, the most frequent first."""
    men, women = FIRST_NAMES
    patterns = (
        rf"\b(?:{men.replace(' ', '|')}) [А-ЯЁ][а-яё]+(?:ов|ев|ёв|ин|ын|ский|анд|ик|ус)\b",
        rf"\b(?:{women.replace(' ', '|')}) [А-ЯЁ][а-яё]+(?:ова|ева|ина|ская)\b",
    )
    counted = (Counter(m for post in posts for m in set(re.findall(p, post))) for p in patterns)
    return [[name for name, times in sorted(c.items(), key=lambda x: (-x[1], x[0])) if times > 1][:40] for c in counted]


_NO_DAY = r"3[01] (?:февраля|February)|31 (?:апреля|июня|сентября|ноября|April|June|September|November)"


def _fair(change, sentence, post, lang, known):
    """Whether the new value stands nowhere in the post, the old once in the sentence, and the name is a real one."""
    kind, start, end, new = change
    old = sentence[start:end]
    if kind != "negation" and re.search(f"{NEGATIONS[lang]}|{UNSURE[lang]}", sentence, re.I):
        return False
    if kind == "negation":
        word = new.removeprefix("не ").removesuffix(" not")
        return word in old or not re.search(rf"\b{re.escape(word[:5])}", post, re.I)
    if len(re.findall(rf"(?<!\w){re.escape(old)}(?!\w)", sentence)) != 1 or new == old:
        return False
    if re.search(_NO_DAY, sentence[:start] + new + sentence[end:]):
        return False
    if new[0].isdigit():
        said = re.search(rf"\b(?:{NUMERALS.get(new, '$^')})", post, re.I)
        return not said and not {new.replace(",", "."), re.sub(r"\D", "", new)} & figures(post)
    if kind == "number" and any(n in figures(post) for n, words in NUMERALS.items() if re.match(words, new, re.I)):
        return False
    text = folded(post)
    words = [
        w for w in re.split(r"[\s-]", folded(new)) if len(w) > 2 and w not in ("ibn", "abu", "umm", "imam", "shaykh")
    ]
    stems = [w[: max(4, len(w) - 2)] for w in words]
    if kind == "name" and not all(stem in known for stem in stems):
        return False
    return not any(re.search(rf"\b{stem}", text) for stem in stems)


def changes(sentence, post, lang, known, rng):
    """Every fair change of a sentence of a post; `known` is the full names and the folded text of all posts."""
    people, text = known
    found = chain(
        _numbers(sentence, lang, rng),
        _dates(sentence, lang, rng),
        _names(sentence, lang, people, rng),
        _negations(sentence, lang, rng),
    )
    yield from (change for change in found if _fair(change, sentence, post, lang, text))


def _candidates(posts, rng):
    people, known = _people(posts), folded(" ".join(posts))
    seen = set()
    for post in posts:
        for sentence in sentences(post):
            lang = language(sentence)
            if lang is None or sentence in seen:
                continue
            seen.add(sentence)
            for kind, start, end, new in changes(sentence, post, lang, (people, known), rng):
                claim = sentence[:start] + new + sentence[end:]
                yield Edit(lang, kind, sentence, claim, post, sentence[start:end], new)


@cache
def minimal_edits(shared):
    """The edits, as many of each kind and language as the posts allow up to `EACH`; by language, kind and chance."""
    rng = random.Random(7)
    groups = defaultdict(list)
    for edit in _candidates(real_posts(shared), rng):
        groups[edit.lang, edit.kind].append(edit)
    for found in groups.values():
        rng.shuffle(found)
    taken = Counter()
    chosen = defaultdict(list)
    for row in zip_longest(*(groups[key] for key in sorted(groups, key=lambda key: len(groups[key])))):
        for edit in filter(None, row):
            key = edit.lang, edit.kind
            if len(chosen[key]) < EACH and taken[edit.original] < PER_SENTENCE[edit.lang]:
                taken[edit.original] += 1
                chosen[key].append(edit)
    return [edit for key in sorted(chosen) for edit in chosen[key]]
