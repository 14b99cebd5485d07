"""How a tool is called: {"tool", "input"} goes in, {"ok", "data", "meta": {"took_ms", "error"}} comes out, always.

Whatever is put in and whatever goes wrong, there is an answer in this form, within the time a tool may take.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from rag_core.errors import ArchiveUnavailable, IndexUnavailable, RagError, raised_as
from rag_core.stage import Span
from rag_core.tools.desk import Desk, ToolFailed
from rag_core.tools.wires import Wire
from rag_core.types import Shortfall

__all__ = ["Call", "Line", "Meta", "Outcome", "Tool", "call"]

_LEAST_S = 0.05

log = logging.getLogger(__name__)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Call(_Strict):
    """What is asked of a tool."""

    tool: str
    input: dict[str, Any]


class Meta(_Strict):
    """How long it took, in milliseconds, and one sentence where it failed."""

    took_ms: float
    error: str | None = None


class Outcome(_Strict):
    """What came of it; `data` is the tool's output, None where it failed."""

    ok: bool
    data: dict[str, Any] | None
    meta: Meta


class Line(_Strict):
    """The line of the trace. No texts: `error` is a sentence of ours."""

    request_id: str
    step: int
    tool: str
    took_ms: float
    ok: bool
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """Something that can be called: `work` takes the input and the desk. `outside`: only when allowed by name."""

    name: str
    wants: type[Wire]
    work: Callable[[Any, Desk], Awaitable[Wire]]
    outside: bool = False


async def call(asked: object, tools: Collection[Tool], desk: Desk) -> Outcome:
    """Call one of these tools; of others it is said that they are not allowed. Never raises but when cancelled."""
    started = time.perf_counter()
    name, data, error, late, seconds = "?", None, None, False, 0.0
    try:
        request = Call.model_validate(asked)
        tool = next((tool for tool in tools if tool.name == request.tool), None)
        if tool is None:
            error = "This tool is not allowed: TOOLS__ALLOWLIST names those that are."
        else:
            name = tool.name
            seconds = _seconds(desk)
            async with asyncio.timeout(seconds):
                data = await _output(tool, request, desk)
    except ValidationError as exc:
        error = _told(exc)
    except TimeoutError:
        late, error = True, f"The tool took longer than {seconds:.3g} s: raise TOOLS__SECONDS."
    except RagError as exc:
        error = exc.reason
        if isinstance(exc, ArchiveUnavailable | IndexUnavailable):  # then "it is not there" would be a claim
            desk.run.shortfalls.append(Shortfall("search", error))
    except Exception:  # the contract: a tool that is broken must not take the answer with it
        log.exception("the tool %s is broken", name)
        error = "The tool failed: its log says why."
    took = round((time.perf_counter() - started) * 1000, 3)
    outcome = Outcome(ok=error is None, data=data if error is None else None, meta=Meta(took_ms=took, error=error))
    _trace(name, outcome, desk, late=late)
    return outcome


def _seconds(desk: Desk) -> float:
    """What a tool may take: its own time, and no more than its recipe has, so that what was found is still used."""
    return min(desk.rag.settings.tools.seconds, max(_LEAST_S, desk.run.left - desk.run.after))


async def _output(tool: Tool, request: Call, desk: Desk) -> dict[str, Any]:
    with raised_as(ToolFailed, TypeError, ValueError, RecursionError, say="The input is not JSON."):
        given = json.dumps(request.input)
    # read as JSON, where days are text, and strictly otherwise
    return (await tool.work(tool.wants.model_validate_json(given), desk)).model_dump(mode="json")


def _told(exc: ValidationError) -> str:
    """One sentence on the first thing that is wrong; nothing is repeated that was given, nor a key of its own."""
    first = exc.errors(include_input=False, include_url=False)[0]
    named = first["loc"][:-1] if first["type"] == "extra_forbidden" else first["loc"]
    where = ".".join(str(part) for part in named) or "call"
    return f"The input is not what the tool takes ({where}: {first['msg'][:120]})."


def _trace(name: str, outcome: Outcome, desk: Desk, *, late: bool) -> None:
    """A JSON line in the log, and a span of the run."""
    meta = outcome.meta
    line = Line(request_id=desk.run.trace_id, step=desk.step, tool=name, took_ms=meta.took_ms, ok=outcome.ok,
                error=meta.error)  # fmt: skip
    log.info("%s", line.model_dump_json())
    desk.lines.append(line.model_dump())
    counts: dict[str, float | str] = {"step": desk.step, "ok": float(outcome.ok), "late": float(late)}
    desk.run.spans.append(Span(f"tool.{name}", meta.took_ms, counts, meta.error))
