"""Handlers of /search, posts by words, dates and channels, and of /about, what a channel writes about.

Nothing of a search is stored. The query is read again from the message that a page replies to, so that its buttons
work after a restart; each press searches anew, in the channels that the presser may read at that moment. Two
searches run at a time, and one reader may have three in the queue. A channel that the asker may not read answers
/about as one that does not exist.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import tzinfo
from functools import partial

from aiogram import Router
from aiogram.types import CallbackQuery, Message
from aiogram.utils.formatting import Bold, Code, Text, as_list
from cachetools import FIFOCache

from bot import access
from bot.app_context import AppContext
from bot.handlers import errors
from bot.handlers.answers import check_button_access
from bot.i18n import Translator, detect_question_language
from bot.middlewares import MAX_QUESTION_LENGTH, ChatCommand
from bot.telegram.ephemeral import get_asker_address, send_to_asker
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts, recheck_before_sending
from bot.telegram.session import respond
from bot.views import keyboards
from bot.views.answer import link_channel_title
from bot.views.channel_card import list_channel_titles
from bot.views.format import neutralize_links
from bot.views.keyboards import Press, build_keyboard, on_press, redraw_message
from bot.views.results import RESULTS_PER_PAGE, render_search_page
from bot.views.text import RenderContext
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.planning.queries import extract_search_words, find_named_channel, match_channel_name
from rag_core.retrieval.channel_answers import MAX_READ_POSTS, profile_channel
from rag_core.retrieval.post_search import list_posts
from rag_core.storage import Archive
from rag_core.storage.readers import narrow_to_channel_set
from rag_core.text.tokens import fold_case
from rag_core.types import Channel, Question, Viewer

router = Router()

_MAX_CONCURRENT_SEARCHES = 2  # for all readers: searches share the machine with answers
_MAX_WAITING_SEARCHES = 3  # per reader, including the running one
_MAX_KEPT = 1000  # ephemeral searches


class SearchQueue:
    """Queue of searches, which do not wait for answers: few run at once, and those of one reader one by one."""

    def __init__(self) -> None:
        self.running = asyncio.Semaphore(_MAX_CONCURRENT_SEARCHES)
        self._turns: defaultdict[int, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._waiting = Counter[int]()
        # by token, while the process lives: a press on an ephemeral message does not say what it replies to
        self.ephemeral: FIFOCache[str, Message] = FIFOCache(_MAX_KEPT)

    @asynccontextmanager
    async def wait_turn(self, reader: int, words: Translator) -> AsyncIterator[None]:
        """Wait for the reader's turn. Raises Refusal where too many searches of theirs wait already."""
        if self._waiting[reader] >= _MAX_WAITING_SEARCHES:
            raise access.Refusal(words("search-busy"))
        self._waiting[reader] += 1
        try:
            async with self._turns[reader]:
                yield
        finally:
            self._waiting[reader] -= 1
            if not self._waiting[reader]:
                del self._waiting[reader], self._turns[reader]


@router.message(ChatCommand("search"))
async def _on_search(
    message: Message, addressed: bool, context: AppContext, words: Translator, searches: SearchQueue
) -> None:
    asked = _get_search_text(message)
    if len(asked) > MAX_QUESTION_LENGTH:
        raise access.Refusal(words("search-too-long", limit=MAX_QUESTION_LENGTH, length=len(asked)))
    if asked:
        await _reply_with_first_page(message, access.get_reader(message), context, words, searches)
    elif addressed:
        text = words.rich("search-empty", example=Code(f"/search {words('search-example')}"))
        await respond(message, **text.as_kwargs())


@router.callback_query(on_press("search"))
async def _press_search(
    pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator, searches: SearchQueue
) -> None:
    """Search for the topic of a refused question: its command is sent, and answered like one of the reader."""
    asked, message = await check_button_access(pressed, callback_data, context, words)
    await pressed.answer()
    command = Text("/search", " ", neutralize_links(extract_search_words(asked.text)))
    reader = access.Reader(pressed.from_user.id, asked.chat_id, asked.private, alone=not asked.private)
    with send_to_asker(get_asker_address(pressed, words.lang, always=True)):
        sent = await message.answer(**command.as_kwargs())
        await _reply_with_first_page(sent, reader, context, words, searches)


async def _reply_with_first_page(
    asked: Message, reader: access.Reader, context: AppContext, words: Translator, searches: SearchQueue
) -> None:
    async with searches.wait_turn(reader.user_id, words):
        view, _ = await _render_page(asked, reader, 0, context, words, searches)
        if asked.ephemeral_message_id is not None:
            searches.ephemeral[_make_search_token(asked, context.archive)] = asked
        await view.send(asked.reply, reader, context.admins)


