import pytest
from chaos.bot_process import BotHome
from chaos.readers_at_once import ask_at_once

pytestmark = pytest.mark.slow


async def test_each_of_some_readers_is_answered(tmp_path):
    found, processor_s, calls = await ask_at_once(BotHome(tmp_path, None), 6, up=0)
    assert all(took is not None and text for took, text in found), found
    assert len({text for _, text in found}) > 3  # each his own
    assert 0 < processor_s < 60
    assert calls["sendMessage"] == len(found)  # one message each
