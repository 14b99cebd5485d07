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
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate, islice

from rag_core.context.evidence import DatedPost, order_copies
from rag_core.engine import Engine
from rag_core.planning.intents import CLAIM_LEAD
from rag_core.planning.plan import choose_retrievers
from rag_core.planning.queries import (
    MAX_QUERIES,
    extract_phrases,
    generate_query_variants,
    sanitize_query,
)
from rag_core.retrieval.rerank import rerank_hits
from rag_core.retrieval.search import note_unembedded_posts, note_unindexed_posts, search_passages
from rag_core.run import Run, Stage
from rag_core.storage import channels, near_duplicates, posts, visible_posts
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import (
    MAX_SENTENCE_LENGTH,
    TextSpan,
    build_text_key,
    split_into_parts,
    split_long_span,
    split_sentences,
)
from rag_core.text.tokens import detect_language, tokenize
from rag_core.types import (
    HYBRID,
    LEXICAL_ONLY,
    Certainty,
    Channel,
    Citation,
    Draft,
    Kind,
    Passage,
    PassageRef,
    Plan,
    Post,
    PostKey,
    Question,
    Sentence,
    Shortfall,
    Viewer,
)
from rag_core.verification import Claim, Label, Support, Verdict, Verification
from rag_core.verification.facts import LONGEST_STATED, extract_facts, is_verb, split_words
from rag_core.verification.judge import judge_support
from rag_core.verification.stance import TOO_LITTLE, assess_by_words
from rag_core.verification.support import filter_current_passages, find_best_quote
from rag_core.writing.phrases import MAX_FRAMED_QUOTE_LENGTH, format_conflict, format_yes_or_no

_LINKS = re.compile(r"(?:https?://|t\.me/|[@#])\S+|\b[\w-]+\.(?:ru|com|org|net|me|рф)(?:/\S*)?\b", re.I)
_QUESTION_PATTERN = re.compile(
    r"^(?:кто|где|когда|почему|зачем|сколько|какой|какая|какие|правда ли|верно ли|who|what|where|why|how|is it true|does|do|did)\b.*\?"
    r"|\?[\s\"»”)!]*$",
    re.I | re.S,
)
_IS_IT_TRUE_PATTERN = re.compile(rf"{CLAIM_LEAD}\s+", re.I)
_GREETING_PATTERN = re.compile(
    r"^\W*(?:привет\w*|здравствуй\w*|добр\w+ (?:утро|день|вечер|дня|ночи)|доброго|друзья|коллеги|спасибо|благодар\w+|пожалуйста|пока|до свидания|ура|"
    r"hi|hello|hey|dear|good (?:morning|evening|afternoon|day)|thanks?(?: you)?|please|bye|goodbye|welcome|congratulations|поздравля\w+|подпи(?:сывай\w+|саться|шись|шитесь)|прислать новость|присылай\w*|follow us|"
    r"читайте|смотрите|жмите|переходите|subscribe|share|read more|click|join us|see also|подробнее|источник|фото|видео|photo|video|source)\b[^.]{0,60}[.!]?$",
    re.I,
)
_SIGNATURE_SEPARATOR = re.compile(r"\s[·|•]\s")
_SUBJECT_PRONOUNS = frozenset("он она оно они мы вы я это he she it they we i you this these those".split())
_MIN_CLAUSE_WORDS = 3  # words of an independent clause


def is_claim(sentence: str) -> bool:
    """Check whether a sentence states something.

    Questions (except "is it true that"), greetings, calls to action, headings and lines of links or hashtags do not,
    nor does a channel's signature: parts with a link among them and no verb.
    """
    plain = _LINKS.sub(" ", sentence).strip()
    if _QUESTION_PATTERN.search(plain) and not _IS_IT_TRUE_PATTERN.match(plain):
        return False
    words = split_words(plain)
    if _GREETING_PATTERN.match(plain) and not any(word.low.isdigit() for word in words):
        return False
    if len(plain) < len(sentence.strip()) and _SIGNATURE_SEPARATOR.search(sentence) and not any(map(is_verb, words)):
        return False
    return len(words) >= 2 and any(word.stem and not word.stem.isdigit() for word in words)


def is_independent_clause(part: str) -> bool:
    """Check whether a clause has a subject and a verb of its own."""
    words = split_words(part)
    if len(words) < _MIN_CLAUSE_WORDS:
        return False
    verb = next((n for n, word in enumerate(words) if is_verb(word)), 0)
    return any(word.stem or word.low in _SUBJECT_PRONOUNS for word in words[:verb])


