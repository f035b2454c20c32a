"""Few-shot prompting as a whole: with stubs of known log-probabilities, and with a tiny model from the command on."""

import dataclasses
import json
import math
import os
import shlex

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import PreTrainedTokenizerFast
from typer.testing import CliRunner

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.measures import wilson
from regard.evaluation.few_shot.picture import plot_few_shot
from regard.evaluation.few_shot.prompts import ModelRoom
from regard.evaluation.few_shot.report import run_few_shot
from regard.evaluation.few_shot.result import collect, read_result
from regard.evaluation.few_shot.rows import load_items
from regard.evaluation.few_shot.rules import NORMALISATIONS, predict, values
from regard.evaluation.few_shot.run import ask, few_shot, settings_of
from regard.evaluation.few_shot.scoring import Score
from regard.evaluation.few_shot.table import table
from regard.evaluation.few_shot.task import Choices, Data, Generation, Task, load_task
from regard.evaluation.few_shot.templates import item_of
from regard.evaluation.learning_curves import LearningCurve
from regard.modeling import TransformerConfig, TransformerForConditionalGeneration

from .films import save_films

ABOUT = {"model": "stub", "architecture": "Stub", "parameters": 0, "data": {}, "limit": None}
LABELS = ["bad", "good"]


class Stub:
    """A model that reads `limit` words; `likely` gives the log-probability of a completion after a prompt."""

    def __init__(self, likely=None, limit=None, answer=None):
        self.likely, self.limit, self.answer, self.asked = likely, limit, answer, []
        self.room = self

    def needs(self, pairs, before=""):
        assert all(prompt.startswith(before) for prompt, _ in pairs)
        return max(len((prompt + (completion or "")).split()) for prompt, completion in pairs)

    def score(self, requests):
        self.asked += requests
        return [Score(self.likely(one.prompt, one.choice), len(one.choice.split()), False) for one in requests]

    def write(self, prompts):
        return [self.answer(prompt) for prompt in prompts]


def _task(**more):
    more = {"choices": Choices(labels=LABELS), "metric": "accuracy"} | more
    return Task("t", Data(file="x.tsv"), "Q: {{ q }}\nA:", answer="{{ label }}", **more)


def _items(task, number, **more):
    return [item_of(task, {"q": f"text {i}", "label": i % 2, **more}, i) for i in range(number)]


def _run(task, items, pool, reader, **settings):
    settings = settings_of(task, **settings)
    return collect(task, items, settings, ask(task, items, pool, settings, reader), ABOUT)


def test_prompts_and_scores_are_exactly_these():
    """Three items, one shot each; "good" is twice as likely after a prompt that says "good"."""
    task = _task(description="Judge.\n\n", separator="\n--\n")
    items = _items(task, 3)
    stub = Stub(lambda prompt, choice: math.log(0.6 if (choice == " good") == (" good\n" in prompt) else 0.3))
    result = _run(task, items, items, stub, shots=[0, 1], seeds=1, balanced=False)
    first, *_ = [record for record in result.records if record["shots"] == 1]
    shown = items[int(first["shown"][0])]
    assert shown.id != "0"
    answer = LABELS[shown.answer]
    assert first["prompt"] == f"Judge.\n\nQ: {shown.fields['q']}\nA: {answer}\n--\nQ: text 0\nA:"
    assert [one["log_probability"] for one in first["choices"]] == [
        pytest.approx(math.log(0.6 if answer == label else 0.3)) for label in LABELS
    ]
    assert (first["prediction"], first["correct"]) == (shown.answer, shown.answer == 0)
    zero = [record for record in result.records if record["shots"] == 0]
    assert [(one["seed"], one["order"], one["prompt"]) for one in zero] == [
        (None, None, f"Judge.\n\nQ: text {i}\nA:") for i in range(3)
    ]
    assert result.point(0).mean == pytest.approx(2 / 3)  # always "bad", which is right of texts 0 and 2
    assert (result.chance, result.majority) == (0.5, pytest.approx(2 / 3))
    assert {one.choice for one in stub.asked if one.prompt == ""} == {" bad", " good"}  # unconditional, once


