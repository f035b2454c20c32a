"""lm-eval on tasks of one's own, offline: choices and perplexity are those that the model's own outputs give."""

import json
import math
from pathlib import Path

import lm_eval
import torch
from lm_eval.tasks import TaskManager
from published import HOME, both, same
from texts import SENTENCES

questions = [
    {"text": "the cat sees", "choices": [" the mouse .", " a red house ."], "label": 0},
    {"text": "a child likes", "choices": [" the sea .", " the mouse ."], "label": 1},
    {"text": "the old king forgets", "choices": [" a red house .", " the sea ."], "label": 0},
]
for name, rows in (("questions", questions), ("pages", [{"page": text} for text in SENTENCES[:6]])):
    Path(f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
tasks = Path("tasks")
tasks.mkdir()
(tasks / "questions.yaml").write_text(
    """
task: endings
dataset_path: json
dataset_kwargs: {data_files: {test: questions.jsonl}}
test_split: test
output_type: multiple_choice
doc_to_text: text
doc_to_choice: choices
doc_to_target: label
target_delimiter: ""
metric_list:
  - {metric: acc, aggregation: mean, higher_is_better: true}
"""
)
(tasks / "pages.yaml").write_text(
    """
task: pages
dataset_path: json
dataset_kwargs: {data_files: {test: pages.jsonl}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: page
metric_list:
  - {metric: byte_perplexity}
"""
)


@torch.no_grad()
def log_probability(model, context: list[int], continuation: list[int]) -> float:
    ids = torch.tensor([context + continuation])
    scores = model(ids).logits[0, len(context) - 1 : -1].log_softmax(-1)
    return float(scores.gather(-1, ids[0, len(context) :, None]).sum())


for name in ("decoder", "decoder-rotary"):
    said, samples = {}, {}
    # The tool puts a first token in front of a page; the tokenizer would put a second one there.
    for task, settings in (("endings", {}), ("pages", {"add_bos_token": False})):
        outcome = lm_eval.simple_evaluate(
            model="hf",
            model_args={"pretrained": str(HOME / name), "trust_remote_code": True, "dtype": "float32", **settings},
            tasks=[task],
            task_manager=TaskManager(include_path=str(tasks.resolve()), include_defaults=False),
            device="cpu",
            batch_size=2,
            bootstrap_iters=0,
        )
        said |= outcome["results"]
        samples |= outcome["samples"]

    model, tokenizer = both("AutoModelForCausalLM", name)

    right = 0
    for row, sample in zip(questions, samples["endings"], strict=True):
        assert sample["doc"] == row
        context = tokenizer(row["text"])["input_ids"]
        scores = [
            log_probability(model, context, tokenizer(row["text"] + choice)["input_ids"][len(context) :])
            for choice in row["choices"]
        ]
        same([float(score) for score, _ in sample["filtered_resps"]], scores, 1e-4)
        right += scores.index(max(scores)) == row["label"]
    assert math.isclose(said["endings"]["acc,none"], right / len(questions)), (said["endings"], right)

    total = 0.0
    for text in SENTENCES[:6]:
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        total += log_probability(model, [tokenizer.bos_token_id], ids)
    expected = math.exp(-total / sum(len(text.encode()) for text in SENTENCES[:6]))
    assert math.isclose(said["pages"]["byte_perplexity,none"], expected, rel_tol=1e-4), (said["pages"], expected)
