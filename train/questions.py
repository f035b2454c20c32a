"""Questions with their contexts, laid out: windows with the positions of the answer; and what answers are worth."""

from pathlib import Path
from typing import Any

import numpy as np
from datasets import IterableDataset
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.question_answering import (
    SETTINGS,
    Spans,
    answer_positions,
    answer_settings,
    choose_threshold,
    cut_windows,
    read_windows,
)
from regard.evaluation.squad import score_answer
from regard.train.masking import IGNORED
from regard.train.records import read_json, write_json
from regard.train.sections import Recipe

STREAMED_ROWS = 10_000  # of a stream, among which a question without an answer is sought


def encode_questions(
    batch: dict[str, list], tokenizer: PreTrainedTokenizerBase, max_length: int, doc_stride: int, training: bool
) -> dict[str, list]:
    """The windows of each question, with the positions of the first and the last token of its first right answer.

    A window without the whole answer points at its first token. Where the answer has no token, nothing can be learnt,
    and the positions are -100. `opens` tells the first window of a question, `cut` and `lost` whether the question was
    cut and its answer has no token.

    Args:
        batch: `question`, `context`, and lists of `answer` and `answer_start`; where `training` is false, also `item`.
    """
    columns: dict[str, list] = {}
    cut = cut_windows(tokenizer, batch["question"], batch["context"], max_length, doc_stride)
    for row, windows in enumerate(cut):
        texts, starts = batch["answer"][row], batch["answer_start"][row]
        span = (starts[0], starts[0] + len(texts[0])) if texts else None
        for number, (window, found) in enumerate(zip(windows, answer_positions(windows, span), strict=True)):
            start, end = (IGNORED, IGNORED) if found is None else found
            values = {name: value for name, value in window.items() if name in ("input_ids", "token_type_ids", "cut")}
            values |= {"start_positions": start, "end_positions": end, "lost": found is None, "opens": number == 0}
            if not training:
                values |= {name: window[name] for name in ("first", "starts", "ends")}
                values |= {name: batch[name][row] for name in ("item", "question", "context", "answer")}
            for name, value in values.items():
                columns.setdefault(name, []).append(value)
    return columns


def questions_of(dataset: Any) -> Any:
    """The questions of a split that was laid out for evaluation, each once: a row for each, with `question`, `context`
    and `answer`."""
    _, first = np.unique(np.asarray(dataset["item"][:]), return_index=True)
    return dataset.select_columns(["question", "context", "answer"]).select(first)


def read_questions(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, recipe: Recipe, dataset: Any
) -> tuple[Spans, float | None]:
    """The best span of each question of a split, and the threshold above which there is no answer."""
    windows = dataset.remove_columns(["question", "context", "answer"])
    spans = read_windows(
        model,
        windows,
        np.asarray(dataset["item"][:]),
        pad_token_id=tokenizer.pad_token_id,
        batch_size=recipe.evaluation.batch_size,
        max_answer_length=recipe.evaluation.max_answer_length,
    )
    return spans, answer_settings(model, tokenizer)["null_threshold"]


def recipe_settings(recipe: Recipe) -> dict[str, Any]:
    """What a run's config says of how it is evaluated, but for the threshold, which is found after training."""
    data = recipe.data
    lengths = {"max_length": data.max_length, "doc_stride": data.doc_stride}
    return lengths | {"max_answer_length": recipe.evaluation.max_answer_length, "null_threshold": None}


def settle_threshold(
    run: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    recipe: Recipe,
    train: Any,
    validation: Any | None,
) -> None:
    """Finds the threshold above which a trained model gives no answer, and writes it into its config, here and in the
    run's folder.

    It is the one with the highest F1 on the validation split where that has questions without an answer, else 0 where
    the training split has some, else None: the model then always answers.

    Args:
        train: the training split, with columns named by role.
        validation: the validation split, laid out for evaluation; None where there is none.
    """
    rows = None if validation is None else questions_of(validation)
    answers = [] if rows is None else rows["answer"][:]
    threshold = None
    if not all(answers):
        spans, _ = read_questions(model, tokenizer, recipe, validation)
        pairs = zip(spans.texts(rows["context"][:], None), answers, strict=True)
        threshold = choose_threshold(spans, [score_answer(text, right)[1] if right else -1.0 for text, right in pairs])
    else:
        some = train.take(STREAMED_ROWS) if isinstance(train, IterableDataset) else train
        if not all(row["answer"] for row in some.select_columns(["answer"])):
            threshold = 0.0
    settings = answer_settings(model, tokenizer) | {"null_threshold": threshold}
    setattr(model.config, SETTINGS, settings)
    write_json(run / "config.json", read_json(run / "config.json") | {SETTINGS: settings})
