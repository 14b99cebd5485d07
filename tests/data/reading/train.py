"""Train the adapter with which e5 finds posts and compares their tokens with those of a question.

pip install torch==2.5.1; python tests/data/reading/train.py --model DIR --out FILE.npz [--seconds 7000] [FOLDER …]

DIR is the folder of e5-small-centred; FOLDERs are sets of this one (by default those of the README's table). Changes of
rank 32 to the matrices of the upper eight layers are learned (Hu et al., "LoRA", 2021), their norms, and three vectors
that tell of a token how much it weighs and how far it speaks for an answer whatever is asked. A step takes
two channels, of each 72 questions and posts up to 4,500 tokens, the right ones first; of a question the pieces of the
twelve posts compete that the untrained model and BM25 find. Loss: a right piece before all others (listwise), whether
any is right, the post by its whole vector (InfoNCE), and which later piece says anew what the best stale piece says, or
none for the best right piece. One seed and two processors; 16 bits where they can.
"""

import argparse
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from rank_bm25 import BM25Okapi
from tokenizers import Tokenizer
from torch import nn
from torch.nn import functional

from rag_core.models.onnx_conversion import _TENSOR_NAMES
from rag_core.models.onnx_models import MAX_LOG_WEIGHT
from rag_core.text.query_terms import VAGUE_TYPES, contains_answer_type, detect_answer_type
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, tokenize_sentences
from rag_core.text.tokens import detect_language, tokenize
from rag_core.writing.extract_candidates import _WEIGHTS, PieceFeatures

HERE = Path(__file__).parent
CENTRES = torch.from_numpy(np.load(HERE.parents[2] / "rag_core/models/e5_small_centres.npy"))
TRAINED = (*range(1, 19), *range(22, 70), *range(87, 100), *range(101, 110), *range(116, 139), *range(146, 172))
FROZEN, RANK, DROPOUT = 4, 32, 0.05  # layers, numbers, share
HALF = "AVX512" in torch.backends.cpu.get_cpu_capability()  # processors without it take 30 times as long with 16 bits
FOUND, LONGEST = 12, 256  # posts of a question, tokens of a post
QUESTIONS, TOKENS, CHANNELS = 72, 4500, 2  # of a channel and step; channels of a step
RATE, LAST_RATE, WARM_STEPS, TEMPERATURE = 3e-4, 0.03, 30, 0.05
STALE = 0.7  # what a stale piece counts less among the others: by the question alone it cannot be told from the new one
MATRICES = {short: name for short, name in _TENSOR_NAMES.items() if not short.endswith("ln")}
PRIOR = 3.0  # weight of what the tokens of a piece add
# weights of the features that are not learned
FIXED = _WEIGHTS._replace(maxsim=0.0, cosine=0.0, prior=0.0, post_maxsim=0.0)


@dataclass
class Asked:
    """A question: its tokens, language as a row of CENTRES, relevant posts, and the pieces that compete for it.

    `fixed`: what the features that are not learned add to the score of each piece.
    """

    tokens: list[int]
    lang: int
    relevant: list[int]
    pieces: np.ndarray
    fixed: np.ndarray
    right: np.ndarray
    stale: np.ndarray


@dataclass
class Channel:
    """Posts in tokens, oldest first, with their languages, and questions.

    `sentences`: post, first token, end; `pieces`: post, first and last sentence.
    """

    posts: list[list[int]]
    langs: list[int]
    sentences: np.ndarray
    pieces: np.ndarray
    questions: list[Asked]


class Linear(nn.Module):
    """A frozen matrix and a change of low rank."""

    def __init__(self, weight, bias, rank):
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("bias", bias)
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / weight.shape[1] ** 0.5) if rank else None
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank)) if rank else None

    def forward(self, x):
        y = functional.linear(x, self.weight, self.bias)
        return y if self.down is None else y + functional.linear(functional.linear(x, self.down), self.up)


