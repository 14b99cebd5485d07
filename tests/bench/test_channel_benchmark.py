"""The benchmark over channels: a made-up system is judged rightly, whichever way it is asked."""

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from bench.channels.run_benchmark import judge, main, parse_answer
from bench.channels.write_benchmark import read_rows, write_benchmark, write_rows

POSTS = [
    {"link": "https://t.me/ferry/1", "channel": "ferry", "text": "The ferry leaves at 7:30."},
    {"link": "https://t.me/c/77/5", "channel": "c/77", "text": "The code of the gate is 4410."},
]
# What is asked, and what the made-up system says.
ANSWERS = {
    "when does it leave": "At 7:30, see https://t.me/ferry/1",
    "and on Sundays": "At 9:00 (https://t.me/ferry/1)",
    "is there a bar": "NOT FOUND",
    "what is the code": "The code is 4410.",
    "how do I get in": "Ask at the gate: https://t.me/c/77/5",
    "Is it true: it leaves at 7:30": "Yes, it does.",
    "Is it true: it leaves at 8": "It leaves in the morning.",
    "what does it cost": "NOT FOUND",
}


def ask(text, answers, *tags, label=None, turns=()):
    asked = {"id": text, "kind": "", "lang": "en", "asked_at": "2026-10-01T12:00:00+00:00", "reader": ["ferry"]}
    wanted = {"answers": answers, "answerable": bool(answers), "posts": [POSTS[0]["link"]] if answers else []}
    judged = {"claim": text if label else None, "label": label, "closed": ["4410"] if "closed channels" in tags else []}
    return asked | wanted | judged | {"turns": [*turns, text], "tags": ["en", *tags]}


QUESTIONS = [
    ask("when does it leave", ["7:30"]),
    ask("and on Sundays", ["10:00"], "follow-ups", turns=("when does it leave",)),
    ask("is there a bar", [], "not there"),
    ask("what is the code", [], "closed channels", "not there"),
    ask("how do I get in", [], "closed channels", "not there"),
    ask("Is it true: it leaves at 7:30", [], "claims", label="supported"),
    ask("Is it true: it leaves at 8", [], "claims", label="contradicted"),
    ask("what does it cost", ["400"]),
]
SYSTEM = """
import json, sys
answers = json.loads({answers!r})
def reply(line):
    request = json.loads(line)
    known = not request["question"].startswith("and") or request["history"][0]["answer"].startswith("At 7:30")
    return answers[request["question"]] if known and request["reader"] == ["ferry"] else "?"
if "stay" in sys.argv:
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(dict(text=reply(line))), flush=True)
else:
    assert sys.argv[1] in answers
    print(reply(sys.stdin.read()))
"""


class Endpoint(BaseHTTPRequestHandler):
    def do_POST(self):
        messages = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["messages"]
        assert "ferry" in messages[0]["content"] and messages[-1]["role"] == "user"
        body = json.dumps({"choices": [{"message": {"content": ANSWERS[messages[-1]["content"]]}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    with HTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("way", ["--command", "--process", "--openai"])
def test_right_wrong_refused_and_leaked_answers_are_counted(way, tmp_path, endpoint, capsys):
    write_rows(tmp_path / "questions.jsonl", QUESTIONS)
    write_rows(tmp_path / "channels" / "posts.jsonl", POSTS)
    (tmp_path / "system.py").write_text(SYSTEM.format(answers=json.dumps(ANSWERS)), encoding="utf-8")
    program = f"{sys.executable} {tmp_path / 'system.py'}"
    how = {"--command": program + ' "{question}"', "--process": program + " stay", "--openai": endpoint}[way]
    assert main([str(tmp_path), way, how]) == 1  # something leaked
    lines = {line[:18].strip(): line[18:].split() for line in capsys.readouterr().out.splitlines()}
    # asked, truthfulness and its interval, then right, right first, wrong, silent, cited, refused, leaks
    assert lines["all"][:10] == ["8", "-0.12", "±0.64", "0.40", "0.40", "0.40", "0.20", "0.33", "0.33", "2"]
    assert lines["follow-ups"][:10] == ["1", "-1.00", "±0.00", "0.00", "0.00", "1.00", "0.00", "0.00", "-", "0"]
    assert lines["claims"][:10] == ["2", "+0.00", "±1.39", "0.50", "0.50", "0.50", "0.00", "-", "-", "0"]
    assert lines["closed channels"][:10] == ["2", "-1.00", "±0.00", "-", "-", "-", "-", "-", "0.00", "2"]
    assert lines["not there"][:10] == ["3", "-0.33", "±1.07", "-", "-", "-", "-", "-", "0.33", "2"]


def test_a_system_that_fails_is_told_apart_from_one_that_refuses(tmp_path, capsys):
    write_rows(tmp_path / "questions.jsonl", [ask("is there a bar", [], "not there")])
    assert main([str(tmp_path), "--command", f"{sys.executable} -c 'raise SystemExit(3)'"]) == 0
    printed = capsys.readouterr().out
    assert "+0.00" in printed and "1 failed" in printed


def test_whoever_knows_the_answers_gets_every_question_right(tmp_path):
    write_benchmark(tmp_path)
    posts = [post for file in tmp_path.glob("channels/*") for post in read_rows(file)]
    channels = {post["link"]: post["channel"] for post in posts}
    questions = read_rows(tmp_path / "questions.jsonl")
    assert {tag for row in questions for tag in row["tags"]} >= {"ru", "en", "dated", "closed channels", "claims"}
    for row in questions:
        said = {"sentences": row["answers"][:1], "links": row["posts"], "verdict": row["label"]}
        judged = judge(row, parse_answer(json.dumps(said), "NOT FOUND"), channels)
        assert judged["score"] == 1 and not judged["leak"], row["id"]
        if row["closed"]:
            hidden = next(post for post in posts if post["visibility"] != "public")
            assert judge(row, parse_answer(f"{row['closed'][0]}", "NOT FOUND"), channels)["leak"], row["id"]
            assert judge(row, parse_answer(f"See {hidden['link']}", "NOT FOUND"), channels)["leak"], row["id"]
