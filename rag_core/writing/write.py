"""Answer generation: a model writes sentences with source numbers, each checked against its posts before it is shown.

The posts are data between markers that they cannot forge. A sentence counts only after it is parsed, cleaned,
supported and cited.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import cast

from rag_core.citation_check import check_citations
from rag_core.context.budget import PromptBudget, build_prompt_budget
from rag_core.engine import Engine
from rag_core.errors import GenerationFailed
from rag_core.llm import DecodingParams, FinishReason, Generation, LlmSession, Prompt
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.tracing import LlmCosts, Run
from rag_core.types import Draft, Evidence, Question, Sentence, Shortfall, Source
from rag_core.verification.support import attribute_sentence, keep_supported_citations
from rag_core.writing.grammar import LineSplitter, build_answer_grammar, clean_reply, equals_phrase, parse_answer_line
from rag_core.writing.prompts import escape_prompt_text, load_prompt

_NO_MODEL = "There is no model to write with: set LLM__MODEL."
_NOTHING_SUPPORTED = "The model wrote no sentence that the posts say: try another model with LLM__MODEL."
_ONE_LEFT_OUT = "1 sentence was left out: the posts do not say it."
_SEVERAL_LEFT_OUT = "{} sentences were left out: the posts do not say them."


async def write_draft(
    question: Question, evidence: Evidence, rag: Engine, run: Run, shown: Evidence | None = None
) -> Draft:
    """Write an answer from the evidence; a draft without sentences means that the posts do not answer.

    `shown` replaces the evidence in the prompt, with the same source numbers; the result is checked against
    `evidence` all the same. Each kept sentence is passed to `run.on_sentence` at once. Call it inside a stage. Raises
    GenerationFailed if no written sentence is kept, StageTimeout, ArchiveUnavailable.
    """
    if (model := rag.writer) is None:
        raise GenerationFailed(_NO_MODEL)
    state = _WritingState(question, rag, run, evidence.number_sources())
    try:
        async with run.open_session(model, question.viewer.user_id) as seat:
            state.costs.begin()
            budget = await build_prompt_budget(question, shown or evidence, model, rag.settings.llm, seat)
            prompt = await _write_free_draft(budget, seat, state) if rag.settings.llm.two_pass else budget.prompt
            await _write_answer(prompt, budget, seat, state)
    finally:
        run.note(**state.costs.to_counts(), sentences=len(state.kept), left_out=state.left_out)
    if not state.kept and not state.refused:
        raise GenerationFailed(_NOTHING_SUPPORTED)
    if state.kept and state.left_out:
        message = _ONE_LEFT_OUT if state.left_out == 1 else _SEVERAL_LEFT_OUT.format(state.left_out)
        run.shortfalls.append(Shortfall("support", message))
    return Draft(tuple(state.kept), model=model.name)


@dataclass
class _WritingState:
    """State of an answer while it is written. Mutable: sentences are kept or dropped one by one."""

    question: Question
    rag: Engine
    run: Run
    sources: dict[int, Source]
    costs: LlmCosts = field(default_factory=LlmCosts)
    kept: list[Sentence] = field(default_factory=list)
    left_out: int = 0
    refused: bool = False
    full: bool = False

    async def line(self, line: str, *, cut: bool = False) -> None:
        """Keep the supported sentences of a line.

        If the line was `cut` off, a rest without source numbers is not counted as left out.
        """
        if equals_phrase(line, self.refusal):
            self.refused = True
            return
        for written in parse_answer_line(line, self.sources):
            sentence = await self._check_sentence(written.text, written.numbers)
            if sentence is None:
                self.left_out += not (cut and not written.numbers)
            elif sum(len(one.text) for one in (*self.kept, sentence)) > MAX_ANSWER_LENGTH:
                self.full = True
            elif all(sentence.text != one.text for one in self.kept):
                self._keep(sentence)

    @property
    def refusal(self) -> str:
        """Fixed phrase for "the posts do not say"."""
        return load_prompt("write", self.question.lang).parts["refusal"]

    def _keep(self, sentence: Sentence) -> None:
        self.kept.append(sentence)
        self.costs.note_first_sentence()
        if self.run.on_sentence:
            self.run.on_sentence(sentence)

    async def _check_sentence(self, text: str, numbers: tuple[int, ...]) -> Sentence | None:
        """Return the sentence if its posts support it and are unchanged in the archive, else None."""
        # the rule check takes milliseconds per post: keep it off the event loop
        sentence = await asyncio.to_thread(self._attribute, text, numbers) if text else None
        if sentence is None:
            return None
        return next(iter(await check_citations(Draft((sentence,)), self.question.viewer, self.rag)), None)

    def _attribute(self, text: str, numbers: tuple[int, ...]) -> Sentence | None:
        sentence = attribute_sentence(text, [self.sources[number] for number in numbers])
        return sentence and keep_supported_citations(sentence, tuple(self.sources.values()), self.question.lang)


async def _write_free_draft(room: PromptBudget, seat: LlmSession, page: _WritingState) -> Prompt:
    """Write a free draft that is never shown; return the prompt of the second pass, which shares its prefix."""
    parts = load_prompt("write", page.question.lang).parts
    free = replace(room.prompt, ask=f"{room.prompt.ask}\n{parts['free']}")
    decoding = replace(_build_decoding(page, room), max_tokens=max(1, room.tokens // 2))
    draft = ""
    page.costs.call()
    async with aclosing(cast(_ReplyStream, seat.stream(free, decoding))) as stream:
        async for piece in stream:
            if isinstance(piece, Generation):
                page.costs.add_stats(piece.figures)
                draft = escape_prompt_text(clean_reply(piece.text))
    return replace(room.prompt, ask=f"{room.prompt.ask}\n{parts['attribute']}\n<draft>\n{draft}\n</draft>")


async def _write_answer(prompt: Prompt, room: PromptBudget, seat: LlmSession, page: _WritingState) -> None:
    """Stream the answer and parse it line by line."""
    numbers = [excerpt.source.number for excerpt in room.excerpts]
    page.sources = {number: page.sources[number] for number in numbers}
    grammar = build_answer_grammar(numbers, page.refusal, room.sentences, room.characters)
    lines = LineSplitter()
    page.costs.call()
    async with aclosing(
        cast(_ReplyStream, seat.stream(prompt, _build_decoding(page, room), grammar=grammar))
    ) as stream:
        async for piece in stream:
            if isinstance(piece, Generation):
                page.costs.add_stats(piece.figures)
                await page.line(lines.end(), cut=piece.finish is FinishReason.LENGTH)
                return
            for line in lines.feed(piece):
                await page.line(line)
            if page.full:
                return


_ReplyStream = AsyncGenerator[str | Generation, None]


def _build_decoding(page: _WritingState, room: PromptBudget) -> DecodingParams:
    llm = page.rag.settings.llm
    return DecodingParams(room.tokens, temperature=llm.temperature, top_p=llm.top_p, seed=llm.seed)
