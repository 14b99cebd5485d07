"""Handlers of /unanswered and /synonyms: what people asked in vain, and words that help the search to find it.

/unanswered groups refused questions by their terms. It names nobody, and shows the words of a question only where two
readers asked alike: one reader's own words could tell who asked. It reads the stored questions, so that they are gone
with their retention and with /forget. Synonyms hold for all channels, so that only bot admins enter them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import BlockQuote, Code, Text, as_list

from bot import access
from bot.context import AppContext
from bot.filters import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.i18n import Translator
from bot.recheck import build_posts_basis, recheck_before_sending
from bot.views.answer import link_author, parse_stored_answer
from bot.views.message_text import neutralize_links
from bot.views.post_phrases import RenderContext, format_day_and_edit, strip_control_characters
from rag_core.storage import channels, posts, questions
from rag_core.storage.questions import AnsweredQuestion
from rag_core.storage.synonyms import add_synonym, list_synonyms, remove_synonym
from rag_core.text.query_terms import is_asking_word
from rag_core.text.tokens import tokenize
from rag_core.types import PostKey, format_channel_post_link

__all__ = ["UnansweredGroup", "group_unanswered", "routes"]

_MAX_QUESTIONS, _MAX_GROUPS, _MAX_TEXT_LENGTH = 5000, 10, 150
_MIN_READERS = 2  # who asked alike, before the words are shown
_MAX_SYNONYM_LENGTH, _MAX_LISTED = 60, 100


@dataclass(frozen=True, slots=True)
class UnansweredGroup:
    """Questions alike: the shortest text, how many readers asked it, and the nearest post of the newest one."""

    text: str
    readers: int
    nearest: PostKey | None


def group_unanswered(asked: Iterable[AnsweredQuestion]) -> tuple[list[UnansweredGroup], int]:
    """Group refused questions, newest first, by their terms: groups of two and more readers, most readers first.

    The number counts the other groups, whose words are not shown.
    """
    alike: dict[frozenset[str], list[AnsweredQuestion]] = {}
    for one in asked:
        terms = frozenset(tokenize(one.text))
        alike.setdefault(frozenset(term for term in terms if not is_asking_word(term)) or terms, []).append(one)
    groups = []
    for rows in alike.values():
        readers = len({row.user_id for row in rows})
        if readers >= _MIN_READERS:
            nearest = next((key for row in rows for key in parse_stored_answer(row.answer).others), None)
            groups.append(UnansweredGroup(min((row.text for row in rows), key=len), readers, nearest))
    return sorted(groups, key=lambda group: -group.readers), len(alike) - len(groups)


async def _on_unanswered(message: Message, context: AppContext, words: Translator) -> None:
    groups, others = group_unanswered(await questions.list_refused_questions(context.archive, _MAX_QUESTIONS))
    reader = access.get_reader(message)
    viewer = await access.build_viewer(context.archive, context.admins, reader)
    basis = await build_posts_basis([one.nearest for one in groups if one.nearest], viewer, context.archive)
    blocks = [Text(words("unanswered-title" if groups else "unanswered-none"))]
    blocks += await _render_groups(groups[:_MAX_GROUPS], context, RenderContext(words, context.settings.bot.zone))
    if more := others + len(groups[_MAX_GROUPS:]):
        blocks.append(Text(words("unanswered-more", count=more)))
    with recheck_before_sending(basis, reader, context.archive, context.admins):
        await message.answer(**as_list(*blocks, sep="\n\n").as_kwargs())


async def _render_groups(groups: Sequence[UnansweredGroup], context: AppContext, shown: RenderContext) -> list[Text]:
    known = await channels.load_channels(context.archive)
    stored = await posts.fetch_posts(context.archive, [group.nearest for group in groups if group.nearest])
    blocks = []
    for group in groups:
        text = " ".join(strip_control_characters(group.text).split())[:_MAX_TEXT_LENGTH]
        lines = [shown.words.rich("unanswered-group", question=neutralize_links(text), count=group.readers)]
        if group.nearest and (post := stored.get(group.nearest)):
            channel = known.get(group.nearest.chat_id)
            url = format_channel_post_link(group.nearest, channel)
            author = link_author(channel, post.origin, url, shown.words)
            lines.append(BlockQuote(author, " · ", format_day_and_edit(post.date, post.edited, shown)))
        blocks.append(as_list(*lines))
    return blocks


async def _on_synonyms(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    """Add a pair of words that mean the same, or with a minus before it remove it; without words list them."""
    given = (command.args or "").strip()
    remove = given.startswith(("-", "−", "–"))
    pair = [" ".join(side.casefold().split()) for side in given.lstrip("-−– ").split("=")]
    example = Code(f"/synonyms {words('synonyms-example')}")
    if not given:
        pairs = await list_synonyms(context.archive)
        lines = [Text("• ", neutralize_links(f"{word} = {meaning}")) for word, meaning in pairs[:_MAX_LISTED]]
        title = words("synonyms-title", count=len(pairs))
        text = as_list(title, *lines, "", words.rich("synonyms-how", example=example))
    elif (
        len(pair) != 2
        or pair[0] == pair[1]
        or not all(tokenize(side) and len(side) <= _MAX_SYNONYM_LENGTH for side in pair)
    ):
        text = words.rich("synonyms-how", example=example)
    else:
        word, meaning = pair
        if remove:
            done = await remove_synonym(context.archive, word, meaning) or await remove_synonym(
                context.archive, meaning, word
            )
            sentence = "synonyms-removed" if done else "synonyms-unknown"
        else:
            done = await add_synonym(context.archive, word, meaning, access.get_reader_id(message))
            sentence = "synonyms-added" if done else "synonyms-known"
        if done:
            context.rag.caches.forget()
            context.worker.forget()
        text = words.rich(sentence, pair=neutralize_links(f"{word} = {meaning}"))
    await message.answer(**text.as_kwargs())


def routes() -> Router:
    """Router of /unanswered and /synonyms."""
    router = Router(name="unanswered")
    router.message.register(_on_unanswered, ChatCommand("unanswered", chats=PRIVATE), flags=ADMINS_ONLY)
    router.message.register(_on_synonyms, ChatCommand("synonyms", chats=PRIVATE), flags=ADMINS_ONLY)
    return router
