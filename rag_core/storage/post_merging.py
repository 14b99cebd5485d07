"""Post merging: arriving posts into the stored ones as versions, members of an album into one post; pure functions.

A version is made when the text changed; white space at its ends, entities and reactions are no change. The newest
version has the greatest (stamp, update id): a version that arrives late never replaces it and is kept among the older
ones. A known text is never replaced by none, except where an author took the caption of a file away. An album has the
key of its captioned post and the captions of all its members.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace

from rag_core.storage.post_rows import encode_entities, encode_post, hash_post_text, to_unix_seconds
from rag_core.types import Entity, Media, Origin, Post, PostKey

_CAPTION_SEPARATOR = "\n\n"
_CAPTIONED_KINDS = frozenset({"animation", "audio", "document", "live_photo", "photo", "video", "voice", "paid_media"})


def merge_album(members: Sequence[Post]) -> Post:
    """Merge the members of an album (at least one) into one post.

    Its key is that of the first member with a caption, else of the first with a file name, else of the first.
    With more than one caption, offsets into its text differ from those of the members.
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
    """The media kind of the head with the file names of all members, so that each can be searched."""
    names = dict.fromkeys(filter(None, map(_get_file_name, members)))
    return replace(head.media, file_name=", ".join(names) or None) if head.media else None


def _merge_entities(captioned: Sequence[Post]) -> tuple[Entity, ...]:
    entities: list[Entity] = []
    before = 0
    for post in captioned:
        entities += (replace(entity, offset=entity.offset + before) for entity in post.entities)
        before += len((post.text + _CAPTION_SEPARATOR).encode("utf-16-le", "surrogatepass")) // 2
    return tuple(entities)


@dataclass(frozen=True, slots=True)
class PostTally:
    """Counts of posts by outcome: new, edited, unchanged, skipped, deleted.

    `kept`: of the unchanged those that arrived without the text that is known of them.
    """

    new: int = 0
    edited: int = 0
    unchanged: int = 0
    skipped: int = 0
    deleted: int = 0
    kept: int = 0

    def __add__(self, other: PostTally) -> PostTally:
        return PostTally(*map(operator.add, astuple(self), astuple(other)))


@dataclass(slots=True)
class MergeState:
    """Merge state of one stored post while arriving versions are merged into it.

    `order` is the stamp and the update id of its newest version; `older` holds the hashes of its earlier texts.
    `needs_write`: its row must be written. `needs_reindex`: it also needs a new sequence number, so that the indexes
    read it again. `deleted_how` is None for a living post; one that an admin deleted is restored by a newer version
    only, not by an old export.
    """

    post: Post
    order: tuple[int, int]
    seq: int = 0
    deleted_how: str | None = None
    suspected: bool = False
    older: set[bytes] = field(default_factory=set)
    needs_write: bool = False
    needs_reindex: bool = False


