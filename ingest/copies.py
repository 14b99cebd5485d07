"""Near-duplicate detection: MinHash fingerprints of posts, and the only writer of the copies table.

Exact duplicates have the same words and numbers in the same order; case, ё/е, punctuation, links, @mentions, emoji
and a channel's footers (calls to subscribe, credits, rows of links) are ignored. Of two near-duplicates one holds
every word of the other in the same order and little more, and both state the same facts: numbers, dates, names,
negations. So a corrected price, a "не" or another name makes another post. A watermark says which changes are still
to be read.
"""

import asyncio
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from itertools import pairwise

from rensa import RMinHash

from rag_core.storage import Archive, near_duplicates, posts, visible_posts
from rag_core.storage.near_duplicates import NEAR_COPY_MAX_S, CopyRow
from rag_core.storage.posts import PostChange
from rag_core.text.tokens import WORD, normalize_characters, stem
from rag_core.types import Post

_LABELLED_LINK_PATTERN = re.compile(r"\[([^\]\n]*)\]\((?:https?|tg)://[^)\s]*\)")
# Links to a channel itself; a link to one of its posts may carry a headline.
_LABELLED_CHANNEL_PATTERN = re.compile(
    r"\[([^\]\n]*)\]\(https?://(?:t|telegram)\.me/(?:\+|joinchat/)?[\w-]+(?:\?[^)\s]*)?\)", re.IGNORECASE
)
_LINK_PATTERN = re.compile(
    r"(?:https?|tg)://[^\s)\]]+|(?<![\w.])(?:t\.me|telegram\.me|max\.ru|vk\.com)/[^\s)\]]+|(?<![\w.])@\w+"
)
_CHANNEL_ADDRESS_PATTERN = re.compile(r"(?<![\w.])(?:https?://)?(?:t|telegram)\.me/[\w+-]+(?![\w/])|(?<![\w.])@\w+")
_HASHTAG_PATTERN = re.compile(r"(?<!\w)#\w+")
_TRAILING_HASHTAGS_PATTERN = re.compile(r"(?:\s*#\w+)+\s*$")
_QUOTED_PATTERN = re.compile(r"«[^»]*»|\"[^\"]*\"")
_SENTENCE_STOP_PATTERN = re.compile(r"\w\W*[.!?…]\W*$")

_SUBSCRIBE_EXPRESSION = (
    r"(?:подпи(?:саться|сывайся|сывайтесь|шись|шитесь)|присоединя(?:йся|йтесь)|subscribe|join us|join our|follow us)\b"
)
_SUBSCRIBE_PATTERN = re.compile(rf"\b{_SUBSCRIBE_EXPRESSION}", re.IGNORECASE)
# Matches "Подпишись на ...", "🔥 Mash. Подпишись", but not "как подписаться на".
_LEADING_SUBSCRIBE_PATTERN = re.compile(rf"(?:\W*|.*[^\w\s]\W*){_SUBSCRIBE_EXPRESSION}|.*\|", re.IGNORECASE)
_CREDIT_PATTERN = re.compile(
    r"\W*(?:(?:источник|оригинал|фото|видео|source|via|photo|video)\s*[:—–-]|©|\([сc]\)|via\b)", re.IGNORECASE
)
# At the beginning of a post this is a headline: "Video: the bridge".
_PICTURE_CREDIT_PATTERN = re.compile(r"\W*(?:фото|видео|photo|video)\s*[:—–-]\s*\w", re.IGNORECASE)
# A line of these words only is a signature.
_SIGNATURE_WORDS = (
    "подписаться прислать предложить написать новость новости наш наша наши канал каналы чат группа бот сайт "
    "сообщество телеграм телеграме телеграмм тг telegram макс max вк вконтакте vk дзен youtube ютуб rutube рутуб "
    "x twitter твиттер instagram facebook реклама сотрудничество редакция помощь обратная связь больше еще все "
    "далее также читать читайте читай смотрите смотреть слушать обсудить подробнее подробности полностью ссылка "
    "тут здесь перейти источник оригинал фото видео подкаст нас нам мы нами на в во и к с по у о за для про это "
    "boost буст голосовать проголосовать поддержать "
    "subscribe join follow us our we channel chat group bot site website news source photo video more read here "
    "link via on in to the and full story"
)
_MAX_FOOTER_CHARACTERS = 200  # characters, without links
_MAX_SUBSCRIBE_WORDS = 8  # words of a call to subscribe, including the channel's name
_MAX_LINKED_SUBSCRIBE_WORDS = 16  # the same with a link
_MAX_FOOTER_ROW_WORDS = 6
_MAX_SIGNATURE_WORDS = 3  # words beside a channel's address: "Новости Твери @tver"
_MIN_SIGNATURE_WORDS = 3  # signature words from which a quoted name beside them counts as a channel's name
_MAX_CHANNEL_NAME_WORDS = 8  # words in the names of linked channels
_MAX_CREDIT_WORDS = 6


