"""Attention as one page that needs nothing else: the reader chooses layer and head, and points at tokens.

Axes: L layers, H heads, T tokens that look, S tokens that are looked at.
"""

import html
import json
from pathlib import Path

from regard.evaluation.attention import ALL, MEAN, AttentionMaps
from regard.evaluation.files import replacing

TEMPLATE = Path(__file__).with_name("attention_page.html")
PER_UNIT = 10_000  # weights are written in ten-thousandths


def write_attention_page(
    maps: AttentionMaps, path: str | Path, title: str, reading: str, layer: int | str, head: int | str
) -> Path:
    """Writes the page, with all layers and heads in it; `layer` and `head` are what it shows first ("all" as "mean").

    Raises:
        ValueError: a layer or head that is not there.
    """
    _, layers, heads = maps.choose(layer, head)
    first = {
        name: MEAN if wanted in (ALL, MEAN) else names[0].removeprefix(f"{name} ")
        for name, wanted, names in (("layer", layer, layers), ("head", head, heads))
    }
    data = {
        "queries": maps.queries,
        "keys": maps.keys,
        "perUnit": PER_UNIT,
        "weights": (maps.weights * PER_UNIT).round().int().tolist(),
        "first": first,
    }
    page = TEMPLATE.read_text(encoding="utf-8")
    for name, text in (("title", title), ("reading", reading)):
        page = page.replace("{{" + name + "}}", html.escape(text))
    path = Path(path)
    with replacing(path) as partial:
        partial.write_text(page.replace("{{data}}", script_json(data)), encoding="utf-8")
    return path


def script_json(data: object) -> str:
    """JSON that can stand inside a <script>: nothing in it can end the element or open another."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
