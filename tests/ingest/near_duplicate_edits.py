"""Minimal edits and harmless changes of real posts, the same for the same seed: what a search for copies is held to.

An edit changes exactly one number, date, name or negation: what it makes is another post. A harmless change
touches a link, a channel's footer or the emoji before a line: what it makes is the same post. This file knows
nothing of how copies are found.
"""

from __future__ import annotations

import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HARMLESS = ("link", "footer", "removed", "moved", "bullets")
_LEAST_WORDS = 5  # of a post that is changed, links and footers aside


@dataclass(frozen=True, slots=True)
class EditedPost:
    """A post before and after; `what` says what was changed into what."""

    kind: str
    before: str
    after: str
    what: str


# What is no body: links with their brackets, mentions, hashtags, and lines that call to another channel.
_LINK = re.compile(r"\]\((?:https?|tg)://[^)\s]*\)|https?://[^\s)\]]+|(?<![\w.])t\.me/[^\s)\]]+")
_ASIDE = re.compile(rf"{_LINK.pattern}|(?<!\w)[@#]\w+")
_CALL = re.compile(r"\bподпи(?:саться|сывайся|сывайтесь|шись|шитесь)\b|прислать нов|предложить нов|написать нам", re.I)
_MENTION_ONLY = re.compile(r"[^\w@]*@\w+[^\w@]*")
_WORD = re.compile(r"[^\W\d_]+")


def _is_footer(line: str) -> bool:
    bare = _LINK.sub("", line)
    return len(bare) < 100 and bool(_CALL.search(bare) or _MENTION_ONLY.fullmatch(line))


def normalise_text(text: str) -> str:
    """A post with Markdown remains as Telegram delivers it: labels without their addresses, no stars."""
    text = re.sub(r"\[([^\]]*)\]\((?:https?|tg)://[^)\s]*\)", r"\1", text)
    return re.sub(r"\*\*|__|`", "", text)


def _body(text: str) -> str:
    """The same text, as long as before, with everything that is no body hidden by a mark."""
    lines = ("\x00" * len(line) if _is_footer(line) else line for line in text.split("\n"))
    return _ASIDE.sub(lambda m: "\x00" * len(m[0]), "\n".join(lines))


@dataclass(frozen=True)
class Corpus:
    """Real posts, and what they use: names, negated words, footers, links."""

    posts: tuple[str, ...]
    names: tuple[str, ...]
    negated: frozenset[str]
    footers: tuple[str, ...]
    links: tuple[str, ...]

    @classmethod
    def of(cls, posts: Iterable[str]) -> Corpus:
        kept = tuple(dict.fromkeys(post for post in posts if len(_WORD.findall(_body(post))) >= _LEAST_WORDS))
        bodies = [_body(post) for post in kept]
        last = Counter(found for post in kept if (found := post.rstrip().rsplit("\n", 1)[-1].strip()))
        return cls(
            kept,
            _names(bodies),
            frozenset(m[1] for body in bodies for m in re.finditer(r"\bне ([а-яё]{4,})\b", body)),
            tuple(sorted(line for line in last if _is_footer(line) and len(line) < 200 and _whole(line))),
            tuple(sorted({link for post in kept for link in re.findall(r"https://[^\s)\]*]+", post)})),
        )


def _whole(line: str) -> bool:
    """Whether no link was cut off by the line's beginning."""
    return line.count("[") == line.count("]") == line.count("](")


def _names(bodies: Sequence[str]) -> tuple[str, ...]:
    """Words with a capital in the middle of a sentence, at least three times, that are hardly ever written without."""
    inside = Counter(m[1] for body in bodies for m in _INSIDE.finditer(body))
    lower = Counter(word for body in bodies for word in re.findall(r"\b[а-яё]{4,}\b", body))
    return tuple(sorted(name for name, n in inside.items() if n >= 3 and lower[name.lower()] * 20 < n))


_INSIDE = re.compile(r"(?<=[а-яё,] )([А-ЯЁ][а-яё]{3,})\b")

Spot = tuple[int, int, str]  # from, to, what stands there afterwards
Changer = Callable[[str, Corpus, random.Random], list[Spot]]

