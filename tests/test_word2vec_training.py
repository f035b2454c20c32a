"""The compiled engine: its gradients, its randomness, what it learns, and what it refuses."""

import _thread
import io
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard.modeling import Word2VecModel
from regard.modeling.huffman import huffman_tree
from regard.train import word2vec_kernels as kernels
from regard.train.corpus import BREAK, EncodedCorpus, number_sentences
from regard.train.vectors_run import VectorProgress
from regard.train.vocabulary import keep_probabilities, update_vocabulary
from regard.train.word2vec import Plan, TrainingState, _Log, _Tables, memory_needed, step_seed, train_word2vec
from regard.train.word2vec_torch import BatchedTables

F64 = torch.float64


def planted(sentences: int = 600, topics: int = 4, words: int = 6, seed: int = 0) -> list[list[str]]:
    """Words of one topic come together; a word is near its own topic's words alone."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, topics, sentences)
    return [[f"t{t}w{w}" for w in rng.integers(0, words, 12)] for t in topic]


def trained(sentences=None, epochs=5, workers=1, seed=42, learning_rate=0.05, **settings):
    sentences = planted() if sentences is None else sentences
    text = number_sentences(sentences)
    vocabulary = text.vocabulary(1)
    torch.manual_seed(seed)
    settings = {"hidden_size": 20, "subsample": 0, "min_count": 1} | settings
    model = Word2VecModel.from_vocabulary(vocabulary.words, vocabulary.counts, **settings)
    corpus = text.encode(vocabulary.words)
    return model, train_word2vec(model, corpus, epochs, learning_rate, workers=workers, seed=seed)


def topic_purity(model) -> float:
    """Share of words whose five nearest are of their own topic."""
    nearest = [[w for w, _ in model.most_similar(word, topn=5)] for word in model.index_to_key]
    same = [near[:2] == word[:2] for word, found in zip(model.index_to_key, nearest, strict=True) for near in found]
    return float(np.mean(same))


class Replica:
    """word2vec in float64, one score after the other, from the formulas of Mikolov et al. (2013).

    With the engine it has in common what its description says: the random bits, negatives shared by a window, and that
    `PART` context words (up to twice as many, if they are all) and `GROUP` outputs start from the same old values.
    """

    def __init__(self, model, seed: int) -> None:
        self.config, self.counts, self.seed = model.config, model.counts.numpy(), seed
        self.nodes, self.codes = huffman_tree(self.counts)
        weights = self.counts**model.config.negative_exponent
        self.limits, self.others = kernels.alias_table(weights)

    def bits(self) -> tuple[int, int]:
        """The next 64 bits, as two halves."""
        for shift in (13, -7, 17):
            self.state ^= (self.state << shift) % 2**64 if shift > 0 else self.state >> -shift
        return self.state >> 32, self.state % 2**32

    def negative(self, target: int) -> int:
        while True:
            column, low = self.bits()
            column = column * len(self.counts) >> 32
            word = column if low < self.limits[column] else self.others[column]
            if word != target:
                return int(word)

    def learn(self, x: np.ndarray, u: np.ndarray, tokens: np.ndarray, rates: tuple[float, float], step: int):
        """Changes the tables; the sum of the loss, and the number of pairs."""
        self.state, place, loss, pairs = step_seed(self.seed, step), 0, 0.0, 0
        keep = keep_probabilities(self.counts, self.config.subsample)
        for sentence in np.split(tokens, np.flatnonzero(tokens < 0) + 1):
            rate = rates[0] + (rates[1] - rates[0]) * place / len(tokens)
            place += len(sentence)
            words, negatives = [], []
            for word in sentence[sentence >= 0]:
                if self.bits()[0] < keep[word] * 2**32:
                    words.append(word)
                    if self.config.objective == "negative-sampling":
                        negatives.append([self.negative(word) for _ in range(self.config.num_negatives)])
            for centre, word in enumerate(words):
                reach = 1 + (self.bits()[0] * self.config.window >> 32)
                context = words[max(0, centre - reach) : centre] + words[centre + 1 : centre + 1 + reach]
                if not context:
                    continue
                if self.config.objective == "negative-sampling":
                    outputs, labels = [word, *negatives[centre]], [1] + [0] * self.config.num_negatives
                else:  # to turn to the first child is what is to be predicted
                    outputs = self.nodes[word][self.nodes[word] >= 0]
                    labels = 1 - self.codes[word][: len(outputs)]
                if self.config.architecture == "skip-gram":
                    size = len(context) if len(context) <= 2 * kernels.PART else kernels.PART
                    for first in range(0, len(context), size):
                        part = context[first : first + size]
                        change, lost = self.window(x[part], u, outputs, labels, rate)
                        np.add.at(x, part, change)
                        loss += lost
                    pairs += len(context)
                else:
                    hidden = x[context].mean(0) if self.config.cbow_mean else x[context].sum(0)
                    change, lost = self.window(hidden[None], u, outputs, labels, rate)
                    np.add.at(x, context, change)  # in full to each, with the mean too, as in the original program
                    loss, pairs = loss + lost, pairs + 1
        return loss, pairs

    @staticmethod
    def window(hidden, u, outputs, labels, rate):
        """Moves the outputs; what the hidden vectors are to be moved by, and the loss."""
        change, loss = np.zeros_like(hidden), 0.0
        for first in range(0, len(outputs), kernels.GROUP):
            old = u.copy()
            for output, label in list(zip(outputs, labels, strict=True))[first : first + kernels.GROUP]:
                for c, h in enumerate(hidden):
                    probability = 1 / (1 + np.exp(-h @ old[output]))
                    loss -= np.log(probability if label else 1 - probability)
                    change[c] += rate * (label - probability) * old[output]
                    u[output] += rate * (label - probability) * h
        return change, loss


class TestReplica:
    @pytest.mark.parametrize("objective", ["negative-sampling", "hierarchical-softmax"])
    @pytest.mark.parametrize(
        ("settings", "window"),
        [
            ({"architecture": "skip-gram"}, 3),
            ({"architecture": "skip-gram"}, 25),  # wider than is learnt at once
            ({"architecture": "cbow", "cbow_mean": True}, 4),
            ({"architecture": "cbow", "cbow_mean": False}, 4),
        ],
    )
    def test_each_step_is_that_of_the_formulas(self, settings, window, objective):
        rng = np.random.default_rng(window)
        words = (30 * rng.random(240) ** 2).astype(np.int32)
        tokens = np.insert(words, [1, 1, 60, 75, 140], BREAK).astype(np.int32)
        counts = np.sort(np.bincount(words, minlength=30) + 1)[::-1].copy()
        model = Word2VecModel.from_vocabulary(
            [f"w{word}" for word in range(30)], counts, hidden_size=10, window=window, objective=objective,
            num_negatives=7, subsample=0.03, min_count=1, **settings,
        )  # fmt: skip
        for table in (model.in_embeddings, model.out_embeddings):
            torch.nn.init.normal_(table.weight, std=0.3, generator=torch.Generator().manual_seed(window))
        x, u = (table.weight.detach().double().numpy() for table in (model.in_embeddings, model.out_embeddings))
        tables, replica = _Tables(model, seed=5), Replica(model, seed=5)
        assert 2 * kernels.PART < 50
        for step, rates in enumerate([(0.02, 0.02), (0.02, 0.01), (0.01, 0.0)]):
            found, expected = tables.learn(tokens, rates, step), replica.learn(x, u, tokens, rates, step)
            assert found[1] == expected[1] > 50
            assert found[0] == pytest.approx(expected[0], rel=1e-4)
            for table, right in zip(tables.tables, (x, u), strict=True):
                np.testing.assert_allclose(table[:, :10], right, atol=2e-4)
                assert not table[:, 10:].any()  # the pad takes no part
        tables.give_back()
        assert (model.vectors == tables.tables[0][:, :10]).all()


class TestKernel:
    @pytest.mark.parametrize(("count", "outputs"), [(1, 6), (3, 6), (10, 2), (20, 21), (4, 13)])
    def test_a_window_is_one_step_of_gradient_descent(self, count, outputs):
        """Against autograd, in float64, on the sum of -log sigmoid(sign * x_c . y_o)."""
        rng = np.random.default_rng(count)
        width, words, rate = kernels.padded_width(10), 50, 0.1
        table, out = (rng.normal(0, 0.4, (words, width)).astype(np.float32) for _ in range(2))
        rows = rng.integers(0, words, count)  # a word can be there twice
        groups = -(-outputs // kernels.GROUP)
        chosen = np.zeros(groups * kernels.GROUP, np.int32)
        chosen[:outputs] = rng.permutation(words)[:outputs]
        chosen[outputs:] = chosen[0]
        signs = np.zeros((groups, kernels.LANES), np.float32)
        each = np.where(np.arange(outputs) % 3, -1, 1)
        for o in range(outputs):
            signs[o // kernels.GROUP, o % kernels.GROUP] = each[o]

        x, y = (torch.tensor(t, dtype=F64, requires_grad=True) for t in (table, out))
        scores = x[rows] @ y[chosen[:outputs]].T
        loss = -torch.nn.functional.logsigmoid(scores * torch.tensor(each)).sum()
        loss.backward()

        totals = np.array([0.0, 1.0])
        kernels.learn_window(
            table.reshape(-1), rows, count, table.reshape(-1), out.reshape(-1), chosen, 0, signs.reshape(-1),
            groups, np.float32(rate), width, np.zeros(count * width, np.float32),
            np.zeros(count * kernels.LANES, np.float32), totals,
        )  # fmt: skip
        assert totals[0] - np.log(totals[1]) == pytest.approx(loss.item(), rel=1e-4)
        np.testing.assert_allclose(table, (x - rate * x.grad).detach().numpy(), atol=2e-5)
        np.testing.assert_allclose(out, (y - rate * y.grad).detach().numpy(), atol=2e-5)

    def test_one_output_twice_gets_both_gradients(self):
        width = kernels.padded_width(4)
        table, out = np.full((1, width), 0.5, np.float32), np.full((2, width), 0.1, np.float32)
        signs = np.zeros(kernels.LANES, np.float32)
        signs[:2] = -1
        kernels.learn_window(
            table.reshape(-1), np.zeros(1, np.int64), 1, table.reshape(-1), out.reshape(-1), np.ones(6, np.int32),
            0, signs, 1, np.float32(0.1), width, np.zeros(width, np.float32), np.zeros(kernels.LANES, np.float32),
            np.array([0.0, 1.0]),
        )  # fmt: skip
        sigmoid = 1 / (1 + np.exp(-0.05 * width))
        np.testing.assert_allclose(out[1], 0.1 - 2 * 0.1 * sigmoid * 0.5, rtol=1e-4)
        np.testing.assert_allclose(out[0], 0.1)

    def test_negatives_follow_the_weights_and_are_never_the_target(self):
        """Chi-square over 1e5 draws, from 49 words once one is the target; 85.35 is the 0.1 % point of 49 - 1 = 48
        degrees of freedom, taken from a table."""
        weights = np.arange(1, 51) ** -0.75
        limits, others = kernels.alias_table(weights)
        drawn = np.zeros(100_000, np.int32)
        kernels.draw_negatives(np.uint64(step_seed(1, 0)), np.int32(2), len(drawn), limits, others, drawn, 0)
        seen = np.bincount(drawn, minlength=50)
        assert seen[2] == 0
        expected = np.delete(weights, 2) / np.delete(weights, 2).sum() * len(drawn)
        assert ((np.delete(seen, 2) - expected) ** 2 / expected).sum() < 85.35

    def test_an_alias_table_holds_the_weights_exactly(self):
        weights = np.random.default_rng(0).random(1000) ** 4
        limits, others = kernels.alias_table(weights)
        share = limits / 2.0**32
        total = share + np.bincount(others, 1 - share, minlength=1000)
        np.testing.assert_allclose(total / 1000, weights / weights.sum(), atol=1e-9)

    def test_a_word_with_all_the_weight_still_has_negatives(self):
        limits, others = kernels.alias_table(np.array([1.0, 0.0]))
        drawn = np.zeros(3, np.int32)
        kernels.draw_negatives(np.uint64(1), np.int32(0), 3, limits, others, drawn, 0)
        assert drawn.tolist() == [1, 1, 1]

    def test_windows_and_subsampling_have_the_expected_pairs(self):
        """A position has reach 1 to W evenly: W + 1 neighbours on average; half the words kept make half the pairs."""
        length, window = 200_000, 4
        tokens = np.tile(np.append(np.arange(1000) % 2, BREAK), length // 1000).astype(np.int32)
        width = kernels.padded_width(4)
        nothing = np.zeros((2, 0), np.int32), np.zeros((2, 0), np.int8)
        for keep in (1.0, 0.5):
            tables = [np.zeros(2 * width, np.float32) for _ in range(2)]
            limits = np.full(2, keep * 2**32, np.uint64)
            _, pairs = kernels.train_chunk(
                tokens, *tables, width, limits, *kernels.alias_table(np.ones(2)), *nothing, False, True, window, 1,
                np.zeros(2), np.uint64(7),
            )  # fmt: skip
            assert pairs / (length * keep) == pytest.approx(window + 1, rel=0.02)

    def test_the_loss_does_not_stick_where_float32_does(self):
        """float32 has no number between 2^27 and 2^27 + 16: a sum in it would stand still."""
        state = TrainingState(loss=2.0**27)
        log = _Log(Plan(np.arange(100), 99, 1, 0.1, 0.1), state, 100, None, None, None)
        for loss in (1.0, np.float32(1)) * 5:
            log.take(loss, 3)
        assert state.loss == 2.0**27 + 10
        assert (state.step, state.pairs, log.loss) == (10, 30, 10.0)

    def test_seeds_differ(self):
        seeds = {step_seed(seed, step) for seed in range(30) for step in range(100)}
        assert len(seeds) == 3000
        assert 0 not in seeds


class TestObjectives:
    @pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
    @pytest.mark.parametrize("objective", ["negative-sampling", "hierarchical-softmax"])
    def test_planted_neighbours_are_found_and_the_loss_falls(self, architecture, objective):
        model, history = trained(epochs=20, architecture=architecture, objective=objective)
        losses = [entry["epoch_loss"] for entry in history if "epoch_loss" in entry]
        assert len(losses) == 20
        assert losses[-1] < losses[5] < losses[0]
        assert topic_purity(model) > 0.95

    def test_sum_of_the_context(self):
        model, _ = trained(epochs=10, architecture="cbow", cbow_mean=False)
        assert topic_purity(model) > 0.9

    @pytest.mark.parametrize("num_negatives", [1, 5, 6, 12])
    def test_any_number_of_negatives(self, num_negatives):
        _, history = trained(epochs=1, learning_rate=1e-4, num_negatives=num_negatives)
        assert history[0]["loss"] == pytest.approx((1 + num_negatives) * np.log(2), rel=0.05)

    @pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
    def test_the_loss_of_a_tree_is_that_of_its_path(self, architecture):
        """Before anything is learnt every turn is even: log 2 times the mean length of a path, over the pairs."""
        sentences = planted(200)
        text = number_sentences(sentences)
        counts = text.vocabulary(1).counts
        lengths = (huffman_tree(counts)[0] >= 0).sum(1)
        _, history = trained(
            sentences, epochs=1, learning_rate=1e-4, architecture=architecture, objective="hierarchical-softmax"
        )
        expected = np.log(2) * (lengths * counts).sum() / counts.sum()
        assert history[-1]["epoch_loss"] == pytest.approx(expected, rel=0.02)

    @pytest.mark.parametrize("objective", ["negative-sampling", "hierarchical-softmax"])
    def test_a_wide_window_at_a_high_rate_stays_sound(self, objective):
        """A window that is learnt at once from the same old values ends in numbers that are none, here in one step."""
        rng = np.random.default_rng(0)
        sentences = [[f"w{word}" for word in 500 ** rng.random(400) // 1] for _ in range(30)]
        model, history = trained(sentences, epochs=2, learning_rate=0.1, window=60, objective=objective)
        words = [word for sentence in sentences for word in sentence]
        share = np.array([words.count(word) for word in model.index_to_key]) / len(words)
        entropy = -(share * np.log(share)).sum()  # of words alone, and nothing else is to be known of these
        least_learnt = {"negative-sampling": 6 * np.log(2), "hierarchical-softmax": 1.05 * entropy}
        assert history[-1]["epoch_loss"] < least_learnt[objective]
        for table in (model.in_embeddings, model.out_embeddings):
            assert table.weight.norm(dim=1).max() < 20

    def test_a_width_that_is_not_padded(self):
        assert kernels.padded_width(32) == 32
        assert topic_purity(trained(hidden_size=32)[0]) > 0.9

    def test_a_width_below_one_vector(self):
        assert np.isfinite(trained(hidden_size=2, epochs=1)[0].vectors).all()


class TestWorkers:
    def test_one_worker_and_a_seed_give_the_same_bytes_in_every_process(self):
        script = (
            "import hashlib; from tests_of_word2vec import trained; "
            "print(hashlib.sha256(trained(epochs=2)[0].vectors.tobytes()).hexdigest())"
        )
        code = f"import sys, importlib.util as u; s = u.spec_from_file_location('tests_of_word2vec', {__file__!r}); "
        code += "m = u.module_from_spec(s); sys.modules['tests_of_word2vec'] = m; s.loader.exec_module(m); " + script
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        import hashlib

        assert found == hashlib.sha256(trained(epochs=2)[0].vectors.tobytes()).hexdigest()

    def test_another_seed_gives_others(self):
        assert not np.allclose(trained(epochs=1)[0].vectors, trained(epochs=1, seed=1)[0].vectors)

    def test_several_workers_learn_as_well(self):
        (_, alone), (model, together) = (trained(epochs=10, workers=workers) for workers in (1, 4))
        assert together[-1]["epoch_loss"] == pytest.approx(alone[-1]["epoch_loss"], rel=0.1)
        assert topic_purity(model) > 0.95

    def test_there_are_as_many_as_the_process_may_use_cores(self, monkeypatch):
        """A batch system gives a process a few cores of a large machine."""
        model, _ = trained(epochs=1)
        monkeypatch.setattr("os.cpu_count", lambda: 64)
        monkeypatch.setattr("os.sched_getaffinity", lambda process: {3, 5, 8}, raising=False)
        assert (_Tables(model, 1).workers, BatchedTables(model, 1).workers) == (3, 3)
        assert _Tables(model, 1, workers=7).workers == 7
        monkeypatch.delattr("os.sched_getaffinity")  # which not every system has
        assert _Tables(model, 1).workers == 64

    def test_an_error_in_a_worker_is_raised(self, monkeypatch):
        def fail(*args):
            raise MemoryError("no room")

        model, _ = trained(epochs=1)
        corpus = number_sentences(planted()).encode(model.index_to_key)
        monkeypatch.setattr("regard.train.word2vec._Tables.__enter__", lambda self: self)
        monkeypatch.setattr("regard.train.word2vec.kernels.train_chunk", fail)
        with pytest.raises(MemoryError, match="no room"):
            train_word2vec(model, corpus, workers=3)

    def test_ctrl_c_stops_all_workers(self, monkeypatch):
        """It reaches the thread that waits for the others, which have many steps before them."""
        steps, learn = [], _Tables.learn

        def slowly(tables, tokens, rates, step):
            steps.append(step)
            if step == 3:
                _thread.interrupt_main()  # as the signal does
            time.sleep(0.01)
            return learn(tables, tokens, rates, step)

        model, _ = trained(epochs=1)
        corpus, before = number_sentences(planted()).encode(model.index_to_key), model.vectors.copy()
        monkeypatch.setattr("regard.train.word2vec._Tables.learn", slowly)
        threads = threading.active_count()
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
        try:
            with pytest.raises(KeyboardInterrupt):
                train_word2vec(model, corpus, epochs=100, workers=3)
        finally:
            signal.signal(signal.SIGINT, handler)
        assert threading.active_count() == threads
        assert len(steps) < 100
        assert (model.vectors == before).all()  # as after the last checkpoint

    @pytest.mark.parametrize("engine", ["numba", "torch"])
    def test_vectors_that_run_away_stop_the_training(self, engine):
        """A score of 1e4 has a loss of 8 at most in the engine numba: only the vectors themselves tell."""
        model, _ = trained(epochs=1)
        corpus = number_sentences(planted()).encode(model.index_to_key)
        with torch.no_grad():
            model.out_embeddings.weight[0] = 50.0
        message = r"The longest vector has length 2\d\d.*try a learning_rate below 1e-06 or a window below 5"
        with pytest.raises(FloatingPointError, match=message):
            train_word2vec(model, corpus, learning_rate=1e-6, min_learning_rate=0, workers=1, engine=engine)

    def test_a_loss_that_is_no_number_stops(self):
        model, _ = trained(epochs=1)
        corpus = number_sentences(planted()).encode(model.index_to_key)
        with torch.no_grad():
            model.in_embeddings.weight[0] = float("nan")
        with pytest.raises(FloatingPointError, match="lower learning_rate"):
            train_word2vec(model, corpus, workers=1)


class TestPlan:
    def test_the_rate_falls_in_a_line_to_its_minimum(self):
        plan = Plan(np.array([0, 10, 30, 40]), 36, 2, 0.5, 0.1)
        assert plan.steps == 6
        assert [round(plan.rate(step), 6) for step in range(7)] == [0.5, 0.45, 0.35, 0.3, 0.25, 0.15, 0.1]
        assert [plan.words(step) for step in (0, 3, 6)] == [0, 36, 72]

    def test_a_state_goes_on_to_the_same_end(self):
        text = number_sentences(planted())
        words = text.vocabulary(1)
        corpus = text.encode(words.words)

        def fresh():
            torch.manual_seed(0)
            return Word2VecModel.from_vocabulary(words.words, words.counts, hidden_size=10, subsample=0)

        whole, saved = fresh(), {}

        def save(state):
            saved[state.step] = (state.to_dict() | {"history": list(state.history)}, whole.state_dict())
            saved[state.step] = (saved[state.step][0], {k: v.clone() for k, v in saved[state.step][1].items()})

        settings = {"epochs": 3, "workers": 1, "save_steps": 5}
        history = train_word2vec(whole, corpus, save=save, **settings)
        assert len(saved) > 3
        for step in (5, 10):
            state, weights = saved[step]
            part = fresh()
            part.load_state_dict(weights)
            again = train_word2vec(part, corpus, state=TrainingState(**state), save=lambda state: None, **settings)
            assert (part.vectors == whole.vectors).all()
            assert (part.out_embeddings.weight == whole.out_embeddings.weight).all()
            assert [e["loss"] for e in again] == [e["loss"] for e in history]
            assert [e.get("epoch_loss") for e in again] == [e.get("epoch_loss") for e in history]

    def test_a_finished_training_has_nothing_to_do(self):
        model, history = trained(epochs=1)
        corpus = number_sentences(planted()).encode(model.index_to_key)
        before = model.vectors.copy()
        state = TrainingState(step=history[-1]["step"], history=history)
        assert train_word2vec(model, corpus, epochs=1, state=state) == history
        assert (model.vectors == before).all()

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"epochs": 0}, "epochs=0"),
            ({"learning_rate": -1}, "min_learning_rate"),
            ({"learning_rate": 1e-5}, "min_learning_rate=0.0001 must lie between 0 and learning_rate=1e-05"),
            ({"workers": 0}, "workers=0"),
            ({"save_steps": 0}, "save_steps=0 must be at least 1"),
            ({"logging_steps": 0}, "logging_steps=0 must be at least 1"),
            ({"engine": "cuda"}, "engine='cuda' is not known"),
            ({"words_per_batch": 3}, "engine='numba' takes no words_per_batch"),
        ],
    )
    def test_settings_that_cannot_be(self, settings, message):
        model, _ = trained(epochs=1)
        corpus = number_sentences(planted()).encode(model.index_to_key)
        with pytest.raises(ValueError, match=message):
            train_word2vec(model, corpus, **settings)

    def test_full_softmax_is_trained_elsewhere(self):
        model = Word2VecModel.from_vocabulary(["a", "b"], [5, 5], hidden_size=4, objective="full-softmax")
        corpus = number_sentences([["a", "b"]] * 5).encode(["a", "b"])
        with pytest.raises(ValueError, match="Trainer"):
            train_word2vec(model, corpus)

    def test_a_corpus_of_another_vocabulary_is_refused(self):
        model = Word2VecModel.from_vocabulary(["a", "b"], [5, 5], hidden_size=4)
        corpus = number_sentences([["a", "b", "c"]] * 5).encode(["a", "b", "c"])
        with pytest.raises(ValueError, match="beyond the 2 rows"):
            train_word2vec(model, corpus)

    @pytest.mark.parametrize("engine", ["numba", "torch"])
    def test_half_precision_is_refused(self, engine):
        model = Word2VecModel.from_vocabulary(["a", "b"], [5, 5], hidden_size=4).to(torch.bfloat16)
        corpus = number_sentences([["a", "b"]] * 5).encode(["a", "b"])
        with pytest.raises(ValueError, match="The model is in bfloat16, and is trained in float32"):
            train_word2vec(model, corpus, engine=engine)

    @pytest.mark.parametrize("engine", ["numba", "torch"])
    @pytest.mark.parametrize("tokens", [[], [BREAK, BREAK]])
    def test_a_corpus_without_words_is_refused(self, engine, tokens):
        model = Word2VecModel.from_vocabulary(["a", "b"], [5, 5], hidden_size=4)
        corpus = EncodedCorpus(np.array(tokens, dtype=np.int32), 0)
        with pytest.raises(ValueError, match="The corpus has not a single word"):
            train_word2vec(model, corpus, engine=engine, save_steps=1)

    @pytest.mark.parametrize("engine", ["numba", "torch"])
    def test_an_epoch_that_learns_nothing_is_an_error(self, engine):
        """Of each word one occurrence in 20,000 is kept; and where all are kept, one word alone has no context."""
        model = Word2VecModel.from_vocabulary(["a", "b"], [5, 5], hidden_size=4, subsample=1e-9)
        corpus = number_sentences([["a", "b"]] * 5).encode(["a", "b"])
        with pytest.raises(ValueError, match=r"without a single pair of words.*subsample=1e-09 leaves out too many"):
            train_word2vec(model, corpus, engine=engine)
        model.config.subsample = 0
        with pytest.raises(ValueError, match="no sentence has two words"):
            train_word2vec(model, EncodedCorpus(np.array([0, BREAK, 1, BREAK], np.int32), 2), engine=engine)
        train_word2vec(model, corpus, epochs=1, engine=engine)

    def test_memory_is_that_of_two_tables_and_their_padded_copies(self):
        assert memory_needed(1000, 100) == 2 * 1000 * 4 * (100 + kernels.padded_width(100))


def test_training_on_moves_no_vector_of_a_word_that_is_not_in_the_new_text():
    model, _ = trained()
    before = model.vectors.copy()
    new = [["python", "t0w0", "code"]] * 30
    assert update_vocabulary(model, new, min_count=5)["added"] == ["python", "code"]
    train_word2vec(model, number_sentences(new).encode(model.index_to_key), epochs=2, workers=1)
    moved = {w for w, old in zip(model.index_to_key, before, strict=False) if (model.get_vector(w) != old).any()}
    assert moved == {"t0w0"}
    assert model.vectors.shape == (len(before) + 2, 20)


def test_progress_without_a_terminal_is_about_twenty_lines():
    plan = Plan(np.arange(0, 1001, 10), 900, 2, 0.025, 0.0001)
    stream = io.StringIO()
    progress = VectorProgress(stream)
    for step in range(1, plan.steps + 1):
        entry = {
            "step": step,
            "epoch": step / 100,
            "loss": 2.5,
            "learning_rate": 0.02,
            "words": 1_000_000 * step,
            "seconds": step,
        }
        progress.report(SimpleNamespace(step=step, history=[entry]), plan)
    lines = stream.getvalue().splitlines()
    assert 20 <= len(lines) <= 22
    assert lines[10] == (
        "step    100 of 200 ( 50%), epoch 1.00, loss 2.500, 1,000,000 words/s, learning rate 0.0200, 1 min 40 s left"
    )
