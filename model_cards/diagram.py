"""A small picture of an architecture in text, drawn from its configuration: it shows wherever a card is read.

It runs from the top down. A box is a stack of equal layers.
"""

from transformers import PreTrainedConfig

Block = list[str]
GAP = 3

LANGUAGE_HEADS = ("ForMaskedLM", "ForCausalLM", "ForConditionalGeneration")


def architecture_diagram(config: PreTrainedConfig) -> str:
    """The diagram, or "" for a model type that is not one of this package's."""
    draw = {
        "regard-transformer": _encoder_decoder,
        "regard-encoder": _stack_of_layers,
        "regard-decoder": _stack_of_layers,
        "regard-dan": _averaging,
        "regard-word2vec": _word2vec,
        "regard-glove": _glove,
    }.get(config.model_type)
    return "" if draw is None else "\n".join(line.rstrip() for line in draw(config))


# --- the families ----------------------------------------------------------------------------------------------------


def _stack_of_layers(config: PreTrainedConfig) -> Block:
    causal = config.model_type == "regard-decoder"
    layers = _box(
        _counted(config.num_hidden_layers, "layer"),
        [*_sublayer(config, _attention(config, causal)), *_sublayer(config, _feed_forward(config))],
    )
    return _column("tokens", _embedded(config), layers, *_last_norm(config), *_head(config))


def _encoder_decoder(config: PreTrainedConfig) -> Block:
    cross = [f"cross-attention, {_heads(config)}"]
    if config.cross_attention_key_value == "shared":
        cross.append("(one projection to keys and values for all layers)")
    encoder = _box(
        f"encoder, {_counted(config.encoder_layers, 'layer')}",
        [*_sublayer(config, _attention(config, False)), *_sublayer(config, _feed_forward(config))],
    )
    decoder = _box(
        f"decoder, {_counted(config.decoder_layers, 'layer')}",
        [
            *_sublayer(config, _attention(config, True)),
            *_sublayer(config, *cross),
            *_sublayer(config, _feed_forward(config)),
        ],
    )
    source = _column("source tokens", _embedded(config), encoder, *_last_norm(config))
    target = _column("target tokens so far", _embedded(config), decoder, *_last_norm(config), *_head(config))
    return _led_across(source, target, next(row for row, line in enumerate(target) if cross[0] in line))


def _averaging(config: PreTrainedConfig) -> Block:
    parts: list[str | Block] = ["words", f"{config.vocab_size:,} word vectors of width {config.hidden_size:,}", "mean"]
    if config.num_hidden_layers:
        step = f"dense to {config.intermediate_size:,}, {config.hidden_act}"
        parts.append(_box(_counted(config.num_hidden_layers, "hidden layer"), [step]))
    return _column(*parts, *_labels(config))


def _word2vec(config: PreTrainedConfig) -> Block:
    reach = f"up to {_counted(config.window, 'word')} away"
    centre, around = ["the word in the middle"], [f"a word around it, {reach}"]
    mean = []
    if config.architecture == "cbow":
        centre, around = [f"the words around it, {reach}"], ["the word in the middle"]
        mean = ["mean" if config.cbow_mean else "sum"]
    outputs = f"output vectors, {config.vocab_size:,} × {config.hidden_size:,}"
    judged = {
        "negative-sampling": f"sigmoid, against {_counted(config.num_negatives, 'word')} drawn at random",
        "full-softmax": f"softmax over all {config.vocab_size:,} words",
        "hierarchical-softmax": "sigmoid at each turn of its path through a Huffman tree",
    }[config.objective]
    if config.objective == "hierarchical-softmax":
        outputs = f"vectors of the tree's inner nodes, {config.vocab_size - 1:,} × {config.hidden_size:,}"
    inputs = f"word vectors, {config.vocab_size:,} × {config.hidden_size:,}"
    return _meeting(_column(*centre, inputs, *mean), _column(*around, outputs), ["dot product", judged])


def _glove(config: PreTrainedConfig) -> Block:
    size = f"{config.vocab_size:,} × {config.hidden_size:,}"
    side = "around it" if config.symmetric else "before it"
    reach = f"a word {side}, up to {_counted(config.window, 'word')} away"
    left, right = _column("a word", f"word vectors, {size}"), _column(reach, f"context vectors, {size}")
    return _meeting(
        left, right, ["dot product", "+ a bias of each", "≈ the logarithm of how often they come together"]
    )


# --- their pieces ----------------------------------------------------------------------------------------------------


def _embedded(config: PreTrainedConfig) -> Block:
    added = [f"× √{config.hidden_size}"] if config.scale_embedding else []
    if config.position_embedding_type in ("sinusoidal", "learned"):
        added.append(f"+ {config.position_embedding_type} positions")
    if config.type_vocab_size:
        added.append(f"+ {config.type_vocab_size} types")
    lines = [f"{config.vocab_size:,} token embeddings of width {config.hidden_size:,}", *_said(" ".join(added))]
    return _column(*lines, *([_norm(config)] if config.embedding_norm else []), joined=False)


