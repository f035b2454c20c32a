"""A word in different sentences: every cosine against one taken from the models' own outputs by hand."""

import copy
import itertools
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, T5Config, T5EncoderModel, T5Model
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.light import cosines, light, load_layers
from regard.evaluation.light_pictures import plot_light
from regard.evaluation.light_report import light_record, light_table, notes
from regard.modeling import (
    DANConfig,
    DANForSequenceClassification,
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderForMaskedLM,
    TransformerForConditionalGeneration,
)
from regard.train.tokenization import train_tokenizer

SENTENCES = ["the light of the sun fills a room", "a box is light and the sun is not"]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24}


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(SENTENCES * 2, "word", 60, min_frequency=1, template="bos-eos")


def encoder(tokenizer, **settings):
    torch.manual_seed(0)
    config = TransformerEncoderConfig(vocab_size=len(tokenizer), num_hidden_layers=3, **SIZES | settings)
    return TransformerEncoderForMaskedLM(config).eval()


def hidden(reader, tokenizer, sentence, word):
    """The word's vector at each layer, of the first of its tokens, straight from the model."""
    ids = tokenizer(sentence)["input_ids"]
    place = ids.index(tokenizer.convert_tokens_to_ids(word))
    outputs = reader(input_ids=torch.tensor([ids]), output_hidden_states=True)
    return [layer[0, place].detach().double() for layer in outputs.hidden_states]


def test_cosines_are_those_of_the_models_hidden_states(tokenizer):
    model = encoder(tokenizer)
    seen = light(model, tokenizer, "light", SENTENCES)
    one, two = (hidden(model.base_model, tokenizer, text, "light") for text in SENTENCES)
    expected = [torch.cosine_similarity(a, b, dim=0).item() for a, b in zip(one, two, strict=True)]
    assert seen.stages == ["token", "0", "1", "2", "3"]
    assert seen.between()[0].tolist() == pytest.approx([1.0, *expected], abs=1e-6)
    moved = [torch.cosine_similarity(layer, two[0], dim=0).item() for layer in two]
    assert seen.from_layer_0()[1].tolist() == pytest.approx(moved, abs=1e-6)
    assert [(use.sentence, use.occurrence, use.pieces) for use in seen.uses] == [(1, 1, ["light"]), (2, 1, ["light"])]
    assert [SENTENCES[use.sentence - 1][use.start : use.end] for use in seen.uses] == ["light", "light"]


@pytest.mark.parametrize("positions", ["rotary", "sinusoidal", "learned"])
def test_where_a_word_begins_free_of_context(tokenizer, positions):
    """The token's embedding is one; what the first layer reads is one where no position is added to it."""
    seen = light(encoder(tokenizer, position_embedding_type=positions), tokenizer, "light", SENTENCES)
    token, first, *deeper = seen.between()[0]
    assert token == 1.0
    assert (first == 1.0) == (positions == "rotary")
    assert max(deeper) < 1
    assert any("positions are added there" in line for line in notes(seen)) == (positions != "rotary")


def test_a_left_to_right_model_does_not_see_what_follows(tokenizer):
    config = TransformerDecoderConfig(vocab_size=len(tokenizer), num_hidden_layers=2, **SIZES)
    torch.manual_seed(0)
    model = TransformerDecoderForCausalLM(config).eval()
    seen = light(model, tokenizer, "light", ["the light of a room", "the light is not"])
    assert seen.causal
    assert seen.between()[0].tolist() == pytest.approx([1.0] * 4, abs=1e-9)
    assert any("from left to right" in line for line in notes(seen))
    assert not light(encoder(tokenizer), tokenizer, "light", SENTENCES).causal


def test_the_encoder_of_an_encoder_decoder_reads(tokenizer):
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=len(tokenizer), encoder_layers=2, decoder_layers=1, **SIZES)
    model = TransformerForConditionalGeneration(config).eval()
    seen = light(model, tokenizer, "sun", SENTENCES)
    one, two = (hidden(model.get_encoder(), tokenizer, text, "sun") for text in SENTENCES)
    expected = [torch.cosine_similarity(a, b, dim=0).item() for a, b in zip(one, two, strict=True)]
    assert seen.between()[0, 1:].tolist() == pytest.approx(expected, abs=1e-6)
    assert not seen.causal


