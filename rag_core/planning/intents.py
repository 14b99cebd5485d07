"""Intent of a question, by patterns: a fact, a count of posts, a first mention, a timeline, a summary, a claim.

The words are in `request_words.py`, the longer lists of them in `intent_phrases.txt`.
"""

from __future__ import annotations

import re

from rag_core.planning.request_words import (
    APPEARING_VERBS,
    COMING_ASKED,
    COMING_FRAME,
    INTENT_PREFIX_LENGTH,
    MENTION_WORDS,
    NEWS_ABOUT,
    PHRASES,
    POST_WORDS,
    POSTED_THINGS,
    POSTING_VERBS,
    REPORTING_VERBS,
    THROWING_VERBS,
)
from rag_core.planning.topics import CLAUSE_END, extract_topic, is_empty_topic
from rag_core.text.tokens import compile_pattern, tokenize
from rag_core.types import Kind

# Counts and dates of mentions, answered exactly over all posts.
EXACT_INTENTS = frozenset({Kind.HOW_MANY, Kind.FIRST, Kind.LAST, Kind.TIMELINE, Kind.WHEN})
# Questions about posts, with the topic after these words. The first matching pattern decides.
_WHEN_ASKED = (
    r"^(?:(?:а|и|ну|so|and) )?(?:(?:не )?(?:подскажите?|скажите?|помните?|знаете?),? )?(?:когда|какого числа|в какой день|"
    r"дата|(?:when|(?:on )?(?:what|which) (?:day|date)|date) (?:did|was|were|has|have|had|of))\b"
)
_MENTIONING_VERBS = rf"(?:{REPORTING_VERBS}|{APPEARING_VERBS})"
_FIRST_TIME = r"(?:впервые|(?:в )?первый раз)"
_LAST_TIME = r"(?:в )?последний раз"
_WHEN_RU = r"^(?=.*\b(?:когда|какого числа|в каком (?:посте|сообщении))\b)"
_WHEN_EN = r"^(?=.*\b(?:when|(?:what|which) (?:day|date|post|message))\b)"
_ABOUT_LOOKAHEAD = r"(?=.*\b(?:о|об|обо|про|с упоминанием|about|of|contain\w*|{})\b)".format(
    rf"{REPORTING_VERBS}|{MENTION_WORDS}"
)
_POSTING_WORDS = (
    rf"\b(?:{REPORTING_VERBS}|{POST_WORDS}|{MENTION_WORDS}|выш(?:ел|л[аои])|выходил[аио]?|дайджест|digest|хронология|timeline|"
    r"did (?:you|they|we|(?:the )?channels?) (?:\w+ )?(?:post|write|say|talk|report|publish|mention))\b"
)
_RECENT_EVENTS = re.compile(rf"^(?:самое )?главн\w+\b|\b(?:{PHRASES['recent_events']})\b")
_EVENT_WORDS = re.compile(
    r"\b(?:интересного|нового|новенького|произошло|случилось|событи\w+|happened|new|events|going on|went on)\b"
)
_ALL_COUNTED = (
    r"^(?:сколько|how many) ",
    rf"(?:(?:было|есть|всего|вообще|тут|у вас|total) )*{POST_WORDS}"
    r"(?: (?:всего|вообще|есть|тут|здесь|у вас|(?:в|на) (?:этом |этих )?канал\w*|are|there|in total|altogether|here|do you have|"
    r"in (?:this|the|these) channels?))*\W*$",
)
# Kind, how the question begins, and the rest of the pattern: only what begins so needs the rest, which is long.
_INTENT_SOURCES: tuple[tuple[Kind, str, str], ...] = (
    (Kind.HOW_MANY, r"^(?:сколько раз|как часто|how (?:many times|often))\b", rf".*?\b{REPORTING_VERBS}\b"),
    (Kind.HOW_MANY, r"^в скольких ", rf"{POST_WORDS}\b"),
    (Kind.HOW_MANY, *_ALL_COUNTED),
    # "сколько постов ГАИ на трассе", "how many posts hold up the roof": not every post is one of ours
    (Kind.HOW_MANY, r"^(?:сколько|how many) ", rf"(?:(?:было|есть|вышло|всего|вообще|total) )*{POST_WORDS}\b{_ABOUT_LOOKAHEAD}"),
    (Kind.FIRST, _WHEN_RU, rf".*?\b(?:{_FIRST_TIME}\b.*?\b{_MENTIONING_VERBS}|{_MENTIONING_VERBS}\b.*?\b{_FIRST_TIME})\b"),
    # "first" next to the verb: "the first computer appeared" is about a computer
    (Kind.FIRST, _WHEN_EN, rf".*?\b(?:first(?: be| been)? {_MENTIONING_VERBS}|first time\b.*?\b{_MENTIONING_VERBS})\b"),
    (Kind.FIRST, _WHEN_EN, rf".*?\b{_MENTIONING_VERBS}\b.*? for the first time\b"),
    (Kind.FIRST, "", rf"\b(?:перв(?:ое|ый|ая)|first|earliest) (?:{MENTION_WORDS}|{POST_WORDS}{_ABOUT_LOOKAHEAD})\b"),
    (Kind.NEWS, "", NEWS_ABOUT),
    (Kind.LAST, _WHEN_RU, rf".*?\b(?:{_LAST_TIME}\b.*?\b{_MENTIONING_VERBS}|{_MENTIONING_VERBS}\b.*?\b{_LAST_TIME})\b"),
    (Kind.LAST, _WHEN_EN, rf".*?\b(?:(?:last|most recently)(?: be| been)? {_MENTIONING_VERBS}|last time\b.*?\b{_MENTIONING_VERBS})\b"),
    (Kind.LAST, _WHEN_EN, rf".*?\b{_MENTIONING_VERBS}\b.*? (?:last|most recently)\W*$"),
    (Kind.LAST, "", rf"\b(?:последн(?:ее|ий|яя|ие)|latest|last|newest) (?:{MENTION_WORDS}|{POST_WORDS}{_ABOUT_LOOKAHEAD})\b"),
    (Kind.TIMELINE, "", r"\b(?:хронологи[яюи]|таймлайн|timeline|chronology)\b"),
    (Kind.WHEN, _WHEN_ASKED, rf".*?\b(?:{REPORTING_VERBS}|{POSTING_VERBS})\b"),
    (Kind.WHEN, _WHEN_ASKED, rf" (?:[^«\"“„]*?\b{THROWING_VERBS}\b[^«\"“„]*?(?:\b{POSTED_THINGS}\b|[«\"“„])|.*?\b{POSTED_THINGS}\b.*?\b{THROWING_VERBS}\b)"),
    (Kind.CLAIM, "", r"^(?:правда ли|верно ли|действительно ли|так ли|is it true|is it (?:right|correct)|did .+ really)\b"),
    (Kind.COMPARE, "", r"\b(?:сравни\w*|чем .+ отлича\w+|разниц\w+ между|compare|difference between|differ from|versus|vs)\b"),
    (Kind.SUMMARY, "", r"\b(?:дайджест|краткое содержание|вкратце|кратко|краткий|пересказ|перескажи\w*|обзор|сводка|резюмируй|подведи итог\w*|summar\w+|recap|digest|overview)\b"),
    (Kind.LIST, "", r"^(?:перечисли\w*|назови все|какие есть|список|list|name all)\b"),
)  # fmt: skip
_POSTS_ASKED = re.compile(rf"\b(?:{PHRASES['posts_asked']})\b")
_POST_NOUNS = rf"(?:{PHRASES['post_noun']})"
_LOOKING = rf"(?:{PHRASES['looking']})"
_ABOUT = r"(?:про|о|об|обо|насчет|где|в котор\w{2}|с(?! утра)|about|abt|bout|on|re|regarding|concerning|of|with|w|where|mention\w*|tagged|explaining)"
_POST_SOUGHT = (
    rf"\b{_LOOKING}\b[^?]{{0,40}}?\b{_POST_NOUNS}\b[^?]{{0,25}}?\b{_ABOUT}\b|\b(?:в каком|в котором) (?:посте|сообщении|записи)\b|"
    rf"\b{_LOOKING}\b[^?]{{0,30}}?\b(?:stuff|ones?|things?|bits?|items?|everything|anything|something|все|что)(?: [\w'’-]{{1,20}}){{0,3}}? (?:about|abt|bout|regarding|concerning|re|mention\w*|на тему|про)\b|"
    r"\b(?:which|what) (?:post(?! (?:office|box|code))|entry) (?:was|is|were|had|has|did|said|mention\w*)\b|(?:почитать|wanna read|want to read) (?:\w+ )?(?:про|о|об|about|on)\b|\b(?:все упоминания|mentions of|gets? mentioned)\b|"
    r"\b(?:пост(?:ы|ов|а)?|записи|публикации|posts|publications|entries|pieces),? (?:в которых |где )?(?:про|о|об|about|on|where|mention\w*|упомина\w+)\b|"
    r"\b(?:про|о|об|about|on)\b[^?]{2,60}\b(?:найд\w+|достань|достать|(?:с|под)?кинь\w*|покаж\w+|поищи|кидай|find (?:it|them)|show me)\b|\b(?:поищи|вытащи|поскролль)\b|"
    r"\bгде[ -]?то (?:было |писали |видел\w? )?про\b|(?:есть|было|был)(?: же)? (?:что|чего)[ -]?(?:то|нибудь)? про\b|"
    r"\b(?:everything|anything|all|something|stuff|what) (?:(?:have )?you |u |they |there is |is there )+(?:have |got |ve )*(?:on|about|re)\b|\bна эту тему\b|^(?:search|find|найти|найди|поиск)\W*:"
)
_NO_POSTS_ASKED = re.compile(
    r"^(?:(?:а|и|ну|so|and) )?(?:когда|кто|кого|где|куда|откуда|почему|зачем|сколько|скольк\w+|скока|как\w*|во сколько|чем|кому|чей|можно|нужно|надо|"
    r"буд(?:ет|ут)|what (?:does|do|is|are|was|were|will|can)(?! (?:new|up))|when|whens?|who\w*|where|why|how|which|is|are|can|may|should|will|do)\b"
)
_COUNT_ASKED = re.compile(r"^(?:(?:а|и|ну|so|and) )?(?:сколько|как часто|в скольких|how (?:many|often))\b")
_DIGEST_FILLERS = rf"\b(?:{PHRASES['digest_filler']})\b"


