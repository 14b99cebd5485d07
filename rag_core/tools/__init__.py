"""What the recipe react may use: typed input, {"ok", "data", "meta"} out, the asker's channels always.

A search of the web is not here, because an answer stands on posts alone. Who wants one all the same adds a line to
`TOOLS`, `Tool("web_search", WebSought, work, outside=True)`, whose `work` gives `WebFound`, and names it in
TOOLS__ALLOWLIST: "all" does not mean what is outside. What it finds lies on no desk and can never be cited.
"""

from __future__ import annotations

from collections.abc import Iterable

from rag_core.tools.contract import Call, Line, Meta, Outcome, Tool, call
from rag_core.tools.counting import count_mentions, first_mention, timeline
from rag_core.tools.desk import Desk
from rag_core.tools.finding import fetch, neighbours, newest, rerank, search
from rag_core.tools.reckoning import calculate, time_normalize
from rag_core.tools.telling import summarize, verify
from rag_core.tools.wires import Aspect, Claimed, Expression, Near, Newest, Numbers, Sought, Spoken, Wished

__all__ = ["TOOLS", "Call", "Desk", "Line", "Meta", "Outcome", "Tool", "allowed", "call"]

TOOLS: tuple[Tool, ...] = (
    Tool("search", Sought, search),
    Tool("fetch", Numbers, fetch),
    Tool("neighbours", Near, neighbours),
    Tool("newest", Newest, newest),
    Tool("first_mention", Aspect, first_mention),
    Tool("count_mentions", Aspect, count_mentions),
    Tool("timeline", Aspect, timeline),
    Tool("time_normalize", Spoken, time_normalize),
    Tool("calculate", Expression, calculate),
    Tool("summarize", Numbers, summarize),
    Tool("rerank", Wished, rerank),
    Tool("verify", Claimed, verify),
)
_ALL = "all"


def allowed(allowlist: str, tools: Iterable[Tool] = TOOLS) -> tuple[Tool, ...]:
    """The tools that a list of names allows, in the order of the table; names of no tool allow nothing."""
    names = {name.strip().lower() for name in allowlist.split(",")}
    return tuple(tool for tool in tools if tool.name in names or (_ALL in names and not tool.outside))
