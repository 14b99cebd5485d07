"""Optical character recognition: the text of a picture, by tesseract.

The picture is made what tesseract reads best: dark letters on white, in straight lines. What decides where a line is
read is in layout.py. Numbers are read twice, by the models of two languages: one that is read differently, or with
little confidence, is marked with (?).
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ingest.media import UnreadableMedia, find_missing_readers
from ingest.media.layout import Box, arrange_lines
from rag_core.types import PICTURE, MediaText

if TYPE_CHECKING:
    from PIL.Image import Image

DOUBT = "(?)"
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_MAX_PIXELS = 50_000_000  # a phone's camera; 150 MB as colours
_MAX_SIDE, _MIN_SIDE = 3000, 1600  # tesseract reads capital letters of 20 to 40 pixels best
_TIMEOUT_SECONDS = 60
_MIN_CONFIDENCE = 50
_SURE_CONFIDENCE = 70
_SECOND_SCALE = 0.75


class _Word(NamedTuple):
    text: str
    confidence: float
    box: tuple[int, int, int, int]  # left, top, right, bottom


def read_picture(path: Path) -> list[MediaText]:
    """Read a picture: one text with its lines, or none where nothing is written in it.

    Raises UnreadableMedia.
    """
    if PICTURE in find_missing_readers(None):
        raise UnreadableMedia("not_installed")
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings(), Image.open(path, formats=_FORMATS) as picture:
            warnings.simplefilter("ignore")  # of odd metadata, which nobody reads
            if picture.width * picture.height > _MAX_PIXELS:
                raise UnreadableMedia("too_large")
            picture.draft("L", (_MAX_SIDE, _MAX_SIDE))  # JPEG is decoded small: a quarter of the memory
            lines = recognize_lines(ImageOps.exif_transpose(picture))
    except UnidentifiedImageError as exc:
        raise UnreadableMedia("unknown_type") from exc
    except Image.DecompressionBombError as exc:
        raise UnreadableMedia("too_large") from exc
    except (OSError, ValueError, SyntaxError) as exc:  # Pillow's plugins raise any of them
        raise UnreadableMedia("broken") from exc
    return [MediaText(PICTURE, "\n".join(lines))] if lines else []


def recognize_lines(picture: Image) -> list[str]:
    """Recognise the lines of a picture, in their order of reading. Raises UnreadableMedia."""
    page = _straighten(_separate_ink(_convert_to_grey(picture)))
    words = [word for word in _recognize_words(page, "rus+eng") if _is_text(word)]
    if not any(word.confidence >= _SURE_CONFIDENCE and len(re.findall(r"\w", word.text)) > 2 for word in words):
        return []  # the texture of a photo
    return [_restore_rouble(line) for line in arrange_lines(_check_numbers(page, words))]


def _is_text(word: _Word) -> bool:
    """Whether a word is none of the short ones that are seen in a texture or a rule."""
    count = len(re.findall(r"\w", word.text))
    if re.search(r"\d", word.text):
        return word.confidence >= _MIN_CONFIDENCE / 2
    return count > 0 and word.confidence >= (_MIN_CONFIDENCE if count > 2 else _SURE_CONFIDENCE)


def _convert_to_grey(picture: Image) -> Image:
    """Convert to greyscale on white, at a size at which letters are read well."""
    from PIL import Image

    if picture.has_transparency_data:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    grey = picture.convert("L")
    side = max(grey.size)
    scale = min(2.5, _MIN_SIDE / side) if side < _MIN_SIDE else min(1.0, _MAX_SIDE / side)
    width, height = (max(1, round(length * scale)) for length in grey.size)
    return grey.resize((width, height), Image.Resampling.BICUBIC) if scale != 1 else grey


def _separate_ink(grey: Image) -> Image:
    """Subtract the background: letters become dark on white, be they light on dark, in shadow or on a photo."""
    from PIL import Image, ImageFilter

    small = grey.resize([max(1, side // 8) for side in grey.size], Image.Resampling.BOX)
    blurred = small.filter(ImageFilter.MedianFilter(9)).filter(ImageFilter.BoxBlur(2))
    background = blurred.resize(grey.size, Image.Resampling.BILINEAR)
    ink = np.abs(np.asarray(grey, np.float32) - np.asarray(background, np.float32))
    darkest = max(40.0, float(np.percentile(ink[::4, ::4], 99)))  # less is noise
    return Image.fromarray((255 - np.minimum(ink * (255 / darkest), 255)).astype(np.uint8))


def _straighten(page: Image) -> Image:
    """Turn lines to the horizontal, also where they run together, as in a photo from the side."""
    from PIL import Image

    slope, change = _estimate_slopes(page)
    if not slope and not change:
        return page
    width, height = page.size
    ends = (slope - change / 2, slope + change / 2)
    above, below = max(0.0, *(-width * end for end in ends)), max(0.0, *(width * end for end in ends))
    top, bottom = -below, height + above

    def shift(y: float) -> float:
        return y + width * (slope + change * (y / height - 0.5))

    corners = (0, top, 0, bottom, width, shift(bottom), width, shift(top))
    size = (width, round(bottom - top))
    return page.transform(size, Image.Transform.QUAD, corners, Image.Resampling.BICUBIC, fillcolor=255)


def _estimate_slopes(page: Image) -> tuple[float, float]:
    """Estimate the slope of lines in the middle, and its change from top to bottom; by their projection profile."""
    small = page.copy()
    small.thumbnail((900, 900))
    rows, columns = np.nonzero(np.asarray(small) < 128)
    if len(rows) < 200:
        return 0.0, 0.0
    chosen = np.random.default_rng(0).permutation(len(rows))[:20_000]
    y, x = rows[chosen], columns[chosen]
    place = y / small.height - 0.5

    def measure_sharpness(slope: float, change: float) -> float:
        profile = y - x * (slope + change * place)
        counts = np.bincount((profile - profile.min()).astype(np.int64))
        return float(np.square(counts.astype(np.float64)).sum())

    best = (0.0, 0.0)
    for slopes, changes in (
        (np.arange(-8, 9) * 0.02, np.zeros(1)),
        (np.arange(-4, 5) * 0.01, np.arange(-6, 7) * 0.02),
        (np.arange(-4, 5) * 0.0025, np.arange(-2, 3) * 0.01),
    ):
        around = [(best[0] + float(slope), best[1] + float(change)) for slope in slopes for change in changes]
        best = max(around, key=lambda pair: measure_sharpness(*pair))
    return best if measure_sharpness(*best) > 1.03 * measure_sharpness(0, 0) else (0.0, 0.0)


def _recognize_words(page: Image, languages: str) -> list[_Word]:
    import pytesseract

    os.environ.setdefault("OMP_THREAD_LIMIT", "1")  # the bot answers beside it
    try:
        table = pytesseract.image_to_data(
            page,
            languages,
            "--psm 11",  # words wherever they stand: blocks would part a price from its name
            output_type=pytesseract.Output.DICT,
            timeout=_TIMEOUT_SECONDS,
        )
    except RuntimeError as exc:
        raise UnreadableMedia("broken" if isinstance(exc, pytesseract.TesseractError) else "too_large") from exc
    columns = (table[name] for name in ("text", "conf", "left", "top", "width", "height"))
    return [
        _Word(text.strip(), float(confidence), (left, top, left + width, top + height))
        for text, confidence, left, top, width, height in zip(*columns, strict=True)
        if text.strip()
    ]


def _check_numbers(page: Image, words: Sequence[_Word]) -> list[Box]:
    """Read words with digits once more, alone and smaller; what is read differently is marked.

    The Russian model takes a 3 for a 5 with a confidence of 96; the English one, which never saw the same letters,
    errs elsewhere.
    """
    from PIL import Image

    numbers = [word for word in words if re.search(r"\d", word.text)]
    sheet = Image.new("L", page.size, 255)
    for word in numbers:
        left, top, right, bottom = word.box
        pad = (bottom - top) // 6  # more shows a part of the next word
        area = (max(0, left - pad), max(0, top - pad), right + pad, bottom + pad)
        sheet.paste(page.crop(area), area[:2])
    size = [round(side * _SECOND_SCALE) for side in sheet.size]
    second = _recognize_words(sheet.resize(size, Image.Resampling.BICUBIC), "eng") if numbers else []
    return [Box(_check_number(word, second) if word in numbers else word.text, *word.box) for word in words]


def _check_number(word: _Word, second: Sequence[_Word]) -> str:
    """Return a word's text, marked where its digits are in doubt; of two readings the more confident one."""
    left, top, right, bottom = (side * _SECOND_SCALE for side in word.box)
    found = [
        other
        for other in sorted(second, key=lambda other: other.box)
        if left < (other.box[0] + other.box[2]) / 2 < right and top < (other.box[1] + other.box[3]) / 2 < bottom
    ]
    first_digits = re.findall(r"\d", word.text)
    digits = re.findall(r"\d", "".join(other.text for other in found))
    # A digit that stands alone is often not seen, which does not speak against it.
    agree = digits == first_digits or (not digits and word.confidence >= 90)
    if agree and word.confidence >= _MIN_CONFIDENCE:
        return word.text
    text = word.text
    if len(digits) == len(first_digits) and min(other.confidence for other in found) > word.confidence:
        better = iter(digits)
        text = re.sub(r"\d", lambda _: next(better), text)
    return re.sub(r"(\d)(?=\D*$)", rf"\1{DOUBT}", text)


def _restore_rouble(line: str) -> str:
    """Restore the sign of the rouble, which tesseract does not know and reads as the letter."""
    return re.sub(r"(?<=\d)((?:\(\?\))?) ?[PР](?=[\s,;/]|$)", r"\1 ₽", line)
