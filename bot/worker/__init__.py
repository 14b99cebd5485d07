"""Question worker: queue, progress messages, delivery, stopping and rate limits."""
