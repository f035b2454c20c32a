"""The worked examples of the lectures and the numbers of the papers, against the code that claims to follow them."""

import math

import pytest
import torch

from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerEncoderConfig,
    TransformerEncoderModel,
    TransformerForConditionalGeneration,
)
from regard.modeling.attention import dot_product_attention
from regard.modeling.positions import SinusoidalPositions, rotary_frequencies, rotate, sinusoidal_table

# Attention over the sequence A A B A, its keys and values one-hot.

A, B = [1.0, 0.0], [0.0, 1.0]
KEYS = torch.tensor([A, A, B, A])


def test_query_of_b_over_a_a_b_a():
    """With e taken as 3, exp(score) is 3^score: 1, 1, 3, 1, so B weighs as much as the three As together."""
    output, weights = dot_product_attention(torch.tensor([B]), KEYS, KEYS, scale=math.log(3))
    torch.testing.assert_close(weights, torch.tensor([[1 / 6, 1 / 6, 1 / 2, 1 / 6]]))
    torch.testing.assert_close(output, torch.tensor([[1 / 2, 1 / 2]]))


def test_query_of_b_with_e_itself():
    _, weights = dot_product_attention(torch.tensor([B]), KEYS, KEYS, scale=1.0)
    torch.testing.assert_close(weights, torch.tensor([[1.0, 1.0, math.e, 1.0]]) / (3 + math.e))


def test_longer_query_is_almost_one_hot():
    """A query of 10 multiplies the odds: 3^10 to 1 against each A."""
    output, weights = dot_product_attention(10 * torch.tensor([B]), KEYS, KEYS, scale=math.log(3))
    torch.testing.assert_close(weights, torch.tensor([[1.0, 1.0, 3.0**10, 1.0]]) / (3 + 3.0**10))
    assert weights[0, 2] > 0.9999
    torch.testing.assert_close(output, torch.tensor([B]), rtol=0, atol=1e-4)


def test_scale_keeps_the_variance_of_scores():
    """Section 3.2.1: the product of two vectors of K units of variance 1 has variance K; over √K it has 1."""
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 400, 64, generator=generator)
    scores = query @ key.T
    assert scores.var().item() == pytest.approx(64, rel=0.1)
    _, weights = dot_product_attention(query, key, key)
    torch.testing.assert_close(weights, torch.softmax(scores / 8, dim=-1))


# Rows that sum to one, order that does not matter.


