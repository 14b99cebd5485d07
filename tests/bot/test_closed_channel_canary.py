"""A secret lies in every kind of private channel, and an outsider hunts for it in every way there is to ask.

Everything that is sent where the outsider can see it is searched: texts, entities, buttons, drafts, file names,
files, and what a pressed button says.
"""

import asyncio
import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime

import pytest
from driver import ADMIN, GROUP, HARBOUR, OTTO, RITA, index_posts, sent, wait_until_idle
from sample_sizes import FULL

from bot import access
from bot.sandbox.state import get_message_key, is_message_visible, set_chat_member
from rag_core import RagSettings, open_engine
from rag_core.errors import ArchiveUnavailable
from rag_core.storage import channels, posts, readers
from rag_core.types import Channel, Post, PostKey, Visibility

CREW_GROUP, OTHER_GROUP = -1010, -1011
BASE = -1009990000
# kind -> (visibility, state, the bot is in the channel)
KINDS = {
    "members": (Visibility.MEMBERS, "active", True),
    "admins": (Visibility.ADMINS, "active", True),
    "pending": (Visibility.PUBLIC, "pending", True),
    "removed": (Visibility.PUBLIC, "removed", True),
    "paused": (Visibility.PUBLIC, "paused", True),
    "imported": (Visibility.MEMBERS, "active", False),
}
CHAT = {kind: BASE - n for n, kind in enumerate(KINDS)}
WORD = {kind: f"xyzzy{kind}quux" for kind in KINDS}
TITLE = {kind: f"Vault {kind}land" for kind in KINDS}
SECRETS = [*WORD.values(), *TITLE.values(), *(f"/c/{str(chat).removeprefix('-100')}" for chat in CHAT.values())]
ASKED = {
    "en": "Which password opens the cellar of the smuggler's warehouse?",
    "ru": "Какой пароль открывает подвал склада контрабандистов?",
}
SEARCHED = {"en": "password cellar warehouse smuggler", "ru": "пароль подвал склад"}
COUNTED = {"en": "How many posts are about the cellar password?", "ru": "Сколько постов про пароль от подвала?"}
POSTED = {"en": "What was posted on 5 May 2024?", "ru": "Что писали 5 мая 2024?"}
NAMED = {"en": "what is the password in the channel Vault {}land?", "ru": "какой пароль в канале Vault {}land?"}
COMMANDS = (
    "start help why sources search channels import bind unbind delete check reindex models stats grant revoke settings "
    "mode new verify privacy export stop token"
).split()


def hidden(kind, number):
    word = f"{WORD[kind]}{number}"
    text = f"The password that opens the cellar of the smuggler's warehouse is {word}. "
    text += f"Пароль, который открывает подвал склада контрабандистов: {word}."
    return Post(PostKey(CHAT[kind], number), datetime(2024, 5, 5, 9, number, tzinfo=UTC), text)


@pytest.fixture
async def planted(home, sandbox):
    """The home with a secret in each kind of channel; Rita is a member of all, Otto of none."""
    async with open_engine(RagSettings.model_validate({"data": {"dir": home}})) as rag:
        for kind, (visibility, state, inside) in KINDS.items():
            await channels.save_channel(rag.archive, Channel(CHAT[kind], TITLE[kind], visibility=visibility))
            if inside:
                await channels.record_bot_joined(rag.archive, CHAT[kind])
            await posts.save_posts(rag.archive, [hidden(kind, n) for n in range(1, 4)], source="test")
            if state == "removed":
                await channels.remove_channel(rag.archive, CHAT[kind])
                await posts.save_posts(rag.archive, [hidden(kind, n) for n in range(4, 7)], source="test")
            else:
                await channels.set_channel_state(rag.archive, CHAT[kind], state)
            sandbox.world.add_channel(CHAT[kind], TITLE[kind], members=[ADMIN, RITA], bot=inside)
        await readers.bind_channel(rag.archive, CREW_GROUP, CHAT["members"])
        await readers.bind_channel(rag.archive, GROUP, HARBOUR)
        await index_posts(rag)
    sandbox.world.add_group(CREW_GROUP, "Crew", members=[RITA, ADMIN])
    sandbox.world.add_group(OTHER_GROUP, "Elsewhere", members=[OTTO])
    yield home


def get_receiver(params):
    """The one member who sees what a call shows; None where all in its chat do."""
    given = params.get("ephemeral_message_parameters")
    found = (json.loads(given) if isinstance(given, str) else given or params).get("receiver_user_id")
    return None if found is None else int(found)


