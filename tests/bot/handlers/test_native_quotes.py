from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime
from itertools import count

import pytest
from aiogram import Bot
from aiogram.client.default import DefaultBotProperties
from aiogram.enums import ParseMode
from aiogram.types import ReplyParameters
from driven_sandbox import DrivenSandbox
from driver import LoopbackSession
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_sizes import choose_size

from bot.handlers.citations import MAX_QUOTE_LENGTH, build_native_quote
from bot.sandbox import Sandbox
from bot.sandbox.messages import count_utf16_units
from ingest.indexer import split_into_passages
from rag_core import Engine, RagSettings, Viewer, open_engine
from rag_core.storage import channels, posts
from rag_core.text.query_terms import QueryTerms
from rag_core.types import Channel, Citation, Draft, Entity, Evidence, Post, PostKey, Sentence, Source, Visibility
from rag_core.verification.support import check_citations
from rag_core.writing.extract import quote_piece, select_best_pieces

READER, CHANNEL = 500, -1001111
FIRE = "🔥"  # always a custom emoji here
FIRST = Entity("custom_emoji", 0, 2)
FAMILY = "👩\u200d👩\u200d👧\u200d👦"
# Words with one of these may be left out of a quote.
CHANGED = re.compile(f"[\\x00-\\x1f\u200e\u200f\u202e\u030a\u0333{FIRE}]")
STYLES = ["bold", "italic", "underline", "strikethrough", "spoiler", "text_link", "code", "blockquote"]
# With what Telegram takes out of a quote (a turn of direction, a ring, a carriage return) or puts in its place.
PIECES = st.sampled_from(
    ["Паром", "ferry", "уходит", "leaves", "7:30", "5 млн", "C++ <b>&amp;</b>", "a_b*c", "№4", ",", "—", " ", "\u00a0",
     ". ", "! ", "… ", "\n", "\n\n", "\r\n", "\t", "🚢", FAMILY, "👍🏽", "🏴\U000e0067\U000e007f", "🇷🇺", "1️⃣",
     "☕️", FIRE, "שלום", "مرحبا", "\u200f", "\u200e\u200f", "\u202e", "\u2066x\u2069", "e\u0301", "й", "и\u0306",
     "A\u030a", "n\u0333", "ß", "𝔘𝔫𝔦", "汉字", "ก็", "\u200b", "\ufeff"]
)  # fmt: skip


@st.composite
def written(draw: st.DrawFn) -> tuple[str, tuple[Entity, ...]]:
    """A post's text with entities, which begin and end at its pieces and may overlap."""
    pieces = draw(st.lists(PIECES, min_size=1, max_size=40))
    places = [count_utf16_units("".join(pieces[:n])) for n in range(len(pieces) + 1)]
    marks = [Entity("custom_emoji", places[n], 2) for n, piece in enumerate(pieces) if piece == FIRE]
    for _ in range(draw(st.integers(0, 4))):
        a, b = sorted((draw(st.integers(0, len(pieces))), draw(st.integers(0, len(pieces)))))
        if places[b] > places[a]:
            marks.append(Entity(draw(st.sampled_from(STYLES)), places[a], places[b] - places[a]))
    return "".join(pieces), tuple(marks)


class Rig:
    """A real archive and the sandbox's real server, on a loop of their own, for tests that hypothesis runs."""

    def __init__(self, runner: asyncio.Runner, rag: Engine, sandbox: Sandbox, bot: Bot) -> None:
        self.runner, self.rag, self.sandbox, self.bot = runner, rag, sandbox, bot
        self.ids, self.sent = count(1), 0

    async def check(self, texts: list[tuple[str, tuple[Entity, ...]]]) -> None:
        now = datetime(2025, 3, 1, 12, tzinfo=UTC)
        kept = [Post(PostKey(CHANNEL, next(self.ids)), now, text, entities=marks) for text, marks in texts]
        await posts.save_posts(self.rag.archive, kept, source="test")
        self.sandbox.world.add_history(CHANNEL, kept)
        for post in kept:
            for citation in await self.cited(post):
                await self.quote(post, citation)

    async def cited(self, post: Post) -> list[Citation]:
        """What extraction takes from a post, and what of that citing lets stand: all of it."""
        channel = Channel(CHANNEL, "Harbour News", "harbour", visibility=Visibility.PUBLIC)
        sources = [Source(n, passage, 1.0) for n, passage in enumerate(split_into_passages(post, channel, None), 1)]
        asked = QueryTerms.of("When does the ferry leave? Когда уходит паром?", lambda term: 1.0)
        pieces = select_best_pieces(asked, Evidence(tuple(sources)), 3, 100.0)
        sentences = tuple(map(quote_piece, pieces)) + whole(sources)
        standing = await check_citations(Draft(sentences), Viewer(READER, frozenset({CHANNEL})), self.rag)
        assert standing == sentences
        return [citation for sentence in standing for citation in sentence.citations]

    async def quote(self, post: Post, citation: Citation) -> None:
        assert post.text[citation.start : citation.end] == citation.quote
        quote = build_native_quote(post.text, citation.start, citation.end, post.entities)
        if quote is None:
            assert all(CHANGED.search(word) for word in citation.quote.split())
            return
        assert quote.text and quote.text in citation.quote
        wanted = ReplyParameters(
            chat_id=CHANNEL,
            message_id=post.key.message_id,
            quote=quote.text,
            quote_parse_mode=None,
            quote_entities=list(quote.entities),
            quote_position=quote.position,
        )
        sent = await self.bot.send_message(READER, "re", parse_mode=None, reply_parameters=wanted)
        assert sent.quote is not None
        assert (sent.quote.text, sent.quote.position) == (quote.text, quote.position)
        self.sent += 1


