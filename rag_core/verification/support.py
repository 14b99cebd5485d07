"""Support of a written sentence by the posts it cites.

A sentence is shown if one post says all of it. That filters out what a model makes up: numbers, dates, names and links
that the post lacks, what it denies or says with an opposite word, and what the sentence joins and the post does not: a
model errs by putting the words of posts together anew, the value of one thing with the name of another. So

- its names, numbers, dates and most of its words stand in one sentence of the post; the rest in an earlier one, as a
  topic stands that goes on, where nothing else has come between;
- they come from one clause, or from clauses that name and count nothing else;
- these clauses deny something exactly where the sentence does.

The date of a post is part of what it says, its header is not: a channel's name may only appear as the speaker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, pairwise
from operator import itemgetter

from rag_core.dates import format_day
from rag_core.dates.moments import Moment
from rag_core.text.numbers import Number, extract_figures
from rag_core.text.post_text import extract_speakers
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, TextSpan, split_long_span, split_sentences, tokenize_sentences
from rag_core.text.tokens import (
    WORD,
    detect_language,
    find_similar_stems,
    is_dictionary_word,
    measure_stem_similarity,
    tokenize,
)
from rag_core.types import DropReason, Passage, Sentence, Source
from rag_core.verification.comparison import find_opposite_words, is_same_value
from rag_core.verification.facts import (
    SentenceFacts,
    Vocabulary,
    extract_facts,
    extract_facts_by_sentence,
    extract_links,
    is_same_name,
    remove_links,
)

_MIN_SHARE = 0.55  # of the words and values of the claim that its sentence of the post has
_MIN_SHARE_WITH_VALUE = 0.5  # where it has a number or a date, all of them: they say more than words
_MIN_OWN = 2  # words and values that a sentence of a post has itself where it goes on with the topic of another
_MIN_TOLD_SHARE = 0.5  # of the words that are no names, and the values: what is said of the names
_EXACT = 1e-6
# A comma within a number does not end a clause: a space follows. A conjunction does.
_CLAUSE_BREAK = re.compile(r"[,;()]\s+|\s+(?=[(])|\s+(?:и|а|но|или|зато|and|but|or|while|whereas)\s+|[.!?…]+\s+")
_HEADING = re.compile(r"[^\d:,;]+:\s+")  # of a list: "Rents: a studio 600, a flat 800"
# From nearly bound to far from it.
_BY_DISTANCE = (
    DropReason.DENIED, DropReason.OTHER, DropReason.APART, DropReason.NAME, DropReason.NUMBER, DropReason.WORDS,
)  # fmt: skip


def _find_unbound_in(claim: SentenceFacts, post: Sequence[SentenceFacts], place: int) -> DropReason | None:
    """Find why the sentence of the post at `place`, with the topic of those before it, does not join the claim."""
    clauses = _split_into_clauses(post[place])
    drawn, words, values = _draw(claim, clauses)
    if values < len(claim.numbers) + len(claim.moments):
        return DropReason.NUMBER
    missing = {n for n in range(len(claim.words)) if n not in words}
    earlier = Vocabulary(word for one in post[:place] for word in one.words)
    carried = {n for n in missing if earlier.has(claim.words[n])}
    # the capital letter of a first word may be followed by a name
    strong = (name.word for name in claim.names if not name.weak)
    names = {word.start for word in strong if not (word.opens and is_dictionary_word(word.low))}
    if any(claim.words[n].start in names for n in missing - carried):
        return DropReason.NAME
    later = Vocabulary(word for one in post[place + 1 :] for word in one.words)
    if any(later.has(claim.words[n]) for n in missing - carried):
        return DropReason.APART
    foreign = False  # whether a clause has a name, number or date that the sentence does not have
    for clause in drawn:
        named = all(any(is_same_name(name.word, mine) for mine in claim.all_words) for name in clause.names)
        strong_values = tuple(number for number in clause.numbers if not number.weak) + clause.moments
        foreign = foreign or not named or not all(_has_value(claim, one) for one in strong_values)
    if carried:  # a sentence that goes on with the topic of an earlier one has no subject or values of its own
        openings = (clause.all_words[0] for clause in drawn)
        same = any(word.capital and claim.words.has(word) for word in openings)
        same = same or all(claim.words.has(word) for word in post[place].words[:1])  # the subject, mostly
        if not same or foreign or len(words) + values < max(_MIN_OWN, len(carried)):
            return DropReason.APART
    said = {n for n, word in enumerate(claim.words) if not word.capital or word.opens}
    told = values + len(said & (words | carried))
    least = (_MIN_SHARE_WITH_VALUE if values else _MIN_SHARE) * (len(claim.words) - len(carried) + values)
    if len(words) + values < least or told < _MIN_TOLD_SHARE * (values + len(said)):
        return DropReason.WORDS
    if (len(drawn) > 1 and foreign) or _is_said_of_other(claim, post[place], clauses, drawn):
        return DropReason.OTHER
    return DropReason.DENIED if bool(claim.denied) != any(clause.denied for clause in drawn) else None


def _split_into_clauses(sentence: SentenceFacts) -> list[SentenceFacts]:
    """Split a sentence into clauses with their words, strong names, values and denials; offsets stay its own."""
    cuts = [0, *(found.end() for found in _CLAUSE_BREAK.finditer(sentence.text)), len(sentence.text)]
    if (heading := _HEADING.match(sentence.text)) and len(cuts) > 2 and heading.end() < cuts[1]:
        cuts.insert(1, heading.end())
    clauses = []
    for start, end in pairwise(cuts):
        clause = replace(
            sentence,
            text=sentence.text[start:end],
            all_words=Vocabulary(word for word in sentence.all_words if word.start >= start),
            words=Vocabulary(word for word in sentence.words if start <= word.start < end),
            names=tuple(one for one in sentence.names if start <= one.word.start < end and not one.weak),
            numbers=tuple(one for one in sentence.numbers if start <= one.start < end),
            moments=tuple(one for one in sentence.moments if start <= one.start < end),
            denied=tuple(scope for scope in sentence.denied if start <= scope.at < end),
        )
        if clause.words or clause.numbers or clause.moments:
            clauses.append(clause)
    return clauses


def _draw(claim: SentenceFacts, clauses: Sequence[SentenceFacts]) -> tuple[list[SentenceFacts], set[int], int]:
    """Take the words and values of the sentence from as few clauses as possible, the fullest first.

    Returns the clauses, the places of the words and the number of values.
    """
    found = [
        (
            {n for n, word in enumerate(claim.words) if clause.words.has(word)},
            {n for n, one in enumerate(claim.numbers + claim.moments) if _has_value(clause, one)},
        )
        for clause in clauses
    ]
    drawn, words, values = list[SentenceFacts](), set[int](), set[int]()
    while found:
        new = [len(there - words) + len(valued - values) for there, valued in found]
        if not (most := max(new)):
            break
        best = new.index(most)
        drawn.append(clauses[best])
        words |= found[best][0]
        values |= found[best][1]
    return drawn, words, len(values)


def _has_value(there: SentenceFacts, one: Number | Moment) -> bool:
    return any(_is_same(one, other) for other in there.numbers + there.moments)


def _is_same(one: Number | Moment, other: Number | Moment) -> bool:
    """Check whether two values agree: of a number and a moment, that the number may be its hour or price: "after 7"."""
    if isinstance(one, Number) and isinstance(other, Number):
        return is_same_value(one, other)
    if isinstance(one, Moment) and isinstance(other, Moment):
        mine, theirs = one.fields(), other.fields()
        shared = mine.keys() & theirs.keys()
        return bool(shared) and all(mine[name] == theirs[name] for name in shared)
    number, moment = (one, other) if isinstance(one, Number) else (other, one)
    assert isinstance(number, Number) and isinstance(moment, Moment)
    if moment.minute is None or number.unit:
        return False
    hour, minute = divmod(moment.minute, 60)
    return any(abs(value - spelt) < _EXACT for value in number.values for spelt in (hour + minute / 100, hour % 12))


def _is_said_of_other(
    claim: SentenceFacts, sentence: SentenceFacts, clauses: Sequence[SentenceFacts], drawn: Sequence[SentenceFacts]
) -> bool:
    """Check whether the clauses drawn from a sentence say it of something else than the claim does."""
    starts: list[int] = []  # names in another order: who did it to whom may be another, too
    for n, name in enumerate(claim.names):
        if not n or name.word.start - claim.names[n - 1].word.end > 1:  # else a surname
            starts += [word.start for word in sentence.all_words if is_same_name(name.word, word)][:1]
    if starts != sorted(starts):
        return True
    for of, value in pairwise(clauses):  # a value that is a clause of its own: "first Artur, 38 minutes"
        counted = sum(bool(number.unit) for number in value.numbers)  # the unit is a word
        alone = bool(value.numbers or value.moments) and len(value.words) <= counted
        if alone and not of.text.rstrip().endswith(":") and value in drawn and of not in drawn:
            return True
    for clause in drawn:
        # another day or number of the same unit, of which the claim has only one: from, to
        days = [one for one in clause.moments if not _has_value(claim, one)]
        units = {one.unit for one in clause.numbers if one.unit and not _has_value(claim, one)}
        if any(one.fields().keys() & other.fields().keys() for one in days for other in claim.moments):
            return True
        if any(other.unit in units for other in claim.numbers):
            return True
        # at least as much else as of the claim
        own = sum(claim.words.has(word) for word in clause.words)
        told = own + sum(_has_value(claim, one) for one in clause.numbers + clause.moments)
        heading = clause.text.rstrip().endswith(":")
        if len(drawn) > 1 and not heading and len(clause.words) - own >= max(1, told):
            return True
    return False


MIN_SUPPORT = 0.6  # of a sentence that a post says in other words; where it has more of its terms, their share
_MAX_PARAPHRASE_SUPPORT = 0.99  # 1.0 is reserved for verbatim quotes
_MIN_VERBATIM_LENGTH = 12  # characters: shorter runs occur in any text
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
_ATTRIBUTION = re.compile(f"{_ATTRIBUTION_PHRASE}|{_REPORTING_VERBS}", re.I)
_MAX_SHORT_WORD, _CYRILLIC = 3, re.compile(r"[а-яё]", re.I)


def measure_support(sentence_text: str, passages: Sequence[Passage]) -> float:
    """Support of a sentence by the passages, 0..1: 1.0 if verbatim, at least MIN_SUPPORT if one of them says it, else 0.

    Of several sentences each must be said by a passage.
    """
    parts = [sentence_text[start:end] for start, end in split_sentences(sentence_text)]
    return min((max((_check(part, one)[0] for one in passages), default=0.0) for part in parts), default=0.0)


def _check(text: str, passage: Passage) -> tuple[float, DropReason | None]:
    """Measure the support of one sentence by one passage, with the reason where there is none."""
    text, reporting = _remove_attribution(text, passage), frozenset(tokenize(_REPORTING_WORDS))
    dates = f"{passage.date:%Y-%m-%d} {format_day(passage.date, 'ru')} {format_day(passage.date, 'en')}"
    rendered = f"{dates}\n{passage.text}"
    if extract_figures(text) - extract_figures(rendered):
        return 0.0, DropReason.NUMBER  # first of all: "at 7" is a prefix of "at 7:30"
    if not extract_links(text) <= extract_links(passage.text):
        return 0.0, DropReason.LINK  # models invent them
    kept = " ".join(word for word in text.split() if not reporting.intersection(tokenize(word)))
    if not WORD.search(kept):
        return 0.0, DropReason.WORDS
    words, there = (" ".join(WORD.findall(one.casefold())) for one in (text, passage.text))
    if len(words) >= _MIN_VERBATIM_LENGTH and f" {words} " in f" {there} ":
        return 1.0, None
    lang, plain = detect_language(text), remove_links(kept)
    claim, post = extract_facts(plain.strip(), lang), extract_facts_by_sentence(passage.text, lang)
    own = Moment(0, 0, passage.date.year, passage.date.month, passage.date.day)
    undated = replace(claim, moments=tuple(one for one in claim.moments if not _is_same(one, own)))
    reasons = {_find_unbound_in(undated, post, place) for place in range(len(post))}
    if None not in reasons:
        return 0.0, next((reason for reason in _BY_DISTANCE if reason in reasons), DropReason.WORDS)
    span = find_best_quote(text, passage) or (0, 0)
    if any(find_opposite_words(claim, extract_facts(passage.text[slice(*span)], lang))):
        return 0.0, DropReason.DENIED
    known = frozenset(tokenize(rendered))
    terms = {one for one in tokenize(remove_links(text)) if not one.isdigit()}
    terms -= reporting - known
    share = sum(1.0 if one in known else measure_stem_similarity(one, known) for one in terms) / max(1, len(terms))
    return min(_MAX_PARAPHRASE_SUPPORT, max(MIN_SUPPORT, share)), None


def _remove_attribution(text: str, passage: Passage) -> str:
    """Remove "according to Harbour News" and the like if it names the speaker of the passage."""
    if not _ATTRIBUTION.search(text):
        return text
    for name in extract_speakers(passage.header):
        words = []
        for word in WORD.findall(name):  # a Russian word may have another ending
            long = len(word) > _MAX_SHORT_WORD and _CYRILLIC.search(word)
            words.append(rf"{re.escape(word[:-2])}\w{{0,4}}" if long else re.escape(word))
        if pattern := r"[\W_]+".join(words):
            before = rf"{_ATTRIBUTION_PHRASE}\W{{0,2}}{pattern}(?!\w)\W?"
            text = re.sub(rf"{before}|(?<!\w){pattern}\W{{0,2}}{_REPORTING_VERBS}", " ", text, flags=re.I)
    return text


def attribute_sentence(text: str, sources: Sequence[Source]) -> Sentence | None:
    """Attribute a sentence to those of its sources that say it, with a quote of each; None if none says it."""
    if len(text) > MAX_SENTENCE_LENGTH:
        return None
    measured = {source.passage: measure_support(text, [source.passage]) for source in sources}
    support = max(measured.values(), default=0.0)
    cited = (passage for passage, much in measured.items() if much and (support < 1.0 or much == 1.0))
    citations = tuple(passage.cite(find_best_quote(text, passage) or (0, 0)) for passage in cited)
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


def find_best_quote(sentence_text: str, passage: Passage) -> TextSpan | None:
    """Find the span of the passage most similar to the sentence; None for a passage without text."""
    terms, numbers = frozenset(tokenize(sentence_text)), extract_figures(sentence_text)
    sentences = tokenize_sentences(passage.text)
    kin = find_similar_stems(terms, chain.from_iterable(found for _, found in sentences))
    measured = []
    for sentence, found in sentences:
        for start, end in split_long_span(passage.text, sentence):
            piece = passage.text[start:end]
            there = frozenset(found if (start, end) == sentence else tokenize(piece))
            like = sum(1.0 if term in there else next((n for n, o in kin[term] if o in there), 0.0) for term in terms)
            same = len(numbers & extract_figures(piece)) if numbers else 0
            measured.append(((start, end), like + (same - 0.01 * len(there))))  # of two equal matches the shorter
    return max(measured, key=itemgetter(1), default=(None, 0.0))[0]
