"""The tasks that come with the package: the text that a model reads, letter for letter, of a row as the Hub has it and
as a local file may have it. The rows are those of the data sets, or made in their form; the texts are written by
hand."""

import json

import pytest

from regard.evaluation.few_shot.prompts import completions_of
from regard.evaluation.few_shot.rows import load_items
from regard.evaluation.few_shot.task import list_tasks, load_task, task_text
from regard.evaluation.few_shot.templates import content_free_query, example_of, item_of, queries_of

SYNTHETIC = ("swapping", "copying", "induction", "lookup", "cipher", "arithmetic", "word-classes", "all-or-any")

SENTIMENT = ("Review: one long string of cliches\nSentiment:",), (" negative", " positive"), 0
TREC_TYPES = (" abbreviation", " description", " entity", " human", " location", " number")
ARC = ("Question: Where does meiosis occur?\nAnswer:",), (" brain cells", " ovary cells", " bone cells"), 1
COPA = ("The women met for coffee because",), (" the cafe reopened.", " I wanted to catch up."), 1
COPA_EFFECT = ("I poured water on my sleeping friend so",), (" my friend awoke.", " my friend snored."), 0
XCOPA = ("Kız bir böcek buldu bu yüzden",), (" ılık süt döktü.", " iştahını kaybetti."), 1
XCOPA_CAUSE = ("Kadın emekli oldu çünkü",), (" emekli maaşını aldı.", " ev kredisini ödedi."), 0
SURGEONS = (
    ("Sarah was a better surgeon than Maria so Sarah", "Sarah was a better surgeon than Maria so Maria"),
    (" always got the easier cases.",) * 2,
    1,
)
JOHNS = ("Ann asked John about John", "Ann asked John about Bill"), ("'s work.",) * 2, 0
PAIR = ("",), ("Katherine can't help herself.", "Katherine can't help himself."), 0