@pytest.mark.parametrize("seed", range(20))
def test_no_prompt_holds_its_own_question_twice(seed):
    """A test set alone, of three, with two shots: cases are what other packages got wrong."""
    task = _task()
    items = _items(task, 3)
    result = _run(task, items, items, Stub(lambda *_: 0.0), shots=[2], seeds=[seed])
    for record in result.records:
        assert record["prompt"].count(f"text {record['item']}\n") == 1
        assert len(record["shown"]) == 2


def test_more_shots_than_the_pool_has_are_refused_before_anything_is_asked():
    task, stub = _task(), Stub(lambda *_: 0.0)
    items = _items(task, 3)
    with pytest.raises(ValueError, match="shots=3: the pool has 2 examples beside the item '0'"):
        _run(task, items, items, stub, shots=[0, 3])
    assert not stub.asked


def test_whole_shots_are_left_out_where_there_is_no_room():
    """A shot takes 5 words (Q: text 1 A: bad), the description 1, query and choice 5: in 17 words there is room for
    two shots, and for all in 26. The shots nearest to the query stay."""
    task = _task(description="Judge.\n")
    items = _items(task, 6)
    cut = _run(task, items, items, Stub(lambda *_: 0.0, limit=17), shots=[2, 4], seeds=3)
    whole = _run(task, items, items, Stub(lambda *_: 0.0, limit=26), shots=[4], seeds=3)
    assert (cut.point(2).cut, cut.point(4).cut, cut.point(4).dropped) == (0, 18, 36)
    assert (whole.point(4).cut, whole.point(4).dropped) == (0, 0)
    four = [record for record in cut.records if record["shots"] == 4]
    for short, full in zip(four, whole.records, strict=True):
        assert short["shown"] == full["shown"][2:]
        assert full["prompt"].removeprefix("Judge.\n").endswith(short["prompt"].removeprefix("Judge.\n"))
        assert short["prompt"].startswith("Judge.\nQ: ")
    assert "At 4 shots 18 of 18 prompts had no room for all: 36 shots were left out, and 2 were" in table(cut)
    with pytest.raises(
        ValueError, match="The item '0' takes 6 tokens without any shot, and the model reads 5: shorten"
    ):
        _run(task, items, items, Stub(lambda *_: 0.0, limit=5), shots=[1])


def test_shots_have_to_fit_before_na_too():
    """A shot and a question with its choice are four words each (Q: text1 A: bad). A template that makes three words
    of "N/A" needs two more, which a model of eight words has no room for beside a shot."""
    task = _task(content=["q"])
    task = dataclasses.replace(task, query="Q: {{ q.replace('N/A', 'not a text') }}\nA:")
    items = [item_of(task, {"q": f"text{i}", "label": i % 2}, i) for i in range(3)]
    limit = 4 + 4
    plain = _run(task, items, items, Stub(lambda *_: 0.0, limit=limit), shots=[1], seeds=1)
    stub = Stub(lambda *_: 0.0, limit=limit)
    calibrated = _run(task, items, items, stub, shots=[1], seeds=1, calibrate=True)
    assert (plain.point(1).cut, calibrated.point(1).cut) == (0, 3)
    assert all(stub.needs([(one.prompt, one.choice)]) <= limit for one in stub.asked)


def _last_label_wins(prompt, choice):
    """Prefers the label that was shown last, else "good"."""
    shown = prompt.rpartition("\nA: ")[2].split() if "\nA: " in prompt else ["good"]
    return math.log(0.8 if choice.strip() == shown[0] else 0.2)


