"""The card's tables, each from records alone: a value that was not recorded has no row."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from regard.model_cards.records import Records, own_tokenizer, split_sources, without_machine
from regard.train.callbacks import duration
from regard.train.sections import DENOISING, IN_CONTEXT, PAIR, QUESTION_ANSWERING, REGRESSION, WRITING

METRIC_NAMES = {
    "loss": "loss (nats)",
    "perplexity": "perplexity",
    "word_perplexity": "perplexity per word",
    "bits_per_byte": "bits per byte",
    "gap_perplexity": "perplexity in the gaps",
    "pseudo_perplexity": "pseudo-perplexity",
    "bleu": "BLEU",
    "bleu_moses_lowercase": "BLEU (Moses tokens, lower-cased)",
    "chrf": "chrF",
    "exact_match": "exact match",
    "exact_match_0": "exact match, no example",
    "exact_match_1": "1 example",
    "exact_match_2": "2 examples",
    "exact_match_4": "4 examples",
    "exact_match_8": "8 examples",
    "squared_error": "squared error, mean of all",
    "over_least_squares": "error over that of least squares, 2d examples",
    "over_least_squares_noisy": "the same, of values with noise",
    "over_ridge": "error over that of ridge, 2d examples",
    "squad_exact_match": "exact match (SQuAD)",
    "squad_exact_match_has_answer": "exact match, with an answer",
    "squad_exact_match_no_answer": "exact match, without",
    "squad_f1": "F1 (SQuAD)",
    "squad_f1_has_answer": "F1, with an answer",
    "squad_f1_no_answer": "F1, without",
    "phone_error_rate": "phone error rate (%)",
    "word_error_rate": "word error rate (%)",
    "accuracy": "accuracy",
    "f1": "F1 (macro)",
    "f1_binary": "F1 (of the second label)",
    "matthews_correlation": "Matthews correlation",
    "tag_accuracy": "tag accuracy",
    "span_f1": "span F1",
    "span_precision": "span precision",
    "span_recall": "span recall",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
}
DIGITS = dict.fromkeys(("bleu", "bleu_moses_lowercase", "chrf", "rouge1", "rouge2", "rougeL"), 2)
DIGITS |= dict.fromkeys(("perplexity", "word_perplexity", "gap_perplexity", "pseudo_perplexity"), 2)
DIGITS |= {"bits_per_byte": 3} | dict.fromkeys(("phone_error_rate", "word_error_rate"), 2)
DIGITS |= {name: 2 for name in METRIC_NAMES if name.startswith("squad_")}
WRITES_TOKENS = ("ForCausalLM", "ForMaskedLM", "ForConditionalGeneration")
LONGEST_SAMPLE = 400  # characters
DENOISING_KEYS = ("block_size", "noise_density", "mean_span_length", "denoising_target")
MASKING = ("mask_probability", "mask_share", "random_share", "whole_word_masking", "mask_seed")
VECTOR_FIELDS = (
    "architecture",
    "objective",
    "num_negatives",
    "negative_exponent",
    "window",
    "symmetric",
    "subsample",
    "min_count",
    "x_max",
    "alpha",
)
SHARES = (
    "exact_match",
    *(f"exact_match_{shots}" for shots in (0, 1, 2, 4, 8)),
    "accuracy",
    "tag_accuracy",
    "span_f1",
    "span_precision",
    "span_recall",
)


def table(header: Sequence[str], rows: Iterable[Sequence[Any]], numbers_from: int | None = None) -> str:
    """A Markdown table; columns from `numbers_from` on are set to the right. Empty without rows."""
    rows = [[cell(value) for value in row] for row in rows]
    if not rows:
        return ""
    right = len(header) if numbers_from is None else numbers_from
    rule = ["---" if i < right else "---:" for i in range(len(header))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(header), rule, *rows])


def cell(value: Any) -> str:
    """Text that cannot break a table: one line, without bars or mark-up of its own, links and formulas among it."""
    text = " ".join(str(value).split())
    text = re.sub(r"[\\|*`\[\]~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", text)  # "a_b" has no mark-up, "_a_" has
    text = re.sub(r"&(?!nbsp;)(?=#?\w+;)", "&amp;", text)  # a text's own "&lt;" is no "<"; nbsp indents our own rows
    return text.replace("<", "&lt;")


def number(value: Any, digits: int = 3) -> str:
    """A number as a reader wants it: 29,000, 0.001, 1.234, 1e-09."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    return f"{value:,.{digits}f}" if abs(value) >= 1 else f"{value:.3g}"