class Hunt:
    def __init__(self, sandbox, home, lang):
        self.sandbox, self.home, self.lang = sandbox, home, lang
        sandbox.world.people[OTTO].lang = lang

    async def says(self, text, chat=None, who=OTTO, **more):
        message = await self.sandbox.say(who, text, chat_id=chat, **more)
        await self.rest()
        return message

    async def says_all(self, *said):
        for text, chat, parent in said:
            await self.sandbox.say(OTTO, text, chat_id=chat, reply_to=parent)
        await self.rest()

    async def presses(self, chat, buttons, *messages):
        async with asyncio.TaskGroup() as group:
            for message in messages:
                for data in buttons:
                    group.create_task(self.sandbox.press(OTTO, chat, message, data))
        await self.rest()

    async def rest(self):
        await wait_until_idle(self.sandbox, self.home)

    def shown(self, *chats):
        return sent(self.sandbox, *chats)

    def buttons(self, *chats):
        return self.buttons_of(*self.shown(*chats))

    def buttons_of(self, *messages):
        rows = [row for m in messages for row in m.get("reply_markup", {}).get("inline_keyboard", ())]
        return list(
            dict.fromkeys(button["callback_data"] for row in rows for button in row if "callback_data" in button)
        )

    def seen(self):
        """All that went where Otto sees it."""
        world, where = self.sandbox.world, {str(OTTO), str(GROUP), str(OTHER_GROUP)}
        mine = [
            c["params"]
            for c in self.sandbox.transcript
            if str(c["params"].get("chat_id")) in where and get_receiver(c["params"]) in (None, OTTO)
        ]
        mine += [
            message
            for chat in (GROUP, OTHER_GROUP)
            for key, message in world.room(chat).messages.items()
            if is_message_visible(key, OTTO)
        ]
        mine += [
            call["params"]
            for call in self.sandbox.transcript
            if call["method"] == "answerCallbackQuery"
            and world.queries[call["params"]["callback_query_id"]].user_id == OTTO
        ]
        files = [f"{file.name} {file.data.decode(errors='replace')}" for file in world.files.values()]
        return "\n".join([json.dumps(mine, ensure_ascii=False), *files])


async def in_private(hunt):
    await hunt.says(ASKED[hunt.lang])


async def by_ask(hunt):
    await hunt.says(f"/ask {ASKED[hunt.lang]}")


async def by_mention(hunt):
    await hunt.says(f"@citegram_bot {ASKED[hunt.lang]}", GROUP)


async def by_command_in_a_group(hunt):
    await hunt.says(f"/ask@citegram_bot {ASKED[hunt.lang]}", GROUP)


async def by_reply(hunt):
    seen = [key for key in hunt.sandbox.world.sent[GROUP] if key > 0]
    await hunt.says(ASKED[hunt.lang], GROUP, reply_to=seen[-1])


async def in_another_group(hunt):
    await hunt.says(f"/ask@citegram_bot {ASKED[hunt.lang]}", OTHER_GROUP)


async def an_admin_asks_in_the_group(hunt):
    await hunt.says(f"/ask@citegram_bot {ASKED[hunt.lang]}", GROUP, ADMIN)
    await hunt.says(f"/search@citegram_bot {SEARCHED[hunt.lang]}", GROUP, ADMIN)
    await hunt.says("/bind@citegram_bot", GROUP, ADMIN)
    await hunt.says("/settings@citegram_bot", GROUP, ADMIN)


async def a_member_asks_in_the_group(hunt):
    """Rita alone is shown what she may read, and "Show to all" shows the group nothing of it."""
    for text in (f"/ask@citegram_bot {ASKED[hunt.lang]}", f"/search@citegram_bot {SEARCHED[hunt.lang]}"):
        await hunt.says(text, GROUP, RITA)
    alone = [m for m in hunt.shown(GROUP) if m.get("receiver_user", {}).get("id") == RITA]
    assert WORD["members"] in str(alone)
    for message in alone:
        for data in hunt.buttons_of(message):
            await hunt.sandbox.press(RITA, GROUP, get_message_key(message), data)
    for text in ("/why@citegram_bot", "/sources@citegram_bot", "/link@citegram_bot", "source?"):
        await hunt.says(text, GROUP, RITA, reply_to=next(key for key in hunt.sandbox.world.sent[GROUP] if key > 0))
    await hunt.rest()


async def by_search_and_its_pages(hunt):
    await hunt.says(f"/search {SEARCHED[hunt.lang]}")
    await hunt.says("/search the")
    await hunt.says(f"/search@citegram_bot {SEARCHED[hunt.lang]}", GROUP)
    await hunt.presses(OTTO, hunt.buttons(OTTO), *(message["message_id"] for message in hunt.shown(OTTO)))


