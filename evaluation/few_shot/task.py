"""A few-shot task as data: a YAML file, checked before any work starts.

    name: sentiment                  # by default the file's name
    description: ""                  # comes before all shots, letter for letter
    data:                            # one of path, file and builtin
      path: stanfordnlp/sst2         # a data set on the Hub, with
      name: null                     #   its configuration,
      split: validation              #   the split that is asked, and
      shots_split: train             #   the split that shots are drawn from; without it, from what is asked
      file: dev.tsv                  # or .jsonl, .json, .csv, .tsv, .parquet; beside the task's file or where one is
      shots_file: train.tsv          #   and the file of the shots
      builtin: minimal-pairs         # or a generator in the package, with how many items of which seed, and
      number: 1000                   #   its own options
      seed: 0
      options: {}
    query: "Review: {{ sentence }}\\nSentiment:"   # what is asked, a Jinja template over the fields of a row
    join: " "                        # between the query and what completes it, part of what is scored
    example: "{{ query }}{{ join }}{{ answer }}"  # a shot; this is the default. `answer` is the right completion
    separator: "\\n\\n"                # between shots, and between the last one and the query
    choices:                         # one of these, where the model chooses (without any, where it writes freely)
      labels: [negative, positive]   #   the same options for all items; a list of texts
      field: choices.text            #   a field with a list of texts; dots go into it, and of `a.b or c`
                                     #   the first that is there is taken
      templates: ["{{ yes }}", "{{ no }}"]  # one template an option
      contexts: ["...", "..."]       #   partial scoring: one query an option (templates, or the name of a field with
      continuation: "{{ rest }}"     #   a list), and the continuation after each; `query` is left out
    answer: "{{ label }}"            # what is right. Of choices: its place, from 0 on, or one of `labels` as it is
                                     #   written (labels that are numbers other than their places: only so); of a free
                                     #   text: what it is compared with, and a list of templates or {field: answers}
                                     #   gives several right ones
    generation:                      # where the model writes freely
      stop: ["\\n"]                   #   the text ends before any of these
      max_new_tokens: 32             #   or after so many tokens
    metric: accuracy                 # see CHOICE_METRICS and TEXT_METRICS of `task_checks`
    id: "{{ id }}"                   # names a row; by default its number
    group: "{{ phenomenon }}"        # items are counted by group too
    unconditional: ""                # what stands in the place of the prompt for the normalisation `unconditional`
    content: [sentence]              # the fields that calibration makes "N/A"; by default all that are text; of
                                     #   `a or b` the first that is there

An empty `query` asks which of whole texts is likelier, without a prompt; such a task takes no shots. Items of a
generator that have choices, an answer or references keep them where the task says nothing of its own; choices of its
own take an answer of its own.

Paths are tried where the command runs, then beside the task's file. Overrides are `key=value`, such as
`data.file=my.jsonl`, which takes the place of the Hub's data set.
"""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from regard.evaluation.few_shot.task_checks import check, make, take_source
from regard.evaluation.naming import either, nearest
from regard.evaluation.yaml_io import apply_override, read_yaml

SHIPPED = "regard.evaluation.few_shot"


@dataclass(frozen=True)
class Data:
    """Where the items and the shots come from."""

    path: str | None = None
    name: str | None = None
    split: str | None = None
    shots_split: str | None = None
    file: str | None = None
    shots_file: str | None = None
    builtin: str | None = None
    number: int | None = None
    seed: int = 0
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choices:
    """What the model chooses from; one of the first four is given."""

    labels: list[str] | None = None
    field: str | None = None
    templates: list[str] | None = None
    contexts: list[str] | str | None = None
    continuation: str | None = None


@dataclass(frozen=True)
class Generation:
    """How the model writes freely."""

    stop: list[str] = field(default_factory=lambda: ["\n"])
    max_new_tokens: int = 32


