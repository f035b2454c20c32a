"""word2vec as a model: each objective against its formula, the Huffman tree, negatives, saving, training."""

import heapq
import itertools
import json
import math
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import AutoModel, Trainer, TrainingArguments

from regard.modeling import Word2VecConfig, Word2VecModel, load_word_vectors
from regard.modeling.huffman import balanced_tree, graft, huffman_tree

from .families import Entry, every
from .test_remote_code import FOLDER, load_elsewhere

WORDS = ["the", "日本", "naïve", "a b", "\u00a0", "cat", "dog", "fish", "sun", "moon"]
COUNTS = [500, 200, 90, 90, 60, 33, 20, 8, 8, 5]
NUMBER, WIDTH = len(WORDS), 6
OBJECTIVES = ["negative-sampling", "hierarchical-softmax", "full-softmax"]
ARCHITECTURES = ["skip-gram", "cbow"]
CENTRES, CONTEXTS = torch.tensor([0, 3, 9, 3]), torch.tensor([5, 0, 2, 9])
BAGS = torch.tensor([[1, 2, 3], [4, -100, -100], [5, 6, -100], [9, 9, 0]])


def model_of(objective: str = "negative-sampling", architecture: str = "skip-gram", **settings) -> Word2VecModel:
    torch.manual_seed(0)
    settings = {"hidden_size": WIDTH, "objective": objective, "architecture": architecture, **settings}
    model = Word2VecModel.from_vocabulary(WORDS, COUNTS, **settings).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_()
    return model


def inputs_of(architecture: str) -> dict[str, torch.Tensor]:
    if architecture == "skip-gram":
        return {"input_ids": CENTRES, "labels": CONTEXTS}
    return {"input_ids": BAGS, "labels": CONTEXTS}


def hidden_by_hand(model: Word2VecModel, row: int) -> torch.Tensor:
    vectors = model.in_embeddings.weight
    if model.config.architecture == "skip-gram":
        return vectors[CENTRES[row]]
    inside = [vectors[word] for word in BAGS[row].tolist() if word >= 0]
    return sum(inside) / (len(inside) if model.config.cbow_mean else 1)


# Objectives


