"""Scores of choices: the join of prompt and choice, shared prefixes, batches, every kind of model.

What is right is computed here another way: each request alone, without a cache, a mask or a pad, its tokens one after
another by the model's plain outputs; and by models whose probabilities are known from a formula.
"""

import inspect
import math
import random
from types import SimpleNamespace

import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from regard.evaluation.few_shot import prefixes
from regard.evaluation.few_shot.joining import Row, join, join_apart
from regard.evaluation.few_shot.prefixes import can_pack, packed_sums, passes
from regard.evaluation.few_shot.scoring import Request, positions_needed, row_sums, score
from regard.evaluation.few_shot.writing import write
from regard.evaluation.generation import generate_text
from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerForConditionalGeneration,
)
from regard.train.tokenization import train_tokenizer

TEXTS = [
    "Review: a warm and funny film\nSentiment: positive",
    "Review: dull from the first minute\nSentiment: negative",
    "Question: Which animal barks?\nAnswer: the dog",
    "Question: Which animal gives milk?\nAnswer: a cow",
]
SHOTS = "\n\n".join(TEXTS[2:]) + "\n\n"
QUERIES = ["Which animal barks loudly?", "Which film is dull?", "Which?", "Which animal gives milk and barks?"]
CHOICES = [" the dog", " a cow", " a", " positive", " the dog barks loudly from the first minute"]
REQUESTS = [Request(f"{SHOTS}Question: {q}\nAnswer:", c) for q in QUERIES for c in CHOICES]
REQUESTS += [Request("", TEXTS[0]), Request("", TEXTS[1]), Request("Review: a warm", " film")]
SIZES = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def byte_bpe(template="none"):
    return train_tokenizer(TEXTS, "byte-bpe", 320, min_frequency=1, template=template)


BPE = byte_bpe()
VOCABULARY = len(BPE)


def ours(**settings):
    config = TransformerDecoderConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_attention_heads=4, intermediate_size=32, num_hidden_layers=2,
        initializer_range=0.3, **SIZES, **settings,
    )  # fmt: skip
    return TransformerDecoderForCausalLM(config)


def library(name, **settings):
    config = getattr(transformers, f"{name}Config")(vocab_size=VOCABULARY, **SIZES, **settings)
    return getattr(transformers, MODELS[name])(config)


MODELS = {
    "GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM", "Bloom": "BloomForCausalLM", "Mamba": "MambaForCausalLM",
    "GPTNeo": "GPTNeoForCausalLM", "OPT": "OPTForCausalLM", "Mistral": "MistralForCausalLM",
}  # fmt: skip
WIDE = {"initializer_range": 0.3, "num_hidden_layers": 2, "hidden_size": 16}
LLAMA = WIDE | {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 32}
CAUSAL = {
    "ours": lambda: ours(),
    "ours-rotary": lambda: ours(
        position_embedding_type="rotary", num_key_value_heads=2, norm_position="pre", gated_mlp=True
    ),
    "ours-learned": lambda: ours(position_embedding_type="learned", max_position_embeddings=300),
    "GPT2": lambda: library("GPT2", n_embd=16, n_head=2, n_layer=2, n_positions=300, initializer_range=0.3),
    "Llama": lambda: library("Llama", **LLAMA),
    "OPT": lambda: library(
        "OPT", hidden_size=16, ffn_dim=32, num_attention_heads=2, num_hidden_layers=2, word_embed_proj_dim=16,
        init_std=0.3,
    ),
    "Bloom": lambda: library("Bloom", hidden_size=16, n_layer=2, n_head=2, initializer_range=0.3),
    "Mamba": lambda: library("Mamba", hidden_size=16, num_hidden_layers=2, state_size=4, initializer_range=0.3),
    "GPTNeo": lambda: library(
        "GPTNeo", hidden_size=16, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=2,
        window_size=8, max_position_embeddings=300, initializer_range=0.3,
    ),
    "Mistral": lambda: library("Mistral", sliding_window=8, **LLAMA),
}  # fmt: skip
PACKED = {"ours", "ours-rotary", "ours-learned", "GPT2", "Llama", "OPT"}


