"""Web pages of other sites against the ports that the bot and its sandbox open on this machine."""

import asyncio
import json
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web
from driven_sandbox import DrivenSandbox
from driver import ADMIN, OTTO
from local_server import LocalServer, find_free_port
from metrics_client import wait_for

from bot.cli.demo import open_demo_sandbox
from bot.settings import Settings

EVIL = "http://evil.example"


async def status(url, method="GET", **how):
    async with aiohttp.ClientSession() as http, http.request(method, url, **how) as answer:
        return answer.status


def host_of(sandbox):
    return urlsplit(sandbox.url).netloc


# Requests as a browser sends them for another site's page, and with another site's name for 127.0.0.1
FOREIGN = {
    "DNS rebinding": {"Host": "evil.example"},
    "DNS rebinding, same origin": {"Host": "evil.example:8765", "Origin": "http://evil.example:8765"},
    "a name that begins like ours": {"Host": "127.0.0.1.evil.example"},
    "a name that ends like ours": {"Host": "evil-localhost"},
    "a user in the host": {"Host": "127.0.0.1:80@evil.example"},
    "no host": {"Host": ""},
    "fetch or form": {"Origin": EVIL},
    "a frame without an origin": {"Origin": "null"},
    "another port of this machine": {"Origin": "http://127.0.0.1:1"},
    "an image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "image"},
    "an image on another port": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Dest": "image"},
    "a link": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate"},
}


@pytest.mark.parametrize("headers", FOREIGN.values(), ids=FOREIGN)
async def test_a_foreign_page_reaches_no_route_of_the_sandbox(sandbox, headers):
    base = f"{sandbox.url}/bot{sandbox.token}"
    form = {"chat_id": OTTO, "text": "phish"}
    plain = {**headers, "Content-Type": "text/plain"}
    upload = await sandbox.send_file(OTTO, "secret.txt", b"secret")
    path = next(one for one in sandbox.world.files.values() if one.name == "secret.txt").path()
    before = len(sandbox.transcript), len(sandbox.world.room(OTTO).messages)
    found = [
        await status(f"{base}/sendMessage", "POST", data=form, headers=headers),
        await status(f"{base}/sendMessage", "POST", json=form, headers=headers),
        await status(f"{base}/sendMessage", "POST", data=json.dumps(form), headers=plain),
        await status(f"{base}/sendMessage?chat_id={OTTO}&text=phish", headers=headers),
        await status(f"{base}/setWebhook?url=https://evil.example/x&drop_pending_updates=true", headers=headers),
        await status(f"{base}/getUpdates?offset=999999999&timeout=0", headers=headers),
        await status(f"{base}/logOut", "POST", headers=headers),
        await status(f"{base}/getMe", "OPTIONS", headers={**headers, "Access-Control-Request-Method": "POST"}),
        await status(f"{sandbox.url}/file/bot{sandbox.token}/{path}", headers=headers),
        await status(f"{sandbox.url}/sandbox/state?user={ADMIN}", headers=headers),
        await status(f"{sandbox.url}/sandbox/say", "POST", json={"user": OTTO, "text": "x"}, headers=headers),
        await status(f"{sandbox.url}/sandbox/stop", "POST", json={"user": OTTO, "draft": 1}, headers=headers),
        await status(f"{sandbox.url}/page/app.js", headers=headers),
        await status(f"{sandbox.url}/nowhere", headers=headers),
    ]
    assert found == [403] * len(found)
    assert (len(sandbox.transcript), len(sandbox.world.room(OTTO).messages)) == before
    assert upload["document"]


async def test_two_hosts_are_none(sandbox):
    asked = f"GET /bot{sandbox.token}/getMe HTTP/1.1\r\nHost: {host_of(sandbox)}\r\nHost: evil.example\r\n\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(host_of(sandbox).partition(":")[2]))
    writer.write(asked.encode())
    assert (await reader.readline()).split()[1] in {b"400", b"403"}
    writer.close()


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:9000"},  # through a tunnel
        {"Host": "LOCALHOST:9000", "Origin": "http://localhost:9000"},
        {"Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Dest": "document"},
    ],
)
async def test_programs_and_the_page_itself_are_served(sandbox, headers):
    assert await status(f"{sandbox.url}/bot{sandbox.token}/getMe", headers=headers) == 200
    assert await status(f"{sandbox.url}/sandbox/state?user={OTTO}", headers=headers) == 200


