"""Evidence: the best passages as sources numbered from 1, copies merged; whether a quote still stands; prompts of it;
posts that disagree with the one quoted, by another value for the same.

The prompt budget limits evidence and answer, which share one context. More relevant posts get more tokens. Posts keep
their numbers from the evidence.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

from rag_core.engine import Engine
from rag_core.errors import GenerationFailed, ModelTooSlow
from rag_core.llm.protocol import LanguageModel, LlmSession, Prompt
from rag_core.settings import LlmSettings
from rag_core.storage import near_duplicates, visible_posts
from rag_core.storage.near_duplicates import PostCopies, PostCopy
from rag_core.storage.posts import fetch_passages
from rag_core.text.post_text import find_poll
from rag_core.text.query_terms import QueryTerms, TermWeight
from rag_core.text.sentences import (
    MAX_ANSWER_LENGTH,
    MAX_SENTENCE_LENGTH,
    TextSpan,
    build_text_key,
    split_long_span,
    split_sentences,
)
from rag_core.text.tokens import tokenize
from rag_core.types import (
    Citation,
    Draft,
    Evidence,
    Hit,
    Passage,
    PassageRef,
    Plan,
    Post,
    PostKey,
    Question,
    Sentence,
    Source,
    Viewer,
)
from rag_core.verification import Claim, Label
from rag_core.verification.stance import assess_by_words
from rag_core.verification.support import find_best_quote
from rag_core.writing.extract import MAX_FRAMED_QUOTE_LENGTH, format_conflict
from rag_core.writing.prompts import escape_prompt_text, load_prompt, quote_post, quote_question

_LATEST_POSTS = 300  # per channel: enough to tell a fifth, read in a few milliseconds
_MIN_SHARE, _MIN_POSTS = 0.2, 5


def find_repeated_lines(texts: Sequence[str]) -> frozenset[str]:
    """Find the lines that repeat in texts, as keys (`build_text_key`); each text counts once for a line."""
    counts = Counter[str]()
    for text in texts:
        counts.update({key for line in text.split("\n") if (key := build_text_key(line))})
    least = max(_MIN_POSTS, math.floor(_MIN_SHARE * len(texts)) + 1)
    return frozenset(key for key, times in counts.items() if times >= least)


def is_boilerplate(text: str, repeated: frozenset[str]) -> bool:
    """Whether every line of a text is boilerplate."""
    return bool(repeated) and all(key in repeated for line in text.split("\n") if (key := build_text_key(line)))


DatedPost = Post | Passage | PostCopy
D = TypeVar("D", bound=DatedPost)


def order_copies(copies: Iterable[D]) -> list[D]:
    """Order copies of one post, the original first: the earliest; a forward of another copy comes after the others.

    An origin known by name only, as in exports, may be any post.
    """
    listed = list(copies)
    own = [one.key for one in listed if one.origin is None]
    forwarded = {
        one.key
        for one in listed
        if (of := one.origin)
        and any(of.chat_id in (None, key.chat_id) and of.message_id in (None, key.message_id) for key in own)
    }
    return sorted(listed, key=lambda one: (one.key in forwarded, one.date, one.key))


def _locate_in_original(
    passage: Passage, original: PostKey, known: Mapping[PostKey, PostCopies], stored: Mapping[PostKey, Post]
) -> PassageRef | None:
    """Locate a passage in the original: the same words, or the whole post if both are one passage of one text."""
    copy_post, original_post = stored.get(passage.key), stored.get(original)
    if copy_post is None or original_post is None:
        return None
    if (start := original_post.text.find(passage.text)) >= 0:
        return PassageRef(original, passage.part, start, start + len(passage.text))
    family = known[passage.key]
    exactly = any(one.key == original and one.exact == family.exact for one in family.all)
    if not exactly or passage.text.strip() != copy_post.text.strip():
        return None
    start = len(original_post.text) - len(original_post.text.lstrip())
    return PassageRef(original, 0, start, start + len(original_post.text.strip()))


MAX_SOURCES = 10  # beyond the tenth hit the answer was found in 1 of 200 questions (XQuAD among news)


def compose_evidence(
    hits: Sequence[Hit], known: Mapping[PostKey, PostCopies] = MappingProxyType({}), most: int = MAX_SOURCES
) -> Evidence:
    """Compose numbered sources from the best hits; copies are merged into one source, parts of a long post are not.

    `known` are the stored copies by post; for a post too new to be in it, equal words decide. A quote must be verbatim:
    of copies, the original of those with the words of the best hit is cited.
    """
    hits_with_copies = [(hit, known.get(hit.passage.key), build_text_key(hit.passage.text)) for hit in hits]
    by_words: dict[str, object] = {}
    for hit, stored, words in hits_with_copies:
        if stored and words:
            by_words.setdefault(words, (stored.family, hit.passage.part))
    groups: dict[object, list[Hit]] = {}
    for hit, stored, words in hits_with_copies:
        alike = by_words.get(words, words or f"{hit.passage.key}")
        groups.setdefault((stored.family, hit.passage.part) if stored else alike, []).append(hit)
    sources = []
    for number, group in enumerate(islice(groups.values(), most), 1):
        passages = [hit.passage for hit in group]
        words = build_text_key(passages[0].text)
        first = order_copies(p for p in passages if p is passages[0] or (words and build_text_key(p.text) == words))[0]
        copies: dict[PostKey, DatedPost] = {passage.key: passage for passage in passages}
        for passage in passages:
            if stored := known.get(passage.key):
                copies |= {one.key: one for one in stored.all}
        others = tuple(one.key for one in order_copies(copies.values()) if one.key != first.key)
        leg = group[0].leg if len({hit.leg for hit in group}) == 1 else "both"
        sources.append(Source(number, replace(first, copies=others) if others else first, group[0].score, leg))
    return Evidence(tuple(sources))


async def gather_evidence(hits: Sequence[Hit], viewer: Viewer, rag: Engine) -> Evidence:
    """Gather the evidence of the hits and its boilerplate, citing the original of a copy where it has the same words.

    A post of nothing but boilerplate is no source. Raises ArchiveUnavailable.
    """
    known = await near_duplicates.fetch_copies(rag.archive, [hit.passage.key for hit in hits], viewer.channels)
    evidence = compose_evidence(hits, known)
    originals: dict[PostKey, PostKey] = {}
    for source in evidence.sources:
        if family := known.get(source.passage.key):
            everyone: list[DatedPost] = [source.passage, *family.all]
            if (first := order_copies(everyone)[0].key) != source.passage.key:
                originals[source.passage.key] = first
    stored = await visible_posts.fetch_posts(rag.archive, [*originals, *originals.values()]) if originals else {}
    places = {
        s: place
        for s in evidence.sources
        if (to := originals.get(s.passage.key)) and (place := _locate_in_original(s.passage, to, known, stored))
    }
    passages = await fetch_passages(rag.archive, list(places.values())) if places else {}
    sources = []
    for source in evidence.sources:
        copy, original = source.passage, passages.get(places[source]) if source in places else None
        if original:
            others = (copy.key, *(key for key in copy.copies if key != original.key))
            source = replace(source, passage=replace(original, copies=others))
        sources.append(source)
    version = rag.version_of_posts  # boilerplate is cached while the index does not change
    repeated = {chat: rag.boilerplate.get(chat, version) for chat in {source.passage.key.chat_id for source in sources}}
    if new := [chat for chat, lines in repeated.items() if lines is None]:
        reading = visible_posts.summarize_latest_texts(rag.archive, new, _LATEST_POSTS, find_repeated_lines)
        for chat, lines in (await reading).items():
            repeated[chat] = lines
            rag.boilerplate.store(chat, version, lines)
    boilerplate = {chat: lines for chat, lines in repeated.items() if lines}
    of_source = ((s, boilerplate.get(s.passage.key.chat_id, frozenset())) for s in sources)
    telling = (s for s, lines in of_source if not is_boilerplate(s.passage.text, lines))
    return Evidence(tuple(replace(s, number=n) for n, s in enumerate(telling, 1)), boilerplate)


async def check_citations(draft: Draft, viewer: Viewer, rag: Engine) -> tuple[Sentence, ...]:
    """Keep what is still quoted of a draft (`keep_current_citations`). Raises ArchiveUnavailable."""
    keys = {citation.post for sentence in draft.sentences for citation in sentence.citations}
    return keep_current_citations(draft.sentences, await visible_posts.fetch_posts(rag.archive, keys), viewer)


def _select_readable_texts(stored: Mapping[PostKey, Post], viewer: Viewer) -> dict[PostKey, str]:
    """Select the texts of the stored posts that this viewer may read now."""
    return {key: post.text for key, post in stored.items() if key.chat_id in viewer.channels}


def keep_current_citations(
    sentences: Sequence[Sentence], stored: Mapping[PostKey, Post], viewer: Viewer
) -> tuple[Sentence, ...]:
    """Keep the sentences whose quotes are in the posts as they are stored now, with the citations that are.

    A post may have been edited or deleted, or a channel closed to this viewer, while the answer was written.
    """
    readable = _select_readable_texts(stored, viewer)
    kept = []
    for sentence in sentences:
        quotes = (one for one in sentence.citations if one.quote and one.post in readable)
        current = tuple(one for one in quotes if readable[one.post][one.start : one.end] == one.quote)
        # a sentence of a model may rest on any of its posts: all of them must be current
        if current and (sentence.support == 1.0 or len(current) == len(sentence.citations)):
            kept.append(replace(sentence, citations=current))
    return tuple(kept)


def keep_current_passages(passages: Iterable[Passage], stored: Mapping[PostKey, Post], viewer: Viewer) -> set[Passage]:
    """Keep the passages whose posts are stored unchanged, and readable by this viewer."""
    readable = _select_readable_texts(stored, viewer)
    there = (one for one in passages if one.key in readable)
    return {one for one in there if readable[one.key][one.start : one.end] == one.text}


_MIN_SOURCE_SHARE = 0.2  # least weight of a post, relative to the best one
_MAX_EXCERPTS, _AROUND = 4, 1  # posts, and sentences on each side: a small model loses the answer among more
_SEAM_TOKENS = 2  # tokens for a line end or a gap between two pieces
_GAP = " … "


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Excerpt of a source in the prompt; `tokens` is its estimated length with markers."""

    source: Source
    text: str
    tokens: int

    @property
    def quoted(self) -> str:
        """Excerpt with its markers, as in the prompt."""
        return quote_post(self.text, self.source.number, self.source.passage.header)