@torch.no_grad()
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("mean", [True, False])
def test_full_softmax_is_the_formula(architecture, mean):
    """P(o | c) = exp(u_o·v_c) / Σ_w exp(u_w·v_c), written out."""
    model = model_of("full-softmax", architecture, cbow_mean=mean)
    inputs, out = inputs_of(architecture), model.out_embeddings.weight
    total = 0.0
    for row, target in enumerate(CONTEXTS.tolist()):
        hidden = hidden_by_hand(model, row)
        exponentials = [math.exp(float(out[word] @ hidden)) for word in range(NUMBER)]
        probabilities = torch.tensor([value / sum(exponentials) for value in exponentials])
        logs = model.log_probabilities(inputs["input_ids"])[row]
        torch.testing.assert_close(logs.exp(), probabilities, atol=1e-6, rtol=1e-4)
        total -= math.log(probabilities[target])
    assert model(**inputs).loss.item() == pytest.approx(total / 4, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("mean", [True, False])
def test_negative_sampling_is_equation_4(architecture, mean):
    """log σ(u_o·v_c) + Σ_k log σ(-u_k·v_c), written out (Mikolov et al., 2013)."""
    model = model_of("negative-sampling", architecture, cbow_mean=mean)
    out, negatives = model.out_embeddings.weight, torch.tensor([[1, 2, 1], [4, 5, 6], [0, 0, 0], [8, 7, 6]])

    def log_sigmoid(score: torch.Tensor) -> float:
        return -math.log(1 + math.exp(-float(score)))

    total = 0.0
    for row, target in enumerate(CONTEXTS.tolist()):
        hidden = hidden_by_hand(model, row)
        total += log_sigmoid(out[target] @ hidden)
        total += sum(log_sigmoid(-out[word] @ hidden) for word in negatives[row].tolist())
    assert model(**inputs_of(architecture), negative_ids=negatives).loss.item() == pytest.approx(-total / 4, rel=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hierarchical_softmax_is_equation_3_and_sums_to_one(architecture):
    model = model_of("hierarchical-softmax", architecture)
    inputs, nodes = inputs_of(architecture), model.out_embeddings.weight
    assert nodes.shape == (NUMBER - 1, WIDTH)
    logs = model.log_probabilities(inputs["input_ids"])
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(4))
    for row, target in enumerate(CONTEXTS.tolist()):
        hidden, probability = hidden_by_hand(model, row), 1.0
        path = zip(model.huffman_nodes[target].tolist(), model.huffman_codes[target].tolist(), strict=True)
        for node, code in path:
            if node >= 0:
                sigmoid = 1 / (1 + math.exp(-float(nodes[node] @ hidden)))
                probability *= 1 - sigmoid if code else sigmoid
        assert logs[row, target].item() == pytest.approx(math.log(probability), rel=1e-4)
    expected = -logs[torch.arange(4), CONTEXTS].mean()
    torch.testing.assert_close(model(**inputs).loss, expected)


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("mean", [True, False])
def test_gradients_against_finite_differences(objective, architecture, mean):
    model = model_of(objective, architecture, cbow_mean=mean).double()
    inputs = inputs_of(architecture)
    if objective == "negative-sampling":
        inputs["negative_ids"] = torch.tensor([[1, 2], [4, 5], [0, 0], [8, 7]])
    names = [name for name, _ in model.named_parameters()]

    def loss(*tables: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(model, dict(zip(names, tables, strict=True)), kwargs=inputs).loss

    assert torch.autograd.gradcheck(loss, tuple(model.parameters()))


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_ignored_labels_and_the_count_of_a_whole_step(objective, architecture):
    model, inputs = model_of(objective, architecture), inputs_of(architecture)
    if objective == "negative-sampling":
        inputs["negative_ids"] = torch.tensor([[1, 2], [4, 5], [0, 0], [8, 7]])
    rows = [0, 1, 3]
    rest = {name: tensor[rows] for name, tensor in inputs.items()}
    ignored = {**inputs, "labels": inputs["labels"].clone()}
    ignored["labels"][2] = -100
    torch.testing.assert_close(model(**ignored).loss, model(**rest).loss)
    parts = [
        model(**{name: tensor[part] for name, tensor in rest.items()}, num_items_in_batch=torch.tensor(3)).loss
        for part in (slice(1), slice(1, 3))
    ]
    torch.testing.assert_close(sum(parts), model(**rest).loss)
    nothing = {**inputs, "labels": torch.full_like(inputs["labels"], -100)}
    loss = model(**nothing).loss
    assert loss == 0
    loss.backward()
    assert not any(parameter.grad.any() for parameter in model.parameters())


def test_masks_and_rows_without_context():
    model = model_of("full-softmax", "cbow")
    mask = torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0], [1, 1, 1]])
    by_mask = model(BAGS.clamp(min=0), labels=CONTEXTS, context_mask=mask).loss
    torch.testing.assert_close(by_mask, model(BAGS, labels=CONTEXTS).loss)
    mask[2] = 0
    rest = model(BAGS[[0, 1, 3]], labels=CONTEXTS[[0, 1, 3]]).loss
    torch.testing.assert_close(model(BAGS, labels=CONTEXTS, context_mask=mask).loss, rest)


def test_shapes_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"labels of shape \(4,\) do not fit input_ids of shape \(4, 3\).*skip-gram"):
        model_of()(BAGS, labels=CONTEXTS)
    with pytest.raises(ValueError, match=r"labels of shape \(4,\) do not fit input_ids of shape \(3, 3\).*cbow"):
        model_of(architecture="cbow")(BAGS[:3], labels=CONTEXTS)
    with pytest.raises(ValueError, match=r"CBOW takes input_ids of shape \(B, C\), not \(4,\)"):
        model_of(architecture="cbow")(CENTRES, labels=CONTEXTS)


def test_without_labels_there_are_vectors():
    model = model_of()
    ids = torch.tensor([[1, 2], [3, 4]])
    assert torch.equal(model(ids).last_hidden_state, model.in_embeddings.weight[ids])
    assert torch.equal(model(CENTRES, labels=CONTEXTS).last_hidden_state, model.in_embeddings.weight[CENTRES])
    assert model(CENTRES, labels=CONTEXTS, loss_only=True).last_hidden_state is None


