"""Handlers of /synonyms: words that mean the same, entered by bot admins for all who read the channel."""

from itertools import groupby

from aiogram import Router
from aiogram.filters import CommandObject
from aiogram.types import Message
from aiogram.utils.formatting import Code, Text, as_list

from bot import access
from bot.app_context import AppContext
from bot.i18n import Translator
from bot.middlewares import ADMINS_ONLY, PRIVATE, ChatCommand
from bot.telegram.recheck import ShownContent, View
from bot.views.answer import format_channel_title
from bot.views.format import neutralize_links
from rag_core.storage.channels import Synonym, add_synonym, list_synonyms, remove_synonym
from rag_core.text.tokens import tokenize

router = Router()

_MAX_WORD, _MAX_LISTED_PAIRS = 60, 100  # of synonyms
_MINUS = ("-", "−", "–")


@router.message(ChatCommand("synonyms", chats=PRIVATE), flags=ADMINS_ONLY)
async def _on_synonyms(message: Message, command: CommandObject, context: AppContext, words: Translator) -> None:
    """List the pairs, add one, or after a minus remove one: in the channel that is named first, or in all."""
    reader = access.get_reader(message)
    known = await access.get_readable_channels(context.admins, reader)
    given = (command.args or "").strip()
    how = words.rich("synonyms-how", example=Code(f"/synonyms {words('synonyms-example')}"))
    if not given:
        stored = await list_synonyms(context.archive, known)
        lines = []
        for (word, meaning), rows in groupby(stored, key=lambda synonym: (synonym.word, synonym.meaning)):
            holding = [known[row.chat_id] for row in rows]
            of = "" if len(holding) == len(known) else ", ".join(format_channel_title(one, words) for one in holding)
            lines.append(Text("• ", neutralize_links(f"{word} = {meaning}" + (f" ({of})" if of else ""))))
        text = as_list(words("synonyms-title", count=len(lines)), *lines[:_MAX_LISTED_PAIRS], "", how)
    else:
        name = given.split()[0] if given.startswith("@") else ""
        chosen = [one for one in known if not name or (known[one].username or "").casefold() == name[1:].casefold()]
        removes = given.removeprefix(name).strip().startswith(_MINUS)
        pair = [" ".join(side.casefold().split()) for side in given.removeprefix(name).lstrip("-−– ").split("=")]
        if not chosen:
            text = words.rich("reindex-unknown", name=neutralize_links(name))
        elif len(pair) != 2 or pair[0] == pair[1] or not all(tokenize(one) and len(one) <= _MAX_WORD for one in pair):
            text = how
        else:
            word, meaning = pair
            changed = False
            for chat_id in chosen:
                if removes:
                    for sides in ((word, meaning), (meaning, word)):
                        changed |= await remove_synonym(context.archive, Synonym(chat_id, *sides))
                else:
                    changed |= await add_synonym(context.archive, Synonym(chat_id, word, meaning), reader.user_id)
            if changed:
                context.rag.caches.forget()
                context.worker.forget_answers()
            done = ("synonyms-removed", "synonyms-unknown") if removes else ("synonyms-added", "synonyms-known")
            sentence = done[0] if changed else done[1]
            text = words.rich(sentence, pair=neutralize_links(f"{word} = {meaning}"))
    await View(text, ShownContent(counted=frozenset(known))).send(message.answer, reader, context.admins)
