"""Answer view: sentences with numbers that open posts, sources, and notes; and the form in which an answer is stored.

A message is built from text and entities only. Links come from the archive, never out of a post, and are https.

A stored answer holds the positions of its citations in the posts and no words of them: a text that is deleted or
closed must not live on in old answers, so that only the words around the quotes are stored.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NamedTuple

from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Text, TextLink, as_list

from bot.i18n import Translator, get_translator
from bot.views.message_formatting import neutralize_links, style_text
from bot.views.post_formatting import (
    WRITING_STAGES,
    RenderContext,
    format_author,
    format_day_and_edit,
    format_missing_parts,
    format_moment,
    join_lines,
    shorten_at_word,
    strip_control_characters,
)
from rag_core.context.evidence import order_copies
from rag_core.storage import Archive
from rag_core.storage.channels import load_group_rules
from rag_core.storage.post_lookup import list_post_versions
from rag_core.storage.questions import QuestionRow
from rag_core.types import (
    Answer,
    Certainty,
    Channel,
    Origin,
    Passage,
    Post,
    PostKey,
    Sentence,
    format_channel_post_link,
)

_MAX_NEAREST = 3


async def get_answer_translator(asked: QuestionRow, archive: Archive) -> Translator:
    """Translator for the sentences around an answer: the group's language where it chose one, else the question's."""
    chosen = "" if asked.private else (await load_group_rules(archive, asked.chat_id)).lang
    return get_translator(chosen or asked.lang)


async def apply_group_rules(asked: QuestionRow, answer: Answer, archive: Archive) -> Answer:
    """Apply the group's rules: a refusal where the group wants only sure and cited answers and this one is not."""
    if asked.private or answer.refused or not (await load_group_rules(archive, asked.chat_id)).cited_only:
        return answer
    if answer.certainty is Certainty.SURE and all(sentence.citations for sentence in answer.sentences):
        return answer
    nearest = tuple(source.passage for source in answer.found[:_MAX_NEAREST])
    return replace(answer, sentences=(), model=None, nearest=nearest, certainty=Certainty.PROBABLE)


JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CitedPost:
    """Cited post: its date, and `mark`, the hash of its text at that time; "" where the text had just gone."""

    key: PostKey
    date: datetime
    mark: str


class CitedSpan(NamedTuple):
    """Cited span: code points in the text that the post had when it was cited."""

    key: PostKey
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class StoredSentence:
    """Stored sentence: the words around the quote, and the cited spans.

    `quote` is the index of the span whose words end the sentence verbatim; None where the sentence is no quote.
    """

    around: str
    quote: int | None
    places: tuple[CitedSpan, ...]


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """Stored answer: `cited` in the order of their numbers, `others` found but not cited, best first.

    `trace_id` identifies the answer; one kept without a certainty counts as sure. `noted` are the changes of its posts
    that its message tells: chat, message, and whether the post was deleted.
    """

    cited: tuple[CitedPost, ...]
    others: tuple[PostKey, ...]
    shortfalls: tuple[str, ...]
    trace_id: str = ""
    sentences: tuple[StoredSentence, ...] = ()
    messages: tuple[int, ...] = ()
    certainty: Certainty = Certainty.SURE
    noted: frozenset[tuple[int, int, bool]] = frozenset()

    @property
    def posts(self) -> tuple[PostKey, ...]:
        """All posts that the answer cites or found."""
        return (*(one.key for one in self.cited), *self.others)

    @property
    def quotes(self) -> tuple[CitedSpan, ...]:
        """Cited spans, each once, in order."""
        return tuple(dict.fromkeys(place for sentence in self.sentences for place in sentence.places))


def hash_text_version(text: str) -> str:
    """Hash a post's text to tell versions apart, ignoring white space at its ends. It does not reveal the text."""
    return blake2b(text.strip().encode(), digest_size=8).hexdigest()


async def load_cited_text(post: Post, mark: str, archive: Archive) -> str | None:
    """Load the text that a post had when it was cited, by its hash; None where it is not stored."""
    if hash_text_version(post.text) == mark:
        return post.text
    older = await list_post_versions(archive, post.key)
    return next((version.text for version in older if hash_text_version(version.text) == mark), None)


def serialize_answer(answer: Answer, posts: Mapping[PostKey, Post]) -> JsonObject:
    """Serialize an answer for the archive; `posts` are those it cites, as they are now."""
    dates = {c.post: int(c.date.timestamp()) for s in answer.sentences for c in s.citations}
    return {
        "sentences": [
            {
                "around": around,
                "quote": quote,
                "support": sentence.support,
                "citations": [[*c.post, c.start, c.end] for c in sentence.citations],
            }
            for sentence in answer.sentences
            for around, quote in [_split_closing_quote(sentence)]
        ],
        "cited": [[*key, dates[key], _hash_cited_text(key, answer, posts)] for key in answer.posts()],
        "found": [list(source.passage.key) for source in answer.found],
        "confidence": answer.confidence,
        "certainty": answer.certainty.value,
        "recipe": answer.recipe,
        "model": answer.model,
        "shortfalls": [shortfall.stage for shortfall in answer.shortfalls],
        "trace_id": answer.trace_id,
    }


