"""`citegram ask`, `chat`, `verify` and `digest`: questions on the terminal; the viewer may read every channel."""

import argparse
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

from bot.control import AnswerJson, RunningBot, hold_folder_or_connect
from bot.control.answers import TerminalAnswerer
from bot.data_folder import choose_folder_with_channels, is_folder_named, open_archive, open_up_to_date_engine
from bot.i18n import get_translator
from bot.settings import Settings
from bot.stored_answer import record_traces
from bot.views import text as terminal_text
from bot.views.text import dump_json, format_answer_text
from ingest.copies import CopyIndexer
from rag_core.answer import RECIPES
from rag_core.conversation.small_talk import AnswerRemark, detect_answer_remark
from rag_core.errors import ArchiveUnavailable, RagError, translate_errors
from rag_core.retrieval.digests import build_period_digest
from rag_core.storage import channels, visible_posts
from rag_core.text.post_text import cover_spoilers, list_spoilers
from rag_core.text.tokens import detect_language
from rag_core.types import format_channel_post_link

_MAX_CHARACTERS = 20_000  # of what is read from a pipe: several times what a message of Telegram may have
_MAX_DIGEST_DAYS = 36_500  # Telegram is younger
_UNREADABLE_TEXT = f"This cannot be read: write up to {_MAX_CHARACTERS:,} characters, in UTF-8."


