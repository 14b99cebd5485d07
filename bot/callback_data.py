"""Callback tokens: short keyed hashes in the data of buttons, which only this archive can make.

With the archive's `identity` as the key nobody else can make a token. It stays the same after a restart.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b

__all__ = ["make_callback_token"]


def make_callback_token(said: str, key: str = "", size: int = 6) -> str:
    """Make a token for callback data: four characters for every three bytes of `size`, the same after a restart.

    With an archive's `identity` as the key it cannot be forged; without a key anybody can compute it.
    """
    return urlsafe_b64encode(blake2b(said.encode(), key=key.encode(), digest_size=size).digest()).decode()
