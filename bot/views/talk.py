"""Small talk view: one friendly line in the language of the text."""

from __future__ import annotations

from collections.abc import Iterable

from aiogram.utils.formatting import Text

from bot.i18n import get_translator
from bot.views.answer import format_channel_title
from bot.views.message_text import neutralize_links
from rag_core.conversation.talk import Talk, TalkKind
from rag_core.types import Channel

_MAX_TITLES = 5


def render_talk(talk: Talk, lang: str, channels: Iterable[Channel]) -> Text:
    """Render the reply to small talk; `lang` is the reader's, `channels` those that the reader may read here."""
    words = get_translator(talk.lang or lang)
    if talk.kind is not TalkKind.ABOUT_CHANNEL:
        return Text(words("smalltalk", kind=str(talk.kind), help="/help"))
    titles = sorted((format_channel_title(channel, words) for channel in channels), key=str.casefold)
    listed: list[str | Text] = []
    for title in titles[:_MAX_TITLES]:
        listed += [", "] * bool(listed) + [neutralize_links(title)]
    more = max(0, len(titles) - _MAX_TITLES)
    return words.rich("smalltalk-about-channel", count=len(titles), titles=Text(*listed), more=more)
