"""The encoder and its heads against the library's BERT.

BERT counts pads as positions unless it is told otherwise, so it is given the positions of real tokens, as ours counts.
"""

import pytest
import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    BertModel,
)

from regard.modeling import (
    TransformerEncoderForMaskedLM,
    TransformerEncoderForQuestionAnswering,
    TransformerEncoderForSequenceClassification,
    TransformerEncoderForTokenClassification,
    TransformerEncoderModel,
)
from regard.train.convert_configs import bert_config
from regard.train.convert_weights import bert_weights

from .parity import (
    assert_same_gradients,
    assert_same_maps,
    ids_and_mask,
    mapped,
    positions_of_real_tokens,
    randomize,
)

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
BATCH, LENGTH = 3, 9

CONFIGS = {
    "small": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24},
    "deeper": {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128},
    "relu, three types, untied": {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "hidden_act": "relu",
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-5,
        "tie_word_embeddings": False,
    },
}
HEADS = {
    "masked": (BertForMaskedLM, TransformerEncoderForMaskedLM),
    "sequence": (BertForSequenceClassification, TransformerEncoderForSequenceClassification),
    "token": (BertForTokenClassification, TransformerEncoderForTokenClassification),
    "question": (BertForQuestionAnswering, TransformerEncoderForQuestionAnswering),
}


def pair(head: str, config: str = "deeper", kernel: str = "sdpa", **more):
    """Ours and the library's, with the same weights."""
    fields = {"vocab_size": 50, "max_position_embeddings": 20, "num_labels": 2 if head == "question" else 4}
    theirs = BertConfig(**CONFIGS[config] | fields | more, attn_implementation=kernel)
    peer_class, our_class = HEADS[head]
    peer = randomize(peer_class(theirs))
    config = bert_config(theirs)
    config._attn_implementation = kernel
    return mapped(our_class(config), bert_weights(peer.state_dict())), peer


def inputs(side: str = "right") -> dict[str, torch.Tensor]:
    ids, mask = ids_and_mask(50, (BATCH, LENGTH), (0, 2, 5), side)
    types = (torch.arange(LENGTH) > 5).long().expand(BATCH, -1)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}


def run_peer(peer, batch: dict[str, torch.Tensor]):
    return peer(**batch, position_ids=positions_of_real_tokens(batch["attention_mask"]))


def labels(head: str, side: str = "right") -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(2)
    if head == "sequence":
        return {"labels": torch.randint(4, (BATCH,), generator=generator)}
    if head == "question":
        return {"start_positions": torch.tensor([0, 3, 2]), "end_positions": torch.tensor([4, 6, 2])}
    targets = torch.randint(4, (BATCH, LENGTH), generator=generator)
    unlabelled = (inputs(side)["attention_mask"] == 0) | (torch.rand(BATCH, LENGTH, generator=generator) < 0.5)
    return {"labels": targets.masked_fill(unlabelled, -100)}


def logits(outputs) -> torch.Tensor:
    if "start_logits" in outputs:
        return torch.stack((outputs.start_logits, outputs.end_logits), dim=-1)
    return outputs.logits


# BERT's classifier reads the first column, on the left a pad; ours reads the first real token.
@pytest.mark.parametrize(
    ("head", "side"),
    [(head, side) for head in HEADS for side in ("right", "left") if (head, side) != ("sequence", "left")],
)
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
@pytest.mark.parametrize("config", CONFIGS)
def test_logits_and_loss(head, config, kernel, side):
    ours, peer = pair(head, config, kernel)
    batch = inputs(side) | labels(head, side)
    with torch.no_grad():
        output, expected = ours(**batch), run_peer(peer, batch)
    torch.testing.assert_close(logits(output), logits(expected), **CLOSE)
    loss = loss_without_pads(expected, batch) if head == "question" else expected.loss
    torch.testing.assert_close(output.loss, loss, **CLOSE)


def loss_without_pads(outputs, batch) -> torch.Tensor:
    """The library compares an answer with the pads too, so that its loss depends on how far a row is padded."""
    total = 0.0
    for name in ("start", "end"):
        pads = batch["attention_mask"] == 0
        both = torch.stack((batch["start_positions"], batch["end_positions"]), dim=1)
        real = ~pads.gather(1, both).any(1)
        scores = outputs[f"{name}_logits"].masked_fill(pads, -torch.inf)[real]
        total = total + torch.nn.functional.cross_entropy(scores, batch[f"{name}_positions"][real]) / 2
    return total


@pytest.mark.parametrize("config", CONFIGS)
def test_hidden_states_and_attentions(config):
    theirs = BertConfig(**CONFIGS[config], vocab_size=50, max_position_embeddings=20, attn_implementation="eager")
    peer = randomize(BertModel(theirs, add_pooling_layer=False))
    config = bert_config(theirs)
    config._attn_implementation = "eager"
    weights = bert_weights({f"bert.{name}": weight for name, weight in peer.state_dict().items()})
    ours = mapped(
        TransformerEncoderModel(config), {name.removeprefix("model."): weight for name, weight in weights.items()}
    )
    batch = inputs() | {"output_hidden_states": True, "output_attentions": True}
    with torch.no_grad():
        output, expected = ours(**batch), run_peer(peer, batch)
    real = batch["attention_mask"].bool()
    assert len(output.hidden_states) == len(expected.hidden_states) == theirs.num_hidden_layers + 1
    for states, expected_states in zip(output.hidden_states, expected.hidden_states, strict=True):
        torch.testing.assert_close(states[real], expected_states[real], **CLOSE)
    assert_same_maps(output.attentions, expected.attentions, real)


@pytest.mark.parametrize(
    ("problem", "num_labels"),
    [("regression", 1), ("regression", 3), ("single_label_classification", 3), ("multi_label_classification", 3)],
)
def test_losses_of_sequence_classification(problem, num_labels):
    ours, peer = pair("sequence", num_labels=num_labels, problem_type=problem)
    generator = torch.Generator().manual_seed(2)
    targets = {
        "regression": torch.randn(BATCH, num_labels, generator=generator),
        "single_label_classification": torch.randint(num_labels, (BATCH,), generator=generator),
        "multi_label_classification": torch.randint(2, (BATCH, num_labels), generator=generator).float(),
    }[problem]
    with torch.no_grad():
        batch = inputs() | {"labels": targets}
        output, expected = ours(**batch), run_peer(peer, batch)
    torch.testing.assert_close(output.loss, expected.loss, **CLOSE)


@pytest.mark.parametrize("loss_only", [False, True])
@pytest.mark.parametrize("head", HEADS)
def test_gradients(head, loss_only):
    """No token is named as the pad, whose vector BERT would not train (`padding_idx`)."""
    ours, peer = pair(head, pad_token_id=None)
    batch = inputs() | labels(head)
    ours(**batch, loss_only=loss_only).loss.backward()
    expected = run_peer(peer, batch)
    (loss_without_pads(expected, batch) if head == "question" else expected.loss).backward()
    assert_same_gradients(ours, peer, bert_weights)