class Layer(nn.Module):
    """A layer of BERT, post-norm."""

    def __init__(self, tensors, at, rank):
        super().__init__()
        of = lambda name: torch.from_numpy(np.array(tensors[at + name]))  # noqa: E731
        for short, name in MATRICES.items():
            weight = of(name + ".whole") * of(name + ".scale")
            setattr(self, short, Linear(weight.T.contiguous(), of(name + ".bias"), rank))
        norms = [
            of(f"{name}.LayerNorm.{part}") for name in ("attention.output", "output") for part in ("weight", "bias")
        ]
        self.norms = nn.ParameterList([nn.Parameter(one, requires_grad=rank > 0) for one in norms])
        self.dropout = DROPOUT if rank else 0.0

    def forward(self, x, hide):
        batch, length, _ = x.shape
        heads = [one(x).view(batch, length, 12, 32).transpose(1, 2) for one in (self.q, self.k, self.v)]
        met = functional.scaled_dot_product_attention(*heads, attn_mask=hide).transpose(1, 2).reshape(x.shape)
        x = self.norm(x + functional.dropout(self.ao(met), self.dropout, self.training), 0)
        inner = self.fo(functional.gelu(self.fi(x)))
        return self.norm(x + functional.dropout(inner, self.dropout, self.training), 2)

    def norm(self, x, first):
        return functional.layer_norm(x, x.shape[-1:], self.norms[first], self.norms[first + 1], 1e-12)


class Encoder(nn.Module):
    """e5 out of the model.onnx of its folder; a batch of token lists to vectors."""

    def __init__(self, folder):
        super().__init__()
        model = onnx.load(folder / "model.onnx")
        tensors = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
        self.words = torch.from_numpy(tensors["words"].astype(np.float32) * tensors["words.scale"])
        of = lambda name: torch.from_numpy(np.array(tensors["embeddings." + name]))  # noqa: E731
        self.places, self.side = of("position_embeddings.weight"), of("token_type_embeddings.weight")[0]
        self.first_norm = of("LayerNorm.weight"), of("LayerNorm.bias")
        names = [f"encoder.layer.{n}." for n in range(12)]
        self.layers = nn.ModuleList(Layer(tensors, at, RANK if n >= FROZEN else 0) for n, at in enumerate(names))
        # the weights of MaxSim, cosine, MaxSim of the post; the score from which something is right, and its scale
        weights = [_WEIGHTS.maxsim, _WEIGHTS.cosine, _WEIGHTS.post_maxsim]
        self.weights, self.bar = nn.Parameter(torch.tensor(weights) / 10), nn.Parameter(torch.tensor([2.0, 0.0]))
        self.succession = nn.Parameter(torch.tensor([2.0, 1.5]))  # of the cosine of two pieces; from which on it tells
        # log weights of a question's tokens and of a passage's, and what a passage's tokens add to the score
        self.heads = nn.Parameter(torch.zeros(3, len(self.side)))

    def forward(self, lists):
        """Vectors: list of (tokens, hidden) float32. In chunks of similar length."""
        order, found = sorted(range(len(lists)), key=lambda n: len(lists[n])), {}
        for start in range(0, len(order), 16):
            chunk = order[start : start + 16]
            ids = nn.utils.rnn.pad_sequence([torch.tensor(lists[n]) for n in chunk], True, 1)
            with torch.autocast("cpu", torch.bfloat16, enabled=HALF):
                x = self.words[ids] + self.places[: ids.shape[1]] + self.side
                x = functional.layer_norm(x, x.shape[-1:], *self.first_norm, 1e-12)
                kind = torch.bfloat16 if HALF else torch.float32
                hide = torch.zeros(ids.shape, dtype=kind).masked_fill_(ids == 1, -1e4)[:, None, None, :]
                for n, layer in enumerate(self.layers):
                    with torch.set_grad_enabled(torch.is_grad_enabled() and n >= FROZEN):
                        x = layer(x, hide)
            found |= {n: row[: len(lists[n])].float() for n, row in zip(chunk, x, strict=True)}
        return [found[n] for n in range(len(lists))]


def whole_vector(vectors, centre):
    """The vector of a text as the product makes it: the mean of unit length, less the centre."""
    return functional.normalize(functional.normalize(vectors.mean(0), dim=0) - centre, dim=0)


