"""ROUGE (Lin, 2004) as the package rouge_score computes it, which follows the original program, ROUGE-1.5.5.

Its own tokens are runs of a-z and 0-9, stemmed by Porter's rules, as published scores of English have them. They lose
every other letter, so texts of other languages are cut into words of Unicode's letters, marks and digits, unstemmed.
"""

import logging
from collections.abc import Sequence
from importlib.metadata import version

import regex

logger = logging.getLogger(__name__)

ENGLISH = "en"
FOREIGN_SHARE = 0.02  # of letters beyond a-z, from which on English tokens are doubtful


class UnicodeWords:
    """A tokenizer for `RougeScorer`: words in lower case, whatever their letters."""

    def tokenize(self, text: str) -> list[str]:
        return regex.findall(r"[\p{L}\p{M}\p{N}]+", text.lower())


def rouge(
    kind: str, predictions: Sequence[str], references: Sequence[Sequence[str]], language: str | None = None
) -> float:
    """The mean F-measure over texts, 0 to 100; of several references the one that fits best counts.

    Args:
        kind: "rouge1" or "rouge2", words or pairs of neighbours in common; "rougeL", the longest common subsequence of
            the whole texts, whose lines are not told apart as "rougeLsum" does.
        predictions: texts.
        references: for each text one or more.
        language: the code of their language, such as "de" or "en-GB"; English where it is None.
    """
    from rouge_score.rouge_scorer import RougeScorer  # with nltk, half a second

    if language is None:
        _warn_of_other_letters(references)
    english = _is_english(language)
    scorer = RougeScorer([kind], use_stemmer=english, tokenizer=None if english else UnicodeWords())
    pairs = zip(predictions, references, strict=True)
    scores = [scorer.score_multi(several, prediction)[kind].fmeasure for prediction, several in pairs]
    return 100 * sum(scores) / len(scores)


def rouge_signature(language: str | None = None) -> str:
    """How `rouge` counts, in a line to stand beside a score."""
    rules = "stemmer:porter|tokens:a-z0-9" if _is_english(language) else "stemmer:none|tokens:unicode"
    return f"mean-F|case:lower|{rules}|rouge_score:{version('rouge_score')}"


def _is_english(language: str | None) -> bool:
    return language is None or regex.split("[-_]", language)[0].lower() == ENGLISH


def _warn_of_other_letters(references: Sequence[Sequence[str]]) -> None:
    letters = "".join(regex.findall(r"\p{L}+", " ".join(one for several in references for one in several)))
    if letters and sum(not letter.isascii() for letter in letters) > FOREIGN_SHARE * len(letters):
        logger.warning("ROUGE counts English letters alone: name the language of other texts in data.target_language.")
