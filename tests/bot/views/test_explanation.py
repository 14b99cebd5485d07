import time

import pytest

from bot.views.results import format_changes


def told(old, new):
    """The changes with [what went] and {what came}; "(+n)" for those that are not shown."""
    content, more = format_changes(old, new)
    text, entities = content.render()
    assert all(entity.length for entity in entities)
    marks = {"strikethrough": ("[", "]"), "bold": ("{", "}"), "code": ("", "")}
    said, raw = "", text.encode("utf-16-le")
    for entity in sorted(entities, key=lambda e: e.offset):
        begin, end = marks[entity.type]
        said += raw[2 * _units(said) : 2 * entity.offset].decode("utf-16-le")
        said += begin + entity.extract_from(text) + end
    return said + raw[2 * _units(said) :].decode("utf-16-le") + (f" (+{more})" if more else "")


def _units(said):
    return len(said.translate(dict.fromkeys(map(ord, "[]{}"))).encode("utf-16-le")) // 2


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("The ferry leaves at 7:30.", "The ferry leaves at 8:15.", "The ferry leaves at [7:30] {8:15}."),
        ("Цена 500 ₽, ждём", "Цена 600 ₽, ждём", "Цена [500] {600} ₽, ждём"),
        ("мы открыты", "мы не открыты", "мы {не} открыты"),
        ("мы не открыты", "мы открыты", "мы [не] открыты"),
        ("скидка 10%", "скидка 15%", "скидка [10] {15}%"),
        ("на e-mail: a@b.example", "на сайт: a@b.example", "на [e-mail] {сайт}: a@b.example"),
        ("Apples are red", "Pears are green", "[Apples] {Pears} are [red] {green}"),
        ("«старый» дом", "«новый» дом", "«[старый] {новый}» дом"),
        ("", "Появился текст", "{Появился текст}"),
        ("Был текст", "", "[Был текст]"),
        ("одно\n\nдва", "одно два", ""),
        ("за\u0301мок", "замо\u0301к", "[за\u0301мок] {замо\u0301к}"),
        ("🍞🍞 тут 👩‍👩‍👧", "🍞🍞 там 👩‍👩‍👧", "🍞🍞 [тут] {там} 👩‍👩‍👧"),
        ("a\u202eb\x07c", "a\u202eb\x07d", "ab [c] {d}"),
    ],
)
def test_what_went_is_struck_through_and_what_came_is_bold(old, new, shown):
    assert told(old, new) == shown


def test_a_long_text_is_cut_around_its_changes():
    words = [f"w{n}" for n in range(200)]
    edited = words.copy()
    edited[50], edited[55], edited[150] = "A", "B", "C"
    assert told(" ".join(words), " ".join(edited)) == (
        "… w44 w45 w46 w47 w48 w49 [w50] {A} w51 w52 w53 w54 [w55] {B} w56 w57 w58 w59 w60 w61 … "
        "w144 w145 w146 w147 w148 w149 [w150] {C} w151 w152 w153 w154 w155 w156 …"
    )


def test_of_very_many_changes_the_first_are_shown_and_the_others_counted():
    words = [f"w{n}" for n in range(400)]
    edited = [f"E{n}" if n % 40 == 5 else word for n, word in enumerate(words)]
    assert told(" ".join(words), " ".join(edited)).count("{") == 5
    assert told(" ".join(words), " ".join(edited)).endswith(" (+5)")


@pytest.mark.parametrize(("old", "new"), [("a b " * 1000, "b a " * 1000), ("a " * 2000, "b " + "a " * 1999 + "c")])
def test_the_longest_post_takes_no_time(old, new):
    began = time.process_time()
    format_changes(old, new)
    assert time.process_time() - began < 1


_LETTERS = [chr(0x4E00 + n) for n in range(2048)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([f"{n * 7919 % 151:x}" for n in range(1500)], [f"{n * n * 31 % 151:x}" for n in range(1500)]),
        ([f"w{n % 99}" for n in range(1360)], [f"w{n % 99}" for n in reversed(range(1360))]),
        (_LETTERS, [_LETTERS[n * 1021 % 2048] for n in range(2048)]),
        ([_LETTERS[n % 110] for n in range(2048)], [_LETTERS[n * 7 % 110] for n in range(2048)]),
        ([_LETTERS[n % 198] for n in range(198)], [_LETTERS[n % 3] for n in range(199)]),
        (["a"] * 2048, ["b", "a"] * 1024),
    ],
    ids=["few words", "a circle reversed", "shuffled", "a circle in steps", "below the limit of difflib", "one word"],
)
def test_versions_made_to_be_hard_to_compare_are_compared_in_little_time(old, new):
    def measure():
        began = time.process_time()
        format_changes(" ".join(old)[:4096], " ".join(new)[:4096])
        return time.process_time() - began

    # others on the machine only add to it: the best of three counts
    assert min(measure() for _ in range(3)) < 0.25


def test_versions_that_repeat_a_few_words_by_the_thousand_count_as_changed_whole():
    steps = [_LETTERS[n * 7 % 110] for n in range(2048)]
    old, new = " ".join(_LETTERS[n % 110] for n in range(2048)), " ".join(steps)
    assert told(old, new).count("{") == told(old, new).count("[") == 1
    assert told(new, new.replace(" ", "\n")) == ""