def strip_footers(text: str) -> str:
    """Remove links, mentions, and the footers at the beginning and end of a post."""
    lines = [line for line in text.split("\n") if line.strip()]
    first, last = 0, len(lines)
    while first < last and _is_footer(lines[last - 1]):
        last -= 1
    while first < last and _is_footer(lines[first]) and not _PICTURE_CREDIT_PATTERN.match(lines[first]):
        first += 1
    own = _LABELLED_LINK_PATTERN.sub(r"\1", "\n".join(lines[first:last]))
    own = _LINK_PATTERN.sub(" ", own)
    return _TRAILING_HASHTAGS_PATTERN.sub("", own) if "#" in own else own


def write_out_links(post: Post) -> str:
    """Text of a post with its hidden links to channels written out: they tell a signature from a headline."""
    hidden = [e for e in post.entities if e.type == "text_link" and e.url and "t.me/" in e.url]
    if not hidden:
        return post.text
    units = post.text.encode("utf-16-le", "surrogatepass")
    for entity in sorted(hidden, key=lambda e: -e.offset):
        start, end = 2 * entity.offset, 2 * (entity.offset + entity.length)
        label = units[start:end].decode("utf-16-le", "replace")
        replacement = f"[{label}]({entity.url})" if "\n" not in label else label
        units = units[:start] + replacement.encode("utf-16-le", "replace") + units[end:]
    return units.decode("utf-16-le", "replace")


def _is_footer(line: str) -> bool:
    if len(line) > _MAX_FOOTER_CHARACTERS and "/" not in line and "@" not in line:
        return False
    linked = bool(_LINK_PATTERN.search(line))
    if "](" in line:
        named = _LABELLED_CHANNEL_PATTERN.findall(line)
        if len(_split_words(" ".join(named))) <= _MAX_CHANNEL_NAME_WORDS:
            line = _LABELLED_CHANNEL_PATTERN.sub(" @channel ", line)
        line = _LABELLED_LINK_PATTERN.sub(r"\1", line)
    bare = _HASHTAG_PATTERN.sub(" ", _LINK_PATTERN.sub(" ", line))
    if len(bare) > _MAX_FOOTER_CHARACTERS:
        return False
    words = _split_words(bare)
    unquoted = _split_words(_QUOTED_PATTERN.sub(" ", bare)) if "«" in bare or '"' in bare else []
    compared = (words, unquoted) if len(unquoted) >= _MIN_SIGNATURE_WORDS else (words,)
    if any(_stem_signature_words().issuperset(_stem_words(one)) for one in compared):
        return True
    if not linked and any(word.isdigit() for word in words):
        return False
    if _SUBSCRIBE_PATTERN.search(bare):
        unlinked = _MAX_SUBSCRIBE_WORDS if _LEADING_SUBSCRIBE_PATTERN.match(bare) else 0
        return len(words) <= (_MAX_LINKED_SUBSCRIBE_WORDS if linked else unlinked)
    if _CREDIT_PATTERN.match(bare):
        return len(words) <= _MAX_CREDIT_WORDS
    if not _CHANNEL_ADDRESS_PATTERN.search(line):
        return False
    few = len(words) <= _MAX_SIGNATURE_WORDS
    if few and not any(map(str.isdigit, words)) and not _SENTENCE_STOP_PATTERN.search(bare):
        return True
    return "|" in bare and len(words) <= _MAX_FOOTER_ROW_WORDS


@cache
def _stem_signature_words() -> frozenset[str]:
    return frozenset(_stem_words(_SIGNATURE_WORDS.split()))


def _split_words(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("ё", "е"))


