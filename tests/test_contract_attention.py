"""What a position may see: masks, padding, packed documents, kernels, and positions themselves."""

import pytest
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from regard.modeling.attention import dot_product_attention
from regard.modeling.positions import sinusoidal_table

from .families import ENTRIES, PAD, Entry, every, listening, output_of

KERNELS = ["eager", "sdpa"]


def hidden(model, **inputs) -> torch.Tensor:
    """The last hidden states of a base model, or the logits of a head."""
    return output_of(model(**inputs))


def pad_rows(rows: list[torch.Tensor], side: str, length: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of ids of unequal length as one batch and its mask."""
    length = length or max(len(row) for row in rows)
    ids = torch.full((len(rows), length), PAD)
    mask = torch.zeros_like(ids)
    for number, row in enumerate(rows):
        where = slice(0, len(row)) if side == "right" else slice(length - len(row), length)
        ids[number, where], mask[number, where] = row, 1
    return ids, mask


def rows_of(entry: Entry, lengths=(7, 3, 5)) -> list[torch.Tensor]:
    return [entry.inputs(batch=1, length=length, seed=number)["input_ids"][0] for number, length in enumerate(lengths)]


# What a position sees


@every(auto_class="AutoModel")
@pytest.mark.parametrize("kernel", KERNELS)
def test_who_sees_whom(entry: Entry, kernel):
    """Change one token and see which outputs change: the definition of causal, bidirectional and cross-attention."""
    model, inputs = entry.model(attn_implementation=kernel), entry.inputs(batch=1, length=7)
    before = hidden(model, **inputs)
    name = "decoder_input_ids" if entry.kind == "seq2seq" else "input_ids"
    changed = {**inputs, name: inputs[name].clone()}
    changed[name][0, 4] = 5 if changed[name][0, 4] != 5 else 6
    moved = (hidden(model, **changed) - before).abs().amax(-1)[0] > 1e-6
    assert bool(moved[4:].all())
    assert bool(moved[:4].any()) is (not entry.causal)
    if entry.kind != "seq2seq":
        assert bool(moved[:4].all()) is (not entry.causal)
        return
    for position in range(7):  # each source token reaches every target position, the first included
        changed = {**inputs, "input_ids": inputs["input_ids"].clone()}
        changed["input_ids"][0, position] = 5 if changed["input_ids"][0, position] != 5 else 6
        assert bool(((hidden(model, **changed) - before).abs().amax(-1) > 1e-7).all())


@every(auto_class="AutoModel")
def test_kernels_agree(entry: Entry):
    ids, mask = pad_rows(rows_of(entry), "right")
    inputs = {**entry.inputs(), "input_ids": ids, "attention_mask": mask}
    outputs = {kernel: hidden(entry.model(attn_implementation=kernel), **inputs) for kernel in KERNELS}
    where = mask.bool() if entry.kind != "seq2seq" else torch.ones(outputs["sdpa"].shape[:2], dtype=torch.bool)
    torch.testing.assert_close(outputs["eager"][where], outputs["sdpa"][where], atol=1e-5, rtol=1e-5)


@every(auto_class="AutoModel", variant=("paper", "shared", "llama"))
def test_the_chosen_kernel_is_called(entry: Entry, monkeypatch):
    calls = {"sdpa": 0, "flex_attention": 0}

    def counting(name, function):
        def call(module, *args, **kwargs):
            calls[name] += 1
            calls.setdefault("causal", []).append(module.is_causal)
            return function(module, *args, **kwargs)

        return call

    for name in calls:
        monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS, name, counting(name, ALL_ATTENTION_FUNCTIONS[name]))
    per_forward = {"encoder": 2, "decoder": 2, "seq2seq": 2 + 3 + 3}[entry.kind]

    model = entry.model()
    assert model.config._attn_implementation == "sdpa"
    expected = hidden(model, **entry.inputs())
    assert calls["sdpa"] == per_forward
    assert sum(calls["causal"]) == {"encoder": 0, "decoder": 2, "seq2seq": 3}[entry.kind]

    eager = entry.model(attn_implementation="eager")
    torch.testing.assert_close(hidden(eager, **entry.inputs()), expected, atol=1e-5, rtol=1e-5)
    assert calls["sdpa"] == per_forward
    eager.set_attn_implementation("sdpa")
    hidden(eager, **entry.inputs())
    assert calls["sdpa"] == 2 * per_forward
    assert calls["flex_attention"] == 0


@pytest.mark.filterwarnings("ignore")
@every(auto_class="AutoModel", variant=("paper", "shared"))
@torch.no_grad()  # on a CPU, flex has no backward pass
def test_flex_attention(entry: Entry, monkeypatch):
    """The flex kernel's masks are right: its reference implementation, without the compiler, equals sdpa."""
    from torch.nn.attention.flex_attention import flex_attention
    from transformers.integrations import flex_attention as integration

    monkeypatch.setattr(
        integration, "compile_friendly_flex_attention", lambda *a, training=False, **k: flex_attention(*a, **k)
    )
    ids, mask = pad_rows(rows_of(entry, (16, 9, 12)), "right")
    inputs = {**entry.inputs(length=16), "input_ids": ids, "attention_mask": mask}
    settings = {"hidden_size": 64}  # a head of 16: flex takes no narrower one
    expected = hidden(entry.model(**settings), **inputs)
    with torch.compiler.set_stance("force_eager"):
        result = hidden(entry.model(**settings, attn_implementation="flex_attention"), **inputs)
    where = mask.bool() if entry.kind != "seq2seq" else torch.ones(result.shape[:2], dtype=torch.bool)
    torch.testing.assert_close(result[where], expected[where], atol=1e-5, rtol=1e-5)


# What a model returns beside its output


@every(attends=True, variant=("paper", "llama", "shared"))
def test_attention_maps_and_hidden_states(entry: Entry):
    inputs = entry.inputs(batch=2, length=7)
    model = entry.model(attn_implementation="eager")
    outputs = model(**inputs, output_attentions=True, output_hidden_states=True)
    config = model.config
    if entry.kind != "seq2seq":
        assert len(outputs.attentions) == config.num_hidden_layers
        assert len(outputs.hidden_states) == config.num_hidden_layers + 1
        maps = {"attentions": (outputs.attentions, 7, 7)}
        if "last_hidden_state" in outputs:
            assert torch.equal(outputs.hidden_states[-1], outputs.last_hidden_state)
    else:
        assert len(outputs.encoder_hidden_states) == config.encoder_layers + 1
        assert len(outputs.decoder_hidden_states) == config.decoder_layers + 1
        maps = {
            "encoder_attentions": (outputs.encoder_attentions, 7, 7),
            "decoder_attentions": (outputs.decoder_attentions, 6, 6),
            "cross_attentions": (outputs.cross_attentions, 6, 7),
        }
        assert len(outputs.encoder_attentions) == config.encoder_layers
        assert len(outputs.decoder_attentions) == len(outputs.cross_attentions) == config.decoder_layers
    for name, (layers, targets, sources) in maps.items():
        for weights in layers:
            assert weights.shape == (2, config.num_attention_heads, targets, sources), name
            torch.testing.assert_close(weights.sum(-1), torch.ones(2, config.num_attention_heads, targets))
    for weights in outputs.get("decoder_attentions") or (outputs.get("attentions") if entry.causal else ()):
        assert bool((weights.triu(1) == 0).all())
    torch.testing.assert_close(output_of(outputs), output_of(model(**inputs)), atol=0, rtol=0)


@every(auto_class="AutoModel", variant="paper")
def test_attention_maps_under_sdpa_are_refused_or_warned_of(entry: Entry, caplog):
    with listening(caplog):
        outputs = entry.model()(**entry.inputs(), output_attentions=True)
    maps = outputs.get("attentions") or outputs.get("cross_attentions")
    assert not maps or maps[0] is None
    assert "eager" in caplog.text


# Masks in every precision


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kind", ["boolean", "minimum", "minus infinity"])
def test_masked_keys_weigh_exactly_zero(dtype, kind):
    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 4, 5, 8).to(dtype) for _ in range(3))
    see = torch.ones(2, 1, 5, 5, dtype=torch.bool).tril()
    see[1, :, :, 3:] = False
    bias = torch.full(see.shape, -50.0, dtype=dtype)  # as a relative-position bias might be
    if kind == "boolean":
        mask = see
    else:
        least = torch.finfo(dtype).min if kind == "minimum" else float("-inf")
        mask = bias.masked_fill(~see, least)
    output, weights = dot_product_attention(query, key, value, mask)
    assert output.dtype == dtype
    assert output.isfinite().all()
    assert bool((weights[~see.expand_as(weights)] == 0).all())
    torch.testing.assert_close(weights.float().sum(-1), torch.ones(2, 4, 5), atol=1e-2, rtol=0)