# task, row, (queries, what is scored after them, place of the right one)
CHOOSING = [
    # stanfordnlp/sst2, and a TSV file
    ("sst2", {"idx": 0, "sentence": "one long string of cliches ", "label": 0}, SENTIMENT),
    ("sst2", {"sentence": "one long string of cliches", "label": "0"}, SENTIMENT),
    (
        "trec",
        {"question": "What county is Modesto , California in ?", "coarse": "LOC", "fine": "LOC:city"},
        (("Question: What county is Modesto , California in ?\nType:",), TREC_TYPES, 4),
    ),
    ("trec", {"question": "What is BPH ?", "coarse": "ABBR"}, (("Question: What is BPH ?\nType:",), TREC_TYPES, 0)),
    # nyu-mll/glue, and TSV files
    (
        "cola",
        {"sentence": "The sailors rode the breeze.", "label": 1, "idx": 0},
        (("Sentence: The sailors rode the breeze.\nIs this acceptable English?",), (" no", " yes"), 1),
    ),
    (
        "cola",
        {"sentence": "They drank the pub.", "label": "0"},
        (("Sentence: They drank the pub.\nIs this acceptable English?",), (" no", " yes"), 0),
    ),
    (
        "rte",
        {"sentence1": "It rains.", "sentence2": "It is wet.", "label": 0, "idx": 3},
        (("It rains.\nQuestion: It is wet. True or False?\nAnswer:",), (" True", " False"), 0),
    ),
    (
        "rte",
        {"sentence1": "It rains.", "sentence2": "It is dry.", "label": "not_entailment"},
        (("It rains.\nQuestion: It is dry. True or False?\nAnswer:",), (" True", " False"), 1),
    ),
    # allenai/ai2_arc, whose choices have letters or numbers, and a JSONL file
    (
        "arc-easy",
        {
            "id": "M1",
            "question": "Where does meiosis occur?",
            "choices": {"text": ["brain cells", "ovary cells", "bone cells"], "label": ["A", "B", "C"]},
            "answerKey": "B",
        },
        ARC,
    ),
    (
        "arc-easy",
        {
            "id": "M2",
            "question": "Where does meiosis occur?",
            "choices": {"text": ["brain cells", "ovary cells", "bone cells"], "label": ["1", "2", "3"]},
            "answerKey": "2",
        },
        ARC,
    ),
    (
        "arc-easy",
        {
            "id": "M3",
            "question": "Where does meiosis occur?",
            "choices": ["brain cells", "ovary cells", "bone cells"],
            "answer": 1,
        },
        ARC,
    ),
    # SuperGLUE's fields, and a JSONL file
    (
        "copa",
        {
            "premise": "The women met for coffee.",
            "choice1": "The cafe reopened.",
            "choice2": "I wanted to catch up.",
            "question": "cause",
            "idx": 2,
            "label": 1,
        },
        COPA,
    ),
    (
        "copa",
        {
            "id": 3,
            "question_type": "cause",
            "question": "The women met for coffee.",
            "choices": ["The cafe reopened.", "I wanted to catch up."],
            "answer": 1,
        },
        COPA,
    ),
    (
        "copa",
        {
            "id": 4,
            "question_type": "effect",
            "question": "I poured water on my sleeping friend.",
            "choices": ["My friend awoke.", "My friend snored."],
            "answer": 0,
        },
        COPA_EFFECT,
    ),
    # XCOPA's fields, and a JSONL file
    (
        "xcopa-tr",
        {
            "premise": "Kız bir böcek buldu.",
            "choice1": "Ilık süt döktü.",
            "choice2": "İştahını kaybetti.",
            "question": "effect",
            "label": 1,
            "idx": 1,
        },
        XCOPA,
    ),
    (
        "xcopa-tr",
        {
            "id": 2,
            "question_type": "cause",
            "question": "Kadın emekli oldu.",
            "choices": ["Emekli maaşını aldı.", "Ev kredisini ödedi."],
            "answer": 0,
        },
        XCOPA_CAUSE,
    ),
    # allenai/winogrande, and a JSONL file
    (
        "winogrande",
        {
            "sentence": "Sarah was a better surgeon than Maria so _ always got the easier cases.",
            "option1": "Sarah",
            "option2": "Maria",
            "answer": "2",
        },
        SURGEONS,
    ),
    (
        "winogrande",
        {"id": 0, "contexts": list(SURGEONS[0]), "continuation": "always got the easier cases.", "answer": 1},
        SURGEONS,
    ),
    (
        "winogrande",
        {"sentence": "Ann asked John about _'s work.", "option1": "John", "option2": "Bill", "answer": "1"},
        JOHNS,
    ),
    ("winogrande", {"id": 1, "contexts": list(JOHNS[0]), "continuation": "'s work.", "answer": 0}, JOHNS),
    # EleutherAI/lambada_openai, and a JSONL file that names the target too
    ("lambada", {"text": "He saw no\nmore signs"}, (("He saw no\nmore",), (" signs",), 0)),
    ("lambada", {"text": "He saw no\nmore signs", "target": "signs"}, (("He saw no\nmore",), (" signs",), 0)),
    # nyu-mll/blimp, and what `regard minimal-pairs` writes
    (
        "minimal-pairs",
        {
            "sentence_good": "Katherine can't help herself.",
            "sentence_bad": "Katherine can't help himself.",
            "field": "morphology",
            "linguistics_term": "anaphor_agreement",
            "UID": "anaphor_gender_agreement",
            "pair_id": 0,
        },
        PAIR,
    ),
    (
        "minimal-pairs",
        {
            "sentence_good": "Katherine can't help herself.",
            "sentence_bad": "Katherine can't help himself.",
            "phenomenon": "reflexives",
            "paradigm": "gender",
        },
        PAIR,
    ),
]


@pytest.mark.parametrize(("name", "row", "expected"), CHOOSING)
def test_a_row_becomes_these_texts(name, row, expected):
    task = load_task(name)
    item = item_of(task, row, 0)
    assert (queries_of(task, item), completions_of(task, item), item.answer) == expected


@pytest.mark.parametrize(
    ("name", "query", "answer"),
    [
        ("translation-en-de", "English: A man in a hat.\nGerman:", "Ein Mann mit Hut."),
        ("translation-de-en", "German: Ein Mann mit Hut.\nEnglish:", "A man in a hat."),
    ],
)
def test_a_translation_is_asked_for(name, query, answer):
    task = load_task(name)
    item = item_of(task, {"en": "A man in a hat.", "de": "Ein Mann mit Hut."}, 0)
    assert (queries_of(task, item), item.references, task.generation.stop) == ((query,), (answer,), ["\n"])
    assert example_of(task, item) == f"{query} {answer}"


