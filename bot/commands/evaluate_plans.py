"""`citegram eval plans FILE`: how well and how fast a model plans searches."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bot.commands import evaluate_options as options
from bot.evaluation.datasets import drawn
from bot.evaluation.plans import FORMS, Listened, PlanRow, plan_metrics, planned_row, read_questions
from bot.evaluation.report import table, writable, write
from bot.evaluation.runs import by_language
from bot.settings import Settings
from rag_core.doors.llm import LanguageModel
from rag_core.errors import ModelUnavailable, SettingsWrong
from rag_core.language import open_language
from rag_core.plan import Around
from rag_core.settings import Budgets, RagSettings
from rag_core.types import Question

__all__ = ["declare", "run"]

_NONE = "There is no language model to plan with: give --model PATH of a GGUF, or set LLM__MODEL or LLM__URL."
_SERVERS = "A JSON schema is for a server: set LLM__URL, or measure a GGUF with --grammar gbnf or none."


def declare(kinds: Any) -> None:
    """Describe the command to argparse."""
    parser = kinds.add_parser("plans", help="how well and how fast a model plans searches")
    parser.add_argument("file", type=Path, metavar="FILE", help="queries.jsonl, or a text file with a question a line")
    form = "what holds the model to the form of a plan (default: gbnf)"
    parser.add_argument("--grammar", choices=FORMS, default=FORMS[0], help=form)
    parser.add_argument("--model", type=Path, metavar="PATH", help="a GGUF (default: the model of the settings)")
    options.among(parser, "questions")
    options.figures(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, write. Returns the exit code."""
    writable(args.json_out, "figures", "json")
    questions = drawn(read_questions(args.file), args.limit, args.seed)
    inside = settings.rag()
    if args.grammar == "schema" and (args.model or not inside.llm.url or inside.llm.planner != "same"):
        raise SettingsWrong(_SERVERS)
    async with _opened(args.model, inside) as model:
        rows = await _planned(questions, Listened(model, args.grammar), inside.budgets)
        name = model.name
    metrics = by_language(rows, plan_metrics)
    print(table(metrics))
    print(f"\n{len(rows)} questions planned by {name}, form: {args.grammar}")
    if args.json_out:
        said = {"grammar": args.grammar, "model": name, "limit": args.limit, "seed": args.seed}
        about = {"command": "plans", "data": args.file.name, "settings": said}
        write(args.json_out, {**about, "metrics": metrics, "rows": len(rows)})
    return 0


async def _planned(questions: Sequence[Question], model: Listened, budgets: Budgets) -> list[PlanRow]:
    """A row for each question that can be planned, asked one after the other."""
    around = Around(languages=frozenset(question.lang for question in questions))
    rows = []
    for question in tqdm(questions, desc="plan", delay=1, leave=False):
        if row := await planned_row(question, around, model, budgets):
            rows.append(row)
    return rows


@asynccontextmanager
async def _opened(path: Path | None, settings: RagSettings) -> AsyncIterator[LanguageModel]:
    """The model that plans, alone. Raises ModelUnavailable."""
    given = settings.llm.planner if path is None else str(path.absolute())
    if given != "same":
        llm = settings.llm.model_copy(update={"model": given, "planner": "same", "url": ""})
        settings = settings.model_copy(update={"llm": llm})
    language = await open_language(settings)
    if language.planner is None:
        raise ModelUnavailable(_NONE)
    try:
        yield language.planner
    finally:
        await language.close()
