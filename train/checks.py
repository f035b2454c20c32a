"""The checks of a recipe: each refuses what cannot work with one sentence that names the key and what would be right.

The classes that know the keys of `model` and `training` are imported when a recipe is checked, so that importing this
module costs nothing.
"""

import dataclasses
import logging
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from regard.evaluation.naming import either, nearest
from regard.train.sections import (
    BUILTIN_DATA,
    CONFIG_CLASSES,
    DENOISING,
    EMBEDDING_KEYS,
    FINE_TUNING_KEYS,
    HOLD_OUT,
    IN_CONTEXT,
    LEARN_FROM,
    NUM_SPECIAL_TOKENS,
    PACKINGS,
    QUESTION_ANSWERING,
    REGRESSION,
    RESERVED_TRAINING_KEYS,
    START_KEYS,
    TASKS,
    TOKENIZER_KINDS,
    VECTOR_MODEL_KEYS,
    VECTOR_TRAINING_KEYS,
    WEIGHTLESS,
    WORD_SETS,
    WORD_VECTORS,
    WRITING,
    DataSection,
    EvaluationSection,
    Recipe,
    RecipeError,
    TokenizerSection,
    training_of,
)

logger = logging.getLogger(__name__)

STREAMED_TEXTS = 100_000  # rows that a tokenizer is trained on where data.streaming has no end
STRATEGIES_WITH_STATE = ("checkpoint", "all_checkpoints")  # of `hub_strategy`
# What the sections hold for other tasks alone.
NOT_FOR_WORDS = {
    "data": (
        "target_language", "max_tokens_per_batch", "max_source_length", "max_target_length", "max_length",
        "block_size", "packing", "mask_probability", "bpe_dropout", "label_all_pieces", "split_by", "split_seed",
    ),
    "evaluation": (
        "num_beams", "length_penalty", "max_new_tokens", "no_repeat_ngram_size", "batch_size", "average_checkpoints",
        "samples", "errors", "group_references", "stride", "pseudo_perplexity_rows",
    ),
}  # fmt: skip
# Of a tokenizer trained for the task.
SPECIAL_TOKENS_OF_TEXTS = {
    "translation": 1,
    "summarization": 1,
    "sequence-classification": 2,
    "token-classification": 2,
}
# The keys of `data` that bound what a model reads, and of tasks without any `block_size`.
LENGTHS = {
    "translation": ("max_source_length", "max_target_length"),
    "summarization": ("max_source_length", "max_target_length"),
    "sequence-classification": ("max_length",),
    "token-classification": ("max_length",),
    QUESTION_ANSWERING: ("max_length",),
}
# Keys that one task alone has.
OF_ONE_TASK = {
    "masked-lm": {"data": ("mask_share", "random_share", "whole_word_masking", "mask_seed")},
    DENOISING: {"data": ("noise_density", "mean_span_length")},
    IN_CONTEXT: {"data": ("tasks", "learn_from")},
    REGRESSION: {"data": ("noise",)},
    QUESTION_ANSWERING: {"data": ("doc_stride",), "evaluation": ("max_answer_length",)},
}


def check_recipe(values: dict[str, Any]) -> Recipe:
    """The recipe that plain sections describe.

    Raises:
        RecipeError: one sentence about the first thing that cannot work.
    """
    for section in ("model", "tokenizer", "data", "training", "evaluation"):
        if values.get(section) is None:
            values[section] = {}
        if not isinstance(values[section], dict):
            raise RecipeError(f"{section}: {values[section]!r} is not a section with keys of its own.")
    _check_keys(values, [f.name for f in dataclasses.fields(Recipe)], "", "section")
    if "task" not in values:
        raise RecipeError(f"The recipe names no task: it is {either(TASKS)}.")
    for key in ("name", "task"):
        values[key] = _typed(values[key], str, key)
    if not re.fullmatch(r"\w[\w.-]*", values["name"]):
        raise RecipeError(f"name: '{values['name']}' is no name for a folder: use letters, digits, '-', '_' and '.'.")
    _check_choice(values["task"], TASKS, "task")

    if values["task"] == WORD_VECTORS:
        _settle_words(values["tokenizer"], values["model"])
    for key in ("train", "validation", "test"):
        held_out = values["data"].get(key)
        if isinstance(held_out, int) and not isinstance(held_out, bool):
            values["data"][key] = str(held_out)  # data.validation=1000: so many rows of the training data
    recipe = Recipe(
        name=values["name"],
        task=values["task"],
        model=dict(values["model"]),
        tokenizer=_build(TokenizerSection, values["tokenizer"], "tokenizer"),
        data=_build(DataSection, values["data"], "data"),
        training=dict(values["training"]),
        evaluation=_build(EvaluationSection, values["evaluation"], "evaluation"),
    )
    _check_task(recipe)
    if recipe.task == WORD_VECTORS:
        _check_not_for_words(recipe)
    _check_tokenizer(recipe)
    _check_data(recipe)
    _check_evaluation(recipe)
    _check_training(recipe)
    _check_model(recipe)
    return recipe


