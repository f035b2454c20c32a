"""Huffman's tree over a vocabulary: frequent words lie near the root, so that their probability takes few steps.

Axes: V words, L length of the longest path.
"""

from collections.abc import Sequence

import numpy as np


def huffman_tree(counts: Sequence[int] | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The path from the root to each word (Huffman, 1952): which inner nodes it meets, and where it turns.

    Two queues make it linear after the sort: leaves in order of rising count, inner nodes in order of their making,
    which is rising too. Inner node V - 2 is the root. Equal counts are told apart by the words' order, so the tree
    follows from the counts alone.

    Args:
        counts: of V words, at least two, none negative.

    Returns:
        int32 of shape (V, L), the inner nodes on the path, and int8 of shape (V, L), 0 for the first child (the rarer)
        and 1 for the second. Both are padded with -1 after a path's end.

    Raises:
        ValueError: if there are fewer than two words or a count is negative.
    """
    counts = np.asarray(counts, dtype=np.int64)
    num_words = len(counts)
    if num_words < 2:
        raise ValueError(f"a Huffman tree needs at least two words, not {num_words}.")
    if counts.min() < 0:
        raise ValueError(f"counts must not be negative: word {counts.argmin()} has {counts.min()}.")

    # Nodes 0 to V - 1 are the words, V and up are inner nodes. A later word of the same count is taken first.
    leaves = np.lexsort((-np.arange(num_words), counts)).tolist()
    weight = counts.tolist()
    parent, turn = [0] * (2 * num_words - 1), [0] * (2 * num_words - 1)
    next_leaf, next_inner = 0, num_words
    for node in range(num_words, 2 * num_words - 1):
        total = 0
        for side in (0, 1):
            inner_waits = next_inner < node
            if next_leaf < num_words and not (inner_waits and weight[next_inner] < weight[leaves[next_leaf]]):
                child, next_leaf = leaves[next_leaf], next_leaf + 1
            else:
                child, next_inner = next_inner, next_inner + 1
            parent[child], turn[child] = node, side
            total += weight[child]
        weight.append(total)

    # Parents have higher numbers than their children: going down, each path extends its parent's.
    parent, turn = np.array(parent), np.array(turn, dtype=np.int8)
    depth = np.zeros(2 * num_words - 1, dtype=np.int64)
    for node in range(2 * num_words - 3, -1, -1):
        depth[node] = depth[parent[node]] + 1
    depth = depth[:num_words]
    nodes = np.full((num_words, int(depth.max())), -1, dtype=np.int32)  # (V, L)
    codes = np.full(nodes.shape, -1, dtype=np.int8)
    words, current = np.arange(num_words), np.arange(num_words)
    for step in range(nodes.shape[1]):  # all paths at once, from the words up
        still = step < depth[words]
        words, current = words[still], current[still]
        place = depth[words] - 1 - step
        codes[words, place] = turn[current]
        current = parent[current]
        nodes[words, place] = current - num_words
    return nodes, codes


def balanced_tree(num_words: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Paths that differ by one step at most, for words of which no counts are known.

    The tree is a heap: node h has the children 2h and 2h + 1, the words are V to 2V - 1, and a word's number in binary
    is its path.

    Args:
        num_words: V, at least two.
        depth: L, at least ⌈log₂ V⌉.

    Returns:
        as `huffman_tree`, int32 and int8 of shape (V, L).
    """
    leaves = np.arange(num_words, 2 * num_words)
    length = np.frexp(leaves)[1] - 1  # (V,): how many binary digits follow the first
    steps = np.arange(depth)
    left = np.maximum(length[:, None] - steps, 1)  # (V, L): digits after the node's own
    inside = steps < length[:, None]
    nodes = np.where(inside, num_words - 1 - (leaves[:, None] >> left), -1)
    codes = np.where(inside, leaves[:, None] >> (left - 1) & 1, -1)
    return nodes.astype(np.int32), codes.astype(np.int8)


def graft(
    nodes: np.ndarray, codes: np.ndarray, new_counts: Sequence[int] | np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A tree with more words in which each inner node that was there still parts the same words.

    A new root stands above the old tree and a Huffman tree of the new words. So what was learnt at the old nodes stays
    valid; old paths are one step longer, and the tree is no longer the shortest.

    Args:
        nodes, codes: (V, L), as `huffman_tree` gives them.
        new_counts: of the N words that come.

    Returns:
        nodes and codes of shape (V + N, at least L + 1). New inner nodes have the numbers from V - 1 to V + N - 2, the
        last of which is the root.
    """
    old, new = len(nodes), len(new_counts)
    root = old + new - 2
    if new == 1:
        new_nodes, new_codes = np.zeros((1, 0), dtype=np.int32), np.zeros((1, 0), dtype=np.int8)
    else:
        new_nodes, new_codes = huffman_tree(new_counts)
        new_nodes = np.where(new_nodes < 0, -1, new_nodes + old - 1).astype(np.int32)
    all_nodes = np.full((old + new, max(nodes.shape[1], new_nodes.shape[1]) + 1), -1, dtype=np.int32)
    all_codes = np.full(all_nodes.shape, -1, dtype=np.int8)
    all_nodes[:, 0] = root
    for code, words, below, turns in ((0, slice(old, None), new_nodes, new_codes), (1, slice(old), nodes, codes)):
        all_codes[words, 0] = code
        all_nodes[words, 1 : 1 + below.shape[1]] = below
        all_codes[words, 1 : 1 + below.shape[1]] = turns
    return all_nodes, all_codes