async def by_why_on_the_answer_of_another(hunt):
    of_all = [("/why@citegram_bot", GROUP, message["message_id"]) for message in hunt.shown(GROUP)]
    mine = [("/why", None, message["message_id"]) for message in hunt.shown(OTTO)[:5]]
    await hunt.says_all(*of_all, *mine, ("/why", None, None))


REMARKS = ("source?", "show me the whole post", "точно?", "когда это написали?", "ещё", "tldr")


async def by_remarks_on_the_answer_of_another(hunt):
    answers = [message["message_id"] for message in hunt.shown(GROUP)]
    await hunt.says_all(*((remark, GROUP, answer) for answer in answers[:3] for remark in REMARKS))
    await hunt.says_all(*((remark, None, None) for remark in REMARKS))


async def by_buttons_of_others(hunt):
    stolen = hunt.buttons(ADMIN, RITA, CREW_GROUP, GROUP)
    assert len(stolen) > 10
    for chat in (OTTO, GROUP):
        await hunt.presses(chat, stolen, hunt.sandbox.world.sent[chat][-1])


async def by_forwarding(hunt):
    known = hunt.sandbox.world.room(OTTO)
    await hunt.says("", forward_of=(OTTO, max(known.messages)))
    post = await hunt.sandbox.post(HARBOUR, ASKED[hunt.lang])
    await hunt.says("", forward_of=(HARBOUR, post["message_id"]))


async def by_editing(hunt):
    message = await hunt.says("hello")
    await hunt.sandbox.edit(OTTO, message["message_id"], ASKED[hunt.lang])
    message = await hunt.says("/search ferry")
    await hunt.sandbox.edit(OTTO, message["message_id"], f"/search {SEARCHED[hunt.lang]}")
    await hunt.rest()


