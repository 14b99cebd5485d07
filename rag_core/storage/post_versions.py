"""Post versions: rows to posts and back, albums as one post, and merging of arriving posts; pure functions.

A version is made when the text changed; white space at its ends, entities, views and reactions are no change. The
newest version has the greatest (stamp, update id): a version that arrives late never replaces it and is kept among
the older ones. An album has the key of its captioned post and the captions of all its members. In rows, times are
Unix seconds and lists are JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rag_core.storage.rows import encode_entities, encode_post, hash_post_text, to_unix_seconds
from rag_core.types import Entity, Media, Origin, Post, PostKey

__all__ = ["MergeState", "PostMerger", "PostTally", "merge_album"]

_CAPTION_SEPARATOR = "\n\n"


def merge_album(members: Sequence[Post]) -> Post:
    """The one post that stands for the members of an album, which are at least one.

    Its key is that of the first with a caption, else of the first with a file name, else of the first.
    Offsets of its text are not those of a member where there is more than one caption.
    """
    ordered = sorted(members, key=lambda post: post.key)
    captioned = [post for post in ordered if post.text.strip()]
    head = next(iter(captioned), None) or next(filter(_get_file_name, ordered), ordered[0])
    if len(ordered) == 1:
        return head
    edited = [post.edited for post in ordered if post.edited]
    return replace(
        head,
        text=_CAPTION_SEPARATOR.join(post.text for post in captioned),
        entities=_merge_entities(captioned),
        links=tuple(dict.fromkeys(link for post in ordered for link in post.links)),
        media=_merge_media(head, ordered),
        edited=max(edited) if edited else None,
        origin=next((post.origin for post in (head, *ordered) if post.origin), None),
        reply_to=next((post.reply_to for post in ordered if post.reply_to), None),
        version=1 + sum(post.version - 1 for post in ordered),
    )


def _get_file_name(post: Post) -> str | None:
    return post.media.file_name if post.media else None


def _merge_media(head: Post, members: Sequence[Post]) -> Media | None:
    """The head's kind, and the names of all files: each is looked for."""
    names = dict.fromkeys(filter(None, map(_get_file_name, members)))
    return replace(head.media, file_name=", ".join(names) or None) if head.media else None


def _merge_entities(captioned: Sequence[Post]) -> tuple[Entity, ...]:
    found: list[Entity] = []
    before = 0
    for post in captioned:
        found += (replace(entity, offset=entity.offset + before) for entity in post.entities)
        before += len((post.text + _CAPTION_SEPARATOR).encode("utf-16-le", "surrogatepass")) // 2
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PostTally:
    """How many posts were new, edited, the same, left out, deleted."""

    new: int = 0
    edited: int = 0
    unchanged: int = 0
    skipped: int = 0
    deleted: int = 0

    def __add__(self, other: PostTally) -> PostTally:
        return PostTally(
            self.new + other.new,
            self.edited + other.edited,
            self.unchanged + other.unchanged,
            self.skipped + other.skipped,
            self.deleted + other.deleted,
        )


@dataclass(slots=True)
class MergeState:
    """One stored post while arrivals are worked in.

    `older` are the fingerprints of its earlier texts; `touched` asks for its row to be written,
    `moved` for a new sequence number as well, so that the indexes look at it again. `firm`: an admin
    deleted it, so that only a newer version brings it back, not an old export.
    """

    post: Post
    stamp: int
    update_id: int
    seq: int = 0
    living: bool = True
    suspected: bool = False
    firm: bool = False
    older: set[bytes] = field(default_factory=set)
    touched: bool = False
    moved: bool = False


