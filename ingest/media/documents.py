"""Text of documents: PDF by page, DOCX, XLSX, CSV and plain text; scanned pages are read as pictures.

What a file is, its content decides. At most 200,000 characters are read; an ellipsis ends what was cut.
"""

import codecs
import csv
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ingest.media import UnreadableMedia, find_missing_readers
from ingest.media.layout import Box, arrange_lines, join_boxes, label_rows
from ingest.media.pictures import read_picture, recognize_lines
from rag_core.types import DOCUMENT, PICTURE, MediaText

CUT = "…"
_MAX_CHARACTERS = 200_000
_MAX_PAGES = 500
_MAX_SCANNED_PAGES = 20  # two or three seconds each
_SCANNED_SIDE = 2200  # pixels: 190 dpi of A4
_MAX_PAGE_CHARACTERS = 20_000  # a page of a newspaper
_CELL_GAP = 0.6  # a box of PDFium is as high as the line
_PDF_HYPHEN = 2  # PDFium's sign of a word that goes on in the next line
_MAX_PART_BYTES = 50_000_000  # unpacked; worksheets are read as a stream
_MAX_PARTS = 10_000
_MAX_ROWS, _MAX_CELLS = 100_000, 100
_TEXT_SUFFIXES = (".txt", ".md", ".csv", ".tsv", ".log")


def read_document(path: Path, name: str) -> list[MediaText]:
    """Read a document: a text for each page of a PDF or sheet of a workbook, else one. Raises UnreadableMedia."""
    taken, left = list[MediaText](), _MAX_CHARACTERS
    try:
        reader = _choose_reader(path, name)
        if reader is None:
            return read_picture(path)
        for one in reader(path):
            if len(one.text) > left:
                taken.append(one._replace(text=f"{one.text[:left].rpartition(chr(10))[0] or one.text[:left]}\n{CUT}"))
                break
            if one.text:
                taken.append(one)
            left -= len(one.text)
    except (UnreadableMedia, MemoryError):
        raise
    except ImportError as exc:
        raise UnreadableMedia("not_installed") from exc
    except Exception as exc:  # four libraries, about a stranger's file
        raise UnreadableMedia("broken") from exc
    return taken


def _choose_reader(path: Path, name: str) -> Callable[[Path], Iterator[MediaText]] | None:
    """Choose by the content; None for a picture. Raises UnreadableMedia."""
    suffix = Path(name).suffix.lower()
    with path.open("rb") as file:
        start = file.read(1024)
    if b"%PDF-" in start:
        return _read_pdf
    if start.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
        names = {part.filename for part in parts}
        large = (part.filename for part in parts if part.file_size > _MAX_PART_BYTES)
        if len(parts) > _MAX_PARTS or not all(name.startswith("xl/worksheets/") for name in large):
            raise UnreadableMedia("too_large")  # it would not fit into memory
        if "word/document.xml" in names:
            return _read_docx
        if "xl/workbook.xml" in names:
            return _read_xlsx
        raise UnreadableMedia("unknown_type")
    if start.startswith(b"\xd0\xcf\x11\xe0"):  # Office 2003, or a newer one under a password
        is_locked = "EncryptedPackage".encode("utf-16-le") in path.read_bytes()
        raise UnreadableMedia("protected" if is_locked else "unknown_type")
    if suffix in _TEXT_SUFFIXES:
        return _read_csv if suffix in (".csv", ".tsv") else _read_text
    if start.startswith((b"\xff\xd8", b"\x89PNG", b"GIF8", b"RIFF", b"BM", b"II*\0", b"MM\0*")):
        return None
    raise UnreadableMedia("unknown_type" if start else "broken")


def _join_lines(lines: Iterable[str], place: int | None = None) -> MediaText:
    taken, count = [], 0
    for line in lines:
        if line := " ".join(line.split()):
            taken.append(line)
            count += len(line) + 1
        if count > _MAX_CHARACTERS + 1:
            break
    return MediaText(DOCUMENT, "\n".join(taken), place)


def _read_pdf(path: Path) -> Iterator[MediaText]:
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as exc:
        raise UnreadableMedia("protected" if "password" in str(exc).lower() else "broken") from exc
    scanned = 0
    with document:
        for number in range(min(len(document), _MAX_PAGES)):
            page = document[number]
            lines = _read_pdf_text(page)
            is_scanned = not lines and any(True for _ in page.get_objects(max_depth=1))
            if is_scanned and PICTURE not in find_missing_readers(None):
                scanned += 1
                if scanned > _MAX_SCANNED_PAGES:
                    break
                scale = _SCANNED_SIDE / max(page.get_size())
                lines = recognize_lines(page.render(scale=scale, grayscale=True).to_pil())
            yield _join_lines(lines, number + 1)
            page.close()
        else:
            number += 1
        if number < len(document):
            yield MediaText(DOCUMENT, CUT, number + 1)


