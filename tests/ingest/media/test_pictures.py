import io
import random
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from ingest.media import UnreadableMedia, find_missing_readers
from ingest.media.pictures import read_picture
from rag_core.types import PICTURE

needs_tesseract = pytest.mark.skipif(
    PICTURE in find_missing_readers(None), reason="tesseract with Russian and English is not installed"
)
pytestmark = pytest.mark.slow
FONT = next(Path("/usr/share/fonts").rglob("DejaVuSans.ttf"), None) or "DejaVuSans.ttf"
MENU = [("Борщ с пампушками", "340 ₽"), ("Чай облепиховый", "210 ₽"), ("Пирог с вишней", "185 ₽"), ("Морс", "120 ₽")]


def draw_cells(rows, columns=(60, 700), *, dark=False, size=32):
    paper, ink = ((20, 30, 40), (240, 240, 240)) if dark else ((250, 246, 235), (30, 25, 20))
    picture = Image.new(
        "RGB", (max(columns) + 260 if len(columns) > 1 and columns[0] < columns[1] else 900, len(rows) * 60 + 80), paper
    )
    draw, font = ImageDraw.Draw(picture), ImageFont.truetype(FONT, size)
    for number, row in enumerate(rows):
        for x, cell in zip(columns, row, strict=False):
            draw.text((x, 40 + number * 60), cell, ink, font)
    return picture


def read(picture, folder, quality=90, **options):
    path = folder / "picture.jpg"
    picture.save(path, "JPEG", quality=quality, **options)
    return [line for one in read_picture(path) for line in one.text.split("\n")]


def turn(picture):
    return picture.rotate(4, Image.Resampling.BICUBIC, expand=True, fillcolor=(250, 246, 235))


def view_from_the_side(picture):
    width, height = picture.size
    corners = (-20, -10, 10, height + 15, width + 20, height - 10, width - 10, 30)
    return picture.transform(picture.size, Image.Transform.QUAD, corners, Image.Resampling.BICUBIC)


def darken(picture):
    shadow = np.linspace(0.7, 0.25, picture.width)[None, :, None]
    noise = np.random.default_rng(1).normal(0, 5, (picture.height, picture.width, 3))
    return Image.fromarray((np.asarray(picture) * shadow + noise).clip(0, 255).astype(np.uint8))


def blur(picture):
    return picture.filter(ImageFilter.GaussianBlur(1.2))


