"""HyDE: a model writes a hypothetical post that would answer the question; only its vector is used for search.

Source: Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels" (2022),
https://arxiv.org/abs/2212.10496
"""

from __future__ import annotations

from rag_core.llm import DecodingParams, LanguageModel, Prompt, collect_generation
from rag_core.tracing import LlmCosts, Run
from rag_core.types import Question
from rag_core.writing.grammar import build_paragraph_grammar, clean_reply
from rag_core.writing.prompts import load_prompt, quote_question

_MAX_LENGTH, _MAX_TOKENS = 280, 120
_MAX_QUESTION_LENGTH = 400  # characters: enough for a hypothetical post
_TEMPERATURE, _SEED = 0.4, 42


async def write_hypothetical_post(question: Question, model: LanguageModel, run: Run) -> str:
    """Write a hypothetical post of one or two sentences, at most 280 characters; empty for an empty reply.

    Call it inside a stage. Raises GenerationFailed.
    """
    template = load_prompt("hyde", question.lang)
    prompt = Prompt(template.system, quote_question(question.text[:_MAX_QUESTION_LENGTH]), template.shots)
    decoding = DecodingParams(_MAX_TOKENS, temperature=_TEMPERATURE, seed=_SEED)
    costs = LlmCosts()
    async with run.open_session(model, question.viewer.user_id) as seat:
        costs.call()
        end = await collect_generation(seat.stream(prompt, decoding, grammar=build_paragraph_grammar(_MAX_LENGTH)))
    costs.add_stats(end.figures)
    run.note(**costs.to_counts())
    return " ".join(clean_reply(end.text).split())[:_MAX_LENGTH]
