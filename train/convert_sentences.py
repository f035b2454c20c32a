"""What sentence-transformers wants beside a model: which vectors of it make that of a text."""

import json
import shutil
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from regard.train.convert_source import CONFIG, SENTENCE_FILES, WEIGHTS, ConversionError

MODULES, OWN = "modules.json", "sentence_transformers."
FIRST, OTHERS = "Transformer", ("Pooling", "Normalize", "Dense", "LayerNorm", "Dropout")  # with no further files


def copy_sentence_files(source: Path, folder: Path) -> list[str]:
    """Copies the configuration of sentence-transformers and its modules' files, where the source has them.

    The first module is the model itself; the others, such as pooling and normalisation, know no architecture.

    Returns:
        notes, a sentence each.

    Raises:
        ConversionError: modules.json is none.
    """
    if not (source / MODULES).is_file():
        return []
    modules = _read_modules(source)
    strange = [each["type"] for each in modules if not each["type"].startswith(OWN)]
    if strange:
        return [f"The files of sentence-transformers are left out: they name {strange[0]}, code of the source's own."]
    names = [each["type"].rpartition(".")[2] for each in modules]
    unknown = [*(name for name in names[:1] if name != FIRST), *(name for name in names[1:] if name not in OTHERS)]
    if unknown:
        return [
            f"The files of sentence-transformers are left out: what a module {unknown[0]} needs is not known here."
        ]
    if modules[0]["path"] not in ("", "."):
        return [f"The files of sentence-transformers are left out: their model lies in '{modules[0]['path']}'."]
    below = [source / each["path"] for each in modules[1:]]
    pickled = [path for path in below if (path / "pytorch_model.bin").is_file() and not (path / WEIGHTS).is_file()]
    if pickled:
        return [f"The files of sentence-transformers are left out: {pickled[0].name} has pickled weights alone."]
    for path in source.iterdir():
        if path.is_file() and any(fnmatchcase(path.name, pattern) for pattern in SENTENCE_FILES):
            shutil.copyfile(path, folder / path.name)
    for path in below:
        for name in (CONFIG, WEIGHTS):
            if (path / name).is_file():
                (folder / path.name).mkdir(exist_ok=True)
                shutil.copyfile(path / name, folder / path.name / name)
    return ["It loads with sentence-transformers: SentenceTransformer(..., trust_remote_code=True)."]


def _read_modules(source: Path) -> list[dict[str, Any]]:
    try:
        modules = json.loads((source / MODULES).read_text(encoding="utf-8"))
        paths = [PurePosixPath(each["path"]) for each in modules]
        beside = all(len(path.parts) <= 1 and path.name != ".." and not path.is_absolute() for path in paths)
        beside = beside and all(path.parts for path in paths[1:])
        if modules and beside and all(isinstance(each["type"], str) for each in modules):
            return modules
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise ConversionError(f"{MODULES} is no list of sentence-transformers' modules, each in a folder beside it.")
