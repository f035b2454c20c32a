"""`model.start_from`: weights that are there already under any head; what does not fit is refused."""

import dataclasses
import json
import random
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig

import regard.modeling as modeling
from regard.evaluation.yaml_io import read_yaml
from regard.train import run as run_module
from regard.train.building import build_model, load_tokenizer
from regard.train.collators import collator_for
from regard.train.recipe import load_recipe
from regard.train.run import train
from regard.train.start_from import describe_weights, read_start, start_tokenizer, take_weights
from regard.train.tokenization import train_tokenizer

from .hub_server import HubServer

WORDS = list("abcdefghijkl")
SHAPE = {
    "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 16, "dropout": 0.0, "norm_position": "pre",
}  # fmt: skip
LABELS = ["has a", "none"]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts with a label, pairs, and models of each type to begin from, beside the tokenizer of all of them."""
    folder = tmp_path_factory.mktemp("start")
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(1, 7))) for _ in range(32)]
    rows = [json.dumps({"text": line, "label": LABELS["a" not in line]}) for line in lines]
    (folder / "train.jsonl").write_text("\n".join(rows[:24]) + "\n")
    (folder / "valid.jsonl").write_text("\n".join(rows[24:]) + "\n")
    (folder / "train.tsv").write_text("source\ttarget\n" + "".join(f"{line}\t{line.upper()}\n" for line in lines))
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    tokenizer = train_tokenizer([*lines, *(line.upper() for line in lines)], "word", 60, min_frequency=1)
    tokenizer.save_pretrained(folder / "tokenizer")
    layers = {"num_hidden_layers": 2}
    encoder = modeling.TransformerEncoderConfig(vocab_size=len(tokenizer), **SHAPE, **layers)
    decoder = modeling.TransformerDecoderConfig(vocab_size=len(tokenizer), **SHAPE, **layers)
    both = {"encoder_layers": 1, "decoder_layers": 1, "cross_attention_key_value": "shared"}
    seq2seq = modeling.TransformerConfig(vocab_size=len(tokenizer), **SHAPE, **both)
    labelled = modeling.TransformerEncoderConfig(
        **{**encoder.to_dict(), "id2label": {0: LABELS[1], 1: LABELS[0]}, "label2id": {LABELS[1]: 0, LABELS[0]: 1}}
    )
    learned = modeling.TransformerEncoderConfig(
        vocab_size=len(tokenizer), **SHAPE, **layers, position_embedding_type="learned", max_position_embeddings=16
    )
    starts = {
        "masked": modeling.TransformerEncoderForMaskedLM(encoder),
        "body": modeling.TransformerEncoderModel(encoder),
        "classifier": modeling.TransformerEncoderForSequenceClassification(labelled),
        "causal": modeling.TransformerDecoderForCausalLM(decoder),
        "translator": modeling.TransformerForConditionalGeneration(seq2seq),
        "learned": modeling.TransformerEncoderForMaskedLM(learned),
        "dan": modeling.DANForSequenceClassification(
            modeling.DANConfig(vocab_size=len(tokenizer), hidden_size=8, intermediate_size=8, num_labels=2)
        ),
    }
    generator = torch.Generator().manual_seed(5)
    for name, model in starts.items():
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.3)
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


TYPES = {"masked": "encoder", "body": "encoder", "classifier": "encoder", "learned": "encoder", "causal": "decoder"}
TYPES |= {"translator": "transformer", "dan": "dan"}


def recipe_for(files, start, task="sequence-classification", more=()):
    suffix = {"sequence-classification": "jsonl", "translation": "tsv"}.get(task, "txt")
    values = {
        "name": "tiny",
        "task": task,
        "model": {"type": TYPES[start], "start_from": str(files / start)},
        "data": {"train": str(files / f"train.{suffix}"), "max_length": 16, "block_size": 16},
        "training": {
            "num_train_epochs": 2, "learning_rate": 0.01, "logging_steps": 1, "per_device_train_batch_size": 8,
            "save_strategy": "epoch", "report_to": "none",
        },
        "evaluation": {"samples": 0, "max_new_tokens": 4},
    }  # fmt: skip
    if suffix == "jsonl":
        values["data"]["validation"] = str(files / "valid.jsonl")
    path = files / f"{start}-{task}.yaml"
    path.write_text(json.dumps(values))  # JSON is YAML
    return load_recipe(path, more)


def built(files, start, task="sequence-classification", labels=None, more=()):
    """The model of a recipe, what was taken, and the weights of the start."""
    recipe = recipe_for(files, start, task, more)
    found = read_start(recipe)
    model = build_model(recipe, start_tokenizer(recipe, found), labels, found)
    fresh = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    return model, take_weights(model, found), load_file(files / start / "model.safetensors"), fresh


@pytest.mark.parametrize(
    ("start", "task", "head"),
    [
        ("masked", "sequence-classification", "classifier."),
        ("masked", "token-classification", "classifier."),
        ("masked", "question-answering", "qa_outputs."),
        ("body", "masked-lm", "transform."),
        ("causal", "sequence-classification", "score."),
    ],
)
def test_a_backbone_goes_under_another_head(files, start, task, head):
    """Every weight of the body is the start's, bit for bit; the head is that which the seed alone gives."""
    labels = None if task == "masked-lm" else LABELS
    model, record, there, before = built(
        files, start, "masked-lm" if labels is None else "sequence-classification", labels
    )
    others = {"token-classification": "TokenClassification", "question-answering": "QuestionAnswering"}
    if task in others:
        model = getattr(modeling, f"TransformerEncoderFor{others[task]}")(model.config)
        before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        record = take_weights(model, read_start(recipe_for(files, start)))
    base = {key.removeprefix("model."): tensor for key, tensor in there.items()}
    for name, tensor in model.state_dict().items():
        if name.startswith("model."):
            assert torch.equal(tensor, base[name.removeprefix("model.")]), name
        elif name != "lm_head.weight":  # which is tied
            assert torch.equal(tensor, before[name]), name
    assert record["head"] == "fresh"
    assert head.rstrip(".") in record["fresh"]
    assert "the backbone is kept" in describe_weights(record)
    if head == "classifier." and task == "sequence-classification":
        expected = 6**0.5 / (8 + 8) ** 0.5  # Xavier's bound for a square matrix of width 8
        assert 0.5 * expected < model.classifier.dense.weight.abs().max() <= expected