def detect_intent(asked: str) -> Kind:
    """Detect the intent of a question; `asked` is its text in lower case, without ё."""
    head = asked[:INTENT_PREFIX_LENGTH]
    return next((kind for kind, start, rest in _INTENT_SOURCES if _matches(start, rest, head)), Kind.FACT)


def _matches(start: str, rest: str, head: str) -> bool:
    return bool(compile_pattern(start).search(head) and compile_pattern(start + rest).search(head))


def asks_about_posts(asked: str) -> bool:
    """Whether the question is about posting, so that its period filters posts: "what did they write in May"."""
    return bool(compile_pattern(_POSTING_WORDS).search(asked))


def asks_about_recent_events(asked: str) -> bool:
    """Whether the question asks for news or events: a recent week or month in it then filters posts."""
    return bool(_RECENT_EVENTS.search(asked))


_OF_SOMEBODY = re.compile(r"^(?:(?:а|и|ну|so|and) )?(?:кто|кого|почему|зачем|сколько|when|who|why|how (?:much|many))\b")
_DIGEST_CUE = rf"\b(?:{PHRASES['digest_cue']})\b"
_VALUE_ASKED = re.compile(
    r"\b(?:когда|сколько|скольки|где|куда|откуда|кто|как|почему|зачем|can|could|may|when|where|who|why|how|what time)\b"
)
_OF_WHO_ASKS = re.compile(r"\b(?:я|меня|мне|мы|нас|i|i['’]?ve|i['’]?m|my|me|we)\b")