@pytest.mark.parametrize(
    ("name", "row", "example"),
    [
        ("sst2", CHOOSING[0][1], "Review: one long string of cliches\nSentiment: negative"),
        ("copa", CHOOSING[11][1], "The women met for coffee because I wanted to catch up."),
        (
            "winogrande",
            CHOOSING[16][1],
            "Sarah was a better surgeon than Maria so Maria always got the easier cases.",
        ),
        ("lambada", {"text": "He saw no\nmore signs"}, "He saw no\nmore signs"),
    ],
)
def test_a_shot_is_the_query_with_its_answer(name, row, example):
    task = load_task(name)
    assert example_of(task, item_of(task, row, 0)) == example


@pytest.mark.parametrize(
    ("place", "query"),
    [(11, "N/A because"), (12, "N/A because"), (13, "N/A so"), (14, "N/A bu yüzden"), (15, "N/A çünkü")],
)
def test_without_its_premise_a_copa_item_still_asks_for_cause_or_effect(place, query):
    """What calibration compares with has to differ in the content alone."""
    name, row, _ = CHOOSING[place]
    task = load_task(name)
    assert content_free_query(task, item_of(task, row, 0)) == query


def test_minimal_pairs_are_counted_by_what_differs():
    task = load_task("minimal-pairs")
    assert [item_of(task, row, 0).group for name, row, _ in CHOOSING if name == "minimal-pairs"] == [
        "anaphor_agreement",
        "reflexives",
    ]
    assert item_of(task, {"sentence_good": "a", "sentence_bad": "b"}, 0).group == "all"


def test_generated_minimal_pairs_are_their_own_task():
    items, pool = load_items(load_task("minimal-pairs", ["data.number=8", "data.seed=3"]))
    assert items == pool
    assert [item.choices for item in items] == [
        (item.fields["sentence_good"], item.fields["sentence_bad"]) for item in items
    ]
    assert {item.answer for item in items} == {0}
    assert [item.group for item in items[:4]] == ["agreement", "reflexives", "determiners", "word-order"]


@pytest.mark.parametrize("name", SYNTHETIC)
def test_a_synthetic_task_asks_in_the_form_that_the_models_are_trained_on(name):
    from regard.evaluation.in_context import items as make

    task = load_task(name, ["data.number=3"])
    items, _ = load_items(task)
    assert [item.fields for item in items] == [item.fields for item in make(name, 3, 0)]
    for item in items:
        read, right = item.fields["input"], item.fields["output"]
        assert queries_of(task, item) == (f"{read}>",)
        assert completions_of(task, item)[item.answer] == right
        assert item.rule is not None
        assert [example_of(task, one) for one in item.pool[:2]] == [
            f"{one.fields['input']}>{one.fields['output']}" for one in item.pool[:2]
        ]
        assert len({len(choice) for choice in item.choices}) == 1  # none is the beginning of another
    assert task.separator == "\n"


def test_the_module_of_the_items_is_not_hidden_by_its_function():
    from regard.evaluation.in_context import items, questions

    assert questions.items is items
    assert questions.__name__ == "regard.evaluation.in_context.questions"


def test_every_task_has_a_test_here_and_says_what_each_key_is():
    tested = {name for name, _, _ in CHOOSING} | {"translation-en-de", "translation-de-en", *SYNTHETIC}
    assert set(list_tasks()) == tested
    for name in tested:
        assert load_task(name).name == name
        head, _, keys = task_text(name).partition("\n\n")
        assert all(line.startswith("#") for line in head.splitlines())
        assert max(map(len, task_text(name).splitlines())) <= 119
        for line in keys.splitlines():
            is_key = ":" in line and line.lstrip()[0] not in "-{#" and not line.rstrip().endswith(":")
            assert not is_key or "  # " in line, f"{name}: {line}"


@pytest.mark.parametrize(
    ("name", "file", "rows"),
    [
        ("sst2", "dev.tsv", "sentence\tlabel\ngood\t1\nbad\t0\n"),
        ("arc-easy", "a.jsonl", {"id": "x", "question": "Why?", "choices": ["a", "b"], "answer": 1}),
        ("lambada", "l.jsonl", {"text": "He saw signs", "target": "signs"}),
        ("minimal-pairs", "p.jsonl", {"sentence_good": "It is.", "sentence_bad": "It are."}),
        ("translation-de-en", "t.jsonl", {"de": "Ja.", "en": "Yes."}),
    ],
)
def test_a_file_takes_the_place_of_the_hub(tmp_path, name, file, rows):
    path = tmp_path / file
    path.write_text(rows if isinstance(rows, str) else json.dumps(rows) + "\n")
    items, _ = load_items(load_task(name, [f"data.file={path}"]))
    assert len(items) == (2 if name == "sst2" else 1)