# Negatives (case 85)


def test_negatives_follow_the_counts_without_the_target():
    """Chi-square over 10⁵ draws a target: count^0.75 over all words but the target, which is never drawn."""
    model, draws = model_of(), 100_000
    powers = np.array(COUNTS, dtype=float) ** 0.75
    torch.manual_seed(1)
    for target in (0, 4, NUMBER - 1):
        drawn = model.draw_negatives(torch.full((draws // 5,), target))
        assert drawn.shape == (draws // 5, 5)
        observed = np.bincount(drawn.flatten().numpy(), minlength=NUMBER)
        assert observed[target] == 0
        others = np.arange(NUMBER) != target
        expected = draws * powers[others] / powers[others].sum()
        statistic = ((observed[others] - expected) ** 2 / expected).sum()
        assert statistic < 26.1  # 0.1 % of the chi-square distribution of 8 degrees of freedom


def test_the_target_is_never_drawn_at_the_edges():
    """Words that take almost everything or nothing: the target still never comes, nor a row that is not there."""
    model = Word2VecModel.from_vocabulary(["a", "b", "c"], [10**15, 1, 0], hidden_size=2, num_negatives=50)
    for target in range(3):
        drawn = model.draw_negatives(torch.full((4000,), target))
        assert not (drawn == target).any()
        assert drawn.min() >= 0
        assert drawn.max() <= 2
    exponent = Word2VecModel.from_vocabulary(WORDS, COUNTS, hidden_size=2, negative_exponent=0.0)
    assert len(set(exponent.noise_weights().tolist())) == 1
    rare_first = Word2VecModel.from_vocabulary(["a", "b", "c"], [4, 1, 0], hidden_size=2, negative_exponent=-0.5)
    share = rare_first.noise_weights().double() / rare_first.noise_weights().sum()
    torch.testing.assert_close(share, torch.tensor([0.2, 0.4, 0.4], dtype=torch.float64))  # 1/2 : 1 : 1


def test_negatives_follow_counts_that_change():
    model = model_of()
    model.draw_negatives(CONTEXTS)
    with torch.no_grad():
        model.counts.copy_(torch.tensor([0] * (NUMBER - 2) + [10**9, 1]))
    assert (model.draw_negatives(torch.zeros(50, dtype=torch.long)) == NUMBER - 2).float().mean() > 0.99


# Huffman's tree


def shortest_total(counts: list[int]) -> int:
    """The least possible sum of count · length, by a heap: each merger adds its weight once for each leaf below."""
    heap, total = list(counts), 0
    heapq.heapify(heap)
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


def codes_of(nodes: np.ndarray, codes: np.ndarray) -> list[str]:
    return ["".join(str(code) for code in row if code >= 0) for row in codes]


def assert_tree(nodes: np.ndarray, codes: np.ndarray) -> None:
    words = codes_of(nodes, codes)
    assert nodes.dtype == np.int32
    assert codes.dtype == np.int8
    assert np.array_equal(nodes >= 0, codes >= 0)
    assert sum(2.0 ** -len(word) for word in words) == 1  # Kraft: the tree is full
    assert not any(one != other and other.startswith(one) for one, other in itertools.permutations(words, 2))
    node_of_prefix: dict[str, int] = {}
    for word, row in zip(words, nodes, strict=True):  # a node is one place in the tree, and a place one node
        for step in range(len(word)):
            assert node_of_prefix.setdefault(word[:step], row[step]) == row[step]
    assert sorted(node_of_prefix.values()) == list(range(len(words) - 1))


@pytest.mark.parametrize(
    "counts",
    [COUNTS, [1, 1], [5, 0], [3] * 7, [2**number for number in range(20, 0, -1)], [0] * 5]
    + [np.random.default_rng(seed).zipf(1.5, 40).clip(max=10**6).tolist() for seed in range(3)],
    ids=str,
)
def test_codes_are_prefix_free_and_shortest(counts):
    nodes, codes = huffman_tree(counts)
    assert_tree(nodes, codes)
    total = sum(count * len(word) for count, word in zip(counts, codes_of(nodes, codes), strict=True))
    assert total == shortest_total(counts)


def test_a_grafted_tree_keeps_what_its_nodes_part():
    nodes, codes = huffman_tree(COUNTS)
    for new in ([7], [7, 3], [5, 4, 3, 2, 1]):
        more_nodes, more_codes = graft(nodes, codes, new)
        assert_tree(more_nodes, more_codes)
        assert np.array_equal(more_nodes[:NUMBER, 1 : 1 + nodes.shape[1]], nodes)
        assert np.array_equal(more_codes[:NUMBER, 1 : 1 + nodes.shape[1]], codes)


def test_trees_that_cannot_be():
    with pytest.raises(ValueError, match="at least two words, not 1"):
        huffman_tree([3])
    with pytest.raises(ValueError, match="word 1 has -2"):
        huffman_tree([3, -2])


def test_without_counts_the_tree_is_balanced():
    for size in (2, 5, 8, 9):
        model = Word2VecModel(Word2VecConfig(vocab_size=size, hidden_size=2, objective="hierarchical-softmax"))
        assert_tree(model.huffman_nodes.numpy(), model.huffman_codes.numpy())
        assert model.huffman_nodes.shape[1] == model.config.huffman_depth == (size - 1).bit_length()
        nodes, codes = balanced_tree(size, 7)  # deeper than it need be
        assert_tree(nodes, codes)
        assert nodes.shape == codes.shape == (size, 7)
        assert {len(word) for word in codes_of(nodes, codes)} <= {size.bit_length() - 1, (size - 1).bit_length()}


# Beginning, saving, loading


def test_initial_values():
    model = Word2VecModel.from_vocabulary([f"w{i}" for i in range(500)], [500 - i for i in range(500)], hidden_size=40)
    table = model.in_embeddings.weight
    assert table.abs().max() <= 0.5 / 40
    assert table.std().item() == pytest.approx(1 / 40 / math.sqrt(12), rel=0.03)
    assert not model.out_embeddings.weight.any()
    normal = Word2VecModel.from_vocabulary(WORDS, COUNTS, hidden_size=400, initializer_range=0.1)
    assert normal.in_embeddings.weight.std().item() == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_words_travel_with_the_weights(objective, tmp_path):
    model = model_of(objective)
    assert model.index_to_key == WORDS
    model.save_pretrained(tmp_path)
    for loaded in (Word2VecModel.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)):
        assert type(loaded) is Word2VecModel
        assert loaded.index_to_key == WORDS
        assert loaded.key_to_index == {word: row for row, word in enumerate(WORDS)}
        assert loaded.state_dict().keys() == model.state_dict().keys()
        for name, tensor in model.state_dict().items():
            assert torch.equal(loaded.state_dict()[name], tensor), name
        assert loaded.most_similar("cat") == model.most_similar("cat")
    assert not {path.suffix for path in tmp_path.iterdir()} - {".json", ".safetensors", ".py"}
    vectors = load_word_vectors(tmp_path)
    assert vectors.index_to_key == WORDS
    assert vectors.counts.tolist() == COUNTS
    np.testing.assert_array_equal(vectors.vectors, model.in_embeddings.weight.detach().numpy())
    assert load_word_vectors(tmp_path, limit=3).index_to_key == WORDS[:3]


@pytest.mark.parametrize("arguments", [{"dtype": torch.bfloat16}, {"device_map": "cpu"}], ids=str)
def test_every_way_of_loading_leaves_words_and_counts_alone(arguments, tmp_path):
    model = model_of("hierarchical-softmax")
    model.save_pretrained(tmp_path)
    for _ in range(3):
        loaded = Word2VecModel.from_pretrained(tmp_path, **arguments)
        assert loaded.index_to_key == WORDS
        for name, buffer in model.named_buffers():
            assert torch.equal(dict(loaded.named_buffers())[name], buffer), name
        assert loaded.vectors.dtype == np.float32
        np.testing.assert_allclose(loaded.vectors, model.vectors, rtol=1e-2)
        assert loaded.draw_negatives(CONTEXTS).shape == (4, 5)
    half = model.half()
    assert half.counts.tolist() == COUNTS
    assert half.index_to_key == WORDS


def save_without(model: Word2VecModel, folder, part: str) -> None:
    """A checkpoint that lacks the tensors whose names have this part."""
    model.save_pretrained(folder)
    kept = {name: tensor for name, tensor in load_file(folder / "model.safetensors").items() if part not in name}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})


@pytest.mark.parametrize("name", ["counts", "huffman_nodes", "huffman_codes", "huffman", "vocabulary"])
def test_a_buffer_that_is_missing_is_not_left_to_chance(name, tmp_path):
    model = model_of("hierarchical-softmax")
    save_without(model, tmp_path, name)
    rubbish = [torch.full((200,), 7) for _ in range(200)]  # freed memory, which comes back uninitialised
    del rubbish
    loaded = Word2VecModel.from_pretrained(tmp_path)
    if name == "counts":
        assert not loaded.counts.any()
        assert len(set(loaded.noise_weights().tolist())) == 1
    else:
        assert loaded.counts.tolist() == COUNTS
    if name == "vocabulary":
        with pytest.raises(ValueError, match="has no words"):
            list(loaded)
    else:
        assert loaded.index_to_key == WORDS
    assert_tree(loaded.huffman_nodes.numpy(), loaded.huffman_codes.numpy())
    assert torch.equal(loaded.huffman_nodes, model.huffman_nodes) is ("huffman" not in name)
    torch.testing.assert_close(loaded.log_probabilities(CENTRES).exp().sum(-1), torch.ones(4))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_model_of_a_saved_configuration_has_no_words_and_trains(objective, tmp_path):
    saved = model_of(objective)
    saved.save_pretrained(tmp_path)
    config = Word2VecConfig.from_pretrained(tmp_path)
    for model in (Word2VecModel(config), AutoModel.from_config(config)):
        with pytest.raises(ValueError, match="has no words: make it with from_vocabulary"):
            model.most_similar("cat")
        assert len(model) == NUMBER
        assert bool(model)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_()
        assert model(CENTRES, labels=CONTEXTS).loss > 0
        torch.testing.assert_close(model.log_probabilities(CENTRES).exp().sum(-1), torch.ones(4))
        model.load_state_dict(saved.state_dict())
        assert model.most_similar("cat") == saved.most_similar("cat")
        assert torch.equal(model.log_probabilities(CENTRES), saved.log_probabilities(CENTRES))


def test_a_table_that_is_missing_begins_anew(tmp_path):
    save_without(model_of(), tmp_path, "embeddings")
    loaded = Word2VecModel.from_pretrained(tmp_path)
    assert 0 < loaded.in_embeddings.weight.abs().max() <= 0.5 / WIDTH
    assert not loaded.out_embeddings.weight.any()
    assert loaded.index_to_key == WORDS


def test_it_loads_where_regard_is_not_installed(tmp_path):
    jobs, models = [], {}
    for objective in OBJECTIVES:
        model = models[objective] = model_of(objective)
        model.save_pretrained(tmp_path / "saved" / objective)
        folder = tmp_path / "moved" / objective / FOLDER
        shutil.move(tmp_path / "saved" / objective, folder)
        inputs = tmp_path / f"{objective}-inputs.pt"
        torch.save({"input_ids": CENTRES}, inputs)
        job = {"auto_class": "AutoModel", "path": str(folder), "cwd": str(tmp_path), "inputs": str(inputs)}
        result, again = tmp_path / f"{objective}.pt", tmp_path / "again" / objective
        jobs.append({**job, "result": str(result), "generate": False, "again": str(again), "word": "cat"})
    for objective, job, said in zip(OBJECTIVES, jobs, load_elsewhere(jobs, tmp_path), strict=True):
        assert said["class"] == "Word2VecModel"
        assert said["module"] == "transformers_modules"
        assert said["missing"] == said["unexpected"] == []
        assert said["most_similar"] == [list(pair) for pair in models[objective].most_similar("cat")]
        result = torch.load(job["result"], weights_only=True)
        for name, tensor in models[objective].state_dict().items():
            assert torch.equal(result["state"][name], tensor), name
        assert Word2VecModel.from_pretrained(job["again"]).index_to_key == WORDS
        one, other = (json.loads((tmp_path / job[key] / "config.json").read_text()) for key in ("path", "again"))
        assert one == other


def test_vectors_are_the_live_table():
    model = model_of()
    nearest = model.most_similar("cat", topn=1)[0][0]
    with torch.no_grad():
        model.in_embeddings.weight[1] = 2 * model.in_embeddings.weight[5]
    assert model.most_similar("cat", topn=1)[0][0] == WORDS[1] != nearest
    model.vectors[2] = 7
    assert (model.in_embeddings.weight[2] == 7).all()
    assert "cat" in model
    assert len(model) == NUMBER


@pytest.mark.parametrize(
    ("words", "counts", "sentence"),
    [
        (["a", "a"], [2, 1], "'a' occurs twice"),
        (["a", ""], [2, 1], "must not be empty or hold a newline: ''"),
        (["a", "b\nc"], [2, 1], r"must not be empty or hold a newline: 'b\\nc'"),
        (["a", "\ud800"], [2, 1], "surrogate"),
        (["a", "b"], [1, 2], r"falling count: 'b' \(2\) follows 'a' \(1\)"),
        (["a", "b"], [1, -2], "'b' has -2"),
        (["a", "b"], [1], "one number for each of the 2 words"),
        (["a"], [1], "vocab_size=1 must be at least 2"),
        ([], [], "vocab_size=0 must be at least 2"),
        (["a", 5], [2, 1], "a word must be a string, not 5"),
    ],
)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bad_vocabularies_are_named(words, counts, sentence, objective):
    with pytest.raises(ValueError, match=sentence):
        Word2VecModel.from_vocabulary(words, counts, objective=objective)


def test_sizes_follow_from_the_words():
    with pytest.raises(ValueError, match="vocab_size=9 does not fit the words, for which it is 10"):
        model_of(vocab_size=9)
    assert len(model_of(vocab_size=NUMBER)) == NUMBER
    with pytest.raises(ValueError, match="huffman_depth=3 must be at least 4 for vocab_size=10"):
        model_of("hierarchical-softmax", huffman_depth=3)


def test_a_model_without_words_says_so():
    model = Word2VecModel(Word2VecConfig(vocab_size=5, hidden_size=2))
    with pytest.raises(ValueError, match="has no words: make it with from_vocabulary"):
        model.most_similar("a")
    assert model(torch.tensor([1]), labels=torch.tensor([2])).loss > 0  # and trains all the same


@pytest.mark.parametrize(
    ("field", "value"),
    [("vocab_size", 1), ("hidden_size", 0), ("window", 0), ("min_count", 0), ("num_negatives", 0), ("subsample", -0.1)]
    + [(name, math.nan) for name in ("subsample", "negative_exponent", "initializer_range")]
    + [("negative_exponent", math.inf), ("subsample", math.inf)]
    + [("vocabulary_bytes", -1), ("architecture", "glove"), ("objective", "softmax"), ("initializer_range", -1.0)],
)
def test_bad_fields_are_named(field, value):
    with pytest.raises(Exception, match=f"(?s){field}.*{value}"):
        Word2VecConfig(**{field: value})


def test_a_whole_number_is_a_number():
    assert Word2VecModel(Word2VecConfig(vocab_size=5, initializer_range=1)).in_embeddings.weight.std() > 0.5


# New words (case 83)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_no_new_words_change_nothing(objective):
    model = model_of(objective)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert model.extend_vocabulary([], []) == []
    assert model.state_dict().keys() == before.keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert model.index_to_key == WORDS


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_new_words_after_loading(objective, tmp_path):
    model_of(objective).save_pretrained(tmp_path)
    model = Word2VecModel.from_pretrained(tmp_path)
    model.in_embeddings.requires_grad_(False)
    assert model.extend_vocabulary(["python"], [40]) == ["python"]
    assert not model.in_embeddings.weight.requires_grad  # what was frozen stays so
    assert model.out_embeddings.weight.requires_grad
    assert (model.draw_negatives(torch.zeros(500, dtype=torch.long)) == NUMBER).any()
    model(CENTRES, labels=torch.tensor([10, 2, 10, 1])).loss.backward()
    model.save_pretrained(tmp_path / "again")
    assert load_word_vectors(tmp_path / "again").index_to_key == [*WORDS, "python"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_new_words_leave_the_old_rows_alone(objective, tmp_path):
    model = model_of(objective)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    logs = model.log_probabilities(CENTRES)
    assert model.extend_vocabulary(["cat"], [7]) == []
    assert model.counts[5] == COUNTS[5] + 7
    assert model.extend_vocabulary(["python", "the", "bird"], [40, 10, 2]) == ["python", "bird"]
    assert model.index_to_key == [*WORDS, "python", "bird"]
    assert model.counts.tolist() == [510, *COUNTS[1:5], 40, *COUNTS[6:], 40, 2]
    assert torch.equal(model.in_embeddings.weight[:NUMBER], before["in_embeddings.weight"])
    old = len(before["out_embeddings.weight"])
    assert torch.equal(model.out_embeddings.weight[:old], before["out_embeddings.weight"])
    assert not model.out_embeddings.weight[old:].any()
    assert model.in_embeddings.weight[NUMBER:].any(1).all()
    after = model.log_probabilities(CENTRES)
    torch.testing.assert_close(after.exp().sum(-1), torch.ones(4))
    torch.testing.assert_close(after[:, :NUMBER].log_softmax(-1), logs, atol=1e-5, rtol=1e-5)
    model(CENTRES, labels=torch.tensor([10, 11, 10, 1])).loss.backward()
    model.save_pretrained(tmp_path)
    assert Word2VecModel.from_pretrained(tmp_path).most_similar("python") == model.most_similar("python")
    with pytest.raises(ValueError, match="to 40 would leave rows.* grows by extend_vocabulary"):
        model.resize_token_embeddings(40)
    with pytest.raises(ValueError, match="to 64 would leave rows.* grows by extend_vocabulary"):
        model.resize_token_embeddings(pad_to_multiple_of=64)
    assert model.resize_token_embeddings(pad_to_multiple_of=2) is model.in_embeddings


# Trainer


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_trainer_lowers_the_loss(objective, architecture, tmp_path):
    torch.manual_seed(0)
    model = Word2VecModel.from_vocabulary(
        WORDS, COUNTS, hidden_size=8, objective=objective, architecture=architecture, initializer_range=0.5
    )
    pairs = [(word, word ^ 1) for word in range(NUMBER)] * 8  # each word's context is its partner
    cbow = architecture == "cbow"
    data = [{"input_ids": [centre] * 2 if cbow else centre, "labels": context} for centre, context in pairs]
    arguments = TrainingArguments(
        str(tmp_path), num_train_epochs=12, per_device_train_batch_size=16, learning_rate=0.1, logging_steps=5,
        save_strategy="no", eval_strategy="epoch", report_to="none", disable_tqdm=True, use_cpu=True,
        lr_scheduler_type="constant", gradient_accumulation_steps=2,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data[:16])
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    evaluations = [entry["eval_loss"] for entry in trainer.state.log_history if "eval_loss" in entry]
    assert losses[-1] < 0.5 * losses[0]
    assert evaluations[-1] < evaluations[0]
    ids = torch.arange(NUMBER)
    best = model.log_probabilities(ids[:, None] if cbow else ids).argmax(-1)
    assert torch.equal(best, ids ^ 1)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_compiled_loss_equals_eager(objective):
    torch._dynamo.reset()
    model, negatives = model_of(objective), torch.tensor([[1, 2], [4, 5], [0, 0], [8, 7]])
    inputs = {"input_ids": CENTRES, "labels": CONTEXTS}
    if objective == "negative-sampling":
        inputs["negative_ids"] = negatives
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(**inputs).loss, model(**inputs).loss)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loaded", [False, True])
def test_a_compiled_graph_draws_negatives_by_the_counts(loaded, tmp_path):
    torch._dynamo.reset()
    model = model_of(num_negatives=400)
    if loaded:
        model.save_pretrained(tmp_path)
        model = Word2VecModel.from_pretrained(tmp_path)
    model.extend_vocabulary(["cat"], [67])
    assert model.noise_bounds.tolist() == [0, *model.noise_weights().cumsum(0).tolist()]
    draw = torch.compile(model.draw_negatives, fullgraph=True, backend="eager")
    share = np.bincount(draw(torch.full((200,), 3)).flatten().numpy(), minlength=NUMBER) / 80_000
    powers = (np.array(COUNTS) + 67 * (np.arange(NUMBER) == 5)) ** 0.75 * (np.arange(NUMBER) != 3)
    np.testing.assert_allclose(share, powers / powers.sum(), atol=5 * (0.25 / 80_000) ** 0.5)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    assert compiled(CENTRES, labels=CONTEXTS).loss > 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_half_precision_loses_digits_alone(dtype, objective, architecture):
    inputs = inputs_of(architecture)
    if objective == "negative-sampling":
        inputs["negative_ids"] = torch.tensor([[1, 2], [4, 5], [0, 0], [8, 7]])
    expected = model_of(objective, architecture)(**inputs).loss
    model = model_of(objective, architecture).to(dtype)
    loss = model(**inputs).loss
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, expected, rtol=0.05, atol=0)
    loss.backward()
    assert all(parameter.grad.isfinite().all() and parameter.grad.any() for parameter in model.parameters())


