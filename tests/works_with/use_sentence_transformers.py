"""sentence-transformers: an encoder's mean vector or a decoder's last, alike in batches and saved; it learns."""

import torch
from published import HOME, both, falls, same
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import losses
from texts import SENTENCES, label_of

TEXTS = [SENTENCES[0], SENTENCES[20] + " " + SENTENCES[3], SENTENCES[-1]]


POOLING = {"encoder": lambda vectors: vectors.mean(0), "decoder": lambda vectors: vectors[-1]}  # the tool's choice

for name, pool in POOLING.items():
    sentences = SentenceTransformer(str(HOME / name), trust_remote_code=True, device="cpu")
    base, tokenizer = both("AutoModel", name)
    with torch.no_grad():
        outputs = [base(**tokenizer(text, return_tensors="pt")) for text in TEXTS]
    expected = torch.stack([pool(output.last_hidden_state[0]) for output in outputs])
    same(sentences.encode(TEXTS, batch_size=3), expected)
    same(sentences.encode(TEXTS, batch_size=1), expected)
    same(sentences.similarity(expected, expected), torch.cosine_similarity(expected[:, None], expected[None], dim=-1))

    sentences.save(f"saved-{name}")
    again = SentenceTransformer(f"./saved-{name}", trust_remote_code=True, device="cpu")
    same(again.encode(TEXTS), expected)

    contrast = losses.ContrastiveLoss(sentences)
    one, other = SENTENCES[:16], SENTENCES[-16:]
    features = [sentences.preprocess(texts) for texts in (one, other)]
    labels = torch.tensor([int(label_of(a) == label_of(b)) for a, b in zip(one, other, strict=True)])
    optimizer = torch.optim.AdamW(sentences.parameters(), lr=1e-3)
    seen = []
    sentences.train()
    for _ in range(20):
        loss = contrast([dict(each) for each in features], labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seen.append(loss.item())
    falls(seen)
