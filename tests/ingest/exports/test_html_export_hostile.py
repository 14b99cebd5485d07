"""Pages that are no export, or a broken one: one sentence and the archive as it was. Hostile ones: no harm."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ingest.exports import import_export
from ingest.json_export import ImportOptions
from rag_core.errors import ImportRefused
from rag_core.storage import Archive, channels, posts
from rag_core.storage.post_rows import PostTally
from rag_core.types import Channel, Post, PostKey

pytestmark = pytest.mark.slow

Make = Callable[..., str]
Page = Callable[..., Path]
BAKERY = -1001234567890
OURS = ImportOptions(chat="1234567890")


async def refused(archive: Archive, path: Path, options: ImportOptions = OURS) -> str:
    before = (await posts.get_last_seq(archive), await channels.load_channels(archive))
    with pytest.raises(ImportRefused) as caught:
        await import_export(archive, path, options)
    assert (await posts.get_last_seq(archive), await channels.load_channels(archive)) == before
    sentence = caught.value.reason
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


async def test_without_a_chat_the_sentence_says_how_to_find_it(archive: Archive, page: Page, row: Make) -> None:
    said = await refused(archive, page(row(1)), ImportOptions())
    assert "--chat" in said and "Experimental settings" in said


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ("@nobody_here", "No channel @nobody_here is known yet"),
        ("два слова", "names no channel"),
        ("https://example.org/bread", "names no channel"),
        ("t.me/+AbCdEf", "names no channel"),
        ("t.me/c/", "names no channel"),
        ("9" * 40, "names no channel"),
        ("@x", "names no channel"),
    ],
)
async def test_a_chat_that_names_no_known_channel_is_refused(
    archive: Archive, page: Page, row: Make, named: str, said: str
) -> None:
    assert said in await refused(archive, page(row(1)), ImportOptions(chat=named))


async def test_result_json_of_another_chat_than_was_asked_for_is_refused(
    archive: Archive, written: Page, chat: Callable[..., object], message: Callable[..., object]
) -> None:
    assert "another chat" in await refused(archive, written(chat(message(1))), ImportOptions(chat="77"))


@pytest.mark.parametrize("keep", [0.2, 0.9, 0.999])
async def test_of_a_truncated_page_nothing_is_kept(archive: Archive, page: Page, row: Make, keep: float) -> None:
    file = page(*(row(n, "Хлеб") for n in range(1, 200)))
    raw = file.read_bytes()
    file.write_bytes(raw[: int(len(raw) * keep)])
    assert "ends in the middle" in await refused(archive, file)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("<html><body>Скидки!</body></html>", "no chat that Telegram Desktop exported"),
        ("<!DOCTYPE html>\n<html>", "no chat that Telegram Desktop exported"),
        ("", "is empty"),
    ],
)
async def test_of_an_export_with_one_bad_page_nothing_is_kept(
    archive: Archive, page: Page, row: Make, content: str, said: str
) -> None:
    file = page(row(1, "Хлеб"))
    second = file.with_name("messages2.html")
    second.write_text(content, encoding="utf-8")
    sentence = await refused(archive, file)
    assert str(second) in sentence
    if content:
        assert said in sentence


async def test_a_page_of_another_channel_is_refused(archive: Archive, page: Page, row: Make) -> None:
    await channels.save_channel(archive, Channel(BAKERY, "Пекарня"))
    other = [Post(PostKey(BAKERY, n), datetime(2021, 5, 9, tzinfo=UTC), "Мука") for n in range(1, 6)]
    await posts.save_posts(archive, other, source="live")
    file = page(*(row(n, "Хлеб") for n in range(3, 50)))
    assert "not from Пекарня" in await refused(archive, file, replace(OURS, visibility=None))


# Each is the text of a message that nobody ever sent.
HOSTILE = {
    "deep nesting": "<div>" * 50_000,
    "deep formatting": "<b>" * 50_000 + "x" + "</b>" * 50_000,
    "an attribute without end": '<a href="' + "x" * 8_000_000,
    "an attribute with everything": f'<a href="{"y" * 8_000_000}">x</a>',
    "a tag without end": "<a " + "b " * 1_000_000,
    "a million references": "&amp;" * 1_000_000,
    "many formatted pieces": "<b>x</b>" * 50_000,
    "an endless text": "слово " * 500_000,
    "a script": "<script>" + "alert(1);" * 100_000 + "</script>",
    "a script without end": "<script>" + "alert(1);" * 100_000,
    "marked sections": "<![CDATA[<![if " * 20_000,
    "comments": "<!--" * 100_000,
    "many tags without end": "<a <" * 100_000,
    "nothing but <": "<" * 50_000,
    "references without end": "&#x;&#99999999999;&#" * 100_000,
}
CHILD = """
import json, resource, sys
from ingest.html_export import MessagePageParser

