"""Decimal numbers in text, many at once: what makes a large file of vectors load in seconds.

A number that looks like -0.0123 or -1.23e-05 (one digit, a point, digits, perhaps an exponent) is computed by
whole-array arithmetic, eight characters at a time; any other (12.5, 7) goes through Python's `float`. Axes: N numbers.
"""

import numpy as np

PADDING = 24  # bytes of white space that must stand before and after the text

MAX_DECIMALS = 24  # three words of eight
TENS = np.array([float(f"1e{power}") for power in range(100)])
# Of the word of eight characters before a number's end: those that are decimals, by how many decimals there are.
LAST_EIGHT = np.array([(2**64 - 1) >> 8 * max(0, 8 - n) << 8 * max(0, 8 - n) for n in range(9)], dtype=np.uint64)
LAST_EIGHT[0] = 0


def find_numbers(text: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where each run of characters other than white space begins and ends (after its last character), int64 (N,).

    Args:
        text: uint8, with white space at both ends.
    """
    space = text <= 32
    edges = np.flatnonzero(space[1:] != space[:-1]) + 1
    return edges[::2], edges[1::2]


def parse_numbers(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The numbers that were found, float32 of shape (N,).

    Each is the float32 nearest to what is written, but where that lies within about 10⁻¹⁵ of the middle between two:
    then it may be the other of them. A number that float32 cannot hold becomes infinite.

    Args:
        text: uint8, with `PADDING` bytes of white space at both ends.
        starts, ends: as `find_numbers` gives them.

    Raises:
        ValueError: if one is no number; the message is that of `float`.
    """
    negative = text[starts] == ord("-")
    point = starts + negative + 1
    stop, power, marks = _exponents(text, starts, ends)
    decimals = stop - point - 1
    simple = (text[point] == ord(".")) & (decimals >= 0) & (decimals <= MAX_DECIMALS)

    # Beside its digits a simple number has a point, perhaps a sign and an exponent's marks; none has fewer, so their
    # sum tells whether one has more.
    allowed = 1 + negative + marks
    others = np.flatnonzero(~simple)
    words = _cut(text, starts, ends, others)
    found = (
        _count_marks(text) - (len(text) - (ends - starts).sum()) - _count_marks(np.frombuffer(b"".join(words), "u1"))
    )
    if found != allowed[simple].sum():
        places = np.flatnonzero(~_is_digit(text) & (text > 32))
        belongs_to = np.searchsorted(starts, places, side="right") - 1
        simple &= np.bincount(belongs_to, minlength=len(starts)) == allowed
        others = np.flatnonzero(~simple)
        words = _cut(text, starts, ends, others)

    decimals[others] = 0
    stop = point + 1 + decimals
    numbers = np.zeros(len(starts))
    for skipped in range(0, max(8, int(decimals.max(initial=0))), 8):  # from the last word of eight to the first
        numbers += _decimals_in_word(text, stop - skipped, decimals - skipped) * TENS[skipped]
    numbers /= TENS[decimals]
    numbers += text[point - 1] - np.uint8(ord("0"))
    if power.any():
        numbers = np.where(power < 0, numbers / TENS[abs(power)], numbers * TENS[abs(power)])
    numbers *= 1.0 - 2.0 * negative
    numbers[others] = [float(word.replace(b"_", b"?")) for word in words]  # `float` would read 1_000
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def _exponents(text: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where each number's digits end, the power of ten after them, and how many marks that takes (`e` and a sign).

    An exponent has one or two digits; anything else is left for `float`.
    """
    stop, power, marks = ends.copy(), np.zeros(len(starts), dtype=np.int64), np.zeros(len(starts), dtype=np.int64)
    letters = np.flatnonzero(text > ord("9"))
    owners = np.searchsorted(starts, letters, side="right") - 1
    negative = text[letters + 1] == ord("-")
    signs = negative | (text[letters + 1] == ord("+"))
    digits = ends[owners] - letters - 1 - signs
    exponents = ((text[letters] | 32) == ord("e")) & (digits >= 1) & (digits <= 2)
    letters, owners, negative, signs, digits = (
        array[exponents] for array in (letters, owners, negative, signs, digits)
    )
    last = ends[owners] - 1
    value = (text[last] & 15).astype(np.int64) + 10 * (text[last - 1] & 15) * (digits == 2)
    stop[owners], power[owners], marks[owners] = letters, np.where(negative, -value, value), 1 + signs
    return stop, power, marks


def _cut(text: np.ndarray, starts: np.ndarray, ends: np.ndarray, which: np.ndarray) -> list[bytes]:
    """The characters of some numbers."""
    if not len(which):
        return []
    data = text.tobytes()
    return [data[start:end] for start, end in zip(starts[which].tolist(), ends[which].tolist(), strict=True)]


def _is_digit(text: np.ndarray) -> np.ndarray:
    return text - np.uint8(ord("0")) <= 9  # below "0" the difference wraps around


def _count_marks(text: np.ndarray) -> int:
    """How many characters are no digits."""
    return len(text) - np.count_nonzero(_is_digit(text))


def _decimals_in_word(text: np.ndarray, places: np.ndarray, decimals: np.ndarray) -> np.ndarray:
    """The number that the last so many of the eight characters before each place write."""
    windows = np.ndarray((len(text) - 7,), dtype="<u8", buffer=text, strides=(1,))  # one at each byte
    return _digits(windows[places - 8] & LAST_EIGHT[decimals.clip(0, 8)])


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
