"""Several seeds of a recipe: means and deviations against numpy, and comparisons against scipy."""

import json

import numpy as np
import pytest
from scipy import stats
from typer.testing import CliRunner

from regard.benchmarks import pretraining
from regard.benchmarks.report import markers
from regard.cli import app
from regard.train import sweep as sweeping
from regard.train.sweep import sweep
from regard.train.sweep_cells import make_cells
from regard.train.sweep_compare import compare, compare_sweeps, comparison_text
from regard.train.sweep_judged import check_comparable
from regard.train.sweep_table import table
from regard.train.sweep_values import check_test, parse_seeds

from .label_runs import texts_recipe

EXAMPLES = "data.max_train_examples"
# What is said to be measured, by seed: accuracy and loss on the validation split, and accuracy on the test set.
MEASURED = {42: (0.71, 0.5, 0.69), 43: (0.74, 0.4, 0.70), 44: (0.69, 0.6, 0.74)}


@pytest.fixture
def recipe(tmp_path):
    return texts_recipe(tmp_path)


@pytest.fixture
def pretended(monkeypatch):
    """Runs that are only said to be trained; what they are said to measure may be shifted."""
    shift = {"by": 0.0, "keeps": ("validation", "test")}

    def train(recipe, output_dir, resume, test=True):
        accuracy, loss, on_test = MEASURED.get(recipe.training["seed"], (0.5, 0.5, 0.5))
        evaluation = {"validation": {"accuracy": accuracy + shift["by"], "loss": loss - 2 * shift["by"]}}
        if recipe.data.test and "test" in shift["keeps"]:
            evaluation["test"] = {"accuracy": on_test + shift["by"], "loss": 1.0}
        return {
            "evaluation": evaluation, "training": {"seconds": 2.0}, "model": {"parameters": 7}, "environment": {},
            "data": {"train": {"examples": recipe.data.max_train_examples or 40}},
        }  # fmt: skip

    monkeypatch.setattr(sweeping, "train", train)
    return shift


def test_seeds_alone_are_a_sweep(recipe, tmp_path, pretended):
    """From the recipe's own seed on, which is 42 where it names none, so that what `regard train` trains is one."""
    result = sweep(recipe, seeds=3, output_dir=tmp_path / "sweep")
    assert result["seeds"] == [42, 43, 44]
    assert [cell["run"] for cell in result["cells"]] == ["tiny-seed42", "tiny-seed43", "tiny-seed44"]
    (setting,) = result["settings"]
    for place, name in enumerate(("accuracy", "loss")):
        column = [MEASURED[seed][place] for seed in (42, 43, 44)]
        assert setting["each"][name] == column
        assert setting["mean"][name] == pytest.approx(np.mean(column))
        assert setting["deviation"][name] == pytest.approx(np.std(column, ddof=1))
    assert "test" not in setting
    text = table(result)
    assert text.splitlines()[4:7] == [
        "| accuracy | loss | parameters | seconds of training | seeds |",
        "| ---: | ---: | ---: | ---: | ---: |",
        "| 0.7133 ± 0.025 | 0.5 ± 0.1 | 7 | 2.0 | 3 |",
    ]
    assert "| measure | seed 42 | seed 43 | seed 44 |" in text
    assert "| accuracy | 0.71 | 0.74 | 0.69 |" in text
    assert "--seeds 42,43,44" in result["command"]
    assert "no test set was read" in text


def test_seeds_are_counted_from_the_one_that_is_set(recipe, tmp_path, pretended):
    result = sweep(recipe, ["training.seed=7"], seeds=2, output_dir=tmp_path / "a")
    assert result["seeds"] == [7, 8]
    one = sweep(recipe, ["training.seed=7"], {"model.dropout": [0.1]}, output_dir=tmp_path / "b")
    assert one["seeds"] == [7]
    assert "training.seed=7" in one["command"]
    assert "--seeds" not in one["command"]
    alone = sweep(recipe, [], {"model.dropout": [0.1]}, [5], output_dir=tmp_path / "c")
    assert "training.seed=5" in alone["command"]


def test_a_number_is_how_many_and_a_list_is_which():
    assert parse_seeds("3") == 3
    assert parse_seeds("3,4") == [3, 4]
    assert parse_seeds(None) == []