@every(auto_class="AutoModel", variant=("paper", "llama", "shared"))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batches_are_finite_and_unseen_keys_weigh_zero(entry: Entry, dtype, kernel, side):
    model = entry.model(attn_implementation=kernel).to(dtype)
    ids, mask = pad_rows([*rows_of(entry), torch.empty(0, dtype=torch.long)], side)  # the last row is all padding
    inputs = {**entry.inputs(batch=4), "input_ids": ids, "attention_mask": mask}
    if entry.kind == "seq2seq":
        inputs["decoder_attention_mask"] = pad_rows([*rows_of(entry, (6, 2, 4)), torch.empty(0)], side)[1]
    outputs = model(**inputs, output_attentions=kernel == "eager")
    result = outputs.last_hidden_state
    assert result.dtype == dtype
    assert result.isfinite().all()
    for name in ("attentions", "encoder_attentions", "cross_attentions"):
        for weights in (outputs.get(name) or ()) if kernel == "eager" else ():
            seen = mask[:, None, None, :].bool().expand_as(weights)[:3]
            real_queries = weights[:3]
            if entry.kind == "decoder" and side == "left":  # a query on padding sees nothing: its row means nothing
                real_queries = torch.where(mask[:3, None, :, None].bool(), real_queries, 0)
            assert bool((real_queries[~seen] == 0).all()), name
    result.float().pow(2).mean().backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    assert all(gradient.isfinite().all() for gradient in gradients)


