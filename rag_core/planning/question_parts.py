"""Parts of a question: "when is the library open, and where do I hand in batteries?" has two."""

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
