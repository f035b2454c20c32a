"""Answers cut out of contexts: windows, spans, thresholds, the rule of SQuAD, and a run from questions to a card.

Values are counted by hand or found by trying every possibility, as each test says.
"""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForQuestionAnswering

from regard import answer, load_run
from regard.evaluation.metrics import get_metric
from regard.evaluation.question_answering import (
    Spans,
    answer_positions,
    best_spans,
    choose_threshold,
    cut_windows,
    read_windows,
)
from regard.evaluation.squad import score_answer
from regard.modeling import TransformerEncoderConfig, TransformerEncoderForQuestionAnswering
from regard.train.collators import QuestionCollator
from regard.train.data import load_splits, prepare_splits
from regard.train.evaluate import evaluate_run
from regard.train.predict import predict_file
from regard.train.questions import read_questions, settle_threshold
from regard.train.recipe import load_recipe
from regard.train.sections import DataSection, Recipe, RecipeError
from regard.train.tokenization import train_tokenizer

from .test_tagging import wordpiece
from .test_trainer import trainer_for

WORDS = [f"w{number}" for number in range(40)]
SIZES = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "num_hidden_layers": 1, "dropout": 0.0}


def words_tokenizer(**settings):
    return train_tokenizer([" ".join([*WORDS, "?"])], "word", 60, min_frequency=1, **settings)


def encoder(tokenizer, **settings):
    torch.manual_seed(0)
    config = TransformerEncoderConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **SIZES | settings)
    return TransformerEncoderForQuestionAnswering(config).eval()


# --- the rule of SQuAD


@pytest.mark.parametrize(
    ("prediction", "references", "first", "second"),
    [
        ("The Panthers' defense!", ["panthers  defense"], (1, 1), (1, 1)),
        ("a big red dog", ["the red dog barks"], (0, 2 / 3), (0, 2 / 3)),  # 2 of 3 words in common, both ways
        ("red dog", ["big red dog", "red"], (0, 0.8), (0, 0.8)),  # 2·1·⅔/(1+⅔) = 0.8, and 2·½·1/(½+1) = ⅔
        ("dog dog", ["dog"], (0, 2 / 3), (0, 2 / 3)),  # a word counts as often as both have it
        ("panther", ["anther"], (0, 0), (0, 0)),  # "an" is an article as a word alone
        ("", ["the"], (1, 0), (1, 1)),  # nothing is left of both: here the versions differ
        ("x", ["the", "x"], (1, 1), (1, 1)),
    ],
)
def test_answers_are_scored_as_squad_scores_them(prediction, references, first, second):
    """Counted by hand from the rules of the scripts evaluate-v1.1.py and evaluate-v2.0.py."""
    assert score_answer(prediction, references, version=1) == pytest.approx(first)
    assert score_answer(prediction, references, version=2) == pytest.approx(second)


def test_questions_without_an_answer_are_told_apart():
    """Exact: 1, 0, 1, 0; F1: 1, 0.8, 1, 0."""
    predictions, references = ["Paris", "red dog", "", "x"], [["paris."], ["big red dog"], [], []]
    exact = get_metric("squad_exact_match").compute(predictions=predictions, references=references)
    f1 = get_metric("squad_f1").compute(predictions=predictions, references=references)
    assert exact == {"squad_exact_match": 50, "squad_exact_match_has_answer": 50, "squad_exact_match_no_answer": 50}
    assert f1 == {"squad_f1": pytest.approx(70), "squad_f1_has_answer": pytest.approx(90), "squad_f1_no_answer": 50}
    assert list(get_metric("squad_f1").compute(predictions=["", "a"], references=[["a"], ["x"]]).values()) == [0]
    with pytest.raises(ValueError, match="version=1 of squad_f1 must be 2"):
        get_metric("squad_f1").compute(predictions=predictions, references=references, version=1)


# --- windows