def _read_pdf_text(page: Any) -> list[str]:
    """Lines of a page: paragraphs in the order of the file, and what is between them by where it stands.

    Programs write a paragraph as one, whatever stands beside it, and the names and prices of a table in any order.
    """
    lines: list[str] = []
    table: list[Box] = []
    for block in _join_blocks(_list_pdf_words(page)):
        if len(block) >= 4 and sum(line.text.count(" ") + 1 for line in block) >= 4 * len(block):
            lines += arrange_lines(table, _CELL_GAP)
            table = []
            paragraph = " ".join(line.text for line in block).replace("- ", "")
            if lines and paragraph[0].islower():  # goes on in the next column
                paragraph = f"{lines.pop()} {paragraph}"
            lines.append(paragraph)
            continue
        table.append(block[0])  # lines of cells: one that begins with a small letter goes on with the line before
        for line in block[1:]:
            before = table[-1].text
            if line.text[0].islower() or before.endswith(("–", "—", "-", ",")):
                table[-1] = join_boxes(table[-1], line, "" if before.endswith(("–", "-")) else " ")
            else:
                table.append(line)
    return lines + arrange_lines(table, _CELL_GAP)


def _list_pdf_words(page: Any) -> list[Box]:
    from pypdfium2.raw import FPDFText_GetUnicode

    text, height = page.get_textpage(), page.get_height()
    boxes: list[Box] = []
    word = ""
    for number in range(min(text.count_chars(), _MAX_PAGE_CHARACTERS)):
        code = FPDFText_GetUnicode(text, number)
        character = "-" if code == _PDF_HYPHEN else chr(code)
        if not character.strip() or not character.isprintable():
            word = ""
            continue
        left, bottom, right, top = text.get_charbox(number, loose=True)
        box = Box(character, left, height - top, right, height - bottom)
        boxes.append(join_boxes(boxes.pop(), box, "") if word else box)
        word += character
    text.close()
    return boxes


def _join_blocks(words: list[Box]) -> list[list[Box]]:
    """Join the words of a line to segments, and group segments of which each follows right below the one before."""
    segments = words[:1]
    for word in words[1:]:
        last = segments[-1]
        is_level = abs(last.bottom - word.bottom) < 0.3 * word.height
        if is_level and 0 <= word.left - last.right + 0.1 * word.height < _CELL_GAP * word.height:
            segments[-1] = join_boxes(last, word)
        else:
            segments.append(word)
    blocks = [[segment] for segment in segments[:1]]
    for segment in segments[1:]:
        last = blocks[-1][-1]
        is_below = -0.3 * last.height < segment.top - last.bottom < 0.8 * last.height
        is_below &= abs(segment.height - last.height) < 0.2 * last.height  # else a heading
        if is_below and segment.left < last.right and last.left < segment.right:
            blocks[-1].append(segment)
        else:
            blocks.append([segment])
    return blocks


def _read_docx(path: Path) -> Iterator[MediaText]:
    import docx
    from docx.table import Table

    def list_lines() -> Iterator[str]:
        for block in docx.Document(str(path)).iter_inner_content():
            if isinstance(block, Table):
                # merged cells are listed once for each column
                rows = ([" ".join(cell.text.split()) for cell in dict.fromkeys(row.cells)] for row in block.rows)
                yield from label_rows(rows)
            else:
                yield from block.text.splitlines()

    yield _join_lines(list_lines())


def _read_xlsx(path: Path) -> Iterator[MediaText]:
    import openpyxl

    with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as book:
        for sheet in book.worksheets:
            if sheet.sheet_state != "visible":
                continue
            sheet.reset_dimensions()  # a file may tell a million rows where there are ten
            rows = sheet.iter_rows(max_row=_MAX_ROWS, max_col=_MAX_CELLS)
            lines = _join_lines(label_rows([_format_cell(cell) for cell in row] for row in rows))
            title = f"{sheet.title}\n" if lines.text and len(book.worksheets) > 1 else ""
            yield lines._replace(text=title + lines.text)


def _format_cell(cell: Any) -> str:
    """What a person sees in a cell, nearly: dates without an empty time, numbers without digits of the machine."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, float):
        percent = "%" in cell.number_format
        return f"{value * 100 if percent else value:.10g}" + "%" * percent
    return " ".join(str(value).removesuffix(" 00:00:00").split())


def _read_text(path: Path) -> Iterator[MediaText]:
    yield _join_lines(_decode(path).splitlines())


def _read_csv(path: Path) -> Iterator[MediaText]:
    text = _decode(path)
    delimiter = max(",;\t", key=text[:10_000].count)
    try:
        yield _join_lines(label_rows(csv.reader(text.splitlines(keepends=True), delimiter=delimiter)))
    except csv.Error:  # a quote that never ends takes all that follows into one cell
        yield _join_lines(text.splitlines())


def _decode(path: Path) -> str:
    """Text in UTF-8, UTF-16 with its mark, or Windows-1251. Raises UnreadableMedia."""
    with path.open("rb") as file:
        data = file.read(4 * _MAX_CHARACTERS + 8)
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", errors="replace")
    if b"\0" in data:
        raise UnreadableMedia("unknown_type")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data)  # its end may be half a letter
    except UnicodeDecodeError:
        return data.decode("cp1251", errors="replace")
