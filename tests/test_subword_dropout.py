"""BPE dropout: words cut anew in each epoch, by the paper's probabilities, the same in any process."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import product

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils.data import DataLoader
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from regard.train import checkpoints
from regard.train.collators import ResegmentingCollator, Seq2SeqCollator, collator_for
from regard.train.data import load_splits, prepare_splits
from regard.train.preprocessing import encode_pairs
from regard.train.recipe import RecipeError, load_recipe
from regard.train.run import train
from regard.train.subword_dropout import SubwordDropout, word_lengths
from regard.train.tokenization import train_tokenizer

SYLLABLES = ["ba", "lo", "mi", "ster", "kün", "graß", "ter", "ei", "s", "über", "nach", "den", "ken", "a", "tion"]
ODD = [
    "2016",
    "3.14",
    "don't",
    "Ankara'nın",
    "naïve",
    "ÄÖÜ",
    "😀👩‍👩‍👧",
    "…",
    "   ",
    "\t\n",
    "<s>",
    "日本語",
    "!!",
    "hahaha",
    "ααα",
]


def words(number, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(SYLLABLES, rng.integers(1, 6))) for _ in range(number)]


def texts(number, seed=0):
    rng = np.random.default_rng([seed, 1])
    vocabulary = words(200, seed) + ODD
    return [" ".join(rng.choice(vocabulary, rng.integers(1, 9))) for _ in range(number)]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(texts(300), "byte-bpe", 500, template="eos")


def cut_all(tokenizer, dropout, lines, seed=0):
    """The lines' tokens, and those that they are cut into anew."""
    encoded = tokenizer(lines)
    generator = np.random.default_rng(seed)
    ids = encoded["input_ids"]
    return ids, [dropout.cut(row, word_lengths(encoded.word_ids(i)), generator) for i, row in enumerate(ids)]


# --- how a word is cut


def test_without_dropout_words_are_cut_as_the_tokenizer_cuts_them(tokenizer):
    """Seen and unseen words, umlauts, digits, signs, emoji, white space, and a special token's text."""
    lines = texts(300) + texts(200, seed=5) + words(2000, seed=7) + ODD + ["ba" * 100, ""]
    ids, cut = cut_all(tokenizer, SubwordDropout.of(tokenizer, 0.0), lines)
    assert cut == ids


@pytest.mark.parametrize("probability", [0.1, 0.5, 0.95])
def test_cut_anew_it_is_the_same_text(tokenizer, probability):
    lines = texts(200, seed=3)
    ids, cut = cut_all(tokenizer, SubwordDropout.of(tokenizer, probability), lines)
    assert cut != ids
    assert sum(map(len, cut)) > sum(map(len, ids))
    assert [tokenizer.decode(row) for row in cut] == [tokenizer.decode(row) for row in ids]
    assert all(row[-1] == tokenizer.eos_token_id for row in cut)


def of_merges(merges, word, **options):
    """A tokenizer with just these merges."""
    vocab = {symbol: i for i, symbol in enumerate(dict.fromkeys([*word, *map("".join, merges), "<unk>"]))}
    backend = Tokenizer(models.BPE(vocab, merges, **options))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=backend)


def exact(pieces, ranks, p):
    """The probability of each way to cut, by the paper: all subsets of the merges, each kept with 1 - p."""
    places = [i for i in range(len(pieces) - 1) if (pieces[i], pieces[i + 1]) in ranks]
    result = Counter()
    for kept in product([False, True], repeat=len(places)):
        weight = np.prod([1 - p if keep else p for keep in kept])
        left = [(ranks[pieces[i], pieces[i + 1]], i) for i, keep in zip(places, kept, strict=True) if keep]
        if not left:
            result[pieces] += weight
            continue
        i = min(left)[1]
        for way, chance in exact((*pieces[:i], pieces[i] + pieces[i + 1], *pieces[i + 2 :]), ranks, p).items():
            result[way] += weight * chance
    return result


@pytest.mark.parametrize("p", [0.1, 0.4])
@pytest.mark.parametrize(
    ("word", "merges"),
    [
        ("ab", [("a", "b")]),
        ("unrelated", [("a", "t"), ("e", "d"), ("r", "e"), ("u", "n"), ("at", "ed"), ("l", "ated"), ("re", "lated")]),
        ("banana", [("a", "n"), ("an", "a"), ("b", "an"), ("n", "a"), ("ban", "ana")]),
        ("aaaaa", [("a", "a"), ("aa", "a"), ("aa", "aa")]),
    ],
)
def test_ways_to_cut_come_as_often_as_the_paper_says(word, merges, p):
    """Against all probabilities of a small word, by Pearson's chi-square: below its mean plus four deviations."""
    tokenizer, draws = of_merges(merges, word), 20_000
    expected = exact(tuple(word), {merge: rank for rank, merge in enumerate(merges)}, p)
    assert sum(expected.values()) == pytest.approx(1)
    _, cut = cut_all(tokenizer, SubwordDropout.of(tokenizer, p), [word] * draws)
    seen = Counter(tuple(tokenizer.convert_ids_to_tokens(row)) for row in cut)
    assert seen.keys() <= expected.keys()
    common = [way for way, chance in expected.items() if chance * draws >= 5]
    cells = [(seen[way], expected[way] * draws) for way in common]
    cells.append((draws - sum(n for n, _ in cells), draws - sum(e for _, e in cells)))
    chi_square = sum((n - e) ** 2 / e for n, e in cells if e > 1)
    freedom = len(common)
    assert chi_square < freedom + 4 * np.sqrt(2 * freedom)


