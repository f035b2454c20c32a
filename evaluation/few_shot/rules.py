"""From log-probabilities of choices to a prediction: five normalisations, and contextual calibration.

With s = log P(choice | prompt), the sum over the tokens of the choice:

    none             s
    token            s / tokens of the choice
    character        s / characters of the choice's text
    byte             s / bytes of the choice's text in UTF-8
    unconditional    s - log P(choice | no question), the pointwise mutual information of question and choice (Holtzman
                     et al., 2021, "Surface Form Competition")

What stands between query and choice (a space, most often) is scored with the choice, and is not counted among its
characters and bytes. Calibration (Zhao et al., 2021, "Calibrate Before Use", section 5) divides the probability of
each choice by the one that it has after the same shots and "N/A" in the place of the question: with W = diag(p_cf)⁻¹
the prediction is argmax W p, which in logarithms is a difference. The paper's experiments take the mean of p_cf over
three such inputs ("N/A", "[MASK]" and none); here it is that of "N/A" alone, which makes its prediction uniform.
"""

import math
import random
from collections.abc import Mapping, Sequence
from typing import Any

from regard.evaluation.naming import nearest

NORMALISATIONS = ("none", "token", "character", "byte", "unconditional")


def check_normalisation(name: str) -> str:
    """Raises ValueError where there is no such rule."""
    if name not in NORMALISATIONS:
        raise ValueError(f"normalisation: '{name}' is not known{nearest(name, NORMALISATIONS)}")
    return name


def values(choices: Sequence[Mapping[str, Any]], normalisation: str = "none", calibrate: bool = False) -> list[float]:
    """What each choice is worth by a rule.

    A log-probability of -inf is one of zero. Zero divided by zero is taken as zero: a choice that cannot be is not the
    answer, whatever it is compared with. A choice that can be here and could not without the question is worth inf.

    Args:
        choices: as a result records them: `log_probability`, `tokens`, `characters`, `bytes`, and where they were
            measured `unconditional` and `content_free`, log-probabilities too. One that is None is -inf, for which
            JSON has no number.
        normalisation: one of `NORMALISATIONS`.
        calibrate: whether the same value after "N/A" is taken off.

    Raises:
        ValueError: an unknown rule, or one that takes a number that is not there.
    """
    check_normalisation(normalisation)
    if not calibrate:
        return [_value(one, _number(one, "log_probability"), normalisation) for one in choices]
    # Of both values, here and after "N/A", log P(choice | no question) is taken off, so that it makes no difference.
    rule = "none" if normalisation == "unconditional" else normalisation
    ratios = [_less(_number(one, "log_probability"), _number(one, "content_free")) for one in choices]
    return [_value(one, ratio, rule) for one, ratio in zip(choices, ratios, strict=True)]


def best(worth: Sequence[float]) -> list[int]:
    """The places of the best choices, one but for ties.

    Raises:
        ValueError: a value that is no number.
    """
    if any(math.isnan(one) for one in worth):
        raise ValueError("The model gives a choice a log-probability that is no number: its weights may be broken.")
    return [place for place, one in enumerate(worth) if one == max(worth)]


def predict(worth: Sequence[float], name: str) -> int:
    """The place of the best choice.

    Of several that are equally good one is drawn by the item's name: the first would be right too often where data
    have the right one first, as for a model whose tokenizer makes both sentences of a minimal pair the same.
    """
    places = best(worth)
    return places[0] if len(places) == 1 else random.Random(f"tie/{name}").choice(places)


def _value(choice: Mapping[str, Any], log_probability: float, normalisation: str) -> float:
    if normalisation == "none":
        return log_probability
    if normalisation == "unconditional":
        return _less(log_probability, _number(choice, "unconditional"))
    return log_probability / choice[{"token": "tokens", "character": "characters", "byte": "bytes"}[normalisation]]


def _number(choice: Mapping[str, Any], name: str) -> float:
    if name not in choice:
        raise ValueError(f"The choice '{choice.get('text')}' has no '{name}' log-probability: it was not measured.")
    return -math.inf if choice[name] is None else choice[name]


def _less(log_probability: float, other: float) -> float:
    """The logarithm of a quotient of probabilities, as `values` says of zeros."""
    return -math.inf if log_probability == other == -math.inf else log_probability - other
