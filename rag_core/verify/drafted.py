"""A sentence of a model against the posts it names: it may not say otherwise than they do, and each must bear it out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rag_core.support import attributed
from rag_core.types import Passage, Sentence, Source
from rag_core.verify.verdict import Label
from rag_core.verify.weigh import decide

__all__ = ["borne_out"]


def borne_out(sentence: Sentence, sources: Sequence[Source], lang: str) -> Sentence | None:
    """The sentence without the citations that contradict it; cited from another source where none is left.

    None where a source says otherwise and none bears it out. The posts' own words are not looked at.
    """
    if sentence.support == 1.0:
        return sentence
    passages = {(source.passage.key, source.passage.part): source.passage for source in sources}
    cited = {citation.post for citation in sentence.citations}
    labels = {key: _label(sentence.text, passage, lang) for key, passage in passages.items() if passage.key in cited}
    wrong = {post for post, _ in (key for key, label in labels.items() if label is Label.CONTRADICTED)}
    right = {post for post, _ in (key for key, label in labels.items() if label is Label.SUPPORTED)}
    if not wrong - right:
        return sentence
    standing = tuple(citation for citation in sentence.citations if citation.post not in wrong - right)
    if standing and right:
        return replace(sentence, citations=standing)
    others = (source for source in sources if source.passage.key not in cited)
    better = (source for source in others if _label(sentence.text, source.passage, lang) is Label.SUPPORTED)
    return next(filter(None, (attributed(sentence.text, [source]) for source in better)), None)


def _label(text: str, passage: Passage, lang: str) -> Label:
    return decide(text, passage.text, lang).label