def measure(name: str, value: Any) -> str:
    if not isinstance(value, int | float):
        return str(value)
    if name in SHARES:
        return f"{value:.1%}"
    return f"{value:,.{DIGITS.get(name, 3)}f}"


def split_name(key: str) -> str:
    """`test:2016_flickr` is the test set 2016_flickr."""
    return key.replace(":", ": ")


def result_table(evaluation: dict[str, dict[str, Any]]) -> str:
    shown = [name for name in METRIC_NAMES if any(name in measures for measures in evaluation.values())]
    rows = [
        [split_name(split), *(measure(name, measures[name]) if name in measures else "" for name in shown)]
        for split, measures in evaluation.items()
    ]
    return table(["split", *(METRIC_NAMES[name] for name in shown)], rows if shown else [], numbers_from=1)


def lower_is_better(evaluation: dict[str, dict[str, Any]]) -> str:
    """The measures in the result table of which less is better: "loss (nats), perplexity"; empty without any."""
    from regard.evaluation.metrics import LOWER_IS_BETTER  # takes seconds

    shown = [name for name in METRIC_NAMES if any(name in measures for measures in evaluation.values())]
    names = [METRIC_NAMES[name] for name in shown if name in LOWER_IS_BETTER]
    return ("; " if any("," in name for name in names) else ", ").join(names)


def architecture_table(records: Records) -> str:
    config = records.config
    kind = (config.architectures or [None])[0] or records.metrics.get("model", {}).get("class") or ""
    rows = [
        ("class", kind or None),
        ("parameters", number(records.metrics.get("model", {}).get("parameters"))),
        ("layers", _layers(config)),
        ("width", getattr(config, "hidden_size", None)),
        ("attention heads", _heads(config)),
        ("feed-forward width", number(getattr(config, "intermediate_size", None))),
        ("activation", _activation(config)),
        *_vector_fields(config),
        ("norm", _norm(config)),
        ("positions", getattr(config, "position_embedding_type", None)),
        ("coordinates of a point", getattr(config, "input_size", None)),
        ("vocabulary", number(getattr(config, "vocab_size", None)) if not hasattr(config, "input_size") else None),
        ("tokenizer", _tokenizer(own_tokenizer(records))),
        ("weights begun from", first_weights(records)),
        ("embeddings begun from", first_vectors(records)),
        (
            "embeddings tied to the output",
            {True: "yes", False: "no"}.get(config.tie_word_embeddings) if kind.endswith(WRITES_TOKENS) else None,
        ),
    ]
    return table(["", ""], [row for row in rows if row[1] not in (None, "None")])


def first_vectors(records: Records) -> str | None:
    """The word vectors that the token embeddings began from, and of how many tokens; None where they were drawn."""
    start = records.metrics.get("model", {}).get("embeddings")
    if not start:
        return None
    tokens = start["found"] + start["missing"]
    return f"{without_machine(start['source'])}: {number(start['found'])} of {number(tokens)} tokens"


def first_weights(records: Records) -> str | None:
    """The model whose weights this one began from, and what of its own it began afresh; None where all was drawn."""
    start = records.start
    if not start:
        return None
    fresh = f", the head ({', '.join(start['fresh'])}) afresh" if start["head"] == "fresh" else ""
    return f"{without_machine(start['source'])}{fresh}"


def _vector_fields(config: Any) -> list[tuple[str, Any]]:
    """How word vectors are learnt, under the configuration's own names."""
    sampled = getattr(config, "objective", None) == "negative-sampling"
    fields = [(name, getattr(config, name, None)) for name in VECTOR_FIELDS]
    return [(name, number(value)) for name, value in fields if sampled or "negative" not in name]


def _layers(config: Any) -> str | None:
    if config.is_encoder_decoder:
        return f"{config.encoder_layers} encoder, {config.decoder_layers} decoder"
    return getattr(config, "num_hidden_layers", None)


