"""What a training shows: a bar on a terminal, plain lines elsewhere, and the history in files."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO

import datasets
from tqdm.auto import tqdm
from transformers import TrainerCallback
from transformers.integrations import TensorBoardCallback
from transformers.utils import logging as library_logging

LINES = 20  # a training that is not watched on a terminal prints about so many lines


class Progress(TrainerCallback):
    """Loss, tokens per second and time left, by the main process alone, on standard error.

    On a terminal a bar; elsewhere one plain line every few percent. Evaluations are one line in both.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream
        self.bar: tqdm | None = None
        self.latest: dict[str, float] = {}
        self.last_line = 0
        self.start_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.latest, self.last_line, self.start_step = {}, state.global_step, state.global_step
        stream = self.stream or sys.stderr
        if state.is_world_process_zero and stream.isatty():
            self.bar = tqdm(
                total=state.max_steps, initial=state.global_step, desc="training", unit="step",
                file=stream, dynamic_ncols=True, mininterval=0.2,
            )  # fmt: skip

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.update(state.global_step - self.bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **kwargs: Any) -> None:
        if not state.is_world_process_zero or "loss" not in (logs or {}):
            return
        self.latest = dict(logs)
        if self.bar is not None:
            self.bar.set_postfix_str(f"loss {logs['loss']:.3f}, {logs.get('tokens_per_second', 0):,.0f} tokens/s")
            return
        done = state.global_step - self.last_line >= max(1, state.max_steps // LINES)
        if done or state.global_step >= state.max_steps or self.last_line == self.start_step:
            self.last_line = state.global_step
            self._write(self._line(state))

    def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **kwargs: Any) -> None:
        if state.is_world_process_zero and metrics:
            shown = (
                f"{name.removeprefix('eval_')} {value:.4g}"
                for name, value in metrics.items()
                if name.startswith("eval_") and not name.endswith(("_runtime", "_per_second"))
            )
            self._write(f"step {state.global_step:>6} validation: {', '.join(shown)}")

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.bar is not None:
            self.bar.close()
            self.bar = None

    def _line(self, state: Any) -> str:
        logs = self.latest
        share = state.global_step / max(1, state.max_steps)
        parts = [
            f"step {state.global_step:>6} of {state.max_steps} ({share:4.0%})",
            f"epoch {state.epoch:.2f}",
            f"loss {logs['loss']:.3f}",
        ]
        if "tokens_per_second" in logs:
            parts.append(f"{logs['tokens_per_second']:,.0f} tokens/s")
        left = logs.get("seconds", 0.0) / max(1, state.global_step) * (state.max_steps - state.global_step)
        return ", ".join([*parts, f"{duration(left)} left"])

    def _write(self, line: str) -> None:
        stream = self.stream or sys.stderr
        if self.bar is not None:
            self.bar.write(line, file=stream)
        else:
            print(line, file=stream, flush=True)


class RecordBeforeSaving(TrainerCallback):
    """Before a checkpoint the losses, tokens and seconds since the last log are logged; where it is due at the step
    that ends an epoch, the epoch's evaluation is made too. Else a run resumed from there would never have them.

    How often a resumed run logs, evaluates and saves is what its arguments say now, not what its checkpoint says."""

    def __init__(self) -> None:
        self.evaluated = -1

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        state.compute_steps(args, state.max_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        ends_epoch = state.epoch % 1 == 0 or control.should_training_stop
        if args.eval_strategy == "epoch" and control.should_save and ends_epoch:
            control.should_evaluate = True
        self._log_before_saving(args, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.evaluated = state.global_step

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.evaluated == state.global_step:
            control.should_evaluate = False
        self._log_before_saving(args, control)

    def _log_before_saving(self, args: Any, control: Any) -> None:
        may_save = args.save_strategy == "best" and control.should_evaluate  # it is decided after the evaluation
        if control.should_save or may_save:
            control.should_log = True


class TensorBoard(TensorBoardCallback):
    """transformers' TensorBoard log, in a folder of our choice."""

    def __init__(self, folder: str) -> None:
        super().__init__()
        self.logging_dir = folder


def duration(seconds: float) -> str:
    """`45 s`, `12 min` or `3 h 05 min`."""
    minutes, seconds = divmod(round(seconds), 60)
    if not minutes:
        return f"{seconds} s"
    if minutes < 10:
        return f"{minutes} min {seconds:02} s"
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Without the libraries' own bars for loading and saving, which would break ours; and without a terminal without
    those of the data either, which fill a log."""
    models, data = library_logging.is_progress_bar_enabled(), not datasets.are_progress_bars_disabled()
    library_logging.disable_progress_bar()
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        yield
    finally:
        if models:
            library_logging.enable_progress_bar()
        if data:
            datasets.enable_progress_bars()
