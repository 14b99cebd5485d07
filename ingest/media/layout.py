"""Layout analysis: words with their boxes become lines that can be read alone.

A price stands in the line of its name, a cell of a timetable with the header of its column, and a row under a day with
that day. What decides is geometry, never the meaning of a word.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median


@dataclass(frozen=True, slots=True)
class Box:
    """A word, or several words of one line, and where it stands; y grows downwards."""

    text: str
    left: float
    top: float
    right: float
    bottom: float

    @property
    def height(self) -> float:
        """Height of the box."""
        return self.bottom - self.top


def join_boxes(first: Box, second: Box, space: str = " ") -> Box:
    """Join two boxes into the one around both."""
    return Box(
        first.text + space + second.text,
        min(first.left, second.left),
        min(first.top, second.top),
        max(first.right, second.right),
        max(first.bottom, second.bottom),
    )


Row = list[Box]
_MIN_COLUMN_ROWS = 3
_MAX_ROW_WORDS = 10  # more is a sentence, no row under a heading
_MAX_HEADER = 120  # characters that each row repeats


def arrange_lines(boxes: Sequence[Box], cell_gap: float) -> list[str]:
    """Lines of a page in their order of reading; `cell_gap`: least gap of two cells of a row, in heights of a line."""
    rows: list[Row] = []
    for box in sorted(boxes, key=lambda box: box.top + box.height / 2):
        for row in reversed(rows[-3:]):  # at its height for most of the smaller one: a cell may have several lines
            lowest = min(row, key=lambda other: other.height)
            overlap = min(box.bottom, lowest.bottom) - max(box.top, lowest.top)
            if overlap > 0.65 * min(box.height, lowest.height):
                row.append(box)
                break
        else:
            rows.append([box])
    for row in rows:  # its words become cells
        row.sort(key=lambda box: box.left)
        gap = cell_gap * min(median(box.height for box in row), 2 * min(box.height for box in row))
        cells = row[:1]
        for box in row[1:]:
            if box.left - cells[-1].right < gap:
                cells[-1] = join_boxes(cells[-1], box)
            else:
                cells.append(box)
        row[:] = cells
    return _repeat_headings([line for table in _split_columns(rows) for line in _format_table(table)])


def label_rows(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield the rows of a table as lines; below a header of three cells or more each cell has its header before it."""
    header: Sequence[str] = ()
    for row in rows:
        filled = list(filter(None, row))
        is_header = len(filled) >= 3 and not has_digit("".join(filled)) and sum(map(len, filled)) < _MAX_HEADER
        if is_header and not header:
            header = row
        if not filled:
            header = ()
        elif header is row or len(filled) == 1 or len(row) > len(header):
            yield " ".join(filled)
        else:
            yield _label_cells(header[: len(row)], row)


def _label_cells(header: Sequence[str], cells: Sequence[str]) -> str:
    return ", ".join(f"{name}: {cell}" if name else cell for name, cell in zip(header, cells, strict=True) if cell)


def _split_columns(rows: list[Row]) -> list[list[Row]]:
    """Split a page into tables: columns that are read one after another, as two halves of a menu, are cut apart.

    A gap that runs through many rows separates such columns where the text of both sides says something alone: the
    column of the prices of a menu does not, and stays with the names.
    """
    gaps = sorted({(left.right + right.left) / 2 for row in rows for left, right in pairwise(row)})
    best: tuple[int, int, float] | None = None
    for x in gaps:
        start = 0
        for end in range(len(rows) + 1):
            if end < len(rows) and not any(box.left < x < box.right for box in rows[end]):
                continue
            run = rows[start:end]
            if (best is None or end - start > best[1] - best[0]) and _are_columns(run, x):
                best = start, end, x
            start = end + 1
    if best is None:
        return [rows] if rows else []
    start, end, x = best
    left = [[box for box in row if box.right <= x] for row in rows[start:end]]
    right = [[box for box in row if box.left >= x] for row in rows[start:end]]
    parts = (rows[:start], [row for row in left if row], [row for row in right if row], rows[end:])
    return [table for part in parts for table in _split_columns(part)]


