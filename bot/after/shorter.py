"""The first sentence of an answer alone, put together from what is kept of it and from the post as it is now."""

from __future__ import annotations

from aiogram.utils.formatting import BlockQuote, Italic, Text, as_list

from bot import kept
from bot.inert import inert
from bot.kept import Kept, Said
from bot.plain import Shown, dated, plain
from bot.render import link, titled
from rag_core.doors.archive import Archive, channels, posts
from rag_core.doors.archive.given import Given
from rag_core.types import Channel, Post, PostKey, Viewer, link_of

__all__ = ["shortened"]


async def shortened(asked: Given, viewer: Viewer, archive: Archive, shown: Shown) -> Text | None:
    """The first sentence with its sources; None where a post behind it has changed, is gone or closed by now."""
    answer = kept.read(asked.answer)
    if not answer.sentences:
        return None
    said = answer.sentences[0]
    keys = tuple(dict.fromkeys(key for key, _, _ in said.places))
    if not keys or any(key.chat_id not in viewer.channels for key in keys):
        return None
    stored = await posts.get(archive, keys)
    if any(key not in stored or not _same(key, stored[key], answer) for key in keys):
        return None
    known = await channels.known(archive)
    numbers = {one.key: number for number, one in enumerate(answer.cited, 1)}
    marks = [piece for key in keys for piece in (" ", link(f"[{numbers[key]}]", link_of(key, known.get(key.chat_id))))]
    lines = [_source(numbers[key], stored[key], known, shown) for key in keys]
    sentence = Text(inert(plain(_sentence(said, stored))), *marks)
    return as_list(sentence, BlockQuote(as_list(*lines)), Italic(shown.words("shorter-note")), sep="\n\n")


def _same(key: PostKey, post: Post, answer: Kept) -> bool:
    """Whether the post says what it said when it was cited."""
    return any(one.key == key and one.mark == kept.mark(post.text) for one in answer.cited)


def _sentence(said: Said, stored: dict[PostKey, Post]) -> str:
    if said.quote is None:
        return said.around
    key, start, end = said.places[said.quote]
    return f"{said.around} {stored[key].text[start:end]}".strip()


def _source(number: int, post: Post, known: dict[int, Channel], shown: Shown) -> Text:
    channel = known.get(post.key.chat_id)
    who = titled(channel, post.origin, link_of(post.key, channel), shown.words)
    return Text(f"{number}. ", who, " · ", dated(post.date, post.edited, shown))
