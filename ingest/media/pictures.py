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
from numpy.typing import NDArray

from ingest.media import UnreadableMedia, find_missing_readers
from ingest.media.layout import Box, arrange_lines, has_digit
from rag_core.types import DOUBTFUL_MARK, PICTURE, MediaText

if TYPE_CHECKING:
    from PIL.Image import Image

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF")
_MAX_PIXELS = 50_000_000  # a phone's camera; 150 MB as colours
_MAX_SIDE, _MIN_SIDE = 3000, 1600  # tesseract reads capital letters of 20 to 40 pixels best
_TIMEOUT_SECONDS = 60
_PHOTO_TEXTURE = 0.11  # share of half-dark pixels: of pages and screens at most 0.07, of photos at least 0.13
_MIN_CONFIDENCE = 50
_SURE_CONFIDENCE = 70
_CERTAIN_CONFIDENCE = 90
_MAX_GUESSED = 40  # words: more are the texture of a photo
_MIN_SURE_SHARE = 0.05  # of words; in a texture it is 0.03 at most
_DARK = 128
# Pixels: letters are 20 to 40 high, and the widest stroke of one is a dash.
_MIN_RULE, _MAX_RULE_WIDTH = 120, 12
_STRIPS = 4  # of a page whose slope is estimated
_SECOND_SCALE = 0.75
# By which turned lines are sharper, and lines that run together; of straight pages by chance 1.000 and 1.075.
_TURNED, _CONVERGING, _CONVERGING_IF_TURNED = 1.006, 1.08, 1.01
_CELL_GAP = 1.2  # a box of tesseract is as high as the letters in it


class _Word(NamedTuple):
    text: str
    confidence: float
    box: tuple[int, int, int, int]  # left, top, right, bottom
    is_price: bool = False  # the sign of the rouble was cut off


def read_picture(path: Path) -> list[MediaText]:
    """Read a picture: one text with its lines, or none where nothing is written in it. Raises UnreadableMedia."""
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
    page = _erase_rules(_straighten(_separate_ink(_convert_to_grey(picture))))
    words: list[_Word] = []
    seen = _recognize_words(page, "rus+eng")
    seen += _find_missed_numbers(page, seen)
    for word in seen:
        count = len(re.findall(r"\w", word.text))
        is_rouble = word.text in ("P", "Р") and words and words[-1].text[-1].isdecimal()
        # short words are seen in a texture or a rule; a number is read once more
        is_text = count > 0 and word.confidence >= (_MIN_CONFIDENCE if count > 2 else _SURE_CONFIDENCE)
        if is_rouble or is_text or has_digit(word.text):
            words.append(word)
    sure = [word for word in words if word.confidence >= _SURE_CONFIDENCE and len(re.findall(r"\w", word.text)) > 2]
    if not sure or len(sure) < _MIN_SURE_SHARE * len(seen):
        return []  # the texture of a photo
    # the sign of the rouble, where it is read as a letter; as a digit it stands in doubt
    lines = arrange_lines(_check_words(page, words), _CELL_GAP)
    lines = [re.sub(r"(?<=\d) 2$", f" 2{DOUBTFUL_MARK}", line) for line in lines]
    return [re.sub(r"(?<=\d)((?:\(\?\))?) ?[PР°](?=[\s,;/]|$)", r"\1 ₽", line) for line in lines]


def _find_missed_numbers(page: Image, seen: Sequence[_Word]) -> list[_Word]:
    """Find numbers where letters were guessed: a cell of a table alone is often read as some."""
    guessed = sorted((word for word in seen if word.confidence < _MIN_CONFIDENCE), key=lambda word: word.box)
    areas: list[_Word] = []
    for word in guessed if len(guessed) <= _MAX_GUESSED else ():
        left, top, right, bottom = word.box
        before = areas[-1].box if areas else (0, 0, -bottom, 0)
        if left - before[2] < bottom - top and min(bottom, before[3]) > max(top, before[1]):
            around = (before[0], min(top, before[1]), max(right, before[2]), max(bottom, before[3]))
            areas[-1] = word._replace(box=around)
        else:
            areas.append(word)
    found = _read_alone(page, areas, "eng")
    numbers = (word for word in found if re.fullmatch(r"[\d:.,-]{2,}", word.text))
    return [word for word in numbers if word.confidence >= _CERTAIN_CONFIDENCE]


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
    ink = np.minimum(ink / darkest, 1)
    if np.mean((ink[::4, ::4] > 0.2) & (ink[::4, ::4] < 0.8)) > _PHOTO_TEXTURE:
        ink = np.maximum(2 * ink - 1, 0)  # what is written on a photo has the most contrast
    return Image.fromarray((255 - 255 * ink).astype(np.uint8))


