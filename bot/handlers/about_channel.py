"""Handlers of /about: what a channel writes about, how often and since when.

A channel that the asker may not read answers as one that does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import tzinfo

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Bold, Text, as_list

from bot import access
from bot.access import get_reader
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ChatCommand
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts, recheck_before_sending
from bot.views.answer import link_channel_title
from bot.views.message_formatting import neutralize_links
from rag_core.engine import Engine
from rag_core.retrieval.channel_answers import profile_channel
from rag_core.storage.channels import find_channel
from rag_core.types import Channel, Viewer

router = Router()


async def render_profile(
    said: str, readable: Mapping[int, Channel], viewer: Viewer, rag: Engine, words: Translator, zone: tzinfo
) -> View:
    """Render the profile of the readable channel that is meant; words weigh as in all channels of the viewer.

    Raises ArchiveUnavailable.
    """
    channel = find_channel(said, readable)
    if channel is None:
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
            ("about-namings", [f"{noun} — {name}" for noun, name in found.namings]),
        )
        lists = [Text(Bold(words(head)), " ", neutralize_links(", ".join(one))) for head, one in listed if one]
        blocks += [as_list(*lists)] if lists else []
        if len(found.read) < found.posts and lists:
            blocks.append(Text(words("about-read", count=len(found.read))))
    content = ShownContent(channels=frozenset({channel.chat_id}), counted=viewer.channels)
    content |= collect_content_of_posts(found.read if found else ())
    return View(as_list(*blocks, sep="\n\n"), content)


@router.message(ChatCommand("about", addressed_only=True))
async def _on_about(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    reader = get_reader(message)
    readable = await access.get_readable_channels(context.admins, reader)
    viewer = Viewer(reader.user_id, frozenset(readable))
    zone = await context.load_zone(message.chat.id)
    view = await render_profile((command.args or "").strip(), readable, viewer, context.rag, words, zone)
    with recheck_before_sending(view.content, reader, context.admins):
        await message.reply(**view.as_kwargs())
