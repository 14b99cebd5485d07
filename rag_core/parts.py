"""Which parts a question has, how far an answer answers each, and what to ask for what is missing: by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rag_core.costs import Costs
from rag_core.doors.llm import Decoding, LanguageModel, Prompt, finished
from rag_core.errors import GenerationFailed, raised_as
from rag_core.plan.queries import sanitised
from rag_core.prompts import script
from rag_core.quoting import quoted_post, quoted_question
from rag_core.replies import LETTERS, object_in
from rag_core.stage import Run
from rag_core.types import Question, Sentence

__all__ = ["PARTS_GRAMMAR", "Covered", "Part", "parts", "read_parts"]

_MOST, _LONGEST = 3, 120  # parts, characters of a question for what is missing
_TOKENS = 200
_QUESTION = 400  # characters
PARTS_GRAMMAR = "\n".join(
    (
        rf'root ::= "{{\"parts\": [" part (", " part){{0,{_MOST - 1}}} "]}}"',
        rf'part ::= "{{\"state\": \"" state "\", \"ask\": \"" [{LETTERS}]{{0,{_LONGEST}}} "\"}}"',
        'state ::= "FULLY" | "PARTIALLY" | "NOT"',
    )
)


class Covered(StrEnum):
    """How far a part of a question is answered."""

    FULLY = "FULLY"
    PARTIALLY = "PARTIALLY"
    NOT = "NOT"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a question; `ask` would find what is missing, and is empty where nothing is."""

    covered: Covered
    ask: str = ""


class _PartWire(BaseModel):
    model_config = ConfigDict(extra="ignore")

    state: Covered
    ask: str = ""


class _Wire(BaseModel):
    """The reply as it must be."""

    model_config = ConfigDict(extra="ignore")

    parts: list[_PartWire] = Field(min_length=1)


async def parts(question: Question, said: Sequence[Sentence], model: LanguageModel, run: Run) -> tuple[Part, ...]:
    """Judge an answer part by part. To be called in a stage. Raises GenerationFailed, also for nonsense."""
    told = script("parts", question.lang)
    answer = " ".join(sentence.text for sentence in said)
    prompt = Prompt(told.system, f"{quoted_question(question.text[:_QUESTION])}\n{quoted_post(answer)}", told.shots)
    costs = Costs()
    async with run.seated(model, question.viewer.user_id) as seat:
        costs.call()
        stream = seat.stream(
            prompt, Decoding(_TOKENS, temperature=0.0), grammar=PARTS_GRAMMAR, schema=_Wire.model_json_schema()
        )
        end = await finished(stream)
    costs.paid(end.figures)
    found = read_parts(end.text)
    run.note(**costs.noted(), parts=len(found), missing=sum(bool(part.ask) for part in found))
    return found


def read_parts(text: str) -> tuple[Part, ...]:
    """The reply. Raises GenerationFailed."""
    with raised_as(GenerationFailed, ValidationError, say="The model's check has no form."):
        wire = _Wire.model_validate(object_in(text))
    return tuple(_part(one) for one in wire.parts[:_MOST])


def _part(one: _PartWire) -> Part:
    return Part(one.state, "" if one.state is Covered.FULLY else sanitised(one.ask)[:_LONGEST])
