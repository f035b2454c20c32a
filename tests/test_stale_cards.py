"""Cards that are kept beside the package: whether they are as their runs say, here and in the repository."""

import json
import re
import shutil

import pytest
from huggingface_hub import ModelCard, ModelCardData
from typer.testing import CliRunner

from regard.cli import app
from regard.evaluation.curves import plot_history
from regard.model_cards.stale import CARDS, NOT_CARDS, check_cards
from regard.train.recipe import list_recipes

from .card_runs import METRICS, make_run

CARD = "translation-turkish-en-tr.md"
KEPT = sorted(path for path in CARDS.glob("*.md") if path.name not in NOT_CARDS)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    folder = make_run(runs / "turkish-en-tr", recipe="translation/turkish-en-tr", metrics=METRICS)
    plot_history([{"step": 1, "loss": 2.0}], folder / "loss_curve.png")
    shutil.copytree(folder, runs / "an-experiment")  # of the same recipe, and not its run
    (runs / "wikitext2-bpe").mkdir()  # not finished
    return runs


@pytest.fixture
def place(finished, tmp_path):
    """Runs and cards that a test may change; the cards are as the runs say."""
    runs, cards = tmp_path / "runs", tmp_path / "cards"
    shutil.copytree(finished, runs)
    assert [state.written for state in check_cards(runs, cards, rewrite=True)] == [True]
    return runs, cards


def the_one(states):
    (state,) = states
    return state


def test_a_card_is_missing_then_written_then_as_it_should_be(finished, tmp_path):
    state = the_one(check_cards(finished, tmp_path))
    assert (state.card.name, state.problem, state.fails) == (CARD, "there is no card yet", True)
    assert not list(tmp_path.iterdir())  # looking writes nothing
    state = the_one(check_cards(finished, tmp_path, rewrite=True))
    assert (state.written, state.fails) == (True, False)
    assert sorted(path.name for path in tmp_path.rglob("*.*")) == ["translation-turkish-en-tr-loss_curve.png", CARD]
    state = the_one(check_cards(finished, tmp_path))
    assert (state.run, state.problem, state.fails) == (finished / "turkish-en-tr", "", False)


def test_another_record_makes_a_card_stale(place):
    runs, cards = place
    metrics = METRICS | {"training": METRICS["training"] | {"steps": 3805}}
    (runs / "turkish-en-tr" / "metrics.json").write_text(json.dumps(metrics))
    kept = (cards / CARD).read_bytes()
    state = the_one(check_cards(runs, cards))
    assert state.fails
    assert re.fullmatch(
        r"stale from line \d+, which says '\| steps \| 3,804 \|' and should say '\| steps \| 3,805 \|'", state.problem
    )
    assert (cards / CARD).read_bytes() == kept
    check_cards(runs, cards, rewrite=True)
    assert "| steps | 3,805 |" in (cards / CARD).read_text()
    assert not the_one(check_cards(runs, cards)).fails


def test_a_line_that_somebody_typed_makes_it_stale(place):
    runs, cards = place
    text = (cards / CARD).read_text()
    (cards / CARD).write_text(text + "Better than all others.\n")
    assert the_one(check_cards(runs, cards)).problem.endswith(
        "which says 'Better than all others.' and should say nothing"
    )


def test_pictures_are_compared_too(place):
    runs, cards = place
    picture = cards / "images" / "translation-turkish-en-tr-loss_curve.png"
    picture.write_bytes(b"another")
    assert the_one(check_cards(runs, cards)).problem == f"the picture {picture.name} is another one now"
    picture.unlink()
    assert the_one(check_cards(runs, cards)).problem == f"the picture {picture.name} is missing"
    assert the_one(check_cards(runs, cards, rewrite=True)).written
    (cards / "images" / "old.png").write_bytes(b"")
    assert [str(state) for state in check_cards(runs, cards) if state.fails] == ["old.png: no card shows this picture"]


