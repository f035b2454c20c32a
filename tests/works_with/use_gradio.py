"""Gradio: a page over a pipeline answers over HTTP as the pipeline does."""

import gradio
from gradio_client import Client
from published import path
from texts import SENTENCES
from transformers import pipeline

classify = pipeline("text-classification", model=path("classifier"), trust_remote_code=True, top_k=None)


def label(text: str) -> dict[str, float]:
    return {each["label"]: each["score"] for each in classify([text])[0]}


# Not Interface.from_pipeline: of gradio 6.31 it asks for a pipeline that transformers 5 no longer has.
page = gradio.Interface(label, gradio.Textbox(), gradio.Label(), api_name="label")
_, address, _ = page.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", show_error=True)
try:
    client = Client(address, verbose=False)
    for text in (SENTENCES[0], SENTENCES[-1]):
        answer, expected = client.predict(text, api_name="/label"), label(text)
        assert answer["label"] == max(expected, key=expected.get)
        for each in answer["confidences"]:
            assert abs(each["confidence"] - expected[each["label"]]) < 1e-4
finally:
    page.close()