async def test_a_link_opens_the_page_and_no_frame_does(sandbox):
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert await status(f"{sandbox.url}/?user={OTTO}", headers=link) == 200
    assert await status(f"{sandbox.url}/", headers={**link, "Sec-Fetch-Dest": "iframe"}) == 403
    async with aiohttp.ClientSession() as http, http.get(sandbox.url) as page:
        assert "frame-ancestors 'none'" in page.headers["Content-Security-Policy"]
        assert page.headers["Cross-Origin-Opener-Policy"] == "same-origin"


async def test_the_token_of_a_sandbox_is_another_each_time_and_only_it_opens():
    one, other = DrivenSandbox(), DrivenSandbox()
    assert one.token != other.token
    assert len(one.token) >= 35
    await one.start()
    try:
        for token in ("42:SANDBOX", other.token, one.token[:-1], "42:", "42:\u0430"):
            assert await status(f"{one.url}/bot{token}/getMe") == 401
            assert await status(f"{one.url}/file/bot{token}/documents/file_1") == 404
        assert await status(f"{one.url}/bot{one.token}/getMe") == 200
    finally:
        await one.stop()


async def test_the_demo_uses_a_token_of_its_own_run(tmp_path):
    given = Settings.model_validate({"data": {"dir": tmp_path / "data"}, "models": {"embedder": "none"}})
    tokens = set()
    for _ in range(2):
        async with open_demo_sandbox(given, 0) as (sandbox, demo):
            assert demo.bot.token.get_secret_value() == sandbox.token
            tokens.add(sandbox.token)
    assert len(tokens) == 2
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert not any(token.partition(":")[2].encode() in kept for token in tokens)


async def test_figures_are_not_for_foreign_pages(live):
    port = find_free_port()
    async with live(sections={"monitoring": {"port": port}}):
        await wait_for(port, lambda found: bool(found))
        for name in ("metrics", "healthz", "readyz"):
            url = f"http://127.0.0.1:{port}/{name}"
            for headers in FOREIGN.values():
                assert await status(url, headers=headers) == 403
            for headers in ({}, {"Host": "localhost"}, {"Host": "127.0.0.1:9"}, {"Host": "[::1]:9"}):
                assert await status(url, headers=headers) in {200, 503}


async def test_figures_that_others_shall_read_are_read_by_any_name(live):
    port = find_free_port()
    async with live(sections={"monitoring": {"port": port, "host": "0.0.0.0", "public": True}}):
        await wait_for(port, lambda found: bool(found))
        assert await status(f"http://127.0.0.1:{port}/metrics", headers={"Host": "citegram:9090"}) == 200