async def fit_excerpts(evidence: Evidence, question: str, tokens: int, seat: LlmSession) -> list[Excerpt]:
    """Fit excerpts into `tokens` tokens in total, best first; sources that do not fit are left out without an error.

    Of the best posts the sentence with most of the question's terms is kept, with those around it, and the first, which
    may be a title. Tokens are shared in proportion to relevance; what a short post does not use goes to the next ones.
    Raises GenerationFailed.
    """
    sources = [source for source in evidence.sources if source.passage.text.strip()][:_MAX_EXCERPTS]
    question_terms = frozenset(tokenize(question))
    spans = [_choose_pieces(source.passage.text, question_terms) for source in sources]
    texts = [source.passage.text[a:b] for source, pieces in zip(sources, spans, strict=True) for a, b in pieces]
    frames = [quote_post("", source.number, source.passage.header) for source in sources]
    counts = iter(await seat.count([*frames, *texts]))
    framed = [next(counts) + _SEAM_TOKENS for _ in frames]
    best_score = max((source.score for source in sources), default=0.0)
    weights = [max(_MIN_SOURCE_SHARE, source.score / best_score) if best_score > 0 else 1.0 for source in sources]
    shown: list[Excerpt] = []
    tokens_left = tokens
    for n, source in enumerate(sources):
        text, chosen = source.passage.text, dict[TextSpan, int]()
        room, most = int(tokens_left * weights[n] / sum(weights[n:])) - framed[n], tokens_left - framed[n]
        sizes = {span: next(counts) + _SEAM_TOKENS for span in spans[n]}
        worth = {span: len(question_terms & {*tokenize(text[slice(*span)])}) for span in spans[n]}
        for span in sorted(spans[n], key=lambda span: (-worth[span], span)):
            if sizes[span] <= room or (not chosen and sizes[span] <= most):
                chosen[span] = sizes[span]
                room -= sizes[span]
        if not chosen:
            continue
        words, end = "", None
        for start, stop in sorted(chosen):
            between = "" if end is None else text[end:start] if not text[end:start].strip() else _GAP
            words, end = words + between + text[start:stop], stop
        shown.append(Excerpt(source, words, framed[n] + sum(chosen.values())))
        tokens_left -= shown[-1].tokens
    return shown


