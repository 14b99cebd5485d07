import ast
import json
import logging
import shutil
import textwrap
from types import FunctionType

import pytest

import rag_core
from rag_core.engine import open_engine
from rag_core.errors import ArchiveUnavailable
from rag_core.settings import RagSettings


async def test_a_fresh_folder_opens_empty(tmp_path):
    async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path / "new"}})) as rag:
        assert (len(rag.lexical), rag.lexical.watermark) == (0, 0)


async def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveUnavailable, match="cannot be opened"):
        async with open_engine(RagSettings.model_validate({"data": {"dir": tmp_path / "file"}})):
            pass


async def test_the_example_of_the_package_answers(library, tmp_path, monkeypatch, capsys):
    await library.indexer.save()
    monkeypatch.chdir(tmp_path)  # the library is in data/, the default of the settings
    example = textwrap.dedent((rag_core.__doc__ or "").partition(":\n\n")[2])
    await FunctionType(compile(example, "example", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), {})()
    said = capsys.readouterr().out
    assert "leaves at 7:30" in said
    assert "https://t.me/harbour_news/1" in said


async def saved(open_library, folder, make_post, *numbers, word="ferry"):
    async with open_library(folder) as library:
        await library.keep(*(make_post(n, f"The {word} {n}.", chat=library.harbour) for n in numbers))
        await library.indexer.save()


async def test_the_saved_index_is_loaded_where_it_was_made(open_library, tmp_path, make_post):
    await saved(open_library, tmp_path / "one", make_post, 1, 2, 3)
    async with open_library(tmp_path / "one") as library:
        assert (len(library.rag.lexical), library.rag.lexical.watermark) == (3, 3)


async def test_the_index_of_another_archive_is_not_loaded(open_library, tmp_path, make_post):
    """Somebody puts another citegram.db into the folder, with more posts than the index knows."""
    one, other = tmp_path / "one", tmp_path / "other"
    await saved(open_library, one, make_post, 1, 2, 3)
    await saved(open_library, other, make_post, *range(10, 20), word="tram")
    for file in one.glob("citegram.db*"):
        file.unlink()
    shutil.copy(other / "citegram.db", one)
    async with open_library(one) as library:
        assert len(library.rag.lexical) == 0
        assert await library.indexer.catch_up() == 10
        assert (await library.ask("Where is the ferry?")).refused
        assert not (await library.ask("Where is the tram 12?")).refused


async def test_an_index_that_knows_more_than_the_archive_is_not_loaded(open_library, tmp_path, make_post, caplog):
    """The archive was put back from a backup: its next posts get numbers that the index takes for old."""
    folder, backup = tmp_path / "data", tmp_path / "backup.db"
    await saved(open_library, folder, make_post, 1, 2)
    shutil.copy(folder / "citegram.db", backup)
    await saved(open_library, folder, make_post, 3, 4)
    for file in folder.glob("citegram.db*"):
        file.unlink()
    shutil.copy(backup, folder / "citegram.db")
    caplog.set_level(logging.INFO)
    async with open_library(folder) as library:
        assert "built anew" in caplog.text
        await library.keep(make_post(7, "A tram.", chat=library.harbour), make_post(8, "A bus.", chat=library.harbour))
        assert len(library.rag.lexical) == 4
        assert not (await library.ask("tram")).refused


async def test_an_index_that_does_not_say_of_which_archive_it_is_is_made_anew(open_library, tmp_path, make_post):
    await saved(open_library, tmp_path, make_post, 1, 2)
    file = tmp_path / "lexical" / "current.json"
    about = json.loads(file.read_text())
    del about["archive"]
    file.write_text(json.dumps(about))
    async with open_library(tmp_path) as library:
        assert len(library.rag.lexical) == 0
        assert await library.indexer.catch_up() == 2
