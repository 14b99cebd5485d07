"""Named sets of channels: "in work: what is new?" asks only the channels of the chat's set "work"."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import NamedTuple

from rag_core.storage import Archive
from rag_core.storage.users import load_channel_sets
from rag_core.text.tokens import tokenize
from rag_core.types import Viewer

MAX_NAME_LENGTH = 30
_PREFIX = re.compile(rf"([^\n:]{{1,{MAX_NAME_LENGTH + 10}}}):\s*(?=\S)")  # with a preposition, which is no term


class NarrowedQuestion(NamedTuple):
    """Question without the name of its set, and its viewer with the channels of the set that they may read."""

    text: str
    viewer: Viewer


async def narrow_to_channel_set(archive: Archive, chat_id: int, text: str, viewer: Viewer) -> NarrowedQuestion:
    """Narrow a question that begins with the name of a set of this chat; any other question stays as it is."""
    found = _PREFIX.match(text)
    if found and (asked := tokenize(found[1])):
        for name, chosen in (await load_channel_sets(archive, chat_id)).items():
            if tokenize(name) == asked:  # "в работе" names the set "работа"
                return NarrowedQuestion(text[found.end() :], replace(viewer, channels=viewer.channels & chosen))
    return NarrowedQuestion(text, viewer)