MAX_CLAIMS_PER_MESSAGE = 20  # claims: nobody reads more verdicts
_MOST_JOINTS = 40  # candidate split points (conjunctions, semicolons) per sentence
_CLAUSE_JOINT = re.compile(
    r"(?P<semicolon>\s*;\s+)|,?\s+(?P<word>а также|причем|а|но|и|однако|зато|and|but|while|whereas)\s+(?=[^\W_])|,\s+(?P<also>then|also|затем|также)\s+"
)
_DEPENDENT_CLAUSE = re.compile(
    r"(?:^|[\s,])(?:если|чтобы|хотя|когда|пока|потому что|так как|поскольку|котор\w+|что|if|unless|although|though|when|because|since|that|which|who|"
    r"between|both|either|neither|между|как)\s",
    re.I,
)
_LEADING_MARKS, _TRAILING_MARKS = "'»”*•–—-,;?", "'«“„*•–—-,;?"


def extract_claims(text: str) -> tuple[Claim, ...]:
    """Extract the claims of a message in order, word for word; each gets the language it is written in."""
    claims: list[Claim] = []
    seen: set[str] = set()
    for start, end in split_sentences(text):
        if not is_claim(text[start:end]):
            continue
        if asking := _IS_IT_TRUE_PATTERN.match(text[start:end]):
            start += asking.end()
        for at, to in _split_clauses(text, start, end):
            at, to = _trim_span(text, at, to)
            claim_text = text[at:to]
            if claim_text and claim_text.casefold() not in seen:
                seen.add(claim_text.casefold())
                claims.append(Claim(claim_text, _detect_claim_language(claim_text), at, to))
            if len(claims) == MAX_CLAIMS_PER_MESSAGE:
                return tuple(claims)
    return tuple(claims)


def _detect_claim_language(said: str) -> str:
    letters = [c for c in said.lower() if c.isalpha()]
    cyrillic = sum("а" <= c <= "я" or c == "ё" for c in letters)
    if cyrillic > 0.8 * len(letters):
        return "ru"
    return detect_language(said) if cyrillic else "en"


