"""Fine-tuning on the examples of a prompt, beside prompting (Option A and Option B of the lectures).

What a step does is compared with the library's own loss and with the scorer; what memory is, with sizes that can be
counted.
"""

import copy
import dataclasses
import json
import math

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.measures import clusters_of, interval, wilson
from regard.evaluation.few_shot.picture import plot_few_shot
from regard.evaluation.few_shot.result import read_result
from regard.evaluation.few_shot.rows import load_items
from regard.evaluation.few_shot.run import few_shot
from regard.evaluation.few_shot.scoring import Request, score
from regard.evaluation.few_shot.table import table
from regard.evaluation.few_shot.task import load_task
from regard.modeling import (
    TransformerConfig,
    TransformerDecoderConfig,
    TransformerDecoderForCausalLM,
    TransformerForConditionalGeneration,
)
from regard.train import few_shot_fine_tuning as fine_tuning
from regard.train import few_shot_options
from regard.train.few_shot_fine_tuning import DEFAULT, Learner, Schedule, folds, settling
from regard.train.few_shot_options import fine_tune_and_score, items_of, options_table
from regard.train.tensor_memory import peak_memory
from regard.train.tokenization import train_tokenizer

SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
SIZES = {**SPECIAL, "initializer_range": 0.3}
WORDS = ["red", "green", "blue", "dark", "light", "warm", "cold", "old", "new", "good", "bad", "loud"]
TOKENIZER = train_tokenizer([f"{a} {b}: yes\n{a}>{b}\nno" for a in WORDS for b in WORDS], "char", 64, template="none")
TASK = """
name: always-yes
data: {file: rows.jsonl}
description: "Say yes.\\n"
query: "{{ text }}:"
choices: {labels: ["no", "yes"]}
answer: "{{ label }}"
"""


@pytest.fixture
def task(tmp_path):
    """Whose right answer is always the second label."""
    rows = [{"text": f"{a} {b}", "label": 1} for a in WORDS[:4] for b in WORDS[4:8]]
    (tmp_path / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (tmp_path / "task.yaml").write_text(TASK)
    return load_task(tmp_path / "task.yaml")


@pytest.fixture
def short(monkeypatch):
    """Fewer schedules to settle on."""
    monkeypatch.setattr(fine_tuning, "RATES", (1e-4, 1e-2))
    monkeypatch.setattr(fine_tuning, "STEPS", (1, 8))
    monkeypatch.setattr(fine_tuning, "DRAWS", 1)


def decoder(seed=0, tokenizer=TOKENIZER):
    torch.manual_seed(seed)
    config = TransformerDecoderConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_attention_heads=2, intermediate_size=32, num_hidden_layers=1,
        position_embedding_type="rotary", dropout=0.1, **SIZES,
    )  # fmt: skip
    return TransformerDecoderForCausalLM(config).train()


def encoder_decoder():
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=len(TOKENIZER), hidden_size=16, num_attention_heads=2, intermediate_size=32, encoder_layers=1,
        decoder_layers=1, dropout=0.0, decoder_start_token_id=1, **SIZES,
    )  # fmt: skip
    return TransformerForConditionalGeneration(config)


def weights_of(model):
    return torch.cat([weight.detach().flatten() for weight in model.parameters()])


@pytest.mark.parametrize("make", [decoder, encoder_decoder])
@pytest.mark.parametrize("batch_size", [1, 3, 32])
def test_the_loss_is_what_the_scorer_measures(task, make, batch_size):
    model = make().eval()
    shots = load_items(task)[0][:5]
    learner = Learner(model, TOKENIZER, task, batch_size)
    requests = [Request(f"Say yes.\n{shot.fields['text']}:", " yes") for shot in shots]
    scores = score(model, TOKENIZER, requests)
    expected = -sum(one.log_probability for one in scores) / sum(one.tokens for one in scores)
    assert learner._loss(learner._rows(shots)) == pytest.approx(expected, abs=1e-5)