_MIN_NEAR_DUPLICATE_WORDS = 5  # words: in a shorter text one word makes another text
BANDS = 6
_ROWS_PER_BAND = 3  # texts that share 4 of 5 words meet in a band with 98.6 %, those that share 1 of 3 with 20 %
_MIN_SHARED_WORDS = 0.8  # share of the longer text's words that the shorter holds
_MIN_SHARED_PAIRS = 0.5  # share of the shorter text's word pairs that a rewording holds
_MINHASH_SEED = 7
_FINGERPRINT_VERSION = 1  # raise it with every change of the comparison

# Invisible characters: soft hyphens, stress marks, zero-width marks; and emoji digits.
_INVISIBLE_PATTERN = re.compile("[\u00ad\u0301\u200b-\u200f\u2060\ufeff]|[0-9#*]\ufe0f?\u20e3")
# A word; a number; a sign that says what is counted; a minus; what ends a sentence. Told apart by the first character.
_COMPARED_TOKEN_PATTERN = re.compile(
    r"[^\W\d_]+"
    r"|\d{1,3}(?:[ \u00a0\u2009\u202f]\d{3})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,:]\d+)*"
    r"|[%‰$€£₽₴¥]"
    r"|(?<![^\s(«\"])[-−–](?=\d)"
    r"|[.!?…\n]+"
)
_SENTENCE_END_TOKENS, _MINUS_SIGNS = frozenset(".!?…\n"), frozenset("-−–")

_DATE_WORDS = """
январь января январе февраль февраля феврале март марта марте апрель апреля апреле май мая мае июнь июня июне июль июля
июле август августа августе сентябрь сентября сентябре октябрь октября октябре ноябрь ноября ноябре декабрь декабря
декабре зимой весной летом осенью утром днем вечером ночью полдень полудня полночь полуночи
january february march april may june july august september october november december morning afternoon evening night
"""
_RELATIVE_DATE_WORDS = """
сегодня вчера завтра послезавтра позавчера накануне неделе неделю понедельник понедельника понедельнику вторник вторника
вторнику среда среду среды среде четверг четверга четвергу пятница пятницу пятницы пятнице суббота субботу субботы
субботе воскресенье воскресенья воскресенью today yesterday tomorrow tonight week monday tuesday wednesday thursday
friday saturday sunday
"""
_NUMBER_WORDS = """
ноль один одна одно одного одной два две двух двое три трех трое четыре четырех четверо пять пяти шесть шести семь семи
восемь восьми девять девяти десять десяти сто двести тысяча тысячи тысяч тыс миллион миллиона миллионов млн миллиард
миллиарда миллиардов млрд триллион триллионов трлн первый первая первое первого первой второй вторая второе второго
третий третья третье третьего половина половину половины треть трети четверть четверти полтора вдвое втрое дважды трижды
zero one two three four five six seven eight nine ten hundred thousand million billion trillion first second third half
twice
"""
# Words that change the meaning most: negation, restriction, doubt, retraction.
_NEGATION_WORDS = """
не ни нет нельзя без никто никого никому ничто ничего никогда никак нигде никакой никаких кроме вместо
not no nor never none nobody nothing neither without cannot except instead don doesn didn isn aren wasn weren won
wouldn shouldn couldn can hasn haven hadn
"""
_DOUBT_WORDS = """
якобы едва чуть почти лишь только возможно вероятно бывший бывшая экс фейк ложь неправда слухи опровергли опроверг
опровержение отменили отменен отменена обновлено обновление уточнение исправлено upd update updated corrected correction
fake false denied former allegedly almost only possibly cancelled canceled
"""
_FACT_TOKENS = frozenset(f"{_DATE_WORDS} {_RELATIVE_DATE_WORDS} {_NUMBER_WORDS} {_DOUBT_WORDS}".split())
_NEGATION_TOKENS = frozenset(_NEGATION_WORDS.split())
_RELATIVE_DATE_TOKENS = frozenset(_RELATIVE_DATE_WORDS.split())


@dataclass(frozen=True, slots=True)
class ComparedText:
    """Text prepared for comparison: all its words in lower case, and its facts, in order."""

    all: tuple[str, ...]
    facts: tuple[str, ...]

    @property
    def today(self) -> bool:
        """Check for relative dates ("tomorrow", "on Friday"): the same words mean another day later."""
        return not _RELATIVE_DATE_TOKENS.isdisjoint(self.all)


