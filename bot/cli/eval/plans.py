"""`citegram eval plans FILE`: how well and how fast a model plans searches."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tqdm import tqdm

from bot.cli.eval import options
from bot.evaluation.datasets import draw_sample
from bot.evaluation.plan_validity import (
    PLAN_FORMS,
    PlanRow,
    RecordingModel,
    compute_plan_metrics,
    measure_plan,
    read_questions,
)
from bot.evaluation.runs import compute_by_language
from bot.evaluation.tables import format_report, require_writable, write_json_report
from bot.settings import Settings
from rag_core.errors import ModelUnavailable, SettingsWrong
from rag_core.llm import LanguageModel
from rag_core.models.selection import open_language_models
from rag_core.planning.llm_planner import KnownEntities
from rag_core.settings import Budgets, RagSettings
from rag_core.types import Question

_NO_MODEL_TEXT = "There is no language model to plan with: give --model PATH of a GGUF, or set LLM__MODEL or LLM__URL."
_SCHEMA_NEEDS_SERVER_TEXT = (
    "A JSON schema is for a server: set LLM__URL, or measure a GGUF with --grammar gbnf or none."
)


def declare(kinds: Any) -> None:
    """Add the subcommand to the parser."""
    parser = kinds.add_parser("plans", help="how well and how fast a model plans searches")
    parser.add_argument("file", type=Path, metavar="FILE", help="queries.jsonl, or a text file with a question a line")
    form = "what holds the model to the form of a plan (default: gbnf)"
    parser.add_argument("--grammar", choices=PLAN_FORMS, default=PLAN_FORMS[0], help=form)
    parser.add_argument("--model", type=Path, metavar="PATH", help="a GGUF (default: the model of the settings)")
    options.add_sample_options(parser, "questions")
    options.add_output_options(parser)
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Measure, print, and write the JSON report. Returns the exit code."""
    require_writable(args.json_out, "figures", "json")
    questions = draw_sample(read_questions(args.file), args.limit, args.seed)
    rag_settings = settings.rag()
    if args.grammar == "schema" and (args.model or not rag_settings.llm.url or rag_settings.llm.planner != "same"):
        raise SettingsWrong(_SCHEMA_NEEDS_SERVER_TEXT)
    async with _open_planner(args.model, rag_settings) as model:
        rows = await _measure_plans(questions, RecordingModel(model, args.grammar), rag_settings.budgets)
        name = model.name
    metrics = compute_by_language(rows, compute_plan_metrics)
    print(format_report("plans", {"": metrics}, everything=args.all))
    print(f"\n{len(rows)} questions planned by {name}, form: {args.grammar}")
    if args.json_out:
        settings_used = {"grammar": args.grammar, "model": name, "limit": args.limit, "seed": args.seed}
        about = {"command": "plans", "data": args.file.name, "settings": settings_used}
        write_json_report(args.json_out, {**about, "metrics": metrics, "rows": len(rows)})
    return 0


async def _measure_plans(questions: Sequence[Question], model: RecordingModel, budgets: Budgets) -> list[PlanRow]:
    """Plan the questions one after the other; questions that cannot be planned have no row."""
    around = KnownEntities(languages=frozenset(question.lang for question in questions))
    rows = []
    for question in tqdm(questions, desc="plan", delay=1, leave=False, disable=None):
        if row := await measure_plan(question, around, model, budgets):
            rows.append(row)
    return rows


@asynccontextmanager
async def _open_planner(path: Path | None, settings: RagSettings) -> AsyncIterator[LanguageModel]:
    """Open the planner model alone. Raises ModelUnavailable."""
    wanted = settings.llm.planner if path is None else str(path.absolute())
    if wanted != "same":
        llm = settings.llm.model_copy(update={"model": wanted, "planner": "same", "url": ""})
        settings = settings.model_copy(update={"llm": llm})
    language = await open_language_models(settings)
    if language.planner is None:
        raise ModelUnavailable(_NO_MODEL_TEXT)
    try:
        yield language.planner
    finally:
        await language.close()
