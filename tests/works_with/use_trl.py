"""TRL's `SFTTrainer`: on texts, on prompts with completions (whose prompts teach nothing), and with packing."""

from datasets import Dataset
from published import both, falls
from texts import SENTENCES
from trl import SFTConfig, SFTTrainer

ARGUMENTS = {
    "per_device_train_batch_size": 16,
    "max_steps": 30,
    "learning_rate": 5e-3,
    "logging_steps": 5,
    "report_to": [],
    "save_strategy": "no",
    "use_cpu": True,
    "bf16": False,
    "disable_tqdm": True,
    "max_length": 32,
    "gradient_checkpointing": False,
}
PLAIN = Dataset.from_dict({"text": SENTENCES})
SPLIT = [sentence.split() for sentence in SENTENCES]
PROMPTED = Dataset.from_dict(
    {"prompt": [" ".join(words[:2]) for words in SPLIT], "completion": [" " + " ".join(words[2:]) for words in SPLIT]}
)

for name, data, settings in (
    ("decoder", PLAIN, {}),
    ("decoder-rotary", PROMPTED, {"completion_only_loss": True}),
    ("decoder", PLAIN, {"packing": True, "packing_strategy": "wrapped"}),
):
    model, tokenizer = both("AutoModelForCausalLM", name)
    tokenizer.split_special_tokens = False  # the tool writes "</s>" after each text and wants it to be one token
    trainer = SFTTrainer(
        model=model,
        args=SFTConfig("out", **ARGUMENTS, **settings),
        train_dataset=data,
        processing_class=tokenizer,
    )
    trainer.train()
    falls([entry["loss"] for entry in trainer.state.log_history if "loss" in entry])
    if data is PROMPTED:
        batch = next(iter(trainer.get_train_dataloader()))
        for labels in batch["labels"]:
            kept = labels[labels != -100]
            assert tokenizer.decode(kept[:-1]).strip() in {" ".join(words[2:]) for words in SPLIT}
            assert kept[-1] == tokenizer.eos_token_id
