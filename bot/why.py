"""/why: what an answer stands on, told to whom it was given: its posts, what was edited in them, what was left out.

Access is worked out anew: a channel that is closed to this reader by now is not named at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from aiogram import Bot, F, Router
from aiogram.filters import Command, CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Text, as_list

from bot import access, kept
from bot.access import is_admin, reader_of
from bot.changes import changed
from bot.desk import Desk
from bot.inert import styled
from bot.kept import Cited, Kept
from bot.pages import pages
from bot.plain import Shown, dated, plain
from bot.recheck import Reader, rechecked, take_basis
from bot.render import titled
from bot.stages_told import stages_told
from bot.words import Words, words_for
from rag_core.doors.archive import Archive, channels, posts, questions
from rag_core.doors.archive.pointing import pointed, with_albums
from rag_core.doors.archive.posts import Version
from rag_core.doors.archive.questions import Answered
from rag_core.types import Channel, Post, PostKey, Viewer, link_of

__all__ = ["explained", "meant", "routes"]

# Posts named that were found and not cited: more of them explain nothing.
_MOST_OTHERS = 5
# Of the question, to tell which one it was.
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What is looked up for one explanation: `stored` are the posts that this reader may see now."""

    archive: Archive
    channels: Mapping[int, Channel]
    stored: Mapping[PostKey, Post]
    shown: Shown
    answered_at: datetime

    def named(self, key: PostKey, post: Post) -> Text:
        """Who speaks in a post, linked, and when."""
        channel = self.channels.get(key.chat_id)
        who = titled(channel, post.origin, link_of(key, channel), self.shown.words)
        return Text(who, " · ", dated(post.date, post.edited, self.shown))


async def explained(asked: Answered, viewer: Viewer, archive: Archive, shown: Shown) -> Text:
    """What the answer to a question stands on, as far as this viewer may read it now."""
    given = kept.read(asked.answer)
    cited = [(number, one) for number, one in enumerate(given.cited, 1) if one.key.chat_id in viewer.channels]
    others = [key for key in given.others if key.chat_id in viewer.channels]
    stored = await posts.get(archive, [*(one.key for _, one in cited), *others])
    shelf = _Shelf(archive, await channels.known(archive), stored, shown, asked.answered_at)
    words, asked_for = shown.words, " ".join(plain(asked.text).split())
    asked_for = asked_for if len(asked_for) <= _LONGEST else f"{asked_for[:_LONGEST].rstrip()}…"
    blocks: list[Text] = [styled(Bold, words("why-question", question=asked_for))]
    if sources := [await _source(number, one, shelf) for number, one in cited]:
        blocks.append(Text(Bold(words("sources", count=len(sources))), "\n", sources[0]))
        blocks += sources[1:]
    blocks += _others([key for key in others if key in stored], given, shelf)
    if len(blocks) == 1:
        blocks.append(Text(words("why-closed" if given.cited or given.others else "why-nothing-found")))
    if notes := dict.fromkeys(words("shortfall", stage=stage) for stage in given.shortfalls):
        blocks.append(Italic("\n".join(notes)))
    return as_list(*blocks, sep="\n\n")


async def _source(number: int, one: Cited, shelf: _Shelf) -> Text:
    post, words = shelf.stored.get(one.key), shelf.shown.words
    if post is None:
        channel = shelf.channels.get(one.key.chat_id)
        title = plain(channel.title) if channel else ""
        date = words.date(one.date, shelf.shown.zone)
        return Text(f"{number}. ", words("why-gone", title=title or words("unnamed-channel"), date=date))
    line = Text(f"{number}. ", shelf.named(one.key, post))
    edits = await _edits(one, post, shelf) if post.edited else []
    return as_list(line, *edits)


async def _edits(one: Cited, post: Post, shelf: _Shelf) -> list[Text]:
    """What was changed in a post, or in any of its album."""
    edits = []
    keys = await with_albums(shelf.archive, one.key) if post.album else (one.key,)
    for key, now in (await pointed(shelf.archive, keys)).items():
        chain = [Version(now.stamp, now.text), *await posts.versions(shelf.archive, key)]
        edits += [] if now.deleted or len(chain) == 1 else await _told(chain, one.mark, shelf)
    return edits or [Text(shelf.shown.words("why-unknown-before"))]


