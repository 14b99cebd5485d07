import pytest
from pydantic import ValidationError

from rag_core.settings import RagSettings


@pytest.mark.parametrize(
    "wrong",
    [
        {"bugdets": {}},
        {"answer": {"secnods": 1}},
        {"answer": {"seconds": 0}},
        {"answer": {"sentences": 0}},
        {"answer": {"sentences": 6}},
        {"answer": {"coverage": 1.5}},
    ],
)
def test_a_setting_that_cannot_be_meant_is_refused(wrong):
    with pytest.raises(ValidationError):
        RagSettings.model_validate(wrong)


def test_settings_are_values():
    assert RagSettings() == RagSettings.model_validate({})
    with pytest.raises(ValidationError):
        RagSettings().answer.seconds = 1.0
