"""Generation says the same with and without a cache, whichever cache it is, and padded or alone."""

import pytest
import torch
from transformers import DynamicCache, EncoderDecoderCache, GenerationConfig, StaticCache

from regard.modeling.compatibility import CACHE_NAME

from .families import EOS, FIRST_WORD, Entry, every, words
from .test_contract_attention import pad_rows, rows_of

NEW = 8
SPECIAL = list(range(FIRST_WORD))  # a pad among the generated ids would be taken for padding when it is given back


def generate(model, *args, **kwargs) -> torch.Tensor:
    """Greedy search of a fixed length, so that a wrong token has many places to show."""
    settings = {"max_new_tokens": NEW, "min_new_tokens": NEW, "do_sample": False, "suppress_tokens": SPECIAL}
    return model.generate(*args, **{**settings, **kwargs})


def talkative(entry: Entry, **overrides):
    """A model whose output depends on its whole input: a small tied model would repeat its last token for ever."""
    if entry.settings.get("initializer_range"):
        overrides["initializer_range"] = 0.3
    model = entry.model(seed=3, tie_word_embeddings=False, **overrides)
    with torch.no_grad():
        model.lm_head.weight.mul_(3)
    return model


@every(generates=True)
def test_every_cache_gives_the_same_ids(entry: Entry):
    model, inputs = talkative(entry), entry.inputs()
    inputs.pop("decoder_input_ids", None)
    expected = generate(model, **inputs, use_cache=False)
    assert len(expected[:, -NEW:].unique()) > 3  # no constant babble, which any fault would reproduce
    assert torch.equal(generate(model, **inputs), expected)
    assert torch.equal(generate(model, **inputs, cache_implementation="static"), expected)
    for name in {CACHE_NAME, "past_key_values"}:  # before 5.24 the library's own `generate` knows the old name alone
        cache = DynamicCache(config=model.config)
        if entry.kind == "seq2seq":
            cache = EncoderDecoderCache(cache, DynamicCache(config=model.config))
        assert torch.equal(generate(model, **inputs, **{name: cache}), expected)
        assert cache.get_seq_length() == expected.shape[1] - 1


@every(generates=True)
@pytest.mark.parametrize("num_beams", [3])
def test_beam_search_with_and_without_cache(entry: Entry, num_beams):
    model, inputs = talkative(entry), entry.inputs()
    inputs.pop("decoder_input_ids", None)
    settings = {"num_beams": num_beams, "num_return_sequences": 2, "return_dict_in_generate": True}
    settings |= {"output_scores": True}
    without, dynamic = (generate(model, **inputs, **settings, use_cache=use_cache) for use_cache in (False, True))
    assert torch.equal(dynamic.sequences, without.sequences)
    torch.testing.assert_close(dynamic.sequences_scores, without.sequences_scores, atol=1e-4, rtol=1e-4)
    if entry.variant in ("paper", "shared"):
        static = generate(model, **inputs, **settings, cache_implementation="static")
        assert torch.equal(static.sequences, without.sequences)


@every(generates=True)
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_padded_batch_generates_what_single_rows_do(entry: Entry, kernel):
    model, rows = talkative(entry, attn_implementation=kernel), rows_of(entry)
    # A decoder-only model goes on after its last column, so prompts are padded on the left.
    for side in ("left", "right") if entry.kind == "seq2seq" else ("left",):
        ids, mask = pad_rows(rows, side)
        for num_beams in (1, 2):
            batch = generate(model, ids, attention_mask=mask, num_beams=num_beams)
            for number, row in enumerate(rows):
                alone = generate(model, row[None], num_beams=num_beams)[0]
                assert torch.equal(batch[number, -NEW:], alone[-NEW:])
        static = generate(model, ids, attention_mask=mask, cache_implementation="static")
        assert torch.equal(static, generate(model, ids, attention_mask=mask))


@every(generates=True, kind="decoder")
def test_chunked_prefill_equals_whole(entry: Entry):
    model = talkative(entry)
    ids, mask = pad_rows(rows_of(entry, (11, 6, 9)), "left")
    expected = generate(model, ids, attention_mask=mask)
    for size in (3, 4, 16):
        result = generate(model, ids, attention_mask=mask, prefill_chunk_size=size)
        assert torch.equal(result, expected)


