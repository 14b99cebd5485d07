"""Queries of a question, its spelling, its parts, its metadata filters, and the choice of retrievers and recipe.

Query generation: the question itself, its clauses and names, a statement of it, names in the other script.

Further queries find posts that the whole question misses; none may displace the first hits of the question itself
(see `rag_core.retrieval.search`). Limits are those of the specification: 3 to 6 queries of at most 12 words and 48
characters; 1 or 2 where the question has fewer than three terms. Code and instructions to a model are removed.

Spelling correction: a word that no post knows is read as a near word that posts, or our table, know. Edit distance
counts an exchange of neighbours as one edit (optimal string alignment, by rapidfuzz). A word typed in the other keyboard
layout ("ghbdtn") is read in the right one. Left alone are words of the Russian dictionary, English words of the
vocabulary of the embedding model (all without a model), and surnames that posts have in another form.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest

from rag_core.planning.intents import may_be_name
from rag_core.storage.channels import find_channel
from rag_core.text.names import NAME_PATTERN, get_surname_base, list_surname_stems, transliterate_word
from rag_core.text.numbers import compile_pattern
from rag_core.text.query_terms import (
    detect_answer_type,
    extract_name_stems,
    is_asking_word,
    is_table_word,
    list_table_stems,
)
from rag_core.text.sentences import is_pasted
from rag_core.text.tokens import (
    LETTERS,
    STOP_WORDS,
    WORD,
    fold_case,
    fold_characters,
    is_dictionary_word,
    stem,
    tokenize,
)
from rag_core.types import DENSE_FIRST, HYBRID, Channel, Kind, Plan

MAX_QUERIES, MIN_QUERIES = 6, 3
MAX_QUERY_WORDS, MAX_QUERY_LENGTH = 12, 48
MIN_QUESTION_TERMS = 3  # terms: a shorter question gets 1 or 2 queries only
_MAX_QUERY_LENGTH = 4000
MAX_PHRASES = 8  # required phrases, and as many preferred ones

_CLAUSE_BREAK = re.compile(
    r"\b(?:which|that|who|whom|whose|where|when|what|котор\w+|где|когда|чей|чья|чьи|кто|что|если|потому)\b|[,;:]", re.I
)
# Question words of both languages, and verbs that begin an English question, as regular expressions of words in lower case
QUESTION_WORDS = (
    r"(?:кто|кого|кому|кем|ком|что|чего|чему|чем|где|куда|откуда|когда|почему|зачем|отчего|почем|скок\w?|скольк\w+|"
    r"как(?:ой|ая|ое|ие|ого|ому|их|им|ими|ом|ую)?|котор\w+|чей|чья|чье|чьи|(?:правда|верно|есть|можно) ли|"
    r"(?:who|what|when|where|how)s?|whom|whose|which|why)"
)
AUXILIARY_VERBS = r"(?:is|are|was|were|do|does|did|can|could|will|would|has|have|had|should)"
_QUESTION_WORDS = re.compile(rf"^(?:{QUESTION_WORDS}(?:(?<=how) (?:many|much|long|often))?|{AUXILIARY_VERBS})\s+", re.I)
QUOTED = re.compile(r"[«\"“„]([^»\"”“]{1,80})[»\"”]")
_TAG = re.compile(r"(?<!\w)[#@]\w{2,}")
_NUMBER = re.compile(r"(?<![\w.,])\d{2,}(?!\w|[.,]\d)")
_DROPPED_CATEGORIES = frozenset({"Cf", "Cs", "Co", "Cn"})  # format, surrogate, private use, unassigned
# SQL statements, markup and instructions to a model are removed from queries. Only whole statements, not single words:
# one may ask what DROP TABLE does, or where to select a wine from the list.
_QUANTIFIERS = r"(?:(?:all|any|of|the|these)\s+){0,3}"
_PROMPT_QUALIFIERS = r"(?:(?:your|my|previous|above|prior|earlier|preceding|system)\s+)"
_INSTRUCTION_WORDS = r"(?:instructions?|prompts?|rules|messages|context|directions)\b"
_QUANTIFIERS_RU = r"(?:(?:все|всё|эти|твои|свои|мои|любые|предыдущ\w+|прошл\w+|прежн\w+|системн\w+)\s+){0,4}"
_OVERRIDE_VERBS = r"(?:ignore|disregard|forget|override)\s+"
_STATEMENT_START = r"(?:^|(?<=[.!?;:>\]])|(?<=[.!?;:>\]] ))"
_INJECTION_PATTERN = re.compile(
    r"(?:^|[;'\")(]|union(?:\s+all)?)\s*select\s+[^;]{1,200}?\s+from\s+[\w.\"]+(?:\s+where\s+[^\s;]+)?|"
    r"\bselect\s+\*\s+from\s+[\w.\"]+(?:\s+where\s+[^\s;]+)?|\bunion\s+(?:all\s+)?select\b[^;?]{0,100}|"
    r"\binsert\s+into\s+\w+\s*(?:\(|values\b)[^;?]{0,100}|\b(?:drop|truncate|alter)\s+table\s+(?:if\s+exists\s+)?\w+|"
    r"(?:^|[;'\")(])\s*(?:delete\s+from|update)\s+\w+\s+(?:where|set)\b[^;?]{0,100}|"
    r"\b(?:where|or|and)\s+'?(?P<same>\w{1,20})'?\s*=\s*'?(?P=same)\b'?|"
    r"</?[a-z!][^<>]{0,80}>|<\|[^<>|]{0,40}\|>|\[/?inst\]|"
    rf"\b{_OVERRIDE_VERBS}{_QUANTIFIERS}{_PROMPT_QUALIFIERS}{{1,3}}{_INSTRUCTION_WORDS}|{_STATEMENT_START}{_OVERRIDE_VERBS}{_QUANTIFIERS}{_PROMPT_QUALIFIERS}{{0,3}}{_INSTRUCTION_WORDS}|"
    rf"{_STATEMENT_START}{_OVERRIDE_VERBS}(?:everything|all)\s+(?:above|before)\b|"
    r"\b(?:(?:игнорируй|проигнорируй|забудь|отмени)(?:те)?|не\s+обращай(?:те)?\s+внимания\s+на)\s+"
    rf"{_QUANTIFIERS_RU}(?:инструкци\w+|указани\w+|правила|промпт\w*|команды)(?:\s+выше)?\b|"
    rf"{_STATEMENT_START}(?:system|assistant|user)\s*:",
    re.I,
)


def sanitize_query(text: str) -> str:
    """Sanitize a question: one line, without control and bidi characters, code and instructions to a model."""
    seen = "".join(c for c in text[:_MAX_QUERY_LENGTH] if unicodedata.category(c) not in _DROPPED_CATEGORIES)
    plain = " ".join(fold_characters(seen)[:_MAX_QUERY_LENGTH].split())
    return " ".join(_INJECTION_PATTERN.sub(" ", plain).split())


def generate_query_variants(text: str) -> tuple[str, ...]:
    """Generate further queries beside the question, all with different sets of terms."""
    own = frozenset(tokenize(text))
    if not own:
        return ()
    if len(own) < MIN_QUESTION_TERMS:
        spelt = build_transliterated_query(text, text.split()[:1])
        return (spelt,) if tokenize(spelt) and frozenset(tokenize(spelt)) != own else ()
    names = _extract_names(text)
    bases = dict.fromkeys(filter(None, map(get_surname_base, WORD.findall(text))))
    distinct: dict[tuple[str, ...], str] = {}  # content words by their terms
    for word in WORD.findall(text):
        if word_terms := tuple(tokenize(word)):
            distinct.setdefault(word_terms, word)
    content, named = list(distinct.values()), extract_name_stems(text)
    telling = [word for word in content if word.isdecimal() or not named.isdisjoint(tokenize(word))]
    longest = sorted(content, key=len)[-3:]
    candidates = (
        *(piece.strip(" ?!.,") for piece in _CLAUSE_BREAK.split(text) if len(set(tokenize(piece))) > 1),
        *names,
        " ".join(f"{base} {base}а" for base in bases),  # surnames in both genders, as their stems differ
        build_transliterated_query(text),
        rewrite_as_statement(text),
        " ".join(telling if len(telling) > 1 else [word for word in content if word in longest]),
    )
    # A question of one clause without names also gets three queries, each of its first words without one.
    words = [word[:MAX_QUERY_LENGTH] for word in content[: MAX_QUERY_WORDS + 2]]
    without_one = (" ".join(word for word in words if word != left_out) for left_out in sorted(words, key=len))
    by_terms = {own: text}
    for pieces, most in ((candidates, MAX_QUERIES), (without_one, MIN_QUERIES)):
        for piece in pieces:
            if len(by_terms) >= most:
                break
            query = truncate_query(piece)
            if terms := frozenset(tokenize(query)):
                by_terms.setdefault(terms, query)
    return tuple(by_terms.values())[1:]


def truncate_query(query: str) -> str:
    """Truncate a query to the first words that fit the limits."""
    words = query.split()[:MAX_QUERY_WORDS]
    while words and len(" ".join(words)) > MAX_QUERY_LENGTH:
        words.pop()
    return " ".join(words)


def _extract_names(text: str) -> list[str]:
    """Extract names without the question word before them; a single first word of the question is not a name."""
    names = []
    for run in NAME_PATTERN.finditer(text):
        words = run[0].split()
        while words and not tokenize(words[0]):
            words.pop(0)
        if len(words) > 1 or (words and (run.start() or words[0] != run[0])):
            names.append(" ".join(words))
    return names


def build_transliterated_query(text: str, otherwise: Sequence[str] = ()) -> str:
    """Build one query of the names of a text, or else of other words, in the other script, the likeliest first."""
    names = _extract_names(text) or otherwise
    words = (word for name in names for word in WORD.findall(name) if word[0].isupper() and tokenize(word))
    spelt = zip_longest(*map(transliterate_word, dict.fromkeys(words)), fillvalue="")
    return truncate_query(" ".join(filter(None, chain.from_iterable(spelt))))


def rewrite_as_statement(text: str) -> str:
    """Rewrite a question as a statement: without question words and words that name the kind of answer."""
    statement = _QUESTION_WORDS.sub("", text).strip(" ?!.")
    return " ".join(word for word in statement.split() if not is_asking_word(word)) or text


def extract_search_words(text: str) -> str:
    """Extract the words of a question to search for: those of its topic; the text as it is where it has none."""
    _, asking = detect_answer_type(text)
    words = (word for word in text.split() if not is_asking_word(word) and not asking.issuperset(tokenize(word)))
    return " ".join(words).strip(" ?!.,;:…") or " ".join(text.split())


def extract_phrases(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Extract the required phrases (quotes and tags) and the preferred ones (names and numbers)."""
    quoted = (quote.strip() for quote in QUOTED.findall(text) if len(quote) > 1 and tokenize(quote))
    must = dict.fromkeys((*quoted, *_TAG.findall(text)))
    should = dict.fromkeys((*_extract_names(text), *_NUMBER.findall(text)))
    return tuple(must)[:MAX_PHRASES], tuple(piece for piece in should if tokenize(piece))[:MAX_PHRASES]


