"""Claim verification: claims of a text, what posts say of each, and how likely that is."""

from __future__ import annotations

from rag_core.verification.types import Claim, Label, Support, Verdict

__all__ = ["Claim", "Label", "Support", "Verdict"]