def test_windows_overlap_and_leave_nothing_out():
    tokenizer = words_tokenizer(max_length=512, return_token_type_ids=True)
    context, question = " ".join(WORDS[:23]), "w30 w31 ?"
    [windows] = cut_windows(tokenizer, [question], [context], max_length=14, doc_stride=3)
    # <s> three words </s> and </s> leave room for 8 words of the context, and each window goes on by 8 - 3 = 5.
    assert [window["number"] for window in windows] == [0, 5, 10, 15]
    for window in windows:
        words = WORDS[:23][window["number"] : window["number"] + 8]
        tokens = tokenizer.convert_ids_to_tokens(window["input_ids"])
        assert tokens == ["<s>", "w30", "w31", "?", "</s>", *words, "</s>"]
        assert window["first"] == 5
        assert window["token_type_ids"] == [0] * 5 + [1] * (len(words) + 1)
        assert [context[a:b] for a, b in zip(window["starts"], window["ends"], strict=True)] == words
    [[whole]] = cut_windows(tokenizer, [question], [context], max_length=29, doc_stride=3)
    assert tokenizer(question, context)["input_ids"] == whole["input_ids"]
    [[empty]] = cut_windows(tokenizer, [question], [""], max_length=14, doc_stride=3)
    assert empty["starts"] == []


def test_a_long_question_is_cut_and_a_window_goes_on():
    tokenizer = words_tokenizer()
    [windows] = cut_windows(tokenizer, [" ".join(WORDS)], [" ".join(WORDS[:9])], max_length=12, doc_stride=3)
    # Of 12 - 3 special - 3 shared = 6 spare tokens the question keeps half.
    assert all(window["cut"] and window["first"] == 5 and len(window["input_ids"]) <= 12 for window in windows)
    assert {tuple(window["input_ids"][1:4]) for window in windows} == {
        tuple(tokenizer(" ".join(WORDS))["input_ids"][1:4])
    }
    assert {i + window["number"] for window in windows for i in range(len(window["starts"]))} == set(range(9))
    with pytest.raises(ValueError, match=r"data\.max_length: 7 leaves no room for a question beside 3 special"):
        cut_windows(tokenizer, ["w1"], ["w2"], max_length=7, doc_stride=3)
    with pytest.raises(ValueError, match="The question is empty and the tokenizer puts no token before it"):
        cut_windows(words_tokenizer(template="none"), [""], ["w2"], max_length=7, doc_stride=3)


@pytest.mark.parametrize("kind", ["byte-bpe", "wordpiece", "unigram", "char"])
def test_answers_come_out_as_they_stand_in_the_context(kind):
    """Case, accents, emoji and runs of spaces: from the answer to positions and back."""
    context = "Ärger  mit  ÉCOLE: I\u0307stanbul\u2014naïve 🙂 Füße,\n\tNEW   York (1867)."
    tokenizer = train_tokenizer([context, "Was?"], kind, 330, lowercase=kind == "wordpiece", min_frequency=1)
    for text in ("Ärger", "ÉCOLE", "naïve 🙂 Füße", "NEW   York", "1867", context):
        start = context.index(text)
        [windows] = cut_windows(tokenizer, ["Was?"], [context], max_length=200, doc_stride=20)
        [(first, last)] = answer_positions(windows, (start, start + len(text)))
        [window] = windows
        found = context[window["starts"][first - window["first"]] : window["ends"][last - window["first"]]]
        assert found == text


def test_windows_without_the_whole_answer_point_at_the_first_token():
    tokenizer, context = words_tokenizer(), " ".join(WORDS[:12])
    [windows] = cut_windows(tokenizer, ["w30"], [context], max_length=10, doc_stride=2)  # 6 words: 0-5, 4-9, 8-11
    span = (context.index("w5"), context.index("w8") - 1)  # w5 w6 w7
    assert answer_positions(windows, span) == [(0, 0), (4, 6), (0, 0)]
    assert answer_positions(windows, None) == [(0, 0)] * 3
    assert answer_positions(windows, (2, 3)) == [None] * 3  # a space
    blank = {"number": 0, "first": 2, "starts": [0, 2, 3], "ends": [1, 2, 4]}  # its second token is white space
    assert answer_positions([blank], (0, 3)) == [(2, 2)]


# --- spans


def test_the_best_span_is_the_one_that_trying_all_finds():
    generator = np.random.default_rng(0)
    start, end = generator.normal(size=(2, 6, 9)).astype(np.float32)
    allowed = generator.random((6, 9)) < 0.7
    allowed[5] = False
    score, first, last = best_spans(start, end, allowed, max_answer_length=4)
    for row in range(5):
        every = [
            (float(start[row, i]) + float(end[row, j]), i, j)
            for i in range(9)
            for j in range(i, min(9, i + 4))
            if allowed[row, i] and allowed[row, j]
        ]
        assert (score[row], first[row], last[row]) == max(every)
    assert score[5] == -np.inf
    same = np.zeros((1, 9), np.float32)  # of equal ones the shortest, and of these the first
    assert best_spans(same, same, allowed[:1], 4)[1:] == (allowed[0].argmax(), allowed[0].argmax())


