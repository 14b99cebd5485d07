"""Answers, verdicts, found posts and channels as JSON: made where the indexes are, for commands and other programs.

On the terminal the viewer may read every channel. Dates are ISO texts in UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, cast

from bot.control import AnswerJson, ChannelJson, SearchJson, VerdictsJson
from bot.i18n import get_translator
from bot.views.text import format_channel_list, format_shortfalls
from rag_core.answer import answer_question
from rag_core.conversation.small_talk import TalkKind, detect_talk
from rag_core.engine import Engine
from rag_core.retrieval.channel_answers import is_introduced
from rag_core.run import Run
from rag_core.storage import Archive, channels, visible_posts
from rag_core.storage.readers import narrow_to_channel_set
from rag_core.text.post_text import Spoiler, cover_spoilers, label_poll, list_spoilers
from rag_core.text.tokens import detect_language
from rag_core.types import (
    AUTO_RECIPE,
    Answer,
    Channel,
    Citation,
    MediaSpan,
    Passage,
    Post,
    PostKey,
    Question,
    Viewer,
    Visibility,
    format_channel_post_link,
)
from rag_core.verification import Verdict, Verification

if TYPE_CHECKING:
    from rag_core.retrieval.post_search import SearchListing

_TERMINAL_CHAT_ID = -1  # of a conversation on the terminal: no chat of Telegram has this id
_MIN_SHOWN_LENGTH = 40  # a quote whose beginning a sentence shows is not repeated


def _record_runs(rag: Engine) -> tuple[Engine, list[Run]]:
    """The engine for one question, and the list that gets its runs."""
    runs, call_before = list[Run](), rag.traced

    def record(run: Run) -> None:
        runs.append(run)
        call_before(run)

    return replace(rag, traced=record), runs


def describe_answer(
    answer: Answer, stored: Mapping[PostKey, Post], lang: str, reply: str = "", runs: Sequence[Run] = ()
) -> AnswerJson:
    """Describe an answer; `stored` are the posts that it names, whose spoilers are covered."""
    numbers = {key: n for n, key in enumerate(answer.posts(), 1)}
    dates = {c.post: c.date for s in answer.sentences for c in s.citations}
    titles = {chat: channel.title for chat, channel in answer.channels.items()}
    found = AnswerJson(
        answer={
            "refused": answer.refused,
            "sentences": [
                {
                    "text": s.text,
                    "support": s.support,
                    "further": s.further,
                    "citations": [
                        {
                            "link": answer.link(c.post),
                            "title": titles.get(c.post.chat_id, ""),
                            "quote": c.quote,
                            "date": c.date.isoformat(),
                        }
                        | _build_post_details(c.post, stored.get(c.post), c.read)
                        for c in s.citations
                    ],
                }
                for s in answer.sentences
            ],
            "nearest": [answer.link(p.key) for p in answer.nearest],
            "addresses": [address for several in answer.addresses.values() for address in several],
            "certainty": answer.certainty.value,
            "confidence": round(answer.confidence, 4),
            "judged": answer.judged if answer.judged is None else round(answer.judged, 2),
            "recipe": answer.recipe,
            "model": answer.model,
            "missing": list(answer.missing),
            "without": [s.stage for s in answer.shortfalls],
            "trace_id": answer.trace_id,
            "actions": [asdict(action) for action in answer.actions],
        },
        marks=[
            [] if answer.counts_lines(s) else [numbers[key] for key in dict.fromkeys(c.post for c in s.citations)]
            for s in answer.sentences
        ],
        sources=[_build_source(answer, key, dates[key], stored.get(key)) for key in numbers],
        nearest=[_build_source(answer, p.key, p.date, p) for p in answer.nearest],
        understood=answer.restated,
        shortfalls=format_shortfalls(answer.shortfalls, get_translator(lang)),
        reply=reply,
        trace=[asdict(span) for run in runs for span in run.spans],
        results=[result for run in runs for result in run.results or ()],
    )
    return cast(AnswerJson, _cover_fields(found, list_spoilers(stored.values())))


def _build_source(answer: Answer, key: PostKey, date: datetime, post: Post | Passage | None) -> dict[str, str]:
    """Describe a cited post with those of its words that no sentence shows, or a nearest one with its poll."""
    channel, quoted = answer.channels.get(key.chat_id), [c for s in answer.sentences for c in s.citations]
    topic = channel.topics.get(post.topic or 0, "") if channel and post else ""
    if isinstance(post, Passage):
        words, span = label_poll(post), post.cite((0, len(post.text))).read
    else:
        shown = " ".join(" ".join(s.text for s in answer.sentences).split())
        quotes = (" ".join(c.quote.split()) for c in quoted if c.post == key)
        words = next((quote for quote in quotes if quote[:_MIN_SHOWN_LENGTH].rstrip(" ,;:.") not in shown), "")
        span = next((c.read for c in quoted if c.post == key and c.read), None)
    return {
        "link": answer.link(key),
        "title": " › ".join(filter(None, (channel.title if channel else "", topic))),
        "date": date.isoformat(),
        "words": words,
        "addresses": "\n".join(answer.addresses.get(key, ())),
    } | _build_post_details(key, post, span)


def _build_post_details(key: PostKey, post: Post | Passage | None, span: MediaSpan | None) -> dict[str, str]:
    """Describe what few posts have: an edit, an origin, and where in its file a quote stands, by second or page."""
    details = {"edited": post.edited.isoformat()} if post and post.edited else {}
    if post and post.origin and post.origin.chat_id != key.chat_id:
        details["origin"] = post.origin.name
    return details | ({"file": span.kind, "place": str(span.place or "")} if span else {})


# Fields with words of posts, of the schemas in bot/control/__init__.py.
_WORD_FIELDS = frozenset({"text", "quote", "words", "claim", "reply", "addresses", "understood", "results"})


def _cover_fields(value: Any, spoilers: Sequence[Spoiler], *, words: bool = False) -> Any:
    """Cover spoilers in the fields of a JSON value that hold words of posts."""
    if isinstance(value, str):
        return cover_spoilers(value, spoilers) if words else value
    if isinstance(value, list | tuple):
        return type(value)(_cover_fields(one, spoilers, words=words) for one in value)
    if isinstance(value, dict):
        return {key: _cover_fields(one, spoilers, words=key in _WORD_FIELDS) for key, one in value.items()}
    return value


def describe_verdicts(
    found: Verification, stored: Mapping[PostKey, Post], lang: str, runs: Sequence[Run] = ()
) -> VerdictsJson:
    """Describe verdicts; `stored` are the posts that they name, whose spoilers are covered."""

    def describe(key: PostKey, date: datetime) -> dict[str, str]:
        channel = found.channels.get(key.chat_id)
        return {"link": found.link(key), "title": channel.title if channel else "", "date": date.isoformat()}

    def build_citation(citation: Citation) -> dict[str, str]:
        where = describe(citation.post, citation.date) | {"quote": citation.quote}
        return where | _build_post_details(citation.post, None, citation.read)

    def build_verdict(verdict: Verdict) -> dict[str, Any]:
        first = stored.get(verdict.earliest) if verdict.earliest else None
        return {
            "claim": verdict.claim.text,
            "label": verdict.label.value,
            "likely": round(verdict.likely, 4),
            "layer": verdict.layer,
            "citations": list(map(build_citation, verdict.citations)),
            "against": list(map(build_citation, verdict.against)),
            "superseded": build_citation(verdict.superseded) if verdict.superseded else None,
            "sources": verdict.sources,
            "earliest": {"link": found.link(first.key), "date": first.date.isoformat()} if first else None,
        }

    same = found.same
    return VerdictsJson(
        same=describe(same.key, same.date) | {"state": found.same_post_state} if same else None,
        verdicts=_cover_fields(list(map(build_verdict, found.verdicts)), list_spoilers(stored.values())),
        left=found.left,
        without=[shortfall.stage for shortfall in found.shortfalls],
        shortfalls=format_shortfalls(found.shortfalls, get_translator(lang)),
        trace_id=found.trace_id,
        trace=[asdict(span) for run in runs for span in run.spans],
    )


RESULTS_PER_PAGE = 10  # of a search by a program
_MAX_SNIPPET_LENGTH = 400


def describe_search(listing: SearchListing, page: int) -> SearchJson:
    """Describe a page of a search, from 1: of each post the piece with most of the words, in its own words."""
    from rag_core.retrieval.post_search import select_snippet  # `ask` does without it

    posts = []
    for found in listing.found[(page - 1) * RESULTS_PER_PAGE : page * RESULTS_PER_PAGE]:
        channel = listing.channels.get(found.post.key.chat_id)
        start, end = select_snippet(found.text, listing.spots.within(found.text), _MAX_SNIPPET_LENGTH)
        posts.append(
            {
                "link": format_channel_post_link(found.post.key, channel, found.post.topic),
                "title": channel.title if channel else "",
                "date": found.post.date.isoformat(),
                "quote": cover_spoilers(found.text[start:end], list_spoilers([found.post])),
                "all_words": found.whole,
                "copies": len(found.copies),
            }
            | _build_post_details(found.post.key, found.post, found.post.find_media_span(start, end))
        )
    return SearchJson(
        understood=bool(listing.sought.words or listing.sought.filters),
        matching=listing.matching,
        more=listing.more,
        posts=posts,
        pages=-(-len(listing.found) // RESULTS_PER_PAGE),
        shortfalls=format_shortfalls(listing.shortfalls, get_translator(detect_language(listing.sought.words))),
    )


async def describe_channels(known: Mapping[int, Channel], archive: Archive) -> list[ChannelJson]:
    """Describe channels by title, with how many posts they have and of which time."""
    found = []
    for chat_id, channel in sorted(known.items(), key=lambda item: item[1].title.casefold()):
        span = await visible_posts.fetch_post_span(archive, chat_id)
        found.append(
            ChannelJson(
                title=channel.title,
                username=channel.username or "",
                posts=span.posts if span else 0,
                first=span.first.isoformat() if span else "",
                last=span.last.isoformat() if span else "",
            )
        )
    return found


async def reply_to_talk(asked: Question, archive: Archive) -> AnswerJson | None:
    """Reply to small talk, with the channels of the asker where these are asked for; None for a question."""
    talk = detect_talk(asked.text)
    if talk is None or await is_introduced(asked.text, asked.viewer, archive):
        return None
    words = get_translator(talk.lang or asked.lang)
    if talk.kind is TalkKind.ABOUT_CHANNEL:
        known = await channels.load_channels(archive)
        reply = format_channel_list(asked.viewer.select_readable(known).values(), words)
    else:
        reply = words("smalltalk", kind=str(talk.kind), help="/help" if asked.chat else "citegram --help")
    return describe_answer(Answer((), 0.0, "talk"), {}, asked.lang, reply)


class TerminalAnswerer:
    """Answerer of the terminal in this process, with the methods of `bot.control.RunningBot`.

    They return None if there are no channels. `admins`: a question may begin with a set of channels of theirs.
    `as_reader`: of the channels only those that everybody may read.
    """

    def __init__(self, rag: Engine, zone: tzinfo, admins: Sequence[int] = (), *, as_reader: bool = False) -> None:
        self._rag, self._zone, self._admins, self._as_reader = rag, zone, admins, as_reader

    async def ask(
        self, question: str, *, trace: bool, recipe: str = AUTO_RECIPE, conversation: int = 0
    ) -> AnswerJson | None:
        """Answer a question, by itself or in the conversation of this number, whose earlier questions are known."""
        asked = await self._build_question(question, conversation)
        if asked is None:
            return None
        if (reply := await reply_to_talk(asked, self._rag.archive)) is not None:
            return reply
        rag, runs = _record_runs(self._rag)
        answer = await answer_question(asked, replace(rag, recipe=recipe, show_results=trace))
        nearest = (passage.key for passage in answer.nearest)
        shown = await visible_posts.fetch_posts(rag.archive, (*answer.posts(), *nearest))
        return describe_answer(answer, shown, asked.lang, runs=runs if trace else ())

    async def _build_question(self, text: str, conversation: int = 0) -> Question | None:
        viewer = Viewer(0, frozenset(await self._load_channels()))
        text, viewer = await narrow_to_channel_set(self._rag.archive, self._admins, text, viewer)
        if not viewer.channels:
            return None
        chat, thread = (_TERMINAL_CHAT_ID, conversation) if conversation else (0, None)
        return Question(text, detect_language(text), datetime.now(self._zone), viewer, chat, thread)

    async def _load_channels(self) -> dict[int, Channel]:
        known = await channels.load_channels(self._rag.archive)
        if self._as_reader:
            return {k: c for k, c in known.items() if c.state == "active" and c.visibility is Visibility.PUBLIC}
        return known

    async def search(self, text: str, page: int) -> SearchJson | None:
        """Find posts by words, dates and channels."""
        from rag_core.retrieval.post_search import list_posts  # `ask` does without it

        asked = await self._build_question(text)
        return describe_search(await list_posts(asked, self._rag), page) if asked else None

    async def list_channels(self) -> list[ChannelJson]:
        """List the channels."""
        return await describe_channels(await self._load_channels(), self._rag.archive)

    async def verify(self, text: str, *, trace: bool) -> VerdictsJson | None:
        """Verify a text against all channels."""
        from rag_core.verification.verify import verify_text  # `ask` does without it

        question = await self._build_question(text)
        if question is None:
            return None
        rag, runs = _record_runs(self._rag)
        found = await verify_text(question, rag)
        stored = await visible_posts.fetch_posts(rag.archive, found.posts())
        return describe_verdicts(found, stored, question.lang, runs if trace else ())
