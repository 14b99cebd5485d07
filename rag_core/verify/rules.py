"""The first layer: every number, date, time, name and denial of a claim must be met by the passage. Pure.

Something of the same role that differs, in the sentence that is most like the claim, contradicts it; what is simply
not there is not found. Rules find what is wrong; that all is met does not yet make a claim supported.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rag_core.verify.facts import LONGEST_STATED, Stated, stated, stated_by_sentence
from rag_core.verify.matching import Weight, share
from rag_core.verify.opposed import denial_differs, names_differ, opposite_said, pronoun_in, replaced, unsure
from rag_core.verify.repriced import listed_otherwise
from rag_core.verify.roles import role_differs
from rag_core.verify.rumours import belied, hearsay
from rag_core.verify.valued import moments_differ, numbers_differ, weekdays_differ
from rag_core.verify.verdict import Label
from rag_core.verify.vocabulary import Vocabulary

__all__ = ["MOST_FIGURES", "Checked", "Objection", "by_rules", "even"]

_ABOUT = 0.4  # of the claim's words in the sentence: it speaks of the same
_ALL_ABOUT = 0.6  # the same of the whole post, where the words that differ stand beside that sentence
MOST_FIGURES = 40  # of a claim: more is a table
_MOST_FACTS = 2  # met facts that count
_FACT = 0.15  # a met fact in choosing the nearest sentence: less than words, more than chance


@dataclass(frozen=True, slots=True)
class Objection:
    """Something that does not agree: its sort (number, moment, name, role, denial, opposite, modal, word, link), and what.

    Of sort "pronoun", without a label: a name is not there, but a "he" or "it" that may mean it.
    """

    sort: str
    label: Label | None
    why: str


@dataclass(frozen=True, slots=True)
class Checked:
    """What the rules found: objections, the sentence that is most like the claim, and how much of the claim is there.

    `near` is the share of the claim's words in that sentence, `met` in the whole passage. `label` is None where there
    is no objection: the rules alone support nothing.
    """

    claim: Stated
    post: tuple[Stated, ...]
    nearest: Stated | None
    near: float
    met: float
    objections: tuple[Objection, ...]

    @property
    def label(self) -> Label | None:
        """CONTRADICTED before NOT_FOUND."""
        labels = {objection.label for objection in self.objections}
        return next((label for label in (Label.CONTRADICTED, Label.NOT_FOUND) if label in labels), None)

    @property
    def why(self) -> str:
        """What decided."""
        return next((found.why for found in self.objections if found.label is self.label), "")


def even(_: str) -> float:
    """Every word tells as much as any other."""
    return 1.0


def by_rules(
    claim: str, passage: str, lang: str, *, header: str = "", date: datetime | None = None, weight: Weight = even
) -> Checked:
    """Hold a claim against a passage; its date counts as said, and its header as the names that are spoken of.

    What else a header says is not said by the post: whoever names a channel would bear out whatever they like.
    A claim of more than `LONGEST_STATED` characters or `MOST_FIGURES` numbers and dates is not found in any passage.
    """
    if len(claim.strip()) > LONGEST_STATED:
        return _unread(stated("", lang), "too long to be checked")
    said = stated(claim.strip(), lang)
    if len(said.numbers) + len({moment.start for moment in said.moments}) > MOST_FIGURES:
        return _unread(said, "too many figures to be checked")
    post = stated_by_sentence(passage, lang)
    if not post or not said.all_words:
        return _unread(said, "no text")
    _, place = max((_near(said, one, weight), -n) for n, one in enumerate(post))
    best = post[-place]
    everything = Vocabulary([word for one in post for word in one.words])
    near_words, met = share(said.words, best.words, weight), share(said.words, everything, weight)
    everywhere = (*post, replace(stated(header, lang), moments=(), numbers=(), links=frozenset())) if header else post
    objections = tuple(_objections(said, best, post, everywhere, date, weight))
    return Checked(said, post, best, near_words, met, objections)


def _unread(said: Stated, why: str) -> Checked:
    return Checked(said, (), None, 0.0, 0.0, (Objection("text", Label.NOT_FOUND, why),))


def _near(claim: Stated, sentence: Stated, weight: Weight) -> float:
    """How much a sentence is about what the claim is about."""
    facts = _shared([a.values for a in claim.numbers], [b.values for b in sentence.numbers])
    facts += _shared([a.fields().items() for a in claim.moments], [b.fields().items() for b in sentence.moments])
    back = share(sentence.words, claim.words, weight)
    return share(claim.words, sentence.words, weight) + 0.2 * back + _FACT * min(_MOST_FACTS, facts)


def _shared(mine: Sequence[Iterable[Hashable]], theirs: Sequence[Iterable[Hashable]]) -> int:
    """How many pairs of these have something in common, counted up to `_MOST_FACTS`."""
    places: dict[Hashable, set[int]] = {}
    for n, values in enumerate(theirs):
        for value in values:
            if len(listed := places.setdefault(value, set())) < _MOST_FACTS:
                listed.add(n)
    count = 0
    for values in mine:
        count += len({n for value in values for n in places.get(value, ())})
        if count >= _MOST_FACTS:
            return _MOST_FACTS
    return count


def _objections(
    claim: Stated,
    best: Stated,
    text: Sequence[Stated],
    post: Sequence[Stated],
    date: datetime | None,
    weight: Weight,
) -> Iterator[Objection]:
    """`text` are the sentences, `post` also the header, whose day and channel are no numbers of what is said."""
    about = share(claim.words, best.words, weight)
    same = Label.CONTRADICTED if about >= _ABOUT else Label.NOT_FOUND
    for sort, found in (
        ("number", numbers_differ(claim, best, text)),
        ("number", listed_otherwise(claim, best)),
        ("moment", moments_differ(claim, best, post, date)),
        ("name", names_differ(claim, best, post, about)),
        ("role", role_differs(claim, best, post)),
        ("denial", belied(claim, best, text, about, denial_differs(claim, best, about))),
        ("opposite", opposite_said(claim, best, about)),
    ):
        for differs, why in found:
            if sort == "name" and not differs and about >= _ABOUT and pronoun_in(best):
                yield Objection("pronoun", None, why)
            else:
                yield Objection(sort, same if differs else Label.NOT_FOUND, why)
    if share(claim.words, [word for one in text for word in one.words], weight) >= _ALL_ABOUT:
        for _, why in weekdays_differ(claim, best, text):
            yield Objection("moment", Label.CONTRADICTED, why)
    for why in unsure(claim, best, about):
        yield Objection("modal", Label.NOT_FOUND, why)
    for why in hearsay(claim, best, about):
        yield Objection("modal", Label.NOT_FOUND, why)
    for why in replaced(claim, best):
        yield Objection("word", Label.NOT_FOUND, why)
    for link in claim.links - {link for one in post for link in one.links}:
        yield Objection("link", Label.NOT_FOUND, f"{link} is not there")
