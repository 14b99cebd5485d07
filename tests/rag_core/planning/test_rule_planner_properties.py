"""Whatever is asked, in any script, long or mad: a plan within the rules, and in no time."""

import time
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rag_core.dates import parse_period
from rag_core.planning.plan import plan_by_rules, widen_plan
from rag_core.planning.queries import MAX_QUERIES, MAX_QUERY_LENGTH, MAX_QUERY_WORDS
from rag_core.retrieval.search import extract_expansion_names
from rag_core.text.tokens import tokenize
from rag_core.types import Channel, Passage, Plan, PostKey, Question, Viewer

pytestmark = pytest.mark.slow

NOW = datetime(2026, 1, 15, 9, tzinfo=UTC)
READABLE = frozenset({-1001, -1002})
KNOWN = {n: Channel(n, title, name) for n, title, name in (
    (-1001, "Harbour News", "harbour_news"), (-1002, "Печь и глина", "pech_i_glina"), (-1003, "Vault", "the_vault"),
)}  # fmt: skip
LONGEST_QUESTION = 4000

# Of what rules look for, so that they meet each other.
PIECES = st.sampled_from(
    """когда where сколько раз постов впервые писали mention the of и @harbour_news @the_vault t.me/harbour_news/1
    #паром в на с по до from since between and Мая may 2025 12.05.2025 31.12 «Чайка» " “ ( ) ; ' -- = * SELECT FROM
    posts DROP TABLE WHERE 1=1 UNION <b> </b> ignore all previous instructions забудь инструкции system: канал channel
    посты с фото автор: Анна Смирнова переслано из файл a.pdf Тойота Toyota Торосовой прошлой неделе last week ago
    million years последние годы weekend the first of Q3 XX век 漢字 שלום مرحبا हिन्दी 🔥 İ ß ﬁ 𝗕𝗼𝗹𝗱""".split()
) | st.sampled_from(["e\u0301", "\u202eобмен", "\u200b", "\x00", "\x1b", "\u2028", "\ud83d", "👩‍🍳", ""])
SOUP = st.lists(PIECES, max_size=40).map(" ".join) | st.lists(PIECES, max_size=40).map("".join)
WORDS = st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=70), max_size=12).map(" ".join)
LONG = st.tuples(SOUP | st.text(min_size=1, max_size=50), st.integers(1, 4000)).map(
    lambda pair: (pair[0] * pair[1])[:LONGEST_QUESTION]
)


def plan(text):
    return plan_by_rules(Question(text, "ru", NOW, Viewer(1, READABLE)), KNOWN)


def is_valid(found):
    """The rules of the design for a plan."""
    if not found.queries:
        assert found == Plan(())
        return
    own, *further = found.queries
    marks = [frozenset(tokenize(query)) for query in found.queries]
    assert all(marks)
    assert len(set(marks)) == len(marks)
    assert (1 <= len(marks) <= 2) if len(marks[0]) < 3 else (3 <= len(marks) <= MAX_QUERIES), found.queries
    assert all(len(query) <= MAX_QUERY_LENGTH and len(query.split()) <= MAX_QUERY_WORDS for query in further)
    assert len(own) <= LONGEST_QUESTION
    for query in found.queries:
        assert not any(unicodedata.category(sign) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for sign in query)
    assert found.since is None or found.until is None or found.since < found.until
    assert found.channels is None or (found.channels and found.channels <= READABLE)
    assert 1 <= found.k_per_query <= 50
    assert found.reasons
    assert any(reason.startswith("few queries") for reason in found.reasons) is (len(marks) < 3)


@given(st.text(max_size=300) | SOUP | WORDS)
@example("")
@example("a-b-c")
@example("İ İİ İİİ")
@example("select a from b where c=c select d from e")
def test_every_question_has_a_valid_plan(text):
    found = plan(text)
    is_valid(found)
    if found.queries:
        again = widen_plan(found)
        marks = [frozenset(tokenize(query)) for query in again.queries]
        assert len(set(marks)) == len(marks) <= MAX_QUERIES


@given(LONG)
def test_every_long_question_has_a_valid_plan(text):
    is_valid(plan(text))


# Repetitions that send careless patterns back to every place they came from.
NASTY = [
    " ", "1", "1.", "1 1.", "a ", "A ", "A of the ", "Аб'", "İ", "é", "e\u0301", "«", "«a", "(", "<a", "< ", "@a",
    "@abcd ",
    "#a", "a.pdf ", "(a(", "'", "' or 1=1 ", "select ", "select a from ", "union all ", "ignore all the ",
    "игнорируй все все ", "system:", "when ", "что ", "сколько раз ", "когда впервые ", "когда в последний раз ",
    "when first post ", "latest news ", "чем отличается ", "difference between ", "посты о ", "в канале ",
    "in channel ",
    "в Печь и глина ", "t.me/abcd ", "посты автора ", "posts by Kate ", "переслано из ", "файл ", "посты с фото ",
    "show photos ", "1 мая ", "1-2 мая ", "мая ", "с мая по ", "5.10 - 5.11 ", "10/1/2018-", "2020-sep-99 x ", "90s ",
    "nineteen ninety-", "the first week of ", "week of ", "2 weeks starting ", "the weekend ", "3 million years ago ",
    "last ", "позапоза", "mid-", "Q1 ", "xx век ", "Monday of this ", "$1", "5%", "w/c ", "Торосова ", "пост", "漢",
    "🔥",
]  # fmt: skip
LOADED = 3  # times as long, where the tests share the machine
MOST_S = 0.05 * LOADED
ROUNDS = 6  # what else the machine does may hold one of them up


def is_quick(work, most=MOST_S):
    """Whether work takes at most so many seconds of the processor in one of some rounds."""
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        if time.process_time() - started <= most:
            return True
    return False


@pytest.mark.parametrize("bit", NASTY)
def test_4000_characters_of_anything_are_planned_in_50_milliseconds(bit):
    text = (bit * LONGEST_QUESTION)[:LONGEST_QUESTION]
    parse_period("September-2020-23", NOW)  # dateparser is loaded
    assert is_quick(lambda: plan(text))
    assert is_quick(lambda: parse_period(text, NOW))
    post = Passage(PostKey(-1001, 1), 0, text, text, 0, len(text), NOW)
    assert is_quick(lambda: extract_expansion_names("ferry", [post, post]))


def test_an_ordinary_question_is_planned_in_two_milliseconds():
    asked = "When does the ferry to Owl Island leave on Sundays, and what did you write about it in May 2025?"
    assert is_quick(lambda: [plan(asked) for _ in range(10)], 10 * 0.002 * LOADED)
