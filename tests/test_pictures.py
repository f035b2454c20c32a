"""Pictures: what is drawn is what the model computed, and the files are whole."""

import xml.etree.ElementTree

import numpy as np
import pytest
import torch
from transformers import MarianConfig, MarianMTModel

from regard.evaluation.attention import attention_maps
from regard.evaluation.attention_pictures import plot_attention
from regard.evaluation.curves import plot_curves, plot_history
from regard.evaluation.induction import InductionMeasures, InductionProbe
from regard.evaluation.induction_pictures import plot_induction
from regard.evaluation.tokens import readable_tokens
from regard.modeling import TransformerConfig
from regard.modeling import TransformerForConditionalGeneration as Seq2Seq
from regard.train.tokenization import train_tokenizer

TURKISH = "Öğrenciler şarkıyı çığırdı."
TEXTS = ["The cat ate the mouse.", TURKISH, "Kedi fareyi yedi."]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(TEXTS * 4, "byte-bpe", 300, template="eos", max_length=64)


def model_of(kind, size):
    torch.manual_seed(0)
    if kind == "marian":
        config = MarianConfig(
            vocab_size=size, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16, init_std=0.3,
            pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1, forced_eos_token_id=None,
        )  # fmt: skip
        return MarianMTModel(config)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 16, "initializer_range": 0.3}
    return Seq2Seq(TransformerConfig(vocab_size=size, encoder_layers=1, decoder_layers=2, **sizes))


@pytest.mark.parametrize("kind", ["regard", "marian"])
def test_weights_are_those_of_the_model(kind, tokenizer):
    """Against the model's own forward pass, with the target shifted by hand."""
    model = model_of(kind, len(tokenizer)).train()
    before = model.config._attn_implementation
    found = attention_maps(model, tokenizer, TEXTS[0], TEXTS[2])
    assert model.training
    assert model.config._attn_implementation == before == "sdpa"

    source = tokenizer(TEXTS[0], return_tensors="pt").input_ids
    target = tokenizer(TEXTS[2]).input_ids
    model.eval().set_attn_implementation("eager")
    with torch.no_grad():
        shifted = torch.tensor([[1, *target[:-1]]])
        maps = model(input_ids=source, decoder_input_ids=shifted, output_attentions=True).cross_attentions
    mean, one = (found.choose(layer, head)[0][0, 0] for layer, head in (("mean", "mean"), (-1, 1)))
    torch.testing.assert_close(mean, sum(m[0].sum(0) for m in maps) / 4)
    torch.testing.assert_close(one, maps[1][0, 1])
    assert mean.shape == (len(target), source.shape[1]) == (len(found.queries), len(found.keys))
    torch.testing.assert_close(mean.sum(-1), torch.ones(len(target)))


def test_without_a_target_the_model_writes_one(tokenizer):
    model = model_of("regard", len(tokenizer))
    found = attention_maps(model, tokenizer, TEXTS[0])
    written = model.eval().generate(**tokenizer(TEXTS[0], return_tensors="pt"), num_beams=1, max_new_tokens=128)
    assert found.queries == readable_tokens(tokenizer, written[0, 1:].tolist())


def test_readable_tokens_of_bytes(tokenizer):
    """The labels, put together again, are the text; no byte-level sign is left."""
    labels = readable_tokens(tokenizer, tokenizer(TURKISH).input_ids)
    assert labels[-1] == "</s>"
    assert not set("".join(labels)) & set("ĠÃÅÄ±")
    words = "".join(label.removeprefix("-") if label.startswith("-") else " " + label for label in labels[:-1])
    assert words.strip().replace(" .", ".") == TURKISH
    half = tokenizer.convert_tokens_to_ids(["Å", "Ġ"])
    assert readable_tokens(tokenizer, half) == ["\\xc5", "␣"]


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [
        ("wordpiece", 60, ["the", "cat", "ate", "the", "mouse", "."]),
        ("word", 15, ["The", "cat", "ate", "the", "mouse", "."]),
        ("char", 31, ["T", "h", "e", "␣", "c", "a", "t"]),
    ],
)
def test_readable_tokens_of_other_kinds(kind, size, expected):
    tokenizer = train_tokenizer(TEXTS * 4, kind, size, lowercase=kind == "wordpiece", template="none")
    labels = readable_tokens(tokenizer, tokenizer(TEXTS[0]).input_ids)
    if kind == "wordpiece":
        joined = "".join(label.removeprefix("-") if label.startswith("-") else " " + label for label in labels)
        assert joined.split() == expected
        assert any(label.startswith("-") for label in labels)
    else:
        assert labels[: len(expected)] == expected


HISTORY = [
    {"step": 10, "loss": 3.0, "epoch": 0.5},
    {"step": 20, "loss": 2.0, "epoch": 1.0},
    {"step": 20, "eval_loss": 2.1, "epoch": 1.0},
    {"step": 40, "loss": 1.5, "epoch": 2.0},
    {"step": 40, "eval_loss": 1.8, "epoch": 2.0},
    {"step": 40, "train_runtime": 3.0, "epoch": 2.0},
]