def _erase_rules(page: Image) -> Image:
    """Erase the lines of tables and frames: inside a ruled table tesseract sees few words, or none.

    A rule is a run of dark pixels longer than any letter is, and thinner.
    """
    from PIL import Image, ImageFilter

    pixels = np.array(page)
    dark = pixels < _DARK
    rules = np.zeros_like(dark)
    for axis in (0, 1):
        runs = _find_runs(dark, _MIN_RULE, axis)
        rules |= runs & ~_find_runs(runs, _MAX_RULE_WIDTH, 1 - axis)  # what is thicker is an area, or letters
    if not rules.any():
        return page
    grown = Image.fromarray((rules * 255).astype(np.uint8)).filter(ImageFilter.MaxFilter(3))  # and their soft edges
    pixels[np.asarray(grown) > 0] = 255
    return Image.fromarray(pixels)


def _find_runs(marked: NDArray[np.bool_], length: int, axis: int) -> NDArray[np.bool_]:
    """Mark the pixels that belong to a run of at least `length` marked ones along an axis."""
    lanes = np.moveaxis(marked, axis, -1)
    if lanes.shape[-1] < length:
        return np.zeros_like(marked)
    sums = np.cumsum(np.pad(lanes, ((0, 0), (1, 0))), axis=-1, dtype=np.int32)
    starts = np.zeros((lanes.shape[0], lanes.shape[1] + 1), np.int32)
    whole = (sums[:, length:] - sums[:, :-length]) == length
    starts[:, : whole.shape[1]] += whole
    starts[:, length:] -= whole
    return np.moveaxis(np.cumsum(starts, axis=-1)[:, :-1] > 0, -1, axis)


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

    # In strips, each for itself: else the rows of one column that fall between those of another make a slope.
    strip = x * _STRIPS // small.width
    across = x - (strip + 0.5) * small.width / _STRIPS

    def measure_sharpness(slope: float, change: float) -> float:
        profile = np.clip(y - across * (slope + change * place), 0, small.height - 1)
        counts = np.bincount((strip * small.height + profile).astype(np.int64))
        return float(np.square(counts.astype(np.float64)).sum())

    def search(best: tuple[float, float], *grids: tuple[int, float, int, float]) -> tuple[float, float]:
        for slopes, slope_step, changes, change_step in grids:
            around = [
                (best[0] + slope * slope_step, best[1] + change * change_step)
                for slope in range(-slopes, slopes + 1)
                for change in range(-changes, changes + 1)
            ]
            best = max(around, key=lambda pair: measure_sharpness(*pair))
        return best

    parallel = search((0.0, 0.0), (8, 0.02, 0, 0), (4, 0.005, 0, 0), (4, 0.00125, 0, 0))
    converging = search(parallel, (6, 0.01, 6, 0.02), (4, 0.0025, 2, 0.005))
    is_turned = measure_sharpness(*parallel) > _TURNED * measure_sharpness(0, 0)
    # A photo from the side is turned too; lines of a straight page that seem to run together do so by chance.
    clearly = _CONVERGING_IF_TURNED if is_turned else _CONVERGING
    if measure_sharpness(*converging) > clearly * measure_sharpness(*parallel):
        return converging
    return parallel if is_turned else (0.0, 0.0)


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


