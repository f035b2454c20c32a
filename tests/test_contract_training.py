"""Losses and gradients: their definition, accumulation, ignored labels, smoothing, checkpointing, compilation."""

import copy

import pytest
import torch
from torch import nn

from .families import IGNORE, Entry, every, listening, output_of, select
from .test_contract_attention import pad_rows, rows_of

CLASSIFIERS = {"auto_class": "AutoModelForSequenceClassification"}


def targets_of(entry: Entry, batch: dict) -> torch.Tensor:
    """The labels as they stand against the logits, position by position, shifted here for a causal model."""
    labels = batch["labels"]
    return nn.functional.pad(labels[:, 1:], (0, 1), value=IGNORE) if entry.kind == "decoder" else labels


def loss_by_hand(logits: torch.Tensor, targets: torch.Tensor, smoothing: float = 0.0) -> torch.Tensor:
    """Szegedy et al. (2016), section 7, written out: target by target."""
    total, count = 0.0, 0
    for row, target in zip(logits.flatten(0, -2).log_softmax(-1), targets.flatten().tolist(), strict=True):
        if target != IGNORE:
            total = total - (1 - smoothing) * row[target] - smoothing * row.mean()
            count += 1
    return total / count


def gradients(model: nn.Module, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_same_gradients(one: dict, other: dict, tolerance: float = 1e-5) -> None:
    assert one.keys() == other.keys()
    for name, gradient in one.items():
        torch.testing.assert_close(gradient, other[name], atol=tolerance, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


# The loss is what it says


@every(token_loss=True)
def test_loss_is_the_mean_over_real_targets(entry: Entry):
    model, batch = entry.model(label_smoothing=0.3), entry.labelled()
    outputs = model(**batch)
    torch.testing.assert_close(outputs.loss, loss_by_hand(outputs.logits, targets_of(entry, batch)))
    assert outputs.loss.dtype == torch.float32


@every(token_loss=True, variant=("paper", "llama"))
def test_smoothing_acts_in_training_alone(entry: Entry):
    model, batch = entry.model(label_smoothing=0.3, dropout=0.0).train(), entry.labelled()
    outputs = model(**batch)
    by_hand = loss_by_hand(outputs.logits, targets_of(entry, batch), smoothing=0.3)
    torch.testing.assert_close(outputs.loss, by_hand)
    torch.testing.assert_close(model(**batch, loss_only=True).loss, by_hand)
    assert model.eval()(**batch).loss != outputs.loss
    assert entry.config().label_smoothing == (0.1 if entry.kind == "seq2seq" else 0.0)


@every(token_loss=True, variant="paper")
def test_perfect_logits_have_no_loss(entry: Entry, monkeypatch):
    """Whoever shifts twice, or not at all, loses here: the head is made to know each target."""
    model, batch = entry.model(), entry.labelled()
    targets = targets_of(entry, batch).clamp(min=0)
    known = 50.0 * nn.functional.one_hot(targets, model.config.vocab_size).float()
    monkeypatch.setattr(model.lm_head, "forward", lambda states: known)
    assert model(**batch).loss < 1e-4


@every(kind="seq2seq", token_loss=True, variant=("paper", "shared"))
def test_start_token_and_shift(entry: Entry):
    settings = {"pad_token_id": 1, "decoder_start_token_id": 2, "bos_token_id": 2, "eos_token_id": 3}
    model = entry.model(**settings)
    labels = torch.tensor([[5, 6, 2, IGNORE, IGNORE]])
    shifted = torch.tensor([[2, 5, 6, 2, 1]])
    assert torch.equal(model.prepare_decoder_input_ids_from_labels(labels), shifted)
    source = entry.inputs(batch=1)["input_ids"]
    outputs = model(input_ids=source, labels=labels)
    given = model(input_ids=source, decoder_input_ids=shifted, labels=labels)
    assert torch.equal(outputs.logits, given.logits)
    by_hand = nn.functional.cross_entropy(outputs.logits[0, :3], labels[0, :3])
    torch.testing.assert_close(outputs.loss, by_hand)
    assert torch.equal(given.loss, outputs.loss)
    assert model.generate(source, max_new_tokens=3)[0, 0] == 2


def test_start_token_that_is_missing_is_named():
    entry = select(kind="seq2seq", token_loss=True)[0]
    with pytest.raises(ValueError, match="decoder_start_token_id is not set"):
        entry.model(decoder_start_token_id=None)(**entry.labelled())


@every(has_loss=True)
def test_loss_only_has_the_same_loss_and_gradients(entry: Entry):
    model, batch = entry.model(dropout=0.0).train(), entry.labelled()
    full, short = model(**batch), model(**batch, loss_only=True)
    torch.testing.assert_close(short.loss, full.loss)
    assert not any(short.get(name) is not None for name in ("logits", "start_logits", "end_logits"))
    assert_same_gradients(gradients(model, full.loss), gradients(model, short.loss))
    assert output_of(model(**entry.inputs(), loss_only=True)) is not None  # without labels, there are logits after all


@every(kind="decoder", token_loss=True, variant="paper")
def test_last_logits_only(entry: Entry):
    model, inputs = entry.model(), entry.inputs()
    whole = model(**inputs).logits
    torch.testing.assert_close(model(**inputs, logits_to_keep=1).logits, whole[:, -1:])
    torch.testing.assert_close(model(**inputs, logits_to_keep=torch.tensor([0, 3])).logits, whole[:, [0, 3]])


# Accumulation


@every(has_loss=True, variant=("paper", "llama", "shared"))
def test_accumulated_step_equals_one_larger_batch(entry: Entry):
    """Plain SGD, rows of unequal numbers of targets: one batch of 4 against 4 of 1, divided by the step's targets."""
    start, batch = entry.model(dropout=0.0).train(), entry.labelled(batch=4)
    if entry.token_loss:
        batch["labels"][1, 3:] = IGNORE
        targets = targets_of(entry, batch)
    else:
        targets = batch[entry.label_names[0]]
    count = (targets != IGNORE).sum()
    losses, models = [], []
    for size in (4, 1):
        model = copy.deepcopy(start)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        total = torch.zeros(())
        for first in range(0, 4, size):
            rows = {name: tensor[first : first + size] for name, tensor in batch.items()}
            loss = model(**rows, num_items_in_batch=count).loss
            loss.backward()
            total += loss.detach()
        optimizer.step()
        losses.append(total)
        models.append(model)
    torch.testing.assert_close(losses[0], start(**batch).loss.detach())
    torch.testing.assert_close(losses[0], losses[1])
    for (name, one), other in zip(models[0].named_parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


def test_accumulation_by_hand():
    """Token losses {4} and {2, 2, 2}: 2.5 per target, not the mean of means 3.0 and not the sum of means 6."""
    from regard.modeling.losses import cross_entropy

    def logits_with_loss(loss: float, rows: int) -> torch.Tensor:
        """Two classes, the label is class 0: log(1 + exp(x)) = loss."""
        return torch.tensor([[0.0, loss]] * rows).expm1().clamp(min=1e-30).log() * torch.tensor([0.0, 1.0])

    parts = [
        cross_entropy(logits_with_loss(loss, rows), torch.zeros(rows, dtype=torch.long), num_items_in_batch=4)
        for loss, rows in ((4.0, 1), (2.0, 3))
    ]
    assert sum(parts).item() == pytest.approx(2.5)


# Labels that are ignored


@every(has_loss=True, variant=("paper", "llama"))
def test_all_labels_ignored(entry: Entry, caplog):
    model, batch = entry.model(dropout=0.0).train(), entry.labelled()
    for name in entry.label_names:
        batch[name] = torch.full_like(batch[name], IGNORE)
    for arguments in ({}, {"loss_only": True}, {"num_items_in_batch": torch.tensor(0)}, {"num_items_in_batch": 0}):
        with listening(caplog):
            loss = model(**batch, **arguments).loss
            model(**batch, **arguments)
        assert loss.item() == 0.0
        assert all(bool((gradient == 0).all()) for gradient in gradients(model, loss).values())
        assert caplog.text.count("no labels") == 1
        caplog.clear()
    assert model.eval()(**batch).loss == 0.0


@every(has_loss=True, variant=("paper", "llama"))
def test_ignored_row_changes_nothing(entry: Entry):
    model, batch = entry.model(dropout=0.0).train(), entry.labelled(batch=4)
    for name in entry.label_names:
        batch[name][2] = IGNORE
    rest = {name: tensor[[0, 1, 3]] for name, tensor in batch.items()}
    one, other = model(**batch).loss, model(**rest).loss
    torch.testing.assert_close(one, other)
    assert_same_gradients(gradients(model, one), gradients(model, other))


# Gradients


@every(has_loss=True)
def test_every_parameter_takes_part_in_the_loss(entry: Entry):
    model = entry.model(dropout=0.0).train()
    ids, mask = pad_rows(rows_of(entry), "right")
    batch = {**entry.labelled(), "input_ids": ids, "attention_mask": mask}
    with_gradient = gradients(model, model(**batch).loss)
    assert not {name for name, _ in model.named_parameters()} - with_gradient.keys()
    assert all(gradient.isfinite().all() for gradient in with_gradient.values())


@every(has_loss=True, variant=("paper", "llama", "shared", "bert"))
@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradients(entry: Entry, reentrant):
    model, batch = entry.model(dropout=0.0).train(), entry.labelled()
    plain = gradients(model, model(**batch).loss)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    assert_same_gradients(gradients(model, model(**batch).loss), plain)


@every(causal=True, token_loss=True, variant=("paper", "shared"))
@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_gradient_checkpointing_updates_no_cache_twice(entry: Entry, name):
    from transformers import DynamicCache, EncoderDecoderCache

    model, batch = entry.model(dropout=0.0).train(), entry.labelled()
    plain = gradients(model, model(**batch).loss)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    cache = DynamicCache()
    if entry.kind == "seq2seq":
        cache = EncoderDecoderCache(cache, DynamicCache())
    loss = model(**batch, **{name: cache}, use_cache=True).loss
    assert_same_gradients(gradients(model, loss), plain)
    assert cache.get_seq_length() in (0, 7)  # left out, or filled once; never 14


@every(has_loss=True, has_base=True, variant="paper")
def test_frozen_backbone_trains_the_head(entry: Entry):
    model = entry.model(tie_word_embeddings=False, dropout=0.0).train()
    model.model.requires_grad_(False)
    with_gradient = gradients(model, model(**entry.labelled()).loss)
    assert with_gradient
    assert not any(name.startswith("model.") for name in with_gradient)


# Labels that the caller has shifted


@every(kind="decoder", token_loss=True, variant="llama")
def test_cycle_is_learnt_with_labels_that_are_the_input(entry: Entry):
    model = entry.model(dropout=0.0, perturbed=False).train()
    ids = torch.tensor([[5, 6, 7, 8] * 4])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert torch.equal(model.eval()(ids).logits.argmax(-1)[0, :-1], ids[0, 1:])


@every(kind="decoder", token_loss=True, variant="paper")
def test_shifted_labels_are_noticed(entry: Entry, caplog):
    ids = torch.tensor([[5, 6, 7, 8, 5, 6]])
    shifted = torch.tensor([[6, 7, 8, 5, 6, IGNORE]])
    with listening(caplog):
        entry.model().train()(ids, labels=ids)
        entry.model().train()(torch.full((1, 6), 5), labels=torch.full((1, 6), 5))
        assert "shifted" not in caplog.text
        model = entry.model().train()
        model(ids, labels=shifted)
        model(ids, labels=shifted)
    assert caplog.text.count("shifted by one") == 1


# Classification heads


@every(**CLASSIFIERS, variant=("paper", "llama"))
def test_problem_types_against_torch(entry: Entry):
    inputs = entry.inputs(batch=4)
    classes, several = torch.tensor([0, 2, 1, 1]), torch.randint(0, 2, (4, 3)).float()
    for settings, labels, reference in (
        ({}, classes, nn.functional.cross_entropy),
        ({"problem_type": "single_label_classification"}, classes, nn.functional.cross_entropy),
        ({}, several, nn.functional.binary_cross_entropy_with_logits),
        ({"problem_type": "multi_label_classification"}, several, nn.functional.binary_cross_entropy_with_logits),
        ({"problem_type": "regression"}, torch.randn(4, 3), nn.functional.mse_loss),
    ):
        outputs = entry.model(**settings)(**inputs, labels=labels)
        torch.testing.assert_close(outputs.loss, reference(outputs.logits, labels))
    model = entry.model(problem_type="multi_label_classification")
    torch.testing.assert_close(
        model(**inputs, labels=several.long()).loss, model(**inputs, labels=several).loss, msg="0 and 1 as integers"
    )
    for settings in ({"num_labels": 1}, {"num_labels": 1, "problem_type": "regression"}):
        model, scores = entry.model(**settings), torch.randn(4)
        for labels in (scores, scores[:, None], scores.double()):
            outputs = model(**inputs, labels=labels)
            torch.testing.assert_close(outputs.loss, nn.functional.mse_loss(outputs.logits[:, 0], scores))


@every(**CLASSIFIERS, variant="paper")
def test_the_guess_of_a_problem_is_kept(entry: Entry):
    """Pipelines read from the configuration whether scores are classes, labels or numbers."""
    inputs = entry.inputs(batch=2)
    model = entry.model()
    model(**inputs, labels=torch.eye(2, 3))
    assert model.config.problem_type == "multi_label_classification"
    model = entry.model()
    model(**inputs, labels=torch.tensor([0, 1]))
    assert model.config.problem_type == "single_label_classification"


@every(auto_class="AutoModelForTokenClassification", variant=("paper", "llama"))
def test_token_classification_against_torch(entry: Entry):
    batch = entry.labelled()
    outputs = entry.model()(**batch)
    assert outputs.logits.shape == (3, 7, 3)
    by_hand = nn.functional.cross_entropy(outputs.logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=IGNORE)
    torch.testing.assert_close(outputs.loss, by_hand)


@every(auto_class="AutoModelForQuestionAnswering", variant=("paper", "llama"))
def test_question_answering_with_answers_outside_the_input(entry: Entry):
    model, inputs = entry.model(), entry.inputs(batch=4, length=7)
    start, end = torch.tensor([1, 7, -1, 3]), torch.tensor([2, 900, -1, 6])
    outputs = model(**inputs, start_positions=start, end_positions=end)
    inside = [0, 3]
    by_hand = (
        nn.functional.cross_entropy(outputs.start_logits[inside], start[inside])
        + nn.functional.cross_entropy(outputs.end_logits[inside], end[inside])
    ) / 2
    torch.testing.assert_close(outputs.loss, by_hand)
    column = model(**inputs, start_positions=start[:, None], end_positions=end[:, None]).loss
    torch.testing.assert_close(column, by_hand)
    assert start.tolist() == [1, 7, -1, 3]  # the caller's labels are left alone


# Compilation


@pytest.mark.filterwarnings("ignore")
@every(has_loss=True, variant="paper")
def test_compiled_forward_equals_eager(entry: Entry):
    torch._dynamo.reset()
    model, batch = entry.model(dropout=0.0).train(), entry.labelled()
    ids, mask = pad_rows(rows_of(entry), "right")
    batch |= {"input_ids": ids, "attention_mask": mask}
    plain = model(**batch)
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    result = compiled(**batch)
    torch.testing.assert_close(result.loss, plain.loss)
    torch.testing.assert_close(output_of(result), output_of(plain))
    assert_same_gradients(gradients(model, result.loss), gradients(model, plain.loss))


@pytest.mark.filterwarnings("ignore")
@every(token_loss=True, causal=True, variant="llama")
def test_compiled_through_autograd(entry: Entry):
    torch._dynamo.reset()
    model, batch = entry.model(dropout=0.0).train(), entry.labelled()
    plain = gradients(model, model(**batch).loss)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_same_gradients(gradients(model, compiled(**batch).loss), plain)


@pytest.mark.filterwarnings("ignore")
@every(kind="decoder", token_loss=True, variant="llama")
def test_compiled_packed_training_equals_eager(entry: Entry):
    torch._dynamo.reset()
    model = entry.model(dropout=0.0).train()
    lengths = (4, 6, 3)
    ids = torch.cat(rows_of(entry, lengths))[None]
    positions = torch.cat([torch.arange(length) for length in lengths])[None]
    batch = {"input_ids": ids, "position_ids": positions, "labels": ids, "attention_mask": torch.ones_like(ids)}
    compiled = torch.compile(model, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(**batch).loss, model(**batch).loss)


# bfloat16 autocast


@every(token_loss=True, variant=("paper", "gpt2", "llama", "shared"))
@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_bfloat16_autocast_trains_as_float32_does(entry: Entry, kernel, monkeypatch):
    """Gradients point the same way; the kernel computes in float32, where its backward pass is fast on a CPU."""
    seen = []
    original = nn.functional.scaled_dot_product_attention

    def recording(query, *args, **kwargs):
        seen.append((query.dtype, torch.is_autocast_enabled("cpu")))
        return original(query, *args, **kwargs)

    monkeypatch.setattr(nn.functional, "scaled_dot_product_attention", recording)
    model, batch = entry.model(attn_implementation=kernel, dropout=0.0).train(), entry.labelled()
    exact = gradients(model, model(**batch).loss)
    seen.clear()
    with torch.autocast("cpu", torch.bfloat16):
        loss = model(**batch).loss
    rough = gradients(model, loss)
    assert exact.keys() == rough.keys()
    one, other = (torch.cat([g.flatten() for g in grads.values()]) for grads in (exact, rough))
    assert nn.functional.cosine_similarity(one, other, dim=0) > 0.99
    assert bool(seen) is (kernel == "sdpa")
    assert set(seen) <= {(torch.float32, False)}


def test_own_mask_under_bfloat16_autocast():
    """A caller's 4-D mask of numbers, in bfloat16 as the model runs, gives what the boolean one gives."""
    entry = select(kind="decoder", auto_class="AutoModelForCausalLM")[0]
    model, ids = entry.model(dropout=0.0).train(), entry.inputs(batch=2, length=5)["input_ids"]
    allowed = torch.ones(5, 5, dtype=torch.bool).tril()[None, None].expand(2, 1, 5, 5)
    numbers = torch.zeros(allowed.shape, dtype=torch.bfloat16).masked_fill(~allowed, torch.finfo(torch.bfloat16).min)
    with torch.autocast("cpu", torch.bfloat16):
        logits = [model(ids, attention_mask=mask).logits for mask in (allowed, numbers)]
    torch.testing.assert_close(*logits)