def join_excerpts(excerpts: Sequence[Excerpt]) -> str:
    """Join excerpts for the prompt: the best first, the second best last, the weakest in the middle.

    Source: Liu et al., "Lost in the Middle" (2023), https://arxiv.org/abs/2307.03172
    """
    return "\n".join(excerpt.quoted for excerpt in (*excerpts[:1], *excerpts[2:], *excerpts[1:2]))


def _choose_pieces(text: str, asked: frozenset[str]) -> list[TextSpan]:
    """Choose the sentence with most of the question's terms, those around it, and the first; long ones are split."""
    pieces: list[TextSpan] = []
    for sentence in split_sentences(text):
        end = sentence[0]
        for start, stop in split_long_span(text, sentence):
            if stop > end:
                pieces.append((max(start, end), stop))
                end = stop
    best = max(range(len(pieces)), key=lambda n: len(asked & {*tokenize(text[slice(*pieces[n])])}), default=0)
    return [piece for n, piece in enumerate(pieces) if n == 0 or abs(n - best) <= _AROUND]


_MESSAGE_TOKENS = 12  # most tokens that a chat template adds to a message
_MARGIN_TOKENS = 32
_MIN_EVIDENCE_TOKENS = 96  # with fewer tokens for posts nothing can be written
_MIN_ANSWER_TOKENS = 48  # one sentence with its number
_READING_S, _WRITING_S = 10.0, 10.0  # seconds for the posts and for the answer, at the model's measured rates
_MIN_TOKENS_WITH_EXAMPLES = 400  # with fewer tokens for posts the examples are left out
_MAX_SENTENCES, _GOOD_SENTENCE_LENGTH = 4, 120  # with fewer characters a sentence is seldom complete
_MIN_SENTENCE_LENGTH = 40
_CITATION_TOKENS = 13  # most tokens of the citation numbers behind a sentence
_TOKEN_RATE_RESERVE = 1.25  # names and rare words take more tokens than the average of the posts


