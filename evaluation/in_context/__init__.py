"""Tasks that are learnt in context: seeded examples without end under hidden rules, some of which are held out."""

from regard.evaluation.in_context.questions import items
from regard.evaluation.in_context.tasks import CHARACTERS, IN_CONTEXT_TASKS, Example, draw_examples

__all__ = ["CHARACTERS", "IN_CONTEXT_TASKS", "Example", "draw_examples", "items"]
