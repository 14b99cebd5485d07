"""Backups of the archive by their names: their folder, the list of them, and the time at which each was made."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

NAME_FORMAT = "citegram-%Y%m%d-%H%M%S"
# A backup made before a migration has the old schema version in its name: it is kept until the next such backup.
_NAME_PATTERN = re.compile(r"(citegram-\d{8}-\d{6})(-version\d+)?\.db")


def get_backups_folder(folder: Path) -> Path:
    """Folder with the backups of the archive in `folder`."""
    return folder / "backups"


def list_backups(folder: Path) -> list[Path]:
    """List the backups of the archive in `folder`, the newest first.

    A backup dated in the future was made with a wrong clock: it counts as older than all others.
    """
    try:
        found = [file for file in get_backups_folder(folder).iterdir() if _parse_backup_time(file)]
    except OSError:
        return []
    latest = datetime.now(UTC) + timedelta(days=1)
    return sorted(found, key=lambda file: (get_backup_time(file) <= latest, file.name), reverse=True)


def get_backup_time(backup: Path) -> datetime:
    """Time of a backup (UTC) from its name; the modification time of the file may be that of a copy."""
    return _parse_backup_time(backup) or datetime.fromtimestamp(backup.stat().st_mtime, UTC)


def _parse_backup_time(file: Path) -> datetime | None:
    matched = _NAME_PATTERN.fullmatch(file.name)
    try:
        return datetime.strptime(matched[1], NAME_FORMAT).replace(tzinfo=UTC) if matched else None
    except ValueError:
        return None
