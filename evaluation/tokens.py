"""Tokens as a reader wants to see them."""

import json

from tokenizers import pre_tokenizers
from transformers import PreTrainedTokenizerBase

INSIDE = "-"  # in front of a piece that goes on with a word


def readable_tokens(tokenizer: PreTrainedTokenizerBase, ids: list[int]) -> list[str]:
    """The text of each token: "Ġfare", "yi", "ÅŁ" of a byte-level tokenizer become "fare", "-yi", "-ş".

    A hyphen marks a piece that goes on with a word. A space that is a token is "␣"; bytes that are no whole character
    are escaped, such as "\\xc5".
    """
    tokens = tokenizer.convert_ids_to_tokens(ids)
    special = set(tokenizer.all_special_tokens)
    steps = _decoder_steps(tokenizer)
    labels = []
    after_word = False
    for token in tokens:
        if token in special:
            labels.append(token)
            after_word = False
            continue
        text, inside = token, False
        if "ByteLevel" in steps:
            text = _bytes_to_text(token)
            inside = not text.startswith((" ", "\n", "\t"))
        elif "WordPiece" in steps:
            text, inside = text.removeprefix("##"), token.startswith("##")
        elif "Metaspace" in steps:
            text = token.replace("▁", " ")
            inside = not text.startswith(" ")
        bare = text.strip()
        if inside and after_word and bare[:1].isalnum():
            bare = INSIDE + bare
        labels.append(bare or ("␣" if text == " " else repr(text)[1:-1]))
        after_word = bare[-1:].isalnum()
    return labels


def _decoder_steps(tokenizer: PreTrainedTokenizerBase) -> set[str]:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    decoder = json.loads(backend.to_str())["decoder"] if backend is not None else None
    if decoder is None:
        return set()
    return {step["type"] for step in decoder.get("decoders", [decoder])}


def _bytes_to_text(token: str) -> str:
    """The text that a byte-level token stands for: each of its characters is one byte."""
    table = _byte_of_character()
    if not all(character in table for character in token):
        return token  # an added token, which is plain text
    return bytes(table[character] for character in token).decode("utf-8", errors="backslashreplace")


def _byte_of_character() -> dict[str, int]:
    """GPT-2's alphabet: printable bytes are themselves, the others, in order, the characters from U+0100 on."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}
    assert set(table) == set(pre_tokenizers.ByteLevel.alphabet())
    return table
