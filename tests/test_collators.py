"""Batches of tensors, value by value."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import TrainerState

from regard.train.collators import (
    CausalLMCollator,
    ClassificationCollator,
    MaskedLMCollator,
    Seq2SeqCollator,
    TellEpoch,
    collator_for,
)
from regard.train.data import load_splits, prepare_splits
from regard.train.masking import TokenMasker, mask_tokens, take_marks
from regard.train.recipe import load_recipe
from regard.train.sections import DataSection, Recipe, RecipeError
from regard.train.text_streams import encode_stream
from regard.train.tokenization import train_tokenizer

PAD = 0
PAIRS = [{"input_ids": [5, 6, 2], "labels": [7, 2], "source": "a"}, {"input_ids": [8, 2], "labels": [9, 5, 6, 2]}]
MASKER = TokenMasker(probability=0.15, mask_id=4, special_ids=(0, 1, 2, 3, 4), vocab_size=1000)


def lists(batch):
    assert all(tensor.dtype == torch.int64 for tensor in batch.values())
    return {name: tensor.tolist() for name, tensor in batch.items()}


def targets(batch):
    """What Trainer counts as `num_items_in_batch`, with and without a shift."""
    return int((batch["labels"] != -100).sum()), int((batch["labels"][..., 1:] != -100).sum())


# --- pairs


def test_pairs_are_padded_to_the_longest_of_each_side():
    batch = Seq2SeqCollator(PAD)(PAIRS)
    assert lists(batch) == {
        "input_ids": [[5, 6, 2], [8, 2, PAD]],
        "attention_mask": [[1, 1, 1], [1, 1, 0]],
        "labels": [[7, 2, -100, -100], [9, 5, 6, 2]],
    }
    assert targets(batch)[0] == 6


def test_a_batch_by_token_count_is_unpacked():
    one_by_one = lists(Seq2SeqCollator(PAD)(PAIRS))
    assert lists(Seq2SeqCollator(PAD)([PAIRS])) == one_by_one
    assert lists(Seq2SeqCollator(PAD)([PAIRS[:1], PAIRS[1:]])) == one_by_one


def test_widths_can_be_multiples():
    batch = Seq2SeqCollator(PAD, pad_to_multiple_of=8)(PAIRS)
    assert {name: tuple(tensor.shape) for name, tensor in batch.items()} == {
        "input_ids": (2, 8),
        "attention_mask": (2, 8),
        "labels": (2, 8),
    }
    assert int(batch["attention_mask"].sum()) == 5
    assert targets(batch)[0] == 6


def test_rows_without_labels_still_make_a_batch():
    """Case 42: nothing to learn from, and nothing that breaks."""
    batch = lists(Seq2SeqCollator(PAD)([{"input_ids": [], "labels": []}, {"input_ids": [], "labels": []}]))
    assert batch == {"input_ids": [[PAD], [PAD]], "attention_mask": [[0], [0]], "labels": [[-100], [-100]]}


def test_a_missing_column_lists_those_that_are_there():
    with pytest.raises(ValueError, match=r"needs a column 'labels', and the data has \['input_ids', 'target'\]"):
        Seq2SeqCollator(PAD)([{"input_ids": [1], "target": "x"}])


# --- language models


def test_the_end_keeps_its_label_where_it_is_also_the_pad():
    """Case 41: pad == eos == 2, rows 'x<eos>' and 'x y z<eos>'."""
    batch = CausalLMCollator(pad_token_id=2)([{"input_ids": [5, 2]}, {"input_ids": [5, 6, 7, 2]}])
    assert lists(batch) == {
        "input_ids": [[5, 2, 2, 2], [5, 6, 7, 2]],
        "attention_mask": [[1, 1, 0, 0], [1, 1, 1, 1]],
        "labels": [[-100, 2, -100, -100], [-100, 6, 7, 2]],
    }
    assert [row.count(2) for row in batch["labels"].tolist()] == [1, 1]
    assert targets(batch) == (4, 4)


def test_full_blocks_need_no_mask():
    batch = CausalLMCollator(PAD)([{"input_ids": [5, 6, 7]}, {"input_ids": [7, 8, 9]}])
    assert lists(batch) == {"input_ids": [[5, 6, 7], [7, 8, 9]], "labels": [[-100, 6, 7], [-100, 8, 9]]}
    assert targets(batch) == (4, 4)


def test_packed_documents_have_positions_and_no_mask():
    rows = [
        {"input_ids": [1, 5, 2, 1, 2], "position_ids": [0, 1, 2, 0, 1], "labels": [-100, 5, 2, -100, 2]},
        {"input_ids": [1, 6], "position_ids": [0, 1], "labels": [-100, 6]},
    ]
    batch = CausalLMCollator(PAD)(rows)
    assert lists(batch) == {
        "input_ids": [[1, 5, 2, 1, 2], [1, 6, PAD, PAD, PAD]],
        "labels": [[-100, 5, 2, -100, 2], [-100, 6, -100, -100, -100]],
        "position_ids": [[0, 1, 2, 0, 1], [0, 1, 0, 1, 2]],
    }
    assert targets(batch) == (4, 4)


# --- masks


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize(("mask_share", "random_share"), [(0.8, 0.1), (0.5, 0.3)])
def test_masks_have_the_stated_rates(whole_words, mask_share, random_share):
    """Case 52, on 100,000 tokens of which half are special; with whole words, of one to four tokens."""
    masker = dataclasses.replace(MASKER, mask_share=mask_share, random_share=random_share, whole_words=whole_words)
    ids = np.where(np.arange(100_000) % 2, np.arange(100_000) % 995 + 5, np.arange(100_000) // 2 % 5)
    inside = None
    if whole_words:  # special tokens first, so that words are not parted by them
        ids = np.concatenate([ids[ids < 5], ids[ids >= 5]])
        inside = np.random.default_rng(1).random(100_000) < 0.5
        inside &= np.convolve(inside, [0, 1, 1, 1])[:100_000] < 3
    masked, labels = mask_tokens(ids, masker, np.random.default_rng(0), inside)
    chosen = labels != -100
    assert not (chosen & (ids < 5)).any()
    assert (labels[chosen] == ids[chosen]).all()
    assert (masked[~chosen] == ids[~chosen]).all()
    share = chosen.sum() / 50_000
    assert share == pytest.approx(0.15, abs=0.01)
    hidden = (masked[chosen] == 4).mean()
    kept = (masked[chosen] == ids[chosen]).mean()
    assert hidden == pytest.approx(mask_share, abs=0.03)
    assert kept == pytest.approx(1 - mask_share - random_share, abs=0.03)
    assert 1 - hidden - kept == pytest.approx(random_share, abs=0.03)
    assert (masked[chosen] >= 4).all()  # the mask itself, or an ordinary token
    if whole_words:
        within = inside[50_001:]  # tokens of a word share its fate
        assert (chosen[50_001:][within] == chosen[50_000:-1][within]).all()


def test_words_are_masked_whole_or_not_at_all():
    """A special token parts words, and the rest of a word that a row begins with is one too."""
    masker = dataclasses.replace(MASKER, probability=0.5, whole_words=True)
    ids = np.array([1, 7, 8, 9, 10, 2, 11, 12, 13, 0])
    inside = np.array([0, 1, 0, 1, 1, 0, 1, 0, 1, 1], bool)
    words = [[1], [2, 3, 4], [6], [7, 8]]
    seen = set()
    for seed in range(60):
        chosen = mask_tokens(ids, masker, np.random.default_rng(seed), inside)[1] != -100
        assert not chosen[[0, 5, 9]].any()
        fate = tuple(bool(chosen[word[0]]) for word in words)
        assert all((chosen[word] == one).all() for word, one in zip(words, fate, strict=True))
        seen.add(fate)
    assert len(seen) == 16  # each word for itself


def test_no_word_goes_on_from_one_row_to_the_next():
    """Each row is the middle of a cut word, without special tokens around it: each is chosen for itself."""
    masker = dataclasses.replace(MASKER, probability=0.5, whole_words=True)
    rows = [{"input_ids": [token], "inside": [True]} for token in (7, 8, 9)]
    seen = set()
    for seed in range(60):
        labels = MaskedLMCollator(PAD, masker, seed)(rows)["labels"]
        seen.add(tuple((labels[:, 0] != -100).tolist()))
    assert len(seen) == 8


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("wordpiece", ["the", "tokenizers", "don't", ",", "naïve"]),
        ("byte-bpe", ["the", " tokenizers", " don", "'t", ",", " naïve"]),  # as its pattern cuts words
    ],
)
def test_words_are_known_by_the_tokenizer(kind, words):
    text = "the tokenizers don't, naïve"
    tokenizer = train_tokenizer(["t o k e n i z r s h d ' , a ï v", "the"], kind, 300, min_frequency=1)
    [marked] = encode_stream({"text": [text]}, tokenizer, with_words=True)["input_ids"]
    ids, inside = take_marks(np.asarray(marked))
    assert ids.tolist() == tokenizer(text, add_special_tokens=False)["input_ids"]
    starts = np.flatnonzero(~inside)
    found = [tokenizer.decode(part.tolist()) for part in np.split(ids, starts[1:])]
    assert found == words


def test_a_whole_word_run_is_masked_by_its_own_seed(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("the tokenizers of words\n" * 30)
    data = DataSection(train=str(path), validation=str(path), block_size=32, whole_word_masking=True)
    recipe = Recipe(name="x", task="masked-lm", model={"type": "encoder"}, data=data, training={"seed": 7})
    tokenizer = train_tokenizer(["t o k e n i z r s h f w d"], "wordpiece", 60, min_frequency=1)
    splits, _ = prepare_splits(load_splits(data, "masked-lm"), recipe, tokenizer)
    assert splits["train"].column_names == ["input_ids", "inside"]
    assert splits["validation"].column_names == ["input_ids", "labels"]
    rows = splits["train"].to_list()
    for row, masked in zip(rows, splits["validation"].to_list(), strict=True):
        assert len(row["inside"]) == len(row["input_ids"]) == len(masked["labels"])
        chosen, special = np.asarray(masked["labels"]) != -100, np.isin(row["input_ids"], range(5))
        both = np.asarray(row["inside"])[1:] & ~special[:-1]
        assert (chosen[1:][both] == chosen[:-1][both]).all()
    by_training = lists(collator_for(recipe, tokenizer)(rows))
    data.mask_seed = 8
    by_own = lists(collator_for(recipe, tokenizer)(rows))
    assert by_own != by_training
    recipe.training["seed"] = 8
    assert lists(collator_for(recipe, tokenizer)(rows)) == by_own


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["data.mask_share=0.95"], "data.mask_share: 0.95 and data.random_share: 0.1 are more than all of the chosen"),
        (["data.random_share=-0.1"], "data.random_share: -0.1 is not a number from 0 to 1."),
        (["data.mask_seed=-1"], "data.mask_seed: -1 is less than 0."),
        (["data.noise_density=0.5"], "data.noise_density is for the task denoising, not for masked-lm: leave it out."),
    ],
)
def test_rates_that_cannot_be_are_refused(settings, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe("masked-lm/wikipedia-bert", settings)
    assert str(caught.value).startswith(sentence)


def masked_rows(count=8, length=64, seed=3):
    rng = np.random.default_rng(seed)
    return [{"input_ids": [1, *rng.integers(5, 1000, length).tolist(), 2]} for _ in range(count)]


def test_masks_follow_from_seed_epoch_and_batch_alone():
    rows = masked_rows()
    collate = MaskedLMCollator(PAD, MASKER, seed=1)
    first = lists(collate(rows))
    torch.manual_seed(99)
    np.random.seed(99)
    assert lists(collate(rows)) == first
    assert lists(MaskedLMCollator(PAD, MASKER, seed=1)(rows)) == first
    assert lists(MaskedLMCollator(PAD, MASKER, seed=2)(rows)) != first
    # In another epoch, and beside other rows, a row is masked otherwise.
    other_company = lists(collate([rows[0], *rows[4:]]))
    assert other_company["labels"][0] != first["labels"][0]
    TellEpoch(collate).on_epoch_begin(None, TrainerState(epoch=1.5), None)
    assert collate.epoch == 1
    assert lists(collate(rows)) != first
    TellEpoch(collate).on_epoch_begin(None, TrainerState(), None)
    assert lists(collate(rows)) == first


def test_masked_rows_of_unequal_length():
    rows = masked_rows(2, 20)
    rows[1]["input_ids"] = rows[1]["input_ids"][:5]
    batch = MaskedLMCollator(PAD, MASKER, seed=1)(rows)
    assert batch["attention_mask"].sum(1).tolist() == [22, 5]
    assert (batch["labels"][1, 5:] == -100).all()
    assert (batch["input_ids"][1, 5:] == PAD).all()
    real = batch["labels"] != -100
    original = torch.tensor([rows[0]["input_ids"], rows[1]["input_ids"] + [PAD] * 17])
    assert (batch["labels"][real] == original[real]).all()


def test_rows_masked_before_stay_as_they_are():
    rows = [{"input_ids": [1, 4, 6, 2], "labels": [-100, 5, -100, -100]}, {"input_ids": [1, 2], "labels": [-100] * 2}]
    batch = MaskedLMCollator(PAD, MASKER, seed=1)(rows)
    assert lists(batch) == {
        "input_ids": [[1, 4, 6, 2], [1, 2, PAD, PAD]],
        "labels": [[-100, 5, -100, -100], [-100] * 4],
        "attention_mask": [[1, 1, 1, 1], [1, 1, 0, 0]],
    }
    assert targets(batch)[0] == 1


# --- texts with a label


def test_texts_with_a_label():
    rows = [
        {"input_ids": [1, 5, 2], "attention_mask": [1, 1, 1], "token_type_ids": [0, 0, 1], "labels": 1},
        {"input_ids": [1, 2], "attention_mask": [1, 1], "token_type_ids": [0, 1], "labels": 0},
    ]
    batch = ClassificationCollator(PAD)(rows)
    assert lists(batch) == {
        "input_ids": [[1, 5, 2], [1, 2, PAD]],
        "attention_mask": [[1, 1, 1], [1, 1, 0]],
        "token_type_ids": [[0, 0, 1], [0, 1, 0]],
        "labels": [1, 0],
    }
    assert targets(batch)[0] == 2
    assert "labels" not in ClassificationCollator(PAD)([{"input_ids": [1]}])


# --- which collator


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("translation", Seq2SeqCollator),
        ("causal-lm", CausalLMCollator),
        ("masked-lm", MaskedLMCollator),
        ("sequence-classification", ClassificationCollator),
    ],
)
def test_each_task_has_its_collator(task, expected):
    recipe = Recipe(
        name="x", task=task, model={"type": "encoder"}, data=DataSection(train="a.txt", mask_probability=0.3)
    )
    recipe.training["seed"] = 7
    tokenizer = train_tokenizer(["a b"], "word", 20, min_frequency=1)
    model = SimpleNamespace(config=SimpleNamespace(vocab_size=7))
    collate = collator_for(recipe, tokenizer, model)
    assert type(collate) is expected
    assert collate.pad_token_id == 0
    if task == "masked-lm":
        assert collate.masker == TokenMasker(0.3, 4, (0, 1, 2, 3, 4), 7)
        assert collate.seed == 7
    model.config.vocab_size = 6
    with pytest.raises(ValueError, match="model.vocab_size: 6 is less than the 7 tokens of the tokenizer"):
        collator_for(recipe, tokenizer, model)
    tokenizer.mask_token = None
    if task == "masked-lm":
        with pytest.raises(ValueError, match="no mask token"):
            collator_for(recipe, tokenizer)
    tokenizer.pad_token = None
    with pytest.raises(ValueError, match="no pad token"):
        collator_for(recipe, tokenizer)


def test_packed_documents_do_not_see_one_another():
    """A document's logits in a packed, padded batch equal those that it has alone."""
    from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM

    sizes = {"vocab_size": 20, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = TransformerDecoderConfig(**sizes, intermediate_size=32, max_position_embeddings=16)
    torch.manual_seed(0)
    model = TransformerDecoderForCausalLM(config).eval()
    documents = [[1, 5, 6, 2], [1, 7, 2], [1, 8, 9, 10, 11, 12, 2]]
    packed = documents[0] + documents[1]
    rows = [
        {"input_ids": packed, "position_ids": [0, 1, 2, 3, 0, 1, 2], "labels": packed},
        {"input_ids": documents[2][:5], "position_ids": [0, 1, 2, 3, 4], "labels": documents[2][:5]},
    ]
    with torch.no_grad():
        logits = model(**CausalLMCollator(PAD)(rows)).logits
        alone = [model(input_ids=torch.tensor([document])).logits[0] for document in documents]
    torch.testing.assert_close(logits[0, :4], alone[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(logits[0, 4:7], alone[1], atol=1e-5, rtol=0)
    torch.testing.assert_close(logits[1, :5], alone[2][:5], atol=1e-5, rtol=0)
