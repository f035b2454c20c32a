"""Token embeddings that begin from word vectors: which rows are set, and to what."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from regard.modeling import GloVeModel, WordVectors

from .families import Entry, every

WIDTH = 16
VECTORS = WordVectors(
    ["the", "cat", "dog", "café", "paris"], np.random.default_rng(0).normal(2, 3, (5, WIDTH)).astype(np.float32)
)
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]


def tokenizer_of(tokens: list[str], decoder=None) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(
        models.WordLevel({token: row for row, token in enumerate([*SPECIAL, *tokens])}, unk_token="<unk>")
    )
    if decoder is not None:
        tokenizer.decoder = decoder
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


WHOLE = ["cat", "xyz", "the", "Paris", "café"]


@every(variant=("paper", "llama"), attends=True)
def test_every_model_can_begin_from_word_vectors(entry: Entry):
    model = entry.model()
    before = model.get_input_embeddings().weight.detach().clone()
    result = model.load_word_vectors(VECTORS, tokenizer_of(WHOLE))
    assert result.found == ["cat", "the", "café"]
    assert result.missing == ["xyz", "Paris"]
    after = model.get_input_embeddings().weight.detach()
    np.testing.assert_array_equal(after[[4, 6, 8]], VECTORS[["cat", "the", "café"]])
    assert torch.equal(after[:4], before[:4])  # special tokens
    assert torch.equal(after[9:], before[9:])  # rows that are no token's
    assert not torch.equal(after[[5, 7]], before[[5, 7]])
    output = model.get_output_embeddings()
    if output is not None and entry.tied:
        assert output.weight.data_ptr() == model.get_input_embeddings().weight.data_ptr()


def table(rows: int = 3000) -> GloVeModel:
    return GloVeModel.from_vocabulary([f"w{row}" for row in range(rows)], [1] * rows, hidden_size=WIDTH)


def test_missing_tokens_are_drawn_like_those_that_were_found():
    words = ["the", "cat", "dog", "café", "paris", *(f"missing{number}" for number in range(2000))]
    model, rows = table(), slice(5, 2005)
    model.load_word_vectors(VECTORS, {word: row for row, word in enumerate(words)})
    drawn = model.in_embeddings.weight.detach().numpy()[rows]
    deviation = VECTORS.vectors.std(0)
    assert (np.abs(drawn.mean(0) - VECTORS.vectors.mean(0)) < 5 * deviation / np.sqrt(2000)).all()
    np.testing.assert_allclose(drawn.std(0), deviation, rtol=5 / np.sqrt(4000))
    again, other = table(), table()
    again.load_word_vectors(VECTORS, {word: row for row, word in enumerate(words)})
    other.load_word_vectors(VECTORS, {word: row for row, word in enumerate(words)}, seed=1)
    np.testing.assert_array_equal(again.in_embeddings.weight.detach().numpy()[rows], drawn)
    assert not np.array_equal(other.in_embeddings.weight.detach().numpy()[rows], drawn)


@pytest.mark.parametrize(
    ("tokens", "decoder", "found"),
    [
        (["Ġcat", "cat", "Ġthe", "ing", "ĠcafÃ©"], decoders.ByteLevel(), ["Ġcat", "Ġthe", "ĠcafÃ©"]),
        (["▁cat", "cat", "▁the", "▁café"], decoders.Metaspace(), ["▁cat", "▁the", "▁café"]),
        (["cat", "##cat", "the", "##the"], decoders.WordPiece(), ["cat", "the"]),
        (["cat", "the", "##"], None, ["cat", "the"]),
        (["cat", "▁", "the"], None, ["cat", "the"]),
        (["cat", "Ġreece", "▁the", "the", "##dog", "dog"], None, ["cat", "the", "dog"]),
        (["cat", "▁dog", "the"], decoders.WordPiece(), ["cat", "the"]),
    ],
    ids=["byte-level", "metaspace", "wordpiece", "word", "lone-mark", "words-with-marks", "mark-of-another-kind"],
)
def test_of_subwords_whole_words_alone(tokens, decoder, found):
    result = table().load_word_vectors(VECTORS, tokenizer_of(tokens, decoder))
    assert result.found == found
    assert sorted(result.found + result.missing) == sorted(tokens)


def test_one_vector_alone_says_nothing_of_the_spread():
    """Its own deviation is zero, and all other tokens would begin alike: they get that of the table."""
    model = table()
    deviation = model.in_embeddings.weight.detach().std(0, correction=0).numpy()
    one = WordVectors(["the"], np.full((1, WIDTH), 5.0))
    words = {"the": 0} | {f"missing{number}": number for number in range(1, 2001)}
    model.load_word_vectors(one, words)
    drawn = model.in_embeddings.weight.detach().numpy()[1:2001]
    assert (np.abs(drawn.mean(0) - 5) < 5 * deviation / np.sqrt(2000)).all()
    np.testing.assert_allclose(drawn.std(0), deviation, rtol=5 / np.sqrt(4000))


def test_lower_case_on_request():
    assert "Paris" in table().load_word_vectors(VECTORS, tokenizer_of(WHOLE), lowercase=True).found


def test_another_precision_is_kept():
    model = table().bfloat16()
    model.load_word_vectors(VECTORS, {"cat": 7})
    assert torch.equal(model.in_embeddings.weight[7], torch.from_numpy(VECTORS["cat"].copy()).bfloat16())


@pytest.mark.parametrize(
    ("vectors", "tokens", "sentence"),
    [
        (
            WordVectors(["cat"], np.ones((1, 5))),
            WHOLE,
            "width 5 do not fit token embeddings of width 16.*hidden_size must be 5",
        ),
        (
            WordVectors(["cat", "the"], np.array([[1.0] * WIDTH, [np.nan] * WIDTH])),
            WHOLE,
            "the vector of 'the' holds a number that is not finite",
        ),
        (VECTORS, ["Cat", "Dog"], "none of the 2 tokens has a word vector, of 5 there are"),
        (VECTORS, [*WHOLE, *map(str, range(3000))], "'2999' has row 3008, and the model has 3000 rows"),
    ],
    ids=["width", "finite", "none", "rows"],
)
def test_what_does_not_fit_changes_nothing(vectors, tokens, sentence):
    model = table()
    before = model.in_embeddings.weight.detach().clone()
    with pytest.raises(ValueError, match=sentence):
        model.load_word_vectors(vectors, tokenizer_of(tokens))
    assert torch.equal(model.in_embeddings.weight, before)