def dump_with_messages(kept: JsonObject, messages: Sequence[int]) -> str:
    """Dump a serialized answer as JSON; `messages` are the ids of the messages it was sent in.

    The content of the messages ("basis", bot/telegram/access_recheck.py) is stored only until they have arrived.
    """
    arrived = {name: value for name, value in kept.items() if name != "basis"}
    return json.dumps(arrived | {"messages": list(messages)}, ensure_ascii=False)


def parse_stored_answer(text: str) -> StoredAnswer:
    """Parse a stored answer; an answer that only said that no channel is open is empty."""
    return deserialize_answer(json.loads(text))


def deserialize_answer(raw: JsonObject) -> StoredAnswer:
    """Deserialize an answer from the result of `serialize_answer`."""
    cited = tuple(
        CitedPost(PostKey(chat_id, message_id), datetime.fromtimestamp(date, UTC), then)
        for chat_id, message_id, date, then in raw.get("cited", ())
    )
    numbered = {one.key for one in cited}
    found = dict.fromkeys(PostKey(*key) for key in raw.get("found", ()))
    others = tuple(key for key in found if key not in numbered)
    sentences = tuple(
        StoredSentence(
            one.get("around", ""),
            one.get("quote"),
            tuple(CitedSpan(PostKey(chat, message), a, b) for chat, message, a, b in one.get("citations", ())),
        )
        for one in raw.get("sentences", ())
    )
    return StoredAnswer(
        cited,
        others,
        tuple(raw.get("shortfalls", ())),
        trace_id=raw.get("trace_id", ""),
        sentences=sentences,
        messages=tuple(raw.get("messages", ())),
        certainty=Certainty(raw.get("certainty", Certainty.SURE)),
        noted=frozenset((chat, message, deleted) for chat, message, deleted in raw.get("noted", ())),
    )


def _hash_cited_text(key: PostKey, answer: Answer, posts: Mapping[PostKey, Post]) -> str:
    """Hash of the text that an answer cites; "" where the post was deleted or edited while it was written."""
    quotes = (c for s in answer.sentences for c in s.citations if c.post == key)
    text = posts[key].text if key in posts else ""
    return hash_text_version(text) if key in posts and all(text[c.start : c.end] == c.quote for c in quotes) else ""


def _split_closing_quote(sentence: Sentence) -> tuple[str, int | None]:
    """Words before the quote that ends a sentence, and the index of its citation.

    The whole sentence and None where it is no quote (a count, a model's words).
    """
    for place, citation in enumerate(sentence.citations):
        if citation.quote and sentence.text.endswith(citation.quote):
            return sentence.text.removesuffix(citation.quote).rstrip(), place
    return sentence.text.rstrip(), None


def _is_framed(sentence: Sentence) -> bool:
    """Whether words stand before the quote, such as "Earlier, on 1 May:"; a quote of several lines may be one line."""
    said = " ".join(sentence.text.split())
    quotes = (" ".join(citation.quote.split()) for citation in sentence.citations)
    return any(quote and said.endswith(quote) and said != quote for quote in quotes)


# A longer list of sources is folded until it is tapped.
_FOLD_THRESHOLD = 4
_MAX_SNIPPET_LENGTH = 140  # about two lines on a phone


def render_answer(answer: Answer, posts: Mapping[PostKey, Post], shown: RenderContext) -> Text:
    """Render an answer as one formatted text; `posts` supplies edits, origins and times of the posts it names.

    A post missing from `posts` keeps its line, without these details.
    """
    blocks = _render_refusal(answer, shown) if answer.refused else _render_answer_blocks(answer, posts, shown)
    if answer.understood:
        blocks.insert(
            0,
            style_text(Italic, shown.words("answer-understood", question=strip_control_characters(answer.understood))),
        )
    notes = dict.fromkeys(shown.words("shortfall", stage=s.stage) for s in answer.shortfalls)
    if not answer.refused:
        notes[_format_footer(answer, shown.words)] = None
    if notes:
        blocks.append(Italic("\n".join(notes)))
    return as_list(*blocks, sep="\n\n")


def make_link(label: str, url: str) -> Text:
    """Make a link, or plain text where the address is not https."""
    return TextLink(label, url=url) if url.startswith("https://") else neutralize_links(label)


