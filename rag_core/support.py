"""Whether the cited posts say a sentence: by the rules of `rag_core.verify`, and most of its words are there.

A sieve for what a model makes up: numbers, dates, names and links of no post, and what a post denies or leaves open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rag_core.analysis import language_of, terms
from rag_core.asked import kindred, kinship
from rag_core.header import speakers
from rag_core.phrases import day
from rag_core.sentences import LONGEST, Span, pieces, sentences
from rag_core.types import Citation, Passage, Sentence, Source
from rag_core.verify.facts import links_in, without_links
from rag_core.verify.rules import by_rules
from rag_core.wants import names_in

__all__ = ["ENOUGH", "attributed", "best_quote", "supported"]

ENOUGH = 0.5  # of a sentence's terms: a paraphrase keeps more, another topic has fewer
_NOT_VERBATIM = 0.99  # 1.0 is for the post's own words
_PART = 0.2  # of a sentence's terms: a post with fewer is named for nothing
_SAYS = 12  # characters: fewer stand in any text
_KIN = 0.5  # of a name's letters: "Ивана" is "Иван"
# Words that tell whose words follow and when, in a sentence about posts; no post has them.
_TELLING = frozenset(
    terms(
        "пост посты посте постов постах сказано написано пишет пишут говорится сообщается сообщает сообщили согласно "
        "данным дата канал канале позже раньше однако другой другом post posts says said states wrote writes written "
        "according channel date reported later earlier however while another"
    )
)
# Words that say so of the name beside them.
_TELLS = (
    r"(?:says|said|states|stated|reports|reported|writes|wrote|posts|posted|announces|announced|"
    r"пишет|пишут|сообщает|сообщают|сообщил[аио]?|написал[аио]?|объявил[аио]?|рассказал[аио]?)\b(?:\s+(?:that|что)\b)?,?"
)
_TOLD_BY = (
    r"\b(?:according to|as reported by|reported by|posted by|written by|as stated by|(?:in|on) the channel|"
    r"по данным|по информации|по сообщению|по словам|согласно|пишет|сообщает|сообщил[аио]?|написал[аио]?|"
    r"в канале|канал)(?:\s+(?:the|channel|канала))*\s"
)
_TOLD = re.compile(f"{_TOLD_BY}|{_TELLS}", re.I)
_SHORT_WORD, _CYRILLIC = 3, re.compile(r"[а-яё]", re.I)
_WORD = re.compile(r"[^\W_]+")
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_GROUPED = re.compile(r"(?<=\d)[\s\u00a0\u202f,](?=\d{3}(?!\d))")


def supported(sentence_text: str, passages: Sequence[Passage]) -> float:
    """How much of a sentence the passages say, 0..1: 1.0 for their own words, 0 with a number, name or link of none.

    The date of a post is part of what it says. Its header is not: whoever names a channel, or themselves, or is replied
    to, would have their words cited from a post that does not hold them. It may be named as who says it.
    """
    sentence_text = _without_speakers(sentence_text, passages)
    if not passages or not sentence_text.strip():
        return 0.0
    parts = [sentence_text[start:end] for start, end in sentences(sentence_text)]
    if len(parts) > 1:  # a true sentence does not carry another through
        return min(supported(part, passages) for part in parts)
    said = "\n".join(_said(passage) for passage in passages)
    if _numbers(sentence_text) - _numbers(said) or not _links_stand(sentence_text, passages):
        return 0.0  # before all: "at 7" begins as "at 7:30" does
    if _objected(sentence_text, said):
        return 0.0
    if any(_verbatim(sentence_text, passage) for passage in passages):
        return 1.0
    near = _near(sentence_text, said)
    if any(near.get(name, 1.0) < _KIN for name in names_in(sentence_text)):
        return 0.0
    if not near:
        return _NOT_VERBATIM if _numbers(sentence_text) else 0.0
    return min(_NOT_VERBATIM, sum(near.values()) / len(near))


def _objected(text: str, said: str) -> bool:
    """Whether the rules object: all but a word that has another in its place, which may mean the same."""
    kept = " ".join(word for word in text.split() if not _TELLING.intersection(terms(word)))
    checked = by_rules(kept, said, language_of(text))
    return any(objection.sort != "word" for objection in checked.objections)


def attributed(text: str, sources: Sequence[Source]) -> Sentence | None:
    """The sentence with a quote of each source that has part in it; None where they do not say it."""
    passages = [source.passage for source in sources]
    support = supported(text, passages) if len(text) <= LONGEST else 0.0
    if support < ENOUGH:
        return None
    if support == 1.0:
        passages = [passage for passage in passages if _verbatim(text, passage)]
    else:
        having = [passage for passage in passages if _has_part(text, passage)]
        less = supported(text, having) if len(having) < len(passages) else support
        passages, support = (having, less) if less >= ENOUGH else (passages, support)
    citations = tuple(_cited(text, passage) for passage in passages if passage.text.strip())
    return Sentence(text, citations, round(support, 3)) if citations else None


def _cited(text: str, passage: Passage) -> Citation:
    start, end = best_quote(text, passage) or (0, len(passage.text))
    place = passage.start + start
    return Citation(passage.key, passage.text[start:end], place, passage.start + end, passage.date)


def _has_part(text: str, passage: Passage) -> bool:
    near = _near(text, _said(passage))
    return not near or sum(near.values()) / len(near) >= _PART


def _near(text: str, said: str) -> dict[str, float]:
    """Each word of the text: 1 where it stands there, less where a kindred one does. Numbers and links are no words."""
    there = frozenset(terms(said))
    words = terms(without_links(text))
    asked = {term for term in words if not term.isdigit() and (term in there or term not in _TELLING)}
    return {term: 1.0 if term in there else kinship(term, there) for term in asked}


def _verbatim(text: str, passage: Passage) -> bool:
    """Whether it is whole words of the passage in their order, and enough of them to say something."""
    found = _plain(text)
    at = f" {_plain(passage.text)} ".find(f" {found} ")
    return len(found) >= _SAYS and at >= 0


def best_quote(sentence_text: str, passage: Passage) -> Span | None:
    """Where in the passage's text the sentence stands that is most like this one; None in a passage without text."""
    asked, numbers = frozenset(terms(sentence_text)), _numbers(sentence_text)
    kin = kindred(asked, terms(passage.text))
    best, most = None, -1.0
    for sentence in sentences(passage.text):
        for start, end in pieces(passage.text, sentence):
            piece = passage.text[start:end]
            there = frozenset(terms(piece))
            near = (1.0 if term in there else next((n for n, o in kin[term] if o in there), 0.0) for term in asked)
            like = sum(near)
            like += len(numbers & _numbers(piece)) - 0.01 * len(there)  # of two that say it, the one that says no more
            if best is None or like > most:
                best, most = (start, end), like
    return best


