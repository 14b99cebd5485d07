"""`citegram models list|pull|use`: show, download and select models."""

import argparse
import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from bot.control import hold_folder_or_connect
from bot.data_folder import open_archive, show_progress_bar
from bot.settings import Settings
from rag_core.llm.rates import estimate_stages, judges_only, load_speed
from rag_core.models import active_models
from rag_core.models.catalog import MODELS, ModelRole, ModelSpec, ModelTier, find_models, is_model_present
from rag_core.models.download import pull_model
from rag_core.processes import format_install_command
from rag_core.run import Budgets
from rag_core.safe_files import measure_size
from rag_core.settings import RagSettings
from rag_core.storage.backups import ARCHIVE_FILE
from rag_core.storage.readers import load_choices


def declare(parser: argparse.ArgumentParser, _: str) -> None:
    """Add the arguments to the parser of the command."""
    what = parser.add_subparsers(dest="what", required=True, metavar="list|pull|use")
    list_parser = what.add_parser("list", help="every model: what it is for, how large it is, whether it is here")
    list_parser.add_argument("--all", action="store_true", help="also memory, licence and source")
    pull_parser = what.add_parser("pull", help="download a model, or all of a tier; what is here already is left alone")
    names = [*(tier.value for tier in ModelTier), *(row.name for row in MODELS)]
    pull_parser.add_argument("name", choices=names, metavar="NAME_OR_TIER", help=", ".join(names))
    origin = "address of the hub or a mirror of it, or a folder that has the files (default: MODELS__HUB)"
    pull_parser.add_argument("--from", dest="hub", metavar="URL_OR_DIR", help=origin)
    use = what.add_parser("use", help="use another model from now on; a bot that runs changes over at once")
    use.add_argument("name", metavar="NAME|PATH", help="a pulled model, a .gguf file, auto, or none")
    use.add_argument(
        "--for",
        dest="wanted",
        choices=tuple(active_models.MODEL_USES),
        default="",
        help="for what (default: what it is for)",
    )
    parser.set_defaults(run=run)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """List, pull or use models. Returns the exit code."""
    models = active_models.get_models_folder(settings.rag())
    choices, live, progress = dict[str, str](), "", None
    if (settings.data.dir / ARCHIVE_FILE).exists():  # looking must not create one
        async with open_archive(settings.data.dir) as archive:
            choices, live = await load_choices(archive), await active_models.find_live_model(archive)
            progress = await active_models.find_embedder_progress(settings.rag(), archive)
    if args.what == "list":
        used = active_models.list_models_in_use(settings.rag(), choices, live)
        lines = await asyncio.to_thread(format_model_list, models, used, settings.rag(), everything=args.all)
        print(*lines, sep="\n")
        if progress:
            print(f"\n{progress}")
    elif args.what == "use":
        name = str(Path(args.name).expanduser().absolute()) if active_models.is_gguf_path(args.name) else args.name
        async with hold_folder_or_connect(settings.data.dir) as owner:
            if owner:
                switch = await owner.use(name, args.wanted)
            else:
                async with open_archive(settings.data.dir) as archive:
                    switch = await active_models.choose_model_for_next_start(settings.rag(), archive, name, args.wanted)
        print(_describe_use(switch))
    else:
        rows = find_models(args.name)
        hub = args.hub or settings.models.hub
        if not rows:
            print(f"The tier {ModelTier.NONE} needs no model.")
        for row in rows:
            with show_progress_bar(row.name, "B") as moved:
                folder = await pull_model(row, models, hub=hub, progress=moved)
            print(f"{row.name}: {folder} ({measure_size(folder) / 1e6:,.0f} MB)")
        for row in rows:
            if row.role is ModelRole.WRITER:
                print(_describe_next_step(row, settings.rag(), choices))
            if row.role is ModelRole.EMBEDDER and settings.models.embedder == "auto" and live not in {"", row.name}:
                print(f"Next: citegram models use {row.name} embeds all posts anew; until then {live} answers.")
            if row.role is ModelRole.SPEECH and find_spec("faster_whisper") is None:
                print("Next: make media installs faster-whisper, which runs it.")
    return 0


