"""Small talk and remarks about an answer: texts that ask nothing of the posts, by closed vocabularies of phrases.

A text is of a kind if it has a phrase of it and, besides, only words of a closed vocabulary; a text with any other word
is a question. The wish for a person instead of the bot is learned (rag_core/planning/intents.py).
"""

from __future__ import annotations

import re
import unicodedata
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rag_core.conversation.followups import QUESTION_WORD_PATTERN, strip_lead_in
from rag_core.planning.intents import Request, estimate_requests
from rag_core.text.numbers import compile_pattern
from rag_core.text.tokens import WORD, detect_language, fold_case, read_phrases, read_word


class TalkKind(StrEnum):
    """Kind of small talk, which decides the reply; where a text has several, the first of these."""

    ABUSE = "abuse"
    JOKE = "joke"
    ABOUT_CHANNEL = "about_channel"
    WHAT_CAN_YOU_DO = "what_can_you_do"
    WHO_ARE_YOU = "who_are_you"
    HELP = "help"
    HOW_ARE_YOU = "how_are_you"
    BYE = "bye"
    THANKS = "thanks"
    GREETING = "greeting"
    ACK = "ack"
    EMOJI = "emoji"
    UNCLEAR = "unclear"


class Talk(NamedTuple):
    """Small talk; `lang` is None where the text has no letters, and the reader's language is used."""

    kind: TalkKind
    lang: str | None


_MAX_CHARACTERS, _MAX_WORDS, _MAX_ADDRESS_WORDS = 120, 12, 9  # longer texts say something of their own


_PHRASES = read_phrases(Path(__file__).with_name("small_talk_phrases.txt"))
_PHRASES["ack"] = "|".join(_PHRASES[section] for section in ("ack_opening", "apology", "ack"))
_PATTERNS = {kind: re.compile(rf"(?:{_PHRASES[kind]})(?!\w)") for kind in TalkKind if kind in _PHRASES}
_FILLERS, _ABUSE_FILLERS, _CONVERSATION_WORDS, _CONVERSATION_NOUNS = (
    frozenset(_PHRASES[name].split("|")) for name in ("filler", "abuse_filler", "conversation", "conversation_noun")
)
_YOU_WORDS = frozenset("you your u ur youre yourself bot".split())
_FAMILIAR_YOU_WORDS = frozenset("ты тебя тебе тобой твой твоя твое твои твоего твоей твоих".split())
# "знаешь, сколько стоит", "можешь подробнее": these ask of the posts
_ASKING_OF_POSTS = frozenset(
    "где куда откуда когда сколько скока почем подробнее подробно короче еще больше другой".split()
)
_WORDLESS_PARTS = frozenset("NPRO PRCL CONJ INTJ ADVB PRED PREP INFN ADJF ADJS COMP".split())
_ASKING_START = re.compile(
    r"(?:а|и|is|are|was|were|do|does|did|can|could|will|would|how|what|why|почему|зачем|что|там|это)\b "
)
_SPOKEN_TO = re.compile(r"\b(?:you|u|bot|ты|вы|бот)\b")
_REPEATED_LETTER = re.compile(r"([^\W\d_])\1{2,}")
_SMILEY = re.compile(r"[\s:;=8xх'^-]*[)(D*/\\|]+[\s)(]*|\^_*\^|<3+|[:;=]-?[PpРр]")


def detect_talk(text: str) -> Talk | None:
    """Detect small talk; None for a question and for an empty text."""
    text = text.strip()
    if not text or len(text) > _MAX_CHARACTERS:
        return None
    words, lang = _split_words(text), detect_language(text) if any(map(str.isalpha, text)) else None
    smiles = _SMILEY.fullmatch(text)
    if smiles or not any(map(str.isalnum, text)):
        pictures = any(unicodedata.category(char) == "So" for char in text)
        return Talk(TalkKind.EMOJI if pictures or smiles else TalkKind.UNCLEAR, None)
    kind = _detect_kind(words) or (TalkKind.WHO_ARE_YOU if _speaks_of_bot(words) else None)
    return Talk(kind, lang) if kind else None


def _split_words(text: str) -> tuple[str, ...]:
    """Split into folded words: lower case, ё as е, no apostrophes, a letter that is repeated for emphasis once."""
    folded = text.lower().replace("ё", "е").replace("'", "").replace("’", "")
    return tuple(WORD.findall(_REPEATED_LETTER.sub(r"\1", folded)))


