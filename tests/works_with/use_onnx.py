"""ONNX by transformers' own exporter: onnxruntime gives the model's outputs, for other numbers and lengths too."""

import numpy as np
import onnx
import onnxruntime
import torch
from published import both, same
from texts import PAIRS, SENTENCES
from transformers.exporters import OnnxConfig, OnnxExporter

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
    for texts in (SENTENCES[:2], [SENTENCES[5] + " " + SENTENCES[9], *SENTENCES[20:22]]):
        batch = dict(tokenizer(texts, padding=True, return_tensors="pt"))
        if name == "translator":
            written = tokenizer([pair[1] for pair in PAIRS[: len(texts)]], padding=True, return_tensors="pt")
            batch["decoder_input_ids"] = written["input_ids"]
        inputs.append(batch)
    if auto_class.endswith("LM") and name != "encoder":
        model.config.use_cache = False
    exported = OnnxExporter().export(model, dict(inputs[0]), OnnxConfig(dynamic=True))
    exported.save_pretrained(f"onnx-{name}")
    file = f"onnx-{name}/model.onnx"
    onnx.checker.check_model(file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    wanted = [each.name for each in session.get_inputs()]
    output = [each.name for each in session.get_outputs()].index("logits")
    for batch in inputs:
        said = session.run(None, {key: np.asarray(batch[key]) for key in wanted})[output]
        with torch.no_grad():
            same(said, model(**batch).logits, 1e-4)
