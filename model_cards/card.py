"""A run's model card, rendered from what the run recorded: every number is read, none is typed.

A heading whose record is missing is left out. Nothing names the machine: of a path, the file and its folder are shown.
"""

import json
import math
import re
import shlex
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCard, ModelCardData
from huggingface_hub.errors import HFValidationError
from huggingface_hub.utils import validate_repo_id

from regard.evaluation.files import replacing
from regard.evaluation.yaml_io import read_yaml
from regard.model_cards import tables
from regard.model_cards.citations import citation
from regard.model_cards.diagram import architecture_diagram
from regard.model_cards.errors import error_note, error_table
from regard.model_cards.few_shot import (
    few_shot_commands,
    few_shot_eval_results,
    few_shot_groups,
    few_shot_notes,
    few_shot_results,
    few_shot_table,
)
from regard.model_cards.in_context import in_context_notes, in_context_results
from regard.model_cards.parts import parts_table
from regard.model_cards.pictures import CURVES, INSIDE, LOSSES, PROMPTED, RESULTS, Picture, find_pictures
from regard.model_cards.records import Records, data_id, is_builtin, is_made, is_on_hub, read_records, with_placeholder
from regard.model_cards.texts import (
    LANGUAGES,
    TaskText,
    decoding,
    language_codes,
    limits,
    pair_of_columns,
    parts_of_source,
    snippet,
    task_text,
)
from regard.model_cards.vectors import vector_data, vector_eval_results, vector_notes, vector_results, what_they_are
from regard.train.recipe import list_recipes, load_recipe
from regard.train.records import VECTOR_MODEL_TYPES
from regard.train.sections import WORD_VECTORS, WRITING

TEMPLATE = Path(__file__).with_name("template.md")
DAN_TYPE = "regard-dan"
LICENCE = "apache-2.0"  # of the code, and of the weights that it trains
PLACE = "PATH/"  # where the reader's files are
COUNTED_FROM_LOSSES = ("loss", "perplexity", "word_perplexity", "bits_per_byte", "gap_perplexity", "pseudo_perplexity")
FENCE = re.compile("(`{3,}|~{3,})?")  # at the beginning of a line, around code and generated text