_MAX_SOUGHT_WORDS = 5  # unknown words that are looked for in the vocabulary: 20 ms each among 150,000
_SHORT_WORD = 5  # letters
_MIN_LENGTH, _MAX_LENGTH = 4, 30  # letters of a word that is corrected; in four only an exchange of two
_LONG_WORD, _LONG_STEM, _EDITS_OF_LONG_WORD = 8, 6, 2  # letters and edits; in a shorter word one edit
_MAX_CUT = 4  # letters by which a word may be cut off: "postgres" for "PostgreSQL"
_TABLE_FREQUENCY = 3  # posts that a word of our table counts for beside those of the posts
_MIN_TERM = 3  # letters of a term that is read
_MIN_SWITCHED = 3  # letters of a word in the other keyboard layout
_MAX_TEXT = 500  # characters of a question that are corrected: a longer one is no typing on the go
_TYPED = re.compile(r"[^\s!?()«»\"“”]+")
_LATIN_KEYS, _RUSSIAN_KEYS = "`qwertyuiop[]asdfghjkl;'zxcvbnm,.", "ёйцукенгшщзхъфывапролджэячсмитьбю"
_TO_RUSSIAN, _TO_LATIN = str.maketrans(_LATIN_KEYS, _RUSSIAN_KEYS), str.maketrans(_RUSSIAN_KEYS, _LATIN_KEYS)


