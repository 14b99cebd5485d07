"""Minimal edits and harmless changes of real posts, the same for the same seed: what a search for copies is held to.

An edit changes one number, date, name or negation: what it makes is another post. A harmless change touches a link, a
channel's footer or the emoji before a line: what it makes is the same post.
"""

import gzip
import json
import random
import re
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EditedPost:
    """A post before and after."""

    kind: str
    before: str
    after: str


# What is no body: links with their brackets, mentions, hashtags, and lines that call to another channel.
_LINK = re.compile(r"\]\((?:https?|tg)://[^)\s]*\)|https?://[^\s)\]]+|(?<![\w.])t\.me/[^\s)\]]+")
_ASIDE = re.compile(rf"{_LINK.pattern}|(?<!\w)[@#]\w+")
_CALL = re.compile(r"\bподпи(?:саться|сывайся|сывайтесь|шись|шитесь)\b|прислать нов|предложить нов|написать нам", re.I)
_MENTION_ONLY = re.compile(r"[^\w@]*@\w+[^\w@]*")
_INSIDE = re.compile(r"(?<=[а-яё,] )([А-ЯЁ][а-яё]{3,})\b")  # a capital in the middle of a sentence
_NUMBER = re.compile(r"(?<![\w.,:/\x00-])\d+(?:[.,:]\d+)*(?![\d\ufe0f\u20e3])")
_LIST_NUMBER = re.compile(r"(?m)^\W*\d+[.)]\s")
_MONTHS = "января февраля марта апреля мая июня июля августа сентября октября ноября декабря".split()
_DAYS = "понедельник вторник среду четверг пятницу субботу воскресенье вчера сегодня завтра послезавтра".split()
_DATE = re.compile(rf"\b(?:{'|'.join([*_MONTHS, *_DAYS])})\b|(?<![\d.,])(?:19|20)\d\d(?=(?:-\w+)? год|\s?г\.)")


def _is_footer(line):
    bare = _LINK.sub("", line)
    return len(bare) < 100 and bool(_CALL.search(bare) or _MENTION_ONLY.fullmatch(line))


def _body(text):
    """The same text, as long as before, with everything that is no body hidden by a mark."""
    lines = ("\x00" * len(line) if _is_footer(line) else line for line in text.split("\n"))
    return _ASIDE.sub(lambda m: "\x00" * len(m[0]), "\n".join(lines))


class Corpus:
    """Real posts, and what they use: names, negated words, footers, links."""

    def __init__(self, posts):
        self.posts = [p for p in dict.fromkeys(posts) if len(re.findall(r"[^\W\d_]+", _body(p))) >= 5]
        bodies = [_body(post) for post in self.posts]
        inside = Counter(m[1] for body in bodies for m in _INSIDE.finditer(body))
        lower = Counter(word for body in bodies for word in re.findall(r"\b[а-яё]{4,}\b", body))
        self.names = sorted(name for name, n in inside.items() if n >= 3 and lower[name.lower()] * 20 < n)
        self.negated = {m[1] for body in bodies for m in re.finditer(r"\bне ([а-яё]{4,})\b", body)}
        last = {found for post in self.posts if (found := post.rstrip().rsplit("\n", 1)[-1].strip())}
        whole = (line for line in last if line.count("[") == line.count("]") == line.count("]("))
        self.footers = sorted(line for line in whole if _is_footer(line) and len(line) < 200)
        self.links = sorted({link for post in self.posts for link in re.findall(r"https://[^\s)\]*]+", post)})


def read_posts(folder):
    """The posts of an evaluation folder with a posts.jsonl.gz."""
    with gzip.open(folder / "posts.jsonl.gz", "rt", encoding="utf-8") as lines:
        return Corpus(json.loads(line)["text"] for line in lines)


def _replace_one(text, found, rng, other):
    if not found:
        return text
    spot = rng.choice(found)
    return text[: spot.start()] + other(spot[0]) + text[spot.end() :]


def _edit_number(text, corpus, rng):
    """Another digit, one more or one less."""

    def other(number):
        if number.isdigit() and len(number) < 6 and rng.random() < 1 / 3:
            return number + rng.choice("05")
        if number.isdigit() and len(number) > 1 and rng.random() < 1 / 3:
            return number[:-1]
        at = rng.choice([i for i, c in enumerate(number) if c.isdigit()])
        return number[:at] + rng.choice([c for c in "123456789" if c != number[at]]) + number[at + 1 :]

    body = _body(text)
    taken = [m.span() for pattern in (_DATE, _LIST_NUMBER) for m in pattern.finditer(body)]
    found = [m for m in _NUMBER.finditer(body) if not any(a < m.end() and m.start() < b for a, b in taken)]
    return _replace_one(text, found, rng, other)


def _edit_date(text, corpus, rng):
    def other(said):
        if said.isdigit():
            return str(int(said) + rng.choice((-2, -1, 1, 2)))
        words = _MONTHS if said in _MONTHS else _DAYS
        return rng.choice([word for word in words if word != said])

    return _replace_one(text, [*_DATE.finditer(_body(text))], rng, other)


