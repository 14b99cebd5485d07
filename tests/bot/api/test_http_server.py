"""Other programs ask over HTTP: MCP by the official client, POST /ask by plain HTTP, with tokens made in the chat."""

import asyncio
import json
import re
import socket
import sys

import aiohttp
import pytest
from driver import ADMIN, CREW, OTTO, RITA, buttons, execute, press, query_archive, say, say_text, sent
from program import call, connect, find_free_address
from pydantic import ValidationError
from slow_model import SlowLlm, use_writer

from bot.sandbox.state import set_chat_member
from bot.settings import McpSettings
from rag_core.errors import SettingsWrong
from rag_core.storage import Archive, channels, readers

pytestmark = pytest.mark.slow

TOOLS = {"ask", "search", "verify", "timeline", "list_channels"}
PADLOCK = "Which digits open the boathouse padlock?"
FERRY = "When does the ferry to Owl Island leave?"


@pytest.fixture
def address():
    return find_free_address()


@pytest.fixture
async def served(live, address):
    async with live(sections={"mcp": {"listen": address}}):
        yield address


async def post(address, token, body, **headers):
    given = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{address}/ask", json=body, headers=given | headers) as response,
    ):
        return response.status, await response.json()


async def make_token(sandbox, who="", name="Claude"):
    """Made by the admin in the chat, as the message shows it."""
    text = await say_text(sandbox, ADMIN, f"/token {name} {who}".strip())
    return str(re.findall(r"Bearer (cg_\S+)\"", text)[0])


@pytest.mark.parametrize("mode", ["auto", "legacy"])  # with and without the handshake of earlier versions
async def test_a_client_lists_and_calls_every_tool(sandbox, served, mode):
    token = await make_token(sandbox, OTTO)
    async with connect(served, token, mode) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == TOOLS

        async def use(tool, **given):
            return (await client.call_tool(tool, given)).structured_content

        answer, timeline = await use("ask", question=FERRY), await use("timeline", subject="ferry")
        found, listed = await use("search", query="ferry"), await use("list_channels")
        checked = await use("verify", text="The ferry to Owl Island leaves at 7:30 every morning.")
    (citation,) = answer["sentences"][0]["citations"]
    assert citation["link"] == "https://t.me/harbour_news/10"
    assert citation["channel"] == "Harbour News"
    assert citation["quote"] in answer["sentences"][0]["text"]
    assert answer["certainty"] in {"sure", "probable"}
    assert timeline["sentences"][0]["text"].startswith("1 post with the word “ferry”")
    assert [(one["link"], one["all_words"]) for one in found["posts"]] == [(citation["link"], True)]
    assert {one["channel"] for one in listed["channels"]} == {"Harbour News", "Печь и глина"}
    assert [one["label"] for one in checked["verdicts"]] == ["supported"]
    assert checked["verdicts"][0]["citations"][0]["link"] == citation["link"]


async def test_a_refusal_says_so_and_is_no_error(sandbox, served):
    token = await make_token(sandbox, OTTO)
    answer = await call(served, token, "ask", question="Who painted the ceiling of the opera?")
    assert (answer["certainty"], answer["sentences"]) == ("none", [])
    assert answer["said"] in {"I found no clear answer.", "I found nothing about this in the channels I read for you."}
    assert (await call(served, token, "ask", question="hello"))["said"].startswith("Hi!")
    assert await call(served, token, "ask", question=" ") == "Write what you ask, in up to 20,000 characters."
    assert (await call(served, token, "ask", question="x" * 1001)).startswith("That is too long: 1,001")


async def test_a_token_reads_what_its_person_may_read_at_that_moment(sandbox, served, home):
    await query_archive(home, lambda archive: channels.record_bot_joined(archive, CREW))
    set_chat_member(sandbox.world, CREW, RITA, "member", by=ADMIN)
    member, outsider, admin = (
        await make_token(sandbox, RITA),
        await make_token(sandbox, OTTO),
        await make_token(sandbox),
    )
    assert "4417" in str(await call(served, member, "ask", question=PADLOCK))
    assert "4417" in str(await post(served, member, {"question": PADLOCK}))
    assert "trophy" in str(await call(served, admin, "ask", question="Where is the silver trophy?"))
    for token in (outsider, member):
        assert "trophy" not in str(await call(served, token, "ask", question="Where is the silver trophy?"))
    assert "4417" not in str(await call(served, outsider, "ask", question=PADLOCK))
    set_chat_member(sandbox.world, CREW, RITA, "left", by=ADMIN)
    for tool, given in (("ask", PADLOCK), ("verify", "The padlock opens with the digits 4417.")):
        name = "question" if tool == "ask" else "text"
        assert "boathouse" not in str((await call(served, member, tool, **{name: given})).get("sentences", ""))
    assert "4417" not in str(await call(served, member, "search", query="padlock digits"))
    assert "Crew" not in str(await call(served, member, "list_channels"))