def _check_task(recipe: Recipe) -> None:
    task, model_type = TASKS[recipe.task], recipe.model.get("type")
    if model_type is None:
        raise RecipeError(f"model.type is missing: the task {recipe.task} takes {either(task.model_types)}.")
    _check_choice(_typed(model_type, str, "model.type"), CONFIG_CLASSES, "model.type")
    if model_type not in task.model_types:
        raise RecipeError(f"model.type: the task {recipe.task} takes {either(task.model_types)}, not '{model_type}'.")


def _settle_words(tokenizer: dict[str, Any], model: dict[str, Any]) -> None:
    """What word vectors ask of the tokenizer: words, as many as there are if nothing else is said."""
    plain = TokenizerSection()
    for key in ("min_frequency", "path", "max_texts"):
        if tokenizer.get(key, getattr(plain, key)) != getattr(plain, key):
            end = "model.min_count says how often a word must occur" if key == "min_frequency" else "leave it out"
            raise RecipeError(f"tokenizer.{key} is not for word vectors, whose words are those of the text: {end}.")
    if tokenizer.setdefault("kind", "word") != "word":
        raise RecipeError(f"tokenizer.kind: word vectors take 'word', not {tokenizer['kind']!r}.")
    tokenizer.setdefault("vocab_size", None)
    for key in ("vocab_size", "vocabulary_bytes", "huffman_depth"):
        if key in model:
            end = ": tokenizer.vocab_size is the most words that have a vector" if key == "vocab_size" else ""
            raise RecipeError(f"model.{key} follows from the text{end}.")


def _check_not_for_words(recipe: Recipe) -> None:
    """Refuses what would have no effect."""
    for section, names in NOT_FOR_WORDS.items():
        plain = {f.name: f.default for f in dataclasses.fields(getattr(recipe, section))}
        for name in names:
            if (value := getattr(getattr(recipe, section), name)) != plain[name]:
                raise RecipeError(f"{section}.{name}: {value!r} has no effect on word vectors: leave it out.")


def _check_tokenizer(recipe: Recipe) -> None:
    tokenizer = recipe.tokenizer
    if recipe.task == WORD_VECTORS:
        _check_least(
            tokenizer, "tokenizer", max_length=1, **({} if tokenizer.vocab_size is None else {"vocab_size": 2})
        )
        if tokenizer.pattern is not None:
            _check_pattern(tokenizer)
        return
    if tokenizer.vocab_size is None:
        raise RecipeError("tokenizer.vocab_size: null is for word vectors; a number is needed here.")
    starts = recipe.model.get("start_from") is not None
    if tokenizer.path is not None or starts:
        _leave_out_what_a_tokenizer_settles(tokenizer)
    _check_choice(tokenizer.kind, TOKENIZER_KINDS, "tokenizer.kind")
    _check_least(tokenizer, "tokenizer", min_frequency=1, max_length=1, vocab_size=NUM_SPECIAL_TOKENS + 1)
    if tokenizer.pattern is not None:
        _check_pattern(tokenizer)
    if tokenizer.path is None and tokenizer.kind == "byte-bpe" and tokenizer.vocab_size < 256 + NUM_SPECIAL_TOKENS:
        raise RecipeError(
            f"tokenizer.vocab_size: {tokenizer.vocab_size} is too small for byte-bpe, which needs the 256 bytes and "
            f"{NUM_SPECIAL_TOKENS} special tokens: at least {256 + NUM_SPECIAL_TOKENS}."
        )

    if tokenizer.max_texts is not None:
        _check_least(tokenizer, "tokenizer", max_texts=1)
    elif recipe.data.streaming and tokenizer.path is None and not starts:
        tokenizer.max_texts = STREAMED_TEXTS


def _check_pattern(tokenizer: TokenizerSection) -> None:
    from regard.train.tokenization import check_pattern

    try:
        check_pattern(tokenizer.kind, tokenizer.pattern)
    except ValueError as error:
        raise RecipeError(str(error)) from error


def _leave_out_what_a_tokenizer_settles(tokenizer: TokenizerSection) -> None:
    """An existing tokenizer is taken as it is: what the recipe says of training one is set back, and named."""
    plain = TokenizerSection(path=tokenizer.path)
    others = [f.name for f in dataclasses.fields(plain) if getattr(tokenizer, f.name) != getattr(plain, f.name)]
    if others:
        names = ", ".join(f"tokenizer.{name}" for name in others)
        place = "tokenizer.path" if tokenizer.path is not None else "model.start_from"
        logger.warning("The tokenizer is that of %s, so these are not used: %s.", place, names)
    for name in others:
        setattr(tokenizer, name, getattr(plain, name))


