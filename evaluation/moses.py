"""Text as the Moses scripts prepare it, by sacremoses, their port to Python: what older BLEU scores count."""

from collections.abc import Iterable


def moses_languages() -> list[str]:
    """The codes of the languages that the tokenizer has abbreviations of its own for."""
    from sacremoses.corpus import NonbreakingPrefixes

    return sorted(set(NonbreakingPrefixes().available_langs.values()))


def lowercased_moses_tokens(texts: Iterable[str], language: str) -> list[str]:
    """Texts lower-cased, with plain punctuation, their tokens set apart by one space: the three steps of the files
    `*.lc.norm.tok.*` of Multi30k (its script task1-tokenize.sh: `lowercase.perl`, `normalize-punctuation.perl -l`,
    `tokenizer.perl -l`, in this order and without `-a`: "t-shirt" stays one token).

    Signs stay as they are, where those files write `&quot;`: each is one token either way, so BLEU is the same.

    Args:
        texts: ordinary texts, one sentence each.
        language: one of `moses_languages()`.
    Raises:
        ValueError: another language.
    """
    from sacremoses import MosesPunctNormalizer, MosesTokenizer

    if language not in (known := moses_languages()):
        raise ValueError(f"Moses tokens: '{language}' is not a language that sacremoses knows: {', '.join(known)}.")
    normalizer, tokenizer = MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
    normalized = (normalizer.normalize(text.lower()) for text in texts)
    return [tokenizer.tokenize(text, return_str=True, escape=False) for text in normalized]
