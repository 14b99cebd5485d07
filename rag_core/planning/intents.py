"""Intents and topics of questions, by patterns; the longer lists of words are in `intent_phrases.txt`.

An intent is a fact, a count of posts, a first mention, a timeline, a summary, a claim. A topic is what is left of a
question without the words that ask, or what it names as its subject.

What a message asks of channels as a whole, if it asks no fact, is told by a linear classifier of character n-grams
(Joachims, "Text Categorization with Support Vector Machines", 1998, for linear models of sparse text; Weinberger et
al., "Feature Hashing for Large Scale Multitask Learning", 2009): they need no embedding model, and misspelt words share
most of theirs. Fitted by `tests/data/intents/fit.py`.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rag_core.text.numbers import compile_pattern
from rag_core.text.tokens import fold_case, read_phrases, tokenize
from rag_core.types import Kind

INTENT_PREFIX_LENGTH = 1000  # characters read for the intent: some patterns look ahead from every word

PHRASES = read_phrases(Path(__file__).with_name("intent_phrases.txt"))
POST_WORDS = (
    r"(?:пост(?:ы|а|у|е|ов|ом|ам|ами|ах)?|(?:сообщени|публикаци)(?:е|я|й|ю|и|ем|ей|ям|ями|ях)|"
    r"(?:запис|новост)(?:ь|и|ей|ью|ям|ями|ях)|posts?|messages?|updates?|news)"
)
MENTION_WORDS = r"(?:упоминани\w+|mentions?)"
REPORTING_VERBS = rf"(?:{PHRASES['reporting']})"
POSTING_VERBS = rf"(?:{PHRASES['posting']})"
THROWING_VERBS = rf"(?:{PHRASES['throwing']})"
POSTED_THINGS = rf"(?:{PHRASES['posted_thing']})"
APPEARING_VERBS = r"(?:появ(?:ил|лял)\w+|зашла речь|turn(?:s|ed)? up|appear(?:s|ed)?|c[ao]mes? up)"
# "последние новости про автобус", "anything posted about the bus": the newest posts about a topic.
_PLACE_OF_POSTS = r"(?:тут|здесь|там|у вас|у нас|(?:в|на) (?:канал\w*|чат\w*|групп\w*)|here|in (?:the|this|your) (?:channels?|chat|group))"
_SOMETHING = r"(?:(?:что|че|чо|шо|чего|чет)(?:[ -]?(?:то|нибудь|нить|либо))?|кто[ -]?(?:то|нибудь)|пост(?:ы|ов|ик\w*)|новост(?:и|ей)|сообщени[яй]|запис(?:и|ей)|публикаци[ий]|упоминани[яй]|инф[аы]|информаци[яи])"
_POSTED = r"(?:был[оаи]?|есть|выходил[аио]?|попада(?:л[аио]с[ья]|лся)|проскакивал[аио]|писал[аи]|постил[аи])"
NEWS_ABOUT = (
    r"^(?:(?:а|ну|и|so|and|есть|были|было|какие|покажи|дай|скинь|кинь|найди|хочу|any|are there any|show|give me|find|send|the|all|все|мне|me) )*"
    r"(?:(?:последние|свежие|новые|latest|recent|new|last|newest) )*"
    r"(?:(?:новост(?:и|ей)|пост(?:ы|ов)|новенькое|(?:че|чо|что|шо) (?:там |сейчас |у вас )?(?:нового|слышно|нового слышно)|"
    r"(?:че|чо|что|шо) (?:вы |тут |здесь |там )?(?:писали|пишут|постили|выкладывали|сообщали)|news|updates?|what(?:'s|s| is) (?:new|the latest|happening|going on)|"
    r"what (?:did|have|has) (?:you|they|the channels?) (?:post|posted|write|written)|what (?:was|has been) (?:posted|written)|latest)"
    r"(?: (?:на|за|в|in|from|for|this|last) [^?]{1,30}?)? (?:про|о|об|обо|по|с|со|насчет|у|about|on|with|regarding|of|mentioning)|"
    rf"(?:(?:{_SOMETHING}|{_POSTED}|{_PLACE_OF_POSTS})(?: (?:ли|{_SOMETHING}|{_POSTED}|{_PLACE_OF_POSTS}))+|"
    r"(?:(?:is|was|were|are|has|have|did|do) )?(?:(?:there|you|they|we|anyone|anybody|someone|the channels?) )?(?:(?:been|ever|post|write|say|share|mention) )*"
    rf"(?:(?:any|some)thing|(?:any |some )?(?:posts?|messages?|mentions?|info|word|news))(?: (?:been|was|posted|written|said|shared|published|reported|mentioned|new|{_PLACE_OF_POSTS}))*)"
    r" (?:про|о|об|обо|насчет|about|on(?! at\b)|regarding|mentioning))"
    r" (?!(?:the )?(?:channels?|week|month|day|year)\b)"
)
# Words about posts that say nothing of the topic.
FRAME_WORDS = re.compile(
    rf"\b(?:{REPORTING_VERBS}|{POSTING_VERBS}|{THROWING_VERBS}|{APPEARING_VERBS}|{POST_WORDS}|выш(?:ел|л[аои])|выходил[аио]?|хронологи[яюи]|таймлайн|timeline|chronology|покажи|show|{MENTION_WORDS}|впервые|перв(?:ый|ое|ая)|последн(?:ий|ее|яя|ие)|раз|сколько|"
    r"скольких|всего|вообще|тут|здесь|total|altogether|часто|когда|какого числа|был[аои]?|канал\w*|слов[оа]?|first|last|latest|newest|earliest|"
    r"most recently|times?|how|many|often|did|when|was|were|is|it|the|post|write|say|talk|report|appear|channels?|"
    r"this|that|here|there|words?|contain(?:s|ing)?)\b"
)
CATCH_ALL_WORDS = rf"\b(?:{PHRASES['catch_all']})\b"
# Words that ask for posts: "запостили" is no misspelt "запустили".
REQUEST_WORDS = rf"{FRAME_WORDS.pattern}|{CATCH_ALL_WORDS}|\b{POSTED_THINGS}\b"
_NEWS_PREFIX = re.compile(NEWS_ABOUT)
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


def strip_asking_phrase(text: str) -> str:
    """Strip phrases such as "tell me about" from a question; the whole question where nothing would be left."""
    about = _NEWS_PREFIX.match(fold_case(text[:INTENT_PREFIX_LENGTH]))
    rest, stripped = (text[about.end() :], 1) if about else _ASKING_PHRASE.subn("", text)
    if not stripped or not tokenize(rest):
        return text
    return rest.rstrip(" ?")  # a name with a question mark would ask for yes or no


def extract_topic(asked: str) -> str:
    """Extract the topic: the question without the words about posts."""
    rest = _NEWS_PREFIX.sub("", asked[:INTENT_PREFIX_LENGTH]) + asked[INTENT_PREFIX_LENGTH:]
    return " ".join(FRAME_WORDS.sub(" ", rest).split())


CLAUSE_END = re.compile(r"[,.?!;:]+(?:\s|$)")
_MAX_NAME_WORDS = 3


def extract_request_name(asked: str, request: Request) -> str | None:
    """Extract whose posts or events a request asks for: of the clause that asks, the words that may be a name.

    "" for those of all channels. None: there are too many, it asks for something else.
    """
    asked = asked[:INTENT_PREFIX_LENGTH]
    clauses = [clause for clause in CLAUSE_END.split(asked) if tokenize(clause)] or [asked]
    clause = max(clauses, key=lambda one: estimate_requests(one)[request])  # "I was away, what did I miss?"
    words = strip_catch_all_words(compile_pattern(_REQUEST_WORDS).sub(" ", extract_topic(clause))).split()
    named = list(filter(may_be_name, words))
    return " ".join(named) if len(named) <= _MAX_NAME_WORDS else None


def names_place(text: str) -> bool:
    """Whether a question says whose posts or events it asks for: "at the club"."""
    return bool(_POSTS_OF.search(fold_case(text[:INTENT_PREFIX_LENGTH])))


def asks_whose_posts(text: str) -> bool:
    """Whether a question for posts says whose they are ("what's new at the club"), and not what they are about."""
    return names_place(text) and not names_topic(fold_case(text))


def names_topic(asked: str) -> bool:
    """Whether a question for posts names what they are about: "on parking"."""
    return bool(_TOPIC_NAMED.search(asked[:INTENT_PREFIX_LENGTH]))


def asks_for_mentions(text: str) -> bool:
    """Whether a question for posts asks for those that mention its topic; "what's new in React" asks for a fact as well."""
    return bool(_NEWS_PREFIX.match(fold_case(text[:INTENT_PREFIX_LENGTH]))) or not asks_whose_posts(text)


def extract_posts_topic(asked: str) -> str:
    """Extract the topic of posts that are asked for: what is named after "about", else the first clause with a topic."""
    clauses = CLAUSE_END.split(asked[:INTENT_PREFIX_LENGTH])
    named = [clause[found.end() - 1 :] for clause in clauses if (found := _TOPIC_NAMED.search(clause))]
    bare = (compile_pattern(_REQUEST_WORDS).sub(" ", extract_topic(clause)) for clause in (*named, *clauses))
    return next(filter(None, map(strip_catch_all_words, bare)), "")


def strip_catch_all_words(topic: str) -> str:
    """Strip the words that ask for all posts of a period, and function words."""
    words = [word for word in compile_pattern(CATCH_ALL_WORDS).sub(" ", topic).split() if tokenize(word)]
    return "" if all(map(str.isdigit, words)) else " ".join(words)  # "the last 5", but "bus 42"


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
# News or events are asked for: a recent week or month in the question then filters posts.
RECENT_EVENTS = re.compile(rf"^(?:самое )?главн\w+\b|\b(?:{PHRASES['recent_events']})\b")
# A question for events says so by a word of its own: "что интересного было", and not "что было с лодкой".
EVENT_WORDS = re.compile(
    r"\b(?:интересного|нового|новенького|произошло|случилось|событи\w+|happened|new|events|going on|went on)\b"
)
_ALL_COUNTED = (
    r"^(?:сколько|how many) ",
    rf"(?:(?:было|есть|всего|вообще|тут|у вас|total) )*{POST_WORDS}"
    r"(?: (?:всего|вообще|есть|тут|здесь|у вас|(?:в|на) (?:этом |этих )?канал\w*|are|there|in total|altogether|here|do you have|"
    r"in (?:this|the|these) channels?))*\W*$",
)
# Kind, how the question begins, and the rest of the pattern: only what begins so needs the rest, which is long.
# What stands before a claim that is asked: "правда, что …", "is it true that …", "did he really …".
CLAIM_LEAD = (
    r"^\W*(?:(?:а|и|но|ну|скажи(?:те)?|слушай(?:те)?|so|and|but|wait)\W+)*(?:(?:это )?(?:правда|верно|действительно|так)(?:,? ли\b|(?=,? что\b)),?(?: что\b)?"
    r"|is (?:it|that) (?:really )?(?:true|right|correct)\b,?(?: that\b)?|(?:do|does|did)\b(?=.+\breally\b))"
)
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
    (Kind.CLAIM, "", CLAIM_LEAD),
    (Kind.COMPARE, "", r"\b(?:сравни\w*|чем .+ отлича\w+|разниц\w+ между|compare|difference between|differ from|versus|vs)\b"),
    (Kind.SUMMARY, "", r"\b(?:дайджест|краткое содержание|вкратце|кратко|краткий|пересказ|перескажи\w*|обзор|сводка|резюмируй|подведи итог\w*|summar\w+|recap|digest|overview)\b"),
    (Kind.LIST, "", r"^(?:перечисли\w*|назови все|какие есть|список|list|name all)\b"),
)  # fmt: skip


def detect_intent(asked: str) -> Kind:
    """Detect the intent of a question; `asked` is its text in lower case, without ё."""
    head = asked[:INTENT_PREFIX_LENGTH]
    for kind, start, rest in _INTENT_SOURCES:
        if compile_pattern(start).search(head) and compile_pattern(start + rest).search(head):
            return kind
    return Kind.FACT


def asks_about_posts(asked: str) -> bool:
    """Whether the question is about posting, so that its period filters posts: "what did they write in May"."""
    return bool(compile_pattern(_POSTING_WORDS).search(asked))


def counts_all_posts(asked: str) -> bool:
    """Whether a question asks for the number of all posts: "how many posts are there"."""
    start, rest = _ALL_COUNTED
    head = asked[:INTENT_PREFIX_LENGTH]
    return bool(compile_pattern(start).search(head) and compile_pattern(start + rest).search(head))


class Request(StrEnum):
    """What a message asks for: a fact or anything else, what was posted of late, what is to come, the posts about a
    topic, what a channel is about, who runs it, or a person in place of the bot (also that it is of no use).

    The order is that of the columns of the weights.
    """

    OTHER = "other"
    DIGEST = "digest"
    COMING = "coming"
    POSTS = "posts"
    ABOUT = "about_channel"
    OWNER = "owner"
    PERSON = "person"


HASHED_TERMS = 1 << 15  # n-grams that share a place are told apart by the others of their word
_SHORTEST, _LONGEST, _MAX_WORDS = 2, 5, 60  # characters of an n-gram, and words of a message
_MIN_PROBABILITY = 0.4
_ANY_WORD = re.compile(r"\w+")


def hash_term(term: str) -> int:
    """Hash a term of the index, or an n-gram; the same in every process."""
    return zlib.crc32(term.encode("utf-8", "replace"))


def hash_terms(text: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Hash the n-grams of the words of a message, and pairs of words: their places, and weights of length 1."""
    words = _ANY_WORD.findall(re.sub(r"\d+", "0", fold_case(text)))[:_MAX_WORDS]
    terms = [f"{one} {other}" for one, other in zip(("^", *words), (*words, "$"), strict=True)]
    for word in (f" {word[:100]} " for word in words):
        terms += [word[at : at + n] for n in range(_SHORTEST, _LONGEST + 1) for at in range(len(word) - n + 1)]
        terms += [word] if len(word) > _LONGEST else []
    counts = Counter(hash_term(term) % HASHED_TERMS for term in terms)
    weights = np.sqrt(np.array(list(counts.values()), float))
    return np.array(list(counts), int), weights / max(float(np.linalg.norm(weights)), 1e-9)


