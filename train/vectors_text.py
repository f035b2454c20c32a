"""The text of a run of word vectors: opened, read once, its words chosen and written down as numbers.

The words that are learnt are those that the run's tokenizer makes. Two libraries read one pattern, `regex` where the
text is read and Oniguruma in the tokenizer, so each word of the vocabulary is sent through the tokenizer, and one that
does not come back as one token has no row. Phrases are the exception: the tokenizer splits `new_york` as its pattern
says, unless that takes `_` for a letter, and they are looked up by their names.
"""

import sys
import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from transformers import PreTrainedTokenizerBase

from regard.evaluation.files import file_digest
from regard.evaluation.readers import local_file
from regard.train.callbacks import duration
from regard.train.corpus import (
    EncodedCorpus,
    NumberedText,
    RowSentences,
    TextSentences,
    WordSplitter,
    number_sentences,
)
from regard.train.phrases import join_phrases
from regard.train.records import write_json
from regard.train.sections import WORD_VECTORS, Recipe, RecipeError
from regard.train.tokenization import SPECIAL_TOKENS, word_tokenizer
from regard.train.vocabulary import Vocabulary

TEXT_FOLDER, TEXT, TEXT_RECORD = "text", "words.int32", "text.json"  # the encoded text, until the run is finished
COMPARED = 2**16  # characters of the text that the tokenizer splits too
TOLERATED = 0.05  # of words that it splits otherwise: signs that one library knows and the other does not yet
WORDS_AT_ONCE = 10_000  # that are sent through the tokenizer
FIRST_LINE, BETWEEN_LINES = 5, 60  # seconds: when the first line tells how far reading is, and how often at most later

Sentences = TextSentences | RowSentences


def open_sentences(recipe: Recipe, splitter: WordSplitter) -> Sentences:
    """The lines of the recipe's text, each a sentence.

    Raises:
        ValueError: data that is not there.
    """
    path = local_file(recipe.data.train)
    if path is not None and path.suffix.lower() == ".txt":
        if not path.is_file():
            raise RecipeError(f"data.train: there is no file '{path}'.")
        return TextSentences(path, splitter.lines)
    from regard.train.data import load_splits

    return RowSentences(load_splits(recipe.data, WORD_VECTORS)["train"], "text", splitter.lines)


def read_text(
    recipe: Recipe,
    splitter: WordSplitter,
    folder: Path,
    words: list[str] | None = None,
    known: Sequence[str] = (),
) -> tuple[Vocabulary, EncodedCorpus, dict[str, Any]]:
    """Leaves in the folder the recipe's text in rows, and a record of it.

    Args:
        recipe: says which text, and which of its words have a row.
        splitter: makes the words.
        folder: new.
        words: those of the rows, where they are settled.
        known: those of the first rows, after which come new ones.

    Raises:
        ValueError: data that is not there, or a text without words to learn.
    """
    sentences = open_sentences(recipe, splitter)
    start = time.perf_counter()
    folder.mkdir()
    first = folder / "first.int32"
    text = number_sentences(sentences, first, report=TextProgress().report)
    of_text = None
    if recipe.data.phrases:
        of_text = set(text.words)
        least = recipe.model.get("min_count", 5)
        settings = {"path": folder / "phrases.int32", "report": _say_phrases}
        text = join_phrases(text, recipe.data.phrases, recipe.data.phrase_delta, least, **settings)
        first.unlink()
    if words is None:
        vocabulary = _choose(recipe, text, of_text, known)
        _compare_splits(splitter, tokenizer_for(recipe, vocabulary.words), sentences)
    else:
        vocabulary = _counted(text, words)
    corpus = text.encode(vocabulary.words, folder / TEXT)
    for path in folder.iterdir():
        if path.name != TEXT:
            path.unlink()
    data = {
        "words": vocabulary.total,
        "words_of_vocabulary": corpus.num_words,
        "vocabulary_size": len(vocabulary.words),
        "distinct_words_left_out": vocabulary.dropped,
        "seconds": time.perf_counter() - start,
        "digest": file_digest(folder / TEXT),  # of the text in rows
        **({"words_before": len(known)} if known else {}),
    }
    kept = {**asdict(vocabulary), "counts": vocabulary.counts.tolist()}
    write_json(folder / TEXT_RECORD, {**data, "vocabulary": kept})
    return vocabulary, corpus, data


def tokenizer_for(recipe: Recipe, words: Sequence[str]) -> PreTrainedTokenizerBase:
    """The run's: a word's id is its row."""
    settings = recipe.tokenizer
    return word_tokenizer(words, settings.pattern, settings.lowercase, settings.max_length)


