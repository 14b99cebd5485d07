import shutil

import pytest

from rag_core import RagSettings, open_engine
from rag_core.engine import switch_model
from rag_core.errors import GenerationFailed, ModelUnavailable
from rag_core.llm.protocol import DecodingParams, Prompt, collect_generation
from rag_core.models.active_models import (
    apply_model_choices,
    find_gguf,
    find_speech_model,
    get_models_folder,
    list_models_in_use,
    open_writer,
    resolve_model_use,
    select_embedder,
)
from rag_core.models.catalog import find_models
from rag_core.settings import DataSettings, ModelSettings
from rag_core.storage import readers

pytestmark = pytest.mark.slow

SMALL, DEFAULT = "qwen3.5-0.8b", "qwen3-4b-instruct"


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "data"


def settings(folder, **sections):
    given = {"data": {"dir": folder}, "models": {"embedder": "none", "reranker": "none"}}
    return RagSettings.model_validate(given | sections)


@pytest.fixture
def pulled(folder, tiny_gguf):
    """Two models of the table, as if they had been pulled."""
    for name in (SMALL, DEFAULT):
        (folder / "models" / name).mkdir(parents=True)
        shutil.copy(tiny_gguf, folder / "models" / name / "model.gguf")
    return folder


async def reply(model):
    async with model.turn(1) as seat:
        return (await collect_generation(seat.stream(Prompt("", "a"), DecodingParams(8), grammar='root ::= "ok"'))).text


# what is chosen


def test_a_setting_goes_before_a_choice_and_a_choice_before_the_best(pulled):
    free, fixed = settings(pulled), settings(pulled, llm={"model": DEFAULT})
    assert list_models_in_use(free, {})["writer"] == DEFAULT
    assert list_models_in_use(free, {"writer": SMALL})["writer"] == SMALL
    assert list_models_in_use(fixed, {"writer": SMALL}) == {"writer": DEFAULT}
    assert list_models_in_use(free, {"writer": "none"}) == {}
    served = settings(pulled, llm={"url": "http://localhost:1"})
    assert list_models_in_use(served, {"writer": SMALL}) == {"writer": "LLM__URL"}
    assert apply_model_choices(free, {}) == free


def test_a_tier_means_its_writer_and_others_are_refused(pulled):
    found = find_gguf(settings(pulled), "default")
    assert found.name == DEFAULT
    assert find_gguf(settings(pulled), "none") is None
    with pytest.raises(ModelUnavailable, match="writes no text"):
        find_gguf(settings(pulled), "bge-m3")
    with pytest.raises(ModelUnavailable, match=r"models pull qwen3\.5-4b"):
        find_gguf(settings(pulled), "qwen3.5-4b")
    with pytest.raises(ModelUnavailable, match="no model and no tier"):
        find_gguf(settings(pulled), "gpt-9")


async def test_a_model_of_another_kind_is_refused(pulled):
    async with open_engine(settings(pulled, models={"embedder": "none"}), language=False) as rag:
        with pytest.raises(ModelUnavailable, match=f"{SMALL} is no reranker"):
            await switch_model(rag, SMALL, "reranker")


def test_auto_keeps_the_embedder_that_the_archive_has_vectors_of(folder):
    opened = settings(folder, models={"embedder": "auto", "reranker": "none"})
    assert select_embedder(opened) is None
    for name in ("minilm-navec", "e5-small-centred"):
        (row,) = find_models(name)
        for part in row.parts or (row,):
            place = folder / "models" / row.name / part.name if row.parts else folder / "models" / row.name
            place.mkdir(parents=True)
            for file in ("model.onnx", "tokenizer.json", "tokenizer_config.json"):
                (place / file).touch()
    best = select_embedder(opened)
    assert best.name == "e5-small-centred"
    kept = select_embedder(opened, "minilm-navec")
    assert kept.name == "minilm-navec" == list_models_in_use(opened, {}, "minilm-navec")["embedder"]
    asked = select_embedder(settings(folder, models={"embedder": "e5-small-centred"}))
    assert asked.name == "e5-small-centred"


async def test_the_speech_model_is_the_one_that_is_named_or_the_best_that_is_here(folder):
    async def find(choice="auto", setting="auto"):
        async with open_engine(settings(folder, models={"embedder": "none", "speech": setting}), language=False) as rag:
            await readers.save_choice(rag.archive, "speech", choice)
            found = await find_speech_model(rag.settings, rag.archive)
            assert found is None or found.parent == folder / "models"
            return found.name if found else ""

    assert await find() == ""
    for name in ("whisper-small", "whisper-base"):
        place = folder / "models" / name
        place.mkdir(parents=True)
        for file in ("model.bin", "config.json", "tokenizer.json", "vocabulary.txt"):
            (place / file).touch()
    assert await find() == "whisper-small"
    assert await find("whisper-base") == "whisper-base"
    assert await find("whisper-base", "none") == await find("whisper-base", "bge-m3") == ""
    # without it the library would ask a hub for one
    (folder / "models" / "whisper-small" / "tokenizer.json").unlink()
    assert await find() == "whisper-base"


async def test_another_speech_model_is_chosen_without_a_restart(folder):
    async with open_engine(settings(folder), language=False) as rag:
        with pytest.raises(ModelUnavailable, match="models pull whisper-base"):
            await switch_model(rag, "whisper-base")
        assert (await switch_model(rag, "none", "speech")).now
        assert await readers.load_choices(rag.archive) == {"speech": "none"}


