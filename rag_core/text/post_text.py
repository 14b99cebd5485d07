"""Parts of a post's text with a meaning of their own: header of a passage, polls, spoilers, links to posts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from rag_core.text.sentences import TextSpan
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import Channel, Entity, Passage, Post, PostKey

_TITLE_AND_DATE = re.compile(r"^.*? · \d{4}-\d\d-\d\d")
_DATE_LENGTH = len(" · 2025-03-01")
_TOPIC_MARK = " › "
_MAX_PARENT_WORDS = 12  # enough to identify the parent post, too few to outweigh the reply


def build_header(post: Post, channel: Channel | None, parent: str | None = None) -> str:
    """Build the header: channel with the topic of a forum, date, file name, the first 12 words of the parent post.

    A forward begins with its origin, so that its words are not taken for the channel's: "Origin → Channel › Topic".
    """
    title = channel.title if channel else ""
    if post.origin and post.origin.chat_id != post.key.chat_id:
        title = " → ".join(filter(None, (post.origin.name, title)))
    topic = channel.topics.get(post.topic or 0, "") if channel else ""
    parts = [_TOPIC_MARK.join(filter(None, (title, topic))), post.date.date().isoformat()]
    if post.media and post.media.file_name:
        parts.append(post.media.file_name)
    if parent:
        parts.append(" ".join(re.findall(r"\S+", parent)[:_MAX_PARENT_WORDS]))
    return " · ".join(" ".join(part.split()) for part in parts if part)


def extract_speakers(line: str) -> tuple[str, ...]:
    """Extract the speakers of a post: the origin of a forward, and the channel."""
    match = _TITLE_AND_DATE.match(line)
    title = match[0][:-_DATE_LENGTH].partition(_TOPIC_MARK)[0] if match else ""
    return tuple(filter(None, title.split(" → ")))


POLL_LABELS = {"ru": "Опрос:", "en": "Poll:"}
_QUESTION_AND_OPTIONS = re.compile(r"(?:^(?!— )[^\n]+\n)?^— [^\n]*(?:\n— [^\n]*)*", re.MULTILINE)


def find_poll(post: Post | Passage) -> TextSpan | None:
    """Find the question and the options of a poll in the text of a post or passage; None where it is no poll.

    A text of nothing but a question with its mark and several options is a poll whatever its media are.
    """
    media, text = post.media if isinstance(post, Passage) else post.media and post.media.kind, post.text.rstrip()
    found = _QUESTION_AND_OPTIONS.search(text)
    if found is None:
        return None
    question, *options = found[0].split("\n")
    asks = found.span() == (0, len(text)) and question.endswith("?") and len(options) > 1
    return found.span() if media == "poll" or asks else None


def label_poll(post: Post | Passage) -> str:
    """Text of a post or passage, in which "Poll:" in its language stands before the question of a poll."""
    if (span := find_poll(post)) is None:
        return post.text
    return f"{post.text[: span[0]]}{POLL_LABELS[detect_language(post.text)]} {post.text[span[0] :]}"


COVER = "▒"
_WORD = re.compile(r"\w+")
_MAX_SPOILERS = 100  # of a post, as many as Telegram allows entities; more are read as one
_LONG_RUN = 3  # words of a spoiler in a row that are hidden though each stands openly in the post as well


class Spoiler(NamedTuple):
    """Hidden text: `words` in order, in lower case; `telling`: terms that the post has nowhere else."""

    text: str
    words: tuple[str, ...]
    telling: frozenset[str]


def list_spoilers(posts: Iterable[Post]) -> tuple[Spoiler, ...]:
    """List the spoilers of posts, with the addresses under hidden words."""
    found = []
    for post in posts:
        shown, hidden = split_off_spoilers(post.text, post.entities)
        elsewhere = frozenset(tokenize(shown)) if hidden else frozenset[str]()
        for text in filter(None, hidden):
            words = tuple(word.lower() for word in _WORD.findall(text))
            found.append(Spoiler(text, words, frozenset(tokenize(text)) - elsewhere))
    return tuple(found)


def split_off_spoilers(text: str, entities: Sequence[Entity]) -> tuple[str, list[str]]:
    """Split a text into what it shows, with spaces for its spoilers, and what it hides, with addresses under it."""
    spans = [(2 * e.offset, 2 * (e.offset + e.length)) for e in entities if e.type == "spoiler"]
    if not spans:
        return text, []
    units = text.encode("utf-16-le")
    hidden = [units[start:end].decode("utf-16-le", "replace") for start, end in spans]
    shown, covers = bytearray(units), bytearray(len(units) + 1)
    for start, end in spans:
        shown[start:end] = " ".encode("utf-16-le") * len(units[start:end:2])
        covers[start:end] = b"\1" * len(units[start:end])
    hidden += [e.url for e in entities if e.url and 2 * e.offset < len(covers) and covers[2 * e.offset]]
    return shown.decode("utf-16-le", "replace"), hidden if len(hidden) <= _MAX_SPOILERS else [" ".join(hidden)]


def find_spoiler_spans(text: str, spoilers: Iterable[Spoiler]) -> list[tuple[int, int]]:
    """Find what a text shows of spoilers, as merged spans in code points."""
    matches = list(_WORD.finditer(text))
    words, terms = [match[0].lower() for match in matches], [tokenize(match[0]) for match in matches]
    spans = []
    for spoiler in spoilers:
        if not spoiler.words:  # nothing but signs
            spans += [match.span() for match in re.finditer(re.escape(spoiler.text.strip()), text)]
            continue
        own, whole = frozenset(spoiler.words), f" {' '.join(spoiler.words)} "
        telling = [not spoiler.telling.isdisjoint(here) for here in terms]
        held = [word in own or tells for word, tells in zip(words, telling, strict=True)]
        for hidden, run in groupby(range(len(words)), held.__getitem__):
            there = list(run)
            said = f" {' '.join(words[n] for n in there)} "
            if hidden and (len(there) >= _LONG_RUN or any(telling[n] for n in there) or whole in said):
                spans.append((matches[there[0]].start(), matches[there[-1]].end()))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def cover_spans(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """Cover spans of a text; its length in UTF-16 units and its white space stay."""
    for start, end in sorted(spans, reverse=True):
        covered = "".join(c if c.isspace() else COVER * (1 + (c > "\uffff")) for c in text[start:end])
        text = f"{text[:start]}{covered}{text[end:]}"
    return text


def cover_spoilers(text: str, spoilers: Sequence[Spoiler]) -> str:
    """Cover what a text shows of spoilers."""
    return cover_spans(text, find_spoiler_spans(text, spoilers)) if spoilers else text


_LINK_PATTERN = re.compile(
    r"(?:https?://(?:www\.)?|(?<![\w.@/-])(?:www\.)?)"
    r"(?:(?:t|telegram)\.(?:me|dog)/(?:c/(?P<bare>\d{1,15})|(?:s/)?(?P<name>[a-z]\w{3,31}))|(?P<host>[a-z]\w{3,31})\.t\.me)"
    r"/(?:\d{1,10}/)?(?P<id>\d{1,10})/?(?P<query>\?[\w=&%.-]*)?(?![\w/])",
    re.IGNORECASE,
)
_APP_LINK_PATTERN = re.compile(r"tg:/{0,2}(?:resolve|privatepost)/?\?(?P<query>[\w=&%.-]+)", re.IGNORECASE)
_WEB_LINK_PATTERN = re.compile(
    r"web\.telegram\.org/(?:[akz]/)?#(?:/im\?p=)?(?:-100(?P<bare>\d{1,15})|@?(?P<name>[a-z]\w{3,31}))(?:_\d{1,10})?[_/](?P<id>\d{1,10})(?![\w/])",
    re.IGNORECASE,
)
_MAX_DIGITS = 15


class PostLink(NamedTuple):
    """Link to a post: chat id or lower-case username; `single`: of an album only this post; `text`: as written."""

    chat: int | str
    message_id: int
    single: bool = False
    text: str = ""


def find_post_links(text: str) -> list[PostLink]:
    """Find the links to posts in a text, each once, in order. A link to a comment is no link to a channel's post."""
    patterns = (_LINK_PATTERN, _APP_LINK_PATTERN, _WEB_LINK_PATTERN)
    matches = (match for pattern in patterns for match in pattern.finditer(text))
    found: dict[tuple[int | str, int], PostLink] = {}
    for match in sorted(matches, key=re.Match.start):
        parts = match.groupdict("")
        query = dict(pair.lower().partition("=")[::2] for pair in parts.get("query", "").lstrip("?").split("&"))
        bare, post = parts.get("bare") or query.get("channel", ""), parts.get("id") or query.get("post", "")
        name = parts.get("name") or parts.get("host") or query.get("domain", "")
        if "comment" in query or not (bare.isdecimal() or name) or not post.isdecimal() or not int(post[:_MAX_DIGITS]):
            continue
        chat = int(f"-100{bare[:_MAX_DIGITS]}") if bare.isdecimal() else name.lower()
        link = PostLink(chat, int(post[:_MAX_DIGITS]), "single" in query, match[0])
        found.setdefault((link.chat, link.message_id), link)
    return list(found.values())


def resolve_post_link(link: PostLink, known: Mapping[int, Channel]) -> PostKey | None:
    """Resolve a link to a post; None where no known channel has this name or id."""
    named = (chat for chat, channel in known.items() if link.chat in {chat, (channel.username or "").lower()})
    return next((PostKey(chat, link.message_id) for chat in named), None)
