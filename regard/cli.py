"""The command `regard`: one verb a job, each a thin call of a Python function that can be called too.

Nothing heavy is imported before a verb needs it, so that `regard --help` answers at once. Exit status: 0, 1 (the work
failed) or 2 (the call was wrong). An error is one sentence on standard error; REGARD_DEBUG=1 shows where it came from.
"""

import contextlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import regard

TRAIN, USE, MEASURE, SHARE = "Train", "Use", "Measure", "Share"

app = typer.Typer(
    name="regard",
    help="Language models along the road to attention: train them from recipes, use them, measure them, share them.",
    epilog="Begin with: regard demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, such as runs/demo.")]
VectorsArgument = Annotated[
    str, typer.Argument(metavar="VECTORS", help="A run of word vectors, or a file of them in any usual format.")
]
VECTORS: dict[str, Any] = {"rich_help_panel": "Options of word vectors"}
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and everything else on stderr.")]


class CallError(ValueError):
    """The command was called in a way that cannot work."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(regard.__version__)
        raise typer.Exit()


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    pass  # the callback prints; a docstring here would take the place of the command's own help


# --- Train -----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=TRAIN, epilog="Example: regard demo --output /tmp/demo")
def demo(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Settings of the demo's recipe to change.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last complete checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that the folder holds.")] = False,
    output: Annotated[
        str | None, typer.Option(help="The run's folder; by default runs/demo, which is replaced.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Train an English-to-Turkish translator in about two minutes, and show what it learnt."""
    with _results_alone(as_json):
        from regard.train.demo import run_demo

        result = run_demo(output, overrides or [], resume=resume, overwrite=overwrite)
    if as_json:
        _print_json(result)


