"""How many independent sources say something, and who said it first: copies, forwards and a channel's repeats once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rag_core.compose import Dated, fingerprint, in_order
from rag_core.doors.archive import copies
from rag_core.doors.archive.copies import Copies
from rag_core.rag import Rag
from rag_core.types import Channel, Passage, PostKey, Viewer

__all__ = ["Origins", "origins"]


@dataclass(frozen=True, slots=True)
class Origins:
    """How many independent sources there are, and the first post of them."""

    count: int = 0
    earliest: PostKey | None = None


async def origins(passages: Sequence[Passage], viewer: Viewer, known: Mapping[int, Channel], rag: Rag) -> Origins:
    """Of posts that all say the same thing, in whatever words. Raises ArchiveUnavailable."""
    if not passages:
        return Origins()
    families = await copies.known(rag.archive, [passage.key for passage in passages], viewer.channels)
    groups: list[set[object]] = []
    for passage in passages:
        marks = _marks(passage, families.get(passage.key), known)
        joined = [group for group in groups if group & marks]
        groups = [group for group in groups if not group & marks] + [marks.union(*joined)]
    everyone: dict[PostKey, Dated] = {passage.key: passage for passage in passages}
    for passage in passages:
        if found := families.get(passage.key):
            # one that is only nearly the same may say something else
            everyone |= {one.key: one for one in found.all if one.exact == found.exact}
    return Origins(len(groups), in_order(everyone.values())[0].key)


def _marks(passage: Passage, found: Copies | None, known: Mapping[int, Channel]) -> set[object]:
    """What makes two posts one source: whose words they are, their family of copies, the same text."""
    marks: set[object] = {fingerprint(passage.text), _speaker(passage, known)}
    if found:
        marks.add(found.family)
    return marks - {""}


def _speaker(passage: Passage, known: Mapping[int, Channel]) -> str:
    """The channel that said it: of a forward the one it comes from, by id, else by its name."""
    origin = passage.origin
    if origin is None or origin.chat_id is not None:
        return f"{origin.chat_id if origin else passage.key.chat_id}"
    name = origin.name.casefold()
    return next((f"{key}" for key, channel in known.items() if channel.title.casefold() == name), name)
