"""Answers for other programs: what MCP tools and POST /ask return, as JSON. Dates are ISO texts in UTC.

`Application` is asked by the owner on this machine (bot/cli/mcp.py), or by a reader with a token (http_server.py).
"""

from collections.abc import Mapping
from typing import Any, Protocol

from bot.control import AnswerJson, ChannelJson, SearchJson, VerdictsJson
from bot.i18n import get_translator
from bot.views.text import describe_refusal
from rag_core.errors import RagError

JsonObject = dict[str, Any]


class RequestRefused(RagError):
    """A request has no answer; the reason is the sentence for who asked, `status` that of HTTP."""

    def __init__(self, reason: str, status: int = 422) -> None:
        super().__init__(reason)
        self.status = status


class Application(Protocol):
    """What can be asked in somebody's name. All raise RagError with a sentence for who asked."""

    async def ask(self, question: str) -> JsonObject:
        """Answer a question, as `present_answer`."""

    async def verify(self, text: str) -> JsonObject:
        """Check what a text claims, as `present_verdicts`."""

    async def search(self, query: str, page: int) -> JsonObject:
        """Find posts, as `present_search`; pages are counted from 1."""

    async def list_channels(self) -> JsonObject:
        """List the channels that may be read, as `present_channels`."""


def present_answer(found: AnswerJson, lang: str) -> JsonObject:
    """Present an answer: how certain it is, its sentences with quotes and links, and what is missing.

    certainty: "sure", "probable", or "none" for a refusal
    said: the bot's own sentence to small talk, or on why there is no answer
    nearest: of a refusal, the posts that come nearest, and do not answer
    """
    answer = found["answer"]
    said = found["reply"] or (describe_refusal(found, get_translator(lang)) if answer["refused"] else "")
    shown: JsonObject = {"certainty": "none" if answer["refused"] else answer["certainty"]}
    shown |= {"said": said} if said else {}
    shown["sentences"] = [{name: one[name] for name in ("text", "citations")} for one in answer["sentences"]]
    nearest = [
        {"link": one["link"], "title": one["title"], "date": one["date"], "quote": one["words"]}
        for one in found["nearest"]
    ]
    return _present(
        shown, nearest=nearest, addresses=answer["addresses"], unanswered_parts=answer["missing"],
        shortfalls=found["shortfalls"], written_by=answer["model"],
    )  # fmt: skip


def _present(shown: JsonObject, **more: Any) -> JsonObject:
    """Add what is not empty of `more`, and rename `title`, which is always that of a channel, for other programs."""

    def rename(value: Any) -> Any:
        if isinstance(value, list):
            return [rename(one) for one in value]
        if isinstance(value, Mapping):
            return {"channel" if name == "title" else name: rename(one) for name, one in value.items()}
        return value

    shown = shown | {name: value for name, value in more.items() if value}
    return {name: rename(value) for name, value in shown.items()}


def present_verdicts(found: VerdictsJson, lang: str) -> JsonObject:
    """Present verdicts: of each claim a label, how likely it is, and the quotes for and against it.

    left: claims that were not looked at, as there were too many
    same_post: the post that the text is a copy of, and whether that stands as it was
    """
    names = ("claim", "label", "likely", "citations", "against", "superseded", "earliest", "sources")
    shown: JsonObject = {"verdicts": [{name: one[name] for name in names if one[name]} for one in found["verdicts"]]}
    shown |= {} if found["verdicts"] else {"said": get_translator(lang)("verify-nothing")}
    return _present(shown, same_post=found["same"], left=found["left"], shortfalls=found["shortfalls"])


def present_search(found: SearchJson, lang: str) -> JsonObject:
    """Present found posts; those with all the words of the query come first, then similar ones.

    matching: how many posts have all the words, at least so many where `more` is true
    """
    shown: JsonObject = {} if found["understood"] else {"said": get_translator(lang)("search-common")}
    shown |= {"matching": found["matching"], "more": found["more"], "posts": found["posts"], "pages": found["pages"]}
    return _present(shown, shortfalls=found["shortfalls"])


def present_channels(found: list[ChannelJson]) -> JsonObject:
    """Present channels with the number and the dates of their posts."""
    return _present({"channels": [{name: value for name, value in one.items() if value} for one in found]})
