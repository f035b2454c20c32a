"""Perplexity of documents: every token but the first predicted once, whatever the stride, window and batch.

What is right is computed by the model token after token, or follows from a formula.
"""

import json
import math
from types import SimpleNamespace

import pytest
import torch
import yaml
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.document_likelihood import (
    DocumentLikelihood,
    document_likelihood,
    read_documents,
    windowed_log_likelihood,
)
from regard.modeling import TransformerConfig, TransformerForConditionalGeneration
from regard.train.recipe import recipe_text
from regard.train.tokenization import train_tokenizer

DOCUMENTS = ["the cat sat on the mat\nand slept", "a dog ran\n\nand ran and ran", "x", "", "the dog – ça va – sat"]
TOKENIZER = train_tokenizer(DOCUMENTS, "byte-bpe", 280, min_frequency=1, template="none")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=len(TOKENIZER), n_embd=16, n_head=2, n_layer=1, n_positions=32, initializer_range=0.3,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


@torch.no_grad()
def one_by_one(model, ids, window, stride):
    """Σ log P(ids[t] | those before it in its window), t = 1, 2, ... The first window predicts ids 1 to `window`, and
    each later one the `stride` ids after those."""
    total = 0.0
    for target in range(1, len(ids)):
        begin = 0 if target <= window else math.ceil((target - window) / stride) * stride
        logits = model(input_ids=torch.tensor([ids[begin:target]])).logits[0, -1].double()
        total += logits.log_softmax(-1)[ids[target]].item()
    return total


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
@pytest.mark.parametrize("length", [2, 4, 5, 6, 10, 13])
def test_every_stride_equals_a_direct_computation(model, length, stride):
    ids = torch.randint(len(TOKENIZER), (length,), generator=torch.Generator().manual_seed(length)).tolist()
    total, tokens = windowed_log_likelihood(model, [ids], window=4, stride=stride)
    assert tokens == length - 1
    assert total == pytest.approx(one_by_one(model, ids, 4, stride), abs=1e-4)


def test_documents_together_are_worth_the_sum_of_each_alone(model):
    each = [document_likelihood(model, TOKENIZER, [text], window=6, stride=4) for text in DOCUMENTS if text]
    for batch_size in (1, 2, 7):
        whole = document_likelihood(model, TOKENIZER, iter(DOCUMENTS), window=6, stride=4, batch_size=batch_size)
        assert whole.log_likelihood == pytest.approx(sum(one.log_likelihood for one in each), abs=1e-4)
        assert (whole.tokens, whole.bytes, whole.documents) == (
            sum(one.tokens for one in each),
            sum(len(text.encode()) for text in DOCUMENTS),
            4,
        )


@pytest.mark.parametrize("template", ["none", "bos", "bos-eos"])
def test_all_tokens_of_the_text_are_predicted_after_a_first_one(model, template):
    tokenizer = train_tokenizer(DOCUMENTS, "byte-bpe", 280, min_frequency=1, template=template)
    ids = [tokenizer.bos_token_id, *tokenizer(DOCUMENTS[0], add_special_tokens=False)["input_ids"]]
    found = document_likelihood(model, tokenizer, DOCUMENTS[:1], window=8, stride=3)
    assert found.tokens == len(ids) - 1
    assert found.log_likelihood == pytest.approx(one_by_one(model, ids, 8, 3), abs=1e-4)


def test_without_a_token_to_begin_with_the_first_is_not_predicted(model):
    tokenizer = train_tokenizer(DOCUMENTS, "byte-bpe", 280, min_frequency=1, template="none")
    tokenizer.bos_token = tokenizer.eos_token = None
    found = document_likelihood(model, tokenizer, DOCUMENTS[:1], window=8, stride=8)
    assert found.tokens == len(tokenizer(DOCUMENTS[0])["input_ids"]) - 1


class Uniform(torch.nn.Module):
    """All V tokens are equally likely: Σ log P = -n log V."""

    device = torch.device("cpu")
    config = SimpleNamespace(is_encoder_decoder=False, bos_token_id=None, max_position_embeddings=6)

    def can_generate(self):
        return True

    def forward(self, input_ids, attention_mask):
        return SimpleNamespace(logits=torch.zeros(*input_ids.shape, len(TOKENIZER)))