def test_all_orders_are_shown_and_their_spread_is_reported():
    """Of two shots with two labels both orders: a model that repeats the last label takes one label in one order and
    the other in the other. Of 4 items, all "good", it has all right and then none: mean 1/2, sample deviation √½."""
    task = _task()
    items = [item_of(task, {"q": f"asked {i}", "label": 1}, i) for i in range(4)]
    result = _run(task, items, _items(task, 6), Stub(_last_label_wins), shots=[0, 2], seeds=3, permutations=5)
    point = result.point(2)
    assert (point.mean, point.deviation, point.order_deviation) == (0.5, 0.0, pytest.approx(math.sqrt(0.5)))
    assert all(sorted(orders) == [0.0, 1.0] for orders in point.values)
    assert (point.prompts, result.point(0).prompts, result.point(0).order_deviation) == (24, 4, None)
    assert "| 2 | 50.0% | 0.0 | 15.0% to 85.0% | 70.7 | 0.0% to 100.0% |" in table(result)


def test_calibration_takes_the_preference_away():
    """Such a model says the same of "N/A" as of any text: calibrated, it has no favourite left."""
    task = _task()
    items = _items(task, 4)
    stub = Stub(_last_label_wins)
    result = _run(task, items, _items(task, 6, more=1), stub, shots=[2], seeds=2, calibrate=True)
    for record in result.records:
        assert [one["value"] for one in record["choices"]] == [0.0, 0.0]
        assert record["tied"]
    assert sum("Q: N/A\nA:" in one.prompt for one in stub.asked) > 0
    assert "8 of 8 prompts have several best choices, of which one was drawn" in table(result)


def test_of_partial_scoring_the_continuation_is_scored_after_each_context():
    contexts = ["{{ x }} {{ one }}", "{{ x }} {{ two }}"]
    task = Task(
        "t", Data(file="x"), choices=Choices(contexts=contexts, continuation="falls."), answer="1", metric="accuracy"
    )
    item = item_of(task, {"x": "Since the", "one": "case", "two": "cup"}, 0)
    stub = Stub(lambda prompt, choice: -1.0 if prompt.endswith("cup") else -2.0)
    (record,) = _run(task, [item], [], stub, shots=[0]).records
    assert [(one["prompt"], one["text"], one["log_probability"]) for one in record["choices"]] == [
        ("Since the case", "falls.", -2.0),
        ("Since the cup", "falls.", -1.0),
    ]
    assert record["correct"]
    assert {one.choice for one in stub.asked} == {" falls."}
    with pytest.raises(ValueError, match="so 'unconditional' says nothing"):
        settings_of(task, normalisation="unconditional")


def test_minimal_pairs_are_whole_texts_counted_by_group():
    task = Task(
        "t", Data(file="x"), choices=Choices(templates=["{{ a }}", "{{ b }}"]), answer="0", metric="accuracy",
        group="{{ g }}",
    )  # fmt: skip
    rows = [("They go.", "They goes.", "verb"), ("A cup.", "A cups.", "noun"), ("An ox.", "An oxes.", "noun")]
    items = [item_of(task, {"a": a, "b": b, "g": g}, i) for i, (a, b, g) in enumerate(rows)]
    stub = Stub(lambda prompt, choice: -float(len(choice)) if choice != "An ox." else -9.0)
    result = _run(task, items, items, stub, shots=[0])
    assert {(one.prompt, one.choice) for one in stub.asked} == {("", text) for row in rows for text in row[:2]}
    groups = result.point(0).groups
    assert {name: (group.items, group.mean) for name, group in groups.items()} == {"verb": (1, 1.0), "noun": (2, 0.5)}
    assert "| noun | 2 | 50.0% | 9.5% to 90.5% | 50.0% |" in table(result)
    with pytest.raises(ValueError, match="compares whole texts without a prompt, so shots=1 cannot be"):
        settings_of(task, shots=[0, 1])


