"""A life of channels, the same for the same seed: posts, edits, albums, forwards, replies, polls, documents, repeats.

Every text holds marks, words that stand nowhere else, so that a version that should be gone is noticed.
"""

import random
from datetime import UTC, datetime, timedelta
from functools import partial

from chaos.expected_posts import ExpectedPost
from driven_sandbox import compose

from bot.sandbox import page_api
from rag_core.types import Channel, Origin, Post, PostKey, Visibility

COMMON = "zchan"  # stands in every title, and so in the header of every passage
CHANNELS = (
    Channel(-1_001_000_000_101, "Harbour Zchan", "chaos_harbour", visibility=Visibility.PUBLIC),
    Channel(-1_001_000_000_102, "Печь и глина Zchan", None, visibility=Visibility.PUBLIC),
    Channel(-1_001_000_000_103, "Zchan: вести", "chaos_news", visibility=Visibility.PUBLIC),
)
_GROUP = -1_009_000_000_101  # where Telegram repeats what the first channel posts
_EDITOR = 700
_EN = (
    "ferry pier morning harbour island ticket weather captain sails bridge market lantern Friday "
    "engine repair winter museum orchard kettle garden signal letter window music"
).split()
_RU = (
    "паром причал утром гавань остров билет погода капитан парус мост рынок фонарь пятница "
    "мотор ремонт зима музей сад чайник огород сигнал письмо окно музыка"
).split()
# What happens, and how often of a hundred.
_DEEDS = {
    "post": 36, "edit": 28, "reply": 8, "forward": 6, "album": 5, "repeat": 5, "document": 4, "poll": 3,
    "untouched": 2, "early": 2, "poison": 1,
}  # fmt: skip
_HISTORY = 40  # posts of each channel from before the bot