def test_added_tokens_and_unknown_symbols_stay_whole():
    tokenizer = of_merges([("a", "b")], "ab", unk_token="<unk>")
    tokenizer.add_special_tokens({"unk_token": "<unk>", "sep_token": "<ab>"})
    ids, cut = cut_all(tokenizer, SubwordDropout.of(tokenizer, 0.9), ["aab <ab> abz"] * 20)
    special = [tokenizer.sep_token_id, tokenizer.unk_token_id]
    assert [[i for i in row if i in special] for row in cut] == [special] * 20
    assert {tuple(row[:3]) for row in cut if row[2] == 1} == {(0, 0, 1)}


def test_the_memory_of_words_is_bounded_and_decides_nothing(tokenizer, monkeypatch):
    lines = texts(50, seed=4)
    whole = cut_all(tokenizer, SubwordDropout.of(tokenizer, 0.3), lines)
    monkeypatch.setattr("regard.train.subword_dropout.KNOWN_STATES", 10)
    monkeypatch.setattr("regard.train.subword_dropout.LONGEST_KNOWN", 4)
    small = SubwordDropout.of(tokenizer, 0.3)
    assert cut_all(tokenizer, small, lines) == whole
    assert len(small._known) <= 10


def test_tokenizers_that_do_not_fit():
    unigram = train_tokenizer(texts(50), "word", 100, min_frequency=1)
    with pytest.raises(ValueError, match="data.bpe_dropout needs a BPE tokenizer, and this one is of type WordLevel"):
        SubwordDropout.of(unigram, 0.1)
    for option in ({"dropout": 0.5}, {"byte_fallback": True}, {"ignore_merges": True}):
        with pytest.raises(ValueError, match=f"by its merges alone, and this one has {next(iter(option))}="):
            SubwordDropout.of(of_merges([("a", "b")], "ab", **option), 0.1)


# --- rows and batches


def rows_of(tokenizer, number=40):
    encoded = encode_pairs({"source": texts(number, 1), "target": texts(number, 2)}, tokenizer, 64, 64, True)
    keys = ("input_ids", "labels", "source_words", "target_words")
    return [
        dict(zip(keys, row, strict=True)) | {"row": i}
        for i, row in enumerate(zip(*map(encoded.get, keys), strict=True))
    ]


def collator(tokenizer, seed=1, limit=64):
    return ResegmentingCollator(0, SubwordDropout.of(tokenizer, 0.2), seed, limit, limit)


def lists(batch):
    return {name: tensor.tolist() for name, tensor in batch.items()}


def test_a_row_is_cut_by_seed_epoch_and_number_alone(tokenizer):
    rows = rows_of(tokenizer)
    collate = collator(tokenizer)
    first = [collate.cut(row, 0) for row in rows]
    assert [collator(tokenizer).cut(row, 0) for row in reversed(rows)] == first[::-1]
    assert [collate.cut(row, 1) for row in rows] != first
    assert [collator(tokenizer, seed=2).cut(row, 0) for row in rows] != first
    assert collate.cut(rows[0] | {"row": 1}, 0) != first[0]
    collate.set_epoch(1)
    assert lists(collate([[*rows[:3]], [rows[3]]])) == lists(
        Seq2SeqCollator(0)([collate.cut(row, 1) for row in rows[:4]])
    )


def test_rows_without_a_number_stay(tokenizer):
    rows = [{"input_ids": row["input_ids"], "labels": row["labels"]} for row in rows_of(tokenizer)]
    assert lists(collator(tokenizer)(rows)) == lists(Seq2SeqCollator(0)(rows))


def test_a_side_that_becomes_too_long_stays(tokenizer):
    rows = rows_of(tokenizer)
    collate, free = collator(tokenizer, limit=12), collator(tokenizer)
    kept = 0
    for row in rows:
        cut, longer = collate.cut(row, 0), free.cut(row, 0)
        for side in ("input_ids", "labels"):
            fits = len(longer[side]) <= 12
            assert cut[side] == (longer if fits else row)[side]
            kept += not fits
    assert 0 < kept < 2 * len(rows)


