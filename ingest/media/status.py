"""Media status: how many files wait, were read, or could not be read and why; how long reading the rest takes."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from rag_core.storage import Archive, media
from rag_core.types import DOCUMENT, PICTURE, VOICE

# Seconds for a file and for a second of a recording, on one of two cores beside the bot (deploy/EVALUATION.md).
_SECONDS_PER_FILE = {PICTURE: 1.0, DOCUMENT: 1.0, VOICE: 1.0}
_SECONDS_PER_VOICE_SECOND = 0.15
_USUAL_VOICE_SECONDS = 30  # where the length is not known
KINDS = (PICTURE, VOICE, DOCUMENT)


@dataclass(slots=True)
class MediaStatus:
    """Files of one kind; `failed` counts them by their problem, `seconds` is the time that the waiting ones take."""

    waiting: int = 0
    read: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def files(self) -> int:
        """All of them."""
        return self.waiting + self.read + sum(self.failed.values())


async def load_media_status(archive: Archive) -> dict[str, MediaStatus]:
    """Status by kind, of all approved channels; kinds without a file are left out."""
    status: dict[str, MediaStatus] = {}
    for count in await media.count_media(archive):
        one = status.setdefault(count.kind, MediaStatus())
        if count.state == "waiting":
            one.waiting += count.files
            one.seconds += _SECONDS_PER_FILE[count.kind] * count.files
            if count.kind == VOICE:
                one.seconds += _SECONDS_PER_VOICE_SECOND * (count.seconds or _USUAL_VOICE_SECONDS * count.files)
        elif count.state == "read":
            one.read += count.files
        else:
            one.failed[count.problem] = count.files
    return {kind: status[kind] for kind in KINDS if kind in status}


def estimate_minutes(status: Iterable[MediaStatus]) -> int:
    """Whole minutes that reading what waits takes, at least one."""
    return max(1, round(sum(one.seconds for one in status) / 60))