@app.command(
    rich_help_panel=TRAIN,
    epilog="Example: regard train translation/multi30k-de-en data.train=my.tsv training.num_train_epochs=3",
)
def train(
    recipe: Annotated[str, typer.Argument(help="A recipe's name (`regard list`), a YAML file, or a run.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Settings of the recipe to change.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last complete checkpoint.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run that the folder holds.")] = False,
    output: Annotated[str | None, typer.Option(help="The run's folder, by default runs/<name of the recipe>.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Train a model by a recipe, evaluate it, and save the run in a folder that `from_pretrained` reads."""
    from regard.train.recipe import load_recipe

    loaded = load_recipe(recipe, overrides or [])
    if resume and output is None and Path(recipe).is_dir():
        output = recipe  # `regard train runs/mine --resume` goes on in that folder, wherever it is
    with _results_alone(as_json):
        from regard.train.run import train as train_recipe

        metrics = train_recipe(loaded, output_dir=output, resume=resume, overwrite=overwrite)
    if as_json:
        _print_json(metrics)
    else:
        _print_results(metrics.get("evaluation", {}), loaded.task == "word-vectors")


@app.command(
    rich_help_panel=TRAIN,
    epilog="Example: regard sweep translation/turkish-en-tr --values model.dropout=0,0.1 --seeds 3",
)
def sweep(
    recipe: Annotated[
        str, typer.Argument(help="A recipe, as `regard train` takes it, or a finished run to generate with.")
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Settings of the recipe to change in all runs.")
    ] = None,
    values: Annotated[
        list[str] | None, typer.Option(metavar="KEY=V1,V2...", help="A setting and its values; repeatable.")
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|1,2,3|7,", help="How many, from the recipe's own on, or which; by default its own alone."
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(help="Only so many of the combinations, drawn by the seed.")] = None,
    one_at_a_time: Annotated[
        bool, typer.Option("--one-at-a-time", help="The recipe as it is, and with each value alone.")
    ] = False,
    metric: Annotated[
        str | None, typer.Option(help="Tells the best; by default the first of evaluation.metrics.")
    ] = None,
    output: Annotated[str | None, typer.Option(help="The sweep's folder, by default runs/<name>-sweep.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the sweep in that folder.")] = False,
    test: Annotated[
        bool,
        typer.Option(
            "--test",
            help="Measure on the test sets too. Refused while anything but the seeds and data.max_train_examples "
            "varies: a figure that something was chosen by is too good.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a recipe with each combination of a few values and seeds, and compare them on the validation split.

    With seeds alone, the recipe's mean and deviation; with --values data.max_train_examples=16,64,256 a learning
    curve, which `regard plot learning-curve` draws. Test sets are read with --test alone. Where only the generation of
    text is swept, nothing is trained twice.
    """
    with _results_alone(as_json):
        from regard.train.sweep import sweep as run_sweep
        from regard.train.sweep_table import table
        from regard.train.sweep_values import parse_seeds, parse_values

        grid, numbers = parse_values(values or []), parse_seeds(seeds)
        result = run_sweep(recipe, overrides or [], grid, numbers, output, resume, trials, metric, one_at_a_time, test)
    if as_json:
        _print_json(result)
    else:
        _write(table(result), None)


# --- Use -------------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=USE, epilog='Example: regard translate runs/demo "The cat ate the mouse."')
def translate(
    run: RunArgument,
    text: Annotated[str | None, typer.Argument(help="The text; without it, --file or standard input.")] = None,
    file: Annotated[Path | None, typer.Option(help="A UTF-8 file with one text a line.")] = None,
    output: Annotated[Path | None, typer.Option(help="Write to this file, not to standard output.")] = None,
    num_beams: Annotated[int | None, typer.Option(min=1, help="Width of the beam search; 1 is greedy.")] = None,
    n_best: Annotated[int, typer.Option(min=1, help="Translations of each line, as `number ||| translation`.")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="Lines translated at once.")] = 32,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="The longest translation.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0, the higher the longer.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Translate a text, a file or standard input, line by line: as many lines come out as went in.

    What is not given is as the run was evaluated.
    """
    from regard.textlines import join_lines, read_lines

    if num_beams is not None and n_best > num_beams:
        raise CallError(f"--n-best {n_best} asks for more translations than --num-beams {num_beams} can find.")
    if output is not None and output.is_dir():
        raise CallError(f"--output: '{output}' is a folder: name a file in it.")
    lines = read_lines(text, file)
    with _results_alone(as_json):
        from regard.evaluation.generation import translate as translate_texts

        model, tokenizer = _load(run)
        settings = {"batch_size": batch_size, "max_new_tokens": max_new_tokens, "length_penalty": length_penalty}
        results = translate_texts(model, tokenizer, lines, num_beams=num_beams, n_best=n_best, **settings)
    if as_json:
        pairs = zip(lines, results, strict=True)
        _write(json.dumps([{"source": s, "translation": t} for s, t in pairs], ensure_ascii=False) + "\n", output)
    elif n_best == 1:
        _write(join_lines(results), output)
    else:
        _write(join_lines(f"{i} ||| {one}" for i, several in enumerate(results) for one in several), output)


@app.command(rich_help_panel=USE, epilog='Example: regard generate runs/tinyshakespeare-char "ROMEO:" --seed 1')
def generate(
    run: RunArgument,
    prompt: Annotated[str, typer.Argument(help="How the text begins.")] = "",
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest continuation.")] = 128,
    temperature: Annotated[float, typer.Option(min=0, help="0 takes the likeliest token each time.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Sample from the K likeliest tokens; 0 for all.")] = 0,
    top_p: Annotated[float, typer.Option(min=0, max=1, help="Sample from the likeliest tokens of this share.")] = 1.0,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Continue a prompt with a language model."""
    from regard.evaluation.generation import generate_text

    model, tokenizer = _load(run)
    settings = {"max_new_tokens": max_new_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p}
    if as_json:
        text = generate_text(model, tokenizer, prompt, seed=seed, **settings)
        _print_json({"prompt": prompt, "text": text})
        return
    unseen = [prompt]  # shown with the first piece: a call that is refused prints nothing

    def show(piece: str) -> None:
        _write("".join([*unseen, piece]), None)
        unseen.clear()

    generate_text(model, tokenizer, prompt, seed=seed, stream=show, **settings)
    show("\n")


# --- Measure ---------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=MEASURE, epilog="Example: regard evaluate runs/multi30k-de-en --num-beams 1")
def evaluate(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run, or any file of word vectors.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE...", help="Other data, such as data.test.mine=my.tsv.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="One split, such as validation; by default all but train.")] = None,
    num_beams: Annotated[int | None, typer.Option(min=1, help="Width of the beam search.")] = None,
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="The longest generated text.")] = None,
    length_penalty: Annotated[float | None, typer.Option(help="Above 0, the higher the longer.")] = None,
    no_repeat_ngram_size: Annotated[int | None, typer.Option(min=0, help="No run of so many tokens twice.")] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Examples at once.")] = None,
    errors: Annotated[
        int | None, typer.Option(min=0, help="Show so many wrong labels of each split, the surest first.")
    ] = None,
    similarity: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]FILE", help="Pairs of words with scores; repeatable.", **VECTORS),
    ] = None,
    analogies: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="Questions in sections; repeatable.", **VECTORS)
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]FILE", help="Words in categories; repeatable.", **VECTORS)
    ] = None,
    analogy_method: Annotated[str | None, typer.Option(help="add (3CosAdd) or mul (3CosMul).", **VECTORS)] = None,
    analogy_vocabulary: Annotated[
        int | None, typer.Option(min=1, help="Analogies among so many of the most frequent words alone.", **VECTORS)
    ] = None,
    fold_case: Annotated[
        bool | None, typer.Option("--fold-case/--keep-case", help="By default Paris is paris.", **VECTORS)
    ] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="A .jsonl file for what was predicted for each item.", **VECTORS)
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure a run on its recipe's data, or word vectors on test sets; what is not given is as in the recipe."""
    settings = _given(
        num_beams=num_beams,
        max_new_tokens=max_new_tokens,
        length_penalty=length_penalty,
        no_repeat_ngram_size=no_repeat_ngram_size,
        batch_size=batch_size,
    )
    word_settings = _given(
        analogy_method=analogy_method,
        analogy_vocabulary=analogy_vocabulary,
        fold_case=fold_case,
        predictions=predictions,
    )
    files = {"similarity": similarity, "analogies": analogies, "categories": categories}
    given = {kind: several for kind, several in files.items() if several}
    from regard.train.records import holds_vectors

    if not Path(run).exists():
        raise CallError(f"There is no run or file of word vectors at '{run}'.")
    if holds_vectors(run):
        _refuse(_given(split=split, errors=errors) | settings, f"'{run}' holds word vectors")
        _evaluate_vectors(run, overrides or [], given, word_settings, as_json)
        return
    _refuse(given | word_settings, f"'{run}' holds no word vectors")
    if not (Path(run) / "recipe.yaml").is_file():
        raise CallError(f"There is no run in '{run}': give the folder that `regard train` wrote.")
    with _results_alone(as_json):
        from regard.train.evaluate import evaluate_run

        results = evaluate_run(run, split, overrides or [], errors=errors, **settings)
    if as_json:
        _print_json(results)
    else:
        _print_results(results)
        _print_errors(results)


def _refuse(settings: dict[str, Any], reason: str) -> None:
    if settings:
        name, value = next(iter(settings.items()))
        option = "keep-case" if name == "fold_case" and not value else name.replace("_", "-")
        raise CallError(f"--{option} does not fit: {reason}.")


def _evaluate_vectors(
    path: str, overrides: list[str], files: dict[str, list[str]], settings: dict[str, Any], as_json: bool
) -> None:
    with _results_alone(as_json):
        from regard.evaluation.vectors_report import report_table
        from regard.evaluation.word_sets import name_files
        from regard.train.evaluate_vectors import evaluate_vectors_at

        sets = {kind: name_files(several, kind) for kind, several in files.items()}
        results = evaluate_vectors_at(path, overrides, **sets, **settings)
    if as_json:
        _print_json(results)
    else:
        _write(report_table(results), None)


@app.command("list", rich_help_panel=MEASURE, epilog="Example: regard list")
def list_(as_json: JsonOption = False) -> None:
    """List the recipes that come with the package."""
    from regard.train.recipe import list_recipes, recipe_text

    about = {name: _first_sentence(recipe_text(name)) for name in list_recipes()}
    if as_json:
        _print_json([{"name": name, "about": line} for name, line in about.items()])
        return
    width = max(map(len, about), default=0)
    for name, line in about.items():
        typer.echo(f"{name:{width}}  {line}")


def _first_sentence(recipe: str) -> str:
    """What a recipe's opening comment begins with."""
    opening = recipe.partition("\n#\n")[0].partition("\n\n")[0]
    text = " ".join(line.removeprefix("#").strip() for line in opening.splitlines())
    return text.partition(". ")[0].removesuffix(".")


# --- Share -----------------------------------------------------------------------------------------------------------


@app.command(rich_help_panel=SHARE, epilog="Example: regard card runs/multi30k-de-en")
def card(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The folder of a run; with --check, that of all runs.")],
    output: Annotated[
        str | None,
        typer.Option(
            help="Where to; by default README.md in the run's folder. With --check the folder of the cards, by "
            "default the package's own."
        ),
    ] = None,
    repo: Annotated[
        str | None, typer.Option(metavar="USER/NAME", help="The repository on the Hub that the card loads from.")
    ] = None,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="First draw the attention or the words that the run has no picture of.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Write nothing: compare the cards of the package's recipes with their runs."),
    ] = False,
    rewrite: Annotated[bool, typer.Option("--rewrite", help="With --check: write those that differ.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Write a run's model card from what the run recorded, or tell which of the cards that are kept are stale."""
    if check:
        _refuse(_given(repo=repo, pictures=pictures or None), "--check looks at the cards that are kept")
        _check_cards(run, output, rewrite, as_json)
        return
    _refuse(_given(rewrite=rewrite or None), "it goes with --check")
    with _results_alone(as_json):
        from regard.model_cards.card import write_card
        from regard.model_cards.pictures import draw_pictures

        drawn = draw_pictures(run) if pictures else []
        path = write_card(run, output, repo)
    if as_json:
        _print_json({"card": str(path), "drawn": [str(picture) for picture in drawn]})
    else:
        for written in [*drawn, path]:
            typer.echo(f"Wrote {written}")


def _check_cards(runs: str, cards: str | None, rewrite: bool, as_json: bool) -> None:
    with _results_alone(as_json):
        from regard.model_cards.stale import CARDS, check_cards

        states = check_cards(runs, CARDS if cards is None else cards, rewrite)
    if as_json:
        _print_json([vars(s) | {"card": str(s.card), "run": s.run and str(s.run)} for s in states])
    else:
        _write("".join(f"{state}\n" for state in states), None)
    stale = [state.card.name for state in states if state.fails]
    if stale:
        typer.echo(f"regard: {', '.join(stale)}: not as the runs say; --rewrite writes the cards again.", err=True)
        raise typer.Exit(1)


# --- input, output and exit status -----------------------------------------------------------------------------------


def _load(run: str) -> tuple[Any, Any]:
    from transformers.utils import logging

    from regard.evaluation.generation import load_run

    logging.disable_progress_bar()  # that of reading the weights, which takes a moment; downloads show theirs
    return load_run(run)


def _given(**settings: Any) -> dict[str, Any]:
    """The options that the call names; the others are as the run has them."""
    return {name: value for name, value in settings.items() if value is not None}


def _is_main_process() -> bool:
    return os.environ.get("RANK", "0") == "0"  # set by `accelerate launch` and torchrun


@contextlib.contextmanager
def _results_alone(as_json: bool) -> Iterator[None]:
    """Keeps standard output for the result: what the work prints goes to standard error when the result is JSON."""
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        yield


def _write(text: str, path: Path | None) -> None:
    """UTF-8 whatever the terminal's encoding is, so that a file and a pipe get the same bytes."""
    if not _is_main_process():
        return
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
        return
    from regard.evaluation.files import replacing

    with replacing(path) as partial:
        partial.write_bytes(text.encode())


def _print_json(result: Any) -> None:
    from regard.evaluation.files import json_text

    _write(json_text(result), None)


def _print_results(evaluation: dict[str, dict[str, Any]], of_vectors: bool = False) -> None:
    if of_vectors and evaluation:
        from regard.evaluation.vectors_report import report_table

        _write(report_table(evaluation), None)
        return
    for split, measures in evaluation.items():
        _write(f"{split}: {_measures(measures)}\n", None)
        for name, beside in measures.get("baselines", {}).items():
            _write(f"{split}, {name}: {_measures(beside)}\n", None)


def _measures(measures: dict[str, Any]) -> str:
    numbers = {k: v for k, v in measures.items() if not k.endswith("_signature") and not isinstance(v, dict)}
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in numbers.items())


def _print_errors(evaluation: dict[str, dict[str, Any]]) -> None:
    """The wrong labels of each split, where they were asked for."""
    for split, measures in evaluation.items():
        for error in measures.get("errors", {}).get("errors", []):
            texts = " ||| ".join(error[name] for name in ("text", "text_pair") if name in error)
            where = f"“{error['word']}” in " if "word" in error else ""
            said = f"{error['predicted']} ({error['probability']:.1%}), not {error['label']}"
            _write(f"{split}: {said}: {where}{' '.join(texts.split())}\n", None)


def _say_error(sentence: str) -> None:
    if _is_main_process():
        print(f"regard: {sentence}", file=sys.stderr)


def _is_wrong_call(error: Exception) -> bool:
    """A file that is not there, or something that this package refused. A ValueError from deep inside a library is no
    sentence for who called."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    ours = frame.f_globals.get("__name__", "").startswith("regard.")
    wrong_file = isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError)
    return wrong_file or (ours and isinstance(error, ValueError))


@contextlib.contextmanager
def _bare_warnings() -> Iterator[None]:
    """A warning is its sentence alone, also where a library sets up logging with words of its own in front."""
    logger, handler = logging.getLogger("regard"), logging.StreamHandler()
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = True


def main() -> None:
    """Runs the command and ends the process with its exit status."""
    if not sys.stderr.isatty():  # a log file is no place for bars
        for library in ("HF_HUB", "HF_DATASETS"):
            os.environ.setdefault(f"{library}_DISABLE_PROGRESS_BARS", "1")
    if not _is_main_process():
        logging.getLogger("regard").setLevel(logging.ERROR)  # of several processes one alone warns
    try:
        with _bare_warnings():
            app(prog_name="regard")
    except BrokenPipeError:  # `regard list | head -1`: the reader has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if os.environ.get("REGARD_DEBUG", "0") not in ("", "0"):
            raise
        wrong_call = _is_wrong_call(error)
        sentence = " ".join(str(error).split()) or type(error).__name__
        if not wrong_call and not type(error).__module__.startswith("regard."):  # those are sentences for a reader
            sentence = f"{type(error).__name__}: {sentence} (REGARD_DEBUG=1 shows where)"
        _say_error(sentence)
        sys.exit(2 if wrong_call else 1)


import regard.app_commands  # noqa: E402, F401  (last, since they add their verbs to `app`)
import regard.compare_commands  # noqa: E402, F401
import regard.convert_commands  # noqa: E402, F401
import regard.few_shot_commands  # noqa: E402, F401
import regard.light_commands  # noqa: E402, F401
import regard.likelihood_commands  # noqa: E402, F401
import regard.minimal_pairs_commands  # noqa: E402, F401
import regard.plot_commands  # noqa: E402, F401
import regard.predict_commands  # noqa: E402, F401
import regard.share_commands  # noqa: E402, F401
import regard.vector_commands  # noqa: E402, F401
