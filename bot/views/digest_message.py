"""Digest message: a line for each event, in the words of its post, with a link to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from aiogram.utils.formatting import Bold, Text, as_list

from bot.telegram.recheck import View, collect_content_of_posts
from bot.views.answer import link_author
from bot.views.clean_and_shorten_text import join_lines
from bot.views.message_formatting import neutralize_links, style_text
from bot.views.post_formatting import RenderContext
from rag_core.retrieval.digests import DigestLine
from rag_core.text.post_text import POLL_LABELS, find_poll
from rag_core.text.tokens import detect_language
from rag_core.types import Channel


def render_digest(
    lines: Sequence[DigestLine], channels: Mapping[int, Channel], shown: RenderContext, since: datetime, until: datetime
) -> View:
    """Render the digest of these channels: lines in the words of their posts, each with the number of its channels."""
    words = shown.words
    first, last = words.date(since, shown.zone), words.date(until, shown.zone)
    head = words("digest-title", since=first, until=last) if first != last else words("digest-day", date=last)
    items = []
    for line in lines:
        channel, post = channels[line.post.key.chat_id], line.post
        link = link_author(post.key, channel, post.origin, words)
        tail = [f" · {words('digest-channels', count=line.channels)}"] if line.channels > 1 else []
        tail += [f" · {words('digest-related', count=len(line.related))}"] if line.related else []
        sign = "⚠️ " if line.changed else "• "
        heading = [style_text(Bold, line.heading), "\n"] if line.heading else []
        items.append(Text(sign, *heading, neutralize_links(format_digest_quote(line)), "\n", link, *tail))
    content = collect_content_of_posts(post for line in lines for post in (line.post, *line.related))
    return View(as_list(Bold(head), *items, sep="\n\n"), replace(content, counted=frozenset(channels)))


def format_digest_quote(line: DigestLine) -> str:
    """Format the words of a line; what is cut within a sentence ends with an ellipsis."""
    quote, poll = join_lines(line.quote), find_poll(line.post)
    if poll and line.start < poll[1] and poll[0] < line.end:
        quote = f"{POLL_LABELS[detect_language(quote)]} {quote}"
    whole = quote[-1:] in ".!?…)»\"'" or line.end == len(line.post.text.rstrip())
    return quote if whole else f"{quote.rstrip(' ,;:—–-')}…"
