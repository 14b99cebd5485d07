"""The bot's side of the socket: many callers at once, one request each; none of them can harm the bot or another."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from bot.beside.wire import LONGEST_REQUEST, STILL_EVERY_S, address, greeting, line, peer_user, read, same
from rag_core.errors import RagError

__all__ = ["Handler", "Request", "Say", "attended"]

Request = dict[str, Any]
Say = Callable[[int, int], None]  # done, total; returns at once
Handler = Callable[[Request, Say], Awaitable[Mapping[str, object]]]

_MOST_CALLERS = 64
# A caller that connects writes its request at once, and reads what it gets.
_PATIENCE_S = 10.0
_ROOT = 0

_BUSY = "The bot is asked by too many commands at once: try again in a moment."
_STRANGER = "This bot answers commands of its own user only: run the command as the user that runs the bot."
_SLOW = "No request came: ask with the citegram command."
_LONG = f"A request may have {LONGEST_REQUEST:,} bytes: write a shorter one."
_GARBAGE = "The bot does not understand this: ask with the citegram command."
_UNKNOWN = "This bot does not know the request {do!r}: restart the bot if Citegram was updated."
_STUMBLED = "The bot stumbled over this request: its log says why."

log = logging.getLogger(__name__)


class _Gone(Exception):
    """The caller has gone: nobody waits for an end."""


@asynccontextmanager
async def attended(folder: Path, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Answer requests at the folder's socket. To be called by the folder's owner: an old socket is replaced.

    Where there can be no socket (some network disks) the bot works without, and its log says so.
    """
    callers: set[asyncio.Task[None]] = set()

    async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        callers.add(task)
        try:
            if not server.is_serving():  # accepted in the moment in which the bot stopped
                return
            await _call(reader, writer, handlers, busy=len(callers) > _MOST_CALLERS)
        except asyncio.CancelledError:  # the bot stops; asyncio's streams would log it as an error
            pass
        except Exception:  # nobody awaits this task
            log.exception("a caller's request went wrong")
        finally:
            callers.discard(task)
            writer.transport.abort()

    try:
        listening = _listening(folder)
    except OSError as exc:
        log.warning("other commands cannot ask this bot, as there is no socket in %s: %s", folder, exc)
        yield
        return
    server = await asyncio.start_unix_server(called, sock=listening, limit=LONGEST_REQUEST, backlog=2 * _MOST_CALLERS)
    try:
        yield
    finally:
        server.close()
        for task in callers:
            task.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
        with suppress(OSError), address(folder) as path:
            Path(path).unlink()


def _listening(folder: Path) -> socket.socket:
    """A socket that only its user may open."""
    with address(folder) as path:
        Path(path).unlink(missing_ok=True)
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            opened.bind(path)
            Path(path).chmod(0o600)  # nobody can connect before it listens
        except BaseException:
            opened.close()
            raise
        return opened


async def _call(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, Handler], *, busy: bool
) -> None:
    """One caller, from the greeting to the end."""
    hello = greeting(process=os.getpid())
    if busy or not _trusted(writer):
        await _end(writer, hello | {"error": _BUSY if busy else _STRANGER})
        return
    writer.write(line(hello))
    try:
        end = await _worked(reader, writer, handlers)
    except _Gone:
        return
    except RagError as exc:
        await _end(writer, {"error": exc.reason})
    except Exception:
        log.exception("a command's request failed")
        await _end(writer, {"error": _STUMBLED})
    else:
        await _end(writer, {"end": end})


async def _end(writer: asyncio.StreamWriter, last: Mapping[str, object]) -> None:
    """Say the last word. A caller that does not read it in time misses it."""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_PATIENCE_S):
            writer.write(line(last))
            writer.close()
            await writer.wait_closed()


async def _worked(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handlers: Mapping[str, Handler]
) -> Mapping[str, object]:
    request = await _request(reader)
    same(request, asked=True)
    do = request.get("do")
    handler = handlers.get(do) if isinstance(do, str) else None
    if handler is None:
        raise RagError(_UNKNOWN.format(do=str(do)[:40]))

    def say(done: int, total: int) -> None:
        _tell(writer, {"at": [done, total]})

    return await _while_there(handler(request, say), reader, writer)


def _trusted(writer: asyncio.StreamWriter) -> bool:
    """Whether the caller is this process's user, or root."""
    # Where the system does not tell, the socket's permissions must do.
    return peer_user(writer.get_extra_info("socket")) in (None, os.geteuid(), _ROOT)


async def _request(reader: asyncio.StreamReader) -> Request:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            raw = await reader.readline()
    except TimeoutError:
        raise RagError(_SLOW) from None
    except ValueError:  # asyncio's word for a line beyond the limit
        raise RagError(_LONG) from None
    except OSError:
        raise _Gone from None
    if not raw:
        raise _Gone
    request = read(raw)
    if request is None:
        raise RagError(_GARBAGE)
    return request


async def _while_there(
    work: Awaitable[Mapping[str, object]], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Mapping[str, object]:
    """Work for as long as the caller is there."""
    task = asyncio.ensure_future(work)
    beside = [asyncio.create_task(_left(reader)), asyncio.create_task(_signs_of_life(writer))]
    try:
        await asyncio.wait([task, *beside], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise _Gone
        return await task
    finally:
        for one in (task, *beside):
            one.cancel()
        await asyncio.gather(task, *beside, return_exceptions=True)


async def _left(reader: asyncio.StreamReader) -> None:
    """Return when the caller closes its side; what it still writes is not read as anything."""
    with suppress(OSError):
        while await reader.read(LONGEST_REQUEST):
            pass


async def _signs_of_life(writer: asyncio.StreamWriter) -> None:
    while not writer.is_closing():
        await asyncio.sleep(STILL_EVERY_S)
        _tell(writer, {"still": True})


def _tell(writer: asyncio.StreamWriter, message: Mapping[str, object]) -> None:
    """Say something that may be missed: a caller that does not read gets no heap of it."""
    if not writer.transport.get_write_buffer_size():
        writer.write(line(message))
