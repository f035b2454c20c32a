"""What a card says in words, by task. Nothing here is a number: those come from records."""

import re
from dataclasses import dataclass

from regard.model_cards.records import Records
from regard.train.sections import WORD_VECTORS


@dataclass(frozen=True)
class TaskText:
    """Words for a task.

    Attributes:
        what: the first sentence's subject, with places for two languages; `what_alone` has none.
        pipeline: the Hub's name of the task.
        auto_class: what loads the model.
        use: the lines of the snippet after loading.
        purpose, not_for, limits: what a user should know.
        samples: a line above the samples.
    """

    what: str = ""
    what_alone: str = "A Transformer"
    pipeline: str | None = None
    auto_class: str = "AutoModel"
    use: tuple[str, ...] = (
        'inputs = tokenizer("A text.", return_tensors="pt")',
        "print(model(**inputs).last_hidden_state.shape)",
    )
    purpose: str = "teaching, comparing design choices, and as a start for fine-tuning"
    not_for: str = "decisions about people, or any use in which an error does harm"
    limits: tuple[str, ...] = (
        "It knows nothing but its training data, and repeats what is wrong or one-sided there.",
        "It was not examined for bias or for harmful output.",
    )
    samples: str = ""


_BASE = TaskText()

LANGUAGES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "it": "Italian",
    "nl": "Dutch",
    "pl": "Polish",
    "pt": "Portuguese",
    "ru": "Russian",
    "tr": "Turkish",
}
"""Of other languages the code is shown."""

TASK_TEXTS = {
    "translation": TaskText(
        what="A Transformer that translates from {} to {}",
        what_alone="A Transformer that translates",
        pipeline="translation",
        auto_class="AutoModelForSeq2SeqLM",
        use=(
            'inputs = tokenizer({text}, return_tensors="pt")',
            "output = model.generate(**inputs{settings})",
            "print(tokenizer.decode(output[0], skip_special_tokens=True))",
        ),
        purpose="text of the kind it was trained on, as a baseline for that data, and for taking a small model apart",
        not_for="other languages and kinds of text, whole documents, or any use where a wrong translation does harm",
        limits=(
            "Sentences are translated one by one: nothing is carried over from the one before.",
            "Words and constructions that the training data lack come out wrong, and just as fluent.",
            *_BASE.limits,
        ),
        samples="Taken at even distances from the evaluation data, not chosen.",
    ),
    "causal-lm": TaskText(
        what_alone="A Transformer decoder that continues text",
        pipeline="text-generation",
        auto_class="AutoModelForCausalLM",
        use=(
            'inputs = tokenizer({text}, return_tensors="pt")',
            "output = model.generate(**inputs, do_sample=True, top_k=0{settings})",
            "print(tokenizer.decode(output[0], skip_special_tokens=True))",
        ),
        purpose="continuing text of the kind it was trained on, comparing design choices, and fine-tuning",
        not_for="answering questions, stating facts, following instructions, or any use in which wrong text does harm",
        limits=("It continues text; what it writes is not checked against anything.", *_BASE.limits),
        samples="Sampled, not chosen.",
    ),
    "masked-lm": TaskText(
        what_alone="A Transformer encoder that fills in masked tokens",
        pipeline="fill-mask",
        auto_class="AutoModelForMaskedLM",
        use=(
            'inputs = tokenizer(f"A text with a {tokenizer.mask_token} in it.", return_tensors="pt")',
            "masked = inputs.input_ids == tokenizer.mask_token_id",
            "print(tokenizer.decode(model(**inputs).logits[masked].argmax(-1)))",
        ),
        purpose="fine-tuning on classification and tagging, and looking into a small encoder",
        not_for="generating text, or use as it is as a classifier or a search engine",
    ),
    "sequence-classification": TaskText(
        what_alone="A Transformer that classifies texts",
        pipeline="text-classification",
        auto_class="AutoModelForSequenceClassification",
        use=(
            'inputs = tokenizer({text}, return_tensors="pt")',
            "print(model.config.id2label[model(**inputs).logits.argmax(-1).item()])",
        ),
        purpose="texts of the kind it was trained on, as a baseline for that data, and comparing design choices",
        not_for="other kinds of text, other sets of labels, or decisions about people",
        limits=("It gives one of its labels to any input, sensible or not.", *_BASE.limits),
        samples="Taken at even distances from the evaluation data, not chosen.",
    ),
    WORD_VECTORS: TaskText(
        what_alone="Word vectors",
        pipeline="feature-extraction",
        use=(
            "print(model.index_to_key[:10])  # the most frequent words",
            "print(model.most_similar(model.index_to_key[0], topn=5))",
        ),
        purpose="finding words of like use, as the first layer of a small model, and teaching",
        not_for="meaning in context, words outside its vocabulary, or decisions about people",
        limits=(
            "A word has one vector, whatever it means in its place; a word that is not in the vocabulary has none.",
            "Words of like use are near each other, opposites among them.",
            "The vectors hold the associations of their text, also those about people.",
            "They were not examined for bias.",
        ),
    ),
}


