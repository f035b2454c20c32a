"""What is saved is what is loaded: weights, buffers, configuration, initial values, a resized vocabulary."""

import copy
import dataclasses
import math

import pytest
import torch
import transformers
from huggingface_hub.errors import StrictDataclassError
from safetensors import safe_open
from torch import nn
from transformers import PreTrainedConfig

import regard.modeling as modeling
from regard.modeling.layers import FeedForward
from regard.modeling.positions import rotary_frequencies, sinusoidal_table

from .families import ANY_KIND, ENTRIES, Entry, every, listening, output_of, select

FULL_FAMILIES = [entry for entry in ENTRIES if entry.auto_class == "AutoModel"]
CONFIGS = [modeling.TransformerEncoderConfig, modeling.TransformerDecoderConfig, modeling.TransformerConfig]


def fill_with_distinct_constants(model: nn.Module) -> None:
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            parameter.fill_(0.01 * (number + 1))


def saved_keys(folder) -> set[str]:
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        return set(file.keys())


def assert_same_state(left: nn.Module, right: nn.Module) -> None:
    left, right = left.state_dict(), right.state_dict()
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


# Weights and buffers


@every(kind=ANY_KIND)
def test_round_trip_is_bit_equal(entry: Entry, tmp_path):
    model = entry.model(perturbed=False)
    fill_with_distinct_constants(model)
    model.save_pretrained(tmp_path)
    same_class, info = entry.model_class.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(info[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    by_auto_class = getattr(transformers, entry.auto_class).from_pretrained(tmp_path)
    assert type(by_auto_class) is entry.model_class
    for loaded in (same_class, by_auto_class):
        assert_same_state(model, loaded)
        assert not loaded.training
    assert not list(tmp_path.glob("*.bin"))


@every(auto_class="AutoModel")
def test_base_weights_load_into_each_head(entry: Entry, tmp_path):
    base = entry.model()
    base.save_pretrained(tmp_path)
    heads = [e for e in ENTRIES if e.config_class is entry.config_class and e.variant == entry.variant and e.has_loss]
    for head in heads:
        model, info = head.model_class.from_pretrained(tmp_path, output_loading_info=True)
        assert_same_state(base, model.model)
        assert not info["unexpected_keys"]
        assert not any(name.startswith("model.") for name in info["missing_keys"]), info["missing_keys"]


@every(has_loss=True, has_base=True, variant=("paper", "llama"))
def test_head_weights_load_into_the_base(entry: Entry, tmp_path):
    model = entry.model()
    model.save_pretrained(tmp_path)
    base = select(config_class=entry.config_class, auto_class="AutoModel")[0]
    assert_same_state(base.model_class.from_pretrained(tmp_path), model.model)


@every(auto_class="AutoModel", variant=("paper", "llama", "shared"))
@pytest.mark.parametrize(
    "arguments", [{}, {"low_cpu_mem_usage": True}, {"device_map": "cpu"}, {"dtype": torch.bfloat16}], ids=str
)
def test_computed_buffers_survive_every_way_of_loading(entry: Entry, arguments, tmp_path):
    model = entry.model()
    model.save_pretrained(tmp_path)
    assert not {name for name, _ in model.named_buffers()} & saved_keys(tmp_path)
    dtype = arguments.get("dtype", torch.float32)
    expected = output_of(model.to(dtype)(**entry.inputs()))
    for _ in range(5):
        garbage = [torch.full((64, 16), float("nan")) for _ in range(8)]  # what an uninitialised buffer might receive
        del garbage
        loaded = entry.model_class.from_pretrained(tmp_path, **arguments)
        buffers = dict(loaded.named_buffers())
        for name, buffer in model.named_buffers():
            assert torch.equal(buffers[name].to(dtype), buffer.to(dtype)), name
        torch.testing.assert_close(output_of(loaded(**entry.inputs())), expected, atol=0, rtol=0)


@every(auto_class="AutoModel", variant=("paper", "llama"))
def test_tables_are_those_of_the_papers_after_loading(entry: Entry, tmp_path):
    entry.model(max_position_embeddings=600).save_pretrained(tmp_path)
    for dtype in (torch.float32, torch.bfloat16):
        loaded = entry.model_class.from_pretrained(tmp_path, dtype=dtype)
        for name, buffer in loaded.named_buffers():
            if name.endswith("rotary.table"):
                wanted = rotary_frequencies(loaded.config.head_dim)
            else:
                wanted = sinusoidal_table(600, loaded.config.hidden_size)
            assert torch.equal(buffer, wanted), name  # float32 in a bfloat16 model too


@every(auto_class="AutoModel", variant=("paper", "llama", "shared"))
def test_half_and_deepcopy_keep_the_function(entry: Entry):
    model, inputs = entry.model(), entry.inputs()
    expected = output_of(model(**inputs))
    assert torch.equal(output_of(copy.deepcopy(model)(**inputs)), expected)
    half = output_of(copy.deepcopy(model).half()(**inputs))
    assert half.dtype == torch.float16
    torch.testing.assert_close(half.float(), expected, atol=2e-2, rtol=2e-2)
    torch.testing.assert_close(output_of(model(**inputs)), expected, atol=0, rtol=0)


# Initial values


def expected_spread(model: nn.Module, name: str, module: nn.Module) -> float:
    """The documented standard deviation of a matrix, from shapes and configuration alone."""
    config = model.config
    number = config.initializer_range
    if isinstance(module, nn.Embedding):
        return module.weight.shape[1] ** -0.5 if number is None else number
    fan_out, fan_in = module.weight.shape
    spread = math.sqrt(2 / (fan_in + fan_out)) if number is None else number
    residual = name.endswith(("out_proj", "down_proj")) and ".layers." in f".{name}"
    if getattr(config, "norm_position", None) == "pre" and residual:
        if config.is_encoder_decoder:
            side = "encoder" if "encoder.layers" in name else "decoder"
            writers = 2 * config.encoder_layers if side == "encoder" else 3 * config.decoder_layers
        else:
            writers = 2 * config.num_hidden_layers
        spread /= math.sqrt(writers)
    return spread


def assert_initial_values(model: nn.Module) -> None:
    tables = dict(model.named_parameters())  # each tied table once, under its first name
    for name, module in model.named_modules():
        if isinstance(module, nn.LayerNorm | nn.RMSNorm):
            assert torch.equal(module.weight, torch.ones_like(module.weight)), name
        if getattr(module, "bias", None) is not None:
            assert torch.equal(module.bias, torch.zeros_like(module.bias)), name
        if isinstance(module, nn.Linear | nn.Embedding) and f"{name}.weight" in tables:
            spread = expected_spread(model, name, module)
            count = module.weight.numel()
            tolerance = 5 / math.sqrt(2 * count)  # five standard errors of a normal sample's deviation
            assert module.weight.std().item() == pytest.approx(spread, rel=tolerance), name
            assert abs(module.weight.mean().item()) < 5 * spread / math.sqrt(count), name


@every()
def test_initial_spread_of_every_leaf(entry: Entry):
    assert_initial_values(entry.model(perturbed=False, hidden_size=32, intermediate_size=48))


@every(variant=("bert", "llama", "bare", "shared"))
def test_deleted_keys_are_initialised_again(entry: Entry, tmp_path):
    from safetensors.torch import load_file, save_file

    model = entry.model(perturbed=False)
    fill_with_distinct_constants(model)
    model.save_pretrained(tmp_path)
    file = tmp_path / "model.safetensors"
    state = load_file(file)
    keep = sorted(state)[0]
    save_file({keep: state[keep]}, file, metadata={"format": "pt"})
    loaded = entry.model_class.from_pretrained(tmp_path)
    loaded.get_parameter(keep).data.copy_(entry.model(perturbed=False).get_parameter(keep))
    assert_initial_values(loaded)


# Configuration


def other_value(name: str, value):
    """A value that the field may take and that is neither its default nor, as far as possible, the base class's."""
    chosen = {
        "hidden_act": "gelu",
        "norm_type": "rmsnorm",
        "norm_position": "pre",
        "position_embedding_type": "learned",
        "cross_attention_key_value": "shared",
        "num_key_value_heads": 4,
        "head_dim": 10,
        "hidden_size": 520,
        "num_attention_heads": 4,
        "classifier_dropout": 0.3,
        "classifier_act": "relu",
        "classifier_pooling": "mean",
        "attention_output_bias": True,
        "initializer_range": 0.02,
        "position_base": 100000.0,
        "eos_token_id": [2, 7],
        "is_encoder_decoder": True,
        "architecture": "cbow",
        "objective": "full-softmax",
    }
    if name in chosen:
        return chosen[name]
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value / 2 + 0.05
    raise AssertionError(f"choose another value for the new field {name}")


def own_fields(config_class) -> list[dataclasses.Field]:
    own = set()
    for base in config_class.__mro__:
        if base is PreTrainedConfig:
            break
        own |= set(vars(base).get("__annotations__", {}))
    own -= {"model_type", "attribute_map"}
    return [field for field in dataclasses.fields(config_class) if field.name in own]


def comparable(config) -> dict:
    return {key: value for key, value in config.to_dict().items() if key != "transformers_version"}


@pytest.mark.parametrize("config_class", [*CONFIGS, modeling.Word2VecConfig, modeling.GloVeConfig])
def test_every_field_survives(config_class, tmp_path):
    base_defaults = PreTrainedConfig()
    changed = config_class()
    for field in own_fields(config_class):
        default = getattr(config_class(), field.name)
        values = [other_value(field.name, default)]
        if hasattr(base_defaults, field.name) and field.name != "is_encoder_decoder":
            values.append(getattr(base_defaults, field.name))
        for value in values:
            config = config_class(**{field.name: value})
            config.save_pretrained(tmp_path)
            again = config_class.from_pretrained(tmp_path)
            assert getattr(again, field.name) == value, field.name
            assert comparable(again) == comparable(config), field.name
        setattr(changed, field.name, values[0])
    changed.save_pretrained(tmp_path)
    assert comparable(config_class.from_pretrained(tmp_path)) == comparable(changed)


@pytest.mark.parametrize("config_class", [*CONFIGS, modeling.Word2VecConfig, modeling.GloVeConfig])
def test_config_without_arguments_and_unknown_arguments(config_class, tmp_path):
    config = config_class()
    assert config.model_type in repr(config)
    assert config.to_diff_dict()
    config = config_class(my_own_note="kept", num_labels=5)
    config.save_pretrained(tmp_path)
    again = transformers.AutoConfig.from_pretrained(tmp_path)
    assert type(again) is config_class
    assert (again.my_own_note, again.num_labels) == ("kept", 5)


@pytest.mark.parametrize("config_class", CONFIGS)
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("hidden_size", 30),
        ("hidden_size", "oops"),
        ("hidden_size", 0),
        ("vocab_size", -3),
        ("num_attention_heads", 0),
        ("num_key_value_heads", 3),
        ("num_key_value_heads", 0),
        ("head_dim", 0),
        ("intermediate_size", 0),
        ("max_position_embeddings", 0),
        ("type_vocab_size", -1),
        ("dropout", 1.5),
        ("dropout", "much"),
        ("attention_dropout", -0.1),
        ("classifier_dropout", 1.0),
        ("label_smoothing", 1.0),
        ("norm_type", "batchnorm"),
        ("norm_position", "middle"),
        ("norm_eps", -1e-5),
        ("norm_eps", 0.0),
        ("position_embedding_type", "absolute"),
        ("position_base", 0),
        ("initializer_range", -0.02),
        ("hidden_act", "rellu"),
        ("pad_token_id", 32000),
        ("bos_token_id", -1),
        ("eos_token_id", 32000),
        ("eos_token_id", [2, 32000]),
    ],
)
def test_a_bad_value_is_named(config_class, field, value):
    with pytest.raises((ValueError, StrictDataclassError), match=field) as error:
        config_class(**{field: value})
    sentence = str(error.value)
    shown = value[-1] if isinstance(value, list) else value
    assert str(shown) in sentence
    assert len(sentence) < 400


