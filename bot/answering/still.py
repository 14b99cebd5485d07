"""Whether an answer that did not arrive in an earlier life of the bot may still be sent as it is."""

from __future__ import annotations

import json

from bot import access, kept
from bot.rights import Rights
from rag_core.doors.archive import Archive, posts
from rag_core.doors.archive.questions import Asked

__all__ = ["still_stands"]


async def still_stands(whole: str | None, asked: Asked, archive: Archive, rights: Rights) -> bool:
    """True where all that is cited may be read by the asker and is worded as it was. Raises ArchiveUnavailable."""
    if whole is None or not json.loads(whole):
        return True  # only a sentence of ours
    cited = kept.read(whole).cited
    viewer = await access.viewer_for(
        archive, rights, user_id=asked.user_id, chat_id=asked.chat_id, private=asked.private
    )
    now = await posts.get(archive, [one.key for one in cited])
    # a refusal shows the nearest posts, which are not kept: it is worked out anew
    return bool(cited) and all(
        one.key.chat_id in viewer.channels and one.key in now and kept.mark(now[one.key].text) == one.mark
        for one in cited
    )