def _heads(config: Any) -> str | None:
    heads = getattr(config, "num_attention_heads", None)
    shared = getattr(config, "num_key_value_heads", heads)
    if heads is None or shared in (None, heads):
        return heads
    return f"{heads}, {shared} for keys and values"


def _activation(config: Any) -> str | None:
    name = getattr(config, "hidden_act", None)
    return f"{name}, gated" if getattr(config, "gated_mlp", False) else name


def _norm(config: Any) -> str | None:
    kind, position = getattr(config, "norm_type", None), getattr(config, "norm_position", None)
    if kind is None:
        return None
    return f"{'RMSNorm' if kind == 'rmsnorm' else 'LayerNorm'}, {position}-norm"


def _tokenizer(section: dict[str, Any]) -> str | None:
    kind = section.get("kind")
    return f"{kind}, lower-cased" if kind and section.get("lowercase") else kind


def setting_table(records: Records) -> str:
    """The recipe's settings that a reader asks for first, under the recipe's own names."""
    by_tokens = records.section("data").get("max_tokens_per_batch") is not None
    lm, writes = records.task in ("causal-lm", "masked-lm"), records.task in WRITING
    by_steps = (records.section("training").get("max_steps") or -1) > 0  # then epochs settle nothing
    keys = (
        ("training", ("max_steps",) if by_steps else ("num_train_epochs",)),
        ("data", ("max_tokens_per_batch",)),
        ("training", () if by_tokens else ("per_device_train_batch_size",)),
        ("training", ("gradient_accumulation_steps",)),
        ("data", ("block_size", "packing") if lm else ()),
        ("data", MASKING if records.task == "masked-lm" else ()),
        ("data", ("block_size", "tasks", "learn_from") if records.task == IN_CONTEXT else ()),
        ("data", ("block_size", "noise") if records.task == REGRESSION else ()),
        ("data", DENOISING_KEYS if records.task == DENOISING else ()),
        ("data", ("max_length", "doc_stride") if records.task == QUESTION_ANSWERING else ()),
        ("evaluation", ("max_answer_length",) if records.task == QUESTION_ANSWERING else ()),
        ("data", ("bpe_dropout",) if records.section("data").get("bpe_dropout") else ()),
        ("training", ("learning_rate", "lr_scheduler_type", "warmup_steps", "warmup_ratio", "optim", "optim_args")),
        ("training", ("min_learning_rate", "engine", "workers")),
        ("training", ("adam_beta1", "adam_beta2", "adam_epsilon", "weight_decay", "max_grad_norm")),
        ("model", ("dropout", "attention_dropout", "classifier_dropout", "label_smoothing")),
        ("training", ("freeze_backbone", "layer_lr_decay", "early_stopping_patience", "metric_for_best_model")),
        ("training", ("class_weights", "lora")),
        ("training", ("bf16", "fp16", "seed")),
        ("evaluation", ("average_checkpoints",) if records.section("evaluation").get("average_checkpoints") else ()),
        ("data", ("max_source_length", "max_target_length") if records.task == "summarization" else ()),
        ("data", ("label_all_pieces",) if records.task == "token-classification" else ()),
        ("evaluation", ("num_beams", "length_penalty", "max_new_tokens") if writes else ()),
        ("evaluation", ("no_repeat_ngram_size",) if records.section("evaluation").get("no_repeat_ngram_size") else ()),
    )
    rows = []
    for name, chosen in keys:
        section = records.section(name)
        rows += [(f"{name}.{key}", _setting(section[key])) for key in chosen if section.get(key) is not None]
    return table(["setting", "value"], rows)


def _setting(value: Any) -> str:
    """`r 8, lora_alpha 16` of several under one name."""
    if not isinstance(value, dict):
        return number(value)
    return ", ".join(f"{key} {number(one)}" for key, one in value.items() if one is not None)


def data_table(records: Records) -> str:
    """Each split: where it is from, and what became of its rows."""
    recorded = {k: v for k, v in records.metrics.get("data", {}).items() if isinstance(v, dict)}
    sources = split_sources(records.section("data"))
    counts = ("rows", "also_in_train", "examples", "tokens", "words", "empty", "dropped", "truncated", "lost_words")
    counts += ("pad_share",)
    shown = [key for key in counts if any(split.get(key) for split in recorded.values())]
    rows = []
    for split in [*recorded, *(name for name in sources if name not in recorded)]:
        values = [recorded.get(split, {}).get(key) for key in shown]
        cells = ["" if v is None else f"{v:.1%}" if isinstance(v, float) else number(v) for v in values]
        rows.append([split_name(split), sources.get(split, ""), *cells])
    names = {"pad_share": "pads in batches", "dropped": "too long, left out", "truncated": "cut"}
    names |= {"lost_words": "words cut off", "also_in_train": "also in train"}
    return table(["split", "from", *(names.get(key, key) for key in shown)], rows, numbers_from=2)


