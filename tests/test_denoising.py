"""Span corruption: taken back exactly, at the stated rates, in rows of one length; and a run of it.

The example is that of Raffel et al. (2020, figure 2); rates and lengths are counted.
"""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, TrainerState

from regard import TransformerConfig, TransformerForConditionalGeneration
from regard.train.collators import DenoisingCollator, GapCollator, TellEpoch, collator_for
from regard.train.data import load_splits, prepare_splits
from regard.train.denoising import (
    SpanCorruption,
    corrupted_lengths,
    lengths_of,
    longest_text,
    noise_of,
    number_of_sentinels,
)
from regard.train.evaluate import evaluate_run, filled_in
from regard.train.recipe import load_recipe
from regard.train.run import EndlessStream
from regard.train.sections import DataSection, Recipe, RecipeError
from regard.train.tokenization import train_tokenizer

SENTINELS = tuple(range(1000, 1100))
USUAL = SpanCorruption(0.15, 3.0, SENTINELS, eos_id=2)


def texts(length, number=1, seed=0):
    return np.random.default_rng(seed).integers(3, 1000, (number, length))


def restored(inputs, targets, sentinels=SENTINELS):
    """The text that the two were made of: what follows a sentinel in the target, in its place in the input."""
    assert inputs[-1] == targets[-1] == 2
    before, *kept = np.split(inputs[:-1], np.flatnonzero(np.isin(inputs[:-1], sentinels)))
    nothing, *taken = np.split(targets[:-1], np.flatnonzero(np.isin(targets[:-1], sentinels)))
    assert len(nothing) == 0
    assert [part[0] for part in kept] == [part[0] for part in taken] == list(sentinels[: len(kept)])
    pieces = [part[1:] for pair in zip(taken, kept, strict=True) for part in pair]
    return np.concatenate([before, *pieces]).tolist()


