"""Exception tree: all failures that are planned for.

RagError                     shown to a reader or an admin; `reason` is the whole sentence
├── StageTimeout             a stage passed its budget
├── ArchiveUnavailable       SQLite cannot be read or written
│   ├── ArchiveTooNew        written by a later version of Citegram
│   └── ArchiveNotUpdated    the migration to this version failed; the archive is unchanged
├── BackupFailed             a backup cannot be made or restored
├── IndexUnavailable         a retriever cannot answer: never shown as "nothing found"
│   └── VectorsUnavailable   the vector index or the Qdrant server
│       └── QdrantGone       the server does not answer or work now, and may again
├── ImportRefused            a file that cannot be imported, or may not be
├── VectorRefused            a vector that is missing, not finite, zero or of the wrong length (also a ValueError)
├── RebuildRefused           a rebuild of the indexes that cannot begin, or was not completed
├── ModelUnavailable         a model is missing, cannot be loaded, or is not the expected one
├── RecipeFailed             a recipe that was not completed: `direct` answers instead
├── GenerationFailed         a language model stopped, or could not do what it was asked
└── SettingsWrong            a setting that cannot be used

Any other exception is a bug: it is not caught, is logged with its traceback, and the reader gets a general sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = [
    "ArchiveNotUpdated",
    "ArchiveTooNew",
    "ArchiveUnavailable",
    "BackupFailed",
    "GenerationFailed",
    "ImportRefused",
    "IndexUnavailable",
    "ModelUnavailable",
    "QdrantGone",
    "RagError",
    "RebuildRefused",
    "RecipeFailed",
    "SettingsWrong",
    "StageTimeout",
    "VectorRefused",
    "VectorsUnavailable",
    "translate_errors",
]


class RagError(Exception):
    """A failure that was planned for; carries one plain sentence that says what to do."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class StageTimeout(RagError):
    """A stage passed its budget."""


class ArchiveUnavailable(RagError):
    """SQLite cannot be read or written."""


class ArchiveTooNew(ArchiveUnavailable):
    """The archive was written by a later version of Citegram."""


class ArchiveNotUpdated(ArchiveUnavailable):
    """The archive's tables could not be changed for this version; it is as it was."""


class BackupFailed(RagError):
    """A backup cannot be made or put back; the archive is as it was."""


class IndexUnavailable(RagError):
    """A search leg cannot answer."""


class VectorsUnavailable(IndexUnavailable):
    """The vector index cannot be opened, read or written, or was built with another model."""


class QdrantGone(VectorsUnavailable):
    """The Qdrant server does not answer or does not work now; the next question may find it well again."""


class ImportRefused(RagError):
    """The file cannot be imported, or may not be."""


class VectorRefused(RagError, ValueError):
    """A vector is missing, not finite, zero or of the wrong length; nothing was written."""


class RebuildRefused(RagError):
    """A rebuild of the indexes cannot begin, or did not come to its end; the old ones are in use."""


class ModelUnavailable(RagError):
    """A model is not here, cannot be loaded, or is not what it should be."""


class GenerationFailed(RagError):
    """A language model went away, or could not do what it was asked; the next question may find it well again."""


class RecipeFailed(RagError):
    """A recipe cannot come to its end: it lacks what it needs, or has used up its steps."""


class SettingsWrong(RagError):
    """A setting cannot be used."""


def _always_true() -> bool:
    return True


@contextmanager
def translate_errors(
    ours: type[RagError], *theirs: type[Exception], say: str = "{}", when: Callable[[], bool] = _always_true
) -> Iterator[None]:
    """Translate foreign exceptions at a door; `say` is the sentence, `{}` in it the foreign text."""
    try:
        yield
    except theirs as exc:
        if not when():
            raise
        raise ours(say.format(exc)) from exc
