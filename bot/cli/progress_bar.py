"""Progress bars of the terminal: of work that reports how much is done, and of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


@contextmanager
def show_progress_bar(name: str, unit: str = "post") -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar; the callback takes (done, total). Work that takes under a second shows nothing."""
    from tqdm import tqdm

    with tqdm(desc=name, unit=unit, unit_scale=unit == "B", delay=1, leave=False, disable=None) as bar:

        def moved(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield moved


def iterate_with_progress_bar(items: Sequence[T], name: str) -> Iterator[T]:
    """Iterate over the items with a progress bar, as above."""
    with show_progress_bar(name, "it") as moved:
        for done, item in enumerate(items, 1):
            yield item
            moved(done, len(items))