def test_models_of_the_library_are_read_like_ours(tokenizer):
    size = {"vocab_size": len(tokenizer)}
    torch.manual_seed(0)
    heads = {"num_hidden_layers": 2, "num_attention_heads": 2, "hidden_size": 16, "intermediate_size": 24}
    bert = BertModel(BertConfig(**size, **heads)).eval()
    gpt = GPT2Model(GPT2Config(**size, n_embd=16, n_layer=2, n_head=2, bos_token_id=1, eos_token_id=2)).eval()
    five = T5Model(T5Config(**size, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)).eval()
    for model, reader, causal in ((bert, bert, False), (gpt, gpt, True), (five, five.get_encoder(), False)):
        seen = light(model, tokenizer, "sun", SENTENCES)
        one, two = (hidden(reader, tokenizer, text, "sun") for text in SENTENCES)
        expected = [torch.cosine_similarity(a, b, dim=0).item() for a, b in zip(one, two, strict=True)]
        assert seen.between()[0, 1:].tolist() == pytest.approx(expected, abs=1e-6)
        assert seen.causal is causal
        assert seen.between()[0, 0] == 1.0
    lone = T5EncoderModel(copy.deepcopy(five.config)).eval()
    lone.load_state_dict(five.state_dict(), strict=False)
    alone = light(lone, tokenizer, "sun", SENTENCES).between()
    assert alone == pytest.approx(light(five, tokenizer, "sun", SENTENCES).between(), abs=1e-6)


def test_a_word_of_several_pieces_is_their_mean():
    """Of a byte-level tokenizer without merges each letter is a piece: "light" is five, told by their characters."""
    letters = train_tokenizer(["a"], "byte-bpe", 262, min_frequency=1, template="bos-eos")
    model = encoder(letters)
    sentences = ["x light", "a light, b"]
    seen = light(model, letters, "light", sentences)
    means = []
    for text in sentences:
        ids = letters(text)["input_ids"]
        start = text.index("light") + 1  # the start token comes first, and each character is a token
        assert letters.decode(ids[start : start + 5]) == "light"
        outputs = model.base_model(input_ids=torch.tensor([ids]), output_hidden_states=True)
        means.append([layer[0, start : start + 5].double().mean(0) for layer in outputs.hidden_states])
    expected = [torch.cosine_similarity(a, b, dim=0).item() for a, b in zip(*means, strict=True)]
    assert seen.between()[0, 1:].tolist() == pytest.approx(expected, abs=1e-6)
    assert [len(use.pieces) for use in seen.uses] == [5, 5]


def test_a_word_that_is_another_token_after_a_space_is_told():
    """To a byte-level tokenizer "sun" and " sun" are two words, which begin apart whatever is around them."""
    pieces = train_tokenizer(["sun a sun is sun a"] * 4, "byte-bpe", 275, min_frequency=1, template="bos-eos")
    model = encoder(pieces, position_embedding_type="rotary")
    seen = light(model, pieces, "sun", ["sun is a", "a sun is", "is a sun"])
    table = model.get_input_embeddings().weight.detach().double()
    first, second = (table[pieces.convert_tokens_to_ids(token)] for token in ("sun", "Ġsun"))
    apart = torch.cosine_similarity(first, second, dim=0).item()
    assert seen.between()[:, 0].tolist() == pytest.approx([apart, apart, 1.0], abs=1e-6)
    assert any("after a space may be another" in line for line in notes(seen))
    assert not any("after a space" in line for line in notes(light(model, pieces, "sun", ["a sun is", "is a sun"])))


def test_how_alike_other_tokens_are_is_a_mean_over_pairs_that_differ(tokenizer):
    model = encoder(tokenizer)
    seen = light(model, tokenizer, "light", SENTENCES)
    special, word = tokenizer.all_special_ids, tokenizer.convert_tokens_to_ids("light")
    found = []
    for text in SENTENCES:
        ids = tokenizer(text)["input_ids"]
        layers = model.base_model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        found += [(i, layers[2][0, p].detach()) for p, i in enumerate(ids) if i not in special and i != word]
    pairs = [(a, b) for (i, a), (j, b) in itertools.combinations(found, 2) if i != j]
    mean = np.mean([torch.cosine_similarity(a, b, dim=0).item() for a, b in pairs])
    assert seen.others[3] == pytest.approx(mean, abs=1e-6)  # the token embedding, layers 0, 1 and 2
    assert len(seen.others) == len(seen.stages)


