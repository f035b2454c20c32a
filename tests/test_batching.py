"""Batches by token count: what they hold, how little they pad, and that they stay the same."""

import numpy as np
import pytest
from datasets import Dataset
from torch.utils.data import DataLoader

from regard.train.batching import batch_by_tokens, list_lengths


def pairs(lengths):
    return Dataset.from_dict(
        {
            "input_ids": [[1] * source for source, _ in lengths],
            "labels": [[2] * target for _, target in lengths],
            "number": list(range(len(lengths))),
        }
    )


def shapes(batch):
    return [(len(example["input_ids"]), len(example["labels"])) for example in batch]


def test_batches_by_hand():
    batches = batch_by_tokens(pairs([(3, 2), (1, 1), (2, 2), (4, 5), (1, 2), (6, 3)]), max_tokens=6)
    # Sorted by target; sources go up where the target is odd and down where it is even; the budget cuts.
    assert [shapes(batch) for batch in batches] == [[(1, 1), (3, 2)], [(2, 2), (1, 2)], [(6, 3)], [(4, 5)]]
    assert [[example["number"] for example in batch] for batch in batches] == [[1, 0], [2, 4], [5], [3]]
    # Positions, source and target: 2x3 + 2x2, 2x2 + 2x2, 6 + 3, 4 + 5; pads: 2 + 1 in the first batch, 1 in the next.
    assert batches.pad_share == pytest.approx(4 / (10 + 8 + 9 + 9))


def random_lengths(count, seed=0, longest=100):
    rng = np.random.default_rng(seed)
    source = rng.integers(1, longest + 1, count)
    target = np.clip(source + rng.integers(-5, 6, count), 1, longest)
    return list(zip(source.tolist(), target.tolist(), strict=True))


@pytest.mark.parametrize("max_tokens", [100, 1000, 4096])
def test_every_example_comes_once_within_the_budget(max_tokens):
    dataset = pairs(random_lengths(1000))
    batches = batch_by_tokens(dataset, max_tokens)
    numbers = [example["number"] for batch in batches for example in batch]
    assert sorted(numbers) == list(range(1000))
    cost = [len(batch) * max(max(shape) for shape in shapes(batch)) for batch in batches]
    assert max(cost) <= max_tokens
    assert batches.pad_share == pytest.approx(pads(batches))


def pads(batches):
    """The share of pads, by the definition."""
    used = positions = 0
    for batch in batches:
        for side in zip(*shapes(batch), strict=True):
            used += sum(side)
            positions += len(side) * max(side)
    return 1 - used / positions


def test_no_batch_could_take_the_next_example():
    batches = list(batch_by_tokens(pairs(random_lengths(500)), 400))
    for batch, following in zip(batches, batches[1:], strict=False):
        grown = [*shapes(batch), shapes(following)[0]]
        assert len(grown) * max(max(shape) for shape in grown) > 400


def test_pads_are_few():
    """Case 47: against batches in random order, of as many examples each as here on average."""
    dataset = pairs(random_lengths(1000))
    batches = batch_by_tokens(dataset, 2048)
    rows = np.random.default_rng(1).permutation(1000)
    random = [dataset.select(part).to_list() for part in np.array_split(rows, len(batches))]
    assert batches.pad_share < 0.1
    assert batches.pad_share < pads(random) / 4


def test_the_same_data_give_the_same_batches():
    first = batch_by_tokens(pairs(random_lengths(300)), 500)
    again = batch_by_tokens(pairs(random_lengths(300)), 500)
    assert list(first) == list(again)
    assert len(first) == len(list(first))


def test_a_loader_shuffles_whole_batches():
    batches = batch_by_tokens(pairs(random_lengths(100)), 500)
    loader = DataLoader(batches, batch_size=1, shuffle=True, collate_fn=lambda features: features[0])
    seen = [[example["number"] for example in batch] for batch in loader]
    planned = [[example["number"] for example in batch] for batch in batches]
    assert sorted(seen) == sorted(planned)


def test_selected_rows_keep_their_own_lengths():
    dataset = pairs([(1, 1), (2, 2), (3, 3), (4, 4)]).select([3, 1])
    assert list_lengths(dataset, "input_ids").tolist() == [4, 2]
    assert [shapes(batch) for batch in batch_by_tokens(dataset, 4)] == [[(2, 2)], [(4, 4)]]


def test_labels_that_are_classes_have_no_length():
    dataset = Dataset.from_dict({"input_ids": [[1], [1, 2], [1, 2]], "labels": [0, 1, 0]})
    batches = batch_by_tokens(dataset, 4)
    assert [[len(example["input_ids"]) for example in batch] for batch in batches] == [[2, 2], [1]]
    assert batches.pad_share == 0


def test_an_example_longer_than_the_budget_is_named():
    with pytest.raises(
        ValueError, match=r"data.max_tokens_per_batch: 4 is less than the longest example, of 5 .*row 1"
    ):
        batch_by_tokens(pairs([(1, 1), (2, 5)]), 4)


def test_no_examples_and_streams_are_refused():
    with pytest.raises(ValueError, match="no examples"):
        batch_by_tokens(pairs([(1, 1)]).select([]), 4)
    with pytest.raises(ValueError, match="data.streaming=false"):
        batch_by_tokens(pairs([(1, 1)]).to_iterable_dataset(), 4)
