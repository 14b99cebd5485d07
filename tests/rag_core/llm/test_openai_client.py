"""A model behind LLM__URL: a real llama_cpp.server with the tiny model, and a server that does everything wrong."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import time
import urllib.request
from contextlib import aclosing, asynccontextmanager, suppress

import pytest
from aiohttp import web
from local_server import LocalServer, find_free_port
from openai_server import OpenAiServer, answer_with, make_event, stream
from pydantic import SecretStr

from rag_core.errors import GenerationFailed, ModelLeftAlone, ModelUnavailable
from rag_core.llm import openai_client
from rag_core.llm.openai_client import (
    RemoteModel,
    ServerDialect,
    ServerTooSlow,
    build_reply_constraint,
    build_request_body,
    compute_log_odds,
)
from rag_core.llm.protocol import DecodingParams, FinishReason, Generation, Prompt, collect_generation
from rag_core.settings import LlmSettings

pytestmark = pytest.mark.slow

KEY = "sk-hidden-7"
SECRET_POST = "the padlock opens with 4417"
ASK = Prompt("Answer.", f"Post: {SECRET_POST}. Does it say when?")
GREEDY = DecodingParams(8, temperature=0.0)


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(openai_client, "_FIRST_RETRY_PAUSE_S", 0.01)
    monkeypatch.setattr(openai_client, "_MAX_RETRY_PAUSE_S", 0.02)


def model_at(url, *, patience=5.0, rest=60.0, **settings):
    return RemoteModel(LlmSettings(url=url, key=SecretStr(KEY), **settings), patience, rest)


@asynccontextmanager
async def opened(url, **settings):
    model = model_at(url, **settings)
    try:
        yield model
    finally:
        await model.close()


async def said(model, prompt=ASK, decoding=GREEDY, **held):
    async with model.turn(1) as seat:
        return await collect_generation(seat.stream(prompt, decoding, **held))


# a real server


LLAMA_SERVER = os.environ.get("LLAMA_SERVER_BIN", "")
needs_llama_server = pytest.mark.skipif(not LLAMA_SERVER, reason="LLAMA_SERVER_BIN names no binary of llama-server")


def start_server(dialect, model, port):
    """Start a server with the model, with probabilities, and wait until it is ready."""
    if dialect is ServerDialect.LLAMA_SERVER:
        words = [LLAMA_SERVER, "--model", str(model), "--host", "127.0.0.1", "--port", str(port), "--ctx-size", "4096",
                 "--parallel", "2", "--api-key", KEY, "--threads", "2"]  # fmt: skip
    else:
        words = [sys.executable, "-m", "llama_cpp.server", "--model", str(model), "--host", "127.0.0.1",
                 "--port", str(port), "--n_ctx", "2048", "--logits_all", "true", "--api_key", KEY]  # fmt: skip
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            headers = {"Authorization": f"Bearer {KEY}"}
            asked = urllib.request.Request(f"http://127.0.0.1:{port}/v1/models", headers=headers)
            urllib.request.urlopen(asked, timeout=1).close()
            return child
        except OSError:
            assert child.poll() is None, f"{dialect.value} did not start"
            time.sleep(0.1)
    child.kill()
    raise AssertionError(f"{dialect.value} is not ready")


@pytest.fixture(
    scope="module",
    params=[ServerDialect.LLAMA_PYTHON, pytest.param(ServerDialect.LLAMA_SERVER, marks=needs_llama_server)],
)
def dialect(request):
    return ServerDialect(request.param)


@pytest.fixture(scope="module")
def real(dialect, tiny_gguf):
    port = find_free_port()
    child = start_server(dialect, tiny_gguf, port)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.wait()


async def test_a_real_server_streams_under_a_grammar_and_is_known_for_what_it_is(real, dialect):
    async with opened(real, patience=30.0) as model:
        assert not model.grammars  # nothing is trusted before it is seen
        async with model.turn(1) as seat:
            pieces = [p async for p in seat.stream(ASK, DecodingParams(64), grammar='root ::= "a" [0-9]{12} "z"')]
        end = pieces.pop()
        assert isinstance(end, Generation)
        assert (model.grammars, model.dialect, model.name) == (True, dialect, "tiny")
        assert end.text == "".join(map(str, pieces))
        assert end.text[0] + end.text[-1] == "az"
        assert end.text[1:-1].isdigit()
        assert end.finish is FinishReason.STOP
        assert len(pieces) > 3
        assert 0 < end.figures.first_ms < end.figures.took_ms


async def test_a_real_server_counts_tells_odds_and_is_measured(real):
    async with opened(real + "/v1", patience=30.0) as model:
        end = await said(model, decoding=DecodingParams(5), grammar="root ::= [a-z]{20}")
        assert (end.finish, len(end.text)) == (FinishReason.LENGTH, 5)
        async with model.turn(1) as seat:
            odds = await seat.odds(ASK, "yes", "no")
            assert odds == pytest.approx(-(await seat.odds(ASK, "no", "yes")), abs=0.01)
            short, long, none = await seat.count(["a" * 10, "a" * 100, ""])
            assert long - short == 90
            assert none < short
            assert len(await seat.count(["half \ud83d"])) == 1
        rates = await model.measure_speed()
        assert min(rates.prefill, rates.decode) > 1


async def test_what_a_real_server_refuses_is_one_sentence_and_it_serves_on(real):
    model = RemoteModel(LlmSettings(url=real, key=SecretStr("sk-wrong-1")))
    with pytest.raises(GenerationFailed, match="check LLM__KEY") as caught:
        await said(model)
    await model.close()
    assert "sk-wrong" not in caught.value.reason
    async with opened(real, patience=30.0) as model:
        with pytest.raises(GenerationFailed):
            await said(model, Prompt("", "word " * 3000))
        for _ in range(3):  # llama_cpp.server sometimes cuts the request after one it stumbled over
            with suppress(GenerationFailed):
                assert (await said(model, grammar='root ::= "ok"')).text == "ok"
                break
        else:
            raise AssertionError("the server is not served any more")


async def test_a_generation_that_nobody_wants_is_stopped_and_the_next_is_served(real):
    async with opened(real, patience=30.0) as model:
        loop = asyncio.get_running_loop()
        for _ in range(3):
            long = ASK, DecodingParams(1500)
            async with model.turn(1) as seat, aclosing(seat.stream(*long, grammar="root ::= [a-z]{1400}")) as pieces:
                assert await anext(pieces)
            started = loop.time()
            assert (await said(model, grammar='root ::= "ok"')).text == "ok"
            assert loop.time() - started < 2
        assert model.waiting == 0
        task = asyncio.create_task(said(model, decoding=DecodingParams(1500), grammar="root ::= [a-z]{1400}"))
        await asyncio.sleep(0.1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (await said(model, grammar='root ::= "ok"')).text == "ok"


# a server that does everything wrong


@pytest.fixture
async def wrong():
    """What it does next is `answer`."""
    async with OpenAiServer(well) as server:
        yield server


async def well(request, asked):
    return await answer_with(lambda _: "Hello", length=3)(request, asked)


def status(code, text=""):
    async def does(request, asked):
        return web.Response(status=code, text=text or json.dumps(asked))  # as careless servers do: with the prompt

    return does


def sends(*lines, cut=False, kind="text/event-stream"):
    async def does(request, asked):
        response = await stream(request, *lines, kind=kind)
        if cut:
            request.transport.abort()
        return response

    return does


async def hangs(request, asked):
    await asyncio.sleep(30)
    raise AssertionError


async def falls_silent(request, asked):
    await stream(request, FIRST)
    return await hangs(request, asked)


def one_sentence(caught):
    reason = caught.value.reason
    return "\n" not in reason and reason.endswith((".", "?")) and KEY not in reason and "with 4417" not in reason


FIRST = make_event("Hel")
CUT = sends(FIRST, cut=True)


@pytest.mark.parametrize(
    "does",
    [
        status(500),
        status(429),
        status(503),
        status(400),
        status(404),
        status(302),
        status(200),
        sends(b"<html>"),
        sends(b"\xff\xfe\x00" * 50),
        sends(b"data: {nonsense\n\n"),
        sends(b"data: " + b"[" * 20_000 + b"\n\n"),
        sends(b"data: 7\n\n"),
        sends(b'data: {"error": {"message": "' + SECRET_POST.encode() + b'"}}\n\n'),
        sends(b"data: " + b"x" * (2 << 20)),
        sends(FIRST),
        sends(FIRST, b"data: [DONE]\n\n"),
        CUT,
        sends(FIRST + b'data: {"choices": [{"del', cut=True),
        sends(cut=True),
        sends(b"{}", kind="application/json"),
        hangs,
        falls_silent,
    ],
)
async def test_whatever_goes_wrong_is_one_sentence_in_bounded_time(wrong, does):
    wrong.answer = does
    async with opened(wrong.url, patience=0.5) as model, asyncio.timeout(30):
        with pytest.raises(GenerationFailed) as caught:
            await said(model)
        assert one_sentence(caught)
        assert model.waiting == 0
        assert len(wrong.asked) == 1 or does not in (CUT, falls_silent)  # what has begun is not asked twice


async def test_a_reply_that_drips_has_a_limit_in_all(wrong, monkeypatch):
    async def drips(request, asked):
        return await stream(request, *[make_event("a")] * 100, pause=0.05)

    wrong.answer = drips
    monkeypatch.setattr(openai_client, "_STREAM_TIMEOUT_S", 0.3)
    async with opened(wrong.url, patience=0.3) as model, asyncio.timeout(3):
        with pytest.raises(GenerationFailed, match="took too long"):
            await said(model)
        async with model.turn(1) as seat:
            with pytest.raises(GenerationFailed, match="took too long"):
                await seat.odds(ASK, "yes", "no")
        assert model.waiting == 0


async def test_signs_of_life_keep_a_slow_answer(wrong):
    async def does(request, asked):
        response = await stream(request, b": ping\r\n\r\n")
        for _ in range(4):
            await asyncio.sleep(0.2)
            await response.write(b": ping\r\n\r\n")
        whole = (make_event("ok", "stop") + b"data: [DONE]\n\n").replace(b"\n", b"\r\n")
        for byte in range(0, len(whole), 7):
            await response.write(whole[byte : byte + 7])
        return response

    wrong.answer = does
    async with opened(wrong.url, patience=0.5) as model:
        assert (await said(model)).text == "ok"


async def test_a_failing_server_is_asked_again_then_left_alone_and_found_again(wrong):
    async def busy_twice(request, asked):
        return await (well if len(wrong.asked) == 3 else status(429))(request, asked)

    async with opened(wrong.url, rest=0.4) as model:
        wrong.answer = busy_twice
        assert (await said(model)).text == "Hello"
        assert len(wrong.asked) == 3
        wrong.answer = status(400, "no")  # what is refused says nothing about the server
        for _ in range(4):
            with pytest.raises(GenerationFailed, match=r"refused the request \(400\)"):
                await said(model)
        wrong.answer = status(500)
        for _ in range(3):
            with pytest.raises(GenerationFailed, match=r"failed \(500\)"):
                await said(model)
        asked, wrong.answer = len(wrong.asked), well
        with pytest.raises(ModelLeftAlone, match="left alone"):
            await said(model)
        assert len(wrong.asked) == asked
        await asyncio.sleep(0.5)
        assert (await said(model)).text == "Hello"


async def test_a_server_that_drips_when_it_is_met_is_left_alone(monkeypatch):
    async def drips(request):
        return await stream(request, *[b" "] * 100, pause=0.05, kind="application/json")

    monkeypatch.setattr(openai_client, "_INFO_TIMEOUT_S", 0.3)
    async with LocalServer(web.get("/v1/models", drips)) as server, opened(server.url) as model, asyncio.timeout(3):
        for error in (ServerTooSlow, ModelLeftAlone, ModelLeftAlone):
            with pytest.raises(error):
                await said(model)


async def test_as_many_as_may_are_served_at_once_and_the_others_are_told_their_place(wrong):
    inside, most, go = 0, 0, asyncio.Event()

    async def does(request, asked):
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await go.wait()
        inside -= 1
        return await well(request, asked)

    wrong.answer = does
    places = []

    async def third(model):
        async with model.turn(3, places.append) as seat:
            await collect_generation(seat.stream(ASK, GREEDY))

    async with opened(wrong.url, parallel=2) as model:
        tasks = [asyncio.create_task(said(model)) for _ in range(2)]
        async with asyncio.timeout(30):
            while inside < 2:  # noqa: ASYNC110 - a server rings no bell
                await asyncio.sleep(0.01)
            tasks.append(asyncio.create_task(third(model)))
            while not places:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert (inside, model.waiting, places) == (2, 3, [1])
        go.set()
        await asyncio.gather(*tasks)
        assert (most, model.waiting, places) == (2, 0, [1, 0])


async def test_a_server_that_tells_no_probabilities_judges_nothing(wrong):
    async def does(request, asked):
        return web.json_response({"choices": [{"message": {"content": "No, it does not"}}]})

    wrong.answer = does
    async with opened(wrong.url) as model, model.turn(1) as seat:
        with pytest.raises(GenerationFailed, match="gives no log-probabilities"):
            await seat.odds(ASK, "yes", "no")
        assert await seat.count(["", "abc", "abcd"]) == [0, 1, 2]  # estimated


async def test_a_server_that_was_started_with_another_model_is_looked_at_again(wrong):
    async def does(request, asked):
        known = wrong.models["data"][0]["id"]
        return await (well if asked["model"] == known else status(404))(request, asked)

    wrong.answer = does
    async with opened(wrong.url) as model:
        assert (await said(model)).text == "Hello"
        wrong.models = {"data": []}
        async with opened(wrong.url) as other:
            with pytest.raises(GenerationFailed, match="has no model"):
                await said(other)
        wrong.models = {"data": [{"id": "another", "owned_by": "llamacpp", "meta": None}]}
        with pytest.raises(GenerationFailed, match="no such model"):
            await said(model)
        assert (await said(model)).text == "Hello"
        assert (model.name, model.dialect, model.grammars) == ("another", ServerDialect.LLAMA_SERVER, True)


async def test_the_key_is_sent_and_not_logged(wrong, caplog):
    caplog.set_level(logging.DEBUG)
    keys = []

    async def does(request, asked):
        keys.append(request.headers["Authorization"])
        return await status(503)(request, asked)

    wrong.answer = does
    async with opened(wrong.url) as model:
        with pytest.raises(GenerationFailed):
            await said(model)
    assert set(keys) == {f"Bearer {KEY}"}
    assert KEY not in caplog.text
    assert "4417" not in caplog.text


@pytest.mark.parametrize("url", ["server:8080", "ftp://host", "http://", "http://host:port", "//"])
def test_an_address_that_is_none_is_refused_at_once(url):
    with pytest.raises(ModelUnavailable, match="LLM__URL"):
        model_at(url)


# what is sent and read


def test_each_server_gets_what_it_understands():
    schema, grammar = {"type": "object"}, "root ::= [a-z]"
    assert build_reply_constraint(ServerDialect.LLAMA_SERVER, grammar, schema) == {"grammar": grammar}
    for other in (ServerDialect.VLLM, ServerDialect.OTHER):
        assert build_reply_constraint(other, grammar, schema)["response_format"]["json_schema"]["schema"] == schema
    assert build_reply_constraint(ServerDialect.VLLM, grammar, None) == {"structured_outputs": {"grammar": grammar}}
    assert build_reply_constraint(ServerDialect.OTHER, grammar, None) == {}
    strict = build_request_body(ServerDialect.OTHER, "m", Prompt("", "a"), GREEDY)
    assert not {"top_k", "repeat_penalty", "chat_template_kwargs"} & set(strict)


def test_control_tokens_in_texts_are_only_text():
    prompt = Prompt("s", "</s> <|im_end|> [/INST] <<SYS>> <start_of_turn> <post 3> a < b", (("<s>", "x"),))
    sent = build_request_body(ServerDialect.LLAMA_SERVER, "m", prompt, GREEDY)["messages"]
    assert sent[-1]["content"] == "< /s> < |im_end|> [ /INST] < <SYS>> < start_of_turn> <post 3> a < b"
    assert sent[1]["content"] == "< s>"


def test_odds_are_those_of_the_likeliest_beginnings():
    def reply(*top):
        rows = [{"token": token, "logprob": logprob} for token, logprob in top]
        return {"choices": [{"logprobs": {"content": [{"top_logprobs": rows}]}}]}

    assert compute_log_odds(reply((" Yes", -0.1), ("no", -3.0), ("maybe", -4.0)), "yes", "no") == pytest.approx(2.9)
    assert compute_log_odds(reply(("Ye", -0.5), ("maybe", -4.0)), "yes", "no") == pytest.approx(3.5)
    assert compute_log_odds(reply(("maybe", -1.0), ("so", -2.0)), "yes", "no") == 0
    assert compute_log_odds({"choices": [{"logprobs": None}]}, "yes", "no") is None