def _check_data(recipe: Recipe) -> None:
    data, task = recipe.data, TASKS[recipe.task]
    _check_keys(data.columns, [*task.roles, *task.optional_roles], "data.columns.", "role")
    data.columns = {role: data.columns.get(role, role) for role in task.roles} | data.columns
    _check_choice(data.packing, PACKINGS, "data.packing")
    _check_least(data, "data", max_source_length=1, max_target_length=1, max_length=1, block_size=2)
    special = SPECIAL_TOKENS_OF_TEXTS.get(recipe.task, 0) + ("text_pair" in data.columns)
    for name in LENGTHS.get(recipe.task, ()):
        if getattr(data, name) <= special and recipe.tokenizer.path is None:
            raise RecipeError(
                f"data.{name}: {getattr(data, name)} leaves no room for text beside the special tokens: at least "
                f"{special + 1}."
            )
    _check_phrases(recipe)
    if recipe.task == WORD_VECTORS and (data.validation is not None or data.test):
        raise RecipeError(
            f"data.{'validation' if data.validation is not None else 'test'}: word vectors are measured on the files "
            "of evaluation.similarity, evaluation.analogies and evaluation.categories, not on text: leave it out."
        )
    if data.max_tokens_per_batch is not None:
        _check_least(data, "data", max_tokens_per_batch=1)
    if data.max_train_examples is not None:
        _check_least(data, "data", max_train_examples=1)
        if task.roles == ("text",):
            raise RecipeError(f"data.max_train_examples: {recipe.task} reads running text, which has no examples.")
        if data.streaming:
            raise RecipeError("data.max_train_examples are drawn from all, and data.streaming reads as they come.")
    if not 0 < data.mask_probability < 1:
        raise RecipeError(f"data.mask_probability: {data.mask_probability} is not between 0 and 1.")
    _check_bpe_dropout(recipe)
    _check_objective(recipe)
    if recipe.task in (IN_CONTEXT, REGRESSION):
        _check_made_rows(recipe)
    _check_hold_out(recipe)
    if data.label_all_pieces and recipe.task != "token-classification":
        raise RecipeError(f"data.label_all_pieces is for the task token-classification, not for {recipe.task}.")
    if data.path is not None and data.path.startswith("builtin:"):
        _check_choice(data.path, BUILTIN_DATA, "data.path")


def _check_phrases(recipe: Recipe) -> None:
    data = recipe.data
    if data.phrases and recipe.task != WORD_VECTORS:
        raise RecipeError(f"data.phrases is for the task word-vectors, not for {recipe.task}: leave it out.")
    for key, value in [*(("phrases", threshold) for threshold in data.phrases), ("phrase_delta", data.phrase_delta)]:
        if not value >= 0:
            raise RecipeError(f"data.{key}: {value} is not a number of at least 0.")


def _check_objective(recipe: Recipe) -> None:
    """What is masked or taken out of a text, and the windows of a context."""
    from regard.train.denoising import longest_text, number_of_sentinels

    data, tokenizer = recipe.data, recipe.tokenizer
    for task, sections in OF_ONE_TASK.items():
        for section, names in sections.items():
            plain = type(getattr(recipe, section))
            plain = vars(plain(train="") if section == "data" else plain())
            for name in names:
                if task != recipe.task and getattr(getattr(recipe, section), name) != plain[name]:
                    raise RecipeError(f"{section}.{name} is for the task {task}, not for {recipe.task}: leave it out.")
    for name in ("mask_share", "random_share"):
        if not 0 <= getattr(data, name) <= 1:
            raise RecipeError(f"data.{name}: {getattr(data, name)} is not a number from 0 to 1.")
    if data.mask_share + data.random_share > 1:
        raise RecipeError(
            f"data.mask_share: {data.mask_share} and data.random_share: {data.random_share} are more than all of the "
            "chosen tokens together."
        )
    if data.mask_seed is not None:
        _check_least(data, "data", mask_seed=0)
    if not 0 < data.noise_density < 1:
        raise RecipeError(f"data.noise_density: {data.noise_density} is not between 0 and 1.")
    if not 1 <= data.mean_span_length < math.inf:
        raise RecipeError(f"data.mean_span_length: {data.mean_span_length} is not a number of at least 1.")
    if recipe.task == DENOISING:
        try:
            longest_text(data.block_size, data.noise_density, data.mean_span_length)
        except ValueError as error:
            raise RecipeError(str(error)) from error
        least = NUM_SPECIAL_TOKENS + number_of_sentinels(data) + (256 if tokenizer.kind == "byte-bpe" else 1)
        if tokenizer.path is None and tokenizer.vocab_size < least:
            raise RecipeError(
                f"tokenizer.vocab_size: {tokenizer.vocab_size} is too small for {number_of_sentinels(data)} sentinels "
                f"beside the rest: at least {least}."
            )
    _check_least(data, "data", doc_stride=0)
    if recipe.task == QUESTION_ANSWERING:
        _check_least(recipe.evaluation, "evaluation", max_answer_length=1)
        if data.max_length - data.doc_stride < 5:  # three special tokens, one of the question and one to go on by
            raise RecipeError(
                f"data.doc_stride: windows that share {data.doc_stride} tokens do not go on where data.max_length is "
                f"{data.max_length}: make it {max(0, data.max_length // 3)} or so."
            )


