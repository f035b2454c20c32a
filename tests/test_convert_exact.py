"""A converted checkpoint computes what the library's model computes: random weights, saved, converted, loaded.

Every norm, bias and unused row has noise on it, so that a part that is mapped wrongly shows.
"""

import json
from pathlib import Path

import pytest
import torch
import transformers
from safetensors.torch import load_file

import regard.modeling
from regard.train.convert import convert

from .parity import ids_and_mask, positions_of_real_tokens, randomize

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VOCABULARY = 40
COUNTS_PADS = ("bert", "distilbert", "gpt2")  # they are told where real tokens stand, as ours count by themselves

_BERT = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
_WIDE = {"hidden_size": 24, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
_DISTIL = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 24}
_GPT2 = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32}
_GROUPED = _BERT | {"num_attention_heads": 4, "num_key_value_heads": 2}
_SIDES = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "forced_eos_token_id": None,
    "decoder_start_token_id": 1,
}  # fmt: skip
_BASE = {"rope_type": "default", "rope_theta": 500000.0}
# The library's class and its configuration; positions are 32, and RoBERTa's begin after the pad token.
CASES = {
    "BERT, masked": ("BertForMaskedLM", _BERT),
    "BERT, masked, untied, relu, three types": (
        "BertForMaskedLM",
        _WIDE | {"tie_word_embeddings": False, "hidden_act": "relu", "type_vocab_size": 3, "layer_norm_eps": 1e-5},
    ),
    "BERT, sequence": ("BertForSequenceClassification", _BERT | {"num_labels": 3}),
    "BERT, tokens": ("BertForTokenClassification", _WIDE | {"num_labels": 4}),
    "BERT, question": ("BertForQuestionAnswering", _BERT),
    "BERT": ("BertModel", _WIDE),
    "RoBERTa, masked": ("RobertaForMaskedLM", _BERT | {"pad_token_id": 1, "type_vocab_size": 1}),
    "RoBERTa, masked, untied": ("RobertaForMaskedLM", _WIDE | {"pad_token_id": 0, "tie_word_embeddings": False}),
    "RoBERTa, sequence": ("RobertaForSequenceClassification", _BERT | {"pad_token_id": 1, "num_labels": 3}),
    "RoBERTa, tokens": ("RobertaForTokenClassification", _WIDE | {"pad_token_id": 3, "num_labels": 4}),
    "RoBERTa, question": ("RobertaForQuestionAnswering", _WIDE | {"pad_token_id": 1}),
    "XLM-RoBERTa": ("XLMRobertaModel", _BERT | {"pad_token_id": 1, "type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "DistilBERT, masked": ("DistilBertForMaskedLM", _DISTIL),
    "DistilBERT, masked, untied, relu": (
        "DistilBertForMaskedLM",
        _DISTIL | {"tie_word_embeddings": False, "activation": "relu"},
    ),
    "DistilBERT, sequence": ("DistilBertForSequenceClassification", _DISTIL | {"num_labels": 3}),
    "DistilBERT, tokens": ("DistilBertForTokenClassification", _DISTIL | {"num_labels": 3}),
    "DistilBERT, question, sinusoids": ("DistilBertForQuestionAnswering", _DISTIL | {"sinusoidal_pos_embds": True}),
    "GPT-2": ("GPT2LMHeadModel", _GPT2),
    "GPT-2, untied, relu, narrow": (
        "GPT2LMHeadModel",
        _GPT2 | {"tie_word_embeddings": False, "activation_function": "relu", "n_inner": 20},
    ),
    "GPT-2, sequence": ("GPT2ForSequenceClassification", _GPT2 | {"num_labels": 3}),
    "Llama": ("LlamaForCausalLM", _BERT),
    "Llama, tied, grouped, base 500000": (
        "LlamaForCausalLM",
        _GROUPED | {"tie_word_embeddings": True, "rope_parameters": _BASE},
    ),
    "Llama, biases, wide heads": (
        "LlamaForCausalLM",
        _GROUPED | {"attention_bias": True, "mlp_bias": True, "head_dim": 6, "rms_norm_eps": 1e-5},
    ),
    "Llama, sequence": ("LlamaForSequenceClassification", _BERT | {"num_labels": 3}),
    "Mistral": ("MistralForCausalLM", _GROUPED | {"sliding_window": None}),
    "Mistral, wide heads": ("MistralModel", _GROUPED | {"sliding_window": None, "head_dim": 6}),
    "Qwen2": ("Qwen2ForCausalLM", _GROUPED | {"tie_word_embeddings": True}),
    "Qwen2, a window for no layer": (
        "Qwen2ForCausalLM",
        _GROUPED | {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 2},
    ),
    "Qwen2, untied, one key head": ("Qwen2ForCausalLM", _BERT | {"num_key_value_heads": 1}),
    "BART": ("BartForConditionalGeneration", _SIDES),
    "BART, untied, scaled, relu": (
        "BartForConditionalGeneration",
        _SIDES | {"tie_word_embeddings": False, "scale_embedding": True, "activation_function": "relu"},
    ),
    "BART, no head": ("BartModel", _SIDES),
    "Marian": ("MarianMTModel", _SIDES | {"scale_embedding": True, "activation_function": "swish"}),
    "Marian, a table for the source, relu": (
        "MarianMTModel",
        _SIDES | {"share_encoder_decoder_embeddings": False, "activation_function": "relu"},
    ),
    "Marian, untied": ("MarianMTModel", _SIDES | {"tie_word_embeddings": False}),
}
GENERATING = [
    name for name, (cls, _) in CASES.items() if cls.endswith(("LMHeadModel", "CausalLM", "Generation", "MTModel"))
]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Makes ours and the library's model of a case, once."""
    made = {}

    def make(case: str):
        if case not in made:
            made[case] = make_pair(case, tmp_path_factory.mktemp("checkpoints"))
        return made[case]

    return make


def make_pair(case: str, home: Path):
    class_name, settings = CASES[case]
    peer_class = getattr(transformers, class_name)
    sizes = {"vocab_size": VOCABULARY, **TOKENS}
    if "n_positions" not in settings:
        sizes["max_position_embeddings"] = 32
    config = peer_class.config_class(**sizes | settings)
    torch.manual_seed(0)
    peer = randomize(peer_class(config))
    if hasattr(peer, "final_logits_bias"):
        peer.final_logits_bias.normal_(generator=torch.Generator().manual_seed(1))
    peer.save_pretrained(home / "source")
    result = convert(home / "source", home / "out")
    assert result.used + len(result.left_out) == len(load_file(home / "source" / "model.safetensors"))
    assert result.fresh == []
    assert result.difference < 1e-5
    ours = getattr(regard.modeling, result.model).from_pretrained(home / "out").eval()
    return ours, peer


def batch(ours, peer, side: str) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Tokens and their padding, and what the library's model is to be told beside them."""
    ids, mask = ids_and_mask(VOCABULARY, (3, 9), (0, 2, 5), side, ours.config.pad_token_id)
    given = {"input_ids": ids, "attention_mask": mask}
    if getattr(ours.config, "type_vocab_size", 0) > 1:
        given["token_type_ids"] = (torch.arange(9) > 4).long().expand(3, -1)
    if ours.config.is_encoder_decoder:
        given["decoder_input_ids"] = ids_and_mask(VOCABULARY, (3, 7), (0, 0, 0), "right")[0]
    more = {"position_ids": positions_of_real_tokens(mask)} if peer.config.model_type in COUNTS_PADS else {}
    return given, given | more


# The library's classifiers read the first column, or look for the pad's id, and its encoder-decoders count pads as
# positions: on the left they compute something else than without padding.
def sides(case: str) -> list[str]:
    is_right_alone = case.endswith("sequence") or case.startswith(("BART", "Marian"))
    return ["right"] if is_right_alone else ["right", "left"]


@pytest.mark.parametrize(("case", "side"), [(case, side) for case in CASES for side in sides(case)])
@torch.no_grad()
def test_outputs_are_the_librarys(pair, case, side):
    ours, peer = pair(case)
    given, told = batch(ours, peer, side)
    output, expected = ours(**given), peer(**told)
    real = given["attention_mask"].bool() if not ours.config.is_encoder_decoder else slice(None)
    for name in ("logits", "start_logits", "end_logits", "last_hidden_state"):
        if expected.get(name) is None:
            continue
        of_texts = name == "logits" and expected[name].dim() == 2
        where = slice(None) if of_texts else real
        torch.testing.assert_close(output[name][where], expected[name][where], **CLOSE)


@pytest.mark.parametrize(("use_cache", "num_beams"), [(True, 1), (False, 1), (True, 3)])
@pytest.mark.parametrize("case", GENERATING)
def test_generated_tokens_are_the_librarys(pair, case, use_cache, num_beams):
    ours, peer = pair(case)
    side = "right" if ours.config.is_encoder_decoder else "left"
    ids, mask = ids_and_mask(VOCABULARY, (3, 6), (0, 1, 3), side)
    settings = {"max_new_tokens": 8, "num_beams": num_beams, "do_sample": False, "use_cache": use_cache}
    generated, expected = (each.generate(ids, attention_mask=mask, **settings) for each in (ours, peer))
    assert torch.equal(generated, expected)


def test_losses_are_the_librarys(pair):
    for case in ("BERT, masked", "RoBERTa, tokens", "DistilBERT, sequence", "Qwen2", "BART", "Marian"):
        ours, peer = pair(case)
        given, told = batch(ours, peer, "right")
        for inputs in (given, told):
            inputs.pop("decoder_input_ids", None)  # made from the labels
        labels = (given["input_ids"] % 3).masked_fill(given["attention_mask"] == 0, -100)
        labels = torch.tensor([0, 2, 1]) if case.endswith("sequence") else labels
        with torch.no_grad():
            output, expected = ours(**given, labels=labels), peer(**told, labels=labels)
        torch.testing.assert_close(output.loss, expected.loss, **CLOSE)


def test_marians_hidden_states_are_the_librarys_in_another_order(tmp_path):
    """Sines before cosines there, in turn here (Vaswani et al., 2017, section 3.5)."""
    torch.manual_seed(0)
    config = transformers.MarianConfig(vocab_size=VOCABULARY, max_position_embeddings=32, **TOKENS | _SIDES)
    peer = randomize(transformers.MarianModel(config))
    peer.save_pretrained(tmp_path / "source")
    assert convert(tmp_path / "source", tmp_path / "out").difference < 1e-5
    ours = regard.modeling.TransformerModel.from_pretrained(tmp_path / "out").eval()
    given, told = batch(ours, peer, "right")
    with torch.no_grad():
        output, expected = ours(**given).last_hidden_state, peer(**told).last_hidden_state
    torch.testing.assert_close(output[..., 0::2], expected[..., :8], **CLOSE)
    torch.testing.assert_close(output[..., 1::2], expected[..., 8:], **CLOSE)


def test_labels_and_tables_come_along(pair, tmp_path):
    ours, _ = pair("BERT, sequence")
    assert ours.config.num_labels == 3
    names = {0: "no", 1: "maybe", 2: "yes"}
    config = transformers.BertConfig(**_BERT, vocab_size=VOCABULARY, id2label=names, problem_type="regression")
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "source")
    convert(tmp_path / "source", tmp_path / "out")
    saved = json.loads((tmp_path / "out" / "config.json").read_text())
    assert saved["id2label"] == {str(key): name for key, name in names.items()}
    assert saved["problem_type"] == "regression"

    apart = ("BERT, masked, untied, relu, three types", "Marian, a table for the source, relu", "Marian, untied")
    for case in (*apart, "BART", "Marian", "Qwen2"):
        assert pair(case)[0].config.tie_word_embeddings == (case not in apart)
