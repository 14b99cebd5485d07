"""Claim extraction: split a message into sentences and clauses that state something.

Questions, greetings and lines of links are left out. A clause is a claim by itself only where it has a subject and a
verb of its own. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from rag_core.planning.intents import CLAIM_LEAD
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, parted, split_sentences
from rag_core.text.tokens import detect_language
from rag_core.verification.facts import LONGEST_STATED
from rag_core.verification.verdict_types import Claim
from rag_core.verification.word_comparison import Word, split_words

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
_RUSSIAN_VERB_ENDING = re.compile(
    r"(?:[аяеиыоу]л(?:а|о|и|ся|ась|ось|ись)?|[аеиуюя]т(?:ся)?|[ёеи]шь|[еи]те|[её]м|им|ен[аоы]?|[ая]н[аоы]|ыт[аоы]?|ят[аоы]?)$"
)
_COPULAS = frozenset(
    "есть нет был была было были будет будут стал стала стали стоит нельзя можно нужно надо должен должна должны может могут "
    "is are was were am be been has have had will would can could may might must shall should does do did cost costs".split()
)
_ENGLISH_VERB_ENDING = re.compile(r"(?:ed|[a-z]{2}[^s\W]s)$")
_IRREGULAR_VERBS = frozenset(
    "became began bought broke brought built came chose cut drew drove fell flew found fought gave got grew held hit kept knew led left lost made met "
    "paid put ran rose said sang saw sent set shot shut sold spent spoke stood swam taught thought told took went won wore wrote".split()
)
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


def is_verb(word: Word) -> bool:
    """Check whether a word looks like a verb, by its ending."""
    if word.low in _COPULAS or word.low in _IRREGULAR_VERBS:
        return True
    if word.capital and not word.opens:
        return False
    if word.low.isascii():
        return bool(_ENGLISH_VERB_ENDING.search(word.low)) and len(word.low) > 3
    return bool(_RUSSIAN_VERB_ENDING.search(word.low)) and len(word.low) > 4


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
    yield from (part for part in parted(text, (start, end), LONGEST_STATED) if is_claim(text[slice(*part)]))


def _trim_span(text: str, start: int, end: int) -> tuple[int, int]:
    """Trim spaces, marks, closing quotes before the text and opening ones after it."""
    while start < end and (text[start] in _LEADING_MARKS or text[start].isspace()):
        start += 1
    while end > start and (text[end - 1] in _TRAILING_MARKS or text[end - 1].isspace()):
        end -= 1
    return start, end
