"""Hosts to listen on: this machine, or any where that is meant."""

from __future__ import annotations

import pytest

from bot.telegram.updates import check_listen_host
from rag_core.errors import SettingsWrong


@pytest.mark.parametrize(
    ("host", "public"),
    [("127.0.0.1", False), ("127.8.8.8", False), ("::1", False), ("localhost", False), ("0.0.0.0", True)],
)
def test_a_port_of_this_machine_may_be_opened_and_any_that_is_meant_to_be_public(host: str, public: bool) -> None:
    assert check_listen_host(host, public, "MONITORING__HOST") == host


@pytest.mark.parametrize("section", ["MONITORING", "WEBHOOK"])
@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "0", "127.1", "192.168.1.2", "8.8.8.8", "::ffff:8.8.8.8", "localhost.example.com"]
)
def test_a_port_that_others_can_reach_is_refused_in_one_sentence(host: str, section: str) -> None:
    with pytest.raises(SettingsWrong) as caught:
        check_listen_host(host, False, f"{section}__HOST")
    assert f"{section}__HOST" in caught.value.reason
    assert f"{section}__PUBLIC=true" in caught.value.reason
    assert caught.value.reason.count(". ") == 0
