"""Playwright, where it is installed, and pages whose faults are noted."""

import pytest

playwright_api = pytest.importorskip("playwright.async_api", reason="playwright drives the browser")
playwright_api.expect.set_options(timeout=15_000)  # beside other tests on two cores five seconds are not enough

__all__ = ["note_faults", "playwright_api"]


def note_faults(page):
    """Errors of the page's scripts, and what it writes to the console as an error, as they come."""
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    return wrong
