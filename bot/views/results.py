"""Views of what was found: pages of search results, verdicts on claims, digests, and why an answer is as it is.

A message is built from text and entities only; links come from the archive, never out of a post. For the
explanation of an answer access is worked out anew: a channel that is closed to this reader by now is not named at all.
"""

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from difflib import SequenceMatcher
from functools import partial
from itertools import islice
from operator import itemgetter

from aiogram.utils.formatting import BlockQuote, Bold, Code, ExpandableBlockQuote, Italic, Strikethrough, Text, as_list

from bot.i18n import get_translator
from bot.stored_answer import CitedPost, hash_text_version, parse_stored_answer
from bot.telegram.recheck import ShownContent, View, collect_content_of_posts
from bot.views import answer
from bot.views.format import LINK_REGEX, find_link_spans, neutralize_links, style_text
from bot.views.keyboards import cut_page
from bot.views.rich import CreditedQuotes, Heading
from bot.views.text import (
    RenderContext,
    cut_lines,
    dump_json,
    format_author,
    format_day_and_edit,
    format_shortfalls,
    join_lines,
    shorten,
    strip_control_characters,
)
from rag_core.engine import Engine
from rag_core.planning.plan import format_plan, make_plan, plan_with_spelling_and_aliases
from rag_core.retrieval.digests import DigestLine
from rag_core.retrieval.post_search import FoundPost, SearchListing, TextMatcher, select_snippet
from rag_core.retrieval.search import resolve_filter, search_dense, search_lexical, search_passages
from rag_core.run import Run, Stage
from rag_core.storage import Archive, channels, posts, visible_posts
from rag_core.storage.questions import AnsweredQuestion
from rag_core.text.post_text import POLL_LABELS, find_poll
from rag_core.text.tokens import detect_language, list_dictionary_forms, tokenize
from rag_core.types import Certainty, Channel, Citation, Post, PostKey, Question, Viewer, format_channel_post_link
from rag_core.verification import NON_SEARCH_STAGES, Label, Verdict, Verification

RESULTS_PER_PAGE = 5
# Lengths at which a page of nothing but emoji, which count twice, fits into 4096 characters.
_MAX_SNIPPET_LENGTH, _MAX_NAME_LENGTH, _MAX_QUERY_LENGTH = 180, 48, 80
_MAX_NAMED = 2  # channels, authors and other filters that are named
# Telegram drops entities after about a hundred per message, including those it detects in a text by itself.
_MAX_BOLD, _MAX_AUTO_ENTITIES = 8, 5
_AUTO_ENTITY_PATTERN = re.compile(r"(?<!\w)[@#$/]\w|\w[.@][^\W\d_]|://|\d{7,}")

_ONE_MICROSECOND = timedelta(microseconds=1)

_shorten_name = partial(answer.format_one_line, longest=_MAX_NAME_LENGTH)


def render_search_page(listing: SearchListing, number: int, shown: RenderContext) -> Text:
    """Render a page of results, or the nearest that there is; where nothing was found, a sentence with advice."""
    words = shown.words
    if not listing.found:
        names = [*map(_shorten_name, listing.sought.filters)]
        if listing.shortfalls:  # "there is none" would be a claim that cannot be made
            said = words("search-nothing-partly")
        elif names:
            filters = f" {words('search-or')} ".join(words("search-quoted", text=name) for name in names)
            said = words("search-nothing-filtered", filters=filters)
        else:
            quoted = any(phrase[0] not in "#@" for phrase in listing.sought.plan.must)
            said = words("search-nothing-quoted" if quoted else "search-nothing")
        blocks = [Text(said)]
    else:
        entries, number, last = cut_page(listing.found, number, RESULTS_PER_PAGE)
        blocks = [_render_head(listing, number, last, shown)]
        for place, found in enumerate(entries, number * RESULTS_PER_PAGE):
            if place == listing.whole and place:
                blocks.append(Italic(words("search-near")))
            blocks.append(_render_entry(place + 1, found, listing, shown))
    if notes := format_shortfalls(listing.shortfalls, words):
        blocks.append(Italic("\n".join(notes)))
    return as_list(*blocks, sep="\n\n")