def whole(sources: list[Source]) -> tuple[Sentence, ...]:
    """Each passage as a model may cite it: from end to end."""
    found = (source.passage for source in sources)
    cited = (Citation(p.key, p.text, p.start, p.end, p.date) for p in found if p.text)
    return tuple(Sentence("x", (citation,)) for citation in cited)


@pytest.fixture
def rig(tmp_path):
    with asyncio.Runner() as runner:
        sandbox = DrivenSandbox()
        sandbox.world.add_person(READER, "Rita")
        sandbox.world.people[READER].started = True
        sandbox.world.add_channel(CHANNEL, "Harbour News", "harbour")
        runner.run(sandbox.start())
        # a default that would read the quotes as markup
        bot = Bot(sandbox.token, LoopbackSession(sandbox.url), DefaultBotProperties(parse_mode=ParseMode.HTML))
        opening = open_engine(RagSettings.model_validate({"data": {"dir": tmp_path}}))
        rag = runner.run(opening.__aenter__())
        runner.run(channels.save_channel(rag.archive, Channel(CHANNEL, "Harbour News", "harbour")))
        yield Rig(runner, rag, sandbox, bot)
        runner.run(bot.session.close())
        runner.run(opening.__aexit__(None, None, None))
        runner.run(sandbox.stop())


def test_what_is_cited_of_many_posts_is_quoted_word_for_word(rig):
    examples = choose_size(200, 30)

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.lists(written(), min_size=5, max_size=5))
    def checked(texts: list[tuple[str, tuple[Entity, ...]]]) -> None:
        rig.runner.run(rig.check(texts))

    checked()
    assert next(rig.ids) > 5 * examples
    assert rig.sent > 5 * examples


def test_a_quote_has_the_styles_of_its_words_and_its_place_in_units():
    text = "🚢 Паром уходит в 7:30."
    marks = (Entity("bold", 3, 12), Entity("text_link", 3, 5, "https://x.org"), Entity("italic", 18, 5))
    quote = build_native_quote(text, 8, 20, marks)
    assert quote is not None
    assert (quote.text, quote.position) == ("уходит в 7:3", 9)
    assert [(e.type, e.offset, e.length) for e in quote.entities] == [("bold", 0, 6), ("italic", 9, 3)]


@pytest.mark.parametrize(
    ("text", "marks", "said"),
    [
        ("🔥 Открылись в пять 🔥 и ждём", (FIRST, Entity("custom_emoji", 20, 2)), "Открылись в пять"),
        ("Первая строка длиннее\r\nвторая", (), "Первая строка длиннее"),
        ("в Malmo\u0308 и в A\u030angstrom сегодня идёт дождь", (), "сегодня идёт дождь"),
        ("a \u202erev\u202c конец строки", (), "конец строки"),
        ("🔥", (FIRST,), None),
        (" \n ", (), None),
    ],
)  # fmt: skip
def test_what_telegram_would_change_is_left_out(text, marks, said):
    quote = build_native_quote(text, 0, len(text), marks)
    assert (quote.text if quote else None) == said


def test_a_long_quote_is_cut_between_words_and_never_within_a_sign():
    words = build_native_quote("слово " * 400, 0, 2400, ())
    assert words is not None and count_utf16_units(words.text) <= MAX_QUOTE_LENGTH and words.text.endswith("слово")
    family = FAMILY * 200
    signs = build_native_quote(family, 0, len(family), ())
    assert signs is not None and count_utf16_units(signs.text) <= MAX_QUOTE_LENGTH
    assert signs.text == FAMILY * (len(signs.text) // 7)
