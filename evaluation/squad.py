"""How the SQuAD evaluation scripts compare an answer with the right ones (Rajpurkar et al., 2016 and 2018).

Both versions leave case, ASCII punctuation, the articles a, an and the, and runs of white space out of account. They
differ where nothing is left. Version 1.1 gives an empty answer no F1 beside an empty one, and version 2.0 all of it;
and version 2.0 does not look at right answers of which nothing is left.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(text: str) -> str:
    """Lower case, without punctuation and articles, one space between words."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def score_answer(prediction: str, references: Sequence[str], version: int = 2) -> tuple[float, float]:
    """Exact match and F1 of words, each 0 to 1 and that of the reference which it fits best.

    Args:
        prediction: the answer given; empty for none.
        references: the right answers; none for a question without one.
        version: 1 or 2, of the rules.
    """
    if version == 2:
        references = [text for text in references if normalized(text)] or [""]
    exact = max(float(normalized(prediction) == normalized(text)) for text in references)
    return exact, max(_f1(normalized(prediction).split(), normalized(text).split(), version) for text in references)


def _f1(given: list[str], right: list[str], version: int) -> float:
    if version == 2 and not (given and right):
        return float(given == right)
    common = sum((Counter(given) & Counter(right)).values())
    if common == 0:
        return 0.0
    precision, recall = common / len(given), common / len(right)
    return 2 * precision * recall / (precision + recall)