def _split_clauses(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Split a sentence into independent clauses; a sentence with a dependent clause stays whole."""
    if not _DEPENDENT_CLAUSE.search(f" {text[start:end]}"):
        at, parts = start, []
        for joint in islice(_CLAUSE_JOINT.finditer(text, start, end), _MOST_JOINTS):
            before = text[at : min(joint.start(), at + MAX_SENTENCE_LENGTH)]
            if is_independent_clause(before) and is_independent_clause(
                text[joint.end() : min(end, joint.end() + MAX_SENTENCE_LENGTH)]
            ):
                parts.append((at, joint.start()))
                at = joint.end()
        yield from parts
        start = at
    if end - start <= LONGEST_STATED:
        yield start, end
        return
    yield from (part for part in split_into_parts(text, (start, end), LONGEST_STATED) if is_claim(text[slice(*part)]))


def _trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim spaces, marks, closing quotes before the text and opening ones after it."""
    while start < end and (text[start] in _LEADING_MARKS or text[start].isspace()):
        start += 1
    while end > start and (text[end - 1] in _TRAILING_MARKS or text[end - 1].isspace()):
        end -= 1
    return start, end


_MAX_CLAIM_PASSAGES = 10  # fewer miss posts that contradict it
_MAX_NEWER_POSTS = 12  # later posts of one channel
_NUMBER_WORDS = re.compile(r"(?<!\S)[^\s\d]*+\d\S*+")  # possessive: linear in a long word


def plan_claim_search(question: Question) -> Plan:
    """Plan the search for a claim: no filter on time or kind, and one query without the numbers, which may be wrong."""
    text = sanitize_query(question.text)
    if not tokenize(text):
        return Plan(())
    unnumbered = " ".join(_NUMBER_WORDS.sub(" ", text).split())
    others = generate_query_variants(text)
    if unnumbered != text and len(tokenize(unnumbered)) > 1:
        others = (unnumbered, *others)
    queries = tuple(dict.fromkeys((text, *others)))[:MAX_QUERIES]
    plan = Plan(queries, Kind.CLAIM, text, *extract_phrases(text), asked=text)
    legs, why = choose_retrievers(plan)
    # without a wrong number too few words are left for lexical search alone
    return replace(plan, legs=HYBRID if legs == LEXICAL_ONLY else legs, reasons=(f"{legs}: {why}",))


async def retrieve_claim_passages(question: Question, plan: Plan, rag: Engine, run: Run) -> tuple[Passage, ...]:
    """Retrieve the passages to assess, best first. Raises IndexUnavailable, ArchiveUnavailable, StageTimeout.

    A false number is the claim's rarest word, so the contradicting post is seldom ranked first; beyond the tenth
    nothing more was found.
    """
    hits = await search_passages(plan, question, rag, run)
    best = await run.attempt(Stage.RERANK, rerank_hits(question, hits, rag, run), hits)
    return tuple(hit.passage for hit in best[:_MAX_CLAIM_PASSAGES])


async def retrieve_newer_passages(
    question: Question, plan: Plan, since: dict[int, datetime], rag: Engine, run: Run
) -> tuple[Passage, ...]:
    """Retrieve later passages on the claim from each channel in `since`. Raises as `retrieve_claim_passages`."""
    if not plan.queries:
        return ()
    words = " ".join(word for word in _NUMBER_WORDS.sub(" ", question.text).split() if not is_asking_word(word))
    about = replace(plan, queries=(words if tokenize(words) else plan.queries[0],), legs=LEXICAL_ONLY)
    passages: dict[PassageRef, Passage] = {}
    for chat, moment in since.items():
        then = replace(about, channels=frozenset({chat}), since=moment + timedelta(seconds=1))
        hits = await search_passages(then, question, rag, run)
        passages |= {hit.passage.ref: hit.passage for hit in hits[:_MAX_NEWER_POSTS]}
    return tuple(passages.values())


async def count_independent_sources(
    passages: Sequence[Passage], viewer: Viewer, known: Mapping[int, Channel], rag: Engine
) -> tuple[int, PostKey | None]:
    """Count the independent sources of posts that state the same thing, and find the earliest of these posts.

    Raises ArchiveUnavailable.
    """
    if not passages:
        return 0, None
    families = await near_duplicates.fetch_copies(rag.archive, [passage.key for passage in passages], viewer.channels)
    groups: list[set[object]] = []
    for passage in passages:
        # marks shared by posts of one source: speaker, family of near_duplicates, text
        marks: set[object] = {build_text_key(passage.text), _identify_speaker(passage, known)}
        marks.discard("")
        if found := families.get(passage.key):
            marks.add(found.family)
        joined = [group for group in groups if group & marks]
        groups = [group for group in groups if not group & marks] + [marks.union(*joined)]
    dated_posts: dict[PostKey, DatedPost] = {passage.key: passage for passage in passages}
    for passage in passages:
        if found := families.get(passage.key):
            # a near-duplicate may state something else: exact copies only
            dated_posts |= {one.key: one for one in found.all if one.exact == found.exact}
    return len(groups), order_copies(dated_posts.values())[0].key


def _identify_speaker(passage: Passage, known: Mapping[int, Channel]) -> str:
    """Channel the words are from: of a forward its origin, by id, else by name."""
    origin = passage.origin
    if origin is None or origin.chat_id is not None:
        return str(origin.chat_id if origin else passage.key.chat_id)
    name = origin.name.casefold()
    return next((f"{key}" for key, channel in known.items() if channel.title.casefold() == name), name)


@dataclass(frozen=True, slots=True)
class AssessedPassage:
    """Passage with its support for the claim."""

    passage: Passage
    support: Support


_MAX_CITED_POSTS = 3  # per claim: supporting posts, and as many contradicting ones
# Share of the claim's terms: a post with fewer beside the best says something of another thing.
_MIN_RELATIVE_ABOUT = 0.5
_MIN_RECHECKED_ABOUT = 0.5
_NEVER = datetime.max.replace(tzinfo=UTC)
_MAX_RECHECKED_CHANNELS = 3  # channels searched for later posts


def list_channels_to_recheck(weighed: Sequence[AssessedPassage]) -> dict[int, datetime]:
    """Select the channels to search for later posts, with the date of their post that is most about the claim."""
    since: dict[int, datetime] = {}
    for one in sorted(weighed, key=lambda one: (one.support.label is Label.NOT_FOUND, -one.support.about)):
        if len(since) < _MAX_RECHECKED_CHANNELS and one.support.about >= _MIN_RECHECKED_ABOUT:
            since.setdefault(one.passage.key.chat_id, one.passage.date)
    return since


def decide_verdict(claim: Claim, weighed: Sequence[AssessedPassage]) -> tuple[Verdict, tuple[Passage, ...]]:
    """Decide the verdict, without counting sources; return it with all supporting passages.

    The newest word of a channel holds. Of two channels the newer holds too, unless the claim is of a past year: then
    they disagree.
    """
    most = max((one.support.about for one in weighed if one.support.label is not Label.NOT_FOUND), default=0.0)
    weighed = _label_later_posts(weighed)
    backing = _order_by_confidence(weighed, Label.SUPPORTED)
    newest: dict[int, datetime] = {}
    for one in backing:
        newest[one.passage.key.chat_id] = max(one.passage.date, newest.get(one.passage.key.chat_id, one.passage.date))
    against = [
        one
        for one in _order_by_confidence(weighed, Label.CONTRADICTED)
        if one.support.about >= _MIN_RELATIVE_ABOUT * most
        and not (one.passage.key.chat_id in newest and newest[one.passage.key.chat_id] >= one.passage.date)
    ]
    if not backing and not against:
        best = max(weighed, key=lambda one: one.support.likely, default=None)
        return Verdict(claim, Label.NOT_FOUND, *((best.support.likely, best.support.layer) if best else (0.0,))), ()
    last = max(against, key=lambda one: one.passage.date, default=None)
    holds = last is None or (bool(backing) and max(newest.values()) >= last.passage.date)
    years = {moment.year for moment in extract_facts(claim.text, claim.lang).moments if moment.year}
    if holds and last and any(year < last.passage.date.year for year in years):
        holds = False
    later = [one for one in against if one.passage.key.chat_id in newest and not holds]
    changed = max(later, key=lambda one: one.passage.date, default=None)
    label = Label.SUPPORTED if holds else Label.CONTRADICTED
    first = (backing if holds else against)[0]
    others = sorted((one for one in against if one is not changed), key=lambda one: one.passage.date, reverse=True)
    verdict = Verdict(
        claim,
        label,
        first.support.likely,
        first.support.layer,
        _build_citations(claim, backing),
        _build_citations(claim, ([changed] if changed else []) + others),
        superseded=_build_citation(claim, changed) if changed else None,
    )
    return verdict, tuple(one.passage for one in backing)


def _label_later_posts(weighed: Sequence[AssessedPassage]) -> list[AssessedPassage]:
    """Label a post by its leaning where an earlier post of the channel says the opposite: it need not repeat all."""
    first: dict[tuple[int, Label], datetime] = {}
    for one in weighed:
        key = one.passage.key.chat_id, one.support.label
        first[key] = min(one.passage.date, first.get(key, one.passage.date))

    def changes(one: AssessedPassage) -> bool:
        opposite = Label.CONTRADICTED if one.support.leaning is Label.SUPPORTED else Label.SUPPORTED
        return one.passage.date > first.get((one.passage.key.chat_id, opposite), _NEVER)

    return [
        replace(one, support=replace(one.support, label=one.support.leaning, about=1.0))
        if one.support.label is Label.NOT_FOUND and one.support.leaning is not Label.NOT_FOUND and changes(one)
        else one
        for one in weighed
    ]


def _order_by_confidence(weighed: Sequence[AssessedPassage], label: Label) -> list[AssessedPassage]:
    sign = -1 if label is Label.SUPPORTED else 1  # a contradiction is surer the less likely its support is
    return sorted(
        (one for one in weighed if one.support.label is label),
        key=lambda one: (sign * round(one.support.likely, 2), -one.support.about, -one.passage.date.timestamp()),
    )


def _build_citations(claim: Claim, told: Iterable[AssessedPassage]) -> tuple[Citation, ...]:
    """One citation per post, of the first `_MAX_CITED_POSTS` posts."""
    first: dict[object, AssessedPassage] = {}
    for one in told:
        first.setdefault(one.passage.key, one)
    return tuple(c for one in list(first.values())[:_MAX_CITED_POSTS] if (c := _build_citation(claim, one)))


def _build_citation(claim: Claim, one: AssessedPassage) -> Citation | None:
    """Citation of the deciding words."""
    passage, span = one.passage, (one.support.start, one.support.end)
    if span[0] >= span[1]:
        span = find_best_quote(claim.text, passage) or (0, 0)
    start, end = widen_quote(claim, passage.text, span)
    quote, at = passage.text[start:end], passage.start + start
    return Citation(passage.key, quote, at, at + len(quote), passage.date) if quote else None


_MIN_POST_WORDS = 5  # words: a shorter text may stand in many posts


async def find_same_post(question: Question, verdicts: Sequence[Verdict], rag: Engine) -> Post | None:
    """Find the post whose whole text the question is, the original of its copies; None for a text of few words.

    It is among those that were assessed for its claims. Raises ArchiveUnavailable.
    """
    text_key = build_text_key(question.text)
    if len(text_key.split()) < _MIN_POST_WORDS:
        return None
    stored = await visible_posts.fetch_posts(rag.archive, {key for verdict in verdicts for key in verdict.assessed})
    readable = (post for post in stored.values() if post.key.chat_id in question.viewer.channels)
    same = [post for post in readable if build_text_key(post.text) == text_key]
    return order_copies(same)[0] if same else None


_MAX_QUOTE_SENTENCES = 3  # sentences of a quote: the deciding one may depend on the one before


def widen_quote(claim: Claim, text: str, span: TextSpan) -> TextSpan:
    """Widen the deciding words by neighbouring sentences that hold more of the claim, up to MAX_SENTENCE_LENGTH."""
    claim_terms = frozenset(tokenize(claim.text))
    if span[1] - span[0] > MAX_SENTENCE_LENGTH:
        found = split_long_span(text, span, MAX_SENTENCE_LENGTH)
        return max(found, key=lambda piece: len(claim_terms & frozenset(tokenize(text[slice(*piece)]))), default=span)
    found = split_sentences(text)
    here = [n for n, (start, end) in enumerate(found) if start < span[1] and span[0] < end]
    if not here:
        return span
    first, last = here[0], here[-1]
    windows = [
        (found[a][0], found[b][1])
        for a in range(max(0, last - _MAX_QUOTE_SENTENCES + 1), first + 1)
        for b in range(last, min(len(found), a + _MAX_QUOTE_SENTENCES))
        if found[b][1] - found[a][0] <= MAX_SENTENCE_LENGTH
    ]
    return max(
        windows, key=lambda w: (len(claim_terms & frozenset(tokenize(text[slice(*w)]))), w[0] - w[1]), default=span
    )


# A long post has a dozen claims; nobody reads more verdicts than this, and each needs a search of its own.
MAX_CHECKED_CLAIMS = 8
# Characters of all claims checked together, as many as a question may have; and of a message, as many as a post has.
MOST_CLAIMED = 1000
LONGEST_MESSAGE = 4096


async def verify_text(question: Question, rag: Engine) -> Verification:
    """Verify the claims of `question.text` against the posts its asker may read.

    Raises RagError if that is impossible: an index that is down never counts as "the posts do not say".
    """
    run = Run(rag.budgets, "verify", shortfalls=[*rag.without, *question.viewer.list_shortfalls()])
    try:
        async with run.stage(Stage.PLAN):
            claims, unread = await asyncio.to_thread(_extract_claims_to_check, question)
            run.note(claims=len(claims))
        known = await channels.load_channels(rag.archive)
        readable = {chat: channel for chat, channel in known.items() if chat in question.viewer.channels}
        lengths = accumulate(len(claim.text) for claim in claims[:MAX_CHECKED_CLAIMS])
        chosen = claims[: max(1, sum(length <= MOST_CLAIMED for length in lengths))]
        verdicts = [await _get_verdict(claim, question, readable, rag, run) for claim in chosen]
        same = await find_same_post(question, verdicts, rag)
        if any(verdict.label is Label.NOT_FOUND for verdict in verdicts):
            await note_unindexed_posts(question.viewer, rag, run)
            await note_unembedded_posts(question.viewer, rag, run)
        shortfalls = tuple(dict.fromkeys(run.shortfalls))
        return Verification(
            tuple(verdicts), len(claims) - len(chosen) + unread, shortfalls, run.trace_id, readable, same
        )
    finally:
        rag.traced(run)


def _extract_claims_to_check(question: Question) -> tuple[tuple[Claim, ...], int]:
    """Claims of a message, and the number of unread sentences after its first `LONGEST_MESSAGE` characters."""
    text = question.text
    unread = split_sentences(text[LONGEST_MESSAGE:]) if len(text) > LONGEST_MESSAGE else []
    return extract_claims(text[:LONGEST_MESSAGE]), len(unread)


async def _get_verdict(claim: Claim, question: Question, known: dict[int, Channel], rag: Engine, run: Run) -> Verdict:
    """Verdict on one claim, from the cache if nothing has changed; its key has the last change, as it quotes posts."""
    claim_text = " ".join(claim.text.casefold().replace("ё", "е").split()).strip(" .!")
    change = await posts.get_last_seq(rag.archive)
    key = claim_text, claim.lang, question.viewer.channels, question.asked_at.date(), change
    version, before = rag.version, len(run.shortfalls)
    if (ready := rag.caches.verdicts.get(key, version)) is not None:
        return replace(ready, claim=claim)
    asked = replace(question, text=claim.text, lang=claim.lang)
    verdict = await verify_claim(claim, asked, plan_claim_search(asked), known, rag, run)
    if len(run.shortfalls) == before:  # a verdict with shortfalls may be incomplete: it is not cached
        rag.caches.verdicts.store(key, version, verdict)
    return verdict


async def verify_claim(
    claim: Claim, question: Question, plan: Plan, known: Mapping[int, Channel], rag: Engine, run: Run
) -> Verdict:
    """Verify one claim: search with the plan, assess, look for later posts, decide. Raises RagError."""
    first = await _assess_current_passages(
        claim, await retrieve_claim_passages(question, plan, rag, run), question, rag, run
    )
    seen = {one.passage.ref for one in first}
    since = list_channels_to_recheck(first)
    more = [p for p in await retrieve_newer_passages(question, plan, since, rag, run) if p.ref not in seen]
    verdict, supporting = decide_verdict(claim, first + await _assess_current_passages(claim, more, question, rag, run))
    counting = count_independent_sources(supporting, question.viewer, known, rag)
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
    here = set(await run.require(Stage.NEAREST, filter_current_passages(passages, question.viewer, rag)))
    return [AssessedPassage(p, support) for p, support in zip(passages, supports, strict=True) if p in here]


async def answer_claim(question: Question, plan: Plan, rag: Engine, run: Run) -> Draft | None:
    """Verify what is asked to be true, within the channels of the plan; None where posts decide nothing.

    Raises RagError.
    """
    claims = extract_claims(question.text)
    if len(claims) != 1:
        return None
    claimed = replace(question, text=claims[0].text)
    search = replace(plan_claim_search(claimed), channels=plan.channels)
    known = await channels.load_channels(rag.archive)
    verdict = await verify_claim(claims[0], claimed, search, known, rag, run)
    sentences = tuple(_phrase_verdict(verdict, question.lang))
    if not sentences:
        return None
    # of 30 claims 22 were answered rightly and 3 the opposite: never sure
    return Draft(sentences, max(verdict.likely, 1 - verdict.likely), certainty=Certainty.PROBABLE)


def _phrase_verdict(verdict: Verdict, lang: str) -> Iterator[Sentence]:
    """Yes or no with the deciding quote; where channels disagree, the other side too."""
    holds = verdict.label is Label.SUPPORTED
    deciding = verdict.citations if holds else (*filter(None, (verdict.superseded,)), *verdict.against)
    if verdict.label is Label.NOT_FOUND or not deciding:
        return
    first = _shorten_quote(deciding[0])
    yield Sentence(format_yes_or_no(first.quote, lang, holds=holds), (first,))
    if verdict.contested:
        other = _shorten_quote(verdict.citations[0])
        yield Sentence(f"{format_conflict(first.date, other.date, lang)} {other.quote}", (other,))


def _shorten_quote(citation: Citation) -> Citation:
    span = 0, len(citation.quote)
    start, end = next(iter(split_long_span(citation.quote, span, MAX_FRAMED_QUOTE_LENGTH)), span)
    place = citation.start + start
    return replace(citation, quote=citation.quote[start:end], start=place, end=citation.start + end)


_SUPPORT_THRESHOLD, _MAX_LIKELIHOOD = 0.5, 0.99


_UNDECIDED = 0.2  # likelihood from which the LLM judge is asked of what no other cue decides
_JUDGE_WEIGHT = 0.5  # weight of its log odds: small models are overconfident
_BARE_VERDICTS = "The model only says yes or no, not how sure it is: use a server that tells log-probabilities."


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
    if not odds:
        return supports
    if rag.writer.bare_verdicts:
        run.shortfalls.append(Shortfall("judge", _BARE_VERDICTS))
    for n, more in zip(open_ones, odds, strict=True):
        z = math.log(supports[n].likely / (1 - supports[n].likely)) + _JUDGE_WEIGHT * more
        likely = min(_MAX_LIKELIHOOD, 1 / (1 + math.exp(-max(-30.0, min(30.0, z)))))
        label = Label.SUPPORTED if likely >= _SUPPORT_THRESHOLD else Label.NOT_FOUND
        supports[n] = replace(supports[n], label=label, likely=round(likely, 4), layer="judge")
    return supports
