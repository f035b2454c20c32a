"""Loading runs, translating, continuing prompts: tiny random models, and stubs that write what they are told."""

import logging

import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    MarianConfig,
    MarianMTModel,
    RobertaConfig,
    RobertaModel,
    XLMRobertaConfig,
    XLMRobertaModel,
)
from transformers.modeling_outputs import CausalLMOutputWithPast

from regard.evaluation.generation import auto_class_name, generate_text, load_run, position_limit, translate
from regard.evaluation.stopping import StopStrings, TextStream, new_text
from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderForSequenceClassification,
    TransformerForConditionalGeneration,
)
from regard.train.tokenization import train_tokenizer

TEXTS = [
    "The cat ate the mouse.",
    "a",
    "",
    "The students have not read the long books in the old houses of the city.",
    "   ",
    "Did you see it?",
    "the mouse",
    "We came home.",
]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS * 3, "byte-bpe", 300, template="eos", max_length=64)


@pytest.fixture(scope="module")
def causal_tokenizer():
    return train_tokenizer(TEXTS * 3, "byte-bpe", 300, template="bos", max_length=64)


def seq2seq(vocab_size, **settings):
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=vocab_size, hidden_size=32, encoder_layers=2, decoder_layers=2, num_attention_heads=4,
        intermediate_size=64, max_position_embeddings=64, initializer_range=0.3, **settings,
    )  # fmt: skip
    return TransformerForConditionalGeneration(config).eval()


def marian(vocab_size):
    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=vocab_size, d_model=32, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64, max_position_embeddings=64, init_std=0.3,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
        tie_word_embeddings=False,
    )  # fmt: skip
    return MarianMTModel(config).eval()


def decoder(vocab_size, **settings):
    torch.manual_seed(2)
    config = TransformerDecoderConfig(
        vocab_size=vocab_size, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
        max_position_embeddings=32, initializer_range=0.3, **settings,
    )  # fmt: skip
    return TransformerDecoderForCausalLM(config).eval()


