"""A post that would answer the question, made up by a model: only its vector is used, to find real posts like it.

Source: Gao et al., "Precise Zero-Shot Dense Retrieval without Relevance Labels" (2022),
https://arxiv.org/abs/2212.10496
"""

from __future__ import annotations

from rag_core.costs import Costs
from rag_core.doors.llm import Decoding, LanguageModel, Prompt, finished
from rag_core.prompts import script
from rag_core.prose import cleaned, paragraph_grammar
from rag_core.quoting import quoted_question
from rag_core.stage import Run
from rag_core.types import Question

__all__ = ["hyde"]

_CHARACTERS, _TOKENS = 280, 120
_QUESTION = 400  # characters: a made-up post needs no more of it
_TEMPERATURE, _SEED = 0.4, 42


async def hyde(question: Question, model: LanguageModel, run: Run) -> str:
    """One or two sentences as a post would have them; cut where they grow long, empty where nothing came.

    To be called in a stage. Raises GenerationFailed.
    """
    told = script("hyde", question.lang)
    prompt = Prompt(told.system, quoted_question(question.text[:_QUESTION]), told.shots)
    decoding = Decoding(_TOKENS, temperature=_TEMPERATURE, seed=_SEED)
    costs = Costs()
    async with run.seated(model, question.viewer.user_id) as seat:
        costs.call()
        end = await finished(seat.stream(prompt, decoding, grammar=paragraph_grammar(_CHARACTERS)))
    costs.paid(end.figures)
    run.note(**costs.noted())
    return " ".join(cleaned(end.text).split())[:_CHARACTERS]
