"""What a question wants, told from its words: a fact, a count of posts, a first mention, a day's posts ..."""

from __future__ import annotations

import re

from rag_core.analysis import terms
from rag_core.types import Kind

__all__ = ["about_lately", "about_nothing", "about_posts", "kind_of", "topic_of", "without_asking"]

_SAID_FIRST = 1000  # characters in which a question says what it wants: some rules look ahead from every word

# Talk about posts: what it is about comes after. The first that fits decides.
_POSTS = (
    r"(?:пост(?:ы|а|у|е|ов|ом|ам|ами|ах)?|(?:сообщени|публикаци)(?:е|я|й|ю|и|ем|ей|ям|ями|ях)|"
    r"(?:запис|новост)(?:ь|и|ей|ью|ям|ями|ях)|posts?|messages?|updates?|news)"
)
_MENTION = r"(?:упоминани\w+|mentions?)"
_SAID = (
    r"(?:упомина[елю]\w*|упомяну\w+|(?:на|о)?писал\w*|написано|сооб?ща[елю]\w*|сообщил\w*|(?:за)?говорил\w*|говорится|"
    r"рассказал\w*|рассказыва[елю]\w*|о?публиковал\w*|публику[ею]т\w*|(?:за)?постил[аи]?|пиш[уе]т|"
    r"mention(?:s|ed)?|posted|wrote|written|said|talked|reported|published|announced|"
    r"(?:post|write|say|talk|report)(?: (?:any|some)thing)? (?:about|of|on|that))"
)
_SHOWED = r"(?:появ(?:ил|лял)\w+|зашла речь|turn(?:s|ed)? up|appear(?:s|ed)?|c[ao]mes? up)"
_SEEN = rf"(?:{_SAID}|{_SHOWED})"
_FIRST = r"(?:впервые|(?:в )?первый раз)"
_LAST = r"(?:в )?последний раз"
_RU_WHEN = r"^(?=.*\b(?:когда|какого числа|в каком (?:посте|сообщении))\b)"
_EN_WHEN = r"^(?=.*\b(?:when|(?:what|which) (?:day|date|post|message))\b)"
_ABOUT = r"(?=.*\b(?:о|об|обо|про|с упоминанием|about|of|contain\w*|{})\b)".format(rf"{_SAID}|{_MENTION}")
_TOLD = re.compile(
    rf"\b(?:{_SAID}|{_POSTS}|{_MENTION}|выш(?:ел|л[аои])|выходил[аио]?|дайджест|digest|хронология|timeline|"
    r"did (?:you|they|we|(?:the )?channels?) (?:\w+ )?(?:post|write|say|talk|report|publish|mention))\b"
)
_LATELY = re.compile(
    r"\b(?:что (?:нового|было|случилось|произошло|происходило|слышно)|события|итоги|"
    r"what(?:'s| is| was)? (?:new|happened|has happened|going on)|events|recap)\b"
)
_PATTERNS: tuple[tuple[Kind, str], ...] = (
    (Kind.HOW_MANY, rf"^(?:сколько раз|как часто|how (?:many times|often))\b.*?\b{_SAID}\b"),
    (Kind.HOW_MANY, rf"^в скольких {_POSTS}\b"),
    # "сколько постов ГАИ на трассе", "how many posts hold up the roof": not every post is one of ours
    (Kind.HOW_MANY, rf"^(?:сколько|how many) (?:(?:было|есть|вышло) )?{_POSTS}\b{_ABOUT}"),
    (Kind.FIRST, rf"{_RU_WHEN}.*?\b(?:{_FIRST}\b.*?\b{_SEEN}|{_SEEN}\b.*?\b{_FIRST})\b"),
    # beside the verb: "the first computer appeared" is about a computer
    (Kind.FIRST, rf"{_EN_WHEN}.*?\b(?:first(?: be| been)? {_SEEN}|first time\b.*?\b{_SEEN})\b"),
    (Kind.FIRST, rf"{_EN_WHEN}.*?\b{_SEEN}\b.*? for the first time\b"),
    (Kind.FIRST, rf"\b(?:перв(?:ое|ый|ая)|first|earliest) (?:{_MENTION}|{_POSTS}{_ABOUT})\b"),
    (Kind.LAST, rf"{_RU_WHEN}.*?\b(?:{_LAST}\b.*?\b{_SEEN}|{_SEEN}\b.*?\b{_LAST})\b"),
    (Kind.LAST, rf"{_EN_WHEN}.*?\b(?:(?:last|most recently)(?: be| been)? {_SEEN}|last time\b.*?\b{_SEEN})\b"),
    (Kind.LAST, rf"{_EN_WHEN}.*?\b{_SEEN}\b.*? (?:last|most recently)\W*$"),
    (Kind.LAST, rf"\b(?:последн(?:ее|ий|яя|ие)|latest|last|newest) (?:{_MENTION}|{_POSTS}{_ABOUT})\b"),
    (Kind.TIMELINE, r"\b(?:хронологи[яюи]|таймлайн|timeline|chronology)\b"),
    (Kind.WHEN, rf"^(?:когда|какого числа)\b.*?\b{_SAID}\b"),
    (Kind.CLAIM, r"^(?:правда ли|верно ли|действительно ли|так ли|is it true|is it (?:right|correct)|did .+ really)\b"),
    (
        Kind.COMPARE,
        r"\b(?:сравни\w*|чем .+ отлича\w+|разниц\w+ между|compare|difference between|differ from|versus|vs)\b",
    ),
    (
        Kind.SUMMARY,
        r"\b(?:дайджест|краткое содержание|вкратце|кратко|резюмируй|подведи итог\w*|summar\w+|recap|digest|overview)\b",
    ),
    (Kind.LIST, r"^(?:перечисли\w*|назови все|какие есть|список|list|name all)\b"),
    (Kind.WHEN, rf"^when (?:did|do|does|was|were|has|have|had)\b.*?\b{_SAID}\b"),
)
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
# Words that ask about posts and say nothing of the topic.
_FRAME = re.compile(
    rf"\b(?:{_SAID}|{_SHOWED}|{_POSTS}|выш(?:ел|л[аои])|выходил[аио]?|хронологи[яюи]|таймлайн|timeline|chronology|покажи|show|{_MENTION}|впервые|перв(?:ый|ое|ая)|последн(?:ий|ее|яя|ие)|раз|сколько|"
    r"скольких|часто|когда|какого числа|был[аои]?|канал\w*|слов[оа]?|first|last|latest|newest|earliest|"
    r"most recently|times?|how|many|often|did|when|was|were|is|it|the|post|write|say|talk|report|appear|channels?|"
    r"this|that|here|there|words?|contain(?:s|ing)?)\b"
)


