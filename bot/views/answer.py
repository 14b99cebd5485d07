"""Answer view: sentences with numbers that open posts, sources and notes; its first sentence; its sources by pages.

A message is built from one text, for its plain form and its rich one (bot/views/rich.py). Links come from the archive,
never out of a post, and are https.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby

from aiogram.types import MessageEntity
from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Text, TextLink, as_list

from bot.i18n import Translator, get_translator
from bot.stored_answer import StoredAnswer, StoredSentence, compare_with_posts, is_text_version, parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts
from bot.views.format import QUOTE_TYPES, neutralize_links, style_text
from bot.views.keyboards import Press, build_keyboard, build_page_row, cut_page
from bot.views.rich import DatedLine, NoteList, PostDay, PostMark, PostNote, quote_post
from bot.views.text import (
    WRITING_STAGES,
    RenderContext,
    format_author,
    format_caveat,
    format_day_and_edit,
    format_media_place,
    format_missing_parts,
    format_moment,
    format_shortfalls,
    join_lines,
    shorten,
    shorten_at_word,
    strip_control_characters,
)
from rag_core.evidence import order_copies
from rag_core.storage import Archive, channels, visible_posts
from rag_core.storage.questions import AnsweredQuestion, QuestionRow
from rag_core.storage.readers import load_group_rules
from rag_core.text.numbers import extract_figures
from rag_core.text.post_text import label_poll
from rag_core.text.sentences import split_sentences
from rag_core.text.tokens import detect_language
from rag_core.types import (
    Answer,
    Certainty,
    Channel,
    MediaSpan,
    Origin,
    Passage,
    Post,
    PostKey,
    Sentence,
    Viewer,
    format_channel_post_link,
)

_MAX_UNSURE = 3  # posts shown instead of an answer that the group does not want
_CITATION_NUMBER_PATTERN = re.compile(r" ?\[\d+\]")


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
    nearest = tuple(source.passage for source in answer.found[:_MAX_UNSURE])
    return replace(answer, sentences=(), model=None, nearest=nearest, certainty=Certainty.PROBABLE)


_MAX_SNIPPET_LENGTH = 140  # about two lines on a phone


def render_answer(answer: Answer, posts: Mapping[PostKey, Post], shown: RenderContext) -> Text:
    """Render an answer as one formatted text; `posts` supplies edits, origins and times of the posts it names.

    A post missing from `posts` keeps its line, without these details.
    """
    words, understood = shown.words, strip_control_characters(answer.restated)
    blocks = [style_text(Italic, words("answer-understood", question=understood))] if understood else []
    notes = format_shortfalls(answer.shortfalls, words)
    if answer.refused:
        blocks.append(_render_refusal(answer, shown))
    else:
        if answer.certainty is Certainty.PROBABLE:
            date = words.date(answer.sentences[0].citations[0].date, shown.zone) if answer.aged else ""
            blocks.append(Text(format_caveat(answer.confidence, words, date)))
        blocks.append(render_sentences(answer, shown))
        if answer.missing:
            blocks.append(neutralize_links(format_missing_parts(answer.missing, words)))
        if lines := [_render_source(key, n, answer, posts, shown) for n, key in enumerate(answer.posts(), 1)]:
            blocks.append(NoteList(words("sources", count=len(lines)), lines))
        if answer.model:
            notes.append(words("footer-model", model=strip_control_characters(answer.model)))
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
    author = link_author(key, channel, post.origin if post else None, shown.words, post.topic if post else None)
    day = shown.words.date(date, shown.zone)
    edit = format_day_and_edit(date, post.edited if post else None, shown).removeprefix(day)
    return Text(author, " · ", PostDay(day, date), *([edit] if edit else []))


def link_author(
    key: PostKey, channel: Channel | None, origin: Origin | None, words: Translator, topic: int | None = None
) -> Text:
    """Author of a post, as a link that opens it."""
    return make_link(format_author(channel, origin, words, topic), format_channel_post_link(key, channel, topic))


def link_username(key: PostKey, channel: Channel | None, words: Translator) -> Text:
    """Username of a post's channel, else its title, as a link that opens the post."""
    name = f"@{channel.username}" if channel and channel.username else format_author(channel, None, words)
    return make_link(name, format_channel_post_link(key, channel))


def strip_sources(text: str, entities: Sequence[MessageEntity]) -> str:
    """Strip what `render_answer` adds to the sentences: the sources, the notes below them, and the numbers."""
    lists = [entity.offset for entity in entities if entity.type in QUOTE_TYPES]
    if lists:
        before = text.encode("utf-16-le")[: 2 * min(lists)].decode("utf-16-le").rstrip()
        text = before.rpartition("\n")[0]  # the line above the list is its title
    return _CITATION_NUMBER_PATTERN.sub("", text).strip()


