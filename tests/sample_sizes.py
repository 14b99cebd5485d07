"""Sample sizes: a part of each large sample by default, all of it with SAMPLES=full (`make test SAMPLES=full`)."""

import os

FULL = os.environ.get("SAMPLES") == "full"


def choose_size(full, brief):
    return full if FULL else brief
