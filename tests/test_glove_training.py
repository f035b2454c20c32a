"""GloVe: the counts against counting by hand, the steps against the published rule, that it learns, and its runs."""

import copy
import io
import json
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

from regard.modeling import GloVeModel
from regard.train import cooccurrence, glove
from regard.train.cooccurrence import Cooccurrences, count_cooccurrences
from regard.train.corpus import EncodedCorpus
from regard.train.glove import GloVeState, train_glove
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.sections import RecipeError, training_of
from regard.train.vectors_text import TextProgress


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
    assert {path.name for path in tmp_path.iterdir()} == {"rows.bin", "columns.bin", "counts.bin", "pairs.json"}


@pytest.mark.parametrize("together", [4, 64])
def test_a_small_table_is_emptied_and_merged(monkeypatch, together, tmp_path):
    """Memory is bounded: with 64 places for some 500 pairs, sorted runs go to files and are merged in small parts."""
    written = []
    original = cooccurrence._emptied
    monkeypatch.setattr(cooccurrence, "_emptied", lambda *table: written.append(original(*table)) or written[-1])
    monkeypatch.setattr(cooccurrence, "MERGE", 128)
    monkeypatch.setattr(cooccurrence, "TOGETHER", together)
    corpus = random_corpus()
    pairs = count_cooccurrences(corpus, 30, 4, table_size=64, folder=tmp_path)
    assert len(written) > 2 * together or together == 64
    assert max(len(keys) for keys, _ in written) <= 48  # three quarters
    np.testing.assert_allclose(as_matrix(pairs, 30), counted_by_hand(corpus, 30, 4, True), rtol=1e-6)
    assert {path.name for path in tmp_path.iterdir()} == {"rows.bin", "columns.bin", "counts.bin", "pairs.json"}


FEW_FILES = """
import resource, sys
import numpy as np
from regard.train import cooccurrence
from regard.train.corpus import EncodedCorpus

def ordered(pairs):
    order = np.lexsort((pairs.columns, pairs.rows))
    return pairs.rows[order], pairs.columns[order], pairs.counts[order]

numbers = np.random.default_rng(0).integers(0, 60, (1500, 9)).astype(np.int32)
numbers[:, -1] = -1
corpus = EncodedCorpus(numbers.reshape(-1), 1500 * 8)
expected = cooccurrence.count_cooccurrences(corpus, 60, 5)
runs, original = [], cooccurrence._emptied
cooccurrence._emptied = lambda *table: runs.append(1) or original(*table)
cooccurrence.TOGETHER = int(sys.argv[2])
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
pairs = cooccurrence.count_cooccurrences(corpus, 60, 5, folder=sys.argv[1], table_size=64)
assert len(runs) > 500, len(runs)
for found, wanted in zip(ordered(pairs), ordered(expected), strict=True):
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
"""


@pytest.mark.parametrize("together", [64, 10**6])
def test_hundreds_of_runs_take_few_files(tmp_path, together):
    pytest.importorskip("resource", reason="a bound on open files is Unix's")
    command = [sys.executable, "-c", FEW_FILES, str(tmp_path), str(together)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("other", "changes"),
    [
        (random_corpus(seed=1), {}),
        (random_corpus(), {"window": 3}),
        (random_corpus(), {"symmetric": False}),
        (random_corpus(), {"words": 40}),
    ],
    ids=["corpus", "window", "symmetric", "vocabulary"],
)
def test_pairs_of_something_else_are_counted_anew(other, changes, tmp_path):
    """The folder holds what an earlier training counted: taken for this one, it would teach the other's pairs."""
    train_glove(model_of(window=5), random_corpus(), epochs=1, workers=1, folder=tmp_path)
    words, settings = changes.pop("words", 30), {"window": 5} | changes
    kept = train_glove(model_of(words, **settings), other, epochs=2, workers=1, folder=tmp_path)
    fresh = train_glove(model_of(words, **settings), other, epochs=2, workers=1)
    assert [entry["loss"] for entry in kept] == [entry["loss"] for entry in fresh]
    window, symmetric = settings["window"], settings.get("symmetric", True)
    found = as_matrix(Cooccurrences.open(tmp_path), words)
    np.testing.assert_allclose(found, counted_by_hand(other, words, window, symmetric), rtol=1e-6)