@dataclass(frozen=True, slots=True)
class PromptBudget:
    """Prompt of one answer and the limits of its reply: tokens, sentences, characters per sentence."""

    prompt: Prompt
    excerpts: Sequence[Excerpt]
    tokens: int
    sentences: int
    characters: int


async def build_prompt_budget(
    question: Question, evidence: Evidence, model: LanguageModel, settings: LlmSettings, seat: LlmSession
) -> PromptBudget:
    """Build the prompt with the evidence that fits and can be read in time. Raises GenerationFailed, ModelTooSlow."""
    most_posts, most_answer = settings.evidence_tokens, settings.answer_tokens
    if rates := model.rates:
        most_posts = min(most_posts, int(_READING_S * rates.prefill))
        most_answer = min(most_answer, int(_WRITING_S * rates.decode))
        if most_posts < _MIN_EVIDENCE_TOKENS or most_answer < _MIN_ANSWER_TOKENS:
            raise ModelTooSlow(f"{model.name} reads and writes too slowly here to answer from posts.")
    template = load_prompt("write", question.lang)
    asked, most_asked = quote_question(question.text), model.context // 4
    (asked_tokens,) = await seat.count([asked])
    if asked_tokens > most_asked:
        plain = escape_prompt_text(question.text)
        asked = quote_question(plain[: int(len(plain) * 0.9 * most_asked / asked_tokens)])
    examples = [text for shot in template.shots for text in shot]
    system, ask, *shots = await seat.count([template.system, asked, *examples])
    answer = min(most_answer, model.context // 3)
    left = model.context - system - ask - answer - 2 * _MESSAGE_TOKENS - _MARGIN_TOKENS
    with_shots = left - sum(shots) - _MESSAGE_TOKENS * len(shots)
    shown = with_shots >= min(_MIN_TOKENS_WITH_EXAMPLES, most_posts)
    left = min(with_shots if shown else left, most_posts)
    excerpts = await fit_excerpts(evidence, question.text, left, seat) if left >= _MIN_EVIDENCE_TOKENS else []
    if not excerpts:
        raise GenerationFailed("No post fits into the model's context beside the question: raise LLM__CONTEXT.")
    prompt = Prompt(template.system, f"{join_excerpts(excerpts)}\n{asked}", template.shots if shown else ())
    # sentences and their characters fit the answer's tokens, by the tokens per character of these posts
    rate = _TOKEN_RATE_RESERVE * sum(e.tokens for e in excerpts) / max(1, sum(len(e.quoted) for e in excerpts))
    characters = int((answer - _CITATION_TOKENS * _MAX_SENTENCES) / rate)
    sentences = max(1, min(_MAX_SENTENCES, characters // _GOOD_SENTENCE_LENGTH))
    each = max(_MIN_SENTENCE_LENGTH, min(MAX_SENTENCE_LENGTH, characters // sentences))
    return PromptBudget(prompt, excerpts, answer, sentences, each)


_MAX_COMPARED_POSTS = 8  # first sources that are compared
# Different numbers may be about different things, so the other post must cover this share of the question.
_MIN_QUESTION_COVERAGE = 0.75
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_DIFFERS_MARK = "≠"  # marks differing numbers and dates in the reason of a check


def add_conflicting_post(question: Question, plan: Plan, draft: Draft, evidence: Evidence, rag: Engine) -> Draft:
    """Add at most one post that contradicts a sentence of the draft, right after that sentence."""
    weight = rag.lexical.statistics(question.viewer.channels).weight
    asked = QueryTerms.of(plan.asked or question.text, weight)
    cited = {citation.post for sentence in draft.sentences for citation in sentence.citations}
    compared = [source.passage for source in evidence.sources[:_MAX_COMPARED_POSTS]]
    others = [passage for passage in compared if passage.key not in cited and not find_poll(passage)]
    for place, sentence in enumerate(draft.sentences):
        if not sentence.citations:
            continue
        found = (_find_conflicting_quote(sentence, asked, passage, weight, question.lang) for passage in others)
        if other := max(filter(None, found), key=lambda citation: citation.date, default=None):  # the newest
            first = max(citation.date for citation in sentence.citations)
            intro = format_conflict(question.localize(first), question.localize(other.date), question.lang)
            framed = Sentence(f"{intro} {other.quote}", (other,))
            rest = [later for later in draft.sentences[place + 1 :] if not later.quotes([other])]
            # it replaces the last sentence: no more sentences than the settings allow, and always both sides
            shown = (*draft.sentences[: place + 1], framed, *rest)[: max(place + 2, len(draft.sentences))]
            while len(shown) > place + 2 and sum(len(one.text) for one in shown) > MAX_ANSWER_LENGTH:
                shown = shown[:-1]
            return replace(draft, sentences=shown)
    return draft


def _find_conflicting_quote(
    sentence: Sentence, asked: QueryTerms, passage: Passage, weight: TermWeight, lang: str
) -> Citation | None:
    span = find_best_quote(sentence.text, passage)
    if span is None:
        return None
    span = next(iter(split_long_span(passage.text, span, MAX_FRAMED_QUOTE_LENGTH)), span)
    words = passage.text[slice(*span)]
    if asked.matched_share(frozenset(tokenize(f"{passage.header}\n{words}"))) < _MIN_QUESTION_COVERAGE:
        return None
    dated = (sentence.text, sentence.citations[0].date), (words, passage.date)
    # years in a text that are within one of its date
    here, there = ({year for year in map(int, _YEAR.findall(t)) if abs(year - date.year) <= 1} for t, date in dated)
    if here and there and not here & there:
        return None  # about different years: prices of 2026 do not contradict those of 2027
    (support,) = assess_by_words(Claim(sentence.text, lang), [replace(passage, text=words)], weight)
    if support.label is not Label.CONTRADICTED or _DIFFERS_MARK not in support.why:
        return None
    return passage.cite(span)