@pytest.fixture(scope="module")
def causal():
    made = {}
    for name, make in CAUSAL.items():
        torch.manual_seed(0)
        made[name] = make().eval()
    return made


@torch.no_grad()
def alone(model, row):
    """Σ log P, token after token."""
    logits = model(input_ids=torch.tensor([row.ids[:-1]])).logits[0].double().log_softmax(-1)
    return sum(logits[t - 1, row.ids[t]].item() for t in range(row.start, len(row.ids)))


@pytest.mark.parametrize("name", CAUSAL)
def test_scores_are_those_of_each_request_alone(causal, name):
    model = causal[name]
    expected = [alone(model, row) for row in join(model, BPE, REQUESTS)]
    assert max(expected) - min(expected) > 1  # the weights are wide enough for a difference to show
    order = random.Random(0).sample(range(len(REQUESTS)), len(REQUESTS))
    for batch_size in (1, 2, 7, 100):
        found = score(model, BPE, [REQUESTS[i] for i in order], batch_size=batch_size)
        assert [one.log_probability for one in found] == pytest.approx([expected[i] for i in order], abs=1e-4)


def test_which_models_share_prefixes(causal):
    assert {name for name, model in causal.items() if can_pack(model)} == PACKED


def test_padding_side_changes_nothing(causal):
    for name in ("ours", "Bloom"):
        found = []
        for side in ("left", "right"):
            BPE.padding_side = side
            found.append(score(causal[name], BPE, REQUESTS, batch_size=5))
        assert found[0] == found[1]


def test_training_mode_and_random_state_are_left_alone(causal):
    model = ours(dropout=0.5).train()
    state = torch.get_rng_state()
    assert score(model, BPE, REQUESTS[:4]) == score(model, BPE, REQUESTS[:4])
    assert model.training
    assert torch.equal(state, torch.get_rng_state())


def test_what_is_shared_is_computed_once(causal, monkeypatch):
    """The tokens that the model reads are those of the tree of all rows, whatever the passes: but for the few that
    predict a scored token, which are read again where a pass begins in the middle of a query."""
    model = causal["ours"]
    rows = join(model, BPE, REQUESTS[: len(QUERIES) * len(CHOICES)])
    nodes = {row.ids[:length] for row in rows for length in range(1, len(row.ids))}
    read = sum(len(each.tokens) for each in passes(rows, 100))
    assert read == len(nodes)
    assert sum(len(row.ids) for row in rows) > 5 * read
    for batch_size in (1, 2, 3):
        again = sum(len(each.tokens) for each in passes(rows, batch_size)) - read
        assert again <= sum(row.scored for row in rows)
    one_token = [Row((*rows[0].ids[: rows[0].start], token), rows[0].start) for token in range(5, 15)]
    assert [len(each.tokens) for each in passes(one_token, 100)] == [rows[0].start]

    monkeypatch.setattr(prefixes, "TOKENS", 7)  # hardly a row fits
    expected = [alone(model, row) for row in rows]
    assert [total for total, _ in packed_sums(model, rows, 100)] == pytest.approx(expected, abs=1e-4)


def test_a_long_prompt_needs_no_mask(causal):
    """The first row of a pass may be longer than `TOKENS`; what would grow with its square is never made."""
    rows = [Row((*range(5, 35), *tail), 30) for tail in ((7, 8), (7, 9), (8, 7))]
    assert [each.mask() for each in passes(rows[:1], 100)] == [None]
    kept = [each.kept for each in passes(rows, 1)]
    assert kept == [0, 29, 29]
    assert [each.mask() for each in passes(rows, 1)] == [None] * 3
    (whole,) = passes(rows, 100)
    assert whole.mask().shape == (32, 32)
    expected = [alone(causal["ours"], row) for row in rows]
    for batch_size in (1, 100):
        found = [total for total, _ in packed_sums(causal["ours"], rows, batch_size)]
        assert found == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("deaf_to", ["attention_mask", "position_ids"])
