"""Benchmark: questions over Telegram channels, put to any system that answers them. README.md says how.

    python3 run_benchmark.py DIR --command 'PROGRAM "{question}"'
    python3 run_benchmark.py DIR --process 'PROGRAM'      # a request a line, an answer a line, both JSON
    python3 run_benchmark.py DIR --openai URL --model NAME

Python 3.11 and its standard library. Answers are judged by the functions that `citegram eval answers` judges by.
"""

import argparse
import json
import math
import os
import queue
import random
import re
import shlex
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import fmean, pstdev

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
from bench.channels.write_benchmark import read_rows, write_rows  # noqa: E402

from bot.evaluation.judging import holds_answer, is_short_enough  # noqa: E402

INSTRUCTIONS = (
    "Answer from the posts of these Telegram channels alone: {channels}. It is {asked_at} now. Answer in the language "
    "of the question, in one or two short sentences, and give the links (https://t.me/...) of the posts you rely on. "
    "If the posts do not answer the question, write only NOT FOUND."
)
REFUSAL = "NOT FOUND|I cannot answer"
LINK = re.compile(r"https?://t\.me/(?:c/)?\w+/\d+")
MARK = re.compile(r"\[\d+\]")  # of a source
SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|\n+")
YES, NO = re.compile(r"\W*(?:yes|да)\b", re.IGNORECASE), re.compile(r"\W*(?:no|нет)\b", re.IGNORECASE)


def draw_sample(rows, limit, seed):
    """Draw a systematic sample: kinds and languages keep their shares."""
    drawn = random.Random(seed)
    ordered = sorted(rows, key=lambda row: (row["tags"], drawn.random()))
    start = drawn.random()
    return [ordered[int((n + start) * len(ordered) / limit)] for n in range(limit)] if limit < len(rows) else rows


class Process:
    """A process that stays: after its first line, which says it is ready, a request a line and an answer a line."""

    def __init__(self, command, timeout, start):
        self.command, self.timeout, self.start = shlex.split(command), timeout, start
        self.child = None
        self.lines = queue.Queue[str]()

    def open(self):
        self.child = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8", bufsize=1
        )
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, args=(self.child, self.lines), daemon=True)
        self.reader.start()
        began = time.monotonic()
        self._wait(self.start)
        print(f"Ready after {time.monotonic() - began:.0f} s.", file=sys.stderr)

    @staticmethod
    def _read(child, lines):
        for line in child.stdout or ():
            lines.put(line)
        lines.put("")  # it ended

    def _wait(self, seconds):
        try:
            line = self.lines.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        if not line:
            raise OSError("the process ended")
        return line

    def __call__(self, request):
        """Ask; a process that ended, or gives no answer in time, is started anew."""
        if self.child is None:
            raise OSError("the process does not run")
        try:
            print(json.dumps(request, ensure_ascii=False), file=self.child.stdin, flush=True)
            return self._wait(self.timeout)
        except OSError:
            self.close()
            self.open()
            raise

    def close(self):
        if child := self.child:
            self.child = None
            child.kill()
            child.wait()
            self.reader.join()
            for pipe in filter(None, (child.stdin, child.stdout)):
                pipe.close()


def ask_by_command(request, template, timeout):
    """Run a command with the question in its arguments, and the request as JSON in its input."""
    given = {"question": request["question"], "asked_at": request["asked_at"], "reader": ",".join(request["reader"])}
    words = [re.sub(r"\{(question|asked_at|reader)\}", lambda m: given[m[1]], word) for word in shlex.split(template)]
    asked = json.dumps(request, ensure_ascii=False)
    return subprocess.run(  # what it says of its errors is seen
        words, input=asked, stdout=subprocess.PIPE, text=True, encoding="utf-8", timeout=timeout, check=True
    ).stdout


