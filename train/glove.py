"""Training of GloVe: counts of pairs first, then weighted least squares by AdaGrad.

    J = Σ f(X_ij) (w_i·w~_j + b_i + b~_j - log X_ij)²,   f(x) = min(1, (x / x_max)^alpha)

(Pennington, Socher and Manning, "GloVe: Global Vectors for Word Representation", 2014, equations 8 and 9.) Each pair
is a step of AdaGrad as in the program that was published with the paper, which does not follow the textbook (Duchi et
al., 2011). With g the derivative of J/2, half the objective, by a number x, rate η and a sum G for each number, which
begins at 1:

    x <- x - η g / √G,   and then   G <- G + (η g)²

The root is of the sum before this step, and what is added up has the rate in it; by the textbook G would grow 1/η² as
fast, and steps would soon be small. For the numbers of the vectors g is clipped to ±100, as later versions of the
program do against steps that grow without end; those also have η = 1 for the biases, which is not done here.

Pairs come in another order in each epoch: blocks of neighbours are drawn from all over, and mixed by as many as the
memory holds (8 million, about 350 MB). Workers share the tables without locks (Niu et al., 2011): one worker gives the
same model each time, several do not.

Axes: V words, D width, N pairs.
"""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from regard.train import cooccurrence
from regard.train.cooccurrence import Cooccurrences, count_cooccurrences
from regard.train.corpus import STRETCH, EncodedCorpus
from regard.train.word2vec import usable_cores
from regard.train.word2vec_kernels import compiled

TABLES = ("in_embeddings", "out_embeddings", "in_bias", "out_bias")
BUFFER = 2**23  # pairs that are mixed at once
BLOCK = 2**10  # neighbouring pairs that are read at once
BYTES_OF_PAIR = 44  # while it is mixed: its place, what is known of it, and twice the numbers made of that
FIRST_SUM = 1.0  # of squares
CLIP = np.float32(100)  # of a gradient by a number of a vector


@dataclass
class GloVeState:
    """How far a training is. With the model, it is all that is needed to go on.

    Args:
        epoch: passes over the pairs that are done.
        seconds: of training, without what is counted, compiled and saved.
        history: an entry for each epoch.
        sums: AdaGrad's sums of squares, float32 and of the table's shape, for each table of the model.
    """

    epoch: int = 0
    seconds: float = 0.0
    history: list[dict[str, float]] = field(default_factory=list)
    sums: dict[str, np.ndarray] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """What is no array, for a JSON file; the arrays go to a safetensors file."""
        return {"epoch": self.epoch, "seconds": self.seconds, "history": self.history}