async def by_deep_link(hunt):
    with closing(sqlite3.connect(hunt.home / "citegram.db")) as archive:
        tables = [row[0] for row in archive.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        handles = [
            row[0]
            for table in tables
            for column in archive.execute(f"PRAGMA table_info({table})").fetchall()
            if column[1] == "handle"
            for row in archive.execute(f"SELECT handle FROM {table} WHERE handle IS NOT NULL")
        ]
    links = [button for m in hunt.shown(RITA, ADMIN) for button in str(m).split("?start=")[1:]]
    payloads = [*handles, *(link.split("'")[0] for link in links), "q1", "1", "a" * 64]
    await hunt.says_all(*((f"/start {payload}", None, None) for payload in payloads))


async def by_counting(hunt):
    await hunt.says(COUNTED[hunt.lang])


async def by_the_day(hunt):
    await hunt.says(POSTED[hunt.lang])


async def by_the_channels_name(hunt):
    for kind in KINDS:
        named = f"/search {SEARCHED[hunt.lang]} t.me/c/{str(CHAT[kind]).removeprefix('-100')}"
        await hunt.says_all((NAMED[hunt.lang].format(kind), None, None), (named, None, None))


async def by_a_refusal(hunt):
    await hunt.says("smuggler warehouse xylophone?" if hunt.lang == "en" else "контрабандисты и ксилофон?")


async def after_an_insider(hunt):
    asked = ASKED[hunt.lang] + " please"
    await hunt.says(asked, who=RITA)
    await hunt.says(asked, who=ADMIN)
    await hunt.says(asked)


async def by_every_command(hunt):
    await hunt.says_all(*((f"/{command}", None, None) for command in COMMANDS))
    await hunt.says_all(*((f"/{c}@citegram_bot {SEARCHED[hunt.lang]}", GROUP, None) for c in COMMANDS))


async def by_commands_about_a_post(hunt):
    links = [f"https://t.me/c/{str(chat).removeprefix('-100')}/1" for chat in CHAT.values()]
    said = [f"/{command} {link}" for link in links for command in ("delete", "check", "why", "verify")]
    await hunt.says_all(*((text, None, None) for text in said))


async def by_a_failure(hunt):
    async def broken(*_, **__):
        raise ArchiveUnavailable(f"The file {TITLE['admins']} with {WORD['admins']} cannot be read.")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(access, "get_readable_channels", broken)
        patch.setattr(access, "build_viewer", broken)
        await hunt.says(ASKED[hunt.lang])
        await hunt.says(f"/search {SEARCHED[hunt.lang]}")
        await hunt.says("/start")
    await hunt.says("?" * 2000)


async def by_rich_messages(hunt):
    """The notes of a rich message show more of a post than its quotes."""
    for who, chat in ((OTTO, None), (OTTO, OTHER_GROUP), (ADMIN, GROUP)):
        await hunt.says("/mode@citegram_bot rich", chat, who)
        await hunt.says(f"/ask@citegram_bot {ASKED[hunt.lang]}", chat, who)
        await hunt.says(f"/verify@citegram_bot {ASKED[hunt.lang]}", chat, who)
    for text in (POSTED[hunt.lang], COUNTED[hunt.lang], "When does the ferry to Owl Island leave?", "/digest now"):
        await hunt.says(text)
    rich = [call["params"]["rich_message"] for call in hunt.sandbox.transcript if call["method"] == "sendRichMessage"]
    assert any("reference_link" in one for one in rich)
    for who, chat in ((OTTO, None), (OTTO, OTHER_GROUP), (ADMIN, GROUP)):
        await hunt.says("/mode@citegram_bot plain", chat, who)


# These say the same in every language, or differ in how the same question comes to the bot.
ONCE = {
    by_why_on_the_answer_of_another, by_buttons_of_others, by_remarks_on_the_answer_of_another, by_deep_link,
    by_every_command, by_commands_about_a_post, by_mention, by_command_in_a_group, by_reply, in_another_group,
    by_forwarding, by_editing,
}  # fmt: skip
WAYS = (
    in_private, by_ask, by_mention, by_command_in_a_group, by_reply, in_another_group, an_admin_asks_in_the_group,
    a_member_asks_in_the_group,
    by_search_and_its_pages, by_why_on_the_answer_of_another, by_buttons_of_others, by_forwarding,
    by_remarks_on_the_answer_of_another, by_editing, by_deep_link, by_counting, by_the_day, by_a_refusal,
    after_an_insider, by_rich_messages, by_every_command, by_a_failure,
)  # fmt: skip
# There Otto writes a title or a link, which may be said back; what stands in the channel may not.
LAST = (by_the_channels_name, by_commands_about_a_post)


@pytest.mark.parametrize("lang", ["en", "ru"])
async def test_no_way_of_asking_tells_an_outsider_a_secret(sandbox, live, planted, lang):
    hunt = Hunt(sandbox, planted, lang)
    async with live(reader_limit=10_000, chat_limit=10_000):
        await insiders(hunt)
        for way in (*WAYS, *LAST):
            if lang == "en" or FULL or way not in ONCE:
                await way(hunt)
                assert not any(secret in hunt.seen() for secret in (WORD.values() if way in LAST else SECRETS)), way
    assert len(hunt.shown(OTTO)) > (60 if lang == "en" else 20)  # it was an answer each time, and no silence


async def insiders(hunt):
    """Who may know does: else silence would prove nothing. And they leave buttons behind."""
    for who, chat in ((RITA, None), (ADMIN, None), (RITA, CREW_GROUP)):
        before = len(hunt.shown(chat or who))
        await hunt.says(f"/ask@citegram_bot {ASKED[hunt.lang]}", chat, who)
        assert "xyzzymembersquux" in str(hunt.shown(chat or who)[before:]), who
        await hunt.says(f"/search@citegram_bot {SEARCHED[hunt.lang]}", chat, who)
        assert TITLE["members"] in str(hunt.shown(chat or who)[before:]), who
    assert not any(WORD[kind] in str(hunt.shown(RITA)) for kind in KINDS if kind != "members")
    assert WORD["admins"] in str(hunt.shown(ADMIN))
    await hunt.says("/mode rich", who=RITA)
    await hunt.says(ASKED[hunt.lang], who=RITA)
    assert "reference_link" in str(hunt.shown(RITA)[-1]["rich_message"])
    assert WORD["members"] in str(hunt.shown(RITA)[-1]["rich_message"])
    for command in ("/channels", "/grant 777", "/reindex"):
        await hunt.says(command, who=ADMIN)


async def test_who_is_thrown_out_does_not_hear_their_own_old_answer_again(sandbox, live, planted):
    hunt = Hunt(sandbox, planted, "en")
    async with live():
        await hunt.says(ASKED["en"], who=RITA)
        asked = len(hunt.shown(RITA))
        assert WORD["members"] in str(hunt.shown(RITA))
        set_chat_member(sandbox.world, CHAT["members"], RITA, "kicked", by=ADMIN)
        await hunt.rest()
        for text in (ASKED["en"], "/why", "/sources", f"/search {SEARCHED['en']}", "/start", POSTED["en"]):
            await hunt.says(text, who=RITA)
        heard = str(hunt.shown(RITA)[asked:])
    assert not any(secret in heard for secret in SECRETS)