@every(generates=True)
def test_step_by_step_logits_equal_the_whole(entry: Entry):
    """One token a step through a dynamic and a static cache, against one pass over everything."""
    model, inputs = entry.model(), entry.inputs(length=7, target_length=7)
    expected = model(**inputs).logits
    for kind in (DynamicCache, StaticCache):
        settings = {"max_cache_len": 12} if kind is StaticCache else {}
        cache = kind(config=model.config, **settings)
        arguments = {}
        if entry.kind == "seq2seq":
            cross = kind(config=model.config, **({"max_cache_len": 7} if settings else {}))
            cache = EncoderDecoderCache(cache, cross)
            arguments["encoder_outputs"] = model.get_encoder()(
                inputs["input_ids"], token_type_ids=inputs.get("token_type_ids")
            )
        name = "decoder_input_ids" if entry.kind == "seq2seq" else "input_ids"
        own = [name] if entry.kind == "seq2seq" else list(inputs)
        for start, end in ((0, 3), (3, 4), (4, 6), (6, 7)):  # a prompt, one token, two tokens, one token
            step = {key: inputs[key][:, start:end] for key in own}
            logits = model(**step, **arguments, cache=cache, use_cache=True).logits
            torch.testing.assert_close(logits, expected[:, start:end], atol=1e-5, rtol=1e-5)


@every(generates=True, variant=("paper", "llama", "shared"))
def test_given_target_prefix_is_continued(entry: Entry):
    model = talkative(entry)
    if entry.kind == "seq2seq":
        source = entry.inputs()["input_ids"]
        whole = generate(model, source)
        prefix = whole[:, :4]
        result = generate(model, source, decoder_input_ids=prefix, max_new_tokens=NEW - 3, min_new_tokens=NEW - 3)
    else:
        prompt = entry.inputs()["input_ids"]
        whole = generate(model, prompt)
        result = generate(model, whole[:, :10], max_new_tokens=NEW - 3, min_new_tokens=NEW - 3)
    assert torch.equal(result, whole)


@every(generates=True)
def test_embeddings_as_a_prompt(entry: Entry):
    model, inputs = talkative(entry), entry.inputs()
    inputs = {"input_ids": inputs["input_ids"]}
    embeds = model.get_input_embeddings()(inputs["input_ids"])
    expected = generate(model, **inputs)[:, -NEW:]
    assert torch.equal(generate(model, inputs_embeds=embeds)[:, -NEW:], expected)


@pytest.mark.filterwarnings("ignore")
@every(generates=True, variant=("paper", "llama", "shared"))
def test_sampling_and_assisted_decoding_run(entry: Entry):
    model, inputs = talkative(entry), entry.inputs(batch=1)
    inputs.pop("decoder_input_ids", None)
    torch.manual_seed(0)
    sampled = generate(model, **inputs, do_sample=True, top_k=5, temperature=0.8, num_return_sequences=3)
    assert sampled.shape[0] == 3
    expected = model.generate(**inputs, max_new_tokens=NEW, do_sample=False)
    assistant = entry.model(seed=9)
    assert torch.equal(
        model.generate(**inputs, max_new_tokens=NEW, do_sample=False, assistant_model=assistant), expected
    )
    if entry.kind == "decoder":
        prompt = torch.cat([inputs["input_ids"]] * 2, dim=1)
        expected = model.generate(prompt, max_new_tokens=NEW, do_sample=False)
        looked_up = model.generate(prompt, max_new_tokens=NEW, do_sample=False, prompt_lookup_num_tokens=2)
        assert torch.equal(looked_up, expected)


@every(generates=True)
@pytest.mark.parametrize("cache", [None, "static"])
def test_generation_past_the_table(entry: Entry, cache):
    """Learned positions end in an exception with both numbers; the others go on as if the table had been longer."""
    model = talkative(entry, max_position_embeddings=10)
    source = entry.inputs(length=6)["input_ids"]
    arguments = {"max_new_tokens": 12, "min_new_tokens": 12, "cache_implementation": cache}
    if entry.positions == "learned":
        with pytest.raises(ValueError, match=r"1\d positions.*max_position_embeddings=10"):
            generate(model, source, **arguments)
    else:
        longer = talkative(entry, max_position_embeddings=64)
        assert torch.equal(generate(model, source, **arguments), generate(longer, source, **arguments))


