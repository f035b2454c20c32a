"""The sentences that the folders' tokenizers are learnt from, and that the scripts train on. Imports nothing."""

SUBJECTS = ("the cat", "the dog", "a child", "the old king")
VERBS = ("sees", "follows", "likes", "forgets")
OBJECTS = ("the mouse", "a red house", "the sea")
SENTENCES = [f"{subject} {verb} {thing} ." for subject in SUBJECTS for verb in VERBS for thing in OBJECTS]  # 48
PAIRS = [(sentence, " ".join(reversed(sentence.split()))) for sentence in SENTENCES]  # to "translate": read backwards
LABELS = ("animal", "human")


def label_of(sentence: str) -> int:
    """Which of `LABELS` the subject has."""
    return int("child" in sentence or "king" in sentence)
