"""Titled channel: "what is new at owl hill" asks for the posts of the channel that has these words in its title."""

from __future__ import annotations

from rag_core.engine import Engine
from rag_core.planning.filters import match_channel_name
from rag_core.storage.channels import load_channels
from rag_core.text.tokens import fold_case
from rag_core.types import Viewer


async def find_titled_channel(words: str, viewer: Viewer, rag: Engine) -> int | None:
    """Find the channel whose title has all the words, of those that the viewer may read; None if none or several."""
    known = await load_channels(rag.archive)
    readable = {chat: known[chat] for chat in viewer.channels if chat in known}
    found = match_channel_name(fold_case(words), readable)
    return found.pop() if len(found) == 1 else None
