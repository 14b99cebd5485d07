import os
import re
from pathlib import Path

import pytest

from rag_core.errors import ModelUnavailable
from rag_core.llm.local import estimate_memory
from rag_core.models.catalog import (
    MODELS,
    HubSource,
    ModelRole,
    ModelTier,
    PackageSource,
    check_disk_space,
    check_model_files,
    find_models,
    stage_model_folder,
)
from rag_core.safe_files import measure_size

EVERY = [*MODELS, *(part for row in MODELS for part in row.parts)]


def test_every_model_has_a_name_of_its_own_that_can_be_a_folder_and_an_open_licence():
    names = [*(row.name for row in EVERY), *ModelTier]
    assert {row.licence for row in EVERY} <= {"MIT", "Apache-2.0", "Apache-2.0, MIT"}
    assert all(bool(row.published) == bool(row.published_by) for row in EVERY)
    for row in MODELS:
        assert not row.parts or row.dimension == sum(part.dimension for part in row.parts)
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[\w.-]+", name) for name in names)
    for row in EVERY:
        if isinstance(row.source, HubSource):  # what nobody downloaded claims no checksums
            assert row.checked == bool(row.packages) == all(file.sha256 for file in row.source.files)
        elif isinstance(row.source, PackageSource):
            assert re.fullmatch("[0-9a-f]{64}", row.source.sha256)
    with pytest.raises(ModelUnavailable, match=r"no model and no tier called 'e5'.*models list"):
        find_models("e5")


@pytest.mark.parametrize("tier", ModelTier)
def test_a_tier_has_at_most_one_model_for_a_role_and_the_default_one_has_each(tier):
    roles = [row.role for row in find_models(tier)]
    assert len(roles) == len(set(roles))
    assert tier is not ModelTier.DEFAULT or set(roles) == set(ModelRole)


def test_a_writer_needs_more_memory_than_its_file_and_the_pinned_llama_cpp_loads_it():
    for row in MODELS:
        if row.role is ModelRole.WRITER:
            assert 0.8 * estimate_memory(row.bytes) <= row.memory <= 1.2 * estimate_memory(row.bytes), row.name
    llama_cpp = pytest.importorskip("llama_cpp")
    library = (Path(llama_cpp.__file__).parent / "lib" / "libllama.so").read_bytes()
    named = {row.architecture for row in MODELS if row.role is ModelRole.WRITER}
    assert "" not in named
    # names of few letters are compiled into comparisons and stand nowhere; Qwen2.5 was loaded
    assert all(b"\0%s\0" % name.encode() in library for name in named - {"qwen2"})


@pytest.mark.parametrize("change", [lambda raw: raw[:-1], lambda raw: raw[:-1] + bytes([raw[-1] ^ 1])])
def test_a_truncated_or_changed_file_is_noticed(make_model, change):
    row, folder = make_model()
    for file in folder.iterdir():
        os.utime(file, ns=(1, 1))
    check_model_files(row, folder)  # a copy has other times
    weights = folder / "model.onnx"
    weights.write_bytes(change(weights.read_bytes()))
    os.utime(weights, ns=(1, 1))
    with pytest.raises(ModelUnavailable, match=r"model\.onnx of the model tiny is damaged.*pull tiny again"):
        check_model_files(row, folder)


@pytest.mark.parametrize("text", ["", "[]", '{"files": {"a": 1}}', '{"files": {"a": {}}}'])
def test_a_damaged_list_is_no_list_to_trust(make_model, text):
    row, folder = make_model()
    (folder / "files.json").write_text(text, "utf-8")
    with pytest.raises(ModelUnavailable, match=r"has no files\.json"):
        check_model_files(row, folder)


def test_a_folder_filled_by_hand_needs_the_files_only(make_model):
    row, folder = make_model(listed=False)
    check_model_files(row, folder)
    with pytest.raises(ModelUnavailable, match=r"not in .*: run citegram models pull tiny\.$"):
        check_model_files(row, folder / "elsewhere")
    (parts,) = find_models("minilm-navec")
    with pytest.raises(ModelUnavailable, match=r"all-MiniLM-L6-v2 .* run citegram models pull minilm-navec"):
        check_model_files(parts, folder)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(ModelUnavailable, match=r"has no tokenizer_config\.json"):
        check_model_files(row, folder)


def test_a_failure_leaves_the_old_folder_and_nothing_beside_it(tmp_path):
    folder = tmp_path / "tiny"
    (tmp_path / ".tiny~0a0b0c0d").mkdir()  # of a pull that was interrupted
    with stage_model_folder(folder, "tiny") as fresh:
        (fresh / "old").write_text("1")
    with pytest.raises(ZeroDivisionError), stage_model_folder(folder, "tiny") as fresh:
        (fresh / "new").write_text("2")
        _ = 1 / 0
    assert [file.name for file in folder.iterdir()] == ["old"]
    assert list(tmp_path.iterdir()) == [folder]
    with stage_model_folder(folder, "tiny") as fresh:
        (fresh / "new").write_text("22")
    assert [file.name for file in folder.iterdir()] == ["new"]
    assert measure_size(tmp_path) == 2


def test_a_disk_without_room_is_a_sentence(tmp_path):
    check_disk_space(tmp_path / "not" / "yet", 1, "tiny")
    with pytest.raises(ModelUnavailable, match=r"tiny needs 1000000000000 MB .* MB free: make room"):
        check_disk_space(tmp_path / "not" / "yet", 10**18, "tiny")
