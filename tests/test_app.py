"""What the page of `regard app` shows: the model's own numbers; and the page in a browser, where there is one."""

import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from regard import answer, load_run, translate
from regard.evaluation.app import build_page, open_app, translation_and_alignment
from regard.evaluation.guesses import fill_masks, guesses, kind_of, label_text, next_tokens, tag_words

from .works_with.folders import make_folders
from .works_with.texts import LABELS, SENTENCES

KINDS = {
    "decoder": "continue",
    "encoder": "fill",
    "classifier": "label",
    "dan": "label",
    "tagger": "tag",
    "translator": "translate",
    "words": "neighbours",
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    return make_folders(tmp_path_factory.mktemp("published") / "folders")


@pytest.fixture(scope="module")
def runs(folders) -> dict:
    return {name: load_run(folders / name, "cpu") for name in KINDS}


@pytest.fixture(scope="module")
def answerer(folders) -> tuple:
    """A head that marks answers, not trained, on the encoder."""
    from regard import TransformerEncoderForQuestionAnswering

    tokenizer = load_run(folders / "encoder", "cpu")[1]
    return TransformerEncoderForQuestionAnswering.from_pretrained(folders / "encoder").eval(), tokenizer


def logits_of(run, text: str) -> torch.Tensor:
    model, tokenizer = run
    with torch.no_grad():
        return model(**tokenizer(text, return_tensors="pt")).logits[0]


@pytest.mark.parametrize("name", KINDS)
def test_each_model_has_its_kind(name, runs):
    assert kind_of(runs[name][0]) == KINDS[name]


def test_a_model_without_a_head_is_refused(folders):
    from regard import TransformerEncoderModel

    model = TransformerEncoderModel.from_pretrained(folders / "encoder")
    with pytest.raises(ValueError, match="TransformerEncoderModel neither writes nor labels"):
        kind_of(model)


def test_next_tokens(runs):
    model, tokenizer = runs["decoder"]
    expected = logits_of(runs["decoder"], "the cat")[-1].softmax(-1).topk(5)
    said = next_tokens(model, tokenizer, "the cat", 5)
    assert [chance for _, chance in said] == pytest.approx(expected.values.tolist(), rel=1e-5)
    for (token, _), i in zip(said, expected.indices.tolist(), strict=True):
        raw = tokenizer.convert_ids_to_tokens(i)
        assert token == raw or token.lstrip("-") == tokenizer.decode([i]).strip() or token.startswith("\\x")
    assert len(next_tokens(model, tokenizer, "", 400)) == len(tokenizer)
    assert sum(chance for _, chance in next_tokens(model, tokenizer, "", 400)) == pytest.approx(1)


def test_a_continued_word_is_told_from_a_new_one(runs):
    model, tokenizer = runs["decoder"]
    everything = dict(next_tokens(model, tokenizer, "the cat", len(tokenizer)))
    assert "-s" in everything
    assert "-s" not in dict(next_tokens(model, tokenizer, "the cat ", len(tokenizer)))


def test_training_mode_is_as_it_was(runs):
    model, tokenizer = runs["decoder"]
    first = next_tokens(model, tokenizer, "the cat")
    model.train()
    try:
        assert next_tokens(model, tokenizer, "the cat") == first
        assert model.training
    finally:
        model.eval()


def test_masks(runs):
    model, tokenizer = runs["encoder"]
    text = "<mask> cat sees <mask> sea ."
    logits = logits_of(runs["encoder"], text)
    places = [i for i, token in enumerate(tokenizer(text)["input_ids"]) if token == tokenizer.mask_token_id]
    said = fill_masks(model, tokenizer, text, 3)
    assert len(said) == 2
    for place, filled in zip(places, said, strict=True):
        expected = logits[place].softmax(-1).topk(3)
        assert [chance for _, chance in filled] == pytest.approx(expected.values.tolist(), rel=1e-5)
        assert [token for token, _ in filled] == tokenizer.convert_ids_to_tokens(expected.indices.tolist())
    with pytest.raises(ValueError, match="Write <mask> in place of each word"):
        fill_masks(model, tokenizer, "the cat sees the sea .")


@pytest.mark.parametrize("name", ["classifier", "dan"])
def test_labels(name, runs):
    said = label_text(*runs[name], SENTENCES[0])
    expected = dict(zip(LABELS, logits_of(runs[name], SENTENCES[0]).softmax(-1).tolist(), strict=True))
    assert dict(said) == pytest.approx(expected, rel=1e-5)
    assert said[0][1] >= said[1][1]
    with pytest.raises(ValueError, match="The text is empty"):
        label_text(*runs[name], "  ")


def test_labels_that_do_not_exclude_one_another(runs):
    model, tokenizer = runs["classifier"]
    model.config.problem_type = "multi_label_classification"
    try:
        expected = dict(zip(LABELS, logits_of(runs["classifier"], SENTENCES[0]).sigmoid().tolist(), strict=True))
        assert dict(label_text(model, tokenizer, SENTENCES[0])) == pytest.approx(expected, rel=1e-5)
        model.config.problem_type = "regression"
        with pytest.raises(ValueError, match="a number and no label"):
            label_text(model, tokenizer, SENTENCES[0])
    finally:
        model.config.problem_type = None


def test_labels_of_words(runs):
    said = tag_words(*runs["tagger"], SENTENCES[0])
    expected = logits_of(runs["tagger"], SENTENCES[0]).softmax(-1)[1:-1]
    assert [token for token, _, _ in said] == SENTENCES[0].split()
    assert [label for _, label, _ in said] == [LABELS[i] for i in expected.argmax(-1)]
    assert [chance for _, _, chance in said] == pytest.approx(expected.amax(-1).tolist(), rel=1e-5)


def test_a_word_that_the_vocabulary_lacks_has_a_label_too(runs):
    model, tokenizer = runs["tagger"]
    assert tokenizer.unk_token_id in tokenizer("the zebra sees")["input_ids"]
    assert [word for word, _, _ in tag_words(model, tokenizer, "the zebra sees")] == ["the", "zebra", "sees"]


def test_an_answer_is_cut_out_of_the_context(answerer):
    said = answer(*answerer, "the cat", SENTENCES[0])
    table = guesses(*answerer, "the cat", SENTENCES[0])
    assert table["headers"] == ["answer", "begins at", "better than none by"]
    assert table["rows"] == [(said["answer"], f"character {said['start']}", said["margin"])]
    assert SENTENCES[0][said["start"] : said["end"]] == said["answer"]
    with pytest.raises(ValueError, match="A question is empty"):
        guesses(*answerer, " ", SENTENCES[0])


def test_another_kind_is_refused(runs):
    with pytest.raises(ValueError, match="is no model that continues a text"):
        next_tokens(*runs["encoder"], "the cat")


@pytest.mark.parametrize(
    ("name", "text", "headers", "rows"),
    [
        ("decoder", "the", ["next token", "probability"], 10),
        ("encoder", "the <mask> sees <mask>", ["mask", "token", "probability"], 20),
        ("dan", "the cat", ["label", "probability"], 2),
        ("tagger", "the cat", ["word", "label", "probability"], 2),
        ("words", "cat", ["word", "similarity"], 10),
    ],
)
def test_tables(name, text, headers, rows, runs):
    said = guesses(*runs[name], text)
    assert said["headers"] == headers
    assert len(said["rows"]) == rows
    assert all(len(row) == len(headers) for row in said["rows"])


def test_neighbours_are_the_models_own(runs):
    model, tokenizer = runs["words"]
    rows = guesses(model, tokenizer, "king - cat + sea")["rows"]
    expected = model.most_similar(positive=["king", "sea"], negative=["cat"], topn=10)
    assert [word for word, _ in rows] == [word for word, _ in expected]


def test_translation_and_alignment(runs):
    model, tokenizer = runs["translator"]
    translation, figure = translation_and_alignment(model, tokenizer, SENTENCES[0])
    assert translation == translate(model, tokenizer, [SENTENCES[0]])[0]
    [axes] = [axes for axes in figure.axes if axes.images and axes.get_xticklabels()][:1]
    source = len(tokenizer(SENTENCES[0])["input_ids"])
    written = len(tokenizer(text_target=translation)["input_ids"])
    assert axes.images[0].get_array().shape == (written, source)
    with pytest.raises(ValueError, match="The text is empty"):
        translation_and_alignment(model, tokenizer, " ")


def test_without_gradio_the_way_out_is_said(folders, monkeypatch):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ImportError, match="pip install gradio"):
        open_app(folders / "decoder")


