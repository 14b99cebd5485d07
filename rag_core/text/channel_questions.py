"""Channel questions: what a channel is about, and who runs it ("who's behind this page").

What is left without the words that ask what it is about or who runs it names the channel; where it names none, the
question is for a fact.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from rag_core.text.tokens import compile_pattern, tokenize


class ChannelAspect(StrEnum):
    """What is asked of a channel."""

    ABOUT = "about"
    OWNER = "owner"


class ChannelQuestion(NamedTuple):
    """Question for an aspect of a channel; `name`: the words that are left, "" for this channel or all."""

    aspect: ChannelAspect
    name: str


_CHANNEL = r"(?:тг[- ]?)?канал\w*|паблик\w*|чат\w*|групп\w*|страниц\w*|channels?|page|group|chat|feed|account"
_HERE = r"админ\w*|admins?|тут|здесь|у вас|у нас|вас|это все|всё это|все это|этим всем|этой|этот|это|вот это|here|this|these|all this|this stuff|you guys|you lot|your"
_ROLE_RU = r"админ\w*|владел\w+|хозя[ий]\w+|автор\w*|редактор\w*|главн\w+|начальник\w*|основател\w*|модер\w*|ответственн\w+|создател\w*|руководител\w*"
_RUNS_RU = r"вед[её]т|ведут|пишет|пишут|постит|постят|созда(?:л|ла|ли|вал)|держит|админит|администрирует|основал\w?|завел\w?|придумал\w?|(?:за (?:\w+ )?(?:всем|этим)(?: всем)? )?стоит|рулит|заправляет|управляет|отвечает"
_ROLE_EN = r"admins?|administrators?|owners?|authors?|editors?|founders?|boss|mods?|moderators?|person|people|guy|one|in charge|responsible"
_RUNS_EN = r"runs?|running|posting|owns?|writes?|writing|posts|admins?|behind|in charge|started|made|created|moderates?|edits?|manages?|managing|set up|operates?|maintains?"
_ASKED = {
    ChannelAspect.OWNER: re.compile(
        rf"(?<!\w)(?:(?:кто|хто)(?: [\w-]+){{0,4}}? (?:{_ROLE_RU}|{_RUNS_RU})|чей (?:это )?(?:{_CHANNEL})|чьи (?:это )?(?:посты|записи)|кому принадлежит|"
        rf"(?:как зовут|имя|фамилия|назови) (?:{_ROLE_RU})|(?:{_ROLE_RU}) (?:{_CHANNEL}|кто)|(?:{_CHANNEL})(?: [\w-]+){{0,3}} (?:{_RUNS_RU})|"
        rf"who(?:['’]?s| is| are)?(?: [\w-]+){{0,3}}? (?:{_RUNS_EN}|(?:the )?(?:{_ROLE_EN}))|whose (?:{_CHANNEL})|(?:name of )?(?:the )?(?:{_ROLE_EN}) (?:of|running|behind)|name of the (?:{_CHANNEL}) (?:{_ROLE_EN})|whoever(?:['’]?s| is)? (?:{_RUNS_EN})|"
        rf"(?:is|are) (?:\w+ ){{0,3}}?(?:run|written|managed) by)(?!\w)"
    ),
    ChannelAspect.ABOUT: re.compile(
        rf"(?<!\w)(?:(?:о|про) (?:чем|что|чо|че)|тематик\w|(?:какая|какие|на какую) (?:\w+ )?тем[аыу]|чем (?:\w+ ){{0,3}}?занимается|как(?:ого|ой) (?:типа |рода )?контент|контент|направленност\w|чему посвящ\w+|описание|что (?:тут|здесь|там) (?:\w+ )?(?:публику\w+|постят|пишут)|"
        rf"(?:что|че|чо|чё) (?:это )?за (?:{_CHANNEL})|(?:опиши|описание|расскажи\w{{0,2}} (?:про|о|об)) (?:{_CHANNEL})|"
        rf"(?:зачем|для чего) (?:нужен )?(?:{_CHANNEL})|стоит ли подпис\w+|"
        rf"what(?:['’]?s| is| are| was)?(?: [\w'’\"-]+){{1,7}}? about|what (?:do|does) (?:they|it|you|you guys|he|she) (?:\w+ )?(?:write|post|talk|cover)(?: about)?|(?:tell me about|describe) (?:\w+ ){{0,4}}?(?:{_CHANNEL})|describe|"
        rf"purpose of|what is this (?:channel|page|chat|group) for|what (?:topics|subjects)|topics|(?:theme|focus|subject) of|subject matter|intro(?:duction)? to|what(?:['’]?s| is) (?:it|this) for|(?:tell me )?what (?:[\w'’-]+ ){{1,4}}?covers|what (?:can|would|do|will) i (?:expect|be reading|find)|"
        rf"(?:what )?(?:kind|kinda|sort|type) of (?:stuff|things|posts|channel|content)|what kinda (?:{_CHANNEL})|what do (?:u|you|ya) (?:guys )?post|worth (?:following|joining|subscribing)|subject of)(?!\w)"
    ),
}
_OF_THIS = rf"(?<!\w)(?:{_HERE}|{_CHANNEL})(?!\w)"
# Words beside them that name no channel.
_FILLERS = (
    rf"(?<!\w)(?:{_CHANNEL}|{_HERE}|{_ROLE_RU}|{_RUNS_RU}|{_ROLE_EN}|{_RUNS_EN}|[a-z]|а|и|ну|же|то|ли|вот|ваш\w*|теб[яе]|твой|твоя|твои|have|has|got|writing|кем|или|в|во|на|у|о|об|про|за|с|для|из|кто|хто|что|че|чо|чё|чем|чего|чей|чьи|кого|кому|как|какой|какая|какие|зачем|стоит|подпис\w+|"
    r"нужен|принадлежит|имя|имени|зовут|фамилия|назови|вообще|сейчас|обычно|там|они|он|его|ее|их|него|нем|ней|мне|я|только|подскажи\w*|скажи\w*|пожалуйста|плиз|расскажи\w*|опиши|описание|публику\w+|посты|"
    r"тематик\w|тем[аыу]|двух|двумя|словах|словами|коротко|кратко|интересно|слушай\w*|привет|здравствуйте|добрый|день|вечер|человек|один|редакция|команда|люди|ребят\w*|самый|реально|есть|говорить|связаться|жаловаться|сообщество|"
    r"what|whats|which|who|whos|whose|how|is|are|was|were|do|does|did|the|a|an|of|in|on|at|for|to|by|with|it|its|it's|they|them|that|there|about|even|all|tell|me|describe|write|writes|post|posts|talk|cover|covers|"
    r"kind|kinda|sort|type|content|theme|focus|matter|intro|introduction|quick|give|expect|find|reading|be|will|generally|subjects?|deal|deals|each|u|ya|guys|bruh|lol|mean|stuff|things|topics?|subject|purpose|worth|following|joining|subscribing|usually|mostly|really|actually|exactly|please|pls|could|can|would|you|may|i|ask|know|want|one|sentence|words|short|so|hey|hi|hello|good|morning|"
    r"now|and|or|name|team|guy|run|written|managed|complain|any|anyone|someone|tho|then|this|just|joined|like)(?!\w)"
)
_MAX_LENGTH = 140  # characters


def detect_channel_question(asked: str) -> ChannelQuestion | None:
    """Detect a question for what a channel is about or who runs it; `asked` is in lower case, without ё.

    Whoever names no channel says "here" or "the channel"; "who writes" alone asks of something else.
    """
    if len(asked) > _MAX_LENGTH:
        return None
    aspect = next((aspect for aspect, pattern in _ASKED.items() if pattern.search(asked)), None)
    if aspect is None:
        return None
    name = " ".join(re.sub(r"[^\w\s-]", " ", compile_pattern(_FILLERS).sub(" ", asked)).split())
    if not name and not compile_pattern(_OF_THIS).search(asked):
        return None
    return ChannelQuestion(aspect, name)


def asks_of_this_channel(asked: str) -> bool:
    """Whether a question asks who runs this channel or what it is about, without a name."""
    found = detect_channel_question(asked)
    return found is not None and not tokenize(found.name)
