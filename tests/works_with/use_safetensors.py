"""safetensors: each file opens without torch's pickle, holds each weight once, and is what the model computes with."""

import torch
from published import HOME, load
from safetensors import safe_open
from safetensors.torch import load_file, load_model

CASES = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "translator": "AutoModelForSeq2SeqLM",
    "dan": "AutoModelForSequenceClassification",
    "words": "AutoModel",
}

for name, auto_class in CASES.items():
    file = HOME / name / "model.safetensors"
    model = load(auto_class, name)
    state = model.state_dict()
    with safe_open(file, framework="pt") as opened:
        assert opened.metadata()["format"] == "pt"
        keys = set(opened.keys())
        for key in keys:
            assert opened.get_slice(key).get_shape() == list(state[key].shape)
    tied = {key for key in state if key not in keys}
    stored = {state[key].data_ptr() for key in keys}
    assert all(state[key].data_ptr() in stored for key in tied), tied
    for key, tensor in load_file(file).items():
        assert torch.equal(tensor, state[key]), key

    torch.manual_seed(1)
    blank = type(model)(model.config)
    missing, unexpected = load_model(blank, file, strict=False)
    assert not unexpected
    assert set(missing) <= tied
    for key, tensor in blank.state_dict().items():
        assert torch.equal(tensor, state[key]), key