def read(page):
    parser, found = MessagePageParser(), []
    for start in range(0, len(page), 2**16):
        parser.read(page[start : start + 2**16])
        found += parser.take_entries()
    return [entry["id"] for entry in found + parser.finish() if entry.get("text_entities")]

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

for line in sys.stdin:
    before = peak()
    read_whole = read(json.loads(line))
    print(json.dumps([read_whole, peak() - before]), flush=True)
"""


def test_hostile_messages_are_left_out_in_little_memory(row: Make, root: Path) -> None:
    pages = [row(1, "раз") + row(2, text) + row(3, "три") + row(4, "четыре") for text in HOSTILE.values()]
    # in a process of its own: what it takes at most is not to be seen otherwise
    child = subprocess.run(
        [sys.executable, "-c", CHILD], input="\n".join(map(json.dumps, pages)), cwd=root, capture_output=True,
        text=True, timeout=60,
    )  # fmt: skip
    assert child.stderr == ""
    results = dict(zip(HOSTILE, map(json.loads, child.stdout.splitlines()), strict=True))
    # a letter is a letter, however bold; a comment without end takes what follows with it, up to a limit
    read = {"deep formatting": [1, 2, 3, 4], "comments": [1]}
    assert {what: ids for what, (ids, _) in results.items()} == {what: read.get(what, [1, 3, 4]) for what in HOSTILE}
    assert {what: grown for what, (_, grown) in results.items() if grown > 64} == {}


async def test_what_hostile_markup_swallowed_is_said_and_erased_from_nowhere(
    archive: Archive, page: Page, row: Make
) -> None:
    known = [Post(PostKey(BAKERY, n), datetime(2024, 3, 12, 12, n, tzinfo=UTC), f"Цена {n}") for n in range(1, 10)]
    await posts.save_posts(archive, known, source="live", update_id=1)
    swallowing = row(2, "<script>alert(1);")
    report = await import_export(archive, page(row(1, "Цена 1"), swallowing, *map(row, range(3, 10))), OURS)
    assert report.tally == PostTally(unchanged=1, skipped=1)
    assert len(await posts.list_message_ids(archive, BAKERY)) == 9
    assert any("damaged" in note for note in report.notes)


async def test_bytes_that_are_no_utf8_become_marks_and_stop_nothing(archive: Archive, page: Page, row: Make) -> None:
    file = page(row(1, "раз"), row(2, "@@"), row(3, "три"))
    file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"@@", b"\xff\xfe\x00"))
    assert (await import_export(archive, file, OURS)).tally == PostTally(new=3)


async def test_a_page_that_goes_away_while_it_is_read_is_refused(archive: Archive, page: Page, row: Make) -> None:
    file = page(*(row(n, "Хлеб " * 50) for n in range(1, 400)))
    second = page(row(400, "Хлеб"), name="messages2.html")
    with pytest.raises(ImportRefused, match=r"messages2\.html cannot be read"):
        await import_export(archive, file, OURS, lambda done, total: second.unlink(missing_ok=True))
