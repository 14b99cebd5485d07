"""Local language model: a GGUF in a worker process that is supervised, unloaded when idle, and restarted.

Waiting requests keep their places while the worker is restarted. Before a file is loaded its header and the free
memory are checked; a failure of llama.cpp becomes one sentence that says what to do.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import asdict, fields, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

from rag_core.errors import GenerationFailed, ModelUnavailable, translate_errors
from rag_core.llm.protocol import (
    MODEL_CLOSED,
    CircuitBreaker,
    DecodingParams,
    FinishReason,
    Generation,
    GenerationStats,
    LlmSession,
    Prompt,
    QueuePositionCallback,
    TokenRates,
)
from rag_core.llm.rates import LocalSpeed, load_speed, save_speed
from rag_core.llm.turns import FairScheduler
from rag_core.processes import Message, WorkerExited, WorkerProcess, format_install_command, read_log_lines
from rag_core.settings import LlmSettings

_GGUF_MAGIC = b"GGUF"
_MIN_GGUF_BYTES = 24  # magic, version, two counts
_MEMINFO_FILE = Path("/proc/meminfo")
# The limit of a container, by cgroups of version 2 or 1.
_CGROUP_MEMORY_FILES = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def check_gguf_file(path: Path) -> None:
    """Check that a file is a readable GGUF. Raises ModelUnavailable."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except IsADirectoryError:
        raise ModelUnavailable(f"{path} is a folder: give the path of the .gguf file in it.") from None
    except FileNotFoundError:
        raise ModelUnavailable(f"There is no model at {path}: check the path, or pull one.") from None
    except OSError as exc:
        raise ModelUnavailable(f"The model {path} cannot be read ({exc.strerror}): check its permissions.") from exc
    if size < _MIN_GGUF_BYTES or magic != _GGUF_MAGIC:
        raise ModelUnavailable(f"{path} is not a GGUF model, or only the beginning of one: fetch it again.")


def measure_free_memory() -> int | None:
    """Measure the free memory in bytes; None where it is unknown. In a container its limit counts too."""
    limits = []
    with suppress(OSError, ValueError):
        lines = dict(line.split(":", 1) for line in _MEMINFO_FILE.read_text().splitlines())
        limits.append(int(lines["MemAvailable"].split()[0]) * 1024)
    for file in _CGROUP_MEMORY_FILES:
        with suppress(OSError, ValueError):
            limits.append(int(file.read_text()))
    return min(limits, default=None)


# Beside the file a model needs llama.cpp's buffers, and keys and values of the context: together 0.83 GB measured for
# Qwen2.5-1.5B with 4,096 tokens, in a process of 1.94 GB. Of a tiny model they are no more than the file.
_BUFFER_BYTES, _CONTEXT_BYTES, _CONTEXT_TOKENS = 600_000_000, 230_000_000, 4096


def estimate_memory(size: int, context: int = _CONTEXT_TOKENS) -> int:
    """Estimate the memory of a model in bytes from the size of its file and the tokens of its context."""
    return size + min(size, _BUFFER_BYTES) + min(size, _CONTEXT_BYTES) * context // _CONTEXT_TOKENS


_WARM_BYTES = 2_000_000_000  # with less free memory a model is loaded only when a question needs it


def check_memory_fits(path: Path, free: int | None, context: int = _CONTEXT_TOKENS) -> None:
    """Check that the free memory holds the model with its buffers. Raises ModelUnavailable."""
    needed = estimate_memory(path.stat().st_size, context)
    if free is not None and needed > free:
        raise ModelUnavailable(
            f"The model {path.name} needs {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free: "
            "choose a smaller one, or put layers on a GPU with LLM__GPU_LAYERS."
        )


def _explain_load_failure(path: Path, kind: str, said: str) -> str:
    """Explain why llama.cpp did not load a model, in one sentence; `said` is its own message."""
    said = said.removeprefix("llama_model_load: error loading model: ")
    if kind == "missing":
        return f"llama.cpp is not installed ({said}): {format_install_command('citegram[local]')}"
    if kind == "kind":
        return f"{path.name} is not a model that writes text: choose an instruct model."
    if "unknown model architecture" in said:
        command = format_install_command("-U", "llama-cpp-python")
        return f"{path.name} needs a newer llama.cpp ({said}): choose another, or {command}"
    if kind == "memory":
        return f"There is not enough memory for {path.name}: choose a smaller model, or lower LLM__CONTEXT."
    return f"{path.name} cannot be loaded, it may be damaged ({said}): fetch it again, or choose another."


