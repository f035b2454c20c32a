"""`torch.compile` in one graph: outputs, gradients and generation as without it."""

import torch
from published import both, same
from texts import PAIRS, SENTENCES

CASES = {
    "encoder": "AutoModelForMaskedLM",
    "decoder": "AutoModelForCausalLM",
    "decoder-rotary": "AutoModelForCausalLM",
    "translator": "AutoModelForSeq2SeqLM",
}

for name, auto_class in CASES.items():
    model, tokenizer = both(auto_class, name)
    if name == "translator":
        sources, targets = zip(*PAIRS[:3], strict=True)
        batch = dict(tokenizer(list(sources), text_target=list(targets), padding=True, return_tensors="pt"))
    else:
        batch = dict(tokenizer(SENTENCES[:3], padding=True, return_tensors="pt"))
        batch["labels"] = batch["input_ids"].clone()
    expected = model(**batch)
    expected.loss.backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    compiled = torch.compile(model, fullgraph=True)
    said = compiled(**batch)
    same(said.logits, expected.logits)
    said.loss.backward()
    for key, parameter in model.named_parameters():
        if key in gradients:
            same(parameter.grad, gradients[key], 1e-4)

model, tokenizer = both("AutoModelForCausalLM", "decoder-rotary")
prompt = tokenizer("the cat sees", return_tensors="pt")
settings = {"max_new_tokens": 8, "do_sample": False}
greedy = model.generate(**prompt, **settings)
model.forward = torch.compile(model.forward, fullgraph=True)
assert torch.equal(model.generate(**prompt, **settings, cache_implementation="static"), greedy)
