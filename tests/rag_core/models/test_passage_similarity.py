import numpy as np
import pytest

from rag_core.models.onnx_models import PassageSimilarity, TokenVectors


def make_tokens(count, seed, heads):
    rng = np.random.default_rng(seed)
    starts = 5 * np.arange(count)
    return TokenVectors(
        rng.normal(size=(count, 8)).astype(np.float32), np.stack((starts, starts + 4), axis=1), np.array(heads, "f4")
    )


NO_HEADS = np.zeros((2, 8))


def test_pieces_measured_together_are_as_each_alone():
    heads = np.random.default_rng(3).normal(size=(2, 8))
    asked, passage = make_tokens(6, 1, heads), make_tokens(12, 2, heads)
    similarity = PassageSimilarity(asked, passage)
    spans = [(0, 60), (0, 4), (5, 24), (55, 60), (30, 31), (61, 90)]  # the last has no token
    shares = asked.weights / asked.weights.sum()
    mean = shares @ asked.vectors
    for (start, end), (maxsim, cosine, prior) in zip(spans, similarity.measure_pieces(spans), strict=True):
        here = (passage.spans[:, 1] > start) & (passage.spans[:, 1] <= end) & (start < 60)
        assert maxsim == pytest.approx(float(shares @ similarity.compare_piece(start, end)), abs=1e-5)
        assert cosine == pytest.approx(
            float(similarity.embed_piece(start, end) @ mean / np.linalg.norm(mean)) if here.any() else 0.0, abs=1e-5
        )
        assert prior == pytest.approx(float(passage.priors[here].mean()) if here.any() else 0.0, abs=1e-5)
    assert similarity.measure_pieces([]) == []


def test_a_heavy_token_decides_and_a_prior_counts_whatever_is_asked():
    heads = np.zeros((2, 8))
    heads[0, 0], heads[1, 1] = 4.0, 2.0
    vectors = np.eye(8, dtype=np.float32)[:2]
    spans = np.array([(0, 4), (5, 9)])
    asked, passage = (TokenVectors(vectors, spans, one.astype("f4")) for one in (heads, heads))
    first, second = PassageSimilarity(asked, passage).measure_pieces([(0, 4), (5, 9)])
    assert first.maxsim > 0.9 > 0.1 > second.maxsim  # the first token of the question weighs e⁴ times as much
    assert (first.prior, second.prior) == (pytest.approx(0.0), pytest.approx(2.0, abs=0.02))


def test_without_heads_all_tokens_weigh_the_same():
    asked, passage = make_tokens(4, 5, NO_HEADS), make_tokens(9, 6, NO_HEADS)
    similarity = PassageSimilarity(asked, passage)
    (whole,) = similarity.measure_pieces([(0, 45)])
    assert whole.maxsim == pytest.approx(similarity.post, abs=1e-5)
    assert similarity.post == pytest.approx(float(similarity.compare_piece(0, 45).mean()), abs=1e-5)
    assert whole.prior == 0.0
