"""Handlers of /why, the posts behind an answer and their edits since, and of /plan, how a question is searched.

Access is worked out anew: a channel that is closed to this reader by now is not named at all. Admins also see the
stages of the answer with times and counts, by its trace (a trace holds no texts), and what a model wrote and was not
shown, while the process remembers it.

/plan is for admins: it shows the queries and what each leg finds, and answers nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aiogram import Bot, Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import BlockQuote, Bold, Code, ExpandableBlockQuote, Italic, Text, as_list

from bot import access
from bot.access import Reader, is_admin
from bot.app_context import AppContext
from bot.handlers.find_answer_and_check_access import find_asked_answer
from bot.i18n import Translator, get_translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.stored_answer import CitedPost, StoredAnswer, hash_text_version, parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts, recheck_before_sending
from bot.views.answer import format_reference, format_source
from bot.views.clean_and_shorten_text import cut_lines, join_lines, shorten
from bot.views.message_formatting import neutralize_links, split_pages, style_text
from bot.views.post_formatting import RenderContext
from bot.views.terminal_text import format_plan_lines, format_stages, plan_as_json
from bot.views.text_changes import format_changes
from rag_core.engine import Engine
from rag_core.errors import RagError
from rag_core.planning.plan import plan_with_spelling_and_aliases
from rag_core.storage import Archive, channels, post_lookup, visible_posts
from rag_core.storage.post_lookup import PostVersion, fetch_stored_posts, list_album_keys
from rag_core.storage.questions import AnsweredQuestion, fetch_trace
from rag_core.text.tokens import detect_language, list_dictionary_forms, tokenize
from rag_core.types import Certainty, Channel, Post, PostKey, Question, Viewer

router = Router()


async def _render_trace(trace_id: str, archive: Archive, words: Translator) -> Text | None:
    """Render the trace of an answer; None where it is unknown or expired. Raises ArchiveUnavailable."""
    found = await fetch_trace(archive, trace_id)
    if found is None:
        return None
    stages = ExpandableBlockQuote("\n".join(format_stages(found.spans)))
    return Text(Bold(words("why-trace", recipe=found.recipe)), " ", Code(found.trace_id), "\n", stages)


async def _add_dropped_sentences(
    view: View, trace_id: str, viewer: Viewer, context: AppContext, words: Translator
) -> View:
    """Add what the model wrote and was not shown, with the reasons, as far as this viewer may read its posts now."""
    dropped = context.rag.caches.dropped.get(trace_id, ())
    stored = await visible_posts.fetch_posts(context.archive, [key for one in dropped for key in one.posts])
    readable = {key: post for key, post in stored.items() if key.chat_id in viewer.channels}
    lines = [
        Text("• ", neutralize_links(one.text), " — ", Italic(words("why-dropped-reason", reason=str(one.reason))))
        for one in dropped
        if one.text and readable.keys() >= set(one.posts)
    ]
    if not lines:
        return view
    text = Text(Bold(words("why-dropped")), "\n", ExpandableBlockQuote(as_list(*lines)))
    content = view.content | collect_content_of_posts(readable.values())
    return replace(view, text=as_list(view.text, text, sep="\n\n"), content=content)


# Posts listed that were found but not cited: more of them explain nothing.
_MAX_OTHERS = 5
# Characters of the question: enough to recognize it.
_MAX_SHOWN_QUESTION_LENGTH = 120
_WORD_PATTERN = re.compile(r"\w+(?:[-’']\w+)*")


@dataclass(frozen=True, slots=True)
class _ExplanationContext:
    """Data of one explanation: `stored` are the posts that this reader may see now."""

    archive: Archive
    channels: Mapping[int, Channel]
    stored: Mapping[PostKey, Post]
    shown: RenderContext
    answered_at: datetime


async def prepare_to_show(
    asked: AnsweredQuestion, user_id: int, context: AppContext
) -> tuple[Reader, Viewer, RenderContext]:
    """Prepare to show a view of an answer: who reads it, what they may read, and in which language and zone."""
    reader = Reader(user_id, asked.chat_id, asked.private)
    viewer = await access.build_viewer(context.admins, reader)
    zone = await context.load_zone(asked.chat_id)
    return reader, viewer, RenderContext(get_translator(asked.lang), zone, group=not asked.private)


async def reply_in_pages(message: Message, view: View) -> None:
    """Reply in as many messages as needed; the buttons under the last."""
    cut = split_pages(view.text)
    for page in cut:
        await message.reply(**page.as_kwargs(), reply_markup=view.buttons if page is cut[-1] else None)


async def explain_answer(
    asked: AnsweredQuestion, viewer: Viewer, archive: Archive, shown: RenderContext, rag: Engine | None = None
) -> View:
    """Explain what an answer is based on, as far as this viewer may read it now; with `rag`, how it was read, too."""
    kept = parse_stored_answer(asked.answer)
    cited = [(number, one) for number, one in enumerate(kept.cited, 1) if one.key.chat_id in viewer.channels]
    others = [key for key in kept.others if key.chat_id in viewer.channels]
    stored = await visible_posts.fetch_posts(archive, [*(one.key for _, one in cited), *others])
    context = _ExplanationContext(archive, await channels.load_channels(archive), stored, shown, asked.answered_at)
    words, question = shown.words, shorten(join_lines(asked.text), _MAX_SHOWN_QUESTION_LENGTH)
    blocks: list[Text] = [style_text(Bold, words("why-question", question=question))]
    texts, content = (post.text for post in stored.values()), collect_content_of_posts(stored.values())
    content |= ShownContent(channels=frozenset(one.key.chat_id for _, one in cited))
    if rag and (reading := await describe_reading(asked.text, asked.lang, texts, viewer, rag)):
        blocks.append(as_list(*map(neutralize_links, reading)))
        content |= ShownContent(counted=viewer.channels)
    if kept.certainty is Certainty.PROBABLE:
        blocks.append(Text(words("why-probable")))
    if kept.judged is not None:
        verdict = "yes" if kept.judged >= 0 else "no"
        blocks.append(Text(words("why-judged", verdict=verdict, odds=f"{kept.judged:+.1f}")))
    sources = []
    for number, one in cited:
        post = stored.get(one.key)
        line = format_source(number, one, post, context.channels.get(one.key.chat_id), shown)
        edits = await _list_edits(one, post, context) if post and post.edited else []
        sources.append(as_list(line, *edits))
    if sources:
        blocks.append(Text(Bold(words("sources", count=len(sources))), "\n", sources[0]))
        blocks += sources[1:]
    blocks += _format_others([key for key in others if key in stored], kept, context)
    if not (sources or others):
        blocks.append(Text(words("why-closed" if kept.cited or kept.others else "why-nothing-found")))
    if notes := dict.fromkeys(words("shortfall", stage=stage, count=0) for stage in kept.shortfalls):
        blocks.append(Italic("\n".join(notes)))
    return View(as_list(*blocks, sep="\n\n"), content)


async def describe_reading(text: str, lang: str, texts: Iterable[str], viewer: Viewer, rag: Engine) -> list[str]:
    """Describe how the words of a question are read for this viewer now: corrected spelling, and other names.

    It is worked out anew, as names come from posts. They are terms; `texts` are posts that hold them as words.
    """
    words, known = get_translator(lang), await channels.load_channels(rag.archive)
    plan = await plan_with_spelling_and_aliases(Question(text, lang, datetime.now(UTC), viewer), known, rag)
    read = " ".join(read for _, read in plan.read_as)
    by_term: dict[str, str] = {}
    for word in _WORD_PATTERN.findall(" ".join((text, read, *texts))) if plan.aliases else ():
        for term in tokenize(word):
            by_term.setdefault(term, word)
    others = [
        f"{_get_dictionary_form(by_term[one])} — {_get_dictionary_form(by_term[other])}"
        for one, other in plan.aliases
        if {one, other} <= by_term.keys()
    ]
    return [
        *(words("why-read-as", typed=typed, read=read) for typed, read in plan.read_as),
        *([words("why-aliases", pairs="; ".join(dict.fromkeys(others)))] if others else []),
    ]


def _get_dictionary_form(word: str) -> str:
    form = next(iter(list_dictionary_forms(word.lower())), word)
    return form.capitalize() if word[0].isupper() else form


async def _list_edits(one: CitedPost, post: Post, context: _ExplanationContext) -> list[Text]:
    """List the edits of a post, or of its whole album."""
    edits = []
    keys = await list_album_keys(context.archive, one.key) if post.album else (one.key,)
    for key, now in (await fetch_stored_posts(context.archive, keys)).items():
        chain = [PostVersion(now.stamp, now.post.text), *await post_lookup.list_post_versions(context.archive, key)]
        edits += [] if now.deleted or len(chain) == 1 else await _explain_versions(chain, one.mark, context)
    return edits or [Text(context.shown.words("why-unknown-before"))]


async def _explain_versions(chain: Sequence[PostVersion], cited: str, context: _ExplanationContext) -> list[Text]:
    """Explain the edits after the answer, and the last one before it; `chain` begins with the newest version."""
    then = next((place for place, version in enumerate(chain) if hash_text_version(version.text) == cited), None)
    # The cited version is unknown where the text joined several captions; then the last edit is shown.
    if then is None:
        return [await _format_edit("why-changed", chain[1], chain[0], context)]
    edits = []
    if then > 0:
        edits.append(await _format_edit("why-changed-after", chain[then], chain[0], context))
    if then + 1 < len(chain):
        # An edit after the answer may have restored the cited text.
        before = chain[then].stamp <= context.answered_at
        edits.append(
            await _format_edit("why-changed-before" if before else "why-changed", chain[then + 1], chain[then], context)
        )
    return edits


async def _format_edit(sentence: str, old: PostVersion, new: PostVersion, context: _ExplanationContext) -> Text:
    words = context.shown.words
    head = words(sentence, date=words.date(new.stamp, context.shown.zone))
    # Comparing two long and different texts takes a while.
    difference, more = await asyncio.to_thread(format_changes, old.text, new.text)
    if not difference.as_kwargs()["text"]:
        difference = Text(words("why-changed-spaces"))
    tail = [Text(words("why-changed-more", more=more))] if more else []
    return Text(head, "\n", BlockQuote(as_list(difference, *tail)))


def _format_others(keys: Sequence[PostKey], kept: StoredAnswer, context: _ExplanationContext) -> list[Text]:
    """Format the posts that were found but not cited; for a refusal, all that were found."""
    words = context.shown.words
    if not keys:
        return []
    lines = []
    for key in keys:
        post, channel = context.stored[key], context.channels.get(key.chat_id)
        lines.append(Text("• ", format_reference(key, post.date, post, channel, context.shown)))
    sentence = words("why-others") if kept.cited else words("why-refused", count=len(keys))
    return [Text(sentence, "\n", ExpandableBlockQuote(as_list(*cut_lines(lines, _MAX_OTHERS, words))))]


@router.message(ChatCommand("why"))
async def _on_why(
    message: Message, command: CommandObject, addressed: bool, bot: Bot, context: AppContext, words: Translator
) -> None:
    admin = message.chat.type == "private" and is_admin(message, context.admins)
    if admin and command.args:
        stages = await _render_trace(command.args.strip(), context.archive, words)
        await message.reply(**(stages or Text(words("why-trace-unknown"))).as_kwargs())
        return
    asked = await find_asked_answer(message, bot, context.archive, words, "/why", addressed=addressed)
    reader, viewer, shown = await prepare_to_show(asked, asked.user_id, context)
    view = await explain_answer(asked, viewer, context.archive, shown, context.rag)
    trace_id = parse_stored_answer(asked.answer).trace_id
    if admin:
        view = await _add_dropped_sentences(view, trace_id, viewer, context, words)
    if admin and (stages := await _render_trace(trace_id, context.archive, words)):
        view = replace(view, text=as_list(view.text, stages, sep="\n\n"))
    with recheck_before_sending(view.content, reader, context.admins):
        await reply_in_pages(message, view)


@router.message(ChatCommand("plan", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_plan(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    text = (command.args or "").strip()
    if not text:
        await message.answer(words("plan-how"))
        return
    reader = access.get_reader(message)
    viewer = await access.build_viewer(context.admins, reader)
    now = datetime.now(await context.load_zone(message.chat.id))
    question = Question(text, detect_language(text), now, viewer)
    try:
        lines = format_plan_lines(await plan_as_json(question, context.rag))
    except RagError as exc:
        await message.answer(words.error(exc))
        return
    with recheck_before_sending(ShownContent(counted=viewer.channels), reader, context.admins):
        for page in split_pages(Text(neutralize_links("\n".join(lines)))):
            await message.answer(**page.as_kwargs())