@pytest.mark.parametrize(
    ("start", "task"), [("masked", "masked-lm"), ("causal", "causal-lm"), ("translator", "translation")]
)
def test_the_same_kind_of_model_takes_all(files, start, task):
    model, record, there, _ = built(files, start, task)
    own = model.state_dict()
    assert all(torch.equal(own[name], tensor) for name, tensor in there.items())
    assert (record["head"], record["fresh"], record["left"]) == ("kept" if start == "masked" else None, [], [])


def test_a_head_of_the_same_labels_is_kept_in_any_order(files):
    """The start counts the labels the other way round: what a text is called stays the same."""
    model, record, _, _ = built(files, "classifier", labels=LABELS)
    assert record["head"] == "kept"
    start = AutoModelForSequenceClassification.from_pretrained(files / "classifier").eval()
    ids = torch.randint(5, 17, (4, 6), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        ours, theirs = model.eval()(ids).logits, start(ids).logits
    assert start.config.id2label == {0: LABELS[1], 1: LABELS[0]}
    assert model.config.id2label == {0: LABELS[0], 1: LABELS[1]}
    torch.testing.assert_close(ours, theirs.flip(-1))


def test_weights_of_half_precision_are_trained_whole(files, tmp_path):
    """In float32, whatever the file has: each number is there as it was."""
    folder, more = altered(files, tmp_path)
    halves = {name: tensor.bfloat16() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(halves, folder / "model.safetensors", {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"dtype": "bfloat16"}))
    model, _, _, _ = built(files, "masked", labels=LABELS, more=more)
    assert {parameter.dtype for parameter in model.parameters()} == {model.config.dtype or torch.float32}
    assert model.dtype == torch.float32
    name = "model.embeddings.embed_tokens.weight"
    assert torch.equal(model.state_dict()[name], halves[name].float())


def test_other_labels_get_a_fresh_head(files):
    for labels in (["x", "y"], ["x", "y", "z"]):
        model, record, _, before = built(files, "classifier", labels=labels)
        assert record["other_labels"]
        assert "its labels are others there" in describe_weights(record)
        assert model.classifier.out_proj.weight.shape == (len(labels), 8)
        assert torch.equal(model.classifier.dense.weight, before["classifier.dense.weight"])
    model, record, there, _ = built(files, "dan", labels=["x", "y", "z"])
    assert record["fresh"] == ["classifier"]
    assert torch.equal(model.layers[0].dense.weight, there["layers.0.dense.weight"])


def test_what_has_no_weights_may_change(files):
    more = ["model.dropout=0.3", "model.classifier_dropout=0.4", "model.attention_dropout=0.2", "data.max_length=2000"]
    model, _, _, _ = built(files, "masked", labels=LABELS, more=[*more, "model.hidden_size=8"])
    config = model.config
    assert (config.dropout, config.classifier_dropout, config.attention_dropout) == (0.3, 0.4, 0.2)
    assert config.norm_position == "pre"  # as there, which is not the default
    assert config.max_position_embeddings == 2000  # of a table that is computed
    assert model.model.layers[0].self_attn_sublayer.dropout.p == 0.3


@pytest.mark.parametrize(
    ("start", "more", "sentence"),
    [
        ("masked", ["model.hidden_size=16"], r"model\.hidden_size: 16 differs from .*: set model\.hidden_size=8$"),
        (
            "masked",
            ["model.hidden_size=16", "model.hidden_act=silu"],
            r"16, model\.hidden_act: 'silu' differ from .*: set model\.hidden_size=8 model\.hidden_act=.relu.$",
        ),
        ("masked", ["model.hiden_size=16"], "did you mean 'model.hidden_size'"),
        ("masked", ["model.type=decoder"], "is a model of type 'encoder', and model.type is 'decoder'"),
        ("masked", ["model.embeddings=vectors.txt"], "exclude each other"),
        ("masked", ["model.start_from=nowhere"], "there is no folder 'nowhere'"),
        ("masked", ["model.start_from=none/such"], "no repository of that name can be had"),
        ("learned", ["data.max_length=17"], r"has 16 learned positions.*17 tokens: lower data\.max_length\.$"),
        ("learned", ["data.max_length=128"], r"128 tokens: lower data\.max_length\.$"),  # no key of another task
        ("learned", ["model.max_position_embeddings=32"], r"32 differs from .*=16$"),
    ],
)
def test_what_does_not_fit_is_refused(files, start, more, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_start(recipe_for(files, start, more=more))


def test_a_repository_on_the_hub_is_a_start_too(files, tmp_path, monkeypatch):
    """Its weights, tokenizer and card are fetched, and nothing else of it."""
    with HubServer(tmp_path / "hub") as hub:
        hub.online(monkeypatch)
        api = hub.api(hub.token("ada"))
        api.create_repo("ada/masked")
        api.upload_folder(repo_id="ada/masked", folder_path=files / "masked")
        api.upload_file(repo_id="ada/masked", path_in_repo="onnx/model.safetensors", path_or_fileobj=b"another")
        card = b"---\nlicense: mit\n---\n# A model\n"
        api.upload_file(repo_id="ada/masked", path_in_repo="README.md", path_or_fileobj=card)
        recipe = recipe_for(files, "masked", more=["model.start_from=ada/masked"])
        start = read_start(recipe)
        model = build_model(recipe, start_tokenizer(recipe, start), LABELS, start)
        record = take_weights(model, start)
        with pytest.raises(ValueError, match="'ada/other', and no repository of that name can be had"):
            read_start(recipe_for(files, "masked", more=["model.start_from=ada/other"]))
    assert (record["repository"], record["licence"]) == ("ada/masked", "mit")
    weights = load_file(files / "masked" / "model.safetensors")
    assert torch.equal(model.model.embeddings.embed_tokens.weight, weights["model.embeddings.embed_tokens.weight"])
    assert not list(start.folder.glob("*.py"))
    assert not (start.folder / "onnx").exists()


def altered(files, tmp_path, start="masked"):
    shutil.copytree(files / start, tmp_path / "model")
    return tmp_path / "model", [f"model.start_from={tmp_path / 'model'}"]


def test_folders_that_are_no_start_are_refused(files, tmp_path):
    folder, more = altered(files, tmp_path)
    recipe = recipe_for(files, "masked", more=more)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(ValueError, match="its pickle is not opened"):
        read_start(recipe)
    weights = load_file(folder / "pytorch_model.bin")
    name = next(name for name in weights if name.endswith("down_proj.weight"))
    weights[name][1, 2] = float("nan")
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    start = read_start(recipe)
    with pytest.raises(ValueError, match=rf"^model\.start_from: {name} of '.*' holds values that are no numbers"):
        take_weights(build_model(recipe, start_tokenizer(recipe, start), LABELS, start), start)
    (folder / "model.safetensors").write_bytes(b"x" * 100)
    start = read_start(recipe)
    model = build_model(recipe, start_tokenizer(recipe, start), LABELS, start)
    with pytest.raises(ValueError, match=r"the weights of .* cannot be read"):
        take_weights(model, read_start(recipe))
    BertConfig().save_pretrained(folder)
    with pytest.raises(ValueError, match=r"another package \('bert'\).*`regard convert "):
        read_start(recipe)
    (folder / "config.json").write_text('{"model_type": "regard-word2vec"}')
    with pytest.raises(ValueError, match=r"word vectors: name them in model\.embeddings"):
        read_start(recipe)
    for broken in ("[1]", '{"model_type": "regard-encoder", "hidden_size": "wide"}'):
        (folder / "config.json").write_text(broken)
        with pytest.raises(ValueError, match=r"model\.start_from: config\.json of .* cannot be read"):
            read_start(recipe)
    with pytest.raises(ValueError, match=r"lies in the folder of this run"):
        read_start(recipe_for(files, "masked"), files / "masked")


def test_missing_weights_and_other_tokenizers_are_refused(files, tmp_path):
    folder, more = altered(files, tmp_path)
    recipe = recipe_for(files, "masked", more=more)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 3}))
    start = read_start(recipe)
    tokenizer = start_tokenizer(recipe, start)
    with pytest.raises(ValueError, match=r"lack model\.layers\.2\."):
        take_weights(build_model(recipe, tokenizer, LABELS, start), start)
    tokenizer.add_tokens(["another"])
    other = start_tokenizer(recipe, start)
    other.pad_token = "a"
    own, named = recipe, recipe_for(files, "masked", more=[*more, f"tokenizer.path={folder}"])
    for wrong, said in ((tokenizer, r"tokens, and .* has vectors for \d+"), (other, r"the pad token number \d+, and")):
        with pytest.raises(ValueError, match=rf"^model\.start_from: the tok.*{said}.*: name one that fits in token"):
            build_model(own, wrong, LABELS, start)
        with pytest.raises(ValueError, match=rf"^tokenizer\.path: .*{said}.*: take the one that lies there\.$"):
            build_model(named, wrong, LABELS, start)
    for broken in ("{", "[]", '{"version": "1.0"}', None):
        (folder / "tokenizer.json").unlink() if broken is None else (folder / "tokenizer.json").write_text(broken)
        with pytest.raises(ValueError, match=r"no tokenizer that can be loaded: name one in tokenizer\.path"):
            start_tokenizer(recipe, start)
        with pytest.raises(ValueError, match=r"^tokenizer\.path: '.*' cannot be loaded: ."):
            load_tokenizer(named)


