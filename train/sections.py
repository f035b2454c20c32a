"""The sections of a recipe, and what each task asks of them."""

import dataclasses
import os
import re
from dataclasses import dataclass, field
from typing import Any

from regard.evaluation.files import replacing
from regard.evaluation.yaml_io import write_yaml

TOKENIZER_KINDS = ("byte-bpe", "wordpiece", "unigram", "word", "char")
PACKINGS = ("blocks", "documents")
NUM_SPECIAL_TOKENS = 5  # <pad> <s> </s> <unk> <mask>
WORD_VECTORS = "word-vectors"  # the task
QUESTION_ANSWERING, DENOISING = "question-answering", "denoising"  # and two more
IN_CONTEXT, REGRESSION = "in-context", "in-context-regression"
PAIR = " ||| "  # between the two texts of a sample that is recorded
WORD_SETS = ("similarity", "analogies", "categories")  # what word vectors are measured on
BUILTIN_DATA = ("builtin:turkish", "builtin:repeats")
LEARN_FROM = ("answers", "all")
HOLD_OUT = re.compile(r"(\d+(?:\.\d+)?)%(?:, at most (\d+))?|(\d+)")  # "5%", "5%, at most 1000" or "1000"

CONFIG_CLASSES = {
    "transformer": "TransformerConfig",
    "encoder": "TransformerEncoderConfig",
    "decoder": "TransformerDecoderConfig",
    "word2vec": "Word2VecConfig",
    "glove": "GloVeConfig",
    "dan": "DANConfig",
    "in-context-regression": "InContextRegressionConfig",
}


@dataclass(frozen=True)
class Task:
    """What a task asks of the rest of the recipe."""

    model_types: tuple[str, ...]
    roles: tuple[str, ...]
    optional_roles: tuple[str, ...]
    metrics: tuple[str, ...]


TEXT_LIKELIHOODS = ("word_perplexity", "bits_per_byte")  # by a measure of the text that no tokenizer changes
TASKS = {
    "translation": Task(
        ("transformer",),
        ("source", "target"),
        (),
        (
            "bleu",
            "bleu_moses_lowercase",
            "chrf",
            "exact_match",
            "phone_error_rate",
            "word_error_rate",
            "perplexity",
        ),
    ),
    "causal-lm": Task(("decoder",), ("text",), (), ("perplexity", *TEXT_LIKELIHOODS)),
    "masked-lm": Task(("encoder",), ("text",), (), ("perplexity", "pseudo_perplexity")),
    "sequence-classification": Task(
        ("encoder", "decoder", "dan"),
        ("text", "label"),
        ("text_pair",),
        ("accuracy", "f1", "f1_binary", "matthews_correlation"),
    ),
    QUESTION_ANSWERING: Task(
        ("encoder",),
        ("question", "context", "answer", "answer_start"),
        (),
        ("squad_exact_match", "squad_f1"),
    ),
    DENOISING: Task(("transformer",), ("text",), (), ("perplexity", "gap_perplexity")),
    "token-classification": Task(("encoder",), ("tokens", "tags"), (), ("tag_accuracy", "span_f1")),
    "summarization": Task(
        ("transformer",), ("source", "target"), (), ("rouge1", "rouge2", "rougeL", "exact_match", "perplexity")
    ),
    IN_CONTEXT: Task(("decoder",), (), (), ("perplexity", "exact_match_by_examples")),
    REGRESSION: Task(("in-context-regression",), (), (), ("over_least_squares",)),
    WORD_VECTORS: Task(("word2vec", "glove"), ("text",), (), ()),
}
LABELLING = ("sequence-classification", "token-classification")  # tasks of one label a text, or one a word
WRITING = ("translation", "summarization")  # tasks of pairs, whose target is written by beam search

# Keys of `model` for every type with token embeddings; they are no fields of its config, but for one of a DAN's.
EMBEDDING_KEYS: dict[str, Any] = {"embeddings": str | None, "freeze_embeddings": bool}
# And the folder or repository of a model whose weights it begins from (`regard.train.start_from`).
START_KEYS: dict[str, Any] = {"start_from": str | None}
# What a recipe may then set anew: fields of the config that no weight depends on. Computed positions are any number.
WEIGHTLESS = (
    "dropout", "attention_dropout", "activation_dropout", "classifier_dropout", "word_dropout", "label_smoothing",
    "classifier_pooling",
    "initializer_range", "use_cache", "freeze_embeddings", "num_labels", "max_position_embeddings",
)  # fmt: skip
# For word vectors: the folder of a model that is trained on.
VECTOR_MODEL_KEYS: dict[str, Any] = {"start_from": str | None}