def shrink(picture):
    return picture.resize((picture.width // 2, picture.height // 2), Image.Resampling.LANCZOS)


@needs_tesseract
@pytest.mark.parametrize("damage", [Image.Image.copy, turn, view_from_the_side, darken, blur, shrink])
def test_a_price_stands_in_the_line_of_its_name(damage, tmp_path):
    lines = read(damage(draw_cells([list(row) for row in MENU])), tmp_path, quality=60)
    assert lines == [f"{name} {price}" for name, price in MENU]


@needs_tesseract
def test_a_dark_screenshot_and_a_transparent_picture_are_read(tmp_path):
    rows = [["Встреча у фонтана в 17:40"], ["Сбор 350 рублей"]]
    assert read(draw_cells(rows, dark=True), tmp_path) == [row[0] for row in rows]
    letters = Image.new("RGBA", (800, 120), (0, 0, 0, 0))
    ImageDraw.Draw(letters).text((40, 40), "Library opens at 9:30", (0, 0, 0, 255), ImageFont.truetype(FONT, 36))
    letters.save(tmp_path / "letters.png")
    assert [one.text for one in read_picture(tmp_path / "letters.png")] == ["Library opens at 9:30"]


@needs_tesseract
def test_a_photo_on_its_side_is_turned_as_its_camera_says(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6  # turn by 90° to the right
    sideways = draw_cells([list(row) for row in MENU]).transpose(Image.Transpose.ROTATE_90)
    assert read(sideways, tmp_path, exif=exif)[0] == "Борщ с пампушками 340 ₽"


@needs_tesseract
def test_rows_under_a_day_are_read_with_the_day(tmp_path):
    rows = [["Среда"], ["10:00", "Керамика"], ["12:30", "Хор"], ["Суббота"], ["9:15", "Рисование"], ["11:45", "Хор"]]
    assert read(draw_cells(rows, (60, 320), size=40), tmp_path) == [
        "Среда: 10:00 Керамика",
        "Среда: 12:30 Хор",
        "Суббота: 9:15 Рисование",
        "Суббота: 11:45 Хор",
    ]


@needs_tesseract
def test_cells_of_a_timetable_are_read_with_their_headers(tmp_path):
    rows = [["Время", "Вторник", "Четверг"], ["10:00", "Хор", "Бассейн"], ["18:30", "Шахматы", "Хор"]]
    assert read(draw_cells(rows, (60, 320, 640)), tmp_path) == [
        "Время: 10:00, Вторник: Хор, Четверг: Бассейн",
        "Время: 18:30, Вторник: Шахматы, Четверг: Хор",
    ]


@needs_tesseract
def test_a_table_with_rules_is_read(tmp_path):
    rows = [["Время", "Понедельник", "Среда"], ["9:00", "Йога", "Плавание"], ["18:30", "Бокс", "Йога"]]
    picture = draw_cells(rows, (60, 300, 640))
    pen = ImageDraw.Draw(picture)
    for number in range(4):
        pen.line([(40, 30 + number * 60), (880, 30 + number * 60)], "black", 2)
        pen.line([((40, 280, 620, 880)[number], 30), ((40, 280, 620, 880)[number], 210)], "black", 2)
    assert read(picture, tmp_path) == [
        "Время: 9:00, Понедельник: Йога, Среда: Плавание",
        "Время: 18:30, Понедельник: Бокс, Среда: Йога",
    ]


@needs_tesseract
def test_two_columns_of_a_menu_are_read_one_after_the_other(tmp_path):
    left = [["Борщ с мясом", "340"], ["Солянка", "360"], ["Окрошка", "290"]]
    right = [["Чай чёрный", "110"], ["Кофе", "150"], ["Компот", "90"]]
    rows = [one + other for one, other in zip(left, right, strict=True)]
    lines = read(draw_cells(rows, (60, 460, 700, 1100)), tmp_path)
    assert lines == [" ".join(row) for row in left + right]


@needs_tesseract
def test_a_wrapped_sentence_is_one_line(tmp_path):
    rows = [["Занятий не будет до пятницы: в школе"], ["меняют окна."], ["Вход со двора."]]
    lines = read(draw_cells(rows, (60, 60), size=40), tmp_path)
    assert lines == ["Занятий не будет до пятницы: в школе меняют окна.", "Вход со двора."]


@needs_tesseract
def test_numbers_that_are_hard_to_read_are_marked_or_right(tmp_path):
    chance = random.Random(3)
    numbers = [str(chance.randrange(1000, 10_000)) for _ in range(24)]
    rows = [[f"Код {number}", f"Код {other}"] for number, other in zip(numbers[::2], numbers[1::2], strict=True)]
    small = draw_cells(rows, (60, 420), size=24)
    small = small.resize((small.width // 3, small.height // 3)).filter(ImageFilter.GaussianBlur(0.6))
    text = " ".join(read(small, tmp_path, quality=40))
    told = [word for word in text.split() if word.isdecimal()]
    wrong = [word for word in told if word not in numbers]
    assert "(?)" in text
    assert len(wrong) <= 1


@needs_tesseract
def test_a_photo_without_writing_has_no_text(tmp_path):
    chance = np.random.default_rng(5)
    grass = Image.fromarray(chance.integers(0, 255, (60, 80, 3), dtype=np.uint8)).resize((600, 450))
    stripes = Image.fromarray((np.sin(np.arange(100 * 600) / 9).reshape(100, 600) * 90 + 120).astype(np.uint8))
    for picture in (grass, stripes, Image.new("RGB", (450, 450), (200, 180, 160))):
        assert read(picture.convert("RGB"), tmp_path) == []


def write_gif_of_many_pixels(path):
    small = io.BytesIO()
    Image.new("1", (1, 1)).save(small, "GIF")
    data = bytearray(small.getvalue())
    data[6:10] = (60_000).to_bytes(2, "little") * 2
    path.write_bytes(data)


def write_png_of_many_pixels(path):
    small = io.BytesIO()
    Image.new("1", (1, 1)).save(small, "PNG")
    data = bytearray(small.getvalue())
    data[16:24] = (30_000).to_bytes(4, "big") * 2
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4, "big")
    path.write_bytes(data)


def write_half_a_jpeg(path):
    whole = io.BytesIO()
    draw_cells([["Борщ", "340"]]).save(whole, "JPEG")
    path.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])


@needs_tesseract
@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("write", "problem"),
    [
        (write_png_of_many_pixels, "too_large"),
        (write_gif_of_many_pixels, "too_large"),
        (write_half_a_jpeg, "broken"),
        (lambda path: path.write_text("<svg xmlns='http://www.w3.org/2000/svg'/>"), "unknown_type"),
        (lambda path: path.write_bytes(b""), "unknown_type"),
    ],
)
def test_hostile_pictures_end_in_a_problem(write, problem, tmp_path):
    write(tmp_path / "a.jpg")
    with pytest.raises(UnreadableMedia, match=f"^{problem}$"):
        read_picture(tmp_path / "a.jpg")


@needs_tesseract
def test_a_png_that_is_called_jpg_is_read(tmp_path):
    draw_cells([["Борщ с мясом", "340"]]).save(tmp_path / "a.jpg", "PNG")
    assert [one.text for one in read_picture(tmp_path / "a.jpg")] == ["Борщ с мясом 340"]


def test_without_tesseract_or_its_russian_a_picture_is_not_read(tmp_path, monkeypatch):
    draw_cells([["Борщ"]]).save(tmp_path / "a.png")
    program = tmp_path / "tesseract"
    program.write_text("#!/bin/sh\necho eng\n")
    program.chmod(0o755)
    for folder in (tmp_path, tmp_path / "empty"):
        monkeypatch.setenv("PATH", str(folder))
        with pytest.raises(UnreadableMedia, match="not_installed"):
            read_picture(tmp_path / "a.png")