def test_a_page_is_called_by_its_folder_and_for_this_machine_alone(folders, monkeypatch):
    said = []
    page = SimpleNamespace(launch=lambda **settings: said.append((settings["server_name"], settings["share"])))
    monkeypatch.setattr("regard.evaluation.app._gradio", lambda: None)
    monkeypatch.setattr("regard.evaluation.app.build_page", lambda model, tokenizer, title: said.append(title) or page)
    monkeypatch.chdir(folders / "words")
    open_app(".")
    assert said == ["words", ("127.0.0.1", False)]


# --- the page --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(run):
    pytest.importorskip("gradio", reason="gradio, which makes the page, is not installed: `pip install gradio`")
    page = build_page(*run, title="a run")
    try:
        _, address, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", inbrowser=False)
        yield address
    finally:
        page.close()


@pytest.mark.parametrize("name", ["decoder", "words", "translator"])
def test_page_answers(name, runs):
    with served(runs[name]) as address:
        from gradio_client import Client
        from gradio_client.exceptions import AppError

        client = Client(address, verbose=False)
        said = client.predict("the cat" if name != "words" else "cat", api_name="/answer")
        if name == "translator":
            assert said[0] == translate(*runs[name], ["the cat"])[0]
            assert said[1]["type"] == "matplotlib"
        else:
            expected = guesses(*runs[name], "the cat" if name != "words" else "cat")
            assert said["headers"] == expected["headers"]
            assert [row[0] for row in said["data"]] == [row[0] for row in expected["rows"]]
            assert [float(row[1]) for row in said["data"]] == pytest.approx(
                [row[1] for row in expected["rows"]], abs=1e-4
            )
        if name == "words":
            with pytest.raises(AppError, match="zebra"):
                client.predict("zebra", api_name="/answer")


