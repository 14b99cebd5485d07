"""Verdict view: each claim, its verdict in plain words, and quotes with links and dates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aiogram.utils.formatting import BlockQuote, Bold, Italic, Text, as_list

from bot.views.answer import format_reference, link_author, link_username
from bot.views.clean_and_shorten_text import join_lines, strip_control_characters
from bot.views.message_formatting import neutralize_links
from bot.views.post_formatting import RenderContext, format_moment
from rag_core.types import Citation, Post, PostKey
from rag_core.verification.verdict_types import Label, Verdict, Verification
from rag_core.verification.verify import NON_SEARCH_STAGES

_INNER_QUOTE_MARKS = str.maketrans("«»“”", "„“‘’")


def render_verdicts(found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext) -> Text:
    """Render all verdicts as one formatted text; `posts` are those they name."""
    words = shown.words
    if not found.verdicts:
        return Text(words("verify-nothing"))
    several, blocks = len(found.verdicts) > 1, list[Text]()
    if same := found.same:  # the message is this post
        author = link_author(same.key, found.channels.get(same.key.chat_id), same.origin, words)
        day = words.date(same.date, shown.zone)
        blocks.append(words.rich("verify-same", day=day, channel=author, state=found.same_post_state))
    blocks += [
        as_list(*_render_verdict(verdict, f"{number}. " if several else "", found, posts, shown))
        for number, verdict in enumerate(found.verdicts, 1)
    ]
    notes = [words("verify-left", count=found.left)] if found.left else []
    notes += dict.fromkeys(words("shortfall", stage=s.stage, count=s.count) for s in found.shortfalls)
    if notes:
        blocks.append(Text(Italic("\n".join(notes))))
    return as_list(*blocks, sep="\n\n")


def _render_verdict(
    verdict: Verdict, number: str, found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Iterator[Text]:
    words = shown.words
    claim = join_lines(verdict.claim.text).translate(_INNER_QUOTE_MARKS)
    yield Text(number, words.rich("verify-claim", claim=neutralize_links(claim)))
    failed = {shortfall.stage for shortfall in found.shortfalls} - NON_SEARCH_STAGES
    if verdict.superseded:
        headline = words("verify-outdated", day=words.date(verdict.superseded.date, shown.zone))
    elif verdict.label is Label.NOT_FOUND and failed:
        headline = words("verify-partly")
    else:
        headline = words("verify-label", label="contested" if verdict.contested else verdict.label.value)
    yield Text(Bold(headline))
    for_it, against = verdict.citations, verdict.against
    if verdict.superseded:
        yield Text(words("verify-superseded"))
        yield _render_quotes([verdict.superseded], found, posts, shown)
        against = tuple(c for c in against if c.post != verdict.superseded.post)
        if for_it:
            yield Text(words("verify-before"))
    if for_it:
        yield _render_quotes(for_it, found, posts, shown)
        yield from _render_source_count(verdict, found, posts, shown)
    if against:
        if for_it:
            yield Text(words("verify-against", count=len(against)))
        yield _render_quotes(against, found, posts, shown)


def _render_quotes(
    citations: Sequence[Citation], found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Text:
    quotes = []
    for citation in citations:
        channel = found.channels.get(citation.post.chat_id)
        reference = format_reference(citation.post, citation.date, posts.get(citation.post), channel, shown)
        quotes.append(Text(neutralize_links(strip_control_characters(citation.quote)), "\n", reference))
    return BlockQuote(as_list(*quotes, sep="\n\n"))


def _render_source_count(
    verdict: Verdict, found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Iterator[Text]:
    """Number of independent supporting sources, and the first of them with its day and time."""
    words, key = shown.words, verdict.earliest
    first = posts.get(key) if key else None
    if key is None or first is None or verdict.sources < 1:
        return
    author = link_username(key, found.channels.get(key.chat_id), words)
    yield words.rich("verify-sources", count=verdict.sources, first=author, when=format_moment(first.date, shown))