class Pointer(torch.nn.Module):
    """Likes question, special and pad tokens best, and of the context the tokens that it is told; "no answer" less
    where it sees another one."""

    def __init__(self, tokenizer, liked, seen):
        super().__init__()
        self.scores = torch.full((len(tokenizer),), -5.0)
        self.scores[tokenizer.convert_tokens_to_ids(list(liked))] = torch.tensor(list(liked.values()))
        self.seen = tokenizer.convert_tokens_to_ids(seen)
        self.device = torch.device("cpu")

    def forward(self, input_ids, attention_mask):
        logits = self.scores[input_ids] + 100.0 * (1 - attention_mask)
        logits[:, 0] -= 3.0 * (input_ids == self.seen).any(1)
        return SimpleNamespace(start_logits=logits, end_logits=logits)


def test_of_all_windows_the_best_span_and_the_lowest_null():
    tokenizer, context = words_tokenizer(), " ".join(WORDS[:12])
    liked = {"w30": 90.0, "<s>": 1.0, "</s>": 90.0, "<pad>": 90.0, "w3": 3.0, "w9": 2.0, "w6": 9.0}
    model = Pointer(tokenizer, liked, seen="w5")
    cut = cut_windows(tokenizer, ["w30", "w30"], [context, "w7"], max_length=10, doc_stride=2)
    windows = [window for several in cut for window in several]  # of the words 0-5, 4-9 and 8-11, and of one
    for window in windows:  # w6 is white space, let us say
        edges = zip(window["starts"], window["ends"], strict=True)
        window["starts"] = [end if context[start:end] == "w6" else start for start, end in edges]
    for batch_size in (1, 3, 7):
        spans = read_windows(model, windows, [0, 0, 0, 1], batch_size=batch_size)
        assert (spans.score.tolist(), spans.null.tolist()) == ([6, -10], [-4, 2])
        assert spans.texts([context, "w7"], None) == ["w3", "w7"]
        assert spans.texts([context, "w7"], 0.0) == ["w3", ""]
        assert spans.texts([context, "w7"], -11.0) == ["", ""]


def test_the_loss_is_that_of_the_windows_with_positions():
    """Each computed by itself; of the five the third has none."""
    tokenizer = words_tokenizer()
    model, generator = encoder(tokenizer), np.random.default_rng(0)
    windows, losses = [], []
    for length, at in ((9, 3), (4, 0), (7, -100), (5, 2), (6, 5)):
        ids = generator.integers(5, 40, length).tolist()
        windows.append({"input_ids": ids, "first": 1, "starts": [0], "ends": [1]})
        windows[-1] |= {"start_positions": at, "end_positions": at}
        if at >= 0:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([ids]))
            both = (logits.start_logits, logits.end_logits)
            losses.append(-sum(one.log_softmax(-1)[0, at].item() for one in both) / 2)
    for batch_size in (1, 2, 5):
        found = read_windows(model, windows, range(5), batch_size=batch_size)
        assert found.loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_batch_size_and_padding_side_change_no_answer():
    """Of a model with random weights, in float32."""
    tokenizer = words_tokenizer()
    model = encoder(tokenizer)
    generator = np.random.default_rng(0)
    contexts = [" ".join(generator.choice(WORDS, number)) for number in (3, 30, 1, 17, 8)]
    questions = ["w1 ?", "w2 w3 w4 ?", "w5", "w6 w7 ?", "w8"]
    settings = {"max_length": 16, "doc_stride": 4}
    margins = sorted(one["margin"] for one in answer(model, tokenizer, questions, contexts, **settings))
    settings["null_threshold"] = -(margins[1] + margins[2]) / 2  # so that two have no answer
    tokenizer.padding_side = "left"
    found = [answer(model, tokenizer, questions, contexts, batch_size=size, **settings) for size in (1, 2, 7)]
    tokenizer.padding_side = "right"
    found.append(answer(model, tokenizer, questions, contexts, **settings))
    found.append([answer(model, tokenizer, q, c, **settings) for q, c in zip(questions, contexts, strict=True)])
    for several in found:
        for one, first, context in zip(several, found[0], contexts, strict=True):
            assert {**one, "margin": 0} == {**first, "margin": 0}
            assert one["margin"] == pytest.approx(first["margin"], abs=1e-4)
            assert one["answer"] == (context[one["start"] : one["end"]] if one["answer"] else "")
    assert sorted(one["margin"] for one in found[0] if not one["answer"]) == pytest.approx(margins[:2], abs=1e-4)


