"""Diagnostics of `citegram doctor`: one module for each area, with the sentences that say what to do."""

__all__: list[str] = []