def test_items_with_a_rule_of_their_own_draw_from_their_own_examples():
    task = Task("t", Data(builtin="minimal-pairs"), "{{ x }}>", join="", separator=";", metric="accuracy")

    def item(name, rule, pool=None):
        return Item(name, {"x": name}, tuple(sorted({rule(name), name})), 0 if rule(name) < name else 1, pool=pool)

    upper = tuple(item(text, str.upper) for text in ("ab", "cd", "ef", "q"))
    twice = tuple(item(text, lambda one: one * 2) for text in ("ab", "cd", "ef", "q"))
    items = [item("q", str.upper, upper), Item("r", {"x": "r"}, ("R", "rr"), 1, pool=twice)]
    result = _run(task, items, [], Stub(lambda *_: 0.0), shots=[3], seeds=2)
    for record in result.records:
        *shots, query = record["prompt"].split(";")
        assert query == f"{record['item']}>"
        rule = (lambda text: text.upper()) if record["item"] == "q" else (lambda text: text * 2)
        assert all(shot == f"{shot.partition('>')[0]}>{rule(shot.partition('>')[0])}" for shot in shots)
        assert len(set(shots)) == 3
        assert "q>Q" not in shots
    with pytest.raises(ValueError, match="shots=4: the pool has 3 examples beside the item 'q'"):
        _run(task, items, [], Stub(lambda *_: 0.0), shots=[4])


def test_items_that_share_a_rule_count_for_less_in_the_interval():
    """Ten items under two rules. The model always says "x", so that it gets all of one right and none of the other: no
    more is known than of two items."""
    task = Task("t", Data(builtin="in-context"), "{{ x }}>", join="", metric="accuracy")
    items = [Item(f"{i}", {"x": f"{i}"}, ("x", "y"), i % 2, rule="ab"[i % 2], group="all") for i in range(10)]
    result = _run(task, items, [], Stub(lambda _, choice: -1.0 if choice == "x" else -2.0), shots=[0])
    point = result.point(0)
    assert (result.rules, result.summary()["rules"], point.mean) == (2, 2, 0.5)
    assert point.interval == point.groups["all"].interval == wilson(0.5, 2)
    text = table(result)
    assert "Accuracy over 10 items under 2 rules; normalisation" in text
    assert "Items under one rule count for less in the interval where they are right or wrong together." in text
    alone = [dataclasses.replace(item, rule=f"{i}") for i, item in enumerate(items)]
    result = _run(task, alone, [], Stub(lambda _, choice: -1.0 if choice == "x" else -2.0), shots=[0])
    assert (result.rules, result.point(0).interval) == (None, wilson(0.5, 10))
    assert "Accuracy over 10 items; normalisation" in table(result)
    assert "rule" not in table(result)


def test_free_answers_are_compared_without_white_space_around_them():
    task = Task(
        "t", Data(file="x"), "Q: {{ q }}\nA:", answer=["{{ a }}", "{{ b }}"], generation=Generation(["\n"]),
        metric="exact_match",
    )  # fmt: skip
    items = [item_of(task, {"q": q, "a": a, "b": b}, i) for i, (q, a, b) in enumerate(["1ab", "2cd", "3ef"])]
    answers = {"1": " a", "2": " d ", "3": " efg"}
    stub = Stub(answer=lambda prompt: answers[prompt[-4]])
    result = _run(task, items, items, stub, shots=[0, 1], seeds=2)
    assert [(one["prediction"], one["references"], one["correct"]) for one in result.records[:3]] == [
        ("a", ["a", "b"], True),
        ("d", ["c", "d"], True),
        ("efg", ["e", "f"], False),
    ]
    assert result.records[3]["prompt"].count("Q: ") == 2
    assert (result.metric, result.chance, result.point(1).mean) == ("exact_match", None, pytest.approx(2 / 3))
    for setting in ({"normalisation": "byte"}, {"calibrate": True}):
        with pytest.raises(ValueError, match=f"{next(iter(setting))}: "):
            settings_of(task, **setting)