def _said(passage: Passage) -> str:
    """A passage with its date in the usual writings."""
    dates = " ".join((f"{passage.date:%Y-%m-%d}", day(passage.date, "ru"), day(passage.date, "en")))
    return f"{dates}\n{passage.text}"


def _without_speakers(text: str, passages: Sequence[Passage]) -> str:
    """The text without "according to Harbour News" and the like, where that is whose post it is."""
    if not _TOLD.search(text):
        return text
    for name in dict.fromkeys(name for passage in passages for name in speakers(passage.header)):
        said = r"[\W_]+".join(map(_in_any_case, _WORD.findall(name)))
        if said:
            text = re.sub(rf"{_TOLD_BY}\W{{0,2}}{said}(?!\w)\W?|(?<!\w){said}\W{{0,2}}{_TELLS}", " ", text, flags=re.I)
    return text


def _in_any_case(word: str) -> str:
    """A pattern of a name's word; a Russian one may have another ending."""
    long = len(word) > _SHORT_WORD and _CYRILLIC.search(word)
    return rf"{re.escape(word[:-2])}\w{{0,4}}" if long else re.escape(word)


def _plain(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _numbers(text: str) -> frozenset[str]:
    """Numbers as values: 2 750 is 2,750 and 2750; 03 is 3; 3,5 is 3.5."""
    found = _NUMBER.findall(_GROUPED.sub("", text))
    return frozenset(number.replace(",", ".").lstrip("0") or "0" for number in found)


def _links_stand(text: str, passages: Sequence[Passage]) -> bool:
    """Whether every address and @name of the text stands in a passage, whole: a model makes no links."""
    return links_in(text) <= links_in("\n".join(passage.text for passage in passages))
