"""Non-interference: what an outsider gets is the same bytes, whatever closed channels hold.

Two archives have the same public posts; the closed channels of the one hold other posts, of other words, with copies
of public posts, edits and deletions. Everything a reader can be shown (answers, refusals, searches, verdicts, counts)
and every trace, apart from times, must be equal for questions made of the difference. Whoever adds something that
readers see adds it to `everything_shown`. In a group of the bot others may ask who may read more, and so may another
program: there, too.

In full (`make noninterference`): 500 questions on every store, and 10,000 closed posts, on the stand-in for a server
1,000; programs ask 300; in short: fewer, fewest where a model or a server is asked.
"""

import asyncio
import json
import os
import random
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from itertools import cycle
from types import SimpleNamespace
from unittest.mock import AsyncMock

import numpy as np
import pytest
from driven_sandbox import DrivenSandbox, running_bot
from driver import make_local_bot, say, wait_until_idle
from program import connect, find_free_address

from bot.access import AdminRegistry, MembershipCache
from bot.api import present_answer, present_channels, present_search, present_verdicts
from bot.control.answers import describe_answer, describe_channels, describe_search, describe_verdicts
from bot.handlers.inline import find_articles, share_answer
from bot.handlers.search import render_profile
from bot.i18n import get_translator
from bot.jobs import JobLog
from bot.notifications import WatchNotifier
from bot.sandbox.state import is_message_visible
from bot.settings import Settings
from bot.stored_answer import serialize_answer
from bot.views.answer import render_answer
from bot.views.results import describe_plan, describe_reading, render_digest
from bot.views.rich import build_rich_message
from bot.views.text import RenderContext
from bot.worker.known_answers import QuestionSuggester, answer_from_pin, hash_question
from ingest.copies import CopyIndexer
from ingest.indexer import DenseIndexer, LexicalIndexer
from rag_core import Question, RagSettings, Viewer, answer_question, open_engine, recipe_steps
from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.retrieval.digests import build_period_digest
from rag_core.retrieval.post_search import list_posts
from rag_core.run import Budgets
from rag_core.storage import channels, index_state, media, posts, readers, subscriptions, visible_posts
from rag_core.storage.channels import Synonym, add_synonym
from rag_core.storage.questions import QuestionRow, finish_question, queue_question
from rag_core.storage.readers import change_channel_sets, narrow_to_channel_set
from rag_core.text.tokens import detect_language
from rag_core.types import (
    PAGE,
    PICTURE,
    VOICE,
    Answer,
    Channel,
    Citation,
    Media,
    MediaFile,
    MediaText,
    PassageRef,
    Post,
    PostKey,
    SearchFilter,
    Sentence,
    Visibility,
)
from rag_core.verification.verify import verify_text
from rag_core.writing.extract import rank_evidence

pytestmark = pytest.mark.slow

HARBOUR, KILN, VAULT, LEDGER, PENDING, PAUSED = (-1001000000000 - n for n in range(1, 7))
CHANNELS = (
    Channel(HARBOUR, "Harbour News", "harbour_news", visibility=Visibility.PUBLIC),
    Channel(KILN, "Печь и глина", "pech_i_glina", visibility=Visibility.PUBLIC),
    Channel(VAULT, "Treasurer's Vault"),
    Channel(LEDGER, "Касса", visibility=Visibility.MEMBERS),
    Channel(PENDING, "Waiting", visibility=Visibility.PUBLIC),
    Channel(PAUSED, "Resting", visibility=Visibility.PUBLIC),
)
CLOSED = (VAULT, LEDGER, PENDING, PAUSED)
STATES = {PENDING: "pending", PAUSED: "paused"}
NOW = datetime(2026, 1, 15, 9, tzinfo=UTC)
START = datetime(2025, 3, 1, 12, tzinfo=UTC)
IN_FULL = os.environ.get("NONINTERFERENCE") == "full"
AMPLE = Budgets(*[600.0] * len(fields(Budgets)))  # what is late by chance is no difference
QUESTIONS, CLOSED_POSTS = (500, 10_000) if IN_FULL else (60, 300)

