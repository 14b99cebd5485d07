from __future__ import annotations

import pytest

from bot.guarded_http_listener import check_listen_host
from rag_core.errors import SettingsWrong


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_a_port_of_this_machine_may_be_opened(host: str) -> None:
    assert check_listen_host(host, False, "MONITORING__HOST") == host


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "0", "127.1", "192.168.1.2", "8.8.8.8", "::ffff:8.8.8.8", "localhost.example.com"]
)
def test_a_port_that_others_can_reach_is_refused_in_one_sentence(host: str) -> None:
    with pytest.raises(SettingsWrong) as caught:
        check_listen_host(host, False, "MONITORING__HOST")
    assert "MONITORING__HOST" in caught.value.reason
    assert "MONITORING__PUBLIC=true" in caught.value.reason
    assert caught.value.reason.count(". ") == 0


def test_the_sentence_names_the_section_that_was_asked_for() -> None:
    with pytest.raises(SettingsWrong, match="WEBHOOK__PUBLIC=true"):
        check_listen_host("0.0.0.0", False, "WEBHOOK__HOST")


def test_what_is_meant_to_be_public_is_let_through() -> None:
    assert check_listen_host("0.0.0.0", True, "MONITORING__HOST") == "0.0.0.0"
