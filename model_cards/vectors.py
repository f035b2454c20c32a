"""What a card says of word vectors: how they were learnt, and what they are worth on each test set."""

from typing import Any

from huggingface_hub import EvalResult
from transformers import PretrainedConfig

from regard.evaluation.vectors_report import HEADER, MEASURES, notes, report_rows
from regard.model_cards.records import Records
from regard.model_cards.tables import number, table

GLOVE_TYPE = "regard-glove"
OBJECTIVES = {
    "negative-sampling": "negative sampling",
    "hierarchical-softmax": "hierarchical softmax",
    "full-softmax": "the full softmax",
}
ARCHITECTURES = {"skip-gram": "skip-gram", "cbow": "continuous bag of words (CBOW)"}


def what_they_are(config: PretrainedConfig) -> str:
    """The subject of a card's first sentence."""
    if config.model_type == GLOVE_TYPE:
        return "Word vectors (GloVe)"
    architecture, objective = ARCHITECTURES.get(config.architecture), OBJECTIVES.get(config.objective)
    return f"Word vectors: word2vec's {architecture or config.architecture} with {objective or config.objective}"


def vector_data(records: Records) -> str:
    """What became of the text: how many words it has, and how words became phrases."""
    counted, settings = records.metrics.get("data", {}), records.section("data")
    said = []
    if {"words", "words_of_vocabulary", "vocabulary_size"} <= counted.keys():
        said.append(
            f"The text has {counted['words']:,} words; {counted['words_of_vocabulary']:,} of them are among the "
            f"{counted['vocabulary_size']:,} distinct ones that have a vector."
        )
    if thresholds := settings.get("phrases"):
        scores = ", then above ".join(number(threshold) for threshold in thresholds)
        said.append(
            f"Before, pairs of words that come together more often than chance has it became one word each, such as "
            f"`new_york`: those with a score above {scores}. Where the tokenizer does not make such a word of a text, "
            "look it up by its name."
        )
    return " ".join(said)


def vector_results(evaluation: dict[str, dict[str, Any]]) -> str:
    """The report as a Markdown table, empty where nothing was measured."""
    rows = [[name.replace("  ", "&nbsp;&nbsp;"), *cells] for name, *cells in report_rows(evaluation)]
    return table(list(HEADER), rows, numbers_from=2)


def vector_notes(evaluation: dict[str, dict[str, Any]]) -> list[str]:
    """How the evaluation counted."""
    if not evaluation:
        return []
    said = notes(evaluation)
    for name, measures in evaluation.items():
        if measures["kind"] == "analogies":
            rule = {"add": "3CosAdd", "mul": "3CosMul"}[measures["method"]]
            said.append(f"{name}: by {rule}, among the {measures['vocabulary']:,} most frequent words.")
    if not all(measures["fold_case"] for measures in evaluation.values()):
        said.append("Words are looked up as they are written.")
    return said


def vector_eval_results(evaluation: dict[str, dict[str, Any]], task_type: str, command: str) -> list[EvalResult]:
    """For the Hub: each set's measure of what was found, and with how much of the set that is.

    The Hub takes results whose type, configuration and split of the data set are the same for those of one set: what
    tells the sets apart here is the configuration.

    Args:
        command: what measures them again.
    """
    results = []
    for name, measures in evaluation.items():
        title, key, _, _ = MEASURES[measures["kind"]]
        for metric, value in ((key, measures[key]), ("coverage", measures["coverage"])):
            if value is not None:
                results.append(
                    EvalResult(
                        task_type=task_type,
                        dataset_type="unknown",
                        dataset_name=name,
                        dataset_config=name,
                        metric_type=metric,
                        metric_name=title if metric == key else "coverage",
                        metric_value=round(value, 4),
                        metric_args={"command": command},
                    )
                )
    return results
