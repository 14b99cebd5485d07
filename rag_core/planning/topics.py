"""Topic of a question: what is left of it without the words that ask, or what it names as its subject, by patterns.

Also whether a request for posts says whose they are, or what they mention.
"""

from __future__ import annotations

import re

from rag_core.planning.request_words import (
    CATCH_ALL_WORDS,
    COMING_FRAME,
    FRAME_WORDS,
    INTENT_PREFIX_LENGTH,
    NEWS_ABOUT,
    PHRASES,
)
from rag_core.text.tokens import compile_pattern, fold_case, tokenize

_NEWS_PREFIX = re.compile(NEWS_ABOUT)
CLAUSE_END = re.compile(r"[,.?!;:]+(?:\s|$)")
# Of posts that are somebody's: "писали", "news of", "at the club"; "посты" alone are about something.
_POSTS_OF = re.compile(
    r"(?<!\w)(?:(?:на)?писали|пишут|(?:за)?пост(?:или|ят)|выклад\w+|новост\w+|нового|слышно|posted|post|put(?:ting)? up|wrote|write|on about|new|news|"
    r"у|в|на|от|из|at|with|from|of|in|over at)(?!\w)"
)
_TOPIC_NAMED = re.compile(
    r"(?<!\w)(?:про|о|об|обо|насчет|about|on|regarding|of|mentioning)\s+(?!(?:about|чем|что|lately|recently|today|now|these|this|last|in|since|them|it|that|him|her|us|you|me|нем|них|нее|этом|том|нас|вас)\b)\w"
)
_REQUEST_WORDS = rf"\b(?:{PHRASES['request']})\b"
# "Tell me about ...": asks for the content of posts. Questions for the author or the time of a post do not match.
_ASKING_PHRASE = re.compile(
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
    r"|^(?:что нового|что слышно|какие новости|what(?:'?s| is) new|what(?:'?s| is) going on)"
    r" (?:о|об|про|на|в|во|у|с|со|по|about|at|in|on|with) ",
    re.IGNORECASE,
)


def _fold_head(text: str) -> str:
    """Fold what is read for the intent, as `asked` of the other functions: lower case, without ё."""
    return fold_case(text[:INTENT_PREFIX_LENGTH])


def strip_asking_phrase(text: str) -> str:
    """Strip phrases such as "tell me about" from a question; the whole question where nothing would be left."""
    about = _NEWS_PREFIX.match(_fold_head(text))
    rest, stripped = (text[about.end() :], 1) if about else _ASKING_PHRASE.subn("", text)
    if not stripped or not tokenize(rest):
        return text
    return rest.rstrip(" ?")  # a name with a question mark would ask for yes or no


def extract_topic(asked: str) -> str:
    """Extract the topic: the question without the words about posts."""
    rest = _NEWS_PREFIX.sub("", asked[:INTENT_PREFIX_LENGTH]) + asked[INTENT_PREFIX_LENGTH:]
    return " ".join(FRAME_WORDS.sub(" ", rest).split())


_WHOSE_EVENTS = re.compile(r"\b(?:у|в|во|на|at|in|from|of|by|for)\s+(?:(?:the|our|your|нашем|нашей|наших)\s+)?$")
_WHO_DOES = re.compile(
    r"(?:\b(?:is|are|has)|what['’]?s)\s+(?:the\s+)?([^?]{1,40}?)\s(?:doing|having|planning|up to|got on)\b"
)


def extract_coming_topic(asked: str) -> str | None:
    """Extract whose events a question asks for: "at the club"; empty for all, None for one about another thing."""
    head = asked[:INTENT_PREFIX_LENGTH]
    topic = strip_catch_all_words(compile_pattern(COMING_FRAME).sub(" ", head))
    named = _WHOSE_EVENTS.search(head[: head.index(topic.split()[0])]) if topic else None
    return topic if not topic or named or _WHO_DOES.search(head) else None


def asks_whose_posts(text: str) -> bool:
    """Whether a question for posts says whose they are ("what's new at the club"), and not what they are about."""
    asked = _fold_head(text)
    return bool(_POSTS_OF.search(asked)) and not _TOPIC_NAMED.search(asked)


def asks_for_mentions(text: str) -> bool:
    """Whether a question for posts asks for those that mention its topic; "what's new in React" asks for a fact as well."""
    return bool(_NEWS_PREFIX.match(_fold_head(text))) or not asks_whose_posts(text)


def extract_posts_topic(asked: str) -> str:
    """Extract the topic of posts that are asked for: what is named after "about", else the first clause with a topic."""
    clauses = CLAUSE_END.split(asked[:INTENT_PREFIX_LENGTH])
    named = [clause[found.end() - 1 :] for clause in clauses if (found := _TOPIC_NAMED.search(clause))]
    for clause in (*named, *clauses):
        topic = strip_catch_all_words(compile_pattern(_REQUEST_WORDS).sub(" ", extract_topic(clause)))
        if topic:
            return topic
    return ""


def strip_catch_all_words(topic: str) -> str:
    """Strip the words that ask for all posts of a period, and function words."""
    words = [word for word in compile_pattern(CATCH_ALL_WORDS).sub(" ", topic).split() if tokenize(word)]
    return "" if all(map(str.isdigit, words)) else " ".join(words)  # "the last 5", but "bus 42"


def is_empty_topic(topic: str) -> bool:
    """Whether a topic is empty: "what's new" and "a digest" ask for all posts of a period."""
    return not strip_catch_all_words(topic)
