"""What a channel puts under every post, and what of a text is its own: footers, links and mentions aside. Pure."""

from __future__ import annotations

import re

from rag_core.analysis import stem
from rag_core.types import Post

__all__ = ["body", "with_links"]

_LABELLED = re.compile(r"\[([^\]\n]*)\]\((?:https?|tg)://[^)\s]*\)")
# The channel itself: a link to one of its posts may carry a headline.
_CHANNEL = re.compile(
    r"\[([^\]\n]*)\]\(https?://(?:t|telegram)\.me/(?:\+|joinchat/)?[\w-]+(?:\?[^)\s]*)?\)", re.IGNORECASE
)
_LINK = re.compile(
    r"(?:https?|tg)://[^\s)\]]+|(?<![\w.])(?:t\.me|telegram\.me|max\.ru|vk\.com)/[^\s)\]]+|(?<![\w.])@\w+"
)
_TO_A_CHANNEL = re.compile(r"(?<![\w.])(?:https?://)?(?:t|telegram)\.me/[\w+-]+(?![\w/])|(?<![\w.])@\w+")
_HASHTAG = re.compile(r"(?<!\w)#\w+")
_LAST_HASHTAGS = re.compile(r"(?:\s*#\w+)+\s*$")
_WORD = re.compile(r"[^\W_]+")
_QUOTED = re.compile(r"«[^»]*»|\"[^\"]*\"")
_STOPS = re.compile(r"\w\W*[.!?…]\W*$")

_TO_SUBSCRIBE = (
    r"(?:подпи(?:саться|сывайся|сывайтесь|шись|шитесь)|присоединя(?:йся|йтесь)|subscribe|join us|join our|follow us)\b"
)
_CALL = re.compile(rf"\b{_TO_SUBSCRIBE}", re.IGNORECASE)
# "Подпишись на ...", "🔥 Mash. Подпишись": not "как подписаться на".
_CALLING = re.compile(rf"(?:\W*|.*[^\w\s]\W*){_TO_SUBSCRIBE}|.*\|", re.IGNORECASE)
_CREDIT = re.compile(
    r"\W*(?:(?:источник|оригинал|фото|видео|source|via|photo|video)\s*[:—–-]|©|\([сc]\)|via\b)", re.IGNORECASE
)
# On top this is a headline: "Video: the bridge".
_PICTURED = re.compile(r"\W*(?:фото|видео|photo|video)\s*[:—–-]\s*\w", re.IGNORECASE)
# A line that holds no other words says nothing of its own.
_SIGNING = frozenset(
    stem(word) or word
    for word in (
        "подписаться прислать предложить написать новость новости наш наша наши канал каналы чат группа бот сайт "
        "сообщество телеграм телеграме телеграмм тг telegram макс max вк вконтакте vk дзен youtube ютуб rutube рутуб "
        "x twitter твиттер instagram facebook реклама сотрудничество редакция помощь обратная связь больше еще все "
        "далее также читать читайте читай смотрите смотреть слушать обсудить подробнее подробности полностью ссылка "
        "тут здесь перейти источник оригинал фото видео подкаст нас нам мы нами на в во и к с по у о за для про это "
        "boost буст голосовать проголосовать поддержать "
        "subscribe join follow us our we channel chat group bot site website news source photo video more read here "
        "link via on in to the and full story"
    ).split()
)
_LONGEST = 200  # characters, links aside
_LONGEST_CALL = 8  # words of a call to subscribe, with the channel's name in it
_LONGEST_LINKED_CALL = 16  # where a link goes with it
_LONGEST_ROW = 6
_LONGEST_SIGNATURE = 3  # words beside a channel's address: "Новости Твери @tver"
_TELLING = 3  # words that only sign, so that a name in quotes beside them is a channel's
_LONGEST_NAMES = 8  # of channels that are linked
_LONGEST_CREDIT = 6


def body(text: str) -> str:
    """What a post says itself: without links, mentions, and the footers at its beginning and end."""
    lines = [line for line in text.split("\n") if line.strip()]
    first, last = 0, len(lines)
    while first < last and _is_footer(lines[last - 1]):
        last -= 1
    while first < last and _is_footer(lines[first]) and not _PICTURED.match(lines[first]):
        first += 1
    own = _unlinked("\n".join(lines[first:last]))
    return _LAST_HASHTAGS.sub("", own) if "#" in own else own


def with_links(post: Post) -> str:
    """The text of a post with its hidden links to channels written out: they tell a signature from a headline."""
    hidden = [e for e in post.entities if e.type == "text_link" and e.url and "t.me/" in e.url]
    if not hidden:
        return post.text
    units = post.text.encode("utf-16-le", "surrogatepass")
    for entity in sorted(hidden, key=lambda e: -e.offset):
        start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
        label = units[start:end].decode("utf-16-le", "replace")
        said = f"[{label}]({entity.url})" if "\n" not in label else label
        units = units[:start] + said.encode("utf-16-le", "replace") + units[end:]
    return units.decode("utf-16-le", "replace")


def _unlinked(text: str) -> str:
    if "](" in text:
        text = _LABELLED.sub(r"\1", text)
    return _LINK.sub(" ", text) if "/" in text or "@" in text else text


def _is_footer(line: str) -> bool:
    if len(line) > _LONGEST and "/" not in line and "@" not in line:
        return False
    linked = bool(_LINK.search(line))
    if "](" in line:
        named = _CHANNEL.findall(line)
        line = _CHANNEL.sub(" @channel ", line) if len(_words(" ".join(named))) <= _LONGEST_NAMES else line
        line = _LABELLED.sub(r"\1", line)
    bare = _HASHTAG.sub(" ", _LINK.sub(" ", line))
    if len(bare) > _LONGEST:
        return False
    words = _words(bare)
    if _signs(words) or (("«" in bare or '"' in bare) and _signs_with_name(bare)):
        return True
    if not linked and any(word.isdigit() for word in words):
        return False
    if _CALL.search(bare):
        return len(words) <= (_LONGEST_LINKED_CALL if linked else _LONGEST_CALL if _CALLING.match(bare) else 0)
    if _CREDIT.match(bare):
        return len(words) <= _LONGEST_CREDIT
    if not _TO_A_CHANNEL.search(line):
        return False
    short = len(words) <= _LONGEST_SIGNATURE and not _STOPS.search(bare) and not any(map(str.isdigit, words))
    return short or ("|" in bare and len(words) <= _LONGEST_ROW)


def _signs_with_name(bare: str) -> bool:
    outside = _words(_QUOTED.sub(" ", bare))
    return len(outside) >= _TELLING and _signs(outside)


def _signs(words: list[str]) -> bool:
    return all((stem(word) or word) in _SIGNING for word in words)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower().replace("ё", "е"))
