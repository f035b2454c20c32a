"""What lm-eval says of a folder's model, for comparison with `regard few-shot`: called by test_few_shot_parity.py.

`python scores_by_lm_eval.py FOLDERS NAME` reads `calls.json` in the working folder, a list of [task, shots], and the
definitions in `tasks/`. It writes `scores.json`: for each call the accuracy, and the log-probabilities of each item's
choices.
"""

import json
import sys
from pathlib import Path

import lm_eval
from lm_eval.models.huggingface import HFLM
from lm_eval.tasks import TaskManager
from published import path

calls = json.loads(Path("calls.json").read_text())
model = HFLM(pretrained=path(sys.argv[2]), trust_remote_code=True, dtype="float32", device="cpu", batch_size=4)
tasks = TaskManager(include_path=str(Path("tasks").resolve()), include_defaults=False)
scores = []
for task, shots in calls:
    outcome = lm_eval.simple_evaluate(
        model=model, tasks=[task], num_fewshot=shots, task_manager=tasks, bootstrap_iters=0
    )
    samples = sorted(outcome["samples"][task], key=lambda sample: sample["doc_id"])
    scores.append(
        {
            "accuracy": outcome["results"][task]["acc,none"],
            "log_probabilities": [
                [float(log_probability) for log_probability, _ in sample["filtered_resps"]] for sample in samples
            ],
        }
    )
Path("scores.json").write_text(json.dumps(scores))
