"""`citegram eval`: the kinds of measurement with their arguments; what each measures, prints and writes."""

import argparse
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bot.data_folder import iterate_with_progress_bar, open_archive, require_archive
from bot.evaluation import data, measures, metrics
from bot.evaluation.data import VARIANTS, Variant, draw_sample, read_dataset
from bot.evaluation.metrics import compute_by_language, format_report
from bot.settings import Settings
from rag_core.answer import RECIPES
from rag_core.engine import Engine
from rag_core.errors import ImportRefused, ModelUnavailable, SettingsWrong, translate_errors
from rag_core.llm.protocol import LanguageModel
from rag_core.models.active_models import open_writer
from rag_core.planning.llm_planner import KnownEntities
from rag_core.run import Budgets
from rag_core.settings import RagSettings
from rag_core.storage import channels, posts
from rag_core.types import AUTO_RECIPE, Post


def _parse_number(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}, such as 50")
    return int(text)


def _parse_compared(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        if name not in VARIANTS:
            raise argparse.ArgumentTypeError(f"{name!r} cannot be compared: there are {', '.join(VARIANTS)}")
    if len(names) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} names one thing: two are compared, such as plan-on,plan-off")
    return names


# Options by name, as argparse takes them; {rows} in a help is what the kind counts.
_OPTIONS: dict[str, dict[str, Any]] = {
    "distractors": {
        "type": Path, "nargs": "+", "default": [], "metavar": "FILE", "help": "posts added to the corpus",
    },
    "limit": {"type": _parse_number, "metavar": "N", "help": "only so many {rows}: the first"},
    "seed": {
        "type": partial(_parse_number, least=0), "metavar": "N",
        "help": "with --limit: {rows} drawn by this number instead",
    },
    "legs": {
        "choices": ("lexical", "dense", "hybrid"),
        "help": "which search legs (default: both, where a model was pulled)",
    },
    "rerank": {"choices": ("on", "off"), "help": "with the reranker or without (default: on, if pulled)"},
    "recipe": {
        "choices": (*RECIPES, AUTO_RECIPE), "default": "direct", "metavar": "NAME",
        "help": f"how answers are made: {', '.join(RECIPES)}, or auto as for readers (default: direct)",
    },
    "plan": {
        "choices": ("on", "off"), "default": "on",
        "help": "off: the question as the one query, no filters, both legs (default: on)",
    },
    "compare": {
        "type": _parse_compared, "metavar": "A,B",
        "help": "the same questions in several ways, the first being what the others are measured by: "
        + ", ".join(VARIANTS),
    },
    "model": {"type": Path, "metavar": "PATH", "help": "a GGUF (default: the model of the settings)"},
    "seconds": {
        "type": _parse_number, "default": round(Budgets().plan), "metavar": "N",
        "help": "seconds that a plan may take (default: %(default)s, as in an answer)",
    },
    "all": {"action": "store_true", "help": "print every figure (default: the three that say most)"},
    "json": {"type": Path, "metavar": "OUT", "dest": "json_out", "help": "write every figure to a file"},
}  # fmt: skip
_FEWEST_QUESTIONS = 50  # fewer say little about a change
_NOT_WRITABLE_TEXT = "The figures cannot be written ({}): name another file with --json."


class EvalKind(NamedTuple):
    """Kind of `citegram eval`: its help, what it reads (metavar, help), its options, what runs it, what it counts."""

    help: str
    reads: tuple[str, str]
    options: str
    run: Callable[[argparse.Namespace, Settings], Awaitable[None]]
    rows: str = "questions"


