"""The library's configurations as this package's, and what in them has no counterpart here.

Two functions a family: `<family>_config` gives our configuration, `<family>_refusals` says, a phrase each, what would
not compute the same.
"""

from collections.abc import Iterator
from typing import Any

from regard.modeling import TransformerConfig, TransformerDecoderConfig, TransformerEncoderConfig

BART_FIRST_POSITION = 2  # rows of its table before position 0


def _tokens(config: Any) -> dict[str, Any]:
    """The special tokens; an id that is none, such as the -1 of old checkpoints for "there is none", is left out."""
    given = _given_tokens(config)
    if not config.is_encoder_decoder:
        del given["decoder_start_token_id"]
    return {name: value if _is_known(value, config) else None for name, value in given.items()}


def _given_tokens(config: Any) -> dict[str, Any]:
    names = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")
    return {name: getattr(config, name, None) for name in names}


def _is_known(value: Any, config: Any) -> bool:
    several = value if isinstance(value, list) else [value]
    return all(each is not None and 0 <= each < config.vocab_size for each in several)


# Encoders


def bert_config(config: Any) -> TransformerEncoderConfig:
    return TransformerEncoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        norm_eps=config.layer_norm_eps,
        position_embedding_type="learned",
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=False,
        embedding_norm=True,
        type_vocab_size=config.type_vocab_size,
        attention_bias=True,
        dropout=config.hidden_dropout_prob,
        attention_dropout=config.attention_probs_dropout_prob,
        classifier_dropout=config.classifier_dropout,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        num_labels=config.num_labels,
        problem_type=config.problem_type,
        **_tokens(config),
    )


def bert_refusals(config: Any, head: str) -> Iterator[str]:
    positions = getattr(config, "position_embedding_type", "absolute")
    if positions not in ("absolute", None):
        yield f"position_embedding_type={positions!r}: here positions are added to the embeddings alone"
    if config.is_decoder or config.add_cross_attention:
        yield "is_decoder: as a decoder it would not read both ways, and our decoder has no place for its embeddings"


def roberta_config(config: Any) -> TransformerEncoderConfig:
    """Its positions begin at the row after that of the pad token: as many fewer exist."""
    ours = bert_config(config)
    ours.max_position_embeddings -= roberta_first_position(config)
    return ours


def roberta_first_position(config: Any) -> int:
    return config.pad_token_id + 1


def roberta_refusals(config: Any, head: str) -> Iterator[str]:
    yield from bert_refusals(config, head)
    if config.pad_token_id is None:
        yield "pad_token_id is not set: RoBERTa counts its positions from it"
    if head == "masked-lm" and config.hidden_act != "gelu":
        yield f"hidden_act={config.hidden_act!r}: RoBERTa's head has 'gelu' whatever this says, ours the layers' own"


def distilbert_config(config: Any) -> TransformerEncoderConfig:
    return TransformerEncoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.dim,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        intermediate_size=config.hidden_dim,
        hidden_act=config.activation,
        norm_eps=1e-12,  # a constant in the library's code
        position_embedding_type="learned",  # sinusoidal ones are a table of weights there too
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=False,
        embedding_norm=True,
        attention_bias=True,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        classifier_act="relu",
        classifier_dropout=config.seq_classif_dropout,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        num_labels=config.num_labels,
        problem_type=config.problem_type,
        **_tokens(config),
    )


def no_refusals(config: Any, head: str) -> Iterator[str]:
    yield from ()


# Decoders


def gpt2_config(config: Any) -> TransformerDecoderConfig:
    return TransformerDecoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.n_embd,
        num_hidden_layers=config.n_layer,
        num_attention_heads=config.n_head,
        intermediate_size=config.n_inner or 4 * config.n_embd,
        hidden_act=config.activation_function,
        norm_position="pre",
        norm_eps=config.layer_norm_epsilon,
        position_embedding_type="learned",
        max_position_embeddings=config.n_positions,
        scale_embedding=False,
        attention_bias=True,
        dropout=config.resid_pdrop,
        attention_dropout=config.attn_pdrop,
        classifier_dropout=0.0,  # its class that labels texts has none
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        **_tokens(config),
    )


def gpt2_refusals(config: Any, head: str) -> Iterator[str]:
    if not config.scale_attn_weights:
        yield "scale_attn_weights=false: attention is always scaled here"
    if config.scale_attn_by_inverse_layer_idx:
        yield "scale_attn_by_inverse_layer_idx=true: every layer scales attention alike here"
    if config.add_cross_attention:
        yield "add_cross_attention=true: our decoder alone has none"


