"""Fine-tuning on the examples that few-shot prompting shows: the weights change, and the prompt has no examples.

The model stays what it is, a language model: of each example, its query is read and its right completion learnt,

    loss = Σ -log P(completion | description + query) / tokens of the completions

with the tokens that the scorer scores, in which the other choices have a say (`evaluation.few_shot.joining`), so that
what is learnt is what is measured. A step is of all examples, by AdamW without weight decay or warm-up, and
nothing is dropped out: the same examples give the same weights.

How fast and how long is settled by cross-validation among the examples themselves, without what is asked ("True
Few-Shot Learning with Language Models", Perez et al., 2021). Of up to `DRAWS` draws of as many examples each is cut
into `FOLDS` parts, and each part is held out once; the learning rate and number of steps with the lowest loss on what
is held out, over all draws, is taken for all of them. So these two numbers rest on up to `DRAWS` times the examples
that a copy learns. One example cannot be cut: it takes `DEFAULT`. Where a task draws its examples from the items that
are asked, for want of others, those few have a part in this choice of two numbers; what a copy learns never holds the
item that it is asked.

An example longer than what the model reads cannot be learnt, as it cannot be shown: `Learner.fits` says which can.
"""

import copy
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.joining import Request, Row, join, join_apart, template
from regard.evaluation.few_shot.prompts import ModelRoom, Prompt, completions_of
from regard.evaluation.few_shot.scoring import pad_of
from regard.evaluation.few_shot.task import Task
from regard.evaluation.few_shot.templates import queries_of

RATES = (1e-5, 1e-4, 1e-3)
STEPS = (1, 2, 4, 8, 16)
FOLDS = 2
DRAWS = 3  # that a schedule is settled on, at most
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True)
class Schedule:
    """How fast and how long."""

    learning_rate: float
    steps: int


DEFAULT = Schedule(1e-4, 8)


