"""`regard plot`: pictures of trainings, attention, induction, translations, positions and word vectors."""

from pathlib import Path
from typing import Annotated, Any

import typer

from regard.cli import (
    MEASURE,
    JsonOption,
    RunArgument,
    VectorsArgument,
    _given,
    _load,
    _print_json,
    _results_alone,
    _write,
    app,
)

plot = typer.Typer(
    name="plot",
    help="Draw curves, learning curves, attention, confusions, BLEU by length, positions, or word vectors.",
    epilog="Example: regard plot curves runs/demo --output curves.png",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(plot, rich_help_panel=MEASURE)

RunArguments = Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders of runs.")]
OutputOption = Annotated[Path, typer.Option("--output", "-o", help="The picture, a .png or .svg file.")]
SplitOption = Annotated[
    str | None, typer.Option(help="As `regard evaluate` has it; by default the first test set there is.")
]


@plot.command(epilog="Example: regard plot curves runs/small runs/large --x tokens --output curves.png")
def curves(
    runs: RunArguments,
    output: OutputOption,
    x: Annotated[str, typer.Option(help="step, epoch, tokens or seconds.")] = "step",
    quantity: Annotated[
        list[str] | None,
        typer.Option(
            help="A panel's: loss, eval_loss, eval_perplexity, eval_<metric of a classifier>, or bleu, as the runs' "
            "recipes count it, for which the checkpoints that are kept translate the validation split. Repeatable; by "
            "default all that was logged."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Losses and validation metrics of several runs together, one panel a quantity."""
    with _results_alone(as_json):
        from regard.train.run_pictures import plot_run_curves

        path = plot_run_curves(runs, output, x=x, quantities=quantity or None)
    _say(path, as_json)


@plot.command(epilog='Example: regard plot attention runs/demo "The cat ate the mouse." --output attention.html')
def attention(
    run: RunArgument,
    source: Annotated[
        str, typer.Argument(metavar="SENTENCE", help="The text that is read; it is cut at the run's longest.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="A .png or .svg file, or an .html page to explore.")],
    target: Annotated[
        str | None,
        typer.Option(
            help="The translation; by default what the run writes greedily, which ends at the run's longest."
        ),
    ] = None,
    which: Annotated[
        str | None, typer.Option(help="cross, encoder or decoder; by default the first of these that the run has.")
    ] = None,
    layer: Annotated[str, typer.Option(metavar="N|all|mean", help="A layer, from 0; -1 is the last.")] = "all",
    head: Annotated[str, typer.Option(metavar="N|all|mean", help="A head, from 0; -1 is the last.")] = "all",
    as_json: JsonOption = False,
) -> None:
    """Where a run looks as it reads or writes a sentence, by layer and head."""
    with _results_alone(as_json):
        from regard.evaluation.attention_pictures import check_attention_format, plot_attention

        check_attention_format(output)
        model, tokenizer = _load(run)
        path = plot_attention(model, tokenizer, source, target, output, which=which, layer=layer, head=head)
    _say(path, as_json)


@plot.command(epilog="Example: regard plot lengths runs/multi30k-de-en --output lengths.png")
def lengths(
    runs: RunArguments,
    output: OutputOption,
    split: SplitOption = None,
    width: Annotated[int | None, typer.Option(min=1, help="Of a bucket, in words of the source.")] = None,
    num_beams: Annotated[int | None, typer.Option(min=1, help="Width of the beam search.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="The longest translation.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0, the higher the longer.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Sentences at once.")] = None,
    as_json: JsonOption = False,
) -> None:
    """BLEU, as the runs' recipes count it, by the length of the source, with the sentences that each length has;
    translates the split first."""
    settings = _given(
        num_beams=num_beams, max_new_tokens=max_new_tokens, length_penalty=length_penalty, batch_size=batch_size
    )
    with _results_alone(as_json):
        from regard.train.run_pictures import plot_run_lengths

        results = plot_run_lengths(runs, output, split=split, width=width, **settings)
    if as_json:
        buckets = {name: [vars(bucket) for bucket in several] for name, several in results.items()}
        _print_json({"picture": str(output), "bleu": buckets})
    else:
        _say(output, as_json)


@plot.command(epilog="Example: regard plot confusion runs/sst2-dan --output confusion.png")
def confusion(
    run: RunArgument,
    output: OutputOption,
    split: SplitOption = None,
    as_json: JsonOption = False,
) -> None:
    """Which labels a run takes for which; a split of which the run kept no counts is measured first."""
    with _results_alone(as_json):
        from regard.train.errors import plot_run_confusion

        path = plot_run_confusion(run, output, split)
    _say(path, as_json)


@plot.command(
    "learning-curve", epilog="Example: regard plot learning-curve runs/scratch-sweep runs/tuned-sweep -o a.png"
)
def learning_curve(
    sweeps: Annotated[
        list[str], typer.Argument(metavar="SWEEP...", help="Folders of sweeps over data.max_train_examples.")
    ],
    output: OutputOption,
    metric: Annotated[str | None, typer.Option(help="By default the one that the sweeps were judged by.")] = None,
    split: Annotated[str, typer.Option(help="validation or, of sweeps with --test, a test set.")] = "validation",
    as_json: JsonOption = False,
) -> None:
    """A metric by the number of training examples: the mean over the seeds, with a band of their deviation."""
    with _results_alone(as_json):
        from regard.train.sweep_pictures import plot_sweep_curves

        path = plot_sweep_curves(sweeps, output, metric=metric, split=split)
    _say(path, as_json)


@plot.command(epilog="Example: regard plot induction runs/induction-decoder --output induction.png")
def induction(
    run: RunArgument,
    output: OutputOption,
    as_json: JsonOption = False,
) -> None:
    """When a run learnt to foretell what repeats, and which head does it; of a run that recorded it
    (evaluation.induction_steps)."""
    with _results_alone(as_json):
        from regard.train.induction import plot_run_induction

        path = plot_run_induction(run, output)
    _say(path, as_json)


@plot.command(epilog="Example: regard plot positions translation/multi30k-de-en --output positions.png")
def positions(
    run_or_recipe: Annotated[str, typer.Argument(metavar="RUN_OR_RECIPE", help="A run's folder, or a recipe.")],
    output: OutputOption,
    number: Annotated[int | None, typer.Option(min=2, help="How many positions; by default up to 128.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The position table, and the dot products of two positions by their distance."""
    with _results_alone(as_json):
        from regard.train.run_pictures import plot_run_positions

        path = plot_run_positions(run_or_recipe, output, number)
    _say(path, as_json)


@plot.command(epilog="Example: regard plot vectors runs/wiki-skipgram king river blue --neighbours 8 -o words.png")
def vectors(
    vectors: VectorsArgument,
    output: OutputOption,
    words: Annotated[list[str] | None, typer.Argument(metavar="WORD...", help="The words.")] = None,
    more: Annotated[
        list[str] | None, typer.Option("--words", metavar="WORD...", help="The same: --words king queen.")
    ] = None,
    neighbours: Annotated[int, typer.Option(min=0, help="So many nearest neighbours of each too.")] = 0,
    categories: Annotated[
        str | None, typer.Option(metavar="FILE", help="Words with categories, as evaluate takes them, in colours.")
    ] = None,
    method: Annotated[list[str] | None, typer.Option(help="pca or tsne, or by default both; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Of t-SNE.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Words in a plane, by PCA and t-SNE."""
    with _results_alone(as_json):
        from regard.evaluation.vector_pictures import check_choice, plot_vectors, words_of_categories
        from regard.evaluation.word_sets import read_categories

        _check_places(vectors, output)
        chosen, members, groups = list(dict.fromkeys([*(more or []), *(words or [])])), [], None
        if categories is not None:
            members = read_categories(categories)
        check_choice(3 if members else len(chosen), neighbours, method)  # of members there may be any number
        table = _load_vectors(vectors)
        if categories is not None:
            groups = words_of_categories(table, members, categories)
        path = plot_vectors(
            table, [*chosen, *(groups or {})], output, methods=method, neighbours=neighbours, groups=groups, seed=seed
        )
    _say(path, as_json)


@plot.command(epilog="Example: regard plot analogies runs/wiki-skipgram man:woman king:queen -o analogies.png")
def analogies(
    vectors: VectorsArgument,
    pairs: Annotated[list[str], typer.Argument(metavar="WORD:WORD...", help="Pairs, such as man:woman.")],
    output: OutputOption,
    as_json: JsonOption = False,
) -> None:
    """Pairs of words as arrows, which are parallel where the pairs are an analogy."""
    with _results_alone(as_json):
        from regard.evaluation.vector_pictures import check_pairs, parse_pairs, plot_analogies

        _check_places(vectors, output)
        read = parse_pairs(pairs)
        check_pairs(read)
        path = plot_analogies(_load_vectors(vectors), read, output)
    _say(path, as_json)


@plot.command(
    "one-hot", epilog="Example: regard plot one-hot runs/wiki-skipgram hotel motel king queen -o one-hot.png"
)
def one_hot(
    vectors: VectorsArgument,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="The words.")],
    output: OutputOption,
    as_json: JsonOption = False,
) -> None:
    """How alike words are as one-hot vectors, where hotel is as far from motel as from any word, and as embeddings."""
    with _results_alone(as_json):
        from regard.evaluation.vector_pictures import check_number, plot_one_hot

        _check_places(vectors, output)
        check_number(len(set(words)))
        path = plot_one_hot(_load_vectors(vectors), words, output)
    _say(path, as_json)


def _check_places(vectors: str, output: Path) -> None:
    """Refuses vectors that are not there and a picture's file that cannot be, before anything is read."""
    from regard.evaluation.drawing import check_format
    from regard.evaluation.word_table import check_place

    check_place(vectors)
    check_format(output)


def _load_vectors(path: str) -> Any:
    from regard.evaluation.word_table import vectors_at

    return vectors_at(path)


def _say(path: Path, as_json: bool) -> None:
    if as_json:
        _print_json({"picture": str(path)})
    else:
        _write(f"Wrote {path}\n", None)