def test_what_cannot_be_answered_is_refused():
    tokenizer = words_tokenizer()
    model = encoder(tokenizer)
    for arguments, sentence in [
        (("w1", ["w2"]), "must be a text each"),
        ((["w1", "w2"], ["w2"]), "must be a text each"),
        (("  ", "w2"), "A question is empty"),
        ((["w1"], [None]), "must be texts"),
    ]:
        with pytest.raises(ValueError, match=sentence):
            answer(model, tokenizer, *arguments)
    with pytest.raises(ValueError, match="max_answer_length=0 must be a whole number, at least 1"):
        answer(model, tokenizer, "w1", "w2", max_answer_length=0)
    with pytest.raises(ValueError, match="A Linear does not answer questions"):
        answer(torch.nn.Linear(1, 1), tokenizer, "w1", "w2")
    assert answer(model, tokenizer, [], []) == []
    assert answer(model, tokenizer, "w1", "")["answer"] == ""


def test_a_model_without_settings_reads_what_it_can():
    """384 tokens at once are too many for this tokenizer, and so are the usual 128 that two windows share."""
    tokenizer = words_tokenizer(max_length=24)
    context = " ".join(WORDS[:35])
    found = answer(encoder(tokenizer), tokenizer, "w1 ?", context)
    assert found["answer"] == context[found["start"] : found["end"]]
    assert found["answer"]


def test_the_threshold_is_the_best_of_all():
    """Against every threshold between two items."""
    generator = np.random.default_rng(1)
    for _ in range(20):
        score, null = generator.integers(0, 6, (2, 9)).astype(float)  # with ties
        worth = np.where(generator.random(9) < 0.4, -1.0, generator.random(9))
        spans = Spans(score, null, np.zeros(9, int), np.ones(9, int), 0.0)

        def mean(threshold, margins=null - score, worth=worth):
            given = margins <= threshold
            return np.where(worth < 0, ~given, np.where(given, worth, 0.0)).mean()

        best = max(mean(threshold) for threshold in np.arange(-7, 7, 0.5))
        assert mean(choose_threshold(spans, worth)) == pytest.approx(best)
    nothing = Spans(np.array([-np.inf]), np.zeros(1), np.zeros(1, int), np.zeros(1, int), 0.0)
    assert choose_threshold(nothing, [1.0]) == 0.0


# --- data


def rows_file(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


FLAT = {"question": "Who?", "context": "It was Ada. Yes, Ada.", "answer": "Ada", "answer_start": 7}


def test_both_shapes_of_answers_are_read(tmp_path):
    several = {"text": ["Ada", "was Ada"], "answer_start": [7, 3]}
    path = rows_file(
        tmp_path / "hub.jsonl",
        [
            {"question": "Who?", "context": FLAT["context"], "answers": several},
            {"question": "Why?", "context": "x", "answers": {"text": [], "answer_start": []}},
        ],
    )
    columns = {"answer": "answers.text", "answer_start": "answers.answer_start"}
    read = load_splits(DataSection(train=path, columns=columns), "question-answering")["train"].to_list()
    assert [(row["answer"], row["answer_start"]) for row in read] == [(["Ada", "was Ada"], [7, 3]), ([], [])]
    table = tmp_path / "flat.tsv"
    table.write_text("question\tcontext\tanswer\tanswer_start\nWho?\tIt was Ada.\tAda\t7\nWhy?\tx\t\t\n")
    read = load_splits(DataSection(train=str(table)), "question-answering")["train"].to_list()
    assert [(row["answer"], row["answer_start"]) for row in read] == [(["Ada"], [7]), ([], [])]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"answer_start": 8}, "the answer 'Ada' is said to begin at character 8 of the context, where 'da.' stands; "),
        ({"answer_start": 16}, "where ' Ad' stands; it begins at 17."),
        ({"answer_start": 99}, "character 99 of the context, and the context has 21 characters; it begins at 17."),
        ({"answer": "Bea"}, "where 'Ada' stands; it is not in the context."),
        ({"answer_start": "seven"}, "where an answer begins is a whole number for each, and not 'seven'."),
        ({"answer": " "}, "an answer is blank: leave the text, or the list, empty where there is none."),
        ({"answer": ["Ada", "Ada"]}, "there are 2 answers and 1 places where they begin."),
        ({"answer": 3}, "an answer is a text or a list of texts, and not 3."),
    ],
)
def test_an_answer_that_stands_elsewhere_is_refused(tmp_path, change, sentence):
    path = rows_file(tmp_path / "a.jsonl", [FLAT, FLAT | change])
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the sentence is looked at
        load_splits(DataSection(train=path), "question-answering")
    assert f"data.train: {path}, line 2: " in str(caught.value)
    assert sentence in str(caught.value)


