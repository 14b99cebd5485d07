"""Question worker: queue, progress messages, delivery, stopping, rate limits, answer cache."""