def test_what_would_be_written_is_counted_and_its_perplexity():
    """Of two items one is the likeliest at every token. e to the mean of 1 and 3 is the perplexity."""
    task = Task("t", Data(file="x"), "{{ q }}", choices=Choices(templates=["{{ a }}"]), answer="0", metric="greedy")
    items = [item_of(task, {"q": f"{i} is", "a": "so"}, i) for i in range(2)]

    class Greedy(Stub):
        def score(self, requests):
            return [Score(-1.0, 1, True) if one.prompt[0] == "0" else Score(-3.0, 1, False) for one in requests]

    point = _run(task, items, items, Greedy(), shots=[0]).point(0)
    assert (point.mean, point.perplexity) == (0.5, pytest.approx(math.exp(2)))


# --- a tiny model, and the files -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few shot")
    return folder, *save_films(folder)


def test_the_batch_size_is_a_matter_of_speed(run):
    folder, model, tokenizer = run
    results = [
        few_shot(model, tokenizer, folder / "films.yaml", shots=[0, 2, 4], seeds=2, batch_size=size)
        for size in (1, 2, 7)
    ]
    for other in results[1:]:
        for one, same in zip(results[0].records, other.records, strict=True):
            assert one["prompt"] == same["prompt"]
            assert one["prediction"] == same["prediction"]
            for left, right in zip(one["choices"], same["choices"], strict=True):
                assert left["log_probability"] == pytest.approx(right["log_probability"], abs=1e-4)
    assert results[0].point(4).dropped == results[1].point(4).dropped > 0


def test_what_is_asked_fits_into_the_models_positions(run):
    """The tokens of prompt and choice, of which the last is not read, beside the limit."""
    folder, model, tokenizer = run
    room = ModelRoom(model, tokenizer)
    assert room.limit == 64
    text = "Review: the film number 7 is fine\nOpinion:" * 4
    pairs = [(text, " positive"), (text, " negative")]
    assert room.needs(pairs) == max(len(tokenizer(text + c, add_special_tokens=False).input_ids) for _, c in pairs) - 1
    assert ModelRoom(model, tokenizer, new_tokens=5).needs([(text, None)]) == len(tokenizer(text).input_ids) + 4


def test_what_items_share_is_counted_once(run, monkeypatch):
    """The bound is never below the tokens there are, and on the same side of the limit."""
    folder, model, tokenizer = run
    room, exact = ModelRoom(model, tokenizer), ModelRoom(model, tokenizer)
    shot = "Review: the film number 7 is fine\nOpinion: positive\n\n"
    sides = set()
    for shots in range(1, 8):
        for number in (1, 22, 333):
            pairs = [(f"{shot * shots}Review: number {number}\nOpinion:", f" {word}") for word in ("poor", "positive")]
            needed, found = exact.needs(pairs), room.needs(pairs, shot * shots)
            assert (found <= 64) == (needed <= 64)
            assert found >= needed
            sides.add(needed <= 64)
    assert sides == {True, False}
    calls = []
    monkeypatch.setattr("regard.evaluation.few_shot.scoring.positions_needed", lambda *_: calls.append(1) or [0])
    for number in range(20):  # far beyond the limit: the shots alone are too long
        assert room.needs([(f"{shot * 7}Review: {number}", " poor")], shot * 7) > 64
    assert (calls, room.tokens.cache_info().misses) == ([], 7)


@pytest.mark.parametrize(
    ("limit", "drawn_from", "how"),
    [
        (None, None, "Accuracy over 24 items; "),
        (24, None, "Accuracy over 24 items; "),
        (25, None, "Accuracy over 24 items; "),
        (23, 24, "Accuracy over 23 items, drawn at random from 24; "),
    ],
)
def test_items_are_drawn_where_the_limit_leaves_some_out(run, limit, drawn_from, how):
    folder, model, tokenizer = run
    result = few_shot(model, tokenizer, folder / "films.yaml", shots=[0], limit=limit)
    assert (result.limit, result.drawn_from) == (limit, drawn_from)
    assert how in table(result)