def _check_made_rows(recipe: Recipe) -> None:
    """Of data that are made, not read."""
    data = recipe.data
    for key in ("train", "validation", "test"):
        value = getattr(data, key)
        if value is not None and not (isinstance(value, str) and value.isdecimal() and int(value) > 0):
            raise RecipeError(
                f"data.{key}: {value!r} is no number of rows, such as 2000; {recipe.task} makes its data."
            )
    for key, plain in (("path", None), ("name", None), ("streaming", False), ("max_tokens_per_batch", None)):
        if getattr(data, key) != plain:
            raise RecipeError(f"data.{key} has no effect on {recipe.task}, whose rows are made: leave it out.")
    if recipe.task == REGRESSION:
        if not 0 <= data.noise < math.inf:
            raise RecipeError(f"data.noise: {data.noise} is not a number of at least 0.")
        size = recipe.model.get("input_size", 5)
        if "over_least_squares" in recipe.evaluation.metrics and isinstance(size, int) and data.block_size <= 2 * size:
            raise RecipeError(
                f"data.block_size: {data.block_size} examples are too few for over_least_squares, which asks after "
                f"twice model.input_size: at least {2 * size + 1}."
            )
        return
    from regard.evaluation.in_context.tasks import task_named

    _check_choice(data.learn_from, LEARN_FROM, "data.learn_from")
    for name, weight in data.tasks.items():
        try:
            task_named(name)
        except ValueError as error:
            raise RecipeError(f"data.tasks: {error}") from error
        if not 0 < weight < math.inf:
            raise RecipeError(f"data.tasks.{name}: {weight} is no weight above 0.")
    if data.block_size < 32:
        raise RecipeError(f"data.block_size: {data.block_size} leaves no room for examples: at least 32.")
    if recipe.tokenizer.path is None and recipe.tokenizer.kind != "char":
        raise RecipeError(f"tokenizer.kind: in-context takes 'char', not '{recipe.tokenizer.kind}'.")


def _check_hold_out(recipe: Recipe) -> None:
    data = recipe.data
    _check_least(data, "data", split_seed=0)
    held_out = [
        f"data.{key}: '{value}'"
        for key, value in (("validation", data.validation), ("test", data.test))
        if isinstance(value, str) and HOLD_OUT.fullmatch(value)
    ]
    if data.streaming and (data.split_by is not None or any("test" in one for one in held_out)):
        what = "data.split_by" if data.split_by is not None else held_out[-1]
        raise RecipeError(f"{what} needs all rows in advance, and data.streaming reads them as they come.")


def _check_bpe_dropout(recipe: Recipe) -> None:
    data, tokenizer = recipe.data, recipe.tokenizer
    if not 0 <= data.bpe_dropout < 1:
        raise RecipeError(f"data.bpe_dropout: {data.bpe_dropout} is not a number of at least 0 and below 1.")
    if data.bpe_dropout == 0:
        return
    if recipe.task != "translation":
        raise RecipeError(f"data.bpe_dropout is for the task translation, not for {recipe.task}: leave it out.")
    if data.streaming:
        raise RecipeError("data.bpe_dropout cuts rows anew in each epoch, which a stream has not: leave out one.")
    if tokenizer.path is None and tokenizer.kind != "byte-bpe":
        raise RecipeError(
            f"data.bpe_dropout skips merges of byte pairs, which a tokenizer of kind '{tokenizer.kind}' has not: set "
            "tokenizer.kind=byte-bpe."
        )


