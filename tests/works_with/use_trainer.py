"""`Trainer` and `Seq2SeqTrainer`: losses fall, evaluation and generation agree with the model, what is saved loads."""

import math

import torch
from datasets import Dataset
from published import both, falls
from texts import PAIRS, SENTENCES, label_of
from transformers import (
    AutoModelForSeq2SeqLM,
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorWithPadding,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    Trainer,
    TrainingArguments,
)

ARGUMENTS = {
    "per_device_train_batch_size": 16,
    "max_steps": 30,
    "learning_rate": 5e-3,
    "logging_steps": 5,
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}


def losses(trainer: Trainer) -> list[float]:
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def rows(tokenizer, **columns) -> Dataset:
    return Dataset.from_dict({**tokenizer(SENTENCES), **columns})


for name, auto_class, steps in (
    ("decoder", "AutoModelForCausalLM", 30),
    ("decoder-rotary", "AutoModelForCausalLM", 30),
    ("encoder", "AutoModelForMaskedLM", 150),
):
    model, tokenizer = both(auto_class, name)
    collator = DataCollatorForLanguageModeling(tokenizer, mlm=name == "encoder", seed=0)
    arguments = TrainingArguments(f"out-{name}", **{**ARGUMENTS, "max_steps": steps})
    trainer = Trainer(model, arguments, collator, train_dataset=rows(tokenizer), processing_class=tokenizer)
    trainer.train()
    falls(losses(trainer))

for name, steps in (("classifier", 30), ("dan", 150)):
    model, tokenizer = both("AutoModelForSequenceClassification", name)
    data = rows(tokenizer, labels=[label_of(sentence) for sentence in SENTENCES])
    trainer = Trainer(
        model,
        TrainingArguments(f"out-{name}", **{**ARGUMENTS, "max_steps": steps}),
        DataCollatorWithPadding(tokenizer),
        train_dataset=data,
        eval_dataset=data,
        compute_metrics=lambda said: {"accuracy": float((said.predictions.argmax(-1) == said.label_ids).mean())},
        processing_class=tokenizer,
    )
    trainer.train()
    falls(losses(trainer))
    assert trainer.evaluate()["eval_accuracy"] == 1.0

model, tokenizer = both("AutoModelForSeq2SeqLM", "translator")
sources, targets = zip(*PAIRS, strict=True)
data = Dataset.from_dict(tokenizer(list(sources), text_target=list(targets)))
trainer = Seq2SeqTrainer(
    model,
    Seq2SeqTrainingArguments(
        "out-translator",
        **{**ARGUMENTS, "max_steps": 60},
        predict_with_generate=True,
        generation_max_length=40,
        generation_num_beams=2,
    ),
    DataCollatorForSeq2Seq(tokenizer, model=model),
    train_dataset=data,
    eval_dataset=data,
    processing_class=tokenizer,
)
trainer.train()
falls(losses(trainer), by=0.4)
predicted = trainer.predict(data.select(range(4)))
model.eval()
expected = model.generate(
    **tokenizer(list(sources[:4]), padding=True, return_tensors="pt"), max_length=40, num_beams=2
)
width = min(expected.shape[1], predicted.predictions.shape[1])
assert torch.equal(expected[:, :width], torch.tensor(predicted.predictions[:, :width]))

total, targets_seen = 0.0, 0
for row in data:
    batch = {name: torch.tensor([row[name]]) for name in ("input_ids", "attention_mask", "labels")}
    with torch.no_grad():
        total += float(model(**batch).loss) * len(row["labels"])
    targets_seen += len(row["labels"])
evaluated = trainer.evaluate()["eval_loss"]
assert math.isclose(evaluated, total / targets_seen, rel_tol=0.02), (evaluated, total / targets_seen)

trainer.save_model("saved")
again = AutoModelForSeq2SeqLM.from_pretrained("./saved", trust_remote_code=True).eval()
for key, tensor in model.state_dict().items():
    assert torch.equal(again.state_dict()[key], tensor), key