UNKNOWN = "This token is unknown or revoked: ask an admin of the bot for another one (/token)."


@pytest.mark.parametrize("kind", ["made up", "none", "revoked", "of another bot", "of a former admin", "no bearer"])
async def test_a_token_that_does_not_count_gets_one_sentence(sandbox, served, home, tmp_path, kind):
    token, said = await make_token(sandbox, OTTO), UNKNOWN
    assert (await post(served, token, {"question": FERRY}))[0] == 200
    match kind:
        case "made up":
            token = "cg_" + "A" * 43
        case "none":
            token, said = (
                "",
                "Send a token: an admin of the bot makes one with /token, and it goes into Authorization: Bearer.",
            )
        case "revoked":
            listed = await say(sandbox, ADMIN, "/token")
            assert await press(sandbox, listed, "Revoke: Claude", ADMIN) == "Revoked: it no longer works."
        case "of another bot":
            archive = await Archive.open(tmp_path / "other")
            token = await readers.create_token(archive, "Claude", user_id=OTTO, made_by=ADMIN) or ""
            await archive.close()
        case "of a former admin":
            await query_archive(home, lambda archive: archive.execute("UPDATE access_tokens SET made_by = 777"))
        case "no bearer":
            token = execute(home, "SELECT hash FROM access_tokens")[0][0]  # what a thief of the archive has
    for body in ({"question": FERRY}, {"garbage": 1}):
        assert await post(served, token, body) == (401, {"error": said})
    with pytest.raises(BaseExceptionGroup) as failed:
        await call(served, token, "list_channels")
    assert said in repr(failed.value)


async def test_a_token_is_made_for_its_admin_or_somebody_else_who_is_told(sandbox, served):
    await sandbox.say(OTTO, "hello")
    await sandbox.replies(OTTO)
    await make_token(sandbox, OTTO, "Claude Code")
    (told,) = await sandbox.replies(OTTO)
    assert "the program Claude Code asks me in your name" in told["text"]
    token = await make_token(sandbox, name="<b>Cursor</b>")
    listed = await say(sandbox, ADMIN, "/token")
    assert f"Claude Code — reads as {OTTO}; made by {ADMIN}" in listed["text"]
    assert f"<b>Cursor</b> — reads as {ADMIN}; made by {ADMIN}" in listed["text"]
    assert listed["text"].count("not used yet") == 2
    await call(served, token, "list_channels")
    assert (await say_text(sandbox, ADMIN, "/token")).count("not used yet") == 1
    await press(sandbox, listed, "Revoke: <b>Cursor</b>", ADMIN)
    for data in (buttons(listed)["Revoke: <b>Cursor</b>"], "b:token-revoke::0"):
        assert await press(sandbox, listed, data, ADMIN) == "This token is revoked already."
    assert (await press(sandbox, listed, "Revoke: Claude Code", OTTO)).startswith("Only this bot's admins")
    assert list(buttons(await say(sandbox, ADMIN, "/token"))) == ["Revoke: Claude Code"]
    assert (await say_text(sandbox, OTTO, "/token Mine")).startswith("Only this bot's admins")
    assert (await say_text(sandbox, ADMIN, "/token " + "x" * 41)).startswith("Give the program a name")


async def test_without_the_setting_no_port_is_open_and_no_token_is_made(sandbox, address, live_bot):
    assert "MCP__LISTEN" in await say_text(sandbox, ADMIN, "/token Claude")
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(address, "cg_x", {"question": FERRY})


