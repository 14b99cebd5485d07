"""`citegram eval`: what each kind of measurement asks, prints and writes."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from bot.cli import eval_runner as options
from bot.cli.eval_calibration import declare_calibrate, declare_fits, declare_make
from bot.cli.eval_runner import Measurement, run_measurement
from bot.cli.index_commands import iterate_with_progress_bar
from bot.evaluation.answer_metrics import compute_answer_metrics, compute_metrics_by_kind, compute_retrieval_metrics
from bot.evaluation.claim_accuracy import (
    VERIFICATION_LAYERS,
    compute_label_metrics,
    judge_claim_pairs,
    verify_in_corpus,
)
from bot.evaluation.datasets import CLAIMS_FILE_NAME, draw_sample, read_claims, read_dataset
from bot.evaluation.date_accuracy import compute_date_metrics, read_date_rows, read_with_dateparser
from bot.evaluation.evaluation_report import (
    PLAN_FIGURES,
    format_recipes,
    format_report,
    require_writable,
    write_json_report,
)
from bot.evaluation.indexed_dataset import (
    VARIANTS,
    Variant,
    answer_query,
    build_variant_settings,
    compute_by_language,
    open_indexed_dataset,
    search_query,
)
from bot.evaluation.plan_validity import PLAN_FORMS, compute_plan_metrics, measure_plan, read_questions
from bot.evaluation.recorded_replies import RecordingModel
from bot.settings import Settings
from rag_core.dates.parse import parse_period
from rag_core.errors import ImportRefused, ModelUnavailable, SettingsWrong
from rag_core.llm import LanguageModel
from rag_core.models.active_models import open_language_models
from rag_core.planning.llm_planner import KnownEntities
from rag_core.settings import RagSettings


def _declare_retrieval(kinds: Any) -> None:
    parser = kinds.add_parser("retrieval", help="how much is found, and how high")
    options.add_data_options(parser)
    options.add_model_options(parser)
    # a second round depends on what was answered
    options.add_variant_options(parser, [name for name in VARIANTS if not name.startswith("rounds-")])
    options.add_output_options(parser)
    what = Measurement("retrieval", lambda query: bool(query.relevant), search_query, compute_retrieval_metrics)
    parser.set_defaults(run=partial(run_measurement, what=what))


def _declare_answers(kinds: Any) -> None:
    parser = kinds.add_parser("answers", help="how many questions are answered rightly, wrongly, or refused")
    options.add_data_options(parser)
    options.add_model_options(parser)
    options.add_variant_options(parser, VARIANTS)
    options.add_recording_options(parser)
    options.add_output_options(parser)
    what = Measurement("answers", lambda query: True, answer_query, compute_answer_metrics, compute_metrics_by_kind)
    parser.set_defaults(run=partial(run_measurement, what=what))


def _declare_dialogues(kinds: Any) -> None:
    talk = kinds.add_parser("talk", help="whether greetings and thanks are answered as such")
    rows = "texts with `search` (.jsonl); searched are the exports beside it, else the sample channels"
    talk.add_argument("file", type=Path, metavar="FILE", help=rows)
    followups = kinds.add_parser("followups", help="whether follow-up questions are understood")
    folder = "folder with followups.jsonl and the exports to search, or a folder for each `corpus` that a row names"
    followups.add_argument("file", type=Path, metavar="DIR", help=folder)
    for parser, what in ((talk, "texts"), (followups, "dialogues")):
        options.add_sample_options(parser, what)
        options.add_model_options(parser)
        options.add_output_options(parser)
        parser.set_defaults(run=_run_dialogues, dialogues=parser.prog.rpartition(" ")[2])


async def _run_dialogues(args: argparse.Namespace, settings: Settings) -> int:
    from bot.evaluation import dialogues
    from bot.sandbox.chats import SAMPLE_CHANNELS_FOLDER

    require_writable(args.json_out, "figures", "json")
    variant, judged_fields = Variant(legs=args.legs, rerank=args.rerank), dict[str, Any]()
    if args.dialogues == "talk":
        rows = draw_sample(dialogues.read_dialogues(args.file, SAMPLE_CHANNELS_FOLDER), args.limit, args.seed)
        talks = await dialogues.run_dialogues(rows, dialogues.judge_talk, settings, variant)
        metrics = compute_by_language(talks, dialogues.compute_talk_metrics)
        judged_fields["failed"] = [row.id for row in talks if not row.handled]
    else:
        rows = draw_sample(dialogues.read_dialogues(args.file / "followups.jsonl"), args.limit, args.seed)
        judged = await dialogues.run_dialogues(rows, dialogues.judge_followup, settings, variant)
        metrics = compute_by_language(judged, dialogues.compute_followup_metrics)
        judged_fields["judged"] = [asdict(row) for row in judged]
    print(format_report(args.dialogues, {"": metrics}, everything=args.all))
    settings_used = {"legs": args.legs, "rerank": args.rerank, "limit": args.limit, "seed": args.seed}
    data = args.file.resolve().name
    write_json_report(args.json_out, args.dialogues, data, settings_used, metrics, len(rows), **judged_fields)
    return 0


def _declare_dates(kinds: Any) -> None:
    parser = kinds.add_parser("dates", help="how well expressions of time are read, beside dateparser alone")
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder or file of expressions of time (.jsonl)")
    options.add_sample_options(parser, "expressions")
    options.add_output_options(parser)
    parser.set_defaults(run=_run_dates)


async def _run_dates(args: argparse.Namespace, settings: Settings) -> int:
    require_writable(args.json_out, "figures", "json")
    rows = draw_sample(read_date_rows(args.folder), args.limit, args.seed)
    metrics = compute_by_language(rows, partial(compute_date_metrics, read=parse_period))
    beside = {"dateparser": compute_by_language(rows, partial(compute_date_metrics, read=read_with_dateparser))}
    print(format_report("dates", {"citegram": metrics, **beside}, everything=args.all))
    dated = sum(bool(row.readings) for row in rows)
    print(f"\n{dated} expressions of time (right), {len(rows) - dated} that only look like one (false_finds)")
    settings_used, data = {"limit": args.limit, "seed": args.seed}, args.folder.resolve().name
    write_json_report(args.json_out, "dates", data, settings_used, metrics, len(rows), beside=beside)
    return 0


def _declare_plans(kinds: Any) -> None:
    parser = kinds.add_parser("plans", help="how well and how fast a model plans searches")
    parser.add_argument("file", type=Path, metavar="FILE", help="queries.jsonl, or a text file with a question a line")
    form = "what holds the model to the form of a plan (default: gbnf)"
    parser.add_argument("--grammar", choices=PLAN_FORMS, default=PLAN_FORMS[0], help=form)
    parser.add_argument("--model", type=Path, metavar="PATH", help="a GGUF (default: the model of the settings)")
    recipes = "whose plans: all, or several with commas, in one table; mapreduce plans in keywords (default: direct)"
    parser.add_argument("--recipe", type=options.parse_recipes, default=("direct",), metavar="NAME", help=recipes)
    options.add_recording_options(parser)
    options.add_sample_options(parser, "questions")
    options.add_output_options(parser)
    parser.set_defaults(run=_run_plans)


async def _run_plans(args: argparse.Namespace, settings: Settings) -> int:
    require_writable(args.json_out, "figures", "json")
    recording = options.open_recording(args)
    questions = draw_sample(read_questions(args.file, recording.now if recording else None), args.limit, args.seed)
    rag_settings = settings.rag()
    if args.grammar == "schema" and (args.model or not rag_settings.llm.url or rag_settings.llm.planner != "same"):
        raise SettingsWrong(
            "A JSON schema is for a server: set LLM__URL, or measure a GGUF with --grammar gbnf or none."
        )
    around = KnownEntities(languages=frozenset(question.lang for question in questions))
    opening = _open_planner(args.model, rag_settings) if not (recording and recording.replaying) else nullcontext()
    async with opening as opened:
        model, metrics_of = recording.wrap_models(None, opened)[1] if recording else RecordingModel(opened), {}
        assert model
        model.form = args.grammar
        for recipe in args.recipe:
            rows = []
            for question in iterate_with_progress_bar(questions, "plan"):
                short = recipe == "mapreduce"
                if row := await measure_plan(question, around, model, rag_settings.budgets, short=short):
                    rows.append(row)
            metrics_of[recipe] = compute_by_language(rows, compute_plan_metrics)
    metrics: Mapping[str, Any] = metrics_of if len(metrics_of) > 1 else metrics_of[args.recipe[0]]
    if len(metrics_of) > 1:
        print(format_recipes(metrics_of, PLAN_FIGURES))
    else:
        print(format_report("plans", {"": metrics}, everything=args.all))
    print(f"\n{len(rows)} questions planned by {model.name}, form: {args.grammar}")
    settings_used = {"grammar": args.grammar, "model": model.name, "limit": args.limit, "seed": args.seed}
    write_json_report(args.json_out, "plans", args.file.name, settings_used, metrics, len(rows))
    return 0


@asynccontextmanager
async def _open_planner(path: Path | None, settings: RagSettings) -> AsyncIterator[LanguageModel]:
    """Open the planner model alone. Raises ModelUnavailable."""
    wanted = settings.llm.planner if path is None else str(path.absolute())
    if wanted != "same":
        llm = settings.llm.model_copy(update={"model": wanted, "planner": "same", "url": ""})
        settings = settings.model_copy(update={"llm": llm})
    language = await open_language_models(settings)
    if language.planner is None:
        raise ModelUnavailable(
            "There is no language model to plan with: give --model PATH of a GGUF, or set LLM__MODEL or LLM__URL."
        )
    try:
        yield language.planner
    finally:
        await language.close()


def _declare_verify(kinds: Any) -> None:
    parser = kinds.add_parser("verify", help="how good the verdicts on claims are, beside two baselines")
    parser.add_argument(
        "folder", type=Path, metavar="FILE|DIR",
        help="claims with their evidence (.jsonl), or a folder with claims.jsonl and the posts to look them up in",
    )  # fmt: skip
    options.add_sample_options(parser, "claims")
    options.add_model_options(parser)
    options.add_output_options(parser)
    parser.set_defaults(run=_run_verify)


async def _run_verify(args: argparse.Namespace, settings: Settings) -> int:
    require_writable(args.json_out, "figures", "json")
    rows = list(draw_sample(read_claims(args.folder), args.limit, args.seed))
    given = all(row.evidence for row in rows)
    corpus = args.folder.is_dir() and (not given or (args.folder / "corpus.jsonl").exists())
    if not corpus and not given:
        raise ImportRefused(f"{args.folder} holds claims without evidence: name a folder with the posts too.")
    if corpus:
        dataset = read_dataset(args.folder, asked=(CLAIMS_FILE_NAME,))
        variant = Variant(legs=args.legs, rerank=args.rerank)
        async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), [variant])) as opened:
            judged = await verify_in_corpus(rows, dataset.queries, opened.select_variant(variant))
    else:
        judged = judge_claim_pairs(rows)
    layers = {
        name: compute_by_language(judged, partial(compute_label_metrics, layer=name)) for name in VERIFICATION_LAYERS
    }
    print(format_report("verify", layers, everything=args.all, main="all"))
    settings_used = {"limit": args.limit, "seed": args.seed, "legs": args.legs, "rerank": args.rerank,
                     "evidence": "looked up" if corpus else "given"}  # fmt: skip
    data = args.folder.resolve().name
    write_json_report(args.json_out, "verify", data, settings_used, layers["all"], len(judged), layers=layers)
    return 0


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of measurement to the parser of the command."""
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for declare_kind in (
        _declare_retrieval,
        _declare_answers,
        _declare_dialogues,
        _declare_dates,
        _declare_plans,
        _declare_verify,
        declare_calibrate,
        declare_fits,
        declare_make,
    ):
        declare_kind(kinds)
