"""Embedder offer: a better embedder than that of the archive's vectors, or one that takes its place, and what it costs.

Posts a second are of posts of 390 characters on two processors, and the memory is that of a process that answers; of
models from a hub both are estimated from their size.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import dropwhile

from rag_core.models.active_models import (
    apply_model_choices,
    find_live_model,
    get_models_folder,
    list_embedders,
    select_embedder,
)
from rag_core.models.catalog import MODELS
from rag_core.settings import RagSettings
from rag_core.storage import Archive, index_state, posts
from rag_core.storage.chat_and_admin_settings import load_choices

# model -> posts a second, megabytes
_COSTS = {"e5-small-centred": (30.0, 350), "multilingual-e5-small": (20.0, 550), "bge-m3": (2.0, 1600)}
_OTHER_COST = (100.0, 300)


@dataclass(frozen=True, slots=True)
class EmbedderOffer:
    """Embedder that may take the place of `live`, or does (`asked`): posts embedded of all, and what the rest costs."""

    name: str
    live: str
    asked: bool
    done: int
    total: int
    rate: float
    megabytes: int

    @property
    def minutes(self) -> int:
        """Minutes to embed the posts that are left, on two processors."""
        return max(1, round((self.total - self.done) / self.rate / 60))

    def __str__(self) -> str:
        if self.asked:
            return (
                f"{self.name}: {self.done:,} of {self.total:,} posts are embedded, about {self.minutes} min while the "
                f"bot runs; until then {self.live} answers (citegram reindex does it at once)."
            )
        return (
            f"{self.name} is here and finds more than {self.live}, which made the vectors: citegram models use "
            f"{self.name} embeds {self.total:,} posts anew beside them (about {self.minutes} min at {self.rate:.0f} "
            f"posts/s, {self.megabytes} MB of memory)."
        )


async def find_embedder_offer(settings: RagSettings, archive: Archive) -> EmbedderOffer | None:
    """Find the embedder that was asked for, or a better one that was pulled; None where the live one stays.

    Raises ArchiveUnavailable, ModelUnavailable.
    """
    live = await find_live_model(settings, archive)
    wanted = apply_model_choices(settings, await load_choices(archive))
    row = select_embedder(wanted, live) if live else None
    asked = row is not None and row.name != live
    if not asked:
        better = dropwhile(lambda one: one.name != live, MODELS) if row and wanted.models.embedder == "auto" else ()
        present = list_embedders(get_models_folder(settings))
        row = next((one for one in reversed([*better]) if one in present and one.name != live), None)
    if row is None:
        return None
    begun = await index_state.load_next_vectors(archive)
    mark, last = begun.watermark if begun and begun.model == row.name else 0, await posts.get_last_seq(archive)
    done, left = [await index_state.count_changed_posts(archive, None, *span) for span in ((0, mark), (mark, last))]
    rate, megabytes = _COSTS.get(row.name, _OTHER_COST)
    return EmbedderOffer(row.name, live, asked, done, done + left, rate, megabytes)
