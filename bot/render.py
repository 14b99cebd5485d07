"""An answer as a reader sees it: sentences with numbers that open posts, then the sources, then how it was made.

Built from text and entities only. Links come from the archive, never out of a text, and are https.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Text, TextLink, as_list

from bot.inert import inert, styled
from bot.plain import WRITING, Shown, dated, plain, speaker
from bot.rules import SURE
from bot.words import Words
from rag_core.compose import in_order
from rag_core.types import Answer, Channel, Origin, Passage, Post, PostKey, Sentence

__all__ = ["link", "render", "spoken", "titled"]

# A longer list of sources folds; a tap opens it.
_FOLDED_FROM = 4
# About two lines on a phone.
_SNIPPET = 140


def render(answer: Answer, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    """The answer as one formatted text; `posts` are those it names, for their edits, origins and times.

    A post missing from `posts` keeps its line, without these marks.
    """
    blocks = _refusal(answer, shown) if answer.refused else _answered(answer, posts, shown)
    if answer.understood:
        blocks.insert(0, styled(Italic, shown.words("answer-understood", question=plain(answer.understood))))
    notes = dict.fromkeys(shown.words("shortfall", stage=s.stage) for s in answer.shortfalls)
    if not answer.refused:
        if answer.confidence < SURE:
            notes[shown.words("answer-unsure")] = None
        notes[_footer(answer, shown.words)] = None
    if notes:
        blocks.append(Italic("\n".join(notes)))
    return as_list(*blocks, sep="\n\n")


def link(label: str, url: str) -> Text:
    """The label as a link, or plain where the address is not https."""
    return TextLink(label, url=url) if url.startswith("https://") else inert(label)


def titled(channel: Channel | None, origin: Origin | None, url: str, words: Words) -> Text:
    """Who speaks in a post, as the link that opens it."""
    return link(speaker(channel, origin, words), url)


def _answered(answer: Answer, posts: Mapping[PostKey, Post], shown: Shown) -> list[Text]:
    numbers = {key: number for number, key in enumerate(answer.posts(), 1)}
    blocks = [spoken(answer)]
    if numbers:
        lines = [_source(key, n, answer, posts, shown) for key, n in numbers.items()]
        fold = ExpandableBlockQuote if len(lines) >= _FOLDED_FROM else BlockQuote
        blocks.append(Text(Bold(shown.words("sources", count=len(lines))), "\n", fold(as_list(*lines))))
    return blocks


def spoken(answer: Answer) -> Text:
    """The sentences with the numbers of their posts, nothing else."""
    numbers = {key: number for number, key in enumerate(answer.posts(), 1)}
    said = [_sentence(s, answer, numbers) for s in answer.sentences]
    # A model writes a paragraph; quotes of different posts stand apart.
    return as_list(*said, sep=" " if answer.model is not None else "\n\n")


def _sentence(sentence: Sentence, answer: Answer, numbers: Mapping[PostKey, int]) -> Text:
    cited = dict.fromkeys(c.post for c in sentence.citations)
    marks = [piece for key in cited for piece in (" ", link(f"[{numbers[key]}]", answer.link(key)))]
    return Text(inert(plain(sentence.text)), *marks)


def _source(key: PostKey, number: int, answer: Answer, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    cited = next(c for s in answer.sentences for c in s.citations if c.post == key)
    words, post = shown.words, posts.get(key)
    marks: list[Text | str] = [dated(cited.date, post.edited if post else None, shown)]
    if channels := {copy.chat_id for copy in answer.copies.get(key, ())} - {key.chat_id}:
        marks += [" · ", _also(key, len(channels), answer, posts, shown)]
    who = titled(answer.channels.get(key.chat_id), post.origin if post else None, answer.link(key), words)
    return Text(f"{number}. ", who, " · ", *marks)


def _also(key: PostKey, count: int, answer: Answer, posts: Mapping[PostKey, Post], shown: Shown) -> Text:
    """In how many other channels a post is, which was first and when; the day too where it is another one."""
    if any(copy not in posts for copy in (key, *answer.copies[key])):  # some of them went just now: who was first?
        return Text(shown.words("source-copies", count=count))
    first = in_order(posts[copy] for copy in (key, *answer.copies[key]))[0]
    channel = answer.channels.get(first.key.chat_id)
    name = f"@{channel.username}" if channel and channel.username else speaker(channel, None, shown.words)
    date, here = (moment.astimezone(shown.zone) for moment in (first.date, posts[key].date))
    when = f"{date:%H:%M}" if date.date() == here.date() else f"{date:%H:%M}, {shown.words.date(date, shown.zone)}"
    return shown.words.rich("source-copies-first", count=count, first=link(name, answer.link(first.key)), when=when)


def _refusal(answer: Answer, shown: Shown) -> list[Text]:
    # Where a part of the search failed, "it is not there" would be a claim we cannot make.
    partly = {s.stage for s in answer.shortfalls} - WRITING
    said = "refused-partly" if partly else "refused-group" if shown.group else "refused"
    blocks = [Text(shown.words(said))]
    if answer.nearest:
        found = list(_nearest(answer, shown))
        quoted = BlockQuote(as_list(*found, sep="\n\n"))
        blocks.append(Text(shown.words("nearest", count=len(found)), "\n", quoted))
    return blocks


def _nearest(answer: Answer, shown: Shown) -> Iterator[Text]:
    for number, passage in enumerate(answer.nearest, 1):
        key, date = passage.key, dated(passage.date, passage.edited, shown)
        who = titled(answer.channels.get(key.chat_id), passage.origin, answer.link(key), shown.words)
        line = Text(f"{number}. ", who, f" · {date}")
        yield Text(line, "\n", inert(_snippet(passage))) if passage.text.strip() else line


def _snippet(passage: Passage) -> str:
    text = " ".join(plain(passage.text).split())
    if len(text) <= _SNIPPET:
        return text
    head = text[:_SNIPPET].rsplit(" ", 1)[0]
    return head.rstrip(" ,.;:–—-") + "…"


def _footer(answer: Answer, words: Words) -> str:
    if answer.model:
        return words("footer-model", model=plain(answer.model))
    # a further post that says otherwise has a few words before its quote; what is worked out begins the answer
    first = answer.sentences[0]
    verbatim = any(c.quote.strip() == first.text.strip() for c in first.citations)
    return words("footer-verbatim" if verbatim else "footer-counted")
