"""`regard plot`: what is drawn is what was computed, and what cannot be drawn is said in one sentence."""

import html.parser
import json
import logging
import math
import shutil
import subprocess
import sys
import unicodedata
import warnings
import xml.etree.ElementTree

import numpy as np
import pytest
import sacrebleu
import torch
from sacremoses import MosesPunctNormalizer, MosesTokenizer
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model, LlamaConfig, LlamaModel
from typer.testing import CliRunner

from regard.cli import _is_wrong_call, app, main
from regard.evaluation.attention import AttentionMaps, attention_kinds, attention_maps
from regard.evaluation.attention_page import script_json, write_attention_page
from regard.evaluation.attention_pictures import draw_attention, plot_attention
from regard.evaluation.curves import BLEU_NAMES, plot_curves, plot_history, points
from regard.evaluation.drawing import check_format
from regard.evaluation.generation import translate
from regard.evaluation.lengths import TOO_SHORT, bleu_by_length, bucket_bounds, length_in_words, plot_lengths
from regard.evaluation.position_pictures import dot_products_by_distance, plot_positions, position_tables
from regard.evaluation.tokens import readable_tokens
from regard.model_cards.tables import METRIC_NAMES
from regard.modeling.configuration_transformer import TransformerConfigBase
from regard.modeling.positions import SinusoidalPositions, rotary_frequencies
from regard.train.records import write_json
from regard.train.run_pictures import (
    name_runs,
    plot_run_curves,
    plot_run_lengths,
    plot_run_positions,
    read_history,
)
from regard.train.tokenization import train_tokenizer

from .families import Entry, every, select

SENTENCES = ["die Kätzchen fraßen", "Öğle ışığı çok güzel", "die güzel </s> $x$ $y"]
ONE_OF_EACH = ["TransformerForConditionalGeneration", "TransformerDecoderForCausalLM", "TransformerEncoderForMaskedLM"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(SENTENCES * 4, "byte-bpe", 300, template="eos", max_length=32)


def entry_of(name: str, variant: str = "paper") -> Entry:
    (entry,) = [entry for entry in select(variant=variant) if entry.model_class.__name__ == name]
    return entry


def model_of(name: str, tokenizer, variant: str = "paper"):
    return entry_of(name, variant).model(vocab_size=len(tokenizer))


# --- attention -------------------------------------------------------------------------------------------------------


@every(model_class=tuple(e.model_class for e in select(variant="paper") if e.model_class.__name__ in ONE_OF_EACH))
def test_maps_are_the_models_own_cropped_to_real_tokens(entry, tokenizer):
    """Against the eager forward pass of a padded batch, of which the maps must be the real part."""
    model = entry.model(vocab_size=len(tokenizer)).train()
    before = model.config._attn_implementation
    source, target = SENTENCES[:2]
    padded = tokenizer([source, "die Kätzchen fraßen " * 3], padding=True, return_tensors="pt")
    real = int(padded.attention_mask[0].sum())
    assert real < padded.input_ids.shape[1]
    inputs = {name: padded[name] for name in ("input_ids", "attention_mask")}
    expected = {}
    labels = torch.tensor([tokenizer(target).input_ids])
    reference = entry.model(vocab_size=len(tokenizer))
    reference.set_attn_implementation("eager")
    if entry.kind == "seq2seq":
        inputs["labels"] = labels.expand(2, -1)
    with torch.no_grad():
        outputs = reference(**inputs, output_attentions=True)
    if entry.kind == "seq2seq":
        expected = {
            "cross": torch.stack(outputs.cross_attentions)[:, 0, :, :, :real],
            "encoder": torch.stack(outputs.encoder_attentions)[:, 0, :, :real, :real],
            "decoder": torch.stack(outputs.decoder_attentions)[:, 0],
        }
    else:
        expected = {entry.kind: torch.stack(outputs.attentions)[:, 0, :, :real, :real]}
    assert attention_kinds(model) == tuple(expected)

    for which, weights in expected.items():
        given = target if entry.kind == "seq2seq" and which != "encoder" else None
        maps = attention_maps(model, tokenizer, source, given, which)
        torch.testing.assert_close(maps.weights, weights)
        torch.testing.assert_close(maps.weights.sum(-1), torch.ones(maps.weights.shape[:-1]))
        assert (len(maps.queries), len(maps.keys)) == tuple(maps.weights.shape[2:])
        if which == "decoder":
            assert not maps.weights.triu(1).any()
            first = "<s>" if given else maps.keys[0]
            assert maps.keys == maps.queries
            assert maps.keys[0] == first
        if which == "cross":
            assert maps.queries == readable_tokens(tokenizer, labels[0].tolist())
    assert model.training
    assert model.config._attn_implementation == before != "eager"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("TransformerDecoderModel", "decoder"),
        ("TransformerDecoderForCausalLM", "decoder"),
        ("TransformerDecoderForSequenceClassification", "decoder"),
        ("TransformerEncoderModel", "encoder"),
        ("TransformerEncoderForSequenceClassification", "encoder"),
    ],
)
def test_a_model_of_a_repositorys_own_code_is_known_by_its_type(name, kind, tokenizer):
    """Its configuration is then of a class of another module. A decoder's maps have nothing above the diagonal."""
    entry = entry_of(name)
    config = entry.config(vocab_size=len(tokenizer))
    elsewhere = type("Elsewhere", (TransformerConfigBase,), {"model_type": config.model_type, "num_hidden_layers": 2})
    model = entry.model_class(elsewhere(**config.to_dict())).eval()
    assert not isinstance(model.config, type(config))
    maps = attention_maps(model, tokenizer, SENTENCES[0])
    assert attention_kinds(model) == (maps.which,) == (kind,)
    assert (kind == "encoder") == bool(maps.weights.triu(1).any())


SMALL = {"vocab_size": 300, "num_hidden_layers": 1, "num_attention_heads": 2, "hidden_size": 16}


@pytest.mark.parametrize(
    ("model_class", "config", "kind"),
    [
        (GPT2Model, GPT2Config(**SMALL), "decoder"),
        (LlamaModel, LlamaConfig(**SMALL, intermediate_size=16), "decoder"),
        (LlamaModel, LlamaConfig(**SMALL, intermediate_size=16, is_causal=False), "encoder"),
        (BertModel, BertConfig(**SMALL, intermediate_size=16), "encoder"),
        (BertModel, BertConfig(**SMALL, intermediate_size=16, is_decoder=True), "decoder"),
    ],
)
def test_other_models_are_called_what_their_maps_show(model_class, config, kind):
    model = model_class(config).eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        (weights,) = model(torch.arange(5)[None], output_attentions=True).attentions
    assert (kind == "encoder") == bool(weights.triu(1).any())
    assert attention_kinds(model) == (kind,)