def sample_table(samples: list[dict[str, str]], parts: Sequence[str] = ("source",)) -> str:
    """Of a document the beginning is shown.

    Args:
        samples: as a run recorded them.
        parts: the names of the texts that were read together, a column each.
    """
    rows = []
    for sample in samples:
        texts = sample["source"].split(PAIR, len(parts) - 1)
        rows.append((*map(_beginning, texts), sample["target"], sample["prediction"]))
    return table([*parts, "reference", "output"], rows)


def _beginning(text: str) -> str:
    return text if len(text) <= LONGEST_SAMPLE else text[:LONGEST_SAMPLE].rsplit(maxsplit=1)[0] + " …"


def environment_table(records: Records) -> str:
    training, place = records.metrics.get("training", {}), records.metrics.get("environment", {})
    smoothed = bool(getattr(records.config, "label_smoothing", 0))
    unit = "nats, with smoothed labels" if smoothed else "nats"
    if "pairs" in training:  # GloVe
        unit = "weighted squared error of a pair"
    if records.task == REGRESSION:
        unit = "squared error"
    steps = training.get("averaged_checkpoints")
    processes = training.get("processes") or 1
    # Workers are threads themselves: how many torch would have taken says nothing beside them.
    threads = None if training.get("workers") else place.get("threads")
    versions = [f"{name} {place[name]}" for name in ("python", "torch", "transformers", "regard") if place.get(name)]
    rows = [
        ("time of training", duration(training["seconds"]) if training.get("seconds") else None),
        ("weights trained", training.get("trained_parameters")),
        ("steps", training.get("steps")),
        ("epochs", training.get("epochs")),
        ("words", training.get("words")),
        ("words per second", round(training.get("words_per_second") or 0)),
        ("pairs", training.get("pairs")),
        ("pairs per second", round(training.get("pairs_per_second") or 0)),
        ("workers, each a thread", training.get("workers")),
        ("tokens", training.get("tokens")),
        ("tokens per second", round(training.get("tokens_per_second") or 0)),
        (f"last training loss ({unit})", training.get("final_loss")),
        ("weights", f"mean of the checkpoints at steps {', '.join(map(number, steps))}" if steps else None),
        ("weights", _best(training)),
        ("GPU", place.get("gpu")),
        ("processor", place.get("cpu")),
        ("cores of the machine", place.get("cores")),
        ("processes", processes if processes > 1 else None),
        ("threads" if processes == 1 else "threads of each process", threads),
        ("versions", ", ".join(versions)),
        ("date", place.get("date")),
    ]
    return table(["", ""], [(name, number(value)) for name, value in rows if value])


def _best(training: dict[str, Any]) -> str | None:
    if training.get("best_step") is None:
        return None
    return f"the best by {training['best_by']}, at step {number(training['best_step'])}"


def computing(records: Records) -> str:
    """On what the training ran and for how long, as an estimate of its emissions takes it; empty where that is not
    known."""
    training, place = records.metrics.get("training", {}), records.metrics.get("environment", {})
    hardware = place.get("gpu") or place.get("cpu")
    if not training.get("seconds") or not hardware:
        return ""
    processes = training.get("processes") or 1
    threads = training.get("workers") or place.get("threads")  # of each process
    if place.get("gpu"):
        on = f"{processes} × {hardware}"
    else:
        on = f"{hardware}, {_threads(processes, threads)}" if threads else hardware
    hours = training["seconds"] / 3600
    return f"{f'{hours:,.2f}' if hours >= 0.005 else f'{hours:.1g}'} hours on {on}"


def _threads(processes: int, threads: int) -> str:
    each = f"{threads} thread{'' if threads == 1 else 's'}"
    return each if processes == 1 else f"{processes} processes of {each}"
