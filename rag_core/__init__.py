"""Question answering over archived posts: open an engine, put a question, get an answer with citations.

In an `async` function, or in `python -m asyncio`:

    from datetime import UTC, datetime
    from rag_core import Question, RagSettings, Viewer, answer_question, open_engine

    viewer = Viewer(user_id=1, channels=frozenset({-1001000000001}))  # the channels to read: there is no "all"
    async with open_engine(RagSettings()) as rag:  # the folder data/, whose indexes the bot has saved
        question = Question("When does the ferry leave?", "en", datetime.now(UTC), viewer)
        answer = await answer_question(question, rag)
        for sentence in answer.sentences:  # none is a refusal
            print(sentence.text, *(answer.link(citation.post) for citation in sentence.citations))
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Before numpy is imported: its matrices here are small, and threads that spin for them took half of the processor time
# of an answer. They would also take memory for every processor core, of which a process that imports has little.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if TYPE_CHECKING:
    from rag_core.answer import answer_question
    from rag_core.engine import Engine, open_engine
    from rag_core.errors import RagError
    from rag_core.settings import RagSettings
    from rag_core.types import Answer, Question, Viewer

__all__ = ["Answer", "Engine", "Question", "RagError", "RagSettings", "Viewer", "answer_question", "open_engine"]

_MODULES = {
    "answer_question": "answer",
    "RagError": "errors",
    "Engine": "engine",
    "open_engine": "engine",
    "RagSettings": "settings",
}


def __getattr__(name: str) -> Any:
    """Import lazily (PEP 562): a child process that reads an export needs no recipes."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"rag_core.{_MODULES.get(name, 'types')}"), name)
