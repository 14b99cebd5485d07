"""Exception tree: all failures that are planned for.

Any other exception is a bug: it is not caught, is logged with its traceback, and the reader gets a general sentence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self


class RagError(Exception):
    """Failure that was planned for; `reason` is one plain sentence that says what to do, in English.

    `code` is the id of the sentence in catalogues of translations ("" where readers never see it), `parameters` are
    the values in it. With parameters the given reason is a template for `str.format`.
    """

    def __init__(self, reason: str, *, code: str = "", **parameters: object) -> None:
        self.reason = reason.format(**parameters) if parameters else reason
        self.code = code
        self.parameters: Mapping[str, str | int] = {
            name: value if isinstance(value, int) else str(value) for name, value in parameters.items()
        }
        super().__init__(self.reason)

    def dump(self) -> tuple[str, str, dict[str, str | int]]:
        """Reason, code and parameters, for another process."""
        return self.reason, self.code, dict(self.parameters)

    @classmethod
    def load(cls, dumped: Sequence[Any]) -> Self:
        """Restore an error from what `dump` gave; the class is the caller's."""
        exc = cls(dumped[0])
        exc.code, exc.parameters = dumped[1], dumped[2]
        return exc


class StageTimeout(RagError):
    """Stage passed its budget."""


class ArchiveUnavailable(RagError):
    """SQLite cannot be read or written."""


class ArchiveVersionUnknown(ArchiveUnavailable):
    """Archive written by a version of Citegram that this one does not know."""


class BackupFailed(RagError):
    """Backup cannot be made or restored; the archive is unchanged."""


class IndexUnavailable(RagError):
    """Retriever cannot answer: never shown as "nothing found"."""


class VectorsUnavailable(IndexUnavailable):
    """Vector index cannot be opened, read or written, or was built with another model."""


class QdrantGone(VectorsUnavailable):
    """Qdrant server does not answer or work now; it may again for the next question."""


class CollectionLost(QdrantGone):
    """Qdrant server has lost a collection."""


class HistoryUnavailable(RagError):
    """Telegram shows no history now; nothing is known of any post. `lasting`: asking again does not help."""

    lasting = False


class ImportRefused(RagError):
    """File cannot be imported, or may not be."""


class VectorRefused(RagError, ValueError):
    """Vector is missing, not finite, zero or of the wrong length; nothing was written."""


class RebuildRefused(RagError):
    """Rebuild of the indexes cannot begin, or was not completed; the old indexes stay in use."""


class ModelUnavailable(RagError):
    """Model is missing, cannot be loaded, or is not the expected one."""


class GenerationFailed(RagError):
    """Language model stopped, or could not do what it was asked; it may work again for the next question."""


class ModelTooSlow(GenerationFailed):
    """Work that the model cannot end in its stage's time on this machine: it was not begun. Readers are not told."""


class ModelLeftAlone(GenerationFailed):
    """Model that hung a while ago, and is not asked again yet."""


class RecipeFailed(RagError):
    """Recipe was not completed: something it needs is missing, or its steps are used up. `direct` answers instead."""


class ToolFailed(RagError):
    """Tool of a model cannot do what it was asked; the sentence is for the model."""


class SettingsWrong(RagError):
    """Setting that cannot be used."""


@contextmanager
def translate_errors(
    ours: type[RagError],
    *theirs: type[Exception],
    say: str = "{}",
    code: str = "",
    **parameters: object,
) -> Iterator[None]:
    """Translate exceptions of a library into `ours`; `{}` in `say` is the text of the exception.

    With a `code`, `say` is a template with the parameters, and with `{said}` for the text of the exception.
    """
    try:
        yield
    except theirs as exc:
        if code:
            raise ours(say, code=code, said=exc, **parameters) from exc
        raise ours(say.replace("{}", str(exc))) from exc
