"""Stored answer view: sentences of an answer that was sent before, rendered again from the posts that they cite."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from aiogram.utils.formatting import BlockQuote, Text, as_list

from bot.views.answer import StoredAnswer, StoredSentence, link_author, make_link
from bot.views.message_text import neutralize_links
from bot.views.post_phrases import RenderContext, format_day_and_edit, strip_control_characters
from rag_core.types import Channel, Post, PostKey, format_channel_post_link


def render_stored_sentences(
    answer: StoredAnswer,
    sentences: Sequence[StoredSentence],
    texts: Mapping[PostKey, str],
    stored: Mapping[PostKey, Post],
    known: Mapping[int, Channel],
    shown: RenderContext,
) -> list[Text]:
    """Render sentences of an answer with the numbers of their posts, and below them these sources.

    `texts` are the posts' texts as they were cited, `stored` the posts as they are now.
    """
    numbers = {one.key: number for number, one in enumerate(answer.cited, 1)}
    cited = sorted({place.key for sentence in sentences for place in sentence.places}, key=lambda key: numbers[key])
    lines = [format_source(numbers[key], key, stored[key], known.get(key.chat_id), shown) for key in cited]
    rendered = []
    for sentence in sentences:
        text = sentence.around
        if sentence.quote is not None:
            key, start, end = sentence.places[sentence.quote]
            text = f"{text} {texts[key][start:end]}".strip()
        own = dict.fromkeys(place.key for place in sentence.places)
        marks = [piece for key in own for piece in (" ", link_number(numbers[key], key, known))]
        rendered.append(Text(neutralize_links(strip_control_characters(text)), *marks))
    return [*rendered, *([BlockQuote(as_list(*lines))] if lines else [])]


def link_number(number: int, key: PostKey, known: Mapping[int, Channel]) -> Text:
    """Number of a source, as a link that opens the post."""
    return make_link(f"[{number}]", format_channel_post_link(key, known.get(key.chat_id)))


def format_source(number: int, key: PostKey, post: Post, channel: Channel | None, shown: RenderContext) -> Text:
    """Format the head of a source: its number, its author as a link to the post, and its date."""
    author = link_author(channel, post.origin, format_channel_post_link(key, channel), shown.words)
    return Text(f"{number}. ", author, " · ", format_day_and_edit(post.date, post.edited, shown))