def _choose(
    recipe: Recipe, text: NumberedText, of_text: Collection[str] | None, known: Sequence[str] = ()
) -> Vocabulary:
    """The words of the rows: those that are known, then the frequent ones, but for what the tokenizer does not make.

    Args:
        of_text: the words that are no phrases; by default all.
    """
    least, most = recipe.model.get("min_count", 5), recipe.tokenizer.vocab_size
    without, occurs = [*SPECIAL_TOKENS.values()], dict(zip(text.words, text.counts.tolist(), strict=True))
    while True:
        if known:
            new = _frequent(text, least, {*without, *known})
            vocabulary = _counted(text, [*known, *new[: None if most is None else max(0, most - len(known))]])
        else:
            vocabulary = text.vocabulary(least, most, without)
        words = vocabulary.words[len(known) :]
        odd = _made_otherwise(words if of_text is None else [word for word in words if word in of_text], recipe)
        if not odd:
            return vocabulary
        share = sum(occurs[word] for word in odd) / vocabulary.total
        if share > TOLERATED:
            raise RecipeError(
                f"tokenizer.pattern: {recipe.tokenizer.pattern!r} finds {odd[0]!r} in the text, and the tokenizer "
                f"does not make that one word where it stands alone, as with {share:.0%} of the text: write a pattern "
                "that does not look at what is around a word."
            )
        shown = ", ".join(map(repr, odd[:5]))
        _say(f"{len(odd):,} words have no vector, since the tokenizer cuts them otherwise, such as {shown}")
        without += odd


def _frequent(text: NumberedText, least: int, without: Collection[str]) -> list[str]:
    order = np.argsort(-text.counts, kind="stable")
    return [text.words[i] for i in order[text.counts[order] >= least] if text.words[i] not in without]


def _counted(text: NumberedText, words: list[str]) -> Vocabulary:
    """These words with their counts in the text, where one may not occur at all."""
    counts = dict(zip(text.words, text.counts.tolist(), strict=True))
    found = np.array([counts.get(word, 0) for word in words], dtype=np.int64)
    return Vocabulary(words, found, int(text.counts.sum()), len(counts) - int((found > 0).sum()))


def _made_otherwise(words: Sequence[str], recipe: Recipe) -> list[str]:
    """Those that the tokenizer of these words does not give back as one token, itself."""
    tokenizer, odd = tokenizer_for(recipe, words), []
    for start in range(0, len(words), WORDS_AT_ONCE):
        part = list(words[start : start + WORDS_AT_ONCE])
        ids = tokenizer(part, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        odd += [word for row, (word, made) in enumerate(zip(part, ids, strict=True), start) if made != [row]]
    return odd


def _compare_splits(splitter: WordSplitter, tokenizer: PreTrainedTokenizerBase, sentences: Sentences) -> None:
    """Refuses a pattern that means something else to the tokenizer, by the first lines of the text."""
    normalize, split = tokenizer.backend_tokenizer.normalizer, tokenizer.backend_tokenizer.pre_tokenizer
    read = words = differing = 0
    example = None
    for text in sentences.blocks():
        for line in text[: COMPARED - read].split("\n"):
            found = splitter(line)
            made = [word for word, _ in split.pre_tokenize_str(normalize.normalize_str(line))]
            words += len(found)
            if found != made:
                only = Counter(found) - Counter(made), Counter(made) - Counter(found)
                differing += max(only[0].total(), only[1].total())
                example = example or [next(iter(each), "nothing") for each in only]
        read += len(text)
        if read >= COMPARED:
            break
    if differing > TOLERATED * words:
        raise RecipeError(
            f"tokenizer.pattern: {splitter.pattern!r} finds other words in training than the tokenizer does "
            f"({example[0]!r} and {example[1]!r}): write it without what the libraries read differently."
        )


class TextProgress:
    """Lines on standard error that tell how far the reading of a text is, or the counting of its pairs: first after
    seconds, then more rarely."""

    def __init__(self, stream: TextIO | None = None, first: float = FIRST_LINE) -> None:
        self.stream, self.start, self.due = stream or sys.stderr, time.perf_counter(), first

    def report(self, words: int, distinct: int) -> None:
        if (seconds := self._seconds()) is not None:
            speed = f"{words / seconds:,.0f} words/s"
            self._print(f"read {words:,} words in {duration(seconds)}, {distinct:,} distinct ones, {speed}")

    def report_counting(self, words: int, of_all: int) -> None:
        """Called with the numbers of words whose pairs are counted, and of all."""
        if words and (seconds := self._seconds()) is not None:
            speed, left = f"{words / seconds:,.0f} words/s", duration(seconds * (of_all / words - 1))
            self._print(f"counted the pairs of {words:,} of {of_all:,} words, {speed}, {left} left")

    def _seconds(self) -> float | None:
        """Since the start, if a line is due."""
        seconds = time.perf_counter() - self.start
        if seconds < self.due:
            return None
        self.due = seconds + min(max(1, seconds), BETWEEN_LINES)
        return seconds

    def _print(self, line: str) -> None:
        print(line, file=self.stream, flush=True)


def _say_phrases(number: int, phrases: int) -> None:
    _say(f"phrases, pass {number}: {phrases:,} pairs of words became one word each")


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