@every(generates=True, variant="paper")
def test_stops_at_the_end_token(entry: Entry):
    model, source = talkative(entry), entry.inputs(batch=1)["input_ids"]
    with torch.no_grad():
        model.lm_head.weight[EOS] = 0
    free = generate(model, source, suppress_tokens=None)
    third = free[0, -NEW + 2].item()
    result = model.generate(source, max_new_tokens=NEW, do_sample=False, eos_token_id=third)
    assert result[0, -1] == third
    assert result.shape[1] <= free.shape[1] - NEW + 3


@every(generates=True, variant=("paper", "shared"))
def test_generation_settings_are_saved(entry: Entry, tmp_path):
    model = entry.model()
    model.generation_config.update(num_beams=3, max_new_tokens=5, length_penalty=0.6)
    model.save_pretrained(tmp_path)
    settings = GenerationConfig.from_pretrained(tmp_path)
    assert (settings.num_beams, settings.max_new_tokens, settings.length_penalty) == (3, 5, 0.6)
    assert (settings.pad_token_id, settings.bos_token_id, settings.eos_token_id) == (0, 1, 2)
    if entry.kind == "seq2seq":
        assert settings.decoder_start_token_id == 1
    source = entry.inputs()["input_ids"]
    loaded = entry.model_class.from_pretrained(tmp_path)
    assert torch.equal(loaded.generate(source), model.generate(source))


@every(generates=True, variant=("paper", "bert", "shared"))
def test_target_masks_and_types_are_carried_along(entry: Entry):
    model, inputs = talkative(entry), entry.inputs()
    inputs.pop("decoder_input_ids", None)
    if entry.kind == "decoder":
        inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
        inputs["attention_mask"][1, :2] = 0
    else:
        ids, mask = pad_rows(rows_of(entry, (4, 2, 3)), "left")
        inputs |= {"decoder_input_ids": ids, "decoder_attention_mask": mask}
    assert torch.equal(generate(model, **inputs), generate(model, **inputs, use_cache=False))


@every(generates=True, variant=("paper", "llama", "shared"))
def test_generation_in_half_precision(entry: Entry):
    for dtype in (torch.bfloat16, torch.float16):
        model = talkative(entry).to(dtype)
        ids, mask = pad_rows(rows_of(entry), "left")
        result = generate(model, ids, attention_mask=mask, output_scores=True, return_dict_in_generate=True)
        assert all(score[:, 5:].isfinite().all() for score in result.scores)


@pytest.mark.filterwarnings("ignore")
@every(generates=True, variant=("paper", "llama", "shared"))
def test_compiled_decoding_step_with_a_static_cache(entry: Entry):
    torch._dynamo.reset()
    model, inputs = entry.model(), entry.inputs(length=7, target_length=7)
    expected = model(**inputs).logits
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    cache = StaticCache(config=model.config, max_cache_len=12)
    arguments = {}
    name = "input_ids"
    if entry.kind == "seq2seq":
        cache = EncoderDecoderCache(cache, StaticCache(config=model.config, max_cache_len=7))
        arguments["encoder_outputs"] = model.get_encoder()(inputs["input_ids"])
        name = "decoder_input_ids"
    with torch.no_grad():
        model(**{name: inputs[name][:, :4]}, **arguments, cache=cache, use_cache=True)  # the prompt, not compiled
        for step in (4, 5, 6):
            logits = compiled(**{name: inputs[name][:, step : step + 1]}, **arguments, cache=cache).logits
            torch.testing.assert_close(logits[:, 0], expected[:, step], atol=1e-5, rtol=1e-5)


def test_words_are_no_special_tokens():
    """Guards the tests above: a pad or an end among random words would change what they compare."""
    from .families import select

    config = select()[0].config()
    ids = words(config, (50, 50), torch.Generator().manual_seed(0))
    assert ids.min() == FIRST_WORD
    assert ids.max() == config.vocab_size - 1