def _attention(config: PreTrainedConfig, causal: bool) -> str:
    words = ["causal" if causal else "", "rotary" if config.position_embedding_type == "rotary" else ""]
    return " ".join([*filter(None, words), f"self-attention, {_heads(config)}"])


def _heads(config: PreTrainedConfig) -> str:
    heads = f"{_counted(config.num_attention_heads, 'head')} of {config.head_dim}"
    shared = config.num_key_value_heads
    return heads if shared == config.num_attention_heads else f"{heads} ({shared} of keys)"


def _feed_forward(config: PreTrainedConfig) -> str:
    width, inner = f"{config.hidden_size:,}", f"{config.intermediate_size:,}"
    return f"feed-forward {width} → {inner} → {width}, {'gated ' if config.gated_mlp else ''}{config.hidden_act}"


def _sublayer(config: PreTrainedConfig, *lines: str) -> list[str]:
    if config.norm_position == "pre":
        return [_norm(config), *lines[:-1], f"{lines[-1]}, add"]
    return [*lines, f"add, {_norm(config)}"]


def _norm(config: PreTrainedConfig) -> str:
    return "RMSNorm" if config.norm_type == "rmsnorm" else "LayerNorm"


def _last_norm(config: PreTrainedConfig) -> list[str]:
    return [_norm(config)] if config.norm_position == "pre" else []


def _head(config: PreTrainedConfig) -> list[str | Block]:
    architecture = (config.architectures or [""])[0]
    width = f"{config.hidden_size:,}"
    if architecture.endswith(LANGUAGE_HEADS):
        dense = (
            [f"dense {width} → {width}, {config.hidden_act}, {_norm(config)}"] if "MaskedLM" in architecture else []
        )
        scores = [f"a score for each of {config.vocab_size:,} tokens"]
        tied = ["(weights: the token embeddings)"] if config.tie_word_embeddings else []
        return [*dense, _column(*scores, *tied, joined=False)]
    if architecture.endswith("EncoderForSequenceClassification"):
        return ["the first token", f"dense {width} → {width}, tanh", *_labels(config)]
    if architecture.endswith("DecoderForSequenceClassification"):
        return ["the last token", *_labels(config)]
    if architecture.endswith("ForTokenClassification"):
        return ["each token", *_labels(config)]
    if architecture.endswith("ForQuestionAnswering"):
        return ["a score for each token as the answer's first, and as its last"]
    return [f"a vector of width {width} for each token"]


def _labels(config: PreTrainedConfig) -> list[str]:
    return [f"a score for each of {_counted(config.num_labels, 'label')}"]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _said(text: str) -> list[str]:
    return [text] if text else []


# --- laying out ------------------------------------------------------------------------------------------------------


def _box(title: str, lines: list[str]) -> Block:
    width = max(len(title) + 2, *map(len, lines))
    top = f"┌─ {title} {'─' * (width - len(title) - 1)}┐"
    return [top, *(f"│ {line:{width}} │" for line in lines), f"└{'─' * (width + 2)}┘"]


def _column(*parts: str | Block, joined: bool = True) -> Block:
    """Parts below one another, all centred, with a line between each two."""
    blocks = [[part] if isinstance(part, str) else part for part in parts]
    width = max(len(line) for block in blocks for line in block)
    lines: list[str] = []
    for number, block in enumerate(blocks):
        lines += ["│"] * bool(joined and number) + block
    return [_centred(line, width) for line in lines]


def _centred(line: str, width: int) -> str:
    return f"{' ' * ((width - len(line)) // 2)}{line}".ljust(width)


def _led_across(left: Block, right: Block, row: int) -> Block:
    """Two columns, with an arrow from below the left one into a row of the right one."""
    width, middle = len(left[0]), (len(left[0]) - 1) // 2
    left = [*left, _centred("│", width)]
    left += [_centred("│", width)] * (row - len(left))
    shift = len(left) - row
    lines = []
    for number in range(shift + len(right)):
        here = left[number] if number < len(left) else " " * width
        lead = " " * GAP
        other = right[number - shift] if number >= shift else ""
        if number == len(left):
            indent = len(other) - len(other.lstrip())
            here, lead = f"{' ' * middle}└{'─' * (width - middle - 1)}", "─" * (GAP + indent - 1) + "→"
            other = other.lstrip()
        lines.append(here + lead + other)
    return lines


def _meeting(left: Block, right: Block, below: list[str]) -> Block:
    """Two columns that end in the first line below them."""
    height = max(len(left), len(right))
    left, right = ([*side, *[_centred("│", len(side[0]))] * (height - len(side))] for side in (left, right))
    lines = [one + " " * GAP + other for one, other in zip(left, right, strict=True)]
    start, stop = (len(left[0]) - 1) // 2, len(left[0]) + GAP + (len(right[0]) - 1) // 2
    first, *rest = below
    rule = f" {first} ".center(stop - start - 1, "─")
    middle = start + (stop - start) // 2
    lines.append(f"{' ' * start}└{rule}┘")
    for line in rest:
        lines += [" " * middle + "│", " " * max(0, middle - len(line) // 2) + line]
    return lines