def render_card(
    run_dir: str | Path,
    pictures: dict[str, str] | None = None,
    repo_id: str | None = None,
    revision: str | None = None,
) -> str:
    """The card of a run as Markdown with the Hub's metadata.

    Args:
        run_dir: the run's folder.
        pictures: the link for each picture's file name; a picture without one is left out. By default the names
            themselves, for a card that lies beside them.
        repo_id: where it is published, such as `user/name`: the card then loads it from there, not from a folder.
        revision: the branch, tag or commit that the snippet names; `main` by default.

    Raises:
        ValueError: it is not a run, a record cannot be read, or the id cannot be one.
    """
    records = read_records(run_dir)
    if repo_id is not None:
        _check_repo_id(repo_id)
    shown = find_pictures(records)
    if pictures is None:
        pictures = {picture.path.name: picture.path.name for picture in shown}
    linked = [picture for picture in shown if picture.path.name in pictures]
    text = task_text(records)
    measured_vectors = records.metrics.get("evaluation", {}) if records.task == WORD_VECTORS else {}
    evaluation = {} if measured_vectors else _numbers(records.metrics.get("evaluation", {}))
    samples = records.metrics.get("samples") or []
    generated = records.task == "causal-lm"
    measured = {name for measures in evaluation.values() for name in measures}
    written = records.task in WRITING and not measured <= {"loss", "perplexity"}
    prompted = few_shot_results(records)
    cited, bibtex = citation(records.config)
    content = {
        "name": records.name,
        "about": _about(records, text),
        "carries_code": records.carries_code,
        "snippet": snippet(records, repo_id, revision),
        "repo_id": repo_id,
        "purpose": text.purpose,
        "not_for": text.not_for,
        "results": vector_results(measured_vectors)
        or _joined(tables.result_table(_with_baselines(records, evaluation)), in_context_results(records)),
        "lower_is_better": tables.lower_is_better(evaluation),
        "notes": " ".join([*_notes(records), *vector_notes(measured_vectors), *in_context_notes(records)]),
        "decoding": ", ".join(f"{key}={value}" for key, value in decoding(records).items()) if written else "",
        "signatures": _signatures(records.metrics.get("evaluation", {})),
        "sample_note": text.samples,
        "samples": _generated(samples) if generated else tables.sample_table(samples, parts_of_source(records)),
        "error_note": error_note(records),
        "errors": error_table(records),
        "reproduced": _evaluate(records) if records.recipe else "",
        "result_pictures": _show(linked, RESULTS, pictures),
        "few_shot": few_shot_table(prompted),
        "few_shot_notes": few_shot_notes(prompted),
        "few_shot_groups": few_shot_groups(prompted),
        "few_shot_pictures": _show(linked, PROMPTED, pictures),
        "few_shot_commands": few_shot_commands(prompted, records.place),
        "inside": _show(linked, INSIDE, pictures),
        "curves": _show(linked, CURVES, pictures),
        "smoothed": bool(getattr(records.config, "label_smoothing", 0)) and any(one.kind is LOSSES for one in linked),
        "architecture": tables.architecture_table(records),
        "diagram": architecture_diagram(records.config),
        "parts": parts_table(records),
        "data": tables.data_table(records),
        "data_source": _data_source(records),
        "data_notes": vector_data(records) if records.task == WORD_VECTORS else "",
        "settings": tables.setting_table(records),
        "environment": tables.environment_table(records),
        "computed": tables.computing(records),
        "command": _train_command(records),
        "download": shlex.join(["hf", "download", repo_id, "--local-dir", records.place])
        if repo_id and records.recipe
        else "",
        "evaluate": _evaluate(records),
        "citation": cited,
        "bibtex": bibtex,
        "limits": "\n".join(f"- {limit}" for limit in [*limits(records), *text.limits]),
        "licence": _licence(records),
    }
    card = ModelCard.from_template(_metadata(records, text, evaluation), template_path=str(TEMPLATE), **content)
    return _one_blank_line(str(card))


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def write_card(run_dir: str | Path, path: str | Path | None = None, repo_id: str | None = None) -> Path:
    """Writes the card; each of its files is complete or not there.

    Args:
        run_dir: the run's folder.
        path: where to; `README.md` in the run's folder by default. Beside a card elsewhere, the pictures are copied
            into the folder `images`, under the card's name.
        repo_id: as `render_card` takes it.

    Raises:
        ValueError: it is not a run, a record cannot be read, or the id cannot be one.
    """
    path = Path(run_dir) / "README.md" if path is None else Path(path)
    write_files(card_files(run_dir, path, repo_id))
    return path


def card_files(run_dir: str | Path, path: str | Path, repo_id: str | None = None) -> dict[Path, bytes]:
    """What `write_card` writes, the card first: each file's place and content."""
    path, folder = Path(path), Path(run_dir)
    if path.parent.resolve() == folder.resolve():
        return {path: render_card(run_dir, repo_id=repo_id).encode()}
    names = [picture.path.name for picture in find_pictures(read_records(run_dir))]
    links = {name: f"images/{path.stem}-{name}" for name in names}
    card = render_card(run_dir, links, repo_id).encode()
    return {path: card} | {path.parent / link: (folder / name).read_bytes() for name, link in links.items()}


def write_files(files: dict[Path, bytes]) -> None:
    """Writes what `card_files` gives, the card last, so that what it links to is there."""
    for path, content in reversed(files.items()):
        with replacing(path) as partial:
            partial.write_bytes(content)


def _check_repo_id(repo_id: str) -> None:
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise ValueError(f"'{repo_id}' is no id of a repository, such as user/name: {error}") from error


def _show(pictures: list[Picture], part: str, links: dict[str, str]) -> str:
    """The pictures of one part of the card, with a line above each."""
    shown = []
    for picture in pictures:
        if picture.kind.part == part:
            image = f"![{picture.kind.alt}]({links[picture.path.name]})"
            shown.append(f"{picture.kind.note}\n\n{image}" if picture.kind.note else image)
    return "\n\n".join(shown)