class Reader:
    """Texts to tokens, and sets to channels."""

    def __init__(self, folder, encoder):
        self.tokenizer, self.encoder = Tokenizer.from_file(str(folder / "tokenizer.json")), encoder
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.prefixes = [self.tokenizer.encode(text, add_special_tokens=False).ids for text in ("query: ", "passage: ")]

    def encode(self, text):
        return self.tokenizer.encode(text, add_special_tokens=False)

    def mark(self, tokens, kind):
        return [0, *self.prefixes[kind], *tokens, 2]

    def embed(self, texts, kind):
        lists = [self.mark(self.encode(text).ids[:160], kind) for text in texts]
        with torch.no_grad():
            centres = [CENTRES[kind, detect_row(text)] for text in texts]
            return torch.stack([whole_vector(*one) for one in zip(self.encoder(lists), centres, strict=True)]).numpy()

    def read(self, folder):
        posts, queries = (
            [json.loads(line) for line in (folder / f"{name}.jsonl").open(encoding="utf-8")]
            for name in ("posts", "queries")
        )
        for channel in sorted({one["channel"] for one in posts}):
            own = [one for one in posts if one["channel"] == channel]
            beginnings = {one["id"].rpartition("-")[0] for one in own}
            yield self.read_channel(own, [one for one in queries if one["id"].rpartition("-")[0] in beginnings])

    def read_channel(self, posts, queries):
        texts, numbers = [one["text"] for one in posts], {one["id"]: n for n, one in enumerate(posts)}
        vectors, asked = self.embed(texts, 1), self.embed([one["text"] for one in queries], 0)
        words, sentences, pieces, spans = BM25Okapi([tokenize(text) for text in texts]), [], [], []
        encoded = [self.encode(text) for text in texts]
        for post, text in enumerate(texts):
            bounds, known = np.array(encoded[post].offsets).reshape(-1, 2)[:LONGEST], []
            for (start, end), _ in tokenize_sentences(text):
                first, last = np.searchsorted(bounds[:, 1], start, "right"), np.searchsorted(bounds[:, 0], end, "left")
                if first < last:
                    known.append((len(sentences), start, end))
                    sentences.append((post, first, last))
            for n, (first, start, _) in enumerate(known):
                for last, _, end in known[n : n + 3]:
                    if end - start <= MAX_SENTENCE_LENGTH:
                        pieces.append((post, first, last))
                        spans.append((start, end))
        of_posts = [[n for n, one in enumerate(pieces) if one[0] == post] for post in range(len(texts))]
        questions = []
        for query, vector in zip(queries, asked, strict=True):
            near, shared = vectors @ vector, words.get_scores(tokenize(query["text"]))
            scores = 0.6 * (near - near.min()) / (np.ptp(near) + 1e-9) + 0.4 * shared / (shared.max() + 1e-9)
            relevant = [numbers[one] for one in query["relevant"] if one in numbers]
            found = dict.fromkeys([*np.argsort(-scores)[:FOUND].tolist(), *relevant[:3]])
            told = np.array(
                [
                    (n, *tell(texts[post], spans[n], query, post in relevant, scores[post] / scores.max()))
                    for post in found
                    for n in of_posts[post]
                ]
            ).reshape(-1, 4)
            questions.append(
                Asked(
                    self.mark(self.encode(query["text"]).ids[:60], 0), detect_row(query["text"]), relevant,
                    told[:, 0].astype(int), told[:, 1], told[:, 2] > 0, told[:, 3] > 0,
                )
            )  # fmt: skip
        marked = [self.mark(one.ids[:LONGEST], 1) for one in encoded]
        rows = [detect_row(text) for text in texts]
        return Channel(marked, rows, np.array(sentences), np.array(pieces), questions)


def detect_row(text):
    """The row of CENTRES of a text's language."""
    return int(detect_language(text) == "en")


def tell(text, span, query, relevant, rank):
    """What the features that are not learned add to the score of a piece, whether it is right, and whether stale."""
    piece, want = text[slice(*span)], detect_answer_type(query["text"])[0]
    held = 0.5 if want in VAGUE_TYPES else float(contains_answer_type(want, piece, query["text"]))
    fixed = PieceFeatures(rank, 0.0, held, len(piece) / MAX_SENTENCE_LENGTH)
    right = relevant and any(one.casefold() in piece.casefold() for one in query["answers"])
    stale = not right and any(one.casefold() in piece.casefold() for one in query.get("stale") or ())
    return float(np.dot(fixed, FIXED)), right, stale


def choose_posts(channel, questions):
    """The relevant posts of the questions, then others at random, while the tokens last."""
    needed = sorted({post for one in questions for post in one.relevant})
    others = random.sample(range(len(channel.posts)), len(channel.posts))
    chosen, left = [], TOKENS
    for post in dict.fromkeys([*needed, *others]):
        if len(channel.posts[post]) <= left:
            chosen.append(post)
            left -= len(channel.posts[post])
    return sorted(chosen)


def take_most(cosines, bounds):
    """The most in each of the column ranges: shape (rows, ranges)."""
    lengths = bounds[:, 1] - bounds[:, 0]
    steps = np.arange(lengths.max())
    columns = np.where(steps < lengths[:, None], bounds[:, :1] + steps, cosines.shape[1])
    return functional.pad(cosines, (0, 1), value=-1e4)[:, torch.from_numpy(columns)].amax(-1)


