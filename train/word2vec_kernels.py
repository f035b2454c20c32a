"""word2vec's inner loop: skip-gram and CBOW, with negative sampling and with hierarchical softmax, compiled by numba.

A window is learnt as a whole, or a wide one in parts. Its C context words and the O words (or nodes of the Huffman
tree) that they are compared with, the centre and its K negatives, make C x O scores, which are one matrix product;
both gradients are two more. The original draws K negatives for each context word; here the context words of one window
share them (Ji et al., 2016, "Parallelizing Word2Vec in Shared and Distributed Memory"), which changes no expectation,
and a row that is read serves all of them. Tables are read and written by all workers without locks (Niu et al., 2011,
"Hogwild!").

Tables come flat, and their rows are padded to a whole number of vectors of the processor (`padded_width`). What the
processor does with one vector is spelt out by a few operations on a type `Vector` of our own, because a compiler does
not find by itself how to hold six outputs and their gradients in registers.

Axes: C context words (at most 2 x `PART`), O outputs in groups of 6, D padded width, V words, K negatives, L steps
of the longest path.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

from regard.train import vocabulary

MAX_SENTENCE = 10_000  # words; a longer sentence is learnt in pieces
GROUP = 6  # outputs that are worked on at once: their rows and gradients fit the registers
LANES = 16 if binding.get_host_cpu_features().get("avx512f") else 8  # numbers in a vector of this processor
AHEAD = 2  # positions for which rows are fetched in advance
FLUSH = 8  # context words whose probabilities are multiplied before they are added up
# Context words of a wide window that are learnt at once, from the same old values: their steps of the centre's row add
# up, and those of the 120 words of a window of 60 would throw it further at each turn. Up to twice as many stay whole.
PART = 10
LARGEST_SCORE = 8.0  # beyond it the sigmoid is taken as that of 8, so a term of the loss is at most 8.0003


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """numba's compilation for a thread that lets others run; kept on disk where there is a place for it."""
    options = {"nogil": True, "fastmath": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)
    except RuntimeError:  # neither the package's folder nor the user's can be written to
        return njit(**options)(function)


def padded_width(width: int) -> int:
    """The width of a row that is a whole number of vectors."""
    return -(-width // LANES) * LANES


# --- one vector of the processor -------------------------------------------------------------------------------------


class Vector(types.Type):
    def __init__(self) -> None:
        super().__init__(name=f"Vector{LANES}")


VECTOR = Vector()
_TYPE = ir.VectorType(ir.FloatType(), LANES)
_I32 = ir.IntType(32)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, numba_type: Any) -> None:
        super().__init__(manager, numba_type, _TYPE)


def _address(context: Any, builder: Any, array_type: Any, array: Any, place: Any, pointed: ir.Type) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), pointed.as_pointer())


def _shuffle(builder: Any, a: Any, b: Any, lanes: list[int]) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(ir.VectorType(_I32, len(lanes)), lanes))


@intrinsic
def load(typing_context, array, place):
    """The vector that begins at `place` of a flat float32 array."""

    def generate(context, builder, signature, arguments):
        return builder.load(_address(context, builder, signature.args[0], *arguments, _TYPE), align=4)

    return VECTOR(array, types.uint64), generate


@intrinsic
def store(typing_context, array, place, vector):
    def generate(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments[:2], _TYPE)
        builder.store(arguments[2], address, align=4)
        return context.get_dummy_value()

    return types.void(array, types.uint64, VECTOR), generate


@intrinsic
def prefetch(typing_context, array, place):
    """Asks for the line of the cache at `place`, which will be changed."""

    def generate(context, builder, signature, arguments):
        address = _address(context, builder, signature.args[0], *arguments, ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [address.type, _I32, _I32, _I32])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, _I32(1), _I32(3), _I32(1)])  # to write, keep near, data
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@intrinsic
def spread(typing_context, number):
    """The vector with one number in all lanes."""

    def generate(context, builder, signature, arguments):
        undefined = ir.Constant(_TYPE, ir.Undefined)
        first = builder.insert_element(undefined, arguments[0], _I32(0))
        return _shuffle(builder, first, undefined, [0] * LANES)

    return VECTOR(types.float32), generate