def test_test_figures_of_seeds_are_reported_apart(recipe, tmp_path, pretended):
    result = sweep(recipe, seeds=3, output_dir=tmp_path / "sweep", test=True)
    (setting,) = result["settings"]
    column = [MEASURED[seed][2] for seed in (42, 43, 44)]
    assert setting["test"]["test"]["each"]["accuracy"] == column
    assert setting["test"]["test"]["deviation"]["accuracy"] == pytest.approx(np.std(column, ddof=1))
    assert setting["each"]["accuracy"] == [MEASURED[seed][0] for seed in (42, 43, 44)]
    text = table(result)
    assert "and, as nothing is chosen here, on the test sets" in text
    assert "\nOn test:\n\n| accuracy | loss |\n| ---: | ---: |\n| 0.71 ± 0.026 | 1 ± 0 |" in text
    assert "| test | accuracy | 0.69 | 0.7 | 0.74 |" in text
    assert "--test" in result["command"]
    with pytest.raises(ValueError, match=r"data\.test: null differs|data\.test: .* differs from"):
        sweep(recipe, seeds=3, output_dir=tmp_path / "sweep", resume=True)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        ({"seeds": 1}, "needs values to go through, or several seeds"),
        ({"seeds": [3]}, "needs values to go through, or several seeds"),
        ({"seeds": 0, "values": {"model.dropout": [0.1]}}, "0 seeds are less than one"),
        ({"seeds": 0}, "--seeds: 0 seeds are less than one"),
        ({"seeds": [1, 2], "overrides": ["training.seed=1"]}, "training.seed and a list of --seeds say the same"),
        ({"seeds": 2, "one_at_a_time": True}, "--one-at-a-time changes one of the --values at a time"),
        (
            {"values": {"model.dropout": [0.1]}, "test": True},
            r"--test: model\.dropout varies, and who looks at a test",
        ),
        ({"values": {EXAMPLES: [8], "model.dropout": [0.1]}, "test": True}, r"--test: model\.dropout varies"),
        ({"seeds": 2, "test": True, "overrides": ["data.test=null"]}, r"--test: data\.test names no data"),
    ],
)
def test_what_is_no_sweep_of_seeds_is_refused(recipe, tmp_path, pretended, call, sentence):
    with pytest.raises(ValueError, match=sentence):
        sweep(recipe, output_dir=tmp_path / "sweep", **call)
    assert not (tmp_path / "sweep").exists()


def test_numbers_of_examples_choose_nothing():
    check_test({EXAMPLES: [8, 16]})


def test_a_seed_that_changes_the_tokens_is_refused_where_they_are_counted(tmp_path):
    """Another seed draws other examples, from which another tokenizer is trained: losses of tokens do not compare."""
    rows = [{"source": f"a b {i}", "target": f"c d {i}"} for i in range(20)]
    for name in ("train", "validation"):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = {
        "name": "tiny", "task": "translation", "model": {"type": "transformer"},
        "data": {name: str(tmp_path / f"{name}.jsonl") for name in ("train", "validation")},
        "training": {"max_steps": 1},
    }  # fmt: skip
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(recipe))
    with pytest.raises(ValueError, match=rf"--seeds: with {EXAMPLES}, a seed changes the tokens that are predicted"):
        sweep(path, [f"{EXAMPLES}=8"], seeds=2, output_dir=tmp_path / "sweep")
    same = make_cells(path, [f"{EXAMPLES}=8", "training.data_seed=1"], [{}], [1, 2], tmp_path / "sweep")
    check_comparable(same, {}, "loss")  # where the examples of all are drawn by one seed
    with pytest.raises(ValueError, match=f"--values: {EXAMPLES} changes the tokens that are predicted"):
        sweep(path, [], {EXAMPLES: [8, 9]}, output_dir=tmp_path / "sweep")


def test_a_test_set_of_training_rows_is_held_out_and_not_looked_at(tmp_path):
    """Whoever took `data.test` out of the recipe would train on what the last look is at."""
    path = texts_recipe(tmp_path, rows=40)
    call = ["data.validation=20%", "data.test=25%", "evaluation.errors=0"]
    result = sweep(path, call, {"model.dropout": [0.1]}, output_dir=tmp_path / "sweep")
    (cell,) = result["cells"]
    assert cell["examples"] == 22  # of 40, without 8 and 10
    metrics = json.loads((tmp_path / "sweep" / cell["run"] / "metrics.json").read_text())
    assert list(metrics["evaluation"]) == ["validation"]
    assert "test" not in cell