def _check_evaluation(recipe: Recipe) -> None:
    evaluation, fitting = recipe.evaluation, TASKS[recipe.task].metrics
    _check_least(evaluation, "evaluation", num_beams=1, max_new_tokens=1, batch_size=1)
    _check_least(evaluation, "evaluation", average_checkpoints=0, samples=0, errors=0, no_repeat_ngram_size=0)
    if recipe.task == WORD_VECTORS and evaluation.metrics:
        raise RecipeError(
            f"evaluation.metrics: '{evaluation.metrics[0]}' does not fit word vectors: name files in "
            "evaluation.similarity, evaluation.analogies or evaluation.categories."
        )
    if evaluation.metrics and recipe.data.validation is None and not recipe.data.test:
        raise RecipeError(
            f"evaluation.metrics: {', '.join(evaluation.metrics)} cannot be measured: neither data.validation nor "
            "data.test names any data."
        )
    known = {metric for task in TASKS.values() for metric in task.metrics}
    for metric in evaluation.metrics:
        if metric in known and metric not in fitting:
            raise RecipeError(
                f"evaluation.metrics: '{metric}' does not fit the task {recipe.task}, which takes {either(fitting)}."
            )
        _check_choice(metric, fitting, "evaluation.metrics")
    _check_least(evaluation, "evaluation", pseudo_perplexity_rows=1)
    if evaluation.stride is not None:
        if recipe.task != "causal-lm" or recipe.data.packing != "blocks":
            raise RecipeError("evaluation.stride is for the task causal-lm with data.packing: blocks.")
        if not 1 <= evaluation.stride < recipe.data.block_size:
            raise RecipeError(
                f"evaluation.stride: {evaluation.stride} is not between 1 and data.block_size - 1, "
                f"{recipe.data.block_size - 1}."
            )
    if evaluation.induction_steps is not None:
        _check_least(evaluation, "evaluation", induction_steps=1)
        if recipe.task not in ("causal-lm", IN_CONTEXT):
            raise RecipeError(f"evaluation.induction_steps is for causal-lm and in-context, not for {recipe.task}.")
    if "bleu_moses_lowercase" in evaluation.metrics:
        _check_moses_language(recipe.data.target_language)
    if evaluation.no_repeat_ngram_size and recipe.task not in WRITING:
        raise RecipeError(
            f"evaluation.no_repeat_ngram_size is for the tasks {' and '.join(WRITING)}, not for {recipe.task}."
        )
    if evaluation.group_references and recipe.task not in WRITING:
        raise RecipeError(
            f"evaluation.group_references: the task {recipe.task} has no references, as {' and '.join(WRITING)} have."
        )
    if evaluation.group_references and HOLD_OUT.fullmatch(recipe.data.validation or ""):
        raise RecipeError(
            f"data.validation: '{recipe.data.validation}' holds out rows, and with evaluation.group_references some "
            "of an item's right answers would stay in training: give a file that is split by item."
        )
    _check_word_sets(recipe)


def _check_word_sets(recipe: Recipe) -> None:
    """Their files are read before training, by `regard.train.evaluate_vectors`."""
    from regard.evaluation.word_analogies import METHODS
    from regard.evaluation.word_sets import check_sets

    evaluation = recipe.evaluation
    sets = {kind: getattr(evaluation, kind) for kind in WORD_SETS}
    if given := next((kind for kind, files in sets.items() if files and recipe.task != WORD_VECTORS), None):
        raise RecipeError(f"evaluation.{given} measures word vectors, and the task is {recipe.task}: leave it out.")
    try:
        check_sets(sets)
    except ValueError as error:
        raise RecipeError(f"evaluation: {error}") from error
    _check_choice(evaluation.analogy_method, METHODS, "evaluation.analogy_method")
    if evaluation.analogy_vocabulary is not None:
        _check_least(evaluation, "evaluation", analogy_vocabulary=1)


def _check_moses_language(language: str | None) -> None:
    from regard.evaluation.moses import moses_languages

    if language is None:
        raise RecipeError(
            "evaluation.metrics: 'bleu_moses_lowercase' tokenises by the rules of a language: name that of the target "
            "in data.target_language, such as 'de'."
        )
    if language not in (known := moses_languages()):
        raise RecipeError(
            f"data.target_language: 'bleu_moses_lowercase' has no rules for '{language}', only for {', '.join(known)}."
        )


def _check_vector_training(recipe: Recipe) -> None:
    training, glove = recipe.training, recipe.model["type"] == "glove"
    _check_keys(training, VECTOR_TRAINING_KEYS, "training.", "argument")
    for key in ("min_learning_rate", "per_device_train_batch_size", "engine", "logging_steps", "save_steps"):
        if glove and key in training:
            raise RecipeError(f"training.{key} is for word2vec; GloVe is trained, logged and saved by epochs.")
    for key, value in training.items():
        training[key] = _typed(value, VECTOR_TRAINING_KEYS[key], f"training.{key}")
    for key in ("num_train_epochs", "workers", "per_device_train_batch_size", "logging_steps", "save_steps"):
        if training.get(key) is not None and training[key] < 1:
            raise RecipeError(f"training.{key}: {training[key]} is less than 1.")
    for key in ("learning_rate", "min_learning_rate"):
        if not 0 <= training.get(key, 0) < math.inf:
            raise RecipeError(f"training.{key}: {training[key]} is not a number of at least 0.")
    given = training_of(recipe)
    if not glove and given["min_learning_rate"] > given["learning_rate"]:
        raise RecipeError(
            f"training.min_learning_rate: {given['min_learning_rate']} is above training.learning_rate, "
            f"{given['learning_rate']}, from which the rate falls."
        )
    if not 0 <= given["seed"] < 2**32:
        raise RecipeError(f"training.seed: {given['seed']} is not between 0 and 2**32 - 1.")
    _check_choice(given["engine"], ("numba", "torch"), "training.engine")
    strategies = ("no", "epoch") if glove else ("no", "epoch", "steps")
    _check_choice(given["save_strategy"], strategies, "training.save_strategy")
    _check_engine(recipe, given)
    if given["save_strategy"] == "steps" and "save_steps" not in training:
        raise RecipeError("training.save_steps is missing: training.save_strategy is 'steps'.")
    if given["save_strategy"] != "steps" and "save_steps" in training:
        raise RecipeError(
            f"training.save_steps: {training['save_steps']} is for training.save_strategy: steps, and that is "
            f"'{given['save_strategy']}'."
        )
    if recipe.model.get("objective") == "full-softmax":
        raise RecipeError(
            "model.objective: 'full-softmax' compares each word with the whole vocabulary and is trained by "
            "transformers' Trainer in Python: choose 'negative-sampling' or 'hierarchical-softmax'."
        )


