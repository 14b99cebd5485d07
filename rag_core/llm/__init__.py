"""Language models: llama.cpp in a worker process, or a server with an OpenAI-compatible API, behind one protocol."""

from __future__ import annotations

from rag_core.llm.protocol import (
    DecodingParams,
    Generation,
    GenerationStats,
    LanguageModel,
    LlmSession,
    Prompt,
    QueuePositionCallback,
    collect_generation,
)

__all__ = [
    "DecodingParams",
    "Generation",
    "GenerationStats",
    "LanguageModel",
    "LlmSession",
    "Prompt",
    "QueuePositionCallback",
    "collect_generation",
]
