import asyncio
import importlib.util
import random
import sys
from contextlib import suppress

import pytest
from gguf import GGUFWriter
from sample_sizes import choose_size

from rag_core.errors import GenerationFailed, ModelUnavailable
from rag_core.llm.local import check_memory_fits, measure_free_memory, open_local_model
from rag_core.llm.protocol import DecodingParams, Prompt, collect_generation
from rag_core.settings import LlmSettings

pytestmark = pytest.mark.slow

SETTINGS = LlmSettings(context=512, threads=1)
installed = importlib.util.find_spec("llama_cpp") is not None
needs_llama = pytest.mark.skipif(not installed, reason="llama.cpp is not installed: pip install 'citegram[local]'")


async def reason(path):
    with pytest.raises(ModelUnavailable) as told:
        await open_local_model(path, SETTINGS)
    assert "\n" not in told.value.reason
    return told.value.reason


async def test_a_model_that_is_not_there(tmp_path):
    assert (
        await reason(tmp_path / "no.gguf") == f"There is no model at {tmp_path}/no.gguf: check the path, or pull one."
    )
    assert "is a folder: give the path of the .gguf file" in await reason(tmp_path)


@pytest.mark.parametrize("data", [b"", b"GG", b"GGUF", b"<html>Not found</html>" * 9])
async def test_a_file_that_is_empty_or_something_else(tmp_path, data):
    path = tmp_path / "odd.gguf"
    path.write_bytes(data)
    assert await reason(path) == f"{path} is not a GGUF model, or only the beginning of one: fetch it again."


async def test_a_model_that_is_larger_than_the_memory_is_not_even_tried(tmp_path):
    path = tmp_path / "huge.gguf"
    with path.open("wb") as file:
        file.write(b"GGUF" + b"\0" * 20)
        file.truncate(9_000_000_000_000)  # a hole: it takes no room on the disk
    said = await reason(path)
    assert said.startswith("The model huge.gguf needs 9000.6 GB of memory and ")
    assert "choose a smaller one" in said


def test_the_memory_of_a_model_is_that_of_its_process_and_not_of_its_file(tmp_path):
    path = tmp_path / "1.5b.gguf"
    with path.open("wb") as file:
        file.truncate(1_117_320_768)
    check_memory_fits(path, 1_950_000_000)
    check_memory_fits(path, None)
    assert measure_free_memory()
    with pytest.raises(ModelUnavailable, match=r"needs 1\.9 GB of memory and 1\.9 GB are free"):
        check_memory_fits(path, 1_900_000_000)
    with pytest.raises(ModelUnavailable, match=r"needs 3\.6 GB"):
        check_memory_fits(path, 3_000_000_000, 32_768)


async def test_without_llama_cpp_the_sentence_says_what_to_install(tmp_path, tiny_gguf, monkeypatch):
    (tmp_path / "llama_cpp.py").write_text("raise ModuleNotFoundError(\"No module named 'llama_cpp'\")")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert (await reason(tiny_gguf)).endswith(f"{sys.executable} -m pip install 'citegram[local]'")


@needs_llama
async def test_an_architecture_that_llama_cpp_does_not_know(tmp_path):
    path = tmp_path / "new.gguf"
    writer = GGUFWriter(path, "transformer-of-2041")
    writer.add_context_length(512)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    said = await reason(path)
    assert "transformer-of-2041" in said
    assert "pip install -U llama-cpp-python" in said


def damaged(whole, number):
    """Truncated for even numbers; else a stretch of noise, in the head for half of them."""
    dice = random.Random(number)
    if number % 2 == 0:
        return whole[: dice.randrange(24, len(whole))]
    at = dice.randrange(4, 4000 if number % 4 == 1 else len(whole))
    noise = dice.randbytes(dice.randrange(1, 64))
    return whole[:at] + noise + whole[at + len(noise) :]


@needs_llama
async def test_damaged_models_are_refused_or_write_nonsense_but_end_nothing(tmp_path, tiny_gguf):
    whole, two_at_once, files = tiny_gguf.read_bytes(), asyncio.Semaphore(2), choose_size(20, 12)

    async def refused(number):
        path = tmp_path / f"{number}.gguf"
        path.write_bytes(damaged(whole, number))
        async with two_at_once:
            return await is_refused(path)

    assert sum(await asyncio.gather(*map(refused, range(files)))) >= files / 2


async def is_refused(path):
    try:
        model = await open_local_model(path, SETTINGS)
    except ModelUnavailable as exc:
        assert exc.reason.startswith(path.name)
        assert exc.reason.endswith("fetch it again, or choose another.")
        return True
    with suppress(GenerationFailed):
        async with model.turn(1) as seat:
            await collect_generation(seat.stream(Prompt("Be brief.", "Who?"), DecodingParams(5)))
    await model.close()
    return False