def test_all_uses_are_compared_or_the_nth_of_each_sentence(tokenizer):
    model, sentences = encoder(tokenizer), ["the sun is the sun", "a sun is not the sun"]
    seen = light(model, tokenizer, "sun", sentences)
    assert seen.names() == ["1a", "1b", "2a", "2b"]
    assert list(light_record(seen)["between"]) == ["1a-1b", "1a-2a", "1a-2b", "1b-2a", "1b-2b", "2a-2b"]
    second = light(model, tokenizer, "sun", sentences, occurrence=2)
    assert second.names() == ["1", "2"]
    assert second.between()[0] == pytest.approx(seen.between()[seen.pairs().index((1, 3))], abs=1e-12)
    assert light(model, tokenizer, "sun", sentences[:1]).names() == ["1a", "1b"]


@pytest.mark.parametrize(
    ("word", "sentences", "settings", "sentence"),
    [
        (
            "Sun",
            SENTENCES,
            {},
            "There is no 'Sun' in sentence 1, .*: there is 'sun', .* whole word and as it is written",
        ),
        ("su", SENTENCES, {}, "There is no 'su' in sentence 1"),
        ("moon", SENTENCES, {}, r"There is no 'moon' in sentence 1, 'the light of the sun fills a room'\.$"),
        ("sun", SENTENCES[:1], {}, "'sun' is not used twice"),
        ("sun", [SENTENCES[0]] * 2, {}, "is given twice"),
        ("sun", SENTENCES, {"occurrence": 2}, "occurrence=2: 'sun' is 1 times in sentence 1"),
        ("sun", ["sun " * 5, "a sun " * 4], {}, "used 9 times, and at most 8 are compared: choose occurrence=1"),
        (" ", SENTENCES, {}, "The word is empty"),
        (" sun\n", [*SENTENCES, "sun " + "a " * 600], {}, "Sentence 3 has 603 tokens, and the model reads 512"),
    ],
)
def test_what_cannot_be_compared_is_one_sentence(tokenizer, word, sentences, settings, sentence):
    model = encoder(tokenizer, position_embedding_type="learned", max_position_embeddings=512)
    with pytest.raises(ValueError, match=sentence):
        light(model, tokenizer, word, sentences, **settings)


def test_a_word_in_a_script_without_spaces_is_found():
    texts = ["我去银行。", "河的银行"]
    letters = train_tokenizer(texts, "char", 30, min_frequency=1, template="bos-eos")
    seen = light(encoder(letters), letters, "银行", texts)
    assert [(use.start, use.end) for use in seen.uses] == [(2, 4), (2, 4)]


def test_a_word_that_the_tokenizer_lacks_is_told(tokenizer):
    seen = light(encoder(tokenizer), tokenizer, "zebra", ["the zebra", "a zebra is not"])
    assert any("does not know all of the word" in line for line in notes(seen))


def test_cosines_of_equal_and_of_zero_vectors():
    same = np.array([0.1, 0.2, 0.7])
    assert cosines(same, same) == 1.0
    assert cosines(np.zeros(3), same) == 0.0
    assert cosines(np.array([1.0, 0.0]), np.array([[0.0, 2.0], [3.0, 0.0], [-1.0, 0.0]])).tolist() == [0.0, 1.0, -1.0]


def test_the_picture_names_sentences_and_layers(tokenizer, tmp_path):
    seen = light(encoder(tokenizer), tokenizer, "light", [*SENTENCES, "light $x_1$ is a box"])
    text = plot_light(replace(seen, word="light " * 9), tmp_path / "light.svg").read_text()
    assert "“light light light light …”: how alike" in text  # and not into the next panel
    assert text.count("<!-- light $x_1$ is a box -->") or "light $x_1$ is a box" in text
    assert "token" in text
    assert plot_light(seen, tmp_path / "a.png").stat().st_size > 10_000
    with pytest.raises(ValueError, match="must end in"):
        plot_light(seen, tmp_path / "light.gif")