@intrinsic
def fma(typing_context, a, b, c):
    """a * b + c"""

    def generate(context, builder, signature, arguments):
        kind = ir.FunctionType(_TYPE, [_TYPE] * 3)
        function = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
        return builder.call(function, arguments)

    return VECTOR(VECTOR, VECTOR, VECTOR), generate


def _binary(build: Callable[[Any, Any, Any], Any]) -> Any:
    @intrinsic
    def operation(typing_context, a, b):
        def generate(context, builder, signature, arguments):
            return build(builder, *arguments)

        return VECTOR(VECTOR, VECTOR), generate

    return operation


def _select(comparison: str) -> Callable[[Any, Any, Any], Any]:
    return lambda builder, a, b: builder.select(builder.fcmp_ordered(comparison, a, b), a, b)


add = _binary(lambda builder, a, b: builder.fadd(a, b))
multiply = _binary(lambda builder, a, b: builder.fmul(a, b))
divide = _binary(lambda builder, a, b: builder.fdiv(a, b))
smaller = _binary(_select("<"))
larger = _binary(_select(">"))


@intrinsic
def sums_of_six(typing_context, a, b, c, d, e, f):
    """The vector whose first six lanes are the sums over the lanes of six vectors; the others are zero.

    Halves of two vectors are added crosswise, so that one addition serves both: a third of the work of six sums.
    """

    def generate(context, builder, signature, arguments):
        vectors, lanes = list(arguments), LANES
        while lanes > 8:
            lanes //= 2
            low, high = list(range(lanes)), list(range(lanes, 2 * lanes))
            vectors = [builder.fadd(_shuffle(builder, v, v, low), _shuffle(builder, v, v, high)) for v in vectors]
        zero = ir.Constant(vectors[0].type, [0.0] * 8)
        vectors += [zero, zero]

        def cross(a, b, first, second):
            return builder.fadd(_shuffle(builder, a, b, first), _shuffle(builder, a, b, second))

        fours = [
            cross(vectors[i], vectors[i + 4], [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15])
            for i in range(4)
        ]  # vector i in lanes 0 to 3, vector i + 4 in lanes 4 to 7
        twos = [
            cross(fours[i], fours[i + 1], [0, 8, 2, 10, 4, 12, 6, 14], [1, 9, 3, 11, 5, 13, 7, 15]) for i in (0, 2)
        ]
        sums = cross(*twos, [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15])
        return _shuffle(builder, sums, zero, list(range(8)) + [8] * (LANES - 8))

    return VECTOR(*[VECTOR] * GROUP), generate


@intrinsic
def product(typing_context, vector):
    """The product of all lanes, in float64."""

    def generate(context, builder, signature, arguments):
        doubles = builder.fpext(arguments[0], ir.VectorType(ir.DoubleType(), LANES))
        lanes = LANES
        while lanes > 1:
            lanes //= 2
            low, high = list(range(lanes)), list(range(lanes, 2 * lanes))
            doubles = builder.fmul(_shuffle(builder, doubles, doubles, low), _shuffle(builder, doubles, doubles, high))
        return builder.extract_element(doubles, _I32(0))

    return types.float64(VECTOR), generate


@compiled
def sigmoid(x):
    """1 / (1 + exp(-x)) = 0.5 + 0.5 tanh(x / 2), from Lambert's continued fraction of tanh, within 1e-5."""
    # In this order a score that is no number stays one, and shows in the loss.
    y = smaller(spread(np.float32(LARGEST_SCORE)), larger(spread(np.float32(-LARGEST_SCORE)), x))
    y = multiply(y, spread(np.float32(0.5)))
    s = multiply(y, y)
    above = fma(add(s, spread(np.float32(378))), s, spread(np.float32(17325)))
    above = multiply(fma(above, s, spread(np.float32(135135))), y)
    below = fma(fma(s, spread(np.float32(28)), spread(np.float32(3150))), s, spread(np.float32(62370)))
    below = fma(below, s, spread(np.float32(135135)))
    return fma(divide(above, below), spread(np.float32(0.5)), spread(np.float32(0.5)))