@every(variant=("paper", "llama"))
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float16, 2e-2), (torch.bfloat16, 8e-2)], ids=str)
def test_half_precision_is_close(entry: Entry, dtype, tolerance):
    model, inputs = entry.model(), entry.inputs()
    expected = output_of(model(**inputs))
    result = output_of(model.to(dtype)(**inputs)).float()
    assert (result - expected).abs().mean() < tolerance
    assert (result - expected).abs().max() < 10 * tolerance


# Padding changes nothing


@every(auto_class="AutoModel")
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_batch_equals_single_rows(entry: Entry, kernel, side):
    model = entry.model(attn_implementation=kernel)
    rows = rows_of(entry)
    for length in (7, 11):  # a batch padded further than it needs, too
        ids, mask = pad_rows(rows, side, length)
        inputs = {"input_ids": ids, "attention_mask": mask}
        if entry.kind == "seq2seq":
            inputs["decoder_input_ids"] = entry.inputs()["decoder_input_ids"]
        batch = model(**inputs)
        for number, row in enumerate(rows):
            single = {"input_ids": row[None]}
            if entry.kind == "seq2seq":
                single["decoder_input_ids"] = inputs["decoder_input_ids"][number : number + 1]
            alone = model(**single)
            result = batch.last_hidden_state[number]
            if entry.kind == "seq2seq":
                encoded = batch.encoder_last_hidden_state[number][mask[number].bool()]
                torch.testing.assert_close(encoded, alone.encoder_last_hidden_state[0], atol=1e-5, rtol=1e-5)
            else:
                result = result[mask[number].bool()]
            torch.testing.assert_close(result, alone.last_hidden_state[0], atol=1e-5, rtol=1e-5)


@every(kind="seq2seq", auto_class="AutoModel")
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_targets_equal_single_ones(entry: Entry, side):
    model, rows = entry.model(), rows_of(entry)
    source = entry.inputs()["input_ids"]
    ids, mask = pad_rows(rows, side)
    batch = model(input_ids=source, decoder_input_ids=ids, decoder_attention_mask=mask).last_hidden_state
    for number, row in enumerate(rows):
        alone = model(input_ids=source[number : number + 1], decoder_input_ids=row[None]).last_hidden_state[0]
        torch.testing.assert_close(batch[number][mask[number].bool()], alone, atol=1e-5, rtol=1e-5)


