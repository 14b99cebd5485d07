"""The `citegram` command as a person meets it: what it prints, where, and its exit code."""

import argparse
import io
import json
import os
import re
import resource
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from itertools import groupby
from pathlib import Path

import pytest

from bot.__main__ import COMMANDS, build_parser, main


@pytest.fixture
def citegram(nowhere, run_command, monkeypatch):
    """Run the command with data in ./data, which is named unless `folder` is false; progress bars are no output."""

    def run(*words, stdin="", folder=True):
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        return run_command(*(("--data", "data") if folder else ()), *words)

    return run


# import


def test_an_import_says_how_many_posts_are_searched_which_is_how_many_are_counted(citegram, export):
    file = export / "result.json"
    chat = json.loads(file.read_text(encoding="utf-8"))
    picture = chat["messages"][-1] | {"text": "", "text_entities": [], "type": "message", "photo": "photos/1.jpg"}
    chat["messages"] += [picture | {"id": 900 + n, "date_unixtime": str(1_790_000_000 + n)} for n in range(3)]
    file.write_text(json.dumps(chat), encoding="utf-8")
    told = citegram("import", export).out
    searched = re.search(r"Owl Hill Observers 🔭: (\d+) of 87 posts are searched: an album is one,", told)
    assert citegram("ask", "How many posts are there?").out.startswith(f"{searched[1]} posts, from ")


# wrong use, wrong settings, wrong folders


@pytest.mark.parametrize(
    "words",
    ["", "nonsense", "ask", "ask ''", "verify ' '", "import", "import x --visibility everybody", "eval everything .",
     "eval answers", "eval answers . --limit 0", "eval answers . --limit many", "demo --port door"],
)  # fmt: skip
def test_wrong_use_is_exit_code_2_with_the_usage(citegram, words):
    said = citegram(*shlex.split(words))
    assert said.code == 2
    assert said.err.startswith("usage: citegram")
    assert "Traceback" not in said.err


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["improt", "x"], "import"),
        (["ask", "x", "--trcae"], "--trace"),
        (["ask", "x", "--recipe", "agnet"], "agent"),
        (["eval", "anwers", "x"], "answers"),
    ],
)
def test_a_misspelt_word_is_answered_with_the_nearest_one(citegram, words, meant):
    said = citegram(*words)
    assert (said.code, said.err.strip().endswith(f"did you mean {meant}?")) == (2, True)


@pytest.mark.parametrize(
    ("word", "answer"),
    [
        ("stats", "there is no stats on the terminal: send /stats to the bot"),
        ("unanswered", "there is no unanswered on the terminal: send /unanswered to the bot"),
        ("frobnicate", "there is no frobnicate: citegram --help lists the commands"),
    ],
)
def test_a_command_of_the_chat_or_of_nowhere_is_told_from_a_misspelt_one(citegram, word, answer):
    said = citegram(word)
    assert (said.code, said.err.strip().endswith(answer)) == (2, True)


@pytest.mark.parametrize("words", [["ask", "x", "--data", "data"], ["models", "list", "-v"]])
def test_an_option_of_all_commands_is_to_be_put_before_the_command(citegram, words):
    said = citegram(*words)
    assert (said.code, f"put {words[2]} before the command: citegram {words[2]}" in said.err) == (2, True)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_can_be_given(citegram, name):
    shown = citegram(name, "--help").out
    for example in COMMANDS[name].examples:
        assert f"  citegram {example}" in shown
        words = shlex.split(re.sub(r" (>>|<) .*", "", example))
        assert build_parser(words).parse_args(words).run


def parsers():
    found = {"": build_parser(tuple(COMMANDS))}
    for path in ("", *COMMANDS):
        found |= {f"{path} {name}".strip(): one for name, one in found[path].list_subparsers().items()}
    return found


def test_every_help_has_an_example_and_says_defaults_and_what_is_to_be_written():
    for path, parser in parsers().items():
        assert f"\n  citegram {path}" in parser.format_help().partition("\nexamples:")[2]
        for action in parser._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, (path, action)
            if action.option_strings and action.nargs != 0 and action.default:
                assert "default: " in (action.help or ""), (path, action.option_strings)