def test_the_picture_draws_the_cosines_and_the_principal_plane(tokenizer, tmp_path, monkeypatch):
    """The plane by numpy's singular value decomposition of the centred directions, whose signs are free."""
    seen = light(encoder(tokenizer), tokenizer, "sun", ["a sun is the sun", SENTENCES[0]])
    drawn = {}
    monkeypatch.setattr(
        "regard.evaluation.light_pictures.save_figure", lambda figure, path: drawn.setdefault("axes", figure.axes)
    )
    plot_light(seen, tmp_path / "a.png")
    left, right = drawn["axes"]
    *pairs, moved, others = left.lines
    assert np.array([line.get_ydata() for line in pairs]) == pytest.approx(seen.between())
    assert moved.get_ydata() == pytest.approx(seen.from_layer_0().mean(axis=0))
    assert moved.get_xdata().tolist() == [1, 2, 3, 4]  # the token stands at 0
    assert list(others.get_ydata()) == seen.others
    assert [label.get_text() for label in left.get_xticklabels()] == ["token", "0", "1", "2", "3"]
    units = seen.vectors / np.linalg.norm(seen.vectors, axis=2, keepdims=True)
    centred = units.reshape(12, 16) - units.reshape(12, 16).mean(axis=0)
    _, lengths, axes = np.linalg.svd(centred)
    ways = np.concatenate([line.get_xydata() for line in right.lines[:3]])
    assert np.abs(ways) == pytest.approx(np.abs(centred @ axes[:2].T), abs=1e-9)
    shares = lengths**2 / (lengths**2).sum()
    assert right.get_xlabel() == f"component 1: {shares[0]:.0%} of the variance"
    assert right.get_ylabel() == f"component 2: {shares[1]:.0%} of the variance"


def test_the_command_reads_a_folder(tokenizer, tmp_path):
    model = encoder(tokenizer)
    model.save_pretrained(tmp_path / "run")
    tokenizer.save_pretrained(tmp_path / "run")
    expected = light(model, tokenizer, "light", SENTENCES)
    call = ["light", str(tmp_path / "run"), "light", *SENTENCES, "--output", str(tmp_path / "light.png")]
    as_json = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert as_json["between"]["1-2"] == pytest.approx(expected.between()[0].tolist(), abs=1e-6)
    assert as_json["stages"] == ["token", "0", "1", "2", "3"]
    assert (tmp_path / "light.png").is_file()
    shown = CliRunner().invoke(app, call[:5]).stdout
    assert shown == light_table(expected)
    assert "1 the [light] of the sun fills a room" in shown
    broken = light(model, tokenizer, " light ", [SENTENCES[0].replace(" of", "\nof"), SENTENCES[1]])
    assert broken.word == "light"
    assert light_table(broken).splitlines()[0] == shown.splitlines()[0]


def test_a_model_without_layers_or_with_lost_weights_is_refused(tokenizer, tmp_path):
    DANForSequenceClassification(DANConfig(vocab_size=len(tokenizer))).save_pretrained(tmp_path / "dan")
    with pytest.raises(ValueError, match="regard-dan, which has no layers to look into"):
        load_layers(tmp_path / "dan")
    from safetensors.torch import load_file, save_file

    encoder(tokenizer).save_pretrained(tmp_path / "run")
    tokenizer.save_pretrained(tmp_path / "run")
    weights = load_file(tmp_path / "run" / "model.safetensors")
    lost = next(name for name in weights if "layers.1" in name)
    del weights[lost]
    save_file(weights, tmp_path / "run" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match="lacks weights of the model's layers, such as layers.1"):
        load_layers(tmp_path / "run")
    torch.save({}, tmp_path / "run" / "pytorch_model.bin")  # which is never read
    (tmp_path / "run" / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot be loaded: .*safetensors"):
        load_layers(tmp_path / "run")


def test_no_code_of_a_repository_is_run(tokenizer, tmp_path):
    code = f"open({str(tmp_path / 'ran')!r}, 'w')"
    foreign, strange = tmp_path / "foreign", tmp_path / "strange"
    for folder in (foreign, strange):
        folder.mkdir()
    (foreign / "alien.py").write_text(code)
    config = {"model_type": "alien", "auto_map": {"AutoConfig": "alien.Config", "AutoModel": "alien.Model"}}
    (foreign / "config.json").write_text(json.dumps(config))
    (strange / "config.json").write_text(json.dumps({"model_type": "alien"}))
    own = tmp_path / "own"
    encoder(tokenizer).save_pretrained(own)
    tokenizer.save_pretrained(own)
    (own / "alien.py").write_text(code)
    settings = json.loads((own / "tokenizer_config.json").read_text())
    settings |= {"tokenizer_class": "Alien", "auto_map": {"AutoTokenizer": ["alien.Alien", None]}}
    (own / "tokenizer_config.json").write_text(json.dumps(settings))
    for folder, sentence in (
        (foreign, "cannot be loaded: it needs code of its own, and no code of a repository is run here"),
        (strange, "cannot be loaded: .*model type `alien`"),
        (own, "no tokenizer that can be loaded: it needs code of its own"),
    ):
        with pytest.raises(ValueError, match=sentence):
            load_layers(folder)
    assert not (tmp_path / "ran").exists()
