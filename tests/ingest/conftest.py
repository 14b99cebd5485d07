"""A real archive, and small exports as Telegram Desktop writes them, in both formats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from rag_core.storage import Archive

Chat = dict[str, Any]


@pytest.fixture
async def archive(tmp_path: Path, prepare_archive: Callable[[Path], None]) -> AsyncIterator[Archive]:
    prepare_archive(tmp_path / "data")
    archive = await Archive.open(tmp_path / "data")
    yield archive
    await archive.close()


@pytest.fixture
def written(tmp_path: Path) -> Callable[[object], Path]:
    """Write a result.json: bytes as they are, anything else as JSON."""

    def write(content: object, name: str = "result.json") -> Path:
        file = tmp_path / name
        raw = content if isinstance(content, bytes) else json.dumps(content, ensure_ascii=False).encode()
        file.write_bytes(raw)
        return file

    return write


@pytest.fixture
def message() -> Callable[..., Chat]:
    """An exported message of today's format; the n-th is written n minutes after the first."""

    def make(message_id: int, text: str = "Хлеб по 90 рублей", **more: Any) -> Chat:
        unix = 1_710_244_800 + 60 * message_id
        return {
            "id": message_id,
            "type": "message",
            "date": "2024-03-12T15:00:00",
            "date_unixtime": str(unix),
            "from": "Пекарня",
            "from_id": "channel1234567890",
            "text": text,
            "text_entities": [{"type": "plain", "text": text}] if text else [],
        } | more

    return make


@pytest.fixture
def chat() -> Callable[..., Chat]:
    """An exported channel that holds the messages."""

    def make(*messages: object, **more: Any) -> Chat:
        head = {"name": "Пекарня", "type": "public_channel", "id": 1234567890}
        return head | more | {"messages": list(messages)}

    return make


PAGE = """<!DOCTYPE html>
<html>

 <head>

  <meta charset="utf-8"/>
<title>Exported Data</title>
  <script src="js/script.js" type="text/javascript">

  </script>

 </head>

 <body onload="CheckLocation();">

  <div class="page_wrap">

   <div class="page_header">

    <div class="content">

     <div class="text bold">
Пекарня &amp; Ко{space}
     </div>

    </div>

   </div>

   <div class="page_body chat_page">

    <div class="history">
{rows}
    </div>

   </div>

  </div>

 </body>

</html>
"""


def _block(classes: str, text: str, more: str = "") -> str:
    return f'\n       <div class="{classes}"{more}>\n{text}\n       </div>\n'


@pytest.fixture
def block() -> Callable[..., str]:
    """A block of a message: the text stands between line breaks and indentation that are not its own."""
    return _block


@pytest.fixture
def row() -> Callable[..., str]:
    """A message of a page; the n-th is written n minutes after the first, as with `message`.

    row(7, "Хлеб<br>по 90"): its text as the page has it; row(7, block, block): blocks under its name.
    """

    def make(message_id: int, *blocks: str, sender: str | None = "Пекарня ", title: str | None = None) -> str:
        moscow = datetime.fromtimestamp(1_710_244_800 + 60 * message_id, timezone(timedelta(hours=3)))
        title = title or moscow.strftime("%d.%m.%Y %H:%M:%S UTC+03:00")
        name = "" if sender is None else _block("from_name", sender)
        texts = [text if text.startswith("\n") else _block("text", text) for text in blocks]
        return (
            f'\n     <div class="message default clearfix{"" if sender else " joined"}" id="message{message_id}">\n'
            '\n      <div class="body">\n'
            f'\n       <div class="pull_right date details" title="{title}">\n{title[11:16]}\n       </div>\n'
            f"{name}{''.join(texts)}\n      </div>\n\n     </div>\n"
        )

    return make


@pytest.fixture
def day() -> Callable[..., str]:
    """A row that is no message: of the day, if its number is negative, or of the service."""

    def make(message_id: int, text: str = "12 March 2024") -> str:
        head = f'\n     <div class="message service" id="message{message_id}">\n'
        return head + _block("body details", text) + "\n     </div>\n"

    return make


@pytest.fixture
def page(tmp_path: Path) -> Callable[..., Path]:
    """Write a messages.html that holds the rows."""

    def write(*rows: str, name: str = "messages.html") -> Path:
        file = tmp_path / name
        file.write_text(PAGE.replace("{space}", " ").replace("{rows}", "".join(rows)), encoding="utf-8")
        return file

    return write
