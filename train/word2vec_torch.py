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

Axes: B blocks in a batch, L words in a block, C context places of a block (L + 2 windows), O targets (C, or L in CBOW)
and N negatives, D width, V words, T words of a stretch that are kept, S blocks of a stretch.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from regard.train.vocabulary import keep_probabilities

BLOCK = 32  # L: words of a block
NEGATIVES = 32  # N: drawn for a block
WORDS_PER_BATCH, WORDS_PER_LARGE_BATCH = 1024, 8192  # B x L; the larger elsewhere than on a CPU
LONGEST_MOVE = 1.0  # of a row in a batch; trained rows are 2 to 4 long
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

    def pairs(self, blocks: torch.Tensor) -> torch.Tensor:
        """float32 of shape (B, L, C): 1 where a word of the context is in the window of a centre, else 0."""
        centre, context = (t.index_select(0, blocks) for t in (self.centre_sentence, self.context_sentence))
        same = centre[:, :, None] == context[:, None, :]  # (B, L, C)
        near = self.distance <= self.reach.index_select(0, blocks)[:, :, None]  # (B, L, C)
        return same.logical_and_(near).float()


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
        model: in float32, with negative sampling.
        seed: of all that is drawn; with one thread on a CPU, the same seed gives the same model.
        words_per_batch: B x L, words; by default 1,024 on a CPU and 8,192 elsewhere.
        negatives: N, drawn for each block.
        longest_move: of a row in a batch.

    Raises:
        ValueError: for another objective or precision, or a number below 1.
    """

    def __init__(
        self,
        model: Any,
        seed: int,
        words_per_batch: int | None = None,
        negatives: int = NEGATIVES,
        longest_move: float = LONGEST_MOVE,
    ) -> None:
        config, weight = model.config, model.in_embeddings.weight
        if config.objective != "negative-sampling":
            raise ValueError(
                f"engine='torch' learns by negative sampling alone, not by objective={config.objective!r}."
            )
        if weight.dtype != torch.float32:
            raise ValueError(f"The model is in {weight.dtype}, and is trained in torch.float32: load it so.")
        self.device = weight.device
        if words_per_batch is None:
            words_per_batch = WORDS_PER_BATCH if self.device.type == "cpu" else WORDS_PER_LARGE_BATCH
        for name, value in {"words_per_batch": words_per_batch, "negatives": negatives}.items():
            if value < 1:
                raise ValueError(f"{name}={value} must be at least 1.")
        if not longest_move > 0:
            raise ValueError(f"longest_move={longest_move} must be above 0.")
        self.seed, self.negatives, self.longest_move = seed, negatives, longest_move
        self.blocks = max(1, words_per_batch // BLOCK)
        self.skip_gram, self.mean, self.window = config.architecture == "skip-gram", config.cbow_mean, config.window
        self.per_pair = config.num_negatives
        self.input, self.output = weight.data, model.out_embeddings.weight.data  # (V, D) each
        keep = keep_probabilities(model.counts.cpu().numpy(), config.subsample)
        self.keep = torch.from_numpy(keep).to(self.device, torch.float32)  # (V,)
        self.noise = model.noise_weights().cumsum(0).to(self.device)  # (V,), whole numbers: exact on every device
        self.noise_total = int(self.noise[-1])
        self.moves = torch.zeros(len(keep), device=self.device)  # (V,), by word in one batch; zero between batches

    def __enter__(self) -> "BatchedTables":
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def give_back(self) -> None:
        """Nothing to do: the model's own tables are learnt."""

    @torch.no_grad()
    def learn(self, tokens: np.ndarray, rates: tuple[float, float], step: int) -> tuple[float, int]:
        """Sum of the loss and number of pairs of a stretch of text, which is learnt.

        Args:
            tokens: int32, words, and -1 at the end of a sentence.
            rates: the learning rate at the beginning and at the end of the stretch.
            step: its number, from which, with the seed, all that is drawn follows.
        """
        from regard.train.word2vec import step_seed

        generator = torch.Generator(self.device).manual_seed(step_seed(self.seed, step) >> 1)  # 63 bits
        text = torch.from_numpy(np.array(tokens)).to(self.device).long()
        windows = make_windows(text, self.keep, self.window, generator)
        order = torch.randperm(len(windows.centre), device=self.device, generator=generator)
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        pairs = torch.zeros((), dtype=torch.float64, device=self.device)
        for start in range(0, len(order), self.blocks):
            blocks = order[start : start + self.blocks]
            rate = rates[0] + (rates[1] - rates[0]) * start / len(order)
            negatives = self.draw(len(blocks), generator)
            batch_loss, batch_pairs = self.step(windows, blocks, negatives, rate)
            loss += batch_loss
            pairs += batch_pairs
        return loss.item(), round(pairs.item())

    def draw(self, blocks: int, generator: torch.Generator) -> torch.Tensor:
        """Negatives for each block, int64 of shape (B, N), in proportion to count^exponent."""
        shape = (blocks, self.negatives)
        numbers = torch.randint(self.noise_total, shape, device=self.device, generator=generator)
        return torch.searchsorted(self.noise, numbers, right=True)

    def step(
        self, windows: Windows, blocks: torch.Tensor, negatives: torch.Tensor, rate: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Learns a batch of blocks; the sum of the loss and the number of pairs, before the step.

        The loss of a hidden vector h, a target o and its negatives n (Mikolov et al., 2013, equation 4) is -log
        σ(u_o·h) - Σ log σ(-u_n·h). In skip-gram h is the centre's vector and its targets the context; in CBOW h is the
        mean (or sum) of the context and its target the centre.
        """
        centre, context = (t.index_select(0, blocks) for t in (windows.centre, windows.context))  # (B, L), (B, C)
        near = windows.pairs(blocks)  # (B, L, C)
        if self.skip_gram:
            inputs, targets, positive, share = centre, context, near, None
            hidden = self.rows(self.input, inputs)  # (B, L, D)
        else:
            number = near.sum(-1, keepdim=True)  # (B, L, 1), words in each window
            share = near / number.clamp(min=1) if self.mean else near  # (B, L, C)
            inputs, targets = context, centre
            hidden = share @ self.rows(self.input, inputs)  # (B, L, D)
            positive = (number > 0) * torch.eye(BLOCK, device=self.device)  # (B, L, L)

        # A pair weighs each negative by K / N, but for those that are its own target.
        same = (targets[:, :, None] == negatives[:, None, :]).float()  # (B, O, N)
        negative = (positive.sum(-1, keepdim=True) - positive @ same) * (self.per_pair / self.negatives)  # (B, L, N)
        weights = torch.cat([positive, negative], dim=-1)  # (B, L, O + N)

        # Rows of negatives are turned around, so that every score counts towards log σ(score).
        outputs = torch.cat([targets, negatives], dim=-1)  # (B, O + N)
        rows = self.rows(self.output, outputs)  # (B, O + N, D)
        rows[:, targets.shape[1] :].neg_()
        probability = (hidden @ rows.transpose(1, 2)).sigmoid_()  # (B, L, O + N)
        logarithm = probability.clamp(min=torch.finfo(torch.float32).tiny).log_()
        loss = -torch.dot(logarithm.flatten(), weights.flatten())
        error = (1 - probability).mul_(weights)  # the gradient of Σ log σ by the scores

        to_hidden = error @ rows  # (B, L, D)
        to_rows = error.transpose(1, 2) @ hidden  # (B, O + N, D)
        to_rows[:, targets.shape[1] :].neg_()
        if share is not None:
            to_hidden = share.transpose(1, 2) @ to_hidden  # (B, C, D)
        self.add(self.input, inputs, to_hidden, rate)
        self.add(self.output, outputs, to_rows, rate)
        return loss, positive.sum()

    @staticmethod
    def rows(table: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        """Rows of a table; (B, X) to (B, X, D). On a CPU several times faster than by indexing."""
        return table.index_select(0, words.reshape(-1)).view(*words.shape, -1)

    def add(self, table: torch.Tensor, words: torch.Tensor, change: torch.Tensor, rate: float) -> None:
        """Adds to the rows of words (B, X) what a batch found, (B, X, D), shortened where a row would move too far.

        `change` is overwritten. How far it would move is taken as the sum of the lengths of its changes, which is
        never less.
        """
        words = words.reshape(-1)  # (B · X,)
        change = change.reshape(len(words), -1)  # (B · X, D)
        self.moves.index_add_(0, words, torch.linalg.vector_norm(change, dim=-1))
        move = rate * self.moves.index_select(0, words)  # (B · X,), of the word over the batch
        self.moves.index_fill_(0, words, 0.0)
        scale = rate * self.longest_move / move.clamp(min=self.longest_move)  # (B · X,)
        table.index_add_(0, words, change.mul_(scale[:, None]))


def stretches(bounds: np.ndarray) -> np.ndarray:
    """Where stretches of a corpus begin and the last ends, from the bounds of its chunks.

    A stretch is 20 chunks: blocks are mixed over about a million words, a few megabytes.
    """
    return np.append(bounds[:-1:STRETCH], bounds[-1])