def declare(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the kinds of measurement, each with its arguments, to the parser of the command."""
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for name, kind in KINDS.items():
        own = kinds.add_parser(name, help=kind.help)
        own.add_argument("path", type=Path, metavar=kind.reads[0], help=kind.reads[1])
        for option in kind.options.split():
            about = _OPTIONS[option]
            own.add_argument(f"--{option}", **about | {"help": about["help"].replace("{rows}", kind.rows)})
        own.set_defaults(run=_run, kind=kind)


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    file: Path | None = getattr(args, "json_out", None)
    if file and (file.is_dir() or not file.parent.is_dir()):
        reason = "it is a folder" if file.is_dir() else f"there is no folder {file.parent}"
        raise SettingsWrong(_NOT_WRITABLE_TEXT.format(reason))
    args.variant = Variant(**{one.name: getattr(args, one.name) for one in fields(Variant) if one.name in args})
    await args.kind.run(args, settings)
    return 0


def _write_report(
    args: argparse.Namespace, command: str, found: Mapping[str, Any], rows: int,
    settings: Mapping[str, Any] | None = None, **more: object,
) -> None:  # fmt: skip
    """Write the figures, if a file was named, with the options and `settings` that they were measured with."""
    if args.json_out is None:
        return
    options = {name: getattr(args, name) for name in ("limit", "seed", "legs", "rerank") if name in args}
    report = {"command": command, "data": args.path.resolve().name, "settings": options | dict(settings or {})}
    report |= {"metrics": found, "rows": rows, **more}
    with translate_errors(SettingsWrong, OSError, say=_NOT_WRITABLE_TEXT):
        args.json_out.write_text(json.dumps(report, ensure_ascii=False, indent=1), encoding="utf-8")


def _describe_engine(args: argparse.Namespace, rag: Engine) -> dict[str, Any]:
    return {
        "legs": args.variant.legs or (f"hybrid ({rag.dense.model.name})" if rag.dense else "lexical"),
        "rerank": args.variant.rerank or ("on" if rag.reranker else "off"),
        "rounds": rag.rounds,
        "model": rag.writer.name if rag.writer else None,
        "bar": rag.calibration.bar,
        "plan": args.variant.plan,
        "recipe": args.variant.recipe,
        "distractors": [file.name for file in args.distractors],
    }


async def _run_questions(args: argparse.Namespace, settings: Settings, command: str) -> None:
    dataset = read_dataset(args.path, args.distractors, args.limit, args.seed)
    answers = command == "answers"
    queries = [query for query in dataset.queries if answers or query.relevant]
    variants = {name: replace(args.variant, **VARIANTS[name]) for name in args.compare or ()} or {"": args.variant}
    ask: Callable[..., Awaitable[Any]] = measures.answer_query if answers else measures.search_query
    compute: Callable[..., Any] = metrics.compute_answer_metrics if answers else metrics.compute_retrieval_metrics
    needed = data.build_variant_settings(settings.rag(), variants.values())
    async with data.open_indexed_dataset(dataset, needed) as opened:
        ways = {name: opened.select_variant(way) for name, way in variants.items()}
        rows = await measures.run_interleaved(queries, ask, ways)
        used = _describe_engine(args, opened.rag)
    found = {name: compute_by_language(given, compute) for name, given in rows.items()}
    print(format_report(command, found, sum(query.answerable for query in queries), everything=args.all))
    kinds = {name: metrics.compute_metrics_by_kind(given) if answers else {} for name, given in rows.items()}
    more: dict[str, Any] = {"by_kind": kinds if args.compare else kinds[""]} if any(kinds.values()) else {}
    if args.compare:
        intervals = metrics.compute_difference_intervals(rows, compute)
        print("", metrics.format_difference_intervals(command, intervals, next(iter(rows))), sep="\n")
        used["compare"] = {
            name: {key: value for key, value in asdict(way).items() if value is not None}
            for name, way in variants.items()
        }
        more |= {"ratio": metrics.compute_ratios(found), "difference": intervals}
    for name, parts in kinds.items():
        if parts and args.all:
            figures = next(iter(parts.values()))
            lines = [(figure, {kind: part[figure] for kind, part in parts.items()}) for figure in figures]
            print(f"\n{name}", metrics.format_table(lines), sep="\n")
    _write_report(args, command, found if args.compare else found[""], len(queries), settings=used, **more)


async def _run_dialogues(args: argparse.Namespace, settings: Settings, command: str) -> None:
    from bot.sandbox.state import SAMPLE_CHANNELS_FOLDER

    judge: Callable[..., Awaitable[Any]]
    compute: Callable[..., Any]
    if command == "talk":
        dialogues = data.read_dialogues(args.path, SAMPLE_CHANNELS_FOLDER)
        judge, compute = measures.judge_talk, measures.compute_talk_metrics
    else:
        dialogues = data.read_dialogues(args.path / "followups.jsonl", None)
        judge, compute = measures.judge_followup, measures.compute_followup_metrics
    drawn = draw_sample(dialogues, args.limit, args.seed)
    judged: list[Any] = await measures.run_dialogues(drawn, judge, settings.rag(), args.variant)
    found = compute_by_language(judged, compute)
    print(format_report(command, {"": found}, len(judged), everything=args.all))
    if command == "talk":
        _write_report(args, command, found, len(judged), failed=[row.id for row in judged if not row.handled])
    else:
        _write_report(args, command, found, len(judged), judged=[row._asdict() for row in judged])


async def _run_plans(args: argparse.Namespace, settings: Settings) -> None:
    questions = draw_sample(data.read_questions(args.path), args.limit, args.seed)
    around = KnownEntities(languages=frozenset(question.lang for question in questions))
    # the second call, which asks for more queries, has half of the time, as in an answer
    budgets, rows = Budgets(plan=args.seconds, rewrite=args.seconds / 2), []
    async with _open_planner(args.model, settings.rag()) as model:
        for question in iterate_with_progress_bar(questions, "plan"):
            if row := await measures.measure_plan(question, around, model, budgets):
                rows.append(row)
    found = compute_by_language(rows, measures.compute_plan_metrics)
    print(format_report("plans", {"": found}, len(rows), everything=args.all))
    print(f"\n{len(rows)} questions planned by {model.name}")
    _write_report(args, "plans", found, len(rows), settings={"model": model.name})


async def _run_judge(args: argparse.Namespace, settings: Settings) -> None:
    dataset, rows = read_dataset(args.path, (), args.limit, args.seed), []
    opening = data.open_variant(dataset, settings.rag(), args.variant)
    async with _open_planner(args.model, settings.rag()) as model, opening as opened:
        for query in iterate_with_progress_bar(dataset.queries, "judge"):
            if row := await measures.judge_first_sentence(query, opened, model):
                rows.append(row)
    found, judged = compute_by_language(rows, measures.compute_judge_metrics), [row._asdict() for row in rows]
    print(format_report("judge", {"": found}, len(rows), everything=args.all))
    print(f"\n{len(rows)} sentences judged by {model.name}")
    _write_report(args, "judge", found, len(rows), settings={"model": model.name}, judged=judged)


@asynccontextmanager
async def _open_planner(path: Path | None, settings: RagSettings) -> AsyncIterator[LanguageModel]:
    if path:
        llm = settings.llm.model_copy(update={"model": str(path.absolute()), "url": ""})
        settings = settings.model_copy(update={"llm": llm})
    planner = await open_writer(settings)
    if planner is None:
        raise ModelUnavailable(
            "There is no language model to plan with: give --model PATH of a GGUF, or set LLM__MODEL or LLM__URL."
        )
    try:
        yield planner
    finally:
        await planner.close()


async def _run_verify(args: argparse.Namespace, settings: Settings) -> None:
    rows = draw_sample(data.read_claims(args.path), args.limit, args.seed)
    given = all(row.evidence for row in rows)
    corpus = args.path.is_dir() and (not given or (args.path / "corpus.jsonl").exists())
    if not corpus and not given:
        raise ImportRefused(f"{args.path} holds claims without evidence: name a folder with the posts too.")
    if corpus:
        async with data.open_variant(data.read_corpus(args.path), settings.rag(), args.variant) as opened:
            judged = await measures.verify_in_corpus(rows, opened)
    else:
        judged = measures.judge_claim_pairs(rows)
    layers = {
        name: compute_by_language(judged, partial(measures.compute_label_metrics, layer=name))
        for name in measures.VERIFICATION_LAYERS
    }
    print(format_report("verify", layers, len(judged), everything=args.all, main="all"))
    evidence = {"evidence": "looked up" if corpus else "given"}
    _write_report(args, "verify", layers["all"], len(judged), settings=evidence, layers=layers)


async def _run_calibrate(args: argparse.Namespace, settings: Settings) -> None:
    dataset = read_dataset(args.path, args.distractors, args.limit, args.seed)
    if not any(query.answerable for query in dataset.queries):
        raise ImportRefused(f"{args.path} holds no answerable question: add some, as a bar is fitted to them.")
    async with data.open_variant(dataset, settings.rag(), args.variant) as opened:
        calibration = opened.rag.calibration.without_bars()
        if dense := opened.rag.dense:
            fusions = metrics.choose_safest_fusions(await metrics.run_both_retrievers(opened))
            for lang, fusion in fusions.items():
                print(f"{lang}: {fusion.kind} with weight {fusion.dense} of the search by meaning")
            calibration = replace(calibration, fusions={**calibration.fusions, dense.model.name: fusions})
        opened.rag = replace(opened.rag, calibration=calibration)
        progress = iterate_with_progress_bar(dataset.queries, "ask")
        answers = [await measures.answer_query(query, opened) for query in progress]
        fitted = metrics.fit_calibration(answers, dataset.name)
        used = _describe_engine(args, opened.rag)
    bar, sure = fitted.calibration.bar, fitted.calibration.sure
    file = replace(fitted.calibration, fusions=calibration.fusions).save(settings.rag())
    print(f"bar {bar:.3f}, sure from {sure:.3f}, written to {file}")
    shares = {"abstained": fitted.abstained, "refused": fitted.refused, "sure_wrong": fitted.wrong}
    for name, (share, low, high) in shares.items():
        print(f"{name:10} {share:.3f}  (5-fold; 95 % interval {low:.3f} to {high:.3f})")
    found = {"bar": bar, "sure": sure} | {name: share for name, (share, *_) in shares.items()}
    _write_report(args, "calibrate", {"all": found}, len(dataset.queries), settings=used | {"bar": bar})


async def _run_make(args: argparse.Namespace, settings: Settings) -> None:
    folder: Path = args.path
    if (folder / "queries.jsonl").exists():
        raise SettingsWrong(f"{folder} holds questions already: name another folder, or measure with these.")
    require_archive(settings.data.dir)
    all_posts: list[Post] = []  # in the order in which they were stored
    async with open_archive(settings.data.dir) as archive:
        known, after = await channels.load_channels(archive), 0
        while changes := await posts.list_post_changes(archive, after, 2000):
            after = changes[-1].seq
            all_posts += [change.post for change in changes if change.post and change.post.text.strip()]
    most, seed = args.limit or 100, 42 if args.seed is None else args.seed
    queries, corpus = data.make_questions(all_posts, known, most, seed)
    if not queries:
        raise SettingsWrong("No post of yours states a price, a date, a time or a number: import more posts first.")
    with translate_errors(SettingsWrong, OSError, say="The questions cannot be written ({}): name another folder."):
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in (("corpus", corpus), ("queries", queries)):
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"Questions: {len(queries)}. Next: citegram eval answers {folder}")
    held = len(all_posts) - len(corpus)
    print(f"Posts with text to search: {len(corpus)}; left out, so that some questions have no answer: {held}.")
    if len(queries) < min(most, _FEWEST_QUESTIONS):
        print(f"Fewer than {_FEWEST_QUESTIONS}: no more of {len(all_posts)} posts state a price, date, time or number.")


_QUESTION_SET = ("DIR", "folder with queries.jsonl and corpus.jsonl or an export")

KINDS = {
    "retrieval": EvalKind(
        "how much is found, and how high", _QUESTION_SET,
        "distractors limit seed legs rerank recipe plan compare all json",
        partial(_run_questions, command="retrieval"),
    ),
    "answers": EvalKind(
        "how many questions are answered rightly, wrongly, or refused", _QUESTION_SET,
        "distractors limit seed legs rerank recipe plan compare all json", partial(_run_questions, command="answers"),
    ),
    "talk": EvalKind(
        "whether greetings and thanks are answered as such",
        ("FILE", "texts with `search` (.jsonl); searched are the exports beside it, else the sample channels"),
        "limit seed legs rerank all json", partial(_run_dialogues, command="talk"), "texts",
    ),
    "followups": EvalKind(
        "whether follow-up questions are understood",
        ("DIR", "folder with followups.jsonl and the exports to search, or a folder for each `corpus` of a row"),
        "limit seed legs rerank all json", partial(_run_dialogues, command="followups"), "dialogues",
    ),
    "plans": EvalKind(
        "how well and how fast a model plans searches",
        ("FILE", "queries.jsonl, or a text file with a question a line"),
        "model seconds limit seed all json", _run_plans,
    ),
    "judge": EvalKind(
        "how well and how fast a model tells sentences that answer from others", _QUESTION_SET,
        "model limit seed legs rerank all json", _run_judge,
    ),
    "verify": EvalKind(
        "how good the verdicts on claims are, beside two baselines",
        ("FILE|DIR", "claims with their evidence (.jsonl), or a folder with claims.jsonl and the posts to look in"),
        "limit seed legs rerank all json", _run_verify, "claims",
    ),
    "calibrate": EvalKind(
        "fit the bar for answers, and how the legs are joined", _QUESTION_SET,
        "distractors limit seed legs rerank json", _run_calibrate,
    ),
    "make": EvalKind(
        "make a question set out of your own channels, without a model",
        ("DIR", "a new folder; it will hold texts of your posts"), "limit seed", _run_make,
    ),
}  # fmt: skip