def encoder(position: str, kernel: str = "eager") -> TransformerEncoderModel:
    torch.manual_seed(0)
    config = TransformerEncoderConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=32,
        position_embedding_type=position,
        attn_implementation=kernel,
    )
    return TransformerEncoderModel(config).eval()


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary", "none"])
def test_attention_weights_sum_to_one(position):
    ids = torch.randint(5, 30, (2, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[1] * 7, [1] * 4 + [0] * 3])
    for weights in encoder(position)(ids, mask, output_attentions=True).attentions:
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, 7))
        assert (weights >= 0).all()
        assert (weights[1, :, :, 4:] == 0).all()


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_without_positions_order_does_not_matter(kernel):
    """Self-attention is equivariant: permuted tokens give permuted vectors."""
    ids = torch.randint(5, 30, (1, 7), generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    model = encoder("none", kernel)
    with torch.no_grad():
        straight, permuted = model(ids).last_hidden_state, model(ids[:, order]).last_hidden_state
    torch.testing.assert_close(permuted, straight[:, order], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("position", ["sinusoidal", "learned", "rotary"])
def test_with_positions_order_matters(position):
    ids = torch.randint(5, 30, (1, 7), generator=torch.Generator().manual_seed(0))
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    model = encoder(position)
    with torch.no_grad():
        straight, permuted = model(ids).last_hidden_state, model(ids[:, order]).last_hidden_state
    assert (permuted - straight[:, order]).abs().max() > 1e-3


# Sinusoids.


def test_odd_width_by_hand():
    """sin and cos of 1, of 1 / 10000^(2/5), and the last sine, of 1 / 10000^(4/5), alone."""
    table = sinusoidal_table(2, 5)
    assert table[0].tolist() == [0, 1, 0, 1, 0]
    expected = torch.tensor([0.841471, 0.540302, 0.025116, 0.999685, 0.000631])
    torch.testing.assert_close(table[1], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [1, 2, 7, 64, 129])
def test_sinusoids_by_the_formula(width):
    table = sinusoidal_table(20, width, 100000)
    for position in (0, 1, 19):
        for unit in range(width):
            angle = position / 100000 ** ((unit - unit % 2) / width)
            wave = math.cos if unit % 2 else math.sin
            assert table[position, unit].item() == pytest.approx(wave(angle), abs=1e-6)


@pytest.mark.parametrize("base", [10000.0, 100000.0, 500.0])
@pytest.mark.parametrize("width", [2, 6, 64, 512])
def test_shift_is_a_rotation_that_depends_on_the_distance_alone(width, base):
    """P(k + Δ) = R(Δ) P(k), where R has a block [[cos, sin], [-sin, cos]] of Δ / base^(2i / width) for each pair."""
    table = sinusoidal_table(1000, width, base).double()
    pairs = table.view(1000, width // 2, 2)
    torch.testing.assert_close(pairs.square().sum(-1), torch.ones(1000, width // 2).double(), rtol=0, atol=1e-6)
    for distance in (1, 7, 300):
        angle = [distance / base ** (unit / width) for unit in range(0, width, 2)]
        blocks = [torch.tensor([[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]).double() for a in angle]
        rotation = torch.block_diag(*blocks)  # (D, D)
        torch.testing.assert_close(rotation @ rotation.T, torch.eye(width).double(), rtol=0, atol=1e-6)
        torch.testing.assert_close(table[distance:], table[:-distance] @ rotation.T, rtol=0, atol=1e-5)


@pytest.mark.parametrize("base", [10000.0, 100000.0])
def test_product_of_positions_depends_on_their_distance_alone(base):
    table = sinusoidal_table(200, 32, base)
    products = table @ table.T
    for distance in (0, 1, 40):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-4)


def test_longer_input_grows_the_table_and_changes_nothing_before_it():
    positions = SinusoidalPositions(16, 8, 10000.0)
    before = positions(torch.arange(16)[None])
    after = positions(torch.arange(40)[None])
    assert torch.equal(after[:, :16], before)
    assert torch.equal(after[0], sinusoidal_table(40, 8))


@pytest.mark.parametrize("base", [10000.0, 500000.0])
def test_rotary_scores_depend_on_the_distance_alone(base):
    """Su et al. (2021), equation 16: ⟨R(m) q, R(n) k⟩ = ⟨q, R(n - m) k⟩."""
    generator = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 8, dtype=torch.float64, generator=generator)

    def turned(states: torch.Tensor, position: int) -> torch.Tensor:
        angle = torch.cat([position * rotary_frequencies(8, base).double()] * 2)
        return rotate(states.view(1, 1, 1, 8), angle.cos(), angle.sin()).flatten()

    for first, second in ((0, 5), (7, 12), (95, 100)):
        score = turned(query, first) @ turned(key, second)
        torch.testing.assert_close(score, query @ turned(key, 5), rtol=0, atol=1e-9)


# Sizes, counted on models without memory.


def count(model: torch.nn.Module, without: tuple[str, ...] = ()) -> int:
    return sum(each.numel() for name, each in model.named_parameters() if not any(part in name for part in without))


def test_gpt3_has_the_weights_that_the_lectures_count():
    """96 layers, 12,288 wide, 96 heads of 128, a vocabulary of 50,257 and a feed-forward layer four times as wide.

    Counted are matrices: embedding and its inverse, queries, keys, values and output, up and down; neither biases nor
    norms nor positions. Part by part, as the lectures have it.
    """
    with torch.device("meta"):
        model = TransformerDecoderForCausalLM(
            TransformerDecoderConfig(
                vocab_size=50257,
                hidden_size=12288,
                num_hidden_layers=96,
                num_attention_heads=96,
                intermediate_size=4 * 12288,
                hidden_act="gelu",
                norm_position="pre",
                position_embedding_type="none",
                max_position_embeddings=2048,
                mlp_bias=False,
                tie_word_embeddings=False,
            )
        )
    assert model.config.head_dim == 128
    assert count(model, without=("norm",)) == 175_181_291_520

    embeddings = model.model.embeddings.embed_tokens.weight.numel()
    assert embeddings == model.lm_head.weight.numel() == 617_558_016
    attention = sum(layer.self_attn.qkv_proj.weight.numel() for layer in model.model.layers)
    assert attention == 3 * 14_495_514_624  # 12,288 · 128 · 96 heads · 96 layers, for queries, for keys, for values
    assert sum(layer.self_attn.out_proj.weight.numel() for layer in model.model.layers) == 14_495_514_624
    assert sum(layer.feed_forward.up_proj.weight.numel() for layer in model.model.layers) == 57_982_058_496
    assert sum(layer.feed_forward.down_proj.weight.numel() for layer in model.model.layers) == 57_982_058_496


@pytest.mark.parametrize(
    ("width", "heads", "inner", "millions"), [(512, 8, 2048, 65), (1024, 16, 4096, 213)], ids=["base", "big"]
)
def test_sizes_of_the_paper(width, heads, inner, millions):
    """Table 3 of "Attention Is All You Need": 65 and 213 million, with a shared vocabulary of "about 37,000" tokens.

    With 37,000 exactly it is 63.0 and 214.2 million, as near as that "about" allows.
    """
    with torch.device("meta"):
        model = TransformerForConditionalGeneration(
            TransformerConfig(vocab_size=37000, hidden_size=width, num_attention_heads=heads, intermediate_size=inner)
        )
    # Embeddings once; 6 encoder layers of 4 square matrices, 6 decoder layers of 8; equation 2; a norm a sub-layer.
    matrices = 6 * (4 + 8) * width**2 + 12 * (2 * width * inner + inner + width)
    norms = 6 * (2 + 3) * 2 * width
    assert model.lm_head.weight is model.model.encoder.embeddings.embed_tokens.weight
    assert count(model) == 37000 * width + matrices + norms
    assert count(model) / 1e6 == pytest.approx(millions, rel=0.035)
