"""Whatever is claimed, of whatever post: a label, and never an exception."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_core.verification.claim_extraction import extract_claims
from rag_core.verification.rules import assess_text

PIECES = st.sampled_from(
    """не нет never not 5 млн 2 750 ₽ 7:30 12.08 половине седьмого в пн-пт Sundays Иван Петров Apache licence MIT
    говорят, что неправда « » " ' — ( ) [1] #тег @channel https://t.me/a/1 he он она may должен half past six 漢字 🔥 İ
    — -- . ! ? \n \x00 \u202e e\u0301 ﬁ 'ь ъ ы a б 1/2 ½ ٣ 10% $ € 4-17-19 8–20 №""".split(" ")
)
TEXT = st.lists(PIECES, max_size=30).map(" ".join) | st.text(max_size=120) | st.lists(PIECES, max_size=12).map("".join)


@given(TEXT, TEXT, st.sampled_from(["ru", "en"]))
def test_any_claim_is_weighed_against_any_post(claim: str, post: str, lang: str) -> None:
    found = assess_text(claim, post, lang)
    assert 0 <= found.likely <= 1
    assert 0 <= found.start <= found.end <= len(post)


@given(TEXT)
def test_claims_stand_where_they_say_in_any_message(text: str) -> None:
    for claim in extract_claims(text):
        assert text[claim.start : claim.end] == claim.text
