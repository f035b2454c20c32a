"""Which way the measures of a model point."""

LOWER_IS_BETTER = {
    "loss",
    "perplexity",
    "word_perplexity",
    "bits_per_byte",
    "gap_perplexity",
    "pseudo_perplexity",
    "phone_error_rate",
    "word_error_rate",
    "squared_error",
    "over_least_squares",
    "over_least_squares_noisy",
    "over_ridge",
}
"""Of all that is measured, what a better model has less of."""
