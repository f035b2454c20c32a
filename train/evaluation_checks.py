"""The checks of how a recipe evaluates."""

from regard.evaluation.naming import either
from regard.train.sections import HOLD_OUT, IN_CONTEXT, TASKS, WORD_SETS, WORD_VECTORS, WRITING, Recipe, RecipeError
from regard.train.value_checks import check_choice, check_least

REPEATED = 5  # positions of the shortest text whose second half repeats the first: a start token, and two tokens twice


def check_evaluation(recipe: Recipe) -> None:
    """Refuses metrics and settings that do not fit the task or its data."""
    evaluation, fitting = recipe.evaluation, TASKS[recipe.task].metrics
    check_least(evaluation, "evaluation", num_beams=1, max_new_tokens=1, batch_size=1)
    check_least(evaluation, "evaluation", average_checkpoints=0, samples=0, errors=0, no_repeat_ngram_size=0)
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
        check_choice(metric, fitting, "evaluation.metrics")
    check_least(evaluation, "evaluation", pseudo_perplexity_rows=1)
    if evaluation.stride is not None:
        if recipe.task != "causal-lm" or recipe.data.packing != "blocks":
            raise RecipeError("evaluation.stride is for the task causal-lm with data.packing: blocks.")
        if not 1 <= evaluation.stride < recipe.data.block_size:
            raise RecipeError(
                f"evaluation.stride: {evaluation.stride} is not between 1 and data.block_size - 1, "
                f"{recipe.data.block_size - 1}."
            )
    if evaluation.induction_steps is not None:
        check_least(evaluation, "evaluation", induction_steps=1)
        if recipe.task not in ("causal-lm", IN_CONTEXT):
            raise RecipeError(f"evaluation.induction_steps is for causal-lm and in-context, not for {recipe.task}.")
        _check_room_to_repeat(recipe)
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


def _check_room_to_repeat(recipe: Recipe) -> None:
    """The positions of weights that are there already are known when those are read."""
    from regard.modeling import TransformerDecoderConfig

    model = recipe.model
    kind = model.get("position_embedding_type", TransformerDecoderConfig.position_embedding_type)
    given = model.get("max_position_embeddings")
    positions = recipe.data.block_size if given is None else given  # as `model_settings` has it
    if kind != "learned" or model.get("start_from") is not None or not isinstance(positions, int):
        return
    if positions < REPEATED:
        key = "data.block_size" if given is None else "model.max_position_embeddings"
        raise RecipeError(
            f"{key}: {positions} learned positions are too few for evaluation.induction_steps, which has the model "
            f"read two tokens twice after the start token: at least {REPEATED}."
        )


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
    check_choice(evaluation.analogy_method, METHODS, "evaluation.analogy_method")
    if evaluation.analogy_vocabulary is not None:
        check_least(evaluation, "evaluation", analogy_vocabulary=1)


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
