"""Marian's tokenizer, which is not fast: two models of pieces, one for each language, and one vocabulary of both."""

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoTokenizer, MarianConfig, MarianMTModel

import regard
from regard.model_cards.staging import stage
from regard.train.encoding import check_fast, encode_cut, tokenizer_state
from regard.train.recipe import load_recipe
from regard.train.run import train

from .parity import randomize

sentencepiece = pytest.importorskip("sentencepiece")
PAIRS = {
    "the cat saw the dog": "die Katze sah den Hund",
    "a dog ran": "ein Hund lief",
    "the dog saw a cat": "der Hund sah eine Katze",
    "the cat ran": "die Katze lief",
}
SPECIAL = {"</s>", "<unk>", "<s>"}


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    """A checkpoint of the library's with random weights, as those of the Hub are laid out."""
    folder, known = tmp_path_factory.mktemp("marian"), ["</s>", "<unk>"]
    for side, texts in (("source", list(PAIRS)), ("target", list(PAIRS.values()))):
        with open(folder / f"{side}.spm", "wb") as file:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(texts * 3),
                model_writer=file,
                vocab_size=26,
                hard_vocab_limit=False,
                minloglevel=2,
            )
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        known += [piece for piece in map(pieces.id_to_piece, range(len(pieces))) if piece not in {*SPECIAL, *known}]
    known.append("<pad>")
    (folder / "vocab.json").write_text(json.dumps({piece: number for number, piece in enumerate(known)}))
    (folder / "tokenizer_config.json").write_text('{"source_lang": "en", "target_lang": "de"}')
    torch.manual_seed(0)
    pad = len(known) - 1
    config = MarianConfig(
        vocab_size=len(known), max_position_embeddings=32, d_model=32, encoder_layers=1, decoder_layers=1,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=64, decoder_ffn_dim=64,
        pad_token_id=pad, decoder_start_token_id=pad, eos_token_id=0, forced_eos_token_id=0, scale_embedding=True,
    )  # fmt: skip
    randomize(MarianMTModel(config)).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def converted(source, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("converted") / "it"
    result = regard.convert(source, folder)
    assert result.tokenizer == "MarianTokenizer"
    assert any("recipes of translation and summarization take it" in note for note in result.notes)
    return folder


def recipe_of(folder: Path, converted: Path, **sections):
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps({"source": source, "target": target}) + "\n" for source, target in PAIRS.items())
    )
    file = str(folder / "pairs.jsonl")
    values = {
        "name": "marian",
        "task": "translation",
        "model": {"type": "transformer", "start_from": str(converted), "dropout": 0.0},
        "data": {"train": file, "validation": file, "max_source_length": 16, "max_target_length": 16},
        "training": {
            "max_steps": 80, "learning_rate": 0.01, "logging_steps": 20, "per_device_train_batch_size": 4,
            "report_to": "none",
        },
        "evaluation": {"metrics": ["chrf"], "samples": 1, "max_new_tokens": 12, "num_beams": 1},
    }  # fmt: skip
    path = folder / "recipe.yaml"
    path.write_text(json.dumps(values | {name: values.get(name, {}) | more for name, more in sections.items()}))
    return load_recipe(path)


def test_it_stays_of_its_class_and_its_files_are_published(source, converted, tmp_path):
    model, tokenizer = regard.load_run(converted)
    assert tokenizer("the cat")["input_ids"] == AutoTokenizer.from_pretrained(source)("the cat")["input_ids"]
    assert isinstance(regard.translate(model, tokenizer, ["the cat"], max_new_tokens=5)[0], str)
    assert {"source.spm", "target.spm", "vocab.json"} <= stage(converted, tmp_path / "staged").files().keys()


def test_targets_are_cut_by_the_pieces_of_their_language(source, converted):
    tokenizer = AutoTokenizer.from_pretrained(converted)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(source / "target.spm"))
    vocabulary = json.loads((source / "vocab.json").read_text())
    text = "die Katze sah den Hund"
    wanted = [vocabulary[piece] for piece in pieces.encode(text, out_type=str)] + [vocabulary["</s>"]]
    encoded, lengths = encode_cut(tokenizer, 32, [text], as_target=True)
    assert encoded["input_ids"] == [wanted]
    assert lengths == [len(wanted)]
    assert encode_cut(tokenizer, 32, [text])[0]["input_ids"] != [wanted]  # the source's pieces are others
    cut, lengths = encode_cut(tokenizer, 3, [text], as_target=True)
    assert (cut["input_ids"], lengths) == ([[*wanted[:2], vocabulary["</s>"]]], [len(wanted)])


def test_the_state_is_that_of_the_files(source, converted, tmp_path):
    """So that rows which `datasets` keeps are not taken for those of another tokenizer."""
    state = tokenizer_state(AutoTokenizer.from_pretrained(converted))
    assert state == tokenizer_state(AutoTokenizer.from_pretrained(source))
    other = AutoTokenizer.from_pretrained(converted)
    other.add_tokens(["new"])
    assert tokenizer_state(other) != state


def test_it_is_fine_tuned(converted, tmp_path):
    """To the point where it writes the pairs that it has seen, which takes the right pieces on both sides."""
    train(recipe_of(tmp_path, converted), str(tmp_path / "run"))
    model, tokenizer = regard.load_run(tmp_path / "run")
    assert type(tokenizer).__name__ == "MarianTokenizer"
    assert regard.translate(model, tokenizer, list(PAIRS)) == list(PAIRS.values())


def test_where_a_fast_one_is_needed_it_is_refused(converted, tmp_path):
    recipe = recipe_of(tmp_path, converted, data={"bpe_dropout": 0.1})
    with pytest.raises(
        ValueError, match=r"^model\.start_from: .* is a MarianTokenizer, .* as data\.bpe_dropout needs"
    ):
        train(recipe, str(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    recipe.task, recipe.data.bpe_dropout = "token-classification", 0.0
    with pytest.raises(
        ValueError, match=r"^It is a MarianTokenizer, .* as the task token-classification needs it: name"
    ):
        check_fast(recipe, AutoTokenizer.from_pretrained(converted), "It")
