"""Monitoring: metrics for Prometheus, liveness and readiness, spans for OpenTelemetry.

Never a text, a reader or a channel: labels come from the code, and there are few.
"""