class ChannelTraffic:
    """Does things in a sandbox, one update at a time, and writes down what they mean."""

    def __init__(self, sandbox, seed):
        self._world, self._queue = sandbox.world, sandbox.world.queue
        self._rng = random.Random(seed)
        self._steps = iter(())
        self._keys = []
        self._album = 10**16
        self.told = {}
        self.marks = []
        self.sent = {}  # update id -> the update
        self.poison = set()
        self.deeds = dict.fromkeys(_DEEDS, 0)
        self.updates = 0  # repeats included
        self._settle()

    def _settle(self):
        world = self._world
        world.add_person(_EDITOR, "Vera", lang="en")
        world.add_group(_GROUP, "Talk", members=[_EDITOR], bot="administrator")
        for channel in CHANNELS:
            world.add_channel(channel.chat_id, channel.title, channel.username, members=[_EDITOR])
            keys = [PostKey(channel.chat_id, n) for n in range(1, _HISTORY + 1)]
            start = datetime.fromtimestamp(1_700_000_000, UTC)
            old = [Post(key, start + timedelta(seconds=key.message_id), self._text()) for key in keys]
            world.add_history(channel.chat_id, old)
        world.room(CHANNELS[0].chat_id).linked = _GROUP

    def next(self):
        """The next update, or the few that come in one breath."""
        step = next(self._steps, None)
        if step is None:
            self._steps = iter(self._planned())
            step = next(self._steps)
        self.do(step)

    def strange(self):
        """An update that no bot of today understands."""
        self.do(partial(self._poison, CHANNELS[0].chat_id))

    def marked(self):
        """A post in the first channel that stays as it is; the mark that stands in it."""
        self.do(partial(self._post, CHANNELS[0].chat_id))
        said = self.told[self._keys.pop()].text.split()
        return next(word for word in said if word in self.marks[-2:])

    def do(self, step):
        """Do one thing, and remember the updates that come of it."""
        first = self._queue.next_id
        step()
        fresh = {n: self._queue.kept[n][1] for n in range(first, self._queue.next_id) if n in self._queue.kept}
        self.sent |= fresh
        self.updates += len(fresh)

    def _planned(self):
        """What comes next, as one or more updates."""
        deed = self._rng.choices(list(_DEEDS), list(_DEEDS.values()))[0] if self._keys else "post"
        self.deeds[deed] += 1
        chat = self._rng.choices(CHANNELS, (5, 3, 2))[0].chat_id
        if deed == "album":
            return self._members(chat)
        return [partial(getattr(self, f"_{deed}"), chat)]

    def _mark(self):
        self.marks.append(f"zq{len(self.marks)}x")
        return self.marks[-1]

    def _text(self, words=None):
        """Some words with a mark among the first of them; a long text has one at its end too."""
        pool = self._rng.choice((_EN, _RU))
        long = words is None and self._rng.random() < 0.03
        said = self._rng.choices(pool, k=words or self._rng.randint(350, 450) if long else self._rng.randint(4, 11))
        said.insert(self._rng.randrange(4), self._mark())
        return " ".join([*said, self._mark()]) if long else " ".join(said)

    def _tell(self, message, text, **known):
        key = PostKey(message["chat"]["id"], message["message_id"])
        if key not in self.told:
            self.told[key] = ExpectedPost(key, message["date"], [text], **known)
            self._keys.append(key)
        return self.told[key]

    def _posted(self, chat, text, **how):
        return page_api.post_as_channel(self._world, chat, compose(self._world, text, **how))

    def _any(self, least):
        """An earlier post, more often one of the latest."""
        for _ in range(20):
            pool = self._keys[-40:] if self._rng.random() < 0.6 else self._keys
            one = self.told[self._rng.choice(pool)]
            if least(one):
                return one
        return None

    def _post(self, chat):
        text = self._text()
        self._tell(self._posted(chat, text), text)

    def _edit(self, chat):
        """Mostly another text; now and then an earlier one again, or a caption that goes."""
        one = self._any(lambda told: not told.text.startswith("?"))
        if one is None:
            return self._post(chat)
        text, chance = self._text(), self._rng.random()
        if chance < 0.08 and len(one.texts) > 1 and one.texts[0]:
            text = one.texts[0]
        elif chance < 0.16 and one.album and one.text:
            text = ""
        if text != one.text:
            page_api.edit_as_author(self._world, *one.key, text)
            one.texts.append(text)
        return None

    def _untouched(self, chat):
        """An edit that changes no text: Telegram sends one for new buttons."""
        one = self._any(lambda told: True)
        message = self._world.room(one.key.chat_id).messages[one.key.message_id] if one else None
        if message is None:
            return self._post(chat)
        changed = message | {"edit_date": int(self._world.clock())}
        return self._queue.push_raw({"edited_channel_post": changed})

    def _early(self, chat):
        """An edit of a post from before the bot, which it never saw; later ones change it again."""
        number, text = self._rng.randint(1, _HISTORY), self._text()
        message = page_api.edit_as_author(self._world, chat, number, text)
        one = self._tell(message, text)
        if one.text != text:
            one.texts.append(text)

    def _reply(self, chat):
        parent = self._any(lambda told: told.text)
        if parent is None:
            return self._post(chat)
        text = self._text()
        message = self._posted(parent.key.chat_id, text, reply_to=parent.key.message_id)
        self._tell(message, text, parent=parent.key)
        return None

    def _forward(self, chat):
        """From a hidden name with a text of its own, or a copy of another channel's post."""
        source = self._any(lambda told: told.text and not (told.album or told.file or told.text.startswith("?")))
        if source is None or self._rng.random() < 0.5:
            text, name = self._text(), f"Гость {self._mark()}"
            self._tell(self._posted(chat, text, origin=name), text, origin=Origin(name))
            return
        titles = {channel.chat_id: channel.title for channel in CHANNELS}
        origin = source.origin or Origin(titles[source.key.chat_id], *source.key)
        self._tell(self._posted(chat, "", origin=tuple(source.key)), source.text, origin=origin)

    def _document(self, chat):
        """A file, with a caption or without."""
        text = self._text() if self._rng.random() < 0.7 else ""
        name = f"{self._mark()}.pdf"
        message = self._posted(chat, "", extra={"document": self._file(name), "caption": text or None})
        self._tell(message, text, file=name)

    def _file(self, name):
        return {"file_id": f"f{name}", "file_unique_id": f"u{name}", "file_name": name, "mime_type": "application/pdf"}

    def _poll(self, chat):
        question, options = f"?{self._text(5)}", [self._text(1), self._text(1)]
        asked = {"id": str(len(self.marks)), "question": question, "total_voter_count": 0, "is_closed": False}
        asked |= {"is_anonymous": True, "type": "regular", "allows_multiple_answers": False}
        asked |= {"allows_revoting": False, "members_only": False}
        choices = [{"text": text, "voter_count": 0, "persistent_id": str(n)} for n, text in enumerate(options)]
        message = self._posted(chat, "", extra={"poll": asked | {"options": choices}})
        self._tell(message, "\n".join([question, *(f"— {text}" for text in options)]))

    def _members(self, chat):
        """An album: photos or files, with a caption on one member, on two, or on none."""
        self._album += self._rng.randint(1, 10**6)
        size, files = self._rng.randint(2, 10), self._rng.random() < 0.3
        captioned = self._rng.sample(range(size), self._rng.choices((0, 1, 2), (15, 70, 15))[0])
        return [
            partial(self._member, chat, str(self._album), self._text() if n in captioned else "", files)
            for n in range(size)
        ]

    def _member(self, chat, album, text, files):
        name = f"{self._mark()}.pdf" if files else None
        extra = {"photo": None, "document": self._file(name), "caption": text or None} if name else None
        self._tell(self._posted(chat, text, album=album, extra=extra), text, album=album, file=name)

    def _repeat(self, chat):
        """Telegram sends again what was confirmed already."""
        latest = sorted(self.sent)
        number = self._rng.choice(latest[-200:] if self._rng.random() < 0.7 else latest)
        self._queue.push_raw(self.sent[number])
        self.updates += 1

    def _poison(self, chat):
        """An update that no bot of today understands."""
        room = self._world.room(chat)
        room.last_id += 1
        head = {"message_id": room.last_id, "date": int(self._world.clock()), "chat": room.wire(), "text": self._text()}
        self.poison.add(self._queue.next_id)
        origin = {"type": "from_the_future", "date": head["date"]}
        kinds = [{"brand_new_kind": head}, {"channel_post": head | {"forward_origin": origin}}]
        self._queue.push_raw(self._rng.choice(kinds))