def test_pairs_of_the_same_text_are_taken_and_halves_are_not(tmp_path, monkeypatch):
    settings = {"epochs": 1, "workers": 1, "folder": tmp_path}
    first = train_glove(model_of(), random_corpus(), **settings)
    counted = []
    monkeypatch.setattr(
        glove, "count_cooccurrences", lambda *what, **more: counted.append(1) or count_cooccurrences(*what)
    )
    assert train_glove(model_of(), random_corpus(), **settings)[0]["loss"] == first[0]["loss"]
    assert not counted
    for spoil in (lambda: (tmp_path / "pairs.json").write_text("{"), lambda: (tmp_path / "rows.bin").write_bytes(b"")):
        spoil()
        assert Cooccurrences.open(tmp_path) is None
        assert train_glove(model_of(), random_corpus(), **settings)[0]["loss"] == first[0]["loss"]
    assert len(counted) == 2


def test_what_a_killed_count_leaves_is_removed(tmp_path):
    count_cooccurrences(random_corpus(), 30, 4, folder=tmp_path)
    kept = sorted(path.name for path in tmp_path.iterdir())
    (tmp_path / ".pairs-abc").mkdir()
    for name in (".pairs-abc/fresh.keys.bin", ".rows.123.bin", ".counts.9.bin", ".pairs.7.json", "words.int32"):
        (tmp_path / name).write_bytes(b"left")
    cooccurrence.tidy(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*kept, "words.int32"]


def test_counting_is_told_on_the_way():
    corpus, told = random_corpus(sentences=3000), []
    count_cooccurrences(corpus, 30, 4, table_size=64, report=lambda *numbers: told.append(numbers))
    assert len(told) == len(corpus.chunks()) - 1 > 10
    assert {of_all for _, of_all in told} == {corpus.num_words}
    words = [number for number, _ in told]
    assert words == sorted(words)
    assert words[-1] == corpus.num_words
    stream = io.StringIO()
    progress = TextProgress(stream, first=0)
    progress.report_counting(0, 400)
    progress.report_counting(100, 400)
    (line,) = stream.getvalue().splitlines()
    assert line.startswith("counted the pairs of 100 of 400 words, ")
    assert line.endswith(" words/s, 0 s left")


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
    for window in (12, 13, 500):  # three quarters of 16 are 12: a word's pairs would never find room
        with pytest.raises(ValueError, match=f"table_size=16 is too small for window={window}"):
            count_cooccurrences(random_corpus(), 30, window, table_size=16, folder=tmp_path)
    with pytest.raises(ValueError, match="window=0 must be at least 1"):
        count_cooccurrences(random_corpus(), 30, 0, folder=tmp_path)
    with pytest.raises(ValueError, match="words beyond the 10 rows"):
        count_cooccurrences(random_corpus(), 10, 5, folder=tmp_path)
    with pytest.raises(ValueError, match="holds -2, which is no word"):
        count_cooccurrences(corpus_of([[0, -2, 1]]), 30, 5, folder=tmp_path)
    assert not list(tmp_path.iterdir())
    assert Cooccurrences.open(tmp_path) is None


@pytest.mark.parametrize("window", [1, 11])
def test_the_least_table_is_enough(window):
    corpus = random_corpus(sentences=40)
    pairs = count_cooccurrences(corpus, 30, window, table_size=16)
    np.testing.assert_allclose(as_matrix(pairs, 30), counted_by_hand(corpus, 30, window, True), rtol=1e-6)


# --- steps -----------------------------------------------------------------------------------------------------------