@pytest.mark.parametrize(("density", "mean_span"), [(0.15, 3.0), (0.5, 1.0), (0.9, 2.0), (0.15, 10.0), (0.01, 3.0)])
def test_a_corrupted_text_is_restored_exactly(density, mean_span):
    corruption = SpanCorruption(density, mean_span, SENTINELS, eos_id=2)
    for length in (1, 2, 3, 4, 7, 20, 100):
        for seed in range(20):
            [ids] = texts(length, seed=seed)
            ids[length // 2] = 2  # the end of a document inside
            inputs, targets, taken = corruption.corrupt(ids, np.random.default_rng(seed))
            assert (len(inputs), len(targets)) == corrupted_lengths(length, density, mean_span)
            assert restored(inputs, targets) == ids.tolist()
            # All that is written but the sentinels and the end was taken out: ids are below the sentinels here.
            assert taken.tolist() == [*(targets[:-1] < SENTINELS[0]).tolist(), False]


@pytest.mark.parametrize(("density", "mean_span"), [(0.15, 3.0), (0.5, 1.0), (0.9, 2.0), (0.01, 3.0)])
def test_the_whole_text_as_target_has_the_same_gaps(density, mean_span):
    """BART's target is the text; the input, and what is taken out, are those of T5's."""
    of_spans = SpanCorruption(density, mean_span, SENTINELS, eos_id=2)
    of_text = SpanCorruption(density, mean_span, SENTINELS, eos_id=2, target="text")
    for length in (1, 2, 3, 4, 7, 20, 100):
        [ids] = texts(length, seed=length)
        spans, text = (one.corrupt(ids, np.random.default_rng(5)) for one in (of_spans, of_text))
        assert text.input_ids.tolist() == spans.input_ids.tolist()
        assert text.labels.tolist() == [*ids, 2]
        assert text.labels[text.taken].tolist() == spans.labels[spans.taken].tolist()
        lengths = len(text.input_ids), len(text.labels)
        assert lengths == corrupted_lengths(length, density, mean_span, "text")
        assert len(text.taken) == len(text.labels)


def test_the_parts_are_those_of_the_paper():
    ids = texts(100)[0]
    inputs, targets, _ = USUAL.corrupt(ids, np.random.default_rng(3))
    # 15 of 100 tokens in 5 spans: 85 stay, with a sentinel for each span and the end.
    assert (len(inputs), len(targets)) == (85 + 5 + 1, 15 + 5 + 1)
    for side in (inputs, targets):
        assert [token for token in side if token in SENTINELS] == list(SENTINELS[:5])
        assert side[-1] == 2
    assert targets[0] == SENTINELS[0]
    assert inputs[0] == ids[0]
    assert inputs[-2] == SENTINELS[4]


def test_the_rates_are_the_stated_ones():
    """Counted on 200,000 tokens; and each place inside is taken out as often as another."""
    taken, spans, places = 0, 0, np.zeros(200)
    for number in range(1000):
        inputs, targets, where = USUAL.corrupt(np.arange(200) + 3, np.random.default_rng([1, number]))
        gone = targets[where] - 3
        places[gone] += 1
        taken, spans = taken + len(gone), spans + np.isin(inputs, SENTINELS).sum()
    assert taken / 200_000 == pytest.approx(0.15, abs=0.005)
    assert taken / spans == pytest.approx(3.0, abs=0.05)
    # Far from the ends (the first token is never taken, and the last always), within four standard deviations.
    share = places[40:160].mean() / 1000
    assert np.abs(places[40:160] - 1000 * share).max() < 4 * np.sqrt(1000 * share * (1 - share))


def test_lengths_fill_the_inputs_exactly():
    """By the formula of T5's code: n tokens have round(n·d) noise in round(noise/m) spans."""
    assert noise_of(568, 0.15, 3.0) == (85, 28)
    assert longest_text(512, 0.15, 3.0) == 568
    assert corrupted_lengths(568, 0.15, 3.0) == (512, 114)  # T5's own numbers for inputs of 512
    for size in range(3, 300):
        length = longest_text(size, 0.15, 3.0)
        assert corrupted_lengths(length, 0.15, 3.0)[0] == size
        assert corrupted_lengths(length + 1, 0.15, 3.0)[0] > size
    for size in (1, 2):  # of two tokens one would be all of the text
        with pytest.raises(ValueError, match=rf"data\.block_size: {size} leaves no room for text .*: at least 3\.$"):
            longest_text(size, 0.15, 3.0)
    # By the same formula, of a share that no counting up would end with: kept and a sentinel a span make 127 of 128.
    length = longest_text(128, 1 - 1e-9, 1e300)
    assert corrupted_lengths(length, 1 - 1e-9, 1e300)[0] == 128 < corrupted_lengths(length + 1, 1 - 1e-9, 1e300)[0]


# --- tokenizer, data, collator


def tokenizer_for(data, texts=("abcdefg",), **settings):
    return train_tokenizer(texts, "char", 100, template="eos", sentinels=number_of_sentinels(data), **settings)


def test_sentinels_are_tokens_that_no_text_holds(tmp_path):
    data = DataSection(train="a.txt", block_size=40)
    tokenizer = tokenizer_for(data, ["<extra_id_0> abc"])
    number = number_of_sentinels(data)
    assert number == noise_of(longest_text(40, 0.15, 3.0), 0.15, 3.0)[1] == 2
    size = len(tokenizer)
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert one.convert_tokens_to_ids(["<extra_id_0>", "<extra_id_1>"]) == [size - 2, size - 1]
        assert {size - 2, size - 1} < set(one.all_special_ids)
        assert not {size - 2, size - 1} & set(one("<extra_id_0> abc")["input_ids"])
        assert one.decode([size - 2], skip_special_tokens=True) == ""
    plain = train_tokenizer(["abc"], "char", 100, template="eos")
    with pytest.raises(
        ValueError, match=r"no token <extra_id_0>, .* puts 2 sentinels, <extra_id_0> to <ex.*: leave out tokenizer"
    ):
        SpanCorruption.of(plain, data)
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="no end token"):
        SpanCorruption.of(tokenizer, data)


def recipe_of(data, **training):
    return Recipe(name="x", task="denoising", model={"type": "transformer"}, data=data, training=training)