def test_a_model_that_takes_a_mask_or_positions_and_does_not_heed_them_is_not_packed(deaf_to):
    class Deaf(transformers.GPT2LMHeadModel):
        def forward(self, input_ids=None, attention_mask=None, position_ids=None, use_cache=None, **others):
            heard = {"attention_mask": attention_mask, "position_ids": position_ids, "use_cache": use_cache}
            if attention_mask is None or attention_mask.dim() == 4:
                heard[deaf_to] = None
            return super().forward(input_ids, **heard, **others)

    # `inspect` must find the cache among the arguments, as in the class above it.
    Deaf.forward.__signature__ = inspect.signature(transformers.GPT2LMHeadModel.forward)
    torch.manual_seed(0)
    config = library("GPT2", n_embd=16, n_head=2, n_layer=2, n_positions=300, initializer_range=0.3).config
    model = Deaf(config).eval()
    assert not can_pack(model)
    expected = [alone(model, row) for row in join(model, BPE, REQUESTS)]
    assert [one.log_probability for one in score(model, BPE, REQUESTS)] == pytest.approx(expected, abs=1e-4)


def test_angles_that_depend_on_the_longest_row_of_a_batch():
    """LongRoPE takes other angles for all rows of a batch as soon as one is longer than 24 tokens."""
    torch.manual_seed(0)
    rope = {"rope_type": "longrope", "rope_theta": 10000.0, "original_max_position_embeddings": 24}
    rope |= {"short_factor": [1.0] * 2, "long_factor": [8.0] * 2}
    settings = {"max_position_embeddings": 300, "original_max_position_embeddings": 24, "rope_parameters": rope}
    model = transformers.Phi3ForCausalLM(
        transformers.Phi3Config(vocab_size=VOCABULARY, **SIZES, **LLAMA, **settings, sliding_window=None)
    ).eval()
    rows = join(model, BPE, [*REQUESTS[:3], Request("Review: a warm", " film"), Request("Review: a dull", " film")])
    lengths = sorted(len(row.ids) - 1 for row in rows)
    assert lengths[0] < 24 < lengths[-1]
    expected = [alone(model, row) for row in rows]
    for batch_size in (1, 5):
        found = [total for total, _ in row_sums(model, rows, batch_size)]
        assert found == pytest.approx(expected, abs=1e-4)


def test_random_trees(causal):
    """Rows of few distinct tokens share beginnings of all lengths, are one another's beginnings, and come twice."""
    generator = random.Random(3)
    rows = []
    for _ in range(60):
        ids = tuple(generator.choice((5, 6)) for _ in range(generator.randint(2, 9)))
        rows.append(Row(ids, generator.randint(1, len(ids) - 1)))
    for name in ("ours-rotary", "GPT2"):
        expected = [alone(causal[name], row) for row in rows]
        for batch_size in (1, 3, 60):
            found = [total for total, _ in packed_sums(causal[name], rows, batch_size)]
            assert found == pytest.approx(expected, abs=1e-4)


# --- encoder-decoders ------------------------------------------------------------------------------------------------


def seq2seq(name):
    torch.manual_seed(0)
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2}
    sizes |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "init_std": 0.3}
    if name == "ours":
        config = TransformerConfig(
            vocab_size=VOCABULARY, hidden_size=16, num_attention_heads=2, intermediate_size=32, encoder_layers=1,
            decoder_layers=1, decoder_start_token_id=1, initializer_range=0.3, **SIZES,
        )  # fmt: skip
        return TransformerForConditionalGeneration(config).eval()
    if name == "T5":
        config = transformers.T5Config(
            vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=32, num_layers=1, num_heads=2, decoder_start_token_id=0,
            pad_token_id=0, eos_token_id=2, initializer_factor=3.0,
        )  # fmt: skip
        return transformers.T5ForConditionalGeneration(config).eval()
    config = getattr(transformers, f"{name}Config")(
        vocab_size=VOCABULARY, decoder_start_token_id=2, max_position_embeddings=300, **SIZES, **sizes
    )
    kind = {"Bart": "BartForConditionalGeneration", "Marian": "MarianMTModel"}[name]
    return getattr(transformers, kind)(config).eval()


