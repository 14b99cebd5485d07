"""Explanation of an answer: the posts behind it and their edits since, and how the words of its question were read.

Access is worked out anew: a channel that is closed to this reader by now is not named at all.
"""

import asyncio
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from difflib import SequenceMatcher

from aiogram.utils.formatting import BlockQuote, Bold, ExpandableBlockQuote, Italic, Strikethrough, Text, as_list

from bot.i18n import get_translator
from bot.stored_answer import CitedPost, hash_text_version, parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts
from bot.views.answer import format_reference, format_source
from bot.views.format import LINK_REGEX, neutralize_links, style_text
from bot.views.text import RenderContext, cut_lines, join_lines, shorten, strip_control_characters
from rag_core.engine import Engine
from rag_core.planning.plan import plan_with_spelling_and_aliases
from rag_core.storage import Archive, channels, posts, visible_posts
from rag_core.storage.questions import AnsweredQuestion
from rag_core.text.tokens import list_dictionary_forms, tokenize
from rag_core.types import Certainty, Post, Question, Viewer

_MAX_OTHERS = 5  # posts listed that were found but not cited: more of them explain nothing
# Characters of the question: enough to recognize it.
_MAX_SHOWN_QUESTION_LENGTH = 120
_WORD_PATTERN = re.compile(r"\w+(?:[-’']\w+)*")


async def explain_answer(
    asked: AnsweredQuestion, viewer: Viewer, archive: Archive, shown: RenderContext, rag: Engine | None = None
) -> View:
    """Explain what an answer is based on, as far as this viewer may read it now; with `rag`, how it was read, too."""
    kept = parse_stored_answer(asked.answer)
    cited = [(number, one) for number, one in enumerate(kept.cited, 1) if one.key.chat_id in viewer.channels]
    others = [key for key in kept.others if key.chat_id in viewer.channels]
    stored = await visible_posts.fetch_posts(archive, [*(one.key for _, one in cited), *others])
    known, words = await channels.load_channels(archive), shown.words
    question = shorten(join_lines(asked.text), _MAX_SHOWN_QUESTION_LENGTH)
    blocks: list[Text] = [style_text(Bold, words("why-question", question=question))]
    texts, content = (post.text for post in stored.values()), collect_content_of_posts(stored.values())
    content |= ShownContent(channels=frozenset(one.key.chat_id for _, one in cited))
    if rag and (reading := await describe_reading(asked.text, asked.lang, texts, viewer, rag)):
        blocks.append(as_list(*map(neutralize_links, reading)))
        content |= ShownContent(counted=viewer.channels)
    if kept.certainty is Certainty.PROBABLE:
        blocks.append(Text(words("why-probable")))
    if kept.judged is not None:
        verdict = "yes" if kept.judged >= 0 else "no"
        blocks.append(Text(words("why-judged", verdict=verdict, odds=f"{kept.judged:+.1f}")))
    sources = []
    for number, one in cited:
        post = stored.get(one.key)
        line = format_source(number, one, post, known.get(one.key.chat_id), shown)
        edits = await _list_edits(one, post, asked.answered_at, archive, shown) if post and post.edited else []
        sources.append(as_list(line, *edits))
    if sources:
        blocks.append(Text(Bold(words("sources", count=len(sources))), "\n", sources[0]))
        blocks += sources[1:]
    if unused := [stored[key] for key in others if key in stored]:  # for a refusal, all that were found
        heads = [format_reference(p.key, p.date, p, known.get(p.key.chat_id), shown) for p in unused]
        lines = cut_lines([Text("• ", head) for head in heads], _MAX_OTHERS, words)
        sentence = words("why-others") if kept.cited else words("why-refused", count=len(unused))
        blocks.append(Text(sentence, "\n", ExpandableBlockQuote(as_list(*lines))))
    if not (sources or others):
        blocks.append(Text(words("why-closed" if kept.cited or kept.others else "why-nothing-found")))
    if notes := dict.fromkeys(words("shortfall", stage=stage, count=0) for stage in kept.shortfalls):
        blocks.append(Italic("\n".join(notes)))
    return View(as_list(*blocks, sep="\n\n"), content)


async def describe_reading(text: str, lang: str, texts: Iterable[str], viewer: Viewer, rag: Engine) -> list[str]:
    """Describe how the words of a question are read for this viewer now: corrected spelling, and other names.

    It is worked out anew, as names come from posts. They are terms; `texts` are posts that hold them as words.
    """
    words, (known, synonyms) = get_translator(lang), await channels.load_channels_and_synonyms(rag.archive)
    plan = await plan_with_spelling_and_aliases(Question(text, lang, datetime.now(UTC), viewer), known, synonyms, rag)
    read = " ".join(read for _, read in plan.read_as)
    by_term: dict[str, str] = {}
    for word in _WORD_PATTERN.findall(" ".join((text, read, *texts))) if plan.aliases else ():
        for term in tokenize(word):
            by_term.setdefault(term, word)
    others = [
        f"{_get_dictionary_form(by_term[one])} — {_get_dictionary_form(by_term[other])}"
        for one, other in plan.aliases
        if {one, other} <= by_term.keys()
    ]
    return [
        *(words("why-read-as", typed=typed, read=read) for typed, read in plan.read_as),
        *([words("why-aliases", pairs="; ".join(dict.fromkeys(others)))] if others else []),
    ]