# Fields of TrainingArguments that something else decides.
RESERVED_TRAINING_KEYS = {
    "output_dir": "the run's folder is chosen with --output",
    "resume_from_checkpoint": "a run is resumed with --resume, from its last complete checkpoint",
    "hub_token": "a secret has no place in a recipe, which is published: log in with `hf auth login`, or set HF_TOKEN",
    "do_train": "`regard train` trains",
    "do_eval": "`regard train` evaluates when training.eval_strategy says so, and at the end",
    "do_predict": "`regard evaluate` predicts",
}


# Keys of `training` beside those of TrainingArguments: how weights that are there already are trained further.
FINE_TUNING_KEYS: dict[str, Any] = {
    "freeze_backbone": bool,
    "layer_lr_decay": float | None,
    "class_weights": dict[str, float] | str | None,
    "early_stopping_patience": int | None,
    "lora": dict[str, Any] | None,
}

# The keys of `training` for word vectors, which Trainer does not train: those of TrainingArguments keep their meaning.
VECTOR_TRAINING_KEYS: dict[str, Any] = {
    "num_train_epochs": int,
    "learning_rate": float,
    "min_learning_rate": float,
    "per_device_train_batch_size": int,
    "seed": int,
    "workers": int | None,
    "engine": str,
    "logging_steps": int | None,
    "save_strategy": str,
    "save_steps": int,
    "save_total_limit": int | None,
}
# Their values where a recipe gives none, and what the published programs train otherwise than skip-gram.
VECTOR_DEFAULTS: dict[str, Any] = {
    "num_train_epochs": 5,
    "learning_rate": 0.025,
    "min_learning_rate": 1e-4,
    "seed": 42,
    "workers": None,
    "engine": "numba",
    "save_strategy": "epoch",
    "save_total_limit": 2,
}
OTHER_VECTOR_DEFAULTS: dict[str, dict[str, Any]] = {
    "cbow": {"learning_rate": 0.05},
    "glove": {"num_train_epochs": 25, "learning_rate": 0.05},
}


class RecipeError(ValueError):
    """A recipe, or an override on the command line, that cannot work."""


@dataclass
class TokenizerSection:
    """How the tokenizer is trained from the training split (from its first `max_texts` rows), or which existing one is
    taken. `pattern` is a regular expression of what a token of kind `word` is. For word vectors `vocab_size` is the
    most words that have a vector; `null` sets no bound."""

    kind: str = "byte-bpe"
    pattern: str | None = None
    vocab_size: int | None = 8000
    lowercase: bool = False
    min_frequency: int = 2
    max_length: int = 512
    max_texts: int | None = None
    path: str | None = None


@dataclass
class DataSection:
    """Where the examples are, which columns play which role, and how they become batches.

    A split is a local file, or a split of the data set that `path` names; `validation` may also be a share (`5%`, or
    `5%, at most 1000`) or a number (`1000`) of training rows to hold out, and so may `test`. Which rows, `split_seed`
    decides; rows with the same value in the column `split_by` are held out together or not at all.
    `max_train_examples` are drawn from the training split by `training.data_seed` or else `training.seed`: of each
    label as many, and with one seed fewer are always some of the more. `target_language` is the code of the language
    that is written, such as `de`, for a metric that goes by it. With `label_all_pieces` a tagger learns from every
    piece of a word and not from the first alone.

    Of a masked model's tokens `mask_probability` are chosen (or, with `whole_word_masking`, whole words); of these
    `mask_share` become the mask and `random_share` another token, drawn by `mask_seed`, or the training's seed. A
    denoiser's text loses `noise_density` of its tokens, in spans of `mean_span_length` on average, and it writes what
    was lost (`denoising_target` "spans") or the whole text ("text"). A context that is longer than `max_length` is
    read in windows that share `doc_stride` tokens.

    Of in-context tasks a split is a number of rows, each of `block_size` tokens of examples under one hidden rule;
    `tasks` are the names of the tasks with their weights, of which 0 or null leaves a task out, and all of them alike
    where none is named; `learn_from` says whether the loss is over the answers or over all characters. Of in-context
    regression a row has `block_size` examples, whose values have `noise` of that standard deviation. Of the training
    split of either at most 2,000 rows are measured.

    For word vectors, `phrases` are thresholds: in a pass for each, pairs of words with a higher score become one, as
    `regard.train.phrases` explains; the run's tokenizer does not make them.
    """

    train: str
    path: str | None = None
    name: str | None = None
    validation: str | None = None
    test: str | dict[str, str] | None = None
    split_by: str | None = None
    split_seed: int = 0
    columns: dict[str, str] = field(default_factory=dict)
    target_language: str | None = None
    streaming: bool = False
    max_train_examples: int | None = None
    max_tokens_per_batch: int | None = None
    max_source_length: int = 128
    max_target_length: int = 128
    max_length: int = 512
    doc_stride: int = 128
    block_size: int = 128
    packing: str = "blocks"
    mask_probability: float = 0.15
    mask_share: float = 0.8
    random_share: float = 0.1
    whole_word_masking: bool = False
    mask_seed: int | None = None
    noise_density: float = 0.15
    mean_span_length: float = 3.0
    denoising_target: str = "spans"
    bpe_dropout: float = 0.0
    label_all_pieces: bool = False
    tasks: dict[str, float | None] = field(default_factory=dict)
    learn_from: str = "answers"
    noise: float = 0.0
    phrases: list[float] = field(default_factory=list)
    phrase_delta: float = 5.0

    def split_names(self) -> list[str]:
        """Those that are given: "train", "validation" and "test", or "test:<name>" for each of several test sets."""
        names = ["train"] if self.validation is None else ["train", "validation"]
        if isinstance(self.test, dict):
            return names + [f"test:{name}" for name in self.test]
        return names if self.test is None else [*names, "test"]


