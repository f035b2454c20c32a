"""`regard plot`: what is drawn is what was computed, and what cannot be drawn is said in one sentence."""

import html.parser
import json
import math
import shutil
import subprocess
import sys
import warnings
import xml.etree.ElementTree

import numpy as np
import pytest
import sacrebleu
import torch
from typer.testing import CliRunner

from regard.cli import _is_wrong_call, app, main
from regard.evaluation.attention import attention_kinds, attention_maps
from regard.evaluation.attention_page import script_json
from regard.evaluation.attention_pictures import draw_attention, plot_attention
from regard.evaluation.curves import plot_curves, points
from regard.evaluation.lengths import bleu_by_length, bucket_bounds, length_in_words, plot_lengths
from regard.evaluation.position_pictures import dot_products_by_distance, plot_positions, position_tables
from regard.evaluation.tokens import readable_tokens
from regard.modeling.positions import SinusoidalPositions, rotary_frequencies
from regard.train.records import write_json
from regard.train.run_pictures import name_runs, plot_run_lengths
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


def test_a_picture_too_large_is_refused_before_it_is_drawn(tokenizer, tmp_path):
    model = model_of("TransformerForConditionalGeneration", tokenizer)
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


@pytest.mark.parametrize(
    ("name", "arguments", "sentence"),
    [
        (ONE_OF_EACH[1], {"which": "cross"}, "has no cross attention: it has no attention but its decoder"),
        (ONE_OF_EACH[2], {"which": "decoder"}, "has no decoder attention: it has no attention but its encoder"),
        (ONE_OF_EACH[0], {"which": "self"}, "which='self' is no kind of attention"),
        (ONE_OF_EACH[0], {"layer": 3}, "layer=3 is not there: the model has 3 of them, from 0 to 2"),
        (ONE_OF_EACH[0], {"head": -5}, "head=-5 is not there: the model has 4"),
        (ONE_OF_EACH[0], {"head": "some"}, "head='some' must be a number, 'all' or 'mean'"),
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
        "eval_bleu": 1.0,
        "eval_runtime": 3.0,
        "epoch": 1.0,
    },
    {"step": 30, "eval_loss": 1.9, "eval_bleu": 9.5, "eval_bleu_signature": "x", "epoch": 1.5},
    {"step": 40, "loss": 1.5, "epoch": 2.0, "tokens": 500, "seconds": 35.0},
]


def test_where_the_points_of_a_curve_stand():
    """Validation rows say no tokens: by hand, half-way between 300 and 500 at step 30."""
    assert [list(v) for v in points(HISTORY, "eval_loss", "tokens")] == [[300.0, 400.0], [2.1, 1.9]]
    assert [list(v) for v in points(HISTORY, "eval_bleu", "seconds")] == [[15.0, 25.0], [1.0, 9.5]]
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
        "validation BLEU",
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
        ({"a": HISTORY}, {"quantities": ["eval_chrf"]}, "quantity 'eval_chrf': there are loss, eval_loss, eval_bleu"),
        ({"a": [{"step": 1, "lr": 1}]}, {}, "'a' holds nothing to draw"),
        ({"a": [{"step": 1, "loss": 1.0}]}, {"x": "tokens"}, "'a' cannot be drawn by tokens: no row"),
    ],
)
def test_curves_that_cannot_be_drawn(histories, settings, sentence, tmp_path):
    with pytest.raises(ValueError, match=sentence):
        plot_curves(histories, tmp_path / "a.png", **settings)
    with pytest.raises(ValueError, match=r"must end in \.png or \.svg"):
        plot_curves(histories, tmp_path / "a.html", **settings)
    assert list(tmp_path.iterdir()) == []


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


def test_runs_of_different_sentences_are_not_compared(tmp_path):
    texts = ["a b c d e", "a b"]
    one, other = bleu_by_length(texts, texts, texts), bleu_by_length(texts[:1], texts[:1], texts[:1])
    assert plot_lengths({"one": one, "two": one}, tmp_path / "a.svg", "test").is_file()
    with pytest.raises(ValueError, match="'one' and 'two' translate different sentences"):
        plot_lengths({"one": one, "two": other}, tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()


@pytest.fixture(scope="module")
def run(tokenizer, tmp_path_factory):
    """A translation run of a tiny model with random weights, and its test set."""
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    for part in (model_of(ONE_OF_EACH[0], tokenizer), tokenizer):
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
        "evaluation": {"metrics": ["bleu"], "num_beams": 2, "max_new_tokens": 5},
    }
    (folder / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")  # JSON is YAML
    write_json(folder / "history.json", HISTORY)
    return folder


def test_lengths_of_a_run_are_its_translations_by_the_recipe(run, tmp_path):
    from regard import evaluate_run, load_run, translate

    results = plot_run_lengths([run], tmp_path / "a.png", width=100)
    model, tokenizer = load_run(run)
    written = translate(model, tokenizer, SENTENCES * 2, num_beams=2, max_new_tokens=5)
    (bucket,) = results["tiny"]
    assert bucket.sentences == 6
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
    for verb in ("curves", "attention", "lengths", "positions"):
        result = CliRunner().invoke(app, ["plot", verb, "--help"])
        assert result.exit_code == 0
        assert f"Example: regard plot {verb}" in result.output


def test_each_verb_draws(run, tmp_path):
    calls = {
        "curves": [run],
        "attention": [run, SENTENCES[0], "--layer", "-1", "--head", "mean", "--which", "encoder"],
        "lengths": [run, "--split", "mine"],
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
