"""Spelling to sound, tiny: letters and phones as tokens, words with several right pronunciations, error rates."""

import pytest
from sacrebleu.metrics import BLEU

from regard.evaluation.generation import translate
from regard.model_cards.card import render_card
from regard.train import evaluate
from regard.train.building import build_model, build_tokenizer
from regard.train.data import load_splits, prepare_splits
from regard.train.evaluate import evaluate_run, evaluate_split, sample_outputs
from regard.train.recipe import RecipeError, load_recipe
from regard.train.run import train
from regard.train.tokenization import TASK_OPTIONS, train_tokenizer

SOUNDS = {"a": "AH", "b": "B", "e": "EH", "k": "K", "o": "OW", "t": "T", "'": ""}
SMALL = [
    "model.hidden_size=16", "model.num_attention_heads=2", "model.intermediate_size=32", "model.encoder_layers=1",
    "model.decoder_layers=1", "tokenizer.vocab_size=18", "training.max_steps=4", "training.save_steps=2",
    "training.save_strategy=steps", "training.warmup_steps=2", "evaluation.average_checkpoints=2",
    "evaluation.num_beams=2", "evaluation.max_new_tokens=6", "evaluation.samples=2",
]  # fmt: skip
# "tea" stands in three rows, apart, one of them twice: two items, of two and one pronunciations.
TEST = [("tea", "T EH AH"), ("boa", "B OW AH"), ("tea", "T AH"), ("tea", "T EH AH")]


def write(path, rows):
    path.write_text("word\tphones\n" + "".join(f"{word}\t{phones}\n" for word, phones in rows))
    return path


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    words = [a + b + c for a in "btk" for b in "aeo" for c in "abtk'"]
    rows = [(word, " ".join(SOUNDS[letter] for letter in word).strip()) for word in words]
    files = {"train": rows, "validation": rows[:6], "test": TEST}
    data = [f"data.{split}={write(folder / f'{split}.tsv', part)}" for split, part in files.items()]
    return load_recipe("translation/cmudict-g2p", [*data, *SMALL])


@pytest.fixture(scope="module")
def parts(recipe):
    splits = load_splits(recipe.data, recipe.task)
    tokenizer = build_tokenizer(recipe, splits["train"])
    prepared, _ = prepare_splits(splits, recipe, tokenizer)
    return build_model(recipe, tokenizer).eval(), tokenizer, prepared["test"]


def test_letters_and_phones_are_the_tokens(parts):
    _, tokenizer, rows = parts
    assert set(tokenizer.get_vocab()) == {*tokenizer.all_special_tokens, *"abekot'", *filter(None, SOUNDS.values())}
    assert tokenizer.tokenize("tea") == ["t", "e", "a"]
    assert tokenizer.tokenize("T EH AH") == ["T", "EH", "AH"]
    assert [tokenizer.decode(ids, skip_special_tokens=True) for ids in rows["labels"]] == [
        phones for _, phones in TEST
    ]


def test_rows_of_one_word_are_one_item_with_all_its_pronunciations(recipe, parts, monkeypatch):
    """ "tea" -> "T AH" is right; "boa" -> "B OW T T" has two edits to its three phones. The nearest of "tea" has two
    phones: 2 edits over 2 + 3 phones, and one word of two wrong."""
    asked = []

    def answers(model, tokenizer, texts, **settings):
        asked.extend(texts)
        return [{"tea": "T AH", "boa": "B OW T T"}[text] for text in texts]

    monkeypatch.setattr(evaluate, "translate", answers)
    monkeypatch.setattr(recipe.evaluation, "metrics", ["phone_error_rate", "word_error_rate", "exact_match", "bleu"])
    measures, predictions = evaluate_split(*parts[:2], recipe, parts[2])
    assert asked == ["tea", "boa"]
    assert predictions == ["T AH", "B OW T T"]
    assert measures["phone_error_rate"] == pytest.approx(100 * 2 / 5)
    assert (measures["word_error_rate"], measures["exact_match"]) == (50.0, 0.5)
    both = [["T EH AH", "B OW AH"], ["T AH", None]]
    assert measures["bleu"] == pytest.approx(BLEU().corpus_score(predictions, both).score)
    assert "nrefs:var" in measures["bleu_signature"]

    samples = sample_outputs(*parts[:2], recipe, parts[2], predictions)
    assert samples == [
        {"source": "tea", "target": "T EH AH / T AH", "prediction": "T AH"},
        {"source": "boa", "target": "B OW AH", "prediction": "B OW T T"},
    ]

    asked.clear()
    monkeypatch.setattr(recipe.evaluation, "group_references", False)
    measures, predictions = evaluate_split(*parts[:2], recipe, parts[2])
    assert asked == [word for word, _ in TEST]
    assert measures["word_error_rate"] == 75.0  # each row has one right answer
    assert measures["phone_error_rate"] == pytest.approx(100 * (1 + 2 + 0 + 1) / (3 + 3 + 2 + 3))


def test_a_run_measures_and_shows_error_rates(recipe, tmp_path):
    folder = tmp_path / recipe.name
    measures = train(recipe, str(folder))["evaluation"]["test"]
    model, tokenizer = evaluate.load_run(folder)
    written = translate(model, tokenizer, ["tea", "boa"], num_beams=2, max_new_tokens=6)
    wrong = (written[0] not in ("T EH AH", "T AH")) + (written[1] != "B OW AH")
    assert measures["word_error_rate"] == 100 * wrong / 2
    assert evaluate_run(folder)["test"] == measures
    card = render_card(folder)
    assert "| split | loss (nats) | perplexity | phone error rate (%) | word error rate (%) |" in card
    assert f"| {measures['phone_error_rate']:.2f} | {measures['word_error_rate']:.2f} |" in card
    assert "Lower is better: loss (nats), perplexity, phone error rate (%), word error rate (%)." in card
    assert "generated with `num_beams=2, max_new_tokens=6`" in card
    assert "any of their targets is a right answer" in card


G2P, SMALL_DE = "translation/cmudict-g2p", "translation/multi30k-en-de-small"


@pytest.mark.parametrize(
    ("name", "overrides", "sentence"),
    [
        (G2P, ["tokenizer.pattern='[A-'"], r"tokenizer.pattern='\[A-' is not a regular expression"),
        (G2P, ["tokenizer.kind=char"], "is for kind 'word', and tokenizer.kind is 'char'"),
        ("masked-lm/wikipedia-bert", ["evaluation.group_references=true"], "task masked-lm has no references"),
        (
            "translation/cmudict-g2p",
            ["data.train=a.tsv", "data.validation=5%", "data.test=null"],
            "data.validation: '5%' holds out rows, and with evaluation.group_references",
        ),
        (SMALL_DE, ["data.target_language=null"], "name that of the target in data.target_language, such as 'de'"),
        (SMALL_DE, ["data.target_language=german"], "has no rules for 'german', only for as, b"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_one_sentence(name, overrides, sentence):
    with pytest.raises(RecipeError, match=sentence):
        load_recipe(name, overrides)


def test_the_small_translation_recipe_has_at_most_2_7_million_weights(monkeypatch):
    """With a tokenizer of the whole size that the recipe asks for, which the real training data fill."""
    recipe = load_recipe(SMALL_DE)
    monkeypatch.setitem(recipe.model, "vocab_size", recipe.tokenizer.vocab_size)
    tokenizer = train_tokenizer(["ein Mann"], "byte-bpe", 261, **TASK_OPTIONS["translation"])
    assert build_model(recipe, tokenizer).num_parameters() <= 2_700_000
