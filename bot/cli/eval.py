"""`citegram eval`: the kinds of measurement with their arguments, and what those without an index print and write."""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bot.cli.eval_runner import Measurement, open_recording, run_calibrate, run_measurement
from bot.cli.folder import iterate_with_progress_bar, open_archive, require_archive
from bot.evaluation.claim_accuracy import (
    VERIFICATION_LAYERS,
    compute_label_metrics,
    judge_claim_pairs,
    verify_in_corpus,
)
from bot.evaluation.data import (
    CLAIMS_FILE_NAME,
    VARIANTS,
    Variant,
    build_variant_settings,
    draw_sample,
    make_questions,
    open_indexed_dataset,
    read_claims,
    read_dataset,
)
from bot.evaluation.measures import (
    PLAN_FORMS,
    answer_query,
    compute_plan_metrics,
    measure_plan,
    read_questions,
    search_query,
)
from bot.evaluation.metrics import (
    PLAN_FIGURES,
    compute_answer_metrics,
    compute_by_language,
    compute_metrics_by_kind,
    compute_retrieval_metrics,
    format_recipes,
    format_report,
    require_writable,
    write_json_report,
)
from bot.evaluation.recorded_replies import RecordingModel
from bot.settings import Settings
from rag_core.errors import ImportRefused, ModelUnavailable, SettingsWrong, translate_errors
from rag_core.llm.protocol import LanguageModel
from rag_core.models.active_models import open_language_models
from rag_core.planning.llm_planner import KnownEntities
from rag_core.recipes import RECIPES
from rag_core.run import Budgets
from rag_core.settings import RagSettings
from rag_core.storage import channels, posts
from rag_core.types import AUTO_RECIPE, Post


def _parse_share(text: str) -> float:
    with suppress(ValueError):
        if 0 < (share := float(text)) < 1:
            return share
    raise argparse.ArgumentTypeError(f"{text!r} is no share between 0 and 1, such as 0.05")


def _parse_number(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}, such as 50")
    return int(text)


def _parse_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in text.split(",")))


def _parse_recipes(text: str) -> tuple[str, ...]:
    names = tuple(RECIPES) if text == "all" else _parse_names(text)
    for name in names:
        if name not in {*RECIPES, AUTO_RECIPE}:
            raise argparse.ArgumentTypeError(f"{name!r} is no recipe: there is {', '.join(RECIPES)}, auto, and all")
    return names


def _parse_compared(text: str, known: Collection[str] = VARIANTS) -> tuple[str, ...]:
    names = _parse_names(text)
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} cannot be compared: there are {', '.join(known)}")
    if len(names) < 2:
        raise argparse.ArgumentTypeError(f"{text!r} names one thing: two are compared, such as plan-on,plan-off")
    return names