@pytest.mark.parametrize("name", ["ours", "Marian", "Bart", "T5"])
def test_an_encoder_decoder_reads_the_prompt_and_writes_the_choice(name):
    model, tokenizer = seq2seq(name), byte_bpe("eos")
    start = model.config.decoder_start_token_id
    requests = [Request(prompt, choice) for prompt in ("Which? ", SHOTS, "") for choice in CHOICES]
    expected = []
    for request in requests:
        source = torch.tensor([tokenizer(request.prompt.rstrip())["input_ids"]])
        target = tokenizer(request.choice.strip(), add_special_tokens=False)["input_ids"]
        with torch.no_grad():
            logits = model(input_ids=source, decoder_input_ids=torch.tensor([[start, *target[:-1]]])).logits[0]
        expected.append(sum(logits.double().log_softmax(-1)[t, token].item() for t, token in enumerate(target)))
    for batch_size in (1, 2, 7, 100):
        found = score(model, tokenizer, requests, batch_size=batch_size)
        assert [one.log_probability for one in found] == pytest.approx(expected, abs=1e-4)


def test_each_prompt_is_encoded_once():
    model, tokenizer = seq2seq("ours"), byte_bpe("eos")
    encoder, seen = model.get_encoder(), []
    hook = encoder.register_forward_hook(lambda module, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    score(model, tokenizer, [Request(prompt, choice) for choice in CHOICES for prompt in QUERIES], batch_size=4)
    hook.remove()
    assert sum(len(each["input_ids"]) for each in seen) == len(QUERIES)


# --- the join --------------------------------------------------------------------------------------------------------


def merging(*merges, template=()):
    """A byte-free BPE over single characters with these merges, and perhaps a template."""
    symbols = ["<s>", "</s>", " ", *"abcdefgh.:", *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, list(merges)))
    if template:
        names = [(name, symbols.index(name)) for name in template if name.startswith("<")]
        tokenizer.post_processor = processors.TemplateProcessing(single=list(template), special_tokens=names)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


NAMES = SimpleNamespace(config=SimpleNamespace(bos_token_id=None), generation_config=None)


def scored(tokenizer, *pairs, model=NAMES):
    """The tokens before and after the cut of each pair."""
    rows = join(model, tokenizer, [Request(*pair) for pair in pairs])
    tokens = [tokenizer.convert_ids_to_tokens(row.ids) for row in rows]
    return [(each[: row.start], each[row.start :]) for each, row in zip(tokens, rows, strict=True)]


def test_the_join_without_a_merge():
    assert scored(merging(("a", "b")), ("ab:", " ab")) == [(["ab", ":"], [" ", "ab"])]


def test_a_merge_over_the_join_is_scored_with_the_choice():
    assert scored(merging(("a", "b")), ("ca", "b")) == [(["c"], ["ab"])]


def test_a_space_at_the_end_belongs_to_the_choice_where_the_tokenizer_says_so():
    tokenizer = merging((" ", "a"))
    assert scored(tokenizer, ("c: ", "a")) == [(["c", ":"], [" a"])]
    assert scored(tokenizer, ("c: ", "b")) == [(["c", ":", " "], ["b"])]


def test_tokens_of_the_prompt_alone_are_not_scored_where_the_tokenizer_parts_them_otherwise():
    """Two spaces are one token, but not in front of a letter that takes the second."""
    tokenizer = merging((" ", "a"), (" ", " "))
    assert scored(tokenizer, ("c:  ", "a")) == [(["c", ":", " "], [" a"])]
    assert scored(tokenizer, ("c:  ", "b")) == [(["c", ":", "  "], ["b"])]


def test_a_tokenizer_that_tells_no_places(monkeypatch):
    monkeypatch.setattr(PreTrainedTokenizerFast, "is_fast", False)
    assert scored(merging(("a", "b")), ("ca", "b"), ("c", "d")) == [(["c"], ["ab"]), (["c"], ["d"])]
    assert scored(merging((" ", "a")), ("c: ", "a"), ("", "a")) == [(["c", ":"], [" a"]), (["<s>"], ["a"])]


