from dataclasses import replace

import pytest

from rag_core.calibration import Calibration
from rag_core.models.catalog import find_models
from rag_core.retrieval.fusion import Fusion
from rag_core.settings import RagSettings
from rag_core.types import Certainty

(E5,) = find_models("e5-small-centred")


def settings(folder, **answer):
    return RagSettings.model_validate({"data": {"dir": folder}, "answer": answer})


def test_what_was_saved_is_loaded(tmp_path):
    kept = Calibration(0.61, 0.7, "наши данные", "2026-01-15")
    assert kept.save(settings(tmp_path / "new")) == tmp_path / "new" / "calibration.json"
    assert Calibration.load(settings(tmp_path / "new")) == kept


def test_a_weight_of_the_search_by_meaning_joins_scores_whatever_was_fitted():
    fitted = Calibration(fusions={E5.name: {"en": Fusion("rrf", 0.3)}})
    assert fitted.fusion(E5, "en") == Fusion("rrf", 0.3)
    assert fitted.fusion(E5, "en", 0.65) == Fusion("sum", 0.65)  # of council: ranks have no weight of scores


def test_a_setting_wins_over_what_was_fitted(tmp_path):
    Calibration(0.61, 0.7, "data", "").save(settings(tmp_path))
    assert Calibration.load(settings(tmp_path, coverage=0.0)).bar == 0.0


def test_without_a_file_the_project_s_own_value_holds(tmp_path):
    assert Calibration.load(settings(tmp_path)) == Calibration()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"bar": "high", "data": "", "date": ""}', '{"bar": null}'])
def test_a_damaged_file_is_said_and_passed_over(tmp_path, caplog, text):
    (tmp_path / "calibration.json").write_text(text, encoding="utf-8")
    assert Calibration.load(settings(tmp_path)) == Calibration()
    assert "calibration.json" in caplog.text


def test_the_bars_are_kept_and_follow_the_setting(tmp_path):
    replace(Calibration(), bar=0.4, sure=0.6).save(settings(tmp_path))
    kept = Calibration.load(settings(tmp_path))
    assert [kept.grade(likely) for likely in (0.39, 0.41, 0.61)] == [*Certainty][::-1]
    chosen = Calibration.load(settings(tmp_path, coverage=0.9))
    assert (chosen.grade(0.89), chosen.grade(0.91)) == (Certainty.NONE, Certainty.SURE)
    assert kept.without_bars().grade(0.0) is Certainty.SURE
