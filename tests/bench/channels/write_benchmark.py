"""The posts and questions of the benchmark, from the sets of this repository: `python3 write_benchmark.py DIR`."""

import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT))
from bot.evaluation.judging import holds_answer  # noqa: E402

SAMPLES, DATA = ROOT / "bot" / "sandbox" / "channels", ROOT / "tests" / "data"
# Groups of channels that are asked about together: their posts, and the files of questions, dialogues and claims.
PARTS = {
    "samples": (
        "", "../../bot/sandbox/channels/questions", "sealed48/rows", "hours_who/samples/queries",
        "practical/samples/queries", "dialogues/followups", "dialogues2/followups", "everyday_claims/claims",
    ),
    "clubs": ("validation2/own_posts", "validation2/queries", "validation2/claims"),
    "villages": ("validation3/posts", "validation3/queries", "hours_who/validation3/queries"),
    "shops": ("validation4/posts", "validation4/queries", "hours_who/validation4/queries"),
    "houses": ("validation5/posts", "validation5/queries", "hours_who/validation5/queries"),
    "centre": ("everyday/leisure_centre/posts", "everyday/leisure_centre/queries"),
    "look-alikes": ("siblings/corpus", "siblings/claims"),
}  # fmt: skip
DATED_KINDS = {"when", "hours", "period", "first_mention"}
LABELS = {"refuted": "contradicted", "not_enough": "not_found"}  # names of the sets for the verdicts of an answer
# A claim asked as a question, for systems that have no way of their own to check claims.
CLAIM_FORMS = {
    "en": "Is it true: “{}” Begin with yes or no.", "ru": "Правда ли: «{}» Начни с «да» или «нет»."
}  # fmt: skip


def read_rows(file):
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines() if line]


def write_rows(file, rows):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def read_sample_posts():
    """Posts of the sample channels, which are exports of Telegram Desktop."""
    for channel in json.loads((SAMPLES / "channels.json").read_text(encoding="utf-8")):
        name = channel["username"] or f"c/{str(channel['chat_id']).removeprefix('-100')}"
        export = json.loads((SAMPLES / channel["folder"] / "result.json").read_text(encoding="utf-8"))
        for message in export["messages"]:
            pieces, poll = message.get("text") or "", message.get("poll")
            text = "".join(piece if isinstance(piece, str) else piece["text"] for piece in pieces)
            if poll:
                text = "\n".join([text, poll["question"], *(answer["text"] for answer in poll["answers"])])
            if message["type"] == "message" and text.strip():
                yield {
                    "id": f"{channel['folder']}/msg-{message['id']}",
                    "date": datetime.fromtimestamp(int(message["date_unixtime"]), UTC).isoformat(),
                    "text": text.strip(), "link": f"https://t.me/{name}/{message['id']}", "channel": name,
                    "title": channel["title"], "visibility": channel["visibility"], "lang": channel["lang"],
                }  # fmt: skip


def read_posts(file):
    """Posts of an invented channel, with links where the set gives none."""
    for row in read_rows(file):
        channel = row.get("channel") or {"ru": "lipki", "en": "marsh_end"}[row["lang"]]
        link = row.get("url") or f"https://t.me/{channel}/{row['id'].rsplit('-', 1)[1]}"
        yield {
            "id": row["id"], "date": row["date"], "text": row["text"], "link": link, "channel": channel,
            "title": row.get("title") or channel, "visibility": "public", "lang": row.get("lang", "en"),
        }  # fmt: skip


def build_question(name, row, posts):
    relevant = [posts[one] for one in row["relevant"]]
    claim, lang = row.get("label") and (row.get("claim") or row["text"]), row["lang"]
    turns = [CLAIM_FORMS[lang].format(claim)] if claim else row.get("turns") or [row["text"]]
    answerable, kind = row.get("answerable", True), row.get("kind") or ""
    tags = {
        "claims": bool(claim), "follow-ups": len(turns) > 1, "dated": kind in DATED_KINDS,
        "superseded": bool(row.get("stale")), "not there": not claim and not answerable,
        "across languages": bool(relevant) and lang not in {post["lang"] for post in relevant}, lang: True,
    }  # fmt: skip
    return {
        "id": f"{name}/{row['id']}", "kind": kind, "tags": [tag for tag, fits in tags.items() if fits], "lang": lang,
        "turns": turns, "claim": claim, "asked_at": row["asked_at"], "answerable": answerable,
        "reader": sorted({post["channel"] for post in posts.values()}), "answers": row.get("answers", []),
        "posts": [post["link"] for post in relevant], "label": LABELS.get(row.get("label"), row.get("label")),
        "closed": [],
    }  # fmt: skip


def close_channels(row, posts):
    """The same question of a reader who may read public channels alone; None where these may answer, too."""
    public = [post for post in posts if post["visibility"] == "public"]
    open_links = {post["link"] for post in public}
    hidden = [said for said in row["answers"] if not any(holds_answer(post["text"], [said]) for post in public)]
    if len(row["turns"]) > 1 or row["claim"] or not hidden or open_links & set(row["posts"]):
        return None
    tags = ["closed channels", "not there", row["lang"]]
    closed = {"answerable": False, "answers": [], "posts": [], "closed": hidden, "tags": tags}
    return row | closed | {"id": f"{row['id']}/outsider", "reader": sorted({post["channel"] for post in public})}


def write_benchmark(folder):
    """Write the posts of each channel, the questions, and the licence."""
    questions = []
    for file, *asked in PARTS.values():
        posts = {post["id"]: post for post in (read_posts(DATA / f"{file}.jsonl") if file else read_sample_posts())}
        for channel in {post["channel"]: 0 for post in posts.values()}:
            own = [post for post in posts.values() if post["channel"] == channel]
            write_rows(folder / "channels" / f"{channel.replace('/', '-')}.jsonl", own)
        last = max(datetime.fromisoformat(post["date"]) for post in posts.values())
        for name in asked:
            for row in read_rows(DATA / f"{name}.jsonl"):
                # of the sets' rows those about these channels as they are at the end
                if row.get("part", "samples") == "samples" and datetime.fromisoformat(row["asked_at"]) >= last:
                    question = build_question(Path(name).parts[-2] + "-" + Path(name).name, row, posts)
                    questions += filter(None, (question, close_channels(question, list(posts.values()))))
    write_rows(folder / "questions.jsonl", questions)
    shutil.copy(Path(__file__).parent / "LICENSE.md", folder)
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE-MIT")
    print(f"{len(questions)} questions over {len(list((folder / 'channels').iterdir()))} channels: {folder}")


if __name__ == "__main__":
    write_benchmark(Path(sys.argv[1]))
