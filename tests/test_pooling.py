"""What the head of an encoder reads when it labels a text: its first token, or the mean of all."""

import pytest
import torch
from transformers import AutoModelForSequenceClassification

from regard.modeling import TransformerEncoderConfig, TransformerEncoderForSequenceClassification


def classifier(**settings):
    torch.manual_seed(0)
    config = TransformerEncoderConfig(
        vocab_size=23, hidden_size=8, num_attention_heads=2, intermediate_size=16, num_hidden_layers=2, num_labels=3,
        initializer_range=0.5, **settings,
    )  # fmt: skip
    return TransformerEncoderForSequenceClassification(config).eval()


@torch.no_grad()
@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_the_head_reads_real_tokens_alone(pooling):
    """Rows of 5 and 2 tokens: the vectors of each alone, pooled by the definition, give the logits in a batch that is
    padded on either side, with any mask of whole numbers or booleans."""
    model = classifier(classifier_pooling=pooling)
    rows = [torch.tensor([5, 9, 2, 7, 3]), torch.tensor([8, 4])]
    expected = []
    for row in rows:
        (vectors,) = model.model(row[None]).last_hidden_state
        expected.append(model.classifier(vectors[:1] if pooling == "cls" else vectors.sum(0, keepdim=True) / len(row)))
        assert torch.allclose(model(row[None]).logits, expected[-1], atol=1e-6)  # without a mask
    for side in ("right", "left"):
        ids, mask = torch.zeros(2, 6, dtype=torch.int64), torch.zeros(2, 6, dtype=torch.int64)
        for i, row in enumerate(rows):
            place = slice(0, len(row)) if side == "right" else slice(6 - len(row), 6)
            ids[i, place], mask[i, place] = row, 1
        for one in (mask, mask.bool()):
            assert torch.allclose(model(ids, one).logits, torch.cat(expected), atol=1e-5)


def test_half_precision_sums_whole(tmp_path):
    """The mean of 300 times one vector is that vector: a sum in bfloat16 would stop growing at 256 times its parts."""
    model = classifier(classifier_pooling="mean", position_embedding_type="none").bfloat16()
    model.save_pretrained(tmp_path)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path)
    assert model.config.classifier_pooling == "mean"
    with torch.no_grad():
        one, many = (model(torch.full((1, length), 7)).logits for length in (1, 300))
        masked = model(torch.full((1, 300), 7), torch.ones(1, 300, dtype=torch.int64)).logits
    assert one.dtype == torch.bfloat16
    assert torch.allclose(one, many, atol=0.05, rtol=0.02)
    assert torch.allclose(one, masked, atol=0.05, rtol=0.02)


def test_another_pooling_is_refused():
    with pytest.raises(Exception, match="classifier_pooling"):
        classifier(classifier_pooling="max")
