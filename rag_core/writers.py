"""The language models of the table, from small to good. Nobody could download them here: all is as published.

`memory` is worked out: the file, keys and values of 4,096 tokens (two bytes each, by the model's own layers and
heads), and 0.3 GB for what llama.cpp computes with.
"""

from __future__ import annotations

from rag_core.model_row import HubFile, HubSource, ModelRow, Role, Tier

__all__ = ["WRITERS"]


def _writer(name: str, tier: Tier, repo: str, file: str, size: int, memory: int) -> ModelRow:
    """A GGUF under Apache-2.0 that knows Russian and English. Sizes in bytes."""
    source = HubSource(repo, (HubFile(file, "model.gguf", size),))
    both = frozenset({"ru", "en"})
    return ModelRow(name, tier, Role.WRITER, "Apache-2.0", both, source, max_tokens=4096, memory=memory)


WRITERS: tuple[ModelRow, ...] = (
    _writer(
        "qwen2.5-0.5b-instruct",
        Tier.SMALL,
        "Qwen/Qwen2.5-0.5B-Instruct-GGUF",
        "qwen2.5-0.5b-instruct-q4_k_m.gguf",
        491_400_032,
        850_000_000,
    ),
    _writer(
        "qwen2.5-1.5b-instruct",
        Tier.DEFAULT,
        "Qwen/Qwen2.5-1.5B-Instruct-GGUF",
        "qwen2.5-1.5b-instruct-q4_k_m.gguf",
        1_117_320_736,
        1_550_000_000,
    ),
    _writer(
        "qwen3-4b-instruct",
        Tier.QUALITY,
        "unsloth/Qwen3-4B-Instruct-2507-GGUF",
        "Qwen3-4B-Instruct-2507-Q4_K_M.gguf",
        2_497_281_120,
        3_400_000_000,
    ),
    # Qwen2.5-7B, trained further on Russian by T-Tech; the card and the file's size were read, nothing was run.
    _writer(
        "t-lite-it-1.0",
        Tier.RUSSIAN,
        "aovchinnikov/T-lite-it-1.0-Q4_K_M-GGUF",
        "t-lite-it-1.0-q4_k_m.gguf",
        4_680_000_000,
        5_200_000_000,
    ),
)