class Learner:
    """A copy of a language model that learns from examples and can be made as it was.

    Args:
        model: a causal language model or an encoder-decoder; it is not changed.
        batch_size: examples read at once; the step is that of all of them.

    Attributes:
        limit: the positions that an example may take, as a prompt may; None where there is no limit.
    """

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, task: Task, batch_size: int = 32
    ) -> None:
        self.tokenizer, self.task, self.batch_size = tokenizer, task, batch_size
        self.first = model
        self.model = copy.deepcopy(model).eval()  # without dropout, in learning too
        self.limit = ModelRoom(model, tokenizer).limit
        self._positions: dict[str, int] = {}  # that an example takes, by its id

    def fits(self, shot: Item) -> bool:
        """Whether the model reads the whole example. A table of positions fails beyond its end, and where positions
        are computed, those beyond the declared limit have never been trained."""
        if self.limit is None:
            return True
        if shot.id not in self._positions:
            ((source, row),) = self._rows([shot])
            self._positions[shot.id] = max(len(source or ()), len(row.ids) - 1)  # the last token is not read
        return self._positions[shot.id] <= self.limit

    def forget(self) -> None:
        """Makes the copy as the model is."""
        self.model.load_state_dict(self.first.state_dict())

    def learn(self, shots: Sequence[Item], schedule: Schedule) -> None:
        """Fine-tunes a fresh copy; without examples it stays as the model is."""
        if not shots:
            self.forget()
            return
        for _ in self._learning(self._rows(shots), schedule.learning_rate, schedule.steps):
            pass

    def settle(self, draws: Sequence[Sequence[Item]]) -> Schedule:
        """The schedule with the lowest loss on examples that are held out.

        Args:
            draws: sets of as many examples each, but for what does not fit; `settling` says which of them count.
        """
        losses: dict[Schedule, float] = defaultdict(float)
        for shots in settling(draws):
            rows = self._rows(shots)
            for learnt, held in folds(rows):
                for rate in RATES:
                    for step in self._learning(learnt, rate, max(STEPS)):
                        if step in STEPS:
                            losses[Schedule(rate, step)] += self._loss(held)
        if not losses:
            return DEFAULT
        return min(losses, key=lambda one: losses[one] if math.isfinite(losses[one]) else math.inf)

    def _learning(self, rows: Sequence[tuple[Any, Row]], rate: float, steps: int) -> Iterator[int]:
        """Learns anew, and gives the number of steps after each."""
        self.forget()
        weights = [weight for weight in self.model.parameters() if weight.requires_grad]
        optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0.0, fused=True)
        targets = sum(row.scored for _, row in rows)
        for step in range(1, steps + 1):
            for start in range(0, len(rows), self.batch_size):
                (self._sum(rows[start : start + self.batch_size]) / targets).backward()
            torch.nn.utils.clip_grad_norm_(weights, MAX_GRAD_NORM)
            optimizer.step()
            optimizer.zero_grad()
            yield step

    @torch.no_grad()
    def _loss(self, rows: Sequence[tuple[Any, Row]]) -> float:
        """The mean over the targets."""
        parts = (self._sum(rows[start : start + self.batch_size]) for start in range(0, len(rows), self.batch_size))
        return float(sum(parts)) / sum(row.scored for _, row in rows)

    def _sum(self, rows: Sequence[tuple[Any, Row]]) -> torch.Tensor:
        """Σ -log P of the scored tokens: a float32 scalar. B rows of T positions, padded on the right."""
        device, pad = self.model.device, pad_of(self.tokenizer)
        ids, mask = _padded([row.ids[:-1] for _, row in rows], pad, device)  # (B, T)
        labels = torch.full_like(ids, -100)
        for line, (_, row) in zip(labels, rows, strict=True):
            line[row.start - 1 : len(row.ids) - 1] = torch.tensor(row.ids[row.start :], device=device)
        if self.model.config.is_encoder_decoder:
            read, read_mask = _padded([source for source, _ in rows], pad, device)
            given = {"input_ids": read, "attention_mask": read_mask, "decoder_input_ids": ids}
        else:
            given = {"input_ids": ids, "attention_mask": mask}
        logits = self.model(**given, use_cache=False).logits.float()  # (B, T, V)
        return cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")

    def _rows(self, shots: Sequence[Item]) -> list[tuple[Any, Row]]:
        """What is read of each example, and what is learnt; an encoder-decoder reads its prompt apart."""
        requests: list[Request] = []
        right: list[int] = []
        for shot in shots:
            several, place = self._requests(shot)
            right.append(len(requests) + place)
            requests += several
        if not self.model.config.is_encoder_decoder:
            rows = join(self.model, self.tokenizer, requests)
            return [(None, rows[place]) for place in right]
        requests = [requests[place] for place in right]
        sources, rows = join_apart(self.model, self.tokenizer, requests)
        if self.task.writes:  # it has to learn where to end, too
            texts = [request.choice.strip() for request in requests]
            bare = [list(row.ids[row.start :]) for row in rows]
            end = template(self.tokenizer, texts, bare, side="text_target")[1]
            rows = [Row((*row.ids, *end), row.start) for row in rows]
        return list(zip(sources, rows, strict=True))

    def _requests(self, shot: Item) -> tuple[list[Request], int]:
        """The prompt of an example without shots with each completion, as the scorer asks them, and the place of the
        right one; of a text that is written the right one alone, with its end."""
        task, queries = self.task, queries_of(self.task, shot)
        if not task.writes:
            prompt = Prompt(task.description, queries, completions_of(task, shot), ())
            return [Request(*pair) for pair in prompt.pairs()], shot.answer
        end = "" if self.model.config.is_encoder_decoder else (task.generation.stop or [""])[0]
        return [Request(task.description + queries[0], task.join + shot.references[0] + end)], 0


def settling(draws: Sequence[Sequence[Item]]) -> list[Sequence[Item]]:
    """The draws that a schedule is settled on: none of single examples, which cannot be cut."""
    return [shots for shots in draws if len(shots) >= FOLDS][:DRAWS]


def folds(rows: Sequence[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    """What is learnt and what is held out, each once, in `FOLDS` parts, of at least as many rows; neighbours stay
    together, since examples that are drawn label by label would else leave a label out."""
    for part in range(FOLDS):
        start, end = (round(len(rows) * edge / FOLDS) for edge in (part, part + 1))
        yield [*rows[:start], *rows[end:]], list(rows[start:end])


def _padded(rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask, int64 (B, T) each."""
    width = max(map(len, rows))
    ids = torch.tensor([[*row, *[pad] * (width - len(row))] for row in rows], device=device)
    mask = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows], device=device)
    return ids, mask
