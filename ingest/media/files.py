"""Files of messages: which can be read, and what they are fetched by; live, exported, and from MTProto.

Sources: https://core.telegram.org/bots/api#photosize and the classes beside it; SerializeMessage in tdesktop's
export_output_json.cpp.
"""

from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

from ingest.message_kinds import MAX_FILE_NAME_LENGTH, MessageKind, parse_object, parse_text
from rag_core.types import DOCUMENT, PICTURE, VOICE, MediaFile

# The Bot API's kind -> what is read of it; of documents it depends on the file.
_READ_AS = {"photo": PICTURE, "voice": VOICE, "video_note": VOICE, "audio": VOICE, "video": VOICE}
_READ_AS_BY_SUFFIX = {
    ".pdf": DOCUMENT, ".docx": DOCUMENT, ".xlsx": DOCUMENT, ".txt": DOCUMENT, ".md": DOCUMENT, ".csv": DOCUMENT,
    ".png": PICTURE, ".jpg": PICTURE, ".jpeg": PICTURE, ".webp": PICTURE, ".bmp": PICTURE, ".tif": PICTURE,
    ".tiff": PICTURE, ".ogg": VOICE, ".oga": VOICE, ".opus": VOICE, ".mp3": VOICE, ".m4a": VOICE, ".wav": VOICE,
    ".flac": VOICE,
}  # fmt: skip
_MAX_VIDEO_SECONDS = 600  # of longer ones the sound is rarely a message
_MAX_NUMBER = 2**40


def find_live_file(message: Mapping[str, Any], kind: MessageKind) -> MediaFile | None:
    """Find the file of a live message, or of one that was converted from MTProto, which has no `file_id`.

    None for one that is hidden as a spoiler: its words would be shown in answers.
    """
    if message.get("has_media_spoiler") is True:
        return None
    held = message[kind.name]
    if isinstance(held, list):  # sizes of a picture, the largest last
        held = held[-1] if held else None
    found = parse_object(held)
    unique, file_id = parse_text(found.get("file_unique_id")), parse_text(found.get("file_id"))
    name, seconds = parse_text(found.get("file_name"), MAX_FILE_NAME_LENGTH) or "", _parse_number(found.get("duration"))
    read_as = _choose_kind(kind.name, name, seconds)
    if not unique or not read_as:
        return None
    scheme = "bot" if file_id else "mtproto"
    return MediaFile(read_as, f"{scheme}:{unique}", file_id or "", _parse_number(found.get("file_size")), seconds)


def find_exported_file(message: Mapping[str, Any], kind: MessageKind, folder: Path) -> MediaFile | None:
    """Find the file of an exported message in the folder of its export; None where it was not exported with it.

    A path that leads out of the folder is none: the export may be a stranger's.
    """
    if message.get("media_spoiler") is True:
        return None
    path = parse_text(message.get("photo" if kind.name == "photo" else "file"))
    seconds = _parse_number(message.get("duration_seconds"))
    if not path or path.startswith("(") or not (read_as := _choose_kind(kind.name, path, seconds)):
        return None
    try:
        file = (folder / path).resolve()
        if not file.is_relative_to(folder.resolve()) or not file.is_file():
            return None
        size = file.stat().st_size
        return MediaFile(read_as, f"path:{size}:{path}", str(file), size, seconds)  # also where the folder is moved
    except (OSError, ValueError):  # a name that no file can have
        return None


def _choose_kind(kind: str, name: str, seconds: int) -> str:
    """What is read of a file: PICTURE, VOICE, DOCUMENT; "" for nothing."""
    if kind == "document":
        return _READ_AS_BY_SUFFIX.get(PurePath(name).suffix.lower(), "")
    return "" if kind == "video" and seconds > _MAX_VIDEO_SECONDS else _READ_AS.get(kind, "")


def _parse_number(value: object) -> int:
    return value if type(value) is int and 0 < value < _MAX_NUMBER else 0