def _about(records: Records, text: TaskText) -> str:
    languages = language_codes(records)
    names = [LANGUAGES.get(code, code) for code in languages]
    what = text.what.format(*names) if names and text.what else text.what_alone
    if records.config.model_type == DAN_TYPE:
        what = "A deep averaging network that classifies texts"
    if records.config.model_type in VECTOR_MODEL_TYPES:
        what = what_they_are(records.config)
    if records.task == "translation" and not names and (pair := pair_of_columns(records)):  # of sounds, say
        what = f"A Transformer that reads `{pair[0]}` and writes `{pair[1]}`"
    if not records.recipe:
        return f"{what}."
    data = records.section("data")
    source = "sentences that the package generates itself" if is_builtin(data) else data_id(data)
    if is_made(data):
        source = "examples that the package makes as they are needed"
    scratch = "" if tables.first_vectors(records) or tables.first_weights(records) else " from scratch"
    return f"{what}, trained{scratch} with the Python package `regard`{f' on {source}' if source else ''}."


def _data_source(records: Records) -> str | None:
    data = records.section("data")
    if is_on_hub(data):
        part = f", configuration `{data['name']}`" if data.get("name") else ""
        return f"[{data['path']}](https://huggingface.co/datasets/{data['path']}){part}."
    if is_builtin(data):
        return f"`{data['path']}`, sentences that the package generates itself; the same ones each time."
    if is_made(data):
        return (
            "Rows of examples that the package makes as they are needed, a function of the seed and the row's number. "
            "Validation and test rows are the same ones each time."
        )
    return None


def _licence(records: Records) -> str | None:
    """Known of what this package trained."""
    if not records.recipe:
        return None
    made = is_builtin(records.section("data")) or is_made(records.section("data"))
    data = "" if made else " The data have the licence of their source."
    start = records.start
    if not start:
        return f"Code and weights: Apache-2.0.{data}"
    licence = start.get("licence_name") or start.get("licence")
    stated = f", which its card states as `{licence}`" if licence else ""
    source = tables.cell(tables.without_machine(start["source"]))
    return f"Code: Apache-2.0. The weights began from those of {source}, and have its licence too{stated}.{data}"


def _metadata(records: Records, text: TaskText, evaluation: dict[str, dict[str, float]]) -> ModelCardData:
    data = records.section("data")
    source = data_id(data)
    results = [
        EvalResult(
            task_type=text.pipeline,
            dataset_type=source if is_on_hub(data) else "unknown",  # for the Hub: only an id of its own is a type
            dataset_name=source,
            dataset_config=data.get("name"),
            dataset_split=split.removeprefix("test:"),
            metric_type=name,
            metric_name=tables.METRIC_NAMES[name],
            metric_value=round(value, 4),
            metric_args=_metric_args(records, split, name),
        )
        for split, measures in evaluation.items()
        for name, value in measures.items()
        if source and text.pipeline and name in tables.METRIC_NAMES
    ]
    if records.task == WORD_VECTORS and text.pipeline:
        results = vector_eval_results(records.metrics.get("evaluation", {}), text.pipeline, _evaluate(records))
    results += few_shot_eval_results(few_shot_results(records), records.place)
    return ModelCardData(
        language=language_codes(records) or None,
        license=records.start.get("licence") if records.start else LICENCE if records.recipe else None,
        license_name=records.start.get("licence_name"),
        license_link=records.start.get("licence_link"),
        base_model=records.start.get("repository"),
        library_name="transformers",
        tags=["regard", *([records.task] if records.task and records.task != text.pipeline else [])],
        datasets=[source] if source and is_on_hub(data) else None,
        metrics=sorted({result.metric_type for result in results} - {"loss"}) or None,
        pipeline_tag=text.pipeline,
        model_name=records.name,
        eval_results=results or None,
    )


def _metric_args(records: Records, split: str, name: str) -> dict[str, Any]:
    """How a value was measured: the command that does so again, the settings of generation, the metric's own."""
    generated = records.task in WRITING and name not in COUNTED_FROM_LOSSES
    signature = records.metrics["evaluation"][split].get(f"{name}_signature")
    return {
        "command": _evaluate(records, split),
        **(decoding(records) if generated else {}),
        **({"signature": signature} if signature else {}),
    }


def _evaluate(records: Records, split: str | None = None) -> str:
    return shlex.join(["regard", "evaluate", records.place, *(["--split", split] if split else [])])


