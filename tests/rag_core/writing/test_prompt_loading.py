"""What the models are told, whole, as files to read: they change on purpose only."""

from dataclasses import replace
from itertools import product

from scripted_model import FakeLlm

from rag_core.recipe_steps import write_hypothetical_post
from rag_core.run import Run
from rag_core.verification.judge import judge_relevance

QUESTIONS = {"en": "How much does a ferry ticket cost?", "ru": "Сколько стоит абонемент в мастерскую?"}


def told(prompt, grammar=None):
    lines = [f"--- system\n{prompt.system}"]
    for asked, reply in prompt.shots:
        lines += [f"--- ask\n{asked}", f"--- reply\n{reply}"]
    lines.append(f"--- ask\n{prompt.ask}")
    if grammar:
        lines.append(f"--- grammar\n{grammar}")
    return "\n".join(lines) + "\n"


async def write_told(library, text):
    model = FakeLlm("x")
    library.rag = replace(library.rag, writer=model)
    await library.ask(text)
    return told(model.asked[0], model.grammars_asked[0])


async def judge_told(library, text):
    model, plain = FakeLlm(), replace(library.rag, writer=None)
    library.rag = plain
    found = (await library.ask(text)).found
    await judge_relevance(library.question(text), [found[0].passage], model)
    return told(model.weighed[0])


async def hyde_told(library, text):
    model, notebook = FakeLlm("Anything at all."), Run(library.rag.budgets, "direct")
    await notebook.require("hyde", write_hypothetical_post(library.question(text), model, notebook))
    return told(model.asked[0], model.grammars_asked[0])


TOLD = {"write": write_told, "judge": judge_told, "hyde": hyde_told}


async def test_prompts_change_on_purpose_only(library, root):
    """To accept a change, copy what the test shows into tests/rag_core/prompts."""
    for purpose, lang in product(TOLD, QUESTIONS):
        shown = await TOLD[purpose](library, QUESTIONS[lang])
        file = root / "tests" / "rag_core" / "prompts" / f"{purpose}.{lang}.txt"
        assert shown == file.read_text(encoding="utf-8"), file.name
