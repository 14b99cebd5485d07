"""Headings of posts about one subject, written by a language model and verified as its answers are."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from rag_core.engine import Engine
from rag_core.llm.protocol import DecodingParams, LanguageModel, Prompt, collect_generation
from rag_core.text.tokens import detect_language
from rag_core.tracing import Run, Stage
from rag_core.types import Passage, Post
from rag_core.verification.support import measure_support
from rag_core.writing.grammar import build_paragraph_grammar, clean_reply
from rag_core.writing.prompt_loading import load_prompt, quote_post

_MAX_POSTS, _MAX_POST_LENGTH = 4, 600
_MAX_HEADING_LENGTH, _MAX_HEADING_TOKENS = 90, 40


async def write_heading(found: Sequence[Post], viewer_id: int, rag: Engine) -> str:
    """Write a heading that the posts support; "" without a model, where it is busy or fails, or says something else."""
    model = rag.writer
    if model is None or model.waiting:  # readers' questions go first
        return ""
    run = Run(rag.settings.budgets, "digest")
    said = await run.attempt(Stage.WRITE, _generate_heading(found, viewer_id, model, run), "")
    passages = [Passage(post.key, 0, "", post.text, 0, len(post.text), post.date) for post in found]
    support = await asyncio.to_thread(measure_support, said, passages)
    return said if support >= rag.settings.verify.threshold else ""


async def _generate_heading(found: Sequence[Post], viewer_id: int, model: LanguageModel, run: Run) -> str:
    template = load_prompt("heading", detect_language(found[0].text))
    shown = "\n".join(quote_post(post.text[:_MAX_POST_LENGTH]) for post in found[:_MAX_POSTS])
    prompt = Prompt(template.system, shown, template.shots)
    decoding, grammar = DecodingParams(_MAX_HEADING_TOKENS, 0.0), build_paragraph_grammar(_MAX_HEADING_LENGTH)
    async with run.open_session(model, viewer_id) as session:
        end = await collect_generation(session.stream(prompt, decoding, grammar=grammar))
    return " ".join(clean_reply(end.text).split())[:_MAX_HEADING_LENGTH].rstrip(" .")