def test_page_answers_a_question(answerer):
    with served(answerer) as address:
        from gradio_client import Client

        said = Client(address, verbose=False).predict("the cat", SENTENCES[0], api_name="/answer")
        assert said["data"][0][0] == answer(*answerer, "the cat", SENTENCES[0])["answer"]


class Browser:
    """Chromium by the WebDriver protocol (W3C), as much of it as is needed here."""

    def __init__(self, address: str):
        self.address = address

    def ask(self, method: str, path: str, **body) -> dict | str | list | None:
        data = json.dumps(body).encode() if method == "POST" else None
        request = urllib.request.Request(
            self.address + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)["value"]

    def element(self, selector: str, seconds: float = 60) -> str:
        """The path of an element, which may come with time."""
        end = time.monotonic() + seconds
        while True:
            try:
                found = self.ask("POST", "/element", using="css selector", value=selector)
            except urllib.error.HTTPError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)
            else:
                return "/element/" + next(iter(found.values()))

    def run(self, script: str) -> str:
        return self.ask("POST", "/execute/sync", script=script, args=[])


@pytest.fixture
def browser(tmp_path):
    programs = [shutil.which(name) for name in ("chromedriver", "chromium")]
    if not all(programs):
        pytest.skip("no headless browser: Debian's packages chromium and chromium-driver are not installed")
    log = tmp_path / "driver.log"
    with log.open("w") as output:
        driver = subprocess.Popen([programs[0], "--port=0"], stdout=output, stderr=subprocess.STDOUT)
    try:
        for _ in range(300):
            if "started successfully on port" in log.read_text():
                break
            time.sleep(0.1)
        port = log.read_text().rpartition("on port ")[2].split(".")[0]
        home = Browser(f"http://127.0.0.1:{port}")
        flags = ["headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run"]
        flags += ["disable-background-networking", "disable-component-update", "disable-sync", "disable-quic"]
        options = {"binary": programs[1], "args": [*(f"--{flag}" for flag in flags), f"--user-data-dir={tmp_path}/c"]}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        session = home.ask("POST", "/session", capabilities=capabilities)["sessionId"]
        yield Browser(f"{home.address}/session/{session}")
        home.ask("DELETE", f"/session/{session}")
    finally:
        driver.terminate()
        driver.wait(20)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decoder", "translator"])
def test_page_in_a_browser(name, runs, browser):
    with served(runs[name]) as address:
        browser.ask("POST", "/url", url=address)
        browser.ask("POST", browser.element("#text textarea") + "/value", text="the cat")
        browser.ask("POST", browser.element("#ask") + "/click")
        if name == "decoder":
            wanted = next_tokens(*runs[name], "the cat")[0]
            read, expected = "return document.querySelector('#answer').innerText", f"{wanted[1]:.4f}"
        else:
            expected = translate(*runs[name], ["the cat"])[0]
            read = "return document.querySelector('#answer textarea').value"
        end = time.monotonic() + 60
        while expected not in browser.run(read) and time.monotonic() < end:
            time.sleep(0.2)
        assert expected in browser.run(read)
        if name == "translator":
            browser.element("img[src*='base64'], .matplotlib img", 30)
