"""Remarks about the answer just given: "source?", "are you sure?", "how old is this", "the whole post", "more".

A text is a remark if it has a cue of a kind and, besides, only words of a closed vocabulary. A text with any other word
names something: it is a question for the posts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from rag_core.conversation.followup_detection import QUESTION_WORD_PATTERN, strip_lead_in
from rag_core.conversation.small_talk_detection import correct_word, split_words
from rag_core.text.tokens import fold_case, read_phrases


class AnswerRemark(StrEnum):
    """Kind of a remark about an answer; where a text has cues of several, the first of these."""

    SHORTER = "shorter"
    WHOLE = "whole"
    SOURCES = "sources"
    WHEN = "when"
    SURE = "sure"
    MORE = "more"


_MAX_WORDS, _MAX_CHARACTERS = 14, 160  # longer texts say something of their own
_NEVER = r"(?!)"
_PHRASE_WORD = re.compile(r"(?<![\w\\])[^\W\d_][^ |()]*")  # of a regular expression; its words belong to the vocabulary


@dataclass(frozen=True, slots=True)
class _RemarkPatterns:
    """Patterns of a kind: its cues, those of questions alone, what rules it out, and a word of its vocabulary."""

    cue: re.Pattern[str]
    question_cue: re.Pattern[str]
    exclusion: re.Pattern[str]
    word: re.Pattern[str]


@cache
def _compile_patterns() -> tuple[dict[AnswerRemark, _RemarkPatterns], re.Pattern[str], tuple[str, ...]]:
    """Patterns of each kind, of a word that any may have, and the words whose misspelling is corrected."""
    phrases = read_phrases(Path(__file__).with_name("answer_remark_phrases.txt"))

    def join(*sections: str) -> str:
        return "|".join(phrases[name] for name in sections if name in phrases) or _NEVER

    patterns = {}
    for kind in AnswerRemark:
        cues = join(kind, f"{kind}?"), join(f"{kind}_phrase", f"{kind}_phrase?")
        word = "|".join((join(f"{kind}_word"), cues[0], *_PHRASE_WORD.findall(cues[1])))
        patterns[kind] = _RemarkPatterns(
            re.compile(rf"(?<!\w)(?:{join(kind, f'{kind}_phrase')})(?!\w)"),
            re.compile(rf"(?<!\w)(?:{join(f'{kind}?', f'{kind}_phrase?')})(?!\w)"),
            re.compile(rf"(?<!\w)(?:{join(f'{kind}!')})(?!\w)"),
            re.compile(word),
        )
    return patterns, re.compile(phrases["filler"]), tuple(phrases["corrected"].split("|"))


_THANKS_FOR_IT = re.compile(r"\b(?:thank\w*|thx|ta|cheers|спасиб\w+|спс|благодар\w+)(?: \w+)? (?:for|за)\b")
_SENTENCE_END = re.compile(r"(?<=[.!?…)])\s+|\n+")


def detect_answer_remark(text: str) -> AnswerRemark | None:
    """Detect a remark about the answer before; None for every other text.

    Of several sentences one is a remark, and none of the others asks anything: "Are you sure? I was told Friday."
    """
    if len(text) > _MAX_CHARACTERS or _THANKS_FOR_IT.search(fold_case(text)):
        return None
    if kind := _detect_kind(text, asks="?" in text):
        return kind
    sentences = _SENTENCE_END.split(text.strip())
    # of several sentences one like "really?" says too little
    kinds = [_detect_kind(sentence, asks=False) for sentence in sentences]
    others = [sentence for sentence, kind in zip(sentences, kinds, strict=True) if kind is None]
    if any("?" in sentence or QUESTION_WORD_PATTERN.match(fold_case(strip_lead_in(sentence))) for sentence in others):
        return None
    return next(filter(None, kinds), None)


def _detect_kind(text: str, *, asks: bool) -> AnswerRemark | None:
    words = split_words(text)
    if not 0 < len(words) <= _MAX_WORDS:
        return None
    patterns, filler, corrected = _compile_patterns()
    spelt = [correct_word(word, corrected) for word in words]
    joined, own = " ".join(spelt), [word for word in spelt if not filler.fullmatch(word)]
    for kind, pattern in patterns.items():
        cued = pattern.cue.search(joined) or (asks and pattern.question_cue.search(joined))
        if cued and not pattern.exclusion.search(joined) and all(map(pattern.word.fullmatch, own)):
            return kind
    return None