# --- one window ------------------------------------------------------------------------------------------------------


@compiled
def learn_window(
    table, rows, count, sink, outputs, out_rows, out_first, signs, groups, rate, width, old, steps, totals
):
    """One step of gradient descent on the loss of a window: -sum log sigmoid(sign * x_c . y_o) over its C x O scores.

    Args:
        table, rows, count: flat inputs, int64 row numbers of the C context words, and C.
        sink: where the gradient of the inputs is added: `table` itself, or another of the same rows.
        outputs, out_rows, out_first, groups: flat outputs; int32 row numbers from place `out_first`, six a group.
        signs: float32, `LANES` a group: 1 for what is to be predicted, -1 for what is not, 0 where there is no output.
        rate: learning rate, float32.
        width: D.
        old, steps: float32 room for C rows, and for C vectors.
        totals: float64; [0] the sum of the loss, [1] a running product of probabilities that is not yet in it.
    """
    width, count, lanes = np.uint64(width), np.uint64(count), np.uint64(LANES)
    zero, one = spread(np.float32(0)), spread(np.float32(1))
    for group in range(np.uint64(groups)):
        first = np.uint64(out_first) + group * np.uint64(GROUP)
        o0 = np.uint64(out_rows[first]) * width
        o1 = np.uint64(out_rows[first + np.uint64(1)]) * width
        o2 = np.uint64(out_rows[first + np.uint64(2)]) * width
        o3 = np.uint64(out_rows[first + np.uint64(3)]) * width
        o4 = np.uint64(out_rows[first + np.uint64(4)]) * width
        o5 = np.uint64(out_rows[first + np.uint64(5)]) * width
        sign = load(signs, group * lanes)
        wrong = add(one, multiply(larger(sign, zero), spread(np.float32(-1))))  # 0 for the right output, else 1
        scale = multiply(sign, spread(rate))
        likely = one
        for c in range(count):
            row, kept = np.uint64(rows[c]) * width, c * width
            a0, a1, a2, a3, a4, a5 = zero, zero, zero, zero, zero, zero
            for d in range(np.uint64(0), width, lanes):
                if group == 0:
                    x = load(table, row + d)
                    store(old, kept + d, x)
                else:
                    x = load(old, kept + d)
                a0 = fma(x, load(outputs, o0 + d), a0)
                a1 = fma(x, load(outputs, o1 + d), a1)
                a2 = fma(x, load(outputs, o2 + d), a2)
                a3 = fma(x, load(outputs, o3 + d), a3)
                a4 = fma(x, load(outputs, o4 + d), a4)
                a5 = fma(x, load(outputs, o5 + d), a5)
            # The probability of the right answer: sigmoid(x) for sign 1, 1 - sigmoid(x) for -1, and 1 for none.
            right = fma(sigmoid(sums_of_six(a0, a1, a2, a3, a4, a5)), sign, wrong)
            store(steps, c * lanes, fma(multiply(right, spread(np.float32(-1))), scale, scale))
            likely = multiply(likely, right)
            if c % np.uint64(FLUSH) == np.uint64(FLUSH - 1):
                _add_up(likely, totals)
                likely = one
        _add_up(likely, totals)

        for d in range(np.uint64(0), width, lanes):
            y0, y1, y2 = load(outputs, o0 + d), load(outputs, o1 + d), load(outputs, o2 + d)
            y3, y4, y5 = load(outputs, o3 + d), load(outputs, o4 + d), load(outputs, o5 + d)
            a0, a1, a2, a3, a4, a5 = zero, zero, zero, zero, zero, zero
            for c in range(count):
                x, s = load(old, c * width + d), c * lanes
                row = np.uint64(rows[c]) * width + d
                gradient = load(sink, row)
                step = spread(steps[s])
                gradient, a0 = fma(step, y0, gradient), fma(step, x, a0)
                step = spread(steps[s + np.uint64(1)])
                gradient, a1 = fma(step, y1, gradient), fma(step, x, a1)
                step = spread(steps[s + np.uint64(2)])
                gradient, a2 = fma(step, y2, gradient), fma(step, x, a2)
                step = spread(steps[s + np.uint64(3)])
                gradient, a3 = fma(step, y3, gradient), fma(step, x, a3)
                step = spread(steps[s + np.uint64(4)])
                gradient, a4 = fma(step, y4, gradient), fma(step, x, a4)
                step = spread(steps[s + np.uint64(5)])
                gradient, a5 = fma(step, y5, gradient), fma(step, x, a5)
                store(sink, row, gradient)
            # Read again before each is written: two of the six can be the same row.
            store(outputs, o0 + d, add(load(outputs, o0 + d), a0))
            store(outputs, o1 + d, add(load(outputs, o1 + d), a1))
            store(outputs, o2 + d, add(load(outputs, o2 + d), a2))
            store(outputs, o3 + d, add(load(outputs, o3 + d), a3))
            store(outputs, o4 + d, add(load(outputs, o4 + d), a4))
            store(outputs, o5 + d, add(load(outputs, o5 + d), a5))


