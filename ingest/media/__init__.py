"""Files of posts: pictures, voices and documents become text of their posts, read one by one in a child process."""

import subprocess
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which

from rag_core.types import DOCUMENT, PICTURE, VOICE


class UnreadableMedia(Exception):
    """A file cannot be read; the message is a key of the sentence `media-problem` in bot/locales."""


def find_missing_readers(speech_model: Path | None) -> dict[str, str]:
    """What is missing to read each kind: "extra" (a package), "tesseract", "speech" (a model); not in it: nothing."""
    needed = {PICTURE: ("pytesseract", "PIL"), DOCUMENT: ("pypdfium2", "docx", "openpyxl"), VOICE: ("faster_whisper",)}
    missing = {kind: "extra" for kind, packages in needed.items() if not all(map(find_spec, packages))}
    program = which("tesseract")
    if program is None or not {"rus", "eng"} <= _list_tesseract_languages(program):
        missing.setdefault(PICTURE, "tesseract")
    if speech_model is None:
        missing.setdefault(VOICE, "speech")
    return missing


@cache
def _list_tesseract_languages(program: str) -> frozenset[str]:
    listing = subprocess.run([program, "--list-langs"], capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
    return frozenset(listing.stdout.split())
