"""Questions about posts of an author, an origin, a kind or a file, through the whole of `answer`."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from faulty_indexes import Compass

from rag_core.answer import answer_question
from rag_core.index.vector_store import VectorPoint
from rag_core.index.vectors_edge import open_vector_store
from rag_core.models.active_models import DenseIndex
from rag_core.models.catalog import find_models
from rag_core.planning.plan import plan_by_rules
from rag_core.planning.queries import parse_filters, sanitize_query
from rag_core.retrieval.search import resolve_filter
from rag_core.types import Channel, Kind, Media, Origin, Plan, PostKey, Question, SearchFilter, Viewer

PHOTO, FILE = Media("photo"), Media("document", "Прайс_лист 2025.pdf", "application/pdf")


@pytest.fixture
async def news(empty_library, make_post):
    """Posts that say nearly the same, so that only their author, origin, kind or file tells them apart."""
    key = {"chat": empty_library.harbour}
    price = "Билет на паром стоит"
    await empty_library.keep(
        make_post(1, f"{price} десять евро.", author="Анна Смирнова", **key),
        make_post(2, f"{price} двадцать евро.", days=1, author="Пётр Иванов", **key),
        make_post(3, f"{price} тридцать евро.", days=2, origin=Origin("РБК", -100777), **key),
        make_post(4, f"{price} сорок евро.", days=3, media=PHOTO, **key),
        make_post(5, f"{price} пятьдесят евро.", days=4, media=FILE, **key),
        make_post(6, f"{price} шестьдесят евро.", days=5, media=Media("poll"), **key),
        make_post(7, "The engine of the ferry has a new pump.", days=6, author="Kate O'Hara", **key),
        make_post(8, "Глазурь стоит сто евро.", days=7, chat=empty_library.safe, author="Анна Смирнова"),
        make_post(9, "Билет на паром стоит миллион.", days=8, chat=empty_library.safe, author="Мария Казначеева"),
    )
    return empty_library


def numbers(answer):
    return [key.message_id for key in answer.posts()]


async def test_what_a_post_is_beside_its_text_chooses_among_posts(news):
    for question, number in (
        ("Сколько стоит билет на паром в посте автора Анна Смирнова?", 1),
        ("Сколько стоит билет на паром? автор: Смирнова", 1),
        ("сколько стоит билет на паром в посте за подписью иванова", 2),
        ("Сколько стоит билет на паром? Переслано из РБК", 3),
        ("Сколько стоит билет на паром в пересланном сообщении из «РБК»?", 3),
        ("Сколько стоит билет на паром в посте с фото?", 4),
        ("Сколько стоит билет на паром по файлу «прайс лист 2025.pdf»?", 5),
        ("Сколько стоит билет на паром в посте с опросом?", 6),
        ("Which new pump does the ferry engine have in posts by Kate?", 7),
    ):
        answer = await news.ask(question, lang="ru")
        assert numbers(answer) == [number], (question, news.runs[-1].spans)
        assert answer.shortfalls == ()
        assert {source.passage.key.message_id for source in answer.found} == {number}, question


PRICE = "Сколько стоит билет на паром"


async def test_where_no_post_is_such_the_answer_is_a_refusal_and_nothing_is_offered(news):
    for question in (
        f"{PRICE} в посте автора Достоевский?",
        f"{PRICE} в посте автора Мария Казначеева?",  # who writes in a channel that is closed to the asker
        f"{PRICE}? Переслано из «Известий»",
        f"{PRICE}? Переслано из @nobody_here",
        f"{PRICE} в файле отчет.pdf?",
        f"{PRICE} в посте с видео?",
        f"{PRICE} в посте автора Смирнова с фото?",  # each has posts, no post has both
        "Покажи посты с видео",
        "Сколько постов с видео про паром?",
    ):
        given = await news.ask(question, lang="ru")
        assert given.refused, question
        assert (given.nearest, given.found, given.shortfalls) == ((), (), ()), question
    of_closed = f"{PRICE} в посте автора Мария Казначеева?"
    assert (await news.ask(of_closed, see=(news.harbour, news.safe))).posts() == (PostKey(news.safe, 9),)


async def test_of_many_better_posts_the_one_that_is_meant_is_found(news, make_post):
    """The filter is inside the query: after the cut at 50 hits nothing would be left."""
    many = [make_post(n, f"{PRICE}? Билет на паром стоит {n} евро.", chat=news.harbour) for n in range(100, 300)]
    await news.keep(*many, make_post(300, "И ещё про билет на паром.", chat=news.harbour, media=Media("video")))
    given = await news.ask(f"{PRICE} в посте с видео?")
    assert {source.passage.key.message_id for source in given.found} == {300}


async def test_filters_bound_counts_and_lists_of_posts_too(news, make_post):
    more = [make_post(n, f"Паром номер {n} ушёл.", chat=news.harbour, days=n, media=PHOTO) for n in (50, 51)]
    await news.keep(*more)

    async def told(question):
        return (await news.ask(question, lang="ru")).sentences[0].text.replace("\u202f", " ")

    assert (await told("Сколько постов с фото про паром?")).startswith("3 поста")
    assert (await told("Сколько постов про паром?")).startswith("8 постов")
    shown = await news.ask("Покажи посты с фото", lang="ru")
    assert set(numbers(shown)) == {4, 50, 51}
    assert set(numbers(await news.ask("Что переслано из РБК в марте 2025?"))) == {3}
    assert (await news.ask("Что переслано из РБК в апреле 2025?")).refused


async def test_an_album_is_found_by_the_file_of_any_of_its_posts(news, make_post):
    await news.keep(
        make_post(70, "Расписание зимних катеров утверждено.", chat=news.harbour, media=PHOTO, album="a"),
        make_post(71, "", chat=news.harbour, media=Media("document", "катера.xlsx"), album="a"),
    )
    assert numbers(await news.ask("Что утверждено в расписании зимних катеров в файле катера.xlsx?")) == [70]


async def test_a_forward_is_found_by_the_username_that_its_channel_has_now(news, make_post):
    origin = Origin("Old Name of the Kiln", news.kiln, 7)
    await news.keep(make_post(80, "Глазурь сохнет два дня.", chat=news.harbour, origin=origin))
    given = await news.ask("Сколько сохнет глазурь? Переслано из @pech_i_glina", lang="ru")
    assert numbers(given) == [80]


async def with_vectors(news, folder):
    store = await open_vector_store(folder, model="tiny", dimension=2)
    places = news.rag.lexical.all_of(SearchFilter(frozenset({news.harbour})))
    day = datetime(2025, 3, 1, tzinfo=UTC)
    await store.upsert([VectorPoint(p, day, "ru", str(p), np.array([1, n], np.float32)) for n, p in enumerate(places)])
    dense = DenseIndex(find_models("tiny")[0], Compass(), store)
    return replace(news.rag, dense=dense)


async def test_the_filter_is_inside_the_search_by_meaning_too(news, tmp_path, monkeypatch):
    rag = await with_vectors(news, tmp_path / "vectors")
    question = news.question("Сколько сейчас стоит один билет на большой паром в посте с фото?")
    try:
        given = await answer_question(question, rag)
        assert [(s.passage.key.message_id, s.leg) for s in given.found] == [(4, "both")]
        assert given.shortfalls == ()
        monkeypatch.setattr("rag_core.index.vector_store.MAX_FILTER_POSTS", 0)
        wide = replace(rag)  # with caches of its own
        given = await answer_question(question, wide)
        assert [(s.passage.key.message_id, s.leg) for s in given.found] == [(4, "lexical")]
        assert [s.stage for s in given.shortfalls] == ["dense"]
        assert "searched by words only" in given.shortfalls[0].reason
    finally:
        await rag.dense.vectors.close()


async def test_what_a_plan_names_becomes_single_posts(news):
    viewer = Viewer(1, frozenset({news.harbour, news.safe}))

    async def posts(**named):
        keys = (await resolve_filter(Plan(("a",), **named), viewer, news.rag)).keys
        return {int(number) for ids in keys.by_chat.values() for number in ids}

    assert await posts(authors=("Смирнова",)) == {1, 8}
    assert await posts(authors=("смирновой", "Иванов")) == {1, 2, 8}
    assert await posts(authors=("Смирнова",), channels=frozenset({news.harbour})) == {1}
    assert await posts(media=("photo", "poll")) == {4, 6}
    assert await posts(media=("document",), files=("прайс лист 2025.pdf",)) == {5}
    assert await posts(media=("photo",), authors=("Смирнова",)) == set()
    assert await resolve_filter(Plan(("a",)), viewer, news.rag) == SearchFilter(viewer.channels)


H = -1
KNOWN = {H: Channel(H, "Harbour News", "harbour_news")}


def planned(text):
    return plan_by_rules(Question(text, "ru", datetime(2026, 1, 15, tzinfo=UTC), Viewer(1, frozenset({H}))), KNOWN)


@pytest.mark.parametrize(
    ("text", "said", "asked"),
    [
        ("Что в постах автора Анны Смирновой про паром?", {"authors": ("Анны Смирновой",)}, "Что в про паром?"),
        ("Посты за подписью петрова о мосте", {"authors": ("петрова",)}, "о мосте"),
        ("автор: Анна паром", {"authors": ("Анна",)}, "паром"),
        ("Do posts by Anna Smith speak about the ferry?", {"authors": ("Anna Smith",)}, "Do speak about the ferry?"),
        ("posts signed by anna about ferry", {"authors": ("anna",)}, "about ferry"),
        ("Переслано из «Новой газеты» о выборах", {"origins": ("Новой газеты",)}, "о выборах"),
        ("Репосты из РБК про ставку", {"origins": ("РБК",)}, "про ставку"),
        ("Сообщения, пересланные из Медузы, о погоде", {"origins": ("Медузы",)}, "о погоде"),
        ("Forwarded posts from The Moscow Times about rates", {"origins": ("Moscow Times",)}, "about rates"),
        ("What was forwarded from @harbour_news about rates", {"origins": ("@harbour_news",)}, "about rates"),
        ("Что сказано в файле прайс.pdf про глазурь?", {"files": ("прайс.pdf",)}, "Что сказано в про глазурь?"),
        ("Цена глазури, документ «прайс лист.xlsx»", {"files": ("прайс лист.xlsx",)}, "Цена глазури"),
        ("What does annual-report_2024.pdf say about the pump?", {"files": ("annual-report_2024.pdf",)}, None),
        ("Что в файле setup.cfg про паром?", {"files": ("setup.cfg",)}, None),
        ("Посты с фото маяка", {"media": ("photo",)}, "маяка"),
        ("Найди видео про маяк", {"media": ("video",)}, "про маяк"),
        ("В каком сообщении с документом пишут о маяке?", {"media": ("document",)}, None),
        ("Find polls about the ferry", {"media": ("poll",)}, "about the ferry"),
        ("Photo posts about the ferry", {"media": ("photo",)}, "about the ferry"),
        ("Posts about the ferry with photos?", {"media": ("photo",)}, "Posts about the ferry ?"),
        ("Посты с видео автора Пётр про мост. Файл план.pdf", {"media": ("video",), "files": ("план.pdf",)}, None),
    ],
)  # fmt: skip
def test_what_is_said_of_posts_beside_their_text_is_known_and_not_searched_for(text, said, asked):
    for form in (text, text.replace("е", "ё") if "Пётр" in text else text):
        plan = planned(form)
        assert {
            name: getattr(plan, name) for name in ("authors", "origins", "media", "files") if getattr(plan, name)
        } == said
        assert plan.channels is None
    if asked is not None:
        assert plan.queries[0] == asked
        if plan.kind is Kind.NEWS:  # of posts about something only the topic is searched for
            assert plan.asked
            assert asked.lower().rstrip(" ?").endswith(plan.asked.lower())
        else:
            assert plan.asked == asked


def list_filtered(files):
    """The questions of some sets that are read as a filter, of a thousand at least."""
    rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
    texts = [sanitize_query(row["text"]).replace("ё", "е") for row in rows]
    assert len(texts) > 1000
    return [text for text in texts for form in (text, text.lower()) if parse_filters(form, KNOWN).words]


def test_ordinary_questions_of_an_encyclopedia_say_no_filter(shared_data):
    sets = ("xquad", "rubq", "hotpotqa_100", "musique_100")
    assert list_filtered([shared_data / name / "queries.jsonl" for name in sets]) == []


def test_questions_of_people_say_no_filter(root):
    files = (root / "tests" / "data").rglob("queries.jsonl")  # but for the 30,000 of "reading" and what nobody reads
    assert list_filtered([one for one in files if not {"reading", "sealed48", "validation7"} & {*one.parts}]) == []