_WORKER_MODULE = "rag_core.llm.llama_worker"  # not imported: llama.cpp's native code stays out of this process
_LOAD_TIMEOUT_S = 900.0  # a slow disk and a model of tens of gigabytes
_STOP_TIMEOUT_S = 10.0  # from "stop" to the end of the request: normally milliseconds
_EXIT_TIMEOUT_S = 5.0


class LlmWorkerExited(Exception):
    """Worker process ended; `began`: after it had started the request."""

    def __init__(self, said: str, began: bool) -> None:
        super().__init__(said)
        self.began = began


class LlmWorkerRefused(Exception):
    """Worker refused a request; `kind` as in `RequestRefused` of llama_worker.py."""

    def __init__(self, kind: str, said: str) -> None:
        super().__init__(said)
        self.kind = kind


async def _receive_last(ask: Callable[..., AsyncGenerator[Message, None]], /, *given: object, **fields: Any) -> Message:
    async with aclosing(ask(*given, **fields)) as replies:
        return [reply async for reply in replies][-1]


class LlmWorkerProcess:
    """Running worker process. One request after another; one that is abandoned is stopped, or the worker killed."""

    def __init__(self, worker: WorkerProcess, log: IO[bytes], patience: float) -> None:
        self.worker, self._log, self._patience = worker, log, patience
        self._running: object = None  # the request that runs
        self._stopping: asyncio.Task[None] | None = None
        self._closed = False
        self.on_stop: Callable[[], None] = lambda: None  # called when a request ended because it was told to
        self.context, self.name = 0, ""

    @property
    def gone(self) -> bool:
        """Whether the process has ended, or is told to."""
        return self._closed or self.worker.exited

    @classmethod
    async def start(cls, path: Path, options: Mapping[str, Any], patience: float) -> LlmWorkerProcess:
        """Start the worker and wait until its model is loaded. Raises ModelUnavailable."""
        log = tempfile.TemporaryFile("a+b")  # noqa: SIM115 - lives as long as the worker
        say = "The model's process cannot be started: {}. Free some memory."
        with translate_errors(ModelUnavailable, OSError, say=say):
            worker = await WorkerProcess.start("-m", _WORKER_MODULE, str(path), json.dumps(options), log=log)
        child = cls(worker, log, patience)
        try:
            async with asyncio.timeout(_LOAD_TIMEOUT_S):
                ready = await worker.receive()
        except TimeoutError:
            ready = {"refused": "", "said": f"it took longer than {_LOAD_TIMEOUT_S:.0f} s"}
        except WorkerExited as exc:
            killed = exc.code == -signal.SIGKILL  # by the out-of-memory killer
            ready = {"refused": "memory" if killed else "", "said": f"its process ended with {exc.code}"}
        except BaseException:
            await child.stop()
            raise
        if "ready" in ready:
            child.context, child.name = ready["context"], ready["name"]
            return child
        # of several errors the first has caused the others
        said = next(iter(read_log_lines(log)), ready["said"])
        await child.stop()
        raise ModelUnavailable(_explain_load_failure(path, ready["refused"], said))

    async def ask(self, do: str, fields: Mapping[str, Any]) -> AsyncGenerator[Message, None]:
        """Send a request and yield its replies. Raises LlmWorkerExited, LlmWorkerRefused."""
        await self.wait_for_stop()
        running = self._running = object()
        began = False
        try:
            self.worker.send({"do": do, **fields})
            while True:
                try:
                    async with asyncio.timeout(self._patience):
                        reply = await self.worker.receive()
                except TimeoutError:
                    self.worker.kill()
                    reply = await self.worker.receive()
                began = True
                if "over" in reply:
                    self._running = None
                if "stopped" in reply:  # not by its reader: the worker is being stopped
                    raise LlmWorkerExited("it was stopped", began)
                if "refused" in reply:
                    raise LlmWorkerRefused(reply["refused"], reply["said"])
                if "over" in reply:
                    return
                yield reply
        except WorkerExited as exc:
            self._running = None
            raise LlmWorkerExited(str(exc), began) from exc
        finally:
            if self._running is running:
                self.halt()

    def halt(self) -> None:
        """Stop the running request, if there is one. A worker that does not stop is killed."""
        if self._running:
            self._running = None
            self._stopping = asyncio.create_task(self._stop_request())

    async def wait_for_stop(self) -> None:
        """Wait until a request that was told to stop has ended: a batch of its prompt may take two seconds."""
        if self._stopping:
            await asyncio.wait([self._stopping])

    async def _stop_request(self) -> None:
        self.worker.send({"stop": True})
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                while "over" not in await self.worker.receive():
                    pass
            self.on_stop()
        except TimeoutError:
            self.worker.kill()
        except WorkerExited as exc:
            _log.warning("the language model's process ended with %s", exc)

    async def stop(self) -> None:
        """Stop the worker, first gently, and wait for its exit. Calling it twice is no error."""
        self._closed = True
        try:
            await self.worker.stop(_EXIT_TIMEOUT_S)
        finally:
            await self.wait_for_stop()
            self._log.close()