def test_a_test_set_that_is_asked_for_later_is_refused(tmp_path, pretended):
    """Rows held out are in the recipe either way, so that the recipe does not tell."""
    path, folder = texts_recipe(tmp_path), tmp_path / "sweep"
    call = {"overrides": ["data.validation=20%", "data.test=25%"], "seeds": 2, "output_dir": folder}
    pretended["keeps"] = ("validation",)
    sweep(path, **call)
    with pytest.raises(ValueError, match="test: true differs from false, with which the sweep in"):
        sweep(path, **call, test=True, resume=True)


@pytest.mark.parametrize("test", [False, True])
def test_a_sweep_of_an_earlier_version_goes_on(recipe, tmp_path, pretended, test):
    """Which knew neither of errors nor of examples, and told only in its command whether test sets were read."""
    folder = tmp_path / "sweep"
    call = {"overrides": ["evaluation.errors=10"], "seeds": 3, "output_dir": folder}  # as many as there are by default
    whole = sweep(recipe, **call, test=test)
    old = json.loads(json.dumps(whole))
    del old["test"], old["cells"][2], old["recipe"]["data"]["max_train_examples"]
    del old["recipe"]["evaluation"]["errors"], old["recipe"]["evaluation"]["no_repeat_ngram_size"]
    for setting in old["settings"]:
        del setting["each"]
    (folder / "sweep.json").write_text(json.dumps(old))
    compare_sweeps(folder, folder)  # which reads the cells
    with pytest.raises(ValueError, match="test: .* differs"):
        sweep(recipe, **call, test=not test, resume=True)
    again = sweep(recipe, **call, test=test, resume=True)
    assert again["cells"] == whole["cells"]


# --- comparing -------------------------------------------------------------------------------------------------------

A, B, C = [0.81, 0.83, 0.80], [0.70, 0.74, 0.72, 0.69], [0.79, 0.86, 0.74]


@pytest.mark.parametrize(("first", "second", "verdict"), [(A, B, "first"), (B, A, "second"), (A, C, "neither")])
def test_a_comparison_is_welchs(first, second, verdict):
    found = compare(first, second)
    interval = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.95)
    assert found.interval == pytest.approx(tuple(interval))
    assert found.difference == pytest.approx(np.mean(first) - np.mean(second))
    assert found.deviations == pytest.approx((np.std(first, ddof=1), np.std(second, ddof=1)))
    assert (found.verdict, found.seeds) == (verdict, (len(first), len(second)))


def test_of_a_loss_the_lower_is_better():
    assert compare(A, B, lower_is_better=True).verdict == "second"
    assert compare(B, A, lower_is_better=True).verdict == "first"


def test_equal_seeds_have_no_spread_and_one_seed_an_unknown_one():
    assert compare([1, 1], [2, 2]).verdict == "second"
    assert compare([1, 1], [1, 1]).verdict == "neither"
    with pytest.raises(ValueError, match="One seed has no spread"):
        compare([1], [1, 2])
    with pytest.raises(ValueError, match="no finite number"):
        compare([1, float("nan")], [1, 2])