def parse_compared_text(text: str) -> ComparedText:
    """Prepare a text for comparison; one with footers only has no words."""
    own_text = strip_footers(normalize_characters(_INVISIBLE_PATTERN.sub("", unicodedata.normalize("NFC", text))))
    tokens = [""]  # an empty token marks the beginning or end of a sentence
    names: set[int] = set()  # indexes of capitalised words inside a sentence, and of all-capital words such as ЦБ
    for token in _COMPARED_TOKEN_PATTERN.findall(own_text):
        first = token[0]
        if first in _SENTENCE_END_TOKENS:
            tokens.append("")
            continue
        if first.isupper() and (tokens[-1] or (len(token) > 1 and token.isupper())):
            names.add(len(tokens))
        if first.isdigit():  # "1 000,5" and "1000.5", "10:30" and "10.30" become equal
            token = re.sub(r"\s", "", token).replace(",", ".").replace(":", ".")
        tokens.append("минус" if first in _MINUS_SIGNS else token)
    tokens.append("")
    low = "\0".join(tokens).lower().replace("ё", "е").split("\0")
    facts = []  # a number with the words beside it, a negation with the word after it, names and fact words
    for at, token in enumerate(low):
        if token[:1].isdigit():
            facts.append(" ".join(low[at - 1 : at + 2]))
        elif token in _NEGATION_TOKENS:
            facts.append(f"{token} {low[at + 1]}")
        elif at in names or token in _FACT_TOKENS:
            facts.append(token)
    return ComparedText(tuple(filter(None, low)), tuple(facts))


def hash_exact_text(words: ComparedText) -> bytes:
    """Hash of 16 bytes, equal for exact duplicates; empty for a text without words."""
    return blake2b(" ".join(words.all).encode("utf-8", "surrogatepass"), digest_size=16).digest() if words.all else b""


def compute_minhash_bands(words: ComparedText) -> tuple[int, ...]:
    """Bands of a MinHash signature: signed 64-bit numbers, one at least shared by near-duplicates; none if short."""
    if len(words.all) < _MIN_NEAR_DUPLICATE_WORDS:
        return ()
    sketch = RMinHash(num_perm=BANDS * _ROWS_PER_BAND, seed=_MINHASH_SEED)
    sketch.update(_stem_words(set(words.all)))
    rows = sketch.digest()
    facts = "\0".join(words.facts)
    bands = []
    for at in range(0, len(rows), _ROWS_PER_BAND):
        band = f"{at} {rows[at : at + _ROWS_PER_BAND]} {facts}".encode("utf-8", "surrogatepass")
        bands.append(int.from_bytes(blake2b(band, digest_size=8).digest(), "big", signed=True))
    return tuple(bands)


def _stem_words(words: Iterable[str]) -> list[str]:
    return [stem(word) or word for word in words]


def are_duplicates(one: ComparedText, other: ComparedText) -> bool:
    """Check for exact duplicates, or near-duplicates with the same facts. Texts without words are never duplicates."""
    shorter, longer = sorted((one, other), key=lambda words: len(words.all))
    if one.all == other.all or len(shorter.all) < _MIN_NEAR_DUPLICATE_WORDS:
        return one.all == other.all != ()
    if len(shorter.all) < _MIN_SHARED_WORDS * len(longer.all) or one.facts != other.facts:
        return False
    rest = iter(_stem_words(longer.all))
    return all(word in rest for word in _stem_words(shorter.all))


def are_rewordings(one: str, other: str) -> bool:
    """Check whether the shorter text rewords the other: half of its word pairs, and all its numbers, stand in that.

    Looser than `are_duplicates`: for texts that already have something in common, such as a watch that both match.
    """
    shorter, longer = sorted(map(parse_compared_text, (one, other)), key=lambda words: len(words.all))
    if len(shorter.all) < _MIN_NEAR_DUPLICATE_WORDS:
        return False
    pairs, others = (set(pairwise(_stem_words(text.all))) for text in (shorter, longer))
    numbers = {word for word in shorter.all if word[0].isdigit()}
    return numbers.issubset(longer.all) and len(pairs & others) >= _MIN_SHARED_PAIRS * len(pairs)