@pytest.mark.parametrize("settings", [{}, {"num_workers": 1}, {"num_workers": 2, "persistent_workers": True}])
def test_workers_cut_as_the_main_process_does(tokenizer, settings):
    rows = rows_of(tokenizer, 8)
    collate = collator(tokenizer)
    loader = DataLoader(rows, batch_size=2, collate_fn=collate, **settings)
    for epoch in (0, 1, 2):
        collate.set_epoch(epoch)
        expected = [Seq2SeqCollator(0)([collate.cut(row, epoch) for row in rows[i : i + 2]]) for i in (0, 2, 4, 6)]
        assert [lists(batch) for batch in loader] == [lists(batch) for batch in expected]


def test_another_process_cuts_the_same(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    rows = rows_of(tokenizer)
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    code = """if True:
        import json, sys
        from transformers import AutoTokenizer
        from regard.train.collators import ResegmentingCollator
        from regard.train.subword_dropout import SubwordDropout
        dropout = SubwordDropout.of(AutoTokenizer.from_pretrained(sys.argv[1]), 0.2)
        collate = ResegmentingCollator(0, dropout, 1, 64, 64)
        print(json.dumps([collate.cut(row, 3) for row in json.load(open(sys.argv[1] + "/rows.json"))]))
    """
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env=os.environ | {"PYTHONHASHSEED": "77"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == [collator(tokenizer).cut(row, 3) for row in rows]


# --- recipes and runs


def recipe_of(folder, *more):
    for name, seed, number in (("train", 1, 60), ("valid", 2, 8)):
        lines = [f"{line}\t{line.upper()}\n" for line in map(" ".join, map(str.split, texts(number, seed)))]
        (folder / f"{name}.tsv").write_text("source\ttarget\n" + "".join(lines))
    values = {
        "name": "tiny",
        "task": "translation",
        "model": {"type": "transformer", "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32},
        "data": {"train": str(folder / "train.tsv"), "validation": str(folder / "valid.tsv")},
        "tokenizer": {"vocab_size": 320},
        "training": {"num_train_epochs": 3, "learning_rate": 0.01, "eval_strategy": "epoch", "save_strategy": "steps"},
    }
    values["model"] |= {"encoder_layers": 1, "decoder_layers": 1}
    values["data"] |= {"max_tokens_per_batch": 400, "bpe_dropout": 0.2}
    values["training"] |= {"save_steps": 1, "save_total_limit": 2, "logging_steps": 1}
    values["evaluation"] = {"metrics": ["bleu"], "max_new_tokens": 4, "num_beams": 1, "samples": 1}
    path = folder / "tiny.json"
    path.write_text(json.dumps(values))
    return path, list(more)


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ("data.bpe_dropout=1", "data.bpe_dropout: 1.0 is not a number of at least 0 and below 1."),
        ("data.bpe_dropout=-0.1", "data.bpe_dropout: -0.1 is not a number of at least 0 and below 1."),
        ("data.bpe_dropout=.nan", "data.bpe_dropout: nan is not a number of at least 0 and below 1."),
        ("data.streaming=true", "data.bpe_dropout cuts rows anew in each epoch, "),
        (
            "tokenizer.kind=unigram",
            "data.bpe_dropout skips merges of byte pairs, which a tokenizer of kind 'unigram' ",
        ),
    ],
)
def test_recipes_that_cannot_work(tmp_path, more, sentence):
    with pytest.raises(RecipeError) as caught:
        load_recipe(*recipe_of(tmp_path, more))
    assert str(caught.value).startswith(sentence)


def test_other_tasks_are_refused():
    sentence = "data.bpe_dropout is for the task translation, not for sequence-classification"
    with pytest.raises(RecipeError, match=sentence):
        load_recipe("classification/sst2-encoder", ["data.bpe_dropout=0.1"])


def test_only_training_rows_are_prepared_for_it(tmp_path, tokenizer):
    recipe = load_recipe(*recipe_of(tmp_path))
    splits, _ = prepare_splits(load_splits(recipe.data, recipe.task), recipe, tokenizer)
    train_rows = splits["train"]
    assert {"row", "source_words", "target_words"} <= set(train_rows.column_names)
    assert train_rows["row"][:] == list(range(60))
    for row in train_rows:
        assert sum(row["source_words"]) == len(row["input_ids"])
        assert sum(row["target_words"]) == len(row["labels"])
    assert not {"row", "source_words", "target_words"} & set(splits["validation"].column_names)
    assert type(collator_for(recipe, tokenizer)) is ResegmentingCollator
    plain = load_recipe(*recipe_of(tmp_path, "data.bpe_dropout=0"))
    splits, _ = prepare_splits(load_splits(plain.data, plain.task), plain, tokenizer)
    assert set(splits["train"].column_names) == {"input_ids", "attention_mask", "labels"}
    assert type(collator_for(plain, tokenizer)) is Seq2SeqCollator


RUN = """if True:
    import os, signal, sys
    from transformers import TrainerCallback
    from regard.train import run
    from regard.train.recipe import load_recipe

    class Killer(TrainerCallback):
        def on_step_begin(self, args, state, control, **kwargs):
            if state.global_step == int(sys.argv[3]):
                os.kill(os.getpid(), signal.SIGKILL)

    original = run.RegardTrainer.__init__
    def init(self, *args, callbacks=(), **kwargs):
        original(self, *args, callbacks=[*callbacks, Killer()], **kwargs)
    run.RegardTrainer.__init__ = init
    if __name__ == "__main__":
        run.train(load_recipe(sys.argv[1], sys.argv[4:]), sys.argv[2])
"""


def test_killed_in_the_middle_of_an_epoch_and_resumed_is_the_whole_run(tmp_path):
    path, more = recipe_of(tmp_path)
    recipe = load_recipe(path, more)
    whole = train(recipe, str(tmp_path / "whole"))
    per_epoch = whole["training"]["steps"] // 3
    assert per_epoch > 2
    kill_at = per_epoch + per_epoch // 2
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(path), str(tmp_path / "killed"), str(kill_at)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == -9, done.stderr[-2000:]
    assert checkpoints.step_of(checkpoints.last_checkpoint(tmp_path / "killed")) == kill_at
    resumed = train(recipe, str(tmp_path / "killed"), resume=True)
    assert resumed["evaluation"] == whole["evaluation"]
    assert resumed["training"]["tokens"] == whole["training"]["tokens"]
    # Longer than what the tokenizer makes of the rows.
    assert whole["training"]["tokens"] > 3 * whole["data"]["train"]["tokens"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "killed")]
    assert weights[0] == weights[1]
    plain = train(load_recipe(path, ["data.bpe_dropout=0"]), str(tmp_path / "plain"))
    assert plain["training"]["tokens"] == 3 * plain["data"]["train"]["tokens"]
    for folder in ("whole", "killed"):
        saved = (tmp_path / folder / "tokenizer.json").read_text()
        assert json.loads(saved)["model"]["dropout"] is None
        assert saved == (tmp_path / "plain" / "tokenizer.json").read_text()
    loaded = AutoTokenizer.from_pretrained(tmp_path / "whole")
    assert loaded("nachdenken")["input_ids"] == loaded("nachdenken")["input_ids"]


