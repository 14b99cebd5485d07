"""Writing with a model: sentences that can only name posts that exist, each held against its posts before it is shown.

What the model sees of the posts is data between markers they cannot forge; what it writes is guilty until it is
parsed, cleaned, supported and cited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import cast

from rag_core.cite import cite
from rag_core.costs import Costs
from rag_core.doors.llm import Decoding, Generated, Prompt, Seat
from rag_core.doors.llm.contract import Finish
from rag_core.errors import GenerationFailed
from rag_core.prompts import script
from rag_core.prose import Lines, answer_grammar, cleaned, read_line, says
from rag_core.quoting import spoken
from rag_core.rag import Rag
from rag_core.room import Room, room_for
from rag_core.sentences import MOST_SHOWN
from rag_core.stage import Run
from rag_core.support import attributed
from rag_core.types import Draft, Evidence, Question, Sentence, Shortfall, Source
from rag_core.verify.drafted import borne_out

__all__ = ["write"]

_NO_MODEL = "There is no model to write with: set LLM__MODEL."
_NOTHING = "The model wrote no sentence that the posts say: try another model with LLM__MODEL."
_ONE_LEFT_OUT = "1 sentence was left out: the posts do not say it."
_LEFT_OUT = "{} sentences were left out: the posts do not say them."


async def write(question: Question, evidence: Evidence, rag: Rag, run: Run, shown: Evidence | None = None) -> Draft:
    """What the model says from the evidence; without sentences: it says that the posts do not answer.

    `shown` is what it reads instead, by the same numbers; what it writes is held against `evidence` all the same.
    Each kept sentence is told to `run.on_sentence` at once. To be called in a stage. Raises GenerationFailed where
    nothing is left of what it wrote, StageTimeout, ArchiveUnavailable.
    """
    if (model := rag.writer) is None:
        raise GenerationFailed(_NO_MODEL)
    page = _Page(question, rag, run, evidence.numbered())
    try:
        async with run.seated(model, question.viewer.user_id) as seat:
            page.costs.begin()
            room = await room_for(question, shown or evidence, model, rag.settings.llm, seat)
            prompt = await _drafted(room, seat, page) if rag.settings.llm.two_pass else room.prompt
            await _written(prompt, room, seat, page)
    finally:
        run.note(**page.costs.noted(), sentences=len(page.kept), left_out=page.left_out)
    if not page.kept and not page.refused:
        raise GenerationFailed(_NOTHING)
    if page.kept and page.left_out:
        said = _ONE_LEFT_OUT if page.left_out == 1 else _LEFT_OUT.format(page.left_out)
        run.shortfalls.append(Shortfall("support", said))
    return Draft(tuple(page.kept), model=model.name)


@dataclass
class _Page:
    """An answer while it is written. Not frozen: sentence after sentence is kept, or left out."""

    question: Question
    rag: Rag
    run: Run
    sources: dict[int, Source]
    costs: Costs = field(default_factory=Costs)
    kept: list[Sentence] = field(default_factory=list)
    left_out: int = 0
    refused: bool = False
    full: bool = False

    async def line(self, line: str, *, cut: bool = False) -> None:
        """Keep the sentences of a line that stand; what follows its last numbers is no loss where it was `cut` off."""
        if says(line, self.refusal):
            self.refused = True
            return
        for written in read_line(line, self.sources):
            sentence = await self._standing(written.text, written.numbers)
            if sentence is None:
                self.left_out += not (cut and not written.numbers)
            elif sum(len(one.text) for one in (*self.kept, sentence)) > MOST_SHOWN:
                self.full = True
            elif all(sentence.text != one.text for one in self.kept):
                self._keep(sentence)

    @property
    def refusal(self) -> str:
        """The fixed words for "the posts do not say"."""
        return script("write", self.question.lang).parts["refusal"]

    def _keep(self, sentence: Sentence) -> None:
        self.kept.append(sentence)
        self.costs.sentence()
        if self.run.on_sentence:
            self.run.on_sentence(sentence)

    async def _standing(self, text: str, numbers: tuple[int, ...]) -> Sentence | None:
        """The sentence, if its posts say it and still stand in the archive as they were read."""
        # rules over words take milliseconds for each post: not on the event loop
        sentence = await asyncio.to_thread(self._borne_out, text, numbers) if text else None
        if sentence is None:
            return None
        return next(iter(await cite(Draft((sentence,)), self.question.viewer, self.rag)), None)

    def _borne_out(self, text: str, numbers: tuple[int, ...]) -> Sentence | None:
        sentence = attributed(text, [self.sources[number] for number in numbers])
        return sentence and borne_out(sentence, tuple(self.sources.values()), self.question.lang)


async def _drafted(room: Room, seat: Seat, page: _Page) -> Prompt:
    """The prompt of the second pass: it begins as the first, which wrote a free draft that is never shown."""
    parts = script("write", page.question.lang).parts
    free = replace(room.prompt, ask=f"{room.prompt.ask}\n{parts['free']}")
    decoding = replace(_decoding(page, room), max_tokens=max(1, room.tokens // 2))
    draft = ""
    page.costs.call()
    async with aclosing(cast(_Stream, seat.stream(free, decoding))) as stream:
        async for piece in stream:
            if isinstance(piece, Generated):
                page.costs.paid(piece.figures)
                draft = spoken(cleaned(piece.text))
    return replace(room.prompt, ask=f"{room.prompt.ask}\n{parts['attribute']}\n<draft>\n{draft}\n</draft>")


async def _written(prompt: Prompt, room: Room, seat: Seat, page: _Page) -> None:
    """Read the answer line by line while it is written."""
    numbers = [excerpt.source.number for excerpt in room.excerpts]
    page.sources = {number: page.sources[number] for number in numbers}
    grammar = answer_grammar(numbers, page.refusal, room.sentences, room.characters)
    lines = Lines()
    page.costs.call()
    async with aclosing(cast(_Stream, seat.stream(prompt, _decoding(page, room), grammar=grammar))) as stream:
        async for piece in stream:
            if isinstance(piece, Generated):
                page.costs.paid(piece.figures)
                await page.line(lines.end(), cut=piece.finish is Finish.LENGTH)
                return
            for line in lines.feed(piece):
                await page.line(line)
            if page.full:
                return


_Stream = AsyncGenerator[str | Generated, None]


def _decoding(page: _Page, room: Room) -> Decoding:
    llm = page.rag.settings.llm
    return Decoding(room.tokens, temperature=llm.temperature, top_p=llm.top_p, seed=llm.seed)
