"""Train a tokenizer from texts; the result is a `PreTrainedTokenizerFast` that `AutoTokenizer` loads anywhere.

What `decode(encode(text))` loses, with `lowercase=False`:

- `byte-bpe` (byte pairs, merged inside words): nothing, and no text is unknown.
- `char` (single code points): characters not seen in training become `<unk>`.
- `unigram` (the pieces that make the text likeliest): the same; the text is brought to NFC, and each run of white
  space (and of U+2581) becomes one space, none at the ends.
- `word` (words and punctuation marks): words outside the vocabulary become `<unk>`; NFC; white space: decoding writes
  one space between words, but none before `. , ; : ! ? % ) ] } …` and none after `( [ {`.
- `word` with a `pattern` of one's own: the matches are the tokens; what is between them is dropped, tokens outside the
  vocabulary become `<unk>`; NFC; decoding writes one space between any two tokens.
- `wordpiece` (words, then their parts): as `word`, but only a word with an unknown character, or one longer than 100
  characters, becomes `<unk>`.

Whatever is lost is lost once: encoding a decoded text, without its special tokens, gives that text again (with a
`pattern`, where its tokens hold no white space and are found one by one).

`lowercase=True` puts NFC and then Unicode's locale-free lower case in front of any kind. Turkish does not fit it: `I`
becomes `i` (not `ı`), and `İ` becomes `i` with a combining dot, U+0307. Lower-case Turkish text by its own rules
before training and before use, or keep its case.
"""

import difflib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import PreTrainedTokenizerFast

from regard.train.denoising import SENTINEL
from regard.train.unigram import train_unigram

logger = logging.getLogger(__name__)

SPECIAL_TOKENS = {
    "pad_token": "<pad>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
}
"""Role and text; the id is the position: 0 to 4."""

_SPECIAL = list(SPECIAL_TOKENS.values())
_BYTES = 256

KINDS = ("byte-bpe", "wordpiece", "unigram", "word", "char")

TEMPLATES = {
    "none": ("$A", "$A $B:1"),
    "bos": ("<s> $A", "<s> $A $B:1"),
    "eos": ("$A </s>", "$A </s> $B:1 </s>:1"),
    "bos-eos": ("<s> $A </s>", "<s> $A </s> $B:1 </s>:1"),
}
"""What surrounds one text, and a pair of texts. `:1` is the token type."""

TASK_OPTIONS: dict[str, dict[str, Any]] = {
    "translation": {"template": "eos"},
    # A prompt must not end in </s>, or generation would start after the end: documents get theirs from the data code.
    "causal-lm": {"template": "bos"},
    # "The cat <mask>." must reach the model as a mask when the fill-mask pipeline tokenises it.
    "masked-lm": {"template": "bos-eos", "split_special_tokens": False},
    "sequence-classification": {"template": "bos-eos"},
    "token-classification": {"template": "bos-eos"},
    "summarization": {"template": "eos"},
    "question-answering": {"template": "bos-eos"},
    "denoising": {"template": "eos"},
    "in-context": {"template": "bos"},
}
"""Keyword arguments of `train_tokenizer` that suit each task."""

# Words keep their marks (Devanagari, accents) and take one space or apostrophe in front: " cat", "'t", "'da".
# No match holds signs, letters and signs again, so the text of a special token can never become one piece.
_BYTE_BPE_PATTERN = r"[ ']?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{M}\p{N}]+|\s+(?!\S)|\s+"
_UNIGRAM_PATTERN = r"▁?[\p{L}\p{M}]+|▁?\p{N}+|▁?[^▁\p{L}\p{M}\p{N}]+|▁"
# "3.14", "12:30"; "don't", "Ankara'nın", "well-known"; or one other sign.
WORD_PATTERN = (
    r"\p{N}+(?:[.,:]\p{N}+)*(?![\p{L}\p{M}_])"
    r"|[\p{L}\p{M}\p{N}_]+(?:['’-][\p{L}\p{M}\p{N}_]+)*"
    r"|[^\s\p{L}\p{M}\p{N}_]"
)
_NO_SPACE_HERE = r" (?=[.,;:!?%)\]}…])|(?<=[(\[{]) "