_NUMBER = re.compile(r"(?<![\w.,:/\x00-])\d+(?:[.,:]\d+)*(?![\d\ufe0f\u20e3])")
_LIST_NUMBER = re.compile(r"(?m)^\W*\d+[.)]\s")
_WORDS_FOR_NUMBERS = {
    "два": "три", "две": "три", "двух": "трёх", "трёх": "пяти", "трех": "пяти", "двое": "трое", "трое": "четверо",
    "пять": "шесть", "пяти": "шести", "десять": "двадцать", "сто": "двести", "млн": "млрд", "млрд": "млн",
    "миллион": "миллиард", "миллиона": "миллиарда", "миллионов": "миллиардов", "миллиардов": "миллионов",
    "тысяч": "миллионов", "вдвое": "втрое", "дважды": "трижды", "половину": "треть", "первый": "третий",
    "первая": "третья", "второй": "пятый", "вторая": "пятая",
}  # fmt: skip
_MONTHS = "января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split()
_IN_MONTHS = "январе феврале марте апреле мае июне июле августе сентябре октябре ноябре декабре".split()
_WEEKDAYS = (
    "понедельник вторник среду четверг пятницу субботу воскресенье".split(),
    "понедельника вторника среды четверга пятницы субботы воскресенья".split(),
)
_DAYS = "вчера сегодня завтра послезавтра".split()
_DAY = re.compile(rf"(?<![\d.,])(\d{{1,2}}) (?:{'|'.join(_MONTHS)})\b")
_YEAR = re.compile(r"(?<![\d.,])((?:19|20)\d\d)(?=(?:-\w+)? год|\s?г\.)")
_POINTS = re.compile(r"(?<![\d.,])(\d{2})\.(0[1-9]|1[0-2])(?:\.20\d\d)?(?![\d.])")


def _dates(body: str, rng: random.Random) -> list[Spot]:
    spots = []
    for words in (_MONTHS, _IN_MONTHS, *_WEEKDAYS, _DAYS):
        for m in re.finditer(rf"\b(?:{'|'.join(words)})\b", body):
            spots.append((*m.span(), rng.choice([word for word in words if word != m[0]])))
    for m in _DAY.finditer(body):
        spots.append((*m.span(1), str(rng.choice([day for day in range(1, 29) if day != int(m[1])]))))
    for m in _POINTS.finditer(body):
        spots.append((*m.span(1), f"{rng.choice([day for day in range(1, 29) if day != int(m[1])]):02}"))
    spots += [(*m.span(1), str(int(m[1]) + rng.choice((-2, -1, 1, 2)))) for m in _YEAR.finditer(body)]
    return spots


def _dated(body: str, corpus: Corpus, rng: random.Random) -> list[Spot]:
    return _dates(body, rng)


def _numbered(body: str, corpus: Corpus, rng: random.Random) -> list[Spot]:
    taken = [(start, end) for start, end, _ in _dates(body, rng)]
    taken += [m.span() for m in _LIST_NUMBER.finditer(body)]
    free = [m for m in _NUMBER.finditer(body) if not any(a < m.end() and m.start() < b for a, b in taken)]
    spots = [(*m.span(), _other_number(m[0], rng)) for m in free]
    words = [m for m in re.finditer(r"\b[а-яё]+\b", body) if m[0] in _WORDS_FOR_NUMBERS]
    said = [(*m.span(), _WORDS_FOR_NUMBERS[m[0]]) for m in words]
    # every sixth number is a word
    return said if said and (not spots or rng.random() < 1 / 6) else spots


def _other_number(number: str, rng: random.Random) -> str:
    """One digit more, less or different, two exchanged, or the comma left out."""
    places = [i for i, c in enumerate(number) if c.isdigit()]
    found = {number}
    while found == {number}:
        at = rng.choice(places)
        digit = rng.choice("123456789")
        way = rng.randrange(6)
        if way == 0 and number.isdigit() and len(number) < 6:
            found.add(number + rng.choice("05"))
        elif way == 1 and number.isdigit() and len(number) > 1:
            found.add(number[:-1])
        elif way == 2 and at + 1 in places and (at or number[1] != "0"):
            found.add(number[:at] + number[at + 1] + number[at] + number[at + 2 :])
        elif way == 3 and len(places) == len(number) - 1 and ":" not in number and number[0] != "0":
            found.add(re.sub("[.,]", "", number))
        elif way >= 4:
            found.add(number[:at] + digit + number[at + 1 :])
    return (found - {number}).pop()


