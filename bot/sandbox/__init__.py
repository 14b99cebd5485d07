"""Sandbox: a Bot API server on this machine and a web chat in front of it: the real bot, no token, no network."""

from bot.sandbox.server import Sandbox

__all__ = ["Sandbox"]