def published(tables, pairs, x_max: float, alpha: float, rate: float) -> float:
    """The program published with the paper, in numpy and float64: the rate goes into the sums, which begin at 1, and
    a step is divided by the root of the sum before it. Gradients of vectors are clipped as in its later versions.
    Changes the tables; the mean of J."""
    w, u, b, c = tables
    sums = [np.ones_like(table) for table in tables]
    total = 0.0
    for i, j, count in pairs:
        weight = min(1.0, (count / x_max) ** alpha)
        difference = w[i] @ u[j] + b[i] + c[j] - np.log(count)
        total += weight * difference**2
        slope = weight * difference
        gradients = np.clip(slope * u[j], -100, 100), np.clip(slope * w[i], -100, 100), slope, slope
        steps = [rate * gradient for gradient in gradients]
        for table, squares, row, step in zip(tables, sums, (i, j, i, j), steps, strict=True):
            table[row] -= step / np.sqrt(squares[row])
            squares[row] += step**2
    return total / len(pairs)


@pytest.mark.parametrize("width", [1, 5, 33])
@pytest.mark.parametrize("rate", [0.05, 0.2])
def test_steps_are_those_of_the_published_program(width, rate):
    model, corpus = model_of(12, width=width, x_max=15.0, alpha=0.6), random_corpus(12, sentences=40)
    pairs = count_cooccurrences(corpus, 12, 3)
    assert pairs.counts.min() < 15 < pairs.counts.max()  # both sides of x_max
    tables = [getattr(model, name).weight.detach().numpy().astype(np.float64) for name in glove.TABLES]
    tables = [table if number < 2 else table[:, 0] for number, table in enumerate(tables)]
    order = [pair for part in glove._mixed(pairs, np.random.default_rng([7, 0])) for pair in zip(*part, strict=True)]
    mean = published(tables, [(i, j, float(x)) for i, j, x in order], 15.0, 0.6, rate)
    history = train_glove(model, pairs, epochs=1, learning_rate=rate, workers=1, seed=7)
    assert history[0]["loss"] == pytest.approx(mean, rel=1e-4)
    for name, table in zip(glove.TABLES, tables, strict=True):
        found = model.get_parameter(f"{name}.weight").detach().numpy().reshape(table.shape)
        np.testing.assert_allclose(found, table, rtol=2e-3, atol=2e-5)


def test_a_gradient_of_a_vector_is_clipped():
    model = model_of(2, width=3, x_max=1.0)
    with torch.no_grad():
        model.in_embeddings.weight[:] = torch.tensor([30.0, -30.0, 1e-3])
        model.out_embeddings.weight[:] = torch.tensor([30.0, -30.0, 2e-3])
    tables = [getattr(model, name).weight.detach().numpy().astype(np.float64) for name in glove.TABLES]
    tables = [table if number < 2 else table[:, 0] for number, table in enumerate(tables)]
    published(tables, [(0, 1, 2.0)], 1.0, 0.75, 0.01)  # slope about 1800: 54,000 is clipped, 1.8 and 3.6 are not
    np.testing.assert_allclose(tables[0][0], [29.0, -29.0, 1e-3 - 0.036], rtol=0.01)
    pairs = Cooccurrences(np.array([0], np.int32), np.array([1], np.int32), np.array([2.0], np.float32))
    train_glove(model, pairs, epochs=1, learning_rate=0.01, workers=1)
    for name, table in zip(glove.TABLES, tables, strict=True):
        found = model.get_parameter(f"{name}.weight").detach().numpy().reshape(table.shape)
        np.testing.assert_allclose(found, table, rtol=1e-5)


def test_the_first_step_is_half_the_gradient_of_the_models_own_loss():
    model = model_of(2, width=6, x_max=3.0)
    pairs = Cooccurrences(np.array([0], np.int32), np.array([1], np.int32), np.array([2.5], np.float32))
    before = copy.deepcopy(model)
    before(torch.tensor([0]), torch.tensor([1]), torch.tensor([2.5])).loss.backward()
    train_glove(model, pairs, epochs=1, learning_rate=0.05, workers=1)
    for name, parameter in before.named_parameters():  # the sums are still 1
        torch.testing.assert_close(model.get_parameter(name), parameter - 0.05 * parameter.grad / 2)


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


