"""word2vec in batches: the pairs it sees, the gradients it takes, and that it stays finite and learns."""

import copy
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.nn.functional import logsigmoid

from regard.modeling import Word2VecModel
from regard.train import word2vec_torch
from regard.train.corpus import EncodedCorpus
from regard.train.vocabulary import keep_probabilities
from regard.train.word2vec import TrainingState, train_word2vec
from regard.train.word2vec_torch import BLOCK, BatchedTables, default_batch, make_windows, stretches

WORDS = [f"w{number}" for number in range(30)]


def model_of(counts, **settings) -> Word2VecModel:
    torch.manual_seed(0)
    settings = {"hidden_size": 8, "window": 3, "subsample": 0.0, "min_count": 1, **settings}
    return Word2VecModel.from_vocabulary(WORDS[: len(counts)], sorted(counts, reverse=True), **settings)


def topics(sentences: int = 600, length: int = 12, seed: int = 0) -> EncodedCorpus:
    """Sentences of words 0 to 9, of 10 to 19 or of 20 to 29: the words of one topic are each other's neighbours."""
    rng = np.random.default_rng(seed)
    rows = [np.append(10 * (number % 3) + rng.integers(0, 10, length), -1) for number in range(sentences)]
    return EncodedCorpus(np.concatenate(rows).astype(np.int32), sentences * length)


def windows_of(tokens, window: int, seed: int = 0, keep=None):
    tokens = torch.as_tensor(tokens).long()
    keep = torch.ones(int(tokens.max()) + 1) if keep is None else torch.as_tensor(keep, dtype=torch.float32)
    return make_windows(tokens, keep, window, torch.Generator().manual_seed(seed))


def listed_pairs(windows) -> list[tuple[int, int]]:
    """The pairs of a stretch, each word being its own place in the text."""
    block, row, column = windows.pairs().nonzero(as_tuple=True)
    return list(zip(windows.centre[block, row].tolist(), windows.context[block, column].tolist(), strict=True))


# --- the pairs -------------------------------------------------------------------------------------------------------


def test_distances_come_as_often_as_the_formula_says():
    """A reach drawn from 1 to w leaves a pair at distance d in the window with probability (w - d + 1) / w."""
    length, window, draws = 203, 5, 40
    seen = np.zeros(length)
    for seed in range(draws):
        pairs = listed_pairs(windows_of(range(length), window, seed))
        assert len(set(pairs)) == len(pairs)
        np.add.at(seen, [abs(one - other) for one, other in pairs], 1)
    assert seen[0] == seen[window + 1 :].sum() == 0
    for distance in range(1, window + 1):
        share, number = (window - distance + 1) / window, 2 * (length - distance) * draws
        assert seen[distance] / number == pytest.approx(share, abs=5 * (share * (1 - share) / number) ** 0.5 + 1e-12)


def test_a_window_reaches_over_blocks_and_not_over_sentences():
    lengths = [BLOCK - 2, 1, 2, 3 * BLOCK, 5]
    ends = np.cumsum(lengths)
    words = np.arange(ends[-1])
    tokens = np.insert(words, ends, -1)
    pairs = set()
    for seed in range(60):
        pairs |= set(listed_pairs(windows_of(tokens, 4, seed)))
    sentence = np.searchsorted(ends, words, side="right")
    assert pairs == {
        (i, j) for i in words for j in words if 0 < abs(i - j) <= 4 and sentence[i] == sentence[j]
    }  # each that is possible, and no other


def test_subsampling_keeps_what_the_formula_says_and_closes_the_gaps():
    counts = np.array([5000, 300, 40, 40])
    keep = keep_probabilities(counts, 1e-2)
    tokens = np.repeat(np.arange(4), counts)
    np.random.default_rng(0).shuffle(tokens)
    kept = np.zeros(4)
    for seed in range(50):
        windows = windows_of(tokens, 2, seed, keep)
        real = windows.centre_sentence >= 0
        kept += np.bincount(windows.centre[real].numpy(), minlength=4)
    expected = counts * keep
    assert np.all(np.abs(kept / 50 - expected) <= 5 * np.sqrt(expected * (1 - keep) / 50) + 1e-9)
    alone = windows_of([0, 1, 0, 0, 2], 1, keep=[0.0, 1.0, 1.0])  # words that are gone part nothing
    assert set(listed_pairs(alone)) == {(1, 2), (2, 1)}