class PostMerger:
    """The stored posts a batch touches; arrivals are worked in one after another, then written at once."""

    def __init__(self, shelves: Iterable[MergeState]) -> None:
        self._shelves: dict[PostKey, MergeState] = {shelf.post.key: shelf for shelf in shelves}
        self._versions: list[tuple[object, ...]] = []

    def differing(self, posts: Iterable[Post]) -> set[PostKey]:
        """Keys whose stored text differs from an arriving one: only theirs need `remember`."""
        stored = self._shelves
        return {p.key for p in posts if p.key in stored and not _have_same_text(p, stored[p.key].post)}

    def remember(self, key: PostKey, older: bytes) -> None:
        """Say that a stored post had a text with this fingerprint before."""
        self._shelves[key].older.add(older)

    def arrive(self, post: Post, update_id: int) -> PostTally:
        """Work in one post."""
        stamp = to_unix_seconds(post.stamp)
        shelf = self._shelves.get(post.key)
        if shelf is None:
            self._shelves[post.key] = MergeState(replace(post, version=1), stamp, update_id, moved=True)
            return PostTally(new=1)
        if shelf.firm and not shelf.living and (stamp, update_id) <= (shelf.stamp, shelf.update_id):
            return PostTally(unchanged=1)
        replaced = self._work_in(shelf, post, (stamp, update_id))
        if shelf.suspected:  # here it is: it was not gone
            shelf.suspected, shelf.moved = False, True
        if not shelf.living:
            shelf.living = shelf.moved = True
            return PostTally(new=1)
        return PostTally(edited=1) if replaced else PostTally(unchanged=1)

    def _work_in(self, shelf: MergeState, post: Post, arrived: tuple[int, int]) -> bool:
        current = (shelf.stamp, shelf.update_id)
        if _have_same_text(post, shelf.post):
            if arrived >= current:
                self._refresh(shelf, post, arrived)
            return False
        # A file that holds two texts of one id with one time would otherwise edit to and fro at every import.
        known = hash_post_text(post.text) in shelf.older
        if arrived > current or (arrived == current and not known):
            self._put_away(shelf, shelf.post, current)
            shelf.post = replace(_fill_from_stored(shelf.post, post), version=shelf.post.version)
            shelf.stamp, shelf.update_id = arrived
            shelf.moved = True
            return True
        if not known:
            self._put_away(shelf, post, arrived)
        return False

    def _refresh(self, shelf: MergeState, post: Post, arrived: tuple[int, int]) -> None:
        """The same text again: learn what else it says, without a new version."""
        stored = shelf.post
        # Offsets of entities fit the very text they came with.
        exact = post if post.text == stored.text else stored
        learnt = replace(
            _fill_from_stored(stored, post),
            date=stored.date,
            edited=stored.edited,
            text=stored.text,
            entities=exact.entities,
            links=exact.links,
            version=stored.version,
        )
        shelf.touched |= learnt != stored or arrived != (shelf.stamp, shelf.update_id)
        shelf.moved |= _get_header_fields(learnt) != _get_header_fields(stored)
        shelf.post = learnt
        shelf.stamp, shelf.update_id = arrived

    def _put_away(self, shelf: MergeState, post: Post, arrived: tuple[int, int]) -> None:
        mark = hash_post_text(post.text)
        self._versions.append((*post.key, *arrived, mark, post.text, encode_entities(post.entities)))
        shelf.older.add(mark)
        shelf.post = replace(shelf.post, version=shelf.post.version + 1)
        shelf.touched = True

    def rows(self, seq: int) -> tuple[int, list[tuple[object, ...]]]:
        """The last number given out after `seq`, and the rows of `posts` to write.

        A row: the values of `POST_COLUMNS`, then seq, stamp, update id, fingerprint.
        """
        rows = []
        for shelf in self._shelves.values():
            if shelf.moved:
                seq += 1
                shelf.seq = seq
            if shelf.moved or shelf.touched:
                mark = hash_post_text(shelf.post.text)
                rows.append((*encode_post(shelf.post), shelf.seq, shelf.stamp, shelf.update_id, mark))
        return seq, rows

    def versions(self) -> list[tuple[object, ...]]:
        """The rows of `post_versions` to write."""
        return self._versions

    def latest(self) -> dict[int, int]:
        """chat_id -> greatest message id touched."""
        found: dict[int, int] = {}
        for chat_id, message_id in self._shelves:
            found[chat_id] = max(message_id, found.get(chat_id, message_id))
        return found


def _have_same_text(one: Post, other: Post) -> bool:
    return one.text == other.text or one.text.strip() == other.text.strip()


def _get_header_fields(post: Post) -> tuple[object, ...]:
    """What is searched for beside the text, and what decides whether it is searched at all."""
    media, origin = post.media, post.origin
    return (media and media.file_name, origin and origin.name, post.reply_to, post.album, post.guarded)


def _fill_from_stored(stored: Post, post: Post) -> Post:
    """The arriving post, with what only the stored one knows: an export knows less than a live message."""
    return replace(
        post,
        author=post.author or stored.author,
        media=post.media or stored.media,
        origin=_choose_fuller_origin(stored.origin, post.origin),
        reply_to=post.reply_to or stored.reply_to,
        album=stored.album or post.album,
        # once guarded, always: an export does not say it
        guarded=post.guarded or stored.guarded,
        views=post.views if post.views is not None else stored.views,
    )


def _choose_fuller_origin(stored: Origin | None, arrived: Origin | None) -> Origin | None:
    if stored is None or arrived is None:
        return stored or arrived
    if stored.name == arrived.name:  # each format knows other things of one forward
        return Origin(
            arrived.name,
            arrived.chat_id or stored.chat_id,
            arrived.message_id or stored.message_id,
            arrived.date or stored.date,
        )
    known = [sum(x is not None for x in (o.chat_id, o.message_id, o.date)) for o in (stored, arrived)]
    return stored if known[0] > known[1] else arrived
