"""Handlers of commands, buttons and updates, one module for each command or group of buttons."""