def test_bad_numbers_of_layers_and_start_tokens_are_named():
    for config_class in CONFIGS[:2]:
        with pytest.raises(ValueError, match="num_hidden_layers=0"):
            config_class(num_hidden_layers=0)
    for field, value in (("encoder_layers", 0), ("decoder_layers", -1), ("decoder_start_token_id", 32000)):
        with pytest.raises(ValueError, match=f"{field}={value}"):
            modeling.TransformerConfig(**{field: value})
    with pytest.raises(StrictDataclassError, match="cross_attention_key_value"):
        modeling.TransformerConfig(cross_attention_key_value="none")


def test_odd_head_width_is_refused_for_rotary_positions_only():
    settings = {"hidden_size": 20, "num_attention_heads": 4}
    modeling.TransformerDecoderConfig(**settings)
    with pytest.raises(ValueError, match="head_dim=5"):
        modeling.TransformerDecoderConfig(**settings, position_embedding_type="rotary")


def test_class_attributes_that_the_library_reads():
    for entry in FULL_FAMILIES:
        assert set(entry.model_class.auto_classes.values()) == {
            e.model_class.__name__ for e in ENTRIES if e.config_class is entry.config_class
        }
    for entry in ENTRIES:
        model_class = entry.model_class
        for flag in ("sdpa", "flash_attn", "flex_attn", "attention_backend"):
            assert getattr(model_class, f"_supports_{flag}") is True
        assert model_class._can_compile_fullgraph
        assert model_class.supports_gradient_checkpointing is (entry.kind != "table")  # no layers to checkpoint
        assert model_class.config_class is entry.config_class
        assert model_class.config_class.model_type.startswith("regard-")


