"""Words of posts and models in a message, with no link in them: what Telegram would make one by itself is set as code.

Telegram turns addresses, @names and /commands of any text into something to tap. In code it does not, and the words
stay as they are and can be copied: https://core.telegram.org/api/entities. Tags (#) only search, and stay.
"""

from __future__ import annotations

import re

from aiogram.utils.formatting import Code, Text

__all__ = ["ADDRESS", "inert", "links", "styled"]

# One that Telegram may see, and some more. A word with one capital after a dot ("closed.Come") is no address; see
# is_common_tld in https://github.com/tdlib/td/blob/master/td/telegram/MessageEntity.cpp. All repeats are bounded or
# take what they see, so that no text takes long; where the front of an address is too long for them, its end is found.
ADDRESS = (
    r"(?i:\w{0,12}://\S*"
    r"|(?:javascript|data|vbscript|file|mailto|tel|tg|ton):\S+"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"
    r"|(?<![\w-])(?:[\w-]{1,63}\.){1,8}(?:(?-i:(?![A-Z\u0401\u0410-\u042f][a-z\u0451\u0430-\u044f]+\b))[^\W\d_]{2,24}|xn--[\w-]{1,59})"
    r"(?::\d+)?(?:[/?#]\S*)?"
    r"|(?<!\d)(?:\d{1,3}\.){3}\d{1,3}(?:[:/]\S*)?"
    r"|(?<!\w)[@/]\w+(?:@\w+)?)"
)
_ADDRESS = re.compile(ADDRESS)
# Telegram forgets entities after a hundred of a message: our own links must be among them.
_MOST = 6


def links(text: str) -> list[tuple[int, int]]:
    """Where something stands that Telegram may make a link of; all from the first to the last where it is much."""
    found = [match.span() for match in _ADDRESS.finditer(text)]
    return found if len(found) <= _MOST else [(found[0][0], found[-1][1])]


def inert(text: str) -> Text:
    """The text as it may be put into a message."""
    pieces: list[Text | str] = []
    at = 0
    for start, end in links(text):
        pieces += [text[at:start], Code(text[start:end])]
        at = end
    return Text(*(piece for piece in (*pieces, text[at:]) if piece))


def styled(style: type[Text], text: str, sign: str = "") -> Text:
    """The text in a style such as Bold; where something in it must be code, which has no other, after the sign."""
    return Text(sign, inert(text)) if links(text) else style(text)