def test_the_demo_in_a_data_folder_finds_the_models_of_that_folder(tmp_path):
    def find(name, **models):
        data, section = DataSettings(dir=tmp_path / name), ModelSettings(**models)
        return get_models_folder(RagSettings(data=data, models=section))

    assert find("demo") == tmp_path / "models"
    assert find("data") == tmp_path / "data" / "models"
    assert find("demo", dir=tmp_path / "elsewhere") == tmp_path / "elsewhere"
    (tmp_path / "demo" / "models").mkdir(parents=True)
    assert find("demo") == tmp_path / "demo" / "models"


def test_what_a_model_is_for_is_seen_from_its_row():
    assert resolve_model_use(SMALL) == resolve_model_use("/a/b.gguf") == "writer"
    assert resolve_model_use("bge-m3") == "embedder"
    assert resolve_model_use("none", "writer") == "writer"
    for given, wanted in (("none", ""), ("default", ""), (SMALL, "singer"), ("gpt-9", "")):
        with pytest.raises(ModelUnavailable):
            resolve_model_use(given, wanted)


async def test_an_address_goes_before_a_file(folder, tiny_gguf):
    writer = await open_writer(settings(folder, llm={"url": "http://localhost:1", "model": str(tiny_gguf)}))
    await writer.close()


# on the tray


@pytest.mark.parametrize("model", ["/nowhere/x.gguf", "qwen3.5-4b", "gpt-9"])
async def test_a_model_that_cannot_be_opened_is_a_shortfall_and_one_line(folder, model, caplog):
    async with open_engine(settings(folder, llm={"model": model})) as rag:
        (shortfall,) = rag.without
        assert (rag.writer, shortfall.stage) == (None, "write")
        assert shortfall.reason in caplog.text


async def test_writers_are_exchanged_while_the_bot_runs_and_remembered(pulled, tiny_gguf):
    async with open_engine(settings(pulled)) as rag:
        writer = rag.writer
        assert writer.name == DEFAULT
        used = await switch_model(rag, SMALL)
        assert (used.use, used.now) == ("writer", True)
        assert rag.writer is rag.planner is not None
        assert (rag.writer.name, await reply(rag.writer)) == (SMALL, "ok")
        with pytest.raises(GenerationFailed, match="being closed"):
            await reply(writer)
    async with open_engine(settings(pulled)) as rag:
        assert rag.writer.name == SMALL
        await switch_model(rag, "none", "writer")
        assert (rag.writer, rag.planner) == (None, None)
        await switch_model(rag, str(tiny_gguf))
        assert await reply(rag.writer) == "ok"


async def test_a_choice_that_cannot_be_carried_out_changes_nothing(pulled, tmp_path):
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    async with open_engine(settings(pulled)) as rag:
        for given in (str(broken), str(tmp_path / "none.gguf"), "qwen3.5-4b"):
            with pytest.raises(ModelUnavailable):
                await switch_model(rag, given)
        with pytest.raises(ModelUnavailable, match="MODELS__RERANKER is none"):
            await switch_model(rag, "minilm-maxsim")
        assert await reply(rag.writer) == "ok"
        assert await readers.load_choices(rag.archive) == {}
    async with open_engine(settings(pulled, llm={"model": SMALL})) as rag:
        with pytest.raises(ModelUnavailable, match=r"LLM__MODEL is qwen3\.5-0\.8b, and a setting goes before"):
            await switch_model(rag, DEFAULT)


async def test_a_writer_chosen_where_there_was_none_ends_the_shortfall(pulled):
    for name in (SMALL, DEFAULT):
        (pulled / "models" / name / "model.gguf").write_bytes(b"GGUF" + bytes(100))
    good = pulled / "good.gguf"
    async with open_engine(settings(pulled)) as rag:
        assert [each.stage for each in rag.without] == ["write"]
        from tiny_gguf import build

        await switch_model(rag, str(build(good)))
        assert rag.without == ()
        assert await reply(rag.writer) == "ok"


async def test_an_unknown_provider_is_one_sentence(folder, offline_models):
    models = {"dir": offline_models.parent, "embedder": "minilm-navec", "reranker": "none", "provider": "TPU"}
    async with open_engine(settings(folder, models=models)) as rag:
        (shortfall,) = rag.without
        assert shortfall.reason.startswith("MODELS__PROVIDER is TPU: choose one that onnxruntime has here, ")
        assert "CPUExecutionProvider" in shortfall.reason


async def test_a_reranker_is_exchanged_and_who_has_the_old_one_keeps_it(folder, make_reranker):
    _, made = make_reranker()
    shutil.copytree(made, folder / "models" / "minilm-maxsim")
    async with open_engine(settings(folder, models={"embedder": "none"})) as rag:
        old = rag.reranker
        assert old is not None
        used = await switch_model(rag, "none", "reranker")
        assert (used.now, rag.reranker) == (True, None)
        assert len(await old.scores("ferry", ["boat", "kiln"])) == 2
        await switch_model(rag, "minilm-maxsim")
        assert rag.reranker is not None
        assert rag.reranker is not old
        assert (await readers.load_choices(rag.archive))["reranker"] == "minilm-maxsim"