def _render_head(listing: SearchListing, number: int, last: int, shown: RenderContext) -> Text:
    words, sought, only = shown.words, listing.sought, listing.only
    named = answer.format_one_line(sought.words, _MAX_QUERY_LENGTH)
    what: list[Text | str] = [style_text(Bold, named) if named else words("search-all")]
    since = words.date(only.since, shown.zone) if only.since else ""
    until = words.date(only.until - _ONE_MICROSECOND, shown.zone) if only.until else ""
    if since and until:
        what.append(since if since == until else words("date-between", since=since, until=until))
    elif since or until:
        what.append(words("search-since", date=since) if since else words("search-until", date=until))
    chosen = [channel for key, channel in sorted(listing.channels.items()) if key in (sought.plan.channels or ())]
    what += cut_lines([answer.format_channel_title(one, words, _MAX_NAME_LENGTH) for one in chosen], _MAX_NAMED, words)
    beside = map(_shorten_name, sought.beside[:_MAX_NAMED])
    what += [words.rich("search-quoted", text=neutralize_links(piece)) for piece in beside]
    exact, similar = listing.whole, len(listing.found) - listing.whole
    if not exact and all(short.stage == "unembedded" for short in listing.shortfalls):  # all words were looked for
        counts = [words("search-none-whole", count=similar)]
    else:
        counts = [words("search-more" if listing.more else "search-count", count=listing.matching)] if exact else []
        if listing.matching > exact and not listing.more:
            counts.append(words("search-different", count=exact))
        if similar:
            counts.append(words("search-similar", count=similar))
    if last:
        counts.append(words("search-page", page=number + 1, pages=last + 1))
    return as_list(words.rich("search-for", what=as_list(*what, sep=" · ")), " · ".join(counts))


def _render_entry(place: int, found: FoundPost, listing: SearchListing, shown: RenderContext) -> Text:
    post, words = found.post, shown.words
    channel = listing.channels.get(post.key.chat_id) or Channel(post.key.chat_id, "")
    origin = replace(post.origin, name=_shorten_name(post.origin.name)) if post.origin else None
    named = replace(channel, title=answer.format_channel_title(channel, words, _MAX_NAME_LENGTH))
    author = format_author(named, origin, words, post.topic)
    marks = [format_day_and_edit(post.date, post.edited, shown)]
    if others := {key.chat_id for key in found.copies} - {post.key.chat_id}:
        marks.append(words("source-copies", count=len(others)))
    if find_poll(post):
        marks.append(POLL_LABELS[words.lang].rstrip(":").lower())
    link = format_channel_post_link(post.key, channel, post.topic)
    head = Text(f"{place}. ", answer.make_link(author, link), " · ", " · ".join(marks))
    snippet = _render_snippet(found.text, listing.spots)
    return Text(head, "\n", snippet) if answer.format_one_line(snippet.render()[0]) else head


def _render_snippet(text: str, spots: TextMatcher) -> Text:
    line = join_lines(text)
    found = spots.within(line)
    start, end = select_snippet(line, found, _MAX_SNIPPET_LENGTH)
    active = list(_AUTO_ENTITY_PATTERN.finditer(line, start, end))
    if len(active) > _MAX_AUTO_ENTITIES:
        end = max(active[_MAX_AUTO_ENTITIES].start(), start + 1)
    text = line[start:end].rstrip(" ,;:–—-") if end < len(line) else line[start:end]
    taken = find_link_spans(text)
    bold = ((spot.start - start, spot.end - start) for spot in found if spot.start >= start)
    free = (one for one in bold if one[1] <= len(text) and all(one[1] <= a or b <= one[0] for a, b in taken))
    marks = [*((*span, Code) for span in taken), *((*span, Bold) for span in islice(free, _MAX_BOLD))]
    pieces: list[Text | str] = ["…"] if start else []
    at = 0
    for a, b, style in sorted(marks, key=itemgetter(0)):
        pieces += [text[at:a], style(text[a:b])]
        at = b
    return Text(*filter(None, (*pieces, text[at:], "…" if end < len(line) else "")))


_INNER_QUOTE_MARKS = str.maketrans("«»“”", "„“‘’")