def test_help_costs_little_processor_time(root):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "bot", "--help"], cwd=root, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime) < 0.3


@pytest.mark.parametrize("command", [("ask", "ferry"), ("demo", "--once", "x"), ("run",)])
def test_a_folder_or_a_setting_that_cannot_be_used_is_one_sentence(citegram, nowhere, command, monkeypatch):
    (nowhere / "data").write_text("a file")
    assert citegram(*command).is_one_sentence()
    monkeypatch.setenv("ANSWER__COVERAGE", "much")
    assert citegram(*command).is_one_sentence()


@pytest.mark.parametrize(
    "command",
    [
        "ask ferry",
        "verify ferry",
        "chat",
        "digest",
        "history",
        "reindex",
        "trace a",
        "eval make q",
        "doctor",
        "restore",
    ],
)
def test_a_folder_that_was_mistyped_is_not_made(citegram, nowhere, command):
    said = citegram(*command.split())
    assert "--data" in said.err + said.out
    assert said.is_one_sentence() or command == "doctor"
    assert not (nowhere / "data").exists()


def test_the_bot_without_a_token_says_what_to_do_before_anything_is_made(citegram, nowhere):
    said = citegram("run")
    assert said.is_one_sentence() and said.err.startswith("BOT__TOKEN is empty")
    assert not (nowhere / "data").exists()


def test_a_backup_that_is_not_there_is_one_sentence(citegram, nowhere):
    assert citegram("restore", "nofile.db").err == "There is no file nofile.db.\n"
    assert not (nowhere / "data").exists()


def test_the_real_process_ends_with_the_code_and_without_a_traceback(nowhere, root):
    words = [sys.executable, "-m", "bot", "--data", str(nowhere / "data"), "import", str(nowhere / "none.json")]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == ""
    said = f"There is no file {nowhere}/none.json. Give the result.json of an export, or its folder.\n"
    assert done.stderr == said


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.4, 0.8, 1.6, 3.2])
def test_ctrl_c_at_start_is_one_line(nowhere, root, monkeypatch, seconds):
    """The modules of this command take about a second to import."""
    monkeypatch.setenv("BOT__TOKEN", "123456:" + "A" * 35)
    monkeypatch.setenv("BOT__API", "http://127.0.0.1:9")
    command = [sys.executable, "-m", "bot", "--data", str(nowhere / "data"), "run"]
    started = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True, start_new_session=True)
    time.sleep(seconds)
    os.killpg(started.pid, signal.SIGINT)  # as a terminal does: children get it, too
    said = [line for line in started.communicate(timeout=60)[1].splitlines() if line and line[:2] != "20"]  # the log
    # 0: it ran already. By the signal, which shells show as 130, too: an interrupt that passes through an exec of text,
    # as in dataclasses, is remembered by `python -m` though it was caught.
    assert (started.returncode, said) in ((130, ["Stopped."]), (-signal.SIGINT, ["Stopped."]), (0, []))


@pytest.mark.slow
def test_ctrl_c_in_an_import_says_that_what_was_read_is_kept(nowhere, root):
    export, texts = nowhere / "result.json", [f"The ferry number {n} sails at seven." for n in range(40_000)]
    messages = [
        {"id": n, "type": "message", "date_unixtime": str(1735725600 + n), "from": "A", "from_id": "channel1",
         "date": "2025-01-01T10:00:00", "text": text, "text_entities": [{"type": "plain", "text": text}]}
        for n, text in enumerate(texts, 1)
    ]  # fmt: skip
    export.write_text(json.dumps({"name": "Ferry", "type": "public_channel", "id": 1, "messages": messages}))
    command = [sys.executable, "-m", "bot", "--data", str(nowhere / "data"), "import", str(export)]
    started = subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not count_rows(nowhere / "data" / "citegram.db"):
        time.sleep(0.05)
    os.killpg(started.pid, signal.SIGINT)
    last = started.communicate(timeout=60)[1].splitlines()[-1]
    assert (started.returncode, last) == (
        130, "Stopped. What was read so far is kept: the same command goes on from there.",
    )  # fmt: skip
    assert 0 < count_rows(nowhere / "data" / "citegram.db") < 40_000


