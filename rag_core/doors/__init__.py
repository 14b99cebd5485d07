"""Doors: each file here is the only one that touches its outside thing."""
