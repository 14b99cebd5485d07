"""Similarity of stems by their common beginning: "учител" and "учительниц" are similar."""

from __future__ import annotations

from collections.abc import Iterable

_MIN_COMMON_PREFIX = 4  # common first letters: fewer is chance


def measure_stem_similarity(term: str, others: Iterable[str]) -> float:
    """Measure similarity to the closest other stem by common beginning, 0..1: "учител" and "учительниц" are similar."""
    best = 0.0
    start = term[:_MIN_COMMON_PREFIX]
    for other in others:
        if other[:_MIN_COMMON_PREFIX] != start:
            continue
        same, most = 0, max(len(term), len(other))
        for a, b in zip(term, other, strict=False):
            if a != b:
                break
            same += 1
        whole = same == min(len(term), len(other))  # "bread" and "break" only begin alike
        if same >= (_MIN_COMMON_PREFIX if whole else _MIN_COMMON_PREFIX + 1) and same >= 0.6 * most:
            best = max(best, same / most)
    return best


# Limits: candidates compared per common beginning, and similar stems kept per term.
_MAX_COMPARED_STEMS, _MAX_SIMILAR_STEMS = 64, 8


def find_similar_stems(asked: Iterable[str], others: Iterable[str]) -> dict[str, list[tuple[float, str]]]:
    """Map each asked stem to its similar stems, most similar first, at most `_MAX_SIMILAR_STEMS`, itself left out."""
    asked, by_start = tuple(asked), dict[str, list[str]]()
    for term in asked:
        by_start[term[:_MIN_COMMON_PREFIX]] = []
    for other in dict.fromkeys(others):
        listed = by_start.get(other[:_MIN_COMMON_PREFIX])
        if listed is not None and len(listed) < _MAX_COMPARED_STEMS:
            listed.append(other)
    similar = {}
    for term in asked:
        near = (
            (measure_stem_similarity(term, (other,)), other)
            for other in by_start[term[:_MIN_COMMON_PREFIX]]
            if other != term
        )
        similar[term] = sorted((one for one in near if one[0]), key=lambda one: -one[0])[:_MAX_SIMILAR_STEMS]
    return similar
