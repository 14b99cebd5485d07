"""Rich form of a text (https://core.telegram.org/bots/api#inputrichmessage), beside the plain one with entities.

A view makes one text for both: `Text.render` gives the plain form, `build_rich_message` the rich one. The parts below
are like any other text in the plain form. Blocks are made of this text alone, never of HTML or Markdown, and nothing in
them is detected as a link.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from aiogram import types
from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Text, TextLink, as_list

from bot.views.text import replace_control_characters
from rag_core.text.post_text import Spoiler, find_spoiler_spans

MAX_RICH_CHARACTERS, MAX_RICH_BLOCKS = 32_768, 500
_FOLD_THRESHOLD = 4  # sources
_MAX_NOTE_LENGTH = 700  # characters of a post in its note
_STYLES = {"bold": types.RichTextBold, "italic": types.RichTextItalic, "code": types.RichTextCode}

RichPiece = Any  # a string, a list of pieces, or a RichText…: aiogram's union has no name that mypy can follow


class PostMark(Text):
    """Number of a cited post, as a link to it; in the rich form a footnote mark that opens the post's note."""

    def __init__(self, number: int, link: Text) -> None:
        super().__init__(link)
        self.number, self.link = number, link


class PostDay(Text):
    """Day of a post; in the rich form shown in the reader's own zone."""

    def __init__(self, day: str, moment: datetime) -> None:
        super().__init__(day)
        self.moment = moment


class PostNote(Text):
    """Source of an answer, one line; in the rich form a note with the post's own words."""

    def __init__(self, mark: PostMark, head: Text, words: Text) -> None:
        super().__init__(f"{mark.number}. ", head)
        self.mark, self.head, self.words = mark, head, words


class NoteList(Text):
    """Sources under an answer; a longer list with a title is folded until it is tapped."""

    def __init__(self, title: str, notes: Sequence[PostNote]) -> None:
        self.title, self.notes = title, notes
        self.folded = bool(title) and len(notes) >= _FOLD_THRESHOLD
        quote = ExpandableBlockQuote if self.folded else BlockQuote
        super().__init__(*([Bold(title), "\n"] if title else []), quote(as_list(*notes)))


class DatedLine(Text):
    """Line of a series: when, and what the post said; in the rich form a row of a table.

    `plain` is the line of the plain form, where the day may be missing.
    """

    def __init__(self, plain: Text, day: Text, said: Text) -> None:
        super().__init__(plain)
        self.day, self.said = day, said


class CreditedQuotes(BlockQuote):
    """Quotes, each with a line that names its post."""

    def __init__(self, quotes: Sequence[tuple[Text, Text]]) -> None:
        super().__init__(as_list(*(Text(quote, "\n", credit) for quote, credit in quotes), sep="\n\n"))
        self.quotes = quotes


class Heading(Bold):
    """Heading of a section; `size` as in HTML, 1 is the largest."""

    def __init__(self, *body: Any, size: int = 4) -> None:
        super().__init__(*body)
        self.size = size


class Marked(Text):
    """Cited words within the words of a post, which only the rich form shows."""


class Progress(Italic):
    """Stage of an answer that is being made; in a rich draft a thinking block."""


