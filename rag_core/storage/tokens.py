"""Access tokens of other programs: each stands for a reader, whose rights are looked up with every question.

Only the hash of a token is stored. A token has 256 random bits, so that a plain SHA-256 needs neither salt nor delay.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from secrets import token_urlsafe

from rag_core.storage.db import Archive
from rag_core.storage.post_rows import decode_row, get_unix_time

MAX_TOKENS = 20  # of all admins: a list that fits into one message
_USE_INTERVAL_SECONDS = 3600  # the last use is written again after this time
_HANDLE_LENGTH = 12  # hexadecimal digits of the hash, which name a token in buttons


@dataclass(frozen=True, slots=True)
class AccessToken:
    """Access token: what its admin called it, whose rights it has, who made it, when it was last used (to the hour)."""

    hash: str
    name: str
    user_id: int
    made_by: int
    made_at: datetime
    used_at: datetime | None

    @property
    def handle(self) -> str:
        """Name of the token in buttons."""
        return self.hash[:_HANDLE_LENGTH]


async def create_token(archive: Archive, name: str, *, user_id: int, made_by: int) -> str | None:
    """Create a token for a user and return it, the only time that it is known; None where there are too many."""
    secret = f"cg_{token_urlsafe(32)}"
    made = await archive.execute(
        "INSERT INTO access_tokens (hash, name, user_id, made_by, made_at) "
        "SELECT ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM access_tokens) < ?",
        (_hash_token(secret), name, user_id, made_by, get_unix_time(), MAX_TOKENS),
    )
    return secret if made else None


async def find_token(archive: Archive, secret: str) -> AccessToken | None:
    """Find a token, and note that it is used; None for one that is unknown or revoked. Raises ArchiveUnavailable."""
    for row in await archive.rows("SELECT * FROM access_tokens WHERE hash = ?", (_hash_token(secret),)):
        if (row["used_at"] or 0) < get_unix_time() - _USE_INTERVAL_SECONDS:
            sql = "UPDATE access_tokens SET used_at = ? WHERE hash = ?"
            await archive.execute(sql, (get_unix_time(), row["hash"]))
        return decode_row(AccessToken, row)
    return None


async def list_tokens(archive: Archive) -> list[AccessToken]:
    """List all tokens, oldest first."""
    rows = await archive.rows("SELECT * FROM access_tokens ORDER BY made_at, hash")
    return [decode_row(AccessToken, row) for row in rows]


async def revoke_token(archive: Archive, handle: str) -> bool:
    """Revoke a token by its handle, at once; False where there is none."""
    return bool(
        await archive.execute(f"DELETE FROM access_tokens WHERE substr(hash, 1, {_HANDLE_LENGTH}) = ?", (handle,))
    )


def _hash_token(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()
