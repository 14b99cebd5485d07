"""Status questions: how something stands now: "what's up with the lift", "чем кончилась история с печью", "is it fixed yet".

Of the posts about the thing the newest answers, and the ones before it tell how it came about. The words that ask for
the status are no words of the topic.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rag_core.text.morphology import is_noun, read_word
from rag_core.text.tokens import fold_case, tokenize

_MAX_LENGTH = 160  # characters of a question that asks in a few words
_LEAD = r"(?:(?:ну|а|и|так|слушай|подскажите|скажите|привет|so|and|hey|ok|but|well),? )*"
_THERE = r"(?:(?:там|тут|теперь|сейчас|щас|же|все|это|дело|то|в итоге|в общем|вообще|у нас|у вас) )*"
_WHAT = r"(?:что|че|чо|шо|чего)"
_OF_TIME = (
    r"(?!собой|нового|начала|понедельник|вторник|сред[ыу]|четверг|пятниц|суббот|воскресень|\d|перв|завтра|утра|вечера)"
)
# The words between which the thing is named; each alone says that the status is asked for.
_FRAMES = (
    rf"^{_LEAD}{_WHAT} {_THERE}(?:с|со)(?= {_OF_TIME})",
    rf"^{_LEAD}{_WHAT} {_THERE}(?:слышно(?: (?:с|со|про|о|об|по))?|решили(?: (?:с|со|по|про|насчет))?|порешали(?: (?:с|со|по|про|насчет))?|стало с|стало со|вышло с)",
    r"как там(?! [а-я]+(?:ть|ти|чь)(?:ся)?(?!\w))|как (?:дела (?:с|со|у)|обстоят дела (?:с|со|у)|обстоит дело со?|продвига\w+|ид[уе]т(?: дела (?:с|со|у))?|пожива\w+)",
    rf"чем {_THERE}(?:(?:за)?кончил\w+|обернул\w+)(?: (?:вся )?(?:дело|история|эпопея|затея)(?: (?:с|со|вокруг))?| (?:с|со))?",
    r"(?:есть )?(?:какие )?(?:нибудь )?новости (?:по|с|со)|(?:есть|какие) новости$|(?:че|что) (?:там )?слышно\W*$|как (?:оно|он|она|они)\W*$",
    r"what(?:'s|s| is| was| has)? (?:up|happening|going on)(?: (?:with|on|about|of|at))?|"
    r"what(?:'s|s| is| was)? (?:the (?:latest|status|state|story|deal|news|situation)|new)(?: (?:with|on|about|of)(?= )|\W*$)",
    r"what(?:'s|s| has| ever)? (?:happened|became|become|came|come) (?:to|with|of)|whatever happened (?:to|with)|what was decided(?: (?:on|about|with))?",
    r"(?:is there |are there |have you )?any (?:updates?|news|word|progress|luck)(?: (?:on|about|with|from|re)(?= )|\W*$)",
    r"where (?:are we|do we stand|do things stand|does it stand) (?:with|on)",
)
_FRAME = re.compile(rf"(?<![\w-])(?:{'|'.join(_FRAMES)})(?!\w)")
_HOW_GOES = re.compile(
    r"^(?:(?:so|and|hey),? )*how(?:'s|s| is| are| did| has| have)? (?!much|many|long|old|often|far|big|do |does |to |can )(?:.*\s(?:going|coming (?:along|on)|getting (?:on|along)|"
    r"doing|looking|turn(?:ed)? out|end(?:ed)?(?: up)?|work(?:ed)? out|holding up|these days|lately|at the moment|so far)|(?:the|that|our) \w+)\W*$"
)
# That the thing is known and its outcome not: these alone ask for the status, the others in a question for yes or no.
_OUTCOME = (
    r"в итоге|так и не|все-таки|наконец(?:-то)?|или как|или нет|или что|finally|in the end|after all|or not|by now"
)
_SO_FAR = r"до сих пор|уже|еще|пока|ever|yet|still|already|any ?more"
_AGAIN = r"больше не|снова|опять|again|back"  # posts say so as well: no words of asking alone
_OUTCOME_ASKED, _SO_FAR_ASKED = (
    re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") for words in (_OUTCOME, f"{_SO_FAR}|{_AGAIN}")
)
_CLOSED_START = re.compile(
    r"^(?:(?:so|and|hey|but),? )*(?:(?P<past>did|has|have(?! you (?:got|any))|didn't|hasn't|haven't)|is|are|was|were|does|do|had|isn't|aren't)(?!\w)"
)
_ASKING_WORDS = re.compile(
    r"(?<![\w-])(?:(?<!тот )(?<!тот, )(?<!того )(?<!того, )(?<!тех )(?<!тех, )кто|кого|кому|кем|ком|(?<!или )что|чего|чем|чему|(?<!или )как|каков\w*|где|куда|откуда|когда|почему|зачем|сколько|скольк\w+|скока|какой|какая|какие|какое|каком|во сколько|можно|нужно|надо|много|дорог\w*|дешев\w*|"
    r"who|whom|whose|where|when|why|how|which|what|can|could|should|may|will|would)(?![\w-])"
)
_STATUS_WORDS = re.compile(
    rf"{_FRAME.pattern}|(?<![\w-])(?:{_OUTCOME}|{_SO_FAR}|going|coming (?:along|on)|getting (?:on|along)|doing|turn(?:ed)? out|end(?:ed)? up|work(?:ed)? out|holding up|"
    r"these days|the whole|истори[яию] (?:с|со|вокруг)|a thing|happening|жив(?:ой|ая|а|ы)?(?=\W*$))(?![\w-])"
)
# What has perhaps become of the thing: posts say the same by other verbs ("докопали", "уложили").
_STATUS_VERBS = re.compile(
    r"(?<![\w-])(?:fix(?:ed)?|mend(?:ed)?|repaired|sort(?:ed)?|open(?:ed)?|re-?open(?:ed)?|clos(?:e|ed)|shut|find|found|decid(?:e|ed)|finish(?:ed)?|done|"
    r"built|build|start(?:ed)?|work(?:s|ing|ed)?|running|run|arriv(?:e|ed)|came|come|coming|go|going|gone|get|got|turn|happen(?:ed)?|patch(?:ed)?|"
    r"решили|открыт\w*|закрыт\w*|готов\w*)(?![\w-])"
)
_RUSSIAN_WORD = re.compile(r"[а-я]{3,}")
_MAX_WORDS = 8  # of a question that asks by a verb of the past alone
_NAMED = re.compile(
    r"(?<!\w)(?:the|an?|this|that|my|your|our|his|her|their|\w+['’]s)\s+(?!still|yet)[a-z]{3,}|(?<=[a-z] )[A-Z]\w+"
)


def asks_for_status(question: str) -> bool:
    """Whether a question asks how a known thing stands now."""
    asked = fold_case(question).strip()
    if len(asked) > _MAX_LENGTH:
        return False
    if _FRAME.search(asked) or _HOW_GOES.match(asked):
        return True
    if _ASKING_WORDS.search(asked):
        return False
    closed, so_far = _CLOSED_START.match(asked), _SO_FAR_ASKED.search(asked)
    if _OUTCOME_ASKED.search(asked) or (so_far and (closed or (asked.endswith("?") and not so_far[0].isascii()))):
        return True
    if len(asked.split()) > _MAX_WORDS:
        return False
    if closed:
        return bool(closed["past"])
    verbs = [n for n, word in enumerate(asked.split()) if _is_past_verb(word.strip(",.?!"))]
    return bool(verbs) and len(asked.split()) > 1 and (asked.endswith("?") or verbs[0] == 0)


def _is_past_verb(word: str) -> bool:
    readings = read_word(word) if _RUSSIAN_WORD.fullmatch(word) else ()
    plural = word.endswith(("ли", "лись"))  # "нашли": another reading may be the likeliest
    return any(one.tense == "past" and one.part == "VERB" for one in (readings if plural else readings[:1]))


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
    rest = _cut_status_words(question)
    return rest if tokenize(rest) else question


def _cut_status_words(question: str) -> str:
    kept, at = [], 0
    for match in _STATUS_WORDS.finditer(fold_case(question)):
        kept.append(question[at : match.start()])
        at = match.end()
    return " ".join("".join([*kept, question[at:]]).split()).strip(" ,;:-—–")


def names_status_topic(question: str) -> bool:
    """Whether a status question names the thing, so that it can be understood by itself: not "did they fix it?"."""
    rest = _cut_status_words(question) if asks_for_status(question) else ""
    return bool(_NAMED.search(rest)) or any(map(is_noun, _RUSSIAN_WORD.findall(fold_case(rest))))