def train_tokenizer(
    texts: Iterable[str],
    kind: str,
    vocab_size: int,
    *,
    pattern: str | None = None,
    lowercase: bool = False,
    min_frequency: int = 2,
    max_length: int = 512,
    template: str = "bos-eos",
    return_token_type_ids: bool = False,
    split_special_tokens: bool = True,
    sentinels: int = 0,
) -> PreTrainedTokenizerFast:
    """Learn a vocabulary from `texts`, read once. The same texts give the same file, in any process.

    Args:
        texts: an iterable of texts, in any order that stays the same.
        kind: one of `KINDS`; the module's docstring says what each one keeps.
        vocab_size: entries in all, special tokens included; `len(tokenizer)` is this or, where the texts yield no
            more, less (which is logged, but for `char`), and the ids are 0..len-1 without holes.
        pattern: for kind `word`, a regular expression (of Oniguruma, as `tokenizers` has it) of what a token is, in
            place of words and punctuation marks: `[A-Z]+|[^\\sA-Z]` makes six letters of "photon", and five phones of
            "F OW T AA N".
        lowercase: lower-case every text (NFC first).
        min_frequency: a word (`word`), or a merge or piece of several characters, must occur so often. `char` keeps
            every character.
        max_length: becomes `model_max_length`, the limit that `truncation=True` applies.
        template: one of `TEMPLATES`.
        return_token_type_ids: return 0/1 for the first and second text of a pair without being asked to; for encoders
            that have token types.
        split_special_tokens: read "</s>" in a text as four characters, so that no text can carry a control token. It
            is saved with the tokenizer. `False` (a masked language model, see `TASK_OPTIONS`) lets a text hold
            `<mask>`, and then all five names; `tokenizer(text, split_special_tokens=True)` overrides it for a call.
        sentinels: so many entries, the last ones, are the special tokens `<extra_id_0>`, `<extra_id_1>`, ..., which
            stand for text that was taken out (`regard.train.denoising`).
    Raises:
        ValueError: an unknown kind or template, a pattern that is none, matches nothing or comes with another kind, no
            text at all, something that is not text, or a vocabulary too small for its single bytes or characters.
    """
    _one_of("kind", kind, KINDS)
    _one_of("template", template, TEMPLATES)
    for name, value in {"vocab_size": vocab_size, "min_frequency": min_frequency, "max_length": max_length}.items():
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"tokenizer.{name}={value!r} must be a whole number above 0.")

    if pattern is not None:
        check_pattern(kind, pattern)
    if sentinels and vocab_size <= sentinels:
        raise ValueError(f"tokenizer.vocab_size={vocab_size} is too small for {sentinels} sentinels and any text.")
    wanted, vocab_size = vocab_size, vocab_size - sentinels
    tokenizer = _untrained(kind, lowercase, pattern)
    texts = _checked(texts)
    if kind == "byte-bpe":
        _require(vocab_size, _BYTES, "bytes", kind)
        _train_byte_bpe(tokenizer, texts, vocab_size, min_frequency)
    else:
        counts = _count_pieces(tokenizer, texts)
        if pattern is not None and not counts:
            raise ValueError(f"tokenizer.pattern={pattern!r} matches nothing in the texts.")
        tokenizer.model = _MODELS[kind](counts, vocab_size, min_frequency)
    extra = [_added(SENTINEL.format(i), kind) for i in range(sentinels)]
    tokenizer.add_special_tokens([*(_added(token, kind) for token in _SPECIAL), *extra])
    single, pair = TEMPLATES[template]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=single, pair=pair, special_tokens=[(token, _SPECIAL.index(token)) for token in ("<s>", "</s>")]
    )

    if (size := tokenizer.get_vocab_size()) < wanted and kind != "char":  # the characters are all there are
        logger.warning(
            "tokenizer.vocab_size: %s entries were asked for, and the texts yield %d of kind %s (min_frequency: %d).",
            wanted, size, kind, min_frequency,
        )  # fmt: skip
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **(SPECIAL_TOKENS | {"mask_token": _added("<mask>", kind)}),
        **({"extra_special_tokens": extra} if extra else {}),
        model_max_length=max_length,
        padding_side="right",
        model_input_names=["input_ids", *(["token_type_ids"] if return_token_type_ids else []), "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=split_special_tokens,
    )