def _check_engine(recipe: Recipe, training: dict[str, Any]) -> None:
    """What one of the two engines cannot do."""
    words, torch_trains = training.get("per_device_train_batch_size"), training["engine"] == "torch"
    if words is not None and not torch_trains:
        raise RecipeError(
            "training.per_device_train_batch_size is for training.engine: torch, which learns in batches."
        )
    if torch_trains and recipe.model.get("objective") == "hierarchical-softmax":
        raise RecipeError(
            "training.engine: 'torch' has no hierarchical softmax: set training.engine=numba, or "
            "model.objective=negative-sampling."
        )
    if words is not None:
        from regard.train.word2vec_torch import BLOCK

        if words % BLOCK:
            near = max(BLOCK, round(words / BLOCK) * BLOCK)
            raise RecipeError(
                f"training.per_device_train_batch_size: {words} words are no whole number of blocks of {BLOCK}, such "
                f"as {near}."
            )


def _leave_out_what_is_not_trained(model: dict[str, Any]) -> None:
    """Settings of another architecture or objective of word2vec, as a recipe has them that was changed to this one."""
    others = []
    if model.get("objective") == "hierarchical-softmax":
        others += ["num_negatives", "negative_exponent"]
    if model.get("architecture", "skip-gram") == "skip-gram":
        others += ["cbow_mean"]
    if others := [key for key in others if key in model]:
        names = ", ".join(f"model.{key}" for key in others)
        logger.warning("These are of another architecture or objective, and not used: %s.", names)
    for key in others:
        del model[key]


def _check_training(recipe: Recipe) -> None:
    from regard.train.fine_tuning_checks import check_fine_tuning
    from regard.train.muon import MUON, muon_options

    training, data, evaluation = recipe.training, recipe.data, recipe.evaluation
    for key, reason in RESERVED_TRAINING_KEYS.items():
        if key in training:
            raise RecipeError(f"training.{key} does not belong in a recipe: {reason}.")
    if recipe.task == WORD_VECTORS:
        _check_vector_training(recipe)
        return
    fields = _training_fields() | FINE_TUNING_KEYS
    _check_keys(training, fields, "training.", "argument")
    if training.get("optim") == MUON:  # ours, beside those of TrainingArguments
        fields = fields | {"optim": str, "optim_args": str | None}
    for key, value in training.items():
        typed = _typed(value, fields[key], f"training.{key}")
        training[key] = value if isinstance(value, int) else typed  # 800 steps stay 800, though the field says float
    check_fine_tuning(recipe)
    if training.get("optim") == MUON:
        try:
            muon_options(training.get("optim_args"))
        except ValueError as error:
            raise RecipeError(str(error)) from error
        for key in ("fsdp", "deepspeed"):
            if training.get(key):
                raise RecipeError(f"training.{key} parts the matrices that training.optim: muon needs whole.")
    if training.get("save_only_model"):
        raise RecipeError(
            "training.save_only_model: true saves checkpoints without the optimiser, from which no run can be resumed."
        )
    if training.get("hub_strategy") in STRATEGIES_WITH_STATE:
        raise RecipeError(state_stays_here(training["hub_strategy"]))
    for key in ("per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps"):
        if training.get(key, 1) < 1:
            raise RecipeError(f"training.{key}: {training[key]} is less than 1.")

    if not training.get("num_train_epochs", 1) > 0:
        raise RecipeError(f"training.num_train_epochs: {training['num_train_epochs']} is not a number above 0.")
    if training.get("max_steps") == 0:
        raise RecipeError("training.max_steps: 0 trains nothing: give at least 1, or -1 to count by epochs.")
    for key in ("learning_rate", "warmup_steps", "weight_decay", "max_grad_norm", "adam_epsilon"):
        if not training.get(key, 0) >= 0:  # nor a number that is none
            raise RecipeError(f"training.{key}: {training[key]} is not a number of at least 0.")
    for key in ("adam_beta1", "adam_beta2"):
        if not 0 <= training.get(key, 0) < 1:
            raise RecipeError(f"training.{key}: {training[key]} is not a number of at least 0 and below 1.")

    if data.max_tokens_per_batch is not None and "per_device_train_batch_size" in training:
        raise RecipeError(
            "training.per_device_train_batch_size and data.max_tokens_per_batch exclude each other: a batch holds "
            "either a number of examples or a number of tokens."
        )
    if data.streaming and data.max_tokens_per_batch is not None:
        raise RecipeError(
            "data.max_tokens_per_batch needs all lengths in advance, and data.streaming reads them as they come: set "
            "training.per_device_train_batch_size instead."
        )
    if data.streaming and training.get("max_steps", -1) < 1:
        raise RecipeError("data.streaming needs training.max_steps: a stream has no length to count epochs by.")
    evaluates = training.get("eval_strategy", "no") != "no" or training.get("eval_on_start", False)
    if data.validation is None and evaluates:
        raise RecipeError("training.eval_strategy asks for evaluation, and data.validation names no data for it.")
    kept = training.get("save_total_limit")
    if evaluation.average_checkpoints > 1 and kept is not None and kept < evaluation.average_checkpoints:
        raise RecipeError(
            f"evaluation.average_checkpoints: {evaluation.average_checkpoints} checkpoints cannot be averaged when "
            f"training.save_total_limit keeps {kept}."
        )
    if evaluation.average_checkpoints > 0 and training.get("save_strategy") == "no":
        raise RecipeError("evaluation.average_checkpoints needs checkpoints, and training.save_strategy is 'no'.")
    # Smoothing lives in the model's own loss, where it acts in training alone; Trainer's would take the labels out of
    # the model and smooth the evaluation loss too.
    smoothing = training.pop("label_smoothing_factor", None)
    if smoothing is not None and recipe.model.setdefault("label_smoothing", smoothing) != smoothing:
        raise RecipeError(
            f"training.label_smoothing_factor ({smoothing}) and model.label_smoothing "
            f"({recipe.model['label_smoothing']}) are the same setting and differ: keep one."
        )


