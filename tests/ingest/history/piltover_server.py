"""An independent Telegram server (piltover) with one channel, run by the interpreter of its checkout.

python piltover_server.py CHECKOUT: prints one line of JSON (port, public key, token of the bot, channel), then does
what each line of its input says: {"post": 300}, {"album": ["caption", ""]}, {"delete": [5, 6]}, {"edit": [9, "text"]},
{"leave": true}; {"silent": true} makes it say of all ids that they are empty, {"flood": 2} answers the next request
with a flood wait. Everything listens on loopback. Telegram names ids that are empty
(https://core.telegram.org/constructor/messageEmpty), which this server leaves out of its replies: they are added here.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(sys.argv[1])
CONFIG = CHECKOUT / "tests" / "config"
for _name in ("app", "gateway", "system", "worker"):
    os.environ[f"{_name.upper()}_CONFIG"] = str(CONFIG / f"{_name}.toml")
os.chdir(CHECKOUT)
sys.path.insert(0, str(CHECKOUT))

from loguru import logger  # noqa: E402

logger.remove()

import piltover.app.app as server  # noqa: E402
from PIL import Image  # noqa: E402
from piltover.app.handlers.channels import _add_user_to_channel  # noqa: E402
from piltover.config import APP_CONFIG  # noqa: E402
from piltover.db.enums import PeerType  # noqa: E402
from piltover.db.models import Bot, Peer, State, User, Username  # noqa: E402
from piltover.db.models import Channel as ChannelRow  # noqa: E402
from piltover.exceptions import ErrorRpc  # noqa: E402
from piltover.tl.functions.channels import GetMessages  # noqa: E402
from piltover.tl.types import MessageEmpty  # noqa: E402
from telethon import TelegramClient, functions, types  # noqa: E402
from telethon.crypto import rsa  # noqa: E402
from telethon.sessions import StringSession  # noqa: E402

PHONE, CODE = "+123456789", "22222"
BATCH = 100


def misbehave(orders: dict[str, Any]) -> None:
    """Name empty ids as Telegram does, and do the odd things that were ordered."""
    handler = server.app._worker.request_handlers[GetMessages.tlid()]
    plain = handler.func

    async def get_messages(request: Any, user_id: int) -> Any:
        if seconds := orders.pop("flood", 0):
            raise ErrorRpc(420, f"FLOOD_WAIT_{seconds}")
        found = await plain(request, user_id)
        if orders.get("silent"):
            found.messages = []
        there = {message.id for message in found.messages}
        wanted = [one.id for one in request.id]
        found.messages = [*found.messages, *(MessageEmpty(id=one) for one in wanted if one not in there)]
        return found

    handler.func = get_messages


async def sign_up(port: int, key: str) -> tuple[TelegramClient, int]:
    rsa.add_key(key, old=False)
    session = StringSession()
    session.set_dc(2, "127.0.0.1", port)
    person = TelegramClient(session, 1, "hash", receive_updates=False)
    await person.connect()
    sent = await person.send_code_request(PHONE)
    found = await person(functions.auth.SignInRequest(PHONE, sent.phone_code_hash, CODE))
    if not hasattr(found, "user"):
        found = await person(functions.auth.SignUpRequest(PHONE, sent.phone_code_hash, "Ann", "Owner"))
    return person, found.user.id


async def create_bot(owner: int) -> tuple[User, str]:
    user = await User.create(phone_number=None, first_name="Cite", bot=True)
    await Username.create(user=user, username="cite_bot")
    await State.create(user=user)
    await Peer.create(owner=user, type=PeerType.SELF, user=user)
    row = await Bot.create(owner_id=owner, bot=user)
    return user, f"{user.id}:{row.token_nonce}"


async def main() -> None:
    async with server.app.run_test(create_sys_user=True, run_actual_server=True) as gateway:
        for centre in APP_CONFIG.dc_list:
            for address in centre.addresses:
                address.port = gateway.port
        orders: dict[str, Any] = {}
        misbehave(orders)
        key = server.app._public_key
        person, owner = await sign_up(gateway.port, key)
        channel = (await person(functions.channels.CreateChannelRequest("Bakery", "", broadcast=True))).chats[0]
        bot, token = await create_bot(owner)
        row = (await ChannelRow.all())[0]
        await _add_user_to_channel(row, await Peer.get(type=PeerType.CHANNEL, channel=row), bot.id)
        reply({"port": gateway.port, "key": key, "token": token, "channel": channel.id})
        where = types.InputChannel(channel.id, channel.access_hash)
        peer, posted = types.InputPeerChannel(channel.id, channel.access_hash), 0
        while line := await asyncio.to_thread(sys.stdin.readline):
            order = json.loads(line)
            orders |= {key: value for key, value in order.items() if key in ("flood", "silent")}
            for start in range(0, order.get("post", 0), BATCH):
                count = min(BATCH, order["post"] - start)
                texts = [f"Хлеб {posted + n} рублей" for n in range(count)]
                for text in texts:  # one after the other: ids in the order of posting
                    posted += 1
                    await person(functions.messages.SendMessageRequest(peer, text, random_id=posted))
            if "album" in order:
                await person.send_file(peer, [draw() for _ in order["album"]], caption=order["album"])
            for start in range(0, len(order.get("delete", ())), BATCH):
                ids = order["delete"][start : start + BATCH]
                await person(functions.channels.DeleteMessagesRequest(where, ids))
            if "edit" in order:
                number, text = order["edit"]
                await person(functions.messages.EditMessageRequest(peer, number, message=text))
            if "leave" in order:
                await (await row.get_participant(bot.id)).delete()
            reply({"done": order})
        await person.disconnect()
        os._exit(0)  # connections that are open would be waited for


def draw() -> io.BytesIO:
    file = io.BytesIO()
    file.name = "picture.png"
    Image.new("RGB", (64, 64)).save(file, "PNG")
    file.seek(0)
    return file


def reply(told: dict[str, Any]) -> None:
    print(json.dumps(told), flush=True)


asyncio.run(main())
