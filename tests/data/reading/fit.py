"""Fit the probability that a piece answers, and that a later piece supersedes another.

python tests/data/reading/fit.py --models DIR [--write] [FOLDER …]

Asks the questions of each folder (21 that `train.py` leaves alone) by the product, without bars, with the embedder
of MODELS__EMBEDDER, and prints the AUC of a set held out at a time, beside that of the probability in use; --write fits
on all of them and writes `rag_core/answering.npy`. FOLDERs that are given after --test report, and nothing is fitted on
them. The constant and weights of `_SUCCESSION` in `writing/extract_candidates.py` are printed, and how many right first
pieces they gain by bar, a set held out at a time.
"""

import argparse
import asyncio
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np

from bot.evaluation.data import open_indexed_dataset, read_dataset
from bot.evaluation.judging import holds_answer
from bot.evaluation.measures import answer_or_refuse, build_question, compute_auc
from bot.settings import Settings
from rag_core import calibration
from rag_core.calibration import AnsweringFeatures
from rag_core.writing import extract, extract_candidates
from rag_core.writing.extract_candidates import SuccessionFeatures

HERE = Path(__file__).parent
FOLDERS = (*range(19, 22), *range(70, 81), *range(139, 143), *range(172, 175))
COUNT = len(AnsweringFeatures._fields)
BARS = 0.3, 0.35, 0.4, 0.45, 0.5
PENALTY = 330.0  # of the squared weights, features of unit variance: of 33 to 1,000 the best of sets held out


async def measure(folder, settings):
    """Of each question whose best piece was compared: features, probability in use, first right, answerable.

    And of the later pieces: question, features of succession, whether right, whether the best piece was.
    """
    rows, later, seen, listed, dataset = [], [], [], [], read_dataset(folder, (), None, None)
    recorded = lambda features: seen.append(features) or calibration.estimate_answering(features)  # noqa: E731
    list_successors = extract_candidates.list_successors

    def record_successors(piece, *given):
        listed.append((piece, list_successors(piece, *given)))
        return listed[-1][1]

    with (
        patch.object(extract, "estimate_answering", recorded),
        patch.object(extract_candidates, "list_successors", record_successors),
    ):
        async with open_indexed_dataset(dataset, settings) as data:
            data.rag = replace(data.rag, calibration=data.rag.calibration.without_bars())
            for number, query in enumerate(dataset.queries):
                seen.clear()
                listed.clear()
                answer = await answer_or_refuse(build_question(query, data), data.rag)
                of_it = [one for one in seen if calibration.estimate_answering(one) == answer.confidence]
                if of_it and answer.sentences:
                    right = query.answerable and holds_answer(answer.sentences[0].text, query.answers)
                    rows.append((*of_it[-1], answer.confidence, right, query.answerable))
                for piece, found in listed[:1] if query.answerable else ():
                    first = holds_answer(piece.text, query.answers)
                    later += [(number, *told, holds_answer(one.text, query.answers), first) for one, told in found]
    return np.array(rows, float), np.array(later, float).reshape(-1, len(SuccessionFeatures._fields) + 3)


def square(features):
    """Products of (1, features), each pair once: shape (rows, (n + 1)(n + 2) / 2)."""
    known = np.hstack((np.ones((len(features), 1)), features))
    first, second = np.triu_indices(known.shape[1])
    return known[:, first] * known[:, second]


def regress(terms, right, penalty):
    """Weights of a logistic regression with a penalty of the squared weights, by Newton's method."""
    weights = np.zeros(terms.shape[1])
    for _ in range(30):
        likely = 1 / (1 + np.exp(-terms @ weights))
        slope = terms.T @ (right - likely) - penalty * weights
        curve = (terms * (likely * (1 - likely))[:, None]).T @ terms + np.diag(penalty)
        weights += np.linalg.solve(curve, slope)
    return weights


def fit_succession(later):
    """Constant and weights, from the pairs of which one alone is right."""
    known = np.hstack((np.ones((len(later), 1)), later[:, 1:-2]))
    right, first = later[:, -2] > 0, later[:, -1] > 0
    scale = np.maximum(known.std(axis=0), 1e-9)
    scale[0] = 1.0
    penalty = np.full(known.shape[1], 1.0)
    penalty[0] = 1e-6
    told = right != first
    return regress(known[told] / scale, right[told].astype(float), penalty) / scale