@cache
def describe_fingerprint() -> str:
    """Version of the fingerprint, with what the library computes: signatures of another version cannot be compared."""
    few = parse_compared_text("a few words and no more")
    many = parse_compared_text(" ".join(chr(97 + n % 26) * (1 + n // 26) for n in range(400)))
    bands = compute_minhash_bands(few)[0], compute_minhash_bands(many)[0]
    return f"{_FINGERPRINT_VERSION} {hash_exact_text(many).hex()} {bands[0]} {bands[1]}"


_BATCH_CHANGES = 500  # changes at a time: about 0.2 s of work, 20 ms of it holding the archive's write lock

_Fingerprints = Sequence[tuple[CopyRow, ComparedText]]
_TextsByBand = dict[int, dict[bytes, ComparedText]]  # band -> text hash -> text


class CopyIndexer:
    """Indexer of duplicate posts in the archive. One per process."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._turn = asyncio.Lock()

    async def catch_up(self, progress: Callable[[int], None] = lambda done: None) -> int:
        """Process the changes since the watermark; return their number.

        `progress` gets the number of changes done so far. Raises ArchiveUnavailable; finished batches stay saved.
        """
        archive, done = self._archive, 0
        async with self._turn:
            mark = await near_duplicates.load_copy_watermark(archive, describe_fingerprint())
            while batch := await posts.list_post_changes(archive, mark, _BATCH_CHANGES):
                ready = await asyncio.to_thread(_fingerprint_posts, batch)
                near = await self._find_near_texts([row for row, _ in ready if row.bands])
                pairs = await asyncio.to_thread(_find_duplicate_pairs, ready, near)
                after, keys = batch[-1].seq, [change.key for change in batch]
                if await near_duplicates.save_copies(archive, mark, after, [row for row, _ in ready], keys, pairs):
                    mark = after
                else:  # another process was faster
                    mark = await near_duplicates.load_copy_watermark(archive, describe_fingerprint())
                done += len(batch)
                progress(done)
        return done

    async def waiting(self) -> int:
        """Count the changes still to process."""
        return await near_duplicates.count_uncompared_changes(self._archive, describe_fingerprint())

    async def _find_near_texts(self, rows: Sequence[CopyRow]) -> _TextsByBand:
        if not rows:
            return {}
        moments = [row.written for row in rows]
        since, until = min(moments) - NEAR_COPY_MAX_S, max(moments) + NEAR_COPY_MAX_S
        found = await near_duplicates.find_texts_by_band(self._archive, [row.bands for row in rows], since, until)
        keys = {key for texts in found.values() for key in texts.values()}
        stored = await visible_posts.fetch_posts(self._archive, keys)

        def parse() -> _TextsByBand:
            words = {key: parse_compared_text(write_out_links(post)) for key, post in stored.items()}
            exact = {key: hash_exact_text(one) for key, one in words.items()}
            return {
                band: {text: words[key] for text, key in texts.items() if exact.get(key) == text}
                for band, texts in found.items()
            }

        return await asyncio.to_thread(parse)


def _fingerprint_posts(batch: Sequence[PostChange]) -> _Fingerprints:
    fingerprints = []
    for change in batch:
        if change.post is not None and (words := parse_compared_text(write_out_links(change.post))).all:
            written = int(((change.post.origin and change.post.origin.date) or change.post.date).timestamp())
            hashes = hash_exact_text(words), compute_minhash_bands(words)
            fingerprints.append((CopyRow(change.key, change.seq, written, words.today, *hashes), words))
    return fingerprints


def _find_duplicate_pairs(ready: _Fingerprints, near: _TextsByBand) -> set[tuple[bytes, bytes]]:
    """Find pairs of duplicate texts; all texts of a band are compared, so that no third text decides on a pair."""
    duplicates: set[tuple[bytes, bytes]] = set()
    compared: set[tuple[bytes, bytes]] = set()
    for row, words in ready:
        for band in row.bands:
            texts = near.setdefault(band, {})
            for text, others in texts.items():
                pair = (text, row.exact)
                if text != row.exact and pair not in compared:
                    compared |= {pair, (row.exact, text)}
                    if are_duplicates(words, others):
                        duplicates.add(pair)
            texts[row.exact] = words
    return duplicates