def test_two_sweeps_are_compared_setting_by_setting(recipe, tmp_path, pretended):
    values = {EXAMPLES: [8, 16]}
    sweep(recipe, [], values, 3, tmp_path / "plain", test=True)
    pretended["by"] = 0.2
    sweep(recipe, ["model.dropout=0.3"], values, 3, tmp_path / "better", test=True)
    found = compare_sweeps(tmp_path / "better", tmp_path / "plain")
    assert [one.values for one in found] == [{EXAMPLES: 8}, {EXAMPLES: 16}]
    assert all(one.difference == pytest.approx(0.2) for one in found)
    assert {one.verdict for one in found} == {"first"}
    losses = compare_sweeps(tmp_path / "better", tmp_path / "plain", "loss")  # of which less is better
    assert {(round(one.difference, 6), one.verdict) for one in losses} == {(-0.4, "first")}
    (on_test, _) = compare_sweeps(tmp_path / "plain", tmp_path / "better", split="test")
    expected = stats.ttest_ind(
        [MEASURED[s][2] for s in (42, 43, 44)], [MEASURED[s][2] + 0.2 for s in (42, 43, 44)], equal_var=False
    ).confidence_interval()
    assert on_test.interval == pytest.approx(tuple(expected))
    call = ["compare", str(tmp_path / "better"), str(tmp_path / "plain")]
    text = CliRunner().invoke(app, call).stdout
    assert text == comparison_text(found, call[1], call[2], "accuracy")
    assert text.splitlines()[0].endswith(f"{call[1]} is better.")
    equal = comparison_text([compare([0.5, 0.5], [0.5, 0.5])], "a", "b", "accuracy")
    assert equal.endswith("95 % interval +0 to +0: there is no difference.\n")
    large = comparison_text([compare([38000.4, 38462.4], [1.5, 2.5], True)], "a", "b", "perplexity")
    assert large.startswith("perplexity: a 38,231 ± 327 (2 seeds), b 2 ± 0.71 (2 seeds);")
    as_json = json.loads(CliRunner().invoke(app, [*call, "--split", "test", "--json"]).stdout)
    assert as_json["comparisons"][1]["verdict"] == "first"
    assert (as_json["metric"], as_json["split"]) == ("accuracy", "test")
    (tmp_path / "plain").rename(tmp_path / "run-sweep")
    with pytest.raises(ValueError, match=r"There is no sweep in '.*run': is it '.*run-sweep'\?"):
        compare_sweeps(tmp_path / "run", tmp_path / "better")


def test_sweeps_that_do_not_compare_are_refused(recipe, tmp_path, pretended):
    one = tmp_path / "one"
    sweep(recipe, [], {EXAMPLES: [8, 16]}, 2, one)
    sweep(recipe, ["data.validation=10%"], {EXAMPLES: [8, 16]}, 2, tmp_path / "other")
    sweep(recipe, [], {EXAMPLES: [4, 5]}, 2, tmp_path / "numbers")
    for other, settings, sentence in (
        (tmp_path / "other", {}, r"judged on different things: they differ in data\.validation"),
        (tmp_path / "numbers", {}, "have no setting in common"),
        (one, {"split": "test"}, "has not measured accuracy on test"),
        (one, {"metric": "bleu"}, "has not measured bleu on validation: it has accuracy, loss"),
        (tmp_path, {}, "There is no sweep in"),
    ):
        with pytest.raises(ValueError, match=sentence):
            compare_sweeps(one, other, **settings)
    other = recipe.parent / "other.jsonl"
    other.write_bytes((recipe.parent / "test.jsonl").read_bytes())
    sweep(recipe, [], {}, 2, tmp_path / "tested", test=True)
    sweep(recipe, [f"data.test={other}"], {}, 2, tmp_path / "others", test=True)
    compare_sweeps(tmp_path / "tested", tmp_path / "others")  # validated on the same
    with pytest.raises(ValueError, match=r"they differ in data\.test"):
        compare_sweeps(tmp_path / "tested", tmp_path / "others", split="test")
    sweep(recipe, ["data.validation=10%"], {}, 2, tmp_path / "held", test=True)
    compare_sweeps(tmp_path / "tested", tmp_path / "held", split="test")  # and what was validated on does not matter
    for seed in (1, 2):  # the rows of a share are others
        more = ["data.test=20%", f"data.split_seed={seed}"]
        sweep(recipe, more, {}, 2, tmp_path / f"share{seed}", test=True)
    compare_sweeps(tmp_path / "share1", tmp_path / "share2")
    with pytest.raises(ValueError, match=r"they differ in data\.split_seed"):
        compare_sweeps(tmp_path / "share1", tmp_path / "share2", split="test")
    tagged = json.loads((one / "sweep.json").read_text())
    tagged["recipe"] |= {"task": "token-classification", "evaluation": {"metrics": ["tag_accuracy"]}}
    tagged["recipe"]["data"]["columns"] = {}
    (tmp_path / "tagged").mkdir()
    (tmp_path / "tagged" / "sweep.json").write_text(json.dumps(tagged))
    with pytest.raises(ValueError, match=r"they differ in task\.$"):
        compare_sweeps(one, tmp_path / "tagged", "loss")
    sweep(recipe, [], {EXAMPLES: [8, 16]}, 1, tmp_path / "alone")
    with pytest.raises(ValueError, match=r"alone', data\.max_train_examples=8 has one seed, which has no spread"):
        compare_sweeps(one, tmp_path / "alone")


