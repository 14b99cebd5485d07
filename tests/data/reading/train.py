"""Train the adapter with which e5 compares the tokens of a question and a post.

pip install torch==2.5.1; python tests/data/reading/train.py --model DIR --out FILE.npz [--seconds 3300] [FOLDER …]

DIR is the folder of e5-small-centred; FOLDERs are sets of this one (by default 01 to 18 and 22 to 69). Changes of rank
32 to the matrices of the upper eight layers are learned (Hu et al., "LoRA", 2021), and their norms. A question meets
the six hardest of the posts that the untrained model and BM25 find, the right one among them; the score of a piece is
that of `PieceFeatures`. Loss: a right piece before all others (listwise), whether any is right, and the post by its
whole vector (InfoNCE). Nothing but one seed and two processors; 16 bits where they can.
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
from rag_core.text.answer_type import VAGUE_TYPES, contains_answer_type, detect_answer_type
from rag_core.text.sentences import MAX_SENTENCE_LENGTH, tokenize_sentences
from rag_core.text.tokens import detect_language, tokenize
from rag_core.writing.extract_candidates import _WEIGHTS, PieceFeatures

HERE = Path(__file__).parent
CENTRES = torch.from_numpy(np.load(HERE.parents[2] / "rag_core/models/e5_small_centres.npy"))
TRAINED = (*range(1, 19), *range(22, 70))
FROZEN, RANK, DROPOUT = 4, 32, 0.05  # layers, numbers, share
POSTS, BATCH, LONGEST = 6, 8, 120  # posts of a question, questions of a step, tokens of a post
RATE, WARM_STEPS, TEMPERATURE = 3e-4, 40, 0.05
MATRICES = {short: name for short, name in _TENSOR_NAMES.items() if not short.endswith("ln")}
FIXED = _WEIGHTS._replace(maxsim=0.0, cosine=0.0, post_maxsim=0.0)  # weights of the features that are not learned


@dataclass
class Piece:
    """Tokens `first` to `end` of a post; `fixed`: what the features that are not learned add to its score."""

    first: int
    end: int
    right: bool
    stale: bool
    fixed: float


@dataclass
class Example:
    """A question and the posts found for it, in tokens with the marks and the prefix; languages as rows of CENTRES."""

    tokens: list[int]
    lang: int
    posts: list[tuple[list[int], int, list[Piece]]]


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

    def forward(self, lists):
        """Vectors: list of (tokens, hidden) float32. In chunks of similar length."""
        order, found = sorted(range(len(lists)), key=lambda n: len(lists[n])), {}
        for start in range(0, len(order), 16):
            chunk = order[start : start + 16]
            ids = nn.utils.rnn.pad_sequence([torch.tensor(lists[n]) for n in chunk], True, 1)
            with torch.autocast("cpu", torch.bfloat16):
                x = self.words[ids] + self.places[: ids.shape[1]] + self.side
                x = functional.layer_norm(x, x.shape[-1:], *self.first_norm, 1e-12)
                hide = torch.zeros(ids.shape, dtype=torch.bfloat16).masked_fill_(ids == 1, -1e4)[:, None, None, :]
                for n, layer in enumerate(self.layers):
                    with torch.set_grad_enabled(torch.is_grad_enabled() and n >= FROZEN):
                        x = layer(x, hide)
            found |= {n: row[: len(lists[n])].float() for n, row in zip(chunk, x, strict=True)}
        return [found[n] for n in range(len(lists))]


def whole_vector(vectors, centre):
    """The vector of a text as the product makes it: the mean of unit length, less the centre."""
    return functional.normalize(functional.normalize(vectors.mean(0), dim=0) - centre, dim=0)


class Reader:
    """Tokens of texts, and the posts and pieces of questions."""

    def __init__(self, folder, encoder):
        self.tokenizer, self.encoder = Tokenizer.from_file(str(folder / "tokenizer.json")), encoder
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.prefixes = [self.tokenizer.encode(text, add_special_tokens=False).ids for text in ("query: ", "passage: ")]

    def embed(self, texts, kind):
        lists = [self.mark(self.tokenizer.encode(text, add_special_tokens=False).ids[:160], kind) for text in texts]
        with torch.no_grad():
            centres = [CENTRES[kind, int(detect_language(text) == "en")] for text in texts]
            return torch.stack([whole_vector(*one) for one in zip(self.encoder(lists), centres, strict=True)]).numpy()

    def mark(self, tokens, kind):
        return [0, *self.prefixes[kind], *tokens, 2]

    def read(self, folder):
        """Examples of a set."""
        posts, queries = (
            [json.loads(line) for line in (folder / f"{name}.jsonl").open(encoding="utf-8")]
            for name in ("posts", "queries")
        )
        texts, numbers = [one["text"] for one in posts], {one["id"]: n for n, one in enumerate(posts)}
        vectors, asked = self.embed(texts, 1), self.embed([one["text"] for one in queries], 0)
        words, spans = BM25Okapi([tokenize(text) for text in texts]), [list(list_pieces(text)) for text in texts]
        for query, vector in zip(queries, asked, strict=True):
            near, shared = vectors @ vector, words.get_scores(tokenize(query["text"]))
            scores = 0.6 * (near - near.min()) / (np.ptp(near) + 1e-9) + 0.4 * shared / (shared.max() + 1e-9)
            right = [numbers[one] for one in query["relevant"] if one in numbers]
            found = list(dict.fromkeys([*np.argsort(-scores)[:7].tolist(), *right[:2]]))
            made = [
                self.cut(texts[n], spans[n], query, n in right, scores[n] / scores.max()) for n in found if spans[n]
            ]
            tokens = self.tokenizer.encode(query["text"], add_special_tokens=False).ids[:60]
            yield Example(self.mark(tokens, 0), int(detect_language(query["text"]) == "en"), made)

    def cut(self, text, spans, query, relevant, rank):
        """A window of a post around its pieces: tokens, language, pieces."""
        encoded, want = self.tokenizer.encode(text, add_special_tokens=False), detect_answer_type(query["text"])[0]
        bounds, pieces = np.array(encoded.offsets).reshape(-1, 2), []
        for start, end in spans:
            piece = text[start:end]
            first, last = np.searchsorted(bounds[:, 1], start, "right"), np.searchsorted(bounds[:, 0], end, "left")
            if first < last <= LONGEST:
                held = 0.5 if want in VAGUE_TYPES else float(contains_answer_type(want, piece, query["text"]))
                fixed = PieceFeatures(rank, 0.0, held, (end - start) / MAX_SENTENCE_LENGTH, 0.0)
                holds = relevant and any(one.casefold() in piece.casefold() for one in query["answers"])
                stale = not holds and any(one.casefold() in piece.casefold() for one in query.get("stale") or ())
                pieces.append(Piece(first, last, holds, stale, float(np.dot(fixed, FIXED))))
        return self.mark(encoded.ids[:LONGEST], 1), int(detect_language(text) == "en"), pieces


def list_pieces(text):
    """Spans of up to three sentences, as `extract_candidates` takes them."""
    sentences = [span for span, _ in tokenize_sentences(text)]
    for first, (start, _) in enumerate(sentences):
        for _, end in sentences[first : first + 3]:
            if end - start > MAX_SENTENCE_LENGTH:
                break
            yield start, end


def choose_posts(example):
    """Up to two right posts, and others, the first four found twice as likely."""
    right = [one for one in example.posts if any(piece.right for piece in one[2])]
    others = [one for one in example.posts if one[2] and one not in right]
    chances = [random.random() * (1 if n < 4 else 0.5) for n in range(len(others))]
    right = right if len(right) <= 2 else random.sample(right, 2)
    return right + [others[n] for n in np.argsort(chances)[::-1][: POSTS - len(right)]]


def compute_loss(encoder, reader, examples):
    """Mean loss of a batch."""
    posts = [choose_posts(one) for one in examples]
    asked = encoder([one.tokens for one in examples])
    read = iter(encoder([tokens for of_one in posts for tokens, _, _ in of_one]))
    starts = [1 + len(prefix) for prefix in reader.prefixes]
    ordered, present, vectors, owners = [], [], [], []
    for n, (example, question, of_one) in enumerate(zip(examples, asked, posts, strict=True)):
        words = question[starts[0] : -1] - CENTRES[0, example.lang]
        mean, words = functional.normalize(words.mean(0), dim=0), functional.normalize(words, dim=-1)
        scores, pieces = [], [piece for _, _, pieces in of_one for piece in pieces]
        for _, lang, own in of_one:
            post = next(read)
            vectors.append(whole_vector(post, CENTRES[1, lang]))
            owners.append(n if any(piece.right for piece in own) else -1)
            post = post[starts[1] : -1] - CENTRES[1, lang]
            cosines = words @ functional.normalize(post, dim=-1).T
            best = cosines.max(1).values.mean()
            for piece in own:
                near = cosines[:, piece.first : piece.end].max(1).values.mean()
                alike = functional.normalize(post[piece.first : piece.end].mean(0), dim=0) @ mean
                scores.append(torch.stack((near, alike, best)) @ encoder.weights * 10 + piece.fixed)
        right, stale = (torch.tensor([getattr(one, what) for one in pieces]) for what in ("right", "stale"))
        scores = torch.stack(scores).masked_fill(stale, -1e4)
        total = torch.logsumexp(scores, 0)
        if right.any():
            ordered.append(total - torch.logsumexp(scores[right], 0))
        odds = (total - encoder.bar[0] * 10) * torch.exp(encoder.bar[1]) * 0.3
        present.append(functional.binary_cross_entropy_with_logits(odds, right.any().float()))
    centres = [CENTRES[0, one.lang] for one in examples]
    whole = torch.stack([whole_vector(*one) for one in zip(asked, centres, strict=True)])
    cosines, owners = whole @ torch.stack(vectors).T / TEMPERATURE, torch.tensor(owners)
    own = owners[None] == torch.arange(len(examples))[:, None]
    found = (torch.logsumexp(cosines, 1) - torch.logsumexp(cosines.masked_fill(~own, -1e4), 1))[own.any(1)]
    parts = [torch.stack(ordered).mean()] if ordered else []
    parts += [0.5 * torch.stack(present).mean()] + ([0.3 * found.mean()] if len(found) else [])
    return torch.stack(parts).sum()


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
    np.savez_compressed(file, **written)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--model", required=True, type=Path, metavar="DIR")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE")
    parser.add_argument("--seconds", type=float, default=3300.0)
    asked = parser.parse_args()
    random.seed(1)
    torch.manual_seed(1)
    encoder = Encoder(asked.model).eval()
    reader = Reader(asked.model, encoder)
    examples = [one for folder in asked.folders or [HERE / f"{n:02}" for n in TRAINED] for one in reader.read(folder)]
    examples = [one for one in examples if any(pieces for _, _, pieces in one.posts)]
    changes = [one for name, one in encoder.named_parameters() if one.requires_grad and "layers" in name]
    groups = [{"params": changes, "weight_decay": 0.01}, {"params": [encoder.weights, encoder.bar], "weight_decay": 0}]
    optimizer, begun, losses, order = torch.optim.AdamW(groups, RATE, (0.9, 0.98)), time.monotonic(), [], []
    encoder.train()
    while (spent := (time.monotonic() - begun) / asked.seconds) < 1:
        order = order if len(order) >= BATCH else random.sample(examples, len(examples))
        batch, order = order[:BATCH], order[BATCH:]
        rate = min(1.0, (len(losses) + 1) / WARM_STEPS) * max(0.05, 1 - spent)
        optimizer.param_groups[0]["lr"], optimizer.param_groups[1]["lr"] = RATE * rate, 1e-3 * rate
        loss = compute_loss(encoder, reader, batch)
        loss.backward()
        nn.utils.clip_grad_norm_(changes, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        if len(losses) % 50 == 0:
            print(f"{len(losses) * BATCH:,} questions, loss {np.mean(losses[-50:]):.3f}", flush=True)
    write_adapter(encoder, asked.out)


if __name__ == "__main__":
    main()