def snippet(records: Records, repo_id: str | None = None, revision: str | None = None) -> str:
    """Python that loads the run, from its folder or from the Hub, and uses it: to be pasted as it is."""
    text = TASK_TEXTS.get(records.task or "", _BASE)
    samples = records.metrics.get("samples") or [{}]
    source = samples[0].get("source") or "Once upon a time"
    settings = "".join(f", {key}={value}" for key, value in decoding(records).items())
    words = records.task == WORD_VECTORS  # which need no tokenizer
    place = [f"path = {repr_text(f'runs/{records.folder.resolve().name}')}  # the run's folder, or its id on the Hub"]
    if repo_id is not None:
        pin = "  # better the id of a commit, which never changes"
        place = [f"path = {repr_text(repo_id)}", f"revision = {repr_text(revision or 'main')}{pin}"]
    arguments = ["path", *(["revision=revision"] if repo_id is not None else [])]
    loading = ", ".join([*arguments, *(["trust_remote_code=True"] if records.carries_code else [])])
    filled = [line.replace("{text}", repr_text(source)).replace("{settings}", settings) for line in text.use]
    return "\n".join(
        [
            f"from transformers import {text.auto_class}{'' if words else ', AutoTokenizer'}",
            "",
            *place,
            *([] if words else [f"tokenizer = AutoTokenizer.from_pretrained({loading})"]),
            f"model = {text.auto_class}.from_pretrained({loading})",
            "",
            *filled,
        ]
    )


def limits(records: Records) -> list[str]:
    """What the records say of how much text it has seen at once."""
    data, config = records.section("data"), records.config
    if records.task == "translation" and {"max_source_length", "max_target_length"} <= data.keys():
        lengths = data["max_source_length"], data["max_target_length"]
        found = [f"It was trained on sources of up to {lengths[0]:,} tokens and targets of up to {lengths[1]:,}."]
    elif records.task in ("causal-lm", "masked-lm") and data.get("block_size"):
        found = [f"It was trained on pieces of up to {data['block_size']:,} tokens: longer ones are new to it."]
    elif records.task == "sequence-classification" and data.get("max_length"):
        found = [f"It was trained on the first {data['max_length']:,} tokens of a text."]
    else:
        found = []
    if getattr(config, "position_embedding_type", None) == "learned":
        found.append(f"It has positions for {config.max_position_embeddings:,} tokens, and reads no more.")
    return found


def decoding(records: Records) -> dict[str, int | float]:
    """The settings of `generate` with which the recorded texts were written, but for those that are the library's."""
    evaluation = records.section("evaluation")
    if records.task != "translation":
        keys = ["max_new_tokens"]
    elif evaluation.get("num_beams") == 1 or evaluation.get("length_penalty") == 1:
        keys = ["num_beams", "max_new_tokens"]
    else:
        keys = ["num_beams", "length_penalty", "max_new_tokens"]
    return {key: evaluation[key] for key in keys if evaluation.get(key) is not None}


def repr_text(text: str) -> str:
    """A Python string in double quotes, on one line."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{inner}"'


def language_codes(records: Records) -> list[str]:
    """The languages of a translation, where its columns are named by two-letter codes, as `de` and `en` are."""
    columns = records.section("data").get("columns") or {}
    codes = [columns.get("source"), columns.get("target")]
    return codes if all(isinstance(code, str) and re.fullmatch("[a-z]{2}", code) for code in codes) else []
