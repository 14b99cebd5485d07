"""Pinned answers: the beginning of the post that an admin chose as the answer to a question, and to those like it.

A pinned post goes before the answer cache and before all search, for readers of its channel alone. A pin holds the post
and a keyed hash of the question's terms, none of its words, and goes with the post. Readers who ask alike get the
beginning of the post as it stands now.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from hashlib import blake2b

from rag_core.conversation.memory import follows_earlier_question, remember_answer
from rag_core.engine import Engine
from rag_core.storage import Archive, channels, synonyms_and_pinned_answers, visible_posts
from rag_core.text.query_terms import is_asking_word
from rag_core.text.sentences import split_long_span, split_sentences
from rag_core.text.tokens import tokenize
from rag_core.tracing import get_or_make_request_id
from rag_core.types import Answer, Post, Question, Sentence
from rag_core.writing.extract import quote_post_span

PINNED_RECIPE = "pinned"
_MAX_PIN_LENGTH = 600  # characters shown of the post


def extract_question_terms(text: str) -> frozenset[str]:
    """Extract the terms by which questions are alike: all but the words of asking, or all where there are no others."""
    terms = frozenset(tokenize(text))
    return frozenset(term for term in terms if not is_asking_word(term)) or terms


def hash_question(text: str, archive: Archive) -> str:
    """Hash the terms of a question with the archive's key: the same for questions that are alike."""
    terms = " ".join(sorted(extract_question_terms(text)))
    return urlsafe_b64encode(blake2b(terms.encode(), key=archive.identity.encode(), digest_size=9).digest()).decode()


async def answer_from_pin(question: Question, rag: Engine) -> Answer | None:
    """Answer from the pinned post; None where no post is pinned that this asker may read, or for a follow-up."""
    pinned = await synonyms_and_pinned_answers.find_pinned_post(
        rag.archive, hash_question(question.text, rag.archive), question.viewer.channels
    )
    post = (await visible_posts.fetch_posts(rag.archive, [pinned])).get(pinned) if pinned else None
    sentences = _quote_beginning(post) if post else ()
    if not sentences or await follows_earlier_question(question, rag):
        return None
    known = await channels.load_channels(rag.archive)
    titles = {chat: known[chat] for chat in question.viewer.channels if chat in known}
    answer = Answer(sentences, 1.0, PINNED_RECIPE, trace_id=get_or_make_request_id(), channels=titles)
    await remember_answer(question, answer, rag)
    return answer


def _quote_beginning(post: Post) -> tuple[Sentence, ...]:
    quoted: list[Sentence] = []
    length = 0
    for span in split_sentences(post.text):
        for start, end in split_long_span(post.text, span)[:1]:
            length += end - start
            if length > _MAX_PIN_LENGTH:
                return tuple(quoted)
            quoted.append(quote_post_span(post, (start, end)))
    return tuple(quoted)