def test_a_choice_is_learnt_from_where_it_is_scored(tmp_path):
    """The space at the end of the prompt merges with "a", so that "bb", which is right, is scored with it: three
    tokens, of which two are its own."""
    symbols = ["<s>", "</s>", *" abc:", " a"]
    backend = Tokenizer(models.BPE({symbol: i for i, symbol in enumerate(symbols)}, [(" ", "a")]))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", pad_token="</s>")
    (tmp_path / "rows.jsonl").write_text('{"text": "c"}\n{"text": "cab"}\n')
    (tmp_path / "task.yaml").write_text(
        'data: {file: rows.jsonl}\nquery: "{{ text }}: "\njoin: ""\nchoices: {labels: [a, bb]}\nanswer: "1"\n'
    )
    merges = load_task(tmp_path / "task.yaml")
    shots, model = load_items(merges)[0], decoder(tokenizer=tokenizer).eval()
    learner = Learner(model, tokenizer, merges)
    rows = [row for _, row in learner._rows(shots)]
    assert [tokenizer.convert_ids_to_tokens(row.ids[row.start :]) for row in rows] == [[" ", "b", "b"]] * 2
    scores = score(model, tokenizer, [Request(f"{text}: ", choice) for text in ("c", "cab") for choice in ("a", "bb")])
    right = scores[1::2]
    assert sum(one.tokens for one in right) == 6
    expected = -sum(one.log_probability for one in right) / 6
    assert learner._loss(learner._rows(shots)) == pytest.approx(expected, abs=1e-5)


