"""Support of a written sentence by the posts it cites; and the check of its citations when it is shown.

A sentence is shown if one post says all of it. That filters out what a model makes up: numbers, dates, names and links
that the post lacks, what it denies or says with an opposite word, and what the sentence joins and the post does not
(fact_binding.py). The share of its terms that the post has measures the support of what is left.

The date of a post is part of what it says, its header is not: a channel's name may only appear as the speaker.

These checks are imported with the first sentence of a model: quotes do without them, and their tables take 0.1 s.

Every quote must stand in its stored post word for word at the moment of showing: a post may have been edited or
deleted, or a channel closed to the asker, while the answer was written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from itertools import chain

from rag_core.engine import Engine
from rag_core.storage import visible_posts
from rag_core.text.answer_type import extract_name_stems
from rag_core.text.numbers import extract_figures
from rag_core.text.post_text import extract_speakers
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences, tokenize_sentences
from rag_core.text.tokens import detect_language, find_similar_stems, measure_stem_similarity, tokenize
from rag_core.types import Citation, Draft, DropReason, Passage, Post, PostKey, Sentence, Source, Viewer
from rag_core.writing.phrases import format_day

MIN_SUPPORT = 0.6  # of a sentence that a post says in other words; where it has more of its terms, their share
_MAX_PARAPHRASE_SUPPORT = 0.99  # 1.0 is reserved for verbatim quotes
_MIN_VERBATIM_LENGTH = 12  # characters: shorter runs occur in any text
_MIN_NAME_SIMILARITY = 0.5  # share of a name's letters: "Ивана" matches "Иван"
# Words that attribute and date a statement in a sentence about posts; posts themselves lack them.
_REPORTING_WORDS = (
    "пост посты посте постов постах сказано написано пишет пишут говорится сообщается сообщает сообщили согласно "
    "данным дата канал канале позже раньше однако другой другом post posts says said states wrote writes written "
    "according channel date reported later earlier however while another"
)
# Reporting verbs beside a speaker's name.
_REPORTING_VERBS = (
    r"(?:says|said|states|stated|reports|reported|writes|wrote|posts|posted|announces|announced|"
    r"пишет|пишут|сообщает|сообщают|сообщил[аио]?|написал[аио]?|объявил[аио]?|рассказал[аио]?)\b(?:\s+(?:that|что)\b)?,?"
)
_ATTRIBUTION_PHRASE = (
    r"\b(?:according to|as reported by|reported by|posted by|written by|as stated by|(?:in|on) the channel|"
    r"по данным|по информации|по сообщению|по словам|согласно|пишет|сообщает|сообщил[аио]?|написал[аио]?|"
    r"в канале|канал)(?:\s+(?:the|channel|канала))*\s"
)
_MAX_SHORT_WORD, _CYRILLIC = 3, re.compile(r"[а-яё]", re.I)
_WORD = re.compile(r"[^\W_]+")


@cache
def _stem_reporting_words() -> frozenset[str]:
    return frozenset(tokenize(_REPORTING_WORDS))  # not at import: the Russian ones need the dictionary


def measure_support(sentence_text: str, passages: Sequence[Passage]) -> float:
    """Support of a sentence by the passages, 0..1: 1.0 if verbatim, at least MIN_SUPPORT if one of them says it, else 0.

    Of several sentences each must be said by a passage.
    """
    parts = [sentence_text[start:end] for start, end in split_sentences(sentence_text)]
    return min((max((_check(part, one)[0] for one in passages), default=0.0) for part in parts), default=0.0)


def _check(text: str, passage: Passage) -> tuple[float, DropReason | None]:
    """Measure the support of one sentence by one passage, with the reason where there is none.

    A post's date counts as part of its text, its header does not: otherwise a channel title, an author's name or a
    replied-to post could put words into a post that does not hold them. The header may only name the speaker.
    """
    text = _remove_attribution(text, [passage])
    rendered = _render_passage(passage)
    if extract_figures(text) - extract_figures(rendered):
        return 0.0, DropReason.NUMBER  # first of all: "at 7" is a prefix of "at 7:30"
    if not _are_links_known(text, [passage]):
        return 0.0, DropReason.LINK
    kept = " ".join(word for word in text.split() if not _stem_reporting_words().intersection(tokenize(word)))
    if not _WORD.search(kept):
        return 0.0, DropReason.WORDS
    if _is_verbatim(text, passage):
        return 1.0, None
    similarity = _match_terms(text, rendered)
    if any(similarity.get(name, 1.0) < _MIN_NAME_SIMILARITY for name in extract_name_stems(text)):
        return 0.0, DropReason.NAME
    from rag_core.verification.contradictions import find_opposite_words
    from rag_core.verification.fact_binding import find_unbound
    from rag_core.verification.facts import extract_facts, remove_links

    lang, plain = detect_language(text), remove_links(kept)
    if reason := find_unbound(plain, passage.text, passage.date, lang):
        return 0.0, reason
    span = find_best_quote(text, passage) or (0, 0)
    if any(find_opposite_words(extract_facts(plain, lang), extract_facts(passage.text[slice(*span)], lang))):
        return 0.0, DropReason.DENIED
    share = sum(similarity.values()) / len(similarity) if similarity else _MAX_PARAPHRASE_SUPPORT
    return min(_MAX_PARAPHRASE_SUPPORT, max(MIN_SUPPORT, share)), None


def attribute_sentence(text: str, sources: Sequence[Source]) -> Sentence | None:
    """Attribute a sentence to those of its sources that say it, with a quote of each; None if none says it."""
    if len(text) > MAX_SENTENCE_LENGTH:
        return None
    measured = {source.passage: measure_support(text, [source.passage]) for source in sources}
    support = max(measured.values(), default=0.0)
    best = [one for one, much in measured.items() if much and (support < 1.0 or much == 1.0)]
    citations = tuple(_build_citation(text, passage) for passage in best if passage.text.strip())
    return Sentence(text, citations, round(support, 3)) if citations else None


def explain_drop(text: str, sources: Sequence[Source]) -> DropReason:
    """Explain why `attribute_sentence` gave none."""
    if not text or not sources:
        return DropReason.UNCITED
    if len(text) > MAX_SENTENCE_LENGTH:
        return DropReason.LONG
    parts = [text[start:end] for start, end in split_sentences(text)]
    reasons = (_check(part, source.passage)[1] for part in parts for source in sources)
    return next(filter(None, reasons), DropReason.CHANGED)


def _build_citation(text: str, passage: Passage) -> Citation:
    start, end = find_best_quote(text, passage) or (0, len(passage.text))
    place = passage.start + start
    return Citation(passage.key, passage.text[start:end], place, passage.start + end, passage.date)


def _match_terms(text: str, said: str) -> dict[str, float]:
    """Similarity of each word of the text to the passage: 1 if present, less for a related word.

    Numbers and links are left out.
    """
    from rag_core.verification.facts import remove_links

    there = frozenset(tokenize(said))
    words = tokenize(remove_links(text))
    reporting = _stem_reporting_words()
    terms = {term for term in words if not term.isdigit() and (term in there or term not in reporting)}
    return {term: 1.0 if term in there else measure_stem_similarity(term, there) for term in terms}


def _is_verbatim(text: str, passage: Passage) -> bool:
    words = _join_words(text)
    at = f" {_join_words(passage.text)} ".find(f" {words} ")
    return len(words) >= _MIN_VERBATIM_LENGTH and at >= 0


def find_best_quote(sentence_text: str, passage: Passage) -> TextSpan | None:
    """Find the span of the passage most similar to the sentence; None for a passage without text."""
    terms, numbers = frozenset(tokenize(sentence_text)), extract_figures(sentence_text)
    sentences = tokenize_sentences(passage.text)
    kin = find_similar_stems(terms, chain.from_iterable(found for _, found in sentences))
    best, most = None, -1.0
    for sentence, found in sentences:
        for start, end in split_long_span(passage.text, sentence):
            piece = passage.text[start:end]
            there = frozenset(found if (start, end) == sentence else tokenize(piece))
            like = sum(1.0 if term in there else next((n for n, o in kin[term] if o in there), 0.0) for term in terms)
            same = len(numbers & extract_figures(piece)) if numbers else 0
            like += same - 0.01 * len(there)  # of two equal matches the shorter
            if best is None or like > most:
                best, most = (start, end), like
    return best


def _render_passage(passage: Passage) -> str:
    """Text of a passage with its date in the usual notations."""
    dates = " ".join((f"{passage.date:%Y-%m-%d}", format_day(passage.date, "ru"), format_day(passage.date, "en")))
    return f"{dates}\n{passage.text}"


@cache
def _compile_attribution() -> re.Pattern[str]:
    return re.compile(f"{_ATTRIBUTION_PHRASE}|{_REPORTING_VERBS}", re.I)


def _remove_attribution(text: str, passages: Sequence[Passage]) -> str:
    """Remove "according to Harbour News" and the like if it names the speaker of a passage."""
    if not _compile_attribution().search(text):
        return text
    for name in dict.fromkeys(name for passage in passages for name in extract_speakers(passage.header)):
        pattern = r"[\W_]+".join(map(_build_case_pattern, _WORD.findall(name)))
        if pattern:
            text = re.sub(
                rf"{_ATTRIBUTION_PHRASE}\W{{0,2}}{pattern}(?!\w)\W?|(?<!\w){pattern}\W{{0,2}}{_REPORTING_VERBS}",
                " ",
                text,
                flags=re.I,
            )
    return text


def _build_case_pattern(word: str) -> str:
    """Pattern for a word of a name; a Russian word may have another ending."""
    long = len(word) > _MAX_SHORT_WORD and _CYRILLIC.search(word)
    return rf"{re.escape(word[:-2])}\w{{0,4}}" if long else re.escape(word)


def _join_words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))


def _are_links_known(text: str, passages: Sequence[Passage]) -> bool:
    """Check that every address and @name of the text is whole in a passage: models invent links."""
    from rag_core.verification.facts import extract_links

    return extract_links(text) <= extract_links("\n".join(passage.text for passage in passages))


async def check_citations(draft: Draft, viewer: Viewer, rag: Engine) -> tuple[Sentence, ...]:
    """Keep the sentences whose quotes are still in their posts, with the citations that are. Raises ArchiveUnavailable.

    A post may have been edited or deleted, or a channel closed to this viewer, while the answer was written.
    """
    keys = {citation.post for sentence in draft.sentences for citation in sentence.citations}
    stored = await visible_posts.fetch_posts(rag.archive, keys)
    kept = []
    for sentence in draft.sentences:
        current = tuple(c for c in sentence.citations if _is_current_quote(c, stored, viewer))
        # a sentence of a model may rest on any of its posts: all of them must be current
        if current and (sentence.support == 1.0 or len(current) == len(sentence.citations)):
            kept.append(Sentence(sentence.text, current, sentence.support))
    return tuple(kept)


async def filter_current_passages(passages: Sequence[Passage], viewer: Viewer, rag: Engine) -> tuple[Passage, ...]:
    """Keep the passages whose posts are unchanged and readable by this viewer. Raises ArchiveUnavailable."""
    stored = await visible_posts.fetch_posts(rag.archive, [passage.key for passage in passages])
    return tuple(
        passage
        for passage in passages
        if passage.key.chat_id in viewer.channels
        and (post := stored.get(passage.key))
        and post.text[passage.start : passage.end] == passage.text
    )


def _is_current_quote(citation: Citation, stored: dict[PostKey, Post], viewer: Viewer) -> bool:
    post = stored.get(citation.post)
    return (
        post is not None
        and citation.post.chat_id in viewer.channels
        and bool(citation.quote)
        and post.text[citation.start : citation.end] == citation.quote
    )
