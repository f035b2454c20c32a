"""Pairs of sentences of which one is English: which of the two does a model find more probable?"""

from regard.evaluation.minimal_pairs.generation import (
    PHENOMENA,
    MinimalPair,
    minimal_pair_items,
    minimal_pairs,
    write_minimal_pairs,
)

__all__ = ["PHENOMENA", "MinimalPair", "minimal_pair_items", "minimal_pairs", "write_minimal_pairs"]