def test_a_step_is_the_librarys_loss_and_torchs_adamw(task):
    """A single example by hand: labels of -100 where the prompt is, the model's own loss, one step."""
    model, shot = decoder().eval(), load_items(task)[0][0]
    prompt = TOKENIZER("Say yes.\nred light:")["input_ids"]
    whole = TOKENIZER("Say yes.\nred light: yes")["input_ids"]
    byhand = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(byhand.parameters(), lr=1e-3, weight_decay=0.0)
    for _ in range(2):
        labels = torch.tensor([[-100] * len(prompt) + whole[len(prompt) :]])
        byhand(input_ids=torch.tensor([whole]), labels=labels).loss.backward()
        nn.utils.clip_grad_norm_(byhand.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    learner = Learner(model, TOKENIZER, task)
    learner.learn([shot], Schedule(1e-3, 2))
    assert shot.fields["text"] == "red light"
    torch.testing.assert_close(weights_of(learner.model), weights_of(byhand), rtol=1e-4, atol=1e-5)


def test_every_learning_begins_anew_and_the_model_stays_as_it_is(task):
    model = decoder()
    before = weights_of(model)
    shots = load_items(task)[0][:4]
    learner = Learner(model, TOKENIZER, task)
    learner.learn(shots, Schedule(1e-2, 3))
    first = weights_of(learner.model)
    learner.learn(shots[2:], Schedule(1e-2, 3))
    assert not torch.equal(weights_of(learner.model), first)
    learner.learn(shots, Schedule(1e-2, 3))
    assert torch.equal(weights_of(learner.model), first)
    learner.forget()
    assert torch.equal(weights_of(learner.model), before)
    assert torch.equal(weights_of(model), before)
    assert model.training


def test_a_text_that_is_written_is_learnt_with_its_end(task):
    generated = load_task("translation-en-de")
    item = Item("0", {"en": "red", "de": "rot"}, references=("rot",))
    learner = Learner(decoder(), TOKENIZER, generated)
    assert learner._requests(item) == ([Request("English: red\nGerman:", " rot\n")], 0)
    learner = Learner(encoder_decoder(), TOKENIZER, generated)
    assert learner._requests(item) == ([Request("English: red\nGerman:", " rot")], 0)


def test_partial_scoring_learns_the_right_sentence():
    item = Item("0", {}, choices=(" is red.", " is red."), answer=1, contexts=("The sun", "The rose"))
    learner = Learner(decoder(), TOKENIZER, load_task("winogrande"))
    ((_, row),) = learner._rows([item])
    assert TOKENIZER.decode(row.ids) == TOKENIZER.decode(TOKENIZER("The rose is red.").input_ids)


@pytest.mark.parametrize(("number", "held"), [(2, [1, 1]), (5, [2, 3]), (16, [8, 8])])
def test_each_example_is_held_out_once(number, held):
    cut = list(folds(range(number)))
    assert sorted(len(part) for _, part in cut) == sorted(held)
    assert [one for _, part in cut for one in part] == list(range(number))
    assert all(sorted([*learnt, *part]) == list(range(number)) for learnt, part in cut)


def test_the_schedule_is_the_best_on_what_is_held_out(task, short):
    """Where all examples have the same answer, what helps one helps the others: the fastest and longest is best."""
    shots = load_items(task)[0][:4]
    learner = Learner(decoder(), TOKENIZER, task)
    assert learner.settle([shots]) == Schedule(1e-2, 8)
    assert learner.settle([shots[:1], shots[1:2]]) == DEFAULT  # one example cannot be cut
    assert settling([shots[:1], shots[1:2]]) == []
    assert settling([shots[:2], shots[1:3], shots[2:]]) == [shots[:2]]  # `short` has one draw


def test_a_schedule_that_diverges_is_never_the_best(task, monkeypatch):
    monkeypatch.setattr(fine_tuning, "STEPS", (1, 2, 4))
    learner = Learner(decoder(), TOKENIZER, task)
    losses = iter([math.nan, 3.0, 2.0, *[math.nan] * 100])
    monkeypatch.setattr(learner, "_loss", lambda rows: next(losses))
    monkeypatch.setattr(fine_tuning, "folds", lambda rows: [(rows[:1], rows[1:])])
    assert learner.settle([load_items(task)[0][:2]]) == Schedule(1e-5, 4)


def test_both_ways_stand_beside_each_other(task, tmp_path, short):
    model = decoder()
    data = load_items(task)
    result = fine_tune_and_score(model, TOKENIZER, task, shots=(0, 2, 4), seeds=2, data=data, name="tiny")
    assert [point.shots for point in result.points] == [2, 4]
    prompted = few_shot(model, TOKENIZER, task, shots=(2, 4), seeds=2)
    for point, by_prompt in zip(result.points, prompted.points, strict=True):
        assert point.prompting.values == by_prompt.by_seed  # the same shots, items and scorer
        assert point.copies == 1 + point.shots  # a copy for most items, and one for each that is an example itself
        assert min(point.fine_tuning.memory, point.prompting.memory) > sum(w.nbytes for w in model.parameters())
        assert min(point.fine_tuning.seconds, point.prompting.seconds) > 0
    # After 8 fast steps that all say yes, and untrained: the labels have been learnt from four examples.
    assert result.points[-1].fine_tuning.values == [1.0, 1.0]
    assert len(result.predictions) == 2 * 2 * len(data[0])
    (curve,) = result.curves()
    assert (curve.name, curve.numbers) == ("fine-tuned on the same examples (16 items)", [2, 4])
    assert curve.values == [point.fine_tuning.values for point in result.points]
    for point, by_prompt in zip(result.points, prompted.points, strict=True):
        assert point.prompting.interval == by_prompt.interval
    assert result.points[-1].fine_tuning.interval == wilson(1.0, 16)
    assert curve.intervals == [list(point.fine_tuning.interval) for point in result.points]
    saved = json.loads(result.save(tmp_path / "options.json").read_text())
    assert saved["points"][1]["schedule"] == {"learning_rate": 1e-2, "steps": 8}
    assert (saved["points"][1]["settling_draws"], saved["points"][1]["settling_examples"]) == (1, 4)
    assert (saved["items"], saved["drawn_from"], saved["rules"]) == (16, None, None)
    text = options_table(result)
    assert items_of(curve) == 16
    assert items_of(dataclasses.replace(curve, name="another")) is None
    assert "\n\nBLEU over 16 items" in options_table(dataclasses.replace(result, metric="bleu"))
    assert "## always-yes, tiny: fine-tuning or prompting" in text
    assert "| 4 | 100.0% ± 0.0 | 80.6% to 100.0% |" in text
    assert "| rate 0.01, 8 steps, on 1 draw with 4 examples, in " in text
    assert "by cross-validation on up to 3 draws of as many examples, and all seeds share them: behind" in text
    assert "are up to 3k labelled ones. One example takes a default." in text


def test_no_item_is_among_the_examples_that_its_copy_learnt(task, monkeypatch):
    learnt = []
    asked = []
    monkeypatch.setattr(Learner, "learn", lambda self, shots, schedule: learnt.append({shot.id for shot in shots}))
    monkeypatch.setattr(Learner, "settle", lambda self, draws: DEFAULT)

    def answer(task, items, pool, settings, reader, show=None):
        if settings.shots == (0,):
            asked.append(([item.id for item in items], learnt[-1]))
        return [{"item": item.id, "prediction": 1, "correct": True, "dropped": 0} for item in items]

    monkeypatch.setattr(few_shot_options, "ask", answer)
    monkeypatch.setattr(few_shot_options, "peak_memory", lambda model, work: 0)
    fine_tune_and_score(decoder(), TOKENIZER, task, shots=(3,), seeds=3)
    assert len(asked) > 3
    assert all(not set(items) & shown for items, shown in asked)
    assert all(len(shown) == 3 for _, shown in asked)


def test_items_with_rules_of_their_own_have_copies_of_their_own(short):
    swapping = load_task("swapping", ["data.number=6"])
    result = fine_tune_and_score(decoder(), TOKENIZER, swapping, shots=(1, 2), seeds=1, items=3)
    assert (result.items, result.drawn_from, result.rules) == (3, 6, None)
    assert [point.copies for point in result.points] == [3.0, 3.0]
    assert result.points[0].schedule == DEFAULT
    assert {one["item"] for one in result.predictions} == {f"swapping-test-0-{place}" for place in (0, 2, 4)}


def test_both_ways_are_drawn_on_the_same_items_where_some_are_left_out(short, tmp_path):
    """Four of twelve items under two rules: the prompted line of all is no match for the fine-tuned one of four."""
    swapping = load_task("swapping", ["data.number=12"])
    items, pool = load_items(swapping)
    items = [dataclasses.replace(item, rule="ab"[place % 2]) for place, item in enumerate(items)]
    settings = {"shots": (1, 2), "seeds": 1, "data": (items, pool), "name": "tiny"}
    options = fine_tune_and_score(decoder(), TOKENIZER, swapping, items=5, **settings)
    tuned, prompted = options.curves()
    asked = [items[place] for place in (0, 2, 4, 7, 9)]
    alone = few_shot(decoder(), TOKENIZER, swapping, **settings | {"data": (asked, pool)})
    assert (options.rules, alone.rules, clusters_of(asked).tolist()) == (2, 2, [0, 0, 0, 1, 1])
    assert prompted.name == "prompted, on the items of fine-tuning (5 items)"
    assert (prompted.values, prompted.intervals) == (
        [point.by_seed for point in alone.points],
        [list(point.interval) for point in alone.points],
    )
    for number, low_high in zip((1, 2), tuned.intervals, strict=True):
        correct = [one["correct"] for one in options.predictions if one["shots"] == number]
        run = np.stack([np.array(correct, dtype=float), np.ones(5)], axis=1)
        assert tuple(low_high) == interval("accuracy", [run], clusters_of(asked))
    text = options_table(options)
    assert "Accuracy over 5 items under 2 rules, of 12, and 1 seed, both ways with the same examples" in text
    assert "±" not in text
    result = few_shot(decoder(), TOKENIZER, swapping, **settings)
    result = dataclasses.replace(result, beside=[tuned, prompted])
    assert "±" not in table(result)  # one seed
    drawn = plot_few_shot(result, tmp_path / "a.svg").read_text()
    for text in (tuned.name, prompted.name, "tiny, prompted (12 items under 2 rules; bars: 95 % over the items)"):
        assert f"<!-- {text} -->" in drawn
    assert read_result(result.save(tmp_path / "r.json")).beside == result.beside


def test_prompting_is_the_mean_over_the_orders(task, short, monkeypatch):
    """As in the table of prompting. Made to be right of all items in the first order, and of the first six of sixteen
    in the second: (1 + 6/16) / 2."""
    answers = few_shot_options.ask

    def ask(task, items, pool, settings, reader):
        place = {item.id: place for place, item in enumerate(items)}
        records = answers(task, items, pool, settings, reader)
        return [one | {"correct": one["order"] != 1 or place[one["item"]] < 6} for one in records]

    monkeypatch.setattr(few_shot_options, "ask", ask)
    result = fine_tune_and_score(decoder(), TOKENIZER, task, shots=(4,), seeds=2, permutations=2)
    (point,) = result.points
    assert point.prompting.values == [(1 + 6 / 16) / 2] * 2
    assert point.prompting.interval == wilson((1 + 6 / 16) / 2, 16)
    assert (point.prompting.examples, point.prompting.fewest) == (4.0, 4)
    assert point.fine_tuning.values == [1.0, 1.0]  # asked without examples, once
    assert result.permutations == 2
    sentence = "B is the mean over 2 orders of the examples, or as many as there are."
    assert sentence in options_table(result)
    assert sentence not in options_table(dataclasses.replace(result, permutations=1))


LIMIT = 48


def gpt2():
    """The library's, with a table of positions, which fails beyond its end."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=len(TOKENIZER), n_positions=LIMIT, n_embd=16, n_layer=1, n_head=2, **SPECIAL)
    )


@pytest.mark.parametrize("make", [gpt2, decoder, encoder_decoder])
def test_examples_that_do_not_fit_are_left_out_and_counted(task, short, make):
    """Three examples for each item, of which one is longer than the model reads: by its table of positions or, where
    positions are computed for any length, by the tokenizer's limit. Each character is a token. The description has 9
    of them, query and answer of the two short ones 9 and 4, and what parts them 2: two fit into 48 with the query."""
    tokenizer = copy.deepcopy(TOKENIZER)
    tokenizer.model_max_length = LIMIT if make is not gpt2 else 10**30
    texts = ["red cold", "old warm", "good blue " * 8]
    pool = [Item(f"shot-{place}", {"text": one}, ("no", "yes"), 1) for place, one in enumerate(texts)]
    items = [Item(f"{place}", {"text": one}, ("no", "yes"), 1) for place, one in enumerate(["a b", "a d", "e d"])]
    settings = {"shots": (1, 3), "seeds": 3, "data": (items, pool)}
    learner = Learner(make(), tokenizer, task)
    assert [learner.fits(shot) for shot in pool] == [True, True, False]
    options = fine_tune_and_score(make(), tokenizer, task, **settings)
    prompted = few_shot(make(), tokenizer, task, **settings)
    one, three = options.points
    assert (three.fine_tuning.examples, three.fine_tuning.fewest, three.settling_examples) == (2.0, 2, 2)
    assert 0 < one.fine_tuning.examples < 1  # some seed draws the long one alone
    assert one.fine_tuning.fewest == 0
    assert one.copies == one.fine_tuning.examples  # nothing to learn, no copy
    for point, by_prompt in zip(options.points, prompted.points, strict=True):
        assert point.prompting.examples == pytest.approx(point.shots - by_prompt.dropped / by_prompt.prompts)
        assert point.prompting.fewest == by_prompt.fewest < point.shots
        assert point.prompting.values == by_prompt.by_seed
    (curve,) = options.curves()
    assert (curve.name, items_of(curve)) == ("fine-tuned on those examples that fit alone (3 items)", 3)
    text = options_table(options)
    assert "both ways with the same items and scorer. The examples are not always the same" in text
    assert "| examples | A: fine-tuned | learnt | 95 % over items |" in text
    assert "| B: prompted | shown | 95 % over items |" in text
    assert f"| 3 | {three.fine_tuning.mean:.1%} ± " in text
    assert " | 2 | " in text
    assert f" | {one.fine_tuning.examples:.3g} (at least 0) | " in text
    whole = fine_tune_and_score(make(), tokenizer, task, **settings | {"shots": (1,), "data": (items, pool[:2])})
    assert whole.same_examples
    assert "with the same examples, items and scorer." in options_table(whole)
    assert "| learnt |" not in options_table(whole)
    with pytest.raises(
        ValueError, match="no example fits into the 48 tokens that the model reads, so that it cannot be"
    ):
        fine_tune_and_score(make(), tokenizer, task, **settings | {"shots": (1,), "data": (items, pool[2:])})


def test_without_any_example_that_fits_a_copy_is_as_the_model_is(task):
    model = decoder()
    learner = Learner(model, TOKENIZER, task)
    learner.learn(load_items(task)[0][:2], Schedule(1e-2, 2))
    learner.learn([], Schedule(1e-2, 2))
    assert torch.equal(weights_of(learner.model), weights_of(model))


@pytest.mark.parametrize(
    ("settings", "sentence"), [({"shots": (0,)}, "one example at least"), ({"items": 0}, "items=0 must be at least 1")]
)
def test_what_cannot_be_is_refused(task, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        fine_tune_and_score(decoder(), TOKENIZER, task, **settings)


def test_memory_is_that_of_the_tensors_held_at_once():
    """A matrix of 4 MB: two results of that size and a third in place of a fourth, on top of the weights."""
    model = nn.Linear(1000, 1000, bias=False)

    def work():
        first, second = torch.zeros(1000, 1000), torch.ones(1000, 1000)
        third = first + second
        del third
        fourth = first * second
        fourth.add_(1)  # in place
        return fourth.view(-1)  # no memory of its own

    assert peak_memory(model, work) == 4 * 4_000_000


def test_training_holds_gradients_and_both_moments():
    """Weights, gradients and AdamW's two moments of each weight at least."""
    model = nn.Linear(1000, 1000, bias=False)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)

    def step():
        model(torch.ones(2, 1000)).sum().backward()
        optimizer.step()

    assert 4 * 4_000_000 <= peak_memory(model, step) <= 7 * 4_000_000
    assert peak_memory(model, lambda: model(torch.ones(2, 1000))) < 4_100_000