def render_verdicts(found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext) -> Text:
    """Render all verdicts as one formatted text; `posts` are those they name."""
    words = shown.words
    if not found.verdicts:
        return Text(words("verify-nothing"))
    several, blocks = len(found.verdicts) > 1, list[Text]()
    if same := found.same:  # the message is this post
        author = answer.link_author(same.key, found.channels.get(same.key.chat_id), same.origin, words)
        day = words.date(same.date, shown.zone)
        blocks.append(words.rich("verify-same", day=day, channel=author, state=found.same_post_state))
    blocks += [
        as_list(*_render_verdict(verdict, f"{number}. " if several else "", found, posts, shown))
        for number, verdict in enumerate(found.verdicts, 1)
    ]
    notes = [words("verify-left", count=found.left)] if found.left else []
    notes += format_shortfalls(found.shortfalls, words)
    if notes:
        blocks.append(Text(Italic("\n".join(notes))))
    return as_list(*blocks, sep="\n\n")


def _render_verdict(
    verdict: Verdict, number: str, found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Iterator[Text]:
    words = shown.words
    claim = join_lines(verdict.claim.text).translate(_INNER_QUOTE_MARKS)
    yield Text(number, words.rich("verify-claim", claim=neutralize_links(claim)))
    failed = {shortfall.stage for shortfall in found.shortfalls} - NON_SEARCH_STAGES
    against, own = verdict.against, found.same.key if found.same else None
    for_it = [one for one in verdict.citations if one.post != own]  # the claims stand in that post word for word
    if verdict.superseded:
        yield Text(Bold(words("verify-outdated", day=words.date(verdict.superseded.date, shown.zone))))
        yield Text(words("verify-superseded"))
        yield _render_quotes([verdict.superseded], found, posts, shown)
        against = tuple(c for c in against if c.post != verdict.superseded.post)
        if for_it:
            yield Text(words("verify-before"))
    elif verdict.label is Label.NOT_FOUND and failed:
        yield Text(Bold(words("verify-partly")))
    else:
        yield Text(Bold(words("verify-label", label="contested" if verdict.contested else verdict.label.value)))
    if for_it:
        yield _render_quotes(for_it, found, posts, shown)
        key = verdict.earliest
        # independent ones, and the first of them; of one post its quote says it all
        if key and key in posts and verdict.sources >= 1 and [key] != [one.post for one in verdict.citations]:
            author = answer.link_username(key, found.channels.get(key.chat_id), words)
            when = words.date(posts[key].date, shown.zone)
            yield words.rich("verify-sources", count=verdict.sources, first=author, when=when)
    if against:
        if verdict.citations:
            yield Text(words("verify-against", count=len(against)))
        yield _render_quotes(against, found, posts, shown)


def _render_quotes(
    citations: Sequence[Citation], found: Verification, posts: Mapping[PostKey, Post], shown: RenderContext
) -> Text:
    quotes = list[tuple[Text, Text]]()
    for citation in citations:
        channel = found.channels.get(citation.post.chat_id)
        reference = answer.format_reference(citation.post, citation.date, posts.get(citation.post), channel, shown)
        reference = answer.add_media_places(reference, [citation.read], shown)
        quotes.append((neutralize_links(strip_control_characters(citation.quote)), reference))
    return CreditedQuotes(quotes)


def render_digest(
    lines: Sequence[DigestLine], channels: Mapping[int, Channel], shown: RenderContext, since: datetime, until: datetime
) -> View:
    """Render the digest of these channels: lines in the words of their posts, each with the number of its channels."""
    words = shown.words
    first, last = words.date(since, shown.zone), words.date(until, shown.zone)
    head = words("digest-title", since=first, until=last) if first != last else words("digest-day", date=last)
    items = []
    for line in lines:
        channel, post = channels[line.post.key.chat_id], line.post
        link = answer.link_author(post.key, channel, post.origin, words)
        tail = [f" · {words.date(post.date, shown.zone)}"] if first != last else []
        tail += [f" · {words('channel-count', count=line.channels)}"] if line.channels > 1 else []
        tail += [f" · {words('digest-related', count=len(line.related))}"] if line.related else []
        sign = "⚠️ " if line.changed else "• "
        heading = [style_text(Heading, line.heading), "\n"] if line.heading else []
        items.append(Text(sign, *heading, neutralize_links(format_digest_quote(line)), "\n", link, *tail))
    content = collect_content_of_posts(post for line in lines for post in (line.post, *line.related))
    return View(as_list(Heading(head, size=3), *items, sep="\n\n"), replace(content, counted=frozenset(channels)))


def format_digest_quote(line: DigestLine) -> str:
    """Format the words of a line; what is cut within a sentence ends with an ellipsis."""
    quote, poll = join_lines(line.quote), find_poll(line.post)
    if poll and line.start < poll[1] and poll[0] < line.end:
        quote = f"{POLL_LABELS[detect_language(quote)]} {quote}"
    whole = quote[-1:] in ".!?…)»\"'" or line.end == len(line.post.text.rstrip())
    return quote if whole else f"{quote.rstrip(' ,;:—–-')}…"


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
        line = answer.format_source(number, one.date, post, known.get(one.key.chat_id), shown)
        edits = await _list_edits(one, post, asked.answered_at, archive, shown) if post and post.edited else []
        sources.append(as_list(line, *edits))
    if sources:
        blocks.append(Text(Bold(words("sources", count=len(sources))), "\n", sources[0]))
        blocks += sources[1:]
    if unused := [stored[key] for key in others if key in stored]:  # for a refusal, all that were found
        heads = [answer.format_reference(p.key, p.date, p, known.get(p.key.chat_id), shown) for p in unused]
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


_SHOWN_RANKS = 10


async def describe_plan(question: Question, rag: Engine) -> list[str]:
    """Describe a question's search, a line each: its plan, the best posts with their ranks. Raises RagError."""
    run, known = Run(rag.budgets, "plan"), await channels.load_channels(rag.archive)
    plan = await run.require(Stage.PLAN, make_plan(question, rag, run))
    readable = question.viewer.select_readable(known)
    hits = await search_passages(plan, question, rag, run)
    ranks: dict[str, dict[PostKey, int]] = {"lexical": {}, "dense": {}}
    if hits:
        only, most = await run.require(Stage.FILTER, resolve_filter(plan, question.viewer, rag)), plan.k_per_query
        lexical = await run.require(Stage.LEXICAL, search_lexical(plan.queries[0], only, most, rag, plan.aliases))
        dense, _ = await run.attempt(Stage.DENSE, search_dense(plan.queries[0], only, most, rag.dense), ([], None))
        for of_leg, ranked in zip(ranks.values(), (lexical, dense), strict=True):
            for n, (place, _) in enumerate(ranked, 1):
                of_leg.setdefault(place.key, n)
    lines = [f"{name}: {dump_json(value)}" for name, value in format_plan(plan, readable).items() if value]
    lines += [f"legs: {plan.legs}", *(f"route: {reason}" for reason in plan.reasons)]
    for n, hit in enumerate(hits[:_SHOWN_RANKS], 1):
        key = hit.passage.key
        places = " ".join(f"{leg}={of_leg.get(key, '-')}" for leg, of_leg in ranks.items())
        lines.append(f"{n:2}. {hit.score:.3f} {places}  {format_channel_post_link(key, readable.get(key.chat_id))}")
    return [strip_control_characters(line) for line in lines]


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
_MAX_EQUAL_PAIRS = 25_000  # of words, beyond which the whole text counts as changed: posts of words have some thousand
_HEAD_LENGTH, _TAIL_LENGTH = 160, 60  # characters shown of a long change, from its beginning and its end
# An address, a word with inner signs (7:30, e-mail, 12.50), or a run of signs; then the space after it.
_TOKEN_PATTERN = re.compile(rf"({LINK_REGEX}|\w+(?:[^\w\s]\w+)*|[^\w\s]+)(\s*)")


def format_changes(before: str, after: str) -> tuple[Text, int]:
    """Format the changes of a text with context, and count the changes that are not shown.

    The text is empty where only white space changed. Control characters and direction marks are left out.
    """
    was, now = (_TOKEN_PATTERN.findall(strip_control_characters(text)) for text in (before, after))
    earlier, later = [word for word, _ in was], [word for word, _ in now]
    matcher = SequenceMatcher(None, earlier, later)
    places: dict[str, list[int]] = matcher.b2j  # type: ignore[attr-defined]  # documented, but not in its types
    pairs = 0 if earlier == later else sum(len(places.get(word, ())) for word in earlier)
    whole = [[("replace", 0, len(was), 0, len(now))]]
    groups = whole if pairs > _MAX_EQUAL_PAIRS else [*matcher.get_grouped_opcodes(_CONTEXT_WORDS)]
    count = sum(kind != "equal" for group in groups for kind, *_ in group)
    pieces: list[Text | str] = []
    shown = end = 0
    for group in groups:
        if shown >= _MAX_CHANGES:
            break
        pieces += ["… "] if group[0][3] > end else []
        for kind, i, j, k, m in group:
            shown += kind != "equal"
            if shown > _MAX_CHANGES:
                break
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