def format_reference(
    key: PostKey, date: datetime, post: Post | Passage | None, channel: Channel | None, shown: RenderContext
) -> Text:
    """Format the author of a post, as a link that opens it, and its day; origin and edit of one that is here."""
    author = link_author(key, channel, post.origin if post else None, shown.words)
    return Text(author, " · ", format_day_and_edit(date, post.edited if post else None, shown))


def link_author(key: PostKey, channel: Channel | None, origin: Origin | None, words: Translator) -> Text:
    """Author of a post, as a link that opens it."""
    return make_link(format_author(channel, origin, words), format_channel_post_link(key, channel))


def link_username(key: PostKey, channel: Channel | None, words: Translator) -> Text:
    """Username of a post's channel, else its title, as a link that opens the post."""
    name = f"@{channel.username}" if channel and channel.username else format_author(channel, None, words)
    return make_link(name, format_channel_post_link(key, channel))


def _render_answer_blocks(answer: Answer, posts: Mapping[PostKey, Post], shown: RenderContext) -> list[Text]:
    numbers = {key: number for number, key in enumerate(answer.posts(), 1)}
    blocks = [render_sentences(answer, shown)]
    if answer.certainty is Certainty.PROBABLE:
        blocks.insert(0, Text(shown.words("answer-probable")))
    if answer.missing:
        blocks.append(neutralize_links(format_missing_parts(answer.missing, shown.words)))
    if numbers:
        lines = [_render_source(key, n, answer, posts, shown) for key, n in numbers.items()]
        fold = ExpandableBlockQuote if len(lines) >= _FOLD_THRESHOLD else BlockQuote
        blocks.append(Text(Bold(shown.words("sources", count=len(lines))), "\n", fold(as_list(*lines))))
    return blocks


def render_sentences(answer: Answer, shown: RenderContext | None = None) -> Text:
    """Render the sentences with the numbers of their posts; before a sentence that is only probable, its date.

    The words before a quote ("Earlier, on 1 May:") name its date themselves.
    """
    numbers = {key: number for number, key in enumerate(answer.posts(), 1)}
    rendered = []
    for sentence in answer.sentences:
        cited = dict.fromkeys(c.post for c in sentence.citations)
        marks = [piece for key in cited for piece in (" ", link_number(numbers[key], key, answer.channels))]
        text = Text(neutralize_links(strip_control_characters(sentence.text)), *marks)
        dates = () if _is_framed(sentence) else [c.date for c in sentence.citations]
        if shown and dates and answer.certainty is Certainty.PROBABLE:
            text = Text(Bold(shown.words.date(max(dates), shown.zone)), ": ", text)
        rendered.append(text)
    # A model writes a paragraph; quotes of different posts are separated.
    return as_list(*rendered, sep=" " if answer.model is not None else "\n\n")


