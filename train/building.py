"""From a checked recipe to the objects of a training: arguments, tokenizer, model."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from accelerate.utils import parse_flag_from_env
from transformers import (
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    TrainingArguments,
)
from transformers.integrations import get_available_reporting_integrations
from transformers.trainer_utils import set_seed

import regard.modeling
from regard.evaluation.directions import LOWER_IS_BETTER
from regard.evaluation.in_context.tasks import CHARACTERS
from regard.train.denoising import lengths_of, number_of_sentinels, text_length
from regard.train.encoding import check_fast
from regard.train.fine_tuning_checks import starts_from_weights
from regard.train.muon import MUON, build_muon, muon_options
from regard.train.questions import recipe_settings
from regard.train.sections import (
    CONFIG_CLASSES,
    DENOISING,
    FINE_TUNING_KEYS,
    IN_CONTEXT,
    LABELLING,
    QUESTION_ANSWERING,
    WRITING,
    Recipe,
    RecipeError,
)
from regard.train.start_from import Start, read_start, start_settings, token_rules
from regard.train.tagging import check_spans
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

MODEL_CLASSES = {
    ("translation", "transformer"): "TransformerForConditionalGeneration",
    ("causal-lm", "decoder"): "TransformerDecoderForCausalLM",
    ("masked-lm", "encoder"): "TransformerEncoderForMaskedLM",
    ("sequence-classification", "encoder"): "TransformerEncoderForSequenceClassification",
    ("sequence-classification", "decoder"): "TransformerDecoderForSequenceClassification",
    ("sequence-classification", "dan"): "DANForSequenceClassification",
    ("token-classification", "encoder"): "TransformerEncoderForTokenClassification",
    ("summarization", "transformer"): "TransformerForConditionalGeneration",
    (QUESTION_ANSWERING, "encoder"): "TransformerEncoderForQuestionAnswering",
    (DENOISING, "transformer"): "TransformerForConditionalGeneration",
    (IN_CONTEXT, "decoder"): "TransformerDecoderForCausalLM",
}
DEFAULT_LOGGING_STEPS = 50
DEFAULT_CHECKPOINTS_KEPT = 2


def training_arguments(recipe: Recipe, output_dir: str) -> TrainingArguments:
    """The recipe's `training`, with what follows from its other sections.

    Raises:
        RecipeError: what TrainingArguments refuses.
    """
    given = {key: value for key, value in recipe.training.items() if key not in FINE_TUNING_KEYS}
    seed = given.get("seed", 42)
    settings: dict[str, Any] = {
        "data_seed": seed,
        "logging_steps": DEFAULT_LOGGING_STEPS,
        "per_device_eval_batch_size": recipe.evaluation.batch_size,
        "save_total_limit": max(DEFAULT_CHECKPOINTS_KEPT, recipe.evaluation.average_checkpoints),
        "dataloader_pin_memory": torch.accelerator.is_available(),
        "use_cpu": not torch.accelerator.is_available(),  # bf16 is refused without it where there is no accelerator
        "ddp_find_unused_parameters": False,  # every weight takes part in every loss
        "disable_tqdm": True,  # the progress is our own
        "logging_nan_inf_filter": False,  # a loss that is no number stops the training
        "remove_unused_columns": False,  # the collators take what they need
    }
    if recipe.data.max_tokens_per_batch is not None:
        settings["per_device_train_batch_size"] = 1  # one item of the data set is a whole batch
    if recipe.data.streaming:
        # Else the main process reads for all and joins their batches, which fails where their widths differ.
        settings["accelerator_config"] = {"dispatch_batches": False}
    if (best := given.get("metric_for_best_model")) not in (None, "loss"):
        settings["greater_is_better"] = best not in LOWER_IS_BETTER  # left to itself, less perplexity is worse
    if given.get("optim") == MUON:  # none of TrainingArguments' own: Trainer is given it by itself
        given = {key: value for key, value in given.items() if key not in ("optim", "optim_args")}
    given["report_to"] = [name for name in _reports(given.get("report_to")) if name != "tensorboard"]
    if given.get("load_best_model_at_end") and recipe.evaluation.average_checkpoints:
        raise RecipeError(
            "training.load_best_model_at_end and evaluation.average_checkpoints exclude each other: the final weights "
            "are those of one checkpoint or the mean of several: set evaluation.average_checkpoints=0 for the one."
        )
    try:
        return TrainingArguments(output_dir=output_dir, **settings | given)
    except (ValueError, TypeError) as error:
        raise RecipeError(f"training: {' '.join(str(error).split())}") from error


def optimizer_factory(recipe: Recipe, args: TrainingArguments) -> tuple[Callable, dict[str, Any]] | None:
    """Trainer's `optimizer_cls_and_kwargs`, where the optimiser is not one of its own."""
    if recipe.training.get("optim") != MUON:
        return None
    if name := _parts_weights():
        raise RecipeError(
            f"training.optim: muon needs whole matrices, and {name} parts them: launch without {name}, or choose "
            "training.optim: adamw_torch."
        )
    return lambda: build_muon, {"args": args, **muon_options(recipe.training.get("optim_args"))}