def word_tokenizer(
    words: Sequence[str], pattern: str | None = None, lowercase: bool = False, max_length: int = 512
) -> PreTrainedTokenizerFast:
    """A tokenizer of kind `word` for a given list: the id of a word is its place, as in a table of word vectors.

    `<unk>` and `<pad>` come after the words, and so have no row in a table of them.

    Args:
        words: each once.
        pattern, lowercase, max_length: as in `train_tokenizer`.
    """
    tokenizer = _untrained("word", lowercase, pattern)
    last = [SPECIAL_TOKENS["unk_token"], SPECIAL_TOKENS["pad_token"]]
    vocabulary = {word: number for number, word in enumerate([*words, *last])}
    tokenizer.model = models.WordLevel(vocabulary, unk_token=last[0])
    tokenizer.add_special_tokens([_added(token, "word") for token in last])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=last[0],
        pad_token=last[1],
        model_max_length=max_length,
        model_input_names=["input_ids", "attention_mask"],
        clean_up_tokenization_spaces=False,
        split_special_tokens=True,
    )


def _one_of(name: str, value: str, known: Iterable[str]) -> None:
    if value in known:
        return
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.3)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    raise ValueError(f"tokenizer.{name}={value!r} is not one of {', '.join(known)}{hint}")


def check_pattern(kind: str, pattern: str) -> None:
    """Raises ValueError where `pattern` is no regular expression of tokens, or `kind` takes none."""
    if kind != "word":
        raise ValueError(f"tokenizer.pattern={pattern!r} is for kind 'word', and tokenizer.kind is {kind!r}.")
    try:
        Regex(pattern)
    except Exception as error:  # the library raises a plain Exception
        reason = " ".join(str(error).split()).rstrip(".")
        raise ValueError(f"tokenizer.pattern={pattern!r} is not a regular expression: {reason}.") from error


def _require(vocab_size: int, symbols: int, what: str, kind: str) -> None:
    needed = symbols + len(_SPECIAL)
    if vocab_size < needed:
        raise ValueError(
            f"tokenizer.vocab_size={vocab_size} is too small for kind {kind!r}: {symbols} {what} and "
            f"{len(_SPECIAL)} special tokens need at least {needed}."
        )


def _checked(texts: Iterable[str]) -> Iterator[str]:
    if isinstance(texts, str):
        raise ValueError("texts must be an iterable of texts, not one text.")
    empty = True
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"A tokenizer is trained on texts, but item {number} is {text!r}.")
        empty = empty and not text.strip()
        yield text
    if empty:
        raise ValueError("The texts to train the tokenizer on are empty: there is nothing to learn a vocabulary from.")


def _added(token: str, kind: str) -> AddedToken:
    # A mask stands for a piece with its space, where pieces have one: "The <mask>" leaves no lone space before it.
    lstrip = token == "<mask>" and kind in ("byte-bpe", "unigram")
    return AddedToken(token, special=True, normalized=False, lstrip=lstrip)


