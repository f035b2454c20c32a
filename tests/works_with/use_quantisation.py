"""Dynamic int8 quantisation of the matrices: about a quarter of their size, and nearly the same outputs."""

import io

import torch
from published import both
from texts import PAIRS, SENTENCES
from torch import nn

CASES = {
    "encoder": "AutoModelForMaskedLM",
    "classifier": "AutoModelForSequenceClassification",
    "dan": "AutoModelForSequenceClassification",
    "decoder": "AutoModelForCausalLM",
    "decoder-rotary": "AutoModelForCausalLM",
    "translator": "AutoModelForSeq2SeqLM",
}


def bytes_of(module: nn.Module) -> int:
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    return file.tell()


for name, auto_class in CASES.items():
    model, tokenizer = both(auto_class, name)
    batch = dict(tokenizer(SENTENCES[:8], padding=True, return_tensors="pt"))
    if name == "translator":
        written = tokenizer([pair[1] for pair in PAIRS[:8]], padding=True, return_tensors="pt")
        batch["decoder_input_ids"] = written["input_ids"]
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    assert any(isinstance(module, nn.Linear) for module in model.modules())
    assert not any(isinstance(module, nn.Linear) for module in quantised.modules())
    with torch.no_grad():
        expected, said = model(**batch).logits, quantised(**batch).logits
    error = (said - expected).norm() / expected.norm()
    assert 0 < error < 0.05, (name, float(error))
    if name == "encoder":
        assert bytes_of(quantised.model.layers) < 0.6 * bytes_of(
            model.model.layers
        )  # biases and norms stay as they are
    if auto_class in ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM"):
        prompt = tokenizer("the cat sees", return_tensors="pt")
        settings = {"max_new_tokens": 6, "do_sample": False}
        with_cache = quantised.generate(**prompt, **settings)
        assert torch.equal(with_cache, quantised.generate(**prompt, **settings, use_cache=False))