class _Weights(NamedTuple):
    """Weights, shape (HASHED_TERMS, requests), constants, and the hashes of terms that recur in requests."""

    weights: NDArray[Any]
    constants: NDArray[Any]
    recurrent: frozenset[int]


@cache
def load_weights() -> _Weights:
    """Load the weights that `tests/data/intents/fit.py` wrote."""
    with np.load(Path(__file__).with_name("request_weights.npz")) as stored:
        recurrent = frozenset(stored["recurrent"].tolist())
        return _Weights(stored["weights"] * stored["scale"], stored["constants"], recurrent)


def estimate_requests(text: str) -> dict[Request, float]:
    """Estimate how likely a message is each request; the probabilities add up to 1."""
    places, found = hash_terms(text)
    weights = load_weights()
    scores = found @ weights.weights[places] + weights.constants
    likely = np.exp(scores - scores.max())
    return dict(zip(Request, (likely / likely.sum()).tolist(), strict=True))


def classify_request(text: str) -> Request:
    """Classify a message; OTHER where no request is likely enough."""
    likely = estimate_requests(text)
    best = max(likely, key=lambda one: likely[one])
    return best if likely[best] >= _MIN_PROBABILITY else Request.OTHER


def may_be_name(word: str) -> bool:
    """Whether a word may name something: it does not recur in the requests of several people."""
    return not word.isdecimal() and any(hash_term(term) not in load_weights().recurrent for term in tokenize(word))