def render_sentences(answer: Answer, shown: RenderContext | None = None) -> Text:
    """Render the sentences with the numbers of their posts; before a sentence that is only probable, its date.

    A count above or below the lines of its posts goes without their numbers. The words before a quote ("Earlier, on
    1 May:") name its date themselves. Further quotes of an answer that is only probable are folded until tapped.
    """
    numbers = {key: number for number, key in enumerate(answer.posts(), 1)}
    rendered, folded, seen = list[tuple[Text, DatedLine | None, bool]](), list[Text](), set[PostKey]()
    for place, sentence in enumerate(answer.sentences):
        cited = dict.fromkeys(c.post for c in sentence.citations)
        numbered = () if answer.counts_lines(sentence) else cited
        marks = [piece for key in numbered for piece in (" ", link_number(numbers[key], key, answer.channels))]
        addresses = [one for key in cited if key not in seen for one in _list_addresses(key, answer)]
        seen |= cited.keys()
        text = Text(neutralize_links(strip_control_characters(sentence.text)), *marks, *addresses)
        said, quotes = " ".join(sentence.text.split()), [" ".join(c.quote.split()) for c in sentence.citations]
        # words before the quote, such as "Earlier, on 1 May:"; a quote of several lines may be one line
        framed = any(quote and said.endswith(quote) and said != quote for quote in quotes)
        dates = () if framed else [c.date for c in sentence.citations]
        told = answer.aged and not place  # by the line above
        if shown and dates and answer.certainty is Certainty.PROBABLE and not told:
            text = Text(Bold(shown.words.date(max(dates), shown.zone)), ": ", text)
        folds = shown and place and sentence.further and answer.certainty is Certainty.PROBABLE
        if folds:
            folded.append(text)
        else:
            line = _make_dated_line(sentence, text, [*marks, *addresses], answer, shown) if shown else None
            rendered.append((text, line, framed or answer.certainty is Certainty.PROBABLE))
    parts = list[Text]()
    for has_line, group in groupby(rendered, lambda one: one[1] is not None):
        run = list(group)  # a series: lines one after the other, of which one is shown with its day
        series = has_line and len(run) > 1 and any(dated for _, _, dated in run)
        parts += [line if line and series else text for text, line, _ in run]
    if shown and folded:
        quote = ExpandableBlockQuote(as_list(*folded, sep="\n\n"))
        parts.append(Text(shown.words("answer-further"), "\n", quote))
    # A model writes a paragraph; quotes of different posts are separated.
    return as_list(*parts, sep=" " if answer.model is not None else "\n\n")


# Characters of the cells of a series: "Earlier, on 1 May 2025", and a quote.
_MAX_DAY_LENGTH, _MAX_SAID_LENGTH = 40, 240


def _make_dated_line(
    sentence: Sentence, plain: Text, marks: Sequence[Text | str], answer: Answer, shown: RenderContext
) -> DatedLine | None:
    """Make a line of a series of a short quote of one post, with its day or the words with the day before it."""
    if answer.model is not None or len({c.post for c in sentence.citations}) != 1:
        return None
    cited = sentence.citations[0]
    said, quote = " ".join(sentence.text.split()), " ".join(cited.quote.split())
    if not quote or not said.endswith(quote):
        return None
    before, day = said.removesuffix(quote).rstrip(" :"), shown.words.date(cited.date, shown.zone)
    undated = before and day.rpartition(" ")[0] not in before  # the year may be missing
    if undated or len(before) > _MAX_DAY_LENGTH or len(quote) > _MAX_SAID_LENGTH or "\n" in cited.quote.strip():
        return None
    link = make_link(before or day, format_channel_post_link(cited.post, answer.channels.get(cited.post.chat_id)))
    return DatedLine(plain, link, Text(neutralize_links(strip_control_characters(quote)), *marks))


def _list_addresses(key: PostKey, answer: Answer) -> list[Text]:
    return [Text("\n", neutralize_links(join_lines(address))) for address in answer.addresses.get(key, ())]


def _render_source(
    key: PostKey, number: int, answer: Answer, posts: Mapping[PostKey, Post], shown: RenderContext
) -> PostNote:
    """A source, and the other channels with the post: the only one, or their number; the first where it is older."""
    cited = [c for s in answer.sentences for c in s.citations if c.post == key]
    head = format_reference(key, cited[0].date, posts.get(key), answer.channels.get(key.chat_id), shown)
    head = add_media_places(head, [c.read for c in cited], shown)
    quotes = list(dict.fromkeys(c.quote for c in cited if c.quote))
    copies = (key, *answer.copies.get(key, ()))
    if count := len({copy.chat_id for copy in copies} - {key.chat_id}):
        others = Text(shown.words("source-copies", count=count))
        if all(copy in posts for copy in copies):  # else some were just deleted, so the first is unknown
            ordered = order_copies(posts[copy] for copy in copies)
            first = next(post for post in ordered if post.key.chat_id != key.chat_id)
            link = link_username(first.key, answer.channels.get(first.key.chat_id), shown.words)
            if first is ordered[0]:
                when = format_moment(first.date, shown)
                others = shown.words.rich("source-copies-first", count=count, first=link, when=when)
            elif count == 1:
                others = shown.words.rich("source-copy", channel=link)
        head = Text(head, " · ", others)
    words = quote_post(posts[key].text if key in posts else "\n\n".join(quotes), quotes)
    return PostNote(link_number(number, key, answer.channels), head, words)