@compiled
def _add_up(likely, totals):
    """One logarithm serves many probabilities: they are multiplied until the product nears the end of float64."""
    totals[1] *= product(likely)
    if totals[1] < 1e-100:
        totals[0] -= np.log(totals[1])
        totals[1] = 1.0


# --- chance ----------------------------------------------------------------------------------------------------------


@compiled
def next_random(state):
    """Marsaglia's xorshift: 64 bits from 64 bits."""
    state ^= state << np.uint64(13)
    state ^= state >> np.uint64(7)
    return state ^ (state << np.uint64(17))


alias_table = compiled(vocabulary.alias_table)


@compiled
def draw_negatives(state, target, number, limits, others, drawn, first):
    """Writes `number` words other than `target` from place `first` of `drawn`; returns the random state."""
    size = np.uint64(len(limits))
    for place in range(first, first + number):
        word = target
        for _ in range(1000):  # the target is drawn again; where all the weight is its own, the next word is taken
            state = next_random(state)
            column = (state >> np.uint64(32)) * size >> np.uint64(32)
            word = np.int32(column) if (state & np.uint64(0xFFFFFFFF)) < limits[column] else others[column]
            if word != target:
                break
        if word == target:
            word = np.int32((target + 1) % len(limits))
        drawn[place] = word
    return state


# --- a stretch of text -----------------------------------------------------------------------------------------------


