import ast
import re
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from aiogram.utils.formatting import Bold
from fluent.syntax import FluentParser
from fluent.syntax import ast as ftl
from fluent.syntax.visitor import Visitor

from bot.i18n import LANGUAGES, get_translator
from rag_core.errors import ArchiveUnavailable, RagError

BOT = Path(__file__).parents[2] / "bot"
PACKAGES = (BOT, BOT.parent / "rag_core", BOT.parent / "ingest")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def nodes(file):
    """Calls, literals and what may have a docstring: what is looked for."""
    wanted = (ast.Call, ast.Constant, *_DOCUMENTED)
    return [node for node in ast.walk(ast.parse(file.read_text("utf-8"))) if isinstance(node, wanted)]


def nodes_where(pattern, *folders):
    """Those of the files in which the pattern stands: to parse all takes a second."""
    files = (file for folder in folders for file in folder.rglob("*.py"))
    return (node for file in files if re.search(pattern, file.read_text("utf-8")) for node in nodes(file))


class Names(Visitor):
    def __init__(self):
        self.found = set()

    def visit_VariableReference(self, node):  # noqa: N802
        self.found.add(node.id.name)


@cache
def parse_sentences(lang):
    return FluentParser().parse((BOT / "locales" / f"{lang}.ftl").read_text("utf-8"))


@cache
def sentences(lang):
    """Id -> names of its values."""
    resource = parse_sentences(lang)
    assert not [entry for entry in resource.body if isinstance(entry, ftl.Junk)]
    found = {}
    for entry in resource.body:
        if isinstance(entry, ftl.Message):
            assert entry.id.name not in found, f"{entry.id.name} is there twice"
            names = Names()
            names.visit(entry)
            found[entry.id.name] = names.found
    return found


def asked_for():
    """Id -> names of the values the code gives, from every words("id", name=...) and words.rich("id", ...)."""
    found = {}
    for call in nodes_where("", BOT):
        if isinstance(call, ast.Call) and call.args and isinstance(call.args[0], ast.Constant):
            called = ast.unparse(call.func)
            if called.split(".")[-1] in {"words", "rich"} or called == "self":
                found.setdefault(str(call.args[0].value), set()).update(k.arg or "" for k in call.keywords)
    return found


def test_both_languages_say_the_same_things_about_the_same_values():
    assert sentences("ru") == sentences("en")


def test_every_sentence_is_used():
    unused = set(sentences("en"))
    for folder in PACKAGES:
        found = nodes_where(f'"({"|".join(unused)})"', folder)
        unused -= {node.value for node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert unused == set()


def test_every_code_of_an_error_has_a_sentence_with_its_values():
    known = sentences("en")
    coded = 0
    for call in nodes_where(r"\bcode=", *PACKAGES):
        if not isinstance(call, ast.Call):
            continue
        given = {k.arg: k.value for k in call.keywords}
        code = given.get("code")
        if isinstance(code, ast.Constant) and isinstance(code.value, str) and code.value:
            coded += 1
            from_bot = {"file", "example", "command", "said"} | (known[code.value] if None in given else set())
            from_bot |= {"title"} if ast.unparse(call.func) == "note" else set()  # a partial of an export's notes
            assert known[code.value] <= {*given, *from_bot}, code.value
    assert coded > 30


def test_the_code_asks_only_for_sentences_there_are_with_their_values():
    known, asked = sentences("en"), asked_for()
    assert len(asked) > 30
    for name, given in asked.items():
        assert name in known, name
        assert known[name] <= given, name


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_sentence_can_be_said(lang, caplog):
    for name, values in sentences(lang).items():
        said = get_translator(lang)(name, **dict.fromkeys(values, 5))
        assert said.strip()
        assert "{" not in said
    assert not caplog.records


def test_a_day_is_said_in_the_readers_language_and_time_zone():
    late = datetime(2024, 3, 11, 22, 30, tzinfo=UTC)
    assert get_translator("ru").date(late, ZoneInfo("Europe/Moscow")) == "12 марта 2024"
    assert get_translator("en").date(late, UTC) == "11 March 2024"


def test_formatted_values_keep_their_formatting_wherever_the_sentence_puts_them():
    said = get_translator("en").rich("bind-done", title=Bold("A 🦉, B"))
    text, entities = said.render()
    assert text == "Done: everyone in this group can now ask about A 🦉, B."
    assert [(e.type, e.extract_from(text)) for e in entities] == [("bold", "A 🦉, B")]


def test_a_value_cannot_forge_a_formatted_place():
    text, _ = get_translator("en").rich("bind-unknown", name="\ue0007\ue001", channels="/channels").render()
    assert text.startswith("I do not know the channel 7.")


def selectors(lang):
    """Id -> the plural forms of each of its choices that has any."""
    forms = {}

    class Choices(Visitor):
        name = ""

        def visit_Message(self, node):  # noqa: N802
            self.name = node.id.name
            self.generic_visit(node)

        def visit_SelectExpression(self, node):  # noqa: N802
            keys = {str(getattr(v.key, "name", "") or getattr(v.key, "value", "")) for v in node.variants}
            if keys & {"one", "few", "many"}:
                forms.setdefault(self.name, set()).update(keys)
            self.generic_visit(node)

    Choices().visit(parse_sentences(lang))
    return forms


# Russian says these alike for 2 and for 5: "из 2 постов", "из 5 постов".
ALIKE = {"reindex-progress"}


def test_what_is_counted_has_all_plural_forms_of_its_language():
    english, russian = selectors("en"), selectors("ru")
    assert len(english) > 20
    assert {name for name, forms in english.items() if not {"one", "other"} <= forms} == set()
    assert {name for name, forms in russian.items() if not {"one", "few", "many"} <= forms} <= ALIKE


def test_the_reason_of_an_error_is_said_in_the_readers_language():
    exc = ArchiveUnavailable("The archive {file} is locked.", code="archive-locked", file=Path("/srv/citegram.db"))
    assert exc.reason == "The archive /srv/citegram.db is locked."
    assert get_translator("ru").error(exc) == (
        "Архив /srv/citegram.db занят другой программой: закройте её и попробуйте ещё раз."
    )
    assert get_translator("ru").error(RagError("Only logs see {this}.")) == "Only logs see {this}."
