"""Names that posts give to common words, read from the posts of the asker's channels; the administrators' synonyms."""

from __future__ import annotations

from typing import Any

import pytest

from rag_core.storage.channels import Synonym, add_synonym, list_synonyms, remove_synonym
from rag_core.text.aliases import find_aliases
from rag_core.text.tokens import tokenize


@pytest.mark.parametrize(
    ("text", "asked", "found"),
    [
        ("В порту стоит катер «Стриж».", "где катер", ("катер", "Стриж")),
        ("На углу открылась кофейня. Называется «Сова», кофе варит Оля.", "кофейня", ("кофейня", "Сова")),
        ("Ember, our bakery on the quay, opens at eight.", "is the bakery open", ("bakery", "Ember")),
        ("Ada Marsh is the harbour master.", "who is the master", ("master", "Marsh")),
        ("Ember, our bakery on the quay, opens at eight.", "when does Ember open", ("Ember", "bakery")),
    ],
)
def test_a_name_and_its_common_word_stand_for_each_other(text: str, asked: str, found: tuple[str, str]) -> None:
    (term,), (other,) = map(tokenize, found)
    assert (term, other) in find_aliases(tokenize(asked), [text])


def test_a_word_with_many_names_has_no_alias_and_a_month_is_no_name() -> None:
    many = [f"Фильм «{name}» идёт сегодня." for name in ("Ветер", "Сосна", "Причал")]
    assert not find_aliases(tokenize("какой фильм"), many)
    assert not find_aliases(tokenize("что в октябре"), ["С октября «Стриж» стоит в доке."])


async def test_names_and_own_synonyms_find_posts_that_lack_the_word(library: Any, make_post: Any) -> None:
    await library.keep(
        make_post(20, "The kiosk by the pier is called Ember.", chat=library.harbour),
        make_post(21, "Ember: closed on Mondays, open on other days until nine.", chat=library.harbour),
        *(make_post(n, f"Bulletin {n}: wind and rain.", chat=library.harbour) for n in range(30, 40)),
    )
    assert 21 in {source.passage.key.message_id for source in (await library.ask("is the kiosk shut on mondays")).found}
    archive = library.rag.archive
    own = Synonym(library.harbour, "nosh", "mackerel")
    assert await add_synonym(archive, own, 1)
    assert not await add_synonym(archive, own, 1)
    assert await list_synonyms(archive, {library.harbour}) == [own]
    assert not await list_synonyms(archive, set())
    library.rag.caches.forget()
    answer = await library.ask("when is the nosh sold")
    assert 2 in {source.passage.key.message_id for source in answer.found}
    assert ("nosh", "mackerel") in answer.aliases
    assert await remove_synonym(archive, own)
    assert not await remove_synonym(archive, own)