def train_glove(
    model: Any,
    corpus: EncodedCorpus | Cooccurrences,
    epochs: int = 25,
    learning_rate: float = 0.05,
    workers: int | None = None,
    seed: int = 42,
    folder: str | os.PathLike[str] | None = None,
    state: GloVeState | None = None,
    save: Callable[[GloVeState], None] | None = None,
    report: Callable[[GloVeState, int], None] | None = None,
    report_counting: Callable[[int, int], None] | None = None,
) -> list[dict[str, float]]:
    """Trains a `GloVeModel`, in place.

    Args:
        model: in float32 on the CPU; its config says the window, x_max and alpha.
        corpus: a text in the model's rows, or its pairs, already counted.
        epochs: passes over the pairs.
        learning_rate: of AdaGrad.
        workers: threads; by default one for each core. With more than one, results differ from run to run.
        seed: of the order of the pairs.
        folder: where the counted pairs are kept, and found again if they are of this text, window and vocabulary;
            without one they are held in memory.
        state: where an earlier training on these pairs stopped.
        save: called after each epoch, for which the model holds what was learnt so far.
        report: called after each epoch with the state and the number of epochs.
        report_counting: called while pairs are counted, as `count_cooccurrences` explains.

    Returns:
        The history: for each epoch `step` and `epoch` (its number, for a pass over the pairs is one step), `loss` (the
        mean of a pair's J), `pairs`, `pairs_per_second` and `seconds`.

    Raises:
        ValueError: a number that cannot be, a model in another precision or on another device, words or pairs beyond
            its rows, a pair that does not occur, or a text without pairs.
        FloatingPointError: when the loss is not a number any more.
    """
    state = GloVeState() if state is None else state
    workers = workers or usable_cores()
    _check(model, epochs, learning_rate, workers, state)
    pairs = corpus if isinstance(corpus, Cooccurrences) else _counted(model, corpus, folder, report_counting)
    tables = [getattr(model, name).weight.detach().numpy() for name in TABLES]  # the model's own memory
    _check_pairs(pairs, min(len(table) for table in tables))
    if not state.sums:
        state.sums.update({name: np.full_like(table, FIRST_SUM) for name, table in zip(TABLES, tables, strict=True)})
    w, u, b, c = tables
    w_sums, u_sums, b_sums, c_sums = (state.sums[name] for name in TABLES)
    numbers = w, u, b[:, 0], c[:, 0], w_sums, u_sums, b_sums[:, 0], c_sums[:, 0]
    rate = np.float32(learning_rate)

    nothing = np.zeros(0, dtype=np.int64)
    _learn(*_terms(model.config, *_taken(pairs, nothing)), *numbers, rate)  # compiles, before the clock runs
    with ThreadPoolExecutor(workers) as pool:
        while state.epoch < epochs:
            start, loss = time.perf_counter(), 0.0
            for part in _mixed(pairs, np.random.default_rng([seed, state.epoch])):
                terms = _terms(model.config, *part)
                cuts = np.linspace(0, len(terms[0]), workers + 1).astype(int)
                jobs = [
                    pool.submit(_learn, *(term[one:other] for term in terms), *numbers, rate)
                    for one, other in zip(cuts[:-1], cuts[1:], strict=True)
                ]
                loss += sum(job.result() for job in jobs)
            if not np.isfinite(loss):
                raise FloatingPointError(
                    f"The loss is {loss} in epoch {state.epoch + 1}: the vectors have left the range of numbers; try "
                    "a lower learning_rate."
                )
            seconds = time.perf_counter() - start
            state.epoch, state.seconds = state.epoch + 1, state.seconds + seconds
            state.history.append(
                {
                    "step": state.epoch,
                    "epoch": state.epoch,
                    "loss": loss / len(pairs),
                    "pairs": len(pairs),
                    "pairs_per_second": len(pairs) / max(1e-9, seconds),
                    "seconds": state.seconds,
                }
            )
            if report is not None:
                report(state, epochs)
            if save is not None:
                save(state)
    return state.history


def _check(model: Any, epochs: int, learning_rate: float, workers: int, state: GloVeState) -> None:
    if epochs < 1:
        raise ValueError(f"epochs={epochs} must be at least 1.")
    if not learning_rate > 0:
        raise ValueError(f"learning_rate={learning_rate} must be above 0.")
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1.")
    for name in TABLES:
        weight = getattr(model, name).weight
        kind = f"{str(weight.dtype).removeprefix('torch.')} on {weight.device}"
        if kind != "float32 on cpu":
            raise ValueError(f"The model's {name} is in {kind}; it is trained in float32 on the CPU: load it so.")
        if state.sums and state.sums[name].shape != tuple(weight.shape):
            raise ValueError(
                f"state.sums[{name!r}] has the shape {state.sums[name].shape}, and the model's table "
                f"{tuple(weight.shape)}: the state belongs to another model."
            )


