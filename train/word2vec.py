"""Training of word2vec: the plan of the work, the workers, the learning rate, and what is known of it on the way.

The text is cut into chunks of about 50,000 words, and a step is one chunk. What a step draws at random follows from
the seed and its number alone, so one worker gives the same model in every process, and a training that stops after any
step goes on to the same end. Several workers share the tables without locks: faster, and not the same twice.
"""

import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from regard.train import word2vec_kernels as kernels
from regard.train.corpus import EncodedCorpus
from regard.train.vocabulary import keep_probabilities

ENGINES = ("numba", "torch")
LOGS = 100  # of a training, where it is not said how often
LONGEST_ROW = 100.0  # of a table; trained rows are 2 to 20 long, and those of a training that runs away grow on
END_ROWS = 500  # at either end of a table: the most frequent words, and the tree's uppermost nodes
_ALIGNMENT = 64  # bytes: rows begin with a line of the processor's cache


@dataclass
class TrainingState:
    """How far a training is; saved as JSON with a checkpoint, it is all that is needed to go on.

    Args:
        step: chunks that are done, over all epochs.
        seconds: of training, without what is saved and compiled.
        loss, pairs: sum of the loss over the pairs since the epoch began, and their number.
        history: what was logged.
    """

    step: int = 0
    seconds: float = 0.0
    loss: float = 0.0
    pairs: int = 0
    history: list[dict[str, float]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Plan:
    """All the work of a training, and how the learning rate falls in a line over it."""

    bounds: np.ndarray
    num_words: int
    epochs: int
    learning_rate: float
    min_learning_rate: float

    @property
    def chunks(self) -> int:
        return len(self.bounds) - 1

    @property
    def steps(self) -> int:
        return self.epochs * self.chunks

    def share(self, step: int) -> float:
        """Of the work, before a step."""
        epoch, chunk = divmod(step, self.chunks)
        return float(epoch + self.bounds[chunk] / self.bounds[-1]) / self.epochs

    def rate(self, step: int) -> float:
        return self.learning_rate - (self.learning_rate - self.min_learning_rate) * self.share(step)

    def words(self, step: int) -> int:
        """That were read before a step, over all epochs."""
        return round(self.share(step) * self.epochs * self.num_words)


def train_word2vec(
    model: Any,
    corpus: EncodedCorpus,
    epochs: int = 5,
    learning_rate: float = 0.025,
    min_learning_rate: float = 1e-4,
    workers: int | None = None,
    seed: int = 42,
    engine: str = "numba",
    state: TrainingState | None = None,
    logging_steps: int | None = None,
    save_steps: int | None = None,
    save: Callable[[TrainingState], None] | None = None,
    report: Callable[[TrainingState, Plan], None] | None = None,
    **settings: Any,
) -> list[dict[str, float]]:
    """Trains a `Word2VecModel` on a text, in place.

    Args:
        model: in float32; its config says which architecture and objective. The engine "numba" learns on the CPU.
        corpus: in the model's rows.
        epochs: passes over the text.
        learning_rate, min_learning_rate: at the beginning and at the end.
        workers: threads; by default one for each of `usable_cores`. With more than one, results differ from run to
            run.
        seed: of windows, subsampling and negatives.
        engine: "numba", or "torch" for batches on the model's device (negative sampling only).
        state: where an earlier training of this text stopped.
        logging_steps: chunks between two entries of the history.
        save_steps: chunks between two calls of `save`, for which the model holds what was learnt so far.
        save, report: called when a checkpoint is due, and at each entry of the history.
        settings: of the engine "torch", further arguments of `regard.train.word2vec_torch.BatchedTables`.

    Returns:
        The history: entries with `step`, `epoch`, `loss` (the mean of a pair since the last entry), `learning_rate`,
        `words`, `words_per_second` and `seconds`; the last one of an epoch has `epoch_loss`, the mean of its pairs.

    Raises:
        ValueError: an unknown engine, an objective, number or tensor that it does not take, or a text of which no
            pair of words is left to learn from.
        FloatingPointError: when the loss is not a number any more, or vectors grow beyond all measure.
    """
    numbers = {"epochs": epochs, "workers": workers, "logging_steps": logging_steps, "save_steps": save_steps}
    _check(model, corpus, numbers, learning_rate, min_learning_rate, engine)
    bounds = corpus.chunks()
    if engine == "torch":
        from regard.train.word2vec_torch import BatchedTables, stretches

        bounds, prepared = stretches(bounds), BatchedTables(model, seed, workers, **settings)
    elif settings:
        raise ValueError(f"engine='numba' takes no {next(iter(settings))}.")
    else:
        prepared = _Tables(model, seed, workers)
    plan = Plan(bounds, corpus.num_words, epochs, learning_rate, min_learning_rate)
    logging_steps, save_steps = (in_steps(number, corpus, plan) for number in (logging_steps, save_steps))
    state = TrainingState() if state is None else state
    if state.step >= plan.steps:
        return state.history
    logging_steps = logging_steps or max(1, plan.steps // LOGS)
    with prepared as tables:
        log = _Log(plan, state, logging_steps, report, tables, model.config)
        while state.step < plan.steps:
            stop = plan.steps if save_steps is None else min(plan.steps, (state.step // save_steps + 1) * save_steps)
            _run(tables, corpus.tokens, plan, state, stop, prepared.workers, log)
            if save is not None and save_steps is not None:
                log.write()  # else what was added up since the last entry would be lost
                tables.give_back()
                save(state)
    return state.history


def in_steps(chunks: int | None, corpus: EncodedCorpus, plan: Plan) -> int | None:
    """So many chunks of a corpus as steps of a plan whose own are longer; an epoch is one in both."""
    return None if chunks is None else -(-chunks * plan.chunks // (len(corpus.chunks()) - 1))


def usable_cores() -> int:
    """Cores that this process may use: fewer than the machine has where a batch system or a container bounds them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_needed(vocabulary_size: int, width: int, objective: str = "negative-sampling") -> int:
    """Bytes that a training takes beside the text: two tables, and a copy of each with padded rows."""
    rows = 2 * vocabulary_size - (objective == "hierarchical-softmax")
    return 4 * rows * (width + kernels.padded_width(width))


def _check(
    model: Any,
    corpus: EncodedCorpus,
    numbers: dict[str, int | None],
    learning_rate: float,
    least: float,
    engine: str,
) -> None:
    config = model.config
    if engine not in ENGINES:
        raise ValueError(f"engine={engine!r} is not known: it is 'numba' or 'torch'.")
    if config.objective == "full-softmax":
        raise ValueError(
            "objective='full-softmax' compares each word with the whole vocabulary and is trained by transformers' "
            "Trainer: choose 'negative-sampling' or 'hierarchical-softmax' here."
        )
    for name, value in numbers.items():
        if value is not None and value < 1:
            raise ValueError(f"{name}={value} must be at least 1.")
    if not 0 <= least <= learning_rate:
        raise ValueError(f"min_learning_rate={least} must lie between 0 and learning_rate={learning_rate}.")
    for table in (model.in_embeddings, model.out_embeddings):
        if (kind := str(table.weight.dtype).removeprefix("torch.")) != "float32":
            raise ValueError(f"The model is in {kind}, and is trained in float32: load it so.")
    starts = range(0, len(corpus.tokens), 2**22)
    largest = max((corpus.tokens[start : start + 2**22].max() for start in starts), default=-1)
    if largest < 0:
        raise ValueError("The corpus has not a single word: encode a text that has words of the model.")
    if largest >= config.vocab_size:
        raise ValueError(
            f"The corpus has words beyond the {config.vocab_size:,} rows of the model: encode it with its words."
        )


class _Tables:
    """The model's tables with padded rows, flat, and all else that the inner loop reads."""

    def __init__(self, model: Any, seed: int, workers: int | None = None) -> None:
        config, counts = model.config, model.counts.cpu().numpy()
        self.workers = workers or usable_cores()
        tree = config.objective == "hierarchical-softmax"
        self.seed, self.width = seed, kernels.padded_width(config.hidden_size)
        self.weights = [model.in_embeddings.weight, model.out_embeddings.weight]
        self.tables = [_padded(weight, self.width) for weight in self.weights]
        self.keep = (keep_probabilities(counts, config.subsample) * 2**32).astype(np.uint64)
        self.limits, self.others = kernels.alias_table(model.noise_weights().numpy().astype(np.float64))
        nothing = (np.zeros((len(counts), 0), np.int32), np.zeros((len(counts), 0), np.int8))
        self.tree = (model.huffman_nodes.cpu().numpy(), model.huffman_codes.cpu().numpy()) if tree else nothing
        self.settings = (config.architecture == "cbow", config.cbow_mean, config.window, config.num_negatives)

    def __enter__(self) -> "_Tables":
        self.learn(np.zeros(0, dtype=np.int32), (0.0, 0.0), 0)  # compiles, before the clock runs
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is None:
            self.give_back()

    def learn(self, tokens: np.ndarray, rates: tuple[float, float], step: int) -> tuple[float, int]:
        """Sum of the loss and number of pairs of a stretch of text, which is learnt."""
        return kernels.train_chunk(
            np.array(tokens), *(table.reshape(-1) for table in self.tables), self.width, self.keep, self.limits,
            self.others, *self.tree, *self.settings, np.asarray(rates), np.uint64(step_seed(self.seed, step)),
        )  # fmt: skip

    def learnt(self) -> list[Any]:
        """The tables as they are now, as tensors of padded rows."""
        import torch

        return [torch.from_numpy(table) for table in self.tables]

    def give_back(self) -> None:
        """Puts what was learnt into the model."""
        import torch

        with torch.no_grad():
            for weight, table in zip(self.weights, self.learnt(), strict=True):
                weight.copy_(table[:, : weight.shape[1]])


def _padded(weight: Any, width: int) -> np.ndarray:
    """A float32 copy of shape (V, width), aligned to the processor's cache; the pad is zero and stays so."""
    rows = weight.shape[0]
    room = np.empty(rows * width * 4 + _ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    table = room[start : start + rows * width * 4].view(np.float32).reshape(rows, width)
    table[:, : weight.shape[1]] = weight.detach().float().cpu().numpy()
    table[:, weight.shape[1] :] = 0
    return table


def longest_row(tables: list[Any], whole: bool) -> float:
    """Length of the longest row of the tables, nan where one is not a number; unless `whole`, at their ends alone."""
    import torch

    parts = tables if whole else [end for table in tables for end in (table[:END_ROWS], table[-END_ROWS:])]
    return float(torch.stack([torch.linalg.vector_norm(part, dim=1).max() for part in parts]).max())


def step_seed(seed: int, step: int) -> int:
    """64 random bits for a step, not 0, mixed so that neighbours have nothing in common (Steele et al., 2014)."""
    mask = 2**64 - 1
    bits = (seed * 0xD1342543DE82EF95 + (step + 1) * 0x9E3779B97F4A7C15) & mask
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & mask
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & mask
    return (bits ^ bits >> 31) or 1


def _run(
    tables: Any, tokens: np.ndarray, plan: Plan, state: TrainingState, stop: int, workers: int, log: "_Log"
) -> None:
    """Steps up to `stop`, shared among the workers; the results are taken in the order of the steps."""
    coming, done = iter(range(state.step, stop)), queue.SimpleQueue()
    taking, stopped = threading.Lock(), threading.Event()

    def work() -> None:
        try:
            while not stopped.is_set():
                with taking:
                    step = next(coming, None)
                if step is None:
                    return
                start, end = plan.bounds[step % plan.chunks], plan.bounds[step % plan.chunks + 1]
                rates = plan.rate(step), plan.rate(step + 1)
                done.put((step, *tables.learn(tokens[start:end], rates, step)))
        except BaseException as error:
            stopped.set()
            done.put(error)

    waiting: dict[int, tuple[float, int]] = {}
    with ThreadPoolExecutor(workers) as pool, _clock(state, log):
        try:
            for _ in range(workers):
                pool.submit(work)
            while state.step < stop:
                result = done.get()
                if isinstance(result, BaseException):
                    raise result
                waiting[result[0]] = result[1:]
                while state.step in waiting:
                    log.take(*waiting.pop(state.step))
        finally:
            stopped.set()


@contextmanager
def _clock(state: TrainingState, log: "_Log") -> Any:
    log.before, log.start = state.seconds, time.perf_counter()
    try:
        yield
    finally:
        state.seconds = log.before = log.seconds()
        log.start = None


class _Log:
    """Adds up, in float64, writes the history, and looks at each entry whether the tables are sound."""

    def __init__(
        self,
        plan: Plan,
        state: TrainingState,
        every: int,
        report: Callable[..., None] | None,
        tables: Any,
        config: Any,
    ) -> None:
        self.plan, self.state, self.every, self.report = plan, state, every, report
        self.tables, self.config = tables, config
        self.before, self.start = state.seconds, None  # the clock stands while a checkpoint is saved
        self.loss, self.pairs = 0.0, 0
        last = state.history[-1] if state.history else {"step": 0, "seconds": 0.0, "words": 0}
        self.last = (last["seconds"], last["words"])

    def seconds(self) -> float:
        return self.before + (0.0 if self.start is None else time.perf_counter() - self.start)

    def take(self, loss: float, pairs: int) -> None:
        """The result of the step that is due."""
        plan, state, loss = self.plan, self.state, float(loss)
        if not np.isfinite(loss):
            raise FloatingPointError(
                f"The loss is {loss} at step {state.step + 1}: the vectors have left the range of numbers; try a "
                "lower learning_rate."
            )
        state.step, state.loss, state.pairs = state.step + 1, state.loss + loss, state.pairs + pairs
        self.loss, self.pairs = self.loss + loss, self.pairs + pairs
        if state.step % plan.chunks == 0 or state.step % self.every == 0:
            self.write()

    def check(self, ends_epoch: bool) -> None:
        """Stops a training that runs away, which the loss alone does not show, or that learns nothing.

        The whole tables are looked at after an epoch; else the rows that are stepped most often, which go first.
        """
        if ends_epoch and not self.state.pairs:
            why = "no sentence has two words"
            if self.config.subsample > 0:
                why = f"subsample={self.config.subsample:g} leaves out too many words of so short a text; try 0"
            raise ValueError(f"An epoch went by without a single pair of words, so that nothing was learnt: {why}.")
        longest = longest_row(self.tables.learnt(), ends_epoch)
        if not longest <= LONGEST_ROW:
            raise FloatingPointError(
                f"The longest vector has length {longest:.4g} at step {self.state.step}, beyond {LONGEST_ROW:g}: the "
                f"training runs away; try a learning_rate below {self.plan.learning_rate:g} or a window below "
                f"{self.config.window}."
            )

    def write(self) -> None:
        """An entry of the history, unless the last one is of this step."""
        plan, state = self.plan, self.state
        if state.history and state.history[-1]["step"] == state.step:
            return
        ends_epoch = state.step % plan.chunks == 0
        self.check(ends_epoch)
        seconds, words = self.seconds(), plan.words(state.step)
        entry = {
            "step": state.step,
            "epoch": plan.share(state.step) * plan.epochs,
            "loss": self.loss / max(1, self.pairs),
            "learning_rate": plan.rate(state.step),
            "words": words,
            "words_per_second": (words - self.last[1]) / max(1e-9, seconds - self.last[0]),
            "seconds": seconds,
        }
        if ends_epoch:
            entry["epoch_loss"] = state.loss / max(1, state.pairs)
            state.loss, state.pairs = 0.0, 0
        self.loss, self.pairs, self.last = 0.0, 0, (seconds, words)
        state.history.append(entry)
        if self.report is not None:
            self.report(state, plan)