def test_the_command_draws_the_line_and_prints_the_table(task, tmp_path, short):
    from typer.testing import CliRunner

    from regard.cli import app

    folder = tmp_path / "tiny"
    decoder().save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    call = ["few-shot", str(folder), "--task", str(tmp_path / "task.yaml"), "--shots", "0", "2", "--seeds", "1"]
    result = CliRunner().invoke(app, [*call, "--fine-tune", "--fine-tune-items", "5"])
    assert result.exit_code == 0, result.output
    assert "## always-yes, tiny: fine-tuning or prompting" in result.output
    saved = json.loads((folder / "few-shot-always-yes.json").read_text())
    compared = json.loads((folder / "fine-tuning-always-yes.json").read_text())
    tuned, prompted = saved["beside"]
    assert (tuned["name"], tuned["numbers"]) == ("fine-tuned on the same examples (5 items)", [2])
    for curve, option in ((tuned, "fine_tuning"), (prompted, "prompting")):
        assert curve["values"] == [compared["points"][0][option]["values"]]
        assert curve["intervals"] == [compared["points"][0][option]["interval"]]
    with pytest.raises(ValueError, match="--fine-tune-items goes with --fine-tune"):
        CliRunner().invoke(app, [*call, "--fine-tune-items", "5"], catch_exceptions=False)