def _render_source(
    key: PostKey, number: int, answer: Answer, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Text:
    cited = next(c for s in answer.sentences for c in s.citations if c.post == key)
    head = format_reference(key, cited.date, posts.get(key), answer.channels.get(key.chat_id), shown)
    channels = {copy.chat_id for copy in answer.copies.get(key, ())} - {key.chat_id}
    copies = [" · ", _render_copies(key, len(channels), answer, posts, shown)] if channels else []
    return Text(f"{number}. ", head, *copies)


def _render_copies(
    key: PostKey, count: int, answer: Answer, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Text:
    """The other channels with the post: the only one, or their number; the first where the post is older there."""
    copies = (key, *answer.copies[key])
    if any(copy not in posts for copy in copies):  # some were just deleted, so the first is unknown
        return Text(shown.words("source-copies", count=count))
    ordered = order_copies(posts[copy] for copy in copies)
    later = ordered[0].key.chat_id == key.chat_id
    if later and count > 1:
        return Text(shown.words("source-copies", count=count))
    first = next(post for post in ordered if post.key.chat_id != key.chat_id)
    link = link_username(first.key, answer.channels.get(first.key.chat_id), shown.words)
    if later:
        return shown.words.rich("source-copy", channel=link)
    return shown.words.rich("source-copies-first", count=count, first=link, when=format_moment(first.date, shown))


def _render_refusal(answer: Answer, shown: RenderContext) -> list[Text]:
    # Where a part of the search failed, "it is not there" would be a claim that cannot be made.
    partly = {s.stage for s in answer.shortfalls} - WRITING_STAGES
    unsure = answer.nearest or answer.certainty is Certainty.PROBABLE
    sentence = (
        "refused-partly" if partly else "refused-unsure" if unsure else "refused-group" if shown.group else "refused"
    )
    blocks = [Text(shown.words(sentence))]
    nearest = []
    for number, passage in enumerate(answer.nearest, 1):
        channel = answer.channels.get(passage.key.chat_id)
        line = Text(f"{number}. ", format_reference(passage.key, passage.date, passage, channel, shown))
        snippet = shorten_at_word(join_lines(passage.text), _MAX_SNIPPET_LENGTH)
        nearest.append(Text(line, "\n", neutralize_links(snippet)) if snippet else line)
    if nearest:
        quoted = BlockQuote(as_list(*nearest, sep="\n\n"))
        blocks.append(Text(shown.words("nearest", count=len(nearest)), "\n", quoted))
    return blocks


# The day of a post before its quote: "18 November: ", "31 декабря 2025 г.: ".
_DAY_BEFORE_QUOTE = re.compile(r"(?:\d{1,2} [^\W\d_]+(?: \d{4}\s\S{1,3})?:|[^\W\d_]+ \d{1,2}(?:, \d{4})?:)?")
_CUT_ENDS = " ,;:—–-…"  # of a quote that is shortened


def _format_footer(answer: Answer, words: Translator) -> str:
    if answer.model:
        return words("footer-model", model=strip_control_characters(answer.model))
    # a sentence on a contradicting post has a few words before its quote; a computed sentence comes first
    first = answer.sentences[0]
    said = " ".join(first.text.split()).rstrip(_CUT_ENDS)
    quotes = (" ".join(c.quote.split()).rstrip(_CUT_ENDS) for c in first.citations)
    verbatim = any(
        quote and said.endswith(quote) and _DAY_BEFORE_QUOTE.fullmatch(said.removesuffix(quote).strip())
        for quote in quotes
    )
    return words("footer-verbatim" if verbatim else "footer-counted")


def render_stored_sentences(
    answer: StoredAnswer,
    sentences: Sequence[StoredSentence],
    texts: Mapping[PostKey, str],
    stored: Mapping[PostKey, Post],
    known: Mapping[int, Channel],
    shown: RenderContext,
) -> list[Text]:
    """Render sentences of an answer with the numbers of their posts, and below them these sources.

    `texts` are the posts' texts as they were cited, `stored` the posts as they are now.
    """
    cited = {one.key: (number, one) for number, one in enumerate(answer.cited, 1)}
    used = sorted({place.key for sentence in sentences for place in sentence.places}, key=lambda key: cited[key][0])
    lines = [format_source(*cited[key], stored[key], known.get(key.chat_id), shown) for key in used]
    rendered = []
    for sentence in sentences:
        text = sentence.around
        if sentence.quote is not None:
            key, start, end = sentence.places[sentence.quote]
            text = f"{text} {texts[key][start:end]}".strip()
        own = dict.fromkeys(place.key for place in sentence.places)
        marks = [piece for key in own for piece in (" ", link_number(cited[key][0], key, known))]
        rendered.append(Text(neutralize_links(strip_control_characters(text)), *marks))
    return [*rendered, *([BlockQuote(as_list(*lines))] if lines else [])]


def link_number(number: int, key: PostKey, known: Mapping[int, Channel]) -> Text:
    """Number of a source, as a link that opens the post."""
    return make_link(f"[{number}]", format_channel_post_link(key, known.get(key.chat_id)))


def format_source(
    number: int, cited: CitedPost, post: Post | None, channel: Channel | None, shown: RenderContext
) -> Text:
    """Format the head of a source: its number, its author as a link to the post, and its date, or that it is gone."""
    if post:
        return Text(f"{number}. ", format_reference(post.key, post.date, post, channel, shown))
    title, date = format_author(channel, None, shown.words), shown.words.date(cited.date, shown.zone)
    return Text(f"{number}. ", shown.words("why-gone", title=title, date=date))


# Invisible letters: Telegram treats a button with nothing but these as empty.
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_MAX_TITLE_LENGTH = 100  # characters; Telegram's own limit is 128, but a title in an export can have any length


def format_one_line(text: str, longest: int = _MAX_TITLE_LENGTH) -> str:
    """Clean an untrusted text to one line of at most `longest` characters; "" where nothing visible is left."""
    line = join_lines(text)
    if not any(unicodedata.category(c)[0] in "LNPS" and c not in _BLANK_LETTERS for c in line):
        return ""
    return line if len(line) <= longest else f"{line[: longest - 1].rstrip()}…"


def format_channel_title(channel: Channel, words: Translator, longest: int = _MAX_TITLE_LENGTH) -> str:
    """Channel title in one line, not empty, at most `longest` characters."""
    return format_one_line(channel.title, longest) or words("unnamed-channel")


def link_channel_title(channel: Channel, words: Translator) -> Text:
    """Channel title as a link for a public channel, in bold otherwise."""
    title = format_channel_title(channel, words)
    return make_link(title, f"https://t.me/{channel.username}") if channel.username else style_text(Bold, title)
