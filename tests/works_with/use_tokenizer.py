"""AutoTokenizer and the tokenizers library read each folder's tokenizer, and both say the same."""

from datasets import Dataset
from published import HOME, path, tokenizer_of
from texts import SENTENCES
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoTokenizer

FOLDERS = sorted(folder.name for folder in HOME.iterdir())
assert len(FOLDERS) == 9

for name in FOLDERS:
    tokenizer = tokenizer_of(name)
    assert AutoTokenizer.from_pretrained(path(name)).get_vocab() == tokenizer.get_vocab()  # without remote code
    config = AutoConfig.from_pretrained(path(name), trust_remote_code=True)
    bare = Tokenizer.from_file(str(HOME / name / "tokenizer.json"))
    for text in SENTENCES:
        ids = tokenizer(text)["input_ids"]
        assert ids == bare.encode(text).ids
        assert tokenizer.decode(ids, skip_special_tokens=True) in (text, text.replace(" .", "."))
        assert max(ids) < config.vocab_size
    if name != "words":
        assert config.pad_token_id == tokenizer.pad_token_id
    batch = tokenizer([SENTENCES[0], SENTENCES[0] + " " + SENTENCES[1]], padding=True, return_tensors="np")
    gaps = batch["attention_mask"] == 0
    assert gaps.any()
    assert (batch["input_ids"][gaps] == tokenizer.pad_token_id).all()

    data = Dataset.from_dict({"text": SENTENCES}).map(lambda rows, t=tokenizer: t(rows["text"]), batched=True)
    assert data["input_ids"][3] == tokenizer(SENTENCES[3])["input_ids"]
    tokenizer.save_pretrained(f"saved-{name}")
    assert AutoTokenizer.from_pretrained(f"./saved-{name}")(SENTENCES) == tokenizer(SENTENCES)
