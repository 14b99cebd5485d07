from __future__ import annotations

import ast
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from aiogram.utils.formatting import Bold
from fluent.syntax import FluentParser
from fluent.syntax import ast as ftl
from fluent.syntax.visitor import Visitor

from bot.words import LANGUAGES, interface_language, question_language, words_for

BOT = Path(__file__).parents[2] / "bot"


class Names(Visitor):
    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_VariableReference(self, node: ftl.VariableReference) -> None:  # noqa: N802
        self.found.add(node.id.name)


def sentences(lang: str) -> dict[str, set[str]]:
    """Id -> names of its values."""
    resource = FluentParser().parse((BOT / "locales" / f"{lang}.ftl").read_text("utf-8"))
    assert not [entry for entry in resource.body if isinstance(entry, ftl.Junk)]
    found = {}
    for entry in resource.body:
        if isinstance(entry, ftl.Message):
            assert entry.id.name not in found, f"{entry.id.name} is there twice"
            names = Names()
            names.visit(entry)
            found[entry.id.name] = names.found
    return found


def asked_for() -> dict[str, set[str]]:
    """Id -> names of the values the code gives, from every words("id", name=...) and words.rich("id", ...)."""
    found: dict[str, set[str]] = {}
    for file in BOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            called = ast.unparse(node.func)
            if called.split(".")[-1] in {"words", "rich"} or called == "self":
                found.setdefault(str(node.args[0].value), set()).update(k.arg or "" for k in node.keywords)
    return found


def constants() -> set[str]:
    trees = (ast.parse(file.read_text("utf-8")) for file in BOT.rglob("*.py"))
    return {n.value for t in trees for n in ast.walk(t) if isinstance(n, ast.Constant) and isinstance(n.value, str)}


def test_both_languages_say_the_same_things_about_the_same_values() -> None:
    assert sentences("ru") == sentences("en")


def test_every_sentence_is_used() -> None:
    assert set(sentences("en")) - constants() == set()


def test_the_code_asks_only_for_sentences_there_are_with_their_values() -> None:
    known, asked = sentences("en"), asked_for()
    assert len(asked) > 30
    for name, given in asked.items():
        assert name in known, name
        assert known[name] <= given, name


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_sentence_can_be_said(lang: str, caplog: pytest.LogCaptureFixture) -> None:
    for name, values in sentences(lang).items():
        said = words_for(lang)(name, **dict.fromkeys(values, 5))
        assert said.strip()
        assert "{" not in said
    assert not caplog.records


def test_counts_have_their_plural_forms() -> None:
    counts = [words_for("ru")("channel-posts", count=n) for n in (1, 2, 5, 21, 1000)]
    assert counts == ["1 пост", "2 поста", "5 постов", "21 пост", "1\xa0000 постов"]
    assert [words_for("en")("channel-posts", count=n) for n in (0, 1, 2)] == ["0 posts", "1 post", "2 posts"]


def test_a_day_is_said_in_the_readers_language_and_time_zone() -> None:
    late = datetime(2024, 3, 11, 22, 30, tzinfo=UTC)
    assert words_for("ru").date(late, ZoneInfo("Europe/Moscow")) == "12 марта 2024"
    assert words_for("en").date(late, UTC) == "11 March 2024"


def test_formatted_values_keep_their_formatting_wherever_the_sentence_puts_them() -> None:
    said = words_for("en").rich("bind-done", title=Bold("A 🦉, B"))
    text, entities = said.render()
    assert text == "Bound: everyone in this group can now ask about A 🦉, B."
    assert [(e.type, e.extract_from(text)) for e in entities] == [("bold", "A 🦉, B")]


def test_a_value_cannot_forge_a_formatted_place() -> None:
    text, _ = words_for("en").rich("bind-unknown", name="\ue0007\ue001", channels="/channels").render()
    assert text.startswith("I do not know the channel 7.")


def test_an_unknown_sentence_is_a_bug() -> None:
    with pytest.raises(LookupError):
        words_for("en")("no-such-sentence")


@pytest.mark.parametrize(
    ("text", "lang"),
    [
        ("когда открывается запись?", "ru"),
        ("when does registration open?", "en"),
        ("когда концерт Golden Gate Quartet?", "ru"),
        ("what did Ivan (Иван) say about the harbour?", "en"),
        ("2024?", "ru"),
    ],
)
def test_the_answer_has_the_language_of_the_question(text: str, lang: str) -> None:
    assert question_language(text, "ru") == lang


@pytest.mark.parametrize(("code", "lang"), [("ru", "ru"), ("ru-RU", "ru"), ("en", "en"), ("de", "en"), (None, "ru")])
def test_menus_have_the_language_of_the_reader(code: str | None, lang: str) -> None:
    assert interface_language(code, "ru") == lang