# Tied and resized embeddings


@every()
def test_tied_weights_are_one_tensor_after_loading(entry: Entry, tmp_path):
    entry.model().save_pretrained(tmp_path)
    model = entry.model_class.from_pretrained(tmp_path)
    table = model.get_input_embeddings().weight
    if entry.kind == "seq2seq":
        decoder_table = model.get_decoder().get_input_embeddings().weight
        assert (decoder_table.data_ptr() == table.data_ptr()) is entry.tied
    if model.get_output_embeddings() is not None:
        assert (model.get_output_embeddings().weight.data_ptr() == table.data_ptr()) is entry.tied


@every(token_loss=True, variant=("paper", "bert", "llama", "shared"))
@pytest.mark.parametrize("tied", [True, False])
def test_resized_vocabulary(entry: Entry, tied, tmp_path):
    model = entry.model(tie_word_embeddings=tied)
    size = model.config.vocab_size
    before = model(**entry.inputs()).logits
    model.resize_token_embeddings(size + 7)
    assert model.config.vocab_size == size + 7
    after = model(**entry.inputs()).logits
    assert after.shape[-1] == size + 7
    torch.testing.assert_close(after[..., :size], before, atol=1e-6, rtol=0)
    if entry.kind == "seq2seq":
        assert model.get_decoder().get_input_embeddings().weight.shape[0] == size + 7

    model.save_pretrained(tmp_path)
    loaded = entry.model_class.from_pretrained(tmp_path)
    assert_same_state(model, loaded)
    torch.testing.assert_close(loaded(**entry.inputs()).logits, after, atol=0, rtol=0)

    batch = entry.labelled()
    batch["input_ids"][:, 0] = size + 6
    batch["labels"][-1, 1:3] = size + 6
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.1)
    first = loaded(**batch).loss
    first.backward()
    optimizer.step()
    assert loaded(**batch).loss < first
    tables = [loaded.get_input_embeddings(), loaded.get_output_embeddings()]
    assert (tables[0].weight.data_ptr() == tables[1].weight.data_ptr()) is tied


