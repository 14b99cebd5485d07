"""Handler of /synonyms: words that mean the same in a channel, entered by bot admins, for all who read the channel."""

from __future__ import annotations

from itertools import groupby

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.context import AppContext
from bot.filters import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.i18n import Translator
from bot.views.answer import format_channel_title
from bot.views.message_text import neutralize_links
from rag_core.storage import channels
from rag_core.storage.channels import Synonym, add_synonym, list_synonyms, remove_synonym
from rag_core.text.tokens import tokenize
from rag_core.types import Channel

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


def routes() -> Router:
    """Router of /synonyms."""
    router = Router(name="synonyms")
    router.message.register(_on_synonyms, ChatCommand("synonyms", chats=PRIVATE), flags=ADMINS_ONLY)
    return router