ATTACK = """async ([base, token, otto, upload]) => {
  const call = (method, more = "") => `${base}/bot${token}/${method}?chat_id=${otto}&text=phish${more}`;
  const said = {};
  const attempt = async (name, work) => {
    try { said[name] = await Promise.race([work(), new Promise((done) => setTimeout(() => done("nothing"), 3000))]); }
    catch (error) { said[name] = `${error.name}`; }
  };
  const read = async (url, how) => { const r = await fetch(url, how); return r.type + " " + (await r.text()); };
  const json = { "Content-Type": "application/json" }, body = JSON.stringify({ user: otto, text: "phish" });
  await attempt("fetch GET", () => read(call("sendMessage"), { mode: "no-cors" }));
  await attempt("fetch POST text/plain", () =>
    read(`${base}/bot${token}/sendMessage`, { method: "POST", mode: "no-cors", body }));
  await attempt("fetch cors JSON", () => read(`${base}/sandbox/say`, { method: "POST", headers: json, body }));
  await attempt("fetch cors GET state", () => read(`${base}/sandbox/state?user=501`));
  await attempt("read a file", () => read(`${base}${upload}`));
  await attempt("beacon", async () => navigator.sendBeacon(`${base}/bot${token}/sendMessage?chat_id=${otto}&text=p`));
  const element = (tag, set) => new Promise((done) => {
    const one = Object.assign(document.createElement(tag), set);
    one.onload = () => done("loaded"); one.onerror = () => done("error");
    document.body.append(one);
  });
  await attempt("img", () => element("img", { src: call("sendMessage") }));
  await attempt("script", () => element("script", { src: call("setWebhook", "&url=https://evil.example/x") }));
  await attempt("page's script", () => element("script", { src: `${base}/page/app.js`, type: "module" }));
  await attempt("style", () => element("link", { rel: "stylesheet", href: `${base}/page/style.css` }));
  await attempt("EventSource", () => new Promise((done) => {
    const source = new EventSource(call("sendMessage"));
    source.onopen = () => done("open"); source.onerror = () => { source.close(); done("error"); };
  }));
  await attempt("WebSocket", () => new Promise((done) => {
    const socket = new WebSocket(call("sendMessage").replace("http", "ws"));
    socket.onopen = () => done("open"); socket.onerror = () => done("error");
  }));
  for (const [method, enctype] of [["GET", ""], ["POST", "application/x-www-form-urlencoded"],
                                   ["POST", "multipart/form-data"], ["POST", "text/plain"]])
    await attempt(`form ${method} ${enctype}`, async () => {
      const frame = Object.assign(document.createElement("iframe"), { name: `f${Math.random()}` });
      const action = `${base}/bot${token}/sendMessage`;
      const form = Object.assign(document.createElement("form"), { action, method, target: frame.name });
      if (enctype) form.enctype = enctype;
      for (const [name, value] of [["chat_id", otto], ["text", "phish"]])
        form.append(Object.assign(document.createElement("input"), { name, value }));
      document.body.append(frame, form);
      form.submit();
      await new Promise((done) => (frame.onload = done));
      return "sent";
    });
  await attempt("frame of the page", async () => {
    const frame = document.createElement("iframe");
    frame.src = `${base}/`;
    document.body.append(frame);
    await new Promise((done) => (frame.onload = done));
    return frame.contentDocument ? "readable" : "closed";
  });
  return said;
}"""


async def foreign_page(_):
    """Another site: a page without any policy of its own, on another port of this machine."""
    return web.Response(text="<!doctype html><title>evil</title><body>", content_type="text/html")


async def test_a_foreign_page_in_a_browser_does_nothing(sandbox, browser):
    """Even one that knows the token, which a page cannot, and one whose own name stands for this machine by now."""
    await sandbox.send_file(OTTO, "secret.txt", b"the secret")
    path = next(one for one in sandbox.world.files.values() if one.name == "secret.txt").path()
    before = json.dumps([room.messages for room in sandbox.world.rooms.values()], default=str)
    lines = len(sandbox.transcript)
    async with LocalServer(web.get("/", foreign_page)) as site:
        page = await browser.new_page()
        for host in ("127.0.0.1", "localhost"):
            await page.goto(site.url.replace("127.0.0.1", host))
            upload = f"/file/bot{sandbox.token}/{path}"
            said = await page.evaluate(ATTACK, [sandbox.url, sandbox.token, OTTO, upload])
            assert len(said) == 17
            assert not [name for name, what in said.items() if "secret" in str(what) or "posts" in str(what)]
            assert not {name for name, what in said.items() if what in {"loaded", "open", "readable"}}
        rebound = await page.goto(f"http://evil.example:{urlsplit(sandbox.url).port}/")
        assert rebound.status == 403
        read = "async (url) => { const r = await fetch(url); return [r.status, await r.text()] }"
        for url in (f"/sandbox/state?user={ADMIN}", f"/bot{sandbox.token}/sendMessage?chat_id={OTTO}&text=phish"):
            code, text = await page.evaluate(read, url)
            assert code == 403
            assert "Otto" not in text
        await page.goto(f"{sandbox.url}/?user={OTTO}")  # typed into the address bar
        await page.locator("#chats [data-chat]").first.wait_for()
    assert len(sandbox.transcript) == lines
    assert not sandbox.world.queue.webhook
    assert json.dumps([room.messages for room in sandbox.world.rooms.values()], default=str) == before
