"""word2vec in batches of matrix products, in torch: the engine for a GPU, and a fast one on a CPU.

A stretch of text is subsampled and cut into blocks of L words, which are learnt in random order, several at a time. A
block and the words around it make L x C scores at once, of which those inside the windows are pairs; N negatives,
drawn for the block, make L x N more. In the original each pair has K negatives of its own; here each pair of a block
weighs all N by K / N, and those that are its target by 0. That changes no expectation, every centre sees more
different negatives than before, and a row that is read serves the whole block.

What a batch adds to one word is found from the same old values, so that many occurrences of one word in one batch
overshoot where steps one by one would settle, and each batch further than the last. Two things prevent it: a batch
takes its blocks from all over the stretch, so that a word that one page repeats is not repeated in one batch; and no
row moves by more than `LONGEST_MOVE` in a batch.

On a CPU the operations are too small to be cut up for several cores: there each worker learns stretches of its own, in
one thread, and all share the tables without locks. Another device does one stretch after the other.

Axes: B blocks in a batch, L words in a block, C context places of a block (L + 2 windows), O targets (C, or L in CBOW)
and N negatives, D width, V words, T words of a stretch that are kept, S blocks of a stretch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.train.vocabulary import alias_table, keep_probabilities

BLOCK = 16  # L: words of a block
NEGATIVES = 16  # N: drawn for a block
WORDS_PER_BATCH, WORDS_PER_LARGE_BATCH = 1536, 8192  # B x L; the larger elsewhere than on a CPU, for a long text
FEWEST_BATCHES = 2000  # in an epoch, before they grow: with 250, two million words were learnt less well
LONGEST_MOVE = 1.0  # of a row in a batch; trained rows are 2 to 4 long
MEASURED = 4  # the loss of every so many batches is computed, which changes no step
STRETCH = 20  # chunks of a corpus that are learnt as one stretch


@dataclass(frozen=True)
class Windows:
    """A stretch of text in blocks.

    Args:
        centre: int64 of shape (S, L), words.
        context: int64 of shape (S, C), a block's words and `window` places on either side.
        centre_sentence, context_sentence: int32 of the same shapes, to which sentence a word belongs; -1 and -2 where
            there is no word.
        reach: int16 of shape (S, L), how far the window of each centre goes, from 1 to `window`.
        distance: int16 of shape (L, C), between a centre and a place of the context; from a word to itself, more than
            any window.
    """

    centre: torch.Tensor
    context: torch.Tensor
    centre_sentence: torch.Tensor
    context_sentence: torch.Tensor
    reach: torch.Tensor
    distance: torch.Tensor

    def __len__(self) -> int:
        return len(self.centre)

    def by_block(self) -> tuple[torch.Tensor, ...]:
        return self.centre, self.context, self.centre_sentence, self.context_sentence, self.reach

    def take(self, blocks: torch.Tensor) -> "Windows":
        """These blocks, in this order."""
        return Windows(*(each.index_select(0, blocks) for each in self.by_block()), self.distance)

    def batches(self, size: int) -> Iterator["Windows"]:
        """So many blocks at once."""
        for parts in zip(*(each.split(size) for each in self.by_block()), strict=True):
            yield Windows(*parts, self.distance)

    def pairs(self) -> torch.Tensor:
        """float32 of shape (S, L, C): 1 where a word of the context is in the window of a centre, else 0."""
        same = self.centre_sentence.unsqueeze(2) == self.context_sentence.unsqueeze(1)  # (S, L, C)
        return same.logical_and_(self.distance <= self.reach.unsqueeze(2)).float()


def make_windows(
    tokens: torch.Tensor, keep: torch.Tensor, window: int, generator: torch.Generator, block: int = BLOCK
) -> Windows:
    """Subsamples a stretch of text, draws the reach of each window, and cuts the stretch into blocks.

    Words that are left out are gone before windows are laid, as in the original: their neighbours move together.

    Args:
        tokens: int64, words, and -1 at the end of a sentence.
        keep: float32 of shape (V,), how likely an occurrence of each word is kept.
        window: the longest reach.
        generator: on the device of `tokens`.
    """
    device = tokens.device
    ends = tokens < 0
    sentences = ends.cumsum(0, dtype=torch.int32)[~ends]
    words = tokens[~ends]
    kept = torch.rand(len(words), device=device, generator=generator) < keep[words]
    words, sentences = words[kept], sentences[kept]  # (T,)

    number = max(1, -(-len(words) // block))  # S
    behind = number * block - len(words) + window
    words = nn.functional.pad(words, (window, behind))  # (S · L + 2 · window,)
    centre_sentence = nn.functional.pad(sentences, (window, behind), value=-1)
    context_sentence = nn.functional.pad(sentences, (window, behind), value=-2)
    inside = slice(window, window + number * block)
    places = torch.arange(block + 2 * window, device=device) - window  # (C,)
    distance = (places - torch.arange(block, device=device)[:, None]).abs()  # (L, C)
    reach = torch.randint(1, window + 1, (number, block), device=device, generator=generator, dtype=torch.int16)
    return Windows(
        centre=words[inside].view(number, block),
        context=words.unfold(0, block + 2 * window, block)[:number],
        centre_sentence=centre_sentence[inside].view(number, block),
        context_sentence=context_sentence.unfold(0, block + 2 * window, block)[:number],
        reach=reach,
        distance=distance.masked_fill(distance == 0, window + 1).to(torch.int16),
    )


class BatchedTables:
    """The tables of a `Word2VecModel`, which are learnt where they are, on the model's device.

    Args:
        model: in float32, with negative sampling (`train_word2vec` sees to the first).
        seed: of all that is drawn; with one worker on a CPU, the same seed gives the same model.
        workers: threads of Python that learn at once, by default one for each core; 1 elsewhere than on a CPU.
        words_per_batch: B x L, words; by default 1,536, and elsewhere than on a CPU up to 8,192 (`default_batch`).
        negatives: N, drawn for each block.
        longest_move: of a row in a batch.

    Raises:
        ValueError: for another objective, or a number that cannot be.
    """

    def __init__(
        self,
        model: Any,
        seed: int,
        workers: int | None = None,
        words_per_batch: int | None = None,
        negatives: int = NEGATIVES,
        longest_move: float = LONGEST_MOVE,
    ) -> None:
        from regard.train.word2vec import usable_cores

        config, weight = model.config, model.in_embeddings.weight
        if config.objective != "negative-sampling":
            raise ValueError(
                f"engine='torch' learns by negative sampling alone, not by objective={config.objective!r}."
            )
        self.device = weight.device
        if words_per_batch is None:
            words_per_batch = default_batch(self.device.type, int(model.counts.sum()))
        for name, value in {"words_per_batch": words_per_batch, "negatives": negatives}.items():
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1.")
        if not longest_move > 0:
            raise ValueError(f"longest_move={longest_move} must be above 0.")
        self.workers = (workers or usable_cores()) if self.device.type == "cpu" else 1
        self.seed, self.negatives, self.longest_move = seed, negatives, longest_move
        self.blocks = max(1, words_per_batch // BLOCK)
        self.skip_gram, self.mean, self.window = config.architecture == "skip-gram", config.cbow_mean, config.window
        self.per_pair = config.num_negatives
        self.input, self.output = weight.data, model.out_embeddings.weight.data  # (V, D) each
        keep = keep_probabilities(model.counts.cpu().numpy(), config.subsample)
        self.keep = torch.from_numpy(keep).to(self.device, torch.float32)  # (V,)
        limits, others = alias_table(model.noise_weights().numpy().astype(np.float64))
        self.limits = torch.from_numpy(limits.astype(np.int64)).to(self.device)  # (V,)
        self.others = torch.from_numpy(others).to(self.device).long()  # (V,)

    def __enter__(self) -> "BatchedTables":
        self.threads = torch.get_num_threads()
        if self.device.type == "cpu":
            torch.set_num_threads(1)
        return self

    def __exit__(self, *error: Any) -> None:
        torch.set_num_threads(self.threads)

    def learnt(self) -> list[torch.Tensor]:
        """The tables as they are now."""
        return [self.input, self.output]

    def give_back(self) -> None:
        """Nothing to do: the model's own tables are learnt."""

    @torch.no_grad()
    def learn(self, tokens: np.ndarray, rates: tuple[float, float], step: int) -> tuple[float, int]:
        """Learns a stretch of text; the number of its pairs, and the sum of their loss, estimated from every fourth
        batch.

        Args:
            tokens: int32, words, and -1 at the end of a sentence.
            rates: the learning rate at the beginning and at the end of the stretch.
            step: its number, from which, with the seed, all that is drawn follows.
        """
        from regard.train.word2vec import step_seed

        generator = torch.Generator(self.device).manual_seed(step_seed(self.seed, step) >> 1)  # 63 bits
        text = torch.from_numpy(np.array(tokens)).to(self.device).long()
        windows = make_windows(text, self.keep, self.window, generator)
        order = torch.randperm(len(windows), device=self.device, generator=generator)
        batches = windows.take(order).batches(self.blocks)
        negatives = self.draw(len(order), generator).split(self.blocks)
        losses, counts = [], []
        moves = torch.zeros(len(self.keep), device=self.device)  # (V,), by word in one batch; zero between batches
        for number, (batch, drawn) in enumerate(zip(batches, negatives, strict=True)):
            rate = rates[0] + (rates[1] - rates[0]) * number / len(negatives)
            loss, pairs = self.step(batch, drawn, rate, moves, measure=number % MEASURED == 0)
            counts.append(pairs)
            if loss is not None:
                losses.append(loss)
        # Added up in float64, which not every device has.
        loss, number = torch.stack(losses).cpu().double().sum(), torch.stack(counts).cpu().double()
        return float(loss / number[::MEASURED].sum().clamp(min=1) * number.sum()), round(number.sum().item())

    def draw(self, blocks: int, generator: torch.Generator) -> torch.Tensor:
        """Negatives for each block, int64 of shape (S, N), in proportion to count^exponent, by Walker's method."""
        shape = (blocks, self.negatives)
        column = torch.randint(len(self.limits), shape, device=self.device, generator=generator)
        bits = torch.randint(2**32, shape, device=self.device, generator=generator)
        return torch.where(bits < self.limits[column], column, self.others[column])

    def step(
        self, windows: Windows, negatives: torch.Tensor, rate: float, moves: torch.Tensor, measure: bool = True
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Learns a batch of blocks; the sum of the loss before the step, if it is to be measured, and the number of
        pairs.

        The loss of a hidden vector h, a target o and its negatives n (Mikolov et al., 2013, equation 4) is -log
        σ(u_o·h) - Σ log σ(-u_n·h). In skip-gram h is the centre's vector and its targets the context; in CBOW h is the
        mean (or sum) of the context and its target the centre. The step is along the gradient but for one thing: as in
        the original program, the gradient of a mean goes to each word of the context in full, and not by its share.
        """
        centre, context, near = windows.centre, windows.context, windows.pairs()  # (B, L), (B, C), (B, L, C)
        if self.skip_gram:
            inputs, targets, positive = centre, context, near
            hidden = self.rows(self.input, inputs)  # (B, L, D)
        else:
            number = near.sum(-1, keepdim=True)  # (B, L, 1), words in each window
            share = near / number.clamp(min=1) if self.mean else near  # (B, L, C)
            inputs, targets = context, centre
            hidden = torch.bmm(share, self.rows(self.input, inputs))  # (B, L, D)
            positive = (number > 0) * torch.eye(centre.shape[1], device=self.device)  # (B, L, L)

        # A pair weighs each negative by K / N, but for those that are its own target.
        same = (targets.unsqueeze(2) == negatives.unsqueeze(1)).float()  # (B, O, N)
        of_centre = positive.sum(-1, keepdim=True)  # (B, L, 1), pairs of each word
        negative = (of_centre - torch.bmm(positive, same)).mul_(self.per_pair / self.negatives)  # (B, L, N)
        weights = torch.cat([positive, negative], dim=-1)  # (B, L, O + N)

        # Scores of negatives are turned around, so that every one counts towards log σ(score).
        outputs = torch.cat([targets, negatives], dim=-1)  # (B, O + N)
        rows = self.rows(self.output, outputs)  # (B, O + N, D)
        scores = torch.bmm(hidden, rows.transpose(1, 2))  # (B, L, O + N)
        scores.narrow(2, targets.shape[1], self.negatives).neg_()
        probability = scores.sigmoid_()
        loss = None
        if measure:
            logarithm = probability.clamp(min=torch.finfo(torch.float32).tiny).log_()
            loss = -torch.dot(logarithm.flatten(), weights.flatten())
        error = torch.addcmul(weights, weights, probability, value=-1)  # of Σ log σ by the scores: weight · (1 - σ)
        error.narrow(2, targets.shape[1], self.negatives).neg_()

        to_hidden = torch.bmm(error, rows)  # (B, L, D)
        to_rows = torch.bmm(error.transpose(1, 2), hidden)  # (B, O + N, D)
        if not self.skip_gram:
            to_hidden = torch.bmm(near.transpose(1, 2), to_hidden)  # (B, C, D)
        self.add(self.input, inputs, to_hidden, rate, moves)
        self.add(self.output, outputs, to_rows, rate, moves)
        return loss, of_centre.sum()

    @staticmethod
    def rows(table: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Rows of a table; (B, X) to (B, X, D). On a CPU several times faster than by indexing."""
        return table.index_select(0, words.reshape(-1)).view(*words.shape, -1)

    def add(
        self, table: torch.Tensor, words: torch.Tensor, change: torch.Tensor, rate: float, moves: torch.Tensor
    ) -> None:
        """Adds to the rows of words (B, X) what a batch found, (B, X, D), shortened where a row would move too far.

        `change` is overwritten. How far it would move is taken as the sum of the lengths of its changes, which is
        never less.
        """
        words = words.reshape(-1)  # (B · X,)
        change = change.reshape(len(words), -1)  # (B · X, D)
        moves.index_add_(0, words, torch.linalg.vector_norm(change, dim=-1))
        move = rate * moves.index_select(0, words)  # (B · X,), of the word over the batch
        moves.index_fill_(0, words, 0.0)
        scale = rate * self.longest_move / move.clamp(min=self.longest_move)  # (B · X,)
        table.index_add_(0, words, change.mul_(scale[:, None]))


def default_batch(device: str, num_words: int) -> int:
    """Words of a batch: many keep a GPU busy, but a short text needs enough steps.

    Args:
        device: its type.
        num_words: of the text.
    """
    if device == "cpu":
        return WORDS_PER_BATCH
    return min(WORDS_PER_LARGE_BATCH, max(WORDS_PER_BATCH, num_words // FEWEST_BATCHES))


def stretches(bounds: np.ndarray) -> np.ndarray:
    """Where stretches of a corpus begin and the last ends, from the bounds of its chunks.

    A stretch is 20 chunks: blocks are mixed over about a million words, a few megabytes.
    """
    return np.append(bounds[:-1:STRETCH], bounds[-1])