async def test_questions_count_as_those_of_the_person_and_admins_have_a_limit_here(sandbox, live, ask, home, address):
    async with live(reader_limit=2, sections={"mcp": {"listen": address}}):
        reader, admin = await make_token(sandbox, OTTO), await make_token(sandbox)
        await ask(OTTO, FERRY)
        assert (await post(address, reader, {"question": FERRY}))[0] == 200
        status, said = await post(address, reader, {"question": FERRY})
        assert status == 429
        assert said["error"].startswith("That was a lot of questions")
        assert await call(address, reader, "verify", text="The ferry leaves at 7:30.") == said["error"]
        assert await post(address, reader, {"question": FERRY}) == (status, said)  # told each time
        assert "lot of questions" in await say_text(sandbox, OTTO, FERRY)
        assert execute(home, "SELECT question FROM talks") == [(FERRY,)]  # of the chat: the program's stand alone
        for number in range(4):
            assert (await post(address, admin, {"question": FERRY}))[0] == (200 if number < 2 else 429)
            assert ("channels" in await call(address, admin, "list_channels")) == (number < 2)


async def test_who_may_read_nothing_is_told_so(sandbox, served, home):
    # not at once: the bot in this process may be writing
    await query_archive(home, lambda archive: archive.execute("UPDATE channels SET visibility = 'admins'"))
    token, said = await make_token(sandbox, OTTO), "No channel is open to you yet. Ask the bot's admin to open one."
    for tool, given in (("ask", {"question": FERRY}), ("ask", {"question": "hello"}), ("search", {"query": "ferry"}),
                        ("verify", {"text": FERRY}), ("list_channels", {})):  # fmt: skip
        assert await call(served, token, tool, **given) == said
    assert await post(served, token, {"question": FERRY}) == (422, {"error": said})


async def test_of_many_questions_at_once_a_few_wait_and_the_rest_is_refused(sandbox, live, address, monkeypatch):
    use_writer(monkeypatch, SlowLlm("The ferry leaves at 7:30 [1].", 0.5))
    async with live(sections={"mcp": {"listen": address}}):
        many, other = await make_token(sandbox, OTTO), await make_token(sandbox, RITA)
        asked = [post(address, many, {"question": f"{FERRY} {n}"}) for n in range(6)]
        *found, alone = await asyncio.gather(*asked, post(address, other, {"question": FERRY}))
    assert sorted(status for status, _ in found) == [200, 200, 200, 429, 429, 429]
    assert alone[0] == 200
    assert {"error": "One moment, I am still busy with your last searches."} in [said for _, said in found]


async def test_what_a_program_asked_is_the_persons_data_and_comes_to_no_chat(sandbox, live, home, address):
    async with live(sections={"mcp": {"listen": address}}):
        token = await make_token(sandbox, OTTO)
        await post(address, token, {"question": FERRY})
        await call(address, token, "search", query="mackerel")
        assert execute(home, "SELECT user_id, chat_id, text, state FROM questions") == [(OTTO, OTTO, FERRY, "answered")]
        assert "pier" not in execute(home, "SELECT answer FROM questions")[0][0]  # no words of posts
        killed = "UPDATE questions SET state = 'failed', answer = NULL"
        await query_archive(home, lambda archive: archive.execute(killed))  # as after a kill
    async with live(sections={"mcp": {"listen": address}}):
        document = json.loads(await sandbox_file(sandbox, "/mydata"))
        assert [(one["text"], one["mode"]) for one in document["questions"]] == [(FERRY, "program")]
        assert [one["name"] for one in document["tokens"]] == ["Claude"]
        assert not any("ferry" in str(message.get("text", "")) for message in sent(sandbox, OTTO))
        asked = await say(sandbox, OTTO, "/forget")
        assert "1 token of a program that asked in your name" in asked["text"]
        await press(sandbox, asked, "Erase", OTTO)
        assert await post(address, token, {"question": FERRY}) == (401, {"error": UNKNOWN})


async def sandbox_file(sandbox, text):
    reply = await say(sandbox, OTTO, text)
    return sandbox.world.files[reply["document"]["file_id"]].data