def _untrained(kind: str, lowercase: bool, pattern: str | None = None) -> Tokenizer:
    """Normaliser, pre-tokenizer and decoder of a kind; the model comes with training."""
    tokenizer = Tokenizer(models.BPE())
    steps = [normalizers.NFC()] if lowercase or kind not in ("byte-bpe", "char") else []
    steps += [normalizers.Lowercase(), normalizers.NFC()] if lowercase else []
    if kind == "byte-bpe":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(_BYTE_BPE_PATTERN), "isolated"),
                # A prefix space would be lost in decoding, and saves only 0.3 % of the tokens of Multi30k.
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
    elif kind == "char":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        tokenizer.decoder = decoders.Fuse()
    elif kind == "unigram":
        steps += [normalizers.Replace(Regex(r"[\s▁]+"), " "), normalizers.Strip(left=False, right=True)]
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                pre_tokenizers.Split(Regex(_UNIGRAM_PATTERN), "isolated"),
            ]
        )
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Metaspace(prepend_scheme="first"),
                decoders.Fuse(),
                # A special token that is left out of the text leaves its spaces behind.
                decoders.Replace(Regex(r"^ +|(?<= ) +| +$"), ""),
            ]
        )
    elif pattern is not None:
        # Without a decoder, tokens are joined by one space, whatever they are.
        # No match is the name of a control token, which the vocabulary holds; `<unk>` in a text means what it says.
        pattern = rf"(?!<(?:pad|/?s|mask)>)(?:{pattern})"
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), "removed", invert=True)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(WORD_PATTERN), "removed", invert=True)
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.WordPiece(prefix="##", cleanup=False),  # no word begins with "##": "#" is a word of its own
                decoders.Fuse(),
                decoders.Replace(Regex(_NO_SPACE_HERE), ""),
            ]
        )
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    return tokenizer


def _train_byte_bpe(tokenizer: Tokenizer, texts: Iterator[str], vocab_size: int, min_frequency: int) -> None:
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=_SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)


def _count_pieces(tokenizer: Tokenizer, texts: Iterator[str]) -> Counter[str]:
    """How often each pre-tokenised piece occurs. The trainers of `tokenizers` count in a hash map whose order is
    random, which shows in their ids; a count of our own can be walked in sorted order."""
    normalize = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    split = tokenizer.pre_tokenizer.pre_tokenize_str
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(piece for piece, _ in split(normalize(text)))
    return counts


def _word_model(counts: Counter[str], vocab_size: int, min_frequency: int) -> models.Model:
    frequent = (piece for piece, n in counts.items() if n >= min_frequency and piece != "<unk>")
    ranked = sorted(frequent, key=lambda w: (-counts[w], w))
    _require(vocab_size, 1, "word", "word")
    return _word_level(ranked, vocab_size)


def _char_model(counts: Counter[str], vocab_size: int, min_frequency: int) -> models.Model:
    _require(vocab_size, 1, "character", "char")
    return _word_level(sorted(counts, key=lambda c: (-counts[c], c)), vocab_size)


def _word_level(ranked: list[str], vocab_size: int) -> models.Model:
    vocabulary = (_SPECIAL + ranked)[:vocab_size]
    return models.WordLevel({token: i for i, token in enumerate(vocabulary)}, unk_token="<unk>")


def _wordpiece_model(counts: Counter[str], vocab_size: int, min_frequency: int) -> models.Model:
    words = sorted(counts)
    # Both forms of every character, "x" and "##x", keep any word of known characters inside the vocabulary. Naming the
    # second form here, in order, is what makes the trainer's ids (and by them its ties) repeatable.
    inner = [f"##{character}" for character in sorted(set().union(*words))]
    _require(vocab_size, 2 * len(inner), "characters (at the beginning of a word and inside it)", "wordpiece")
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=_SPECIAL + inner,
        continuing_subword_prefix="##",
        show_progress=False,
    )
    tokenizer = Tokenizer(models.WordPiece(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(chain.from_iterable(repeat(word, counts[word]) for word in words), trainer)
    return models.WordPiece(tokenizer.get_vocab(), unk_token="<unk>", continuing_subword_prefix="##")


def _unigram_model(counts: Counter[str], vocab_size: int, min_frequency: int) -> models.Model:
    _require(vocab_size, len(set().union(*counts)), "distinct characters", "unigram")
    pieces = train_unigram(counts, vocab_size - len(_SPECIAL), min_frequency)
    return models.Unigram([(token, 0.0) for token in _SPECIAL] + pieces, unk_id=_SPECIAL.index("<unk>"))


_MODELS = {"wordpiece": _wordpiece_model, "unigram": _unigram_model, "word": _word_model, "char": _char_model}
