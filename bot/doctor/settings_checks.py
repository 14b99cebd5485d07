"""Settings checks: settings that contradict each other or do nothing, no admins, keys sent unencrypted."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

from bot.doctor import CheckContext, Finding
from bot.settings import Settings
from rag_core.models.active_models import UNDECIDED_VALUES


async def check_settings(case: CheckContext) -> AsyncIterator[Finding]:
    """Report all contradictory settings."""
    contradictions = list(_find_contradictions(case.settings))
    for contradiction in contradictions:
        yield Finding(False, contradiction)
    if not case.settings.bot.admins:
        yield Finding(
            False if case.settings.bot.token.get_secret_value() else None,
            "BOT__ADMINS is empty, so nobody can approve a channel: send /start to the bot, it tells you the line for "
            ".env.",
        )
    elif not contradictions:
        yield Finding(True, "settings: none contradicts another")


def _find_contradictions(settings: Settings) -> Iterator[str]:
    llm, qdrant, cores = settings.llm, settings.qdrant, os.cpu_count() or 1
    if llm.url and llm.model not in (*UNDECIDED_VALUES, "none"):
        yield f"LLM__URL and LLM__MODEL={llm.model} are both set, and the server writes: take one of them out."
    for name, value, needed, url in (
        ("LLM__KEY", llm.key.get_secret_value(), "LLM__URL", llm.url),
        ("LLM__NAME", llm.name, "LLM__URL", llm.url),
        ("QDRANT__KEY", qdrant.key.get_secret_value(), "QDRANT__URL", qdrant.url),
    ):
        if value and not url:
            yield f"{name} is set without {needed}, and does nothing: set {needed} too, or take it out."
    if (tokens := llm.evidence_tokens + llm.answer_tokens) >= llm.context:
        yield (
            f"LLM__EVIDENCE_TOKENS and LLM__ANSWER_TOKENS need {tokens} tokens, and LLM__CONTEXT has {llm.context}: "
            "raise it, or lower them."
        )
    for name, threads in (("LLM__THREADS", llm.threads), ("MODELS__THREADS", settings.models.threads)):
        if threads > cores:
            yield f"{name} is {threads}, and this machine has {cores} processors: lower it to {cores}."
    for name, urls, secret in (
        ("BOT__API", [settings.bot.api], settings.bot.token),
        ("LLM__URL", [llm.url], llm.key),
        ("QDRANT__URL", qdrant.urls, qdrant.key),
    ):
        unencrypted = {url.hostname for url in map(urlsplit, urls) if url.scheme == "http"}
        if secret.get_secret_value() and unencrypted - {"localhost", "127.0.0.1", "::1"}:
            yield f"{name} sends its key unencrypted to another machine: use https."