def _are_columns(rows: list[Row], x: float) -> bool:
    """Whether most rows on both sides are a name with a number, or a long cell; and they differ in their words."""
    left = [[box.text for box in row if box.right <= x] for row in rows]
    right = [[box.text for box in row if box.left >= x] for row in rows]
    for side in (left, right):
        filled = list(filter(None, side))
        full = [
            row
            for row in filled
            if (sum(map(str.isalpha, "".join(row))) >= 4 and has_digit("".join(row)))
            or any(cell.count(" ") >= 3 for cell in row)
        ]
        words = {re.sub(r"[\W\d]", "", "".join(row)) for row in full}
        if len(full) < _MIN_COLUMN_ROWS or len(full) <= 0.6 * len(filled) or len(words) <= 0.5 * len(full):
            return False
    return True


def has_digit(text: str) -> bool:
    """Whether a text has a digit."""
    return any(map(str.isdecimal, text))


def _format_table(rows: list[Row]) -> list[str]:
    """Return the lines of a table; below a header of three cells or more each cell has its header before it."""
    lines: list[str] = []
    header: Row = []
    edge = max(row[-1].right for row in rows)
    for number, row in enumerate(rows):
        following = rows[number + 1 : number + 3]
        is_header = len(row) >= 3 and not has_digit("".join(box.text for box in row))
        if is_header and not header and len(following) == 2 and all(len(below) >= 2 for below in following):
            header = row
            continue
        if len(row) == 1 and not (header and has_digit(row[0].text)):
            header = []
        line = " ".join(box.text for box in row)
        if header:
            lines.append(_label_row(header, row))
        elif number and _continues(rows[number - 1], row, edge):
            lines[-1] = f"{lines[-1]} {line}".replace("- ", "") if lines[-1].endswith("-") else f"{lines[-1]} {line}"
        else:
            lines.append(line)
    return lines


def _continues(before: Row, row: Row, edge: float) -> bool:
    """Whether a row goes on with the sentence before: a small letter, and its first word had no room there."""
    box = row[0]
    if len(before) > 1 or len(row) > 1 or not box.text[0].islower():
        return False
    first_word = box.text.partition(" ")[0]
    width = (len(first_word) + 1) * (box.right - box.left) / len(box.text)
    return before[0].right + width > edge - box.height / 2 and row[0].top - before[0].bottom < box.height * 1.5


def _label_row(header: Row, row: Row) -> str:
    cells = [""] * (len(header) + 1)  # the last: cells left of the first header, as times under an empty corner
    names = [*(box.text for box in header), ""]

    def find_column(box: Box) -> int:
        return min(range(len(header)), key=lambda n: abs(box.left + box.right - header[n].left - header[n].right))

    for number, box in enumerate(row):
        is_outside = box.right < header[0].left and number + 1 < len(row) and find_column(row[number + 1]) == 0
        nearest = len(header) if is_outside else find_column(box)
        cells[nearest] = f"{cells[nearest]} {box.text}".strip()
    return _label_cells(names[-1:] + names[:-1], cells[-1:] + cells[:-1])


def _repeat_headings(lines: list[str]) -> list[str]:
    """Put a heading before each of its rows, where a page has several headings with rows of numbers."""

    def is_row(line: str) -> bool:
        return has_digit(line) and line.count(" ") < _MAX_ROW_WORDS

    pairs = pairwise([*lines, ""])
    is_heading = [not has_digit(line) and line.count(" ") < 3 and is_row(below) for line, below in pairs]
    several = any(is_row(second) for second, starts in zip(lines[2:], is_heading, strict=False) if starts)
    rows = sum(map(is_row, lines))
    if sum(is_heading) < (2 if several else 3) or sum(is_heading) + rows < 0.7 * len(lines):
        return lines
    heading, result = "", []
    for line, starts in zip(lines, is_heading, strict=True):
        if starts:
            heading = line
        elif heading and is_row(line):
            result.append(f"{heading}: {line}")
        else:
            heading = ""
            result.append(line)
    return result
