import shutil

import pytest

from bot.__main__ import main


@pytest.fixture
def export(root, tmp_path):
    """A folder with the result.json of a small channel of the samples."""
    return shutil.copytree(root / "bot" / "sandbox" / "channels" / "owl-hill", tmp_path / "export")


@pytest.fixture(scope="session")
def _imported_once(root, tmp_path_factory):
    data = tmp_path_factory.mktemp("imported") / "data"
    export = root / "bot" / "sandbox" / "channels" / "owl-hill"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(data.parent)
        patch.setenv("MODELS__EMBEDDER", "none")
        assert main(["--data", str(data), "import", str(export), "--username", "owl_hill"]) == 0
    return data


@pytest.fixture
def imported(_imported_once, nowhere):
    """A data folder of its own, named "data", with that channel imported."""
    return shutil.copytree(_imported_once, nowhere / "data")
