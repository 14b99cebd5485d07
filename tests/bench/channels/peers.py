"""What the adapters of peers share: the posts, the form of a question, and the loop over requests. Standard library."""

import json
import re
import sys

SERVER = "http://127.0.0.1:8101/v1"  # serve_models.py
BEST_POSTS = 4  # that the model reads, with each peer
MAX_TOKENS = 96  # that it writes
HOW = "Answer in one or two short sentences, in the language of the question; say so if the posts do not answer it."

# How the model says that the posts do not answer.
REFUSES = re.compile(
    r"(can't|cannot) answer|no information|\bnot (be )?(say|mention|provid|contain|specif|stat|answer)"
    r"|не (указан|сказан|упомина|содерж|отвеча)|нет информации"
)


def read_posts(folder):
    """Posts of all channels, with what a model reads of each."""
    files = sorted(folder.glob("channels/*.jsonl"))
    posts = [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [post | {"shown": f"{post['title']}, {post['date'][:16]}\n{post['text']}"} for post in posts]


def format_question(request):
    """The question with what was asked before, the moment, and how to answer."""
    before = "".join(f"Asked before: {turn['question']} Answer: {turn['answer']}\n" for turn in request["history"])
    return f"{before}{request['question']}\n(It is {request['asked_at']} now. {HOW})"


def serve(answer):
    """Answer a line for each line. What libraries print goes to the errors' stream."""
    out, sys.stdout = sys.stdout, sys.stderr
    print("ready", file=out, flush=True)
    for line in sys.stdin:
        answered = answer(json.loads(line))
        answered["refused"] = bool(REFUSES.search(answered["text"]))
        print(json.dumps(answered, ensure_ascii=False), file=out, flush=True)
