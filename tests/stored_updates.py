"""Updates stored as the bot stores them, from what a test made."""

from rag_core.storage import raw_updates
from rag_core.storage.raw_updates import encode_update


async def save_updates(archive, bot_id, raws, wrong=None):
    """Save raw updates; those with an error in `wrong` are quarantined."""
    await raw_updates.save_updates(archive, bot_id, [encode_update(raw) for raw in raws])
    await raw_updates.quarantine_updates(archive, bot_id, wrong or {})