@every(auto_class="AutoModelForSequenceClassification")
def test_classifier_reads_the_last_or_first_real_token(entry: Entry):
    """With pad and end of text the same id, the ids cannot tell which token is the last real one; the mask can."""
    model = entry.model(pad_token_id=2, eos_token_id=2)
    ids = torch.tensor([[5, 9, 2, 7, 2, 2]])
    mask = torch.tensor([[1, 1, 1, 1, 0, 0]])
    expected = model(ids[:, :4]).logits
    padded_left = torch.tensor([[2, 2, 5, 9, 2, 7]])
    longer = torch.cat([ids, torch.full((1, 14), 2)], dim=1)
    for other, seen in (
        (ids, mask),
        (padded_left, mask.flip(1)),
        (longer, torch.tensor([[1] * 4 + [0] * 16])),
        (padded_left, mask.flip(1).bool()),
        (ids, mask.float()),
    ):
        torch.testing.assert_close(model(other, attention_mask=seen).logits, expected, atol=1e-5, rtol=1e-5)
    rows = rows_of(entry)
    batch, mask = pad_rows(rows, "right")
    result = model(batch, attention_mask=mask).logits
    for number, row in enumerate(rows):
        torch.testing.assert_close(result[number], model(row[None]).logits[0], atol=1e-5, rtol=1e-5)


# Packed documents


def packed(entry: Entry, lengths=(4, 6, 3)):
    documents = rows_of(entry, lengths)
    ids = torch.cat(documents)[None]
    position_ids = torch.cat([torch.arange(length) for length in lengths])[None]
    return documents, ids, position_ids


@every(kind="decoder", auto_class=("AutoModel", "AutoModelForCausalLM"))
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mask", ["none", "ones"])
@pytest.mark.parametrize("use_cache", [False, True])
def test_packed_documents_do_not_see_one_another(entry: Entry, kernel, mask, use_cache):
    model = entry.model(attn_implementation=kernel)
    documents, ids, position_ids = packed(entry)
    arguments = {"position_ids": position_ids, "use_cache": use_cache}
    if mask == "ones":
        arguments["attention_mask"] = torch.ones_like(ids)
    result = hidden(model, input_ids=ids, **arguments)[0]
    alone = torch.cat([hidden(model, input_ids=document[None])[0] for document in documents])
    torch.testing.assert_close(result, alone, atol=1e-5, rtol=1e-5)