TWO = """if True:
    import json, sys
    import torch
    from pathlib import Path
    from regard.train import run
    from regard.train.recipe import load_recipe

    seen = []
    original = run.RegardTrainer.training_step
    def step(self, model, inputs, *args, **kwargs):
        seen.append([int(self.state.epoch), inputs["input_ids"].tolist(), inputs["labels"].tolist()])
        return original(self, model, inputs, *args, **kwargs)
    run.RegardTrainer.training_step = step
    if __name__ == "__main__":
        run.train(load_recipe(sys.argv[1], sys.argv[3:]), sys.argv[2] + "/run")
        rank = torch.distributed.get_rank() if torch.distributed.is_initialized() else 0
        Path(sys.argv[2], f"seen-{rank}.json").write_text(json.dumps(seen))
"""


def test_two_processes_see_the_batches_of_one(tmp_path):
    """Of each epoch the same batches, cut the same way; where their number is odd, one comes again without labels."""
    path, more = recipe_of(tmp_path, "training.num_train_epochs=2", "data.validation=null", "evaluation.metrics=[]")
    more += ["training.eval_strategy=no", "training.save_strategy=no", "training.dataloader_num_workers=1"]
    script = tmp_path / "script.py"
    script.write_text(TWO)
    port = 20_000 + os.getpid() % 20_000
    launcher = ["-m", "torch.distributed.run", "--nproc_per_node=2", f"--master_port={port}"]
    found = []
    for name, command in (("one", []), ("two", launcher)):
        (tmp_path / name).mkdir()
        done = subprocess.run(
            [sys.executable, *command, str(script), str(path), str(tmp_path / name), *more],
            env=os.environ | {"OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""},
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        parts = [json.loads(part.read_text()) for part in sorted((tmp_path / name).glob("seen-*.json"))]
        new = [
            [(e, batch) for e, *batch in part if any(label != -100 for row in batch[1] for label in row)]
            for part in parts
        ]
        found.append([{json.dumps(batch) for part in new for e, batch in part if e == epoch} for epoch in (0, 1)])
    assert found[0] == found[1]
    assert not found[0][0] & found[0][1]
    assert all(len(epoch) > 2 for epoch in found[0])
    assert torch.tensor(json.loads(next(iter(found[0][0])))[0]).ndim == 2