@compiled
def train_chunk(
    tokens, inputs, outputs, width, keep, limits, others, nodes, codes, cbow, mean, window, negatives, rates, seed
):
    """Learns from a stretch of text, in place.

    Args:
        tokens: int32, words by number; -1 ends a sentence.
        inputs, outputs: flat float32 tables of padded rows; changed.
        width: D.
        keep: uint64 (V,), 2^32 times the probability that a word is kept by subsampling.
        limits, others: the negatives' `alias_table`; not used with a tree.
        nodes, codes: (V, L), the Huffman tree; of shape (V, 0) for negative sampling.
        cbow: predict the centre from its context as one, not from each context word.
        mean: with cbow, the context is the mean of its vectors, not the sum.
        window: the largest; each position draws its own from 1 to this.
        negatives: K.
        rates: the learning rate at the beginning and at the end; between, it falls in a line.
        seed: uint64, not 0.

    Returns:
        The sum of the loss, and the number of (context, centre) pairs that it is over (with cbow, of centres).
    """
    tree = nodes.shape[1] > 0
    groups = 1 + (nodes.shape[1] - 1 if tree else negatives) // GROUP
    stride = groups * GROUP
    state = np.uint64(seed)
    old, steps = np.zeros(2 * PART * width, np.float32), np.zeros(2 * PART * LANES, np.float32)
    hidden, gradient = np.zeros(width, np.float32), np.zeros(width, np.float32)
    sentence, rows, hidden_row = (
        np.zeros(MAX_SENTENCE, np.int32),
        np.zeros(2 * window, np.int64),
        np.zeros(1, np.int64),
    )
    chosen = np.zeros(stride if tree else MAX_SENTENCE * stride, np.int32)
    signs = np.zeros(groups * LANES, np.float32)
    if not tree:
        for k in range(1 + negatives):
            signs[k // GROUP * LANES + k % GROUP] = -1
        signs[0] = 1
    totals = np.array([0.0, 1.0])
    pairs = 0
    place = 0
    while place < len(tokens):
        rate = np.float32(rates[0] + (rates[1] - rates[0]) * place / len(tokens))
        length = 0
        while place < len(tokens) and tokens[place] >= 0 and length < MAX_SENTENCE:
            word = tokens[place]
            place += 1
            state = next_random(state)
            if (state >> np.uint64(32)) < keep[word]:
                sentence[length] = word
                if not tree:
                    chosen[length * stride] = word
                    state = draw_negatives(state, word, negatives, limits, others, chosen, length * stride + 1)
                    for spare in range(length * stride + 1 + negatives, (length + 1) * stride):
                        chosen[spare] = word
                length += 1
        if place < len(tokens) and tokens[place] < 0:
            place += 1
        for centre in range(length):
            if not tree and centre + AHEAD < length:
                for k in range((centre + AHEAD) * stride, (centre + AHEAD) * stride + 1 + negatives):
                    for d in range(0, width, 16):
                        prefetch(outputs, np.uint64(chosen[k]) * np.uint64(width) + np.uint64(d))
            if centre + AHEAD + window < length:
                coming = np.uint64(sentence[centre + AHEAD + window]) * np.uint64(width)
                for d in range(0, width, 16):
                    prefetch(inputs, coming + np.uint64(d))
            state = next_random(state)
            reach = 1 + int((state >> np.uint64(32)) * np.uint64(window) >> np.uint64(32))
            count = 0
            for other in range(max(0, centre - reach), min(length, centre + reach + 1)):
                if other != centre:
                    rows[count] = sentence[other]
                    count += 1
            if count == 0:
                continue
            first, used = centre * stride, groups
            if tree:
                first, used = 0, _lay_path(nodes[sentence[centre]], codes[sentence[centre]], chosen, signs)
            if not cbow:
                size = count if count <= 2 * PART else PART
                for part in range(0, count, size):
                    taken = min(size, count - part)
                    if part > 0:
                        rows[:taken] = rows[part : part + taken]
                    learn_window(
                        inputs, rows, taken, inputs, outputs, chosen, first, signs, used, rate, width, old, steps,
                        totals,
                    )  # fmt: skip
                pairs += count
                continue
            share = np.float32(1.0 / count if mean else 1.0)
            hidden[:] = 0
            gradient[:] = 0
            for c in range(count):
                row = np.uint64(rows[c]) * np.uint64(width)
                for d in range(np.uint64(0), np.uint64(width), np.uint64(LANES)):
                    store(hidden, d, fma(load(inputs, row + d), spread(share), load(hidden, d)))
            learn_window(
                hidden, hidden_row, 1, gradient, outputs, chosen, first, signs, used, rate, width, old, steps, totals
            )
            # The mean's gradient goes to each word in full, as in the original, and not by its share.
            for c in range(count):
                row = np.uint64(rows[c]) * np.uint64(width)
                for d in range(np.uint64(0), np.uint64(width), np.uint64(LANES)):
                    store(inputs, row + d, add(load(inputs, row + d), load(gradient, d)))
            pairs += 1
    return totals[0] - np.log(totals[1]), pairs


@compiled
def _lay_path(nodes, codes, chosen, signs):
    """A word's path in the tree as outputs, code 0 to be predicted; returns its groups of six."""
    length = 0
    while length < len(nodes) and nodes[length] >= 0:
        chosen[length] = nodes[length]
        signs[length // GROUP * LANES + length % GROUP] = 1 - 2 * codes[length]
        length += 1
    groups = 1 + (length - 1) // GROUP
    for spare in range(length, groups * GROUP):
        chosen[spare] = nodes[0]
        signs[spare // GROUP * LANES + spare % GROUP] = 0
    return groups