def test_figures_by_token_word_and_byte():
    found = document_likelihood(Uniform(), TOKENIZER, DOCUMENTS)
    words, size = 8 + 7 + 1 + 7, sum(len(text.encode()) for text in DOCUMENTS)
    total = found.tokens * math.log(len(TOKENIZER))
    assert (found.window, found.stride, found.words, found.bytes, found.unknown) == (6, 3, words, size, 0)
    assert found.perplexity == pytest.approx(len(TOKENIZER))
    assert found.word_perplexity == pytest.approx(math.exp(total / words))
    assert found.byte_perplexity == pytest.approx(math.exp(total / size))
    assert found.bits_per_byte == pytest.approx(total / size / math.log(2))
    assert json.loads(json.dumps(found.record()))["bits_per_byte"] == found.bits_per_byte


def test_windows_count_by_their_tokens():
    """Mean losses of 1.0 over 3 tokens and 3.0 over 1 token: e^1.5, and not e^2."""
    found = DocumentLikelihood(-(3 * 1.0 + 1 * 3.0), 1, 4, 1, 4, 0, 3, 3)
    assert found.perplexity == pytest.approx(4.4817, abs=1e-4)


def test_unknown_words_are_counted():
    tokenizer = train_tokenizer(["the cat", "the dog"], "word", 30, min_frequency=1, template="bos")
    assert document_likelihood(Uniform(), tokenizer, ["the cow saw the cat"]).unknown == 2


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"window": 4, "stride": 5}, "stride=5 must be at least 1 and at most the window, 4"),
        ({"window": 4, "stride": 0}, "stride=0 must be at least 1"),
        ({"window": 0}, "window=0 must be a whole number, at least 1"),
        ({"window": 33}, "window=33 is more than the model has positions, 32"),
        ({"batch_size": 0}, "batch_size=0 must be"),
    ],
)
def test_numbers_that_cannot_work(model, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        document_likelihood(model, TOKENIZER, DOCUMENTS, **settings)


def test_nothing_to_predict_and_the_wrong_model(model):
    with pytest.raises(ValueError, match="no token to predict"):
        document_likelihood(model, TOKENIZER, [""])
    config = TransformerConfig(
        vocab_size=20, hidden_size=8, num_attention_heads=2, encoder_layers=1, decoder_layers=1, intermediate_size=8
    )
    with pytest.raises(ValueError, match="takes a causal language model"):
        document_likelihood(TransformerForConditionalGeneration(config), TOKENIZER, DOCUMENTS)
    config = BertConfig(
        vocab_size=len(TOKENIZER), hidden_size=8, num_attention_heads=2, num_hidden_layers=1, intermediate_size=8
    )
    with pytest.raises(ValueError, match="A BertForMaskedLM does not predict what comes next"):
        document_likelihood(BertForMaskedLM(config), TOKENIZER, DOCUMENTS)


def test_documents_of_files(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("one\ntwo\n\nthree\n", encoding="utf-8")
    assert list(read_documents(text)) == ["one\ntwo\n\nthree\n"]
    assert list(read_documents(text, blank_lines=True)) == ["one\ntwo\n\n", "three\n"]
    text.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    for blank_lines in (False, True):
        assert list(read_documents(text, blank_lines=blank_lines)) == ["one\r\ntwo\r\n"]
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"text": "one\\ntwo", "page": "p"}\n{"text": "three", "page": 4}\n', encoding="utf-8")
    assert list(read_documents(rows)) == ["one\ntwo", "three"]
    with pytest.raises(ValueError, match="has no column 'body': it has text, page"):
        list(read_documents(rows, "body"))
    with pytest.raises(ValueError, match=r"rows.jsonl, line 2: 'page' is no text"):
        list(read_documents(rows, "page"))
    with pytest.raises(FileNotFoundError, match="There is no file"):
        list(read_documents(tmp_path / "other.txt"))
    with pytest.raises(ValueError, match="is no file of documents"):
        list(read_documents(tmp_path / "other.pdf"))


def test_the_command(model, tmp_path):
    folder = tmp_path / "model"
    model.save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"text": text}) + "\n" for text in DOCUMENTS))
    call = ["perplexity", str(folder), str(rows), "--window", "8", "--stride", "2"]
    expected = document_likelihood(model, TOKENIZER, DOCUMENTS, window=8, stride=2).record()
    found = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert found == pytest.approx(expected, rel=1e-5)
    shown = CliRunner().invoke(app, call).stdout
    assert f"bits_per_byte     {expected['bits_per_byte']:.4f}\n" in shown
    recipe = yaml.safe_load(recipe_text("language-modeling/tinyshakespeare-char"))
    recipe["data"]["block_size"] = 5
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe))
    found = json.loads(CliRunner().invoke(app, [*call[:3], "--json"]).stdout)
    assert (found["window"], found["stride"]) == (4, 2)
    refused = CliRunner().invoke(app, [*call[:2], str(tmp_path / "other.jsonl")])
    assert isinstance(refused.exception, FileNotFoundError)
