"""The reader that repairs control characters, against Telegram Desktop's own way of writing them."""

from __future__ import annotations

import io
import json

from hypothesis import given
from hypothesis import strategies as st

from ingest.json_export import RepairedJsonReader

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", '"': '\\"', "\\": "\\\\", "\u2028": "\\u2028"}


def serialized(text: str) -> bytes:
    """As tdesktop's SerializeString writes it."""
    written = (_ESCAPES.get(c) or (f"\\x{ord(c):02X}" if c < " " else c) for c in text)
    return f'"{"".join(written)}"'.encode()


def read(data: bytes, sizes: list[int]) -> bytes:
    source, found, n = RepairedJsonReader(io.BytesIO(data)), b"", 0
    while chunk := source.read(sizes[n % len(sizes)]):
        found += chunk
        n += 1
    assert source.bytes_read == len(data) - (3 if data.startswith(b"\xef\xbb\xbf") else 0)
    return found


awkward = st.text(st.sampled_from('\\\\\\xuX0B"n\x00\x01\x0b\x1f\n\tя🍞 '), max_size=40)
sizes = st.lists(st.integers(1, 7), min_size=1, max_size=5)


@given(st.lists(st.one_of(awkward, st.text(st.characters(exclude_categories=["Cs"])))), sizes)
def test_every_text_comes_back_whatever_it_holds_and_wherever_chunks_end(texts: list[str], sizes: list[int]) -> None:
    data = b"[" + b",".join(map(serialized, texts)) + b"]"
    assert json.loads(read(data, sizes)) == texts


@given(st.binary(max_size=200), sizes)
def test_what_needs_no_repair_is_passed_on_as_it_is(data: bytes, sizes: list[int]) -> None:
    data = data.replace(b"x", b"").replace(b"\xef", b"")
    assert read(data, sizes) == data


def test_an_escaped_backslash_before_an_x_is_no_control_character() -> None:
    assert json.loads(read(rb'"C:\\x0B and \x0B"', [1])) == "C:\\x0B and \x0b"


def test_a_very_long_run_of_backslashes_is_read_in_no_time() -> None:
    data = b'"' + b"\\" * 400_000 + rb'\x0B"'
    assert json.loads(read(data, [65536])) == "\\" * 200_000 + "\x0b"


def test_a_byte_order_mark_is_left_out() -> None:
    assert read(b"\xef\xbb\xbf{}", [64]) == b"{}"
