"""What the bot tells of itself: metrics for Prometheus, whether it lives and is ready, spans for OpenTelemetry.

Never a text, a reader or a channel: labels are words of the code, and few.
"""