@every(token_loss=True, variant="paper")
def test_shrinking_says_so(entry: Entry, caplog):
    model = entry.model()
    with listening(caplog):
        model.resize_token_embeddings(model.config.vocab_size)
        assert "removes" not in caplog.text
        model.resize_token_embeddings(model.config.vocab_size - 3)
    assert "removes the last 3 of 41" in caplog.text


@every(token_loss=True, variant=("paper", "llama"))
def test_resizing_to_a_multiple(entry: Entry):
    model = entry.model()
    model.resize_token_embeddings(42, pad_to_multiple_of=8)
    assert model(**entry.inputs()).logits.shape[-1] == model.config.vocab_size == 48


# Compiled models


@every(kind=ANY_KIND, variant="paper")
def test_compiled_models_save_plain_keys(entry: Entry, tmp_path):
    model = entry.model()
    plain = set(model.state_dict())
    model.save_pretrained(tmp_path / "plain")
    model.compile(backend="eager")  # in place: keys must not change
    assert set(model.state_dict()) == plain
    wrapped = torch.compile(model, backend="eager")
    wrapped.save_pretrained(tmp_path / "compiled")
    assert saved_keys(tmp_path / "compiled") == saved_keys(tmp_path / "plain")
    loaded = entry.model()
    loaded.load_state_dict(entry.model_class.from_pretrained(tmp_path / "compiled").state_dict(), strict=True)
    assert_same_state(loaded, model)