def state_stays_here(strategy: str) -> str:
    """Why a `hub_strategy` of TrainingArguments is refused."""
    return (
        f"training.hub_strategy: '{strategy}' would publish the states of the optimiser and of chance, which are "
        "pickles, and of use here alone; it is 'every_save' or 'end'."
    )


def _check_model(recipe: Recipe) -> None:
    tokenizer = recipe.tokenizer
    config_class, hints = config_fields(recipe.model["type"])
    if recipe.task == "sequence-classification":
        hints["num_labels"] = int  # a property of every config, not a field; taken from the data where it is not given
    fields = set(hints)
    hints = (VECTOR_MODEL_KEYS if recipe.task == WORD_VECTORS else EMBEDDING_KEYS | START_KEYS) | hints
    given = {key: value for key, value in recipe.model.items() if key != "type"}
    _check_keys(given, hints, "model.", "key")
    given = {key: _typed(value, hints[key], f"model.{key}") for key, value in given.items()}
    begun = recipe.task != WORD_VECTORS and given.get("start_from") is not None
    if given.get("freeze_embeddings") and given.get("embeddings") is None and not begun:
        raise RecipeError(
            "model.freeze_embeddings: true is for vectors that are there already: name them in model.embeddings."
        )
    recipe.model = {"type": recipe.model["type"], **given}
    given = {key: value for key, value in given.items() if key in fields}
    if begun:  # what the weights have settled is compared with them when they are read
        given = {key: value for key, value in given.items() if key in WEIGHTLESS}
    if tokenizer.path is None and given.get("vocab_size", tokenizer.vocab_size) != tokenizer.vocab_size:
        raise RecipeError(
            f"model.vocab_size: {given['vocab_size']} differs from tokenizer.vocab_size, {tokenizer.vocab_size}: "
            "leave it out, and it is the size of the trained vocabulary."
        )
    if given.get("num_attention_heads", 1) < 1:
        raise RecipeError(f"model.num_attention_heads: {given['num_attention_heads']} is less than 1.")
    if "hidden_act" in given:
        _check_choice(given["hidden_act"], _activations(), "model.hidden_act")
    try:
        has_tokens = recipe.task not in (WORD_VECTORS, REGRESSION)
        config = config_class(**({"vocab_size": tokenizer.vocab_size} if has_tokens else {}) | given)
    except Exception as error:  # the library's strict configs raise classes of their own, with the sentence as cause
        raise RecipeError(f"model: {' '.join(str(error.__cause__ or error).split())}") from error
    if recipe.model["type"] == "word2vec":
        _leave_out_what_is_not_trained(recipe.model)
    if getattr(config, "position_embedding_type", None) == "learned" and "max_position_embeddings" in given:
        keys = [f"data.{name}" for name in LENGTHS.get(recipe.task, ("block_size",))]
        for key in [*keys, "evaluation.max_new_tokens"] if recipe.task in WRITING else keys:
            section, name = key.split(".")
            length = getattr(getattr(recipe, section), name)
            if length > config.max_position_embeddings:
                raise RecipeError(
                    f"{key}: {length} is more than model.max_position_embeddings, {config.max_position_embeddings}, "
                    "and learned positions end there."
                )


