"""`torch.export`: a graph for any number and length of texts, saved and loaded, gives the model's own outputs."""

import torch
from published import both, same
from texts import PAIRS, SENTENCES
from torch.export import Dim

CASES = {
    "encoder": "AutoModelForMaskedLM",
    "classifier": "AutoModelForSequenceClassification",
    "dan": "AutoModelForSequenceClassification",
    "decoder": "AutoModelForCausalLM",
    "decoder-rotary": "AutoModelForCausalLM",
    "translator": "AutoModelForSeq2SeqLM",
}

for name, auto_class in CASES.items():
    model, tokenizer = both(auto_class, name)
    inputs = []
    for texts in (SENTENCES[:2], [SENTENCES[5] + " " + SENTENCES[9], *SENTENCES[20:22]]):  # other number and length
        batch = dict(tokenizer(texts, padding=True, return_tensors="pt"))
        if name == "translator":
            written = tokenizer([pair[1] for pair in PAIRS[: len(texts)]], padding=True, return_tensors="pt")
            batch["decoder_input_ids"] = written["input_ids"]
        inputs.append(batch)
    if auto_class.endswith("LM") and name != "encoder":
        model.config.use_cache = False
    shapes = {key: {0: Dim.AUTO, 1: Dim.AUTO} for key in inputs[0]}
    program = torch.export.export(model, (), inputs[0], dynamic_shapes=shapes, strict=False)
    torch.export.save(program, f"{name}.pt2")
    exported = torch.export.load(f"{name}.pt2").module()
    with torch.no_grad():
        for batch in inputs:
            same(exported(**batch).logits, model(**batch).logits)