def test_a_tokenizer_of_other_tokens_is_told(files, tmp_path, caplog):
    """The start's own, named by its path, is not; one that numbers its words otherwise is."""
    folder, more = altered(files, tmp_path)
    other = train_tokenizer(["l k j i h g f e d c b a"], "word", 60, min_frequency=1)
    other.save_pretrained(tmp_path / "other")
    recipe = recipe_for(files, "masked", more=more)
    own = start_tokenizer(recipe, read_start(recipe))
    caplog.clear()
    for path, tokenizer in ((folder, own), (tmp_path / "other", other)):
        recipe = recipe_for(files, "masked", more=[*more, f"tokenizer.path={path}"])
        build_model(recipe, tokenizer, LABELS, read_start(recipe))
    numbers = {number: token for token, number in own.get_vocab().items()}
    differ = sum(numbers[number] != token for token, number in other.get_vocab().items())
    assert differ > 5
    [said] = caplog.messages
    assert said.startswith(f"tokenizer.path: {differ} of its {len(other)} tokens have the number of another token of ")


def test_every_length_beyond_the_positions_is_named(files, tmp_path):
    folder, more = altered(files, tmp_path, "translator")
    config = json.loads((folder / "config.json").read_text())
    learned = {"position_embedding_type": "learned", "max_position_embeddings": 16}
    (folder / "config.json").write_text(json.dumps(config | learned))
    for given, keys in (
        (["data.max_source_length=20", "data.max_target_length=16"], "data.max_source_length"),
        (["data.max_source_length=20", "data.max_target_length=17"], "data.max_source_length and data.max_target_len"),
        (["data.max_source_length=9", "data.max_target_length=9", "evaluation.max_new_tokens=30"], "evaluation.max_"),
    ):
        with pytest.raises(ValueError, match=f"tokens: lower {keys}"):
            read_start(recipe_for(files, "translator", "translation", more=[*more, *given]))
    with pytest.raises(ValueError, match=r"tokens: lower data\.block_size\.$"):
        read_start(recipe_for(files, "translator", "denoising", more=[*more, "data.block_size=40"]))


