"""Handlers of an owner's /stats, /unanswered and /synonyms: the state of the bot, and what readers asked in vain.

/unanswered groups refused questions by their terms. It names nobody, and shows the words of a question only where two
readers asked alike: one reader's own words could tell who asked. It reads the stored questions, so that they are gone
with their retention and with /forget.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import BlockQuote, Bold, Code, Text, as_list

from bot import access, files
from bot.context import AppContext
from bot.filters import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.i18n import Translator
from bot.recheck import build_posts_basis, recheck_before_sending
from bot.views.answer import format_channel_title, link_author, parse_stored_answer
from bot.views.message_text import neutralize_links
from bot.views.post_phrases import RenderContext, format_day_and_edit, strip_control_characters
from rag_core.errors import IndexUnavailable
from rag_core.storage import channels, gaps, index_state, posts, questions, raw_updates, usage_stats
from rag_core.storage.backups import get_backup_time, list_backups
from rag_core.storage.channels import Synonym, add_synonym, list_synonyms, remove_synonym
from rag_core.storage.questions import AnsweredQuestion
from rag_core.text.query_terms import is_asking_word
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, PostKey, format_channel_post_link

_MAX_REASONS = 3  # reasons for quarantined updates that are listed
_MAX_ERROR_LENGTH = 200  # characters of an error message
_RECENT_FAILURE_AGE = timedelta(days=1)  # a failure that has passed is listed this long

_StatsBlock = Callable[[AppContext, Translator], AsyncIterator[str | Text]]


async def _on_stats(message: Message, context: AppContext, words: Translator) -> None:
    blocks: tuple[_StatsBlock, ...] = (
        _describe_contents,
        _describe_questions,
        _describe_backlog,
        _describe_jobs,
        _describe_machine,
    )
    shown = [[line async for line in block(context, words)] for block in blocks]
    await message.answer(**as_list(*(as_list(*lines) for lines in shown if lines), sep="\n\n").as_kwargs())


async def _describe_contents(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    """Describe channels and posts, and the indexes where they are behind or fail."""
    known, rag = await channels.load_channels(context.archive), context.rag
    count = await posts.count_posts(context.archive)
    yield Bold(words("channels-title", count=len(known)), " · ", words("channel-posts", count=count))
    behind = max(0, await posts.get_last_seq(context.archive) - rag.lexical.watermark)
    if behind:
        yield words("stats-words", waiting=behind)
    if rag.dense is None:
        return
    vectors = rag.dense.vectors
    try:
        await vectors.count()
    except IndexUnavailable as exc:
        yield words("stats-vectors-fail", reason=words.error(exc))
        return
    if waiting := await index_state.count_unembedded_changes(context.archive, vectors.identity):
        yield words("stats-vectors", waiting=waiting)


async def _describe_backlog(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    """Describe quarantined updates and gaps, where there are any."""
    aside = (await raw_updates.count_updates_by_state(context.archive))["poison"]
    if aside:
        yield words("stats-inbox", aside=aside)
    for poison in await usage_stats.list_poison_updates(context.archive, _MAX_REASONS) if aside else ():
        yield f"• {poison.update_id}: {_cut_line(poison.error)}"
    if number := sum(map(len, (await gaps.list_open_gaps(context.archive)).values())):
        yield words("stats-gaps", count=number, channels="/channels")


async def _describe_questions(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    """Describe the questions of today and of the last seven days, and the votes."""
    now = datetime.now(context.settings.bot.zone)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    for name, since in (("stats-today", midnight), ("stats-week", now - timedelta(days=7))):
        asked = await usage_stats.count_questions_since(context.archive, since)
        done = {"answered": asked.answered, "refused": asked.refused, "failed": asked.failed}
        yield words(name, count=asked.asked, waiting=asked.asked - sum(done.values()), **done)
    votes = await questions.count_votes_since(context.archive, now - timedelta(days=7))
    wrong, outdated, other, source = votes.reasons
    yield words("stats-votes", good=votes.good, bad=votes.bad, wrong=wrong, outdated=outdated, other=other,
                source=source)  # fmt: skip


async def _describe_machine(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    """Describe the disk and the last backup."""
    folder = context.archive.folder
    disk = await asyncio.to_thread(files.measure_disk_usage, folder)
    archive, indexes = _format_size(disk.archive, words), _format_size(disk.indexes, words)
    kept, free = _format_size(disk.backups, words), _format_size(disk.free, words)
    yield words("stats-disk", archive=archive, indexes=indexes, backups=kept, free=free)
    backups = await asyncio.to_thread(list_backups, folder)
    if backups:
        yield words("stats-backup", ago=format_age(get_backup_time(backups[0]), words), count=len(backups))
    else:
        yield words("stats-no-backup" if context.settings.data.backups else "stats-backups-off")


async def _describe_jobs(context: AppContext, words: Translator) -> AsyncIterator[str | Text]:
    """Describe the jobs that fail or have failed lately, with their error."""
    jobs = [job for _, job in sorted(context.indexing.ledger.jobs.items())]
    for job in jobs:
        if job.failed_at and (job.failing or datetime.now(UTC) - job.failed_at < _RECENT_FAILURE_AGE):
            sentence = "stats-job-fails" if job.failing else "stats-job-failed"
            moment, reason = format_age(job.failed_at, words), _cut_line(job.error or "")
            yield words(sentence, job=words("job", name=job.name), ago=moment, count=job.failures, reason=reason)


def _cut_line(text: str) -> str:
    line = " ".join(strip_control_characters(text).split())
    return line if len(line) <= _MAX_ERROR_LENGTH else f"{line[:_MAX_ERROR_LENGTH]}…"


def format_age(moment: datetime, words: Translator) -> str:
    """Format the age of a moment in the largest useful unit; a future moment counts as now."""
    seconds = max(0, int((datetime.now(UTC) - moment).total_seconds()))
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size or (unit == "m" and seconds >= size):
            return words("ago", unit=unit, number=seconds // size)
    return words("ago", unit="s", number=seconds)


def _format_size(size: int, words: Translator) -> str:
    if size >= 1 << 30:
        return words("size", unit="gb", number=words.number(size / (1 << 30), 1))
    return words("size", unit="mb", number=str(max(1, size >> 20)))


def routes() -> Router:
    """Router of /stats."""
    router = Router(name="stats")
    router.message.register(_on_stats, ChatCommand("stats", chats=PRIVATE), flags=ADMINS_ONLY)
    return router


_MAX_QUESTIONS, _MAX_GROUPS, _MAX_TEXT_LENGTH = 5000, 10, 150
_MIN_READERS = 2  # who asked alike, before the words are shown


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


def unanswered_routes() -> Router:
    """Router of /unanswered."""
    router = Router(name="unanswered")
    router.message.register(_on_unanswered, ChatCommand("unanswered", chats=PRIVATE), flags=ADMINS_ONLY)
    return router


_MAX_LENGTH, _MAX_LISTED = 60, 100
_MINUS = ("-", "−", "–")


async def _on_synonyms(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    """List the pairs, add one, or after a minus remove one: in the channel that is named first, or in all."""
    viewer = await access.build_viewer(context.archive, context.admins, access.get_reader(message))
    known = {
        chat_id: channel
        for chat_id, channel in (await channels.load_channels(context.archive)).items()
        if chat_id in viewer.channels
    }
    given = (command.args or "").strip()
    if not given:
        text = await _list_pairs(context, known, words)
    else:
        name = given.split()[0] if given.startswith("@") else ""
        chosen = [one for one in known if not name or (known[one].username or "").casefold() == name[1:].casefold()]
        if chosen:
            text = await _change_pair(given.removeprefix(name).strip(), chosen, message, context, words)
        else:
            text = words.rich("reindex-unknown", name=neutralize_links(name), channels="/channels")
    await message.answer(**text.as_kwargs())


async def _list_pairs(context: AppContext, known: dict[int, Channel], words: Translator) -> Text:
    stored = await list_synonyms(context.archive, known)
    lines = []
    for (word, meaning), rows in groupby(stored, key=lambda synonym: (synonym.word, synonym.meaning)):
        holding = [known[row.chat_id] for row in rows]
        of = "" if len(holding) == len(known) else ", ".join(format_channel_title(one, words) for one in holding)
        lines.append(Text("• ", neutralize_links(f"{word} = {meaning}" + (f" ({of})" if of else ""))))
    how = words.rich("synonyms-how", example=_make_example(words))
    return as_list(words("synonyms-title", count=len(lines)), *lines[:_MAX_LISTED], "", how)


def _make_example(words: Translator) -> Code:
    return Code(f"/synonyms {words('synonyms-example')}")


async def _change_pair(given: str, chosen: list[int], message: Message, context: AppContext, words: Translator) -> Text:
    pair = [" ".join(side.casefold().split()) for side in given.lstrip("".join(_MINUS) + " ").split("=")]
    if len(pair) != 2 or pair[0] == pair[1] or not all(tokenize(side) and len(side) <= _MAX_LENGTH for side in pair):
        return words.rich("synonyms-how", example=_make_example(words))
    word, meaning = pair
    reader, changed = access.get_reader_id(message), False
    for chat_id in chosen:
        if given.startswith(_MINUS):
            for sides in ((word, meaning), (meaning, word)):
                changed |= await remove_synonym(context.archive, Synonym(chat_id, *sides))
        else:
            changed |= await add_synonym(context.archive, Synonym(chat_id, word, meaning), reader)
    if changed:
        context.rag.caches.forget()
        context.worker.forget()
    if given.startswith(_MINUS):
        sentence = "synonyms-removed" if changed else "synonyms-unknown"
    else:
        sentence = "synonyms-added" if changed else "synonyms-known"
    return words.rich(sentence, pair=neutralize_links(f"{word} = {meaning}"))


def synonym_routes() -> Router:
    """Router of /synonyms."""
    router = Router(name="synonyms")
    router.message.register(_on_synonyms, ChatCommand("synonyms", chats=PRIVATE), flags=ADMINS_ONLY)
    return router
