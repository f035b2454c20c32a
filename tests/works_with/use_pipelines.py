"""`pipeline` for five tasks: each gives what the model's own outputs say, and a batch what its texts give alone."""

import torch
from published import both, load, path, same, tokenizer_of
from texts import LABELS, SENTENCES
from transformers import pipeline

TEXTS = [SENTENCES[0], SENTENCES[-1] + " " + SENTENCES[5]]  # of different lengths


def make(task: str, name: str, **settings):
    made = pipeline(task, model=path(name), trust_remote_code=True, **settings)
    assert type(made.model).__module__.startswith("transformers_modules.")
    return made


@torch.no_grad()
def logits_of(auto_class: str, name: str, text: str) -> torch.Tensor:
    model, tokenizer = both(auto_class, name)
    return model(**tokenizer(text, return_tensors="pt")).logits[0]


for name in ("decoder", "decoder-rotary"):
    write = make("text-generation", name)
    settings = {"do_sample": False, "max_new_tokens": 8}
    prompts = ["the cat", "the old king likes"]
    alone = [write(prompt, **settings)[0]["generated_text"] for prompt in prompts]
    write.tokenizer.padding_side = "left"
    together = [row[0]["generated_text"] for row in write(prompts, batch_size=2, **settings)]
    model, tokenizer = both("AutoModelForCausalLM", name)
    for prompt, one, other in zip(prompts, alone, together, strict=True):
        ids = tokenizer(prompt, return_tensors="pt")
        expected = tokenizer.decode(model.generate(**ids, **settings)[0], skip_special_tokens=True)
        assert one == other == expected
        assert one.startswith(prompt)
        assert len(one) > len(prompt)

tokenizer = tokenizer_of("encoder")
masked = f"the cat sees {tokenizer.mask_token} house ."
logits = logits_of("AutoModelForMaskedLM", "encoder", masked)
probabilities = logits[tokenizer(masked)["input_ids"].index(tokenizer.mask_token_id)].softmax(-1)
found = make("fill-mask", "encoder")(masked, top_k=3)
same([each["score"] for each in found], probabilities.topk(3).values)
assert [each["token"] for each in found] == probabilities.topk(3).indices.tolist()

for name in ("classifier", "dan"):
    classify = make("text-classification", name, top_k=None)
    for text, said, again in zip(TEXTS, classify(TEXTS), classify(TEXTS, batch_size=2), strict=True):
        expected = logits_of("AutoModelForSequenceClassification", name, text).softmax(-1)
        for answer in (said, again):
            scores = {each["label"]: each["score"] for each in answer}
            same([scores[label] for label in LABELS], expected)

tagged = make("token-classification", "tagger")(TEXTS[0])
expected = logits_of("AutoModelForTokenClassification", "tagger", TEXTS[0]).softmax(-1)[1:-1]  # not <s> and </s>
same([each["score"] for each in tagged], expected.max(-1).values)
assert [each["entity"] for each in tagged] == [LABELS[i] for i in expected.argmax(-1)]
assert [TEXTS[0][each["start"] : each["end"]] for each in tagged] == TEXTS[0].split()

for name in ("encoder", "decoder"):
    extract = make("feature-extraction", name, return_tensors=True)
    model, tokenizer = load("AutoModel", name), tokenizer_of(name)
    for text, features in zip(TEXTS, extract(TEXTS), strict=True):
        with torch.no_grad():
            same(features, model(**tokenizer(text, return_tensors="pt")).last_hidden_state)