def test_training_windows_are_laid_out_and_counted(tmp_path):
    context = " ".join(WORDS[:12])
    rows = [
        {"question": "w30", "context": context, "answer": "w5 w6 w7", "answer_start": context.index("w5")},
        {"question": "w30", "context": context, "answer": "", "answer_start": -1},
        {"question": "w31", "context": "w1 w2", "answer": "w2", "answer_start": 3},
    ]
    path = rows_file(tmp_path / "a.jsonl", rows)
    data = DataSection(train=path, validation=path, max_length=10, doc_stride=2)
    recipe = Recipe(name="x", task="question-answering", model={"type": "encoder"}, data=data)
    splits, report = prepare_splits(load_splits(data, "question-answering"), recipe, words_tokenizer())
    train, valid = splits["train"], splits["validation"]
    assert train.column_names == ["input_ids", "start_positions", "end_positions"]
    assert train["start_positions"][:] == [0, 4, 0, 0, 0, 0, 4]
    assert train["end_positions"][:] == [0, 6, 0, 0, 0, 0, 4]
    assert valid["item"][:] == [0, 0, 0, 1, 1, 1, 2]
    assert (report.splits["train"].rows, report.splits["train"].examples) == (3, 7)
    batch = QuestionCollator(0)(train.select([1, 6]).to_list())
    assert batch["attention_mask"].sum(1).tolist() == [10, 6]
    assert (batch["start_positions"].tolist(), batch["end_positions"].tolist()) == ([4, 4], [6, 4])


def test_what_is_cut_and_what_nothing_can_be_learnt_from_is_counted_once(tmp_path):
    """A question of 40 words, and an answer of a character that the tokenizer deletes, each of two windows; and the
    first of several right answers is the one that is learnt."""
    context = "w1 \u200b w2 w3 w4 w5 w6 w7 w8 w9"
    several = {"answer": ["w2", "w4"], "answer_start": [5, 11]}
    rows = [
        {"question": " ".join(WORDS), "context": context, **several},
        {"question": "w1", "context": context, "answer": "\u200b", "answer_start": 3},
    ]
    data = DataSection(train=rows_file(tmp_path / "a.jsonl", rows), max_length=12, doc_stride=3)
    recipe = Recipe(name="x", task="question-answering", model={"type": "encoder"}, data=data)
    splits, report = prepare_splits(load_splits(data, "question-answering"), recipe, wordpiece(*WORDS))
    found, train = report.splits["train"], splits["train"].to_list()
    assert (found.rows, found.truncated, found.without_targets) == (2, 1, 1)
    positions = [row["start_positions"] for row in train]
    assert positions == [6, 0, -100, -100]  # [CLS], three words and [SEP] are before the context
    assert (found.examples, found.targets) == (4, 2)


def test_a_training_split_without_any_answer_is_refused(tmp_path):
    """The model would learn that there is never one, and be right about every such question."""
    path = rows_file(tmp_path / "a.jsonl", [{"question": "w1", "context": "w1 w2", "answer": "", "answer_start": 0}])
    data = DataSection(train=path, max_length=20, doc_stride=3)
    recipe = Recipe(name="x", task="question-answering", model={"type": "encoder"}, data=data)
    with pytest.raises(ValueError, match=r"^data.columns.answer: no question of data.train has an answer"):
        prepare_splits(load_splits(data, "question-answering"), recipe, words_tokenizer())


