"""`citegram doctor`: what is looked at, each in a file of its own, and the sentences that say what to do."""

__all__: list[str] = []