@pytest.mark.parametrize("target", ["spans", "text"])
def test_rows_are_of_one_length_and_nothing_is_lost(tmp_path, target):
    path = tmp_path / "a.jsonl"
    generator = np.random.default_rng(0)
    documents = ["".join(generator.choice(list("abcdefg"), number)) for number in (90, 3, 0, 41, 60)]
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents))
    data = DataSection(train=str(path), validation=str(path), block_size=40, denoising_target=target)
    recipe, tokenizer = recipe_of(data, seed=7), tokenizer_for(data)
    splits, report = prepare_splits(load_splits(data, "denoising"), recipe, tokenizer)
    whole = "".join(text + "</s>" for text in documents if text)
    train, valid = splits["train"].to_list(), splits["validation"].to_list()
    assert "".join(tokenizer.decode(row["input_ids"]) for row in train) == whole
    corruption, collate = SpanCorruption.of(tokenizer, data), collator_for(recipe, tokenizer)
    sides = ((row["input_ids"], row["labels"]) for row in valid)
    if target == "text":
        assert [row["labels"][:-1] for row in valid] == [row["input_ids"] for row in train]
    else:
        assert [restored(*both, corruption.sentinels) for both in sides] == [row["input_ids"] for row in train]
    full = longest_text(40, 0.15, 3.0)
    assert [len(row["input_ids"]) for row in train[:-1]] == [full] * (len(train) - 1)
    batch = collate(train[:-1])
    assert (batch["attention_mask"] == 1).all()
    assert (batch["labels"] != -100).all()
    assert batch["input_ids"].shape == (len(train) - 1, 40)
    lengths = [corrupted_lengths(len(row["input_ids"]), 0.15, 3.0, target) for row in train]
    assert lengths == [lengths_of(len(row["input_ids"]), data) for row in train]
    assert [sum(row["taken"]) for row in valid] == [noise_of(len(row["input_ids"]), 0.15, 3.0)[0] for row in train]
    for name in ("train", "validation"):
        found = report.splits[name]
        assert (found.tokens, found.targets) == (sum(map(sum, lengths)), sum(target for _, target in lengths))


