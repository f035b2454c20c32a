"""Decimal numbers in text, many at once: what makes a large file of vectors load in seconds.

A number that looks like -0.0123 (one digit, a point, digits) is computed by whole-array arithmetic, eight characters
at a time; any other (12.5, 1e-05, 7) goes through Python's `float`. Axes: N numbers.
"""

import numpy as np

PADDING = 16  # bytes of white space that must stand before and after the text

MAX_DECIMALS = 15  # more do not show in float32
TENS = 10.0 ** np.arange(MAX_DECIMALS + 1)
# The last n characters of a word of eight, and of the word before it, by number of decimals.
LAST_EIGHT = np.array([(2**64 - 1) >> 8 * max(0, 8 - n) << 8 * max(0, 8 - n) for n in range(16)], dtype=np.uint64)
LAST_EIGHT[0] = 0
BEFORE_THEM = np.array([LAST_EIGHT[max(0, n - 8)] for n in range(16)], dtype=np.uint64)


def find_numbers(text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each run of characters other than white space begins and ends (after its last character), int64 (N,).

    Args:
        text: uint8, with white space at both ends.
    """
    space = text <= 32
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    return edges[::2], edges[1::2]


def parse_numbers(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The numbers that were found, float32 of shape (N,), but for rare ties of the last bit the nearest.

    Of sixteen or seventeen decimals the last are not looked at; a number that float32 cannot hold becomes infinite.

    Args:
        text: uint8, with `PADDING` bytes of white space at both ends.
        starts, ends: as `find_numbers` gives them.

    Raises:
        ValueError: if one is no number; the message is that of `float`.
    """
    negative = text[starts] == ord("-")
    point = starts + negative + 1
    simple = (text[point] == ord(".")) & (point < ends) & (ends - point <= 18)
    decimals = np.where(simple, np.minimum(ends - point - 1, MAX_DECIMALS), 0)
    after = point + 1 + decimals  # the place after the last character that counts

    fraction = _digits(_words_before(text, after) & LAST_EIGHT[decimals])
    if (decimals > 8).any():
        fraction += _digits(_words_before(text, after - 8) & BEFORE_THEM[decimals]) * np.uint64(10**8)
    numbers = fraction.astype(np.float64)
    numbers /= TENS[decimals]
    numbers += text[point - 1] - np.uint8(ord("0"))
    numbers = numbers.astype(np.float32)
    numbers *= 1 - 2 * negative.astype(np.float32)

    # Beside its digits a simple number has a point and perhaps a sign; none has fewer, so their sum tells whether one
    # has more. Letters, mostly of exponents, are looked for first: they are few.
    letters = np.flatnonzero(text > ord("9"))
    simple[np.searchsorted(starts, letters, side="right") - 1] = False
    others = (ends - starts).sum() - np.count_nonzero(_is_digit(text))
    others -= sum(np.count_nonzero(~_is_digit(text[starts[i] : ends[i]])) for i in np.flatnonzero(~simple))
    allowed = 1 + negative
    if others != allowed[simple].sum():
        places = np.flatnonzero(~_is_digit(text) & (text > 32))
        belongs_to = np.searchsorted(starts, places, side="right") - 1
        simple &= np.bincount(belongs_to, minlength=len(starts)) == allowed
    with np.errstate(over="ignore"):
        for index in np.flatnonzero(~simple):
            token = text[starts[index] : ends[index]].tobytes()
            numbers[index] = float(token.replace(b"_", b"?"))  # `float` would read 1_000
    return numbers


def _is_digit(text: np.ndarray) -> np.ndarray:
    return text - np.uint8(ord("0")) <= 9  # below "0" the difference wraps around


def _words_before(text: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The eight characters before each place as one uint64, the last of them in the highest byte."""
    windows = np.ndarray((len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))  # one at each byte
    return windows[places - 8]


def _digits(words: np.ndarray) -> np.ndarray:
    """The number that eight digits write, for each uint64 (in place); a byte of zero is the digit 0.

    Neighbours are joined to pairs, pairs to fours and fours to eight, each in its own part of the word.
    """
    words &= np.uint64(0x0F0F0F0F0F0F0F0F)  # the characters 0 to 9 are 0x30 to 0x39
    shifted = words >> np.uint64(8)
    words *= np.uint64(10)
    words += shifted
    words &= np.uint64(0x00FF00FF00FF00FF)  # four pairs
    shifted = words >> np.uint64(16)
    shifted &= np.uint64(0x000000FF000000FF)  # the second and the fourth
    words &= np.uint64(0x000000FF000000FF)  # the first and the third
    words *= np.uint64(100 + (10**6 << 32))
    shifted *= np.uint64(1 + (10**4 << 32))
    words += shifted
    words >>= np.uint64(32)
    return words