def _edit_name(text, corpus, rng):
    found = [m for m in _INSIDE.finditer(_body(text)) if m[1] in corpus.names]
    alike = lambda name: [n for n in corpus.names if n[-1] == name[-1] and n[:3] != name[:3]]  # noqa: E731
    return _replace_one(text, found, rng, lambda name: rng.choice(alike(name)))


def _edit_negation(text, corpus, rng):
    """A "не" that goes, or one that comes before a word that is negated elsewhere."""
    body = _body(text)
    if gone := [*re.finditer(r"(?<=[\w,»)] )не (?=[а-яё])", body)]:
        return _replace_one(text, gone, rng, lambda _: "")
    found = (m for m in re.finditer(r"(?<=[\w,»)] )([а-яё]{4,})\b", body) if m[1] in corpus.negated)
    free = [m for m in found if not body[: m.start()].endswith((" не ", " ни "))]
    return _replace_one(text, free, rng, lambda word: f"не {word}")


# Forms of footers that channels really use beside those of the corpus; names are invented.
_FORMS = (
    "Подписаться на @{user}", "👉 t.me/{user}", "👉 Подписаться: https://t.me/{user}", "Источник: {agency}",
    "Источник: https://t.me/{user}/{number}", "Источник: @{user}", "Подписывайтесь на канал «{title}» @{user}",
    "⚡️ Подписаться | Прислать новость", "📲 Читайте нас в МАКС", "[Подпишись на {title}](https://t.me/{user})",
    "Сайт | X/Twitter | Прислать новость/фото/видео | Реклама на канале | Помощь", "👍 Подпишись на {title}",
    "[релиз](https://example.ru/news/{number}) | @{user}", "Больше новостей в нашем канале 👉 @{user}",
    "#новости #{user}", "@{user}", "Наш чат: @{user}",
)  # fmt: skip
_AGENCIES = ("ТАСС", "РИА Новости", "Интерфакс", "РБК", "Коммерсантъ", "Mash", "Baza", "Reuters")
_TITLES = ("Тверь сегодня", "Невские вести", "Рынки и деньги", "Город с огоньком", "Наука просто")
_USERS = ("tver_today", "nevanews", "rynki_i_dengi", "gorod_live", "nauka_prosto", "news24x7")
_LEADING = re.compile(r"^[^\w\s\[\]()*«»\"'#@$€+−–—-]+[ \t]*")


def _footer(corpus, post, rng):
    """A footer of another channel: of the corpus, or one of the forms."""
    if rng.random() < 1 / 3:
        return rng.choice([line for line in corpus.footers if line not in post])
    given = {"user": rng.choice(_USERS), "title": rng.choice(_TITLES), "agency": rng.choice(_AGENCIES)}
    return rng.choice(_FORMS).format(**given, number=rng.randrange(100, 99_999))


def _parted(post):
    """The body and the footer below it; what is missing is empty."""
    head, _, last = post.rstrip().rpartition("\n")
    return (head.rstrip(), last.strip()) if head.strip() and _is_footer(last) else (post.rstrip(), "")


def _another_link(post, corpus, rng):
    found, other = list(re.finditer(r"https://[^\s)\]*]+", _parted(post)[0])), rng.choice(corpus.links)
    return _replace_one(post, found, rng, lambda _: other) if found else f"{post.rstrip()}\n\n{other}"


def _another_emoji(post, corpus, rng):
    first, *rest = post.split("\n")
    return "\n".join([f"{rng.choice(('❗️', '⚡️', '🔥', '🔴', '📌', '👉'))} {_LEADING.sub('', first)}", *rest])


FACTS = {
    "negation": _edit_negation, "date": _edit_date, "name": _edit_name, "number": _edit_number,
}  # fmt: skip
HARMLESS = {
    "link": _another_link,
    "footer": lambda post, corpus, rng: f"{_parted(post)[0]}\n\n{_footer(corpus, post, rng)}",
    "removed": lambda post, corpus, rng: _parted(post)[0],
    "moved": lambda post, corpus, rng: f"{_parted(post)[1] or _footer(corpus, post, rng)}\n\n{_parted(post)[0]}",
    "emoji": _another_emoji,
}


def make_edits(changes, corpus, each):
    """`each` edits of every kind, all of different posts; every second post as Telegram delivers it, without marks."""
    rng, made = random.Random(1), []
    left = iter(rng.sample(corpus.posts, len(corpus.posts)))
    waiting = []  # posts that one kind could not change are tried by the next
    for kind, change in changes.items():
        tried, waiting, count = [*waiting], [], 0
        while count < each:
            post = tried.pop() if tried else next(left)
            plain = re.sub(r"\*\*|__|`", "", re.sub(r"\[([^\]]*)\]\((?:https?|tg)://[^)\s]*\)", r"\1", post))
            text = plain if rng.random() < 1 / 2 else post
            after = change(text, corpus, rng)
            if after.strip() == text.strip():
                waiting.append(post)
            else:
                made.append(EditedPost(kind, text, after))
                count += 1
        waiting += tried
    return made
