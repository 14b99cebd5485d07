"""Claim verification: claims of a text, what posts say of each, and how likely that is."""
