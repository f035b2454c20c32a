"""A page to try a model on: type a text, and see what it makes of it. Needs Gradio (the extra `app`)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from regard.evaluation.attention import MEAN, attention_maps
from regard.evaluation.attention_pictures import draw_attention
from regard.evaluation.generation import load_run, translate
from regard.evaluation.guesses import guesses, kind_of

ASKS = {
    "translate": ("What is read", "Write"),
    "continue": ("How a text begins", "What comes next?"),
    "fill": ("Text with masks", "Fill"),
    "label": ("Text", "Label"),
    "tag": ("Text", "Label the words"),
    "answer": ("Question", "Answer"),
    "neighbours": ("A word, or a sum such as: madrid - spain + france", "Neighbours"),
}


def translation_and_alignment(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, text: str
) -> tuple[str, Figure]:
    """What `translate` makes of a text, and where the last layer looked in it for each token, mean of its heads.

    Raises:
        ValueError: the model does not translate, the text is blank, or nothing was written.
    """
    if not text.strip():
        raise ValueError("The text is empty.")
    [translation] = translate(model, tokenizer, [text])
    if not translation.strip():
        raise ValueError("The model wrote nothing.")
    maps = attention_maps(model, tokenizer, text, translation, which="cross")
    return translation, draw_attention(maps, layer=-1, head=MEAN)


def build_page(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, title: str = "regard") -> Any:
    """The page as `gradio.Blocks`, not yet served.

    Raises:
        ImportError: Gradio is not installed.
        ValueError: the model is of no kind that a page can show.
    """
    kind = kind_of(model)
    gradio = _gradio()
    label, button = ASKS[kind]
    with gradio.Blocks(title=title, analytics_enabled=False) as page:
        gradio.Markdown(f"# {title}\n{type(model).__name__}, {model.num_parameters():,} parameters")
        begins = f"{tokenizer.mask_token} " if kind == "fill" else ""
        text = gradio.Textbox(begins, label=label, lines=2, elem_id="text")
        inputs = [text]
        if kind == "answer":
            inputs.append(gradio.Textbox(label="Text that the answer is in", lines=8, elem_id="context"))
        ask = gradio.Button(button, variant="primary", elem_id="ask")
        if kind == "translate":
            outputs = [gradio.Textbox(label="What is written", elem_id="answer"), gradio.Plot(show_label=False)]

            def answer(text: str) -> Any:
                return translation_and_alignment(model, tokenizer, text)
        else:
            outputs = [gradio.Dataframe(elem_id="answer", interactive=False)]

            def answer(*texts: str) -> Any:
                said = guesses(model, tokenizer, *texts)
                rows = [[f"{x:.4f}" if isinstance(x, float) else x for x in row] for row in said["rows"]]
                return {"headers": said["headers"], "data": rows}

        answer = _with_errors_shown(gradio, answer)
        ask.click(answer, inputs, outputs, api_name="answer")
        text.submit(answer, inputs, outputs, api_name=False)
    return page


def open_app(path: str | Path, host: str = "127.0.0.1", port: int | None = None, browser: bool = False) -> None:
    """Serves the page of a run or of a model on the Hub until it is interrupted.

    Args:
        path: as for `load_run`.
        host: who may open it: by default this machine alone; "0.0.0.0" is everyone who can reach it.
        port: by default the first that is free from 7860 on.
        browser: opens the page too.

    Raises:
        ImportError: Gradio is not installed.
        ValueError: no model, or one of no kind that a page can show.
    """
    _gradio()  # said before a large model is loaded
    model, tokenizer = load_run(path)
    page = build_page(model, tokenizer, Path(path).resolve().name)  # also of "." a name
    page.launch(server_name=host, server_port=port, inbrowser=browser, share=False)


def _gradio() -> Any:
    try:
        import gradio
    except ImportError:
        raise ImportError("The page needs the package gradio: `pip install gradio`.") from None
    return gradio


def _with_errors_shown(gradio: Any, answer: Callable[[str], Any]) -> Callable[[str], Any]:
    """A text that the model cannot take is told on the page, as a sentence."""

    def shown(*texts: str) -> Any:
        try:
            return answer(*texts)
        except (ValueError, KeyError) as error:
            raise gradio.Error(str(error)) from error

    return shown
