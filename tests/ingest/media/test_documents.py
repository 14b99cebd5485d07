"""Text of documents, of files that are made here; hostile ones end in a problem, soon and in little memory."""

import io
import resource
import zipfile
from datetime import datetime
from pathlib import Path

import docx
import openpyxl
import pytest
from PIL import Image, ImageDraw, ImageFont

from ingest.media import UnreadableMedia, find_missing_readers
from ingest.media.documents import CUT, read_document
from rag_core.types import PICTURE

pytestmark = pytest.mark.slow
FONT = next(Path("/usr/share/fonts").rglob("DejaVuSans.ttf"), None) or "DejaVuSans.ttf"
TABLE = [["День", "Маршрут", "Отъезд"], ["12 мая", "Озеро", "7:40"], ["19 мая", "Усадьба", "8:15"]]
TABLE_LINES = [
    "День Маршрут Отъезд",
    "День: 12 мая, Маршрут: Озеро, Отъезд: 7:40",
    "День: 19 мая, Маршрут: Усадьба, Отъезд: 8:15",
]


def read_lines(path):
    return [line for one in read_document(path, path.name) for line in one.text.split("\n")]


def write_pdf(path, pages):
    """Pages of (x, y from below, text in Latin letters), in the order in which they are written."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    kids = []
    for page in pages:
        drawing = " ".join(f"BT /F1 12 Tf {x} {y} Td ({text}) Tj ET" for x, y, text in page).encode()
        objects.append(b"<< /Length %d >> stream\n%s\nendstream" % (len(drawing), drawing))
        kids.append(len(objects) + 1)
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /Font << /F1 3 0 R >> >>"
            b" /Contents %d 0 R >>" % len(objects)
        )
    objects[1] = b"<< /Type /Pages /Count %d /Kids [%s] >>" % (len(kids), b" ".join(b"%d 0 R" % kid for kid in kids))
    body = io.BytesIO(b"%PDF-1.4\n")
    body.seek(0, io.SEEK_END)
    places = []
    for number, content in enumerate(objects, 1):
        places.append(body.tell())
        body.write(b"%d 0 obj\n%s\nendobj\n" % (number, content))
    start = body.tell()
    body.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    body.writelines(b"%010d 00000 n \n" % place for place in places)
    body.write(b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))
    path.write_bytes(body.getvalue())


def test_names_and_prices_of_a_pdf_that_were_written_apart_stand_together(tmp_path):
    names = [(60, 800 - 30 * n, name) for n, name in enumerate(["Pottery", "Watercolour", "Weaving"])]
    prices = [(400, 800 - 30 * n, price) for n, price in enumerate(["45 EUR", "30 EUR", "52 EUR"])]
    write_pdf(tmp_path / "a.pdf", [names + prices, [(60, 800, "Second page, until 14 May")]])
    texts = read_document(tmp_path / "a.pdf", "a.pdf")
    assert [(one.place, one.text) for one in texts] == [
        (1, "Pottery 45 EUR\nWatercolour 30 EUR\nWeaving 52 EUR"),
        (2, "Second page, until 14 May"),
    ]


def test_columns_of_a_pdf_are_read_one_after_the_other(tmp_path):
    left = [
        "The library moves to the old mill",
        "on the second of June and will be",
        "closed for nine days before",
        "it.",
    ]
    right = [
        "Readers bring their books back to",
        "the desk in the town hall until 28",
        "May, or keep them over the",
        "summer.",
    ]
    page = [(50, 700 - 14 * n, line) for n, line in enumerate(left)]
    page += [(320, 700 - 14 * n, line) for n, line in enumerate(right)]
    write_pdf(tmp_path / "a.pdf", [page])
    assert read_lines(tmp_path / "a.pdf") == [" ".join(left), " ".join(right)]


@pytest.mark.skipif(PICTURE in find_missing_readers(None), reason="tesseract with both languages is not installed")
def test_scanned_pages_of_a_pdf_are_read_as_pictures(tmp_path):
    page = Image.new("RGB", (1240, 1754), "white")
    text = "Арендная плата 45 000 рублей"
    ImageDraw.Draw(page).text((120, 200), text, "black", ImageFont.truetype(FONT, 34))
    page.save(tmp_path / "scan.pdf")
    (one,) = read_document(tmp_path / "scan.pdf", "scan.pdf")
    assert (one.text, one.place) == (text, 1)


def test_paragraphs_and_rows_of_a_docx_are_lines(tmp_path):
    document = docx.Document()
    document.add_paragraph("Сбор у школы.")
    table = document.add_table(3, 3)
    for row, cells in zip(table.rows, TABLE, strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    document.add_paragraph("Обед с собой.")
    document.save(str(tmp_path / "a.docx"))
    assert read_lines(tmp_path / "a.docx") == ["Сбор у школы.", *TABLE_LINES, "Обед с собой."]


def test_rows_of_a_workbook_have_their_headers_and_what_a_person_sees(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.active
    for row in (["Остатки"], ["Товар", "Цена", "Скидка", "С дня"], ["Стол", 5000.0, 0.15, datetime(2026, 5, 1)]):
        sheet.append(row)
    sheet["C3"].number_format = "0%"
    sheet.append(["Стул", 1250.5, None, None])
    book.save(tmp_path / "a.xlsx")
    assert read_lines(tmp_path / "a.xlsx")[2:] == [
        "Товар: Стол, Цена: 5000, Скидка: 15%, С дня: 2026-05-01",
        "Товар: Стул, Цена: 1250.5",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1251"])
def test_text_in_any_usual_encoding_is_read(encoding, tmp_path):
    (tmp_path / "a.txt").write_text("Ёлку везут в 9:00.\n\nПриходите!", encoding)
    (tmp_path / "a.csv").write_text("\n".join(";".join(row) for row in TABLE), encoding)
    assert read_lines(tmp_path / "a.txt") == ["Ёлку везут в 9:00.", "Приходите!"]
    assert read_lines(tmp_path / "a.csv") == TABLE_LINES


@pytest.mark.parametrize("rows", [20, 9000])
def test_a_quote_that_never_ends_hides_no_rows(tmp_path, rows):
    lines = ["name;price", '"Чай;55', *(f"Булка номер {n};{n}" for n in range(rows))]
    (tmp_path / "a.csv").write_text("\n".join(lines), "utf-8")
    said = " ".join(read_lines(tmp_path / "a.csv"))
    assert "Булка номер 7;7 Булка номер 8;8 Булка номер 9;9" in said


def test_what_is_too_long_is_cut_and_says_so(tmp_path):
    (tmp_path / "a.txt").write_text("Строка журнала с числом 17.\n" * 200_000)
    (one,) = read_document(tmp_path / "a.txt", "a.txt")
    assert one.text.endswith(f"17.\n{CUT}")
    assert len(one.text) < 200_010
    write_pdf(tmp_path / "a.pdf", [[(60, 800, f"Page {number}")] for number in range(1, 5001)])
    texts = read_document(tmp_path / "a.pdf", "a.pdf")
    assert (texts[-2].text, texts[-1].text) == ("Page 500", CUT)


def write_parts(path, **parts):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


def replace_part(path, name, content):
    """Write a document with one part replaced."""
    with zipfile.ZipFile(path) as archive:
        parts = {part: archive.read(part) for part in archive.namelist()}
    write_parts(path, **parts | {name: content})


def write_zip_bomb(path):
    write_parts(path, **{"word/document.xml": bytes(200_000_000)})


def write_nested_entities(path):
    docx.Document().save(str(path))
    entities = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 12))
    body = '<w:body xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:p><w:r><w:t>&a11;</w:t></w:r></w:p></w:body>'
    start = f'<?xml version="1.0"?><!DOCTYPE d [<!ENTITY a0 "lol">{entities}]>'
    namespace = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
    replace_part(path, "word/document.xml", f"{start}<w:document {namespace}>{body}</w:document>".encode())


def write_locked_pdf(path):
    """A PDF whose key nobody has."""
    write_pdf(path, [[(60, 800, "Secret")]])
    lock = b"/Encrypt << /Filter /Standard /V 1 /R 2 /O <%s> /U <%s> /P -44 >> /ID [<00> <00>] /Root" % (
        b"11" * 32,
        b"22" * 32,
    )
    path.write_bytes(path.read_bytes().replace(b"/Root", lock))


def write_locked_docx(path):
    path.write_bytes(
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504) + "EncryptedPackage".encode("utf-16-le") + bytes(512)
    )


def write_half_a_docx(path):
    docx.Document().save(str(path))
    path.write_bytes(path.read_bytes()[:9000])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("name", "write", "problem"),
    [
        ("bomb.docx", write_zip_bomb, "too_large"),
        ("half.docx", write_half_a_docx, "broken"),
        ("locked.docx", write_locked_docx, "protected"),
        ("locked.pdf", write_locked_pdf, "protected"),
        ("half.pdf", lambda path: path.write_bytes(b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog"), "broken"),
        ("page.pdf", lambda path: path.write_text("<!DOCTYPE html><p>Hello"), "unknown_type"),
        ("program.txt", lambda path: path.write_bytes(b"\x7fELF" + bytes(5000)), "unknown_type"),
        ("empty.pdf", lambda path: path.write_bytes(b""), "broken"),
        ("archive.docx", lambda path: write_parts(path, readme=b"text"), "unknown_type"),
    ],
)
def test_hostile_documents_end_in_a_problem(name, write, problem, tmp_path):
    write(tmp_path / name)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableMedia) as caught:
        read_document(tmp_path / name, name)
    assert str(caught.value) == problem
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


@pytest.mark.timeout(20)
def test_nested_entities_are_not_expanded(tmp_path):
    write_nested_entities(tmp_path / "a.docx")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        lines = read_lines(tmp_path / "a.docx")
    except UnreadableMedia as exc:
        lines = [str(exc)]
    assert len("".join(lines)) < 1000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


@pytest.mark.timeout(60)
def test_a_million_rows_are_cut_in_seconds(tmp_path):
    openpyxl.Workbook().save(tmp_path / "a.xlsx")
    rows = "".join(f'<row r="{n}"><c r="A{n}"><v>{n}</v></c></row>' for n in range(1, 1_048_577))
    sheet = (
        '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f'<dimension ref="A1:XFD1048576"/><sheetData>{rows}</sheetData></worksheet>'
    )
    replace_part(tmp_path / "a.xlsx", "xl/worksheets/sheet1.xml", sheet.encode())
    lines = read_lines(tmp_path / "a.xlsx")
    assert lines[:2] == ["1", "2"]
    assert lines[-1] == CUT