def compute_loss(encoder, reader, channel):
    """Mean loss of a channel's questions."""
    questions = random.sample(channel.questions, min(QUESTIONS, len(channel.questions)))
    posts = choose_posts(channel, questions)
    read, asked = encoder([channel.posts[n] for n in posts]), encoder([one.tokens for one in questions])
    starts = [1 + len(prefix) for prefix in reader.prefixes]
    tokens = [one[starts[1] : -1] - CENTRES[1, channel.langs[n]] for one, n in zip(read, posts, strict=True)]
    words = [one[starts[0] : -1] - CENTRES[0, of.lang] for one, of in zip(asked, questions, strict=True)]
    begin = np.cumsum([0, *map(len, tokens)])
    place = dict(zip(posts, begin, strict=False))  # of each post's first token
    here = np.isin(channel.pieces[:, 0], posts)
    pieces, number = channel.pieces[here], np.cumsum(here) - 1  # of each piece among those of the chosen posts
    bounds = np.array(
        [(place.get(post, 0) + first, place.get(post, 0) + end) for post, first, end in channel.sentences]
    )

    # similarities: shape (questions, pieces)
    every, of_questions = torch.cat(tokens), torch.cat(words)
    cosines = functional.normalize(of_questions, dim=-1) @ functional.normalize(every, dim=-1).T
    asking, telling = (
        (one @ head).clamp(-MAX_LOG_WEIGHT, MAX_LOG_WEIGHT).exp()
        for one, head in zip((of_questions, every), encoder.heads, strict=False)
    )
    share = torch.block_diag(*((one / one.sum())[None] for one in asking.split([len(one) for one in words])))
    means = functional.normalize(share @ of_questions, dim=-1)
    ends = np.stack((bounds[pieces[:, 1], 0], bounds[pieces[:, 2], 1]), axis=1)
    middle = np.minimum(pieces[:, 1] + 1, pieces[:, 2])  # a piece has up to three sentences
    nearest = take_most(cosines, np.minimum(bounds, len(every)))
    maxsim = share @ torch.stack([nearest[:, one] for one in (pieces[:, 1], middle, pieces[:, 2])]).amax(0)
    of_posts = share @ take_most(cosines, np.stack((begin[:-1], begin[1:]), axis=1))
    known = torch.cat((every * telling[:, None], every @ encoder.heads[2:].T), 1)
    sums = functional.pad(known.cumsum(0), (0, 0, 1, 0))
    sums = sums[ends[:, 1]] - sums[ends[:, 0]]
    vectors = functional.normalize(sums[:, :-1], dim=-1)
    priors = sums[:, -1] / torch.from_numpy(ends[:, 1] - ends[:, 0])
    weights = encoder.weights * 10
    scores = weights[0] * maxsim + weights[1] * means @ vectors.T + PRIOR * priors
    scores = scores + weights[2] * of_posts[:, np.searchsorted(posts, pieces[:, 0])]

    fixed = np.full(scores.shape, -1e4, np.float32)
    right, stale = np.zeros(scores.shape, bool), np.zeros(scores.shape, bool)
    for n, one in enumerate(questions):
        known = here[one.pieces]
        columns = number[one.pieces[known]]
        fixed[n, columns] = (one.fixed - STALE * one.stale)[known]
        right[n, columns], stale[n, columns] = one.right[known], one.stale[known]
    scores, present = scores + torch.from_numpy(fixed), torch.from_numpy(right.any(1))
    total = torch.logsumexp(scores, 1)
    order = total - torch.logsumexp(scores.masked_fill(~torch.from_numpy(right), -1e4), 1)
    odds = (total - encoder.bar[0] * 10) * torch.exp(encoder.bar[1]) * 0.3
    parts = [0.5 * functional.binary_cross_entropy_with_logits(odds, present.float())]
    if present.any():
        parts.append(order[present].mean())
    if succession := list_successions(encoder, vectors, scores.detach().numpy(), right, stale, pieces[:, 0]):
        parts.append(0.3 * sum(loss * weight for loss, weight in succession) / sum(weight for _, weight in succession))

    whole = torch.stack([whole_vector(one, CENTRES[0, of.lang]) for one, of in zip(asked, questions, strict=True)])
    found = [whole_vector(one, CENTRES[1, channel.langs[n]]) for one, n in zip(read, posts, strict=True)]
    alike, own = whole @ torch.stack(found).T / TEMPERATURE, [np.isin(posts, one.relevant) for one in questions]
    own = torch.from_numpy(np.array(own))
    missed = torch.logsumexp(alike, 1) - torch.logsumexp(alike.masked_fill(~own, -1e4), 1)
    return sum(parts) + (0.3 * missed[own.any(1)].mean() if own.any() else 0.0)