def test_an_encoder_decoder_reads_the_shots_and_writes_the_answer(run):
    """The same prompts; white space between prompt and choice is neither's, since the decoder begins a text."""
    folder, _, tokenizer = run
    ids = {key: getattr(tokenizer, key) for key in ("pad_token_id", "bos_token_id", "eos_token_id")}
    torch.manual_seed(0)
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    model = TransformerForConditionalGeneration(
        TransformerConfig(**sizes, **ids, encoder_layers=1, decoder_layers=1, decoder_start_token_id=1)
    ).eval()
    result = few_shot(model, tokenizer, folder / "films.yaml", shots=[0, 1], seeds=1, limit=3)
    record = result.records[-1]
    source = tokenizer(record["prompt"], return_tensors="pt")
    for choice in record["choices"]:
        target = tokenizer(choice["text"], add_special_tokens=False).input_ids
        logits = model(**source, decoder_input_ids=torch.tensor([[1, *target[:-1]]])).logits[0].log_softmax(-1)
        alone = sum(logits[place, token].item() for place, token in enumerate(target))
        assert choice["log_probability"] == pytest.approx(alone, abs=1e-4)
    writes = ["choices=null", 'generation={stop: ["e"], max_new_tokens: 3}', "metric=exact_match"]
    written = few_shot(model, tokenizer, load_task(folder / "films.yaml", writes), shots=[0], limit=3)
    assert all("e" not in one["prediction"] and "Review" not in one["prediction"] for one in written.records)


def test_what_the_tokenizer_cannot_write_is_counted_and_told(run, caplog):
    """Of "Review: film 0 is poor" and so on, in words: the vocabulary has those of the template and of the labels, and
    neither the number nor "poor". The second text is longer by two words that it lacks, and the third by four."""
    folder, model, tokenizer = run
    few_shot(model, tokenizer, folder / "films.yaml", shots=[0], limit=3)
    assert not caplog.messages  # bytes can write anything
    known = ["<unk>", "Review:", "film", "is", "Opinion:", "negative", "positive"]
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    words = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
    task = load_task(folder / "films.yaml", ["data.file=films.tsv"])
    every, pool = load_items(task)
    result = few_shot(model, words, task, shots=[0, 1], seeds=1, data=(every[:3], pool))
    assert [(one["item"], one["unknown"]) for one in result.records] == [("0", 2), ("1", 2 + 2), ("2", 2 + 4)] * 2
    # Each item has six words in its query and two labels; two of the three have two and four words more.
    assert "40.0% of the tokens of what is asked (12 of 30) are unknown" in caplog.text


def test_every_normalisation_can_be_computed_from_the_file(run, tmp_path):
    folder, model, tokenizer = run
    result = few_shot(model, tokenizer, folder / "films.yaml", shots=[0, 1], seeds=2, calibrate=True)
    read = read_result(result.save(tmp_path / "r.json"))
    assert read == result
    assert read_result(tmp_path / "r.json", records=False) == dataclasses.replace(result, records=[])
    for rule in NORMALISATIONS:
        for calibrate in (False, True):
            settings = {"shots": [0, 1], "seeds": 2, "normalisation": rule, "calibrate": calibrate}
            again = few_shot(model, tokenizer, folder / "films.yaml", **settings)
            for kept, one in zip(read.records, again.records, strict=True):
                worth = values(kept["choices"], rule, calibrate)
                assert worth == [pytest.approx(choice["value"], abs=1e-5) for choice in one["choices"]]
                assert predict(worth, kept["item"]) == one["prediction"]
    with pytest.raises(ValueError, match="is no result that `regard few-shot` wrote"):
        read_result(folder / "tiny" / "config.json")