def test_a_run_begins_there_and_says_so(files, tmp_path, capsys, monkeypatch):
    """And resumed, it asks for the first weights no more: their folder is gone."""
    folder, more = altered(files, tmp_path)
    lines = ["---", "license: other", "license_name: mine", "base_model: ada/first", "---", "# A model", ""]
    (folder / "README.md").write_text("\n".join(lines))
    recipe = recipe_for(files, "masked", more=[*more, "tokenizer.kind=char", "evaluation.metrics=[accuracy]"])
    metrics = train(recipe, str(tmp_path / "run"))
    said = capsys.readouterr().err
    assert said.count("begins from the weights of") == 1
    assert "not taken over: transform, lm_head" in said or "not taken over: lm_head, transform" in said
    assert metrics["model"]["start"]["fresh"] == ["classifier"]
    card = (tmp_path / "run/README.md").read_text()
    assert all(line in card for line in lines[1:4])
    assert "which its card states as `mine`" in card
    assert f"| weights begun from | {tmp_path.name}/model, the head (classifier) afresh |".replace("_", r"_") in card
    assert load_recipe(tmp_path / "run").model["start_from"] == str(folder)
    assert read_yaml((tmp_path / "run/recipe.yaml").read_text())["tokenizer"] == {"path": None}  # not "char"
    assert (tmp_path / "run/tokenizer.json").read_text() == (folder / "tokenizer.json").read_text()

    class Stopped(Exception):
        pass

    def stop_after_the_first_checkpoint(self, *args, **kwargs):
        original(self, *args, **kwargs)
        raise Stopped

    original = run_module.RegardTrainer._save_checkpoint
    with monkeypatch.context() as patch:
        patch.setattr(run_module.RegardTrainer, "_save_checkpoint", stop_after_the_first_checkpoint)
        with pytest.raises(Stopped):
            train(recipe, str(tmp_path / "again"))
    shutil.rmtree(folder)
    resumed = train(recipe, str(tmp_path / "again"), resume=True)
    assert resumed["model"]["start"] == metrics["model"]["start"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]
    with pytest.raises(ValueError, match="there is no folder"):
        train(dataclasses.replace(recipe, name="third"), str(tmp_path / "third"))
    assert not (tmp_path / "third").exists()


