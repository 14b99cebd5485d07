"""Words that say the opposite of one another, or that cannot both be so. Pure, Russian and English."""

from __future__ import annotations

import re
from functools import lru_cache

from rag_core.analysis import stem

__all__ = ["alike", "opposed", "opposition_keys", "sides"]

# A side of words that say the same / the side that says the opposite.
_PAIRS = """
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
# Of these only one can be so.
_APART = """
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
_NO = re.compile(r"^(?:не|без|бес)(?=[а-я]{4})|^(?:un|in|im|ir|il|dis|non|mis)(?=[a-z]{4})")
_LESS = re.compile(r"(?<=[a-z]{3})less$")
_PREFIXES = [
    ("при", "у"), ("в", "вы"), ("за", "вы"), ("за", "от"), ("за", "рас"), ("до", "не"), ("под", "от"), ("по", "с"), ("с", "раз"), ("под", "с"),
    ("над", "под"), ("о", "рас"), ("пере", "недо"), ("pre", "post"), ("over", "under"), ("in", "out"), ("up", "down"), ("ex", "in"), ("as", "des"), ("in", "de"),
]  # fmt: skip
_ALL_PREFIXES = frozenset(prefix for pair in _PREFIXES for prefix in pair)
_LEAST_REST = 4  # letters behind a prefix


def _stem(word: str) -> str:
    return stem(word) or word


def _sides() -> dict[str, frozenset[tuple[int, int]]]:
    found: dict[str, set[tuple[int, int]]] = {}
    rows = [line.split(" / ") for line in _PAIRS.strip().splitlines()]
    rows += [line.split("/") for line in _APART.strip().splitlines()]
    for n, row in enumerate(rows):
        for side, words in enumerate(row):
            for word in words.split():
                found.setdefault(_stem(word), set()).add((n, side))
    return {word: frozenset(places) for word, places in found.items()}


_SIDES = _sides()


@lru_cache(maxsize=20_000)
def opposed(one: str, other: str) -> bool:
    """Whether two folded words say opposite things: "вырос" and "снизился", "legal" and "illegal"."""
    a, b = _stem(one), _stem(other)
    if a == b:
        return False
    first, second = _SIDES.get(a, frozenset()), _SIDES.get(b, frozenset())
    if first & second:
        return False
    if any(n == m for n, _ in first for m, _ in second):
        return True
    return _negating(a, b) or _negating(b, a) or _turned(one, other) or _turned(other, one)


def _negating(longer: str, plain: str) -> bool:
    return (
        len(longer) > len(plain)
        and bool(_NO.match(longer))
        and _NO.sub("", longer)[:8] == plain[:8]
        and abs(len(_NO.sub("", longer)) - len(plain)) <= 1
    ) or (_LESS.sub("", longer) == plain and longer != plain)


def _turned(one: str, other: str) -> bool:
    """Whether the same root stands behind prefixes that lead two ways: "приехал", "уехал"."""
    for here, there in _PREFIXES:
        if one.startswith(here) and other.startswith(there):
            rest, left = one[len(here) :], other[len(there) :]
            if len(rest) >= _LEAST_REST and (rest == left or (len(rest) > 5 and _stem(rest) == _stem(left))):
                return True
    return False


@lru_cache(maxsize=20_000)
def alike(one: str, other: str) -> bool:
    """Whether two folded words stand on the same side of an opposition: "вырос" and "увеличился"."""
    return bool(sides(one) & sides(other))


def sides(word: str) -> frozenset[tuple[int, int]]:
    """On which side of which oppositions a folded word stands."""
    return _SIDES.get(_stem(word), frozenset())


@lru_cache(maxsize=20_000)
def opposition_keys(word: str) -> frozenset[tuple[str, object]]:
    """Lookup keys of a folded word: two words that are opposed have one in common."""
    root = _stem(word)
    keys: set[tuple[str, object]] = {("pair", row) for row, _ in _SIDES.get(root, ())}
    keys |= {("root", root[:8]), ("root", _NO.sub("", root)[:8]), ("less", root), ("less", _LESS.sub("", root))}
    for prefix in _ALL_PREFIXES:
        if word.startswith(prefix) and len(rest := word[len(prefix) :]) >= _LEAST_REST:
            keys |= {("rest", rest), ("rest", _stem(rest))}
    return frozenset(keys)
