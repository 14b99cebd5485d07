"""What the two legs share on a Qdrant server: calls that fail in plain sentences, a server that comes later."""

__all__: list[str] = []