@pytest.mark.parametrize("variant", ["paper", "bert"])
@pytest.mark.parametrize("longest", [None, 5, 200])
def test_what_is_written_is_what_translate_writes(variant, longest, tokenizer, caplog):
    """A source beyond the tokenizer's limit too, and in "bert" beyond what the learned positions let be written."""
    model = model_of(ONE_OF_EACH[0], tokenizer, variant)
    model.generation_config.max_new_tokens = longest
    model.generation_config.eos_token_id = None  # so that the length is the limit's
    source = "die Kätzchen fraßen " * 30
    (written,) = translate(model, tokenizer, [source], num_beams=1)
    maps = attention_maps(model, tokenizer, source)
    assert len(maps.keys) == tokenizer.model_max_length == 32
    assert "1 of 1 texts are longer than 32 tokens and were cut there" in caplog.text
    limit = model.config.max_position_embeddings if variant == "bert" else 200
    assert len(maps.queries) == min(longest or 128, limit)
    ids = model.generate(
        tokenizer(source, truncation=True, return_tensors="pt").input_ids,
        num_beams=1,
        max_new_tokens=len(maps.queries),
    )[0, 1:]
    assert maps.queries == readable_tokens(tokenizer, ids.tolist())
    assert tokenizer.decode(ids, skip_special_tokens=True) == written


def test_a_target_beyond_the_learned_positions_is_refused(tokenizer):
    model = model_of(ONE_OF_EACH[0], tokenizer, "bert")
    with pytest.raises(ValueError, match=r"target text has \d+ tokens, but the model has \d+ positions"):
        attention_maps(model, tokenizer, "die", "die Kätzchen fraßen " * 99)


@pytest.mark.parametrize(("layer", "head"), [("all", "all"), (1, "all"), ("all", -1), ("mean", "1"), (-1, "mean")])
def test_the_picture_draws_those_values(layer, head, tokenizer):
    """The images of the figure, in order, against the choice made by plain indexing."""
    model = model_of("TransformerForConditionalGeneration", tokenizer)
    maps = attention_maps(model, tokenizer, SENTENCES[1], SENTENCES[0], "cross")
    weights = maps.weights
    weights = weights.mean(0, keepdim=True) if layer == "mean" else weights if layer == "all" else weights[[layer]]
    if head == "mean":
        weights = weights.mean(1, keepdim=True)
    elif head != "all":
        weights = weights[:, [int(head)]]
    figure = draw_attention(maps, layer, head)
    drawn = figure.axes[: weights.shape[0] * weights.shape[1]]  # the scale of colours comes after them
    assert len(figure.axes) == len(drawn) + 1
    for axes, expected in zip(drawn, weights.flatten(0, 1), strict=True):
        np.testing.assert_allclose(axes.images[0].get_array(), expected, atol=1e-7)
        assert axes.images[0].get_clim() == (0, pytest.approx(float(weights.max())))
    assert [label.get_text() for label in drawn[0].get_xticklabels()] == maps.keys
    assert [label.get_text() for label in drawn[0].get_yticklabels()] == maps.queries
    names = [axes.get_xlabel() for axes in drawn]
    if (layer, head) == ("all", "all"):
        assert names == [f"layer {i}, head {j}" for i in range(3) for j in range(4)]


def texts_do_not_overlap(axes, renderer) -> bool:
    """Whether the labels along each axis keep apart."""
    for labels, turned in ((axes.get_xticklabels(), True), (axes.get_yticklabels(), False)):
        boxes = [label.get_window_extent(renderer) for label in labels]
        edges = sorted((box.x0, box.x1) if turned else (box.y0, box.y1) for box in boxes)
        if any(after[0] < before[1] for before, after in zip(edges, edges[1:], strict=False)):
            return False
    return True


def test_a_grid_of_long_sentences_is_legible(tokenizer):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    model = model_of("TransformerForConditionalGeneration", tokenizer)
    maps = attention_maps(model, tokenizer, "die Kätzchen fraßen " * 8, "Öğle ışığı çok güzel " * 8)
    assert min(len(maps.queries), len(maps.keys)) > 24
    figure = draw_attention(maps)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    labels = figure.axes[0].get_xticklabels() + figure.axes[0].get_yticklabels()
    assert min(label.get_fontsize() for label in labels) >= 7
    assert texts_do_not_overlap(figure.axes[0], renderer)


@pytest.mark.parametrize("choice", [{}, {"layer": "mean"}, {"head": "mean"}])
def test_captions_of_small_maps_keep_apart(choice, tokenizer):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    maps = attention_maps(model_of(ONE_OF_EACH[0], tokenizer), tokenizer, "x", "y")
    figure = draw_attention(maps, **choice)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    boxes = [axes.xaxis.label.get_window_extent(canvas.get_renderer()) for axes in figure.axes[:-1]]
    boxes.append(figure.axes[-1].get_tightbbox(canvas.get_renderer()))
    assert len(boxes) in (4, 5, 13)
    for i, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[i + 1 :])


def maps_of(queries: int, keys: int) -> AttentionMaps:
    weights = torch.rand(1, 1, queries, keys, generator=torch.Generator().manual_seed(0))
    names = [["t"] * number for number in (queries, keys)]
    return AttentionMaps("cross", weights / weights.sum(-1, keepdim=True), *names)


def test_a_single_map_takes_the_cells_of_a_sheet_before_it_is_refused():
    assert draw_attention(maps_of(400, 400)).axes[0].images[0].get_array().shape == (400, 400)
    with pytest.raises(ValueError, match="too large, with a map of up to 700 tokens a side: write an .html page"):
        draw_attention(maps_of(600, 700))


