"""What a model takes out of one post for a question: whether it is relevant, and its facts, a sentence each.

Under the grammar only this object can be written. A model that obeys no grammar is read by its two fields wherever
they stand; where not even these are there, the post counts as relevant, and its own words are its facts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.costs import Costs
from rag_core.doors.llm import Decoding, Prompt, Seat, finished
from rag_core.prompts import script
from rag_core.prose import read_line
from rag_core.quoting import quoted_post, quoted_question
from rag_core.replies import LETTERS, object_in
from rag_core.types import Passage, Question

__all__ = ["MAP_GRAMMAR", "Mapped", "mapped", "read_mapped"]

_MOST_FACTS, _LONGEST = 3, 200  # facts of a post, characters of each
_TOKENS = 240
_PASSAGE, _QUESTION = 1400, 400  # characters: about 400 and 100 tokens
MAP_GRAMMAR = "\n".join(
    (
        r'root ::= "{\"relevant\": " (yes | no) "}"',
        r'no ::= "false, \"facts\": []"',
        rf'yes ::= "true, \"facts\": [" fact (", " fact){{0,{_MOST_FACTS - 1}}} "]"',
        rf'fact ::= "\"" [{LETTERS}]{{8,{_LONGEST}}} "\""',
    )
)
_RELEVANT = re.compile(r"[\"']?relevant[\"']?\s*[:=]\s*[\"']?(true|false|yes|no|да|нет)", re.I)
_FACTS = re.compile(r"[\"']?facts[\"']?\s*[:=]\s*\[(.*?)(?:\]|$)", re.I | re.S)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.)+)\"")
_NO = frozenset({"false", "no", "нет"})


@dataclass(frozen=True, slots=True)
class Mapped:
    """What a post gives for a question; `facts` is None where the model's reply did not say."""

    relevant: bool
    facts: tuple[str, ...] | None = None


class _Wire(BaseModel):
    """The reply as it must be."""

    model_config = ConfigDict(extra="ignore", strict=True)

    relevant: bool
    facts: list[str] = Field(default_factory=list)


async def mapped(question: Question, passage: Passage, seat: Seat, costs: Costs) -> Mapped:
    """Ask the model about one post. Raises GenerationFailed."""
    told = script("map", question.lang)
    asked = quoted_question(question.text[:_QUESTION])
    prompt = Prompt(told.system, f"{asked}\n{quoted_post(passage.text[:_PASSAGE], header=passage.header)}", told.shots)
    schema: dict[str, Any] = _Wire.model_json_schema()
    costs.call()
    end = await finished(seat.stream(prompt, Decoding(_TOKENS, temperature=0.0), grammar=MAP_GRAMMAR, schema=schema))
    costs.paid(end.figures)
    return read_mapped(end.text)


def read_mapped(text: str) -> Mapped:
    """The reply: as JSON, else by its two fields, else relevant."""
    try:
        wire = _Wire.model_validate(object_in(text))
    except ValidationError:
        return _salvaged(text)
    return Mapped(wire.relevant, _tidy(wire.facts) if wire.relevant else ())


def _salvaged(text: str) -> Mapped:
    said, listed = _RELEVANT.search(text), _FACTS.search(text)
    if said and said[1].lower() in _NO:
        return Mapped(relevant=False, facts=())
    return Mapped(relevant=True, facts=_tidy(_QUOTED.findall(listed[1])) if listed else None)


def _tidy(facts: Sequence[str]) -> tuple[str, ...]:
    """Facts as sentences: without markup, steps of thought or words of the prompt."""
    found = (one.text for fact in facts[:_MOST_FACTS] for one in read_line(fact[:_LONGEST], ()) if one.text)
    return tuple(dict.fromkeys(found))
