"""Where a token stands: sinusoidal, learned and rotary positions.

Axes: B batch, T length, D width of the model, K width of a head.
"""

import torch
from torch import nn
from transformers.utils import is_torchdynamo_compiling


def sinusoidal_table(num_positions: int, width: int, base: float = 10000.0) -> torch.Tensor:
    """The position encoding of "Attention Is All You Need", section 3.5.

        PE(p, 2i)     = sin(p / base^(2i / width))
        PE(p, 2i + 1) = cos(p / base^(2i / width))

    Sine and cosine of a pair share one frequency, so PE(p + k) is PE(p) with each pair turned by an angle that depends
    on k alone. An odd width leaves its last sine without a cosine. Computed in float64, so that late positions are as
    exact as early ones.

    Returns:
        float32 tensor of shape (num_positions, width).
    """
    position = torch.arange(num_positions, dtype=torch.float64)[:, None]
    even = torch.arange(0, width, 2, dtype=torch.float64)
    angle = position / base ** (even / width)  # (positions, ceil(width / 2))
    table = torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # (positions, width or width + 1)
    return table[:, :width].float()


def rotary_frequencies(head_dim: int, base: float = 10000.0) -> torch.Tensor:
    """Angle by which each pair of units turns per position (Su et al., 2021, equation 15): base^(-2i / head_dim).

    Returns:
        float32 tensor of shape (head_dim / 2,).
    """
    return (base ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)).float()


def rotate(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn each pair (i, i + K/2) of a head's units by its angle (Su et al., 2021, equation 34, in Llama's layout).

    Args:
        states: queries or keys, (B, heads, T, K).
        cos, sin: (B or 1, 1, T, K).
    """
    first, second = states.chunk(2, dim=-1)  # (B, heads, T, K/2) each
    return (states * cos + torch.cat((-second, first), dim=-1) * sin).to(states.dtype)


def _bound(position_ids: torch.Tensor) -> int:
    """One more than the largest position; while compiling, where no value can be read, their number."""
    return position_ids.shape[-1] if is_torchdynamo_compiling() else int(position_ids.max()) + 1


class ComputedTable(nn.Module):
    """A table that follows from the configuration: a buffer that is never saved.

    It stays in float32 whatever the model is cast to. Rounded to bfloat16, position 257 would equal 256.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("table", None, persistent=False)

    def compute(self) -> torch.Tensor:
        """The table anew, in float32."""
        raise NotImplementedError

    def _apply(self, fn, recurse: bool = True):
        """What `to`, `half` and the like end in: move the table, but compute it again rather than round it."""
        super()._apply(fn, recurse)
        if self.table.dtype != torch.float32:
            self.table = self.compute().to(self.table.device)
        return self


class SinusoidalPositions(ComputedTable):
    """The sinusoidal table, which grows when a longer input comes."""

    def __init__(self, num_positions: int, width: int, base: float):
        super().__init__()
        self.num_positions, self.width, self.base = num_positions, width, base
        self.table = self.compute()

    def compute(self) -> torch.Tensor:
        return sinusoidal_table(self.num_positions, self.width, self.base)  # (positions, D)

    def reserve(self, num_positions: int) -> None:
        """Have at least so many positions. Those that were there keep their values."""
        if num_positions > self.num_positions:
            self.num_positions = max(num_positions, 2 * self.num_positions)
            self.table = self.compute().to(self.table.device)

    def forward(self, position_ids: torch.Tensor, num_positions: int | None = None) -> torch.Tensor:
        """Encodings of shape (B, T, D), float32.

        Args:
            position_ids: int64 of shape (B, T).
            num_positions: all of them lie below this; by default they are looked at.
        """
        self.reserve(_bound(position_ids) if num_positions is None else num_positions)
        return self.table[position_ids]


class LearnedPositions(nn.Embedding):
    """A learned vector for each position up to a limit."""

    def reserve(self, num_positions: int) -> None:
        """Check that there are so many positions.

        Raises:
            ValueError: if not.
        """
        if num_positions > self.num_embeddings:
            raise ValueError(
                f"the input reaches {num_positions} positions, but max_position_embeddings={self.num_embeddings} "
                "learned positions exist: shorten the input."
            )

    def forward(self, position_ids: torch.Tensor, num_positions: int | None = None) -> torch.Tensor:
        """Vectors of shape (B, T, D).

        Args:
            position_ids: int64 of shape (B, T).
            num_positions: all of them lie below this; by default they are looked at.

        Raises:
            ValueError: if a position lies beyond the table.
        """
        self.reserve(_bound(position_ids) if num_positions is None else num_positions)
        return super().forward(position_ids)


class RotaryPositions(ComputedTable):
    """Cosines and sines by which queries and keys are turned, so that their product depends on their distance."""

    def __init__(self, head_dim: int, base: float):
        super().__init__()
        self.head_dim, self.base = head_dim, base
        self.table = self.compute()

    def compute(self) -> torch.Tensor:
        return rotary_frequencies(self.head_dim, self.base)  # (K/2,)

    def forward(self, position_ids: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of shape (B, 1, T, K) for `position_ids`, int64 of shape (B, T).

        Angles are computed in float32 under any autocast: in bfloat16 position 257 would equal 256.
        """
        angle = position_ids[:, None, :, None].float() * self.table  # (B, 1, T, K/2)
        angle = torch.cat((angle, angle), dim=-1)  # (B, 1, T, K)
        return angle.cos().to(dtype), angle.sin().to(dtype)
