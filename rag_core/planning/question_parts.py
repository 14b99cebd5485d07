"""Parts of a question: "when is the library open, and where do I hand in batteries?" has two.

The parts of a chain ("the president of the club which …") are nested: one must be answered to ask the other.
"""

from __future__ import annotations

import re

from rag_core.text.sentences import is_pasted
from rag_core.text.tokens import tokenize

MAX_PARTS = 4
MAX_QUESTION_LENGTH = 400  # characters: a longer text is pasted, not asked
_ASKING = (
    r"(?:(?:в|во|на|по|до|с|со|из|от|за|к|о|об|у|для|at|in|on|for|from|to|of|by|until|since|with) )?"
    r"(?:где|куда|откуда|когда|сколько|кто|кого|кому|кем|ком|что|чего|чему|чем|как|как(?:ой|ая|ое|ие|ого|ому|их|им|ими|ом|ую)|"
    r"котор\w+|чей|чья|почем|зачем|почему|есть ли|\w+ ли|"
    r"where|when|who|whom|whose|what|which|why|how|is|are|was|were|do|does|did|can|could|will|would|should|has|have)\b"
)
_BOUNDARY = re.compile(
    rf"\s*(?:[?!;]+\s+(?:(?:and|also|а|и|еще)\s+)?|,?\s+(?:and also|and|а также|а еще|и еще|и|а)\s+)(?={_ASKING})",
    re.IGNORECASE,
)
_ASKS = re.compile(rf"(?<!\w){_ASKING}", re.IGNORECASE)


def split_question(text: str) -> tuple[str, ...]:
    """Split a question into its parts; the question itself where it has only one."""
    if len(text) > MAX_QUESTION_LENGTH or is_pasted(text):
        return (text,)
    pieces = tuple(piece.strip(" ?!,;") for piece in _BOUNDARY.split(text.replace("ё", "е")))
    several = 1 < len(pieces) <= MAX_PARTS and all(pieces) and tokenize(pieces[0]) and _ASKS.search(pieces[0])
    return pieces if several else (text,)


# A chain: the question names a thing only by its relation to another one ("the club which published …").
_RELATED_THING = r"\b(?:the|an?)\s+(?!name\b|names\b|result\b|use\b|way\b|number\b|amount\b|end\b|time\b|day\b|year\b|reason\b)(?:[\w'-]+\s+){0,3}?[\w'-]+,?\s+"
_CHAIN_PATTERNS = (
    # "the country where …", "the association which …", "the actor who …", "the person under whom …"
    re.compile(
        rf"(?<!^what )(?<!^which ){_RELATED_THING}(?:(?:in|of|under|from|by|for|at|to|on) )?(?:where|which|who|whom|whose|that (?:was|were|is|has|had|produced|made|won|[\w]+ed|[\w]+s)\b)",
        re.I,
    ),
    # "… by a singer-songwriter from what state", "in a university located in what city"
    re.compile(
        r"\b(?:an?|the|whose)\s+(?:[\w'-]+\s+){1,8}?(?:in|from|of|by|at|is|has|headquartered|based|located|than|the|for|to|with)?\s*(?:what|which|whom|how many|when)\b(?:\s+[\w'-]+){0,5}\s*\?*$",
        re.I,
    ),
    # "the sibling of the performer of …", "Izgoy's performer", "Akinoshu Kenji's birthplace", "the predecessor of"
    re.compile(
        r"\b(?:performer|composer|author|director|creator|founder|predecessor|successor|receiver|winner|spouse|wife|husband|sibling|brother|sister|child|son|daughter|mother|father|birthplace|publisher|producer|developer|owner)\b(?=\s+of\b)",
        re.I,
    ),
    re.compile(
        r"\w[’']s? (?:performer|composer|author|director|creator|founder|country|birthplace|spouse|wife|husband|sibling|team|band|label|hometown)\b",
        re.I,
    ),
    # "the country Signmark is from", "the state the Battle … was fought", "the state where … is"
    re.compile(
        r"\bthe (?:country|state|city|county|company|band|team|league|continent|region|district|university|organization) (?:the )?[A-Z]\w+[^?]* (?:is|was|were|are|did|comes?|came)\b"
    ),
    re.compile(r"\bthe same (?:\w+ )?(?:\w+) as\b", re.I),
    re.compile(
        r"(?:^|\W)(?:кто|что|где|когда|как\w+|сколько)\b[^?]*\b(?:тот|та|то|те|того|той|тем|тому|том|человек\w*|люд\w+|город\w*|магазин\w*|кафе|мест[оае]\w*|канал\w*|дом\w*|автор\w*|групп\w+|команд\w+|компани\w+)\b,?\s+(?:в |на |о |с |из |у )?(?:котор\w+|где|кто|чей|чья|чьё)\b",
        re.I,
    ),
)


def is_chain(text: str) -> bool:
    """Whether one fact must be found to ask for another: "the first president of the club which published …"."""
    asked = text.strip()
    return len(asked) <= MAX_QUESTION_LENGTH and any(pattern.search(asked) for pattern in _CHAIN_PATTERNS)
