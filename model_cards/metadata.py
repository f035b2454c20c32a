"""Whether a card can be published: its metadata as the Hub takes them, its licence, and the pictures that it shows."""

import math
import re
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml
from huggingface_hub import ModelCard

from regard.model_cards.findings import Finding

CARD = "README.md"
# The Hub's own names.
_LICENCES = """
afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m deepfloyd-if-license ecl-2.0 epl-1.0 epl-2.0
etalab-2.0 eupl-1.1 eupl-1.2 fair-noncommercial-research-license gemma gfdl gpl gpl-2.0 gpl-3.0 h-research
intel-research isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr llama2 llama3 llama3.1 llama3.2 llama3.3 llama4 lppl-1.3c mit
mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1 open-mdw openmdw-1.0 openrail openrail++ osl-3.0 other pddl postgresql
unlicense wtfpl zlib
"""
_PIPELINES = """
audio-classification audio-to-audio automatic-speech-recognition depth-estimation feature-extraction fill-mask
image-classification image-feature-extraction image-segmentation image-text-to-text image-to-image
image-to-text mask-generation multiple-choice object-detection other question-answering sentence-similarity
summarization table-question-answering tabular-classification tabular-regression text-classification
text-generation text-ranking text-retrieval text-to-audio text-to-image text-to-speech text-to-video
text2text-generation time-series-forecasting token-classification translation unconditional-image-generation
video-classification visual-question-answering zero-shot-classification zero-shot-image-classification
"""
LICENCES, PIPELINES = frozenset(_LICENCES.split()), frozenset(_PIPELINES.split())
LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[A-Za-z]{2,8})*|multilingual|code")
DATASET = re.compile(r"[\w.-]+(?:/[\w.-]+)?")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)|<img\b[^>]*\bsrc=[\"']([^\"'>]+)", re.IGNORECASE)


def check_card(folder: Path, names: list[str]) -> list[Finding]:
    """Looks at the card of a folder that holds the files `names`."""
    if CARD not in names:
        return [Finding("metadata", CARD, "there is no card."), Finding("licence", "", "No licence is stated.")]
    text = (folder / CARD).read_text(encoding="utf-8-sig", errors="replace")
    findings = [Finding("metadata", CARD, problem) for problem in _round_trip(text)]
    metadata = _metadata(text)
    if metadata is not None:
        findings += [Finding("metadata", CARD, problem) for problem in metadata_problems(metadata)]
        findings += [Finding("licence", CARD, problem) for problem in _licence_problems(metadata)]
    for link in dict.fromkeys(one or other for one, other in PICTURE.findall(text)):
        if not re.match(r"[a-z]+:|#", link) and unquote(link.removeprefix("./")) not in names:
            findings.append(Finding("metadata", CARD, f"it shows the picture '{link}', which is not in the folder."))
    return findings


def _metadata(text: str) -> dict[str, Any] | None:
    """What stands at the head of a card; None where it is no YAML, of which nothing more can be said."""
    block = re.match(r"---\s*\n(.*?)\n---\s*(?:\n|$)", text, re.DOTALL)
    try:
        metadata = yaml.safe_load(block[1]) if block else {}
    except yaml.YAMLError:
        return None
    return metadata if isinstance(metadata, dict) else {}


def _round_trip(text: str) -> list[str]:
    """Whether the metadata are still the same when the Hub's client has read and written them."""
    try:
        card = ModelCard(text)
        again = ModelCard(str(card))
    except Exception as error:  # of YAML, or of the client's own classes, which raise what they stumble over
        return [f"its metadata cannot be read: {' '.join(str(error).split())}."]
    if card.data.to_dict() != again.data.to_dict():
        return ["its metadata change when huggingface_hub reads and writes them."]
    return []


def metadata_problems(metadata: dict[str, Any]) -> list[str]:
    """What the Hub would refuse or not understand, a sentence each."""
    if not metadata:
        return ["it begins with no metadata between two lines of '---'."]
    problems = []
    for key, pattern, what in (("language", LANGUAGE, "a language code such as 'de'"), ("datasets", DATASET, "an id")):
        for value in _listed(metadata.get(key)):
            if not isinstance(value, str) or not pattern.fullmatch(value):
                problems.append(f"{key}: {value!r} is not {what}.")
    for key in ("tags", "metrics"):
        problems += [f"{key}: {one!r} is not text." for one in _listed(metadata.get(key)) if not isinstance(one, str)]
    pipeline = metadata.get("pipeline_tag")
    if pipeline is not None and not (isinstance(pipeline, str) and pipeline in PIPELINES):
        problems.append(f"pipeline_tag: the Hub knows no task {pipeline!r}.")
    library = metadata.get("library_name")
    if library is not None and not isinstance(library, str):
        problems.append(f"library_name: {library!r} is not text.")
    for index, model in enumerate(_listed(metadata.get("model-index"))):
        problems += [f"model-index[{index}]{problem}" for problem in _model_problems(model)]
    return problems


def _model_problems(model: Any) -> list[str]:
    if not isinstance(model, dict) or not isinstance(model.get("results"), list):
        return [" has no list of results."]
    problems = [] if isinstance(model.get("name"), str) and model["name"] else [" has no name."]
    for place, result in enumerate(model["results"]):
        result = result if isinstance(result, dict) else {}
        for section, key in (("task", "type"), ("dataset", "type"), ("dataset", "name")):
            part = result.get(section)
            if not isinstance(part, dict) or not isinstance(part.get(key), str) or not part[key]:
                problems.append(f".results[{place}].{section}.{key} is missing.")
        metrics = result.get("metrics")
        if not isinstance(metrics, list) or not metrics:
            problems.append(f".results[{place}] has no metrics.")
            continue
        for metric in metrics:
            metric = metric if isinstance(metric, dict) else {}
            value = metric.get("value")
            if not isinstance(metric.get("type"), str):
                problems.append(f".results[{place}] has a metric without a type.")
            if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
                problems.append(f".results[{place}]: {metric.get('type')} is {value!r}, which is no number.")
    return problems


def _licence_problems(metadata: dict[str, Any]) -> list[str]:
    values = _listed(metadata.get("license"))
    if not values or values == ["unknown"]:
        return ["no licence is stated: write one into its metadata, such as 'license: apache-2.0'."]
    unknown = [one for one in values if not (isinstance(one, str) and one in LICENCES)]
    problems = [f"license: the Hub knows no licence {one!r}." for one in unknown]
    if "other" in values and not metadata.get("license_name"):
        problems.append("license: 'other' needs a license_name beside it.")
    return problems


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]
