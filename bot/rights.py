"""Who the bot's admins are: those of the settings, and those that they granted it to in the chat."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from bot.members import Members
from bot.settings import is_person
from rag_core.doors.archive import Archive, grants
from rag_core.doors.archive.grants import Grant

__all__ = ["Rights"]


class Rights(Collection[int]):
    """The numeric ids of the admins as they are now, and `members`, which knows who is in which chat."""

    def __init__(self, owners: Collection[int], members: Members) -> None:
        """`owners` are the admins of the settings: nobody can take it from them. `read` comes next."""
        self.owners = tuple(dict.fromkeys(filter(is_person, owners)))
        self.members = members
        self._granted: dict[int, Grant] = {}

    def __contains__(self, user_id: object) -> bool:
        return is_person(user_id) and (user_id in self.owners or user_id in self._granted)

    def __iter__(self) -> Iterator[int]:
        return iter(dict.fromkeys((*self.owners, *self._granted)))

    def __len__(self) -> int:
        return len(dict.fromkeys((*self.owners, *self._granted)))

    @property
    def granted(self) -> Mapping[int, Grant]:
        """Those who were granted it, by their ids."""
        return self._granted

    async def read(self, archive: Archive) -> None:
        """Take over what is kept. Raises ArchiveUnavailable."""
        self._granted = {one.user_id: one for one in await grants.granted(archive) if is_person(one.user_id)}

    async def grant(self, archive: Archive, user_id: int, by: int) -> None:
        """Make somebody an admin. Raises ArchiveUnavailable; then nothing changed. ValueError: no id of a person."""
        if not is_person(user_id):
            raise ValueError(f"{user_id} is no id of a person")
        await grants.grant(archive, user_id, by)
        await self.read(archive)

    async def revoke(self, archive: Archive, user_id: int) -> None:
        """Take it back, at once; an admin of the settings stays one."""
        self._granted.pop(user_id, None)
        await grants.revoke(archive, user_id)
