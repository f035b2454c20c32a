"""The checks of a recipe's data."""

import math

from regard.train.made_checks import check_made_rows
from regard.train.sections import (
    BUILTIN_DATA,
    DENOISING,
    HOLD_OUT,
    IN_CONTEXT,
    NUM_SPECIAL_TOKENS,
    PACKINGS,
    QUESTION_ANSWERING,
    REGRESSION,
    TASKS,
    WORD_VECTORS,
    WRITING,
    Recipe,
    RecipeError,
)
from regard.train.value_checks import check_choice, check_keys, check_least

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
MOST_NOISE = 0.9
# Keys that one task alone has.
OF_ONE_TASK = {
    "masked-lm": {"data": ("mask_share", "random_share", "whole_word_masking", "mask_seed")},
    DENOISING: {"data": ("noise_density", "mean_span_length", "denoising_target")},
    IN_CONTEXT: {"data": ("tasks", "learn_from")},
    REGRESSION: {"data": ("noise",)},
    QUESTION_ANSWERING: {"data": ("doc_stride",), "evaluation": ("max_answer_length",)},
}


def check_data(recipe: Recipe) -> None:
    """Refuses data that do not fit the task, and names the columns of all roles."""
    data, task = recipe.data, TASKS[recipe.task]
    check_keys(data.columns, [*task.roles, *task.optional_roles], "data.columns.", "role", f" in {recipe.task}")
    data.columns = {role: data.columns.get(role, role) for role in task.roles} | data.columns
    _check_roles(recipe)
    check_choice(data.packing, PACKINGS, "data.packing")
    check_least(data, "data", max_source_length=1, max_target_length=1, max_length=1, block_size=2)
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
        check_least(data, "data", max_tokens_per_batch=1)
    if data.max_train_examples is not None:
        check_least(data, "data", max_train_examples=1)
        if task.roles == ("text",):
            raise RecipeError(f"data.max_train_examples: {recipe.task} reads running text, which has no examples.")
        if data.streaming:
            raise RecipeError("data.max_train_examples are drawn from all, and data.streaming reads as they come.")
    if not 0 < data.mask_probability < 1:
        raise RecipeError(f"data.mask_probability: {data.mask_probability} is not between 0 and 1.")
    _check_bpe_dropout(recipe)
    _check_objective(recipe)
    if recipe.task in (IN_CONTEXT, REGRESSION):
        check_made_rows(recipe)
    _check_hold_out(recipe)
    if data.label_all_pieces and recipe.task != "token-classification":
        raise RecipeError(f"data.label_all_pieces is for the task token-classification, not for {recipe.task}.")
    if data.path is not None and data.path.startswith("builtin:"):
        check_choice(data.path, BUILTIN_DATA, "data.path")


def _check_roles(recipe: Recipe) -> None:
    """A column has one role, or the answer would stand in the input. What is written may be what is read: a copy."""
    roles: dict[str, str] = {}
    for role, column in recipe.data.columns.items():
        if column in roles and recipe.task not in WRITING:
            raise RecipeError(
                f"data.columns.{role}: the column '{column}' is data.columns.{roles[column]} already: name another."
            )
        roles[column] = role


def _check_phrases(recipe: Recipe) -> None:
    data = recipe.data
    if data.phrases and recipe.task != WORD_VECTORS:
        raise RecipeError(f"data.phrases is for the task word-vectors, not for {recipe.task}: leave it out.")
    for key, value in [*(("phrases", threshold) for threshold in data.phrases), ("phrase_delta", data.phrase_delta)]:
        if not value >= 0:
            raise RecipeError(f"data.{key}: {value} is not a number of at least 0.")


def _check_objective(recipe: Recipe) -> None:
    """What is masked or taken out of a text, and the windows of a context."""
    from regard.train.denoising import TARGETS, lengths_of, number_of_sentinels, text_length

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
        check_least(data, "data", mask_seed=0)
    if not 0 < data.noise_density <= MOST_NOISE:
        raise RecipeError(
            f"data.noise_density: {data.noise_density} is not a number above 0 and at most {MOST_NOISE}, beyond which "
            "a text that is to be restored is many times as long as what is left of it."
        )
    if not 1 <= data.mean_span_length < math.inf:
        raise RecipeError(f"data.mean_span_length: {data.mean_span_length} is not a finite number of at least 1.")
    check_choice(data.denoising_target, TARGETS, "data.denoising_target")
    if recipe.task == DENOISING:
        try:
            _, longest = lengths_of(text_length(data), data)
        except ValueError as error:
            raise RecipeError(str(error)) from error
        least = NUM_SPECIAL_TOKENS + number_of_sentinels(data) + (256 if tokenizer.kind == "byte-bpe" else 1)
        if tokenizer.path is None and tokenizer.vocab_size < least:
            raise RecipeError(
                f"tokenizer.vocab_size: {tokenizer.vocab_size} is too small for {number_of_sentinels(data)} "
                f"sentinels, one for each gap in data.block_size={data.block_size} tokens, beside the rest: at "
                f"least {least}."
            )
        # What is saved must be able to write what it was trained to: a text is longer than what is left of it.
        recipe.evaluation.max_new_tokens = max(recipe.evaluation.max_new_tokens, longest)
    check_least(data, "data", doc_stride=0)
    if recipe.task == QUESTION_ANSWERING:
        check_least(recipe.evaluation, "evaluation", max_answer_length=1)
        if data.max_length - data.doc_stride < 5:  # three special tokens, one of the question and one to go on by
            raise RecipeError(
                f"data.doc_stride: windows that share {data.doc_stride} tokens do not go on where data.max_length is "
                f"{data.max_length}: make it {max(0, data.max_length // 3)} or so."
            )


def _check_hold_out(recipe: Recipe) -> None:
    data = recipe.data
    check_least(data, "data", split_seed=0)
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
