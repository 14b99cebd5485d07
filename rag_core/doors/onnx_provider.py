"""Which parts of a machine onnxruntime may use: the setting MODELS__PROVIDER."""

from __future__ import annotations

from rag_core.errors import ModelUnavailable

__all__ = ["CPU", "checked_provider"]

CPU = "CPUExecutionProvider"


def checked_provider(name: str) -> list[str]:
    """The providers of a session, the wanted one first. Raises ModelUnavailable for one this build has not."""
    # fastembed brings it; a process without models is spared the import.
    from onnxruntime import get_available_providers

    known = get_available_providers()
    if name not in known:
        raise ModelUnavailable(f"MODELS__PROVIDER is {name}, and onnxruntime has here: {', '.join(known)}.")
    return [name] if name == CPU else [name, CPU]  # what the wanted one cannot do, the processor does