def test_choices_of_one_prompt_are_scored_from_the_same_token_on():
    assert scored(merging((" ", "a")), ("c: ", "a"), ("d: ", "b"), ("c: ", "b")) == [
        (["c", ":"], [" a"]),
        (["d", ":", " "], ["b"]),
        (["c", ":"], [" ", "b"]),
    ]


def test_choices_that_change_how_the_prompt_is_written_are_scored_from_where_they_differ():
    """Two spaces are one token before "b" and two before "a": what is read must be the same."""
    tokenizer = merging((" ", "a"), (" ", " "))
    both = [([*"c:"], [" ", " a"]), ([*"c:"], ["  ", "b"])]
    assert scored(tokenizer, ("c:  ", "a"), ("c:  ", "b")) == both
    assert scored(tokenizer, ("c:  ", "b"), ("c:  ", "a")) == both[::-1]


def test_a_choice_of_which_the_tokenizer_leaves_nothing_is_refused():
    """No token of the prompt is scored in its place."""
    tokenizer = train_tokenizer(TEXTS, "word", 30, min_frequency=1, template="bos")
    with pytest.raises(ValueError, match=r"The choice '\\n' has no token in this model's tokenizer"):
        join(NAMES, tokenizer, [Request("the dog", " a"), Request("the dog", "\n")])


def test_an_empty_prompt_and_a_merge_at_the_very_start_begin_with_a_token():
    tokenizer = merging(("a", "b"))
    assert scored(tokenizer, ("", "ab")) == [(["<s>"], ["ab"])]
    assert scored(tokenizer, ("a", "b")) == [(["<s>"], ["ab"])]
    tokenizer.bos_token = None
    assert scored(tokenizer, ("", "ab")) == [(["</s>"], ["ab"])]
    tokenizer.eos_token = None
    with pytest.raises(ValueError, match="neither model nor tokenizer names a begin or an end token"):
        scored(tokenizer, ("", "ab"))
    named = SimpleNamespace(config=SimpleNamespace(bos_token_id=1))
    assert scored(tokenizer, ("", "ab"), model=named) == [(["</s>"], ["ab"])]
    assert scored(tokenizer, ("c", "ab")) == [(["c"], ["ab"])]


@pytest.mark.parametrize(
    ("template", "before"),
    [
        (("<s>", "$A"), ["<s>"]),
        (("<s>", "$A", "</s>"), ["<s>"]),
        (("$A", "</s>"), []),
        (("<s>", "</s>", "$A"), ["<s>", "</s>"]),
    ],
)
def test_what_a_template_puts_in_front_is_read_and_what_it_puts_behind_is_not(template, before):
    tokenizer = merging(("a", "b"), template=template)
    assert scored(tokenizer, ("c", "ab"), ("c", "d")) == [([*before, "c"], ["ab"]), ([*before, "c"], ["d"])]
    assert scored(tokenizer, ("", "ab")) == [(before or ["<s>"], ["ab"])]


def test_a_begin_token_in_the_text_stands_once():
    tokenizer = merging(template=("<s>", "$A"))
    assert scored(tokenizer, ("<s>a", "b")) == [(["<s>", "a"], ["b"])]
    assert scored(tokenizer, ("", "<s>")) == [(["<s>"], ["<s>"])]
    # The first text leaves open which of two begin tokens is the tokenizer's.
    assert scored(tokenizer, ("", "<s>"), ("a", "b")) == [(["<s>"], ["<s>"]), (["<s>", "a"], ["b"])]