def check_launch(recipe: Recipe, args: TrainingArguments) -> None:
    """Refuses ways of fine-tuning that cannot be parted as the command was launched.

    Raises:
        RecipeError: FSDP or DeepSpeed with LoRA, rates by layer or induction heads; one process on several GPUs with
            class weights.
    """
    if recipe.evaluation.induction_steps is not None and (name := _parts_weights()):
        raise RecipeError(
            f"evaluation.induction_steps: {recipe.evaluation.induction_steps} has one process measure whole weights, "
            f"and {name} parts them: launch without {name}, or leave it out."
        )
    for key in ("lora", "layer_lr_decay"):
        if recipe.training.get(key) is not None and (name := _parts_weights()):
            raise RecipeError(f"training.{key} needs whole weights, and {name} parts them: launch without {name}.")
    if recipe.training.get("class_weights") is not None and args.n_gpu > 1:
        raise RecipeError(
            f"training.class_weights: one process for {args.n_gpu} GPUs would weigh each GPU's part by itself: start "
            "one for each GPU with `accelerate launch`."
        )


def _parts_weights() -> str | None:
    """What shares out the weights among processes, as `accelerate launch` tells it."""
    names = {"ACCELERATE_USE_FSDP": "FSDP", "ACCELERATE_USE_DEEPSPEED": "DeepSpeed"}
    return next((name for variable, name in names.items() if parse_flag_from_env(variable)), None)


def wants_tensorboard(recipe: Recipe) -> bool:
    """TensorBoard is on unless the recipe's `training.report_to` says otherwise."""
    return "tensorboard" in _reports(recipe.training.get("report_to", "tensorboard"))


def _reports(value: str | list[str] | None) -> list[str]:
    names = [value] if isinstance(value, str) else list(value or [])
    if "all" in names:
        return get_available_reporting_integrations()
    return [name for name in names if name != "none"]


def load_tokenizer(recipe: Recipe) -> PreTrainedTokenizerBase:
    """The existing tokenizer that a recipe names in `tokenizer.path`."""
    path = recipe.tokenizer.path
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except Exception as error:  # of a broken file, whatever its reader meets there
        raise RecipeError(f"tokenizer.path: '{path}' cannot be loaded: {_first_line(error)}") from error
    if tokenizer.pad_token_id is None:
        raise RecipeError(f"tokenizer.path: '{path}' has no pad token, which batches need.")
    check_fast(recipe, tokenizer, f"tokenizer.path: '{path}'")
    return tokenizer


def build_tokenizer(recipe: Recipe, train_split: Any) -> PreTrainedTokenizerBase:
    """A tokenizer trained on the training split, as the recipe says."""
    section, options = recipe.tokenizer, TASK_OPTIONS[recipe.task]
    if recipe.model["type"] == "dan":
        options = options | {"template": "none"}  # a mean of words, not of marks around them
    if recipe.task == DENOISING:
        options = options | {"sentinels": number_of_sentinels(recipe.data)}
    texts = [CHARACTERS] if recipe.task == IN_CONTEXT else _texts(train_split, section.max_texts)
    return train_tokenizer(
        texts,
        section.kind,
        section.vocab_size,
        pattern=section.pattern,
        lowercase=section.lowercase,
        min_frequency=section.min_frequency,
        max_length=section.max_length,
        return_token_type_ids=recipe.model.get("type_vocab_size", 0) > 1,
        **options,
    )


def _texts(split: Any, max_texts: int | None) -> Iterator[str]:
    """The texts of all text columns, row by row, of the first rows where there is a bound; words are joined."""
    columns = [
        c for c in ("source", "target", "text", "text_pair", "tokens", "question", "context") if c in split.features
    ]
    split = split.select_columns(columns)
    if max_texts is not None:
        split = split.take(max_texts)
    for batch in split.iter(1000):
        for row in zip(*(batch[column] for column in columns), strict=True):
            yield from (text if isinstance(text, str) else " ".join(text) for text in row)


def label_names(recipe: Recipe, train_split: Any) -> list[str] | None:
    """The labels or tags of the training split, where it has any.

    Raises:
        RecipeError: when `model.num_labels` is less than their number, or tags mark no spans and `span_f1` is wanted.
    """
    if "tags" in train_split.features:
        names = list(train_split.features["tags"].feature.names)
        if "span_f1" in recipe.evaluation.metrics:
            check_spans(names)
        return names
    label = train_split.features.get("label")
    if label is None:
        return None
    if "f1_binary" in recipe.evaluation.metrics and label.num_classes != 2:
        raise RecipeError(
            f"evaluation.metrics: 'f1_binary' is of the second of two labels, and data.train has {label.num_classes}: "
            "choose 'f1'."
        )
    wanted = recipe.model.get("num_labels", label.num_classes)
    if wanted < label.num_classes:
        raise RecipeError(f"model.num_labels: {wanted} is less than the {label.num_classes} labels of data.train.")
    return list(label.names)


