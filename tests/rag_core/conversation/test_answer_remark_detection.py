"""Remarks about an answer are told by kind, and what asks something of the posts is no remark."""

import json
from collections import Counter
from pathlib import Path

import pytest

from rag_core.conversation.small_talk import AnswerRemark, detect_answer_remark

SETS = Path(__file__).parents[2] / "data" / "answer_remarks"

REMARKS = {
    AnswerRemark.COMPLAINT: "ты ошибся|Нет, вы ошиблись!|неверный ответ|you got that wrong|No, you got it all wrong.",
    AnswerRemark.SOURCES: "источник?|а откуда инфа|где это написано|source?|where did you get that|got a link?",
    AnswerRemark.SURE: "точно?|ты уверен|не верю|are you sure?|really?|thats wrong, check again",
    AnswerRemark.WHEN: "еще актуально?|когда это написали|how old is this info|still valid?|Актуально? А то опоздаю.",
    AnswerRemark.WHOLE: "покажи весь пост|можно целиком?|полный текст|show me the whole post|full text pls",
    AnswerRemark.MORE: "подробнее|ещё|что ещё известно?|more|tell me more|anything else?|и?",
    AnswerRemark.SHORTER: "короче|в двух словах|суть|tldr|too long|in one sentence please",
}
# They name something, or ask for what an answer may have left open.
OTHERS = """
откуда автобус|источник воды|подробнее про ярмарку|короче говоря, когда концерт|ещё бы|точно|спасибо за ссылку
когда это было|сегодняшние новости|Точно? А в субботу?|полный список цен|какого числа?|а какого числа это будет?
на какой день?|это сегодня?|сколько дней назад это было?|когда он появился?|когда объявили?|что дальше будет?
все были?|всё хорошо?|а ещё где?|а ещё кто?|ещё где можно?|есть другие варианты?|где посмотреть?|откуда письмо?
кто автор письма?|длинно?|а потом?|ещё вопрос|ещё раз|how old is he|whats the link|more dates|the whole cake
are they sure the bridge opens in May|what was posted today|and before?|thanks for the link
who said the lift would work|when will it be posted?|when did they say it would be ready?|is it still on?
when did you last post|when is the next one?|who's next?|how much longer?|what else is on|where are they from?
who else?|where do they come from?|is he lying?|can I trust him?|is it correct to feed them?|is it shorter?
is it too long?|are they right?|what's next|and then?|is that all of them?|is it new?|is it old?
what is the point?
"""


@pytest.mark.parametrize("kind", REMARKS)
def test_a_remark_is_told_by_kind(kind):
    told = {text: detect_answer_remark(text) for text in REMARKS[kind].split("|")}
    assert told == dict.fromkeys(told, kind)


def test_what_names_something_or_asks_for_something_else_is_no_remark():
    texts = [*OTHERS.strip().replace("\n", "|").split("|"), "", "?!", "…" * 300]
    assert [text for text in texts if detect_answer_remark(text)] == []


# Shares of the remarks that are read with the right kind; `remarks2` was held out while the words were chosen.
@pytest.mark.parametrize(
    ("name", "least"),
    [("remarks", 0.95), ("remarks2", 0.64), ("remarks3", 0.85), ("remarks4", 0.78), ("../dialogues2/remarks", 1.0)],
)
def test_most_remarks_are_read_and_no_question_is_taken_for_one(name, least):
    rows = [json.loads(line) for line in (SETS / f"{name}.jsonl").read_text("utf-8").splitlines()]
    read, all_rows = Counter[str](), Counter[str]()
    for row in rows:
        kind = "other" if row["kind"] in {"question", "talk"} else "remark"
        all_rows[kind] += 1
        read[kind] += detect_answer_remark(row["text"]) == (row["kind"] if kind == "remark" else None)
    assert read["remark"] / all_rows["remark"] >= least
    assert all_rows["other"] - read["other"] <= 3
    assert not [r["text"] for r in rows if r["kind"] == "question" and detect_answer_remark(r["text"])]


def test_no_question_of_any_set_is_taken_for_a_remark(shared_data):
    files = [*(shared_data / "people").rglob("queries.jsonl"), shared_data / "xquad" / "queries.jsonl"]
    files += (shared_data / "people" / "talk.jsonl", *SETS.parent.rglob("queries.jsonl"))
    files = [file for file in files if "validation7" not in file.parts]  # nobody reads it

    def find_remarks(files):
        rows = [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]
        texts = [row["text"] for row in rows if "text" in row]
        assert len(texts) > 1000
        return [text for text in texts if detect_answer_remark(text)], len(texts)

    # of the newest 30,000 some ask what a remark asks as well: "who wrote it"
    newest = [file for file in files if file.parts[-3] == "reading" and int(file.parts[-2]) > 21]
    assert find_remarks([file for file in files if file not in newest])[0] == []
    remarks, asked = find_remarks(newest)
    assert len(remarks) < asked / 1000, remarks