PUBLIC = {
    HARBOUR: (
        "The ferry to Owl Island leaves at 7:30 every morning from pier four. Dogs travel free of charge.",
        "Fresh mackerel is sold on the quay on Fridays.",
        "The lighthouse museum shows old brass lamps until October.",
        "Please keep dogs on a leash near the bird cliffs.",
        "A ferry ticket costs twelve euros; children under six sail for nothing.",
        "The ferry is out of service: the engine needs a new pump.",
        "The regatta committee decided that the autumn race starts at ten from the breakwater.",
        "From now on a ferry ticket costs fourteen euros.",
    ),
    KILN: (
        "Запись на осенний курс керамики открывается пятого сентября.",
        "Обжиг проходит по четвергам, забирайте изделия после шести вечера.",
        "Абонемент в мастерскую стоит 2 750 рублей в месяц.",
        "Новая глазурь цвета морской волны уже на полке. Про обжиг спросите Тамару Бергман.",
        "Мастерская закрыта в дни городского марафона.",
        "Лекция Тамары Бергман стоит 1 900 рублей.",
    ),
}
ASKED = (
    "{word} ferry ticket",
    "When does the {word} ferry to Owl Island leave?",
    "Is {word} mackerel sold on Fridays?",
    "How did the price of the {word} ferry ticket change?",
    "What about the {word} lighthouse museum?",
    "How much is the museum {word} ticket?",
    "until when are the bird cliffs {word} closed?",
    "сколько стоит глазурь {word}?",
    "What is {word}?",
    "how many posts mention {word}?",
    "when was {word} first mentioned?",
    "timeline of {word} and the ferry",
    "latest news about {word}",
    "what is new?",
    "what is new today?",
    "what's on this weekend?",
    "anything on at the {word} in the next two weeks?",
    "how many posts are there?",
    "what's up with the {word} ferry?",
    "who runs this page?",
    "who is {word}?",
    "who is Tamara Bergman?",
    "who runs the {word} channel?",
    "what is the {word} channel about?",
    "find the post about {word}",
    "what is new at the {word}?",
    "что нового про {word} в марте",
    "когда выложили «{word}»",
    "Сколько стоит абонемент {word}?",
    "Когда обжиг {word}?",
    "что писали про {word} в марте",
    "кто такой {word} Бергман?",
    "When does the ferry leave and who owns {word}?",
    "сколько стоит абонемент и где {word}?",
    "Who leads the club of the island where the {word} ferry lands?",
)
SEARCHED = ("{word} ferry", "{word}", '"{word}" race', "{word} обжиг", "regatta {word} breakwater", "{word} -ferry")
CLAIMED = (
    "The {word} ferry leaves at 7:30.",
    "The {word} ticket costs twelve euros.",
    "Абонемент {word} стоит 2 750 рублей.",
    "The autumn race {word} starts at ten.",
    PUBLIC[HARBOUR][0],  # a whole post, of which closed channels hold copies, some of them earlier
    PUBLIC[KILN][0],
)

# What is read of the files of public posts; closed posts have the same files, and others.
MEDIA = {
    PostKey(HARBOUR, 3): MediaText(PICTURE, "Museum ticket 9 euros\nOpen from ten to six"),
    PostKey(HARBOUR, 4): MediaText(VOICE, "The bird cliffs are closed until the second of June.", 84),
    PostKey(KILN, 3): MediaText(PICTURE, "Глазурь белая 640 ₽\nГлазурь синяя 780(?) ₽"),
}

PINNED = "Where is the office of the harbour master?"
WATCHED = ("ferry ticket", "mackerel", "обжиг", "dogs leash", "ferry under 20 euros")


def invented(rng, count):
    """Words that nobody uses, in both scripts, and codes of digits."""
    found = {}
    while len(found) < count:
        kind = rng.randrange(3)
        if kind == 0:
            found["".join(rng.choice("bdfgklmnprtvz") + rng.choice("aeiou") for _ in range(4))] = None
        elif kind == 1:
            found["".join(rng.choice("бдгклмнпртвз") + rng.choice("аеиоу") for _ in range(4))] = None
        else:
            found[str(rng.randrange(1000, 9999))] = None
    return list(found)