@dataclass(frozen=True)
class Task:
    """A task; the keys are those of the YAML, in this module's docstring."""

    name: str
    data: Data
    query: str = ""
    description: str = ""
    example: str = "{{ query }}{{ join }}{{ answer }}"
    join: str = " "
    separator: str = "\n\n"
    choices: Choices | None = None
    generation: Generation | None = None
    answer: str | list[str] | dict[str, str] | None = None
    metric: str = ""
    id: str | None = None
    group: str | None = None
    unconditional: str = ""
    content: list[str] | None = None
    folder: Path | None = None  # of the task's file, beside which its data may lie
    source: str = ""  # the name or file that it was loaded by
    overrides: dict[str, str] = field(default_factory=dict)

    @property
    def writes(self) -> bool:
        """Whether the model writes freely instead of choosing."""
        return self.generation is not None

    @property
    def is_partial(self) -> bool:
        """Whether the options differ in what comes before the same continuation."""
        return self.choices is not None and self.choices.contexts is not None

    @property
    def takes_shots(self) -> bool:
        return bool(self.query.strip()) or self.is_partial

    @property
    def labels(self) -> list[str] | None:
        """The options, where they are the same for all items."""
        return self.choices.labels if self.choices else None


def list_tasks() -> list[str]:
    """The names of the tasks that come with the package."""
    folder = resources.files(SHIPPED).joinpath("tasks")
    return sorted(file.name.removesuffix(".yaml") for file in folder.iterdir() if file.name.endswith(".yaml"))


def task_text(name_or_path: str | os.PathLike[str]) -> str:
    """The YAML of a shipped task, or of a file.

    Raises:
        ValueError: there is no such task.
    """
    path, shipped = Path(name_or_path), list_tasks()
    if path.suffix in (".yaml", ".yml") and path.is_file():
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"The task '{path}' cannot be read: {error}.") from error
    if str(name_or_path) in shipped:
        return resources.files(SHIPPED).joinpath("tasks", f"{name_or_path}.yaml").read_text("utf-8")
    if path.suffix in (".yaml", ".yml"):
        raise ValueError(f"There is no task file '{name_or_path}'.")
    otherwise = f"it is a .yaml file, or {either(shipped)}" if shipped else "it is a .yaml file"
    raise ValueError(f"There is no task '{name_or_path}'{nearest(str(name_or_path), shipped, otherwise=otherwise)}")


def load_task(name_or_path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> Task:
    """Reads, overrides and checks a task.

    Args:
        name_or_path: a shipped task's name (`list_tasks`), or a path to a YAML file.
        overrides: `key=value` pairs, such as `data.file=my.jsonl`; the value is read as YAML.

    Raises:
        ValueError: one sentence that names the task, the key, its value and what would be right.
    """
    where = f"The task '{name_or_path}'"
    try:
        values = read_yaml(task_text(name_or_path))
    except ValueError as error:
        if isinstance(error.__cause__, Exception) and "yaml" in type(error.__cause__).__module__:
            raise ValueError(f"{where} is not valid YAML: {error}.") from error
        raise
    if not isinstance(values, dict):
        held = f"a {'list' if isinstance(values, list) else 'text or a number'}" if values is not None else "nothing"
        raise ValueError(f"{where} holds {held}, and a task has keys such as 'data:' and 'query:'.")
    for override in overrides:
        apply_override(values, override, "data.file=my.jsonl")
    take_source(values, [override.partition("=")[0].strip() for override in overrides])
    values.setdefault("name", Path(name_or_path).name.removesuffix(".yaml").removesuffix(".yml"))
    try:
        task = make(Task, values)
        task = dataclasses.replace(task, metric=task.metric or ("exact_match" if task.writes else "accuracy"))
        check(task, values)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    folder = Path(name_or_path).parent if Path(name_or_path).is_file() else None
    given = {key.strip(): value for key, _, value in (override.partition("=") for override in overrides)}
    return dataclasses.replace(task, folder=folder, source=str(name_or_path), overrides=given)