@pytest.mark.parametrize(
    ("train", "validation", "threshold"),
    [(["w2", ""], ["w2"], 0.0), (["w2"], ["w2"], None), (["w2"], ["w2", ""], "chosen"), (["w2", ""], None, 0.0)],
)
def test_the_threshold_follows_from_the_data(tmp_path, train, validation, threshold):
    """Chosen on validation questions without an answer, else 0 where some are trained on, else none."""
    tokenizer = words_tokenizer()
    model = encoder(tokenizer)
    model.save_pretrained(tmp_path)
    paths = {}
    for name, answers in (("train", train), ("validation", validation)):
        rows = [{"question": "w1", "context": "w1 w2", "answer": a, "answer_start": 3} for a in answers or ()]
        paths[name] = rows_file(tmp_path / f"{name}.jsonl", rows) if rows else None
    data = DataSection(**paths, max_length=20, doc_stride=3)
    recipe = Recipe(name="x", task="question-answering", model={"type": "encoder"}, data=data)
    splits = load_splits(data, "question-answering")
    prepared = prepare_splits(splits, recipe, tokenizer)[0]
    settle_threshold(tmp_path, model, tokenizer, recipe, splits["train"], prepared.get("validation"))
    settings = json.loads((tmp_path / "config.json").read_text())["question_answering"]
    assert settings == model.config.question_answering
    if threshold == "chosen":
        spans, settled = read_questions(model, tokenizer, recipe, prepared["validation"])
        worth = score_answer(spans.texts(["w1 w2"] * 2, None)[0], ["w2"])[1]
        assert settled == settings["null_threshold"] == choose_threshold(spans, [worth, -1.0])
    else:
        assert settings["null_threshold"] == threshold


def test_a_stream_of_questions(tmp_path):
    path, made = rows_file(tmp_path / "a.jsonl", [FLAT, FLAT | {"answer": "", "answer_start": 0}]), {}
    for streaming in (False, True):
        data = DataSection(train=path, validation=path, streaming=streaming, max_length=20, doc_stride=3)
        recipe = Recipe(name="x", task="question-answering", model={"type": "encoder"}, data=data)
        splits = prepare_splits(load_splits(data, "question-answering"), recipe, words_tokenizer())[0]
        made[streaming] = sorted(splits["train"], key=lambda row: row["start_positions"])
        assert splits["validation"]["item"][:] == [0, 1]
    assert made[True] == made[False]
    assert [row["start_positions"] > 0 for row in made[True]] == [False, True]


def test_accumulation_equals_a_larger_batch(tmp_path):
    """Case 38, for spans: five windows, of which one has no target."""
    tokenizer = words_tokenizer()
    generator = np.random.default_rng(0)
    data = [
        {"input_ids": generator.integers(5, 40, length).tolist(), "start_positions": at, "end_positions": at}
        for length, at in ((9, 3), (4, 0), (7, -100), (5, 2), (6, 5))
    ]
    found = []
    for size, steps in ((5, 1), (1, 5)):
        trainer = trainer_for(
            tmp_path, encoder(tokenizer), QuestionCollator(0), data, max_steps=1, optim="sgd", learning_rate=0.1,
            max_grad_norm=0, per_device_train_batch_size=size, gradient_accumulation_steps=steps, logging_steps=1,
        )  # fmt: skip
        trainer.train()
        found.append((trainer.state.log_history[0]["loss"], trainer.model.state_dict()))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-5)
    for name, tensor in found[0][1].items():
        torch.testing.assert_close(tensor, found[1][1][name], rtol=1e-4, atol=1e-6)


