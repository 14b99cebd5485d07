"""What a reader gets is the same whatever happens in channels that they may not read."""

from dataclasses import replace

import pytest

from rag_core.retrieval.post_search import list_posts
from rag_core.storage import channels, posts
from rag_core.types import Channel, Origin, Visibility
from rag_core.verification.verify import verify_text


async def missing(library):
    """What is said to be missing by /search, by a refusal and by /verify."""
    found = await list_posts(library.question("tugboat"), library.rag)
    refused = await library.ask("Who was elected mayor of the moon?")
    claim = await verify_text(library.question("The mayor of the moon was elected on Friday."), library.rag)
    assert refused.refused
    return [one.reason for one in (*found.shortfalls, *refused.shortfalls, *claim.shortfalls)]


async def test_that_posts_of_a_closed_channel_wait_for_the_index_is_not_told(library, make_post):
    assert await missing(library) == []
    await library.keep(make_post(50, "The treasurer resigned.", chat=library.safe), index=False)
    assert await missing(library) == []
    await library.keep(make_post(50, "The museum is closed.", chat=library.harbour), index=False)
    assert len(await missing(library)) == 3
    assert "1 changes" in (await missing(library))[1]


async def test_only_changes_of_the_given_channels_are_counted(library, make_post):
    archive, seq = library.rag.archive, await posts.get_last_seq(library.rag.archive)
    await library.keep(*(make_post(60 + n, f"Memo {n}.", chat=library.safe) for n in range(5)), index=False)
    await library.keep(make_post(60, "News.", chat=library.kiln), index=False)
    assert await posts.count_unindexed_posts(archive, seq, {library.harbour}) == 0
    assert await posts.count_unindexed_posts(archive, seq, {library.harbour, library.kiln}) == 1
    assert await posts.count_unindexed_posts(archive, seq, {library.kiln, library.safe}) == 6


@pytest.mark.parametrize("state", ["active", "pending", "paused"])
async def test_the_username_of_a_closed_channel_is_not_known_by_its_forwards(library, make_post, state):
    forwarded = make_post(50, "Tugboat races begin.", chat=library.harbour, origin=Origin("Vault", library.safe, 7))
    await library.keep(forwarded)
    asked = library.question("posts forwarded from @secret_vault")
    before = await list_posts(asked, library.rag)
    closed = Channel(library.safe, "Treasurer's Vault", "secret_vault", visibility=Visibility.ADMINS, state=state)
    await channels.save_channel(library.rag.archive, closed)
    assert (await list_posts(asked, library.rag)).found == before.found == ()
    readable = replace(asked, viewer=replace(asked.viewer, channels=asked.viewer.channels | {library.safe}))
    assert [one.post.key for one in (await list_posts(readable, library.rag)).found] == [forwarded.key]