class PostMerger:
    """Merger of a batch of arriving posts into the stored ones; the result is written in one go."""

    def __init__(self, states: Iterable[MergeState]) -> None:
        self.states: dict[PostKey, MergeState] = {state.post.key: state for state in states}
        self.versions: list[tuple[object, ...]] = []  # rows of `post_versions` to write

    def merge(self, post: Post, update_id: int) -> PostTally:
        """Merge one arriving post."""
        arrived = (to_unix_seconds(post.stamp), update_id)
        state = self.states.get(post.key)
        if state is None:
            self.states[post.key] = MergeState(replace(post, version=1), arrived, needs_reindex=True)
            return PostTally(new=1)
        if state.deleted_how == "admin" and arrived <= state.order:
            return PostTally(unchanged=1)
        kept = int(_lacks_known_text(state, post, arrived))
        if kept:
            post = replace(post, text=state.post.text, entities=state.post.entities, links=state.post.links)
        replaced = self._merge(state, post, arrived)
        if state.suspected:  # the post has arrived, so it was not deleted
            state.suspected, state.needs_reindex = False, True
        if state.deleted_how:
            state.deleted_how, state.needs_reindex = None, True
            return PostTally(new=1)
        return PostTally(edited=1) if replaced else PostTally(unchanged=1, kept=kept)

    def _merge(self, state: MergeState, post: Post, arrived: tuple[int, int]) -> bool:
        stored = state.post
        if post.text.strip() == stored.text.strip():
            if arrived >= state.order:
                # Update the other fields from a post with the same text, without a new version
                # Offsets of entities are valid only for exactly the text they came with.
                exact = post if post.text == stored.text else stored
                updated = replace(
                    _fill_from_stored(stored, post),
                    date=stored.date,
                    edited=stored.edited,
                    text=stored.text,
                    entities=exact.entities,
                    links=exact.links,
                    version=stored.version,
                )
                state.needs_write |= updated != stored or arrived != state.order
                state.needs_reindex |= _get_header_fields(updated) != _get_header_fields(stored)
                state.post, state.order = updated, arrived
            return False
        if arrived[0] == state.order[0] and arrived[1] <= state.order[1]:
            # the same version, read more or less fully: the lines of an attachment or of buttons are only in one
            if _is_beginning(stored.text, post.text):
                state.post = replace(
                    _fill_from_stored(stored, post), date=stored.date, edited=stored.edited, version=stored.version
                )
                state.needs_reindex = True
                return False
            if _is_beginning(post.text, stored.text):
                return False
        # An export with two texts of the same id and time would otherwise edit the post back and forth at each import.
        known = hash_post_text(post.text) in state.older
        if arrived > state.order or (arrived == state.order and not known):
            self._add_version(state, stored, state.order)
            state.post = replace(_fill_from_stored(stored, post), version=state.post.version)
            state.order, state.needs_reindex = arrived, True
            return True
        if not known:
            self._add_version(state, post, arrived)
        return False

    def _add_version(self, state: MergeState, post: Post, arrived: tuple[int, int]) -> None:
        text_hash = hash_post_text(post.text)
        self.versions.append((*post.key, *arrived, text_hash, post.text, encode_entities(post.entities)))
        state.older.add(text_hash)
        state.post = replace(state.post, version=state.post.version + 1)
        state.needs_write = True

    def rows(self, seq: int) -> tuple[int, list[tuple[object, ...]]]:
        """Return the last sequence number used, counting on from `seq`, and the rows of `posts` to write.

        A row: the values of `POST_COLUMNS`, then seq, stamp, update id, text hash.
        """
        rows = []
        for state in self.states.values():
            if state.needs_reindex:
                seq += 1
                state.seq = seq
            if state.needs_reindex or state.needs_write:
                text_hash = hash_post_text(state.post.text)
                rows.append((*encode_post(state.post), state.seq, *state.order, text_hash))
        return seq, rows


def _lacks_known_text(state: MergeState, post: Post, arrived: tuple[int, int]) -> bool:
    """Whether a post arrives without the text that is known of it, and not because its author removed a caption.

    Only a live edit of a file that may have a caption says so for certain.
    """
    if post.text.strip() or not state.post.text.strip():
        return False
    live_edit = arrived[1] > 0 and post.edited is not None and arrived > state.order
    return not (live_edit and post.media and post.media.kind in _CAPTIONED_KINDS)


def _is_beginning(short: str, long: str) -> bool:
    """Whether one text is the first lines of another."""
    return not short.strip() or long.strip().startswith(f"{short.strip()}\n")


def _get_header_fields(post: Post) -> tuple[object, ...]:
    """The fields that are indexed beside the text, and those that decide whether the post is indexed at all."""
    media, origin = post.media, post.origin
    return (media and media.file_name, origin and origin.name, post.reply_to, post.album, post.guarded, post.topic)


def _fill_from_stored(stored: Post, post: Post) -> Post:
    """The arriving post, completed from the stored one: an export has fewer fields than a live message."""
    return replace(
        post,
        author=post.author or stored.author,
        media=post.media or stored.media,
        origin=_choose_fuller_origin(stored.origin, post.origin),
        reply_to=post.reply_to or stored.reply_to,
        album=stored.album or post.album,
        # once guarded, always guarded: an export does not have this field
        guarded=post.guarded or stored.guarded,
        topic=post.topic or stored.topic,
    )


def _choose_fuller_origin(stored: Origin | None, arrived: Origin | None) -> Origin | None:
    if stored is None or arrived is None:
        return stored or arrived
    if stored.name == arrived.name:  # each format has other fields of the same forward
        return Origin(
            arrived.name,
            arrived.chat_id or stored.chat_id,
            arrived.message_id or stored.message_id,
            arrived.date or stored.date,
        )
    known = [sum(x is not None for x in (o.chat_id, o.message_id, o.date)) for o in (stored, arrived)]
    return stored if known[0] > known[1] else arrived
