"""Ask the posts: open the doors, put a question, get a cited answer."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rag_core.answering import answer
    from rag_core.errors import RagError
    from rag_core.rag import Rag, open_rag
    from rag_core.settings import RagSettings
    from rag_core.types import Answer, Question, Viewer

__all__ = ["Answer", "Question", "Rag", "RagError", "RagSettings", "Viewer", "answer", "open_rag"]

_ROOMS = {"answer": "answering", "RagError": "errors", "Rag": "rag", "open_rag": "rag", "RagSettings": "settings"}


def __getattr__(name: str) -> Any:
    """Open a room when something of it is asked for (PEP 562): a child that reads an export needs no recipes."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"rag_core.{_ROOMS.get(name, 'types')}"), name)