_CHANNEL_NOUNS = r"(?:тг[- ]?)?канал\w*|паблик\w*|чат\w*|групп\w*|страниц\w*|channels?|page|group|chat|feed|account"
_HERE = r"админ\w*|admins?|тут|здесь|у вас|у нас|вас|это все|всё это|все это|этим всем|этой|этот|это|вот это|here|this|these|all this|this stuff|you guys|you lot|your"
_ROLE_RU = r"админ\w*|владел\w+|хозя[ий]\w+|автор\w*|редактор\w*|главн\w+|начальник\w*|основател\w*|модер\w*|ответственн\w+|создател\w*|руководител\w*"
_RUNS_RU = r"вед[её]т|ведут|пишет|пишут|постит|постят|созда(?:л|ла|ли|вал)|держит|админит|администрирует|основал\w?|завел\w?|придумал\w?|(?:за (?:\w+ )?(?:всем|этим)(?: всем)? )?стоит|рулит|заправляет|управляет|отвечает"
_ROLE_EN = r"admins?|administrators?|owners?|authors?|editors?|founders?|boss|mods?|moderators?|person|people|guy|one|in charge|responsible"
_RUNS_EN = r"runs?|running|posting|owns?|writes?|writing|posts|admins?|behind|in charge|started|made|created|moderates?|edits?|manages?|managing|set up|operates?|maintains?"
_OF_THIS = rf"(?<!\w)(?:{_HERE}|{_CHANNEL_NOUNS})(?!\w)"
# Words beside them that name no channel.
_NO_CHANNEL_NAME = (
    rf"(?<!\w)(?:{_CHANNEL_NOUNS}|{_HERE}|{_ROLE_RU}|{_RUNS_RU}|{_ROLE_EN}|{_RUNS_EN}|[a-z]|ваш\w*|теб[яе]|твой|твоя|твои|got|writing|"
    r"хто|стоит|подпис\w+|нужен|принадлежит|имя|имени|зовут|фамилия|назови|обычно|нем|подскажи\w*|скажи\w*|расскажи\w*|опиши|описание|публику\w+|посты|тематик\w|тем[аыу]|двух|двумя|словах|словами|коротко|кратко|интересно|слушай\w*|"
    r"добрый|день|вечер|человек|редакция|команда|люди|ребят\w*|самый|реально|говорить|связаться|жаловаться|сообщество|even|tell|describe|write|writes|post|posts|talk|cover|covers|kind|kinda|sort|type|content|theme|focus|matter|intro|"
    r"introduction|quick|give|expect|find|reading|generally|subjects?|deal|deals|ya|guys|bruh|lol|mean|stuff|things|topics?|subject|purpose|worth|following|joining|subscribing|usually|mostly|exactly|may|ask|know|want|one|sentence|words|"
    r"short|good|morning|name|team|guy|run|written|managed|complain|tho|joined|like)(?!\w)"
)
MAX_CHANNEL_QUESTION = 140  # characters
CHANNEL_REQUESTS = frozenset({Request.ABOUT, Request.OWNER})


