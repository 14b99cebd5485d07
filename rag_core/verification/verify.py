"""Verification: for each claim of a text a verdict with its label, citations and number of independent sources.

A claim is searched for as a statement: its numbers and days are its own, not filters on posts. The newest word of a
channel counts, and posts that disagree are shown beside it. Copies, forwards and repeats of one channel count as one
source. A claim that is asked in the chat ("is it true that") is answered by yes or no with the deciding words.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice
from typing import NamedTuple

from rag_core.engine import Engine
from rag_core.evidence import DatedPost, keep_current_passages, order_copies
from rag_core.planning import queries
from rag_core.planning.intents import CLAIM_LEAD
from rag_core.retrieval.search import note_unindexed_posts, rerank_hits, search_passages
from rag_core.run import Run, Stage
from rag_core.storage import channels, near_duplicates
from rag_core.storage.visible_posts import fetch_posts
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import (
    MAX_SENTENCE_LENGTH,
    TextSpan,
    build_text_key,
    split_between_words,
    split_long_span,
    split_sentences,
)
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import (
    LEXICAL_ONLY,
    Certainty,
    Channel,
    Citation,
    Draft,
    Kind,
    Passage,
    PassageRef,
    Plan,
    PostKey,
    Question,
    Sentence,
    Viewer,
)
from rag_core.verification import Claim, Label, Support, Verdict, Verification
from rag_core.verification.facts import LONGEST_STATED, extract_facts, is_verb, split_words
from rag_core.verification.judge import judge_support
from rag_core.verification.stance import TOO_LITTLE, assess_by_words
from rag_core.writing.extract import MAX_FRAMED_QUOTE_LENGTH, format_conflict

# Not every word with a full stop in it is an address: a space may be missing between two sentences.
_LINKS = re.compile(r"(?:https?://|t\.me/|[@#])\S+|\b[\w-]+\.(?:ru|com|org|net|me|рф)(?:/\S*)?\b", re.I)
_QUESTION = re.compile(r"\?[\s\"»”)!]*$")
_IS_IT_TRUE = re.compile(rf"{CLAIM_LEAD}\s+", re.I)
_GREETING = re.compile(
    r"^\W*(?:привет\w*|здравствуй\w*|добр\w+ (?:утро|день|вечер|дня|ночи)|доброго|друзья|коллеги|спасибо|благодар\w+|пожалуйста|пока|до свидания|ура|"
    r"hi|hello|hey|dear|good (?:morning|evening|afternoon|day)|thanks?(?: you)?|please|bye|goodbye|welcome|congratulations|поздравля\w+|подпи(?:сывай\w+|саться|шись|шитесь)|прислать новость|присылай\w*|follow us|"
    r"читайте|смотрите|жмите|переходите|subscribe|share|read more|click|join us|see also|подробнее|источник|фото|видео|photo|video|source)\b[^.]{0,60}[.!]?$",
    re.I,
)
_SIGNATURE_SEPARATOR = re.compile(r"\s[·|•]\s")
_SUBJECT_PRONOUNS = frozenset("он она оно они мы вы я это he she it they we i you this these those".split())
_MIN_CLAUSE_WORDS = 3  # words of an independent clause
MAX_CLAIMS_PER_MESSAGE = 20  # claims: nobody reads more verdicts
_MOST_JOINTS = 40  # candidate split points (conjunctions, semicolons) per sentence
_CLAUSE_JOINT = re.compile(
    r"\s*;\s+|,?\s+(?:а также|причем|а|но|и|однако|зато|and|but|while|whereas)\s+(?=[^\W_])|,\s+(?:then|also|затем|также)\s+"
)
_DEPENDENT_CLAUSE = re.compile(
    r"(?:^|[\s,])(?:если|чтобы|хотя|когда|пока|потому что|так как|поскольку|котор\w+|что|if|unless|although|though|when|because|since|that|which|who|"
    r"between|both|either|neither|между|как)\s",
    re.I,
)
_SPACES = " \t\r\n\xa0"
_LEADING_MARKS, _TRAILING_MARKS = f"'»”*•–—-,;?{_SPACES}", f"'«“„*•–—-,;?{_SPACES}"


def extract_claims(text: str) -> tuple[Claim, ...]:
    """Extract the claims of a message in order, word for word; each gets the language it is written in."""
    claims: dict[str, Claim] = {}
    for start, end in split_sentences(text):
        if not _is_claim(text[start:end]):
            continue
        if asking := _IS_IT_TRUE.match(text[start:end]):
            start += asking.end()
        for at, to in _split_clauses(text, start, end):
            said = text[at:to].lstrip(_LEADING_MARKS)
            at, said = to - len(said), said.rstrip(_TRAILING_MARKS)
            if said:
                claims.setdefault(said.casefold(), Claim(said, detect_language(said), at, at + len(said)))
    return tuple(islice(claims.values(), MAX_CLAIMS_PER_MESSAGE))


def _is_claim(sentence: str) -> bool:
    plain = _LINKS.sub(" ", sentence).strip()
    words = split_words(plain)
    if _QUESTION.search(plain) and not _IS_IT_TRUE.match(plain):
        return False
    if _GREETING.match(plain) and not any(word.low.isdigit() for word in words):
        return False
    if len(plain) < len(sentence.strip()) and _SIGNATURE_SEPARATOR.search(sentence) and not any(map(is_verb, words)):
        return False
    return len(words) >= 2 and any(word.stem and not word.stem.isdigit() for word in words)


def _split_clauses(text: str, start: int, end: int) -> Iterator[TextSpan]:
    """Split a sentence into independent clauses; a sentence with a dependent clause stays whole."""
    if not _DEPENDENT_CLAUSE.search(f" {text[start:end]}"):
        for joint in islice(_CLAUSE_JOINT.finditer(text, start, end), _MOST_JOINTS):
            before = text[start : min(joint.start(), start + MAX_SENTENCE_LENGTH)]
            after = text[joint.end() : min(end, joint.end() + MAX_SENTENCE_LENGTH)]
            if _is_independent(before) and _is_independent(after):
                yield start, joint.start()
                start = joint.end()
    if end - start <= LONGEST_STATED:
        yield start, end
        return
    parts = split_between_words(text, (start, end), LONGEST_STATED)
    yield from (part for part in parts if _is_claim(text[slice(*part)]))


def _is_independent(clause: str) -> bool:
    """Check whether a clause has a subject and a verb of its own."""
    words = split_words(clause)
    verb = next((n for n, word in enumerate(words) if is_verb(word)), 0)
    subject = any(word.stem or word.low in _SUBJECT_PRONOUNS for word in words[:verb])
    return subject and len(words) >= _MIN_CLAUSE_WORDS


_MAX_CLAIM_PASSAGES = 10  # fewer miss posts that contradict it
_MAX_NEWER_POSTS = 12  # later posts of one channel
_NUMBER_WORDS = re.compile(r"(?<!\S)[^\s\d]*+\d\S*+")  # possessive: linear in a long word


def plan_claim_search(question: Question) -> Plan:
    """Plan the search for a claim: no filter on time or kind, and one query without the numbers, which may be wrong."""
    text = queries.sanitize_query(question.text)
    if not tokenize(text):
        return Plan(())
    unnumbered = " ".join(_NUMBER_WORDS.sub(" ", text).split())
    others = queries.generate_query_variants(text)
    if unnumbered != text and len(tokenize(unnumbered)) > 1:
        others = (unnumbered, *others)
    chosen = tuple(dict.fromkeys((text, *others)))[: queries.MAX_QUERIES]
    plan = Plan(chosen, Kind.CLAIM, text, *queries.extract_phrases(text), asked=text)
    legs, why = queries.choose_retrievers(plan)
    return replace(plan, legs=legs, reasons=(f"{legs}: {why}",))


async def retrieve_claim_passages(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Passage, ...]:
    """Retrieve the passages to assess, best first. Raises IndexUnavailable, ArchiveUnavailable, StageTimeout.

    A false number is the claim's rarest word, so the contradicting post is seldom ranked first; beyond the tenth
    nothing more was found.
    """
    hits = await search_passages(plan, question, rag, run)
    best = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    return tuple(hit.passage for hit in best[:_MAX_CLAIM_PASSAGES])


class AssessedPassage(NamedTuple):
    """Passage with its support for the claim."""

    passage: Passage
    support: Support


_MIN_RECHECKED_ABOUT = 0.5  # share of the claim's terms
_MAX_RECHECKED_CHANNELS = 3


async def _retrieve_newer_passages(
    question: Question, plan: Plan, weighed: Sequence[AssessedPassage], rag: Engine, run: Run
) -> tuple[Passage, ...]:
    """Retrieve later passages from the channels that speak of the claim, after their post that says most of it."""
    if not plan.queries:
        return ()
    since: dict[int, datetime] = {}
    for one in sorted(weighed, key=lambda one: (one.support.label is Label.NOT_FOUND, -one.support.about)):
        if len(since) < _MAX_RECHECKED_CHANNELS and one.support.about >= _MIN_RECHECKED_ABOUT:
            since.setdefault(one.passage.key.chat_id, one.passage.date)
    words = " ".join(word for word in _NUMBER_WORDS.sub(" ", question.text).split() if not is_asking_word(word))
    about = replace(plan, queries=(words if tokenize(words) else plan.queries[0],), legs=LEXICAL_ONLY)
    passages: dict[PassageRef, Passage] = {}
    for chat, moment in since.items():
        then = replace(about, channels=frozenset({chat}), since=moment + timedelta(seconds=1))
        hits = await search_passages(then, question, rag, run)
        passages |= {hit.passage.ref: hit.passage for hit in hits[:_MAX_NEWER_POSTS]}
    known = {one.passage.ref for one in weighed}
    return tuple(passage for ref, passage in passages.items() if ref not in known)


async def _count_independent_sources(
    passages: Sequence[Passage], viewer: Viewer, known: Mapping[int, Channel], rag: Engine
) -> tuple[int, PostKey | None]:
    """Count the independent sources of posts that state the same thing, and find the earliest of these posts."""
    if not passages:
        return 0, None
    families = await near_duplicates.fetch_copies(rag.archive, [passage.key for passage in passages], viewer.channels)
    dated_posts: dict[PostKey, DatedPost] = {passage.key: passage for passage in passages}
    groups: list[set[object]] = []
    for passage in passages:
        # marks shared by posts of one source: channel the words are from, family of near_duplicates, text
        speaker: object = passage.key.chat_id
        if (origin := passage.origin) and (speaker := origin.chat_id) is None:  # a forward known by name only
            name = origin.name.casefold()
            speaker = next((chat for chat, channel in known.items() if channel.title.casefold() == name), name)
        marks: set[object] = {build_text_key(passage.text), speaker} - {""}
        if found := families.get(passage.key):
            marks.add(("family", found.family))
            # a near-duplicate may state something else: exact copies only
            dated_posts |= {one.key: one for one in found.all if one.exact == found.exact}
        joined = [group for group in groups if group & marks]
        groups = [group for group in groups if not group & marks] + [marks.union(*joined)]
    return len(groups), order_copies(dated_posts.values())[0].key


_MAX_CITED_POSTS = 3  # per claim: supporting posts, and as many contradicting ones
# Share of the claim's terms: a post with fewer beside the best says something of another thing.
_MIN_RELATIVE_ABOUT = 0.5
_NEVER, _EVER = datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC)
_OPPOSITES = {Label.SUPPORTED: Label.CONTRADICTED, Label.CONTRADICTED: Label.SUPPORTED}


def decide_verdict(claim: Claim, weighed: Sequence[AssessedPassage]) -> tuple[Verdict, tuple[Passage, ...]]:
    """Decide the verdict, without counting sources; return it with all supporting passages.

    The newest word of a channel holds. Of two channels the newer holds too, unless the claim is of a past year: then
    they disagree. A later post need not repeat all: its leaning counts where an earlier one said the opposite.
    """
    most = max((one.support.about for one in weighed if one.support.label is not Label.NOT_FOUND), default=0.0)
    by_date = sorted(weighed, key=lambda one: one.passage.date)
    first = {(one.passage.key.chat_id, one.support.label): one.passage.date for one in reversed(by_date)}
    told: dict[Label, list[AssessedPassage]] = {label: [] for label in Label}
    for one in weighed:
        passage, support = one
        label, before = support.label, _OPPOSITES.get(support.leaning)
        if label is Label.NOT_FOUND and before and passage.date > first.get((passage.key.chat_id, before), _NEVER):
            label, support = support.leaning, replace(support, label=support.leaning, about=1.0)
        told[label].append(AssessedPassage(passage, support))
    backing = sorted(told[Label.SUPPORTED], key=_rank_evidence)
    newest = {one.passage.key.chat_id: one.passage.date for one in sorted(backing, key=lambda one: one.passage.date)}
    against = [
        one
        for one in sorted(told[Label.CONTRADICTED], key=_rank_evidence)
        if one.support.about >= _MIN_RELATIVE_ABOUT * most
        and newest.get(one.passage.key.chat_id, _EVER) < one.passage.date
    ]
    if not backing and not against:
        best = max(weighed, key=lambda one: one.support.likely, default=None)
        return Verdict(claim, Label.NOT_FOUND, *((best.support.likely, best.support.layer) if best else (0.0,))), ()
    last = max((one.passage.date for one in against), default=_EVER)
    years = {moment.year for moment in extract_facts(claim.text, claim.lang).moments if moment.year}
    holds = bool(backing) and max(newest.values()) >= last and not any(year < last.year for year in years)
    later = [one for one in against if one.passage.key.chat_id in newest and not holds]
    changed = max(later, key=lambda one: one.passage.date, default=None)
    others = sorted((one for one in against if one is not changed), key=lambda one: one.passage.date, reverse=True)
    opposed = _cite(claim, ([changed] if changed else []) + others)
    deciding = (backing if holds else against)[0].support
    label = Label.SUPPORTED if holds else Label.CONTRADICTED
    backed, superseded = _cite(claim, backing), opposed[0] if changed else None
    verdict = Verdict(claim, label, deciding.likely, deciding.layer, backed, opposed, superseded=superseded)
    return verdict, tuple(one.passage for one in backing)


def _rank_evidence(one: AssessedPassage) -> tuple[float, float, float]:
    """Order of passages with one label: the surest first, then what says most, then the newest."""
    sure = one.support.likely if one.support.label is Label.SUPPORTED else 1 - one.support.likely
    return -round(sure, 2), -one.support.about, -one.passage.date.timestamp()


def _cite(claim: Claim, told: Iterable[AssessedPassage]) -> tuple[Citation, ...]:
    """Cite the deciding words, widened: one citation per post, of the first `_MAX_CITED_POSTS` posts."""
    first: dict[PostKey, AssessedPassage] = {}
    for one in told:
        first.setdefault(one.passage.key, one)
    return tuple(
        passage.cite(_widen_quote(claim, passage.text, (support.start, support.end)))
        for passage, support in islice(first.values(), _MAX_CITED_POSTS)
    )


_MAX_QUOTE_SENTENCES = 3  # sentences of a quote: the deciding one may depend on the one before


def _widen_quote(claim: Claim, text: str, span: TextSpan) -> TextSpan:
    """Widen the deciding words by neighbouring sentences that hold more of the claim, up to MAX_SENTENCE_LENGTH."""
    terms = frozenset(tokenize(claim.text))

    def count_terms(span: TextSpan) -> int:
        return len(terms & frozenset(tokenize(text[slice(*span)])))

    if span[1] - span[0] > MAX_SENTENCE_LENGTH:
        return max(split_long_span(text, span, MAX_SENTENCE_LENGTH), key=count_terms, default=span)
    found = split_sentences(text)
    here = [n for n, (start, end) in enumerate(found) if start < span[1] and span[0] < end]
    windows = [
        (found[a][0], found[b][1])
        for a in range(max(0, here[-1] - _MAX_QUOTE_SENTENCES + 1), here[0] + 1)
        for b in range(here[-1], min(len(found), a + _MAX_QUOTE_SENTENCES))
        if found[b][1] - found[a][0] <= MAX_SENTENCE_LENGTH
    ]
    return max(windows, key=lambda window: (count_terms(window), window[0] - window[1]), default=span)


_MIN_POST_WORDS = 5  # words: a shorter text may stand in many posts


# A long post has a dozen claims; nobody reads more verdicts than this, and each needs a search of its own.
MAX_CHECKED_CLAIMS = 8
# Characters of all claims checked together, as many as a question may have; and of a message, as many as a post has.
_MOST_CLAIMED = 1000
_LONGEST_MESSAGE = 4096


async def verify_text(question: Question, rag: Engine) -> Verification:
    """Verify the claims of `question.text` against the posts its asker may read.

    Raises RagError if that is impossible: an index that is down never counts as "the posts do not say".
    """
    run = Run(rag.budgets, "verify", shortfalls=[*rag.without, *question.viewer.list_shortfalls()])
    try:
        async with run.stage(Stage.PLAN):
            claims = await asyncio.to_thread(extract_claims, question.text[:_LONGEST_MESSAGE])
            run.note(claims=len(claims))
        known = await channels.load_channels(rag.archive)
        readable = question.viewer.select_readable(known)
        lengths = accumulate(len(claim.text) for claim in claims[:MAX_CHECKED_CLAIMS])
        chosen = claims[: max(1, sum(length <= _MOST_CLAIMED for length in lengths))]
        verdicts = list[Verdict]()
        for claim in chosen:
            asked = replace(question, text=claim.text, lang=claim.lang)
            verdicts.append(await verify_claim(claim, asked, plan_claim_search(asked), readable, rag, run))
        same, text_key = None, build_text_key(question.text)
        if len(text_key.split()) >= _MIN_POST_WORDS:  # it may be a whole post: then the original of its copies
            stored = await fetch_posts(rag.archive, {key for verdict in verdicts for key in verdict.assessed})
            own = [post for post in stored.values() if post.key.chat_id in question.viewer.channels]
            whole = [post for post in own if build_text_key(post.text) == text_key]
            same = order_copies(whole)[0] if whole else None
        if any(verdict.label is Label.NOT_FOUND for verdict in verdicts):
            await note_unindexed_posts(question.viewer, rag, run, vectors=True)
        left = len(claims) - len(chosen) + len(split_sentences(question.text[_LONGEST_MESSAGE:]))
        return Verification(tuple(verdicts), left, tuple(dict.fromkeys(run.shortfalls)), run.trace_id, readable, same)
    finally:
        rag.traced(run)


async def verify_claim(
    claim: Claim, question: Question, plan: Plan, known: Mapping[int, Channel], rag: Engine, run: Run
) -> Verdict:
    """Verify one claim: search with the plan, assess, look for later posts, decide. Raises RagError."""
    found = await retrieve_claim_passages(question, plan, rag, run)
    first = await _assess_current_passages(claim, found, question, rag, run)
    newer = await _retrieve_newer_passages(question, plan, first, rag, run)
    later = await _assess_current_passages(claim, newer, question, rag, run)
    verdict, supporting = decide_verdict(claim, first + later)
    counting = _count_independent_sources(supporting, question.viewer, known, rag)
    sources, earliest = await run.require(Stage.COPIES, counting)
    keys = tuple(dict.fromkeys(one.passage.key for one in first))
    return replace(verdict, sources=sources, earliest=earliest, assessed=keys)


async def _assess_current_passages(
    claim: Claim, passages: Sequence[Passage], question: Question, rag: Engine, run: Run
) -> list[AssessedPassage]:
    """Assess each passage; posts deleted meanwhile are left out."""
    if not passages:
        return []
    supports = await assess_passages(claim, passages, question.viewer, rag, run)
    async with run.stage(Stage.CURRENT):
        stored = await fetch_posts(rag.archive, [one.key for one in passages])
    here = keep_current_passages(passages, stored, question.viewer)
    return [one for one in map(AssessedPassage, passages, supports) if one.passage in here]


async def answer_claim(question: Question, plan: Plan, rag: Engine, run: Run) -> Draft | None:
    """Answer what is asked to be true within the channels of the plan: yes or no with the deciding quote.

    Where channels disagree, the other side stands below it; None where posts decide nothing. Raises RagError.
    """
    claims = extract_claims(question.text)
    if len(claims) != 1:
        return None
    claimed = replace(question, text=claims[0].text)
    search = replace(plan_claim_search(claimed), channels=plan.channels)
    known = await channels.load_channels(rag.archive)
    verdict = await verify_claim(claims[0], claimed, search, known, rag, run)
    holds = verdict.label is Label.SUPPORTED
    deciding = verdict.citations if holds else verdict.against
    if not deciding:
        return None
    first = _shorten_quote(deciding[0])
    word = {"ru": ("Нет", "Да"), "en": ("No", "Yes")}[question.lang][holds]
    said = re.match(rf"{word}\b", first.quote)  # a quote may begin with the word itself
    sentences = [Sentence(first.quote if said else f"{word}: {first.quote}", (first,))]
    if verdict.contested:
        other = _shorten_quote(verdict.citations[0])
        intro = format_conflict(question.localize(first.date), question.localize(other.date), question.lang)
        sentences.append(Sentence(f"{intro} {other.quote}", (other,)))
    # of 30 claims 22 were answered rightly and 3 the opposite: never sure
    return Draft(tuple(sentences), max(verdict.likely, 1 - verdict.likely), certainty=Certainty.PROBABLE)


def _shorten_quote(one: Citation) -> Citation:
    span = 0, len(one.quote)
    start, end = next(iter(split_long_span(one.quote, span, MAX_FRAMED_QUOTE_LENGTH)), span)
    return replace(one, quote=one.quote[start:end], start=one.start + start, end=one.start + end)


_SUPPORT_THRESHOLD, _MAX_LIKELIHOOD = 0.5, 0.99
_UNDECIDED = 0.2  # likelihood from which the LLM judge is asked of what no other cue decides
_JUDGE_WEIGHT = 0.5  # weight of its log odds: small models are overconfident


async def assess_passages(
    claim: Claim, passages: Sequence[Passage], viewer: Viewer, rag: Engine, run: Run
) -> list[Support]:
    """Assess a claim against each passage, in their order; a model that fails or is too slow leaves the words' verdict.

    Words are weighted by their rarity in the channels the viewer may read.
    """
    weight = rag.lexical.statistics(viewer.channels).weight
    weighing = asyncio.to_thread(assess_by_words, claim, passages, weight)
    supports = await run.attempt(Stage.VERIFY, weighing, list[Support])
    if not supports:  # it took too long: there is no verdict without it
        supports = await asyncio.to_thread(assess_by_words, claim, passages, weight)
    open_ones = [n for n, support in enumerate(supports) if support.why == TOO_LITTLE and support.likely > _UNDECIDED]
    if rag.writer is None or not open_ones:
        return supports
    judging = judge_support(claim, [passages[n] for n in open_ones], run, rag.writer)
    odds = await run.attempt(Stage.JUDGE, judging, list[float])
    for n, more in zip(open_ones, odds, strict=False):
        z = math.log(supports[n].likely / (1 - supports[n].likely)) + _JUDGE_WEIGHT * more
        likely = min(_MAX_LIKELIHOOD, 1 / (1 + math.exp(-max(-30.0, min(30.0, z)))))
        label = Label.SUPPORTED if likely >= _SUPPORT_THRESHOLD else Label.NOT_FOUND
        supports[n] = replace(supports[n], label=label, likely=round(likely, 4), layer="judge")
    return supports