def quote_post(text: str, quotes: Sequence[str]) -> Text:
    """Render the words of a post for its note, with the cited ones marked; of a long post the part around them."""
    text, quotes = replace_control_characters(text).strip(), [replace_control_characters(quote) for quote in quotes]
    first = min((at for quote in quotes if (at := text.find(quote)) >= 0), default=0)
    start, end = 0, len(text)
    if end > _MAX_NOTE_LENGTH:
        start = text.rfind("\n", 0, first) + 1 if first > _MAX_NOTE_LENGTH // 2 else 0
        start = max(start, first - _MAX_NOTE_LENGTH // 2)
        end = min(end, start + _MAX_NOTE_LENGTH)
        cut = text.rfind(" ", end - _MAX_NOTE_LENGTH // 2, end) if end < len(text) else -1
        end = cut if cut > 0 else end
    spans = sorted((at, at + len(quote)) for quote in quotes if quote and (at := text.find(quote, start, end)) >= 0)
    pieces: list[Text | str] = ["…"] if start else []
    place = start
    for left, right in spans:
        if left >= place and right - left < len(text):  # nothing stands out where all is marked
            pieces += [text[place:left], Marked(text[left:right])]
            place = right
    return Text(*filter(None, (*pieces, text[place:end], "…" if end < len(text) else "")))


def build_rich_message(text: Text, *, draft: bool = False) -> types.InputRichMessage | None:
    """Build the rich form of a text; None where it is over the limits of Telegram, or empty."""
    notes = _find_notes(text)
    characters = len(text.render()[0]) + sum(len(note.words.render()[0]) for note in notes)
    builder = _BlockBuilder(frozenset(note.mark.number for note in notes), draft=draft)
    builder.add(text)
    builder.end_paragraph()
    if characters > MAX_RICH_CHARACTERS or not 0 < builder.count <= MAX_RICH_BLOCKS:
        return None
    return types.InputRichMessage(blocks=builder.blocks, skip_entity_detection=True)


def _find_notes(text: Text) -> list[PostNote]:
    if isinstance(text, PostNote):
        return [text]
    return [note for node in text if isinstance(node, Text) for note in _find_notes(node)]


class _BlockBuilder:
    """Builds blocks: a paragraph of what stands between blank lines, and the blocks of the parts above.

    `noted` are the numbers of the posts that have a note: a mark without one stays a link. `count` is that of the
    blocks, with nested ones and rows.
    """

    def __init__(self, noted: frozenset[int], *, draft: bool) -> None:
        self.blocks: list[Any] = []
        self.count = 0
        self._noted, self._draft, self._line = noted, draft, list[RichPiece]()

    def add(self, node: Text | str) -> None:
        """Add a part of the text."""
        match node:
            case str():
                first, *others = node.split("\n\n")
                self._line.append(first)
                for piece in others:
                    self.end_paragraph()
                    self._line.append(piece)
            case Heading():  # a sign before it on its line is a part of it
                text = _join([*self._take_line(), self._format(node)])
                self._put(types.InputRichBlockSectionHeading(text=text, size=node.size))
            case Progress() if self._draft:
                self._put(types.InputRichBlockThinking(text=self._format(node)))
            case NoteList():
                notes = [self._make_note(note) for note in node.notes]
                if node.folded:
                    self._put(types.InputRichBlockDetails(summary=node.title, blocks=notes), len(notes))
                else:
                    title = [types.InputRichBlockSectionHeading(text=node.title, size=5)] if node.title else []
                    for block in (*title, *notes):
                        self._put(block)
            case DatedLine():
                self.end_paragraph()
                if not (self.blocks and isinstance(self.blocks[-1], types.InputRichBlockTable)):
                    self._put(types.InputRichBlockTable(cells=[], is_compact=True))
                row = [self._format_node(cell) for cell in (node.day, node.said)]
                cells = [types.RichBlockTableCell(align="left", valign="top", text=text) for text in row]
                self.blocks[-1].cells.append(cells)
                self.count += 1
            case CreditedQuotes():
                for quote, credit in node.quotes:
                    said, named = self._format(quote), self._format(credit)
                    self._put(types.InputRichBlockExpandableBlockQuotation(text=said, credit=named))
            case ExpandableBlockQuote():
                self._put(types.InputRichBlockExpandableBlockQuotation(text=self._format(node)))
            case BlockQuote():
                inner = _BlockBuilder(self._noted, draft=self._draft)
                inner.add(Text(*node))
                inner.end_paragraph()
                self._put(types.InputRichBlockBlockQuotation(blocks=inner.blocks), inner.count)
            case Text() if node.type is None and not isinstance(node, PostMark | PostDay):
                for child in node:
                    self.add(child)
            case _:
                self._line.append(self._format_node(node))

    def end_paragraph(self) -> None:
        """End the paragraph that has been begun, if any."""
        if line := self._take_line():
            self.blocks.append(types.InputRichBlockParagraph(text=_join(line)))
            self.count += 1

    def _take_line(self) -> list[RichPiece]:
        line, self._line = self._line, []
        if line and isinstance(line[0], str):
            line[0] = line[0].lstrip("\n")
        if line and isinstance(line[-1], str):
            line[-1] = line[-1].rstrip()
        return [piece for piece in line if piece]

    def _put(self, block: Any, inside: int = 0) -> None:
        self.end_paragraph()
        self.blocks.append(block)
        self.count += 1 + inside

    def _make_note(self, note: PostNote) -> Any:
        """Make a note: a mark leads to the post's words, which begin with a link to it; channel and day stand below."""
        link, head, words = map(self._format_node, (note.mark.link, note.head, note.words))
        reference = types.RichTextReference(text=_join([link, " ", words or head]), name=f"p{note.mark.number}")
        if words:
            return types.InputRichBlockExpandableBlockQuotation(text=reference, credit=head)
        return types.InputRichBlockParagraph(text=reference)

    def _format(self, node: Text) -> RichPiece:
        return _join([self._format_node(child) for child in node])

    def _format_node(self, node: Text | str) -> RichPiece:
        if isinstance(node, str):
            return node
        inside = self._format(node)
        match node:
            case PostMark() if node.number in self._noted:
                mark = f"[{node.number}]"
                return types.RichTextSuperscript(
                    text=types.RichTextReferenceLink(text=mark, reference_name=f"p{node.number}")
                )
            case PostDay():
                return types.RichTextDateTime(text=inside, unix_time=int(node.moment.timestamp()), date_time_format="D")
            case TextLink():
                return types.RichTextUrl(text=inside, url=node.render()[1][0].url or "")
            case Marked():
                return types.RichTextMarked(text=inside)
        style = _STYLES.get(node.type or "")
        return style(text=inside) if style else inside


def _join(pieces: Sequence[RichPiece]) -> RichPiece:
    """Join pieces: one alone is itself, lists are joined into one, empty strings are left out."""
    flat = [one for piece in pieces for one in (piece if isinstance(piece, list) else [piece]) if one != ""]
    return flat[0] if len(flat) == 1 else flat or ""


def hide_spoilers_in_rich_text(text: RichPiece, spoilers: Sequence[Spoiler]) -> RichPiece:
    """Hide what a rich text shows of spoilers."""
    spans = find_spoiler_spans(join_rich_text(text), spoilers)
    return _hide_spans(text, 0, spans)[0] if spans else text


def join_rich_text(text: RichPiece) -> str:
    """Join the words of a rich text."""
    if isinstance(text, str):
        return text
    return "".join(map(join_rich_text, text)) if isinstance(text, list) else join_rich_text(text.text)


def _hide_spans(text: RichPiece, at: int, spans: Sequence[tuple[int, int]]) -> tuple[RichPiece, int]:
    """Hide the spans of the whole text that lie in this part, which begins at `at`; returns it and where it ends."""
    if isinstance(text, str):
        pieces, place, end = list[RichPiece](), at, at + len(text)
        for left, right in spans:
            if left < end and right > place:
                left, right = max(left, place), min(right, end)
                pieces += [text[place - at : left - at], types.RichTextSpoiler(text=text[left - at : right - at])]
                place = right
        return _join([*pieces, text[place - at :]]), end
    if isinstance(text, list):
        parts = []
        for part in text:
            hidden, at = _hide_spans(part, at, spans)
            parts.append(hidden)
        return _join(parts), at
    inside, at = _hide_spans(text.text, at, spans)
    return text.model_copy(update={"text": inside}), at