# Words that ask for all there is of a time.
_ALL = re.compile(
    r"\b(?:нов(?:ого|ое)|случилось|произошло|происходило|слышно|события|итоги|дайджест\w*|обзор\w*|сводк\w+|"
    r"краткое содержание|вкратце|кратко|резюмируй\w*|подведи|список|перечисли\w*|назови|сделай|составь|дай|главное|"
    r"new|happened|happening|going on|events|recap|digest|summar\w+|overview|list|name all|make|give|important|main)\b"
)


def kind_of(asked: str) -> Kind:
    """What a question wants; `asked` is its text in lower case, without ё."""
    head = asked[:_SAID_FIRST]
    return next((kind for kind, pattern in _KINDS if pattern.search(head)), Kind.FACT)


# "Tell me about": what was written is asked for, whatever it is. Who wrote it, and when, is another question.
_ASKING = re.compile(
    r"^(?:(?:ну|а|и|so|and|well|please|пожалуйста),? )?"
    r"(?:расскаж(?:и|ите)(?: (?:мне|нам))?(?:,? пожалуйста,?)?"
    r"|что (?:вы |тут |здесь |у вас )?(?:писали|пишут|написали|говорят|говорили|рассказывали|сообщали|сообщают|известно|"
    r"слышно|знаете|знаешь)(?: (?:в )?(?:каналах|канале|постах))?"
    r"|есть (?:ли )?(?:тут |здесь |у вас )?(?:что-нибудь|что-то|новости|посты)|(?:новости|информация)"
    r"|(?:please )?tell (?:me|us)(?: (?:something|more|everything))?"
    r"|what (?:did|do|have|has) (?:you|they|we|the channels?) (?:write|written|say|said|know|report(?:ed)?|post(?:ed)?|heard?)"
    r"|what (?:was|is|has been) (?:written|said|known|reported|posted)|what(?:'s| is) (?:known|said)"
    r"|(?:is|was) there (?:anything|something|any news)|anything|(?:any )?(?:news|information))"
    r" (?:о|об|обо|про|насчет|насчёт|about|regarding) "
    r"|^(?:что нового|что слышно|какие новости|what(?:'s| is) new|what(?:'s| is) going on)"
    r" (?:о|об|про|на|в|во|у|с|со|по|about|at|in|on|with) ",
    re.IGNORECASE,
)


def without_asking(text: str) -> str:
    """A question without words that only ask what was written of something; itself where nothing would be left."""
    rest = _ASKING.sub("", text)
    return rest if terms(rest) else text


def about_posts(asked: str) -> bool:
    """Whether a period in the question is one of posts: "what did they write in May", "news of last week"."""
    return bool(_TOLD.search(asked))


def about_lately(asked: str) -> bool:
    """Whether it asks what was new or happened: with a week or a month that counts back, posts of that time are meant."""
    return bool(_LATELY.search(asked))


def topic_of(asked: str) -> str:
    """What is left of a question when the words that ask about posts are taken away."""
    return " ".join(_FRAME.sub(" ", asked).split())


def about_nothing(topic: str) -> bool:
    """Whether a topic is none: "what's new", "a digest" ask for all posts of a time."""
    return not terms(_ALL.sub(" ", topic))