class LocalSession:
    """`LlmSession` with the worker. One request at a time; it cannot be used after the turn (`left`)."""

    def __init__(self, model: LocalModel) -> None:
        self._model, self.left = model, False

    async def _ask(self, do: str, **fields: Any) -> AsyncGenerator[Message, None]:
        """Yield the worker's replies to one request. Raises GenerationFailed."""
        assert not self.left, "the turn is over"
        model = self._model
        for last in (False, True):
            try:
                child = await model._ensure_worker()
                async with aclosing(child.ask(do, fields)) as replies:
                    async for reply in replies:
                        yield reply
            except LlmWorkerExited as gone:
                model.breaker.record_failure()
                _log.warning("the language model's process ended with %s", gone)
                if gone.began or last:
                    raise GenerationFailed(f"The model went away ({gone}): ask again, it is started anew.") from gone
            except LlmWorkerRefused as no:
                if no.kind == "long":
                    takes = f"The prompt has {no} tokens and the model takes {model.context}"
                    raise GenerationFailed(f"{takes}: shorten it, or raise LLM__CONTEXT.") from no
                raise GenerationFailed(f"The model could not do it: {no}.") from no
            except ModelUnavailable as exc:
                raise GenerationFailed(exc.reason) from exc
            else:
                model.breaker.failures = 0
                return

    async def stream(
        self,
        prompt: Prompt,
        decoding: DecodingParams,
        *,
        grammar: str | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[str | Generation]:
        """Stream pieces of whole characters, and `Generation` last. `schema` is ignored: grammars are obeyed."""
        now = asyncio.get_running_loop().time
        began, first, pieces = now(), 0.0, list[str]()
        end: dict[str, Any] = {}
        how = {**asdict(decoding), "max_tokens": max(1, decoding.max_tokens)}
        async with aclosing(self._ask("generate", **asdict(prompt), how=how, grammar=grammar)) as replies:
            async for reply in replies:
                if text := reply.pop("text", ""):
                    first = first or now()
                    pieces.append(text)
                    yield text
                end |= reply
        first_ms, took_ms = 1000 * ((first or now()) - began), 1000 * (now() - began)
        figures = GenerationStats(end["prompt_tokens"], end["evaluated"], end["tokens"], first_ms, took_ms)
        yield Generation("".join(pieces), FinishReason(end["finish"]), figures)

    async def odds(self, prompt: Prompt, yes: str, no: str) -> float:
        """Log odds, log P(yes) - log P(no), at the first token where the two words differ."""
        return float((await _receive_last(self._ask, "odds", **asdict(prompt), words=[yes, no]))["odds"])

    async def count(self, texts: Sequence[str]) -> list[int]:
        """Count the tokens of each text."""
        return list((await _receive_last(self._ask, "count", texts=list(texts)))["counts"])

    async def count_unread(self, prompts: Sequence[Prompt]) -> list[int]:
        """Count the tokens of each prompt that are not cached."""
        asked = [asdict(prompt) for prompt in prompts]
        return list((await _receive_last(self._ask, "count_unread", prompts=asked))["counts"])


_log = logging.getLogger(__name__)

# A worker that sends nothing for so long hangs; it sends a message after every batch of a prompt and every token.
WORKER_SILENCE_TIMEOUT_S = 300.0
_BATCH, _GPU_BATCH = 128, 512  # a stop loses at most one batch; a processor reads larger ones no faster
_MEASURING_PAUSE_S = 60.0  # from the end of a start to the second measurement
_WARM_PAUSE_S = 1.0  # until the machine is looked at again

PrefixLister = Callable[[TokenRates], Sequence[Prompt]]


class LocalModel:
    """`LanguageModel` of one GGUF (`path`) in a worker process; see `open_local_model`."""

    grammars = True

    def __init__(
        self, path: Path, settings: LlmSettings, name: str, patience: float, data: Path | None, prefixes: PrefixLister
    ) -> None:
        self.path, self._settings, self._name, self._patience = path, settings, name, patience
        self._data, self._prefixes = data, prefixes
        self._turns, self.breaker = FairScheduler(), CircuitBreaker()
        self.speed: LocalSpeed | None = None  # as measured at this start or an earlier one
        self.rates: TokenRates | None = None
        self._warming: asyncio.Task[None] | None = None  # what is done while nobody waits, and the job of it that runs
        self._background: asyncio.Task[object] | None = None
        self._child: LlmWorkerProcess | None = None
        self._loading: asyncio.Task[LlmWorkerProcess] | None = None
        self._idle: asyncio.Task[None] | None = None  # which unloads the model after a while
        self.context, self._said_name = settings.context, ""

    @property
    def name(self) -> str:
        """Name it was opened with, else the name in the file, else the file's name."""
        return self._name or self._said_name or self.path.stem

    @property
    def waiting(self) -> int:
        """Number of requests that have a turn or wait for one."""
        return self._turns.waiting

    @property
    def pid(self) -> int | None:
        """Process id of the worker, or None where the model is unloaded."""
        return None if self._child is None or self._child.gone else self._child.worker.pid

    @asynccontextmanager
    async def turn(self, reader: int, on_place: QueuePositionCallback | None = None) -> AsyncIterator[LlmSession]:
        """Wait for a turn and for the model to be loaded. Raises GenerationFailed."""
        async with self._turns.acquire(reader, on_place), self._keep_loaded():
            await _cancel_task(self._background)
            with translate_errors(GenerationFailed, ModelUnavailable):
                child = await self._ensure_worker()
            await child.wait_for_stop()  # here it counts for nobody's stage, and for no hang
            session = LocalSession(self)
            try:
                yield session
            finally:
                session.left = True
                if self._child is not None:
                    self._child.halt()

    @asynccontextmanager
    async def _keep_loaded(self) -> AsyncIterator[None]:
        """Suspend the idle timer, and restart it afterwards."""
        if self._idle is not None:
            self._idle.cancel()
        try:
            yield
        finally:
            if self._settings.idle_minutes and not self._turns.closed:
                self._idle = asyncio.create_task(self._unload_when_idle())

    async def _unload_when_idle(self) -> None:
        await asyncio.sleep(60 * self._settings.idle_minutes)
        if not self._turns.waiting:
            await self.unload()

    async def load(self) -> None:
        """Load the model now. Raises ModelUnavailable."""
        async with self._turns.acquire(None), self._keep_loaded():
            await self._ensure_worker()

    async def unload(self) -> None:
        """Stop the worker to free its memory; the next turn starts it again."""
        async with self._turns.acquire(None):
            await self._stop_worker()

    async def _ensure_worker(self) -> LlmWorkerProcess:
        """Return the worker, started if it does not run. Raises ModelUnavailable, GenerationFailed."""
        if self._child is not None and not self._child.gone:
            return self._child
        if self._turns.closed:
            raise GenerationFailed(MODEL_CLOSED)
        if self._loading is None:
            await self._stop_worker()
            self.breaker.require_closed()
            self._loading = asyncio.create_task(self._start_worker())
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())
        loading = self._loading
        try:  # shielded: the request may be cancelled meanwhile, and the next one needs the model too
            self._child = await asyncio.shield(loading)
        except ModelUnavailable:
            self.breaker.record_failure()
            raise
        finally:
            if loading.done():
                self._loading = None
        self._child.on_stop = self.breaker.record_stop
        self.context, self._said_name = self._child.context, self._child.name
        if self._warming is None or self._warming.done():
            self._warming = asyncio.create_task(self._work_while_idle(self._child))
            self._warming.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._child

    async def _start_worker(self) -> LlmWorkerProcess:
        path, settings = self.path, self._settings
        check_gguf_file(path)
        if settings.gpu_layers == 0:
            check_memory_fits(path, measure_free_memory(), settings.context)
        options = {
            "gpu_layers": settings.gpu_layers,
            "threads": settings.threads or max(1, (os.cpu_count() or 2) - 1),
            "batch": _GPU_BATCH if settings.gpu_layers else _BATCH,
        }
        # what tells one model file, one llama.cpp and one machine from others
        status, llama = path.stat(), ""
        with suppress(PackageNotFoundError):
            llama = await asyncio.to_thread(version, "llama-cpp-python")
        about = {"file": path.name, "size": status.st_size, "time": status.st_mtime_ns, "llama": llama}
        made_by = {**about, **options, "cpus": os.cpu_count()}
        folder = next((folder for folder in (path.parent, self._data) if folder and os.access(folder, os.W_OK)), None)
        context = {"context": settings.context}
        states = {"states": str(folder or ""), "made_by": json.dumps({**made_by, **context})}
        child = await LlmWorkerProcess.start(path, {**options, **context, **states}, self._patience)
        self._measuring = partial(self._measure_speed, child, folder, made_by)
        if self.speed is None:
            if folder and (known := load_speed(folder, made_by)):
                self.speed = self.rates = known
            else:
                await self._measuring()
        return child

    async def _measure_speed(self, child: LlmWorkerProcess, folder: Path | None, made_by: Mapping[str, Any]) -> None:
        """Measure the speed in a second or two, and keep the faster rates: other programs slow a machine down."""
        with suppress(LlmWorkerRefused, LlmWorkerExited):  # the first request says why
            measured = await _receive_last(child.ask, "measure_speed", {})
            speed = LocalSpeed(**{field.name: measured[field.name] for field in fields(LocalSpeed)})
            if before := self.speed:
                fastest = max(speed.prefill, before.prefill), max(speed.decode, before.decode)
                speed = replace(speed, prefill=fastest[0], decode=fastest[1])
            self.speed = self.rates = speed
            if folder:
                save_speed(folder, speed, made_by)

    async def _work_while_idle(self, child: LlmWorkerProcess) -> None:
        """While nobody waits, evaluate the constant prefixes of the prompts in use, then measure the speed once more.

        A start is a busy moment: by what was measured then, stages would stay off for good.
        """
        for prompt in self._prefixes(self.rates) if self.rates else ():
            await self._run_while_idle(partial(_receive_last, child.ask, "warm", asdict(prompt)))
        await asyncio.sleep(_MEASURING_PAUSE_S)
        await self._run_while_idle(self._measuring)

    async def _run_while_idle(self, job: Callable[[], Coroutine[Any, Any, object]]) -> None:
        while self._background is None or self._background.cancelled():
            while self._turns.waiting:  # noqa: ASYNC110 - nothing says that a model is idle
                await asyncio.sleep(_WARM_PAUSE_S)
            self._background = asyncio.create_task(job())
            await asyncio.wait([self._background])
        done, self._background = self._background, None
        with suppress(LlmWorkerRefused):
            done.result()

    async def _stop_worker(self) -> None:
        await _cancel_task(self._warming)
        await _cancel_task(self._background)
        self._background = None
        if (loading := self._loading) is not None:
            self._loading = None
            await _cancel_task(loading)
            if not loading.cancelled() and loading.exception() is None:
                self._child = loading.result()
        child, self._child = self._child, None
        if child is not None:
            await child.stop()

    async def close(self) -> None:
        """Stop the worker; waiting requests raise GenerationFailed."""
        self._turns.close(MODEL_CLOSED)
        await _cancel_task(self._idle)
        await self._stop_worker()


async def _cancel_task(task: asyncio.Task[Any] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait([task])


async def open_local_model(
    path: Path,
    settings: LlmSettings,
    *,
    name: str = "",
    patience: float = WORKER_SILENCE_TIMEOUT_S,
    data: Path | None = None,
    prefixes: PrefixLister = lambda rates: (),
) -> LocalModel:
    """Open a GGUF, and load it where LLM__WARM says so; else the first turn does. Raises ModelUnavailable.

    `patience` is the timeout for a silent worker, in seconds. Rates and states of prefixes are kept beside the file,
    else in `data`; `prefixes` lists the prompts whose constant parts are worth evaluating in the background, at given
    rates.
    """
    model = LocalModel(path, settings, name, patience, data, prefixes)
    try:
        check_gguf_file(path)
        free = measure_free_memory()
        if settings.warm or (settings.warm is None and (free is None or free >= _WARM_BYTES)):
            await model.load()
    except BaseException:
        await model.close()
        raise
    return model
