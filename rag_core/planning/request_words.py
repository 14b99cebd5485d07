"""Vocabulary of requests for posts, news and coming events: words and patterns that intents and topics are found by.

The longer lists of words are in `intent_phrases.txt`.
"""

from __future__ import annotations

import re
from pathlib import Path

from rag_core.text.tokens import compile_pattern, read_phrases

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
_ASKING_WORDS = (FRAME_WORDS.pattern, CATCH_ALL_WORDS, rf"\b{POSTED_THINGS}\b")
# What is to come, without a topic: "что будет в выходные", "anything on tomorrow?". `COMING_FRAME` are the words that
# ask so, `COMING_ASKED` those of them that look ahead by themselves.
COMING_ASKED = re.compile(rf"\b(?:{PHRASES['coming']})\b")
COMING_FRAME = rf"{COMING_ASKED.pattern}|\b(?:{PHRASES['coming_frame']})\b"


def is_asking_word(word: str) -> bool:
    """Whether a lower-case word asks for posts: "запостили" is no misspelt "запустили"."""
    return any(compile_pattern(words).fullmatch(word) for words in _ASKING_WORDS)
