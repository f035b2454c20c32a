"""`generate`: greedy, beams, sampling, assisted decoding, prompt look-up, streaming, and a static cache."""

import torch
from published import both, load
from transformers import TextIteratorStreamer, set_seed

GREEDY = {"do_sample": False, "max_new_tokens": 12, "min_new_tokens": 12}

for name in ("decoder", "decoder-rotary"):
    model, tokenizer = both("AutoModelForCausalLM", name)
    prompt = tokenizer("the cat sees", return_tensors="pt")
    length = prompt["input_ids"].shape[1]
    greedy = model.generate(**prompt, **GREEDY)

    step = prompt["input_ids"]  # the definition: the likeliest next token, again and again, without a cache
    for _ in range(12):
        with torch.no_grad():
            logits = model(step).logits[:, -1]
        logits[:, tokenizer.eos_token_id] = -torch.inf  # as min_new_tokens has it
        step = torch.cat([step, logits.argmax(-1, keepdim=True)], dim=1)
    assert torch.equal(greedy, step)
    assert torch.equal(greedy, model.generate(**prompt, **GREEDY, cache_implementation="static", disable_compile=True))

    beams = {"num_beams": 4, "num_return_sequences": 4, "output_scores": True, "return_dict_in_generate": True}
    with_cache = model.generate(**prompt, **GREEDY, **beams)
    without = model.generate(**prompt, **GREEDY, **beams, use_cache=False)
    assert torch.equal(with_cache.sequences, without.sequences)
    torch.testing.assert_close(with_cache.sequences_scores, without.sequences_scores)
    with torch.no_grad():
        scores = model(with_cache.sequences).logits[:, :-1].log_softmax(-1)
    each = scores.gather(-1, with_cache.sequences[:, 1:, None])[:, length - 1 :, 0]
    torch.testing.assert_close(each.mean(-1), with_cache.sequences_scores, atol=1e-4, rtol=1e-4)

    drawn = []
    for seed in (1, 1, 2):
        set_seed(seed)
        drawn.append(model.generate(**prompt, do_sample=True, top_k=0, max_new_tokens=12))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert torch.equal(model.generate(**prompt, **{**GREEDY, "do_sample": True}, top_k=1), greedy)

    streamer = TextIteratorStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
    model.generate(**prompt, **GREEDY, streamer=streamer)
    assert "".join(streamer) == tokenizer.decode(greedy[0, length:], skip_special_tokens=True)

    assert torch.equal(model.generate(**prompt, **GREEDY, prompt_lookup_num_tokens=3), greedy)
    assistant = load("AutoModelForCausalLM", "assistant")
    assert torch.equal(model.generate(**prompt, **GREEDY, assistant_model=assistant), greedy)

model, tokenizer = both("AutoModelForSeq2SeqLM", "translator")
texts = ["the cat sees the sea .", "a child forgets the mouse . the dog likes the sea ."]
batch = tokenizer(texts, padding=True, return_tensors="pt")
for settings in ({"num_beams": 1}, {"num_beams": 3}):
    together = model.generate(**batch, **GREEDY, **settings)
    assert torch.equal(together, model.generate(**batch, **GREEDY, **settings, use_cache=False))
    for text, row in zip(texts, together, strict=True):
        assert torch.equal(model.generate(**tokenizer(text, return_tensors="pt"), **GREEDY, **settings)[0], row)
one = tokenizer(texts[0], return_tensors="pt")
assert torch.equal(model.generate(**one, **GREEDY, assistant_model=model), model.generate(**one, **GREEDY))
