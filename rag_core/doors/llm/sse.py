"""Server-sent events out of raw bytes: https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

__all__ = ["data_of"]

_LONGEST = 1 << 20  # bytes of one event; a piece of a reply has some hundred


async def data_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The data of each event. Keep-alives and other fields are passed over; the last event may lack its end.

    Raises ValueError for an event of more than a megabyte.
    """
    held, data = b"", list[str]()
    async for chunk in chunks:
        *lines, held = (held + chunk).split(b"\n")
        for line in lines:
            if not line.rstrip(b"\r") and data:
                yield "\n".join(data)
                data.clear()
            data += _data(line)
        if len(held) + sum(map(len, data)) > _LONGEST:
            raise ValueError("an event without an end")
    data += _data(held)
    if data:
        yield "\n".join(data)


def _data(line: bytes) -> list[str]:
    field, _, value = line.rstrip(b"\r").partition(b":")
    return [value.removeprefix(b" ").decode("utf-8", "replace")] if field == b"data" else []
