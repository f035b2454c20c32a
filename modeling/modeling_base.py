"""What every model here inherits: support flags, initialisation, a complete Hub repository.

Axes: B batch, T length.
"""

from typing import Any, ClassVar

import torch
from torch import nn
from transformers import Cache, PreTrainedModel
from transformers import initialization as init
from transformers.utils import is_torchdynamo_compiling, logging

from .attention import MultiHeadAttention
from .layers import FeedForward
from .positions import ComputedTable, LearnedPositions, SinusoidalPositions
from .start_from_vectors import FoundVectors, start_embeddings

logger = logging.get_logger(__name__)


class RegardPreTrainedModel(PreTrainedModel):
    """Base class of the package's models.

    Class attributes that a family sets:
        auto_classes: which class of the family answers to which auto class; registered when `regard.modeling` is
            imported, and written into the configuration when a model is saved.
    """

    auto_classes: ClassVar[dict[str, str]] = {}

    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _supports_sdpa = True
    _supports_flash_attn = True
    _supports_flex_attn = True
    _supports_attention_backend = True
    _can_compile_fullgraph = True

    def post_init(self) -> None:
        super().post_init()
        # Computed tables are the same in every process and may have grown in one: DDP shall not send them around.
        self._ddp_params_and_buffers_to_ignore = [
            f"{name}.table" for name, module in self.named_modules() if isinstance(module, ComputedTable)
        ]

    def _init_weights(self, module: nn.Module) -> None:
        """Initialise one module, in place, through transformers' guarded functions.

        Matrices: Xavier uniform (Glorot and Bengio, 2010) or N(0, initializer_range²). Projections that are one matrix
        count as one, as in `torch.nn.MultiheadAttention`, so that attention scores begin smaller. Embeddings:
        N(0, 1/width), so that tokens, scaled by the square root of the width, have unit variance, or
        N(0, initializer_range²). In a pre-norm stack the N matrices that write to the residual stream (2 a layer, 3
        with cross-attention) are scaled by 1/√N, which keeps its variance independent of depth (Radford et al., 2019,
        section 2.3).

        Tables that are computed are computed again here: `from_pretrained` leaves them with uninitialised memory.
        """
        std = self.config.initializer_range
        if isinstance(module, nn.Linear):
            if std is None:
                init.xavier_uniform_(module.weight, gain=getattr(module, "residual_scale", 1.0))
            else:
                init.normal_(module.weight, std=std * getattr(module, "residual_scale", 1.0))
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, std=module.embedding_dim**-0.5 if std is None else std)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm):
            init.ones_(module.weight)
            if getattr(module, "bias", None) is not None:
                init.zeros_(module.bias)
        elif isinstance(module, ComputedTable):
            init.copy_(module.table, module.compute())

    def mark_residual_projections(self) -> None:
        """Tell the matrices that write to the residual stream how much smaller they begin in a pre-norm stack."""
        if self.config.norm_position != "pre":
            return
        writers = [module.out_proj for module in self.modules() if isinstance(module, MultiHeadAttention)]
        writers += [module.down_proj for module in self.modules() if isinstance(module, FeedForward)]
        for module in writers:
            module.residual_scale = len(writers) ** -0.5

    def get_input_embeddings(self) -> nn.Embedding:
        base = getattr(self, self.base_model_prefix, self)
        return base.embeddings.embed_tokens

    def set_input_embeddings(self, value: nn.Embedding) -> None:
        base = getattr(self, self.base_model_prefix, self)
        base.embeddings.embed_tokens = value

    def load_word_vectors(self, vectors: Any, tokenizer: Any, seed: int = 0, lowercase: bool = False) -> FoundVectors:
        """Begin the token embeddings from word vectors; tokens without one are drawn like those that have one.

        Args:
            vectors: what `regard.load_word_vectors` returns, or a model of word vectors.
            tokenizer: the model's. Of subword tokens, only those that can be a whole word are looked up.
            seed: of the draw.
            lowercase: look a word that is missing up in lower case too.

        Returns:
            the tokens that had a vector and those that had none. Special tokens are neither, and keep their rows.

        Raises:
            ValueError: before anything is changed, if the widths differ, the tokenizer is another model's, or no token
                has a vector.
        """
        return start_embeddings(self.get_input_embeddings().weight, vectors, tokenizer, seed, lowercase)

    def resize_token_embeddings(self, new_num_tokens: int | None = None, *args, **kwargs) -> nn.Embedding:
        """The library's resizing, with a word of warning when rows would be lost.

        `len(tokenizer)` can be smaller than a padded table, and shrinking by accident is a common fault.
        """
        rows = self.get_input_embeddings().num_embeddings
        if new_num_tokens is not None and new_num_tokens < rows:
            logger.warning(
                f"resize_token_embeddings({new_num_tokens}) removes the last {rows - new_num_tokens} of {rows} "
                "vectors."
            )
        return super().resize_token_embeddings(new_num_tokens, *args, **kwargs)

    def _validate_generated_length(self, generation_config, *args, **kwargs) -> None:
        """What `generate` calls once it knows the length: see that the positions suffice.

        With a static cache the library may compile the decoding step, which can then neither grow a table nor raise.
        The last token that is generated is never read.
        """
        super()._validate_generated_length(generation_config, *args, **kwargs)
        may_be_compiled = generation_config.cache_implementation is not None
        for module in self.modules():
            if isinstance(module, SinusoidalPositions) or (may_be_compiled and isinstance(module, LearnedPositions)):
                module.reserve(generation_config.max_length - 1)

    def save_pretrained(self, save_directory, *args, **kwargs) -> None:
        """Save weights, configuration and code, so that the folder loads where this package is not installed.

        The configuration gets the auto map of the whole family, not only of the class that is saved: a translation
        model's encoder-decoder, say, is then there for `AutoModel` too.
        """
        module = type(self).__module__.rsplit(".", 1)[-1]
        configuration = type(self.config)
        self.config.auto_map = {
            "AutoConfig": f"{configuration.__module__.rsplit('.', 1)[-1]}.{configuration.__name__}",
            **{auto_class: f"{module}.{name}" for auto_class, name in self.auto_classes.items()},
        }
        super().save_pretrained(save_directory, *args, **kwargs)


