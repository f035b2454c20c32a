"""The code that a repository carries: which files it is, whether all of it is there, and whether its map is full."""

import ast
import json
import re
import sys
from pathlib import Path
from typing import Any

import regard.modeling
from regard.model_cards.findings import Finding

CONFIG = "config.json"
TARGET = re.compile(r"(?:(?P<repository>.*)--)?(?P<module>\w+)\.(?P<name>\w+)")  # of an auto map
# What a reader of the repository has in any case: the library, and what that needs itself.
ALLOWED = {"torch", "transformers", "numpy", "safetensors", "tokenizers", "huggingface_hub", "regex", "tqdm"}


class CodeError(ValueError):
    """Code that is not all there, or that nobody else could import."""

    def __init__(self, file: str, problem: str) -> None:
        super().__init__(f"{file}: {problem}")
        self.finding = Finding("code", file, problem)


def read_config(folder: Path) -> dict[str, Any]:
    """The configuration as it is written.

    Raises:
        ValueError: it is not there, or is no JSON object.
    """
    try:
        content = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError("there is no model: the file is missing.") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"it cannot be read: {' '.join(str(error).split())}.") from error
    if not isinstance(content, dict):
        raise ValueError("it holds no JSON object.")
    return content


def mapped(folder: Path) -> list[tuple[str, str]]:
    """The auto map of the folder's configuration and tokenizer: pairs of an auto class and `module.Class`."""
    targets: list[tuple[str, str]] = []
    for name in (CONFIG, "tokenizer_config.json"):
        try:
            auto_map = json.loads((folder / name).read_text(encoding="utf-8")).get("auto_map") or {}
        except (OSError, ValueError, AttributeError):
            continue
        for auto_class, target in auto_map.items() if isinstance(auto_map, dict) else ():
            several = target if isinstance(target, list) else [target]  # of tokenizers, a slow and a fast one
            targets += [(auto_class, one) for one in several if isinstance(one, str)]
    return targets


def code_files(folder: Path) -> list[str]:
    """The Python files that the folder's auto map reaches.

    Raises:
        CodeError: at the first file that is not there, or that is written so that it cannot be imported elsewhere.
    """
    found: dict[str, None] = {}
    targets = [TARGET.fullmatch(target) for _, target in mapped(folder)]
    waiting = [target["module"] for target in targets if target and not target["repository"]]
    while waiting:
        name = f"{waiting.pop()}.py"
        if name not in found:
            found[name] = None
            waiting += _relative_imports(folder, name)
    return sorted(found)


def _relative_imports(folder: Path, name: str) -> list[str]:
    try:
        tree = ast.parse((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CodeError(name, "it is needed and missing.") from None
    except (SyntaxError, UnicodeDecodeError) as error:
        raise CodeError(name, f"it is no Python: {error}.") from error
    modules = []
    optional = {id(node) for block in ast.walk(tree) if isinstance(block, ast.Try) for node in ast.walk(block)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                _check_absolute(name, alias.name, id(node) in optional)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            _check_absolute(name, node.module, id(node) in optional)
        elif isinstance(node, ast.ImportFrom):
            if node.level > 1 or not node.module or "." in node.module:
                written = "." * node.level + (node.module or "")
                raise CodeError(
                    name, f"line {node.lineno} imports from '{written}': the Hub follows `from .file import` alone."
                )
            modules.append(node.module)
    return modules


def _check_absolute(name: str, module: str, optional: bool) -> None:
    top = module.partition(".")[0]
    if top == "regard" or not (optional or top in ALLOWED or top in sys.stdlib_module_names):
        raise CodeError(name, f"it imports '{module}', which is not installed wherever transformers is.")


def check_code(folder: Path) -> list[Finding]:
    """Whether the map is full, its code all there, and each class in its file."""
    try:
        config = read_config(folder)
    except ValueError as error:
        return [Finding("auto-map", CONFIG, str(error))]
    targets = mapped(folder)
    findings = [Finding("auto-map", CONFIG, problem) for problem in _gaps(config, {name for name, _ in targets})]
    try:
        code_files(folder)
    except CodeError as error:
        return [*findings, error.finding]
    for auto_class, target in targets:
        found = TARGET.fullmatch(target)
        if not found:
            problem = f"auto_map.{auto_class} is '{target}', which is no 'file.Class', such as 'modeling_x.XModel'."
            findings.append(Finding("auto-map", CONFIG, problem))
        elif found["repository"]:
            problem = f"auto_map.{auto_class} takes its code from another repository, '{found['repository']}'."
            findings.append(Finding("auto-map", CONFIG, problem))
        elif found["name"] not in _classes(folder / f"{found['module']}.py"):
            problem = f"it holds no class {found['name']}, which auto_map.{auto_class} names."
            findings.append(Finding("auto-map", f"{found['module']}.py", problem))
    return findings


def _classes(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_bytes()).body if isinstance(node, ast.ClassDef)}


def _gaps(config: dict[str, Any], targets: set[str]) -> list[str]:
    model_type = config.get("model_type")
    family = next((f for f in regard.modeling.FAMILIES if f.config_class.model_type == model_type), None)
    if family is not None:
        missing = [name for name in ("AutoConfig", *family.auto_classes) if name not in targets]
        return [f"auto_map lacks {', '.join(missing)}: save the model again with this version."] if missing else []
    if targets and "AutoConfig" not in targets:
        return ["auto_map lacks AutoConfig, so that nobody can load the model by its folder."]
    if not targets and not _in_library(model_type):
        return [f"there is no auto_map, and transformers has no model of the type {model_type!r}."]
    return []


def _in_library(model_type: Any) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return model_type in CONFIG_MAPPING_NAMES