def gpt2(vocab_size):
    torch.manual_seed(3)
    config = GPT2Config(
        vocab_size=vocab_size, n_embd=32, n_layer=1, n_head=4, n_positions=32, initializer_range=0.3,
        bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


def speak(model, script):
    """Make a causal model write these token ids, one row of ids for each row of the batch."""

    def forward(input_ids=None, attention_mask=None, **kwargs):
        step = speak.step
        speak.step += 1
        logits = torch.full((len(input_ids), input_ids.shape[1], model.config.vocab_size), -1e4)
        for row, ids in enumerate(script):
            logits[row, -1, ids[min(step, len(ids) - 1)]] = 0
        return CausalLMOutputWithPast(logits=logits)

    speak.step = 0
    model.forward = forward
    return model


# --- load_run --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [seq2seq, marian, decoder, gpt2])
def test_load_run_finds_the_class(make, tokenizer, tmp_path):
    model = make(len(tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, loaded_tokenizer = load_run(tmp_path, device="cpu")
    assert type(loaded) is type(model)
    assert not loaded.training
    assert loaded_tokenizer("The cat")["input_ids"] == tokenizer("The cat")["input_ids"]
    for name, value in model.state_dict().items():
        assert torch.equal(value, loaded.state_dict()[name]), name


def test_load_run_takes_a_classifier(tokenizer, tmp_path):
    config = TransformerEncoderConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    TransformerEncoderForSequenceClassification(config).save_pretrained(tmp_path)
    tokenizer.save_pretrained(str(tmp_path))
    assert type(load_run(str(tmp_path))[0]) is TransformerEncoderForSequenceClassification


def test_load_run_unpickles_nothing(tokenizer, tmp_path):
    model = seq2seq(len(tokenizer))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(ValueError, match="cannot be loaded: .*safetensors"):
        load_run(tmp_path)


def test_load_run_says_what_is_missing(tmp_path):
    with pytest.raises(ValueError, match=r"holds no model: it has no config\.json"):
        load_run(tmp_path)
    with pytest.raises(ValueError, match="There is no folder"):
        load_run(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"There is no folder './runs/x'"):
        load_run("./runs/x")
    with pytest.raises(ValueError, match="'nobody/no-such-model' cannot be loaded"):  # the tests are offline
        load_run("nobody/no-such-model")
    (tmp_path / "config.json").write_text('{"model_type": "regard-decoder", "vocab_size": 10}')
    with pytest.raises(ValueError, match="of no name"):
        load_run(tmp_path)
    decoder(20).save_pretrained(tmp_path / "untold")
    with pytest.raises(ValueError, match=r"has no tokenizer that can be loaded: its tokenizer\.json is missing"):
        load_run(tmp_path / "untold")
    sizes = {"vocab_size": 10, "n_positions": 8, "n_embd": 8, "n_layer": 1, "n_head": 1}
    GPT2LMHeadModel(GPT2Config(**sizes)).save_pretrained(tmp_path / "dumb")  # the library makes an empty tokenizer
    with pytest.raises(ValueError, match=r"dumb' has no tokenizer that can be loaded: its tokenizer\.json, or"):
        load_run(tmp_path / "dumb")
    config = TransformerDecoderConfig(architectures=["SomethingElse"])
    with pytest.raises(ValueError, match="SomethingElse"):
        auto_class_name(config)


# --- translate -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [seq2seq, marian])
@pytest.mark.parametrize("num_beams", [1, 3])
def test_translations_do_not_depend_on_batch_or_order(make, num_beams, tokenizer):
    model = make(len(tokenizer))
    alone = [translate(model, tokenizer, [t], num_beams=num_beams, max_new_tokens=12)[0] for t in TEXTS]
    assert len(set(alone)) >= 4  # the weights are random, but the source matters
    for batch_size in (1, 2, 7):
        together = translate(model, tokenizer, TEXTS, num_beams=num_beams, max_new_tokens=12, batch_size=batch_size)
        assert together == alone
    shuffled = translate(model, tokenizer, TEXTS[::-1], num_beams=num_beams, max_new_tokens=12)
    assert shuffled == alone[::-1]


def test_pads_never_matter(tokenizer):
    """A padding vector of huge numbers changes no translation of a padded batch."""
    model = seq2seq(len(tokenizer), tie_word_embeddings=False)
    before = translate(model, tokenizer, TEXTS, num_beams=2, max_new_tokens=8)
    with torch.no_grad():
        model.get_input_embeddings().weight[0] = 1e4
    assert translate(model, tokenizer, TEXTS, num_beams=2, max_new_tokens=8) == before


def test_a_run_translates_as_it_was_evaluated(tokenizer, monkeypatch):
    model = seq2seq(len(tokenizer))
    model.generation_config.update(num_beams=3, length_penalty=0.5, max_new_tokens=7)
    used, generate = [], model.generate
    monkeypatch.setattr(model, "generate", lambda **settings: used.append(settings) or generate(**settings))
    translate(model, tokenizer, ["The cat"])
    with pytest.raises(ValueError, match="length_penalty=nan must be a finite number"):
        translate(model, tokenizer, ["The cat"], length_penalty=float("nan"))
    translate(model, tokenizer, ["The cat"], num_beams=2, length_penalty=1.0, max_new_tokens=5)
    found = [(one["num_beams"], one["length_penalty"], one["max_new_tokens"]) for one in used]
    assert found == [(3, 0.5, 7), (2, 1.0, 5)]
    assert len(translate(model, tokenizer, ["The cat"], n_best=4)[0]) > 0  # as wide as it takes


def test_blank_stays_blank(tokenizer):
    model = seq2seq(len(tokenizer))
    assert translate(model, tokenizer, [" ", "", "\t"]) == ["", "", ""]
    assert translate(model, tokenizer, ["", "a"], n_best=2, max_new_tokens=3)[0] == [""]
    assert translate(model, tokenizer, []) == []


def test_n_best(tokenizer):
    model = seq2seq(len(tokenizer))
    several = translate(model, tokenizer, TEXTS, num_beams=6, n_best=6, max_new_tokens=1)
    for hypotheses in several:
        assert 1 <= len(hypotheses) <= 6
        assert len(set(hypotheses)) == len(hypotheses)
        assert all(isinstance(one, str) for one in hypotheses)
    best = translate(model, tokenizer, TEXTS, num_beams=6, max_new_tokens=1)
    assert [one[0] for one in several] == best
    assert [len(one) for one in translate(model, tokenizer, ["a", "b"], num_beams=4, n_best=2)] == [2, 2]


def test_n_best_with_fewer_hypotheses_than_asked():
    """Three letters and one new token: no more than a handful of different texts exist."""
    tokenizer = train_tokenizer(["abc"] * 3, "char", 8, template="eos")
    hypotheses = translate(seq2seq(len(tokenizer)), tokenizer, ["a"], num_beams=7, n_best=7, max_new_tokens=1)[0]
    assert 1 <= len(hypotheses) <= 4
    assert set(hypotheses) <= {"", "a", "b", "c"}
    assert len(set(hypotheses)) == len(hypotheses)


def test_long_input_is_cut_and_counted_once(tokenizer, caplog):
    model = seq2seq(len(tokenizer))
    long = "mouse " * 100
    with caplog.at_level(logging.WARNING, "regard.evaluation.generation"):
        results = translate(model, tokenizer, [long, "a", long + "b"], max_new_tokens=4)
    assert [r.getMessage() for r in caplog.records if r.name == "regard.evaluation.generation"] == [
        "2 of 3 texts are longer than 64 tokens and were cut there."
    ]
    assert results[0] == results[2]


def test_a_learned_table_limits_source_and_target(tokenizer):
    model = seq2seq(len(tokenizer), position_embedding_type="learned")
    tokenizer_without_limit = train_tokenizer(TEXTS * 3, "byte-bpe", 300, template="eos", max_length=10_000)
    assert len(translate(model, tokenizer_without_limit, ["mouse " * 100], max_new_tokens=500, num_beams=1)) == 1


def test_calls_that_cannot_work(tokenizer):
    model = seq2seq(len(tokenizer))
    with pytest.raises(ValueError, match=r"n_best=5 .* num_beams=4"):
        translate(model, tokenizer, ["a"], n_best=5, num_beams=4)
    with pytest.raises(ValueError, match="batch_size=0"):
        translate(model, tokenizer, ["a"], batch_size=0)
    with pytest.raises(ValueError, match="list of texts"):
        translate(model, tokenizer, "a")
    with pytest.raises(ValueError, match="GPT2LMHeadModel does not translate"):
        translate(gpt2(len(tokenizer)), tokenizer, ["a"])
    with pytest.raises(ValueError, match="does not continue a prompt"):
        generate_text(model, tokenizer, "a")


def test_translating_in_the_midst_of_training_has_no_dropout(tokenizer):
    model = seq2seq(len(tokenizer), dropout=0.5)
    expected = translate(model, tokenizer, TEXTS, max_new_tokens=6)
    model.train()
    assert translate(model, tokenizer, TEXTS, max_new_tokens=6) == expected
    assert model.training


# --- generate_text ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [decoder, gpt2])
def test_seed_makes_text_repeatable(make, causal_tokenizer):
    model = make(len(causal_tokenizer))
    state = torch.get_rng_state()
    texts = [generate_text(model, causal_tokenizer, "The cat", max_new_tokens=12, seed=s) for s in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    assert torch.equal(state, torch.get_rng_state())
    greedy = [generate_text(model, causal_tokenizer, "The cat", max_new_tokens=12, temperature=0) for _ in range(2)]
    assert greedy[0] == greedy[1]
    assert generate_text(model, causal_tokenizer, "The cat", max_new_tokens=12, top_k=1, seed=5) == greedy[0]
    assert generate_text(model, causal_tokenizer, "The cat", max_new_tokens=12, top_p=1e-6) == greedy[0]


@pytest.mark.parametrize("make", [decoder, gpt2])
def test_a_batch_of_prompts_gives_what_each_gives_alone(make, causal_tokenizer):
    model = make(len(causal_tokenizer))
    prompts = ["The cat ate the", "a", "Did you"]
    settings = {"max_new_tokens": 10, "temperature": 0}
    alone = [generate_text(model, causal_tokenizer, p, **settings) for p in prompts]
    assert generate_text(model, causal_tokenizer, prompts, **settings) == alone
    both = generate_text(model, causal_tokenizer, prompts, with_prompt=True, **settings)
    assert both == [p + t for p, t in zip(prompts, alone, strict=True)]
    beams = [generate_text(model, causal_tokenizer, p, num_beams=3, max_new_tokens=6) for p in prompts]
    assert generate_text(model, causal_tokenizer, prompts, num_beams=3, max_new_tokens=6) == beams
    assert generate_text(model, causal_tokenizer, []) == []


def test_stop_string_across_token_edges():
    """The tokens "blue whale.", "\\nQ", ": x" with stop "\\nQ:" give "blue whale."; each row stops by itself."""
    tokenizer = train_tokenizer(["Q: x\nA: blue whale."], "char", 19, template="bos")
    first = tokenizer("blue whale.\nQ: x", add_special_tokens=False)["input_ids"]
    second = tokenizer("blue\nA whale Q: x.\nQ", add_special_tokens=False)["input_ids"]
    model = speak(gpt2(len(tokenizer)), [first])
    assert generate_text(model, tokenizer, "A: ", stop="\nQ:", max_new_tokens=20) == "blue whale."
    assert speak.step == len("blue whale.\nQ:")  # nothing is written after the stop string
    model = speak(gpt2(len(tokenizer)), [first, second])
    texts = generate_text(model, tokenizer, ["A: ", "Q: x"], stop=["\nQ:"], max_new_tokens=len(second))
    assert texts == ["blue whale.", "blue\nA whale Q: x.\nQ"]
    model = speak(gpt2(len(tokenizer)), [second])
    assert generate_text(model, tokenizer, "A", stop=["x", "\nA"], max_new_tokens=30) == "blue"


@pytest.mark.parametrize(("kind", "size"), [("char", 37), ("byte-bpe", 300), ("unigram", 60), ("wordpiece", 90)])
def test_a_stop_string_is_found_at_the_step_that_completes_it(kind, size):
    """At every step the criterion says what the whole text says, though it decodes a few tokens only, and those of a
    row that has ended not at all."""
    text = "the blue whale . Q : x → ğ Q: the mouse ate and the mouse ate and the mouse ate"
    tokenizer = train_tokenizer([*TEXTS, text] * 3, kind, size)
    prompt = tokenizer("Q : x → ğ Q:", add_special_tokens=False)["input_ids"]  # the prompt's own do not count
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    rows = [ids, [token for token in ids if token != ids[0]][::-1]]
    length = min(map(len, rows))
    for stops in (["whale"], ["→ ğ", "whale"], ["mouse ate and the mouse"], [" "], ["not there"]):
        criterion = StopStrings(tokenizer, stops, [prompt, prompt])
        decoded = []
        count_decoded(tokenizer, decoded)
        for step in range(1, length + 1):
            wanted = [any(s in new_text(tokenizer, prompt, row[:step]) for s in stops) for row in rows]
            so_far = torch.tensor([prompt + row[:step] for row in rows])
            assert criterion(so_far, None).tolist() == wanted, (stops, step)
        decoded.clear()
        assert criterion(so_far, None).tolist() == wanted
        assert len(decoded) == wanted.count(False)
        assert all(count <= criterion.window for count in decoded)
        del tokenizer.decode


def count_decoded(tokenizer, counts):
    """Note how many tokens each call of `decode` is given."""
    decode = type(tokenizer).decode

    def counting(ids, **options):
        counts.append(len(ids))
        return decode(tokenizer, ids, **options)

    tokenizer.decode = counting


def test_a_stream_decodes_each_token_a_few_times(causal_tokenizer):
    """In all, a long text costs a few times its tokens: not each new token the whole text again."""
    ids = causal_tokenizer("the mouse ate 🙂 " * 20, add_special_tokens=False)["input_ids"]
    streamed, pieces = [], []
    stream = TextStream(causal_tokenizer, ["\nQ:"], [1], pieces.append)
    count_decoded(causal_tokenizer, streamed)
    for token in [1, *ids]:
        stream.put(torch.tensor([token]))
    stream.end()
    del causal_tokenizer.decode
    assert "".join(pieces) == "the mouse ate 🙂 " * 20
    assert sum(streamed) < 10 * len(ids)


def test_stop_string_within_bytes_of_a_character(causal_tokenizer):
    """Stop strings are compared as text: one that is several byte tokens, or the middle of a token, works."""
    ids = causal_tokenizer("bir ağ → iki", add_special_tokens=False)["input_ids"]
    model = speak(gpt2(len(causal_tokenizer)), [ids])
    assert generate_text(model, causal_tokenizer, "a", stop="→", max_new_tokens=len(ids)) == "bir ağ "


@pytest.mark.parametrize(("kind", "size"), [("byte-bpe", 300), ("unigram", 60), ("word", 36), ("wordpiece", 90)])
def test_streamed_pieces_join_to_the_text(kind, size):
    text = "The café 🙂 the mouse ate → 日本 . ğ"
    tokenizer = train_tokenizer([*TEXTS, text] * 3, kind, size, template="bos")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    pieces = []
    model = speak(gpt2(len(tokenizer)), [ids])
    result = generate_text(model, tokenizer, "The cat", stream=pieces.append, max_new_tokens=len(ids), temperature=0)
    assert "".join(pieces) == result
    assert len(pieces) > 4
    assert not any("\ufffd" in piece for piece in pieces)
    if kind == "byte-bpe":
        assert result == text


def test_a_stream_never_shows_a_stop_string(causal_tokenizer):
    ids = causal_tokenizer("one\nQ two\nQ: three", add_special_tokens=False)["input_ids"]
    pieces = []
    model = speak(gpt2(len(causal_tokenizer)), [ids])
    result = generate_text(model, causal_tokenizer, "a", stop="\nQ:", stream=pieces.append, max_new_tokens=len(ids))
    assert result == "".join(pieces) == "one\nQ two"


def test_a_learned_table_stops_the_text(causal_tokenizer, caplog):
    """32 positions, the last of which predicts one token more."""
    model = decoder(len(causal_tokenizer), position_embedding_type="learned", eos_token_id=None)
    prompt = "a b c"
    read = len(causal_tokenizer(prompt)["input_ids"])
    with caplog.at_level(logging.WARNING, "regard.evaluation.generation"):
        generate_text(model, causal_tokenizer, prompt, max_new_tokens=500, temperature=0)
    assert f"ends after {32 - read + 1} new tokens, not 500: the model has 32 positions" in caplog.text
    with pytest.raises(ValueError, match=r"prompt has \d+ tokens, but the model has 32 positions"):
        generate_text(model, causal_tokenizer, "a b c " * 20)


def test_sinusoids_grow(causal_tokenizer, caplog):
    model = decoder(len(causal_tokenizer), eos_token_id=None)
    with caplog.at_level(logging.WARNING, "regard.evaluation.generation"):
        generate_text(model, causal_tokenizer, "a", max_new_tokens=60, temperature=0)
    assert "positions" not in caplog.text


@pytest.mark.parametrize(
    ("model_class", "config_class", "expected"),
    [
        (BertModel, BertConfig, 20),
        (RobertaModel, RobertaConfig, 18),  # the first text token is at pad_token_id + 1 = 2
        (XLMRobertaModel, XLMRobertaConfig, 18),
    ],
)
def test_position_limit_is_what_the_library_runs(model_class, config_class, expected):
    config = config_class(
        vocab_size=30, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        max_position_embeddings=20, pad_token_id=1,
    )  # fmt: skip
    model = model_class(config).eval()
    assert position_limit(model) == expected
    with torch.no_grad():
        model(torch.full((1, expected), 5))
        with pytest.raises((IndexError, RuntimeError)):
            model(torch.full((1, expected + 1), 5))


def test_a_prompt_never_ends_in_the_end_token():
    """A tokenizer whose template closes a document must not close the prompt."""
    closing = train_tokenizer(TEXTS * 3, "byte-bpe", 300, template="bos-eos")
    opening = train_tokenizer(TEXTS * 3, "byte-bpe", 300, template="bos")
    model = decoder(len(closing))
    for prompt in ("The cat", ""):
        settings = {"max_new_tokens": 8, "temperature": 0}
        assert generate_text(model, closing, prompt, **settings) == generate_text(model, opening, prompt, **settings)


def test_generation_calls_that_cannot_work(causal_tokenizer):
    model = decoder(len(causal_tokenizer))
    for settings, message in [
        ({"temperature": -1.0}, "temperature=-1.0"),
        ({"top_p": 0.0}, "top_p=0.0"),
        ({"max_new_tokens": 0}, "max_new_tokens=0"),
        ({"stop": [""]}, "empty string"),
        ({"stream": print, "num_beams": 2}, "without a beam search"),
    ]:
        with pytest.raises(ValueError, match=message):
            generate_text(model, causal_tokenizer, "a", **settings)