def _check_pairs(pairs: Cooccurrences, rows: int) -> None:
    """The compiled steps look at no bounds."""
    shapes = [array.shape for array in (pairs.rows, pairs.columns, pairs.counts)]
    if shapes != [(len(pairs.counts),)] * 3:
        raise ValueError(f"rows, columns and counts of pairs have the shapes {shapes}, not one of (N,).")
    if not len(pairs):
        raise ValueError("There are no pairs to learn from.")
    for name in ("rows", "columns"):
        if getattr(pairs, name).dtype.kind not in "iu":
            raise ValueError(f"{name} of pairs are {getattr(pairs, name).dtype}: give whole numbers.")
    for start in range(0, len(pairs), STRETCH):
        for name in ("rows", "columns"):
            stretch = getattr(pairs, name)[start : start + STRETCH]
            least, most = int(stretch.min()), int(stretch.max())
            if least < 0 or most >= rows:
                raise ValueError(
                    f"The pairs have {most if most >= rows else least} among their {name}, and the model only rows 0 "
                    f"to {rows - 1:,}: count them with the model's words."
                )
        stretch = pairs.counts[start : start + STRETCH]
        least, most = float(stretch.min()), float(stretch.max())
        if not (least > 0 and np.isfinite(most)):
            raise ValueError(f"The counts of pairs go from {least} to {most}: each must be a number above 0.")


def memory_needed(vocabulary_size: int, width: int, numbers: int, window: int) -> int:
    """Bytes that a training takes at most: the model with what is greater, counting, or AdaGrad's sums and the pairs
    that are mixed.

    Args:
        numbers: words of the text.
    """
    tables = 4 * 2 * vocabulary_size * (width + 1)
    mixed = BYTES_OF_PAIR * min(BUFFER, 2 * window * numbers)
    return tables + max(cooccurrence.memory_needed(numbers, window), tables + mixed)


def _counted(
    model: Any,
    corpus: EncodedCorpus,
    folder: str | os.PathLike[str] | None,
    report: Callable[[int, int], None] | None,
) -> Cooccurrences:
    config = model.config
    what = config.vocab_size, config.window, config.symmetric
    if folder is not None:
        before = Cooccurrences.open(folder, cooccurrence.source(corpus, *what))
        if before is not None:
            return before
    return count_cooccurrences(corpus, *what, folder, report=report)


def _mixed(pairs: Cooccurrences, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    """All pairs once, in random order."""
    blocks = rng.permutation(-(-len(pairs) // BLOCK))
    for start in range(0, len(blocks), BUFFER // BLOCK):
        some = np.sort(blocks[start : start + BUFFER // BLOCK])  # in the order of the file
        places = (some[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
        places = places[places < len(pairs)]
        rng.shuffle(places)
        yield _taken(pairs, places)


def _taken(pairs: Cooccurrences, places: np.ndarray) -> tuple[np.ndarray, ...]:
    return pairs.rows[places], pairs.columns[places], pairs.counts[places]


def _terms(config: Any, rows: np.ndarray, columns: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, ...]:
    """What a step reads of each pair: i, j, f(X_ij) and log X_ij."""
    weights = np.minimum(1, (counts / config.x_max) ** config.alpha).astype(np.float32)
    return rows, columns, weights, np.log(counts)


@compiled
def _learn(rows, columns, weights, targets, w, u, b, c, w_sums, u_sums, b_sums, c_sums, rate):
    """One step of AdaGrad for each pair; the sum of the loss before each step."""
    loss = 0.0
    for n in range(len(rows)):
        i, j = rows[n], columns[n]
        score = b[i] + c[j]
        for d in range(w.shape[1]):
            score += w[i, d] * u[j, d]
        difference = score - targets[n]
        loss += weights[n] * difference * difference
        slope = weights[n] * difference  # dJ/2 by the score
        for d in range(w.shape[1]):
            to_w = rate * min(max(slope * u[j, d], -CLIP), CLIP)
            to_u = rate * min(max(slope * w[i, d], -CLIP), CLIP)
            w[i, d] -= to_w / np.sqrt(w_sums[i, d])
            u[j, d] -= to_u / np.sqrt(u_sums[j, d])
            w_sums[i, d] += to_w * to_w
            u_sums[j, d] += to_u * to_u
        slope *= rate
        b[i] -= slope / np.sqrt(b_sums[i])
        c[j] -= slope / np.sqrt(c_sums[j])
        b_sums[i] += slope * slope
        c_sums[j] += slope * slope
    return loss