def test_a_begin_token_that_is_not_in_the_vocabulary_is_none():
    """GPT-2's configuration names 50256 where nothing else is said."""
    tokenizer = merging()
    tokenizer.bos_token = None
    model = SimpleNamespace(config=transformers.GPT2Config(vocab_size=len(tokenizer)))
    assert model.config.bos_token_id >= len(tokenizer)
    assert scored(tokenizer, ("", "ab"), model=model) == [(["</s>"], [*"ab"])]
    tokenizer.bos_token = "<s>"
    named = SimpleNamespace(config=SimpleNamespace(bos_token_id=1))  # the tokenizer knows its own
    assert scored(tokenizer, ("", "ab"), model=named) == [(["<s>"], [*"ab"])]


@pytest.mark.parametrize("kind", ["byte-bpe", "wordpiece", "unigram", "word", "char"])
@pytest.mark.parametrize("template", ["none", "bos", "eos", "bos-eos"])
def test_every_kind_of_tokenizer_scores_the_whole_choice(kind, template):
    tokenizer = train_tokenizer(TEXTS, kind, 200 if kind != "byte-bpe" else 300, min_frequency=1, template=template)
    for prompt, choice in (
        ("Question: Which animal barks?\nAnswer:", " the dog"),
        ("Answer:\n\n", "a cow"),
        ("Answer: ", "a cow"),
        ("", "a cow"),
    ):
        (row,) = join(NAMES, tokenizer, [Request(prompt, choice)])
        bare = tokenizer(prompt + choice, add_special_tokens=False)["input_ids"]
        assert list(row.ids[-len(bare) :]) == bare  # the text as the tokenizer writes it, and nothing after it
        assert tokenizer.decode(row.ids[row.start :]).strip() == choice.strip()
        assert row.scored >= 1
        prefix = [] if template in ("none", "eos") and prompt else [tokenizer.bos_token_id]
        assert list(row.ids[: -len(bare)]) == prefix


def test_a_choice_that_an_unknown_word_swallows_still_has_a_token():
    tokenizer = train_tokenizer(TEXTS, "word", 30, min_frequency=1, template="bos")
    (row,) = join(NAMES, tokenizer, [Request("an un", "known")])
    assert (row.ids[row.start :], row.scored) == ((tokenizer.unk_token_id,), 1)


