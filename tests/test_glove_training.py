"""GloVe: the counts against counting by hand, the steps against torch, and that it learns."""

import copy

import numpy as np
import pytest
import torch

from regard.modeling import GloVeModel
from regard.train import cooccurrence, glove
from regard.train.cooccurrence import Cooccurrences, count_cooccurrences
from regard.train.corpus import EncodedCorpus
from regard.train.glove import GloVeState, train_glove


def corpus_of(sentences) -> EncodedCorpus:
    tokens = np.concatenate([np.append(sentence, -1) for sentence in sentences]).astype(np.int32)
    return EncodedCorpus(tokens, sum(len(sentence) for sentence in sentences))


def random_corpus(words: int = 30, sentences: int = 200, seed: int = 0) -> EncodedCorpus:
    rng = np.random.default_rng(seed)
    return corpus_of([(rng.integers(0, words, length) ** 2) // words for length in rng.integers(1, 25, sentences)])


def counted_by_hand(corpus: EncodedCorpus, words: int, window: int, symmetric: bool) -> np.ndarray:
    """The definition: each ordered pair of places in a sentence adds one over its distance."""
    result, sentence = np.zeros((words, words)), []
    for token in corpus.tokens.tolist():
        if token >= 0:
            sentence.append(token)
            continue
        for here, word in enumerate(sentence):
            for there, context in enumerate(sentence):
                left = 0 < here - there <= window
                right = symmetric and 0 < there - here <= window
                if left or right:
                    result[word, context] += 1 / abs(here - there)
        sentence = []
    return result


def as_matrix(pairs: Cooccurrences, words: int) -> np.ndarray:
    result = np.zeros((words, words))
    result[pairs.rows, pairs.columns] = pairs.counts
    assert len(pairs) == np.count_nonzero(result)  # each pair once, and none of count 0
    return result


def model_of(words: int = 30, width: int = 8, **settings) -> GloVeModel:
    torch.manual_seed(0)
    names = [f"w{number}" for number in range(words)]
    return GloVeModel.from_vocabulary(names, [1] * words, hidden_size=width, min_count=1, **settings)


# --- counting --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("window", [1, 4, 40])
def test_counts_are_those_by_hand(window, symmetric, tmp_path):
    corpus = random_corpus()
    expected = counted_by_hand(corpus, 30, window, symmetric)
    held = count_cooccurrences(corpus, 30, window, symmetric)
    np.testing.assert_allclose(as_matrix(held, 30), expected, rtol=1e-6)
    kept = count_cooccurrences(corpus, 30, window, symmetric, folder=tmp_path)
    np.testing.assert_array_equal(as_matrix(kept, 30), as_matrix(held, 30))
    again = Cooccurrences.open(tmp_path)
    for name in ("rows", "columns", "counts"):
        np.testing.assert_array_equal(getattr(again, name), getattr(held, name))
    assert {path.name for path in tmp_path.iterdir()} == {"rows.bin", "columns.bin", "counts.bin"}


def test_a_small_table_is_emptied_and_merged(monkeypatch):
    """Memory is bounded: with 64 places for some 500 pairs, sorted runs go to files and are merged in small parts."""
    written = []
    original = cooccurrence._written
    monkeypatch.setattr(cooccurrence, "_written", lambda *run: written.append(len(run[0])) or original(*run))
    monkeypatch.setattr(cooccurrence, "MERGE", 128)
    corpus = random_corpus()
    pairs = count_cooccurrences(corpus, 30, 4, table_size=64)
    assert len(written) > 5
    assert max(written) <= 48  # three quarters
    np.testing.assert_allclose(as_matrix(pairs, 30), counted_by_hand(corpus, 30, 4, True), rtol=1e-6)


def test_a_window_does_not_cross_sentences():
    pairs = count_cooccurrences(corpus_of([[0, 1], [2, 3]]), 4, 10)
    assert as_matrix(pairs, 4).nonzero()[0].tolist() == [0, 1, 2, 3]
    assert as_matrix(pairs, 4)[1, 2] == 0


def test_what_cannot_be_counted_is_said(tmp_path):
    with pytest.raises(ValueError, match="No two words of the vocabulary stand in one sentence"):
        count_cooccurrences(corpus_of([[0], [1]]), 2, 5, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="table_size=100 must be a power of two"):
        count_cooccurrences(random_corpus(), 30, 5, table_size=100)
    assert Cooccurrences.open(tmp_path) is None


# --- steps -----------------------------------------------------------------------------------------------------------


def test_steps_are_those_of_torch():
    """Pair by pair: the model's own loss, autograd, and torch.optim.Adagrad."""
    model, corpus = model_of(12, width=5, x_max=3.0), random_corpus(12, sentences=10)
    pairs = count_cooccurrences(corpus, 12, 3)
    assert pairs.counts.min() < 3 < pairs.counts.max()  # both sides of x_max
    reference = copy.deepcopy(model)
    optimizer = torch.optim.Adagrad(reference.parameters(), lr=0.05, initial_accumulator_value=1.0)
    losses = []
    for rows, columns, counts in glove._mixed(pairs, np.random.default_rng([7, 0])):
        for row, column, count in zip(rows, columns, counts, strict=True):
            one = [torch.tensor([int(row)]), torch.tensor([int(column)]), torch.tensor([float(count)])]
            optimizer.zero_grad()
            loss = reference(*one).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    history = train_glove(model, pairs, epochs=1, learning_rate=0.05, workers=1, seed=7)
    assert history[0]["loss"] == pytest.approx(np.mean(losses), rel=1e-5)
    for name, parameter in reference.named_parameters():
        torch.testing.assert_close(model.get_parameter(name), parameter, rtol=1e-4, atol=1e-6)


def test_every_pair_comes_once_an_epoch_in_another_order(monkeypatch):
    monkeypatch.setattr(glove, "BUFFER", 64)
    monkeypatch.setattr(glove, "BLOCK", 8)
    pairs = count_cooccurrences(random_corpus(), 30, 4)
    orders = []
    for epoch in range(2):
        parts = list(glove._mixed(pairs, np.random.default_rng([1, epoch])))
        assert max(len(rows) for rows, _, _ in parts) <= 64 < len(pairs)
        orders.append([pair for part in parts for pair in zip(*part, strict=True)])
        assert sorted(orders[-1]) == sorted(zip(pairs.rows, pairs.columns, pairs.counts, strict=True))
    assert orders[0] != orders[1]


# --- training --------------------------------------------------------------------------------------------------------


def topics(sentences: int = 600) -> EncodedCorpus:
    """Sentences of words 0 to 9, of 10 to 19 or of 20 to 29, and now and then a word of another topic."""
    rng = np.random.default_rng(0)
    rows = [10 * (number % 3) + rng.integers(0, 10, 12) for number in range(sentences)]
    for row in rows[::10]:
        row[rng.integers(12)] = rng.integers(30)
    return corpus_of(rows)


@pytest.mark.parametrize("workers", [1, 3])
def test_planted_topics_are_found_and_the_loss_falls(workers):
    model = model_of(window=5, x_max=10.0)
    history = train_glove(model, topics(), epochs=30, workers=workers)
    losses = [entry["loss"] for entry in history]
    assert len(losses) == 30
    assert losses[-1] < 0.5 * losses[0]
    for row, word in enumerate(model.index_to_key):
        near = [model.key_to_index[other] for other, _ in model.most_similar(word, topn=9)]
        assert {other // 10 for other in near} == {row // 10}, word


def test_one_seed_gives_one_model_and_a_resumed_training_is_the_same(tmp_path):
    corpus, saved = random_corpus(), {}
    whole, again, other = model_of(), model_of(), model_of()

    def save(state: GloVeState) -> None:
        if state.epoch == 2:
            sums = {name: array.copy() for name, array in state.sums.items()}
            saved.update(state=GloVeState(**copy.deepcopy(state.to_dict()), sums=sums), model=copy.deepcopy(whole))

    settings = {"epochs": 5, "workers": 1, "folder": tmp_path}
    train_glove(whole, corpus, seed=5, save=save, **settings)
    train_glove(again, corpus, seed=5, **settings)
    train_glove(other, corpus, seed=6, **settings)
    resumed = saved["model"]
    history = train_glove(resumed, corpus, seed=5, state=saved["state"], **settings)
    assert [entry["epoch"] for entry in history] == [1, 2, 3, 4, 5]
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        assert torch.equal(parameter, resumed.get_parameter(name))
        assert not torch.equal(parameter, other.get_parameter(name))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"epochs": 0}, "epochs=0 must be at least 1"),
        ({"learning_rate": 0.0}, r"learning_rate=0\.0 must be above 0"),
        ({"workers": -1}, "workers=-1 must be at least 1"),
    ],
)
def test_numbers_that_cannot_be_are_named(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_glove(model_of(), random_corpus(), **arguments)


def test_what_does_not_belong_to_the_model_is_refused():
    with pytest.raises(ValueError, match="words beyond the 10 rows of the model"):
        train_glove(model_of(10), random_corpus())
    with pytest.raises(ValueError, match="bfloat16 on cpu; it is trained in float32 on the CPU"):
        train_glove(model_of().to(torch.bfloat16), random_corpus())
    state = GloVeState(sums={name: np.ones((3, 1), dtype=np.float32) for name in glove.TABLES})
    with pytest.raises(ValueError, match="the state belongs to another model"):
        train_glove(model_of(), random_corpus(), state=state)


def test_a_rate_that_is_too_high_is_said():
    with pytest.raises(FloatingPointError, match="try a lower learning_rate"):
        train_glove(model_of(), random_corpus(), learning_rate=1e30, epochs=3, workers=1)
