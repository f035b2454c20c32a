"""What a model answers to prompts, as records: of every choice how likely it is, or what was written."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from regard.evaluation.few_shot.items import Item
from regard.evaluation.few_shot.joining import Request
from regard.evaluation.few_shot.prompts import Prompt, Room, completions_of
from regard.evaluation.few_shot.rules import best, predict, values
from regard.evaluation.few_shot.scoring import Score
from regard.evaluation.few_shot.templates import Texts

if TYPE_CHECKING:
    from regard.evaluation.few_shot.task import Task

Records = list[dict[str, Any]]


class Reader(Protocol):
    """What is asked of a model."""

    room: Room

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """How likely each choice is after its prompt."""

    def write(self, prompts: Sequence[str]) -> list[str]:
        """What follows each prompt."""


def measures_unconditional(task: "Task") -> bool:
    """Whether options differ in what is scored after a question, so that they can be told apart without it."""
    return not (task.writes or task.is_partial or task.metric == "greedy") and task.takes_shots


def unconditional_scores(texts: Texts, items: Sequence[Item], normalisation: str, reader: Reader) -> dict[str, float]:
    """The log-probability of each completion without a question, by its text; recorded whatever the normalisation
    is."""
    task = texts.task
    if not measures_unconditional(task):
        return {}
    completions = list(dict.fromkeys(text for item in items for text in completions_of(task, item)))
    try:
        scores = reader.score([Request(task.unconditional, text) for text in completions])
    except ValueError:  # a model without a token for a text to begin with
        if normalisation == "unconditional":
            raise
        return {}
    return {text: one.log_probability for text, one in zip(completions, scores, strict=True)}


def chosen(
    texts: Texts,
    items: Sequence[Item],
    prompts: Sequence[Prompt],
    normalisation: str,
    calibrate: bool,
    unconditional: dict[str, float],
    reader: Reader,
) -> Records:
    """How likely each choice is, and which is taken, of every item."""
    asked = [[Request(*pair) for pair in prompt.pairs()] for prompt in prompts]
    free: list[list[Request]] = [[] for _ in items]
    if calibrate:
        free = [
            [Request(prompt.before + texts.content_free(item), text) for text in prompt.completions]
            for item, prompt in zip(items, prompts, strict=True)
        ]
    unique = list(dict.fromkeys(one for several in [*asked, *free] for one in several))
    scores = dict(zip(unique, reader.score(unique), strict=True))
    records = []
    for item, prompt, requests, without in zip(items, prompts, asked, free, strict=True):
        choices = []
        for place, (text, request) in enumerate(zip(item.choices, requests, strict=True)):
            found = scores[request]
            choice = {"text": text, "log_probability": found.log_probability, "tokens": found.tokens}
            choice |= {"characters": len(text), "bytes": len(text.encode()), "greedy": found.greedy}
            if request.choice in unconditional:
                choice["unconditional"] = unconditional[request.choice]
            if without:
                choice["content_free"] = scores[without[place]].log_probability
            if item.contexts:
                choice["prompt"] = request.prompt
            choices.append(choice)
        worth = values(choices, normalisation, calibrate)
        prediction = predict(worth, item.id)
        right = choices[item.answer]["greedy"] if texts.task.metric == "greedy" else prediction == item.answer
        choices = [choice | {"value": value} for choice, value in zip(choices, worth, strict=True)]
        asked_with = {} if item.contexts else {"prompt": prompt.texts[0]}
        answer = {"choices": choices, "answer": item.answer, "prediction": prediction, "correct": bool(right)}
        answer["tied"] = len(best(worth)) > 1
        records.append(asked_with | answer)
    return records


def written(items: Sequence[Item], prompts: Sequence[Prompt], reader: Reader) -> Records:
    """What is written after every prompt, without white space around it."""
    records = []
    for item, prompt, text in zip(items, prompts, reader.write([one.texts[0] for one in prompts]), strict=True):
        right = text.strip() in [reference.strip() for reference in item.references]
        answer = {"references": list(item.references), "prediction": text.strip(), "correct": right}
        records.append({"prompt": prompt.texts[0]} | answer)
    return records