@pytest.mark.parametrize(
    ("rows", "columns", "counts", "sentence"),
    [
        ([0, 30], [1, 1], [1, 1], "The pairs have 30 among their rows, and the model only rows 0 to 29"),
        ([0, 1], [1, 10**9], [1, 1], "The pairs have 1000000000 among their columns"),
        ([0, -1], [1, 1], [1, 1], "The pairs have -1 among their rows"),
        ([0, 1], [1, 2], [1, 0], r"counts of pairs go from 0\.0 to 0\.0: each must be a number above 0"),
        ([0, 1], [1, 2], [np.nan, 1], "counts of pairs go from nan"),
        ([0, 1], [1, 2], [np.inf, 1], "counts of pairs go from inf to inf"),
        ([0, 1], [1], [1, 1], "have the shapes"),
        ([], [], [], "There are no pairs to learn from"),
    ],
)
def test_pairs_beyond_the_model_are_refused(rows, columns, counts, sentence, monkeypatch):
    """What is compiled writes where the rows say, in the model or beyond."""
    monkeypatch.setattr(glove, "STRETCH", 1)
    model = model_of()
    before = copy.deepcopy(model)
    pairs = Cooccurrences(np.array(rows, np.int32), np.array(columns, np.int32), np.array(counts, np.float32))
    with pytest.raises(ValueError, match=sentence):
        train_glove(model, pairs, epochs=1, workers=1)
    for name, parameter in before.named_parameters():
        assert torch.equal(parameter, model.get_parameter(name))


def test_pairs_of_a_folder_are_those_of_the_model_or_refused(tmp_path):
    count_cooccurrences(random_corpus(), 30, 5, folder=tmp_path)
    with pytest.raises(ValueError, match="and the model only rows 0 to 9"):
        train_glove(model_of(10), Cooccurrences.open(tmp_path), epochs=1)
    floats = Cooccurrences(np.zeros(1), np.zeros(1), np.ones(1, np.float32))
    with pytest.raises(ValueError, match="rows of pairs are float64: give whole numbers"):
        train_glove(model_of(), floats, epochs=1)


def test_a_rate_that_is_too_high_is_said():
    with pytest.raises(FloatingPointError, match="try a lower learning_rate"):
        train_glove(model_of(), random_corpus(), learning_rate=1e30, epochs=3, workers=1)


# --- runs ------------------------------------------------------------------------------------------------------------


def recipe_for(tmp_path, **sections):
    rng = np.random.default_rng(0)
    lines = (" ".join(f"t{topic}w{word}" for word in rng.integers(0, 8, 10)) for topic in rng.integers(0, 4, 300))
    (tmp_path / "text.txt").write_text("\n".join(lines), encoding="utf-8")
    content = {
        "name": "tiny",
        "task": "word-vectors",
        "model": {"type": "glove", "hidden_size": 6, "min_count": 3},
        "tokenizer": {"pattern": r"\S+"},
        "data": {"train": str(tmp_path / "text.txt")},
        "training": {"num_train_epochs": 4, "workers": 1},
    }
    for section, values in sections.items():
        content[section] = content.get(section, {}) | values
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return load_recipe(tmp_path / "tiny.yaml")


# One process imports the libraries; each part of a run is a child of its own.
KILLED = """
import json, os, signal, sys, traceback
from regard.train import checkpoints, cooccurrence, glove
from regard.train.recipe import load_recipe
from regard.train.run import train

def die(*arguments):
    os.kill(os.getpid(), signal.SIGKILL)

def inside(run):
    return sorted(path for path in os.listdir(f"{sys.argv[2]}/{run}/text"))

def part(run, place, resume=False):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        count, directed, publish = cooccurrence.count_cooccurrences, cooccurrence._directed, checkpoints.publish
        glove.count_cooccurrences = lambda *what, **more: count(*what, 256, **more)  # a small table: several runs
        if place == "counting":
            cooccurrence._directed = lambda *arguments: (die() if n else part for n, part in enumerate(
                list(directed(*arguments)) * 2))
        elif place == "saving":
            checkpoints.publish = lambda path: (die if path.name == "checkpoint-3" else publish)(path)
        else:
            checkpoints.publish = lambda path: (publish(path), print(json.dumps(inside(run)), flush=True))
        train(load_recipe(sys.argv[1]), f"{sys.argv[2]}/{run}", resume=resume)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)

results = {"whole": part("whole", "")}
results["counting"] = part("killed", "counting"), len([n for n in inside("killed") if n[0] == "."])
results["saving"] = part("killed", "saving", resume=True), checkpoints.last_checkpoint(f"{sys.argv[2]}/killed").name
results["resumed"] = part("killed", "", resume=True)
print(json.dumps(results))
"""