# --- recipes and a run


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["data.doc_stride=252"], "data.doc_stride: windows that share 252 tokens do not go on where data.max_length"),
        (["data.doc_stride=-1"], "data.doc_stride: -1 is less than 0."),
        (["evaluation.max_answer_length=0"], "evaluation.max_answer_length: 0 is less than 1."),
        (["data.mask_share=0.5"], "data.mask_share is for the task masked-lm, not for question-answering: leave it "),
        (["data.streaming=true", "training.max_steps=1"], "data.split_by needs all rows in advance, and "),
        (["model.type=decoder"], "model.type: the task question-answering takes 'encoder', not 'decoder'."),
        (["evaluation.metrics=[f1]"], "evaluation.metrics: 'f1' does not fit the task question-answering, "),
    ],
)
def test_what_cannot_work_is_refused(settings, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe("question-answering/xquad-minilm", settings)
    assert str(caught.value).startswith(sentence)


def test_the_command_trains_and_answers(tmp_path):
    """The word after the one that is asked for, if it is in the context at all; a third of them are not."""
    generator = np.random.default_rng(0)
    rows = []
    for number in range(60):
        words = generator.permutation(WORDS[:12]).tolist()
        asked, context = words.pop(4 if number % 3 else 0), " ".join(words)
        row = {"question": asked + " ?", "context": context, "answer": "", "answer_start": ""}
        if number % 3:
            context = " ".join([*words[:4], asked, *words[4:]])
            row |= {"context": context, "answer": words[4], "answer_start": context.index(words[4] + " ")}
            row["answer_start"] = len(" ".join([*words[:4], asked])) + 1
        rows.append(row)
    recipe = {
        "name": "tiny", "task": "question-answering",
        "model": {"type": "encoder", **SIZES},
        "tokenizer": {"kind": "word", "vocab_size": 60, "min_frequency": 1},
        "data": {"train": rows_file(tmp_path / "rows.jsonl", rows), "validation": "20%", "test": "10%",
                 "split_by": "context", "max_length": 12, "doc_stride": 3},
        "training": {"num_train_epochs": 2, "learning_rate": 0.01, "logging_steps": 2, "eval_strategy": "epoch",
                     "save_strategy": "epoch", "per_device_train_batch_size": 32},
        "evaluation": {"metrics": ["squad_f1", "squad_exact_match"], "samples": 3, "max_answer_length": 2},
    }  # fmt: skip
    path, run = tmp_path / "tiny.yaml", tmp_path / "run"
    path.write_text(json.dumps(recipe))  # JSON is YAML
    command = [sys.executable, "-m", "regard", "train", str(path), "--output", str(run), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    metrics = json.loads(done.stdout)
    assert metrics["data"]["train"]["rows"] == 42
    for split in ("validation", "test"):
        scores = metrics["evaluation"][split]
        assert scores.keys() >= {"loss", "squad_f1", "squad_f1_has_answer", "squad_exact_match", "null_threshold"}
    assert evaluate_run(run) == metrics["evaluation"]
    assert evaluate_run(run, "test", batch_size=1)["test"] == pytest.approx(metrics["evaluation"]["test"], rel=1e-5)
    model, tokenizer = load_run(run)
    settings = model.config.question_answering
    assert {name: settings[name] for name in ("max_length", "doc_stride", "max_answer_length")} == {
        "max_length": 12, "doc_stride": 3, "max_answer_length": 2,
    }  # fmt: skip
    assert settings["null_threshold"] == metrics["evaluation"]["test"]["null_threshold"]
    shown = metrics["samples"][0]
    asked, context = shown["source"].split(" ||| ")
    assert (answer(model, tokenizer, asked, context)["answer"] or "(no answer)") == shown["prediction"]
    assert type(AutoModelForQuestionAnswering.from_pretrained(run)) is type(model)
    # A file of questions, in batches of any size, is answered as each question alone.
    asked, expected = tmp_path / "asked.jsonl", []
    for row in rows[:5]:
        said = answer(model, tokenizer, row["question"], row["context"])
        expected.append({"question": row["question"], "context": row["context"], **said})
    rows_file(asked, [{"context": row["context"], "question": row["question"]} for row in rows[:5]])
    for size in (1, 4):
        for row, one in zip(predict_file(run, asked, size), expected, strict=True):
            assert row == one | {"margin": pytest.approx(one["margin"], abs=1e-5)}
    rows_file(asked, [{"context": "", "question": "who ?"}])
    said = predict_file(run, asked)[0]
    assert (said["answer"], said["margin"]) == ("", None)  # minus infinity is no JSON
    rows_file(asked, [{"context": "a", "question": "who ?"}, {"context": "a", "question": " "}])
    empty = predict_file(run, asked)[1]
    assert (empty["answer"], empty["start"], empty["margin"]) == ("", None, None)
    (tmp_path / "asked.txt").write_text("who ?\n")
    with pytest.raises(ValueError, match="answers questions from contexts, which '.*asked.txt' has no columns for"):
        predict_file(run, tmp_path / "asked.txt")
    card = (run / "README.md").read_text(encoding="utf-8")
    assert "pipeline_tag: question-answering" in card
    assert "| F1 (SQuAD) |" in card
    assert "AutoModelForQuestionAnswering" in card
