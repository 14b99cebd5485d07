"""Sources pages: the sources of a stored answer with their quotes, page by page.

Sources are shown as they are now, and only those that the viewer may read now.
"""

from __future__ import annotations

from aiogram.utils.formatting import Bold, ExpandableBlockQuote, Text, as_list

from bot.stored_answer import StoredAnswer, hash_text_version, parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts
from bot.views.answer import format_source
from bot.views.clean_and_shorten_text import shorten, strip_control_characters
from bot.views.keyboards import AnswerAction, AnswerCallback, build_keyboard, build_page_row, cut_page
from bot.views.message_formatting import neutralize_links
from bot.views.post_formatting import RenderContext
from rag_core.storage import Archive, channels, visible_posts
from rag_core.storage.questions import AnsweredQuestion
from rag_core.types import Post, Viewer

SOURCES_PER_PAGE = 3
# Three sources with three quotes of this length, whose characters may count twice, fit into 4096.
_MAX_QUOTES, _MAX_QUOTE_LENGTH = 3, 200
_MAX_ONLY_QUOTE_LENGTH = 600  # for the only quote of a post


async def render_sources_page(
    asked: AnsweredQuestion, viewer: Viewer, archive: Archive, shown: RenderContext, page: int = 0
) -> View:
    """Render a page of the sources that this viewer may read now, with its page buttons."""
    answer, words = parse_stored_answer(asked.answer), shown.words
    cited = [(number, one) for number, one in enumerate(answer.cited, 1) if one.key.chat_id in viewer.channels]
    if not cited:
        none = "sources-counted" if answer.sentences and asked.kind == "ask" else "sources-none"
        return View(Text(words("why-closed" if answer.cited else none)))
    here, page, last = cut_page(cited, page, SOURCES_PER_PAGE)
    stored = await visible_posts.fetch_posts(archive, [one.key for _, one in here])
    known = await channels.load_channels(archive)
    pages = [" · ", words("search-page", page=page + 1, pages=last + 1)] if last else []
    blocks = [Text(Bold(words("sources", count=len(cited))), *pages)]
    for number, one in here:
        post = stored.get(one.key)
        block = format_source(number, one, post, known.get(one.key.chat_id), shown)
        if post and hash_text_version(post.text) != one.mark:
            block = as_list(block, words("sources-changed"))
        elif post and (quotes := _list_quotes(post, answer)):
            block = as_list(block, ExpandableBlockQuote(neutralize_links("\n\n".join(quotes))))
        blocks.append(block)
    row = build_page_row(page, last, lambda n: AnswerCallback(action=AnswerAction.PAGE, handle=asked.handle, page=n))
    named = frozenset(one.key.chat_id for _, one in here)
    content = ShownContent(channels=named, counted=frozenset(one.key.chat_id for _, one in cited))
    buttons = build_keyboard(row) if row else None
    return View(as_list(*blocks, sep="\n\n"), collect_content_of_posts(stored.values()) | content, buttons)


def _list_quotes(post: Post, answer: StoredAnswer) -> list[str]:
    places = sorted(place for place in answer.quotes if place.key == post.key)
    found = [text for _, start, end in places if (text := strip_control_characters(post.text[start:end]))][:_MAX_QUOTES]
    longest = _MAX_ONLY_QUOTE_LENGTH if len(found) == 1 else _MAX_QUOTE_LENGTH
    return [shorten(text, longest) for text in found]
