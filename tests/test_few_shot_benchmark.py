"""The benchmark beside lm-eval asks both sides the same and writes what it says.

In the place of lm-eval stands here a model that reads each request alone; no figure of speed is asserted.
"""

import json

import pytest
import torch

from regard.benchmarks import few_shot
from regard.benchmarks.report import markers
from regard.evaluation.few_shot.joining import join
from regard.evaluation.few_shot.scoring import whole_sums
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train.tokenization import train_tokenizer

ITEMS = [
    {"question": f"Which is {word}?", "choices": ["the dog", "a cow", "the film"][: 2 + i % 2], "answer": i % 2}
    for i, word in enumerate(["warm", "dull", "loud", "funny", "first", "small", "large", "late"])
]


@pytest.fixture
def folder(tmp_path):
    tokenizer = train_tokenizer([json.dumps(ITEMS)], "byte-bpe", 300, min_frequency=1, template="bos")
    torch.manual_seed(0)
    config = TransformerDecoderConfig(
        vocab_size=len(tokenizer), hidden_size=16, num_attention_heads=2, intermediate_size=32, num_hidden_layers=1,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, initializer_range=0.3,
    )  # fmt: skip
    for each in (TransformerDecoderForCausalLM(config), tokenizer):
        each.save_pretrained(tmp_path / "model")
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "README.md").write_text("before\n" + "\n".join(markers(few_shot.PART)) + "\nafter\n")
    return tmp_path


def one_by_one(off_by=0.0):
    def peer(model, tokenizer, batch_size):
        def scores(requests):
            return [
                whole_sums(model, join(model, tokenizer, [each]), 1, lambda number: None)[0][0] + off_by
                for each in requests
            ]

        return scores

    return peer


def call(folder, monkeypatch, **settings):
    monkeypatch.setattr(few_shot, "peer", one_by_one(**settings))
    monkeypatch.setattr(few_shot, "version", lambda name: "0.0")
    numbers = ["--shots", "2", "--items", "5", "--pool", "3", "--rounds", "2"]
    return few_shot.main([str(folder / "model"), str(folder / "items.jsonl"), *numbers, "--out", str(folder / "out")])


def test_the_command_writes_its_results(folder, monkeypatch):
    assert call(folder, monkeypatch) in (0, 1)  # 1: a ratio below 2, which is nothing for a test to judge
    text = (folder / "out" / "results" / "few_shot.json").read_text()
    assert str(folder) not in text
    record = json.loads(text)
    assert [each["shots"] for each in record["results"]] == [few_shot.SAME, few_shot.OWN]
    for each in record["results"]:
        assert (each["items"], each["requests"]) == (5, 13)
        assert each["largest_difference"] < 1e-4
        assert each["accuracy"]["ours"] == each["accuracy"]["peer"]
        assert len(each["seconds"]["ours"]) == 2
    readme = (folder / "out" / "README.md").read_text()
    assert few_shot.table(record["results"]) in readme
    assert "`model` (TransformerDecoderForCausalLM, " in readme


def test_a_difference_is_a_failure(folder, monkeypatch, capsys):
    assert call(folder, monkeypatch, off_by=2e-4) == 1
    assert "log-probabilities differ by 0.0002" in capsys.readouterr().err
    of_one = {"shots": few_shot.OWN, "ratio": 0.5, "largest_difference": 1e-5}
    assert few_shot.faults([of_one | {"accuracy": {"ours": 0.5, "peer": 0.5}}]) == []
    (sentence,) = few_shot.faults([of_one | {"accuracy": {"ours": 0.5, "peer": 0.4}}])
    assert sentence == f"Shots {few_shot.OWN}: accuracies differ, {{'ours': 0.5, 'peer': 0.4}}."


def test_prompts_and_accuracy():
    same = few_shot.requests_of(ITEMS[:3], ITEMS[3:5], 2, few_shot.SAME)
    shots = "Question: Which is warm?\nAnswer: the dog\n\nQuestion: Which is dull?\nAnswer: a cow\n\n"
    assert [each.prompt for each in same[:3]] == [f"{shots}Question: Which is funny?\nAnswer:"] * 3
    assert [each.choice for each in same] == [" the dog", " a cow", " the film", " the dog", " a cow"]
    own = few_shot.requests_of(ITEMS[:3], ITEMS[3:8], 2, few_shot.OWN)
    assert len({each.prompt.partition("Which is dull")[0] for each in own}) > 1
    assert few_shot.accuracy(ITEMS[3:5], [0.0, 3.0, 1.0, 2.0, 1.0]) == 1.0
    assert few_shot.accuracy(ITEMS[3:5], [0.0, 3.0, 1.0, 1.0, 2.0]) == 0.5


@pytest.mark.parametrize("numbers", [["--items", "0"], ["--shots", "9", "--pool", "3"], ["--pool", "8"]])
def test_calls_that_cannot_work(folder, numbers, capsys):
    with pytest.raises(SystemExit) as error:
        few_shot.main([str(folder / "model"), str(folder / "items.jsonl"), "--out", str(folder / "out"), *numbers])
    assert error.value.code == 2