def _detect_kind(words: tuple[str, ...]) -> TalkKind | None:
    """Detect the kind of a text that consists of phrases and fillers; the kind that says most, where there are more."""
    if len(words) > _MAX_WORDS:
        return None
    text = " ".join(words)
    kinds, position, only_abuse = set[TalkKind](), 0, False
    while position < len(text):
        found = {kind: match.end() for kind, pattern in _PATTERNS.items() if (match := pattern.match(text, position))}
        if found:
            kind = max(found, key=found.__getitem__)  # the longest: "thanks for your help" asks for no help
            kinds.add(kind)
            position = found[kind] + 1
            continue
        word = text[position:].partition(" ")[0]
        if word not in _FILLERS:
            if word not in _ABUSE_FILLERS:
                return None
            only_abuse = True
        position += len(word) + 1
    first = next((kind for kind in TalkKind if kind in kinds), None)
    # "is it good", "а точно": a question about what was spoken of before
    asks = _ASKING_START.match(text) and not _SPOKEN_TO.search(text)
    if (only_abuse and first is not TalkKind.ABUSE) or (asks and first in {TalkKind.ACK, TalkKind.ABUSE}):
        return None
    return first


def _speaks_of_bot(words: tuple[str, ...]) -> bool:
    """Whether a text says "you" to the bot and names nothing that a post could be about."""
    if not 2 <= len(words) <= _MAX_ADDRESS_WORDS:
        return False
    if all(word.isascii() for word in words):
        return not _YOU_WORDS.isdisjoint(words) and _CONVERSATION_WORDS.issuperset(words)
    readings, familiar = [read_word(word)[0] for word in words], not _FAMILIAR_YOU_WORDS.isdisjoint(words)
    to_bot = familiar or any(r.person == "2per" and r.number == "sing" for r in readings)
    about_both = (
        r.part in _WORDLESS_PARTS
        or (r.part == "VERB" and (r.person in {"1per", "2per"} or (familiar and not r.person)))  # "ты ошибся"
        or (r.part == "NOUN" and r.lemma in _CONVERSATION_NOUNS)
        for r in readings
    )
    return to_bot and _ASKING_OF_POSTS.isdisjoint(words) and all(about_both)


_SIGNS = r"[\s,.!?;:…()–—-]"
_ADDRESSED = r"(?:\s++(?:всем|вам|тебе|бот|большое|огромное|there|all|everyone|bot|very much|so much|a lot))*+"
_OPENING = (
    r"^\s*+(?:"
    # greetings and thanks open a question also without a comma; others only with a sign or "so" after them
    rf"(?:{_PHRASES['greeting']}|{_PHRASES['thanks']}|{_PHRASES['apology']}){_ADDRESSED}(?![\w-]){_SIGNS}*+|"
    rf"(?:{_PHRASES['ack_opening']})(?!\w)(?:{_SIGNS}*+(?=(?:so|then|and|but|а|и|но|тогда|так)\s)|\s*+[,.!;…]{_SIGNS}*+)|"
    rf"(?:{_PHRASES['ack']})(?!\w)\s*+[,.!;…]{_SIGNS}*+|"
    r"(?:подскажи|скажи|подскажите|скажите)(?:,?\s++(?:мне|нам|плиз|пожалуйста))*+(?!\w)[\s,:]*+|"
    r"(?:please|pls|plz|пожалуйста|плиз)(?!\w)[\s,]*+|(?:can|could|would) you (?:please )?(?=tell |say |show )"
    r")"
)
_CLOSING = (
    rf"(?:[,.!?;…]\s*+(?:{_PHRASES['thanks']}|{_PHRASES['greeting']}){_ADDRESSED}|"
    r"[,\s]\s*+(?:please|pls|plz|пожалуйста|плиз))[\s.!)…]*+$"
)
# What a courtesy at the beginning, of no kind of small talk, or at the end needs: both patterns are long, and most
# questions do without them.
_MAY_OPEN = re.compile(r"\s*+(?:(?:под)?скажи|please|pls|plz|пожалуйста|плиз|can|could|would)")
_MAY_CLOSE = re.compile(r"[,.!?;…]\s*+\w|(?:please|pls|plz|пожалуйста|плиз)[\s.!)…]*+$")
_MAX_OPENINGS = 4