def add_media_places(head: Text, spans: Iterable[MediaSpan | None], shown: RenderContext) -> Text:
    """Add to the head of a source where in its post's file the words shown of it stand."""
    places = dict.fromkeys(format_media_place(span.kind, span.place or 0, shown.words) for span in spans if span)
    return Text(head, " · ", ", ".join(places)) if places else head


def _render_refusal(answer: Answer, shown: RenderContext) -> Text:
    # Where a part of the search failed, "it is not there" would be a claim that cannot be made.
    partly = {s.stage for s in answer.shortfalls} - WRITING_STAGES
    unsure = answer.nearest or answer.certainty is Certainty.PROBABLE
    sentence = (
        "refused-partly" if partly else "refused-unsure" if unsure else "refused-group" if shown.group else "refused"
    )
    said = Text(shown.words(sentence))
    if sentence == "refused" and answer.read_as:  # not what was typed
        read = ", ".join(join_lines(read) for _, read in answer.read_as)
        said = shown.words.rich("refused-sought", sought=neutralize_links(read))
    nearest = list[Text]()
    for number, passage in enumerate(answer.nearest, 1):
        head = format_reference(passage.key, passage.date, passage, answer.channels.get(passage.key.chat_id), shown)
        span = passage.cite((0, _MAX_SNIPPET_LENGTH)).read
        line = Text(f"{number}. ", add_media_places(head, [span], shown))
        snippet = shorten_at_word(join_lines(label_poll(passage)), _MAX_SNIPPET_LENGTH)
        words = ["\n", neutralize_links(snippet)] if snippet else []
        nearest.append(Text(line, *words, *_list_addresses(passage.key, answer)))
    if not nearest:
        return said
    return Text(said, " ", shown.words("nearest"), "\n", BlockQuote(as_list(*nearest, sep="\n\n")))


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
    marks = {one.key: link_number(number, one.key, known) for number, one in enumerate(answer.cited, 1)}
    rendered, notes = list[Text](), list[PostNote]()
    for sentence in sentences:
        own = dict.fromkeys(place.key for place in sentence.citations)
        numbers = [piece for key in own for piece in (" ", marks[key])]
        rendered.append(Text(neutralize_links(strip_control_characters(sentence.compose(texts))), *numbers))
    for key, mark in marks.items():
        if places := [place for one in sentences for place in one.citations if place.key == key]:
            post, quotes = stored[key], [texts[key][place.start : place.end] for place in places]
            head = format_reference(key, post.date, post, known.get(key.chat_id), shown)
            head = add_media_places(head, [post.find_media_span(place.start, place.end) for place in places], shown)
            notes.append(PostNote(mark, head, quote_post(post.text, quotes)))
    return [*rendered, *([NoteList("", notes)] if notes else [])]


async def shorten_answer(
    asked: AnsweredQuestion, viewer: Viewer, archive: Archive, shown: RenderContext
) -> View | None:
    """Shorten an answer to its first sentence with sources; None where a post of it changed or is unavailable."""
    answer = parse_stored_answer(asked.answer)
    first = next(iter(answer.sentences), StoredSentence())
    keys = dict.fromkeys(place.key for place in first.citations)
    stored = await visible_posts.fetch_posts(archive, [key for key in keys if key.chat_id in viewer.channels])
    marks = {one.key: one.mark for one in answer.cited}
    if not keys or any(key not in stored or not is_text_version(stored[key], marks[key]) for key in keys):
        return None
    known, texts = await channels.load_channels(archive), {key: post.text for key, post in stored.items()}
    blocks = render_stored_sentences(answer, [first], texts, stored, known, shown)
    if answer.certainty is Certainty.PROBABLE:
        blocks.insert(0, Text(format_caveat(answer.confidence, shown.words)))
    text = as_list(*blocks, Italic(shown.words("shorter-note")), sep="\n\n")
    return View(text, collect_content_of_posts(stored.values()))


