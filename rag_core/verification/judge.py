"""Judge: a language model says by one yes or no whether a line answers a question, or a post states a claim.

For answers: zero-shot, one forward pass for each line, in English for both languages: with examples in the prompt the
same model tells right lines from wrong ones worse. Its log odds join the confidence of the extract in one logistic. All
that a line can gain is a yes: what is judged are quotes of the extract, and no refusal becomes an answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import blake2b

from rag_core.engine import Engine
from rag_core.errors import ModelTooSlow, RagError
from rag_core.llm.protocol import LanguageModel, LlmSession, Prompt
from rag_core.llm.turns import TimedSession
from rag_core.models.catalog import names_model
from rag_core.run import Run, Stage
from rag_core.storage import channels
from rag_core.text.sentences import MAX_ANSWER_LENGTH
from rag_core.types import Certainty, Draft, Passage, Question, Sentence
from rag_core.verification import Claim
from rag_core.writing.prompts import escape_prompt_text, load_prompt, quote_post

MAX_LINE_LENGTH, _MAX_QUESTION_LENGTH, _MAX_TITLE_LENGTH = 260, 400, 60  # characters
_MAX_LOG_ODDS = 20.0


@dataclass(frozen=True, slots=True)
class JudgeCalibration:
    """How the log odds of one model are read: logit' = shift + confidence·logit(confidence) + odds·log odds.

    The joined probability decides the certainty: from `sure` a sure extract stays sure, below `least` a probable one
    is refused. `doubted`: below these log odds of the first candidate the next ones are judged too, and one whose odds
    are higher by `ahead` is shown first instead.
    """

    shift: float
    confidence: float
    odds: float
    sure: float
    least: float
    doubted: float
    ahead: float

    def join(self, confidence: float, odds: float) -> float:
        """Probability that the line answers, 0..1; `confidence` is that of the extract."""
        confidence = min(max(confidence, 1e-6), 1 - 1e-6)
        z = self.shift + self.confidence * math.log(confidence / (1 - confidence)) + self.odds * odds
        return 1 / (1 + math.exp(-max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, z))))


# By the name of the model's row. Qwen2.5-Coder-1.5B: fitted on the first piece of 540 questions, one set held out at a
# time: AUC .864 (.848 without it); .62 keep a right piece (.63 without it), .09 get only a wrong one
# (.11), .77 of the unanswerable are refused (.74). To show what is refused without it, too, was no better.
# With the channel's title in the prompt it tells right lines from unanswerable ones better: AUC .73 to .81, .86 to .90.
# Of 190 first pieces it doubts 28; judging the next two of these wins 4 right ones, of all the others 1 more, and loses 2.
_CALIBRATIONS = {
    "qwen2.5-coder-1.5b": JudgeCalibration(0.05, 1.04, 0.85, sure=0.85, least=0.35, doubted=-0.5, ahead=1.0)
}
_MOST_AHEAD = 2  # others that have their turn before: behind more a judgement is not worth the wait
# Of a model that was never measured the scale is unknown: only a clear no counts, and makes a sure answer probable.
_CLEAR_NO = -4.0


def find_judge_calibration(name: str) -> JudgeCalibration | None:
    """Find the calibration of a model by its name; None for one that was not measured."""
    return next((known for of, known in _CALIBRATIONS.items() if names_model(name, of)), None)


async def judge_draft(question: Question, draft: Draft, model: LanguageModel, rag: Engine, run: Run) -> Draft:
    """Judge the first candidates of a draft, as many as the clock allows, and regrade it.

    The draft stays as it is where that fails, or where too many wait for the model.
    """
    if not draft.candidates:
        return draft
    try:
        odds = await run.require(Stage.JUDGE, _judge_candidates(question, draft.candidates, model, rag, run))
    except RagError:
        return draft
    said = zip(odds, draft.candidates, strict=False)
    run.show("judge", (f"{'answers' if odd >= 0 else 'does not answer'} ({odd:+.1f}): {one.text}" for odd, one in said))
    return regrade_draft(draft, odds, find_judge_calibration(model.name)) if odds else draft


def regrade_draft(draft: Draft, odds: Sequence[float], calibration: JudgeCalibration | None) -> Draft:
    """Regrade a draft by the log odds of its candidates; one that is clearly likelier than the first goes first."""
    if calibration is None:
        doubtful = odds[0] < _CLEAR_NO and draft.certainty is Certainty.SURE
        return replace(draft, judged=odds[0], certainty=Certainty.PROBABLE if doubtful else draft.certainty)
    best = max(range(len(odds)), key=odds.__getitem__)
    if odds[best] < odds[0] + calibration.ahead:
        best = 0
    else:
        # the last sentences make room for it
        first = draft.candidates[best]
        others = (one for one in draft.sentences if not one.quotes(first.citations[:1]))
        kept = [first, *others][: max(2, len(draft.sentences))]
        while len(kept) > 1 and sum(len(one.text) for one in kept) > MAX_ANSWER_LENGTH:
            del kept[-1]
        draft = replace(draft, sentences=tuple(kept), certainty=Certainty.PROBABLE)
    likely = calibration.join(draft.likely, odds[best])
    draft = replace(draft, likely=likely, judged=odds[best])
    if draft.certainty is Certainty.SURE:
        return draft if likely >= calibration.sure else replace(draft, certainty=Certainty.PROBABLE)
    return replace(draft, sentences=(), certainty=Certainty.NONE) if likely < calibration.least else draft


async def _judge_candidates(
    question: Question, candidates: Sequence[Sentence], model: LanguageModel, rag: Engine, run: Run
) -> list[float]:
    """Log odds of the first candidate, and of the others where that is doubted, until the next would not end in time.

    Raises GenerationFailed, ArchiveUnavailable.
    """
    calibration, odds, calls = find_judge_calibration(model.name), list[float](), 0
    async with AsyncExitStack() as stack:
        session: LlmSession | None = None
        for prompt in await build_judge_prompts(question, candidates, rag):
            if odds and (calibration is None or odds[0] >= calibration.doubted):
                break
            key = model.name, model.context, blake2b(prompt.ask.encode(), digest_size=16).digest()
            if (odd := rag.caches.judgements.get(key, ())) is None:
                if session is None and model.waiting >= rag.settings.llm.parallel + _MOST_AHEAD:
                    break
                try:
                    if session is None:
                        session = await stack.enter_async_context(run.open_session(model, question.viewer.user_id))
                    odd, calls = await ask_yes_no_odds(prompt, session), calls + 1
                except ModelTooSlow:
                    break
                rag.caches.judgements.store(key, (), odd)
            odds.append(odd)
    if odds:
        run.note(calls=calls, judged=len(odds), odds=round(odds[0], 2))
    return odds


async def build_judge_prompts(question: Question, candidates: Sequence[Sentence], rag: Engine) -> list[Prompt]:
    """Build the prompt for each quote, with the title of its channel. Raises ArchiveUnavailable."""
    known = await channels.load_channels(rag.archive)
    titles = {chat: channel.title for chat, channel in known.items()}  # a channel may be removed meanwhile
    first = (one.citations[0] for one in candidates)
    return [build_judge_prompt(question.text, c.quote, titles.get(c.post.chat_id, ""), c.date) for c in first]


def build_judge_prompt(question: str, line: str, channel: str, date: datetime, most: int = MAX_LINE_LENGTH) -> Prompt:
    """Build the prompt for one line of a post, cut to `most` characters; `channel` is a title."""
    template = load_prompt("judge", "all")
    said, asked, title = (" ".join(escape_prompt_text(text).split()) for text in (line, question, channel))
    request = template.parts["request"].format(
        channel=title[:_MAX_TITLE_LENGTH], date=date.date(), line=said[:most], question=asked[:_MAX_QUESTION_LENGTH]
    )
    return Prompt(template.system, request)


async def ask_yes_no_odds(prompt: Prompt, session: LlmSession) -> float:
    """Log P(yes) - log P(no) of the reply, within ±20. Raises GenerationFailed."""
    words = load_prompt("judge", "all").parts
    odds = await session.odds(prompt, words["yes"], words["no"])
    return max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, odds))


_MAX_PASSAGE_TOKENS, _MAX_PASSAGE_LENGTH = 256, 700  # as in the reranker; characters: about as many
_MAX_CLAIM_TOKENS = 200


async def judge_relevance(question: Question, passages: Sequence[Passage], seat: LlmSession) -> list[float]:
    """Judge relevance with an LLM: log P(yes) - log P(no) for each passage, in their order.

    Raises GenerationFailed, and ModelTooSlow where not all would be judged within the stage: a part is of no use.
    """
    prompts = [build_judge_prompt(question.text, p.text, p.title, p.date, _MAX_PASSAGE_LENGTH) for p in passages]
    if isinstance(seat, TimedSession):
        await seat.require_time(prompts)
    return [await ask_yes_no_odds(prompt, seat) for prompt in prompts]


async def judge_support(claim: Claim, passages: Sequence[Passage], run: Run, model: LanguageModel) -> list[float]:
    """Judge support with an LLM: log P(yes) - log P(no) that each passage states the claim; call it in a stage.

    The prompt before the passage is the same for all, so that the model reads it once. Raises GenerationFailed, and
    ModelTooSlow where not all would be judged within the stage's budget.
    """
    template = load_prompt("support", claim.lang)
    texts = [claim.text, *(f"{passage.header}\n{passage.text}" for passage in passages)]
    limits = [_MAX_CLAIM_TOKENS, *(_MAX_PASSAGE_TOKENS for _ in passages)]
    async with run.open_session(model, 0) as seat:
        sized = zip(texts, limits, await seat.count(texts), strict=True)
        said, *posts = (text[: int(len(text) * most / count)] if count > most else text for text, most, count in sized)
        quoted = f"<statement>\n{escape_prompt_text(said)}\n</statement>"
        prompts = [Prompt(template.system, f"{quoted}\n{quote_post(post)}", template.shots) for post in posts]
        await seat.require_time(prompts)
        return [await seat.odds(prompt, template.parts["yes"], template.parts["no"]) for prompt in prompts]
