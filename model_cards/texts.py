"""What a card says in words, by task. Nothing here is a number: those come from records."""

import re
from dataclasses import dataclass, replace

from regard.model_cards.records import Records, own_tokenizer
from regard.train.sections import (
    DENOISING,
    IN_CONTEXT,
    LABELLING,
    PAIR,
    QUESTION_ANSWERING,
    REGRESSION,
    WORD_VECTORS,
    WRITING,
)

TEXTS = ("{text}", "{first}", "{second}", "{texts}")  # of a sample, in the lines of `use`


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
        example: the text of the snippet, where no sample was recorded.
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
    example: str = "Once upon a time"


_BASE = TaskText()
SNIPPET_WORDS = 60  # of a document

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
            'inputs = tokenizer({texts}, return_tensors="pt")',
            "print(model.config.id2label[model(**inputs).logits.argmax(-1).item()])",
        ),
        purpose="texts of the kind it was trained on, as a baseline for that data, and comparing design choices",
        not_for="other kinds of text, other sets of labels, or decisions about people",
        limits=("It gives one of its labels to any input, sensible or not.", *_BASE.limits),
        samples="Taken at even distances from the evaluation data, not chosen.",
    ),
    "token-classification": TaskText(
        what_alone="A Transformer that labels each word of a text",
        pipeline="token-classification",
        auto_class="AutoModelForTokenClassification",
        use=(
            'inputs = tokenizer({text}, return_tensors="pt")',
            "best = model(**inputs).logits[0].argmax(-1).tolist()",
            "for token, label in zip(inputs.tokens(), best):  # the first token of a word has the word's label",
            "    print(token, model.config.id2label[label])",
        ),
        purpose="texts of the kind it was trained on, as a baseline for that data, and comparing design choices",
        not_for="other kinds of text, other sets of labels, or decisions about people",
        limits=("It gives each word one of its labels, sensible or not.", *_BASE.limits),
        samples="Taken at even distances from the evaluation data, not chosen.",
    ),
    "summarization": TaskText(
        what_alone="A Transformer that summarises texts",
        pipeline="summarization",
        auto_class="AutoModelForSeq2SeqLM",
        use=(
            'inputs = tokenizer({text}, return_tensors="pt"{cut})',
            "output = model.generate(**inputs{settings})",
            "print(tokenizer.decode(output[0], skip_special_tokens=True))",
        ),
        purpose="texts of the kind it was trained on, as a baseline for that data, and for taking a small model apart",
        not_for="facts that matter, other kinds of text, or any use where a wrong summary does harm",
        limits=("It writes names and numbers that the document does not have, and just as fluently.", *_BASE.limits),
        samples="Taken at even distances from the evaluation data, not chosen.",
    ),
    QUESTION_ANSWERING: TaskText(
        what_alone="A Transformer that finds the answer to a question in a text",
        pipeline="question-answering",
        auto_class="AutoModelForQuestionAnswering",
        use=(
            "question = {first}",
            "context = {second}",
            'cut = {"truncation": "only_second", "max_length": {length}}',
            'inputs = tokenizer(question, context, **cut, return_tensors="pt")',
            "outputs = model(**inputs)",
            "outside = torch.tensor([part != 1 for part in inputs.sequence_ids()])  # of the context",
            'start_logits = outputs.start_logits[0].masked_fill(outside, -float("inf"))',
            'end_logits = outputs.end_logits[0].masked_fill(outside, -float("inf"))',
            "start = start_logits.argmax().item()",
            "end = start + end_logits[start:].argmax().item()",
            "print(tokenizer.decode(inputs.input_ids[0, start : end + 1]))",
            "# With windows of a long text, no answer where there is none, and the text as it stands, by regard:",
            "# from regard import answer; print(answer(model, tokenizer, question, context))",
        ),
        purpose="questions of the kind it was trained on, as a baseline for that data, and comparing design choices",
        not_for="questions whose answer must be right, or whose answer is no part of the text",
        limits=("What it finds is a part of the text, and need not answer the question.", *_BASE.limits),
        samples="Taken at even distances from the evaluation data, not chosen.",
        example=f"Where do cats sleep?{PAIR}Cats sleep where it is warm.",
    ),
    DENOISING: TaskText(
        what_alone="A Transformer that puts back spans of text that were taken out",
        pipeline="text2text-generation",
        auto_class="AutoModelForSeq2SeqLM",
        use=(
            'inputs = tokenizer({text}, split_special_tokens=False, return_tensors="pt")',
            "output = model.generate(**inputs{settings})",
            "print(tokenizer.decode(output[0]))",
        ),
        purpose="fine-tuning on translation, summarisation and other tasks that write a text for a text",
        not_for="use as it is: it writes what could stand in a gap, and answers or follows nothing",
        samples="Taken at even distances from the evaluation data, not chosen.",
    ),
    IN_CONTEXT: TaskText(
        what_alone="A small Transformer decoder that learns hidden rules from the examples in its prompt",
        pipeline="text-generation",
        auto_class="AutoModelForCausalLM",
        use=(
            'inputs = tokenizer({text}, return_tensors="pt")',
            "output = model.generate(**inputs, do_sample=False{settings})",
            "answer = tokenizer.decode(output[0, inputs.input_ids.shape[1] :])",
            'print(answer.split("\\n")[0])',
        ),
        purpose="studying how a model learns in context, on rules of the kinds it was trained on",
        not_for="other rules, other characters than small letters and digits, or any language",
        limits=("It knows rules of the kinds it was trained on, and sees one in anything.",),
        samples="Taken at even distances from the evaluation data, not chosen, with four examples or as many as fit.",
        example="abcde>cbaed\nklmno>mlkon\nvwxyz>",
    ),
    REGRESSION: TaskText(
        what_alone="A small Transformer decoder that learns linear functions from the examples in its context",
        use=(
            "inputs = torch.randn(1, {pairs}, model.config.input_size)",
            "values = inputs @ torch.randn(model.config.input_size)  # a hidden function",
            "print(values[0, -1], model(inputs=inputs, values=values[:, :-1]).logits[0, -1])",
        ),
        purpose="studying how a model learns in context, beside least squares",
        not_for="fitting functions in earnest: least squares is exact, and takes no training",
        limits=("It knows linear functions of the size and with the noise that it was trained on.",),
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
# Of a pair of columns that are no languages, as spellings and sounds.
_OTHER_PAIRS = replace(
    TASK_TEXTS["translation"],
    not_for="other kinds of text, or any use in which an error does harm",
    limits=("What the training data lack comes out wrong, and looks just as right.", *_BASE.limits),
)
# What a model of no recipe does, by the ending of its class.
_HEADS = {
    "ForMaskedLM": TASK_TEXTS["masked-lm"],
    "ForCausalLM": TASK_TEXTS["causal-lm"],
    "ForSequenceClassification": TASK_TEXTS["sequence-classification"],
    "ForTokenClassification": TASK_TEXTS["token-classification"],
    "ForQuestionAnswering": TASK_TEXTS[QUESTION_ANSWERING],
    "ForConditionalGeneration": replace(
        _BASE,
        what_alone="A Transformer that reads a text and writes another",
        auto_class="AutoModelForSeq2SeqLM",
        use=TASK_TEXTS["translation"].use,
    ),
    "Word2VecModel": TASK_TEXTS[WORD_VECTORS],
    "GloVeModel": TASK_TEXTS[WORD_VECTORS],
    "TransformerModel": replace(
        _BASE,
        use=(
            _BASE.use[0],
            "print(model(**inputs, decoder_input_ids=inputs.input_ids).last_hidden_state.shape)",
        ),
    ),
}


def task_text(records: Records) -> TaskText:
    """The words for a run's task, or for the class of a model that has no recipe."""
    if records.task is None:
        architecture = (records.config.architectures or [""])[0]
        return next((text for ending, text in _HEADS.items() if architecture.endswith(ending)), _BASE)
    if records.task == "translation" and not language_codes(records) and pair_of_columns(records):
        return _OTHER_PAIRS
    return TASK_TEXTS.get(records.task, _BASE)


def pair_of_columns(records: Records) -> tuple[str, str] | None:
    """What is read and what is written, by the names of their columns; None where they have none."""
    columns = records.section("data").get("columns") or {}
    return (columns["source"], columns["target"]) if {"source", "target"} <= columns.keys() else None


def parts_of_source(records: Records) -> tuple[str, ...]:
    """The names of the texts that the model reads together, in the order in which its samples hold them."""
    if records.task == QUESTION_ANSWERING:
        return ("question", "context")
    if "text_pair" in (records.section("data").get("columns") or {}):
        return ("first text", "second text")
    return ("source",)


def snippet(records: Records, repo_id: str | None = None, revision: str | None = None) -> str:
    """Python that loads the run, from its folder or from the Hub, and uses it: to be pasted as it is."""
    text = task_text(records)
    samples = [sample["source"] for sample in records.metrics.get("samples") or [] if sample.get("source")]
    paired = len(parts_of_source(records)) > 1
    if paired:  # of which the shortest is the easiest to read
        samples = sorted((sample for sample in samples if PAIR in sample), key=len)
    source = samples[0] if samples else text.example
    if records.task == "summarization":
        source = " ".join(source.split()[:SNIPPET_WORDS])
    settings = "".join(f", {key}={value}" for key, value in decoding(records).items())
    words = text in (TASK_TEXTS[WORD_VECTORS], TASK_TEXTS[REGRESSION])  # which need no tokenizer
    place = [f"path = {repr_text(records.place)}  # the run's folder, or its id on the Hub"]
    if repo_id is not None:
        pin = "  # better the id of a commit, which never changes"
        place = [f"path = {repr_text(repo_id)}", f"revision = {repr_text(revision or 'main')}{pin}"]
    arguments = ["path", *(["revision=revision"] if repo_id is not None else [])]
    loading = ", ".join([*arguments, *(["trust_remote_code=True"] if records.carries_code else [])])
    limit = records.section("data").get("max_source_length")
    filled = {"{cut}": f", truncation=True, max_length={limit}", "{settings}": settings}
    filled |= {"{length}": str(records.section("data").get("max_length", 384))}
    filled["{pairs}"] = str(records.section("data").get("block_size", 8))
    parts = [repr_text(part) for part in (source.split(PAIR, 1) if paired else [source])]
    # The texts last, and one in a line: they may hold a name of their own.
    filled |= {"{text}": parts[0], "{first}": parts[0], "{second}": parts[-1], "{texts}": ", ".join(parts)}
    use = []
    for line in text.use:
        for name, value in filled.items():
            if name in line:
                line = line.replace(name, value)
                if name in TEXTS:
                    break
        use.append(line)
    torch = ["import torch"] if any("torch." in line for line in use) else []
    return "\n".join(
        [
            *torch,
            f"from transformers import {text.auto_class}{'' if words else ', AutoTokenizer'}",
            "",
            *place,
            *([] if words else [f"tokenizer = AutoTokenizer.from_pretrained({loading})"]),
            f"model = {text.auto_class}.from_pretrained({loading})",
            "",
            *use,
        ]
    )


def limits(records: Records) -> list[str]:
    """What the records say of how much text it has seen at once."""
    data, config = records.section("data"), records.config
    if records.task == "summarization" and data.get("max_source_length"):
        found = [f"It was trained on the first {data['max_source_length']:,} tokens of a document."]
    elif records.task == "translation" and {"max_source_length", "max_target_length"} <= data.keys():
        lengths = data["max_source_length"], data["max_target_length"]
        found = [f"It was trained on sources of up to {lengths[0]:,} tokens and targets of up to {lengths[1]:,}."]
    elif records.task in ("causal-lm", "masked-lm") and data.get("block_size"):
        found = [f"It was trained on pieces of up to {data['block_size']:,} tokens: longer ones are new to it."]
    elif records.task in LABELLING and data.get("max_length"):
        found = [f"It was trained on the first {data['max_length']:,} tokens of a text."]
    elif records.task == QUESTION_ANSWERING and data.get("max_length"):
        found = [f"It reads {data['max_length']:,} tokens at once, and a longer text in windows of so many."]
    elif records.task == IN_CONTEXT and data.get("block_size"):
        found = [f"It was trained on rows of {data['block_size']:,} tokens: in longer prompts it answers worse."]
    elif records.task == DENOISING and data.get("block_size"):
        size = f"{data['block_size']:,} tokens"
        found = [f"It was trained on texts that fill {size}: behind shorter ones it writes on, longer ones are new."]
    else:
        found = []
    if own_tokenizer(records).get("lowercase") and records.task in (*WRITING, "causal-lm", DENOISING):
        found.append("It writes small letters alone, and reads capitals as such: its tokenizer lower-cases all text.")
    if records.task == REGRESSION:
        found.append(f"It was trained on {data.get('block_size')} examples in a row: more are new to it.")
    elif getattr(config, "position_embedding_type", None) == "learned":
        found.append(f"It has positions for {config.max_position_embeddings:,} tokens, and reads no more.")
    return found


def decoding(records: Records) -> dict[str, int | float]:
    """The settings of `generate` with which the recorded texts were written, but for those that are the library's."""
    evaluation = records.section("evaluation")
    if records.task not in WRITING:
        keys = ["max_new_tokens"]
    elif evaluation.get("num_beams") == 1 or evaluation.get("length_penalty") == 1:
        keys = ["num_beams", "max_new_tokens"]
    else:
        keys = ["num_beams", "length_penalty", "max_new_tokens"]
    keys += ["no_repeat_ngram_size"] if evaluation.get("no_repeat_ngram_size") else []
    return {key: evaluation[key] for key in keys if evaluation.get(key) is not None}


def repr_text(text: str) -> str:
    """A Python string in double quotes, on one line."""
    inner = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{inner}"'


def language_codes(records: Records) -> list[str]:
    """The languages of a translation, where its columns are named by two-letter codes, as `de` and `en` are."""
    codes = list(pair_of_columns(records) or ())
    return codes if all(isinstance(code, str) and re.fullmatch("[a-z]{2}", code) for code in codes) else []