def _get_dictionary_form(word: str) -> str:
    form = next(iter(list_dictionary_forms(word.lower())), word)
    return form.capitalize() if word[0].isupper() else form


async def _list_edits(
    one: CitedPost, post: Post, answered_at: datetime, archive: Archive, shown: RenderContext
) -> list[Text]:
    """List the edits of a post, or of its whole album: those after the answer, and the last one before it."""
    edits = []
    keys = await posts.list_album_keys(archive, one.key) if post.album else (one.key,)
    for key, now in (await posts.fetch_stored_posts(archive, keys)).items():
        # the newest version first
        chain = [posts.PostVersion(now.stamp, now.post.text), *await posts.list_post_versions(archive, key)]
        if now.deleted or len(chain) == 1:
            continue
        then = next((place for place, version in enumerate(chain) if hash_text_version(version.text) == one.mark), None)
        # The cited version is unknown where the text joined several captions; then the last edit is shown.
        if then is None:
            edits.append(await _format_edit("why-changed", chain[1], chain[0], shown))
            continue
        if then > 0:
            edits.append(await _format_edit("why-changed-after", chain[then], chain[0], shown))
        if then + 1 < len(chain):
            # An edit after the answer may have restored the cited text.
            sentence = "why-changed-before" if chain[then].stamp <= answered_at else "why-changed"
            edits.append(await _format_edit(sentence, chain[then + 1], chain[then], shown))
    return edits or [Text(shown.words("why-unknown-before"))]


async def _format_edit(sentence: str, old: posts.PostVersion, new: posts.PostVersion, shown: RenderContext) -> Text:
    words = shown.words
    head = words(sentence, date=words.date(new.stamp, shown.zone))
    # Comparing two long and different texts takes a while.
    difference, more = await asyncio.to_thread(format_changes, old.text, new.text)
    if not difference.as_kwargs()["text"]:
        difference = Text(words("why-changed-spaces"))
    tail = [Text(words("why-changed-more", more=more))] if more else []
    return Text(head, "\n", BlockQuote(as_list(difference, *tail)))


_CONTEXT_WORDS = 6  # around a change: about a line on a phone before it and one after
_MAX_CHANGES = 5  # shown of one edit
_HEAD_LENGTH, _TAIL_LENGTH = 160, 60  # characters shown of a long change, from its beginning and its end
# An address, a word with inner signs (7:30, e-mail, 12.50), or a run of signs; then the space after it.
_TOKEN_PATTERN = re.compile(rf"({LINK_REGEX}|\w+(?:[^\w\s]\w+)*|[^\w\s]+)(\s*)")


def format_changes(before: str, after: str) -> tuple[Text, int]:
    """Format the changes of a text with context, and count the changes that are not shown.

    The text is empty where only white space changed. Control characters and direction marks are left out.
    """
    was, now = (_TOKEN_PATTERN.findall(strip_control_characters(text)) for text in (before, after))
    matcher = SequenceMatcher(None, [word for word, _ in was], [word for word, _ in now])
    pieces: list[Text | str] = []
    count = end = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT_WORDS):
        if count >= _MAX_CHANGES:
            count += sum(kind != "equal" for kind, *_ in group)
            continue
        pieces += ["… "] if group[0][3] > end else []
        for kind, i, j, k, m in group:
            count += kind != "equal"
            if count > _MAX_CHANGES:
                continue
            gone, new, end = was[i:j], now[k:m], m
            if kind == "equal":
                pieces.append(_join_tokens(new))
                continue
            if gone:
                pieces.append(style_text(Strikethrough, _shorten_middle(_join_tokens(gone).rstrip()), "−"))
            pieces += [" "] if gone and new else []
            if new:
                pieces.append(style_text(Bold, _shorten_middle(_join_tokens(new).rstrip()), "+"))
            pieces += [" "] if (new or gone)[-1][1] else []
    pieces += ["…"] if count and end < len(now) else []
    text = Text(*(neutralize_links(piece) if isinstance(piece, str) else piece for piece in pieces if piece))
    return text, max(0, count - _MAX_CHANGES)


def _shorten_middle(text: str) -> str:
    if len(text) <= _HEAD_LENGTH + _TAIL_LENGTH:
        return text
    return f"{text[:_HEAD_LENGTH].rstrip()} … {text[-_TAIL_LENGTH:].lstrip()}"


def _join_tokens(tokens: Sequence[tuple[str, str]]) -> str:
    return "".join(word + (" " if space else "") for word, space in tokens)
