"""What differs between the releases of transformers that this package supports, all in this file.

From 5.24 on, the argument and the output field of the key-value cache are called `cache`; before, `past_key_values`.
Models here call it `cache` and take both names.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from transformers import Cache
from transformers.masking_utils import create_causal_mask as library_causal_mask

CACHE_NAME = "cache" if "cache" in inspect.signature(library_causal_mask).parameters else "past_key_values"


def cache_field(cache: Cache | None) -> dict[str, Cache | None]:
    """The cache as a keyword argument under the installed release's name, for mask helpers and output classes."""
    return {CACHE_NAME: cache}


def cache_of(outputs: Any) -> Cache | None:
    """The cache in a model's outputs, under the installed release's name."""
    return getattr(outputs, CACHE_NAME)


def accept_both_cache_names(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Let a `forward` whose argument is `cache` also take it as `past_key_values`.

    Raises:
        ValueError: if a call gives both.
    """

    @functools.wraps(forward)
    def wrapper(self, *args, **kwargs):
        if "past_key_values" in kwargs:
            other = kwargs.pop("past_key_values")
            if kwargs.get("cache") is not None and other is not None:
                raise ValueError("cache and past_key_values are two names of one argument: give one of them.")
            if kwargs.get("cache") is None:
                kwargs["cache"] = other
        return forward(self, *args, **kwargs)

    # `generate` reads the signature to learn which arguments a model takes.
    signature = inspect.signature(forward)
    parameters = list(signature.parameters.values())
    both = inspect.Parameter("past_key_values", inspect.Parameter.KEYWORD_ONLY, default=None)
    position = len(parameters) - (parameters[-1].kind is inspect.Parameter.VAR_KEYWORD)
    wrapper.__signature__ = signature.replace(parameters=[*parameters[:position], both, *parameters[position:]])
    return wrapper