def _named(body: str, corpus: Corpus, rng: random.Random) -> list[Spot]:
    known = frozenset(corpus.names)
    spots = []
    for m in _INSIDE.finditer(body):
        if m[1] in known:
            alike = [n for n in corpus.names if n[-1] == m[1][-1] and n[:3] != m[1][:3]]
            spots.append((*m.span(1), rng.choice(alike)))
    return spots


def _no_longer_negated(body: str, corpus: Corpus, rng: random.Random) -> list[Spot]:
    return [(*m.span(1), "") for m in re.finditer(r"(?<=[\w,»)] )(не )[а-яё]", body)]


def _newly_negated(body: str, corpus: Corpus, rng: random.Random) -> list[Spot]:
    found = (m for m in re.finditer(r"(?<=[\w,»)] )([а-яё]{4,})\b", body) if m[1] in corpus.negated)
    return [(m.start(1), m.start(1), "не ") for m in found if not body[: m.start(1)].endswith((" не ", " ни "))]


# The rarest first; half of the negations are put in, half taken out.
_EDITORS: tuple[tuple[str, Changer, int], ...] = (
    ("negation", _no_longer_negated, 2),
    ("date", _dated, 1),
    ("negation", _newly_negated, 2),
    ("name", _named, 1),
    ("number", _numbered, 1),
)


