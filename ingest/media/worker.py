"""Media worker: reads the files that the bot names to it, one after the other, in a process of its own.

Files are strangers'. The worker's memory is limited, and its parent ends it where a file takes too long; programs that
it starts end with it. Its messages are {"kind", "path", "name", "model"} and {"texts": [[kind, text, place], ...]} or
{"problem": key}, a key of the sentence `media-problem` in bot/locales.
"""

import os
import resource
from contextlib import suppress
from pathlib import Path

from ingest.media import UnreadableMedia
from rag_core.processes import Message, open_parent_pipes, read_message, write_message
from rag_core.types import DOCUMENT, PICTURE

# Of address space: tesseract and the engine of PDF take a tenth, a speech model of 145 MB with its threads a half.
_MAX_MEMORY_BYTES = 3 * 2**30
_MAX_WRITTEN_BYTES = 2**28  # of one file: pages that are read as pictures
_NICENESS = 15  # answers come first


def main() -> None:
    """Read files until the parent ends."""
    requests, replies = open_parent_pipes()
    resource.setrlimit(resource.RLIMIT_AS, (_MAX_MEMORY_BYTES, _MAX_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_FSIZE, (_MAX_WRITTEN_BYTES, _MAX_WRITTEN_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold posts
    os.nice(_NICENESS)
    os.environ.setdefault("OMP_THREAD_LIMIT", "1")  # tesseract's threads cost more than they gain
    with suppress(BrokenPipeError):  # the parent was killed
        while request := read_message(requests):
            write_message(replies, _read(request[0]))


def _read(order: Message) -> Message:
    path = Path(order["path"])
    try:
        if order["kind"] == PICTURE:
            from ingest.media.pictures import read_picture

            texts = read_picture(path)
        elif order["kind"] == DOCUMENT:
            from ingest.media.documents import read_document

            texts = read_document(path, order["name"])
        else:
            from ingest.media.voices import read_voice

            texts = read_voice(path, Path(order["model"]))
    except UnreadableMedia as exc:
        return {"problem": str(exc)}
    except MemoryError:
        return {"problem": "too_large"}
    except Exception as exc:  # of a library, about a stranger's file
        return {"problem": "broken", "error": type(exc).__name__}
    return {"texts": [one for one in texts if one.text.strip()]}


if __name__ == "__main__":
    main()
