"""What a run says of new texts: a label for each, a tag for each word, or the answer to a question.

    predict_file(run, path)   rows of a file, each with what is predicted

Texts are cut and encoded as the run's own data was. The batch size is a matter of speed: pads are masked.

Axes: B rows, T tokens, K labels.
"""

import json
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import hf_hub_download
from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.generation import load_run, position_limit
from regard.evaluation.guesses import kind_of
from regard.evaluation.question_answering import answer
from regard.evaluation.readers import SUFFIXES, columns_of, read_lines, read_rows
from regard.train.callbacks import quiet_libraries
from regard.train.collators import ClassificationCollator
from regard.train.data import pick, row_items
from regard.train.preprocessing import encode_texts
from regard.train.recipe import RUN_RECIPE, load_recipe
from regard.train.tagging import encode_tagged

logger = logging.getLogger(__name__)

BATCH_SIZE = 32
DIGITS = 6  # of a probability or margin; those after them depend on how the rows were put into batches
ROLES = {"label": ("text", "text_pair"), "tag": ("tokens",), "answer": ("question", "context")}  # by kind of model
TABLE_NEEDED = {"text_pair": "labels pairs of texts", "context": "answers questions from contexts"}
HEADED = (".csv", ".tsv", ".parquet")  # tables that name their columns also where they have no rows
NO_ANSWER = {"answer": "", "start": None, "end": None, "margin": None}  # to a question that is empty


def predict_file(
    run: str | os.PathLike[str], path: str | os.PathLike[str], batch_size: int = BATCH_SIZE
) -> list[dict[str, Any]]:
    """Labels the rows of a file, or answers the questions in them.

    Args:
        run: a run's folder, or a Hub id, of a model that labels texts or words, or answers questions.
        path: a .txt file with a text a line (of a tagger, its words with white space between), or a .tsv, .csv,
            .jsonl, .json or .parquet file with the columns of the run's data; further ones are passed over.
        batch_size: rows at once.

    Returns:
        As `predict_texts`, `predict_tags` or `predict_answers` gives them, in the file's order.

    Raises:
        ValueError: the model does none of these, or the file is of another kind, or lacks a column.
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"'{path}' is not a file of a kind that is read, which are {', '.join(SUFFIXES)}.")
    if not path.is_file():
        raise ValueError(f"There is no file '{path}'.")
    with quiet_libraries():
        model, tokenizer = load_run(run)
    kind = _kind(model)
    columns, limit = _as_trained(run, model, tokenizer)
    rows = _read(path, ROLES[kind], columns)
    if not rows:
        logger.warning("'%s' holds no %s: nothing is predicted.", path, "questions" if kind == "answer" else "texts")
    if kind == "tag":
        return predict_tags(model, tokenizer, [row["tokens"] for row in rows], limit, batch_size)
    if kind == "answer":
        questions, contexts = ([row[role] for row in rows] for role in ROLES[kind])
        return predict_answers(model, tokenizer, questions, contexts, batch_size)
    pairs = [row.get("text_pair") for row in rows]
    return predict_texts(
        model, tokenizer, [row["text"] for row in rows], None if None in pairs else pairs, limit, batch_size
    )


def _kind(model: PreTrainedModel) -> str:
    kind = kind_of(model)
    if kind not in ROLES:
        raise ValueError(f"A {type(model).__name__} labels neither texts nor words, and answers no questions.")
    if getattr(model.config, "problem_type", None) in ("regression", "multi_label_classification"):
        raise ValueError(f"The model's problem_type is {model.config.problem_type}: it does not give one label.")
    if kind == "label" and model.config.num_labels < 2:
        raise ValueError("The model has one label alone: what it gives is a number, and no label.")
    return kind


def _as_trained(
    run: str | os.PathLike[str], model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> tuple[Mapping[str, str] | None, int]:
    """The columns of the run's data, None where no recipe tells, and how many tokens are read of a text."""
    path: Path | str = Path(run) / RUN_RECIPE
    if not Path(run).is_dir():
        try:
            path = hf_hub_download(str(run), RUN_RECIPE)
        except EntryNotFoundError as error:  # of a model that is none of ours
            longest = _longest(model, tokenizer)
            if isinstance(error, LocalEntryNotFoundError):
                logger.warning(
                    "The Hub cannot be asked for the %s of %s: columns are read by the names of their roles, and "
                    "texts up to %d tokens.",
                    RUN_RECIPE,
                    run,
                    longest,
                )
            return None, longest
    if not Path(path).is_file():
        return None, _longest(model, tokenizer)
    data = load_recipe(path).data
    return data.columns, data.max_length