def test_plain_tuples_on_request():
    loss, vectors = model_of()(CENTRES, labels=CONTEXTS, return_dict=False)
    assert loss.shape == ()
    assert vectors.shape == (4, WIDTH)


def test_buffers_are_not_sent_around_by_ddp():
    """They never change: sent at each step, they would make all that follows from the counts anew."""
    for objective in OBJECTIVES:
        model = model_of(objective)
        assert {name for name, _ in model.named_buffers()} == set(model._ddp_params_and_buffers_to_ignore)


# Other precisions and devices, gensim


def test_one_row_is_fetched_alone(monkeypatch):
    """Of a table that numpy cannot read, only the rows that are asked for are converted."""
    model = model_of().bfloat16()
    converted = []
    plain = torch.Tensor.to

    def to(self, *arguments, **settings):
        converted.append(len(self))
        return plain(self, *arguments, **settings)

    monkeypatch.setattr(torch.Tensor, "to", to)
    model.get_vector("cat"), model.similarity("cat", "dog"), model.vector_size, model.doesnt_match(["cat", "dog"])
    assert max(converted) <= 2
    model.most_similar("cat", restrict_vocab=3)
    assert max(converted) == 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_to_gensim_from_a_model(dtype):
    pytest.importorskip("gensim.models", reason="gensim, which the vectors are given to, is not installed")
    model = model_of().to(dtype)
    result = model.to_gensim()
    assert result.index_to_key == WORDS
    np.testing.assert_array_equal(result.vectors, model.vectors)
    assert [result.get_vecattr(word, "count") for word in WORDS] == COUNTS
    assert model.get_vecattr("cat", "count") == 33
    theirs, ours = result.most_similar("cat"), model.most_similar("cat")
    assert [word for word, _ in theirs] == [word for word, _ in ours]
    result.add_vectors(["new"], np.ones((1, WIDTH)))
    assert result.index_to_key == [*WORDS, "new"]
    assert len(result.vectors) == NUMBER + 1


