"""Answer grammar: GBNF for answers and paragraphs.

Under the grammar only sentences with source numbers that exist, or the fixed refusal, can be written.
"""

from __future__ import annotations

from collections.abc import Sequence

# Characters allowed in generated text, for square brackets in GBNF: both scripts with their accents; round brackets
# only, no markup, no character that ends a JSON string, no control characters.
LETTERS = r""" !%&'()+,./0-9:;=?@A-Z_a-z~°№«»–—“”„’…€£$₽À-ɏЀ-ӿ-"""


MAX_CITED_POSTS = 3  # per sentence
_SENTENCE_START = r'[0-9A-Za-z\u00C0-\u024F\u0400-\u04FF«"“„(@]'
_SENTENCE_CHARACTERS = f'"{LETTERS}'


def build_answer_grammar(numbers: Sequence[int], refusal: str, sentences: int, characters: int) -> str:
    """Build the GBNF of an answer: up to `sentences` lines of at most `characters`, each citing some of `numbers`."""
    exist = " | ".join(f'"{number}"' for number in sorted(numbers))
    more = f' ("\\n" sentence){{0,{sentences - 1}}}' if sentences > 1 else ""
    return "\n".join(
        (
            f"root ::= refusal | sentence{more}",
            f'refusal ::= "{refusal}"',
            f"sentence ::= text cited{{1,{min(MAX_CITED_POSTS, len(numbers))}}}",
            f"text ::= {_SENTENCE_START} char{{1,{characters - 2}}} [ .!?…]",
            f"char ::= [{_SENTENCE_CHARACTERS}]",
            'cited ::= "[" number "]"',
            f"number ::= {exist}",
        )
    )


def build_paragraph_grammar(characters: int) -> str:
    """Build the GBNF of one line of at most `characters` characters."""
    return f"root ::= {_SENTENCE_START} char{{8,{characters - 1}}}\nchar ::= [{_SENTENCE_CHARACTERS}]"
