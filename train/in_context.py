"""Sequences of in-context tasks as training data: examples under a hidden rule, made when they are needed.

A row of training is a number and nothing else. What stands in it is a function of (seed, epoch, row), drawn by the
collator, so that every epoch brings new rules and examples, and a run that is resumed, or has other workers or more
processes, meets those that it would have met. Rows of evaluation are written out once, under rules that no training
row has (`regard.evaluation.in_context.rules`).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import torch
from datasets import Dataset, Features, Value
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.in_context.mappings import WORDS
from regard.evaluation.in_context.rules import chance_of
from regard.evaluation.in_context.tasks import ARROW, CHARACTERS, END, IN_CONTEXT_TASKS, Example, draw_examples
from regard.train.collators import CausalLMCollator, EpochCollator, flat
from regard.train.collators import Features as Rows
from regard.train.encoding import IDS
from regard.train.masking import IGNORED
from regard.train.sections import DataSection, Recipe
from regard.train.split_reports import SplitReport, list_targets

SAMPLE_EXAMPLES = 5  # of a sample on the card, the question among them
EVALUATION_SEED = 0  # of rows of evaluation, whatever the seed of the training
MEASURED_ROWS = 2000  # of the training split, which is as long as one likes


def in_context_rows(data: DataSection, only: Collection[str] | None = None) -> dict[str, Dataset]:
    """The splits that a recipe names, each so many rows with their numbers, `row`."""
    numbers = {"train": data.train, "validation": data.validation, "test": data.test}
    names = data.split_names() if only is None else only
    return {name: Dataset.from_dict({"row": np.arange(int(numbers[name]))}) for name in names}


@dataclass(frozen=True)
class SequenceEncoder:
    """Writes a sequence of examples as ids.

    Attributes:
        ids: of each character.
        start: the id that a sequence begins with, if any.
        length: of a row, in ids.
        tasks: the weight of each task by its name.
    """

    ids: Mapping[str, int]
    start: int | None
    length: int
    tasks: Mapping[str, float]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, data: DataSection) -> "SequenceEncoder":
        """Raises ValueError where the tokenizer does not read every character as a token of its own, wherever it
        stands: prompts are read by the tokenizer, rows of training are written character by character."""
        ids = {}
        for character in CHARACTERS:
            encoded = tokenizer.encode(character, add_special_tokens=False)
            if len(encoded) != 1 or encoded[0] == tokenizer.unk_token_id:
                raise ValueError(
                    f"tokenizer: {character!r} is no token of it, and the task in-context reads one token a character."
                )
            ids[character] = encoded[0]
        texts = ["".join(pair) for pair in product(CHARACTERS, repeat=2)]  # any merge of pieces begins with one of two
        texts += " ".join(WORDS.values()).split()
        for text, read in zip(texts, tokenizer(texts, add_special_tokens=False)["input_ids"], strict=True):
            if read != [ids[character] for character in text]:
                raise ValueError(
                    f"tokenizer: it reads {text!r} as other tokens than its characters, and the task in-context reads "
                    "one token a character."
                )
        return cls(ids, tokenizer.bos_token_id, data.block_size, data.tasks or dict.fromkeys(IN_CONTEXT_TASKS, 1.0))

    def training_row(self, seed: int, epoch: int, row: int, learn_all: bool) -> dict[str, list[int]]:
        """A row of training: a task drawn by its weight, and examples to fill the row."""
        [name] = chance_of("task", seed, epoch, row).choices(list(self.tasks), list(self.tasks.values()))
        examples = draw_examples(name, "train", seed, f"{epoch}.{row}", characters=self.length)
        return self.encode(examples, learn_all)

    def evaluation_row(self, rules: str, row: int) -> dict[str, Any]:
        """A row of evaluation, of whole examples; the tasks take turns. It ends where a task has no other inputs,
        since one that comes again has been answered before."""
        name = list(self.tasks)[row % len(self.tasks)]
        examples, seen, left = [], set(), self.length - (self.start is not None)
        for example in draw_examples(name, rules, EVALUATION_SEED, row, characters=self.length):
            if (left := left - len(example.text)) < 0 or example.input in seen:
                break
            examples.append(example)
            seen.add(example.input)
        return self.encode(examples, learn_all=False) | {"task": name}

    def encode(self, examples: list[Example], learn_all: bool) -> dict[str, list[int]]:
        """`input_ids`, and `labels` that count at outputs and the ends of their lines, or everywhere; both cut."""
        ids = [] if self.start is None else [self.start]
        labels = [IGNORED] * len(ids)
        for example in examples:
            asked, answer = ([self.ids[c] for c in text] for text in (example.input + ARROW, example.output + END))
            ids += asked + answer
            labels += (asked if learn_all else [IGNORED] * len(asked)) + answer
        return {"input_ids": ids[: self.length], "labels": labels[: self.length]}


def prepare_in_context(dataset: Any, name: str, recipe: Recipe, tokenizer: Any) -> tuple[Dataset, SplitReport]:
    """A split as a model sees it: of training the numbers of the rows alone."""
    if name == "train":
        return dataset, SplitReport(rows=len(dataset), examples=len(dataset))
    encoder, rules = SequenceEncoder.of(tokenizer, recipe.data), name.rpartition(":")[2]  # of "evaluated:train"
    numbers = dataset["row"][:MEASURED_ROWS] if rules == "train" else dataset["row"]
    rows = [encoder.evaluation_row(rules, row) for row in numbers]
    prepared = Dataset.from_list(rows, features=Features({"input_ids": IDS, "labels": IDS, "task": Value("string")}))
    return prepared, SplitReport(
        rows=len(rows),
        examples=len(rows),
        tokens=sum(len(row["input_ids"]) for row in rows),
        targets=int(list_targets(prepared).sum()),
    )


class InContextCollator(EpochCollator, CausalLMCollator):
    """A `CausalLMCollator` of rows that are numbers, written out here; rows of evaluation come as they are."""

    def __init__(self, pad_token_id: int, encoder: SequenceEncoder, seed: int, learn_all: bool) -> None:
        EpochCollator.__init__(self)
        CausalLMCollator.__init__(self, pad_token_id)
        self.encoder, self.seed, self.learn_all = encoder, seed, learn_all

    def __call__(self, features: Rows) -> dict[str, Tensor]:
        epoch = self.epoch
        return super().__call__(
            [one if "input_ids" in one else self.write(one["row"], epoch) for one in flat(features)]
        )

    def write(self, row: int, epoch: int) -> dict[str, list[int]]:
        return self.encoder.training_row(self.seed, epoch, row, self.learn_all)


def sampled_rows(rows: int, tasks: int, number: int) -> list[int]:
    """At most `number` rows at about even distances, of one task after another: rows of tasks take turns."""
    number = min(number, rows)
    starts = [i * rows // number // tasks * tasks for i in range(number)]
    return list(dict.fromkeys(min(start + i % tasks, rows - 1) for i, start in enumerate(starts)))


def sample_of(tokenizer: PreTrainedTokenizerBase, row: Mapping[str, Any]) -> tuple[str, str]:
    """A prompt with the first four examples of a row of evaluation, or as many as it has, and the answer."""
    text = tokenizer.decode(row["input_ids"], skip_special_tokens=True)
    *shots, asked = text.split(END)[:-1][:SAMPLE_EXAMPLES]
    question, answer = asked.split(ARROW)
    return "".join(shot + END for shot in shots) + question + ARROW, answer


def answer_to(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, prompt: str, max_new_tokens: int) -> str:
    """What the model writes after a prompt, greedily, up to the end of the line or so many tokens."""
    inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
    ends = [*tokenizer.encode(END, add_special_tokens=False), tokenizer.eos_token_id]
    settings = {"max_new_tokens": max_new_tokens, "do_sample": False, "num_beams": 1}
    with torch.no_grad():
        written = model.generate(**inputs, **settings, eos_token_id=[one for one in ends if one is not None])[
            0, inputs["input_ids"].shape[1] :
        ]
    return tokenizer.decode(written, skip_special_tokens=True).partition(END)[0]