def build_model(
    recipe: Recipe,
    tokenizer: PreTrainedTokenizerBase,
    labels: list[str] | None = None,
    start: Start | None = None,
) -> PreTrainedModel:
    """The recipe's model with fresh weights, which depend on the recipe's seed alone.

    Args:
        recipe: the recipe.
        tokenizer: its tokenizer.
        labels: the names of the labels, where it has any.
        start: what `model.start_from` names: the configuration is then that one's, and `take_weights` its weights.

    Raises:
        RecipeError: when the tokenizer has more tokens than `model.vocab_size`, or a special token is missing.
    """
    if start is None:
        settings = {"vocab_size": len(tokenizer)} | model_settings(recipe)
    else:
        settings = start_settings(recipe, start, tokenizer)
    if settings["vocab_size"] < len(tokenizer):
        raise RecipeError(
            f"model.vocab_size: {settings['vocab_size']} is less than the {len(tokenizer)} tokens of the tokenizer."
        )
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        settings.setdefault(name, getattr(tokenizer, name))
    if recipe.model["type"] == "transformer":
        first = next((i for i in (settings["bos_token_id"], settings["pad_token_id"]) if i is not None), None)
        settings.setdefault("decoder_start_token_id", first)
        if settings["eos_token_id"] is None:
            raise RecipeError("tokenizer.path: it has no end-of-sentence token, so no text would end.")
    if labels is not None:
        labels = labels + [f"LABEL_{i}" for i in range(len(labels), settings.pop("num_labels", 0))]
        settings["id2label"] = dict(enumerate(labels))
        settings["label2id"] = {name: i for i, name in enumerate(labels)}
    config = model_config(recipe, settings)
    set_seed(recipe.training.get("seed", 42))
    model = getattr(regard.modeling, MODEL_CLASSES[recipe.task, recipe.model["type"]])(config)
    if recipe.model.get("freeze_embeddings"):
        model.get_input_embeddings().weight.requires_grad_(False)
    if recipe.task == QUESTION_ANSWERING:
        model.config.question_answering = recipe_settings(recipe)
    if model.can_generate():
        model.generation_config = generation_settings(recipe, model)
        model.generation_config.update(**({} if start is None else token_rules(start)))
    return model


def model_settings(recipe: Recipe) -> dict[str, Any]:
    """What a recipe says of its model's config: its section, and as many positions as its sequences take."""
    fields = {field.name for field in dataclasses.fields(_config_class(recipe))} | {"num_labels"}
    settings = {"max_position_embeddings": longest_sequence(recipe)} | recipe.model
    return {key: value for key, value in settings.items() if key in fields}


def model_config(recipe: Recipe, settings: dict[str, Any] | None = None) -> PreTrainedConfig:
    """The config of a recipe's model, by its `model_settings` where no others are given, or of what it starts from."""
    if settings is None and starts_from_weights(recipe):
        return read_start(recipe).config
    return _config_class(recipe)(**model_settings(recipe) if settings is None else settings)


def _config_class(recipe: Recipe) -> type[PreTrainedConfig]:
    return getattr(regard.modeling, CONFIG_CLASSES[recipe.model["type"]])


def longest_sequence(recipe: Recipe) -> int:
    """The most tokens that the recipe lets a sequence have."""
    data, new = recipe.data, recipe.evaluation.max_new_tokens
    if recipe.task in WRITING:
        return max(data.max_source_length, data.max_target_length, new)
    if recipe.task == DENOISING:
        return max(lengths_of(text_length(data), data))
    return data.max_length if recipe.task in (*LABELLING, QUESTION_ANSWERING) else data.block_size


def generation_settings(recipe: Recipe, model: PreTrainedModel) -> GenerationConfig:
    """How the saved model generates where nothing else is said: as it was evaluated."""
    ids = {
        name: getattr(model.config, name, None)
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    }
    settings = {name: value for name, value in ids.items() if value is not None}
    if recipe.task in WRITING:
        settings |= {"num_beams": recipe.evaluation.num_beams}
        if recipe.evaluation.no_repeat_ngram_size:
            settings["no_repeat_ngram_size"] = recipe.evaluation.no_repeat_ngram_size
        if recipe.evaluation.num_beams > 1:
            settings["length_penalty"] = recipe.evaluation.length_penalty
    return GenerationConfig(max_new_tokens=recipe.evaluation.max_new_tokens, **settings)


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