def llama_config(config: Any) -> TransformerDecoderConfig:
    """Llama, Mistral and Qwen2, which differ in their biases: none, and on queries, keys and values alone."""
    is_qwen = config.model_type == "qwen2"
    return TransformerDecoderConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.hidden_size,
        num_hidden_layers=config.num_hidden_layers,
        num_attention_heads=config.num_attention_heads,
        num_key_value_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None),
        intermediate_size=config.intermediate_size,
        hidden_act=config.hidden_act,
        gated_mlp=True,
        norm_type="rmsnorm",
        norm_position="pre",
        norm_eps=config.rms_norm_eps,
        position_embedding_type="rotary",
        position_base=config.rope_parameters["rope_theta"],
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=False,
        attention_bias=is_qwen or getattr(config, "attention_bias", False),
        attention_output_bias=False if is_qwen else None,
        mlp_bias=getattr(config, "mlp_bias", False),
        dropout=0.0,
        attention_dropout=config.attention_dropout or 0.0,
        initializer_range=config.initializer_range,
        tie_word_embeddings=config.tie_word_embeddings,
        **_tokens(config),
    )


def llama_refusals(config: Any, head: str) -> Iterator[str]:
    rope = config.rope_parameters or {}
    kind = rope.get("rope_type", "default")
    if kind != "default":
        yield f"rope scaling of the type {kind!r}: the frequencies here are those of the base alone"
    if rope.get("partial_rotary_factor") not in (None, 1, 1.0):
        yield f"partial_rotary_factor={rope['partial_rotary_factor']}: here whole heads are turned"
    window = getattr(config, "sliding_window", None)
    has_window = window is not None
    if config.model_type == "qwen2":  # whose layers have it or not
        has_window = any(kind != "full_attention" for kind in config.layer_types)
    if has_window:
        yield f"sliding_window={window}: here every token sees all those before it"


# Encoder-decoders


def bart_config(config: Any) -> TransformerConfig:
    ours = _encoder_decoder_config(config)
    ours.position_embedding_type = "learned"
    ours.embedding_norm = True
    return ours


def marian_config(config: Any) -> TransformerConfig:
    return _encoder_decoder_config(config)


def _encoder_decoder_config(config: Any) -> TransformerConfig:
    return TransformerConfig(
        vocab_size=config.vocab_size,
        hidden_size=config.d_model,
        encoder_layers=config.encoder_layers,
        decoder_layers=config.decoder_layers,
        num_attention_heads=config.encoder_attention_heads,
        intermediate_size=config.encoder_ffn_dim,
        hidden_act=config.activation_function,
        position_embedding_type="sinusoidal",
        max_position_embeddings=config.max_position_embeddings,
        scale_embedding=config.scale_embedding,
        attention_bias=True,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
        activation_dropout=config.activation_dropout,
        initializer_range=config.init_std,
        label_smoothing=0.0,
        tie_word_embeddings=config.tie_word_embeddings,
        **_tokens(config),
    )


def bart_refusals(config: Any, head: str) -> Iterator[str]:
    for field in ("attention_heads", "ffn_dim"):
        encoder, decoder = getattr(config, f"encoder_{field}"), getattr(config, f"decoder_{field}")
        if encoder != decoder:
            yield f"encoder_{field}={encoder} and decoder_{field}={decoder}: here both are the same"
    if not config.is_encoder_decoder:
        yield "is_encoder_decoder=false: it is a half of an encoder-decoder"
    # The library does not read these either; a checkpoint with another value is not what its class computes.
    legacy = {"normalize_before": False, "add_final_layer_norm": False}
    legacy |= {"normalize_embedding": config.model_type == "bart"}
    for name, wanted in legacy.items():
        if bool(getattr(config, name, wanted)) != wanted:
            yield f"{name}={getattr(config, name)}: norms stand after each sub-layer, as the library has them"


def marian_refusals(config: Any, head: str) -> Iterator[str]:
    yield from bart_refusals(config, head)
    if config.decoder_vocab_size not in (None, config.vocab_size):
        sizes = f"decoder_vocab_size={config.decoder_vocab_size} and vocab_size={config.vocab_size}"
        yield f"{sizes}: source and target share one vocabulary here"
    if config.d_model % 2:
        yield f"d_model={config.d_model} is odd, and its sinusoids cannot be paired"


# What is to be known beside it


def config_notes(config: Any) -> Iterator[str]:
    """What of the configuration is not taken over, though the function is the same: a sentence each."""
    for name, value in _given_tokens(config).items():
        if value is not None and not _is_known(value, config):
            yield f"{name}={value} is left out: the vocabulary has no such token."
    for name in ("encoder_layerdrop", "decoder_layerdrop"):
        if getattr(config, name, 0.0):
            yield f"{name}={getattr(config, name)} is left out: no layers are dropped in training here."
    if config.model_type in ("roberta", "xlm-roberta"):
        yield "In training, dropout stands once in a head that labels texts, where RoBERTa has it before dense too."
    if config.model_type == "distilbert":
        yield (
            "In training, dropout acts after attention too, where DistilBERT has none; before a head that labels it "
            f"is seq_classif_dropout={config.seq_classif_dropout}, of tokens too, and before one that finds answers "
            f"there is none (qa_dropout={config.qa_dropout})."
        )
    if config.model_type == "gpt2" and config.embd_pdrop != config.resid_pdrop:
        yield (
            f"embd_pdrop={config.embd_pdrop} becomes resid_pdrop={config.resid_pdrop}: one dropout for the embeddings "
            "and the sub-layers."
        )