def list_successions(encoder, vectors, scores, right, stale, posts):
    """Of each question the loss of telling which later piece supersedes its best one, and the weight of that."""
    losses = []
    for score, good, old in zip(scores, right, stale, strict=True):
        if not old.any() and not good.any():
            continue
        best = np.where(old if old.any() else good, score, -1e9).argmax()
        later = posts > posts[best]
        wanted = later & good & old.any()
        rivals = later & (wanted | ~good)
        if rivals.any() and (wanted.any() or not old.any()):
            near = vectors[rivals] @ vectors[best] * encoder.succession[0] * 10
            odds = torch.cat((near, encoder.succession[1:] * 10))  # the last: nothing supersedes it
            told = torch.from_numpy(np.append(wanted[rivals], not wanted.any()))
            loss = torch.logsumexp(odds, 0) - torch.logsumexp(odds[told], 0)
            losses.append((loss, 3.0 if wanted.any() else 1.0))
    return losses


def write_adapter(encoder, file):
    """Write the changes as `adapt_bert_onnx` reads them: of each matrix the two factors in 8 bits."""
    written = {}
    for number, layer in enumerate(encoder.layers[FROZEN:], FROZEN):
        at = f"encoder.layer.{number}."
        for short, name in MATRICES.items():
            one = getattr(layer, short)
            up, size, down = np.linalg.svd((one.up @ one.down).detach().double().numpy(), full_matrices=False)
            up, down = up[:, :RANK], down[:RANK]
            steps = np.abs(up).max(axis=0) / 127, np.abs(down).max(axis=1) / 127
            written[at + name + ".up"] = np.rint(up / steps[0]).astype(np.int8)
            written[at + name + ".down"] = np.rint(down / steps[1][:, None]).astype(np.int8)
            written[at + name + ".scale"] = (size[:RANK] * steps[0] * steps[1]).astype(np.float32)
        for n, norm in enumerate(layer.norms):
            name = f"{'output' if n > 1 else 'attention.output'}.LayerNorm.{'bias' if n % 2 else 'weight'}"
            written[at + name] = norm.detach().numpy()
    asking, telling, prior = encoder.heads.detach().numpy()
    written["token_heads"] = np.array(((asking, 0 * asking), (telling, PRIOR * prior)))  # as `TokenVectors` reads them
    np.savez_compressed(file, **written)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--model", required=True, type=Path, metavar="DIR")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=7000.0)
    asked = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    encoder = Encoder(asked.model).eval()
    reader = Reader(asked.model, encoder)
    channels = [one for folder in asked.folders or [HERE / f"{n:02}" for n in TRAINED] for one in reader.read(folder)]
    changes = [one for name, one in encoder.named_parameters() if one.requires_grad and "layers" in name]
    others = [encoder.weights, encoder.bar, encoder.succession]
    groups = [
        {"params": changes, "lr": RATE, "weight_decay": 0.01},
        {"params": others, "lr": 1e-3, "weight_decay": 0},
        {"params": [encoder.heads], "lr": 2e-3, "weight_decay": 0.01},
    ]
    optimizer, begun, losses, order = torch.optim.AdamW(groups, betas=(0.9, 0.98)), time.monotonic(), [], []
    highest = [group["lr"] for group in groups]
    encoder.train()
    while (spent := (time.monotonic() - begun) / asked.seconds) < 1:
        rate = min(1.0, (len(losses) + 1) / WARM_STEPS) * max(LAST_RATE, 1 - spent)
        for group, most in zip(optimizer.param_groups, highest, strict=True):
            group["lr"] = most * rate
        order = order if len(order) >= CHANNELS else random.sample(channels, len(channels)) * CHANNELS
        batch, order = order[:CHANNELS], order[CHANNELS:]
        loss = sum(compute_loss(encoder, reader, one) for one in batch) / len(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(changes, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) % 25 == 0:
            print(f"{len(losses)} steps, loss {np.mean(losses[-25:]):.3f}", flush=True)
    write_adapter(encoder, asked.out)


if __name__ == "__main__":
    main()
