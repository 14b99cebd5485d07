"""Prompt prefixes: the constant beginnings of prompts that are worth evaluating before anybody asks."""

from __future__ import annotations

from rag_core.llm.protocol import Prompt, TokenRates
from rag_core.settings import Budgets
from rag_core.stages import Stage
from rag_core.writing.prompt_loading import load_prompt

# Template and its languages, stage, and tokens that are read after the prefix and written at least.
_PREFIXES = (
    ("support", ("ru", "en"), Stage.VERIFY, 150, 0),
    ("write", ("ru", "en"), Stage.WRITE, 300, 48),
    ("plan", ("all",), Stage.PLAN, 120, 128),
    ("followup", ("ru", "en"), Stage.FOLLOWUP, 80, 40),
    ("hyde", ("ru", "en"), Stage.HYDE, 40, 60),
)


def list_prompt_prefixes(budgets: Budgets, rates: TokenRates) -> list[Prompt]:
    """List the prefixes of the stages that have time for the rest of their prompt and a reply, the cheapest first."""
    return [
        Prompt(template.system, "", template.shots)
        for name, languages, stage, read, written in _PREFIXES
        if rates.estimate_seconds(read, written) <= getattr(budgets, stage.budget)
        for template in (load_prompt(name, lang) for lang in languages)
    ]
