"""What a card says of word vectors: how they were learnt, and what they are worth on each test set."""

from typing import Any

from huggingface_hub import EvalResult
from transformers import PretrainedConfig

from regard.evaluation.vectors_report import HEADER, MEASURES, NOTE, report_rows
from regard.model_cards.tables import table

GLOVE_TYPE = "regard-glove"
WORD2VEC = r"""@inproceedings{mikolov2013distributed,
  title     = {Distributed Representations of Words and Phrases and their Compositionality},
  author    = {Mikolov, Tomas and Sutskever, Ilya and Chen, Kai and Corrado, Greg and Dean, Jeffrey},
  booktitle = {Advances in Neural Information Processing Systems 26},
  year      = {2013},
  url       = {https://arxiv.org/abs/1310.4546}
}"""
GLOVE = r"""@inproceedings{pennington2014glove,
  title     = {GloVe: Global Vectors for Word Representation},
  author    = {Pennington, Jeffrey and Socher, Richard and Manning, Christopher D.},
  booktitle = {Proceedings of the 2014 Conference on Empirical Methods in Natural Language Processing},
  pages     = {1532--1543},
  year      = {2014},
  url       = {https://aclanthology.org/D14-1162}
}"""
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


def source_of(config: PretrainedConfig) -> tuple[str, str]:
    """What a card cites: a sentence, and the entry."""
    if config.model_type == GLOVE_TYPE:
        return "The model is GloVe's:", GLOVE
    return "The model is word2vec's:", WORD2VEC


def vector_results(evaluation: dict[str, dict[str, Any]]) -> str:
    """The report as a Markdown table, empty where nothing was measured."""
    rows = [[name.replace("  ", "&nbsp;&nbsp;"), *cells] for name, *cells in report_rows(evaluation)]
    return table(list(HEADER), rows, numbers_from=2)


def vector_notes(evaluation: dict[str, dict[str, Any]]) -> list[str]:
    """How the evaluation counted."""
    if not evaluation:
        return []
    notes = [" ".join(NOTE.split())]
    for name, measures in evaluation.items():
        if measures["kind"] == "analogies":
            rule = {"add": "3CosAdd", "mul": "3CosMul"}[measures["method"]]
            notes.append(f"{name}: by {rule}, among the {measures['vocabulary']:,} most frequent words.")
    if not all(measures["fold_case"] for measures in evaluation.values()):
        notes.append("Words are looked up as they are written.")
    return notes


def vector_eval_results(evaluation: dict[str, dict[str, Any]], task_type: str) -> list[EvalResult]:
    """For the Hub: each set's measure of what was found, and with how much of the set that is."""
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
                        metric_type=metric,
                        metric_name=title if metric == key else "coverage",
                        metric_value=round(value, 4),
                    )
                )
    return results
