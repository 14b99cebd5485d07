"""The offline embedding model, for measures that want both legs."""

import asyncio
import sys
from pathlib import Path

from rag_core.errors import ModelUnavailable
from rag_core.models.catalog import ModelTier, find_models
from rag_core.models.download import pull_model

# Where pytest keeps it too: it is fetched once.
_CACHE = Path(__file__).parents[2] / ".pytest_cache" / "d" / "models"


def offline_models(asked):
    """The models' folder: the one asked for, else a cache it is fetched into; None for "none", and where it fails."""
    if asked is not None:
        return None if asked == "none" else Path(asked).resolve()
    try:
        asyncio.run(pull_model(find_models(ModelTier.TINY)[0], _CACHE))
    except ModelUnavailable as exc:
        print(f"Measured without the dense leg: {exc.reason}", file=sys.stderr)
        return None
    return _CACHE