def default_position_ids(
    inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None, cache: Cache | None
) -> tuple[torch.Tensor, int | None]:
    """Positions counted over real tokens, so that padding on either side changes nothing.

    Args:
        inputs_embeds: (B, T, D).
        attention_mask: (B, past + T) with 0 on padding; anything else is taken as "no padding".
        cache: what holds the past.

    Returns:
        int64 of shape (B, T) or (1, T), and a number below which all of them lie, where that costs no look at them.
    """
    length, device = inputs_embeds.shape[1], inputs_embeds.device
    if attention_mask is not None and attention_mask.dim() == 2:
        position_ids = (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, -length:]
        return position_ids, attention_mask.shape[1]
    past = cache.get_seq_length() if cache is not None else 0
    return (torch.arange(length, device=device) + past)[None], None if torch.is_tensor(past) else past + length


def documents_in_row(
    position_ids: torch.Tensor, batch_size: int, attention_mask: torch.Tensor | None, cache: Cache | None
) -> torch.Tensor | None:
    """Which packed document each token belongs to, or None if every row is one document.

    Within a document, the distance between a token's position and its place in the row stays the same; where positions
    begin anew it changes, and so it serves as the document's number. Only real tokens count for the place: a masked
    token in the middle parts nothing. This must hold with an attention mask and with an empty cache as well, where the
    library's own detection stays silent and documents see one another.

    Args:
        position_ids: int64 of shape (B or 1, T).
        attention_mask: (B, T) with 0 on padding, or None.
        cache: what the caller gave; with a past in it, the row is a continuation.

    Returns:
        int64 of shape (B, T), or None.
    """
    compiling = is_torchdynamo_compiling()
    if position_ids.shape[1] == 1 or (attention_mask is not None and attention_mask.dim() != 2):
        return None
    if cache is not None and (compiling or cache.get_seq_length() > 0):
        return None
    if attention_mask is None:
        place = torch.arange(position_ids.shape[1], device=position_ids.device)[None]  # (1, T)
        real = torch.ones_like(position_ids, dtype=torch.bool)
    else:
        real = attention_mask.bool()  # (B, T)
        place = real.cumsum(-1) - 1  # (B, T)
    documents = (position_ids - place).expand(batch_size, -1)  # (B, T)
    if not compiling:
        limits = torch.iinfo(documents.dtype)
        first, last = documents.where(real, limits.max).amin(-1), documents.where(real, limits.min).amax(-1)
        if bool((first >= last).all()):
            return None
    return documents