@dataclass
class EvaluationSection:
    """What is measured at the end, and how text is generated for it.

    With `group_references`, the rows of a split that share a source are one item with several right answers: it is
    translated once, and the metrics of text take all its references. The loss is over all rows either way. With
    `no_repeat_ngram_size` no run of so many tokens is written twice in a text; 0 allows all. `errors` is how many
    wrong labels are shown, those first of which the model was surest. A `stride` is how many tokens of a causal
    language model's row are judged, each with at least block_size - stride before it; without one rows do not overlap,
    and the first tokens of each have little before them. With `induction_steps` a decoder's induction heads are
    measured every so many steps of its training (`regard.train.induction`).

    Word vectors are measured on the files of `similarity`, `analogies` and `categories`, each under a name. The rest
    is as `regard.evaluation.vectors_report.evaluate_vectors` explains.
    """

    metrics: list[str] = field(default_factory=list)
    num_beams: int = 4
    length_penalty: float = 1.0
    max_new_tokens: int = 128
    no_repeat_ngram_size: int = 0
    batch_size: int = 32
    average_checkpoints: int = 0
    samples: int = 10
    errors: int = 10
    group_references: bool = False
    stride: int | None = None
    pseudo_perplexity_rows: int = 32
    induction_steps: int | None = None
    max_answer_length: int = 30
    similarity: dict[str, str] = field(default_factory=dict)
    analogies: dict[str, str] = field(default_factory=dict)
    categories: dict[str, str] = field(default_factory=dict)
    fold_case: bool = True
    analogy_method: str = "add"
    analogy_vocabulary: int | None = None


@dataclass
class Recipe:
    """A checked recipe. `model` and `training` stay dictionaries: their keys are those of the config class that
    `model["type"]` names, and of `transformers.TrainingArguments`; and of weights that are there already, `START_KEYS`
    and `FINE_TUNING_KEYS`."""

    name: str
    task: str
    model: dict[str, Any]
    data: DataSection
    tokenizer: TokenizerSection = field(default_factory=TokenizerSection)
    training: dict[str, Any] = field(default_factory=dict)
    evaluation: EvaluationSection = field(default_factory=EvaluationSection)

    def to_dict(self) -> dict[str, Any]:
        """The recipe as plain dictionaries, in the order of its fields. Of a tokenizer that is there already no
        settings are named, since none of them made it."""
        values = dataclasses.asdict(self)
        if self.task != WORD_VECTORS and (self.tokenizer.path is not None or self.model.get("start_from") is not None):
            values["tokenizer"] = {"path": self.tokenizer.path}
        return values

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the recipe as YAML."""
        with replacing(path) as partial:
            partial.write_text(write_yaml(self.to_dict()), encoding="utf-8")


def training_of(recipe: Recipe) -> dict[str, Any]:
    """The section `training` of a recipe of word vectors, with what it leaves out."""
    kind = "glove" if recipe.model["type"] == "glove" else recipe.model.get("architecture")
    return VECTOR_DEFAULTS | OTHER_VECTOR_DEFAULTS.get(kind, {}) | recipe.training