def _training_fields() -> dict[str, Any]:
    from transformers.training_args import TrainingArguments

    return {f.name: f.type for f in dataclasses.fields(TrainingArguments) if f.init}


def config_fields(model_type: str) -> tuple[type, dict[str, Any]]:
    """The config class of a model type, and the types of the fields that it and its bases in `regard` declare."""
    from transformers import PreTrainedConfig

    import regard.modeling

    config_class = getattr(regard.modeling, CONFIG_CLASSES[model_type])
    hints: dict[str, Any] = {}
    for base in reversed(config_class.__mro__):
        if issubclass(base, PreTrainedConfig) and base is not PreTrainedConfig:
            hints |= {name: hint for name, hint in vars(base).get("__annotations__", {}).items()}
    names = {f.name for f in dataclasses.fields(config_class) if f.init}
    return config_class, {name: hint for name, hint in hints.items() if name in names}


def _activations() -> list[str]:
    from transformers.activations import ACT2FN

    return sorted(ACT2FN)


def _build(cls: type, values: Mapping[str, Any], section: str) -> Any:
    fields = {f.name: f for f in dataclasses.fields(cls)}
    _check_keys(values, fields, f"{section}.", "key")
    for name, spec in fields.items():
        required = spec.default is dataclasses.MISSING and spec.default_factory is dataclasses.MISSING
        if required and values.get(name) is None:
            raise RecipeError(f"{section}.{name} is missing.")
    return cls(**{key: _typed(value, fields[key].type, f"{section}.{key}") for key, value in values.items()})


def _typed(value: Any, hint: Any, where: str) -> Any:
    """`value` as the type `hint` has it: a whole number may stand for a number, and 1e4 for a whole number."""
    choices = _members(hint)
    enums = [choice for choice in choices if isinstance(choice, type) and issubclass(choice, Enum)]
    if enums and isinstance(value, str):
        # TrainingArguments types such settings as "an enumeration or text"; only the enumeration's values work.
        _check_choice(value, [member.value for member in enums[0]], where)
        return value
    for choice in choices:
        fits, converted = _convert(value, choice)
        if fits:
            return converted
    names = [_type_name(choice) for choice in choices if choice not in enums]
    raise RecipeError(f"{where}: {value!r} is not {either(dict.fromkeys(names), quote=False)}.")


def _members(hint: Any) -> list[Any]:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [member for part in typing.get_args(hint) for member in _members(part)]
    return [hint]


def _convert(value: Any, hint: Any) -> tuple[bool, Any]:
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any or isinstance(hint, str):
        return True, value
    if hint in (None, type(None)):
        return value is None, value
    if origin is typing.Literal:
        return value in args, value
    if origin is bool:
        return isinstance(value, bool), value
    if isinstance(value, bool):
        return False, value
    if origin is int:
        whole = isinstance(value, float) and value.is_integer()
        return isinstance(value, int) or whole, int(value) if whole else value
    if origin is float:
        return isinstance(value, int | float), float(value) if isinstance(value, int) else value
    if origin is dict and isinstance(value, Mapping):
        inner = args[1] if args else Any
        pairs = {key: _convert(item, inner) for key, item in value.items()}
        return all(fits for fits, _ in pairs.values()), {key: item for key, (_, item) in pairs.items()}
    if origin in (list, tuple) and isinstance(value, list):
        items = [_convert(item, args[0] if args else Any) for item in value]
        return all(fits for fits, _ in items), [item for _, item in items]
    return isinstance(origin, type) and isinstance(value, origin), value


def _type_name(hint: Any) -> str:
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is typing.Literal:
        return either(map(repr, args), quote=False)
    if origin in (list, tuple, dict) and args and args[-1] is str:
        return {list: "a list of texts", dict: "a mapping of names to texts"}.get(origin, "a list of texts")
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list"}
    names |= {dict: "a mapping", tuple: "a list", None: "null", type(None): "null"}
    return names.get(origin, getattr(origin, "__name__", str(origin)))


def _check_keys(values: Iterable[str], known: Iterable[str], prefix: str, what: str) -> None:
    known = list(known)
    for key in values:
        if key not in known:
            raise RecipeError(f"There is no {what} '{prefix}{key}'{nearest(key, known, prefix)}")


def _check_choice(value: str, choices: Iterable[str], where: str) -> None:
    choices = list(choices)
    if value not in choices:
        end = nearest(value, choices) if len(choices) > 12 else f": it is {either(choices)}."
        raise RecipeError(f"{where}: '{value}' is not known{end}")


def _check_least(section: Any, prefix: str, **least: int) -> None:
    for name, minimum in least.items():
        if getattr(section, name) < minimum:
            raise RecipeError(f"{prefix}.{name}: {getattr(section, name)} is less than {minimum}.")
