"""Command line: one module for each `citegram` command."""
