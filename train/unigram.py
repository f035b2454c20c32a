"""Unigram language-model pieces (Kudo 2018, "Subword Regularization"), estimated the same way every time.

A text's probability is the sum over all its segmentations of the product of piece probabilities. Start from many
candidate pieces, then in turn re-estimate the probabilities by EM and drop the pieces whose loss costs least, until
the vocabulary has the size that was asked for.

`tokenizers.trainers.UnigramTrainer` does the same but walks a hash map in random order, so that two runs on the same
text give other scores and other ids; it also fails on, or overshoots for, very small corpora. Hence these lines.

Axes: `W` distinct words, `E` edges (one edge: one piece at one place in one word), `P` candidate pieces.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

MAX_PIECE_LENGTH = 16
MAX_WORDS = 200_000  # the most frequent ones; the others lend their characters only (memory: about 4 kB a word)
MAX_WORD_LENGTH = 24  # longer words (text without spaces) are cut: a product of 24 probabilities cannot underflow
CANDIDATES_PER_PIECE = 6  # 20 took three times as long and gave the same text length
PRUNE_TO = 0.75  # share of the pieces that survives a round
EM_STEPS = 2  # between prunings, as in SentencePiece
FINAL_EM_STEPS = 4


class Lattice:
    """All ways to write each word as pieces, as one graph.

    Node (i, w) stands before character i of word w. Words are sorted by falling length, so that the words that reach
    position i are 0..n_i-1 and the nodes of one position are contiguous.
    """

    def __init__(self, words: Sequence[str], index: Mapping[str, int]) -> None:
        self.order = sorted(range(len(words)), key=lambda w: (-len(words[w]), words[w]))
        ranked = [words[w] for w in self.order]
        self.lengths = np.array([len(word) for word in ranked])
        longest = int(self.lengths[0])
        reach = [int((self.lengths >= i).sum()) for i in range(longest + 1)]
        self.base = np.concatenate([[0], np.cumsum(reach)])
        self.reach = reach
        edges: list[list[tuple[int, int, int]]] = [[] for _ in range(longest + 1)]
        for w, word in enumerate(ranked):
            for end in range(1, len(word) + 1):
                for start in range(max(0, end - MAX_PIECE_LENGTH), end):
                    piece = index.get(word[start:end])
                    if piece is not None:
                        edges[end].append((int(self.base[start]) + w, w, piece))
        self.edges = [np.array(level, dtype=np.int64).reshape(-1, 3).T for level in edges]

    def keep(self, alive: np.ndarray) -> None:
        """Drop the edges of dead pieces. `alive`: (P,) bool."""
        self.edges = [level[:, alive[level[2]]] for level in self.edges]

    def drop_whole_words(self) -> None:
        """Drop each edge that is a word in one piece, so that `forward` sums over the other ways to write it."""
        for i, level in enumerate(self.edges):
            whole = (level[0] < self.base[1]) & (self.lengths[level[1]] == i)
            self.edges[i] = level[:, ~whole]

    def forward(self, p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sum over segmentations. `p`: (P,) -> alpha (nodes,), each word's total (W,) in the order of `self.order`."""
        alpha = np.zeros(self.base[-1])
        alpha[: self.reach[0]] = 1.0
        for i, (source, word, piece) in enumerate(self.edges):
            if i:
                gain = np.bincount(word, alpha[source] * p[piece], minlength=self.reach[i])
                alpha[self.base[i] : self.base[i + 1]] = gain
        return alpha, alpha[self.base[self.lengths] + np.arange(len(self.lengths))]

    def expected_counts(self, p: np.ndarray, frequency: np.ndarray) -> np.ndarray:
        """How often each piece is used, on average over segmentations. `frequency`: (W,) -> (P,)."""
        frequency = frequency[self.order]
        alpha, total = self.forward(p)
        beta = np.zeros_like(alpha)  # d(sum of frequency * log total) / d alpha, walked back from the ends
        beta[self.base[self.lengths] + np.arange(len(self.lengths))] = frequency / total
        counts = np.zeros_like(p)
        for i in range(len(self.edges) - 1, 0, -1):
            source, word, piece = self.edges[i]
            flow = beta[self.base[i] + word] * p[piece]
            np.add.at(beta, source, flow)
            np.add.at(counts, piece, flow * alpha[source])
        return counts


def train_unigram(word_counts: Mapping[str, int], size: int, min_frequency: int = 2) -> list[tuple[str, float]]:
    """At most `size` pieces with their log probabilities, best first; every character is always among them.

    Args:
        word_counts: pre-tokenised words and how often each occurs.
        size: number of pieces, special tokens not counted.
        min_frequency: a longer piece occurs at least so often.
    Raises:
        ValueError: `size` is below the number of distinct characters.
    """
    counts: Counter[str] = Counter()
    for word in sorted(word_counts, key=lambda word: (-word_counts[word], word))[:MAX_WORDS]:
        for start in range(0, len(word), MAX_WORD_LENGTH):
            counts[word[start : start + MAX_WORD_LENGTH]] += word_counts[word]
    words, frequency = list(counts), np.array(list(counts.values()), dtype=np.float64)

    substrings: Counter[str] = Counter()
    for word, n in counts.items():
        for start in range(len(word)):
            for end in range(start + 1, min(len(word), start + MAX_PIECE_LENGTH) + 1):
                substrings[word[start:end]] += n
    characters = sorted(set().union(*word_counts))
    if size < len(characters):
        raise ValueError(f"{size} pieces cannot hold the {len(characters)} distinct characters of the texts.")
    longer = [piece for piece, n in substrings.items() if len(piece) > 1 and n >= max(2, min_frequency)]
    longer.sort(key=lambda piece: (-substrings[piece] * len(piece), piece))
    pieces = characters + longer[: max(CANDIDATES_PER_PIECE * size, 1000)]
    del longer

    index = {piece: i for i, piece in enumerate(pieces)}
    is_character = np.arange(len(pieces)) < len(characters)
    corpus = Lattice(words, index)
    spellings = Lattice(pieces, index)  # each piece written with the others: what remains when it is dropped
    spellings.drop_whole_words()
    place = np.empty(len(pieces), dtype=np.int64)
    place[spellings.order] = np.arange(len(pieces))
    p = np.array([max(1, substrings[piece]) for piece in pieces], dtype=np.float64)
    p /= p.sum()
    alive = np.ones(len(pieces), dtype=bool)

    def maximise(p: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
        for _ in range(steps):
            used = corpus.expected_counts(p, frequency)
            # A character must stay reachable even when longer pieces always cover it.
            p = np.where(is_character, np.maximum(used, 0.5), used)
            p = p / p.sum()
        return p, used

    while True:
        done = alive.sum() <= size
        p, used = maximise(p, FINAL_EM_STEPS if done else EM_STEPS)
        if done:
            break
        without = spellings.forward(p)[1][place]
        with np.errstate(divide="ignore", invalid="ignore"):
            loss = used * (np.log(p) - np.log(without))
        loss[~np.isfinite(loss)] = 0.0  # a piece whose probability has vanished costs nothing
        loss[is_character] = np.inf
        loss[~alive] = -np.inf
        wanted = max(size, int(PRUNE_TO * alive.sum()), len(characters))
        alive = np.zeros_like(alive)
        alive[np.argsort(-loss, kind="stable")[:wanted]] = True
        p = np.where(alive, p, 0.0)
        corpus.keep(alive)
        spellings.keep(alive)

    scored = [(pieces[i], float(np.log(p[i]))) for i in np.flatnonzero(alive & (p > 0))]
    return sorted(scored, key=lambda item: (-item[1], item[0]))
