"""Put the posts beside the questions for the chat, and check the gold.

    python tests/data/sealed48/assemble.py TARGET SHARED

TARGET gets `samples` and `real`, each with `queries.jsonl` (questions and first turns) and `followups.jsonl` (later
turns), and `talk.jsonl`. SHARED is the folder of the shared data sets; no post of a real channel is kept here.
"""

import gzip
import json
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
SAMPLES = HERE.parents[2] / "bot" / "sandbox" / "channels"
FIRST_USED = 320  # posts of MinEconomyrf from this number on are in tests/data/validation


def split_words(text):
    """Words of a text in lower case, with spaces around them."""
    return " ".join(("", *re.findall(r"\w+", text.lower().replace("ё", "е")), ""))


def read_export(file, prefix=""):
    """Texts of an export by id."""
    texts = {}
    for message in json.loads(file.read_text("utf-8"))["messages"]:
        text = message.get("text", "")
        pieces = [text] if isinstance(text, str) else text
        texts[f"{prefix}msg-{message['id']}"] = "".join(p if isinstance(p, str) else p["text"] for p in pieces)
    return texts


def find_faults(row, texts):
    """What is wrong with a row: posts that do not exist, strings that no post says."""
    accepted, stale = row["answers"], row["stale"]
    faults = [f"no post {one}" for one in row["relevant"] + row.get("near", []) if not texts.get(one)]
    for said in set(accepted) - set(row.get("worked_out", [])):
        if not any(split_words(said) in split_words(texts.get(one, "")) for one in row["relevant"]):
            faults.append(f"no relevant post says {said!r}")
    for said in stale:
        if not any(split_words(said) in split_words(text) for text in texts.values()):
            faults.append(f"superseded {said!r} nowhere")
        if any(split_words(one) in split_words(said) for one in accepted):
            faults.append(f"{said!r} both right and superseded")
    if not row["answerable"] == bool(row["relevant"]) == bool(accepted):
        faults.append("answerable does not fit")
    return [f"{row['id']}: {fault}" for fault in faults]


def write_rows(file, rows):
    """Write rows as JSON lines."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def main():
    """Build TARGET, or say what is wrong with the rows."""
    target, shared = map(Path, sys.argv[1:3])
    rows = [json.loads(line) for line in (HERE / "rows.jsonl").read_text("utf-8").splitlines()]
    official = gzip.decompress((shared / "tg_ru_official/posts.jsonl.gz").read_bytes()).decode().splitlines()
    posts = [post for post in map(json.loads, official) if post["channel"] == "MinEconomyrf"]
    posts = [post for post in posts if int(post["id"].rsplit("-", 1)[1]) < FIRST_USED]
    texts = {"samples": {}, "real": {post["id"]: post["text"] for post in posts}}
    texts["real"] |= read_export(shared / "tg_export_en/json/result.json")
    for file in SAMPLES.glob("*/result.json"):
        texts["samples"] |= read_export(file, f"{file.parent.name}/")
    if faults := [fault for row in rows if row["part"] != "talk" for fault in find_faults(row, texts[row["part"]])]:
        sys.exit("\n".join(faults))
    for part in texts:
        write_rows(target / part / "queries.jsonl", [r for r in rows if r["part"] == part and "turns" not in r])
        write_rows(target / part / "followups.jsonl", [r for r in rows if r["part"] == part and "turns" in r])
    write_rows(target / "talk.jsonl", [row for row in rows if row["part"] == "talk"])
    write_rows(target / "real" / "posts.jsonl", posts)
    shutil.copytree(shared / "tg_export_en/json", target / "real/json", dirs_exist_ok=True)
    shutil.copytree(SAMPLES, target / "samples", dirs_exist_ok=True)
    print(f"sound: {len(rows)} rows")


if __name__ == "__main__":
    main()
