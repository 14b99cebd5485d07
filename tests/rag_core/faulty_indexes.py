"""Both ways of search, which break, keep somebody waiting, or find what they are told to."""

import asyncio
from dataclasses import replace

import numpy as np

from rag_core.errors import IndexUnavailable, VectorsUnavailable
from rag_core.index.lexical_index import LexicalIndex
from rag_core.index.vector_store import StoreInfo
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import find_models
from rag_core.run import Budgets


class BrokenLexical(LexicalIndex):
    def __init__(self, failure=None):
        super().__init__()
        self.failure = failure or IndexUnavailable("The index cannot be read.")

    def search(self, *_):
        raise self.failure


class Meaning:
    """An embedding model and a store of vectors in one; `fails` is what of the store is down: search or vectors."""

    about, revision = StoreInfo("meaning", "tiny", 2), 0

    def __init__(self, *found, pause=0.0, fails=""):
        self.found, self.pause, self.fails = found, pause, fails
        self.asked = []

    def has_word(self, word):
        return True

    async def query(self, text):
        await asyncio.sleep(self.pause)
        return np.ones(2, np.float32)

    async def search(self, vector, only, n):
        self.asked.append(only)
        if self.fails == "search":
            raise VectorsUnavailable("The vectors cannot be read.")
        return [(place, 0.9) for place in self.found]

    async def vectors_of(self, places):
        if self.fails == "vectors":
            raise VectorsUnavailable("The vectors cannot be read.")
        return {place: np.ones(2, np.float32) for place in places}


class Compass:
    """An embedding model that knows one direction."""

    def has_word(self, word):
        return True

    async def query(self, text):
        return np.array([1, 0], np.float32)


def with_meaning(library, meaning, **budgets):
    """Search the library by this meaning too, with these budgets."""
    dense = DenseIndex(find_models("tiny")[0], meaning, meaning)
    library.rag = replace(library.rag, dense=dense, budgets=Budgets(**budgets) if budgets else library.rag.budgets)