def test_the_command_takes_the_numbers_as_they_are_written(run, monkeypatch):
    from regard.cli import app

    folder, *_ = run
    monkeypatch.chdir(folder)
    words = "few-shot tiny --task films.yaml --shots 0 1 2 4 --seeds 2 --limit 6 --normalisation token --json"
    done = CliRunner().invoke(app, words.split(), catch_exceptions=False)
    summary = json.loads(done.stdout)
    assert summary["settings"] == {
        "shots": [0, 1, 2, 4], "seeds": [0, 1], "balanced": True, "normalisation": "token", "calibrate": False,
        "permutations": 1,
    }  # fmt: skip
    assert (summary["items"], summary["model"], summary["data"]) == (6, "tiny", {"file": "films.tsv"})
    assert sorted(os.path.basename(file) for file in summary["files"]) == ["few-shot-films.json", "few-shot-films.png"]
    kept = json.loads((folder / "tiny" / "few-shot-films.json").read_text())
    assert len(kept.pop("records")) == 6 * (1 + 2 + 2 + 2)
    assert kept == {key: value for key, value in summary.items() if key != "files"}
    assert str(folder) not in json.dumps(kept)
    assert not [file for file in (folder / "tiny").iterdir() if file.name.startswith(".")]
    words = "few-shot --task films.yaml --shots 2 --seeds 7, --random --calibrate --permutations 2 --limit 2 --json"
    done = CliRunner().invoke(app, [*words.split(), "--output", "out", "tiny"], catch_exceptions=False)
    assert json.loads(done.stdout)["settings"] == {
        "shots": [2], "seeds": [7], "balanced": False, "normalisation": "none", "calibrate": True, "permutations": 2,
    }  # fmt: skip
    numbers = ("--shots 0,2 --seeds 3,5", "--shots=0 2 --seeds=3 5", "--shots 0 --shots 2 --seeds 3 --seeds 5",
               "--shots '0, 2' --seeds '3 5'")  # fmt: skip
    for written in numbers:
        words = f"few-shot --task films.yaml {written} --limit 2 --json --output out tiny"
        done = CliRunner().invoke(app, shlex.split(words), catch_exceptions=False)
        settings = json.loads(done.stdout)["settings"]
        assert (settings["shots"], settings["seeds"]) == ([0, 2], [3, 5])


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("--shots -1 tiny", "--shots: '-1' must be whole numbers of at least 0, such as --shots 0 1 2 4."),
        ("--shots 0 -1 tiny", "--shots: '0,-1' must be whole numbers"),
        ("--shots a tiny", "--shots: 'a' must be whole numbers"),
        ("tiny --shots 1.5", "--shots: '1.5' must be whole numbers"),
        ("tiny --shots --limit 3", "--shots: '' must be whole numbers"),
        ("tiny --seeds x", "--seeds: 'x' must be whole numbers of at least 0, such as --seeds 5 for five of them, or"),
        ("tiny --seeds ,", "--seeds: ',' must be whole numbers"),
        ("tiny --seeds 0", "--seeds 0: how many must be at least 1; the seed 0 alone is '--seeds 0,'."),
    ],
)
def test_numbers_that_cannot_be_are_named_with_their_option(words, sentence):
    from regard.cli import CallError, app

    with pytest.raises(CallError) as caught:
        CliRunner().invoke(app, ["few-shot", *words.split(), "--task", "films.yaml"], catch_exceptions=False)
    assert sentence in str(caught.value)