def test_cards_without_a_run_or_a_recipe(place):
    runs, cards = place
    shutil.copy(cards / CARD, cards / "translation-multi30k-de-en.md")
    shutil.copy(cards / CARD, cards / "translation-of-old.md")
    (cards / "template.md").write_text("")
    states = {state.card.name: state for state in check_cards(runs, cards)}
    assert sorted(states) == ["translation-multi30k-de-en.md", "translation-of-old.md", CARD]
    assert str(states["translation-multi30k-de-en.md"]).endswith("not checked, no run of it here")
    assert not states["translation-multi30k-de-en.md"].fails
    assert states["translation-of-old.md"].problem == "there is no recipe of that name in the package"


def test_without_a_run_there_is_nothing_to_say(tmp_path):
    with pytest.raises(ValueError, match="There is no folder '.*nowhere' with runs in it"):
        check_cards(tmp_path / "nowhere", tmp_path)
    with pytest.raises(ValueError, match="There is no finished run of a recipe of the package"):
        check_cards(tmp_path, tmp_path)


def test_the_command(place):
    runs, cards = place
    words = ["card", str(runs), "--check", "--output", str(cards)]
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (0, f"{CARD}: as {runs / 'turkish-en-tr'} says\n")
    (cards / CARD).write_text("")
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{CARD}: stale from line 1, which says nothing and should say '---'")
    assert result.stderr == f"regard: {CARD}: not as the runs say; --rewrite writes the cards again.\n"
    (state,) = json.loads(CliRunner().invoke(app, [*words, "--json"]).stdout)
    assert (state["card"], state["written"]) == (str(cards / CARD), False)
    result = CliRunner().invoke(app, [*words, "--rewrite"])
    assert (result.exit_code, result.stdout) == (0, f"{CARD}: written from {runs / 'turkish-en-tr'}\n")
    for wrong in (["--repo", "a/b", "--check"], ["--pictures", "--check"], ["--rewrite"]):
        result = CliRunner().invoke(app, ["card", str(runs), *wrong])
        assert "does not fit" in str(result.exception)


def test_the_command_for_one_run(place):
    run = place[0] / "turkish-en-tr"
    result = CliRunner().invoke(app, ["card", str(run), "--repo", "me/mine", "--pictures", "--json"])
    assert json.loads(result.stdout) == {
        "card": str(run / "README.md"), "drawn": [str(run / "cross_attention.png")],
    }  # fmt: skip
    text = (run / "README.md").read_text()
    assert 'path = "me/mine"' in text
    assert "](cross_attention.png)" in text


# --- those of the repository -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_the_cards_of_the_repository(path):
    """Their runs are not here: what can be seen without them."""
    text = path.read_text(encoding="utf-8")
    assert path.stem in {name.replace("/", "-") for name in list_recipes()}
    card = ModelCard.load(path)
    assert ModelCardData(**card.data.to_dict()).to_dict() == card.data.to_dict()
    assert card.data.license == "apache-2.0"
    if path.stem != "in-context-linear-regression":  # it reads points, which no task of the Hub does
        assert card.data.pipeline_tag
        assert all(
            result.metric_args["command"].startswith(("regard evaluate ", "regard few-shot "))
            for result in card.data.eval_results
        )
    assert path.stem.endswith(card.data.model_name)
    for link in re.findall(r"!\[[^]]+\]\((.*?)\)", text):
        assert (path.parent / link).is_file()
        assert link.startswith(f"images/{path.stem}-")
    assert not re.search(r"(?<![\w/])/(home|root|tmp|work|Users)/", text)
    assert "{{" not in re.sub(r"```.*?```", "", text, flags=re.S)
    entries = re.search(r"```bibtex\n(.*?)```", text, flags=re.S)[1]
    assert entries.startswith("@")
    assert entries.count("{") == entries.count("}")


def test_no_picture_of_the_repository_is_left_over():
    linked = {link for path in KEPT for link in re.findall(r"\]\(images/(.*?)\)", path.read_text(encoding="utf-8"))}
    assert {path.name for path in (CARDS / "images").iterdir()} == linked
