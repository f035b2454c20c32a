"""`few_shot` and lm-eval on the same tasks, each defined in both ways over the same local files.

lm-eval runs in a process of its own, where regard is refused, with the folder as it would be published. Its Python is
that of the variable REGARD_TOOLS_PYTHON; without lm-eval there, nothing is tested.
"""

import json
import subprocess
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from regard.evaluation.few_shot.run import few_shot
from regard.evaluation.generation import load_run
from regard.modeling import TransformerDecoderConfig, TransformerDecoderForCausalLM
from regard.train.tokenization import train_tokenizer

from .folders import ROTARY
from .matrix import SCRIPTS, environment, tools_python, versions
from .texts import OBJECTS, SENTENCES, SUBJECTS, VERBS

SHOTS = (0, 2)

# Each task: its rows (the last two are the shots), and both definitions but for the data.
TASKS = {
    "labels": (  # as SST-2: the same few labels for all
        [{"sentence": text, "label": len(text) % 2} for text in SENTENCES[::7]],
        {
            "query": "{{ sentence }}\nQuestion: Is it good or bad?\nAnswer:",
            "choices": {"labels": ["bad", "very good"]},
            "answer": "{{ label }}",
        },
        {
            "doc_to_text": "{{sentence}}\nQuestion: Is it good or bad?\nAnswer:",
            "doc_to_choice": ["bad", "very good"],
            "doc_to_target": "label",
        },
    ),
    "questions": (  # as ARC: choices of its own for each
        [
            {"question": f"What {verb} {subject}?", "choices": [*OBJECTS, subject][: 2 + i % 3], "answer": i % 2}
            for i, (subject, verb) in enumerate((s, v) for s in SUBJECTS[:3] for v in VERBS[:3])
        ],
        {
            "query": "Question: {{ question }}\nAnswer:",
            "choices": {"field": "choices"},
            "answer": "{{ answer }}",
            "separator": "\n",
        },
        {
            "doc_to_text": "Question: {{question}}\nAnswer:",
            "doc_to_choice": "{{choices}}",
            "doc_to_target": "{{answer}}",
            "fewshot_delimiter": "\n",
        },
    ),
    "causes": (  # as COPA: two sentences that may follow
        [
            {
                "premise": text,
                "asks": ["cause", "effect"][i % 2],
                "one": SENTENCES[i],
                "two": SENTENCES[-i],
                "label": 1,
            }
            for i, text in enumerate(SENTENCES[3:30:4])
        ],
        {
            "query": "{{ premise[:-2] }} {{ 'because' if asks == 'cause' else 'therefore' }}",
            "choices": {"templates": ["{{ one }}", "{{ two }}"]},
            "answer": "{{ label }}",
        },
        {
            "doc_to_text": "{{premise[:-2]}} {{'because' if asks == 'cause' else 'therefore'}}",
            "doc_to_choice": "{{[one, two]}}",
            "doc_to_target": "label",
        },
    ),
    "contexts": (  # as WinoGrande: the options differ in what comes before the same continuation
        [
            {"before": [f"{s} sees {o}, and {s}", f"{s} sees {o}, and {o}"], "rest": "is small .", "right": len(s) % 2}
            for s in SUBJECTS
            for o in OBJECTS[:2]
        ],
        {"choices": {"contexts": "before", "continuation": "{{ rest }}"}, "answer": "{{ right }}"},
        {"doc_to_text": "right", "doc_to_choice": "before", "doc_to_target": "rest"},
    ),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """A decoder of ours whose tokenizer puts a first token, and a GPT-2 whose tokenizer puts none."""
    home = tmp_path_factory.mktemp("parity")
    torch.manual_seed(0)
    for name, template in (("ours", "bos"), ("gpt2", "none")):
        tokenizer = train_tokenizer(SENTENCES, "byte-bpe", 300, min_frequency=1, max_length=256, template=template)
        sizes = {"vocab_size": len(tokenizer), "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
        if name == "ours":
            widths = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_layers": 2}
            config = TransformerDecoderConfig(**sizes, **widths, **ROTARY, initializer_range=0.2)
            model = TransformerDecoderForCausalLM(config)
        else:
            widths = {"n_embd": 32, "n_head": 4, "n_layer": 2, "n_positions": 256, "initializer_range": 0.2}
            model = GPT2LMHeadModel(GPT2Config(**sizes, **widths))
        model.save_pretrained(home / name)
        tokenizer.save_pretrained(home / name)
    return home


def write_rows(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.mark.parametrize("name", ["ours", "gpt2"])
def test_log_probabilities_and_accuracies_are_those_of_lm_eval(name, folders, tmp_path):
    if versions(tools_python())["lm_eval"] is None:
        pytest.skip(f"lm_eval not installed in {tools_python()}: `pip install regard[tools]`")
    model, tokenizer = load_run(folders / name)
    tasks = tmp_path / "tasks"
    tasks.mkdir()
    expected, calls = [], []
    for task, (rows, own, theirs) in TASKS.items():
        asked = write_rows(tmp_path / f"{task}.jsonl", rows[:-2])
        pool = write_rows(tmp_path / f"{task}-pool.jsonl", rows[-2:])
        definition = {"name": task, "data": {"file": asked, "shots_file": pool}} | own
        (tmp_path / f"{task}.yaml").write_text(json.dumps(definition))  # JSON is YAML
        result = few_shot(model, tokenizer, tmp_path / f"{task}.yaml", shots=SHOTS, seeds=[0], balanced=False)
        for shots in SHOTS:
            records = [record for record in result.records if record["shots"] == shots]
            (shown,) = {tuple(record["shown"]) for record in records}
            order = [rows[-2:][int(item.rpartition("/")[2])] for item in shown]
            data = {"test": asked, "shots": write_rows(tmp_path / f"{task}-{shots}-shots.jsonl", order or rows[-2:])}
            definition = {
                "task": f"{task}-{shots}",
                "dataset_path": "json",
                "dataset_kwargs": {"data_files": data},
                "test_split": "test",
                "fewshot_split": "shots",
                "fewshot_config": {"sampler": "first_n"},
                "output_type": "multiple_choice",
                "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
            }
            (tasks / f"{task}-{shots}.yaml").write_text(json.dumps(definition | theirs))
            calls.append([f"{task}-{shots}", shots])
            expected.append((result.point(shots).mean, records))
    (tmp_path / "calls.json").write_text(json.dumps(calls))
    done = subprocess.run(
        [tools_python(), str(SCRIPTS / "scores_by_lm_eval.py"), str(folders), name],
        cwd=tmp_path,
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads((tmp_path / "scores.json").read_text())
    assert len(found) == len(TASKS) * len(SHOTS)
    for (mean, records), theirs in zip(expected, found, strict=True):
        assert theirs["accuracy"] == pytest.approx(mean)
        for record, values in zip(records, theirs["log_probabilities"], strict=True):
            assert [choice["log_probability"] for choice in record["choices"]] == pytest.approx(values, abs=1e-4)