# Tables of the registry


@every(kind="table")
def test_every_table_reports_an_evaluation_loss(entry: Entry, tmp_path):
    """Case 43: `Trainer` finds the loss of each, by labels or without them."""
    model, columns = entry.model(), entry.labelled(batch=12)
    data = [{name: tensor[row] for name, tensor in columns.items()} for row in range(12)]
    arguments = TrainingArguments(
        str(tmp_path), max_steps=2, per_device_eval_batch_size=4, report_to="none", save_strategy="best",
        eval_strategy="steps", eval_steps=1, metric_for_best_model="eval_loss", disable_tqdm=True, use_cpu=True,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data, eval_dataset=data)
    trainer.train()
    reported = trainer.evaluate()["eval_loss"]
    model.eval()
    with torch.no_grad():
        parts = [model(**{name: tensor[start : start + 4] for name, tensor in columns.items()}) for start in (0, 4, 8)]
    assert reported == pytest.approx(sum(part.loss.item() for part in parts) / 3, rel=1e-3)  # but for the negatives


def test_words_are_found_again_when_the_buffer_is_replaced():
    model = model_of()
    assert model.index_to_key == WORDS
    other = Word2VecModel.from_vocabulary([word[::-1] for word in WORDS], COUNTS, hidden_size=WIDTH)
    model.load_state_dict(other.state_dict())
    assert model.index_to_key == other.index_to_key
    assert nn.Module.__call__(model, CENTRES).last_hidden_state.shape == (4, WIDTH)