def _describe_use(switch: active_models.ModelSwitch) -> str:
    use = _name_use(switch.use)
    if switch.now:
        return f"The bot uses {switch.name} as {use} now."
    if switch.beside:
        return f"The bot embeds all posts with {switch.name}, then changes over; until then the old one answers."
    if switch.use == "embedder":
        return (
            f"{switch.name} is the embedder from the next start on: the bot then makes all vectors anew, beside the "
            "old ones, and citegram reindex does it at once."
        )
    return f"{switch.name} is the {use} from the next start on."


def _name_use(use: str) -> str:
    return "speech model" if use == ModelRole.SPEECH else use


def format_model_list(
    models: Path, used: Mapping[str, str], settings: RagSettings, *, everything: bool = False
) -> list[str]:
    """Format a line for each model, in 80 columns, or wider with `everything`; `used` maps uses to model names."""
    wide = ("memory", "licence", "published by", "from") if everything else ()
    heads = (" ", "tier", "model", "for", "size", "published", "run here", *wide)
    rows: list[tuple[str, ...]] = [heads]
    for row in MODELS:
        mark = "*" if row.name in used.values() else "+" if is_model_present(row, models / row.name) else " "
        sure, run_here = ("", "yes") if row.checked else ("~", "no")
        size = f"{sure}{row.bytes / 1e9:.1f} GB" if row.bytes >= 1e9 else f"{sure}{row.bytes / 1e6:.0f} MB"
        memory = f"{sure}{row.memory / 1e9:.1f} GB" if row.memory else ""
        cells = (mark, row.tier, row.name, row.role, size, row.published, run_here, memory, row.licence,
                 row.published_by, row.where)  # fmt: skip
        rows.append(cells[: len(heads)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip() for cells in rows]
    uses = {name: " and ".join(use for use in used if used[use] == name) for name in used.values()}
    return [
        *(line[:1] + line[2:] for line in lines),  # one space is enough after the mark
        "",
        "+ is on this machine, * is in use; ~ as others say. Published: for Russian.",
        *(["Memory is a writer's with 4,096 tokens, a speech model's with half an hour."] if everything else []),
        *(f"The {_name_use(use)} is {name}." for name, use in uses.items()),
        *_describe_stages(used.get("writer"), models, settings),
        "Without a model: search by words, answers word for word.",
        f"Folder of the models: {models}",
    ]


def _describe_stages(writer: str | None, models: Path, settings: RagSettings) -> list[str]:
    """Say which stages the writer ends in time on this machine, and how long the others would take."""
    if writer is None:
        return []
    if writer == "LLM__URL":
        return ["The server judges, plans and writes: nothing is left out for its time."]
    rates = load_speed(Path(writer).parent if active_models.is_gguf_path(writer) else models / writer)
    if rates is None:
        return ["What it does here is known after its first load, which measures its speed."]
    if judges_only(writer):
        return [f"It reads {rates.prefill:.0f} tokens/s and judges; it is too small to plan and to write."]
    stages = estimate_stages(rates, Budgets())
    verbs = {"judge": "judges answers", "plan": "plans searches", "write": "writes answers"}
    does = [verbs[stage.stage] for stage in stages if stage.fits]
    late = [stage for stage in stages if not stage.fits]
    return [
        f"It reads {rates.prefill:.0f} and writes {rates.decode:.1f} tokens/s: it {', '.join(does) or 'does nothing'}.",
        *(f"Off: {one.stage}, which would take {one.seconds:.0f} s of {one.limit:.0f} s." for one in late),
    ]


def _describe_next_step(row: ModelSpec, settings: RagSettings, choices: Mapping[str, str]) -> str:
    """Say what switches a pulled writer on, in one line."""
    name = row.tier if find_models(row.tier) == (row,) else row.name
    if settings.llm.url:
        return "LLM__URL is set, and that server writes: empty it to use this model."
    if (fixed := settings.llm.model) not in ("auto", name, row.name):
        return f"LLM__MODEL is {fixed}: set it to {name} to use this model."
    if find_spec("llama_cpp") is None:
        command = format_install_command("citegram[local]")
        return f"Next: compile llama.cpp, some minutes, with a C++ compiler; the bot then uses this model: {command}"
    if active_models.list_models_in_use(settings, dict(choices)).get("writer") == row.name:
        return f"The bot uses it from its next start on; at once with: citegram models use {name}"
    return f"Switch it on: citegram models use {name}"