def _read_alone(page: Image, words: Sequence[_Word], language: str) -> list[_Word]:
    """Read words once more with the model of one language, smaller and without what stands around; "" if not seen."""
    from PIL import Image

    if not words:
        return []
    sheet = Image.new("L", page.size, 255)
    for left, top, right, bottom in (word.box for word in words):
        pad = (bottom - top) // 6  # more shows a part of the next word
        area = (max(0, left - pad), max(0, top - pad), right + pad, bottom + pad)
        sheet.paste(page.crop(area), area[:2])
    size = [round(side * _SECOND_SCALE) for side in sheet.size]
    seen = sorted(_recognize_words(sheet.resize(size, Image.Resampling.BICUBIC), language), key=lambda one: one.box)
    results = []
    for word in words:
        x0, y0, x1, y1 = (side * _SECOND_SCALE for side in word.box)
        found = [
            one for one in seen if x0 < (one.box[0] + one.box[2]) / 2 < x1 and y0 < (one.box[1] + one.box[3]) / 2 < y1
        ]
        text, confidence = "".join(one.text for one in found), min((one.confidence for one in found), default=0.0)
        results.append(word._replace(text=text, confidence=confidence))
    return results


def _check_words(page: Image, words: Sequence[_Word]) -> list[Box]:
    """Read numbers once more and mark what is read differently; also Latin words of a Russian page.

    The Russian model takes a 3 for a 5 with a confidence of 96; the English one, which never saw the same letters,
    errs elsewhere. Neither knows the sign of the rouble: both read it as a digit, so that it is left out.
    """
    words = [_cut_rouble(page, word) for word in words]
    text = "".join(word.text for word in words)
    is_russian = len(re.findall("[а-яё]", text, re.IGNORECASE)) > 2 * len(re.findall("[a-z]", text, re.IGNORECASE))
    numbers = [n for n, word in enumerate(words) if has_digit(word.text)]
    latin = [n for n, word in enumerate(words) if is_russian and re.fullmatch(r"[A-Za-z]{2,}\W?", word.text)]
    texts = [word.text for word in words]
    for n, second in zip(numbers, _read_alone(page, [words[n] for n in numbers], "eng"), strict=True):
        texts[n] = _check_number(words[n], second) + (" ₽" if words[n].is_price else "")
    for n, second in zip(latin, _read_alone(page, [words[n] for n in latin], "rus"), strict=True):
        if second.confidence >= min(words[n].confidence, _SURE_CONFIDENCE):
            texts[n] = second.text
    return [Box(text, *word.box) for text, word in zip(texts, words, strict=True) if text.strip(" ₽")]


def _cut_rouble(page: Image, word: _Word) -> _Word:
    """Cut the sign of the rouble off a number: one letter behind the only wide gap, which is read as one of a few."""
    if not re.fullmatch(r"\d.*[2?°PРЯ]", word.text) or len(word.text) < 3:
        return word
    left, top, right, bottom = word.box
    ink = np.flatnonzero((np.asarray(page.crop(word.box)) < 128).any(axis=0))
    gaps = np.diff(ink)
    second_widest, width = np.sort(np.append(gaps, [1, 1]))[-2:]
    if width < 0.2 * (bottom - top) or width < 1.5 * second_widest:
        return word
    end = int(ink[gaps.argmax()]) + 1
    if right - left - end - width > bottom - top:  # more than one letter
        return word
    return word._replace(text=word.text[:-1].rstrip(), box=(left, top, left + end, bottom), is_price=True)


def _check_number(first: _Word, second: _Word) -> str:
    """Return a number, marked where its digits are in doubt; of two readings the more confident one.

    "" for what neither reading takes for a number.
    """
    digits, others = re.findall(r"\d", first.text), re.findall(r"\d", second.text)
    signs, other_signs = (re.findall(r"(?<=\d)[.,:](?=\d)", one.text) for one in (first, second))
    if max(first.confidence, second.confidence) < _MIN_CONFIDENCE:
        return ""
    if not others and first.confidence >= _CERTAIN_CONFIDENCE:  # a digit that stands alone is often not seen
        return first.text
    if digits == others and signs == other_signs:
        return first.text
    text = first.text
    if digits == others and not signs:  # the colon of a time was not seen
        text = second.text
    elif len(digits) == len(others) and second.confidence > first.confidence:
        better = iter(others)
        text = re.sub(r"\d", lambda _: next(better), text)
    return re.sub(r"(\d)(?=\D*$)", rf"\1{DOUBTFUL_MARK}", text)
