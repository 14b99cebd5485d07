"""Settings that are right each, and wrong together."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

from bot.doctor.findings import Case, Finding
from bot.settings import Settings
from rag_core.language import FREE

__all__ = ["settings"]

_HERE = {"localhost", "127.0.0.1", "::1"}

_BOTH = "LLM__URL and LLM__MODEL={model} are both set, and the server writes: take one of them out."
_ALONE = "{name} is set without {needed}, and does nothing: set {needed} too, or take it out."
_CONTEXT = (
    "LLM__EVIDENCE_TOKENS and LLM__ANSWER_TOKENS need {sum} tokens, and LLM__CONTEXT has {context}: raise it, or "
    "lower them."
)
_THREADS = "{name} is {threads}, and this machine has {cores} processors: lower it to {cores}."
_WEIGHT = "RETRIEVAL__DENSE is set, and MODELS__EMBEDDER=none: there is no search by meaning to weigh; take one out."
_OPEN = "{name} sends its key unencrypted to another machine: use https."
_NOBODY = (
    "BOT__ADMINS is empty, so nobody can approve a channel: send /start to the bot, it tells you the line for .env."
)


async def settings(case: Case) -> AsyncIterator[Finding]:
    """All contradictions."""
    given, found = case.settings, False
    for said in (*_language(given), *_search(given), *_unencrypted(given)):
        found = True
        yield Finding(False, said)
    if not given.bot.admins:
        yield Finding(False if given.bot.token.get_secret_value() else None, _NOBODY)
    elif not found:
        yield Finding(True, "settings: none contradicts another")


def _language(given: Settings) -> Iterator[str]:
    llm, cores = given.llm, os.cpu_count() or 1
    if llm.url and llm.model not in (*FREE, "none"):
        yield _BOTH.format(model=llm.model)
    for name, value in (("LLM__KEY", llm.key.get_secret_value()), ("LLM__NAME", llm.name)):
        if value and not llm.url:
            yield _ALONE.format(name=name, needed="LLM__URL")
    if (needed := llm.evidence_tokens + llm.answer_tokens) >= llm.context:
        yield _CONTEXT.format(sum=needed, context=llm.context)
    for name, threads in (("LLM__THREADS", llm.threads), ("MODELS__THREADS", given.models.threads)):
        if threads > cores:
            yield _THREADS.format(name=name, threads=threads, cores=cores)


def _search(given: Settings) -> Iterator[str]:
    if given.qdrant.key.get_secret_value() and not given.qdrant.url:
        yield _ALONE.format(name="QDRANT__KEY", needed="QDRANT__URL")
    if given.retrieval.dense and given.models.embedder == "none":
        yield _WEIGHT


def _unencrypted(given: Settings) -> Iterator[str]:
    sent = (
        ("BOT__API", given.bot.api, given.bot.token),
        ("LLM__URL", given.llm.url, given.llm.key),
        ("QDRANT__URL", given.qdrant.url, given.qdrant.key),
    )
    for name, url, secret in sent:
        address = urlsplit(url)
        if secret.get_secret_value() and address.scheme == "http" and address.hostname not in _HERE:
            yield _OPEN.format(name=name)