def public_posts():
    texts = [
        *((HARBOUR, n, text) for n, text in enumerate(PUBLIC[HARBOUR], 1)),
        *((KILN, n, text) for n, text in enumerate(PUBLIC[KILN], 1)),
        *(
            (HARBOUR, 100 + n, f"Harbour bulletin {n}: wind force {n % 7}, visibility {n % 11} miles.")
            for n in range(20)
        ),
        *((KILN, 100 + n, f"Сводка мастерской {n}: занято мест {n % 5}, свободно {n % 9}.") for n in range(15)),
    ]
    found = [Post(PostKey(chat, n), START + timedelta(hours=5 * n), text) for chat, n, text in texts]
    return [replace(p, media=with_file(MEDIA[p.key].kind, f"{p.key}")) if p.key in MEDIA else p for p in found]


def with_file(kind, name):
    return Media("voice" if kind == VOICE else "photo", file=MediaFile(kind, f"bot:{name}", name))


def closed_posts(rng, words, count):
    """Posts of closed channels: secret words among ordinary ones, copies of public posts, contradictions."""
    public = [text for texts in PUBLIC.values() for text in texts]
    ordinary = " ".join(public).lower().split()
    found = []
    for n in range(count):
        some = [*rng.choices(ordinary, k=rng.randrange(3, 25)), *rng.choices(words, k=rng.randrange(4))]
        rng.shuffle(some)
        text = " ".join(some)
        if n % 10 == 0:
            text = rng.choice(public)
        elif n % 10 == 1:
            text = rng.choice(public).replace("ten", "eleven").replace("7:30", "8:45").replace("2 750", "3 900")
        author = rng.choice([None, "Zelda Quux", "Тамара Бергман"])
        key = PostKey(CLOSED[n % len(CLOSED)], 1 + n // len(CLOSED))
        kind, name = rng.choice([PICTURE, VOICE]), rng.choice([f"closed {n}", *map(str, MEDIA)])
        file = with_file(kind, name) if n % 4 == 2 else None
        page = (MediaText(PAGE, f"Page of {' '.join(some)}"),) if n % 12 == 3 else ()
        date = START + timedelta(minutes=rng.randrange(400_000))
        found.append(Post(key, date, text, author=author, media=file, media_text=page))
    return found


async def fill(rag, hidden):
    """Keep and index as the bot does: closed posts before and after the public ones, some edited, some deleted."""
    for channel in CHANNELS:
        await channels.save_channel(rag.archive, channel)
        await channels.record_bot_joined(rag.archive, channel.chat_id)
    indexer = LexicalIndexer(rag.archive, rag.lexical)
    half = len(hidden) // 2
    for some in (hidden[:half], public_posts(), hidden[half:]):
        await posts.save_posts(rag.archive, some, source="live")
        await indexer.catch_up()
        await read_files(rag, hidden)
        await indexer.catch_up()
    for post in (public_posts()[0], hidden[0]):  # the closed one is the last, and would be the answer
        await channels.pin_answer(rag.archive, hash_question(PINNED, rag.archive), post.key, 1)
    for post in hidden[:50]:
        await add_synonym(rag.archive, Synonym(post.key.chat_id, "ferry", post.text.split()[0]), 1)
        asked = hash_question(post.text, rag.archive)
        await channels.pin_answer(rag.archive, asked, post.key, 1)
    again = [replace(post, text=f"{post.text} twice", edited=NOW - timedelta(days=1)) for post in hidden[::7]]
    await posts.save_posts(rag.archive, again, source="live")
    await indexer.catch_up()
    await posts.mark_posts_deleted(rag.archive, [post.key for post in hidden[3::9]], how="test")
    await indexer.catch_up()
    for chat, state in STATES.items():
        await channels.set_channel_state(rag.archive, chat, state)
    await indexer.catch_up()
    await indexer.save()
    await CopyIndexer(rag.archive).catch_up()
    if rag.dense:
        await DenseIndexer(rag.archive, rag.dense.vectors, rag.dense.embedder).catch_up()


async def read_files(rag, hidden):
    """Read the files that wait: those of closed posts alone hold words of other closed posts."""
    public = {f"bot:{key}": text for key, text in MEDIA.items()}
    while waiting := await media.take_next_file(rag.archive, [PICTURE, VOICE]):
        words = f"Poster: {hidden[waiting.key.message_id % len(hidden)].text}"
        text = public.get(waiting.file.id) or MediaText(waiting.file.kind, words, 12)
        digest = waiting.file.id.encode()
        await media.save_media_text(rag.archive, waiting, digest, [text])


@asynccontextmanager
async def opened(folder, hidden, settings):
    given = {"data": {"dir": folder}, "models": {"embedder": "none"}, **settings}
    async with open_engine(RagSettings.model_validate(given)) as rag:
        rag.budgets = AMPLE
        await fill(rag, hidden)
        await change_channel_sets(rag.archive, 1, lambda sets: sets.update({"town": [HARBOUR, *CLOSED]}))
        yield rag


def traced(run):
    """A trace apart from times; stages beside each other end in any order."""
    return sorted((span.stage, sorted(span.counts.items()), span.error or "") for span in run.spans)


async def everything_shown(rag, text, way):
    """All that a reader who may read the two public channels can be shown for a text, and the traces behind it."""
    runs = []
    seen = replace(rag, traced=runs.append)
    question = Question(text, detect_language(text), NOW, Viewer(1, frozenset({HARBOUR, KILN})))
    if way == "ask":
        answer = replace(await answer_question(question, seen), trace_id="")
        # times and the order of concurrent steps differ; which there were, and whether they succeeded, may not
        answer = replace(answer, actions=tuple(sorted((a.tool, a.ok) for a in answer.actions)))
        texts = [source.passage.text for source in answer.found]
        reading = await describe_reading(text, question.lang, texts, question.viewer, rag)
        plan = await describe_plan(question, rag)
        passed = replace(seen, passed=frozenset(answer.posts()))  # "no, the other one"
        other = replace(await answer_question(question, passed), trace_id="", actions=())
        rest, viewer = await narrow_to_channel_set(rag.archive, [1], f"in town: {text}", question.viewer)
        named = await visible_posts.fetch_posts(rag.archive, (*answer.posts(), *(one.key for one in answer.nearest)))
        shown = (
            answer,
            present_answer(describe_answer(replace(answer, actions=()), named, question.lang), question.lang),
            other,
            reading,
            await answer_from_pin(question, rag),
            plan,
            rest,
            sorted(viewer.channels),
        )
    elif way == "search":
        found = await list_posts(question, seen)
        shown = (found.found, found.matching, found.more, found.whole, found.channels, found.shortfalls)
        shown = (*shown, present_search(describe_search(found, 1), question.lang))
    elif way == "inline":
        articles, content = await find_articles(question, seen, RenderContext(get_translator("en"), UTC))
        shown = ([article.model_dump(exclude_unset=True) for article in articles], content)
    else:
        checked = replace(await verify_text(question, seen), trace_id="")
        named = await visible_posts.fetch_posts(rag.archive, checked.posts())
        shown = (checked, present_verdicts(describe_verdicts(checked, named, question.lang), question.lang))
    return [repr(shown), *(traced(run) for run in runs)]


async def suggested_questions(rag):
    """The questions that are suggested to the same reader, made from all channels."""
    suggester = QuestionSuggester(replace(rag, calibration=rag.calibration.without_bars()))
    await suggester.make_suggestions()
    offered = await suggester.suggest(Viewer(1, frozenset({HARBOUR, KILN})), "ru")
    return [] if offered is None else [repr(offered)]


async def shared_answer(rag):
    """What is shared of an answer that cites a public post and one of a closed channel."""
    keys = (PostKey(VAULT, 1), PostKey(HARBOUR, 1))
    found = await posts.fetch_stored_posts(rag.archive, keys)
    cited = [found[key].post for key in keys]
    whole = [Sentence(post.text, (Citation(post.key, post.text, 0, len(post.text), post.date),)) for post in cited]
    stored = serialize_answer(Answer(tuple(whole), 1.0, "direct"), {post.key: post for post in cited})
    row = QuestionRow(bot_id=1, update_id=1, chat_id=1, message_id=1, user_id=1, text="?", lang="en", asked_at=NOW,
                      private=True)  # fmt: skip
    number = await queue_question(rag.archive, row)
    await finish_question(rag.archive, number or 0, state="answered", answer=json.dumps(stored), message_id=2)
    handle = await rag.archive.value("SELECT handle FROM questions WHERE id = ?", (number,))
    shown = RenderContext(get_translator("en"), UTC)
    articles, content = await share_answer(handle, Viewer(1, frozenset({HARBOUR, KILN})), rag.archive, shown)
    texts = [article.input_message_content.model_dump(exclude_unset=True) for article in articles]
    assert len(texts) == 1
    return [repr(texts), repr(content)]


async def described_channels(rag):
    """/about of every channel for the same reader, the digest of a week, and a pinned answer."""
    known = await channels.load_channels(rag.archive)
    readable = {chat: known[chat] for chat in (HARBOUR, KILN)}
    viewer, words = Viewer(1, frozenset(readable)), get_translator("en")
    week = START, START + timedelta(days=7)
    lines = await build_period_digest(rag.archive, viewer.channels, *week)
    assert lines
    digest = render_digest(lines, readable, RenderContext(words, UTC), *week).text
    shown = [repr(digest.as_kwargs()), repr(build_rich_message(digest))]
    shown.append(repr(present_channels(await describe_channels(readable, rag.archive))))
    for said in ("@harbour_news", "@pech_i_glina", "Treasurer's Vault", "Resting"):
        shown.append(repr((await render_profile(said, readable, viewer, rag, words, UTC)).as_kwargs()))
    pinned = await answer_from_pin(Question(PINNED, "en", NOW, viewer), rag)
    cited = await visible_posts.fetch_posts(rag.archive, pinned.list_named_posts())
    rich = build_rich_message(render_answer(pinned, cited, RenderContext(words, UTC)))
    return [*shown, repr(replace(pinned, trace_id="")), repr(rich)]


async def told_by_watches(rag):
    """The notices of watches of the same reader, who began to watch before the first post."""
    for text in WATCHED:
        await subscriptions.add_watch(rag.archive, subscriptions.NewWatch(1, 1, True, text, text))
    await rag.archive.execute("UPDATE watches SET made_at = 0")
    await rag.archive.execute("UPDATE watching SET watermark = 0")
    sandbox = DrivenSandbox()
    sandbox.world.add_person(1, "Rita", lang="en")
    for channel in CHANNELS:
        sandbox.world.add_channel(channel.chat_id, channel.title, channel.username)
    await sandbox.start()
    try:
        await sandbox.say(1, "/start")
        async with make_local_bot(sandbox.url, sandbox.token) as bot:
            admins = AdminRegistry((), MembershipCache(bot), rag.archive)
            settings = SimpleNamespace(bot=SimpleNamespace(zone=UTC, language="en"))
            context = SimpleNamespace(
                archive=rag.archive,
                admins=admins,
                settings=settings,
                indexing=SimpleNamespace(job_log=JobLog(rag.archive)),
                load_zone=AsyncMock(return_value=UTC),
            )
            notifier = WatchNotifier(bot, context)
            await notifier.match_changes()
            await notifier.send_notices()
            await asyncio.gather(*notifier._chats._running.values())  # a busy machine takes longer than a round
        messages = sandbox.world.room(1).messages
        sent = [messages[number] for number in sandbox.world.sent.get(1, ())]
    finally:
        await sandbox.stop()
    return sorted(repr((message["text"], message["entities"], message["reply_markup"])) for message in sent)


def questions(rng, words, count):
    """Texts made of the words that only the closed channels have, or that nobody has, and how each is put."""
    ways = [("ask", ASKED), ("ask", ASKED), ("search", SEARCHED), ("verify", CLAIMED), ("inline", ASKED)]
    turns = {templates: cycle(templates) for _, templates in ways}  # each is put before one is put again
    put = [ways[n % len(ways)] for n in range(count)]
    return [(way, next(turns[templates]).format(word=rng.choice(words))) for way, templates in put]


async def assert_same_bytes(folder, settings, closed, count, *, watched=IN_FULL):
    """`settings` of the two archives; `closed` posts in the closed channels of the one, a tenth in the other.

    Watches compare words in memory and look into no store: by default those of one store are enough.
    """
    rng = random.Random(15)
    words = invented(rng, 60)
    secret = closed_posts(rng, words[:40], closed)
    other = closed_posts(rng, ["placid"], max(8, closed // 10))
    asked = questions(rng, words, count)
    shown, suggested, told, described = [], [], [], []
    for n, hidden in enumerate((other, secret)):
        async with opened(folder / str(n), hidden, settings[n]) as rag:
            waiting = [PostKey(VAULT, number) for number in range(1, 1000)] if hidden is secret else []
            await index_state.queue_posts(rag.archive, waiting)  # to be embedded: refusals tell of many
            shown.append([await everything_shown(rag, text, way) for way, text in asked])
            suggested.append(await suggested_questions(rag) + await shared_answer(rag))
            told.append(await told_by_watches(rag) if watched else [])
            described.append(await described_channels(rag))
    different = [asked[n] for n, (one, two) in enumerate(zip(*shown, strict=True)) if one != two]
    assert different == []
    assert suggested[0] == suggested[1]
    assert len(suggested[0]) == 3  # a question, and what is shared of an answer
    assert described[0] == described[1]
    assert told[0] == told[1]
    assert len(told[0]) > len(WATCHED) or not watched
    assert len({repr(one[0]) for one in shown[0]}) > count / 8  # what is compared is not always the same refusal


@pytest.mark.timeout(3600 if IN_FULL else 600)
async def test_closed_channels_change_nothing_by_words(tmp_path):
    await assert_same_bytes(tmp_path, [{}, {}], CLOSED_POSTS, QUESTIONS, watched=True)


@pytest.mark.timeout(3600 if IN_FULL else 600)
async def test_closed_channels_change_nothing_with_both_legs(tmp_path, offline_models):
    both = {"models": {"embedder": "minilm-navec", "dir": offline_models.parent}}
    await assert_same_bytes(tmp_path, [both, both], *((CLOSED_POSTS, QUESTIONS) if IN_FULL else (60, 30)))


@pytest.mark.timeout(3600 if IN_FULL else 600)
async def test_closed_channels_change_nothing_where_tokens_are_compared(tmp_path, multilingual_model, monkeypatch):
    compared = []

    def rank(question, plan, evidence, rag):
        compared.append(len(evidence.similarities))
        return rank_evidence(question, plan, evidence, rag)

    monkeypatch.setattr(recipe_steps, "rank_evidence", rank)
    centred = {"models": {"embedder": "e5-small-centred", "dir": multilingual_model.parent}}
    # a post takes an embedder of this size 10 ms: a tenth of the posts in full, each way of asking once in short
    await assert_same_bytes(tmp_path, [centred, centred], *((CLOSED_POSTS // 10, QUESTIONS) if IN_FULL else (40, 15)))
    assert sum(map(bool, compared)) > len(compared) / 2


@pytest.mark.timeout(3600 if IN_FULL else 600)
async def test_closed_channels_change_nothing_on_a_qdrant_server(tmp_path, offline_models):
    from fake_qdrant import FakeQdrant  # its client takes a second to import

    async with FakeQdrant() as one, FakeQdrant() as two:
        settings = [
            {"models": {"embedder": "minilm-navec", "dir": offline_models.parent}, "qdrant": {"url": qdrant.url}}
            for qdrant in (one, two)
        ]
        # the stand-in scans in Python: a tenth of the posts, and time enough
        await assert_same_bytes(tmp_path, settings, *((CLOSED_POSTS // 10, QUESTIONS) if IN_FULL else (40, 12)))


GROUP, OUTSIDER, INSIDER, OWNER = -1001000000099, 1, 2, 3
IN_GROUP = {"ask": "/ask@citegram_bot {}", "search": "/search@citegram_bot {}", "verify": "/verify@citegram_bot {}",
            "inline": "@citegram_bot {}"}  # fmt: skip


async def start_sandbox():
    """A Telegram with all channels, of which the insider reads one that is closed."""
    sandbox = DrivenSandbox()
    for person in (OUTSIDER, INSIDER, OWNER):
        sandbox.world.add_person(person, f"Person {person}", lang="en")
    for channel in CHANNELS:
        members = [OWNER, INSIDER] if channel.chat_id == LEDGER else [OWNER]
        sandbox.world.add_channel(channel.chat_id, channel.title, channel.username, members=members)
    await sandbox.start()
    return sandbox


async def shown_in_group(folder, asked):
    """What a member of a group sees of it while others ask who may read closed channels, and what these see alone."""
    sandbox = await start_sandbox()
    world = sandbox.world
    world.add_group(GROUP, "Neighbours", members=[OWNER, INSIDER, OUTSIDER], bot="administrator")
    given = {"token": sandbox.token, "api": sandbox.url, "admins": [OWNER], "reader_limit": 9999, "chat_limit": 9999}
    settings = {"bot": given, "data": {"dir": folder}, "models": {"embedder": "none"}}
    try:
        async with running_bot(Settings.model_validate(settings)):
            assert await sandbox.until(lambda: len(world.commands) >= 8)
            for n, (way, text) in enumerate(asked):
                who = (INSIDER, OWNER, INSIDER, OUTSIDER)[n % 4]
                said = IN_GROUP[way].format(text)
                message = await sandbox.say(
                    who, said.replace("@citegram_bot", "") if n % 3 == 0 else said, chat_id=GROUP
                )
                await wait_until_idle(sandbox, folder)
                if n % 5 == 0:
                    for command in ("/why@citegram_bot", "/sources@citegram_bot"):
                        await sandbox.say(who, command, chat_id=GROUP, reply_to=max(message["message_id"], 0) or None)
                        await wait_until_idle(sandbox, folder)  # two at once are answered in the order of chance
        found = world.room(GROUP).messages.items()
        seen = [one for key, one in found if is_message_visible(key, OUTSIDER)]
        alone = [str(one) for key, one in found if not is_message_visible(key, OUTSIDER)]
        own = ("ephemeral_message_parameters", "receiver_user_id")
        calls = [line for line in sandbox.transcript if not any(name in line["params"] for name in own)]
        calls = [line for line in calls if str(line["params"].get("chat_id")) == str(GROUP)]
    finally:
        await sandbox.stop()
    labels = [
        [b["text"] for row in one.get("reply_markup", {}).get("inline_keyboard", ()) for b in row] for one in seen
    ]
    shown = [(one.get("text"), one.get("entities"), label) for one, label in zip(seen, labels, strict=True)]
    return [
        shown,
        sorted((line["method"], line["params"].get("text")) for line in calls if "text" in line["params"]),
    ], alone


@pytest.mark.timeout(3600 if IN_FULL else 600)
async def test_closed_channels_change_nothing_that_a_group_sees(tmp_path, monkeypatch):
    monkeypatch.setattr("bot.worker.streaming._FIRST_UPDATE_SECONDS", 600.0)  # what is late by chance is no difference
    rng = random.Random(17)
    words = invented(rng, 60)
    asked = questions(rng, words, 500 if IN_FULL else 24)
    secret = closed_posts(rng, words[:40], CLOSED_POSTS // 10 if IN_FULL else 60)
    found = []
    for n, hidden in enumerate((closed_posts(rng, ["placid"], 30), secret)):
        async with opened(tmp_path / str(n), hidden, {}) as rag:
            for channel in (HARBOUR, KILN):
                await readers.bind_channel(rag.archive, GROUP, channel)
        found.append(await shown_in_group(tmp_path / str(n), asked))
    (other_view, _), (view, alone) = found
    assert view == other_view
    assert sum(any(word in text for word in words[:40]) and "Касса" in text for text in alone) > len(asked) / 20


TOOLS = {"ask": ("ask", "question"), "search": ("search", "query"), "verify": ("verify", "text"),
         "inline": ("timeline", "subject")}  # fmt: skip


async def shown_to_programs(folder, asked):
    """What two programs are told that ask in turn, of an outsider and of a member of a closed channel."""
    sandbox = await start_sandbox()
    address, told = find_free_address(), {}
    given = {"token": sandbox.token, "api": sandbox.url, "admins": [OWNER], "reader_limit": 9999}
    settings = {"bot": given, "data": {"dir": folder}, "models": {"embedder": "none"}, "mcp": {"listen": address}}
    try:
        async with running_bot(Settings.model_validate(settings)), AsyncExitStack() as stack:
            clients = {}
            for who in (INSIDER, OUTSIDER):
                made = await say(sandbox, OWNER, f"/token Program {who}")
                token = made["text"].split("Bearer ")[1].split('"')[0]
                clients[who] = await stack.enter_async_context(connect(address, token))
            for way, text in [*asked, ("channels", "")]:
                tool, name = TOOLS.get(way, ("list_channels", ""))
                for who, client in clients.items():  # who may read more asks first, so that a cache could tell
                    found = await client.call_tool(tool, {name: text} if name else {})
                    told.setdefault(who, []).append((found.is_error, found.content[0].text, found.structured_content))
    finally:
        await sandbox.stop()
    return told[OUTSIDER], list(map(str, told[INSIDER]))


@pytest.mark.timeout(3600 if IN_FULL else 600)
async def test_closed_channels_change_nothing_that_a_program_is_told(tmp_path):
    rng = random.Random(18)
    words = invented(rng, 60)
    asked = questions(rng, words, 300 if IN_FULL else 25)
    secret = closed_posts(rng, words[:40], CLOSED_POSTS // 10 if IN_FULL else 60)
    found = []
    for n, hidden in enumerate((closed_posts(rng, ["placid"], 30), secret)):
        async with opened(tmp_path / str(n), hidden, {}):
            pass
        found.append(await shown_to_programs(tmp_path / str(n), asked))
    (other_told, _), (told, insiders) = found
    assert told == other_told
    assert not any(title in str(told) for title in ("Касса", "Vault", "Waiting", "Resting"))
    assert sum("Касса" in one for one in insiders) > len(asked) / 10  # otherwise nothing could leak
    assert len(set(map(str, told))) > len(asked) / 4


async def test_closed_channels_change_nothing_among_more_vectors_than_are_compared_whole(tmp_path):
    """The sketch of the embedded store chooses which vectors are compared: by those of open channels alone."""
    rng = np.random.default_rng(16)
    topics = rng.standard_normal((30, 384), dtype=np.float32)

    def near(count):
        return topics[rng.integers(30, size=count)] + rng.standard_normal((count, 384), dtype=np.float32)

    open_vectors = near(4_000)  # with the closed ones more than the pool of the first step, 8,192
    open_vectors[3_000:] = open_vectors[0]  # one text, again and again
    public = [_make_point((HARBOUR, KILN)[n % 2], n, row) for n, row in enumerate(open_vectors)]
    asked = [*near(20), open_vectors[0]]
    found = []
    for store, count in enumerate((50, 5_000)):
        closed = [_make_point(CLOSED[n % len(CLOSED)], n, row) for n, row in enumerate(near(count))]
        vectors = await open_vector_store(tmp_path / str(store), model="tiny", dimension=384)
        await vectors.upsert(closed[: count // 4])
        await vectors.remove([point.place.key for point in closed[: count // 6]])  # their places are used again
        await vectors.upsert(public[:2_000])
        await vectors.upsert(closed)
        await vectors.upsert(public[2_000:])
        await vectors.upsert([replace(point, vector=-point.vector) for point in closed[::5]])
        since = SearchFilter(frozenset({HARBOUR, KILN}), since=START + timedelta(hours=500))
        seen = [await vectors.search(row, only, 50) for row in asked for only in (replace(since, since=None), since)]
        all_channels = SearchFilter(since.channels | {*CLOSED})
        found.append([repr(seen), repr([await vectors.search(row, all_channels, 50) for row in asked[:5]])])
        await vectors.close()
    assert found[0][0] == found[1][0]
    assert found[0][1] != found[1][1]  # members see the difference: otherwise this could not fail


def _make_point(chat, number, row):
    place = PassageRef(PostKey(chat, number), 0, 0, 9)
    return VectorPoint(place, START + timedelta(hours=number % 4_000), "en", f"{chat} {number}", row)


async def test_a_member_of_the_closed_channel_does_see_the_difference(tmp_path):
    """Otherwise the tests above could not fail."""
    rng = random.Random(1)
    words = invented(rng, 5)
    async with opened(tmp_path, closed_posts(rng, words, 200), {}) as rag:
        member = Viewer(1, frozenset({HARBOUR, KILN, VAULT}))
        found = await list_posts(Question(words[0], "en", NOW, member), rag)
        assert found.matching > 0
