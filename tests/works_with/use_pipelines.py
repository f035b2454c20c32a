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

tokenizer, fill = tokenizer_of("encoder"), make("fill-mask", "encoder")
masked = [f"the cat sees {tokenizer.mask_token} house .", f"{SENTENCES[5]} a {tokenizer.mask_token} likes the sea ."]
for text, found, again in zip(masked, fill(masked, top_k=3), fill(masked, top_k=3, batch_size=2), strict=True):
    logits = logits_of("AutoModelForMaskedLM", "encoder", text)
    expected = logits[tokenizer(text)["input_ids"].index(tokenizer.mask_token_id)].softmax(-1).topk(3)
    for answer in (found, again):
        same([each["score"] for each in answer], expected.values)
        assert [each["token"] for each in answer] == expected.indices.tolist()

for name in ("classifier", "dan"):
    classify = make("text-classification", name, top_k=None)
    for text, said, again in zip(TEXTS, classify(TEXTS), classify(TEXTS, batch_size=2), strict=True):
        expected = logits_of("AutoModelForSequenceClassification", name, text).softmax(-1)
        for answer in (said, again):
            scores = {each["label"]: each["score"] for each in answer}
            same([scores[label] for label in LABELS], expected)

tag = make("token-classification", "tagger")
for text, tagged, again in zip(TEXTS, tag(TEXTS), tag(TEXTS, batch_size=2), strict=True):
    expected = logits_of("AutoModelForTokenClassification", "tagger", text).softmax(-1)[1:-1]  # not <s> and </s>
    for answer in (tagged, again):
        same([each["score"] for each in answer], expected.max(-1).values)
        assert [each["entity"] for each in answer] == [LABELS[i] for i in expected.argmax(-1)]
        assert [text[each["start"] : each["end"]] for each in answer] == text.split()

for name in ("encoder", "decoder"):
    extract = make("feature-extraction", name, return_tensors=True)
    model, tokenizer = load("AutoModel", name), tokenizer_of(name)
    for text, features, again in zip(TEXTS, extract(TEXTS), extract(TEXTS, batch_size=2), strict=True):
        with torch.no_grad():
            expected = model(**tokenizer(text, return_tensors="pt")).last_hidden_state
        same(features, expected)
        same(again[:, : expected.shape[1]], expected)  # in a batch, with the pads of the shorter text behind it
