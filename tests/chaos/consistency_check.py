"""Compares the archive and both indexes with the truth: what is lost, what is there twice, what is stale."""

import json
import sqlite3
from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np
from chaos.channel_traffic import CHANNELS, COMMON
from chaos.expected_posts import list_expected_posts

from ingest.indexer import hash_embedded_text
from rag_core import RagSettings, open_engine
from rag_core.storage import posts
from rag_core.text.tokens import normalize_characters, tokenize
from rag_core.types import PostKey, SearchFilter

_EVERYWHERE = SearchFilter(frozenset(channel.chat_id for channel in CHANNELS))


@dataclass
class Verdict:
    """A sentence for everything that is not as it should be, and how many things were looked at."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    stale: list[str] = field(default_factory=list)
    seen: int = 0

    def counts(self):
        return {"lost": len(self.lost), "twice": len(self.twice), "stale": len(self.stale), "seen": self.seen}

    def sentences(self):
        kinds = {"lost": self.lost, "twice": self.twice, "stale": self.stale}
        return [f"{kind}: {one}" for kind, found in kinds.items() for one in found]


async def check_consistency(folder, models, traffic):
    """Each store's verdict. The bot must have ended cleanly."""
    places = list_expected_posts(traffic.told, {channel.chat_id: channel.title for channel in CHANNELS})
    found = {"archive": _archive(folder / "citegram.db", traffic)}
    async with open_engine(_settings(folder, models)) as rag:
        behind = await posts.get_last_seq(rag.archive) - rag.lexical.watermark
        found["lexical"] = check_lexical_index(rag.lexical, places, traffic.marks)
        if behind:
            found["lexical"].lost.append(f"the index is {behind} changes behind the archive")
        if rag.dense:
            found["dense"] = await _dense(rag.dense, places)
        elif models:
            found["dense"] = Verdict(lost=[f"the whole store: {rag.without}"])
    return found


def check_answers(messages, unnoted):
    """One message for every reader: messages by reader, each of whom asked one question.

    `unnoted`: how often the bot was killed between a message and the note of it, after which it is sent again.
    """
    found = Verdict(seen=len(messages))
    found.lost = [f"the question of {reader} has no answer" for reader, texts in messages.items() if not texts]
    found.twice = [
        f"{reader} got {[*texts]!r}" for reader, texts in messages.items() if len(texts) > 1 + unnoted.get(reader, 0)
    ]
    return found


async def is_lexical_index_behind(folder):
    """How many changes the saved lexical index has not seen."""
    async with open_engine(_settings(folder, None)) as rag:
        return await posts.get_last_seq(rag.archive) - rag.lexical.watermark


def _settings(folder, models):
    embedder = {"dir": models} if models else {"embedder": "none"}
    return RagSettings.model_validate({"data": {"dir": folder}, "models": embedder | {"reranker": "none"}})


def _archive(file, traffic):
    found = Verdict(seen=len(traffic.told))
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        rows = {PostKey(row["chat_id"], row["message_id"]): row for row in connection.execute("SELECT * FROM posts")}
        older = defaultdict(list)
        sql = "SELECT chat_id, message_id, text FROM post_versions ORDER BY stamp, update_id, rowid"
        for chat, message, text in connection.execute(sql):
            older[PostKey(chat, message)].append(text)
        states = dict(connection.execute("SELECT update_id, state FROM updates"))
        ((healthy,),) = connection.execute("PRAGMA integrity_check")
    for key, told in traffic.told.items():
        _message(key, told, rows.get(key), older[key], found)
    found.stale += [f"{tuple(key)} is no post" for key in rows.keys() - traffic.told.keys()]
    _updates(states, traffic, found)
    if healthy != "ok":
        found.lost.append(f"the database is damaged: {healthy}")
    return found


def _message(key, told, row, older, found):
    name = tuple(key)
    if row is None:
        found.lost.append(f"{name}")
        return
    if row["deleted_at"] or row["suspected"]:
        found.lost.append(f"{name} is marked as gone")
    if row["text"] != told.text:
        found.stale.append(f"{name} says {row['text'][:60]!r}, not {told.text[:60]!r}")
    parent = told.parent.message_id if told.parent else None
    source = [told.origin.name, told.origin.chat_id, told.origin.message_id] if told.origin else None
    kept = json.loads(row["origin"])[:3] if row["origin"] else None
    if (row["album"], row["media_file_name"], row["reply_to"], kept) != (told.album, told.file, parent, source):
        found.stale.append(f"{name}: {dict(row)}, not {told}")
    had, has = Counter(told.texts[:-1]), Counter(older)
    found.lost += [f"{name} said {text[:60]!r} once" for text in (had - has).elements()]
    found.twice += [f"{name} is said to have said {text[:60]!r}" for text in (has - had).elements()]
    if row["version"] != len(told.texts):
        found.twice.append(f"{name} is in version {row['version']}, not {len(told.texts)}")


def _updates(states, traffic, found):
    found.lost += [f"update {number} was never kept" for number in traffic.sent.keys() - states.keys()]
    found.twice += [f"update {number} was never sent" for number in states.keys() - traffic.sent.keys()]
    right = {number: "poison" if number in traffic.poison else "done" for number in traffic.sent}
    wrong = {number: state for number, state in states.items() if right.get(number, state) != state}
    found.lost += [f"update {number} is {state}, not {right[number]}" for number, state in wrong.items()]


def check_lexical_index(index, places, marks):
    """Every passage once, and every mark in the posts that say it now, nowhere else."""
    there = Counter(index.matching(tokenize(COMMON), _EVERYWHERE))
    found = _compared(there, places)
    if len(index) != there.total():
        found.stale.append(f"{len(index) - there.total()} passages without a header of today")
    saying = defaultdict(set)
    for place, text in places.items():
        for word in set(tokenize(text)):
            saying[word].add(place)
    for mark in marks:
        hits = set(index.matching([mark], _EVERYWHERE))
        found.lost += [f"{_name(place)} by its word {mark}" for place in saying[mark] - hits]
        found.stale += [f"{_name(place)} by the word {mark}" for place in hits - saying[mark]]
    return found


async def _dense(dense, places):
    """Every passage once, with the vector of the text it has now."""
    store, size = dense.vectors, await dense.vectors.count()
    anything = np.ones(store.about.dimension, np.float32)
    there = Counter(place for place, _ in await store.search(anything, _EVERYWHERE, n=size + 100))
    found = _compared(there, places)
    if size != there.total():
        found.stale.append(f"{size - there.total()} points that no channel has")
    hashes = {
        place: hash_embedded_text(dense.embedder.name, normalize_characters(text)) for place, text in places.items()
    }
    vectors, right = await store.vectors_of(list(hashes)), await store.by_hash(list(hashes.values()))
    for place in there.keys() & hashes.keys():
        vector = right.get(hashes[place])
        if vector is None or not np.array_equal(vector, vectors[place]):
            found.stale.append(f"{_name(place)} has the vector of another text")
    return found


def _compared(there, places):
    found = Verdict(seen=len(places))
    found.lost = [_name(place) for place in set(places) - there.keys()]
    found.twice = [_name(place) for place, times in there.items() if times > 1]
    found.stale = [_name(place) for place in there.keys() - set(places)]
    return found


def _name(place):
    return f"{tuple(place.key)} part {place.part} ({place.start}-{place.end})"