def extract_channel_name(asked: str) -> str:
    """Extract the name of a channel that is asked about: the words that are left; "" for this channel or all."""
    words = re.sub(r"[^\w\s-]", " ", compile_pattern(_NO_CHANNEL_NAME).sub(" ", asked)).split()
    return " ".join(filter(tokenize, words))


def means_this_channel(asked: str) -> bool:
    """Whether a question about a channel says "here" or "the channel", and names none; "who writes" does neither."""
    return not extract_channel_name(asked) and bool(compile_pattern(_OF_THIS).search(asked))


def asks_of_this_channel(asked: str) -> bool:
    """Whether a question asks who runs this channel or what it is about, without a name; `asked` is in lower case."""
    asks = len(asked) <= MAX_CHANNEL_QUESTION and classify_request(asked) in CHANNEL_REQUESTS
    return asks and means_this_channel(asked)


_NAME = r"(?P<{}>[\w&-]{{2,40}}(?: [\w&-]{{2,40}}){{0,2}}?)"
_OPENING = r"(?:(?:а|и|ну|слушай|подскажите?|скажите?|so|and|hey|hi|sorry|ok|remind me),? )*+"
_CLOSING = (
    r"(?: (?:вообще|у вас|у нас|тут|здесь|там|такой|такая|такое|такие|это|собственно|please|pls|again|exactly|anyway|"
    r"even|then|now|really|actually|to you|here))*"
)
_DEFINITION = re.compile(
    rf"{_OPENING}(?:(?:who|what)(?:['’]?s| is| are| was| were)(?: an?| this)? (?P<the>the )?{_NAME.format('en')}|"
    rf"(?:кто|что) (?:вообще )?(?:так(?:ой|ая|ие|ое)|эт[оа]|за) {_NAME.format('ru')}|"
    rf"{_NAME.format('before')}(?: [-—–])? (?:эт[оа]? )?(?:у вас |там )?(?:кто|что|who)"
    rf"(?: (?:эт[оа]|так(?:ой|ая|ие|ое)|are they|is (?:it|he|she|that)))?){_CLOSING}\W*",
    re.IGNORECASE,
)
_NO_NAME = frozenset(
    "he she it they this that there these those you your my our his her its the new next last up on going about он она "
    "оно они это этот эта эти тот та те там тут ты вы кто что".split()
)
_MAX_DEFINITION_LENGTH = 100  # characters


def find_defined_name(question: str) -> str | None:
    """Find what may be the name in a question for who or what it is; None for another question."""
    asked = _DEFINITION.fullmatch(question.strip()[:_MAX_DEFINITION_LENGTH])
    if asked is None:
        return None
    name = asked["en"] or asked["ru"] or asked["before"]
    common = asked["the"] and not name[0].isupper()  # "who is the treasurer"
    return None if common or _NO_NAME.intersection(fold_case(name).split()) else name