def test_negatives_follow_the_counts():
    """Chi-square of 20,000 draws against count^0.75, 9 degrees of freedom: 27.9 at one in a thousand."""
    counts = np.array([2.0**n for n in range(10)][::-1])
    tables = BatchedTables(model_of(counts), seed=0, negatives=200)
    draws = tables.draw(100, torch.Generator().manual_seed(3))
    assert draws.shape == (100, 200)
    expected = counts**0.75 / (counts**0.75).sum() * draws.numel()
    seen = np.bincount(draws.flatten().numpy(), minlength=10)
    assert ((seen - expected) ** 2 / expected).sum() < 27.9


# --- the step --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"architecture": "cbow"}, {"architecture": "cbow", "cbow_mean": False}])
def test_a_step_is_the_gradient_of_the_formula(settings):
    """Equation 4 of Mikolov et al. (2013), pair by pair and negative by negative, through autograd.

    But for the words of a mean, each of which the original program moves by the gradient of the mean, in full, and not
    by its share: here a mean is taken forwards, and handed back as if it had been the sum.
    """
    model = model_of([9, 8, 7, 6, 5, 4, 3], **settings)
    torch.nn.init.normal_(model.in_embeddings.weight, std=0.5)
    torch.nn.init.normal_(model.out_embeddings.weight, std=0.5)
    rng, rate, number = np.random.default_rng(1), 0.05, 16
    tokens = np.append(rng.integers(0, 7, 50), -1)
    windows = windows_of(tokens, 3).take(torch.arange(2))
    negatives = torch.from_numpy(rng.integers(0, 7, (2, number)))

    reference = copy.deepcopy(model)
    v, u = reference.in_embeddings.weight, reference.out_embeddings.weight
    near, loss, pairs = windows.pairs(), torch.zeros(()), 0
    for block in range(2):
        for place in range(BLOCK):
            context = windows.context[block][near[block, place] > 0]
            centre = windows.centre[block, place]
            if not len(context):
                continue
            if reference.config.architecture == "skip-gram":
                examples = [(v[centre], target) for target in context]
            else:
                total = v[context].sum(0)
                if reference.config.cbow_mean:
                    total = total + (total / len(context) - total).detach()
                examples = [(total, centre)]
            for hidden, target in examples:
                pairs += 1
                loss = loss - logsigmoid(u[target] @ hidden)
                for negative in negatives[block]:
                    if negative != target:
                        loss = loss - reference.config.num_negatives / number * logsigmoid(-u[negative] @ hidden)
    loss.backward()

    tables = BatchedTables(model, seed=0, negatives=number, longest_move=1e9)
    with torch.no_grad():
        found_loss, found_pairs = tables.step(windows, negatives, rate, torch.zeros(7))
    assert found_pairs == pairs
    torch.testing.assert_close(found_loss, loss.detach(), rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(model.in_embeddings.weight, v - rate * v.grad, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model.out_embeddings.weight, u - rate * u.grad, rtol=1e-4, atol=1e-5)


def test_no_row_moves_further_than_it_may():
    model = model_of([3, 2, 1])
    tables = BatchedTables(model, seed=0, longest_move=1.0)
    table, before = tables.input, tables.input.clone()
    change = torch.zeros(1, 3, 8)
    change[0, :, 0] = torch.tensor([30.0, 10.0, 1.0])
    moves = torch.zeros(3)
    tables.add(table, torch.tensor([[0, 0, 1]]), change, 0.5, moves)
    along = torch.eye(8)[0]
    torch.testing.assert_close(table[0], before[0] + along)  # 20 long: shortened to 1
    torch.testing.assert_close(table[1], before[1] + 0.5 * along)  # half as long as may be: all of it
    assert torch.equal(table[2], before[2])
    assert not moves.any()


# --- training --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_one_very_frequent_word_stays_finite(architecture):
    """Nine of ten words are one word, and nothing is subsampled: each batch holds it 900 times."""
    rng = np.random.default_rng(0)
    words = np.where(rng.random(20_000) < 0.9, 0, rng.integers(1, 30, 20_000))
    tokens = np.append(words, -1).astype(np.int32)
    counts = np.maximum(np.bincount(words, minlength=30), 1)
    model = model_of(counts, architecture=architecture, window=5)
    history = train_word2vec(model, EncodedCorpus(tokens, len(words)), epochs=3, learning_rate=0.05, engine="torch")
    assert np.isfinite([entry["loss"] for entry in history]).all()
    for table in (model.in_embeddings, model.out_embeddings):
        assert table.weight.isfinite().all()
        assert table.weight.norm(dim=1).max() < 20


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_planted_topics_are_found(architecture):
    model, corpus = model_of([240] * 30, architecture=architecture), topics()
    history = train_word2vec(model, corpus, epochs=20, learning_rate=0.1, engine="torch", words_per_batch=64)
    losses = [entry["epoch_loss"] for entry in history if "epoch_loss" in entry]
    assert len(losses) == 20
    assert losses[-1] < losses[0]
    for row, word in enumerate(WORDS):
        near = [model.key_to_index[other] for other, _ in model.most_similar(word, topn=9)]
        assert {other // 10 for other in near} == {row // 10}, word


@pytest.mark.skipif(not torch.accelerator.is_available(), reason="there is no accelerator here")
@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_planted_topics_are_found_on_a_device(architecture):
    model, corpus, saved = model_of([240] * 30, architecture=architecture), topics(), []
    model.to(torch.accelerator.current_accelerator())
    settings = {"epochs": 20, "learning_rate": 0.1, "engine": "torch", "words_per_batch": 64, "save_steps": 64}
    train_word2vec(model, corpus, save=lambda state: saved.append(state.step), **settings)
    assert model.in_embeddings.weight.device.type != "cpu"
    assert saved[-1] == 20
    for row, word in enumerate(WORDS):
        near = [model.key_to_index[other] for other, _ in model.most_similar(word, topn=9)]
        assert {other // 10 for other in near} == {row // 10}, word


def test_a_batch_on_a_device_grows_with_the_text():
    """So that an epoch has steps enough; a CPU gains nothing by more words at once."""
    assert [default_batch("cuda", words) for words in (0, 2_000_000, 10_000_000, 10**9)] == [1536, 1536, 5000, 8192]
    assert default_batch("cpu", 10**9) == 1536


def test_one_seed_gives_one_model_and_a_resumed_training_is_the_same():
    corpus, saved = topics(), {}
    whole, again, other = (model_of([240] * 30) for _ in range(3))

    def save(state: TrainingState) -> None:
        if not saved:
            saved.update(state=TrainingState(**state.to_dict()), model=copy.deepcopy(whole))

    settings = {"epochs": 6, "engine": "torch", "workers": 1}
    save_steps = 3 * (len(corpus.chunks()) - 1)  # chunks of three epochs
    history = train_word2vec(whole, corpus, seed=5, save_steps=save_steps, save=save, **settings)
    assert saved["state"].step == 3
    assert history[-1]["step"] == 6
    train_word2vec(again, corpus, seed=5, **settings)
    train_word2vec(other, corpus, seed=6, **settings)
    resumed = saved["model"]
    train_word2vec(resumed, corpus, seed=5, state=saved["state"], **settings)
    for table in ("in_embeddings", "out_embeddings"):
        weight = getattr(whole, table).weight
        assert torch.equal(weight, getattr(again, table).weight)
        assert torch.equal(weight, getattr(resumed, table).weight)
        assert not torch.equal(weight, getattr(other, table).weight)


def test_several_workers_find_planted_topics():
    corpus = topics(5000)  # several stretches, which are learnt at once
    model = model_of([2000] * 30)
    history = train_word2vec(model, corpus, epochs=4, learning_rate=0.1, engine="torch", workers=3)
    assert history[-1]["step"] >= 8
    for row, word in enumerate(WORDS):
        near = [model.key_to_index[other] for other, _ in model.most_similar(word, topn=9)]
        assert {other // 10 for other in near} == {row // 10}, word


TRAINING = """
import json, os, signal, sys
import numpy as np
import torch
from regard.modeling import Word2VecModel
from regard.train.corpus import EncodedCorpus
from regard.train.word2vec import TrainingState, train_word2vec
from regard.train.word2vec_torch import BatchedTables

folder, last = sys.argv[1], int(sys.argv[2])
state, learn = TrainingState(), BatchedTables.learn
if os.path.isfile(f"{folder}/state.json"):
    with open(f"{folder}/state.json") as file:
        state = TrainingState(**json.load(file))
model = Word2VecModel.from_pretrained(folder)
corpus = EncodedCorpus(np.load(f"{folder}/tokens.npy"), 7200)

def learn_or_die(tables, tokens, rates, step):
    if step == last:
        os.kill(os.getpid(), signal.SIGKILL)
    return learn(tables, tokens, rates, step)

def save(state):
    model.save_pretrained(folder)
    with open(f"{folder}/state.json", "w") as file:
        json.dump(state.to_dict(), file)

BatchedTables.learn = learn_or_die
train_word2vec(model, corpus, epochs=4, workers=1, engine="torch", state=state, save_steps=1, save=save)
"""


def test_a_killed_training_goes_on_to_the_same_bytes(tmp_path):
    """Each start is a process of its own; the first dies in the third epoch."""
    corpus = topics()
    folders = [tmp_path / "killed", tmp_path / "whole"]
    for folder in folders:
        model_of([240] * 30).save_pretrained(folder)
        np.save(folder / "tokens.npy", corpus.tokens)

    def start(folder, last: int) -> int:
        command = [sys.executable, "-c", TRAINING, str(folder), str(last)]
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert start(folders[0], 2) == -signal.SIGKILL
    assert json.loads((folders[0] / "state.json").read_text())["step"] == 2
    assert start(folders[0], -1) == 0
    assert start(folders[1], -1) == 0
    weights = [(folder / "model.safetensors").read_bytes() for folder in folders]
    assert weights[0] == weights[1]
    histories = [json.loads((folder / "state.json").read_text())["history"] for folder in folders]
    assert [[entry["loss"] for entry in history] for history in histories] == [
        [entry["loss"] for entry in histories[0]]
    ] * 2


def test_threads_are_as_before_when_a_training_fails(monkeypatch):
    def fail(*arguments):
        assert torch.get_num_threads() == 1
        raise MemoryError("no room")

    monkeypatch.setattr(BatchedTables, "learn", fail)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with pytest.raises(MemoryError, match="no room"):
            train_word2vec(model_of([240] * 30), topics(), engine="torch", workers=2)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_the_loss_is_estimated_and_its_measure_changes_no_step(monkeypatch):
    """Before anything is learnt a pair loses log 2, and as much by each of 5 negatives that is not its target."""
    found, models = [], []
    for measured in (1, 4):
        monkeypatch.setattr(word2vec_torch, "MEASURED", measured)
        models.append(model_of([240] * 30))
        tables = BatchedTables(models[-1], seed=0, words_per_batch=600)
        found.append(tables.learn(topics().tokens, (1e-4, 1e-4), 0))
    (whole, pairs), (estimate, again) = found
    assert again == pairs == pytest.approx(7200 * (12 - 1) / 12 * 3.5, rel=0.1)
    assert whole / pairs == pytest.approx((1 + 5 * 29 / 30) * np.log(2), rel=0.01)
    assert estimate == pytest.approx(whole, rel=0.01)
    assert estimate != whole
    assert torch.equal(models[0].in_embeddings.weight, models[1].in_embeddings.weight)


def test_a_stretch_without_pairs_is_nothing():
    model = model_of([3, 2, 1])
    before = copy.deepcopy(model.state_dict())
    tables = BatchedTables(model, seed=0)
    assert tables.learn(np.zeros(0, dtype=np.int32), (0.1, 0.1), 0) == (0.0, 0)
    assert tables.learn(np.array([0, -1, 1, -1], dtype=np.int32), (0.1, 0.1), 0) == (0.0, 0)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_stretches_join_whole_chunks():
    assert stretches(np.arange(0, 4600, 100)).tolist() == [0, 2000, 4000, 4500]
    assert stretches(np.array([0, 70])).tolist() == [0, 70]


@pytest.mark.parametrize(
    ("settings", "arguments", "sentence"),
    [
        ({"objective": "hierarchical-softmax"}, {}, "engine='torch' learns by negative sampling alone"),
        ({}, {"words_per_batch": 0}, "words_per_batch=0 must be at least 1"),
        ({}, {"negatives": 0}, "negatives=0 must be at least 1"),
    ],
)
def test_what_cannot_be_learnt_is_said(settings, arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        train_word2vec(model_of([240] * 30, **settings), topics(), engine="torch", **arguments)
