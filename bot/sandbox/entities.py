"""Message entities: HTML and MarkdownV2 parsing, entity detection, and Telegram's checks of text.

Rules of the markup: https://core.telegram.org/bots/api#html-style and #markdownv2-style. Detected entities follow the
patterns of TDLib (find_urls, find_mentions, find_hashtags, find_cashtags, find_bot_commands, find_bank_card_numbers
in td/telegram/MessageEntity.cpp). Phone numbers are found by the server alone; here those with a plus or with ten
digits and more are, as https://core.telegram.org/bots/api#messageentity shows them. Entities count UTF-16 units, the
length limits count code points (https://core.telegram.org/api/entities#entity-length; TDLib's `utf8_length`).

The wording of errors follows the real server (https://github.com/tdlib/telegram-bot-api) as far as it is known; it
was not compared with live Telegram. Errors about an entity or a draft have a wording of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from html import unescape
from itertools import accumulate
from typing import Any
from urllib.parse import urlsplit

from aiogram.enums import MessageEntityType

from bot.sandbox.chats import Json


class BotApiError(Exception):
    """Failed call, answered with `{"ok": false}`: HTTP status, description, and `parameters` if any."""

    def __init__(self, code: int, description: str, **parameters: int) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.parameters = parameters

    def body(self) -> dict[str, Any]:
        """Build the JSON object of the response."""
        answer: dict[str, Any] = {"ok": False, "error_code": self.code, "description": self.description}
        return answer | ({"parameters": self.parameters} if self.parameters else {})


def bad_request(what: str) -> BotApiError:
    """Build a 400 error: the request itself is wrong."""
    return BotApiError(400, f"Bad Request: {what}")


def forbidden(what: str) -> BotApiError:
    """Build a 403 error: the bot lacks the permission."""
    return BotApiError(403, f"Forbidden: {what}")


def not_found(what: str) -> BotApiError:
    """Build a 404 error: there is no such method or file."""
    return BotApiError(404, f"Not Found: {what}")


def conflict(what: str) -> BotApiError:
    """Build a 409 error: another program already receives the updates."""
    return BotApiError(409, f"Conflict: {what}")


_DOMAIN_EXPRESSION = r"(?:[\w-]+\.)+"
# TDLib has the list of all top-level domains; this is a part of it. Domains in other alphabets all match.
_TOP_LEVEL_DOMAIN_EXPRESSION = (
    r"(?:com|org|net|ru|me|io|dev|info|app|xyz|top|online|site|shop|club|museum|zip|md|example|test"
    r"|xn--[a-z0-9-]+|(?![a-z0-9_])[^\W\d_]{2,})"
)
_URL_EXPRESSION = (
    r"(?:https?://|tg://|ton://|ftp://)[^\s<>\"'`]+"
    rf"|(?<![\w@.-]){_DOMAIN_EXPRESSION}{_TOP_LEVEL_DOMAIN_EXPRESSION}(?![\w-])(?::\d+)?(?:[/?#][^\s<>\"'`]*)?(?![\w.-]*@)"
    r"|(?<![\w@.])(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?(?:/[^\s<>\"'`]*)?(?![\w.])"
)
_USERNAME_EXPRESSION = r"[A-Za-z][A-Za-z0-9_]{2,31}"
_ENTITY_PATTERNS = (
    ("email", re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    ("url", re.compile(_URL_EXPRESSION, re.IGNORECASE)),
    ("bot_command", re.compile(rf"(?<![\w/<>@])/[A-Za-z0-9_]{{1,64}}(?:@{_USERNAME_EXPRESSION})?(?![\w/])")),
    # A hashtag can name a channel: https://core.telegram.org/api/entities
    ("hashtag", re.compile(rf"(?<![\w#/&])#\w*[^\W\d]\w*(?:@{_USERNAME_EXPRESSION})?(?!\w*#)")),
    ("cashtag", re.compile(rf"(?<![\w$])\$(?:1INCH|[A-Z]{{1,8}})(?:@{_USERNAME_EXPRESSION})?(?![\w$])")),
    ("mention", re.compile(r"(?<![\w@/])@[A-Za-z][A-Za-z0-9_]{3,31}(?!\w)")),
    ("bank_card", re.compile(r"(?<![\w+.,-])\d(?:[ -]?\d){12,18}(?![\w-])")),
    ("phone_number", re.compile(r"\+\d(?:[ ()-]{0,2}\d){6,14}(?!\d)|(?<![\w.,+-])\d{10,15}(?![\w-])")),
)
_TRAILING_PUNCTUATION = ".,:;!?)]}»…'\""
_CLOSED_ENTITY_TYPES = {"pre", "code", "text_link", "text_mention", "phone_number"} | {
    kind for kind, _ in _ENTITY_PATTERNS
}
_BANK_CARD_TYPE = "bank_card"


def detect_entities(text: str, known: list[Json]) -> list[Json]:
    """Detect entities that do not overlap closed ones in `known`, such as links and code."""
    taken = [(e["offset"], e["offset"] + e["length"]) for e in known if e["type"] in _CLOSED_ENTITY_TYPES]
    detected: list[Json] = []
    for kind, pattern in _ENTITY_PATTERNS:
        for match in pattern.finditer(text):
            if kind == _BANK_CARD_TYPE and not _is_bank_card(match[0]):
                continue
            piece = match[0].rstrip(_TRAILING_PUNCTUATION) if kind == "url" else match[0]
            start = _count_units(text[: match.start()])
            end = start + _count_units(piece)
            if all(end <= left or start >= right for left, right in taken):
                taken.append((start, end))
                detected.append({"type": kind, "offset": start, "length": end - start})
    return detected


def _is_bank_card(text: str) -> bool:
    """Check a card number by the Luhn algorithm."""
    digits = [int(char) for char in reversed(text) if char.isdigit()]
    doubled = (2 * digit - 9 * (digit > 4) for digit in digits[1::2])
    return (sum(digits[::2]) + sum(doubled)) % 10 == 0


def _count_units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


_HTML_TAG_PATTERN = re.compile(r"<(?P<close>/?)(?P<name>[A-Za-z][\w-]*)(?P<rest>[^<>]*)>|(?P<open><)")
_ATTRIBUTE_PATTERN = re.compile(r"""([\w-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?""")
_ESCAPE_PATTERN = re.compile(r"&(?:lt|gt|amp|quot|#\d+|#x[0-9a-fA-F]+);")
_ENTITY_TYPE_BY_TAG = {
    "b": "bold",
    "strong": "bold",
    "i": "italic",
    "em": "italic",
    "u": "underline",
    "ins": "underline",
    "s": "strikethrough",
    "strike": "strikethrough",
    "del": "strikethrough",
    "tg-spoiler": "spoiler",
    "code": "code",
    "pre": "pre",
}


def read_html(markup: str) -> tuple[str, list[Json]]:
    """Parse Telegram HTML into text and entities; 400 if a tag is unknown or not closed."""
    reader = _HtmlReader()
    position = 0
    for token in _HTML_TAG_PATTERN.finditer(markup):
        reader.text(markup[position : token.start()])
        position = token.end()
        byte = len(markup[: token.start()].encode())
        if token["open"]:
            raise _make_parse_error(f"Unsupported start tag at byte offset {byte}")
        if token["close"]:
            reader.close(token["name"].lower(), byte)
        else:
            reader.open(token["name"].lower(), token["rest"], byte)
    reader.text(markup[position:])
    return reader.done()


def _make_parse_error(what: str) -> BotApiError:
    return bad_request(f"can't parse entities: {what}")


class _HtmlReader:
    """State of the HTML parser: the text so far, and the open tags."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._open: list[tuple[str, int, Json | None]] = []
        self._entities: list[Json] = []

    def text(self, raw: str) -> None:
        """Append plain text, decoding Telegram's five escapes."""
        plain = _ESCAPE_PATTERN.sub(lambda match: unescape(match[0]), raw)
        self._pieces.append(plain)
        self._length += len(plain.encode("utf-16-le", "surrogatepass")) // 2

    def open(self, name: str, rest: str, byte: int) -> None:
        """Push a start tag."""
        values = {m[1].lower(): unescape(m[2] or m[3] or m[4] or "") for m in _ATTRIBUTE_PATTERN.finditer(rest)}
        self._open.append((name, self._length, _parse_start_tag(name, values, byte)))

    def close(self, name: str, byte: int) -> None:
        """Pop the innermost start tag and make its entity."""
        if not self._open:
            raise _make_parse_error(f"Unexpected end tag at byte offset {byte}")
        opened, start, entity = self._open.pop()
        if opened != name:
            expected = f'expected "</{opened}>", found "</{name}>"'
            raise _make_parse_error(f"Unmatched end tag at byte offset {byte}, {expected}")
        if entity and self._length > start:
            self._entities.append(entity | {"offset": start, "length": self._length - start})

    def done(self) -> tuple[str, list[Json]]:
        """Return text and entities if every tag is closed."""
        if self._open:
            raise _make_parse_error(f'Can\'t find end tag corresponding to start tag "{self._open[-1][0]}"')
        return "".join(self._pieces), sorted(self._entities, key=lambda e: (e["offset"], -e["length"]))


def _parse_start_tag(name: str, values: dict[str, str], byte: int) -> Json | None:
    """Parse a start tag into an entity; None for a link that Telegram would not follow."""
    if name in _ENTITY_TYPE_BY_TAG:
        return {"type": _ENTITY_TYPE_BY_TAG[name]}
    if name == "blockquote":
        return {"type": "expandable_blockquote" if "expandable" in values else "blockquote"}
    if name == "span" and values.get("class") == "tg-spoiler":
        return {"type": "spoiler"}
    if name == "tg-emoji":
        return {"type": "custom_emoji", "custom_emoji_id": values.get("emoji-id", "")}
    if name == "a":
        url = values.get("href", "")
        return {"type": "text_link", "url": url} if re.match(r"(https?|tg)://", url) else None
    raise _make_parse_error(f'Unsupported start tag "{name}" at byte offset {byte}')


_ENTITY_TYPE_BY_MARK = {
    "*": "bold",
    "_": "italic",
    "__": "underline",
    "~": "strikethrough",
    "||": "spoiler",
    "`": "code",
    "```": "pre",
}
_RESERVED_CHARACTERS = frozenset("_*[]()~`>#+-=|{}.!")
_LINK_END_PATTERN = re.compile(r"\]\(((?:\\.|[^\\)])*)\)", re.DOTALL)
_QUOTE_END_PATTERN = re.compile(r"\|\|(?:\n(?!>)|\Z)")


def read_markdown(markup: str) -> tuple[str, list[Json]]:
    """Parse MarkdownV2 into text and entities; 400 for an unescaped reserved character."""
    return _MarkdownReader(markup).read()


class _MarkdownReader:
    """One-pass MarkdownV2 parser with a stack of open marks."""

    def __init__(self, markup: str) -> None:
        self._markup = markup
        self._at = 0
        self._text: list[str] = []
        self._length = 0
        self._open: list[tuple[str, int]] = []
        self._entities: list[Json] = []
        self._quote: int | None = None

    def read(self) -> tuple[str, list[Json]]:
        """Parse to the end and return text and entities."""
        while self._at < len(self._markup):
            self._step()
        if self._open:
            kind = _ENTITY_TYPE_BY_MARK.get(self._open[-1][0], "text link").capitalize()
            raise self._make_error(
                f"Can't find end of {kind} entity at byte offset {len(self._markup[: self._at].encode())}"
            )
        self._end_quote(expandable=False)
        return "".join(self._text), sorted(self._entities, key=lambda e: (e["offset"], -e["length"]))

    def _step(self) -> None:
        rest = self._markup[self._at :]
        inside = self._open[-1][0] if self._open else ""
        if rest[0] == "\\" and len(rest) > 1 and ord(rest[1]) < 127:
            self._take(rest[1], 2)
        elif inside in {"`", "```"} and not rest.startswith(inside):
            self._take(rest[0], 1)
        elif rest[0] == ">" and self._is_at_line_start():
            self._quote = self._length if self._quote is None else self._quote
            self._at += 1
        elif rest[0] == "\n":
            self._newline(rest)
        elif self._quote is not None and inside != "||" and _QUOTE_END_PATTERN.match(rest):
            self._at += 2
            self._end_quote(expandable=True)
        elif mark := next((m for m in ("```", "||", "__", "*", "_", "~", "`") if rest.startswith(m)), ""):
            self._mark(mark)
        elif rest[0] in "[]":
            self._bracket(rest, inside)
        elif rest[0] in _RESERVED_CHARACTERS:
            reason = "is reserved and must be escaped with the preceding '\\'"
            raise self._make_error(f"Character '{rest[0]}' {reason}")
        else:
            self._take(rest[0], 1)

    def _mark(self, mark: str) -> None:
        self._at += len(mark)
        if self._open and self._open[-1][0] == mark:
            self._close({"type": _ENTITY_TYPE_BY_MARK[mark]})
        else:
            self._open.append((mark, self._length))

    def _bracket(self, rest: str, inside: str) -> None:
        if rest[0] == "[":
            self._open.append(("[", self._length))
            self._at += 1
            return
        link = _LINK_END_PATTERN.match(rest)
        if inside != "[" or link is None:
            reason = "is reserved and must be escaped with the preceding '\\'"
            raise self._make_error(f"Character '{rest[0]}' {reason}")
        self._at += link.end()
        self._close({"type": "text_link", "url": re.sub(r"\\(.)", r"\1", link[1])})

    def _newline(self, rest: str) -> None:
        if not rest.startswith("\n>"):
            self._end_quote(expandable=False)
        self._take("\n", 1)

    def _close(self, entity: Json) -> None:
        start = self._open.pop()[1]
        if self._length > start:
            self._entities.append(entity | {"offset": start, "length": self._length - start})

    def _end_quote(self, *, expandable: bool) -> None:
        if self._quote is not None and self._length > self._quote:
            kind = "expandable_blockquote" if expandable else "blockquote"
            self._entities.append({"type": kind, "offset": self._quote, "length": self._length - self._quote})
        self._quote = None

    def _take(self, character: str, read: int) -> None:
        self._text.append(character)
        self._length += 2 if character > "\uffff" else 1
        self._at += read

    def _is_at_line_start(self) -> bool:
        return self._at == 0 or self._markup[self._at - 1] == "\n"

    def _make_error(self, what: str) -> BotApiError:
        return bad_request(f"can't parse entities: {what}")


MAX_TEXT_CHARACTERS = 4096
MAX_CAPTION_CHARACTERS = 1024
MAX_QUOTE_CHARACTERS = 1024
_MAX_ENTITIES = 100  # the server silently drops further ones
# Characters that TDLib removes from every text and quote of a bot, and direction marks, of which it replaces all but
# the last of a run: https://github.com/tdlib/td/blob/master/td/telegram/misc.cpp (clean_input_string)
_DROPPED_CHARACTERS_PATTERN = re.compile("[\r\u2028-\u202e\u030a\u0333\u033f]")
_DIRECTION_MARKS_PATTERN = re.compile("[\u200e\u200f]+(?=[\u200e\u200f])")
_LINK_SCHEMES = {"http", "https", "tg"}
_ENTITY_TYPES = frozenset(kind.value for kind in MessageEntityType)
_MARKUP_PARSERS: dict[str, Callable[[str], tuple[str, list[Json]]]] = {
    "html": read_html,
    "markdownv2": read_markdown,
}


def count_utf16_units(text: str) -> int:
    """Compute the length in UTF-16 units."""
    return len(text) + sum(character > "\uffff" for character in text)


def extract_entity_text(text: str, offset: int, length: int) -> str:
    """Extract the text that an entity covers."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return raw[2 * offset : 2 * (offset + length)].decode("utf-16-le", "replace")


def prepare_text(
    text: str | None,
    entities: list[Json] | None,
    parse_mode: str | None,
    limit: int = MAX_TEXT_CHARACTERS,
    *,
    empty: bool = False,
) -> tuple[str, list[Json]]:
    """Check and clean a text and its entities as a message stores them; 400 for what Telegram refuses.

    `empty` allows an empty text (captions, drafts).
    """
    plain, marks = text or "", [dict(entity) for entity in entities or ()]
    if parse_mode and not marks:
        parser = _MARKUP_PARSERS.get(parse_mode.lower())
        if parser is None:
            raise bad_request(f"unsupported parse_mode {parse_mode!r}: the sandbox reads HTML and MarkdownV2")
        plain, marks = parser(plain)
    _check_entities(plain, marks)
    clean, kept = _trim_text(*_clean_text(plain, marks))
    if not clean and not empty:
        raise bad_request("message text is empty")
    if len(clean) > limit:
        raise bad_request("message is too long" if limit == MAX_TEXT_CHARACTERS else "message caption is too long")
    return clean, sorted(kept + detect_entities(clean, kept), key=lambda one: (one["offset"], -one["length"]))[
        :_MAX_ENTITIES
    ]


def prepare_quote(text: str, entities: list[Json]) -> tuple[str, list[Json], int]:
    """Clean a quote like any text; also returns how many units were removed at its start."""
    _check_entities(text, entities)
    plain, moved = _clean_text(text, entities)
    clean, kept = _trim_text(plain, moved)
    return clean, kept, count_utf16_units(plain.rstrip()) - count_utf16_units(clean)


def _check_entities(text: str, entities: list[Json]) -> None:
    """Check entities more strictly than Telegram, which silently drops some: a test should notice them."""
    ends = {0, *accumulate(2 if character > "\uffff" else 1 for character in text)}
    total = max(ends)
    for number, entity in enumerate(entities):
        kind, start, end = entity["type"], entity["offset"], entity["offset"] + entity["length"]
        if kind not in _ENTITY_TYPES:
            raise bad_request(f"can't parse entities: unsupported type {kind!r} of entity {number}")
        if start < 0 or entity["length"] <= 0 or end > total:
            raise bad_request(f"can't parse entities: entity {number} ({start} to {end}) is not within 0 to {total}")
        if start not in ends or end not in ends:
            raise bad_request(f"can't parse entities: entity {number} cuts a surrogate pair")
        if kind == "text_link":
            url = entity.get("url")
            try:
                parts = urlsplit(url or "")
            except ValueError:
                parts = urlsplit("")
            if parts.scheme.lower() not in _LINK_SCHEMES or not (parts.netloc or parts.path):
                raise bad_request(f"can't parse entities: URL of entity {number} is not an http, https or tg link")
            plain = parts.scheme != "tg" and not parts.path
            entity["url"] = parts._replace(path="/").geturl() if plain else parts.geturl()
        if kind == "text_mention" and not entity.get("user"):
            raise bad_request(f"can't parse entities: text_mention {number} has no user")


def _clean_text(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """Remove carriage returns and the like, replace other control characters by spaces, and move the entities."""
    plain = "".join(" " if char < " " and char not in "\n\r" else char for char in text)
    plain = _DIRECTION_MARKS_PATTERN.sub(lambda run: "\u200c" * len(run[0]), plain)
    if not _DROPPED_CHARACTERS_PATTERN.search(plain):
        return plain, entities
    places = [
        0,
        *accumulate(
            0 if _DROPPED_CHARACTERS_PATTERN.match(char) else 1
            for char in plain
            for _ in range(count_utf16_units(char))
        ),
    ]
    return _DROPPED_CHARACTERS_PATTERN.sub("", plain), _move_entities(entities, lambda place: places[place])


def _trim_text(text: str, entities: list[Json]) -> tuple[str, list[Json]]:
    """Strip white space at the end, and at the start up to the first entity."""
    shorter = text.rstrip()
    first = min((entity["offset"] for entity in entities), default=len(text))
    lead = min(len(shorter) - len(shorter.lstrip()), first)
    end = count_utf16_units(shorter)
    return shorter[lead:], _move_entities(entities, lambda place: min(place, end) - lead)


def _move_entities(entities: list[Json], place: Callable[[int], int]) -> list[Json]:
    moved = []
    for entity in entities:
        start, end = place(entity["offset"]), place(entity["offset"] + entity["length"])
        if end > start:
            moved.append(entity | {"offset": start, "length": end - start})
    return moved