def test_what_cannot_be_is_refused_before_the_model_is_read(run, monkeypatch):
    folder, *_ = run
    monkeypatch.chdir(folder)

    def load(path):
        raise AssertionError("the model was loaded")

    calls = {
        "There is no task 'films'": ("tiny", "films", {}),
        "normalisation: 'chars' is not known": ("tiny", "films.yaml", {"normalisation": "chars"}),
        "seeds=.0, 0. must be at least one, and no seed twice": ("tiny", "films.yaml", {"seeds": [0, 0]}),
        "seeds=0 says how many and must be at least 1; the seed 0 alone is": ("tiny", "films.yaml", {"seeds": 0}),
        "content: the item '0' .* has no field 'zzz', but sentence, label": (
            "tiny", "films.yaml", {"overrides": ["content=[zzz]"]}
        ),
        "the pool has [0-9]+ examples": ("tiny", "films.yaml", {"shots": [1000]}),
        "There is no folder './none'": ("./none", "films.yaml", {}),
        "limit=0 must be at least 1": ("tiny", "films.yaml", {"limit": 0}),
        "--output: '.*films.tsv' is a file": ("tiny", "films.yaml", {"output": folder / "films.tsv" / "below"}),
        "balanced: the task 'films' has no labels": (
            "tiny", "films.yaml", {"balanced": True, "overrides": ["choices={templates: [x, y]}"]}
        ),
    }  # fmt: skip
    for message, (model, task, settings) in calls.items():
        with pytest.raises(ValueError, match=message):
            run_few_shot(model, task, load=load, **settings)


def test_a_model_that_is_no_language_model_is_refused(tmp_path, run):
    from regard.modeling import TransformerEncoderConfig

    folder, *_ = run
    config = TransformerEncoderConfig(architectures=["TransformerEncoderForMaskedLM"])
    config.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="is a TransformerEncoderForMaskedLM: few-shot prompting takes a causal"):
        run_few_shot(str(tmp_path), str(folder / "films.yaml"))


@pytest.mark.filterwarnings("error")
def test_one_seed_has_no_deviation(run, tmp_path, monkeypatch):
    folder, model, tokenizer = run
    result = few_shot(model, tokenizer, folder / "films.yaml", shots=[0, 1, 2], seeds=1, limit=5)
    result.beside.append(LearningCurve("another", [1, 2], [[0.5], [0.75]], [[0.25, 0.75], [0.5, 0.9]]))
    assert "±" not in table(result)
    assert "| 75.0% |" in table(result)
    seen = {}
    monkeypatch.setattr(
        "regard.evaluation.few_shot.picture.save_figure", lambda figure, path: seen.setdefault("axes", figure.axes[0])
    )
    plot_few_shot(result, tmp_path / "a.svg")
    own, bars, other, other_bars = seen["axes"].collections
    assert not own.get_paths()
    assert not other.get_paths()
    assert [path.vertices[:, 1].tolist() for path in bars.get_paths()] == [list(p.interval) for p in result.points]
    assert [path.vertices[:, 1].tolist() for path in other_bars.get_paths()] == [[0.25, 0.75], [0.5, 0.9]]


def test_the_picture_is_whole_and_the_same_each_time(run, tmp_path):
    folder, model, tokenizer = run
    result = few_shot(model, tokenizer, folder / "films.yaml", shots=[0, 1, 2], seeds=3, limit=5, name="tiny_$model$")
    result.beside.append(LearningCurve("fine-tuned on the same examples", [1, 2], [[0.5, 0.6], [0.7, 0.9]]))
    assert "| fine-tuned on the same examples |" in table(result)
    assert "80.0% ± 14.1 |" in table(result)
    paths = [plot_few_shot(result, tmp_path / name, others=[result]) for name in ("a.svg", "b.svg")]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    drawn = paths[0].read_text()  # in which matplotlib notes every text that it draws
    for text in ("zero-shot", "one-shot", "few-shot", "chance: 50.0%", "fine-tuned on the same examples", "accuracy"):
        assert f"<!-- {text} -->" in drawn
    assert read_result(result.save(tmp_path / "r.json")).beside == result.beside
    with pytest.raises(ValueError, match="must end in .png or .svg"):
        plot_few_shot(result, tmp_path / "a.gif")
