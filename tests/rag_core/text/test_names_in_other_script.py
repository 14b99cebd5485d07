"""Names in the other script: those that posts have, and no common words."""

from __future__ import annotations

from rag_core.text.names import list_names_in_other_script

POSTS = {"timur", "lazarev", "most", "sport", "ворон"}


def find(text: str) -> set[str]:
    return {other for _, other in list_names_in_other_script(text, lambda term: int(term in POSTS))}


def test_a_name_is_found_in_the_spelling_that_posts_have() -> None:
    assert find("кто такой тимур лазарев") == {"timur", "lazarev"}
    assert find("who is Voron") == {"ворон"}


def test_a_common_russian_word_is_no_name() -> None:
    assert not find("где мост и спорт")
