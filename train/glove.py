"""Training of GloVe: counts of pairs first, then weighted least squares by AdaGrad.

    J = Σ f(X_ij) (w_i·w~_j + b_i + b~_j - log X_ij)²,   f(x) = min(1, (x / x_max)^alpha)

(Pennington, Socher and Manning, "GloVe: Global Vectors for Word Representation", 2014, equations 8 and 9.) Each pair
is a step of AdaGrad (Duchi et al., 2011): each number has the sum of the squares of its gradients, which begins at 1
as in the published program, and moves by learning_rate · gradient / root of the sum.

Pairs come in another order in each epoch: blocks of neighbours are drawn from all over, and mixed by as many as the
memory holds (8 million, about 250 MB). Workers share the tables without locks (Niu et al., 2011): one worker gives the
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

from regard.train.cooccurrence import Cooccurrences, count_cooccurrences
from regard.train.corpus import EncodedCorpus
from regard.train.word2vec_kernels import compiled

TABLES = ("in_embeddings", "out_embeddings", "in_bias", "out_bias")
BUFFER = 2**23  # pairs that are mixed at once
BLOCK = 2**10  # neighbouring pairs that are read at once
FIRST_SUM = 1.0  # of squared gradients
EPSILON = np.float32(1e-10)  # beside the root


@dataclass
class GloVeState:
    """How far a training is. With the model, it is all that is needed to go on.

    Args:
        epoch: passes over the pairs that are done.
        seconds: of training, without counting.
        history: an entry for each epoch.
        sums: AdaGrad's sums of squares, float32, for each table of the model.
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
) -> list[dict[str, float]]:
    """Trains a `GloVeModel`, in place.

    Args:
        model: in float32 on the CPU; its config says the window, x_max and alpha.
        corpus: a text in the model's rows, or its pairs, already counted.
        epochs: passes over the pairs.
        learning_rate: of AdaGrad.
        workers: threads; by default one for each core. With more than one, results differ from run to run.
        seed: of the order of the pairs.
        folder: where the counted pairs are kept, and found again; without one they are held in memory.
        state: where an earlier training on these pairs stopped.
        save: called after each epoch, for which the model holds what was learnt so far.
        report: called after each epoch with the state and the number of epochs.

    Returns:
        The history: for each epoch `epoch`, `loss` (the mean of a pair), `pairs`, `pairs_per_second` and `seconds`.

    Raises:
        ValueError: a number that cannot be, a model in another precision or on another device, words beyond its rows,
            or a text without pairs.
        FloatingPointError: when the loss is not a number any more.
    """
    state = GloVeState() if state is None else state
    workers = workers or os.cpu_count() or 1
    _check(model, epochs, learning_rate, workers, state)
    pairs = corpus if isinstance(corpus, Cooccurrences) else _counted(model, corpus, folder)
    tables = [getattr(model, name).weight.detach().numpy() for name in TABLES]  # the model's own memory
    if not state.sums:
        state.sums.update({name: np.full_like(table, FIRST_SUM) for name, table in zip(TABLES, tables, strict=True)})
    arrays = tables + [state.sums[name] for name in TABLES]
    numbers = [array.reshape(-1) if array.shape[1] == 1 else array for array in arrays]  # biases are (V,)
    rate = np.float32(learning_rate)

    with ThreadPoolExecutor(workers) as pool:
        while state.epoch < epochs:
            start, loss = time.perf_counter(), 0.0
            for rows, columns, counts in _mixed(pairs, np.random.default_rng([seed, state.epoch])):
                weights = np.minimum(1, (counts / model.config.x_max) ** model.config.alpha).astype(np.float32)
                targets = np.log(counts)
                cuts = np.linspace(0, len(rows), workers + 1).astype(int)
                jobs = [
                    pool.submit(_learn, *(a[one:other] for a in (rows, columns, weights, targets)), *numbers, rate)
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


def _counted(model: Any, corpus: EncodedCorpus, folder: str | os.PathLike[str] | None) -> Cooccurrences:
    config = model.config
    for start in range(0, len(corpus.tokens), 2**22):
        if corpus.tokens[start : start + 2**22].max() >= config.vocab_size:
            raise ValueError(
                f"The corpus has words beyond the {config.vocab_size:,} rows of the model: encode it with the model's "
                "words."
            )
    before = Cooccurrences.open(folder) if folder is not None else None
    if before is not None:
        return before
    return count_cooccurrences(corpus, config.vocab_size, config.window, config.symmetric, folder)


def _mixed(pairs: Cooccurrences, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, ...]]:
    """All pairs once, in random order."""
    blocks = rng.permutation(-(-len(pairs) // BLOCK))
    for start in range(0, len(blocks), BUFFER // BLOCK):
        some = np.sort(blocks[start : start + BUFFER // BLOCK])  # in the order of the file
        places = (some[:, None] * BLOCK + np.arange(BLOCK)).reshape(-1)
        places = rng.permutation(places[places < len(pairs)])
        yield pairs.rows[places], pairs.columns[places], pairs.counts[places]


@compiled
def _learn(rows, columns, weights, targets, w, u, b, c, w_sums, u_sums, b_sums, c_sums, rate):
    """One step of AdaGrad for each pair; the sum of the loss before each step."""
    loss = 0.0
    two = np.float32(2)
    for n in range(len(rows)):
        i, j = rows[n], columns[n]
        score = b[i] + c[j]
        for d in range(w.shape[1]):
            score += w[i, d] * u[j, d]
        difference = score - targets[n]
        loss += weights[n] * difference * difference
        slope = two * weights[n] * difference  # dJ by the score
        for d in range(w.shape[1]):
            to_w, to_u = slope * u[j, d], slope * w[i, d]
            w_sums[i, d] += to_w * to_w
            u_sums[j, d] += to_u * to_u
            w[i, d] -= rate * to_w / (np.sqrt(w_sums[i, d]) + EPSILON)
            u[j, d] -= rate * to_u / (np.sqrt(u_sums[j, d]) + EPSILON)
        b_sums[i] += slope * slope
        c_sums[j] += slope * slope
        b[i] -= rate * slope / (np.sqrt(b_sums[i]) + EPSILON)
        c[j] -= rate * slope / (np.sqrt(c_sums[j]) + EPSILON)
    return loss