def test_the_loss_in_the_gaps_is_that_of_what_was_taken_out():
    """The mean over those tokens of -log p, from the logits that the model has for the whole target."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=1100, hidden_size=16, encoder_layers=1, decoder_layers=1, num_attention_heads=2,
        intermediate_size=32, decoder_start_token_id=0, pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = TransformerForConditionalGeneration(config).eval()
    for target in ("spans", "text"):
        corruption = SpanCorruption(0.3, 3.0, SENTINELS, eos_id=2, target=target)
        rows = [corruption.corrupt(texts(n, seed=n)[0], np.random.default_rng(n)) for n in (40, 25)]
        batch = GapCollator(model, 0)([row._asdict() for row in rows])
        total = 0.0
        with torch.no_grad():
            for row in rows:
                inputs, labels, taken = (torch.from_numpy(side)[None] for side in row)
                chances = model(input_ids=inputs, labels=labels).logits.log_softmax(-1)[0]
                total -= chances[taken[0], labels[0][taken[0]]].sum().item()
            loss = model(**batch).loss.item()
        assert loss == pytest.approx(total / sum(row.taken.sum() for row in rows), rel=1e-5)


def test_gaps_follow_from_seed_epoch_and_row_alone():
    rows = [{"input_ids": ids.tolist(), "row": number} for number, ids in enumerate(texts(60, 6))]
    collate = DenoisingCollator(0, USUAL, seed=1)

    def by_row(collate, order, more=()):
        torch.manual_seed(sum(order))
        batch = collate([rows[i] | dict(more) for i in order])
        return {i: batch["labels"][place].tolist() for place, i in enumerate(order)}

    first = by_row(collate, [0, 1, 2, 3, 4, 5])
    assert by_row(collate, [5, 0]) == {5: first[5], 0: first[0]}
    assert by_row(DenoisingCollator(0, USUAL, seed=2), [0])[0] != first[0]
    TellEpoch(collate).on_epoch_begin(None, TrainerState(epoch=1.0), None)
    second = by_row(collate, [0, 1])
    assert second[0] != first[0]
    # A stream says itself how often it has begun anew.
    assert by_row(DenoisingCollator(0, USUAL, seed=1), [0, 1], {"epoch": 1}) == second
    assert by_row(collate, [0], {"epoch": 0})[0] == first[0]


def test_a_stream_says_how_often_it_has_begun():
    class Rows(list):
        def set_epoch(self, epoch):
            pass

    stream = iter(EndlessStream(Rows([{"row": 0}, {"row": 1}])))
    assert [next(stream) for _ in range(3)] == [{"row": 0, "epoch": 0}, {"row": 1, "epoch": 0}, {"row": 0, "epoch": 1}]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["data.noise_density=1"], "data.noise_density: 1.0 is not a number above 0 and at most 0.9, beyond which"),
        (
            ["data.noise_density=0.999999999"],
            "data.noise_density: 0.999999999 is not a number above 0 and at most 0.9",
        ),
        (["data.noise_density=0"], "data.noise_density: 0.0 is not a number above 0"),
        (["data.denoising_target=all"], "data.denoising_target: 'all' is not known: it is 'spans' or 'text'."),
        (["data.mean_span_length=0.5"], "data.mean_span_length: 0.5 is not a finite number of at least 1."),
        (
            ["data.block_size=2"],
            "data.block_size: 2 leaves no room for text beside a sentinel and an end token: at le",
        ),
        (
            ["tokenizer.vocab_size=100"],
            "tokenizer.vocab_size: 100 is too small for 16 sentinels, one for each gap in ",
        ),
        (["data.block_size=1000000000"], "tokenizer.vocab_size: 8000 is too small for 125000000 sentinels, one for "),
        (
            ["model.position_embedding_type=learned", "model.max_position_embeddings=128"],
            "data.block_size: 128 tokens to read make targets of 160, more than model.max_position_embeddings, 128,",
        ),
        (["data.whole_word_masking=true"], "data.whole_word_masking is for the task masked-lm, not for denoising: "),
        (["tokenizer.vocab_size=265"], "tokenizer.vocab_size: 265 is too small for 16 sentinels, one for each gap"),
        (["data.test=5%"], "data.test: '5%' needs all rows in advance, and data.streaming reads them as they come."),
    ],
)
def test_what_cannot_work_is_refused(settings, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe("denoising/wikipedia-seq2seq", settings)
    assert str(caught.value).startswith(sentence)


def test_what_is_saved_can_write_a_whole_text():
    """159 tokens with 48 taken out in 16 spans are 159 - 48 + 16 + 1 = 128 to read, and 159 + 1 to write."""
    recipe = load_recipe("denoising/wikipedia-seq2seq")
    assert lengths_of(159, recipe.data) == (128, 160)
    assert recipe.evaluation.max_new_tokens == 160
    assert (
        load_recipe("denoising/wikipedia-seq2seq", ["evaluation.max_new_tokens=500"]).evaluation.max_new_tokens == 500
    )


@pytest.mark.parametrize(
    ("labels", "shown"),
    [
        ([5, 8, 8, 8, 8, 2], [5]),  # one end is asked for: what is written behind the first is left out
        ([5, 2, 8, 8, 8, 2], [5, 2, 6]),  # two: that of a document inside, which generation would stop at
        ([5, 2, 8, 2], [5, 2, 6]),
        ([2, 2, 2], [5, 2, 6]),  # fewer were written than were asked for
    ],
)
def test_a_sample_goes_on_behind_the_end_of_a_document(labels, shown):
    """Greedy decoding stops at the end token; a row of a stream may hold several."""

    class Model:
        device = "cpu"

        def generate(self, input_ids, max_new_tokens, eos_token_id, **settings):
            assert eos_token_id is None
            return torch.tensor([[0, *[5, 2, 6, 2, 7, 7][:max_new_tokens]]])

    class Tokenizer:
        eos_token_id = 2

        def decode(self, tokens):
            return tokens

    assert filled_in(Model(), Tokenizer(), {"input_ids": [5, 2], "labels": labels}) == shown


@pytest.mark.parametrize("target", ["spans", "text"])
def test_the_command_trains_a_denoiser(tmp_path, target):
    """Streamed, for more steps than the text has rows."""
    path, run = tmp_path / "a.txt", tmp_path / "run"
    path.write_text("the cat saw the dog and the dog saw the cat\n" * 40)
    settings = [
        "hidden_size=16", "encoder_layers=1", "decoder_layers=1", "num_attention_heads=2", "intermediate_size=32",
        "num_key_value_heads=2",
    ]  # fmt: skip
    overrides = [f"model.{setting}" for setting in settings]
    overrides += [f"data.train={path}", f"data.validation={path}", "data.block_size=24", "tokenizer.kind=word"]
    overrides += ["tokenizer.vocab_size=40", "training.max_steps=6", "training.eval_steps=3", "training.save_steps=3"]
    overrides += [f"data.denoising_target={target}"]
    overrides += ["training.per_device_train_batch_size=8", "evaluation.samples=2"]
    command = [sys.executable, "-m", "regard", "train", "denoising/wikipedia-seq2seq", *overrides]
    done = subprocess.run([*command, "--output", str(run), "--json"], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    metrics = json.loads(done.stdout)
    assert evaluate_run(run) == metrics["evaluation"]
    scores = metrics["evaluation"]["validation"]
    assert scores["perplexity"] == pytest.approx(np.exp(scores["loss"]))
    assert 1 < scores["gap_perplexity"] < 1000
    assert {sample["target"].startswith("<extra_id_0>") for sample in metrics["samples"]} == {target == "spans"}
    assert all("<extra_id_0>" in sample["source"] for sample in metrics["samples"])
    assert not any("</s>" in sample["prediction"] for sample in metrics["samples"])
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "puts back" in card
    assert "| data.noise_density | 0.3 |" in card
    assert f"| data.denoising_target | {target} |" in card
    assert "perplexity in the gaps" in card