def test_bert_style_and_post_processed_templates():
    tokenizer = Tokenizer(
        models.WordPiece({"[CLS]": 0, "[SEP]": 1, "[UNK]": 2, "a": 3, "##b": 4, "c": 5}, unk_token="[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 1), ("[CLS]", 0))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, cls_token="[CLS]", sep_token="[SEP]", unk_token="[UNK]"
    )
    assert scored(tokenizer, ("c a", "b"), ("c", " a")) == [(["[CLS]", "c", "a"], ["##b"]), (["[CLS]", "c"], ["a"])]


def test_a_decoder_begins_with_its_start_and_the_targets_template():
    model = SimpleNamespace(
        config=SimpleNamespace(bos_token_id=0, decoder_start_token_id=1), generation_config=SimpleNamespace()
    )
    tokenizer = merging(template=("<s>", "$A", "</s>"))
    sources, (row,) = join_apart(model, tokenizer, [Request("ab: ", " c")])
    assert tokenizer.convert_ids_to_tokens(sources[0]) == ["<s>", "a", "b", ":", "</s>"]
    assert (tokenizer.convert_ids_to_tokens(row.ids), row.start) == (["</s>", "<s>", "c"], 2)


# --- known probabilities, limits, bad calls --------------------------------------------------------------------------


class Uniform(torch.nn.Module):
    """Every token is as likely as token 0 is twice: P(0) = 2 / (V + 1), P(others) = 1 / (V + 1)."""

    device = torch.device("cpu")
    dtype = torch.float32

    def __init__(self, size, **config):
        super().__init__()
        self.config = SimpleNamespace(is_encoder_decoder=False, vocab_size=size, bos_token_id=0, **config)

    def can_generate(self):
        return True

    def forward(self, input_ids, attention_mask=None):
        logits = torch.zeros(*input_ids.shape, self.config.vocab_size)
        logits[..., 0] = math.log(2)
        return SimpleNamespace(logits=logits)


def test_known_probabilities():
    tokenizer = merging()
    size = len(tokenizer)
    found = score(Uniform(size), tokenizer, [Request("a", "bc"), Request("", "b"), Request("a", "b<s>")])
    assert [one.log_probability for one in found] == pytest.approx(
        [-2 * math.log(size + 1), -math.log(size + 1), math.log(2) - 2 * math.log(size + 1)]
    )
    assert [one.tokens for one in found] == [2, 1, 2]
    assert [one.greedy for one in found] == [False, False, False]
    assert score(Uniform(size), tokenizer, [Request("a", "<s>")])[0].greedy


def test_greedy_says_what_generation_would_write(causal):
    for name in ("ours", "Bloom"):
        rows = join(causal[name], BPE, REQUESTS)
        for row, (_, greedy) in zip(rows, row_sums(causal[name], rows, 3), strict=True):
            with torch.no_grad():
                likeliest = causal[name](input_ids=torch.tensor([row.ids[:-1]])).logits[0].argmax(-1)
            assert greedy == (likeliest[row.start - 1 :].tolist() == list(row.ids[row.start :]))


def test_what_is_too_long_is_refused(causal):
    model = causal["GPT2"]
    text = "a " * 400
    (needed,) = positions_needed(model, BPE, [Request(text, " b")])
    with pytest.raises(ValueError, match=f"Request 1 takes {needed} positions, and the model has 300"):
        score(model, BPE, [REQUESTS[-1], Request(text, " b")])
    with pytest.raises(ValueError, match="takes .* positions, and the model has 300"):
        write(model, BPE, [text])


def test_exactly_as_long_as_the_positions(causal):
    model = causal["ours-learned"]
    prompt = "a"
    while positions_needed(model, BPE, [Request(prompt + " a", " b")])[0] <= 300:
        prompt += " a"
    (needed,) = positions_needed(model, BPE, [Request(prompt, " b")])
    assert needed == 300
    assert score(model, BPE, [Request(prompt, " b")])[0].log_probability < 0


@pytest.mark.parametrize(
    ("requests", "settings", "sentence"),
    [
        ([Request("a", "")], {}, "Request 0: the choice is empty"),
        ([Request("a", "b"), Request("a", None)], {}, "Request 1: prompt and choice must be texts"),
        ([Request("a", "b")], {"batch_size": 0}, "batch_size=0 must be a whole number, at least 1"),
    ],
)
def test_wrong_calls(causal, requests, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        score(causal["ours"], BPE, requests, **settings)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("BertForMaskedLM", "A BertForMaskedLM does not predict what comes next"),
        ("BertLMHeadModel", "This BertLMHeadModel sees the tokens that it is to predict"),
    ],
)
def test_models_that_look_ahead_are_refused(name, sentence):
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=VOCABULARY, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        initializer_range=0.3,
    )  # fmt: skip
    with pytest.raises(ValueError, match=sentence):
        score(getattr(transformers, name)(config), BPE, REQUESTS)
    config.is_decoder = True
    if name == "BertLMHeadModel":
        model = transformers.BertLMHeadModel(config).eval()
        rows = join(model, BPE, REQUESTS)
        assert [one.log_probability for one in score(model, BPE, REQUESTS)] == pytest.approx(
            [alone(model, row) for row in rows], abs=1e-4
        )


def test_nothing_asked(causal):
    assert score(causal["ours"], BPE, []) == []
    assert score(seq2seq("ours"), byte_bpe("eos"), []) == []
    assert write(causal["ours"], BPE, []) == []


def test_progress_is_told(causal):
    for model, tokenizer in ((causal["ours"], BPE), (causal["Bloom"], BPE), (seq2seq("ours"), byte_bpe("eos"))):
        seen: list[tuple[int, int]] = []
        score(model, tokenizer, REQUESTS, batch_size=4, show=lambda *told, seen=seen: seen.append(told))
        assert [total for _, total in seen] == [len(REQUESTS)] * len(seen)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert seen[-1][0] == len(REQUESTS)