async def test_an_answer_is_streamed_as_events(sandbox, served):
    token = await make_token(sandbox, OTTO)
    headers = {"Authorization": f"Bearer {token}", "Accept": "text/event-stream"}
    async with aiohttp.ClientSession(headers=headers) as session:
        for text, last in ((FERRY, "answer"), ("x" * 1001, "error")):
            async with session.post(f"http://{served}/ask", json={"question": text}) as response:
                assert response.content_type == "text/event-stream"
                read = re.findall(r"event: (\w+)\r?\ndata: (.*)", await response.text())
            names = [name for name, _ in read]
            assert (names[-1], {*names[:-1]} <= {"stage", "draft"}) == (last, True)
            assert names[:-1] or last == "error"
            told = json.loads(read[-1][1])
    assert told["error"].startswith("That is too long")


@pytest.mark.parametrize("leaves", [False, True])
async def test_a_draft_and_an_answer_are_checked_again_before_they_go_out(
    sandbox, live, home, address, monkeypatch, leaves
):
    model = SlowLlm("The boathouse padlock opens with the digits 4417 [1].", 1.0)
    use_writer(monkeypatch, model)
    set_chat_member(sandbox.world, CREW, RITA, "member", by=ADMIN)
    await query_archive(home, lambda archive: channels.record_bot_joined(archive, CREW))
    async with live(sections={"mcp": {"listen": address}}):
        headers = {"Authorization": f"Bearer {await make_token(sandbox, RITA)}", "Accept": "text/event-stream"}
        told = {}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(f"http://{address}/ask", json={"question": PADLOCK}) as response,
        ):
            async for line in response.content:
                if line.startswith(b"event: "):
                    name = line.split()[1].decode()
                if line.startswith(b"data: "):
                    told[name] = json.loads(line[6:])
                    if leaves and model.begun:
                        set_chat_member(sandbox.world, CREW, RITA, "left", by=ADMIN)
    assert "4417" in str(told["draft"])
    if leaves:
        assert "4417" not in str(told.get("answer"))
        # the second where Telegram is slow to say whether she is a member
        assert told["error"]["error"].startswith(("I did not send this answer", "I could not check whether you may"))
    else:
        assert "4417" in told["answer"]["sentences"][0]["text"]
        assert told["answer"]["written_by"] == "slow"


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/ask", b"{}", {}, 400),
        ("/ask", b"\xff", {}, 400),
        ("/ask", b'{"question": "?", "user_id": 501}', {}, 400),
        ("/ask", b'{"question": "\\ud800"}', {}, 400),
        ("/ask", b" " * 300_000, {}, 413),
        ("/mcp", b" " * 300_000, {"Content-Type": "application/json"}, 413),
        ("/ask", b'{"question": "?"}', {"Origin": "http://evil.example"}, 403),
        ("/ask", b'{"question": "?"}', {"Host": "evil.example"}, 403),
        ("/mcp", b"{}", {"Origin": "null"}, 403),
        ("/mcp", b"{}", {"Host": "evil.example:80"}, 403),
        ("/elsewhere", b"{}", {}, 404),
    ],
)
async def test_wrong_requests_are_refused_in_a_sentence_and_harm_nothing(sandbox, served, path, body, headers, status):
    token = await make_token(sandbox, OTTO)
    given = {"Authorization": f"Bearer {token}", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"http://{served}{path}", data=body, headers=given) as response,
    ):
        said = await response.text()
        assert (response.status, len(said) < 300) == (status, True)
    assert (await post(served, token, {"question": FERRY}))[0] == 200


async def test_a_port_that_is_taken_ends_the_start_with_a_sentence(live, address):
    host, _, port = address.partition(":")
    with socket.create_server((host, int(port))), pytest.raises(SettingsWrong, match="choose another address or port"):
        async with live(sections={"mcp": {"listen": address}}):
            pass


async def test_without_the_extra_the_start_ends_with_a_sentence(live, address, monkeypatch):
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    for name in ("bot.api.http_server", "bot.api.mcp_server"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(SettingsWrong, match=r"MCP__LISTEN needs more packages: .*citegram\[mcp\]"):
        async with live(sections={"mcp": {"listen": address}}):
            pass


@pytest.mark.parametrize("listen", ["8770", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "http://127.0.0.1:1", ":1"])
def test_an_address_without_host_or_port_is_refused(listen):
    with pytest.raises(ValidationError, match="write an address and a port"):
        McpSettings(listen=listen)