def strip_courtesies(text: str) -> str:
    """Strip greetings, thanks and "please" around a question; a text that has nothing else stays unchanged."""
    rest = text
    for _ in range(_MAX_OPENINGS):
        low = fold_case(rest)
        talks = any(_PATTERNS[kind].match(low.lstrip()) for kind in (TalkKind.GREETING, TalkKind.THANKS, TalkKind.ACK))
        opening = compile_pattern(_OPENING).match(low) if talks or _MAY_OPEN.match(low) else None
        if opening is None:
            break
        rest = rest[opening.end() :]
    low = fold_case(rest)
    end = low[-_MAX_CHARACTERS:]
    if _MAY_CLOSE.search(end) and (closing := compile_pattern(_CLOSING).search(end)):
        start = max(0, len(low) - _MAX_CHARACTERS) + closing.start()
        rest = rest[: start + (rest[start] == "?")]
    return rest.strip() if WORD.search(rest) else text


class AnswerRemark(StrEnum):
    """Kind of a remark about an answer; where a text has cues of several, the first of these."""

    COMPLAINT = "complaint"
    OTHER = "other"
    ENGLISH = "english"
    RUSSIAN = "russian"
    SHORTER = "shorter"
    WHOLE = "whole"
    SOURCES = "sources"
    WHEN = "when"
    SURE = "sure"
    MORE = "more"


_MAX_REMARK_WORDS, _MAX_REMARK_CHARACTERS = 14, 160  # longer texts say something of their own
_MIN_PERSON = 0.7  # probability: from here on none of 9,582 questions of `tests/data/reading` is taken for the wish
_PHRASE_WORD = re.compile(r"(?<![\w\\])[^\W\d_][^ |()]*")  # of a regular expression; its words belong to the vocabulary


@cache
def _compile_remarks() -> tuple[dict[AnswerRemark, tuple[re.Pattern[str], ...]], re.Pattern[str]]:
    """Patterns of each kind, its cues, those of questions alone, what rules it out, a word; and a word of any kind."""
    phrases = read_phrases(Path(__file__).with_name("answer_remark_phrases.txt"))

    def join(*sections: str) -> str:
        return "|".join(phrases[name] for name in sections if name in phrases) or "(?!)"

    patterns = {}
    for kind in AnswerRemark:
        whole = ((kind, f"{kind}_phrase"), (f"{kind}?", f"{kind}_phrase?"), (f"{kind}!",))
        cued = _PHRASE_WORD.findall(join(f"{kind}_phrase", f"{kind}_phrase?"))
        words = re.compile("|".join((join(f"{kind}_word"), join(kind, f"{kind}?"), *cued)))
        patterns[kind] = (*(re.compile(rf"(?<!\w)(?:{join(*sections)})(?!\w)") for sections in whole), words)
    return patterns, re.compile(phrases["filler"])


_THANKS_FOR_IT = re.compile(r"\b(?:thank\w*|thx|ta|cheers|спасиб\w+|спс|благодар\w+)(?: \w+)? (?:for|за)\b")
_SENTENCE_END = re.compile(r"(?<=[.!?…)])\s+|\n+")


def detect_answer_remark(text: str) -> AnswerRemark | None:
    """Detect a remark about the answer before, or the wish for a person instead of the bot; None for any other text."""
    if len(text) > _MAX_REMARK_CHARACTERS or _THANKS_FOR_IT.search(fold_case(text)):
        return None
    if kind := _detect_remark_by_phrases(text):
        return kind
    wants_person = estimate_requests(text)[Request.PERSON] >= _MIN_PERSON and not detect_talk(text)
    return AnswerRemark.COMPLAINT if wants_person else None


def _detect_remark_by_phrases(text: str) -> AnswerRemark | None:
    """Of several sentences one is a remark, and none of the others asks anything: "Are you sure? I was told Friday."""
    if kind := _detect_remark_kind(text, asks="?" in text):
        return kind
    sentences = _SENTENCE_END.split(text.strip())
    # of several sentences one like "really?" says too little
    kinds = [_detect_remark_kind(sentence, asks=False) for sentence in sentences]
    others = [sentence for sentence, kind in zip(sentences, kinds, strict=True) if kind is None]
    if any("?" in sentence or QUESTION_WORD_PATTERN.match(fold_case(strip_lead_in(sentence))) for sentence in others):
        return None
    return next(filter(None, kinds), None)


def _detect_remark_kind(text: str, *, asks: bool) -> AnswerRemark | None:
    words = _split_words(text)
    if not 0 < len(words) <= _MAX_REMARK_WORDS:
        return None
    patterns, filler = _compile_remarks()
    joined, own = " ".join(words), [word for word in words if not filler.fullmatch(word)]
    for kind, (cue, question_cue, exclusion, word) in patterns.items():
        cued = cue.search(joined) or (asks and question_cue.search(joined))
        if cued and not exclusion.search(joined) and all(map(word.fullmatch, own)):
            return kind
    return None
