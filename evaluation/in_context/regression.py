"""Linear regression in context (Garg et al., 2022): its data, and what a model is compared with.

A row is a hidden weight vector w ~ N(0, I), points x ~ N(0, I) and values y = w·x + ε, ε ~ N(0, noise²). The
predictors here see what the model sees: for the value at each point, the examples before it.

Axes: B rows, K examples, d coordinates.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

SPLIT_NUMBERS = {"train": 0, "validation": 1, "test": 2}


@dataclass(frozen=True)
class Regressions:
    """Rows of regression problems, float64.

    Attributes:
        inputs: (B, K, d) the points.
        values: (B, K) the values, with noise.
        clean: (B, K) w·x, without.
    """

    inputs: np.ndarray
    values: np.ndarray
    clean: np.ndarray


def draw_regression(
    split: str, seed: int, epoch: int, row: int, *, input_size: int, examples: int, noise: float
) -> Regressions:
    """One row (B = 1), a function of the split, the seed and the numbers alone. Weights are drawn anew for each row,
    so no row of evaluation has those of a row of training."""
    generator = np.random.default_rng([SPLIT_NUMBERS[split], seed, epoch, row])
    weights = generator.standard_normal(input_size)
    inputs = generator.standard_normal((examples, input_size))
    clean = inputs @ weights
    return Regressions(inputs[None], (clean + noise * generator.standard_normal(examples))[None], clean[None])


def draw_regressions(
    rows: int, split: str = "test", seed: int = 0, *, input_size: int, examples: int, noise: float
) -> Regressions:
    """So many rows of one split, each as `draw_regression` draws it."""
    shape = {"input_size": input_size, "examples": examples, "noise": noise}
    drawn = [draw_regression(split, seed, 0, row, **shape) for row in range(rows)]
    return Regressions(
        *(np.concatenate([getattr(one, name) for one in drawn]) for name in ("inputs", "values", "clean"))
    )


def least_squares(inputs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(K, d), (K,) to the weights (d,) of the least squared error; of several such the smallest, as for K < d."""
    return np.linalg.lstsq(inputs, values, rcond=None)[0]


def ridge(noise: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The mean of w given the examples, (XᵀX + noise² I)⁻¹ Xᵀy: no predictor has a smaller expected error here."""

    def solve(inputs: np.ndarray, values: np.ndarray) -> np.ndarray:
        if noise == 0:
            return least_squares(inputs, values)
        return np.linalg.solve(inputs.T @ inputs + noise**2 * np.eye(inputs.shape[1]), inputs.T @ values)

    return solve


def predict_by(solve: Callable[[np.ndarray, np.ndarray], np.ndarray], rows: Regressions) -> np.ndarray:
    """(B, K): the value at each point by the weights that `solve` finds from the examples before it; 0 from none."""
    predicted = np.zeros_like(rows.values)
    for line, inputs, values in zip(predicted, rows.inputs, rows.values, strict=True):
        for shots in range(1, len(values)):
            line[shots] = inputs[shots] @ solve(inputs[:shots], values[:shots])
    return predicted


def has_mean_error(shots: int, input_size: int, noise: float) -> bool:
    """Whether the squared error of least squares has a mean, from so many examples of `input_size` coordinates.

    Of values with noise it is noise² times the trace of an inverse Wishart matrix: of XᵀX, whose mean is finite for
    n > d + 1 alone; and of the smallest weights of XXᵀ, for n < d - 1. Between, the mean over any rows is that of the
    few worst ones, and grows without bound with their number.
    """
    return noise == 0 or shots == 0 or not input_size - 1 <= shots <= input_size + 1


def errors_by_examples(predicted: np.ndarray, rows: Regressions) -> dict[str, list[float]]:
    """Mean squared errors (K,) with 0, 1, 2, ... examples: `noisy` of the values as they came, `clean` of w·x."""
    return {
        name: ((predicted - wanted) ** 2).mean(axis=0).tolist()
        for name, wanted in (("noisy", rows.values), ("clean", rows.clean))
    }


def baselines(rows: Regressions, noise: float) -> dict[str, dict[str, list[float | None]]]:
    """`errors_by_examples` of what needs no training: least squares, the best predictor there is, and 0.

    Those of least squares are None where they have no mean (`has_mean_error`).
    """
    predicted = {
        "least squares": predict_by(least_squares, rows),
        "ridge": predict_by(ridge(noise), rows),
        "zero": np.zeros_like(rows.values),
    }
    errors: dict[str, dict[str, list[float | None]]] = {
        name: errors_by_examples(one, rows) for name, one in predicted.items()
    }
    size = rows.inputs.shape[-1]
    errors["least squares"] = {
        kind: [error if has_mean_error(shots, size, noise) else None for shots, error in enumerate(line)]
        for kind, line in errors["least squares"].items()
    }
    return errors