async def _told(chain: Sequence[Version], cited: str, shelf: _Shelf) -> list[Text]:
    """What was changed after the answer, and what last before it, in texts of which the newest is first."""
    then = next((place for place, version in enumerate(chain) if kept.mark(version.text) == cited), None)
    # The cited text is not known where it was that of several captions; then the last edit is what can be shown.
    if then is None:
        return [await _edit("why-changed", chain[1], chain[0], shelf)]
    edits = []
    if then > 0:
        edits.append(await _edit("why-changed-after", chain[then], chain[0], shelf))
    if then + 1 < len(chain):
        # A text may have been taken back after the answer: then it is the cited one again.
        before = chain[then].stamp <= shelf.answered_at
        edits.append(
            await _edit("why-changed-before" if before else "why-changed", chain[then + 1], chain[then], shelf)
        )
    return edits


async def _edit(said: str, old: Version, new: Version, shelf: _Shelf) -> Text:
    words = shelf.shown.words
    head = words(said, date=words.date(new.stamp, shelf.shown.zone))
    # Two long texts without anything in common take a while.
    difference, more = await asyncio.to_thread(changed, old.text, new.text)
    if not difference.as_kwargs()["text"]:
        difference = Text(words("why-changed-spaces"))
    tail = [Text(words("why-changed-more", more=more))] if more else []
    return Text(head, "\n", BlockQuote(as_list(difference, *tail)))


def _others(keys: Sequence[PostKey], given: Kept, shelf: _Shelf) -> list[Text]:
    """The posts that were found and not cited; of a refusal, all there were."""
    words = shelf.shown.words
    if not keys:
        return []
    lines = [Text("• ", shelf.named(key, shelf.stored[key])) for key in keys[:_MOST_OTHERS]]
    if (more := len(keys) - _MOST_OTHERS) > 0:
        lines.append(Text(words("titles-more", more=more)))
    said = words("why-others") if given.cited else words("why-refused", count=len(keys))
    return [Text(said, "\n", ExpandableBlockQuote(as_list(*lines)))]


async def _on_why(message: Message, command: CommandObject, bot: Bot, desk: Desk, words: Words) -> None:
    admin = message.chat.type == "private" and is_admin(message, desk.admins)
    if admin and command.args:
        stages = await stages_told(command.args.strip(), desk.archive, words)
        await message.reply(**(stages or Text(words("why-trace-unknown", why="/why"))).as_kwargs())
        return
    asked = await meant(message, bot, desk.archive)
    if isinstance(asked, str):
        # In a group a bare command may be meant for another bot.
        if message.chat.type == "private" or command.mention:
            await message.reply(words(asked, why="/why"), allow_sending_without_reply=True)
        return
    where = {"user_id": reader_of(message), "chat_id": message.chat.id}
    private = message.chat.type == "private"
    viewer = await access.viewer_for(desk.archive, desk.admins, **where, private=private)
    basis = await take_basis(kept.read(asked.answer).posts, viewer, desk.archive)
    shown = Shown(words_for(asked.lang), desk.settings.bot.zone, group=not private)
    said = await explained(asked, viewer, desk.archive, shown)
    if admin and (stages := await stages_told(kept.read(asked.answer).trace_id, desk.archive, words)):
        said = as_list(said, stages, sep="\n\n")
    first, *rest = pages(said)
    with rechecked(basis, Reader(**where, private=private), desk.archive, desk.admins):
        await message.reply(first.text, entities=list(first.entities), allow_sending_without_reply=True)
        for page in rest:
            await message.answer(page.text, entities=list(page.entities))


async def meant(message: Message, bot: Bot, archive: Archive) -> Answered | str:
    """The answer that is asked about; else the id of the sentence that says why there is none."""
    reader, parent = reader_of(message), message.reply_to_message
    # In a topic every message "replies" to its opening.
    if parent is None or parent.forum_topic_created:
        thread = message.message_thread_id if message.is_topic_message else None
        last = await questions.last_answered(archive, bot.id, message.chat.id, reader, thread)
        return last or "why-none"
    asked = await questions.behind(archive, bot.id, message.chat.id, parent.message_id)
    if asked is None:
        return "why-unknown"
    return asked if asked.user_id == reader else "why-not-yours"


def routes() -> Router:
    """Handlers of /why."""
    router = Router(name="why")
    router.message.register(
        _on_why, Command("why", ignore_case=True), F.chat.type.in_({"private", "group", "supergroup"})
    )
    return router