def _longest(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int:
    return min(limit for limit in (tokenizer.model_max_length, position_limit(model)) if limit)


def _read(path: Path, roles: Sequence[str], columns: Mapping[str, str] | None) -> list[dict[str, Any]]:
    """The rows with their columns named by role. A second text is read where the run's data had one, and where no
    recipe tells, where the file has one."""
    if path.suffix.lower() == ".txt":
        first = roles[0]
        for role, does in TABLE_NEEDED.items():
            if role in (roles if role != "text_pair" else columns or ()):
                names = " and ".join(f"'{(columns or {}).get(one, one)}'" for one in roles)
                raise ValueError(
                    f"The run {does}, which '{path}' has no columns for: give a table (.tsv, .csv, .jsonl, .json or "
                    f".parquet) with the columns {names}."
                )
        return [{first: line.split() if first == "tokens" else line} for line in read_lines(path)]
    if path.suffix.lower() in HEADED:
        present = columns_of(path)
    else:
        beginning = next(read_rows(path), None)
        if beginning is None:
            return []
        present = list(beginning[1])
    paired = "text_pair" in (present if columns is None else columns)
    wanted = {role: (columns or {}).get(role, role) for role in roles if role != "text_pair" or paired}
    there = {*present, *(column for column in wanted.values() if column.partition(".")[0] in present)}
    if missing := [column for column in wanted.values() if column not in there]:
        names = ", ".join(f"'{name}'" for name in present)
        raise ValueError(f"'{path}' has no column '{missing[0]}', which the run reads: its columns are {names}.")
    rows = []
    for place, row in read_rows(path):
        found: dict[str, Any] = {}
        for role, column in wanted.items():
            value = pick(row, column, place)
            if role == "tokens":
                value = row_items(value, column, place)
            words = value if role == "tokens" else [value]
            if wrong := [word for word in words if not isinstance(word, str)]:
                right = "each word must be a text" if role == "tokens" else "a text is wanted, which may be empty"
                raise ValueError(f"{place}: column '{column}' holds {_shown(wrong[0])} where {right}.")
            found[role] = value
        rows.append(found)
    return rows


def _shown(value: Any) -> str:
    """A value that is no text, as JSON writes it."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds = {int: "the number", float: "the number", list: "the list", dict: "the object"}
    if type(value) not in kinds:  # of a Parquet file
        return f"a {type(value).__name__}"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"{kinds[type(value)]} {text if len(text) <= 40 else text[:40] + '...'}"


def predict_texts(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    texts: Sequence[str],
    pairs: Sequence[str] | None = None,
    max_length: int = 512,
    batch_size: int = BATCH_SIZE,
) -> list[dict[str, Any]]:
    """The likeliest label of each text, or pair of texts.

    Returns:
        For each `text`, with its `text_pair`, the `label`, its `probability`, and the `probabilities` of all labels;
        of a text without tokens no label.
    """
    batch = {"text": list(texts), "label": [0] * len(texts)} | ({} if pairs is None else {"text_pair": list(pairs)})
    encoded = encode_texts(batch, tokenizer, max_length) if texts else {}
    _say_cut(encoded, max_length, "texts" if pairs is None else "pairs of texts")
    names = [model.config.id2label[i] for i in range(model.config.num_labels)]
    results: list[dict[str, Any]] = []
    for i, text in enumerate(texts):
        nothing = {"label": None, "probability": None, "probabilities": {}}
        results.append({"text": text, **({} if pairs is None else {"text_pair": pairs[i]}), **nothing})
    for i, logits in _logits(model, tokenizer, encoded, batch_size):  # (K,)
        chances = [round(chance, DIGITS) for chance in logits.softmax(-1).tolist()]
        best = int(logits.argmax())
        results[i] |= {"label": names[best], "probability": chances[best]}
        results[i]["probabilities"] = dict(zip(names, chances, strict=True))
    return results


def predict_tags(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    sentences: Sequence[Sequence[str]],
    max_length: int = 512,
    batch_size: int = BATCH_SIZE,
) -> list[dict[str, Any]]:
    """The likeliest tag of each word, that of its first piece.

    Returns:
        For each sentence its `tokens`, their `tags` and the `probabilities` of these; None for a word that no piece
        stands for, since the sentence was cut before it or it holds nothing that the tokenizer keeps.
    """
    batch = {"tokens": [list(words) for words in sentences], "tags": [[0] * len(words) for words in sentences]}
    encoded = encode_tagged(batch, tokenizer, max_length) if sentences else {}
    _say_cut(encoded, max_length, "texts", ": words after that have the tag null")
    results = [
        {"tokens": list(words), "tags": [None] * len(words), "probabilities": [None] * len(words)}
        for words in sentences
    ]
    for i, logits in _logits(model, tokenizer, encoded, batch_size):  # (T, K)
        chances, best = logits.softmax(-1).max(-1)
        first = [place for place, label in enumerate(encoded["labels"][i]) if label == 0]
        for word, place in zip(encoded["kept"][i], first, strict=True):
            results[i]["tags"][word] = model.config.id2label[int(best[place])]
            results[i]["probabilities"][word] = round(float(chances[place]), DIGITS)
    return results


def predict_answers(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    questions: Sequence[str],
    contexts: Sequence[str],
    batch_size: int = BATCH_SIZE,
) -> list[dict[str, Any]]:
    """The answer to each question, cut out of its context, as `regard.evaluation.question_answering.answer` finds it.

    Returns:
        For each question with its `context`, the `answer`, empty for none; `start` and `end`, its place in the
        context; and `margin`, by how much it is better than none, None for a context or a question without text.
    """
    pairs = list(zip(questions, contexts, strict=True))
    rows = [{"question": question, "context": context, **NO_ANSWER} for question, context in pairs]
    ids = tokenizer(list(questions), add_special_tokens=False, verbose=False)["input_ids"] if rows else []
    asked = [i for i, question in enumerate(questions) if question.strip() and ids[i]]
    said = answer(model, tokenizer, [questions[i] for i in asked], [contexts[i] for i in asked], batch_size=batch_size)
    for i, one in zip(asked, said, strict=True):
        margin = one["margin"]
        rows[i] |= one | {"margin": None if margin is None else round(margin, DIGITS)}
    return rows


def _say_cut(encoded: Mapping[str, list], max_length: int, what: str, then: str = "") -> None:
    lengths = encoded.get("length", [])  # before the cut
    if cut := sum(length > max_length for length in lengths):
        logger.warning(
            "%d of %d %s are longer than %d tokens and were cut there%s.", cut, len(lengths), what, max_length, then
        )


def _logits(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, encoded: Mapping[str, list], batch_size: int
) -> Iterator[tuple[int, torch.Tensor]]:
    """Of each row with tokens its number and what the model says of it, float32, without pads."""
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1.")
    names = ("input_ids", "attention_mask", "token_type_ids")
    rows = [i for i, ids in enumerate(encoded.get("input_ids", [])) if ids]
    rows.sort(key=lambda i: -len(encoded["input_ids"][i]))  # of like length together
    collate = ClassificationCollator(tokenizer.pad_token_id or 0)
    model.eval()
    for start in range(0, len(rows), batch_size):
        chosen = rows[start : start + batch_size]
        features = [{name: encoded[name][i] for name in names if name in encoded} for i in chosen]
        batch = {name: value.to(model.device) for name, value in collate(features).items()}
        with torch.no_grad():
            logits = model(**batch).logits.float().cpu()
        for i, one in zip(chosen, logits, strict=True):
            yield i, one[: len(encoded["input_ids"][i])] if one.dim() == 2 else one
