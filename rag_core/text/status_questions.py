"""Status questions: how something stands now: "what's up with the lift", "чем кончилась история с печью", "is it fixed yet".

Of the posts about the thing the newest answers, and the ones before it tell how it came about. The words that ask for
the status are no words of the topic.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rag_core.text.morphology import read_word
from rag_core.text.tokens import fold_case, tokenize

_MAX_LENGTH = 160  # characters of a question that asks in a few words
_THERE = r"(?:(?:там|тут|теперь|сейчас|щас|же|все|это|дело|то|в итоге|в общем|вообще|у нас) )*"
_WHAT = r"(?:что|че|чо|шо|чего|чё)"
# The words between which the thing is named; each alone says that the status is asked for.
_FRAMES = (
    rf"{_WHAT} {_THERE}(?:с|со|слышно (?:с|со|про|о|об|по)|слышно|решили(?: (?:с|со|по|про|насчет))?|порешали(?: (?:с|со|по|про|насчет))?|стало с[о]?|вышло с[о]?)",
    rf"как (?:там|дела (?:с|со|у)|обстоят дела (?:с|со|у)|обстоит дело с[о]?|продвига\w+|ид[уе]т (?:дела (?:с|со|у))?|пожива\w+)(?: {_THERE})?",
    rf"чем {_THERE}(?:(?:за)?кончил\w+|обернул\w+)(?: (?:вся )?(?:дело|история|эпопея|затея))?(?: (?:с|со|вокруг))?",
    r"(?:есть )?(?:какие )?(?:нибудь )?новости (?:по|с|со)",
    r"(?:и )?(?:чем (?:все |дело )?(?:за)?кончилось|че (?:там )?слышно|что (?:там )?слышно|как (?:оно|он|она|они)|(?:есть|какие) новости)$",
    r"what(?:'s|s| is| was| has)? (?:up|the (?:latest|status|state|story|deal|news|situation)|happening|going on|new)(?: (?:with|on|about|of|at))?",
    r"what(?:'s|s| has| ever)? (?:happened|became|become|came|come) (?:to|with|of)|whatever happened (?:to|with)|what was decided(?: (?:on|about|with))?",
    r"(?:is there |are there |have you )?any (?:update|updates|news|word|progress|luck)(?: (?:on|about|with|from|re))?",
    r"where (?:are we|do we stand|do things stand|does it stand) (?:with|on)",
)
_FRAME = re.compile(rf"(?<![\w-])(?:{'|'.join(_FRAMES)})(?!\w)")
_HOW_GOES = re.compile(
    r"^(?:(?:so|and|hey),? )*how(?:'s|s| is| are| did| has| have)? (?!much|many|long|old|often|far|big)(?:.*\s(?:going|coming (?:along|on)|getting (?:on|along)|"
    r"doing|looking|turn(?:ed)? out|end(?:ed)?(?: up)?|work(?:ed)? out|holding up|these days|lately|at the moment|so far)|(?:the|that|our) \w+)\W*$"
)
# That the thing is known and its outcome not: these alone ask for the status, the others in a question for yes or no.
_OUTCOME = (
    r"в итоге|так и не|все-таки|наконец(?:-то)?|или как|или нет|или что|ever|finally|in the end|after all|or not|by now"
)
_SO_FAR = r"до сих пор|уже|еще|пока|больше не|снова|опять|yet|still|already|any ?more|again|back"
_OUTCOME_ASKED, _SO_FAR_ASKED = (re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") for words in (_OUTCOME, _SO_FAR))
_CLOSED_START = re.compile(
    r"^(?:(?:so|and|hey|but),? )*(?:(?P<past>did|has|have|didn't|hasn't|haven't)|is|are|was|were|does|do|had|isn't|aren't)(?!\w)"
)
_ASKING_WORDS = re.compile(
    r"(?<![\w-])(?:(?<!тот )(?<!тот, )(?<!того )(?<!того, )(?<!тех )(?<!тех, )кто|кого|кому|кем|ком|(?<!или )что|чего|чем|чему|(?<!или )как|каков\w*|где|куда|откуда|когда|почему|зачем|сколько|скольк\w+|скока|какой|какая|какие|какое|каком|во сколько|можно|нужно|надо|много|дорог\w*|дешев\w*|"
    r"who|whom|whose|where|when|why|how|which|what|can|could|should|may|will|would)(?![\w-])"
)
_STATUS_WORDS = re.compile(
    rf"{_FRAME.pattern}|(?<![\w-])(?:{_OUTCOME}|{_SO_FAR}|going|coming (?:along|on)|getting (?:on|along)|doing|turn(?:ed)? out|end(?:ed)? up|work(?:ed)? out|holding up|"
    r"these days|the story|saga|the whole|история|истории|историю|эпопея|ситуаци\w+|a thing|happening|живой|живая|жив[аы]?)(?![\w-])"
)
# What has perhaps become of the thing: posts say the same by other verbs ("докопали", "уложили").
_STATUS_VERBS = re.compile(
    r"(?<![\w-])(?:fix(?:ed)?|mend(?:ed)?|repaired|sort(?:ed)?|open(?:ed)?|re-?open(?:ed)?|clos(?:e|ed)|shut|find|found|decid(?:e|ed)|finish(?:ed)?|done|"
    r"built|build|start(?:ed)?|work(?:s|ing|ed)?|running|run|arriv(?:e|ed)|came|come|coming|go|going|gone|get|got|turn|happen(?:ed)?|patch(?:ed)?|"
    r"решили|открыт\w*|закрыт\w*|готов\w*)(?![\w-])"
)
_RUSSIAN_WORD = re.compile(r"[а-я]{3,}")
_MAX_WORDS = 8  # of a question that asks by a verb of the past alone


def asks_for_status(question: str) -> bool:
    """Whether a question asks how a known thing stands now."""
    asked = fold_case(question).strip()
    if len(asked) > _MAX_LENGTH:
        return False
    if _FRAME.search(asked) or _HOW_GOES.match(asked):
        return True
    if _ASKING_WORDS.search(asked):
        return False
    closed = _CLOSED_START.match(asked)
    so_far = _SO_FAR_ASKED.search(asked)
    if _OUTCOME_ASKED.search(asked) or (so_far and (closed or (asked.endswith("?") and not so_far[0].isascii()))):
        return True
    if len(asked.split()) > _MAX_WORDS:
        return False
    if closed:
        return bool(closed["past"])
    verbs = [n for n, word in enumerate(asked.split()) if _is_past_verb(word.strip(",.?!"))]
    return bool(verbs) and (asked.endswith("?") or verbs[0] == 0)


def _is_past_verb(word: str) -> bool:
    readings = read_word(word) if _RUSSIAN_WORD.fullmatch(word) else ()
    return any(one.tense == "past" and one.part == "VERB" for one in readings)


@lru_cache(maxsize=256)
def extract_status_stems(question: str) -> frozenset[str]:
    """Extract the stems of the verbs by which a status question asks; none of another question."""
    if not asks_for_status(question):
        return frozenset()
    asked = fold_case(question)
    verbs = [word for word in _RUSSIAN_WORD.findall(asked) if _is_past_verb(word)]
    return frozenset(tokenize(" ".join([*verbs, *_STATUS_VERBS.findall(asked)])))


def strip_status_words(question: str) -> str:
    """Strip the words that ask for the status; the whole question where no topic would be left."""
    kept, at = [], 0
    for match in _STATUS_WORDS.finditer(fold_case(question)):
        kept.append(question[at : match.start()])
        at = match.end()
    rest = " ".join("".join([*kept, question[at:]]).split()).strip(" ,;:-—–")
    return rest if tokenize(rest) else question
