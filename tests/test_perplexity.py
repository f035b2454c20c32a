"""Perplexities that can be compared: per word, over overlapping windows, and of masked language models."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast

from regard.evaluation.generation import load_run
from regard.evaluation.likelihood import perplexity, pseudo_log_likelihood
from regard.train.evaluate import evaluate_run
from regard.train.layouts import Layout
from regard.train.masking import IGNORED
from regard.train.recipe import RecipeError, load_recipe
from regard.train.run import train
from regard.train.tokenization import train_tokenizer

# Two lines of blank and six of text, in the manner of WikiText: <unk> stands in the text itself.
TEXT = " \n = A title = \n \n The <unk> cat sat .\n The dog ran , and ran , and ran .\n </s> \n"
SMALL = [
    "model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=32", "model.num_hidden_layers=1",
    "training.max_steps=3", "training.warmup_steps=1", "data.block_size=8", "model.max_position_embeddings=64",
    "training.eval_strategy=no", "training.save_strategy=no", "evaluation.samples=1", "evaluation.max_new_tokens=4",
]  # fmt: skip
WORDS = "language-modeling/wikitext2-words"


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TEXT * 3)
    return path


def recipe_for(file, name, *more):
    files = [f"data.{split}={file}" for split in ("train", "validation")]
    without_test = [] if name.startswith("masked") else ["data.test=null"]
    return load_recipe(name, [*files, *without_test, *SMALL, *more])


@pytest.fixture(scope="module")
def run(file, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("runs") / "words")
    more = ["tokenizer.vocab_size=20", "evaluation.stride=3", "evaluation.metrics=[word_perplexity,bits_per_byte]"]
    metrics = train(recipe_for(file, WORDS, *more), folder)
    return folder, metrics


def rows(ids, **layout):
    data = Dataset.from_dict({"input_ids": ids})
    return list(Layout("blocks", affixes=((1,), (2,)), **layout).rows(data))


@pytest.mark.parametrize("length", [1, 2, 5, 6, 7, 8, 9, 20, 1000])
@pytest.mark.parametrize("stride", [1, 2, 4, 5])
def test_windows_judge_each_token_once_after_enough_others(length, stride):
    stream = np.array([1, *range(10, 10 + length), 2])
    judged = []
    found = rows([stream[1:-1].tolist()], block_size=6, stride=stride)
    for number, row in enumerate(found):
        start = number * stride
        assert np.array_equal(row["input_ids"], stream[start : start + 6])
        targets = np.flatnonzero(row["labels"] != IGNORED)
        assert np.array_equal(row["labels"][targets], row["input_ids"][targets])
        assert number == 0 or targets.min() >= 6 - stride
        judged += (start + targets).tolist()
    assert judged == list(range(1, len(stream)))


def test_words_are_those_that_the_corpus_parts_by_spaces(run):
    _, tokenizer = load_run(run[0])
    tokens = tokenizer.tokenize(TEXT)
    assert tokens[:10] == ["\n", "=", "A", "title", "=", "\n", "\n", "The", "<unk>", "cat"]
    ids = tokenizer(TEXT)["input_ids"]
    assert tokenizer.convert_tokens_to_ids("<unk>") == tokenizer.unk_token_id == 3
    assert tokenizer.eos_token_id not in ids  # the name of a control token in a text is not that token
    assert len(tokenizer) == len({*TEXT.replace("</s>", "/s>").split(), "\n"} - {"<unk>"}) + 5


def test_word_perplexity_is_the_total_likelihood_over_the_words_of_the_text(run, file):
    folder, metrics = run
    model, tokenizer = load_run(folder)
    stream = torch.tensor([tokenizer(TEXT * 3)["input_ids"] + [tokenizer.eos_token_id]])
    total = 0.0
    for target in range(1, stream.shape[1]):  # the same windows of 8 with a stride of 3, one token after another
        window = 0 if target < 8 else math.ceil((target - 7) / 3) * 3
        with torch.no_grad():
            logits = model(input_ids=stream[:, window:target]).logits[0, -1]
        total -= logits.log_softmax(-1)[stream[0, target]].item()
    words = len((TEXT * 3).split()) + (TEXT * 3).count("\n")
    measured = metrics["evaluation"]["validation"]
    assert measured["word_perplexity"] == pytest.approx(math.exp(total / words), rel=1e-5)
    assert metrics["data"]["validation"]["words"] == words
    size = len((TEXT * 3).encode())
    assert metrics["data"]["validation"]["text_bytes"] == size
    assert measured["bits_per_byte"] == pytest.approx(total / math.log(2) / size, rel=1e-5)
    assert evaluate_run(folder, "validation")["validation"] == pytest.approx(measured, rel=1e-6)


def test_word_perplexity_does_not_ask_how_the_text_is_cut(file, tmp_path):
    """A model that finds all tokens equally likely has V^(tokens / words) per word."""
    recipe = recipe_for(
        file, "language-modeling/wikitext2-bpe", "tokenizer.vocab_size=270", "model.num_key_value_heads=2",
        "evaluation.stride=4",
        "evaluation.metrics=[word_perplexity]", "training.learning_rate=0", "model.initializer_range=0.0",
    )  # fmt: skip
    metrics = train(recipe, str(tmp_path / "run"))
    data, measured = metrics["data"]["validation"], metrics["evaluation"]["validation"]
    assert data["targets"] > data["words"]
    size = load_run(tmp_path / "run")[0].config.vocab_size
    assert measured["word_perplexity"] == pytest.approx(size ** (data["targets"] / data["words"]), rel=1e-4)


def test_word_perplexity_is_refused_where_first_words_are_not_predicted(file, tmp_path):
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(["<pad>", "</s>", "<unk>", *TEXT.split()]))}
    words = Tokenizer(WordLevel(vocabulary, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **names).save_pretrained(tmp_path / "words")
    recipe = recipe_for(
        file, "language-modeling/wikitext2-bpe", f"tokenizer.path={tmp_path / 'words'}", "model.num_key_value_heads=2",
        "data.packing=documents", "evaluation.stride=null",
    )  # fmt: skip
    with pytest.raises(ValueError, match="word_perplexity counts the whole text.*choose data.packing: blocks"):
        train(recipe, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["evaluation.stride=8"], "evaluation.stride: 8 is not between 1 and data.block_size - 1, 7"),
        (["evaluation.stride=0"], "evaluation.stride: 0 is not between 1"),
        (["evaluation.stride=2", "data.packing=documents"], "evaluation.stride is for the task causal-lm with"),
    ],
)
def test_a_stride_that_cannot_work(file, overrides, sentence):
    with pytest.raises(RecipeError, match=sentence):
        recipe_for(file, WORDS, *overrides)


class Bigrams(torch.nn.Module):
    """log P of a masked token: a table looked up by the token before and the one after."""

    device = torch.device("cpu")

    def __init__(self):
        super().__init__()
        self.table = torch.randn(9, 9, 9, generator=torch.Generator().manual_seed(0))

    def forward(self, input_ids):
        around = self.table[input_ids.roll(1, 1), input_ids.roll(-1, 1)]
        return SimpleNamespace(logits=torch.where((input_ids == 4)[..., None], around, torch.nan))


def test_pseudo_perplexity_masks_one_token_after_another():
    model = Bigrams()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=train_tokenizer(["a b c d"], "char", 9).backend_tokenizer,
        bos_token="<s>", eos_token="</s>", pad_token="<pad>", mask_token="<mask>", unk_token="<unk>",
    )  # fmt: skip
    texts = [[1, 5, 6, 3, 8, 2], [1, 7, 2]]  # <unk> is a token of the text as any other
    expected = sum(
        model.table[row[i - 1], row[i + 1]].log_softmax(-1)[row[i]].item()
        for row in texts
        for i in range(1, len(row) - 1)
    )
    for batch_size in (1, 3, 100):
        total, tokens = pseudo_log_likelihood(model, tokenizer, texts, batch_size)
        assert (total, tokens) == (pytest.approx(expected, rel=1e-5), 5)
    with pytest.raises(ValueError, match="the rows have none"):
        pseudo_log_likelihood(model, tokenizer, [[1, 2]], 2)


def test_a_masked_model_is_judged_by_its_pseudo_perplexity(file, tmp_path):
    recipe = recipe_for(
        file, "masked-lm/wikipedia-bert", "data.path=null", "data.name=null", "data.streaming=false",
        "tokenizer.vocab_size=80", "evaluation.metrics=[perplexity, pseudo_perplexity]", "training.learning_rate=0",
        "model.initializer_range=0.0", "evaluation.pseudo_perplexity_rows=2",
    )  # fmt: skip
    measured = train(recipe, str(tmp_path / "run"))["evaluation"]["validation"]
    size = load_run(tmp_path / "run")[0].config.vocab_size
    assert measured["pseudo_perplexity"] == pytest.approx(size, rel=1e-4)  # all tokens are equally likely


def test_a_perplexity_beyond_all_numbers_is_infinite():
    assert perplexity(0.0) == 1
    assert perplexity(800.0) == math.inf
