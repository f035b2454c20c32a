"""How likely a language model finds a text."""

import math
from collections.abc import Iterator, Sequence

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase


def perplexity(loss: float) -> float:
    """e to a mean negative log-likelihood in nats; infinite where that is beyond a float."""
    return math.exp(loss) if loss < 700 else math.inf


@torch.no_grad()
def pseudo_log_likelihood(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, rows: Sequence[Sequence[int]], batch_size: int
) -> tuple[float, int]:
    """Σᵢ log P(wᵢ | all other tokens): each token is masked alone, and predicted from both sides ("Masked Language
    Model Scoring", Salazar et al., 2020, equation 1). Special tokens are seen and not predicted.

    Args:
        model: a masked language model.
        tokenizer: names the mask and the special tokens.
        rows: token ids, not masked, with special tokens.
        batch_size: rows at once.

    Returns:
        The sum over all tokens of all rows, and the number of tokens; e to the minus mean is the pseudo-perplexity.

    Raises:
        ValueError: when the tokenizer has no mask token, or no row has a token to predict.
    """
    if tokenizer.mask_token_id is None:
        raise ValueError("A pseudo-perplexity needs a mask token, and the tokenizer has none.")
    special = set(tokenizer.all_special_ids) - {tokenizer.unk_token_id}
    total, tokens, was_training = 0.0, 0, model.training
    model.eval()
    try:
        for ids, places in _masked_copies(rows, special, batch_size):
            targets = ids.gather(1, places[:, None])  # (B, 1)
            masked = ids.scatter(1, places[:, None], tokenizer.mask_token_id).to(model.device)  # (B, T)
            logits = model(input_ids=masked).logits[torch.arange(len(ids)), places.to(model.device)]  # (B, V)
            log_probabilities = logits.float().log_softmax(-1).cpu().gather(1, targets)  # (B, 1)
            total += log_probabilities.double().sum().item()
            tokens += len(ids)
    finally:
        model.train(was_training)
    if not tokens:
        raise ValueError("A pseudo-perplexity needs a token to predict, and the rows have none.")
    return total, tokens


def _masked_copies(
    rows: Sequence[Sequence[int]], special: set[int], batch_size: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Copies of a row (B, T), at most `batch_size` at once, each for one token to predict, and its places (B,)."""
    for row in rows:
        places = torch.tensor([i for i, token in enumerate(row) if token not in special], dtype=torch.int64)
        for some in places.split(batch_size) if len(places) else ():
            yield torch.tensor(row, dtype=torch.int64).repeat(len(some), 1), some
