"""Is it so? Claims, what the posts say of each, and how sure that is."""

from __future__ import annotations

from rag_core.verify.verdict import Claim, Label, Support, Verdict

__all__ = ["Claim", "Label", "Support", "Verdict"]