def declare(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the arguments to the parser of one of the commands."""
    from_stdin = "- or nothing: read from stdin"
    how = (
        "how the answer is made: direct searches once, agent looks again where little was found, the others are for a "
        "language model (default: auto)"
    )
    recipes = ("auto", *RECIPES)
    match name:
        case "ask":
            command, said, traced = run, "the answer", "stages, timings, counts and results after the answer"
            parser.add_argument("question", nargs="*", metavar="QUESTION", help=f"the question; {from_stdin}")
            parser.add_argument("--recipe", choices=recipes, default="auto", help=how)
        case "verify":
            command, said, traced = run_verify, "the verdicts", "stages, timings and counts after the verdicts"
            parser.add_argument("text", nargs="*", metavar="TEXT", help=f"what is claimed; {from_stdin}")
        case "digest":
            command, said, traced = _run_digest, "the lines", ""
            parser.add_argument("--days", type=int, default=7, metavar="N", help="of the last N days (default: 7)")
        case "chat":
            command, said, traced = _run_chat, "", ""
            parser.add_argument("--recipe", choices=recipes, default="auto", help=how)
    if said:
        parser.add_argument("--json", action="store_true", help=f"{said} as one JSON object")
    if traced:
        parser.add_argument("--trace", action="store_true", help=traced)
    parser.set_defaults(run=command, report_wrong_use=parser.error)


async def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ask the running bot, or answer in this process, and print the answer. Returns the exit code."""
    question = _read_text(args.question, args, "what is new?")
    async with _open_terminal_answerer(settings) as (answerer, settings, note):
        answer = await answerer.ask(question, trace=args.trace, recipe=args.recipe)
    if answer is None:
        return _report_no_channels(settings, args.lang)
    print(note, end="", file=sys.stderr, flush=True)
    if args.json:
        extra = {name: answer[name] for name in ("reply", "trace") if answer[name]}
        print(dump_json(answer["answer"] | extra))
    else:
        text = format_answer_text(answer, get_translator(args.lang), settings.bot.zone)
        print("\n".join([text, *terminal_text.format_answer_trace(answer)]))
    return 0


async def run_verify(args: argparse.Namespace, settings: Settings) -> int:
    """Verify the text in the running bot or in this process, and print the verdicts. Returns the exit code."""
    text = _read_text(args.text, args, "the ferry leaves at 7:30")
    async with _open_terminal_answerer(settings) as (answerer, settings, note):
        verdicts = await answerer.verify(text, trace=args.trace)
    if verdicts is None:
        return _report_no_channels(settings, args.lang)
    print(note, end="", file=sys.stderr, flush=True)
    if args.json:
        print(dump_json({name: value for name, value in verdicts.items() if name != "trace" or value}))
    else:
        said = terminal_text.format_verdicts_text(verdicts, get_translator(args.lang), settings.bot.zone)
        print("\n".join([said, *terminal_text.format_stages(verdicts["trace"])]))
    return 0


@asynccontextmanager
async def _open_terminal_answerer(
    settings: Settings,
) -> AsyncIterator[tuple[RunningBot | TerminalAnswerer, Settings, str]]:
    """Choose the folder; yield what answers in it, its settings, and a note of a folder that nobody named."""
    named = is_folder_named(settings)
    settings = await choose_folder_with_channels(settings)
    async with open_answerer(settings) as answerer:
        yield answerer, settings, "" if named else f"(folder: {settings.data.dir})\n"


@asynccontextmanager
async def open_answerer(settings: Settings, *, as_reader: bool = False) -> AsyncIterator[RunningBot | TerminalAnswerer]:
    """Yield the bot that holds the data folder, or hold it and yield an answerer in this process."""
    async with hold_folder_or_connect(settings.data.dir) as owner:
        if owner:
            owner.as_reader = as_reader
            yield owner
            return
        async with open_up_to_date_engine(settings) as rag, record_traces(rag):
            yield TerminalAnswerer(rag, settings.bot.zone, settings.bot.admins, as_reader=as_reader)


def _read_text(given: list[str], args: argparse.Namespace, example: str) -> str:
    """Take the words given, or read stdin: for -, and where a program is before the pipe. Sets `args.lang`."""
    text = " ".join(given).strip()
    if given in ([], ["-"]):
        typed = sys.stdin is not None and sys.stdin.isatty()
        piped = sys.stdin is not None and (bool(given) or not typed)
        if piped and typed:
            print("Write the text, then press Enter and Ctrl-D.", file=sys.stderr, flush=True)
        with translate_errors(RagError, UnicodeDecodeError, say=_UNREADABLE_TEXT):
            text = sys.stdin.read(_MAX_CHARACTERS + 1).strip() if piped else ""
        if len(text) > _MAX_CHARACTERS:
            raise RagError(_UNREADABLE_TEXT)
    if not text:
        args.report_wrong_use(f'there is no text: give one, such as "{example}", or - to read it from stdin')
    args.lang = detect_language(text)
    return text


def _report_no_channels(settings: Settings, lang: str) -> int:
    words, folder = get_translator(lang), str(settings.data.dir.resolve())
    print(words("none-visible-admin"), words("looked-in", folder=folder), file=sys.stderr)
    return 1


async def _run_chat(args: argparse.Namespace, settings: Settings) -> int:
    """Talk until /quit or the end of the input; earlier questions are remembered. Returns the exit code."""
    words = get_translator(settings.bot.language)
    async with _open_terminal_answerer(settings) as (answerer, settings, note):
        async with open_archive(settings.data.dir) as archive:
            known = await channels.load_channels(archive)
        if not known:
            return _report_no_channels(settings, settings.bot.language)
        print(note, end="", file=sys.stderr, flush=True)
        print(terminal_text.format_channel_list(known.values(), words), words("chat-hint"), sep="\n", flush=True)
        conversation, answered = secrets.randbelow(2**53) or 1, False  # drawn: two terminals do not share one
        while (line := _read_line()) is not None:
            if line in {"/quit", "/exit", "/q"}:
                break
            if line == "/new":
                conversation, answered = secrets.randbelow(2**53) or 1, False
                print(words("talk-new"))
            elif line.startswith("/"):
                print(words("chat-hint"))
            elif answered and (remark := detect_answer_remark(line)) not in {None, AnswerRemark.MORE}:
                said, contact = get_translator(detect_language(line)), settings.bot.contact
                replies = [said("chat-remark")]  # where the sources stand; only the bot does more
                if remark is AnswerRemark.COMPLAINT:  # how to reach people
                    replies = [said("complaint"), *([said("complaint-contact", contact=contact)] if contact else [])]
                print(*replies, sep="\n", end="\n\n", flush=True)
            elif line:
                text, answered = line[:_MAX_CHARACTERS], True
                asking = answerer.ask(text, trace=False, recipe=args.recipe, conversation=conversation)
                await _print_reply(asking, line, settings)
    return 0


async def _print_reply(asking: Awaitable[AnswerJson | None], question: str, settings: Settings) -> None:
    """Print an answer or, in one sentence, why there is none; the talk goes on."""
    lang = detect_language(question)
    try:
        answer = await asking
    except ArchiveUnavailable:
        raise
    except RagError as exc:
        print(get_translator(lang).error(exc), file=sys.stderr, flush=True)
        return
    if answer is None:
        _report_no_channels(settings, lang)
        return
    print(format_answer_text(answer, get_translator(lang), settings.bot.zone), end="\n\n", flush=True)


def _read_line() -> str | None:
    """Read a line, with a prompt and arrow keys on a terminal; None at the end of the input and at Ctrl-C."""
    if sys.stdin is None:
        return None
    # asyncio's handler would only cancel a task, and input() would wait on
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if not sys.stdin.isatty():
            line = sys.stdin.readline(_MAX_CHARACTERS)
            return line.strip() if line else None
        with suppress(ImportError):
            import readline  # noqa: F401 - input() then knows arrow keys and earlier lines
        return input("> ").strip()
    except (EOFError, KeyboardInterrupt):
        print()
        return None
    except UnicodeDecodeError:
        print(_UNREADABLE_TEXT, file=sys.stderr)
        return ""
    finally:
        signal.signal(signal.SIGINT, before)


async def _run_digest(args: argparse.Namespace, settings: Settings) -> int:
    from bot.views.results import format_digest_quote  # `ask` does without aiogram, which takes a second

    settings = await choose_folder_with_channels(settings)
    until = datetime.now(UTC)
    args.days = min(max(1, args.days), _MAX_DIGEST_DAYS)
    since = until - timedelta(days=args.days)
    async with hold_folder_or_connect(settings.data.dir) as owner, open_archive(settings.data.dir) as archive:
        if owner is None:
            await CopyIndexer(archive).catch_up()
        known = await channels.load_channels(archive)
        lines = await build_period_digest(archive, known.keys(), since, until)
        spans = [span for chat_id in known if (span := await visible_posts.fetch_post_span(archive, chat_id))]
    found = [
        {
            "quote": cover_spoilers(line.quote, list_spoilers([line.post])),
            "shown": cover_spoilers(format_digest_quote(line), list_spoilers([line.post])),
            "url": format_channel_post_link(line.post.key, known[line.post.key.chat_id], line.post.topic),
            "channel": terminal_text.strip_control_characters(known[line.post.key.chat_id].title),
            "date": line.post.date.isoformat(),
            "channels": line.channels,
            "related": len(line.related),
            "changed": line.changed,
        }
        for line in lines
    ]
    if args.json:
        print(dump_json({"since": since.isoformat(), "until": until.isoformat(), "lines": found}))
    elif found:
        dates = [get_translator("en").date(line.post.date, settings.bot.zone) for line in lines]
        places = [f"{one['url']}  {one['channel']}, {date}" for one, date in zip(found, dates, strict=True)]
        print("\n\n".join(f"{one['shown']}\n  {place}" for one, place in zip(found, places, strict=True)))
    elif last := max((span.last for span in spans), default=None):
        day, more = get_translator("en").date(last, settings.bot.zone), max((until - last).days + 7, 2 * args.days)
        print(f"Nothing new in this time. The last post is of {day}: try --days {more}.", file=sys.stderr)
    else:
        print("There are no posts yet: load a channel's history (citegram import result.json).", file=sys.stderr)
    return 0