def make_fact_edits(corpus: Corpus, seed: int = 1, each: int = 110) -> list[EditedPost]:
    """`each` edits of every kind, all of different posts; every second post as Telegram delivers it."""
    rng = random.Random(seed)
    left = list(corpus.posts)
    rng.shuffle(left)
    made: list[EditedPost] = []
    for kind, spots, share in _EDITORS:
        found = _some(((post, _edited(kind, spots, post, corpus, rng)) for post in left), each // share)
        used = {post for post, _ in found}
        left = [post for post in left if post not in used]
        made += [change for _, change in found]
    return made


def _some(tried: Iterator[tuple[str, EditedPost | None]], number: int) -> list[tuple[str, EditedPost]]:
    found = []
    for post, change in tried:
        if change is not None:
            found.append((post, change))
        if len(found) == number:
            break
    return found


def _edited(kind: str, spots: Changer, post: str, corpus: Corpus, rng: random.Random) -> EditedPost | None:
    text = normalise_text(post) if rng.random() < 1 / 2 else post
    found = spots(_body(text), corpus, rng)
    if not found:
        return None
    start, end, said = rng.choice(found)
    return EditedPost(kind, text, text[:start] + said + text[end:], f"{text[start:end]!r} -> {said!r}")


# Forms of footers that channels really use beside those of the corpus; names are invented.
_FORMS = (
    "Подписаться на @{user}",
    "👉 t.me/{user}",
    "👉 Подписаться: https://t.me/{user}",
    "Источник: {agency}",
    "Источник: https://t.me/{user}/{number}",
    "Источник: @{user}",
    "Подписывайтесь на канал «{title}» @{user}",
    "⚡️ Подписаться | Прислать новость",
    "🔴 Подписаться | Прислать новости",
    "📲 Читайте нас в МАКС",
    "📲 Подписаться на нас в МАКС",
    "Сайт | X/Twitter | Прислать новость/фото/видео | Реклама на канале | Помощь",
    "[релиз](https://example.ru/news/{number}) | @{user}",
    "Больше новостей в нашем канале 👉 @{user}",
    "[Подпишись на {title}](https://t.me/{user})",
    "👍 Подпишись на {title}",
    "#новости #{user}",
    "@{user}",
    "Наш чат: @{user}",
)
_AGENCIES = ("ТАСС", "РИА Новости", "Интерфакс", "РБК", "Коммерсантъ", "Mash", "Baza", "Reuters")
_TITLES = ("Тверь сегодня", "Невские вести", "Рынки и деньги", "Город с огоньком", "Наука просто")
_USERS = ("tver_today", "nevanews", "rynki_i_dengi", "gorod_live", "nauka_prosto", "news24x7")
_EMOJI = ("❗️", "⚡️", "🔥", "🔴", "📌", "🤔", "👉", "💰", "🚀")
_BULLETS = ("▪️", "🔹", "🔸", "•", "–", "—", "-", "✔️")
_MARKED = re.compile(r"^[ \t]*(?:[▪🔹🔸🔵🟠🟢•–—∙●✔-]\ufe0f?)[ \t]+")
_LEADING = re.compile(r"^[^\w\s\[\]()*«»\"'#@$€+−–—-]+[ \t]*")


def _footer(corpus: Corpus, post: str, rng: random.Random) -> str:
    """A footer of another channel: of the corpus, or one of the forms."""
    if rng.random() < 1 / 3:
        return rng.choice([line for line in corpus.footers if line not in post])
    given = {"user": rng.choice(_USERS), "title": rng.choice(_TITLES), "agency": rng.choice(_AGENCIES)}
    return rng.choice(_FORMS).format(**given, number=rng.randrange(100, 99_999))


def _parted(post: str) -> tuple[str, str]:
    """The body and the footer below it; what is missing is empty."""
    head, _, last = post.rstrip().rpartition("\n")
    return (head.rstrip(), last.strip()) if head.strip() and _is_footer(last) else (post.rstrip(), "")


def _another_footer(post: str, corpus: Corpus, rng: random.Random) -> str:
    return f"{_parted(post)[0]}\n\n{_footer(corpus, post, rng)}"


def _without_footer(post: str, corpus: Corpus, rng: random.Random) -> str:
    return _parted(post)[0]


def _footer_on_top(post: str, corpus: Corpus, rng: random.Random) -> str:
    """Its own footer moved to the top; every second time another channel's."""
    body, footer = _parted(post)
    return f"{footer if footer and rng.random() < 1 / 2 else _footer(corpus, post, rng)}\n\n{body}"


def _another_link(post: str, corpus: Corpus, rng: random.Random) -> str:
    """One of its links replaced, given a campaign, or, where there is none, one put below."""
    found = list(re.finditer(r"https://[^\s)\]*]+", _parted(post)[0]))
    other = rng.choice(corpus.links)
    if not found:
        return f"{post.rstrip()}\n\n{other}"
    link = rng.choice(found)
    tagged = link[0] + ("&" if "?" in link[0] else "?") + "utm_source=telegram&utm_campaign=12"
    return post[: link.start()] + (tagged if rng.random() < 1 / 3 else other) + post[link.end() :]


def _other_bullets(post: str, corpus: Corpus, rng: random.Random) -> str:
    """Other marks before the lines of a list; else another emoji at the beginning, or none; else one at the end."""
    body, footer = _parted(post)
    lines, bullet, emoji = body.split("\n"), rng.choice(_BULLETS), rng.choice(_EMOJI)
    if sum(bool(_MARKED.match(line)) for line in lines) > 1:
        lines = [_MARKED.sub(f"{bullet} ", line) for line in lines]
    elif rng.random() < 2 / 3:
        lines[0] = _LEADING.sub("", lines[0]) if rng.random() < 1 / 3 else f"{emoji} {_LEADING.sub('', lines[0])}"
    else:
        lines[-1] += f" {emoji}"
    return "\n".join(lines) + (f"\n\n{footer}" if footer else "")


_CHANGERS: dict[str, Callable[[str, Corpus, random.Random], str]] = {
    "link": _another_link,
    "footer": _another_footer,
    "removed": _without_footer,
    "moved": _footer_on_top,
    "bullets": _other_bullets,
}


def make_harmless_edits(corpus: Corpus, seed: int = 1, each: int = 90) -> list[EditedPost]:
    """`each` harmless changes of every kind, all of different posts; every second post as Telegram delivers it."""
    rng = random.Random(seed)
    left = list(corpus.posts)
    rng.shuffle(left)
    made: list[EditedPost] = []
    for kind in HARMLESS:
        found = _some(((post, _changed(kind, post, corpus, rng)) for post in left), each)
        used = {post for post, _ in found}
        left = [post for post in left if post not in used]
        made += [change for _, change in found]
    return made


def _changed(kind: str, post: str, corpus: Corpus, rng: random.Random) -> EditedPost | None:
    text = normalise_text(post) if rng.random() < 1 / 2 else post
    after = _CHANGERS[kind](text, corpus, rng)
    return EditedPost(kind, text, after, kind) if after.strip() != text.strip() else None


def read_posts(folder: Path) -> Corpus:
    """The posts of an evaluation folder with a posts.jsonl.gz."""
    with gzip.open(folder / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        return Corpus.of(json.loads(line)["text"] for line in lines)