@every(kind="decoder", auto_class="AutoModelForCausalLM")
@pytest.mark.parametrize("kernel", KERNELS)
def test_packed_training_equals_training_alone(entry: Entry, kernel):
    """As the collator feeds it: an all-ones mask, -100 on each document's first label, training mode."""
    model = entry.model(attn_implementation=kernel, dropout=0.0).train()
    documents, ids, position_ids = packed(entry)
    labels = ids.masked_fill(position_ids == 0, -100)
    count = int((labels[:, 1:] != -100).sum())
    assert count == sum(len(document) - 1 for document in documents)
    loss = model(ids, attention_mask=torch.ones_like(ids), position_ids=position_ids, labels=labels).loss
    alone = sum(model(d[None], labels=d[None], num_items_in_batch=count).loss for d in documents)
    torch.testing.assert_close(loss, alone, atol=1e-5, rtol=1e-5)
    parameters = list(model.parameters())
    for one, other in zip(torch.autograd.grad(loss, parameters), torch.autograd.grad(alone, parameters), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


@every(kind="decoder", auto_class="AutoModelForCausalLM", variant=("paper", "llama"))
def test_packed_row_with_padding_and_rows_of_other_layouts(entry: Entry):
    model = entry.model()
    documents, ids, position_ids = packed(entry)
    other = rows_of(entry, (13, 13, 13))[2][None]
    both = torch.cat([ids, other])
    positions = torch.cat([position_ids, torch.arange(13)[None]])
    result = model(both, position_ids=positions).logits
    torch.testing.assert_close(result[1], model(other).logits[0], atol=1e-5, rtol=1e-5)
    alone = torch.cat([model(document[None]).logits[0] for document in documents])
    torch.testing.assert_close(result[0], alone, atol=1e-5, rtol=1e-5)

    padded = torch.cat([ids, torch.full((1, 3), PAD)], dim=1)
    mask = torch.cat([torch.ones_like(ids), torch.zeros(1, 3, dtype=torch.long)], dim=1)
    positions = torch.cat([position_ids, torch.zeros(1, 3, dtype=torch.long)], dim=1)
    result = model(padded, attention_mask=mask, position_ids=positions).logits
    torch.testing.assert_close(result[0, :13], alone, atol=1e-5, rtol=1e-5)


# Positions


def test_sinusoids_of_any_width():
    expected = torch.tensor([[0, 1, 0, 1, 0], [0.841471, 0.540302, 0.025116, 0.999685, 0.000631]])
    torch.testing.assert_close(sinusoidal_table(2, 5), expected, atol=1e-6, rtol=0)
    for width in (2, 6, 16):
        pairs = sinusoidal_table(50, width).unflatten(-1, (-1, 2))
        torch.testing.assert_close(pairs.pow(2).sum(-1), torch.ones(50, width // 2))


@every(auto_class="AutoModel")
def test_input_longer_than_the_table(entry: Entry):
    model, longer = entry.model(max_position_embeddings=16), entry.model(max_position_embeddings=64)
    inputs = entry.inputs(length=16, target_length=16)
    first = hidden(model, **inputs)
    too_long = entry.inputs(length=17, target_length=17)
    if entry.positions == "learned":
        with pytest.raises(ValueError, match=r"17 positions.*max_position_embeddings=16"):
            model(**too_long)
    else:
        expected = hidden(longer, **too_long)
        torch.testing.assert_close(hidden(model, **too_long), expected, atol=0, rtol=0)
        assert torch.equal(hidden(model, **inputs), first)


@every(auto_class="AutoModel", variant="paper")
def test_a_table_grown_in_inference_serves_training_and_saving(entry: Entry, tmp_path):
    model = entry.model(max_position_embeddings=8)
    inputs = entry.inputs(length=12, target_length=12)
    with torch.inference_mode():
        model(**inputs)
    model.train()(**inputs).last_hidden_state.sum().backward()
    model.save_pretrained(tmp_path)
    loaded = entry.model_class.from_pretrained(tmp_path)
    torch.testing.assert_close(hidden(loaded, **inputs), hidden(model.eval(), **inputs), atol=0, rtol=0)


@every(auto_class="AutoModel", variant=("paper", "bert", "llama"))
def test_default_positions_count_from_zero(entry: Entry):
    model, inputs = entry.model(), entry.inputs()
    name = "decoder_input_ids" if entry.kind == "seq2seq" else "input_ids"
    positions = torch.arange(inputs[name].shape[1])[None]
    given = {"decoder_position_ids" if entry.kind == "seq2seq" else "position_ids": positions}
    assert torch.equal(hidden(model, **inputs, **given), hidden(model, **inputs))


@every(kind="encoder", auto_class="AutoModel")
def test_order_matters_where_there_are_positions(entry: Entry):
    """Without positions an encoder is blind to order; with any kind of them it is not."""
    model, inputs = entry.model(), entry.inputs(batch=1)
    turned = {name: value.flip(1) for name, value in inputs.items()}
    same = torch.allclose(hidden(model, **turned).flip(1), hidden(model, **inputs), atol=1e-5)
    assert same is (entry.positions == "none")


# The cache argument


@every(causal=True, auto_class=("AutoModel", "AutoModelForCausalLM", "AutoModelForSeq2SeqLM"))
def test_both_names_of_the_cache(entry: Entry):
    model, inputs = entry.model(), entry.inputs(length=7, target_length=7)
    name = "decoder_input_ids" if entry.kind == "seq2seq" else "input_ids"
    expected = hidden(model, **inputs)
    for argument in ("cache", "past_key_values"):
        own = [name] if entry.kind == "seq2seq" else list(inputs)
        start = model(**{**inputs, **{key: inputs[key][:, :4] for key in own}}, use_cache=True)
        cache = start.past_key_values
        assert cache.get_seq_length() == 4
        rest = {key: inputs[key][:, 4:] for key in own}
        if entry.kind == "seq2seq":
            rest["encoder_outputs"] = (start.encoder_last_hidden_state,)
        outputs = model(**rest, **{argument: cache})
        assert outputs.past_key_values.get_seq_length() == 7
        torch.testing.assert_close(output_of(outputs), expected[:, 4:], atol=1e-5, rtol=1e-5)
    with pytest.raises(ValueError, match="two names"):
        model(**inputs, cache=DynamicCache(), past_key_values=DynamicCache())


def test_every_variant_is_registered_for_every_class():
    """Guards the registry itself: a class of the package without an entry would be tested by nothing."""
    import regard.modeling as modeling

    public = [getattr(modeling, name) for name in modeling.__all__]
    classes = {each for each in public if isinstance(each, type) and issubclass(each, PreTrainedModel)}
    numbers = {modeling.TransformerDecoderForInContextRegression}  # has no tokens: test_in_context_regression.py
    assert classes - numbers == {entry.model_class for entry in ENTRIES}


@every(kind="decoder", auto_class=("AutoModel", "AutoModelForCausalLM"))
def test_a_masked_token_inside_a_row_parts_nothing(entry: Entry):
    """`generate` counts positions over real tokens: those of a row with a hole are those of the row without it."""
    model, ids = entry.model(), entry.inputs(batch=1, length=6)["input_ids"]
    mask = torch.tensor([[1, 1, 0, 1, 1, 1]])
    position_ids = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 0)  # as the library prepares them
    holed = hidden(model, input_ids=ids, attention_mask=mask, position_ids=position_ids)
    whole = hidden(model, input_ids=ids[mask.bool()][None])
    torch.testing.assert_close(holed[mask.bool()], whole[0], atol=1e-5, rtol=1e-5)


@every(kind="decoder", auto_class="AutoModelForCausalLM", variant=("paper", "llama"))
def test_packed_documents_in_a_compiled_model(entry: Entry):
    """With the default arguments, under which the model makes itself a cache."""
    model = entry.model()
    documents, ids, position_ids = packed(entry)
    result = torch.compile(model, backend="eager")(ids, position_ids=position_ids).logits[0]
    alone = torch.cat([model(document[None]).logits[0] for document in documents])
    torch.testing.assert_close(result, alone, atol=1e-5, rtol=1e-5)


def as_flash(model, monkeypatch) -> list[bool]:
    """Have the model take this recording stand-in for flash attention, which needs a GPU; True for cross-attention."""
    calls = []

    def kernel(module, query, key, value, mask, **kwargs):
        calls.append(module.is_cross_attention)
        return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, None, **kwargs)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._local_mapping, "flash_attention_2", kernel)
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = "flash_attention_2"
    return calls


