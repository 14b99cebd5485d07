"""A language model behind one face: llama.cpp in a child process, or a server that speaks OpenAI's protocol."""

from __future__ import annotations

from rag_core.doors.llm.contract import Decoding, Figures, Generated, LanguageModel, OnPlace, Prompt, Seat, finished

__all__ = ["Decoding", "Figures", "Generated", "LanguageModel", "OnPlace", "Prompt", "Seat", "finished"]
