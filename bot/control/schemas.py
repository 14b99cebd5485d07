"""Schemas of answers, plans, verdicts and index facts as JSON: for the control socket, the terminal and /plan."""

from __future__ import annotations

from typing import Any, TypedDict


class AnswerJson(TypedDict):
    """An answer as sent over the socket. Dates are ISO texts in UTC."""

    answer: dict[str, Any]  # as printed by --json
    marks: list[list[int]]  # for each sentence the numbers of its sources
    # by number, from 1: link, title, date, the post's words where no sentence shows them, the addresses
    # that the question asks for, one a line; if known edited and origin
    sources: list[dict[str, str]]
    nearest: list[dict[str, str]]  # of a refusal, with the same fields
    understood: str  # the standalone question that a follow-up was rewritten to
    reply: str  # to small talk, which is not searched for
    trace: list[dict[str, Any]]
    results: list[tuple[str, list[str]]]  # of the stages, with texts: for the terminal that asked for the trace


class PlanJson(TypedDict):
    """The plan of a question and what it finds, as sent over the socket."""

    plan: dict[str, Any]  # in the form of the planner model
    legs: str
    reasons: list[str]
    fused: list[dict[str, Any]]  # best first: link, score, and the ranks in the lexical and the dense leg


class VerdictsJson(TypedDict):
    """Verdicts as sent over the socket and printed by `--json`. Dates are ISO texts in UTC."""

    same: dict[str, str] | None
    verdicts: list[dict[str, Any]]
    left: int
    without: list[str]
    trace_id: str
    trace: list[dict[str, Any]]


class DenseFacts(TypedDict):
    """Facts on the dense index; `seconds` estimates the time to embed the waiting posts on this machine."""

    model: str
    vectors: int
    waiting: int
    seconds: float


class IndexFacts(TypedDict):
    """Facts on both indexes: size, watermark, and the changes still to index (below 0: the index is ahead)."""

    passages: int
    watermark: int
    behind: int
    dense: DenseFacts | None
    compared: dict[str, int] | None  # as from `compare_indexes`; None: the indexes were not up to date
    without: list[str]  # why a part could not be opened
    language: list[tuple[bool | None, str]]  # of writer and planner: fine or not, and a sentence
    bar: str