@every(kind="decoder", auto_class="AutoModelForCausalLM", variant="paper")
def test_packed_documents_are_refused_under_flash_attention(entry: Entry, monkeypatch):
    model = entry.model()
    as_flash(model, monkeypatch)
    _, ids, position_ids = packed(entry)
    with pytest.raises(ValueError, match='flash attention.*attn_implementation="sdpa"'):
        model(ids, position_ids=position_ids)


@every(kind="seq2seq", auto_class="AutoModelForSeq2SeqLM", variant=("paper", "shared"))
def test_cross_attention_is_not_left_to_flash_kernels(entry: Entry, monkeypatch):
    """They would take the source's padding for the target's: the sources' pads stay unseen, the targets stay whole."""
    model, inputs = entry.model(), entry.inputs(batch=2, length=6)
    source, mask = pad_rows(rows_of(entry, (6, 3)), "right")
    states = model.get_encoder()(source, mask).last_hidden_state
    arguments = {"attention_mask": mask, "decoder_input_ids": inputs["decoder_input_ids"]}
    expected = model(encoder_outputs=(states,), **arguments).logits
    calls = as_flash(model, monkeypatch)
    torch.testing.assert_close(model(encoder_outputs=(states,), **arguments).logits, expected)
    assert calls
    assert not any(calls)


@every(kind="seq2seq", auto_class="AutoModelForSeq2SeqLM", variant="paper")
def test_a_plain_cache_serves_an_encoder_decoder(entry: Entry):
    model, inputs = entry.model(), entry.inputs(batch=2, length=5)
    torch.testing.assert_close(model(**inputs, cache=DynamicCache()).logits, model(**inputs).logits)


@every(kind="decoder", auto_class="AutoModelForCausalLM", variant="llama")
def test_rotated_keys_keep_their_type_under_autocast(entry: Entry):
    """A cache or kernel that wants keys and values of one type would fail otherwise."""
    model, cache = entry.model(), DynamicCache()
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        model(**entry.inputs(batch=1, length=4), cache=cache, use_cache=True)
    assert cache.layers[0].keys.dtype == cache.layers[0].values.dtype == torch.bfloat16


def test_half_precision_scores_do_not_overflow():
    """64 units of 40 · 40 sum to 102,400, beyond float16's 65,504; scaled by 1/8 first, they stay below it."""
    states = torch.full((1, 2, 64), 40.0, dtype=torch.float16)
    output, weights = dot_product_attention(states, states, states)
    torch.testing.assert_close(weights, torch.full((1, 2, 2), 0.5, dtype=torch.float16))
    torch.testing.assert_close(output, states)