def test_a_tokenizer_without_a_pad_token(files, tmp_path):
    """As those of GPT-2 and Llama are: the end token stands for it, and is learnt where a text ends."""
    folder, more = altered(files, tmp_path, "causal")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"pad_token_id": None}))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = None
    tokenizer.save_pretrained(folder)
    more += ["training.max_steps=1", "evaluation.metrics=[accuracy]"]
    train(recipe_for(files, "causal", more=more), str(tmp_path / "run"))
    config = json.loads((tmp_path / "run/config.json").read_text())
    saved = AutoTokenizer.from_pretrained(tmp_path / "run")
    assert config["pad_token_id"] == saved.pad_token_id == saved.eos_token_id
    batch = collator_for(recipe_for(files, "causal", "causal-lm"), saved, None)(
        [{"input_ids": [5, 6, saved.eos_token_id]}, {"input_ids": [5, 6, 7, 8, saved.eos_token_id]}]
    )
    assert batch["labels"].tolist() == [[-100, 6, saved.eos_token_id, -100, -100], [-100, 6, 7, 8, saved.eos_token_id]]
    tokenizer.eos_token = None
    tokenizer.save_pretrained(folder)
    recipe = recipe_for(files, "causal", more=more)
    start = read_start(recipe)
    with pytest.raises(ValueError, match="has no pad token, which batches need, nor an end token"):
        start_tokenizer(recipe, start)


def test_what_a_vocabulary_asks_of_generation_comes_along(files, tmp_path):
    """As Marian's models must never write their pad token; how wide the search is, the recipe says."""
    folder, more = altered(files, tmp_path, "translator")
    rules = {"bad_words_ids": [[0]], "forced_eos_token_id": 2, "num_beams": 7}
    (folder / "generation_config.json").write_text(json.dumps(rules))
    generation = built(files, "translator", "translation", more=more)[0].generation_config
    assert (generation.bad_words_ids, generation.forced_eos_token_id, generation.num_beams) == ([[0]], 2, 4)
    (folder / "generation_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"generation_config\.json of .* cannot be read"):
        built(files, "translator", "translation", more=more)


def test_a_translator_learns_other_pairs(files, tmp_path):
    recipe = recipe_for(files, "translator", "translation", ["model.label_smoothing=0.0", "training.max_steps=1"])
    metrics = train(recipe, str(tmp_path / "run"))
    assert metrics["model"]["start"]["head"] is None
    assert json.loads((tmp_path / "run/config.json").read_text())["label_smoothing"] == 0.0