def count_rows(archive):
    try:
        with closing(sqlite3.connect(f"{archive.as_uri()}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM posts").fetchone()[0])
    except sqlite3.OperationalError:  # not made yet
        return 0


def test_output_that_nobody_reads_to_its_end_leaves_no_traceback(nowhere, root):
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "bot", "--data", str(nowhere / "data"), "models", "list"]
    done = subprocess.run(command, cwd=root, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_output_to_a_full_disk_is_one_sentence(nowhere, root):
    command = [sys.executable, "-m", "bot", "--data", str(nowhere / "data"), "models", "list"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, cwd=root, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "The disk is full: free some space, then run the command again.\n"


# ask


# What a question without a model has no use for; each takes from 0.01 s to seconds of processor time.
HEAVY = (
    "aiogram aiohttp apscheduler fastembed huggingface_hub onnxruntime openai prometheus_client "
    "qdrant_client rapidfuzz simpleeval tokenizers tqdm bot.indexing ingest.exports bot.jobs "
    "rag_core.planning.llm_planner "
    "rag_core.recipes.council rag_core.recipes.mapreduce rag_core.recipes.react "
    "rag_core.verification.verify"
).split()
START = "import time, numpy, pydantic; print(time.process_time())"
MOST_STARTS = 11  # of processor time, measured beside each other, as other tests slow both down: 7 to 8.5 here
MEASURED = """
import json, sys, time
from bot.__main__ import main
code = main()
print(json.dumps([code, time.process_time(), sorted(sys.modules)]))
"""


@pytest.fixture
def asked(citegram, imported):
    return citegram


def test_a_question_loads_what_it_needs_and_costs_a_few_starts_of_python(asked, nowhere, root):
    asked("ask", "ferry")  # now the indexes are up to date
    words = ["-c", MEASURED, "--data", str(nowhere / "data"), "ask", "What is the earliest mention of Ilse Brandt?"]
    run = partial(subprocess.run, cwd=root, capture_output=True, text=True, timeout=60, check=True)
    starts = float(MOST_STARTS)
    for _ in range(4):  # the best counts
        start = float(run([sys.executable, "-c", START]).stdout)
        *answer, measured = run([sys.executable, *words]).stdout.splitlines()
        code, seconds, modules = json.loads(measured)
        assert code == 0
        assert any("20 November 2025" in line for line in answer)
        assert not [name for name in modules if name in HEAVY]
        starts = min(starts, seconds / start)
        if starts < MOST_STARTS:
            break
    assert starts < MOST_STARTS


def test_an_answer_is_printed_with_its_sources(asked):
    said = asked("ask", "What is the earliest mention of Ilse Brandt?")
    assert said.code == 0
    first, _, source = said.out.replace("\u202f", " ").strip().splitlines()
    assert first.startswith("First mentioned on 20 November 2025: ")
    assert first.endswith(" [1]")
    assert source.startswith("[1] https://t.me/owl_hill/84  Owl Hill Observers 🔭, 20 November 2025")


def test_a_question_is_read_from_stdin_and_answered_in_its_language(asked):
    for words in ((), ("-",)):
        said = asked("ask", *words, stdin="Кто первым упомянул музей телескопов на Занзибаре?\n")
        assert said.code == 0
        assert re.search("[а-я]", said.out.splitlines()[0])
    assert asked("ask", stdin=" \n").code == 2
    examples = {"ask": "what is new?", "verify": "the ferry leaves at 7:30"}
    for command, example in examples.items():  # empty words are no stdin
        empty = asked(command, "", stdin="A zeppelin flies to Bear Mountain.")
        assert (empty.code, empty.out) == (2, "") and f'there is no text: give one, such as "{example}"' in empty.err
    assert asked("ask", stdin="why? " * 10_000).is_one_sentence()
    claim = asked("verify", stdin="A zeppelin flies to Bear Mountain.")
    assert (claim.code, claim.out.splitlines()[0]) == (0, "“A zeppelin flies to Bear Mountain.”")


def test_a_refusal_shows_the_nearest_posts_with_their_words_below_their_links(asked):
    said = asked("ask", "What does the telescope museum of Zanzibar show?")
    lines = said.out.splitlines()
    assert (said.code, lines[0].startswith("I found no clear answer. Similar posts:")) == (0, True)
    links = [n for n, line in enumerate(lines) if line.startswith("https://t.me/owl_hill/")]
    assert links
    assert all(re.fullmatch(" {4}“.{10,202}”", lines[n + 1]) for n in links)


def test_the_folder_of_the_demo_is_found_where_it_is_the_only_one_with_channels(citegram, export, nowhere):
    for question, folder in (("What is the earliest mention?", f" {nowhere / 'data'}:"), ("Кто мэр?", "В папке ")):
        said = citegram("ask", question, folder=False)
        assert said.is_one_sentence() and folder in said.err and "citegram import" in said.err
    assert citegram("chat", stdin="hi\n").is_one_sentence()
    assert main(["--data", "data/demo", "import", str(export)]) == 0
    for command in (("ask", "What is the earliest mention of Ilse Brandt?"), ("verify", "It snows."), ("chat",)):
        said = citegram(*command, folder=False)
        assert (said.code, said.err) == (0, "(folder: data/demo)\n")
    assert citegram("ask", "It snows.").code == 1  # a folder that was named is the one
    citegram("import", export)
    assert citegram("ask", "It snows.", folder=False).err == "(folder: data)\n"


def test_a_chat_remembers_until_a_new_one_begins(asked):
    first = ["hi", "How many posts mention Tawny in 2026?", "and in 2025?"]
    then = ["/new", "and in 2025?", "/nonsense", "/quit", "How many posts mention Tawny?"]
    said = asked("chat", stdin="\n".join(first + then))
    assert said.code == 0
    assert said.out.startswith("I read this channel for you: Owl Hill Observers 🔭.")
    assert "Hi! Ask me anything" in said.out
    old, fresh = said.out.split("New conversation.")
    assert old.count("posts with the word “Tawny”") == 2
    assert "You mean: How many posts mention Tawny in 2025?" in old
    assert "Answering" not in fresh and "Tawny" not in fresh
    assert fresh.count("starts a new conversation") == 1  # in place of an unknown command; /quit ended the rest


def test_a_count_goes_without_the_numbers_that_the_lines_of_its_posts_have(asked):
    count, first, *_ = asked("ask", "timeline of Tawny").out.splitlines()
    assert re.fullmatch(r"\d+ posts with the word “Tawny”, from .* 20\d\d\.", count) and first.endswith(" [1]")


def test_a_remark_about_an_answer_is_no_question_in_a_chat(asked, monkeypatch):
    monkeypatch.setenv("BOT__CONTACT", "@owl_help")
    lines = ["How many posts mention Tawny?", "shorter", "точно?", "you got that wrong"]
    said = asked("chat", stdin="\n".join(lines)).out
    assert said.count("posts with the word “Tawny”") == 1
    assert "Here I only answer questions" in said and "ссылки и даты стоят под ответом" in said
    assert said.rstrip().endswith("I can pick the wrong post.\nTo reach a person: @owl_help")


def test_an_answer_as_json_is_one_object(asked):
    given = asked("ask", "How many posts mention Tawny?", "--json").json()
    answered = "refused sentences nearest addresses certainty confidence judged recipe model without trace_id "
    assert set(given) == set(f"{answered}actions missing".split())
    assert given["certainty"] == "sure"
    assert (given["refused"], given["recipe"], given["model"], given["without"]) == (False, "agent", None, [])
    (sentence,) = given["sentences"]
    assert set(sentence) == {"text", "support", "further", "citations"}
    assert set(sentence["citations"][0]) == {"link", "title", "quote", "date"}
    refused = asked("ask", "Who is the mayor of Paris?", "--json").json()
    assert (refused["refused"], refused["sentences"]) == (True, [])


def test_a_trace_has_stages_timings_and_counts(asked):
    question = "What does the telescope museum of Zanzibar show?"
    stages, _, results = asked("ask", question, "--trace").out.partition("\n--- ")
    assert results.startswith("plan\n") and "--- search" in results
    *_, write, cite = stages.splitlines()
    assert [line.split()[0] for line in (write, cite)] == ["extract", "cite"]
    assert "sources=" in write
    assert " ms " in cite
    traced = asked("ask", question, "--trace", "--json").json()["trace"]
    stages = [stage for stage, _ in groupby(span["stage"] for span in traced)]  # a change of a change is sought as well
    assert stages[-4:] == ["rank", "successor", "extract", "cite"]


def test_what_posts_and_titles_hold_cannot_steer_the_terminal(citegram, export):
    file = export / "result.json"
    chat = json.loads(file.read_text(encoding="utf-8"))
    chat["name"] = "Owl \x1b[31mHill\u202e"
    text = "The zeppelin \x1b]0;owned\x07 museum \x9b2J shows \u202eold \u2028engines."
    chat["messages"][-1] |= {"type": "message", "text": text, "text_entities": [{"type": "plain", "text": text}]}
    file.write_text(json.dumps(chat), encoding="utf-8")
    ask = ("ask", "What does the zeppelin museum show?")
    verify = ("verify", "The zeppelin museum shows old engines.")
    said = [citegram("import", export), citegram(*ask), citegram("doctor"), citegram(*verify), citegram("digest")]
    said += [citegram(*command, "--json") for command in (ask, verify, ("digest",), ("history",))]
    assert "old engines" in " ".join(said[1].out.split())
    sentence = said[5].json()["sentences"][0]["text"]
    assert "\u202eold \u2028engines" in sentence  # the JSON itself loses nothing
    assert not set("\x1b\x07\x9b\u202e\u2028") & set("".join(each.out + each.err for each in said))


def test_a_digest_of_quiet_days_names_the_last_post_and_days_that_have_some(asked):
    with closing(sqlite3.connect("data/citegram.db")) as archive, archive:
        archive.execute("UPDATE posts SET date = date - 86400 * (365 + (SELECT max(date) FROM posts) / 86400 - ?)",
                        (time.time() // 86400,))  # fmt: skip
    told = re.search(
        r"^Nothing new in this time\. The last post is of \d+ \w+ 20\d\d: try --days (\d+)\.$",
        asked("digest", "--days", 30).err,
    )
    lines = asked("digest", "--days", told[1]).out
    assert re.search(r"^  https://t\.me/owl_hill/\d+  \S.*, \d+ \w+ 20\d\d$", lines, re.M)
    assert "https://t.me/owl_hill/" in asked("digest", "--days", 10**12).out


# doctor


def test_the_doctor_of_an_empty_folder_says_what_comes_next(citegram):
    said = citegram("doctor")
    assert (said.code, said.out.splitlines()[-1].startswith("Nothing is set up yet. Next: citegram init")) == (0, True)
    assert "bar for answers" not in said.out


def test_the_doctor_tells_of_jobs_and_of_a_rebuild(asked):
    with sqlite3.connect("data/citegram.db") as archive:
        archive.execute("INSERT INTO jobs (name, ran_at, runs, said) VALUES ('gaps', 0, 1, 'nothing missed')")
        archive.execute("INSERT INTO rebuilds (state, asked_at, done, total) VALUES ('running', 0, 3, 84)")
    said = asked("doctor")
    assert said.code == 0
    assert "note the index is half rebuilt (it goes on when the bot runs): 3 of 84 posts" in said.out
    assert "ok   scheduled jobs: gaps; each ended well" in said.out
    with archive:
        row = ("backup", 0, 2, 1, 0, "The disk is full.")
        archive.execute("INSERT INTO jobs (name, ran_at, runs, failures, failed_at, error) VALUES (?,?,?,?,?,?)", row)
    archive.close()
    said = asked("doctor")
    assert said.code == 1
    assert "BAD  the job backup failed (1970-01-01 00:00 UTC): The disk is full." in said.out
    assert "ended well" not in said.out


# demo


def test_the_demo_answers_one_question_through_the_whole_bot(citegram):
    assert citegram("demo", "--once", " ").is_one_sentence()
    said = citegram("demo", "--once", "What is the earliest mention of Ilse Brandt?")
    assert said.code == 0
    assert said.out.replace("\u202f", " ").startswith("First mentioned on 20 November 2025: ")
    assert "<https://t.me/owl_hill_observers/84>" in said.out
