"""PEFT LoRA: the adapter alone learns, is saved beside the base, loads again, and can be merged into it."""

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from published import both, falls, load, same
from texts import PAIRS, SENTENCES

PROJECTIONS = {
    "decoder": ["qkv_proj", "out_proj", "up_proj", "down_proj"],
    "decoder-rotary": "all-linear",
    "translator": ["q_proj", "kv_proj", "qkv_proj", "out_proj"],
}
TASKS = {"decoder": "CAUSAL_LM", "decoder-rotary": "CAUSAL_LM", "translator": "SEQ_2_SEQ_LM"}

for name, projections in PROJECTIONS.items():
    auto_class = "AutoModelForSeq2SeqLM" if name == "translator" else "AutoModelForCausalLM"
    base, tokenizer = both(auto_class, name)
    before = {key: tensor.clone() for key, tensor in base.state_dict().items()}
    if name == "translator":
        sources, targets = zip(*PAIRS[::6], strict=True)
        batch = tokenizer(list(sources), text_target=list(targets), padding=True, return_tensors="pt")
    else:
        batch = tokenizer(SENTENCES[::6], padding=True, return_tensors="pt")
        batch["labels"] = batch["input_ids"].clone()
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100

    settings = LoraConfig(task_type=TASKS[name], r=8, lora_alpha=32, lora_dropout=0.0, target_modules=projections)
    model = get_peft_model(base, settings)
    trained, total = model.get_nb_trainable_parameters()
    assert 0 < trained < total
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-2)
    losses = []
    for _ in range(30):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    falls(losses, by=0.8)

    model.eval().save_pretrained(f"adapter-{name}")
    with torch.no_grad():
        tuned = model(**batch).logits
        with model.disable_adapter():
            same(model(**batch).logits, load(auto_class, name)(**batch).logits)  # the base was left as it was
        fresh = load(auto_class, name)
        for key, tensor in fresh.state_dict().items():
            assert torch.equal(tensor, before[key]), key
        again = PeftModel.from_pretrained(fresh, f"adapter-{name}").eval()
        same(again(**batch).logits, tuned)
        prompt = {key: batch[key][:1] for key in ("input_ids", "attention_mask")}
        written = again.generate(**prompt, max_new_tokens=6, do_sample=False)
        merged = again.merge_and_unload()
        same(merged(**batch).logits, tuned, 1e-4)
        assert torch.equal(merged.generate(**prompt, max_new_tokens=6, do_sample=False), written)
    merged.save_pretrained(f"merged-{name}")
    reloaded = type(merged).from_pretrained(f"merged-{name}").eval()
    with torch.no_grad():
        same(reloaded(**batch).logits, tuned, 1e-4)