def ask_by_openai(request, url, model, timeout):
    """Ask an endpoint of OpenAI's chat protocol (POST URL/chat/completions) that has the posts."""
    told = INSTRUCTIONS.format(channels=", ".join(request["reader"]), asked_at=request["asked_at"])
    messages = [{"role": "system", "content": told}]
    for turn in request["history"]:
        messages += [{"role": "user", "content": turn["question"]}, {"role": "assistant", "content": turn["answer"]}]
    messages.append({"role": "user", "content": request["question"]})
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', '-')}"}
    body = json.dumps({"model": model, "messages": messages}).encode()
    sent = urllib.request.Request(f"{url.rstrip('/')}/chat/completions", body, headers)
    with urllib.request.urlopen(sent, timeout=timeout) as reply:
        return str(json.load(reply)["choices"][0]["message"]["content"] or "")


def parse_answer(raw, refusal):
    """Parse an answer: a JSON object as README.md describes it, or a text with links."""
    try:
        found = json.loads(raw)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        found = {"text": raw}
    given = found.get("sentences") or SENTENCE_END.split(str(found.get("text") or ""))
    links = found.get("links")
    if links is None:
        links = LINK.findall(json.dumps(given, ensure_ascii=False))
    texts = [str(one["text"]) if isinstance(one, dict) else str(one) for one in given]
    sentences = [text for one in texts if (text := MARK.sub("", LINK.sub("", one)).strip(" \n()[],;"))]
    refused = not sentences or bool(found.get("refused", re.search(refusal, " ".join(sentences))))
    verdict = "supported" if YES.match(" ".join(sentences)) else "contradicted" if NO.match(" ".join(sentences)) else ""
    verdict = found.get("verdict") or ("not_found" if refused else verdict)
    return {"sentences": sentences, "links": list(dict.fromkeys(links)), "refused": refused, "verdict": verdict}


def judge(row, answer, channels):
    """Judge an answer: its score, and whether it shows what its reader may not see. `channels` by link of the post."""
    sentences, refused = answer["sentences"], answer["refused"]
    if row["claim"]:
        right = first = answer["verdict"] == row["label"]
        refused = answer["verdict"] in {"not_found", "disputed"}
    elif row["answerable"]:
        short = not refused and is_short_enough(sentences, row["kind"])
        first = short and holds_answer(sentences[0], row["answers"])
        right = short and any(holds_answer(sentence, row["answers"]) for sentence in sentences)
    else:
        right = first = refused
    elsewhere = [link for link in answer["links"] if channels.get(link, row["reader"][0]) not in row["reader"]]
    return {
        "score": 1 if right else 0 if refused else -1, "right": right, "first": first, "refused": refused,
        "cited": right and not refused and bool(set(answer["links"]) & set(row["posts"])),
        "leak": bool(elsewhere) or holds_answer(" ".join(sentences), row["closed"]),
    }  # fmt: skip


def ask_question(row, ask, refusal):
    history = []
    for text in row["turns"]:
        request = {"question": text, "asked_at": row["asked_at"], "reader": row["reader"], "history": history}
        began = time.monotonic()
        try:
            raw = ask(request | ({"claim": row["claim"]} if row["claim"] else {}))
        except (OSError, ValueError, LookupError, subprocess.SubprocessError) as exc:
            return {"sentences": [], "links": [], "failed": f"{type(exc).__name__}: {exc}", "seconds": None}
        answer = parse_answer(raw, refusal)
        history = [*history, {"question": text, "answer": " ".join(answer["sentences"])}]
    return answer | {"seconds": round(time.monotonic() - began, 3)}


def format_figures(name, rows):
    """One line of the table: what was judged of one kind of questions."""
    here = [row for row in rows if row["claim"] or row["answerable"]]
    absent = [row for row in rows if not row["claim"] and not row["answerable"]]
    scores, seconds = [row["score"] for row in rows], sorted(row["seconds"] for row in rows if row["seconds"])
    half = 1.96 * pstdev(scores) / math.sqrt(len(scores))
    shares = [
        [row["right"] for row in here], [row["first"] for row in here], [row["score"] < 0 for row in here],
        [row["score"] == 0 for row in here], [row["cited"] for row in here if not row["claim"]],
        [row["right"] for row in absent],
    ]  # fmt: skip
    cells = [f"{fmean(share):.2f}" if share else "-" for share in shares]
    cells.append(str(sum(row["leak"] for row in rows)))
    cells += [f"{seconds[round(part * (len(seconds) - 1))]:.2f}" if seconds else "-" for part in (0.5, 0.95)]
    return f"{name:18}{len(rows):6}{fmean(scores):+8.2f} ±{half:.2f}" + "".join(f"{cell:>9}" for cell in cells)