def _numbers(evaluation: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    return {
        split: {name: one for name, one in measures.items() if isinstance(one, int | float) and math.isfinite(one)}
        for split, measures in evaluation.items()
    }


def _with_baselines(records: Records, evaluation: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    """Each split with what takes no model, in rows of its own below it."""
    rows: dict[str, dict[str, float]] = {}
    for split, measures in evaluation.items():
        beside = records.metrics["evaluation"][split].get("baselines", {})
        rows |= {split: measures} | {f"{split}, {name} of the text": scores for name, scores in beside.items()}
    return rows


def _notes(records: Records) -> list[str]:
    """How the evaluation counted, where there is more than one way."""
    evaluation, data = records.section("evaluation"), records.section("data")
    notes = []
    if evaluation.get("group_references"):
        notes.append("Rows with the same source are one item, and any of their targets is a right answer.")
    if records.task == "token-classification":
        notes.append("Each word is scored once, by the label of its first token; a word that was cut off is missed.")
    if records.task == "summarization" and records.metrics.get("evaluation"):
        notes.append("The rows below a split are summaries that take no model: the beginning of each document.")
    if records.task == "causal-lm" and evaluation.get("stride"):
        seen = data["block_size"] - evaluation["stride"]
        notes.append(f"Each token is predicted from at least {seen} tokens before it, but for those at the beginning.")
    elif records.task == "causal-lm" and data.get("packing") == "blocks":
        notes.append(f"The text is judged in blocks of {data['block_size']} tokens, each without what came before it.")
    if "word_perplexity" in evaluation.get("metrics", []):
        notes.append("Words are what white space parts in the text as it comes; the end of a line counts as one.")
    if "gap_perplexity" in evaluation.get("metrics", []):
        notes.append("The perplexity in the gaps is over the tokens that were taken out, and over nothing else.")
    if "pseudo_perplexity" in evaluation.get("metrics", []):
        rows = evaluation["pseudo_perplexity_rows"]
        notes.append(
            f"The pseudo-perplexity masks one token at a time, in {rows} rows (or all) spread evenly over the split."
        )
    return notes


def _signatures(evaluation: dict[str, dict[str, Any]]) -> str:
    found: dict[str, None] = {}
    for measures in evaluation.values():
        for name, value in measures.items():
            if name.endswith("_signature"):
                metric = tables.METRIC_NAMES.get(name.removesuffix("_signature"), name)
                found[f"- {metric} signature: `{value}`"] = None
    return "\n".join(found)


def _generated(samples: list[dict[str, str]]) -> str:
    """Generated texts as they are: line ends are part of them."""
    texts = [sample["source"] + sample["prediction"] for sample in samples]
    longest = max((len(run) for text in texts for run in re.findall("~+", text)), default=0)
    fence = "~" * max(4, longest + 1)
    return "\n\n".join(f"{fence}text\n{text}\n{fence}" for text in texts)


def _train_command(records: Records) -> str | None:
    """The command that makes the run again: by the recipe of that name that comes with the package, with what differs
    from it, else by the run's own recipe."""
    if not records.recipe:
        return None
    shipped = [name for name in list_recipes() if name.rpartition("/")[2] == records.name]
    ours = _flat(records.recipe)
    recipe, chosen = (
        "recipe.yaml",
        [key for key, value in ours.items() if str(with_placeholder(value)).startswith(PLACE)],
    )
    if shipped:
        theirs = _flat(load_recipe(shipped[0]).to_dict())
        differing = [key for key in ours if key not in theirs or ours[key] != theirs[key]]
        differing += [key for key in theirs if key not in ours and key.rpartition(".")[0] in ("model", "training")]
        if len(differing) <= 12:
            recipe, chosen = shipped[0], differing
    settings = [f"{key}={_value(with_placeholder(ours.get(key)))}" for key in chosen]
    elsewhere = [] if records.place == f"runs/{records.name}" else ["--output", records.place]
    return shlex.join(["regard", "train", recipe, *settings, *elsewhere])


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _value(value: Any) -> str:
    """As the command line wants it: YAML, with quotes only where it would mean something else without."""
    plain = _plain(value)
    try:
        same = read_yaml(plain) == value
    except ValueError:
        same = False
    return plain if same else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"[{', '.join(map(_plain, value))}]" if isinstance(value, list) else str(value)


def _one_blank_line(text: str) -> str:
    """The template's empty branches leave blank lines; code and generated text keep theirs."""
    lines: list[str] = []
    fence = ""
    for line in text.split("\n"):
        if not fence:
            fence = FENCE.match(line)[0]
        elif line.rstrip() == fence:
            fence = ""
        if fence or line.strip() or (lines and lines[-1].strip()):
            lines.append(line.rstrip() if not fence else line)
    return "\n".join(lines).rstrip() + "\n"
