"""Measure how files are read, and the answers from them: the exports are made, imported, read, indexed and asked about.

    python tests/data/media/measure.py [--out FOLDER] [--roots / FOLDER ...] [--reference]

`--reference`: as if every file were read without an error, which tells errors of answering from those of reading.
Previews of links stand in no export: they are saved as MTProto shows them. Models and calibration are those of this
installation.
"""

import argparse
import asyncio
import json
import re
import tempfile
import unicodedata
from collections import Counter
from pathlib import Path

from make_export import make_export
from rapidfuzz.distance import Levenshtein

from bot.data_folder import catch_up_vectors, iterate_with_progress_bar
from bot.evaluation.data import Variant, build_variant_settings, open_indexed_dataset, read_dataset
from bot.evaluation.measures import answer_query, search_query
from bot.evaluation.metrics import compute_answer_metrics, compute_retrieval_metrics, format_table
from bot.media import KINDS, load_media_status, open_media_reader
from bot.settings import Settings
from ingest.indexer import LexicalIndexer
from ingest.media.reader import ExportFiles
from ingest.messages import parse_live_post
from rag_core.models.active_models import find_speech_model
from rag_core.storage import media, posts
from rag_core.storage.visible_posts import fetch_posts
from rag_core.text.numbers import parse_numbers
from rag_core.types import DOUBTFUL_MARK, PAGE, VOICE, MediaText


async def read_files(rag, settings):
    reader = open_media_reader(rag.archive, settings, {"path": ExportFiles()})
    await reader.catch_up()
    await reader.close()
    print("speech model:", await find_speech_model(settings.rag(), rag.archive))
    for kind, status in (await load_media_status(rag.archive)).items():
        print(f"{kind}: {status.read} read, {status.waiting} wait, failed: {status.failed}")


async def save_references(rag, rows):
    """Save what each file holds as what was read of it."""
    while waiting := await media.take_next_file(rag.archive, frozenset(KINDS)):
        lines = "\n".join(filter(str.strip, rows[waiting.key]["text"].splitlines()))
        digest = str(waiting.key).encode()
        await media.save_media_text(rag.archive, waiting, digest, [MediaText(waiting.file.kind, lines)])


async def save_previews(rag, rows):
    """Save the posts that link to a page once more, with the preview that MTProto shows of it."""
    pages = {key: row for key, row in rows.items() if row["kind"] == PAGE}
    for key, post in (await fetch_posts(rag.archive, pages)).items():
        seconds, row = int(post.date.timestamp()), pages[key]
        page = {"site_name": row["site"], "title": row["page"], "description": row["text"]}
        message = {"message_id": key.message_id, "date": seconds, "edit_date": seconds + 60, "text": post.text}
        _, shown = parse_live_post({**message, "chat": {"id": key.chat_id}, "page": page})
        await posts.save_posts(rag.archive, [shown], source="import")


def split_words(text, lang):
    """Split a text into words without case; numbers by their value, as speech is written down in words or figures."""
    low, pieces, end = text.lower().replace("ё", "е"), [], 0
    for number in parse_numbers(low, lang):
        pieces += [low[end : number.start], f" {number.values[0]:g} "]
        end = number.end
    return re.findall(r"\w+", "".join((*pieces, low[end:])))


def normalize_characters(text):
    """Text without what only its layout makes (lines, columns), and without marks of doubt."""
    plain = unicodedata.normalize("NFKC", text.replace(DOUBTFUL_MARK, ""))
    return re.sub(r"[\s|]+", " ", plain).strip()


def name_group(row):
    """Name the files that are told apart: of one kind and language, tables, real, made, and made as if photographed."""
    how = "real" if "package" in row else "photographed" if "photo" in row else "scanned" if "scan" in row else "made"
    look = " table" if row.get("picture") in {"table", "grid"} else ""  # with ruled lines
    return f"{row['kind']}{look} {how} {row['lang']}"


def compute_reading_errors(pairs):
    """Compute the character error of files, the word error of voices, and the share of words that were read at all."""
    wrong = length = found = words = 0
    for read, row in pairs:
        given, wanted = (split_words(text, row["lang"]) for text in (read, row["text"]))
        found += (Counter(given) & Counter(wanted)).total()
        words += len(wanted)
        if row["kind"] == VOICE:
            wrong, length = wrong + Levenshtein.distance(given, wanted), length + len(wanted)
        else:
            characters = normalize_characters(row["text"])
            wrong += Levenshtein.distance(normalize_characters(read), characters)
            length += len(characters)
    nothing = sum(not read for read, _ in pairs)
    return {"files": len(pairs), "nothing_read": nothing, "error": wrong / length, "words_found": found / words}


async def measure_answers(data, kinds):
    """Ask every question; prints the figures for each kind of file (`kinds` by the id of a question) and language."""
    rows = [
        (query, await search_query(query, data) if query.relevant else None, await answer_query(query, data))
        for query in iterate_with_progress_bar(data.dataset.queries, "ask")
    ]
    columns = []
    for name in (*KINDS, PAGE, "ru", "en", "all"):
        part = [row for row in rows if name in (kinds.get(row[0].id), row[0].lang, "all")]
        found = compute_retrieval_metrics([ranked for _, ranked, _ in part if ranked])
        answers = compute_answer_metrics([answer for *_, answer in part])
        shown = {key: answers[key] for key in _ANSWER_METRICS}
        columns.append((name, {"questions": len(part), "recall@5": found["recall@5"], **shown}))
    print(format_table(columns))


_ANSWER_METRICS = ("first_right", "shown_right", "wrong", "abstained", "refused", "sure_wrong", "unanswerable_sure")


async def measure(out, roots, *, by_reference):
    """Make, import, read, index and ask; prints the errors of reading and the figures of answers."""
    references = {row["id"]: row for row in make_export(out, roots)}
    settings, variant = Settings(), Variant()
    dataset = read_dataset(out)
    async with open_indexed_dataset(dataset, build_variant_settings(settings.rag(), [variant])) as opened:
        data = opened.select_variant(variant)
        archive = data.rag.archive
        rows = {key: references[name] for key, name in dataset.ids.items() if name in references}
        await save_previews(data.rag, rows)
        if by_reference:
            await save_references(data.rag, rows)
        else:
            await read_files(data.rag, settings)
        await LexicalIndexer(archive, data.rag.lexical).catch_up()
        await catch_up_vectors(data.rag)
        read = await fetch_posts(archive, rows)
        groups = {}
        for key, row in rows.items():
            if row["kind"] != PAGE:
                text = "\n".join(one.text for one in read[key].media_text)
                groups.setdefault(name_group(row), []).append((text, row))
        errors = {name: compute_reading_errors(groups[name]) for name in sorted(groups)}
        figures = next(iter(errors.values()))
        print(format_table([(figure, {name: one[figure] for name, one in errors.items()}) for figure in figures]))
        asked = map(json.loads, (out / "queries.jsonl").read_text(encoding="utf-8").splitlines())
        await measure_answers(data, {query["id"]: query["stands_in"] for query in asked})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where the files are made and stay (default: a temporary folder)")
    parser.add_argument("--roots", type=Path, nargs="+", default=[Path("/")])
    parser.add_argument("--reference", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="citegram-media-") as folder:
        out = arguments.out or Path(folder)
        asyncio.run(measure(out, arguments.roots, by_reference=arguments.reference))


if __name__ == "__main__":
    main()