@pytest.mark.parametrize("history", [HISTORY, HISTORY[:1], HISTORY[2:3]])
def test_loss_curve(history, tmp_path):
    path = plot_history(history, tmp_path / "new" / "loss.png", "a run")
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert [p.name for p in path.parent.iterdir()] == ["loss.png"]


def test_loss_curve_needs_losses(tmp_path):
    with pytest.raises(ValueError, match="no losses"):
        plot_history([{"step": 1, "learning_rate": 0.1}], tmp_path / "loss.png")
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        plot_history(HISTORY, tmp_path / "loss.jpg")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def figure_of(monkeypatch):
    """Gives the figure that a function of a module hands over to be saved."""

    def draw(module, call):
        found = []
        monkeypatch.setattr(f"regard.evaluation.{module}.save_figure", lambda figure, _: found.append(figure))
        call()
        return found[0]

    return draw


def test_a_curve_of_what_is_never_negative_begins_at_0(figure_of):
    """Matplotlib's margin would go below, of zeros alone to -0.055."""
    history = [
        {"step": step, "eval_loss": 0.0, "eval_exact_match_4": share, "eval_f1": 50 + share, "eval_mcc": share - 0.5}
        for step, share in ((1, 0.0), (2, 1.0))
    ]
    figure = figure_of("curves", lambda: plot_curves({"a": history}, "a.png"))
    loss, match, f1, correlation = (axes.get_ylim() for axes in figure.axes)
    assert loss == (0, 1)
    assert match == (0, pytest.approx(1.05))
    assert f1[0] > 49
    assert correlation[0] < -0.5
    assert all(not line.get_clip_on() for line in figure.axes[0].lines)  # else a point at 0 is cut in two
    figure = figure_of("curves", lambda: plot_history(history, "a.png"))
    assert figure.axes[0].get_ylim() == (0, 1)


def test_what_was_measured_after_so_many_examples_is_called_so(figure_of):
    names = ["exact_match", "exact_match_0", "exact_match_1", "all-or-any_4", "rouge2"]
    history = [{"step": 1} | {f"eval_{name}": 0.5 for name in names}]
    figure = figure_of("curves", lambda: plot_curves({"a": history}, "a.png"))
    assert {axes.get_title(loc="left") for axes in figure.axes} == {
        "validation exact match",
        "validation exact match after no examples",
        "validation exact match after 1 example",
        "validation all-or-any after 4 examples",
        "validation rouge2",
    }


@pytest.mark.parametrize(("heads", "others"), [(2, []), (4, ["the other 4 heads"])])
def test_every_head_of_induction_stands_in_the_legend(figure_of, heads, others):
    """Two layers; the four best heads have lines of their own, and the others share one entry."""
    probe = InductionProbe(torch.zeros(1, 41, dtype=torch.long), 20)
    scores = np.arange(2 * heads).reshape(2, heads) / 10
    measures = InductionMeasures(1.0, 0.5, scores, np.zeros((2, heads, 41, 41), dtype=np.float32))
    record = [{"step": step, "first": 1.0, "second": 0.5, "prefix_matching": scores.tolist()} for step in (0, 1)]
    tokens = ["<s>", *"abcdefghijklmnopqrst" * 2]
    figure = figure_of("induction_pictures", lambda: plot_induction(record, measures, probe, tokens, "a.png"))
    _, axes, drawn_map = figure.axes
    legend = [text.get_text() for text in axes.get_legend().get_texts()]
    assert legend[0] == f"layer 1, head {heads - 1}"
    assert legend[4:] == others
    assert axes.get_ylim() == (0, 1)  # a share of the attention
    figure.draw_without_rendering()
    ticks = drawn_map.get_xticklabels()
    boxes = [label.get_window_extent() for label in ticks]
    assert min(label.get_fontsize() for label in ticks) >= 6  # points, or "<s>" cannot be read
    assert all(one.x1 <= other.x0 for one, other in zip(boxes[:-1], boxes[1:], strict=True))


def test_attention_picture(tokenizer, tmp_path):
    model = model_of("regard", len(tokenizer))
    picture = plot_attention(model, tokenizer, TEXTS[0], TEXTS[2], tmp_path / "a.svg")
    assert xml.etree.ElementTree.parse(picture).getroot().tag.endswith("svg")
    picture = plot_attention(model, tokenizer, TEXTS[0], TURKISH, tmp_path / "a.png", layer=0, head=1)
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.png", "a.svg"]


def test_a_picture_that_fails_leaves_the_old_one(tokenizer, tmp_path, monkeypatch):
    path = plot_history(HISTORY, tmp_path / "loss.png")
    before = path.read_bytes()

    def fail(self, file, **kwargs):
        with open(file, "wb") as half:
            half.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plot_history(HISTORY, path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
