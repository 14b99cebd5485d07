"""Word comparison for verification: folding, stemming, antonyms, synonyms, aliases, and an index of similar words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from rag_core.text.names import is_cyrillic, is_name_variant, skeletons
from rag_core.text.tokens import measure_stem_similarity, normalize_characters, stem

_WORD = re.compile(r"[^\W_](?:[\w\u0300-\u036f]|(?<=[^\W\d_])['’ʼ](?=[^\W\d_]))*")
_SENTENCE_OPENING = re.compile(r"(?:^|[.!?…:\n])[\s\"'«“„(\[—–\-*•]*$")
_MOST_MARKS = 40  # quotes, brackets and spaces between two sentences
_REMOVED_MARKS = str.maketrans("", "", "'’‘`ʼʿʾ\u0300\u0301\u0302\u0304\u0306\u0308\u0323")
_LONG_VOWELS = str.maketrans("āīūēōḥṣḍṭẓ", "aiueohsdtz")


@dataclass(frozen=True, slots=True)
class Word:
    """Word with its position; `stem` is empty for a stop word, `opens` marks the first word of a sentence."""

    low: str
    stem: str
    start: int
    end: int
    capital: bool
    opens: bool


def fold_text(text: str) -> str:
    """Fold a text to lower case, ё to е, accented letters to plain ones; the length and all offsets stay the same."""
    plain = text if text.isascii() else normalize_characters(text)
    folded = plain.lower()  # of some characters it makes two
    if len(folded) != len(plain):
        folded = "".join(low if len(low := c.lower()) == 1 else c for c in plain)
    return folded.replace("ё", "е")


@lru_cache(maxsize=1024)
def split_words(text: str) -> tuple[Word, ...]:
    """Split a text into words, in order. "America's" becomes "america", "Muʿāwiyah" becomes "muawiyah"."""
    low = fold_text(text)
    found = []
    for match in _WORD.finditer(low):
        folded = re.sub(r"['’]s$", "", match[0])
        folded = folded if re.search(r"n['’]t$", folded) else folded.translate(_LONG_VOWELS).translate(_REMOVED_MARKS)
        capital = text[match.start()].isupper()
        opens = capital and bool(_SENTENCE_OPENING.search(text, max(0, match.start() - _MOST_MARKS), match.start()))
        bare = "" if folded.endswith(("n't", "n’t")) or folded == "cannot" else stem(folded)
        found.append(Word(folded, bare, match.start(), match.end(), capital, opens))
    return tuple(found)


# Synonyms / their antonyms.
_OPPOSITE_PAIRS = """
приостановил приостановила приостановили приостановлен приостановлена приостановлены приостановка приостановить / возобновил возобновила возобновили возобновлен возобновлены восстановил восстановила восстановили восстановлен восстановлены восстановление возобновление
действует действуют работает / отменен отменена отменено отменены упразднен упразднена упразднены недействителен недействительна прекращен прекращены
suspend suspended suspends halt halted paused / resume resumed resumes restore restored restart restarted
вырос выросла выросли вырасти рост растет растут расти увеличил увеличила увеличили увеличилась увеличился увеличить увеличение увеличивается повысил повысила повысили повысились повысился повысилась повышение повысить поднялся поднялась поднялись подорожал подорожали подорожание прибавил / упал упала упали падение падает снизил снизила снизили снизился снизилась снизились снижение снизить уменьшил уменьшила уменьшился уменьшилась уменьшились уменьшение уменьшить сократил сократила сократился сократилась сократились сокращение сократить понизил понизили понижение подешевел подешевели опустился опустилась
открыл открыла открыли открыт открыта открыты открыто открыть открывает открывается открылся открылась открылось открылись откроется откроют открытие / закрыл закрыла закрыли закрыт закрыта закрыты закрыто закрыть закрывает закрывается закрылся закрылась закрылись закроется закроют закрытие
начал начала начали начался началась началось начались начать начало начнется начнут начинает начинается стартовал стартовала стартует / закончил закончила закончили закончился закончилась закончилось закончились закончить конец окончание закончится завершил завершила завершили завершился завершилась завершилось завершились завершить завершится завершение прекратил прекратили прекратить прекращение
разрешил разрешила разрешили разрешен разрешена разрешено разрешены разрешить разрешение разрешает позволил позволяет / запретил запретила запретили запрещен запрещена запрещено запрещены запретить запрет запрещает
включил включили включен включена включить включает / исключил исключили исключен исключена исключить исключает
включил включили включен включить / выключил выключили выключен выключить отключил отключили отключен отключить отключение
победил победила победили победа выиграл выиграла выиграли выиграть победить / проиграл проиграла проиграли поражение проиграть уступил уступила уступили
купил купила купили купить покупка покупает приобрел / продал продала продали продать продажа продает
принял приняла приняли принять принят принята принято одобрил одобрила одобрили одобрить одобрен одобрена / отклонил отклонила отклонили отклонить отклонен отверг отвергла отвергли отказал отказала отказали отказался отказалась отказались отказаться отказывается
поддержал поддержала поддержали поддерживает поддержать поддержка / осудил осудила осудили осуждает раскритиковал раскритиковала раскритиковали критикует
подтвердил подтвердила подтвердили подтверждает подтвердить подтверждение / опроверг опровергла опровергли опровергает опровергнуть опровержение
подтвердил подтверждает признал признала признали признает / отрицал отрицает отрицают отрицали
приехал прибыл прибыла прибыли прилетел прилетела прибытие прибудет / уехал убыл отбыл улетел улетела покинул покинула отъезд отправился
вошел вошла вошли войти вступил вступила / вышел вышла вышли выйти покинул покинула
больше более выше дороже / меньше менее ниже дешевле
большой большая большое большие крупный крупная крупные большим большого крупного / маленький маленькая маленькие небольшой небольшая мелкий мелкая мелкие малый малого
высокий высокая высокие высокое высокого / низкий низкая низкие низкое низкого
новый новая новое новые нового новой новых / старый старая старое старые старого старой старых прежний прежняя прежние прежнего
первый первая первое первые первого первой / последний последняя последнее последние последнего последней
хороший хорошая хорошее хорошие хорошо лучший лучшая лучшие / плохой плохая плохое плохие плохо худший худшая худшие
улучшил улучшила улучшили улучшился улучшилась улучшить улучшение / ухудшил ухудшила ухудшили ухудшился ухудшилась ухудшить ухудшение
успешно успешный успех удалось удачно / неудачно неудача провал безуспешно провалился
платно платный платная платные платное / бесплатно бесплатный бесплатная бесплатные бесплатное
быстрый быстро быстрее быстрая / медленный медленно медленнее медленная
сильный сильная сильно сильнее усилил усилила усилили усилить усиление усилился усилилась / слабый слабая слабо слабее ослабил ослабила ослабили ослабить ослабление ослаб
раньше ранее рано ранний / позже позднее поздно поздний
теплый теплая тепло теплее потепление потеплеет / холодный холодная холодно холоднее похолодание похолодает
горячий горячая / холодный холодная
возможно возможный возможна можно / невозможно невозможный невозможна нельзя
внутренний внутренняя внутренние внутри / внешний внешняя внешние снаружи
левый левая левое левого слева налево / правый правая правое правого справа направо
верхний верхняя вверх вверху наверх / нижний нижняя вниз внизу
полный полная полное полностью целиком / частичный частичная частичное частично
жив живой живы выжил выжила выжили / мертв мертвый погиб погибла погибли умер умерла умерли
родился родилась родились / умер умерла скончался скончалась умерли
законный законно законная / незаконный незаконно незаконная
опасный опасно опасна опасная / безопасный безопасно безопасна безопасная
внес внесла ввел ввела ввели ввести введен введена введены введение / отменил отменила отменили отменен отменена отменены отменить отмена снял сняли
построил построили построен построить / снес снесли снесен разрушил разрушили разрушен разрушена
арестовал арестовали арестован задержал задержали задержан задержать / освободил освободили освобожден отпустил отпустили
виновен виновна виновным виновной / невиновен невиновна оправдан оправдали
до / после
перед / после
вместе совместно / отдельно порознь
всегда постоянно / никогда
все каждый всех / никто ничто ничего
много многие / мало немногие
друг союзник союзники друзья / враг враги противник противники
сын сына сыном мальчик мальчика / дочь дочка дочку девочка девочку
мужчина мужчины мужчин мужской / женщина женщины женщин женский
день дневной днем / ночь ночной ночью
утром утро утра / вечером вечер вечера
плюс прибыль / минус убыток убытки
положительный положительная положительно позитивный / отрицательный отрицательная отрицательно негативный
взрослый взрослые взрослых / ребенок дети детей
внутри / снаружи
публичный открытый публично / тайный закрытый тайно секретный
безвозмездно даром / возмездно
легко легкий просто простой / трудно трудный сложно сложный тяжело
экспорт вывоз / импорт ввоз
север северный северной северного севере / юг южный южной южного юге
восток восточный восточной восточного востоке / запад западный западной западного западе
rise rose risen rises rising increase increased increases increasing grow grew grown grows growing growth climb climbed gain gained higher expand expanded raise raised raises / fall fell fallen falls falling decrease decreased decreases decreasing decline declined declines drop dropped drops shrink shrank shrinking reduce reduced reduces reduction lower lowered cut
open opened opens opening / close closed closes closing shut
begin began begun begins start started starts starting beginning launch launched / end ended ends ending finish finished finishes stop stopped stops cease ceased
allow allowed allows permit permitted permits permissible lawful / forbid forbidden forbids prohibit prohibited prohibits ban banned bans impermissible unlawful
include included includes including / exclude excluded excludes excluding
win won wins winning winner victory / lose lost loses losing loser defeat defeated
buy bought buys purchase purchased / sell sold sells sale
accept accepted accepts approve approved approves agree agreed / reject rejected rejects refuse refused refuses decline declined disagree disagreed
support supported supports supporting favour favor back backed / oppose opposed opposes opposing against condemn condemned
confirm confirmed confirms affirm affirmed / deny denied denies refute refuted
arrive arrived arrives come came / leave left leaves depart departed
enter entered enters join joined / exit exited leave left quit
more greater / less fewer
large big huge larger bigger largest biggest / small little tiny smaller smallest
high highest / low lowest
new newer newest / old older oldest ancient
first / last
good better best / bad worse worst evil
improve improved improves improvement / worsen worsened worsens
success successful successfully succeed succeeded / failure unsuccessful unsuccessfully fail failed
fast faster quick quickly / slow slower slowly
strong stronger strongest strengthen strengthened / weak weaker weakest weaken weakened
early earlier earliest / late later latest
warm warmer warming hot hotter / cold colder cooling cool cooler
possible possibly / impossible
inside internal interior / outside external exterior
right / left
right correct true truth / wrong incorrect false falsehood
upper up top above / lower down bottom below
full complete completely fully / partial partially partly
alive living live survived / dead died killed
born / died
birth / death
legal legally / illegal illegally
safe safely / dangerous dangerously unsafe
before prior / after following
together / separately apart
always / never
all every everyone everything / none nobody nothing
many most / few
friend ally friends allies / enemy foe enemies
man men male boy boys father husband son brother king / woman women female girl girls mother wife daughter sister queen
day daytime / night nighttime
morning / evening
positive positively / negative negatively
easy easily simple / hard difficult
public publicly / private privately secret secretly
rich wealthy / poor
love loved loves / hate hated hates
north northern / south southern
east eastern / west western
obligatory compulsory mandatory required / optional voluntary forbidden
believer believers believe believed / disbeliever disbelievers disbelieve unbelief disbelief
attack attacked / defend defended
create created build built / destroy destroyed demolish demolished
teacher / student pupil
import imported / export exported
long longer longest / short shorter shortest
deep / shallow
remember remembered / forget forgot forgotten
free / paid
married / divorced unmarried single
beginner / expert
heaven paradise / hell hellfire
light / dark darkness
major / minor
majority / minority
maximum / minimum
with / without
"""
# Mutually exclusive words: only one side of a row can be true.
_EXCLUSIVE_WORDS = """
сохранил сохранила сохранили оставил оставила оставили удержал/повысил повысила повысили поднял подняла подняли увеличил/снизил снизила снизили опустил уменьшил
keep keeps kept maintained unchanged/raise raised raises hike hiked increase increased/cut cuts lower lowered reduce reduced
вчера/сегодня/завтра
yesterday/today/tomorrow
зимой зима зимы/весной весна весны/летом/осенью осень осени
winter/spring/summer/autumn fall
утром/днем/вечером/ночью
morning/afternoon/evening/night
север северный/юг южный/восток восточный/запад западный
north northern/south southern/east eastern/west western
красный красная красные красное/синий синяя/зеленый зеленая/желтый желтая/белый белая/черный черная
red/blue/green/yellow/white/black
"""
_NEGATING_PREFIX = re.compile(r"^(?:не|без|бес)(?=[а-я]{4})|^(?:un|in|im|ir|il|dis|non|mis)(?=[a-z]{4})")
_NEGATING_SUFFIX = re.compile(r"(?<=[a-z]{3})less$")
_OPPOSITE_PREFIXES = [
    ("при", "у"), ("в", "вы"), ("за", "вы"), ("за", "от"), ("за", "рас"), ("до", "не"), ("под", "от"), ("по", "с"), ("с", "раз"), ("под", "с"),
    ("над", "под"), ("о", "рас"), ("пере", "недо"), ("pre", "post"), ("over", "under"), ("in", "out"), ("up", "down"), ("ex", "in"), ("as", "des"), ("in", "de"),
]  # fmt: skip
_ALL_PREFIXES = frozenset(prefix for pair in _OPPOSITE_PREFIXES for prefix in pair)
_LEAST_REST = 4  # letters after a prefix


def _stem_or_keep(word: str) -> str:
    return stem(word) or word


@cache  # built with the first comparison: stemming the words takes 0.05 s
def _index_sides() -> dict[str, frozenset[tuple[int, int]]]:
    found: dict[str, set[tuple[int, int]]] = {}
    rows = [line.split(" / ") for line in _OPPOSITE_PAIRS.strip().splitlines()]
    rows += [line.split("/") for line in _EXCLUSIVE_WORDS.strip().splitlines()]
    for n, row in enumerate(rows):
        for side, words in enumerate(row):
            for word in words.split():
                found.setdefault(_stem_or_keep(word), set()).add((n, side))
    return {word: frozenset(places) for word, places in found.items()}


@lru_cache(maxsize=20_000)
def are_opposites(one: str, other: str) -> bool:
    """Check whether two folded words are antonyms: "вырос" and "снизился", "legal" and "illegal"."""
    a, b = _stem_or_keep(one), _stem_or_keep(other)
    if a == b:
        return False
    sides = _index_sides()
    first, second = sides.get(a, frozenset()), sides.get(b, frozenset())
    if first & second:
        return False
    if any(n == m for n, _ in first for m, _ in second):
        return True
    return (
        _is_negated_form(a, b)
        or _is_negated_form(b, a)
        or _have_opposite_prefixes(one, other)
        or _have_opposite_prefixes(other, one)
    )


def _is_negated_form(longer: str, plain: str) -> bool:
    return (
        len(longer) > len(plain)
        and bool(_NEGATING_PREFIX.match(longer))
        and _NEGATING_PREFIX.sub("", longer)[:8] == plain[:8]
        and abs(len(_NEGATING_PREFIX.sub("", longer)) - len(plain)) <= 1
    ) or (_NEGATING_SUFFIX.sub("", longer) == plain and longer != plain)


def _have_opposite_prefixes(one: str, other: str) -> bool:
    """Check for one root after opposite prefixes: "приехал", "уехал"."""
    for here, there in _OPPOSITE_PREFIXES:
        if one.startswith(here) and other.startswith(there):
            rest, left = one[len(here) :], other[len(there) :]
            if len(rest) >= _LEAST_REST and (
                rest == left or (len(rest) > 5 and _stem_or_keep(rest) == _stem_or_keep(left))
            ):
                return True
    return False


@lru_cache(maxsize=20_000)
def are_synonyms(one: str, other: str) -> bool:
    """Check whether two folded words are on the same side of an antonym row: "вырос" and "увеличился"."""
    return bool(sides(one) & sides(other))


def sides(word: str) -> frozenset[tuple[int, int]]:
    """Antonym rows and sides of a folded word."""
    return _index_sides().get(_stem_or_keep(word), frozenset())


@lru_cache(maxsize=20_000)
def opposition_keys(word: str) -> frozenset[tuple[str, object]]:
    """Lookup keys of a folded word: two antonyms have at least one key in common."""
    root = _stem_or_keep(word)
    keys: set[tuple[str, object]] = {("pair", row) for row, _ in _index_sides().get(root, ())}
    keys |= {
        ("root", root[:8]),
        ("root", _NEGATING_PREFIX.sub("", root)[:8]),
        ("less", root),
        ("less", _NEGATING_SUFFIX.sub("", root)),
    }
    for prefix in _ALL_PREFIXES:
        if word.startswith(prefix) and len(rest := word[len(prefix) :]) >= _LEAST_REST:
            keys |= {("rest", rest), ("rest", _stem_or_keep(rest))}
    return frozenset(keys)


_FLEETING_VOWEL = re.compile(r"(?<=[а-я]{2})[ое](?=[кцн]$)")  # "лодок" is a form of "лодка"
_MOST_COMPARED = 10  # distinct words per key; a passage of ordinary prose has fewer than ten
_NAME, _ALIKE = 0.95, 0.9
_KIN = 0.7  # stem similarity below which words count as different
_PREFIX, _STEM = 3, 4  # leading letters shared by forms of one word, and by related stems
# Aliases: names of one thing that share no letters.
_ALIASES = (
    "сша америка штаты американский usa us u.s america american", "великобритания британия британский англия английский uk britain british england",
    "россия рф российский русский russia russian", "ес евросоюз eu европейский", "петербург питер спб санкт petersburg", "оон un",
    "москва столица московский moscow", "германия фрг немецкий germany german", "китай кнр китайский china chinese",
    "украина украинский ukraine ukrainian", "беларусь белоруссия белорусский belarus", "цб центробанк банк", "нидерланды голландия голландский netherlands holland dutch",
    "турция турецкий turkey turkish", "франция французский france french", "испания испанский spain spanish", "греция греческий greece greek",
    "пророк мухаммад мухаммед muhammad mohammed mohammad", "аллах бог allah god",
)  # fmt: skip
_ALIAS = {word: n for n, row in enumerate(_ALIASES) for word in row.split()}

Key = tuple[str, object]


@lru_cache(maxsize=20_000)
def likeness(one: str, stem: str, other: str, other_stem: str) -> float:
    """Similarity of two words, 0..1; both given as folded and as stemmed."""
    if stem == other_stem or _drop_fleeting_vowel(stem) == _drop_fleeting_vowel(other_stem):
        return 1.0
    if is_name_variant(one, other) or aliases(one, other):
        return _NAME
    if are_synonyms(one, other):
        return _ALIKE
    return found if (found := measure_stem_similarity(stem, (other_stem,))) >= _KIN else 0.0


@lru_cache(maxsize=10_000)
def _drop_fleeting_vowel(stem: str) -> str:
    return _FLEETING_VOWEL.sub("", stem)


def aliases(one: str, other: str) -> bool:
    """Check whether two folded words may be aliases of one thing."""
    return bool(_find_alias_rows(one) & _find_alias_rows(other))


@lru_cache(maxsize=10_000)
def _find_alias_rows(word: str) -> frozenset[int]:
    """Alias rows of a word."""
    alike = (alias for alias in _ALIASES_BY_START.get(word[:2], ()) if min(len(alias), len(word)) > 3)
    return frozenset(_ALIAS[alias] for alias in (*alike, word) if alias in _ALIAS and is_name_variant(alias, word))


_ALIASES_BY_START: dict[str, list[str]] = {}
for _word in _ALIAS:
    _ALIASES_BY_START.setdefault(_word[:2], []).append(_word)


@lru_cache(maxsize=20_000)
def _make_keys(low: str, stem: str) -> frozenset[Key]:
    """Lookup keys of a word: shared with each similar word, except those in another script."""
    keys: set[Key] = {("stem", stem), ("form", low[:_PREFIX]), ("kin", stem[:_STEM])}
    keys |= {("alias", row) for row in _find_alias_rows(low)}
    keys |= {("side", side) for side in sides(low)}
    return frozenset(keys)


@lru_cache(maxsize=20_000)
def _make_sound_keys(low: str) -> frozenset[Key]:
    """Lookup keys by sound: shared with each similar-sounding word in another script."""
    return frozenset(("sound", skeleton[:1]) for skeleton in skeletons(low))


_MAX_FOUND_WORDS = 200


class Vocabulary(tuple[Word, ...]):
    """Words in the order of their text, with an index of similar words, built on first use."""

    _index: dict[Key, list[int]]
    _spoken: dict[bool, dict[Key, list[int]]]
    _found: dict[tuple[str, str], tuple[float, Word | None]]
    _stems: frozenset[str]

    @property
    def stems(self) -> frozenset[str]:
        """The stems of the words."""
        if not hasattr(self, "_stems"):
            self._stems = frozenset(word.stem for word in self)
        return self._stems

    def nearest(self, word: Word) -> tuple[float, Word | None]:
        """Find the most similar word and its similarity, 0..1; of equal ones the first."""
        if not hasattr(self, "_found"):
            self._found = {}
        key = word.low, word.stem
        if (found := self._found.get(key)) is None:
            if len(self._found) >= _MAX_FOUND_WORDS:  # a sentence of a post is compared with claim after claim
                self._found.clear()
            self._found[key] = found = self._find_nearest(word)
        return found

    def _find_nearest(self, word: Word) -> tuple[float, Word | None]:
        best: tuple[float, Word | None] = (0.0, None)
        for other in self.candidates(word):
            if (found := likeness(word.low, word.stem, other.low, other.stem)) > best[0]:
                best = (found, other)
                if found == 1.0:
                    break
        return best

    def candidates(self, word: Word) -> Iterator[Word]:
        """Words that may be similar to this one, each once, in order."""
        if not hasattr(self, "_index"):
            self._index = _build_index(self)
            self._spoken = {}
        places = {place for key in _make_keys(word.low, word.stem) for place in self._index.get(key, ())}
        script = not is_cyrillic(word.low)
        if script not in self._spoken:
            self._spoken[script] = _spoken(self, script)
        if self._spoken[script]:
            places |= {place for key in _make_sound_keys(word.low) for place in self._spoken[script].get(key, ())}
        return (self[place] for place in sorted(places))


def _build_index(words: Iterable[Word]) -> dict[Key, list[int]]:
    index: dict[Key, list[int]] = {}
    for place, word in _iterate_distinct(words):
        for key in _make_keys(word.low, word.stem):
            listed = index.setdefault(key, [])
            if len(listed) < _MOST_COMPARED:
                listed.append(place)
    return index


def _spoken(words: Iterable[Word], cyrillic: bool) -> dict[Key, list[int]]:
    """Index of the words of one script by their first sound."""
    index: dict[Key, list[int]] = {}
    for place, word in _iterate_distinct(words):
        if is_cyrillic(word.low) == cyrillic:
            for key in _make_sound_keys(word.low):
                listed = index.setdefault(key, [])
                if len(listed) < _MOST_COMPARED:
                    listed.append(place)
    return index


def _iterate_distinct(words: Iterable[Word]) -> Iterator[tuple[int, Word]]:
    """Distinct words, by folded form and capitalisation."""
    seen: set[tuple[str, bool]] = set()
    for place, word in enumerate(words):
        if (word.low, word.capital) not in seen:
            seen.add((word.low, word.capital))
            yield place, word