# A second round depends on what was answered.
_RETRIEVAL_VARIANTS = [name for name in VARIANTS if not name.startswith("rounds-")]
_COMPARE_HELP = "the same questions in several ways, the first being what the others are measured by: "

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
        "type": _parse_recipes, "default": ("direct",), "metavar": "NAME",
        "help": f"how answers are made: {', '.join(RECIPES)}, auto as for readers, several with commas, or all "
        "(default: direct)",
    },
    "plan": {
        "choices": ("on", "off"), "default": "on",
        "help": "off: the question as the one query, no filters, both legs (default: on)",
    },
    "compare": {"type": _parse_compared, "metavar": "A,B", "help": _COMPARE_HELP + ", ".join(VARIANTS)},
    "grammar": {
        "choices": PLAN_FORMS, "default": PLAN_FORMS[0],
        "help": "what holds the model to the form of a plan (default: gbnf)",
    },
    "model": {"type": Path, "metavar": "PATH", "help": "a GGUF (default: the model of the settings)"},
    "record": {
        "type": Path, "metavar": "FILE",
        "help": "write the model's replies to a file, so that the measurement can be repeated without the model",
    },
    "replay": {"type": Path, "metavar": "FILE", "help": "take the replies from such a file: no model"},
    "seconds": {
        "type": _parse_number, "default": round(Budgets().plan), "metavar": "N",
        "help": "seconds that a plan may take (default: %(default)s, as in an answer)",
    },
    "target": {
        "type": _parse_share, "default": 0.07,
        "help": "share of answerable questions that may be refused (default: %(default)s)",
    },
    "all": {"action": "store_true", "help": "print every figure (default: the three that say most)"},
    "json": {"type": Path, "metavar": "OUT", "dest": "json_out", "help": "write every figure to a file"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class EvalKind:
    """Kind of `citegram eval`: its help, what it reads (name, metavar, help), its options, and what runs it.

    `rows`: what it counts; `changes`: what differs in its options.
    """

    help: str
    reads: tuple[str, str, str]
    options: str
    run: Callable[[argparse.Namespace, Settings], Awaitable[None]]
    rows: str = "questions"
    changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments to the parser of the kind."""
        name, metavar, reads = self.reads
        parser.add_argument(name, type=Path, metavar=metavar, help=reads)
        names = self.options.split()
        recorded = parser.add_mutually_exclusive_group() if "record" in names else parser
        for name in names:
            given = {**_OPTIONS[name], **self.changes.get(name, {})}
            given["help"] = given["help"].replace("{rows}", self.rows)
            (recorded if name in {"record", "replay"} else parser).add_argument(f"--{name}", **given)
        parser.set_defaults(run=self._run)

    async def _run(self, args: argparse.Namespace, settings: Settings) -> int:
        require_writable(getattr(args, "json_out", None), "figures", "json")
        await self.run(args, settings)
        return 0


async def _run_dialogues(args: argparse.Namespace, settings: Settings, kind: str) -> None:
    from bot.evaluation import measures
    from bot.sandbox.state import SAMPLE_CHANNELS_FOLDER

    variant, judged_fields = Variant(legs=args.legs, rerank=args.rerank), dict[str, Any]()
    if kind == "talk":
        rows = draw_sample(measures.read_dialogues(args.file, SAMPLE_CHANNELS_FOLDER), args.limit, args.seed)
        talks = await measures.run_dialogues(rows, measures.judge_talk, settings, variant)
        metrics = compute_by_language(talks, measures.compute_talk_metrics)
        judged_fields["failed"] = [row.id for row in talks if not row.handled]
    else:
        rows = draw_sample(measures.read_dialogues(args.file / "followups.jsonl"), args.limit, args.seed)
        judged = await measures.run_dialogues(rows, measures.judge_followup, settings, variant)
        metrics = compute_by_language(judged, measures.compute_followup_metrics)
        judged_fields["judged"] = [asdict(row) for row in judged]
    print(format_report(kind, {"": metrics}, len(rows), everything=args.all))
    settings_used = {"legs": args.legs, "rerank": args.rerank, "limit": args.limit, "seed": args.seed}
    data = args.file.resolve().name
    write_json_report(args.json_out, kind, data, settings_used, metrics, len(rows), **judged_fields)


async def _run_plans(args: argparse.Namespace, settings: Settings) -> None:
    recording = open_recording(args)
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
                if row := await measure_plan(question, around, model, Budgets(plan=args.seconds), short=short):
                    rows.append(row)
            metrics_of[recipe] = compute_by_language(rows, compute_plan_metrics)
    metrics: Mapping[str, Any] = metrics_of if len(metrics_of) > 1 else metrics_of[args.recipe[0]]
    if len(metrics_of) > 1:
        print(format_recipes(metrics_of, PLAN_FIGURES))
    else:
        print(format_report("plans", {"": metrics}, len(rows), everything=args.all))
    print(f"\n{len(rows)} questions planned by {model.name}, form: {args.grammar}")
    settings_used = {"grammar": args.grammar, "model": model.name, "limit": args.limit, "seed": args.seed}
    write_json_report(args.json_out, "plans", args.file.name, settings_used, metrics, len(rows))


async def _run_judge(args: argparse.Namespace, settings: Settings) -> None:
    from bot.evaluation.measures import compute_judge_metrics, judge_first_sentence

    dataset, variant = read_dataset(args.folder, (), args.limit, args.seed), Variant(legs=args.legs, rerank=args.rerank)
    rag_settings, rows = settings.rag(), []
    async with (
        _open_planner(args.model, rag_settings) as model,
        open_indexed_dataset(dataset, build_variant_settings(rag_settings, [variant])) as opened,
    ):
        data = opened.select_variant(variant)
        for query in iterate_with_progress_bar(dataset.queries, "judge"):
            if row := await judge_first_sentence(query, data, model):
                rows.append(row)
        name = model.name
    metrics = compute_by_language(rows, compute_judge_metrics)
    print(format_report("judge", {"": metrics}, len(rows), everything=args.all))
    print(f"\n{len(rows)} sentences judged by {name}")
    settings_used = {"model": name, "legs": args.legs, "rerank": args.rerank, "limit": args.limit, "seed": args.seed}
    write_json_report(args.json_out, "judge", dataset.name, settings_used, metrics, len(rows),
                      judged=[asdict(row) for row in rows])  # fmt: skip


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


async def _run_verify(args: argparse.Namespace, settings: Settings) -> None:
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
    print(format_report("verify", layers, len(judged), everything=args.all, main="all"))
    settings_used = {"limit": args.limit, "seed": args.seed, "legs": args.legs, "rerank": args.rerank,
                     "evidence": "looked up" if corpus else "given"}  # fmt: skip
    data = args.folder.resolve().name
    write_json_report(args.json_out, "verify", data, settings_used, layers["all"], len(judged), layers=layers)


_FEWEST_QUESTIONS = 50  # fewer say little about a change


async def run_make(args: argparse.Namespace, settings: Settings) -> None:
    """Make a question set out of the posts of the archive."""
    folder: Path = args.folder
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
    queries, corpus = make_questions(all_posts, known, most, seed)
    if not queries:
        raise SettingsWrong("No post of yours has a sentence to ask about: import some posts first.")
    refusal = "The questions cannot be written ({}): name another folder."
    with translate_errors(SettingsWrong, OSError, say=refusal):
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in (("corpus", corpus), ("queries", queries)):
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{len(queries)} questions about {len(corpus)} posts: citegram eval answers {folder}")
    if about := sum(row["kind"] == "about" for row in queries):
        print(f"{about} of them ask in words of the post, which is easier than readers do: few posts state values.")
    if len(queries) < min(most, _FEWEST_QUESTIONS):
        print(
            f"Fewer than {_FEWEST_QUESTIONS}: of {len(all_posts)} posts no more state a price, a date, a time or a "
            "number, or have a sentence with four words that few other posts have."
        )


_QUESTION_SET = ("folder", "DIR", "folder with queries.jsonl and corpus.jsonl or an export")

KINDS = {
    "retrieval": EvalKind(
        "how much is found, and how high", _QUESTION_SET,
        "distractors limit seed legs rerank recipe plan compare all json",
        partial(run_measurement, what=Measurement(
            "retrieval", lambda query: bool(query.relevant), search_query, compute_retrieval_metrics
        )),
        changes={"compare": {"type": partial(_parse_compared, known=_RETRIEVAL_VARIANTS),
                             "help": _COMPARE_HELP + ", ".join(_RETRIEVAL_VARIANTS)}},
    ),
    "answers": EvalKind(
        "how many questions are answered rightly, wrongly, or refused", _QUESTION_SET,
        "distractors limit seed legs rerank recipe plan compare record replay all json",
        partial(run_measurement, what=Measurement(
            "answers", lambda query: True, answer_query, compute_answer_metrics, compute_metrics_by_kind
        )),
    ),
    "talk": EvalKind(
        "whether greetings and thanks are answered as such",
        ("file", "FILE",
         "texts with `search` (.jsonl); searched are the exports beside it, else the sample channels"),
        "limit seed legs rerank all json", partial(_run_dialogues, kind="talk"), "texts",
    ),
    "followups": EvalKind(
        "whether follow-up questions are understood",
        ("file", "DIR",
         "folder with followups.jsonl and the exports to search, or a folder for each `corpus` that a row names"),
        "limit seed legs rerank all json", partial(_run_dialogues, kind="followups"), "dialogues",
    ),
    "plans": EvalKind(
        "how well and how fast a model plans searches",
        ("file", "FILE", "queries.jsonl, or a text file with a question a line"),
        "grammar model seconds recipe record replay limit seed all json", _run_plans,
        changes={"recipe": {"help": "whose plans: all, or several with commas, in one table; mapreduce plans in "
                                    "keywords (default: direct)"}},
    ),
    "judge": EvalKind(
        "how well and how fast a model tells sentences that answer from others", _QUESTION_SET,
        "model limit seed legs rerank all json", _run_judge,
    ),
    "verify": EvalKind(
        "how good the verdicts on claims are, beside two baselines",
        ("folder", "FILE|DIR",
         "claims with their evidence (.jsonl), or a folder with claims.jsonl and the posts to look them up in"),
        "limit seed legs rerank all json", _run_verify, "claims",
    ),
    "calibrate": EvalKind(
        "fit the bar for answers, and how the legs are joined", _QUESTION_SET,
        "distractors limit seed legs rerank target json", run_calibrate,
    ),
    "make": EvalKind(
        "make a question set out of your own channels, without a model",
        ("folder", "DIR", "a new folder; it will hold texts of your posts"), "limit seed", run_make,
    ),
}  # fmt: skip


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the kinds of measurement to the parser of the command."""
    kinds = parser.add_subparsers(required=True, metavar="WHAT")
    for name, kind in KINDS.items():
        kind.declare(kinds.add_parser(name, help=kind.help))