def asks_for_digest(asked: str, *, timed: bool) -> bool:
    """Whether a question, without its period, asks for all that was posted; `timed`: it names a period.

    One of its clauses does, and the others name nothing, or speak of who asks: "I was away, what did I miss?"
    """
    clauses = [clause for clause in CLAUSE_END.split(asked[:INTENT_PREFIX_LENGTH]) if tokenize(clause)]
    for clause in clauses or [asked]:
        cued = _RECENT_EVENTS.search(clause) or (timed and compile_pattern(_DIGEST_CUE).search(clause))
        if cued and not _VALUE_ASKED.search(clause) and _names_nothing(clause):
            others = (other.strip() for other in clauses if other != clause)
            return all(_names_nothing(other) or _OF_WHO_ASKS.search(other) for other in others)
    return False


def _names_nothing(clause: str) -> bool:
    return is_empty_topic(compile_pattern(_DIGEST_FILLERS).sub(" ", extract_topic(clause)))


def names_events(asked: str) -> bool:
    """Whether a question for events says so by a word of its own: "что интересного было", and not "что было с лодкой"."""
    return bool(_EVENT_WORDS.search(asked))


def asks_for_count(asked: str) -> bool:
    """Whether a question about all posts of a period asks for their number: "how many posts were there in May"."""
    return bool(_COUNT_ASKED.search(asked))


def counts_all_posts(asked: str) -> bool:
    """Whether a question asks for the number of all posts: "how many posts are there"."""
    return _matches(*_ALL_COUNTED, asked[:INTENT_PREFIX_LENGTH])


def asks_for_posts(asked: str) -> bool:
    """Whether a question of no other intent asks for posts or news of something, in any order of words."""
    head = asked[:INTENT_PREFIX_LENGTH]
    if compile_pattern(_POST_SOUGHT).search(head) and not _OF_SOMEBODY.match(head):
        return True
    return bool(_POSTS_ASKED.search(head)) and not _NO_POSTS_ASKED.search(head)


_PAST_ASKED = re.compile(rf"\b(?:{PHRASES['past']})\b")


# Questions for one thing: when it is, who does it, whether one may.
_OF_A_THING = re.compile(
    r"^(?:(?:а|и|ну|so|and|but) )?(?:почему|зачем|сколько|во сколько|как(?! (?:дела|планы))|кто|когда|можно ли|нужно ли|где(?! (?:что|чего))|why|how|who|when|"
    r"where(?! to (?:go|be)\b)|is (?:he|she|it|this|that)\b|may\b|can\b|what (?:is|are|was|does|do) (?:it|he|she|they)\b)(?!\w)"
)


def asks_for_coming_events(asked: str, *, ahead: bool) -> bool:
    """Whether a question asks what is to come; `ahead`: it names a day of the next two weeks."""
    head = asked[:INTENT_PREFIX_LENGTH]
    return (
        not _OF_A_THING.match(head)
        and bool(COMING_ASKED.search(head) or (ahead and compile_pattern(COMING_FRAME).search(head)))
        and not _PAST_ASKED.search(head)
    )