def test_a_setting_does_not_win_by_the_seeds_that_did_not_diverge(recipe, tmp_path, pretended):
    sweep(recipe, seeds=3, output_dir=tmp_path / "one")
    result = sweep(recipe, seeds=3, output_dir=tmp_path / "two")
    del result["cells"][1]["validation"]
    result["cells"][1]["diverged"] = "The training loss is nan at step 3."
    (tmp_path / "two" / "sweep.json").write_text(json.dumps(result))
    with pytest.raises(ValueError, match="two', seed 43 diverged: there is no mean to compare"):
        compare_sweeps(tmp_path / "one", tmp_path / "two")


def test_pretraining_stands_beside_scratch(recipe, tmp_path, pretended, monkeypatch, capsys):
    """The means are numpy's, of what the runs are said to measure; the sweeps may not change places."""
    monkeypatch.chdir(tmp_path)
    recipe.write_text(recipe.read_text().replace(f"{tmp_path}/", ""))  # what is kept names no place
    sweep(recipe.name, ["tokenizer.path=there"], seeds=3, output_dir="scratch", test=True)
    sweep(recipe.name, seeds=3, output_dir="own", test=True)
    pretended["by"] = 0.2
    sweep(recipe.name, ["model.start_from=there"], seeds=3, output_dir="pretrained", test=True)
    out, (begin, end) = tmp_path / "benchmarks", markers("pretraining")
    out.mkdir()
    (out / "README.md").write_text(f"before\n{begin}\n{end}\nafter\n")
    assert pretraining.main(["pretrained", "scratch", "--out", str(out)]) == 0
    text = (out / "README.md").read_text()
    accuracies, on_test = ([measured[place] for measured in MEASURED.values()] for place in (0, 2))
    for split, column in (("validation", accuracies), ("test", on_test)):
        mean, deviation = np.mean(column), np.std(column, ddof=1)
        cells = f"{mean + 0.2:.4g} ± {deviation:.2g} | {mean:.4g} ± {deviation:.2g} | +0.2 ("
        assert f"| tiny | {split} | accuracy | {cells}" in text
    assert text.count("| pretrained |\n") == 2
    assert "model.start_from=there --seeds 42,43,44 --test --metric accuracy\nregard sweep" in text
    kept = (out / "README.md").read_bytes()
    for sweeps, sentence in (
        (["scratch", "pretrained"], "must be a sweep with model.start_from"),
        (["pretrained", "own"], "own' has not: sweep it with tokenizer.path=there."),
        (["pretrained", "scratch", "pretrained"], "3 sweeps are no pairs"),
        (["pretrained", "scratch"] * 2, "Two pairs are of the recipe 'tiny'"),
    ):
        with pytest.raises(SystemExit):
            pretraining.main([*sweeps, "--out", str(out)])
        assert sentence in capsys.readouterr().err
    assert (out / "README.md").read_bytes() == kept


def test_more_examples_than_there_are(recipe, tmp_path, pretended):
    """Two cells would train on the same rows, and the table would name a number that no one has seen."""
    with pytest.raises(
        ValueError, match=rf"--values: {EXAMPLES}=500 is more than the (\d+) rows of data.train: give \1 "
    ):
        sweep(recipe, values={EXAMPLES: [8, 500]}, output_dir=tmp_path / "sweep")
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_does_not_go_on_with_other_data(recipe, tmp_path, pretended):
    sweep(recipe, seeds=2, output_dir=tmp_path / "sweep")
    sweep(recipe, seeds=2, output_dir=tmp_path / "sweep", resume=True)
    rows = (tmp_path / "train.jsonl").read_text()
    (tmp_path / "train.jsonl").write_text(rows + rows.splitlines()[0] + "\n")
    with pytest.raises(ValueError, match=r"data\.train: '.*' holds something else than when '.*sweep' began"):
        sweep(recipe, seeds=2, output_dir=tmp_path / "sweep", resume=True)
