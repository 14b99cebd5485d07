"""The indexes against the archive: how far they are, and whether they hold what the archive says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

from bot.beside.facts import DenseFacts, Facts
from bot.doctor.findings import Case, Finding
from rag_core.doors.archive import posts

__all__ = ["indexes"]

_AHEAD = (
    "The index knows of {ahead} changes that the archive does not have, as after a restore under a running bot: "
    "restart the bot, which builds it anew."
)
_DIFFERS = "{wrong} of {looked} posts that were compared stand differently in the {leg}: run citegram reindex."


async def indexes(case: Case) -> AsyncIterator[Finding]:
    """Both legs, and what the models that use them can do."""
    if case.archive is None:
        return
    held, known = f"archive: {await posts.count(case.archive)} posts", case.facts
    if known is None:
        yield Finding(None, held)
        return
    yield _words(held, known, case.runs)
    for reason in known["without"]:
        yield Finding(False, f"search by meaning is off: {reason}")
    if known["dense"]:
        yield _meaning(known["dense"])
    elif not known["without"]:
        yield Finding(None, "search by words alone: citegram models pull offline adds search by meaning")
    for finding in _compared(known):
        yield finding
    for fine, said in known["language"]:
        yield Finding(fine, said)
    yield Finding(None, f"bar for answers: {known['bar']}")


def _words(held: str, known: Facts, runs: bool) -> Finding:
    if known["behind"] < 0:
        return Finding(False, _AHEAD.format(ahead=-known["behind"]))
    when = "the bot takes them in" if runs else "taken in at the next start"
    late = f"{known['behind']} changes behind ({when})" if known["behind"] else "up to date"
    return Finding(None if known["behind"] else True, f"{held}; lexical index: {known['passages']} passages, {late}")


def _meaning(known: DenseFacts) -> Finding:
    held, waiting = f"{known['model']}: {known['vectors']} vectors", known["waiting"]
    if not waiting:
        return Finding(True, f"{held}, up to date")
    minutes = max(1, round(known["seconds"] / 60))
    return Finding(None, f"{held}, {waiting} posts to come: about {minutes} min of work while the bot runs")


def _compared(known: Facts) -> Iterator[Finding]:
    looked = known["compared"]
    if looked is None:
        return
    legs = (("lexical index", looked["words"]), ("vectors", looked["vectors"]))
    for leg, wrong in legs:
        if wrong:
            yield Finding(False, _DIFFERS.format(wrong=wrong, looked=looked["posts"], leg=leg))
    if looked["posts"] and not any(wrong for _, wrong in legs):
        yield Finding(True, f"indexes and archive agree: {looked['posts']} posts by number, {looked['some']} by words")