# Arguments by name


@every(kind=ANY_KIND)
def test_labels_are_recognised(entry: Entry):
    from transformers.utils.generic import find_labels

    assert find_labels(entry.model_class) == list(entry.label_names)


@every(auto_class=("AutoModel", "AutoModelForCausalLM", "AutoModelForMaskedLM", "AutoModelForSeq2SeqLM"))
def test_forward_names_what_harnesses_pass(entry: Entry):
    import inspect

    names = inspect.signature(entry.model_class.forward).parameters
    wanted = ["input_ids", "attention_mask", "token_type_ids", "inputs_embeds"]
    if entry.kind == "seq2seq":
        wanted += ["decoder_input_ids", "decoder_attention_mask", "encoder_outputs"]
    if entry.causal:
        wanted += ["cache", "past_key_values", "use_cache"]
    if entry.has_loss:
        wanted += ["labels", "num_items_in_batch"]
    assert not set(wanted) - set(names)
    batch = entry.labelled() if entry.has_loss else entry.inputs()
    mask = torch.ones_like(batch["input_ids"])
    batch["token_type_ids"] = torch.zeros_like(mask)
    outputs = entry.model()(**batch, attention_mask=mask, return_dict=True, output_attentions=False)
    assert output_of(outputs).isfinite().all()


@every(kind=("encoder", "decoder"))
def test_a_tuple_instead_of_an_output_object(entry: Entry):
    model, inputs = entry.model(), entry.inputs()
    plain, result = model(**inputs), model(**inputs, return_dict=False)
    assert isinstance(result, tuple)
    assert torch.equal(result[0], output_of(plain))
    if entry.has_loss:
        loss, logits = model(**entry.labelled(), return_dict=False)[:2]
        assert loss.dim() == 0
        assert logits.dim() > 0


@every()
def test_embeddings_instead_of_ids(entry: Entry):
    model, inputs = entry.model(), entry.inputs()
    expected = output_of(model(**inputs))
    inputs["inputs_embeds"] = model.get_input_embeddings()(inputs.pop("input_ids"))
    if entry.kind == "seq2seq":
        table = model.get_decoder().get_input_embeddings()
        inputs["decoder_inputs_embeds"] = table(inputs.pop("decoder_input_ids"))
    assert torch.equal(output_of(model(**inputs)), expected)


@every(variant="paper")
def test_missing_or_doubled_input_is_named(entry: Entry):
    model, inputs = entry.model(), entry.inputs()
    ids = inputs.pop("input_ids")
    with pytest.raises(ValueError, match="input_ids or inputs_embeds"):
        model(**inputs)
    with pytest.raises(ValueError, match="input_ids or inputs_embeds"):
        model(**inputs, input_ids=ids, inputs_embeds=model.get_input_embeddings()(ids))
    if entry.kind == "seq2seq":
        with pytest.raises(ValueError, match="decoder_input_ids"):
            model(input_ids=ids)


def test_residual_scaling_counts_what_writes_to_the_stream():
    """Guards the test above: each decoder layer of an encoder-decoder writes three times, not two."""
    model = next(iter(select(kind="seq2seq", variant="gpt2"))).model(perturbed=False)
    decoder, encoder = model.get_decoder(), model.get_encoder()
    assert decoder.layers[0].cross_attn.out_proj.residual_scale == pytest.approx(9**-0.5)
    assert encoder.layers[0].feed_forward.down_proj.residual_scale == pytest.approx(4**-0.5)
    assert sum(isinstance(module, FeedForward) for module in model.modules()) == 5


@every()
def test_what_distributed_training_reads(entry: Entry):
    """FSDP wraps the layers that are named, each of which must be there; DDP leaves the computed tables alone."""
    model = entry.model()
    kinds = {type(module).__name__ for module in model.modules()}
    assert model._no_split_modules
    assert set(model._no_split_modules) <= kinds
    assert set(model._ddp_params_and_buffers_to_ignore) == {name for name, _ in model.named_buffers()}