async def render_in_language(given: StoredAnswer, viewer: Viewer, archive: Archive, shown: RenderContext) -> View:
    """Render an answer again with the words of another language around its quotes, which stay as their posts have them.

    A post in that language that was found for the same question and states all figures of the first quote goes before.
    """
    now, known = await compare_with_posts(given, viewer, archive), await channels.load_channels(archive)
    sentences = [one for one in given.sentences if one.citations and all(map(now.holds, one.citations))]
    if not sentences:
        return View(Text(shown.words("answer-changed")))
    content, blocks = collect_content_of_posts(now.stored.values()), list[Text]()
    unsure = given.certainty is Certainty.PROBABLE  # its further quotes answer where the first does not
    places = dict.fromkeys(place for one in sentences[: 1 if unsure else None] for place in one.citations)
    figures = extract_figures(sentences[0].compose(now.texts))
    found = await visible_posts.fetch_posts(archive, [key for key in given.found if key.chat_id in viewer.channels])
    for key in given.found if figures else ():
        post = found.get(key)
        said = [post.text[start:end] for start, end in split_sentences(post.text)] if post else []
        same = [one for one in said if detect_language(one) == shown.words.lang and figures <= extract_figures(one)]
        if post and same:
            reference = format_reference(key, post.date, post, known.get(key.chat_id), shown)
            blocks.append(as_list(neutralize_links(strip_control_characters(same[0])), reference))
            content |= collect_content_of_posts([post])
            break
    quotes = [StoredSentence("", 0, (place,)) for place in places]
    blocks += render_stored_sentences(given, quotes, now.texts, now.stored, known, shown)
    head = [Text(format_caveat(given.confidence, shown.words))] if unsure else []
    return View(as_list(*head, *blocks, Italic(shown.words("quotes-language")), sep="\n\n"), content)


def link_number(number: int, key: PostKey, known: Mapping[int, Channel]) -> PostMark:
    """Number of a source, as a link that opens the post."""
    return PostMark(number, make_link(f"[{number}]", format_channel_post_link(key, known.get(key.chat_id))))


def format_source(
    number: int, date: datetime, post: Post | None, channel: Channel | None, shown: RenderContext
) -> Text:
    """Format the head of a source: its number, its author as a link to the post, and its date, or that it is gone."""
    if post:
        return Text(f"{number}. ", format_reference(post.key, post.date, post, channel, shown))
    title = format_author(channel, None, shown.words)
    return Text(f"{number}. ", shown.words("why-gone", title=title, date=shown.words.date(date, shown.zone)))


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


SOURCES_PER_PAGE = 3
# Three sources with three quotes of this length, whose characters may count twice, fit into 4096.
_MAX_QUOTES, _MAX_QUOTE_LENGTH = 3, 200
_MAX_ONLY_QUOTE_LENGTH = 600  # for the only quote of a post


async def render_sources_page(
    asked: AnsweredQuestion, viewer: Viewer, archive: Archive, shown: RenderContext, page: int = 0
) -> View:
    """Render a page of the sources that this viewer may read now, with its page buttons."""
    answer, words = parse_stored_answer(asked.answer), shown.words
    cited = [(number, one) for number, one in enumerate(answer.cited, 1) if one.key.chat_id in viewer.channels]
    if not cited:
        none = "sources-counted" if answer.sentences and asked.kind == "ask" else "sources-none"
        return View(Text(words("why-closed" if answer.cited else none)))
    here, page, last = cut_page(cited, page, SOURCES_PER_PAGE)
    stored = await visible_posts.fetch_posts(archive, [one.key for _, one in here])
    known = await channels.load_channels(archive)
    pages = [" · ", words("search-page", page=page + 1, pages=last + 1)] if last else []
    blocks = [Text(Bold(words("sources", count=len(cited))), *pages)]
    for number, one in here:
        post = stored.get(one.key)
        block = format_source(number, one.date, post, known.get(one.key.chat_id), shown)
        if post and not is_text_version(post, one.mark):
            block = as_list(block, words("sources-changed"))
        elif post:
            places = sorted(place for place in answer.quotes if place.key == post.key)
            block = add_media_places(block, [post.find_media_span(place.start, place.end) for place in places], shown)
            quoted = (strip_control_characters(post.text[place.start : place.end]) for place in places)
            quotes = [*filter(None, quoted)]
            longest = _MAX_ONLY_QUOTE_LENGTH if len(quotes) == 1 else _MAX_QUOTE_LENGTH
            if listed := [shorten(text, longest) for text in quotes[:_MAX_QUOTES]]:
                block = as_list(block, ExpandableBlockQuote(neutralize_links("\n\n".join(listed))))
        blocks.append(block)
    row = build_page_row(page, last, lambda n: Press(to="page", token=asked.handle, number=n))
    named = frozenset(one.key.chat_id for _, one in here)
    content = ShownContent(channels=named, counted=frozenset(one.key.chat_id for _, one in cited))
    content |= collect_content_of_posts(stored.values())
    return View(as_list(*blocks, sep="\n\n"), content, build_keyboard(row))