def test_a_killed_run_ends_where_the_whole_run_ends(tmp_path):
    """Killed while pairs are counted, then while a checkpoint is saved: the same bytes, and nothing is left over."""
    recipe_for(tmp_path)
    command = [sys.executable, "-c", KILLED, str(tmp_path / "tiny.yaml"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *folders, results = (json.loads(line) for line in done.stdout.splitlines())
    assert results["whole"] == results["resumed"] == 0, done.stderr
    assert results["counting"][0] == -9
    assert results["counting"][1] == 4  # the runs, and three files that were not complete
    assert results["saving"] == [-9, "checkpoint-2"], done.stderr
    kept = ["columns.bin", "counts.bin", "pairs.json", "rows.bin", "text.json", "words.int32"]
    assert folders == [kept] * (4 + 2)  # at each checkpoint of the whole run, and of the last one that was resumed
    runs = tmp_path / "killed", tmp_path / "whole"
    weights = [(run / "model.safetensors").read_bytes() for run in runs]
    assert weights[0] == weights[1]
    histories = [json.loads((run / "history.json").read_text()) for run in runs]
    losses = [[(row["step"], row["epoch"], row["loss"]) for row in history] for history in histories]
    assert losses[0] == losses[1]
    assert [row[:2] for row in losses[0]] == [(number, number) for number in (1, 2, 3, 4)]


def test_a_run_says_what_it_read(tmp_path, capsys):
    """GloVe reads pairs: words per second would be those of a text that it has put aside."""
    metrics = train(recipe_for(tmp_path, model={"hidden_size": 1}), str(tmp_path / "run"))
    history = json.loads((tmp_path / "run" / "history.json").read_text())
    training = metrics["training"]
    assert (training["steps"], training["epochs"]) == (4, 4)
    assert training["pairs"] == history[-1]["pairs"] == 4 * 8 * 8
    assert training["pairs_per_second"] == pytest.approx(4 * training["pairs"] / training["seconds"])
    assert not {"words", "words_per_second"} & {*training, *history[0]}
    assert (tmp_path / "run" / "loss_curve.png").stat().st_size
    shown = capsys.readouterr().err
    assert "pairs/s" in shown
    assert "words/s" not in shown
    size = glove.memory_needed(32, 1, 3000, 15)
    assert f"training takes {size / 1e6:,.0f} MB" in shown
    assert size == 4 * 2 * 32 * 2 + 16 * 2**17 + 24 * 2**17 * 3 // 4  # the model, and a table for 2 · 15 · 3,000 pairs
    most = 16 * 2**24 + 24 * 2**24 * 3 // 4
    assert glove.memory_needed(100, 10, 10**9, 15) == 4 * 2 * 100 * 11 + most
    tables = 4 * 2 * 400_000 * 101
    assert glove.memory_needed(400_000, 100, 10**9, 15) == 2 * tables + glove.BYTES_OF_PAIR * 2**23  # AdaGrad's sums


def test_what_a_recipe_leaves_out_is_that_of_the_published_program(tmp_path):
    bare = recipe_for(tmp_path)
    bare.training.clear()
    assert training_of(bare)["num_train_epochs"] == 25
    assert training_of(bare)["learning_rate"] == 0.05
    bare.model = {"type": "word2vec", "architecture": "cbow"}
    assert (training_of(bare)["num_train_epochs"], training_of(bare)["learning_rate"]) == (5, 0.05)
    bare.model = {"type": "word2vec"}
    assert (training_of(bare)["num_train_epochs"], training_of(bare)["learning_rate"]) == (5, 0.025)


def test_a_rate_of_nothing_is_refused_before_the_text_is_read(tmp_path):
    recipe = recipe_for(tmp_path, training={"learning_rate": 0})
    (tmp_path / "text.txt").unlink()
    with pytest.raises(RecipeError, match=r"training\.learning_rate: 0(\.0)? must be above 0"):
        train(recipe, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
