"""Settings checks: settings that are right by themselves and wrong in combination."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

from bot.doctor.report import CheckContext, Finding
from bot.settings import Settings
from rag_core.models.selection import UNDECIDED_VALUES

__all__ = ["check_settings"]

_LOOPBACK_HOSTS = {"localhost", "127.0.0.1", "::1"}

_URL_AND_MODEL_TEXT = "LLM__URL and LLM__MODEL={model} are both set, and the server writes: take one of them out."
_ALONE_TEXT = "{name} is set without {needed}, and does nothing: set {needed} too, or take it out."
_CONTEXT_TEXT = (
    "LLM__EVIDENCE_TOKENS and LLM__ANSWER_TOKENS need {sum} tokens, and LLM__CONTEXT has {context}: raise it, or "
    "lower them."
)
_THREADS_TEXT = "{name} is {threads}, and this machine has {cores} processors: lower it to {cores}."
_DENSE_WEIGHT_TEXT = (
    "RETRIEVAL__DENSE is set, and MODELS__EMBEDDER=none: there is no search by meaning to weigh; take one out."
)
_UNENCRYPTED_TEXT = "{name} sends its key unencrypted to another machine: use https."
_NO_ADMINS_TEXT = (
    "BOT__ADMINS is empty, so nobody can approve a channel: send /start to the bot, it tells you the line for .env."
)


async def check_settings(case: CheckContext) -> AsyncIterator[Finding]:
    """Report all contradictory settings."""
    settings, contradiction_found = case.settings, False
    for contradiction in (
        *_check_llm_settings(settings),
        *_check_search_settings(settings),
        *_check_encryption(settings),
    ):
        contradiction_found = True
        yield Finding(False, contradiction)
    if not settings.bot.admins:
        yield Finding(False if settings.bot.token.get_secret_value() else None, _NO_ADMINS_TEXT)
    elif not contradiction_found:
        yield Finding(True, "settings: none contradicts another")


def _check_llm_settings(settings: Settings) -> Iterator[str]:
    llm, cores = settings.llm, os.cpu_count() or 1
    if llm.url and llm.model not in (*UNDECIDED_VALUES, "none"):
        yield _URL_AND_MODEL_TEXT.format(model=llm.model)
    for name, value in (("LLM__KEY", llm.key.get_secret_value()), ("LLM__NAME", llm.name)):
        if value and not llm.url:
            yield _ALONE_TEXT.format(name=name, needed="LLM__URL")
    if (needed := llm.evidence_tokens + llm.answer_tokens) >= llm.context:
        yield _CONTEXT_TEXT.format(sum=needed, context=llm.context)
    for name, threads in (("LLM__THREADS", llm.threads), ("MODELS__THREADS", settings.models.threads)):
        if threads > cores:
            yield _THREADS_TEXT.format(name=name, threads=threads, cores=cores)


def _check_search_settings(settings: Settings) -> Iterator[str]:
    if settings.qdrant.key.get_secret_value() and not settings.qdrant.url:
        yield _ALONE_TEXT.format(name="QDRANT__KEY", needed="QDRANT__URL")
    if settings.retrieval.dense and settings.models.embedder == "none":
        yield _DENSE_WEIGHT_TEXT


def _check_encryption(settings: Settings) -> Iterator[str]:
    sent = (
        ("BOT__API", settings.bot.api, settings.bot.token),
        ("LLM__URL", settings.llm.url, settings.llm.key),
        ("QDRANT__URL", settings.qdrant.url, settings.qdrant.key),
    )
    for name, url, secret in sent:
        address = urlsplit(url)
        if secret.get_secret_value() and address.scheme == "http" and address.hostname not in _LOOPBACK_HOSTS:
            yield _UNENCRYPTED_TEXT.format(name=name)
