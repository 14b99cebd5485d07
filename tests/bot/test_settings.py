import re
import runpy
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from bot.__main__ import main
from bot.settings import Settings, is_desktop, read_settings
from rag_core.errors import SettingsWrong
from rag_core.settings import RagSettings

EXAMPLE = Path(__file__).parents[2] / ".env.example"
SECTIONS = {name: field.annotation for name, field in Settings.model_fields.items()}


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch):
    import os

    for name in list(os.environ):
        if name.partition("__")[0].lower() in SECTIONS:
            monkeypatch.delenv(name)


def test_the_example_shows_defaults_of_settings_that_exist(tmp_path):
    lines = re.findall(r"^# ([A-Z]+__[A-Z_]+=.*)$", EXAMPLE.read_text("utf-8"), re.MULTILINE)
    (tmp_path / ".env").write_text("\n".join(lines), "utf-8")
    assert len(lines) > 20
    assert Settings().rag() == RagSettings()
    assert read_settings(tmp_path / ".env") == read_settings(EXAMPLE) == Settings()


def test_the_page_of_settings_is_made_from_the_code(root):
    """After a change: .venv/bin/python deploy/write_settings_page.py."""
    page = runpy.run_path(str(root / "deploy" / "write_settings_page.py"))
    assert page["PAGE"].read_text("utf-8") == page["format_page"]()


def test_settings_are_shown_beside_a_wrong_env_file_and_as_lines_of_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    file = Path(".env")
    file.write_text("BOT__ADMINS=@me\n", "utf-8")
    with pytest.raises(SystemExit) as ended:
        main(["--settings"])
    assert not ended.value.code
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert "BOT__TIMEZONE=UTC" in lines
    assert len(lines) > 60
    file.write_text("\n".join(lines), "utf-8")
    assert read_settings(file).model_dump() == Settings().model_dump()


def test_the_environment_wins_over_the_file(tmp_path, monkeypatch):
    (tmp_path / ".env").write_text("BOT__ADMINS=1\nANSWER__SECONDS=7\nUNRELATED=x\n", "utf-8")
    monkeypatch.setenv("BOT__ADMINS", "2, 3")
    settings = read_settings(tmp_path / ".env", data_dir=Path("elsewhere"))
    assert settings.bot.admins == (2, 3)
    assert settings.rag().question_s == 7
    assert settings.rag().data.dir == Path("elsewhere")


def test_a_folder_below_home_is_no_folder_named_tilde(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".env").write_text("DATA__DIR=~/citegram\nMODELS__DIR=~\n", "utf-8")
    settings = read_settings(tmp_path / ".env")
    assert (settings.data.dir, settings.models.dir) == (tmp_path / "citegram", tmp_path)
    monkeypatch.setenv("DATA__DIR", "~nobody-of-this-name/citegram")
    with pytest.raises(SettingsWrong, match="DATA__DIR cannot be used: the home folder"):
        read_settings(tmp_path / ".env")


def test_a_time_zone_is_found_by_its_name(monkeypatch):
    monkeypatch.setenv("BOT__TIMEZONE", "Europe/Moscow")
    assert read_settings(None).bot.zone == ZoneInfo("Europe/Moscow")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BOT__TOKN", "1:secret"),
        ("BOT__ADMIN", "12"),
        ("BOT__ADMINS", "@me"),
        ("BOT__TIMEZONE", "Moscow/Europe"),
        ("BOT__TIMEZONE", "../../etc/passwd"),
        ("BOT__LANGUAGE", "de"),
        ("BOT__API", "api.telegram.org"),
        ("ANSWER__SECONDS", "-1"),
        ("DATA__DIRECTORY", "x"),
    ],
)
def test_a_wrong_setting_is_one_sentence_that_names_it(monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    with pytest.raises(SettingsWrong) as caught:
        read_settings(None)
    assert name in caught.value.reason
    assert "\n" not in caught.value.reason
    assert "secret" not in caught.value.reason


@pytest.mark.parametrize(
    ("text", "line"), [("BOT__TOKEN 7:secret", 1), ("A=1\n\n# x\nBOT__TOKEN\nB=2", 4), ('A=1\nBOT__TOKEN="7:secret', 2)]
)
def test_a_line_of_the_file_without_a_value_is_one_sentence(tmp_path, text, line, caplog):
    (tmp_path / ".env").write_text(text)
    with pytest.raises(SettingsWrong, match=rf'^Line {line} of .*\.env has no "="') as caught:
        read_settings(tmp_path / ".env")
    assert "secret" not in caught.value.reason
    assert not caplog.records


def test_a_file_that_is_no_text_is_one_sentence(tmp_path):
    (tmp_path / ".env").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsWrong, match="settings cannot be read"):
        read_settings(tmp_path / ".env")


@pytest.mark.parametrize(
    "value", ["1 2", *"-1001234567 501,-1009 0 +5 1_0 １２３ 1e3 1;2 007 99999999999999999 1087968824 777000".split()]
)
def test_admins_are_people(monkeypatch, value):
    monkeypatch.setenv("BOT__ADMINS", value)
    with pytest.raises(SettingsWrong, match="numeric ids of people") as caught:
        read_settings(None)
    assert "BOT__ADMINS" in caught.value.reason
    assert "\n" not in caught.value.reason


@pytest.mark.parametrize(("value", "ids"), [(" 7 , 8 ", (7, 8)), ("7,8,", (7, 8)), ("42", (42,))])
def test_ids_of_people_are_taken_with_spaces_between(monkeypatch, value, ids):
    monkeypatch.setenv("BOT__ADMINS", value)
    assert read_settings(None).bot.admins == ids


@pytest.mark.parametrize(
    ("name", "meant"), [("BOT__ADMIN", " Did you mean BOT__ADMINS?"), ("RETRIEVAL__KEEP", ""), ("LLM__TWO_PASS", "")]
)
def test_of_an_unknown_setting_it_is_said_what_to_do(monkeypatch, name, meant):
    monkeypatch.setenv(name, "1")
    with pytest.raises(SettingsWrong) as caught:
        read_settings(None)
    assert caught.value.reason == (
        f"There is no setting {name}: take it out of .env or the environment.{meant} "
        "citegram --settings shows them all."
    )


def test_an_unknown_section_is_warned_of_once_as_it_may_be_of_another_program(tmp_path, monkeypatch, caplog):
    (tmp_path / ".env").write_text("BUDGETS__PLAN=50\n", "utf-8")
    monkeypatch.setenv("AIRFLOW__CORE__DAGS", "x")  # of another program: three parts
    read_settings(tmp_path / ".env")
    assert [line for line in caplog.messages if "no setting" in line] == [
        "There is no setting BUDGETS__PLAN: take it out of .env or the environment. citegram --settings shows them all."
    ]


@pytest.mark.parametrize(
    ("variables", "is_one"),
    [({"DISPLAY": ":0"}, True), ({"WAYLAND_DISPLAY": "wayland-0"}, True), ({}, False),
     ({"DISPLAY": "localhost:10.0", "SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"}, False)],
)  # fmt: skip
def test_a_browser_is_opened_on_a_desktop_alone(monkeypatch, variables, is_one):
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert is_desktop() == is_one