HEADS = ("truthful", "right", "first", "wrong", "silent", "cited", "refused", "leaks", "p50 s", "p95 s")


def report(judged):
    """The table of all figures, by kind of question."""
    kinds = ["closed channels", "claims", "follow-ups", "dated", "superseded", "across languages", "not there"]
    lines = [f"{'':18}{'asked':>6}{HEADS[0]:>14}" + "".join(f"{head:>9}" for head in HEADS[1:])]
    lines.append(format_figures("all", judged))
    for kind in ("ru", "en", *kinds):
        if of_kind := [row for row in judged if kind in row["tags"]]:
            lines.append(format_figures(kind, of_kind))
    failed = [row["failed"] for row in judged if row.get("failed")]
    return "\n".join(lines + ([f"{len(failed)} failed, the first: {failed[0]}"] if failed else []))


def run_benchmark(args):
    """Ask all questions, and print the figures. Returns 1 where something of a closed channel was shown."""
    if not (args.dir / "questions.jsonl").exists():
        raise SystemExit(f"{args.dir} holds no questions: run write_benchmark.py {args.dir} first.")
    rows = read_rows(args.dir / "questions.jsonl")
    channels = {post["link"]: post["channel"] for file in args.dir.glob("channels/*") for post in read_rows(file)}
    with ExitStack() as stack:
        if args.process:
            ask = (process := Process(args.process, args.timeout, args.start))
            stack.callback(process.close)
            try:
                process.open()
            except OSError as exc:
                raise SystemExit(f"The process does not start ({exc}): try its command by itself.") from None
        elif args.openai:
            ask = partial(ask_by_openai, url=args.openai, model=args.model, timeout=args.timeout)
        else:
            ask = partial(ask_by_command, template=args.command, timeout=args.timeout)
        judged = []
        for n, row in enumerate(draw_sample(rows, args.limit or len(rows), args.seed), 1):
            answer = ask_question(row, ask, args.refusal)
            failure = dict.fromkeys(("score", "right", "first", "refused", "cited", "leak"), 0)
            judged.append(row | answer | (failure if answer.get("failed") else judge(row, answer, channels)))
            print(f"\r{n} asked", end="", file=sys.stderr, flush=True)
            if args.out:  # at once: what was asked stays where the run is cut off
                write_rows(args.out, judged)
    print(file=sys.stderr)
    print(report(judged))
    return int(any(row["leak"] for row in judged))


def main(given=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path, help="the folder that write_benchmark.py wrote")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--command", help="run for each question; {question}, {asked_at} and {reader} are filled in")
    how.add_argument("--process", help="started once, asked by lines")
    how.add_argument("--openai", metavar="URL", help="an endpoint such as http://127.0.0.1:8000/v1")
    parser.add_argument("--model", default="default", help="its name at the endpoint")
    parser.add_argument("--limit", type=int, metavar="N", help="ask a sample of N questions")
    parser.add_argument("--seed", type=int, default=1, help="of the sample (default: 1)")
    parser.add_argument("--timeout", type=float, default=90, metavar="S", help="seconds a question may take (90)")
    parser.add_argument(
        "--start", type=float, default=1800, metavar="S", help="seconds until a process is ready (1800)"
    )
    parser.add_argument("--refusal", default=REFUSAL, help=f"pattern of a text that refuses (default: {REFUSAL})")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write every answer and how it was judged")
    return run_benchmark(parser.parse_args(given))


if __name__ == "__main__":
    sys.exit(main())