def correct_spelling(
    text: str,
    list_vocabulary: Callable[[], Sequence[str]],
    frequency: Callable[[str], int],
    is_asking_word: Callable[[str], bool] = lambda word: False,
    is_english_word: Callable[[str], bool] | None = None,
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Correct the words of a question that neither the posts nor a table or dictionary know: the text, and (typed, read as).

    `list_vocabulary` gives terms; those whose `frequency` in the posts that the asker may read is 0 are not used.
    `is_asking_word`: whether a word asks, such as "запостили" or "почом"; posts seldom have them.
    `is_english_word` of a lower-case word; without it English words are left alone.
    """
    read, sought = dict[str, str](), dict[str, str]()

    def is_known(word: str, *, exactly: bool = False) -> bool:
        """Whether a word is one; where not `exactly`, also in English, in the other script, or a surname in any form."""
        term = stem(word)
        if not term or frequency(term) > 0 or is_table_word(word) or is_dictionary_word(word) or is_asking_word(word):
            return True
        if exactly:
            return False
        if word.isascii() and (is_english_word is None or is_english_word(word)):
            return True
        terms = (*(stem(spelt) for spelt in transliterate_word(word)), *list_surname_stems(word.capitalize()))
        return any(frequency(term) for term in terms if term)

    def switch_layout(found: re.Match[str]) -> str:
        typed = found[0].lower()
        if len(typed) < _MIN_SWITCHED or any(is_known(word) for word in LETTERS.findall(typed)):
            return found[0]
        for table in (_TO_RUSSIAN, _TO_LATIN):
            other = typed.translate(table)
            if LETTERS.fullmatch(other) and other.isascii() != typed.isascii() and is_known(other, exactly=True):
                read[found[0]] = other
                return other
        return found[0]

    def correct(found: re.Match[str]) -> str:
        word = found[0].lower()
        if word not in sought:
            if len(sought) >= _MAX_SOUGHT_WORDS or not _MIN_LENGTH <= len(word) <= _MAX_LENGTH or is_known(word):
                return found[0]
            sought[word] = _find_nearest_term(word, list_vocabulary(), frequency)
        if sought[word]:
            read[found[0]] = sought[word]
        return sought[word] or found[0]

    head = text[:_MAX_TEXT]
    return LETTERS.sub(correct, _TYPED.sub(switch_layout, head)) + text[_MAX_TEXT:], tuple(read.items())


def _find_nearest_term(word: str, vocabulary: Sequence[str], frequency: Callable[[str], int]) -> str:
    """Find the term of the posts, the table or the stop words with the fewest edits; a frequent one wins a tie."""
    from rapidfuzz import process
    from rapidfuzz.distance import OSA

    long = len(word) >= _LONG_WORD
    low, high = len(stem(word)) - 1 - long, len(word) + 1 + long
    beginnings = [term for term in vocabulary if long and term.startswith(word) and len(term) <= len(word) + _MAX_CUT]
    vocabulary = [term for term in vocabulary if low <= len(term) <= high]
    ranked = [(1, True, False, -frequency(term), term) for term in beginnings if frequency(term)]
    forms = (word, stem(word), f"{word[:-1]}i" if word.endswith("y") else word)
    for choices, ours in ((vocabulary, False), (list_table_stems(), True), (_STOP_WORDS, True)):
        for typed in dict.fromkeys(forms):
            # a short stem of a long word ("comun" of "comunity") is near to anything
            most = _EDITS_OF_LONG_WORD if long and len(typed) >= _LONG_STEM else 1
            for term, edits, _ in process.extract(typed, choices, scorer=OSA.distance, score_cutoff=most, limit=None):
                swapped, same_start = sorted(term) == sorted(typed), term[:1] == typed[:1]
                # the first letter of a short word is seldom mistyped
                likely = len(typed) > _MIN_LENGTH and (same_start or (edits <= 1 and len(word) > _SHORT_WORD))
                count = _TABLE_FREQUENCY if ours else frequency(term)
                if (swapped or likely) and count and len(term) >= _MIN_TERM and term.isascii() == typed.isascii():
                    ranked.append((edits, not swapped, not same_start, -count, term))
    term = min(ranked)[-1] if ranked else ""
    if term.startswith(word):
        return term
    ending = word[len(stem(word)) :] if word.startswith(stem(word)) else ""
    endings = (f"{term[:-1]}y" if term.endswith("i") else "", term + ending if term and ending else "")
    return next((full for full in endings if full and stem(full) in {term, stem(term)}), term)


_STOP_WORDS = tuple(sorted(word for word in STOP_WORDS if len(word) >= _MIN_LENGTH))


MAX_PARTS = 4
MAX_QUESTION_LENGTH = 400  # characters: a longer text is pasted, not asked
_ASKING = (
    rf"(?:(?:в|во|на|по|до|с|со|из|от|за|к|о|об|у|для|at|in|on|for|from|to|of|by|until|since|with) )?"
    rf"(?:{QUESTION_WORDS}|\w+ ли|{AUXILIARY_VERBS})\b"
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
    low = text.replace("ё", "е")
    cuts = [0, *chain.from_iterable(boundary.span() for boundary in _BOUNDARY.finditer(low)), len(text)]
    pieces = tuple(text[start:end].strip(" ?!,;") for start, end in zip(cuts[::2], cuts[1::2], strict=True))
    first = pieces[0].replace("ё", "е")
    several = 1 < len(pieces) <= MAX_PARTS and all(pieces) and tokenize(first) and _ASKS.search(first)
    whole = all(piece.count("(") == piece.count(")") for piece in pieces)  # what is in brackets is one part
    return pieces if several and whole else (text,)


_LONG_QUERY_TERMS = 14
_AGENT_INTENTS = {Kind.COMPARE, Kind.SUMMARY, Kind.CLAIM, Kind.LIST, Kind.TIMELINE, Kind.HOW_MANY, Kind.POSTED}


_COMPARISON = re.compile(
    r"\b(?:дороже|дешевле|больше|меньше|раньше|позже|старше|моложе|выше|ниже|длиннее|короче|быстрее|лучше|хуже|чаще|реже)\b[^?]*(?:,| )(?:или|чем)\b"
    r"|\b(?:which|who|what)\b[^?]*\b(?:came|was|is|were|are|born|opened|released|started|founded|formed|died|has|had|have|did|happened)\b[^?]*\b(?:first|earlier|later|older|younger|larger|bigger|smaller|longer|taller|higher|cheaper|\w+er|more [\w-]+)\b[^?]*\bor\b"
    r"|\b(?:more|fewer|less|larger|bigger|cheaper|earlier|later|older)\b[^?]*\b(?:or|than)\b(?! (?:so|more|less)\b)[^?]*\?"
    r"|^(?:are|were|is|was|do|did|does|have|has)\b[^?]*\band\b[^?]*\b(?:both|same|each)\b|\bbetween\b[^?]*\band\b[^?]*\b(?:which|who|what)\b"
    r"|\b(?:any|anything) different from\b|\bсравни\w*\b|\bотлича\w+\b|\bразниц\w+\b|\bcompar\w+\b|\bdifference between\b|\bdiffer\b",
    re.IGNORECASE,
)
_SPAN = re.compile(
    r"\bкак (?:менял|изменял|изменил|развива|рос)\w*|\bhow (?:has|have|did)\b[^?]*\b(?:chang|develop|grow|evolv)\w*|\b(?:timeline|хронологи\w+|таймлайн)\b",
    re.IGNORECASE,
)
_COUNT_ASKED = re.compile(r"^(?:а )?(?:сколько раз|как часто|в скольких|how many times|how often)\b", re.IGNORECASE)


def choose_retrievers(plan: Plan) -> tuple[str, str]:
    """Choose the retrievers by the first query of the plan, with the reason."""
    if len(set(tokenize(plan.queries[0]))) >= _LONG_QUERY_TERMS and not plan.should:
        return DENSE_FIRST, "long and without names"
    return HYBRID, "words and meaning"


def route_plan(plan: Plan, text: str) -> Plan:
    """Choose the retrievers of a plan and, as its last reason, the recipe; `text` is the question as it was asked."""
    legs, why_legs = choose_retrievers(plan)
    patterns = (("a comparison", _COMPARISON), ("a span of time", _SPAN), ("a count", _COUNT_ASKED))
    if len(split_question(text)) > 1:
        why = "several parts"
    elif plan.kind in _AGENT_INTENTS:
        why = plan.kind.value.replace("_", " ")
    else:
        why = next((why for why, pattern in patterns if pattern.search(text[:MAX_QUESTION_LENGTH])), "")
    recipe = f"agent: {why}" if why else "direct: short and specific"
    few = ["few queries: too few terms to ask in other words"] if 0 < len(plan.queries) < MIN_QUERIES else []
    return replace(plan, legs=legs, reasons=(f"{legs}: {why_legs}", *few, recipe))


@dataclass(frozen=True, slots=True)
class QueryFilters:
    """Metadata filters found in a question; `channels` is None where none is named.

    `words` are the pieces of the question that became filters, in lower case; `beside` those of them that name
    metadata of a post: its author, origin, media kind or file.
    """

    channels: frozenset[int] | None = None
    authors: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    media: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


_ACCORDING_TO = r"(?:по данным|согласно|как (?:пишет|сообщает)|according to)"
_PLACE_PREPOSITION = rf"(?:в|на|из|у|in|on|from|by|{_ACCORDING_TO})\s+(?:the\s+)?"
_CHANNEL_HANDLE = re.compile(
    rf"(?<![\w/.@])(?:{_PLACE_PREPOSITION})?(?:(?:канал\w*|channel)\s+)?(?:@|(?:https?://)?t(?:elegram)?\.me/(?:s/)?)"
    r"(?:c/(?P<bare>\d{5,15})|(?P<name>[a-z]\w{3,31}))(?:/\d+)?",
    re.I,
)
_IN_CHANNEL = re.compile(
    rf"(?<!\w)(?:(?:{_PLACE_PREPOSITION})?канал\w{{0,3}}\s+(?P<ru>[«\"“][^»\"”]{{1,100}}[»\"”]|[\w-]+)|{_PLACE_PREPOSITION}(?:"
    r"(?P<en>[«\"“][^»\"”]{1,100}[»\"”]|[\w-]+)\s+channel|channel\s+(?P<en2>[«\"“][^»\"”]{1,100}[»\"”]|[\w-]+)))",
    re.I,
)
# "latest post from owl hill", "новости из Заслонки": words of a title after the noun of what a channel publishes.
_PUBLISHED_BY = re.compile(
    r"\b(?:posts?|messages?|news|updates?|digest|summary|recap|happening|new|пост(?:ы|а|ов)?|новост[а-я]{1,2}|дайджест|пересказ|обзор|"
    r"сводка|нового|слышно|пишут|писали|постят|постили)\s+"
    r"(?P<words>(?:(?P<place>in|at|в|на)\s+|(?:from|of|by|with|из|от|с|у)\s+)?(?:the\s+)?(?P<name>(?!(?:про|обо?|по|about|on)\b)[\w-]+(?:\s+[\w-]+){0,3}))",
    re.I,
)
_OF_CHANNELS = ("пишут", "писали", "постят", "постили", "post")
# Many channels have the name of their town: "in New York" is no channel, "in “New York”", "according to New York" are.
_BEFORE_TITLE = re.compile(rf"(?<!\w)(?:{_PLACE_PREPOSITION}(?P<quote>[«\"“„])|{_ACCORDING_TO}\s+(?:the\s+)?)$", re.I)
_MAX_PREPOSITION_LENGTH = 30  # characters of the words before a title
# A name is text in quotes, a @username or capitalized words; else one word.
_CAPITALIZED_WORDS = r"[A-ZА-Я][\w’'-]*(?:\s+[A-ZА-Я\d][\w’'-]*){0,3}"
_WRITTEN_NAME = rf"[«\"“„]([^»\"”“]{{1,60}})[»\"”]|(@[A-Za-z]\w{{2,31}})|({_CAPITALIZED_WORDS})"
_ANY_NAME = rf"(?:{_WRITTEN_NAME}|([^\W\d_][\w’'-]{{2,}}))"
_POST_WORDS = (
    r"(?:пост(?:ы|а|у|е|ов|ом|ам|ами|ах)?|(?:сообщени|публикаци)[а-я]{1,2}|запис(?:ь|и|ей|ью|ям|ях)|posts?|messages?)"
)
_NOT_A_DATE_WORD = r"(?!(?i:mon|tues|wednes|thurs|fri|satur|sun)day|January|February|March|April|May|June|July|August|September|October|November|December)"
# Of each kind of filter what every pattern of it needs, and the patterns: most questions need none of them compiled.
_AUTHORS = (
    re.compile(r"автор|подпис|author|\bby\b", re.I),
    rf"\b(?i:{_POST_WORDS}\s+(?:автора|от автора|за подписью|с подписью|подписанн\w+))\s*:?\s+{_ANY_NAME}",
    rf"\b(?i:{_POST_WORDS}\s+(?:signed by|(?:written |posted |sent )?by (?:the )?author))\s*:?\s+{_ANY_NAME}",
    rf"\b(?i:{_POST_WORDS}\s+(?:written |posted |sent )?by)\s+{_NOT_A_DATE_WORD}(?:{_WRITTEN_NAME})",
    rf"\b(?i:автор|author)\s*:\s*{_ANY_NAME}",
)
_FROM_RU, _FROM_EN = r"(?:из|от|с)\s+(?:канала\s+)?", r"from\s+(?:the\s+)?(?:channel\s+)?"
_ORIGINS = (
    re.compile(r"пересл|репост|форвард|forward|repost", re.I),
    rf"\b(?i:переслано\s+{_FROM_RU}){_ANY_NAME}",
    rf"\b(?i:(?:пересланн\w+\s+{_POST_WORDS}|{_POST_WORDS},?\s+пересланн\w+|(?:репост|форвард)(?:ы|а|ов|е|ах)?)\s+{_FROM_RU}){_ANY_NAME}",
    rf"\b(?i:(?:forwards|reposts|(?:forwarded|reposted)\s+{_POST_WORDS})\s+{_FROM_EN}){_ANY_NAME}",
    rf"\b(?i:(?:{_POST_WORDS}|^what)\s+(?:(?:that\s+)?(?:was|were|is|are|has been|have been)\s+)?(?:forwarded|reposted)\s+{_FROM_EN}){_ANY_NAME}",
)
_DOCUMENTS = "pdf|docx?|xlsx?|pptx?|odt|ods|rtf|csv|epub|fb2|djvu|zip|rar|7z|apk"
_FILE = r"[\w()+][\w().+-]*"
_FILES = (
    re.compile(r"\.\w"),
    r"\b(?i:(?:файл|документ|вложени)[а-я]{0,3}|files?|documents?|attachments?)(?i:\s+(?:под названием|с названием|named|called))?\s+"
    rf"(?:[«\"“„]([^»\"”“/\\]{{1,80}}\.[A-Za-z\d]{{2,5}})[»\"”]|({_FILE}\.(?=\w*[A-Za-z])[A-Za-z\d]{{2,5}})(?!\w))",
    rf"(?<![\w./@:-])({_FILE}\.(?i:{_DOCUMENTS}))(?!\w)",
)
_SHOW_PREFIX = r"^\W*(?:покажи|найди|show|find)(?:\s+(?:мне|все|me|all|the|a|any))*"
_WITH_WORDS = r"(?:,?\s+(?:с|со|где есть|with|containing)(?:\s+(?:an?|any|some))?)"
_MEDIA_WORDS = {
    "photo": r"(?:фото|фотографи\w{1,3}|картинк\w{1,3}|photos?|pictures?|images?)",
    "video": r"(?:видео|видеозапис\w{1,3}|видеоролик\w{0,3}|videos?)",
    "document": r"(?:документ[а-я]{0,3}|файл[а-я]{0,3}|вложени[а-я]{1,3}|pdf|documents?|files?|attachments?)",
    "poll": r"(?:опрос[а-я]{0,3}|голосовани[а-я]{1,3}|polls?)",
}
# By kind, a word of it, which most questions do without, and the phrases in which it is one.
_MEDIA = {
    kind: (
        rf"(?i){what}",
        rf"(?i)\b{_POST_WORDS}{_WITH_WORDS}\s+{what}\b|{_SHOW_PREFIX}\s+{what}\b|\b{what}\s+posts?\b|\b{what}\s+posted\b|"
        rf"\b{_POST_WORDS}\b[^.?!]{{1,60}}?(?P<end>{_WITH_WORDS}\s+{what})\W*$",
    )
    for kind, what in _MEDIA_WORDS.items()
}
_MIN_TITLE_LENGTH = 4  # characters: a shorter title is not searched for
_MAX_TITLE_WORDS, _MAX_MASKED = 4, 200  # words of a name in a question, characters of the question


def parse_filters(asked: str, readable: Mapping[int, Channel]) -> QueryFilters:
    """Parse the filters in a question without ё; a channel that is not among the readable ones is no filter.

    Capital letters mark the end of a name of several words; in a lower-case question a name is one word.
    """
    origins, of_origins, rest = _match_names(*_ORIGINS, asked=asked)  # "forwarded from @x" is not "from @x"
    files, of_files, _ = _match_names(*_FILES, asked=rest)
    authors, of_authors, _ = _match_names(*_AUTHORS, asked=rest)
    channels, of_channels = _find_channels(rest, readable)
    kinds = {
        kind: (match["end"] or match[0]).strip(" ,").lower()
        for kind, (word, phrases) in _MEDIA.items()
        if compile_pattern(word).search(rest) and (match := compile_pattern(phrases).search(rest))
    }
    beside = tuple(dict.fromkeys((*of_origins, *of_files, *of_authors, *kinds.values())))
    return QueryFilters(channels, authors, origins, tuple(kinds), files, (*of_channels, *beside), beside)


def _match_names(needed: re.Pattern[str], *patterns: str, asked: str) -> tuple[tuple[str, ...], tuple[str, ...], str]:
    """Match the names of a filter, the pieces of the question that hold them, and the rest with blanks in their place."""
    # each once: a question of 4,000 characters may repeat a piece 300 times
    names, pieces, rest = dict[str, None](), dict[str, None](), asked
    for pattern in patterns if needed.search(asked) else ():
        for match in compile_pattern(pattern).finditer(rest):
            names |= {name.strip(" .'’"): None for name in match.groups() if name}
            pieces[match[0].lower()] = None
        for piece in pieces:
            rest = re.sub(re.escape(piece), " " * len(piece), rest, flags=re.I)
    return tuple(names), tuple(pieces), rest


def _find_channels(asked: str, readable: Mapping[int, Channel]) -> tuple[frozenset[int] | None, tuple[str, ...]]:
    chosen: dict[str, set[int]] = {}
    for match in _CHANNEL_HANDLE.finditer(asked):
        name, bare = (match["name"] or "").lower(), match["bare"] and int(f"-100{match['bare']}")
        here = (key for key, c in readable.items() if (key == bare if bare else (c.username or "").lower() == name))
        chosen[match[0].lower()] = set(here)
    for match in _IN_CHANNEL.finditer(asked):
        name = (match["ru"] or match["en"] or match["en2"] or "").strip('«»"“”')
        chosen[match[0].lower()] = match_channel_name(name.lower(), readable)
    for match in _PUBLISHED_BY.finditer(asked):
        words, pieces = match["name"].lower().split(), match["words"].lower()
        for length in range(len(words), 0, -1):
            name = " ".join(words[:length])
            keys = match_channel_name(name, readable)
            # "новости в Москве" is news of the town, "posts in habr_com" and "что пишут в Заслонке" are posts of a channel
            of_place = match["place"] and not match[0].lower().startswith(_OF_CHANNELS)
            if keys and not (of_place and all((readable[key].username or "").lower() != name for key in keys)):
                chosen[pieces[: pieces.rindex(name) + len(name)]] = keys
                break
    low, titled = asked.lower(), defaultdict[str, set[int]](set)
    for key, channel in readable.items():  # the whole title after words that introduce a channel
        title = channel.title.lower().replace("ё", "е")
        at = low.find(title) if len(title) >= _MIN_TITLE_LENGTH else -1
        before = _BEFORE_TITLE.search(low, max(0, at - _MAX_PREPOSITION_LENGTH), at) if at > 0 else None
        end = at + len(title)
        if before and not low[end : end + 1].isalnum():
            titled[low[before.start() : end + bool(before["quote"])]].add(key)
    chosen |= titled
    ids = frozenset[int]().union(*chosen.values())
    return ids or None, tuple(words for words, keys in chosen.items() if keys)


def match_channel_name(name: str, readable: Mapping[int, Channel]) -> set[int]:
    """Channels whose username is the name, or whose title contains its words."""
    exact = {key for key, c in readable.items() if c.username and c.username.lower() == name}
    if exact or len(name) < _MIN_TITLE_LENGTH:
        return exact
    wanted = set(tokenize(name))
    return {key for key, c in readable.items() if wanted and wanted <= set(tokenize(c.title))}


def mask_channel_names(asked: str, readable: Mapping[int, Channel], lang: str) -> str:
    """Replace the words of a question that name a readable channel by "channel": "what's new at the channel?"."""
    words, masked = asked[:_MAX_MASKED].split(), list[str]()
    in_titles = frozenset(term for one in readable.values() for term in tokenize(one.title))
    usernames = {one.username.lower() for one in readable.values() if one.username}

    def names_channel(count: int) -> bool:
        name = " ".join(words[:count]).strip('@«»"?!.,')
        if name not in usernames and not in_titles.issuperset(tokenize(name)):
            return False  # the titles are gone through for few words only
        own = tokenize(words[0]) and tokenize(words[count - 1]) and any(map(may_be_name, words[:count]))
        return bool(own and match_channel_name(name, readable))

    while words:
        named = next(filter(names_channel, range(min(len(words), _MAX_TITLE_WORDS), 0, -1)), 0)
        masked.append(("канал" if lang == "ru" else "channel") if named else words[0])
        words = words[max(named, 1) :]
    return " ".join(masked)


def find_named_channel(name: str, readable: Mapping[int, Channel]) -> Channel | None:
    """Find the channel that a command names: as `find_channel`, else the only one whose title has all the words."""
    if exact := find_channel(name, readable):
        return exact
    named = match_channel_name(fold_case(name).strip(), readable)
    return readable[named.pop()] if len(named) == 1 else None