# --- writing ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ours", "ours-learned", "GPT2", "Bloom"])
def test_writing_is_that_of_each_prompt_alone(causal, name):
    model = causal[name]
    prompts = [f"{SHOTS}Question: {query}\nAnswer:" for query in QUERIES] + [SHOTS]
    if name in ("ours-learned", "GPT2"):  # the longest has less room than max_new_tokens, and takes none from others
        prompts.append(SHOTS + "a " * 240)
    several = [prompts, [*prompts, "Which", ""]]  # which all begin with the shots, or with nothing
    expected = [generate_text(model, BPE, prompt, max_new_tokens=6, temperature=0) for prompt in several[1]]
    assert len(set(expected)) > 3
    for asked in several:
        for batch_size in (2, 100):
            found = write(model, BPE, asked, max_new_tokens=6, batch_size=batch_size)
            assert found == expected[: len(asked)]


def test_what_prompts_begin_with_is_read_once(causal):
    model, seen = causal["ours"], []
    assert can_pack(model)  # tried out before what is counted
    prompts = [f"{SHOTS}Question: {query}\nAnswer:" for query in QUERIES]
    shots = len(BPE(SHOTS + "Question: Which")["input_ids"])
    hook = model.register_forward_hook(lambda module, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    write(model, BPE, prompts, max_new_tokens=3, batch_size=2)
    hook.remove()
    lengths = [each["input_ids"].shape for each in seen if each["input_ids"].shape[1] > 1]
    (longest,) = [length for length in lengths if length[1] >= shots - 1]
    assert longest[0] == 1
    assert sum(rows for rows, length in lengths if length < shots - 1) == len(prompts)


def test_writing_ends_before_a_stop_string(causal):
    whole = write(causal["ours"], BPE, QUERIES, max_new_tokens=12)
    stop = whole[0][2:4]
    assert write(causal["ours"], BPE, QUERIES, max_new_tokens=12, stop=[stop]) == [
        text.partition(stop)[0] for text in whole
    ]
    model, tokenizer = seq2seq("Bart"), byte_bpe("eos")
    whole = write(model, tokenizer, QUERIES, max_new_tokens=12)
    stop = whole[0][1:3]
    assert write(model, tokenizer, QUERIES, max_new_tokens=12, stop=[stop]) == [t.partition(stop)[0] for t in whole]
    with pytest.raises(ValueError, match="stop=''"):
        write(causal["ours"], BPE, QUERIES, stop="")


def test_writing_takes_the_likeliest_token_whatever_a_model_asks_for_otherwise(causal):
    """A penalty on repetition, as many chat models have it, would fall on the answers in the shots; BART forces an end
    token in the place of the last one."""
    bart, eos = seq2seq("Bart"), byte_bpe("eos")
    bart.generation_config.forced_eos_token_id = None
    for model, tokenizer in ((causal["ours"], BPE), (bart, eos)):
        before = model.generation_config.to_dict()
        expected = write(model, tokenizer, [SHOTS, *QUERIES], max_new_tokens=6)
        own = {"repetition_penalty": 3.0, "no_repeat_ngram_size": 1, "min_length": 99, "forced_eos_token_id": 2}
        model.generation_config.update(**own)
        try:
            assert write(model, tokenizer, [SHOTS, *QUERIES], max_new_tokens=6) == expected
            assert {name: getattr(model.generation_config, name) for name in own} == own
        finally:
            model.generation_config = transformers.GenerationConfig.from_dict(before)


def test_an_encoder_decoder_reads_the_whole_prompt_before_it_writes():
    """The limit of a tokenizer is not the model's, and the end of a prompt is where the query stands."""
    model, tokenizer = seq2seq("T5"), byte_bpe("eos")
    expected = write(model, tokenizer, [SHOTS + query for query in QUERIES], max_new_tokens=8)
    tokenizer.model_max_length = 5
    assert write(model, tokenizer, [SHOTS + query for query in QUERIES], max_new_tokens=8) == expected
    assert len(set(expected)) > 1
    assert write(model, tokenizer, [SHOTS + query + " \n" for query in QUERIES], max_new_tokens=8) == expected
