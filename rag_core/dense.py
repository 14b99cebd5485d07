"""The models as they lie on the tray: the dense leg (an embedding model and the store of its vectors), the reranker."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

from rag_core.doors.embed import Embedder, open_embedder
from rag_core.doors.model_folder import here
from rag_core.doors.rerank import Reranker, open_reranker
from rag_core.doors.vectors import Vectors, open_vectors
from rag_core.errors import ModelUnavailable, VectorsUnavailable
from rag_core.models import MODELS, ModelRow, Role, rows_of
from rag_core.settings import RagSettings

__all__ = ["Dense", "chosen", "models_folder", "open_dense", "open_reranking"]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Dense:
    """A model's row, the model, and the vectors it made."""

    model: ModelRow
    embedder: Embedder
    vectors: Vectors

    @property
    def store(self) -> str | None:
        """The identity of the vectors; None where they are on a server that has not answered yet."""
        try:
            return self.vectors.identity
        except VectorsUnavailable:
            return None

    async def close(self) -> None:
        """Let go of both."""
        await self.vectors.close()
        await self.embedder.close()


def models_folder(settings: RagSettings) -> Path:
    """Where models are kept."""
    return settings.models.dir or settings.data.dir / "models"


def chosen(role: Role, name: str, folder: Path) -> ModelRow | None:
    """The model to use: the one named, or with "auto" the best that was pulled; None for none.

    Raises ModelUnavailable for a name that nobody knows.
    """
    if name == "none":
        return None
    if name != "auto":
        rows = rows_of(name)
        return next((row for row in rows if row.role is role), rows[0])
    found = [row for row in MODELS if row.role is role and here(row, folder / row.name)]
    return found[-1] if found else None  # the table goes from small to good


async def open_reranking(settings: RagSettings) -> Reranker | None:
    """Load the reranker; None where none is chosen or pulled. Raises ModelUnavailable."""
    folder = models_folder(settings)
    row = chosen(Role.RERANKER, settings.models.reranker, folder)
    if row is None:
        return None
    if row.role is not Role.RERANKER:
        raise ModelUnavailable(f"{row.name} is no reranker: choose another one for MODELS__RERANKER.")
    return await open_reranker(row, folder / row.name, settings.models.threads, settings.models.provider)


async def open_dense(settings: RagSettings) -> Dense | None:
    """Load the embedding model and open its store; None where no model is chosen or pulled.

    Raises ModelUnavailable, VectorsUnavailable.
    """
    folder = models_folder(settings)
    row = chosen(Role.EMBEDDER, settings.models.embedder, folder)
    if row is None:
        return None
    if row.role is not Role.EMBEDDER:
        raise ModelUnavailable(f"{row.name} is no embedding model: choose another one for MODELS__EMBEDDER.")
    embedder = await open_embedder(row, folder / row.name, settings.models.threads, settings.models.provider)
    try:
        vectors = await open_vectors(
            settings.data.dir / "vectors" / row.name,
            model=row.name,
            dimension=embedder.dimension,
            qdrant=settings.qdrant,
            patient=True,
        )
    except BaseException:
        await embedder.close()
        raise
    return Dense(row, embedder, vectors)
