"""Handlers of inline queries: "@bot question" in any chat offers quotes of public posts to send there.

A query is neither stored nor logged, and no model is asked. It is answered within the ten seconds that Telegram waits,
or not at all; of what one person types only the last is answered. In guest mode the same quotes answer who calls the
bot into a chat that it is not in.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from aiogram import Bot, F, Router, types
from aiogram.dispatcher.event.bases import SkipHandler
from aiogram.exceptions import TelegramAPIError
from aiogram.utils.formatting import Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.handlers.questions import encode_payload
from bot.i18n import Translator
from bot.middlewares import extract_addressed_question
from bot.stored_answer import StoredAnswer, compare_with_posts, parse_stored_answer
from bot.telegram import recheck
from bot.views.answer import format_one_line, format_reference
from bot.views.format import neutralize_links
from bot.views.keyboards import SHARE_PREFIX, make_callback_token
from bot.views.text import WRITING_STAGES, RenderContext, strip_control_characters
from rag_core.answer import answer_question
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.storage import Archive, channels, questions, visible_posts
from rag_core.text.query_terms import QueryTerms
from rag_core.text.sentences import split_sentences
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import DIRECT_RECIPE, Channel, Post, Question, Viewer

router = Router()

_MAX_AGE_SECONDS = 10.0  # Telegram's own limit
_CACHE_SECONDS = 30  # what a reader may read can change
_MAX_SEARCHES = 2  # at a time: the questions of the chats go first
_MAX_TITLE_LENGTH = 80
_PLAIN_START = "inline"  # payload of the button where the question does not fit: handled as a plain /start


@dataclass(slots=True)
class InlineQueue:
    """Queue of inline searches, with the last query of each person."""

    last: dict[int, str] = field(default_factory=dict)
    turns: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_SEARCHES))


@router.inline_query()
async def _on_query(query: types.InlineQuery, context: AppContext, words: Translator, inline: InlineQueue) -> None:
    """Handle a query, unless its person types on while it waits."""
    user = query.from_user.id
    inline.last[user] = query.id
    try:
        with suppress(TimeoutError, TelegramAPIError):  # the person has typed on, or left
            async with asyncio.timeout(_MAX_AGE_SECONDS), inline.turns:
                offer = await _prepare_offer(user, query.query, context, words)
                if inline.last.get(user) == query.id:
                    await _send_offer(query, offer, context, words)
    finally:
        if inline.last.get(user) == query.id:
            del inline.last[user]


@router.guest_message()
async def _on_guest_message(
    message: types.Message, bot: Bot, context: AppContext, words: Translator, inline: InlineQueue
) -> None:
    """Handle a question in a chat that the bot is not in: one message there, the best quote or a refusal."""
    if message.from_user is None or message.guest_query_id is None or not context.settings.bot.guest:
        return
    asked = await extract_addressed_question(message, bot)
    text = asked["question"] if isinstance(asked, dict) else message.text or ""
    with suppress(TimeoutError, TelegramAPIError):
        async with asyncio.timeout(_MAX_AGE_SECONDS), inline.turns:
            offer = await _prepare_offer(message.from_user.id, text, context, words)
            await _send_guest_answer(message.guest_query_id, offer, bot, context, words)


@dataclass(frozen=True, slots=True)
class _Offer:
    """Articles offered for a query, and the sentence `said` on the button to the private chat."""

    said: str
    articles: list[types.InlineQueryResultArticle]
    content: recheck.ShownContent = field(default_factory=recheck.ShownContent)
    cache_seconds: int = _CACHE_SECONDS


async def _prepare_offer(user: int, typed: str, context: AppContext, words: Translator) -> _Offer:
    text = " ".join(typed.split())
    if context.worker.limits.count_command(user, user, press=True):
        return _Offer("inline-limit", [])
    if not text:
        return _Offer("inline-how", [])
    try:
        zone, public = await context.load_zone(user), await access.list_public_channels(context.admins)
        viewer, shown = Viewer(user, public), RenderContext(words, zone)
        if text.startswith(SHARE_PREFIX):
            articles, content = await share_answer(text.removeprefix(SHARE_PREFIX), viewer, context.archive, shown)
        else:
            question = Question(text, detect_language(text), datetime.now(zone), viewer)
            articles, content = await find_articles(question, context.rag, shown)
    except RagError:  # never shown as "nothing found"
        return _Offer("inline-trouble", [], cache_seconds=0)
    return _Offer("inline-more" if articles else "inline-private", articles, content)


async def _send_guest_answer(query_id: str, offer: _Offer, bot: Bot, context: AppContext, words: Translator) -> None:
    said = words("guest-nothing" if offer.said == "inline-private" else offer.said)
    refusal = types.InlineQueryResultArticle(
        id="none", title=said, input_message_content=types.InputTextMessageContent(message_text=said)
    )
    try:
        with recheck.recheck_before_sending(offer.content, access.EVERYBODY, context.admins):
            await bot.answer_guest_query(query_id, offer.articles[0] if offer.articles else refusal)
    except recheck.SendingRefused:
        await _send_guest_answer(query_id, _Offer("inline-trouble", []), bot, context, words)


async def _send_offer(query: types.InlineQuery, offer: _Offer, context: AppContext, words: Translator) -> None:
    payload = encode_payload(" ".join(query.query.split())) or _PLAIN_START
    button = types.InlineQueryResultsButton(text=words(offer.said), start_parameter=payload)
    try:
        with recheck.recheck_before_sending(offer.content, access.EVERYBODY, context.admins):
            await query.answer([*offer.articles], cache_time=offer.cache_seconds, is_personal=True, button=button)
    except recheck.SendingRefused:
        await _send_offer(query, _Offer("inline-trouble", [], cache_seconds=0), context, words)


async def find_articles(
    question: Question, rag: Engine, shown: RenderContext
) -> tuple[list[types.InlineQueryResultArticle], recheck.ShownContent]:
    """Find the quotes that answer a question, and where none does sentences of the nearest posts.

    Raises RagError. Posts of channels that forbid to forward them are left out.
    """
    # a person who types waits a second at most: reranking takes as long alone
    quick = replace(rag, recipe=DIRECT_RECIPE, writer=None, planner=None, reranker=None, traced=lambda run: None)
    answer = await answer_question(question, quick)
    failed = [short.reason for short in answer.shortfalls if short.stage not in WRITING_STAGES]
    if answer.refused and failed:
        raise RagError(failed[0])
    cited = await visible_posts.fetch_posts(rag.archive, (*answer.posts(), *(one.key for one in answer.nearest)))
    asked = QueryTerms.of(question.text, rag.lexical.statistics(question.viewer.channels).weight)
    quotes = [(c.post, c.quote) for sentence in answer.sentences for c in sentence.citations if c.quote.strip()]
    for passage in answer.nearest:  # of a refusal, the sentences that fit best
        if said := [passage.text[start:end] for start, end in split_sentences(passage.text)]:
            quotes.append((passage.key, max(said, key=lambda one: asked.matched_share(frozenset(tokenize(one))))))
    articles = []
    for key, quote in dict.fromkeys(quotes):
        if key in cited and not cited[key].guarded:
            addresses = map(strip_control_characters, answer.addresses.get(key, ()))
            told = _quote_post(cited[key], quote, answer.channels, shown, *addresses)
            articles.append(_build_article(f"{key} {quote}", quote, told, cited[key], answer.channels, shown))
    return articles, recheck.collect_content_of_answer(answer, cited)


def _quote_post(post: Post, quote: str, known: Mapping[int, Channel], shown: RenderContext, *more: str) -> Text:
    reference = format_reference(post.key, post.date, post, known[post.key.chat_id], shown)
    told = (strip_control_characters(quote), *more)
    return as_list(as_list(*map(neutralize_links, told)), reference, sep="\n\n")


def _build_article(
    of: str, quote: str, told: Text, post: Post, known: Mapping[int, Channel], shown: RenderContext
) -> types.InlineQueryResultArticle:
    text, entities = told.render()
    reference = format_reference(post.key, post.date, post, known[post.key.chat_id], shown)
    return types.InlineQueryResultArticle(
        id=make_callback_token(of, size=12),
        title=format_one_line(strip_control_characters(quote), _MAX_TITLE_LENGTH) or shown.words("unnamed-channel"),
        description=format_one_line(reference.render()[0]),
        input_message_content=types.InputTextMessageContent(
            message_text=text, entities=entities, link_preview_options=types.LinkPreviewOptions(is_disabled=True)
        ),
    )


_MAX_SHARED = 2  # quotes


async def share_answer(
    handle: str, viewer: Viewer, archive: Archive, shown: RenderContext
) -> tuple[list[types.InlineQueryResultArticle], recheck.ShownContent]:
    """Build the article that shares an answer: what its public posts still say of it, none where they say nothing.

    The words around the quotes may count or date posts that are not public, and stay here. Raises ArchiveUnavailable.
    """
    asked = await questions.fetch_answered_question(archive, handle)
    given = parse_stored_answer(asked.answer) if asked and asked.kind == "ask" else StoredAnswer()
    now, known = await compare_with_posts(given, viewer, archive), await channels.load_channels(archive)
    public = [place for place in given.quotes if place.key in now.stored and not now.stored[place.key].guarded]
    standing = [place for place in public if now.holds(place)][:_MAX_SHARED]
    if not standing:
        return [], recheck.ShownContent()
    quotes = [now.texts[place.key][place.start : place.end] for place in standing]
    blocks = [_quote_post(now.stored[p.key], quote, known, shown) for p, quote in zip(standing, quotes, strict=True)]
    if not all(map(now.holds, public)):
        blocks.insert(0, Text(shown.words("share-corrected")))
    told, first = as_list(*blocks, sep="\n\n"), now.stored[standing[0].key]
    article = _build_article(f"{handle} {quotes}", quotes[0], told, first, known, shown)
    return [article], recheck.collect_content_of_posts(now.stored[place.key] for place in standing)


@router.message(F.via_bot)
async def _on_article(message: types.Message, bot: Bot) -> None:
    """Handle an article of this bot that a person has sent, even in its chat or as a reply: it asks nothing."""
    if message.via_bot is None or message.via_bot.id != bot.id:
        raise SkipHandler