def test_a_picture_too_large_is_refused_before_it_is_drawn(tokenizer, tmp_path):
    model = model_of("TransformerForConditionalGeneration", tokenizer)
    tokenizer = train_tokenizer(SENTENCES * 4, "byte-bpe", 300, template="eos", max_length=1000)
    with pytest.raises(ValueError, match=r"too large, with 12 maps .*: choose a layer and a head, or write"):
        plot_attention(model, tokenizer, "ş" * 400, "ğ" * 400, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_text_is_shown_as_it_is_in_png_and_svg(tokenizer, tmp_path):
    """Dollar signs are no mathematics, Turkish and German letters are in the font; the same bytes every time."""
    model = model_of("TransformerForConditionalGeneration", tokenizer)
    for name in ("a.png", "a.svg"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(2):
                old = (tmp_path / name).read_bytes() if (tmp_path / name).exists() else None
                plot_attention(model, tokenizer, SENTENCES[2], SENTENCES[1], tmp_path / name, layer=0)
                assert old in (None, (tmp_path / name).read_bytes())
    xml.etree.ElementTree.parse(tmp_path / "a.svg")
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_characters_that_the_font_lacks_are_named_once(ending, tokenizer, tmp_path, caplog):
    model = model_of(ONE_OF_EACH[0], tokenizer)
    tokenizer = train_tokenizer(["猫 が 魚"] * 4, "word", 20, template="eos", max_length=32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_attention(model, tokenizer, "猫 が 魚 猫", "魚", tmp_path / f"a{ending}", layer=0, head=0)
        plot_attention(model, tokenizer, "猫 が 魚 猫", "魚", tmp_path / "a.html", layer=0, head=0)
    (record,) = [one for one in caplog.records if one.name == "regard.evaluation.drawing"]
    assert unicodedata.normalize("NFC", record.getMessage()) in [
        f"The font of pictures lacks {', '.join(order)}, and shows boxes instead; "
        "an .html page shows them in the fonts of the reader's browser."
        for order in (("猫", "が", "魚"), ("魚", "猫", "が"))
    ]
    assert record.levelno == logging.WARNING


class Page(html.parser.HTMLParser):
    """What a browser would find: the elements, what they load, and the scripts' text."""

    def __init__(self, text: str):
        super().__init__()
        self.names, self.loaded, self.scripts, self._script = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href", "action", "data", "srcset")]
        if tag == "script":
            self.scripts.append("")
            self._script = True

    def handle_endtag(self, tag):
        self._script = None

    def handle_data(self, data):
        if self._script:
            self.scripts[-1] += data


def test_the_page_is_self_contained_and_holds_the_weights(tokenizer, tmp_path):
    model = model_of("TransformerForConditionalGeneration", tokenizer)
    source = "die </script><img src=x onerror=alert(1)> & güzel"
    plot_attention(model, tokenizer, source, SENTENCES[1], tmp_path / "a.html", layer=-1, head=2)
    text = (tmp_path / "a.html").read_text("utf-8")
    page = Page(text)
    assert page.loaded == []
    assert "://" not in text
    assert "default-src 'none'" in text
    assert page.names.count("script") == 2
    assert "img" not in page.names
    assert "{{" not in text
    maps = attention_maps(model, tokenizer, source, SENTENCES[1])
    data = json.loads(page.scripts[0])
    assert (data["queries"], data["keys"]) == (maps.queries, maps.keys)
    assert data["first"] == {"layer": "2", "head": "2"}
    rounded = np.array(data["weights"]) / data["perUnit"]
    np.testing.assert_allclose(rounded, maps.weights, atol=0.5001 / data["perUnit"])


def test_json_in_a_script_cannot_leave_it():
    data = {"</script>": "<!-- & \u2028 ş"}
    text = script_json(data)
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == data


@pytest.mark.skipif(shutil.which("node") is None, reason="takes node, to read the page's script")
def test_the_script_of_the_page_can_be_read(tokenizer, tmp_path):
    plot_attention(model_of("TransformerDecoderForCausalLM", tokenizer), tokenizer, "die", None, tmp_path / "a.html")
    (tmp_path / "a.js").write_text(Page((tmp_path / "a.html").read_text("utf-8")).scripts[1], encoding="utf-8")
    result = subprocess.run(["node", "--check", tmp_path / "a.js"], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


BROWSER = """
class Node {
  constructor() { Object.assign(this, {style: {}, rows: [], cells: [], tBodies: []}); }
  append(...parts) { this.cells.push(...parts); }
  insertRow() { const row = new Node(); this.rows.push(row); return row; }
  insertCell() { const cell = new Node(); this.cells.push(cell); return cell; }
  createTHead() { this.tHead = new Node(); return this.tHead; }
  createTBody() { this.tBodies.push(new Node()); return this.tBodies[0]; }
  querySelectorAll() { return []; }
  addEventListener() {}
  replaceChildren() {}
}
const nodes = {data: {textContent: require("fs").readFileSync("data.json", "utf8")}};
const document = {getElementById: id => nodes[id] ??= new Node(), createElement: () => new Node()};
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="takes node, to run the page's script")
@pytest.mark.parametrize("size", [3, 400])
def test_the_script_of_the_page_paints_each_cell(size, tmp_path):
    """In a stand-in for a browser: the strongest weight is painted in full."""
    maps = maps_of(size, size)
    page = Page(write_attention_page(maps, tmp_path / "a.html", "a", "b", 0, 0).read_text("utf-8"))
    (tmp_path / "data.json").write_text(page.scripts[0], encoding="utf-8")
    told = "map.tBodies[0].rows.map(row => row.cells.slice(1).map(cell => cell.style.background))"
    tell = f"\nconsole.log(JSON.stringify({told}))"
    (tmp_path / "a.js").write_text(BROWSER + page.scripts[1].replace('"use strict";', "") + tell, encoding="utf-8")
    result = subprocess.run(["node", "a.js"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    shades = [[float(cell.split(",")[-1].rstrip(" )")) for cell in row] for row in json.loads(result.stdout)]
    rounded = (maps.weights[0, 0] * 10_000).round()
    np.testing.assert_allclose(shades, 0.03 + 0.97 * rounded / rounded.max(), atol=0.00051)


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        (ONE_OF_EACH[1], {"which": "cross"}, "has no cross attention: it has no attention but its decoder"),
        (ONE_OF_EACH[2], {"which": "decoder"}, "has no decoder attention: it has no attention but its encoder"),
        (ONE_OF_EACH[0], {"which": "self"}, "which='self' is no kind of attention"),
        (ONE_OF_EACH[0], {"layer": 3}, "layer=3 is not there: the model has 3 of them, from 0 to 2"),
        (ONE_OF_EACH[0], {"head": -5}, "head=-5 is not there: the model has 4"),
        (ONE_OF_EACH[0], {"head": "some"}, "head='some' must be a whole number, 'all' or 'mean'"),
        (ONE_OF_EACH[0], {"layer": 1.7}, "layer=1.7 must be a whole number"),
        (ONE_OF_EACH[0], {"layer": "1.7"}, "layer='1.7' must be a whole number"),
        (ONE_OF_EACH[0], {"head": None}, "head=None must be a whole number"),
        (ONE_OF_EACH[0], {"source": " "}, "source text ' ' has no tokens"),
        (ONE_OF_EACH[0], {"target": ""}, "target text '' has no tokens"),
        (ONE_OF_EACH[1], {"target": "die"}, "target text goes with"),
        (ONE_OF_EACH[0], {"path": "a.gif"}, r"must end in \.png, \.svg or \.html"),
        ("TransformerModel", {}, "does not write: give the target text"),
    ],
)
@pytest.mark.parametrize("ending", [".png", ".html"])
def test_attention_that_cannot_be_drawn(name, arguments, sentence, ending, tokenizer, tmp_path):
    model = model_of(name, tokenizer)
    given = {"source": "die", "path": f"a{ending}"} | arguments
    with pytest.raises(ValueError, match=sentence) as caught:
        plot_attention(model, tokenizer, **given | {"path": tmp_path / given["path"]})
    assert _is_wrong_call(caught.value)
    assert list(tmp_path.iterdir()) == []


# --- curves ----------------------------------------------------------------------------------------------------------

HISTORY = [
    {"step": 10, "loss": 3.0, "epoch": 0.5, "tokens": 100, "seconds": 5.0},
    {"step": 20, "loss": 2.0, "epoch": 1.0, "tokens": 300, "seconds": 15.0},
    {
        "step": 20,
        "eval_loss": 2.1,
        "eval_perplexity": 8.2,
        "eval_f1": 1.0,
        "eval_runtime": 3.0,
        "epoch": 1.0,
    },
    {"step": 30, "eval_loss": 1.9, "eval_f1": 9.5, "eval_f1_signature": "x", "epoch": 1.5},
    {"step": 40, "loss": 1.5, "epoch": 2.0, "tokens": 500, "seconds": 35.0},
]


def test_where_the_points_of_a_curve_stand():
    """Validation rows say no tokens: by hand, half-way between 300 and 500 at step 30."""
    assert [list(v) for v in points(HISTORY, "eval_loss", "tokens")] == [[300.0, 400.0], [2.1, 1.9]]
    assert [list(v) for v in points(HISTORY, "eval_f1", "seconds")] == [[15.0, 25.0], [1.0, 9.5]]
    assert [list(v) for v in points(HISTORY, "loss", "epoch")] == [[0.5, 1.0, 2.0], [3.0, 2.0, 1.5]]
    early = [{"step": 4, "eval_loss": 1.0}, {"step": 8, "loss": 1.0, "tokens": 80}]
    assert list(points(early, "eval_loss", "tokens")[0]) == [40]


def drawn_figure(monkeypatch, module, call):
    """The figure that a function hands over to be saved."""
    kept = []
    monkeypatch.setattr(f"regard.evaluation.{module}.save_figure", lambda figure, path: kept.append(figure) or path)
    call()
    return kept[0]


def test_one_panel_a_quantity_and_one_line_a_run(monkeypatch):
    histories = {"_first": HISTORY, "$second$": HISTORY[:2]}
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_curves(histories, "a.png", x="tokens"))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == [
        "training loss (nats per target, as trained)",
        "validation loss (nats per target)",
        "validation F1",
    ]
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert legends == [
        ["_first  last 1.5", "$second$  last 2"],
        ["_first  best 1.9 after 400 tokens"],
        ["_first  best 9.5 after 400 tokens"],
    ]
    (line,) = figure.axes[2].lines
    assert line.get_xydata().tolist() == [[300, 1], [400, 9.5]]


@pytest.mark.parametrize(
    ("histories", "settings", "sentence"),
    [
        ({"a": HISTORY}, {"x": "hours"}, "x axis 'hours' is not one of step, epoch, tokens, seconds"),
        ({"a": HISTORY}, {"quantities": ["eval_chrf"]}, "quantity 'eval_chrf': there are loss, eval_loss, eval_f1"),
        ({"a": [{"step": 1, "lr": 1}]}, {}, "'a' holds nothing to draw"),
        ({"a": [{"step": 1, "loss": 1.0}]}, {"x": "tokens"}, "'a' cannot be drawn by tokens: no row"),
        ({}, {}, "nothing to draw: give the history of at least one run"),
        ({"a": HISTORY}, {"quantities": []}, "no quantity to draw: choose among loss, eval_loss, eval_f1"),
        ({"a": HISTORY, "b": HISTORY[:2]}, {"quantities": ["eval_f1"]}, "'b' has no eval_f1 to draw: it has loss"),
    ],
)
def test_curves_that_cannot_be_drawn(histories, settings, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        plot_curves(histories, tmp_path / "a.png", **settings)
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        plot_curves(histories, tmp_path / "a.html", **settings)
    assert list(tmp_path.iterdir()) == []


def test_a_perplexity_is_drawn_where_it_is_all_there_is(monkeypatch):
    only = [{"step": 1, "eval_perplexity": 9.0}, {"step": 2, "eval_perplexity": 8.0}]
    for histories in ({"a": only}, {"a": only, "b": HISTORY}):
        figure = drawn_figure(monkeypatch, "curves", lambda given=histories: plot_curves(given, "a.png"))
        titles = [axes.get_title(loc="left") for axes in figure.axes]
        assert "validation perplexity" in titles
        legend = figure.axes[titles.index("validation perplexity")].get_legend().get_texts()
        assert legend[0].get_text() == "a  best 8 at step 2"


def test_what_is_no_number_is_never_the_best(monkeypatch):
    rows = [(1, 2.0, 5.0), (2, math.nan, math.nan), (3, 1.5, 7.0), (4, 1.8, 6.0)]
    history = [{"step": step, "eval_loss": loss, "eval_f1": f1} for step, loss, f1 in rows]
    nowhere = [{"step": 1, "eval_loss": math.nan}]
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_curves({"a": history, "b": nowhere}, "a.png"))
    legends = [[text.get_text() for text in axes.get_legend().get_texts()] for axes in figure.axes]
    assert legends == [["a  best 1.5 at step 3", "b  never a number"], ["a  best 7 at step 3"]]
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_history(history, "a.png"))
    assert [text.get_text() for text in figure.axes[0].texts] == ["1.500"]
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_history(nowhere, "a.png"))
    assert len(figure.axes[0].texts) == 0


def test_a_single_step_has_one_tick_of_its_own(monkeypatch):
    history = [{"step": 4, "loss": 2.0}, {"step": 4, "eval_loss": 2.1}]
    axes = drawn_figure(monkeypatch, "curves", lambda: plot_history(history, "a.png")).axes[0]
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [3, 4, 5]


@pytest.mark.parametrize("metric", ["loss", "perplexity", "word_error_rate", "phone_error_rate", "accuracy"])
def test_which_is_best(metric, monkeypatch):
    history = [{"step": step, f"eval_{metric}": value} for step, value in ((1, 2.0), (2, 3.0), (3, 1.0))]
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_curves({"a": history}, "a.png"))
    best = "3 at step 2" if metric == "accuracy" else "1 at step 3"
    assert figure.axes[0].get_legend().get_texts()[0].get_text() == f"a  best {best}"


def test_the_log_that_goes_further_is_read(tmp_path):
    """A finished run that trains longer: history.json is the old one until the end."""
    write_json(tmp_path / "history.json", [{"step": 10, "loss": 2.0}, {"step": 10, "train_runtime": 1.0}])
    state = tmp_path / "checkpoint-10" / "trainer_state.json"
    write_json(state, {"log_history": [{"step": 10, "loss": 2.0}]})
    assert read_history(tmp_path)[-1] == {"step": 10, "train_runtime": 1.0}
    longer = [{"step": 10, "loss": 2.0}, {"step": 20, "loss": 1.0}]
    write_json(tmp_path / "checkpoint-20" / "trainer_state.json", {"log_history": longer})
    assert read_history(tmp_path) == longer
    (tmp_path / "history.json").unlink()
    assert read_history(tmp_path) == longer


WORD2VEC = [
    {"step": 10, "epoch": 0.5, "loss": 4.0, "words": 1000, "words_per_second": 9.0, "seconds": 1.0},
    {"step": 20, "epoch": 1.0, "loss": 3.0, "words": 2000, "words_per_second": 9.0, "seconds": 2.0, "epoch_loss": 3.5},
]
GLOVE = [{"epoch": i, "loss": 1 / i, "pairs": 50, "pairs_per_second": 9.0, "seconds": float(i)} for i in (1, 2, 3)]


def test_runs_of_word_vectors_have_curves(tmp_path, monkeypatch):
    """Their checkpoints call the log otherwise, and GloVe's counts passes alone."""
    skipgram, glove = tmp_path / "skipgram", tmp_path / "glove"
    for folder, history, step in ((skipgram, WORD2VEC, 20), (glove, GLOVE, 3)):
        checkpoint = folder / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        write_json(checkpoint / "trainer_state.json", {"step": step, "history": history, "numbers": 5})
        half_way = read_history(folder)
        write_json(folder / "history.json", history)
        assert read_history(folder) == half_way
    assert [row["step"] for row in read_history(glove)] == [1, 2, 3]
    assert [row["tokens"] for row in read_history(skipgram)] == [1000, 2000]
    assert plot_run_curves([skipgram, glove], tmp_path / "both.png").is_file()
    assert plot_run_curves([skipgram], tmp_path / "tokens.png", x="tokens").is_file()
    with pytest.raises(ValueError, match="'glove' cannot be drawn by tokens"):
        plot_run_curves([glove], tmp_path / "glove.png", x="tokens")


def test_a_loss_is_called_what_it_is(monkeypatch):
    """GloVe's is no likelihood, and word2vec's is of a pair."""
    skipgram, glove = WORD2VEC, [{"step": row["epoch"], **row} for row in GLOVE]
    for history, unit, axis in (
        (skipgram, "nats per pair", "step"),
        (glove, "weighted squared error per pair", "epoch"),
        (HISTORY, "nats per target", "step"),
    ):
        figure = drawn_figure(monkeypatch, "curves", lambda given=history: plot_history(given, "a.png"))
        assert figure.axes[0].get_ylabel() == f"loss ({unit})"
        assert figure.axes[0].get_xlabel() == axis
        figure = drawn_figure(monkeypatch, "curves", lambda given=history: plot_curves({"a": given}, "a.png"))
        assert figure.axes[0].get_title(loc="left") == f"training loss ({unit}, as trained)"
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_curves({"a": skipgram, "b": glove}, "a.png"))
    assert figure.axes[0].get_title(loc="left") == "training loss (each in a unit of its own)"
    legend = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert legend == ["a  last 3 (nats per pair)", "b  last 0.3333 (weighted squared error per pair)"]


@pytest.mark.parametrize("content", ["[{", "\udcff", "3", "{}", "[1]", '[{"loss": 1}]', '[{"step": null}]'])
@pytest.mark.parametrize("name", ["history.json", "checkpoint-3/trainer_state.json"])
def test_a_broken_log_is_named(content, name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ValueError, match=f"'{path}' cannot be read") as caught:
        plot_run_curves([tmp_path], tmp_path / "a.png")
    assert _is_wrong_call(caught.value)


def test_a_link_is_called_by_its_own_name(tmp_path):
    run = tmp_path / "demo-17"
    write_json(run / "history.json", HISTORY)
    (tmp_path / "best").symlink_to(run)
    (tmp_path / "other" / "deep").mkdir(parents=True)
    assert name_runs([tmp_path / "best"]) == {"best": tmp_path / "best"}
    with pytest.raises(ValueError, match=f"'{tmp_path / 'best'}' is given more than once"):
        name_runs([tmp_path / "best", run])
    (tmp_path / "way").symlink_to(tmp_path / "other" / "deep")
    named = name_runs([tmp_path / "demo-17", tmp_path / "way" / ".." / "demo-17"])  # the second is in `other`
    assert list(named) == [f"{tmp_path.name}/demo-17", "other/demo-17"]


def test_paths_in_errors_are_those_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (plot_run_curves, plot_run_lengths):
        with pytest.raises(ValueError, match=r"in 'runs/nothing'"):
            call(["runs/nothing"], "a.png")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("", "has no name: give a file that ends in .png or .svg"),
        ("folder.png", "is a folder: give a file in it"),
        (".", "is a folder"),
        ("file/a.png", "cannot be written: '.*file' is a file, not a folder"),
        ("file/b/a.svg", "cannot be written: '.*file' is a file, not a folder"),
        (".png", "must end in .png or .svg, after a name"),
        ("a.pdf", "must end in .png or .svg"),
    ],
)
def test_files_that_no_picture_can_be_written_to(name, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "folder.png").mkdir()
    for call in (check_format, lambda path: plot_run_curves(["nothing"], path), lambda path: plot_positions([], path)):
        with pytest.raises(ValueError, match=sentence):
            call(name)
    assert check_format("new/folder/a.PNG") == ".png"

    def refuse(**_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    with pytest.raises(ValueError, match=r"^The picture 'a.png' cannot be written: nothing can .* \(Read-only file"):
        check_format("a.png")


def test_runs_of_one_name_are_told_apart(tmp_path):
    runs = [tmp_path / "a" / "demo", tmp_path / "b" / "demo"]
    assert list(name_runs(runs)) == ["a/demo", "b/demo"]
    assert list(name_runs(runs[:1])) == ["demo"]
    with pytest.raises(ValueError, match="more than once"):
        name_runs([runs[0], tmp_path / "b" / ".." / "a" / "demo"])


# --- lengths ---------------------------------------------------------------------------------------------------------


def test_bleu_of_each_bucket_is_sacrebleus_own():
    generator = torch.Generator().manual_seed(0)
    words = ["the", "cat", "dog", "sat", "ran", "on", "a", "mat"]

    def sentence(number: int) -> list[str]:
        return [words[i] for i in torch.randint(len(words), (number,), generator=generator).tolist()]

    targets = [sentence(n) for n in range(1, 13) for _ in range(6)]
    sources = [" ".join(target) for target in targets]
    predictions = [" ".join([*target[:-2], "cat", "cat"]) for target in targets]
    buckets = bleu_by_length(sources, predictions, sources, width=5)
    assert [(b.name, b.sentences) for b in buckets] == [("1–5", 30), ("6–10", 30), ("11–15", 12)]
    for bucket in buckets:
        rows = [i for i, source in enumerate(sources) if bucket.shortest <= len(source.split()) <= bucket.longest]
        expected = sacrebleu.corpus_bleu([predictions[i] for i in rows], [[sources[i] for i in rows]]).score
        assert bucket.bleu == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("lengths", [[3], [1, 2, 3] * 9, list(range(1, 200)), [5] * 99 + [900], [7, 7, 7]])
@pytest.mark.parametrize("width", [None, 1, 4])
def test_each_sentence_is_in_one_bucket(lengths, width):
    bounds = bucket_bounds(lengths, width)
    for length in lengths:
        assert sum(low <= length and (high is None or length <= high) for low, high in bounds) == 1
    assert [low for low, _ in bounds[1:]] == [high + 1 for _, high in bounds[:-1]]
    assert width is not None or len(bounds) <= 9
    assert length_in_words("") == length_in_words(" a ") == 1


def test_translations_too_short_for_a_4_gram_have_no_bleu(monkeypatch):
    """sacrebleu's own is 0 there, however right they are; "a b c." has four tokens, since it parts the full stop."""
    texts = ["a b c", "a", "a b c d e f"]
    buckets = bleu_by_length(texts, texts, texts, width=3)
    assert sacrebleu.corpus_bleu(texts[:2], [texts[:2]]).score == 0
    assert [(bucket.sentences, bucket.bleu) for bucket in buckets] == [(2, None), (1, pytest.approx(100))]
    assert bleu_by_length(["a b c"], ["a b c."], ["a b c."], width=3)[0].bleu == pytest.approx(100)
    results = {"one": buckets, "two": bleu_by_length(texts, [f"{text}." for text in texts], texts, width=3)}
    figure = drawn_figure(monkeypatch, "lengths", lambda: plot_lengths(results, "a.png", "$split$"))
    assert [text.get_text() for text in figure.axes[0].texts].count(TOO_SHORT) == 1
    for nothing in ({}, {"one": []}):
        with pytest.raises(ValueError, match="nothing to draw: give the buckets"):
            plot_lengths(nothing, "a.png")


def moses_tokens(texts, language):
    """By sacremoses' own classes: the three steps of Multi30k's script."""
    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    return [tokenizer.tokenize(normalizer.normalize(t.lower()), return_str=True, escape=False) for t in texts]


def moses_bleu(predictions, references, language):
    """By hand, with one reference each."""
    texts = [moses_tokens(several, language) for several in (predictions, references)]
    return sacrebleu.corpus_bleu(texts[0], [texts[1]], lowercase=True, tokenize="none", force=True).score


def test_bleu_of_lower_cased_moses_tokens_by_length(monkeypatch):
    """Against sacremoses and sacrebleu by hand, on texts in which case and tokens matter."""
    targets = [
        "Ein Mann z.B. läuft.",
        "Zwei Hunde rennen im Schnee, d.h. sie spielen.",
        "Das T-Shirt ist rot z.B.",
    ] * 2
    predictions = ["ein mann z.B. geht.", "zwei hunde spielen im schnee, d.h. sie rennen.", "das t-shirt ist rot."] * 2
    buckets = bleu_by_length(targets, predictions, targets, 5, "bleu_moses_lowercase", "de")
    assert [(b.name, b.sentences, b.metric) for b in buckets] == [
        ("1–5", 4, "bleu_moses_lowercase"),
        ("6–10", 2, "bleu_moses_lowercase"),
    ]
    cased = bleu_by_length(targets, predictions, targets, 5)
    for rows, bucket, other in zip(([0, 2, 3, 5], [1, 4]), buckets, cased, strict=True):
        expected = moses_bleu([predictions[i] for i in rows], [targets[i] for i in rows], "de")
        assert bucket.bleu == pytest.approx(expected, abs=1e-9)
        assert abs(bucket.bleu - other.bleu) > 1
    figure = drawn_figure(monkeypatch, "lengths", lambda: plot_lengths({"one": buckets}, "a.png"))
    assert figure.axes[0].get_ylabel() == "BLEU (Moses tokens, lower-cased)"
    figure = drawn_figure(monkeypatch, "lengths", lambda: plot_lengths({"one": cased}, "a.png"))
    assert figure.axes[0].get_ylabel() == "BLEU"
    with pytest.raises(ValueError, match="'one' and 'two' count BLEU differently, by bleu_moses_lowercase and bleu:"):
        plot_lengths({"one": buckets, "two": cased}, "a.png")
    with pytest.raises(ValueError, match="by the rules of a language: give it"):
        bleu_by_length(targets, predictions, targets, metric="bleu_moses_lowercase")
    with pytest.raises(ValueError, match="metric='chrf' is no BLEU: there are bleu and bleu_moses_lowercase"):
        bleu_by_length(targets, predictions, targets, metric="chrf")


@pytest.mark.parametrize(
    ("text", "language", "cased", "moses"),
    [("z.B. ist a", "de", 100, None), ("it's nice now", "en", None, 100), ("a b c", "en", None, None)],
)
def test_too_short_is_by_the_tokens_of_the_metric(text, language, cased, moses):
    """By sacrebleu's own rules "z.B." is four tokens and "it's" one; by Moses' it is one and two."""
    for metric, expected in (("bleu", cased), ("bleu_moses_lowercase", moses)):
        (bucket,) = bleu_by_length([text], [text], [text], 10, metric=metric, language=language)
        assert bucket.bleu == (None if expected is None else pytest.approx(expected))
    assert sacrebleu.corpus_bleu([text], [[text]]).score == pytest.approx(cased or 0)
    assert moses_bleu([text], [text], language) == pytest.approx(moses or 0)


def test_a_bleu_is_called_as_on_the_card():
    assert {name: METRIC_NAMES[name] for name in METRIC_NAMES if name.startswith("bleu")} == BLEU_NAMES


def test_runs_of_different_sentences_are_not_compared(tmp_path):
    texts = ["a b c d e", "a b"]
    one, other = bleu_by_length(texts, texts, texts), bleu_by_length(texts[:1], texts[:1], texts[:1])
    assert plot_lengths({"one": one, "two": one}, tmp_path / "a.svg", "test").is_file()
    with pytest.raises(ValueError, match="'one' and 'two' translate different sentences"):
        plot_lengths({"one": one, "two": other}, tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()


def model_that_writes_words(tokenizer):
    """Random weights, but no special token is ever written."""
    model = model_of(ONE_OF_EACH[0], tokenizer)
    model.generation_config.suppress_tokens = tokenizer.all_special_ids
    return model


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A translation run of a tiny model with random weights, and its test set."""
    tokenizer = train_tokenizer(SENTENCES * 4, "word", 20, template="eos", max_length=32)
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    for part in (model_that_writes_words(tokenizer), tokenizer):
        part.save_pretrained(folder)
    rows = [{"source": s, "target": t} for s, t in zip(SENTENCES, reversed(SENTENCES), strict=True)] * 2
    for name in ("train", "test"):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    recipe = {
        "name": "tiny",
        "task": "translation",
        "model": {"type": "transformer", "hidden_size": 16, "position_embedding_type": "sinusoidal"},
        "data": {"train": str(folder / "train.jsonl"), "test": {"mine": str(folder / "test.jsonl")}},
        "evaluation": {"metrics": ["bleu"], "num_beams": 2, "max_new_tokens": 20},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")  # JSON is YAML
    write_json(folder / "history.json", HISTORY)
    return folder


def copy_of(run, folder, metrics=("bleu",), **data):
    """The run with other data and metrics."""
    shutil.copytree(run, folder)
    recipe = json.loads((run / "recipe.yaml").read_text("utf-8"))
    recipe["data"] |= data
    recipe["evaluation"]["metrics"] = list(metrics)
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")
    return folder


def test_runs_of_other_sentences_are_refused_before_any_is_translated(run, tmp_path, monkeypatch):
    """As many sentences of the same lengths, so that the buckets are the same."""
    other = tmp_path / "test.jsonl"
    other.write_text((run / "test.jsonl").read_text("utf-8").replace("die", "das"), encoding="utf-8")
    second = copy_of(run, tmp_path / "second", test={"mine": str(other)})
    monkeypatch.setattr("regard.train.run_pictures.translate", lambda *_, **__: pytest.fail("translated"))
    with pytest.raises(ValueError, match=f"'{run}' and '{second}' translate different sentences"):
        plot_run_lengths([run, second], tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_bleu_of_checkpoints_is_that_of_the_greedy_translations(run, tmp_path, monkeypatch):
    """Two checkpoints that write other words, against `evaluate_run` with each as a run of its own."""
    from regard import evaluate_run, load_run

    _, tokenizer = load_run(run)
    validation = tmp_path / "validation.jsonl"
    rows = [{"source": source, "target": " ".join(SENTENCES)} for source in SENTENCES]
    validation.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    folder = copy_of(run, tmp_path / "trained", validation=str(validation))
    expected = []
    for step, word in ((20, "x"), (40, "die")):  # of the references each has one, or two
        alone = copy_of(folder, tmp_path / f"alone-{step}", validation=str(validation))
        model = model_that_writes_words(tokenizer)
        model.generation_config.suppress_tokens = [i for w, i in tokenizer.get_vocab().items() if w != word]
        for part in (model, tokenizer):
            part.save_pretrained(alone)
            part.save_pretrained(folder / f"checkpoint-{step}")
        write_json(folder / f"checkpoint-{step}" / "trainer_state.json", {"log_history": HISTORY[:2]})
        expected.append([step, evaluate_run(alone, "validation", num_beams=1)["validation"]["bleu"]])
    assert 0 < expected[0][1] != expected[1][1] > 0
    widths = []

    def recorded(*words, **settings):
        widths.append(settings["num_beams"])
        return translate(*words, **settings)

    monkeypatch.setattr("regard.train.run_pictures.translate", recorded)
    given = {"quantities": ["loss", "bleu"]}
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_run_curves([folder], tmp_path / "a.png", **given))
    assert figure.axes[1].get_title(loc="left") == "validation BLEU, greedy"
    assert figure.axes[1].lines[0].get_xydata().tolist() == expected
    assert widths == [1, 1]
    figure = drawn_figure(
        monkeypatch, "curves", lambda: plot_run_curves([folder], tmp_path / "a.png", x="tokens", quantities=["bleu"])
    )
    assert figure.axes[0].lines[0].get_xdata().tolist() == [300, 500]

    with pytest.raises(ValueError, match=f"'{run}' has no validation split, on which its BLEU"):
        plot_run_curves([folder, run], tmp_path / "a.png", quantities=["bleu"])
    bare = copy_of(run, tmp_path / "bare", validation=str(validation))
    with pytest.raises(ValueError, match=f"'{bare}' has kept no checkpoint"):
        plot_run_curves([folder, bare], tmp_path / "a.png", quantities=["bleu"])


@pytest.fixture
def lower_run(run, tmp_path):
    """A run that writes lower case alone, and counts BLEU accordingly, of capitalised references."""
    rows = [
        {"source": source, "target": source.replace("die", "Die").replace("güzel", "Güzel")} for source in SENTENCES
    ]
    rows = [row | {"target": f"{row['target']} {' '.join(SENTENCES).title()}"} for row in rows]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(text, encoding="utf-8")
    data = {"validation": str(tmp_path / "rows.jsonl"), "test": {"mine": str(tmp_path / "rows.jsonl")}}
    metrics = ["chrf", "bleu_moses_lowercase", "bleu"]
    folder = copy_of(run, tmp_path / "lower", metrics, **data, target_language="de")
    checkpoint = folder / "checkpoint-20"
    checkpoint.mkdir()
    for path in run.iterdir():
        if path.name not in ("recipe.yaml", "history.json"):
            shutil.copy(path, checkpoint)
    write_json(checkpoint / "trainer_state.json", {"log_history": HISTORY[:2]})
    return folder


def test_a_run_is_drawn_by_its_own_bleu(run, lower_run, tmp_path, monkeypatch):
    from regard import load_run, translate

    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text("utf-8").splitlines()]
    sources, targets = ([row[role] for row in rows] for role in ("source", "target"))
    model, tokenizer = load_run(run)
    written = {beams: translate(model, tokenizer, sources, num_beams=beams, max_new_tokens=20) for beams in (1, 2)}
    (bucket,) = plot_run_lengths([lower_run], tmp_path / "a.png", width=100)["lower"]
    expected = moses_bleu(written[2], targets, "de")
    assert (bucket.metric, bucket.bleu) == ("bleu_moses_lowercase", pytest.approx(expected, abs=1e-9))
    assert abs(sacrebleu.corpus_bleu(written[2], [targets]).score - expected) > 0.1

    given = {"quantities": ["bleu"]}
    figure = drawn_figure(monkeypatch, "curves", lambda: plot_run_curves([lower_run], tmp_path / "a.png", **given))
    assert figure.axes[0].get_title(loc="left") == "validation BLEU (Moses tokens, lower-cased), greedy"
    (points_drawn,) = figure.axes[0].lines[0].get_xydata().tolist()
    assert points_drawn == [20, pytest.approx(moses_bleu(written[1], targets, "de"), abs=1e-9)]


@pytest.mark.parametrize(
    ("metrics", "language", "sentence"),
    [
        (["bleu", "bleu_moses_lowercase"], "de", "by bleu_moses_lowercase de and bleu: draw them apart"),
        (["chrf"], "de", "by bleu_moses_lowercase de and bleu: draw them apart"),
        (["bleu_moses_lowercase"], "en", "by bleu_moses_lowercase de and bleu_moses_lowercase en: draw them apart"),
    ],
)
def test_runs_that_count_bleu_differently_are_refused(metrics, language, sentence, lower_run, tmp_path, monkeypatch):
    """Before any is translated."""
    other = copy_of(lower_run, tmp_path / "other", metrics, target_language=language)
    monkeypatch.setattr("regard.train.run_pictures.translate", lambda *_, **__: pytest.fail("translated"))
    said = f"'{lower_run}' and '{other}' count BLEU differently, {sentence}"
    with pytest.raises(ValueError, match=said) as caught:
        plot_run_lengths([lower_run, other], tmp_path / "a.png")
    assert _is_wrong_call(caught.value)
    with pytest.raises(ValueError, match=said):
        plot_run_curves([lower_run, other], tmp_path / "a.png", quantities=["bleu"])
    assert not (tmp_path / "a.png").exists()


def test_positions_of_a_run_take_its_weights_only_where_they_are_learned(run, tokenizer, tmp_path, monkeypatch):
    learned = tmp_path / "learned"
    for part in (model_of(ONE_OF_EACH[0], tokenizer, "bert"), tokenizer):
        part.save_pretrained(learned)
    bare = tmp_path / "bare"
    bare.mkdir()
    shutil.copy(run / "config.json", bare)
    for folder in (learned, bare):
        assert plot_run_positions(folder, tmp_path / f"{folder.name}.png").is_file()
    (learned / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot be loaded"):
        plot_run_positions(learned, tmp_path / "a.png")
    with pytest.raises(ValueError, match="There is no run or recipe 'runs/none': see `regard list`"):
        plot_run_positions("runs/none", tmp_path / "a.png")


def test_lengths_of_a_run_are_its_translations_by_the_recipe(run, tmp_path):
    from regard import evaluate_run, load_run, translate

    results = plot_run_lengths([run], tmp_path / "a.png", width=100)
    model, tokenizer = load_run(run)
    written = translate(model, tokenizer, SENTENCES * 2, num_beams=2, max_new_tokens=20)
    (bucket,) = results["tiny"]
    assert bucket.sentences == 6
    assert bucket.bleu > 0
    assert bucket.bleu == pytest.approx(sacrebleu.corpus_bleu(written, [SENTENCES[::-1] * 2]).score, abs=1e-9)
    assert bucket.bleu == pytest.approx(evaluate_run(run, "mine")["test:mine"]["bleu"], abs=1e-9)
    with pytest.raises(ValueError, match="no split 'nothing'"):
        plot_run_lengths([run], tmp_path / "b.png", split="nothing")
    with pytest.raises(ValueError, match="no setting 'beams'"):
        plot_run_lengths([run], tmp_path / "b.png", beams=2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.png"]


# --- positions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "base"), [(16, 10000.0), (12, 100000.0), (2, 10000.0)])
def test_dot_products_of_sinusoids_depend_on_distance_alone(width, base):
    """Σ cos(k / base^(2i/D)), from the identity sin a sin b + cos a cos b = cos(a - b)."""
    entry = entry_of(ONE_OF_EACH[0])
    config = entry.config(hidden_size=width, num_attention_heads=1, head_dim=width, position_base=base)
    (one,) = position_tables(config, number=50)
    mean, least, greatest = dot_products_by_distance(one.table)
    expected = [sum(math.cos(k / base ** (2 * i / width)) for i in range(width // 2)) for k in range(50)]
    for found in (mean, least, greatest):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_tables_are_the_models_own(tokenizer):
    model = model_of(ONE_OF_EACH[0], tokenizer)
    (one,) = position_tables(model.config, model)
    modules = [module for module in model.modules() if isinstance(module, SinusoidalPositions)]
    assert len(modules) == 2
    for module in modules:
        torch.testing.assert_close(one.table, module.table[: len(one.table)], rtol=0, atol=0)
    learned = model_of(ONE_OF_EACH[0], tokenizer, "bert")
    tables = position_tables(learned.config, learned, 9)
    assert [table.part for table in tables] == ["encoder", "decoder"]
    for table, stack in zip(tables, (learned.model.encoder, learned.model.decoder), strict=True):
        torch.testing.assert_close(table.table, stack.embeddings.embed_positions.weight[:9].detach())


def test_rotary_tables_hold_the_turned_pairs(tokenizer):
    """A query and a key that are equal, turned by their positions: their product is the sum of the angles' cosines."""
    config = entry_of(ONE_OF_EACH[1], "llama").config()
    (one,) = position_tables(config, number=20)
    mean, least, greatest = dot_products_by_distance(one.table)
    angles = torch.arange(20)[:, None] * rotary_frequencies(config.head_dim, config.position_base)
    np.testing.assert_allclose(mean, angles.cos().sum(-1), atol=1e-5)
    np.testing.assert_allclose(greatest - least, 0, atol=1e-5)


def test_dot_products_of_any_table_by_hand():
    table = torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    mean, least, greatest = dot_products_by_distance(table)
    assert mean.tolist() == [pytest.approx(7 / 3), 1.0, 1.0]
    assert (least.tolist(), greatest.tolist()) == ([1.0, 0.0, 1.0], [4.0, 2.0, 1.0])


@pytest.mark.parametrize("variant", ["paper", "bert", "llama"])
def test_pictures_of_positions(variant, tokenizer, tmp_path):
    model = model_of(ONE_OF_EACH[0], tokenizer, variant)
    path = plot_positions(position_tables(model.config, model), tmp_path / "a.png")
    assert path.read_bytes()[:4] == b"\x89PNG"


def test_positions_that_cannot_be_drawn(tokenizer):
    bare, learned = (model_of(ONE_OF_EACH[1], tokenizer, variant) for variant in ("bare", "gpt2"))
    with pytest.raises(ValueError, match="position_embedding_type='none' there is no position table"):
        position_tables(bare.config, bare)
    with pytest.raises(ValueError, match="give a run, not its recipe"):
        position_tables(learned.config)
    with pytest.raises(ValueError, match="positions=33 is more than the 32"):
        position_tables(learned.config, learned, 33)
    with pytest.raises(ValueError, match="positions=1 must be at least 2"):
        position_tables(learned.config, learned, 1)


# --- the command -----------------------------------------------------------------------------------------------------


def test_each_verb_has_an_example():
    for verb in ("curves", "attention", "induction", "lengths", "positions"):
        result = CliRunner().invoke(app, ["plot", verb, "--help"])
        assert result.exit_code == 0
        assert f"Example: regard plot {verb}" in result.output


def test_each_verb_draws(run, tmp_path):
    calls = {
        "curves": [run],
        "attention": [run, SENTENCES[0], "--layer", "-1", "--head", "mean", "--which", "encoder"],
        "lengths": [run, "--split", "mine", "--max-new-tokens", "4", "--length-penalty", "0.5"],
        "positions": [run, "--number", "8"],
    }
    for verb, words in calls.items():
        path = tmp_path / f"{verb}.svg"
        arguments = ["plot", verb, *map(str, words), "--output", str(path), "--json"]
        result = CliRunner().invoke(app, arguments, catch_exceptions=False)
        assert json.loads(result.stdout)["picture"] == str(path)
        xml.etree.ElementTree.parse(path)
    words = ["plot", "positions", "translation/multi30k-de-en", "-o", str(tmp_path / "p.png")]
    result = CliRunner().invoke(app, words)
    assert result.stdout == f"Wrote {tmp_path / 'p.png'}\n"


@pytest.mark.parametrize(
    "words",
    [
        ["attention", "RUN", "die", "--layer", "9"],
        ["attention", "RUN", " "],
        ["curves", "RUN/nothing"],
        ["lengths", "RUN/nothing"],
        ["induction", "RUN"],  # which kept no record
        ["curves", "RUN", "--x", "hours"],
        ["positions", "no/recipe"],
    ],
)
def test_wrong_calls_end_with_2_and_one_sentence(words, run, tmp_path, monkeypatch, capsys):
    given = [word.replace("RUN", str(run)) for word in words]
    monkeypatch.setattr(sys, "argv", ["regard", "plot", *given, "--output", str(tmp_path / "a.png")])
    with pytest.raises(SystemExit) as caught:
        main()
    said = capsys.readouterr()
    assert (caught.value.code, said.out) == (2, "")
    assert said.err.startswith("regard: ")
    assert said.err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