def count_right(weights, later, bar):
    """Change of the number of right first pieces where the likeliest successor comes first from a probability on."""
    odds = np.hstack((np.ones((len(later), 1)), later[:, 1:-2])) @ weights
    best = [np.flatnonzero(later[:, 0] == one)[odds[later[:, 0] == one].argmax()] for one in np.unique(later[:, 0])]
    return sum(later[n, -2] - later[n, -1] for n in best if odds[n] >= np.log(bar / (1 - bar)))


def fit(rows):
    """Matrix of the quadratic form of (1, raw features), and the least and the most of each."""
    raw, right = rows[:, :COUNT], rows[:, COUNT + 1]
    least, most = np.quantile(raw, (0.005, 0.995), axis=0)
    raw = np.clip(raw, least, most)
    mean, scale = raw.mean(axis=0), np.maximum(raw.std(axis=0), 1e-9)
    terms = square((raw - mean) / scale)
    spread = np.maximum(terms.std(axis=0), 1e-9)
    spread[0] = 1.0
    penalty = np.full(terms.shape[1], PENALTY)
    penalty[0] = 1e-6  # the constant
    weights = regress(terms / spread, right, penalty)
    form = np.zeros((COUNT + 1, COUNT + 1))
    form[np.triu_indices(COUNT + 1)] = weights / spread
    shift = np.eye(COUNT + 1)  # of raw features to those of unit variance
    shift[1:, 0], shift[1:, 1:] = -mean / scale, np.diag(1 / scale)
    bounds = (np.concatenate(((1.0,), bound)) for bound in (least, most))
    return np.vstack((shift.T @ form @ shift, *bounds))


def estimate(fitted, rows):
    *form, least, most = fitted
    known = np.clip(np.hstack((np.ones((len(rows), 1)), rows[:, :COUNT])), least, most)
    return np.einsum("ri,ij,rj->r", known, np.array(form), known)


def report(name, scores, rows):
    right, answerable = rows[:, COUNT + 1] > 0, rows[:, COUNT + 2] > 0
    among = {"right against wrong": answerable, "against unanswerable": right | ~answerable, "all": right | True}
    figures = (f"{what} {compute_auc(list(scores[of]), list(right[of])):.3f}" for what, of in among.items())
    print(f"{name}, {len(rows)} questions, first right {right.sum() / answerable.sum():.3f}: AUC", ", ".join(figures))


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="sets to fit on")
    parser.add_argument("--test", nargs="*", default=[], type=Path, metavar="FOLDER", help="sets that only report")
    parser.add_argument("--models", required=True, metavar="DIR")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the features of each set are kept between runs")
    asked = parser.parse_args()
    os.environ |= {"MODELS__DIR": asked.models, "LLM__MODEL": "none"}

    async def read(folder):
        kept = asked.keep / f"{folder.name}.npz" if asked.keep else None
        if kept and kept.exists():
            return tuple(np.load(kept).values())
        with tempfile.TemporaryDirectory() as name:
            os.environ["DATA__DIR"] = name
            measured = await measure(folder, Settings().rag())
        if kept:
            np.savez(kept, *measured)
        return measured

    read_all = [await read(folder) for folder in asked.folders or [HERE / str(n) for n in FOLDERS]]
    sets, later = ([one[n] for one in read_all] for n in (0, 1))
    held_out = [estimate(fit(np.vstack(sets[:n] + sets[n + 1 :])), rows) for n, rows in enumerate(sets)]
    together = np.vstack(sets)
    report("in use", together[:, COUNT], together)
    report("held out", np.concatenate(held_out), together)
    fitted, succession = fit(together), fit_succession(np.vstack(later))
    print("succession:", succession.round(2).tolist())
    for bar in BARS:
        others = (fit_succession(np.vstack(later[:n] + later[n + 1 :])) for n in range(len(later)))
        gained = sum(count_right(weights, rows, bar) for weights, rows in zip(others, later, strict=True))
        print(f"from {bar}: {gained:+.0f} of {int(together[:, -1].sum())} right first")
    for folder in asked.test:
        rows, successors = await read(folder)
        report(f"{folder.name}, in use", rows[:, COUNT], rows)
        report(f"{folder.name}, fitted here", estimate(fitted, rows), rows)
        print("right first:", ", ".join(f"{count_right(succession, successors, bar):+.0f} from {bar}" for bar in BARS))
    if asked.write:
        np.save(Path(calibration.__file__).with_name("answering.npy"), fitted.astype(np.float32))


if __name__ == "__main__":
    asyncio.run(main())