@router.callback_query(on_press("search-page"))
async def _press_page(
    pressed: CallbackQuery, callback_data: Press, context: AppContext, words: Translator, searches: SearchQueue
) -> None:
    """Turn a page. In a group only the searcher may; who writes as a chat is not known."""
    message = pressed.message if isinstance(pressed.message, Message) else None
    search, _, shown = callback_data.token.partition(".")
    alone = message is not None and message.ephemeral_message_id is not None
    asked = searches.ephemeral.get(search) if alone else message.reply_to_message if message else None
    if asked is None or _make_search_token(asked, context.archive) != search:
        raise access.Refusal(words("search-stale"))  # deleted or edited, or forged callback data
    searcher = asked.receiver_user or asked.from_user  # the first where the bot sent the command for who pressed
    if searcher and not (searcher.is_bot or asked.sender_chat) and searcher.id != pressed.from_user.id:
        raise access.Refusal(words("search-not-yours"))
    async with searches.wait_turn(pressed.from_user.id, words):
        try:
            reader = access.Reader(pressed.from_user.id, asked.chat.id, asked.chat.type == "private", alone)
            view, found = await _render_page(asked, reader, callback_data.number, context, words, searches)
            moved = found not in ("", shown)
            with recheck_before_sending(view.content, reader, context.admins):
                await redraw_message(pressed, view, words("search-changed") if moved else "")
        except RagError as exc:
            raise access.Refusal(errors.format_error(exc, words, admin=False)) from exc


async def _render_page(
    asked: Message, reader: access.Reader, number: int, context: AppContext, words: Translator, searches: SearchQueue
) -> tuple[View, str]:
    """Page of a search and the token of its results; a sentence and no token where nothing can be searched."""
    viewer = await access.build_viewer(context.admins, reader)
    if not viewer.channels:
        return View(Text(await access.format_no_access(context.admins, words, reader, viewer))), ""
    text, viewer = await narrow_to_channel_set(context.archive, [asked.chat.id], _get_search_text(asked), viewer)
    if not viewer.channels:
        return View(Text(access.describe_shortfalls(viewer, words) or words("sets-nothing-readable"))), ""
    zone = await context.load_zone(asked.chat.id)
    # days in the reader's time zone, relative to the request
    question = Question(text, detect_question_language(text, words.lang), asked.date.astimezone(zone), viewer)
    async with searches.running:
        found = await list_posts(question, context.rag)
        if not (found.sought.words or found.sought.filters):
            return View(Text(words("search-common")), ShownContent(counted=viewer.channels)), ""
        entries, number, last = keyboards.cut_page(found.found, number, RESULTS_PER_PAGE)
        shown = RenderContext(words, zone, group=not reader.private)
        page = await asyncio.to_thread(render_search_page, found, number, shown)  # long posts take a while to scan
    copies = frozenset(key.chat_id for entry in entries for key in entry.copies)
    # the total was counted over all
    content = collect_content_of_posts(entry.post for entry in entries) | ShownContent((), copies, viewer.channels)
    token = keyboards.make_callback_token(repr([tuple(one.post.key) for one in found.found]), size=3)
    search = f"{_make_search_token(asked, context.archive)}.{token}"
    row = keyboards.build_page_row(number, last, lambda n: Press(to="search-page", token=search, number=n))
    return View(page, content, build_keyboard(row)), token


def _get_search_text(message: Message) -> str:
    return "".join((message.text or message.caption or "").split(maxsplit=1)[1:]).strip()


def _make_search_token(asked: Message, archive: Archive) -> str:
    place = asked.message_id, asked.ephemeral_message_id, asked.receiver_user and asked.receiver_user.id
    content = repr((asked.chat.id, *place, access.get_reader_id(asked), _get_search_text(asked)))
    return keyboards.make_callback_token(content, archive.identity)


async def render_profile(
    said: str, readable: Mapping[int, Channel], viewer: Viewer, rag: Engine, words: Translator, zone: tzinfo
) -> View:
    """Render the profile of the readable channel that is meant; words weigh as in all channels of the viewer.

    Raises ArchiveUnavailable.
    """
    channel = find_named_channel(said, readable)
    if channel is None:
        named = [readable[chat] for chat in match_channel_name(fold_case(said), readable)]
        if len(named) > 1:
            titles = as_list(words("about-several"), list_channel_titles(named, words))
            return View(titles, ShownContent(counted=viewer.channels))
        return View(Text(words("about-unknown" if said else "about-how")))
    found = await profile_channel(rag.archive, channel.chat_id, rag.lexical.statistics(viewer.channels).weight)
    blocks: list[Text] = [Text(link_channel_title(channel, words))]
    if found is None:
        blocks.append(Text(words("about-empty")))
    else:
        first, last = words.date(found.first, zone), words.date(found.last, zone)
        often = words("about-often", count=round(found.weekly)) if found.weekly >= 1 else words("about-seldom")
        blocks.append(Text(words("about-posts", count=found.posts, first=first, last=last), "\n", often))
        listed = (
            ("about-names", [f"{name} ({count})" for name, count in found.names]),
            ("about-subjects", [f"{subject} ({count})" for subject, count in found.subjects]),
        )
        lists = [Text(Bold(words(head)), " ", neutralize_links(", ".join(one))) for head, one in listed if one]
        blocks += [as_list(*lists)] if lists else []
        if found.posts > MAX_READ_POSTS and lists:
            blocks.append(Text(words("about-read", count=len(found.read))))
    content = ShownContent(channels=frozenset({channel.chat_id}), counted=viewer.channels)
    content |= collect_content_of_posts(found.read if found else ())
    return View(as_list(*blocks, sep="\n\n"), content)


@router.message(ChatCommand("about", addressed_only=True))
async def _on_about(message: Message, given: str, context: AppContext, words: Translator) -> None:
    reader = access.get_reader(message)
    readable = await access.get_readable_channels(context.admins, reader)
    viewer = Viewer(reader.user_id, frozenset(readable))
    zone = await context.load_zone(message.chat.id)
    view = await render_profile(given, readable, viewer, context.rag, words, zone)
    await view.send(partial(respond, message), reader, context.admins)
