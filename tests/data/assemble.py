"""Corpus builder: puts the posts that a validation set asks about beside its questions or claims, and checks the gold.

    python tests/data/assemble.py SET TARGET SHARED [--claims]

SET is the name of a folder beside this script, SHARED the folder of the shared data sets, which holds `tg_ru_news`.
TARGET becomes a folder for `citegram eval answers`, with --claims one for `citegram eval verify`; of `validation7` and
`sealed48` it gets two, `real` and `samples`. No post of a real channel is kept in the repository.
"""

import gzip
import json
import re
import shutil
from argparse import ArgumentParser
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
SAMPLES = HERE.parents[1] / "bot" / "sandbox" / "channels"
EXPORT = "tg_export_en/json/result.json"  # a Telegram Desktop export, read as it is
# Data set and channel; how many of its newest posts (None: all), or the first and last post number, and how many posts
# lie between.
CHANNELS = {
    "validation": (
        ("tg_ru_news", "nsmag", 400), ("tg_ru_news", "ru2ch", 400), ("tg_ru_official", "nalog_gov_ru", None),
        ("tg_ru_official", "MinEconomyrf", 300), ("tg_ru_finance", "MarketOverview", None),
    ),
    "validation2": (("tg_ru_news", "moscowtoplive", 500),),
    "validation6": (
        ("tg_ru_news", "nsmag", 11078, 11435, 350), ("tg_ru_news", "ru2ch", 128137, 128621, 350),
        ("tg_ru_news", "moscowtoplive", 26558, 26849, 250), ("tg_ru_news", "moscowtoplive", 27380, 27548, 150),
    ),
    "validation7": (
        ("tg_ru_news", "nsmag", 10860, 11077, 197), ("tg_ru_news", "ru2ch", 127927, 128136, 144),
        ("tg_ru_news", "moscowtoplive", 26850, 27026, 153), ("tg_ru_news", "habr_com", 62800, 62981, 174),
        ("tg_ru_news", "banksta", 60731, 60960, 204),
    ),
    "sealed48": (("tg_ru_official", "MinEconomyrf", 0, 319, 320),),
}  # fmt: skip


def read_rows(path):
    """Rows of a JSON Lines file, gzipped or not; none where there is no file."""
    if not path.exists():
        return []
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [json.loads(line) for line in data.decode().split("\n") if line]


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def post_number(row):
    return int(str(row["id"]).rsplit("-", 1)[1])


def select_posts(data, name, channel, *which):
    """Posts of a channel, oldest first. Raises ValueError where a window holds another number of posts."""
    posts = [row for row in read_rows(data / name / "posts.jsonl.gz") if row["channel"] == channel]
    if len(which) == 1:
        return sorted(posts, key=lambda row: str(row["date"]))[-which[0] if which[0] else 0 :]
    first, last, count = which
    window = sorted((row for row in posts if first <= post_number(row) <= last), key=post_number)
    if len(window) != count:
        raise ValueError(f"{channel} {first} to {last}: {len(window)} posts instead of {count}")
    return window


def read_export(path, prefix=""):
    """Texts of a Telegram export by `msg-<number>`, the ids that the evaluation gives its messages."""
    texts = {}
    for message in json.loads(path.read_text(encoding="utf-8"))["messages"]:
        text = message.get("text", "")
        parts = [text] if isinstance(text, str) else text
        texts[f"{prefix}msg-{message['id']}"] = "".join(p if isinstance(p, str) else p["text"] for p in parts)
    return texts


def normalise_words(text):
    """Words in lower case with е for ё, one space between and at both ends, so that `in` compares whole words."""
    words = re.findall(r"\w+", text.lower().replace("ё", "е"))
    return f" {' '.join(words)} "


def check_gold(rows, texts):
    """Every relevant post is in the corpus, each answer in one of them or worked out, each stale string somewhere.

    A question is without an answer exactly if it names neither post nor answer; no id stands twice. Raises ValueError
    with the rows that fail, for example after a data set has changed.
    """
    words = {id_: normalise_words(text) for id_, text in texts.items()}
    faults = []
    for row in rows:
        relevant = row.get("relevant", [])
        faults += [f"{row['id']}: no post {id_}" for id_ in relevant + row.get("near", []) if not texts.get(id_)]
        for sought, where in (("answers", relevant), ("stale", list(words))):
            for string in set(row.get(sought, [])) - set(row.get("worked_out", [])):
                if not any(normalise_words(string) in words.get(id_, "") for id_ in where):
                    faults.append(f"{row['id']}: no post says {string!r}")
        for one, other in product(row.get("answers", []), row.get("stale", [])):
            if normalise_words(one) in normalise_words(other):
                faults.append(f"{row['id']}: {other!r} is both right and superseded")
        if "answerable" in row and not row["answerable"] == bool(relevant) == bool(row["answers"]):
            faults.append(f"{row['id']}: answerable does not fit its posts and answers")
    if len({row["id"] for row in rows}) < len(rows):
        faults.append("an id stands twice")
    if faults:
        raise ValueError("\n".join(faults))


def main():
    parser = ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("set", choices=CHANNELS)
    parser.add_argument("target", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--claims", action="store_true", help="a folder for `citegram eval verify`")
    options = parser.parse_args()
    source, target, data = HERE / options.set, options.target, options.data
    if not (data / "tg_ru_news").is_dir():
        parser.exit(message=f"{data} does not hold the data sets; nothing was built\n")
    posts = [post for which in CHANNELS[options.set] for post in select_posts(data, *which)]
    posts += read_rows(source / "own_posts.jsonl")
    texts = {str(post["id"]): str(post["text"]) for post in posts}
    queries, claims = read_rows(source / "queries.jsonl"), read_rows(source / "claims.jsonl")
    gold = queries + claims + read_rows(source / "talk.jsonl") + read_rows(source / "followups.jsonl")
    if options.set in ("validation7", "sealed48"):  # a part of the questions is asked about the sample channels
        rows = queries + read_rows(source / "rows.jsonl")
        part_of = {row["id"]: row.get("part") or {"s": "samples", "r": "real"}[row["id"][0]] for row in rows}
        in_samples, gold, talk = ([row for row in rows if part_of[row["id"]] == p] for p in ("samples", "real", "talk"))
        exports = {path.parent.name: path for path in sorted(SAMPLES.glob("*/result.json"))}
        asked = {i: text for n, path in exports.items() for i, text in read_export(path, f"{n}/").items()}
        check_gold(in_samples, asked)
        for name, path in exports.items():
            shutil.copytree(path.parent, target / "samples" / name, dirs_exist_ok=True)
        for part, of_part in (("samples", in_samples), ("real", gold)):
            write_rows(target / part / "queries.jsonl", [row for row in of_part if "turns" not in row])
            write_rows(target / part / "followups.jsonl", [row for row in of_part if "turns" in row])
        write_rows(target / "talk.jsonl", talk)
        queries = [row for row in gold if "turns" not in row]
        target /= "real"
    if options.set in ("validation", "sealed48"):
        texts |= read_export(data / EXPORT)
        shutil.copytree((data / EXPORT).parent, target / "json", dirs_exist_ok=True)
    check_gold(gold, texts)
    write_rows(target / ("corpus.jsonl" if options.claims else "posts.jsonl"), posts)
    if options.claims:
        for row in claims:  # as `citegram eval verify` names them
            row |= {"text": row.pop("claim"), "label": row["label"].replace("not_enough", "not_found")}
    write_rows(target / ("claims.jsonl" if options.claims else "queries.jsonl"), claims if options.claims else queries)


if __name__ == "__main__":
    main()
