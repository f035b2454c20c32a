"""transformers' Trainer, with what this package promises beyond it.

- The head runs at real targets only, and accumulating gradients equals a larger batch; so do several processes, with
  models that are told the number of labels of a step.
- The evaluation loss is a ratio of sums over targets, each example counted once on any number of processes, in memory
  that does not grow with the data.
- A checkpoint is complete or not there; a resumed run ends in the same weights as one that was never stopped.
- A loss that is no longer a number stops the training before it reaches a checkpoint.
- A frozen backbone computes as in evaluation, without dropout; layers may learn at rates of their own, and classes by
  weights that are normalised over the whole step.
- `push_to_hub=True` keeps a repository on the Hub that anyone can load, also while the training runs: what `regard
  publish` sends, and no state of the optimiser.
"""

import logging
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from datasets import Dataset
from transformers import Trainer, TrainingArguments
from transformers.trainer_callback import ExportableState
from transformers.trainer_utils import EvalLoopOutput, EvalPrediction, HubStrategy, SaveStrategy, denumpify_detensorize
from transformers.utils import PushInProgress

from regard.train import checkpoints
from regard.train.callbacks import Progress, RecordBeforeSaving
from regard.train.devices import multiplies_bfloat16
from regard.train.fine_tuning import WeightedCrossEntropy, freeze_backbone, spread_rates
from regard.train.lora import APART, has_lora, load_apart, merged_weights, save_adapter, save_apart
from regard.train.measure import IGNORED, EvaluationBatches, has_vocabulary_head, measure, takes_loss_only
from regard.train.training_checks import STRATEGIES_WITH_STATE, state_stays_here

TARGETS = ("labels", "start_positions", "end_positions")  # of a batch, -100 where there is none
logger = logging.getLogger(__name__)

TRAINING_ARGUMENTS_PICKLE = "training_args.bin"


class TrainingDiverged(RuntimeError):
    """The loss is not a number any more."""


class RegardTrainer(Trainer):
    """`Trainer` for models with `labels`; `evaluate` also reports the perplexity of those that predict tokens.

    `compute_metrics` is given the predicted classes or ids (`measure.predicted`), never logits.
    """

    def __init__(
        self,
        model: Any = None,
        args: TrainingArguments | None = None,
        *more: Any,
        frozen_backbone: bool = False,
        layer_lr_decay: float | None = None,
        **kwargs: Any,
    ) -> None:
        """Takes what Trainer takes, in its order.

        Args:
            frozen_backbone: train the head alone.
            layer_lr_decay: how much slower each layer learns than the one above it (`fine_tuning.spread_rates`).

        Raises:
            ValueError: a `hub_strategy` that sends checkpoints, or nothing to train beside a frozen backbone.
        """
        if args is not None and args.push_to_hub and args.hub_strategy.value in STRATEGIES_WITH_STATE:
            raise ValueError(state_stays_here(args.hub_strategy.value))
        if args is not None and args.label_smoothing_factor and hasattr(model, "config"):
            # In the model, where it acts in training alone and at real targets; Trainer would take the labels away.
            predicts_tokens = getattr(model, "get_output_embeddings", lambda: None)() is not None
            if not predicts_tokens or not hasattr(model.config, "label_smoothing"):
                raise ValueError(f"training.label_smoothing_factor: {type(model).__name__} does no label smoothing.")
            model.config.label_smoothing, args.label_smoothing_factor = args.label_smoothing_factor, 0.0
        if args is not None:
            args.logging_nan_inf_filter = False  # it would show a loss that is no number as 0
        if frozen_backbone:
            freeze_backbone(model)
        super().__init__(model, args, *more, **kwargs)
        self._frozen_backbone, self._layer_lr_decay = frozen_backbone, layer_lr_decay
        self._loss_only = takes_loss_only(self.model)
        self._ignores_nan = self.compute_loss_func is None and getattr(self.model, "ignores_nan_labels", False)
        self._window_start: float | None = None  # of the time and tokens since the last log of a training loss
        self._window_tokens: torch.Tensor | int = 0
        for callback in list(self.callback_handler.callbacks):
            if type(callback).__name__ in ("ProgressCallback", "NotebookProgressCallback", "PrinterCallback"):
                self.remove_callback(callback)
        for callback in self.callback_handler.callbacks:
            if hasattr(callback, "clock_stopped"):  # it measures: that is no time of the training
                callback.clock_stopped = self._clock_stopped
        self.add_callback(RecordBeforeSaving())
        if not any(isinstance(callback, Progress) for callback in self.callback_handler.callbacks):
            self.add_callback(Progress())

    # --- training ----------------------------------------------------------------------------------------------------

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Trains, from the last complete checkpoint if `resume_from_checkpoint` is True."""
        if self.args.bf16 and self.args.should_log and not multiplies_bfloat16(self.args.device):
            logger.warning(
                "training.bf16: true makes each step many times slower here, since this processor does not multiply "
                "bfloat16: set it to false."
            )
        if self.args.should_save:
            checkpoints.tidy(self.args.output_dir)
        self.accelerator.wait_for_everyone()
        if resume_from_checkpoint is True:
            resume_from_checkpoint = checkpoints.last_checkpoint(self.args.output_dir)
            if resume_from_checkpoint is None:
                raise ValueError(f"There is no complete checkpoint in {self.args.output_dir} to resume from.")
        if isinstance(resume_from_checkpoint, os.PathLike):
            resume_from_checkpoint = str(resume_from_checkpoint)
        library = logging.getLogger("transformers.trainer_utils")
        library.addFilter(_matters)
        try:
            return super().train(resume_from_checkpoint, *args, **kwargs)
        finally:
            library.removeFilter(_matters)

    def _run_epoch(self, *args: Any, **kwargs: Any) -> None:
        # A run that stopped at max_steps inside an epoch, or early, and is resumed would make one step more.
        if self.state.global_step >= self.state.max_steps or self.control.should_training_stop:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **kwargs)

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        # Tied weights are saved once, so that all but one of their names are missing from every checkpoint.
        tied = getattr(self.accelerator.unwrap_model(self.model), "all_tied_weights_keys", {})
        load_result.missing_keys[:] = [key for key in load_result.missing_keys if key not in tied]
        super()._issue_warnings_after_load(load_result)

    def create_scheduler(self, num_training_steps: int, *args: Any, **kwargs: Any) -> Any:
        warmup = self.args.get_warmup_steps(num_training_steps)
        if warmup >= num_training_steps > 0 and self.args.should_log:
            logger.warning(
                "training.warmup_steps: the learning rate rises until step %d, and the training ends at step %d, so "
                "it never reaches its peak: train longer, or set fewer, or a share of all steps such as 0.1.",
                warmup,
                num_training_steps,
            )
        return super().create_scheduler(num_training_steps, *args, **kwargs)

    def create_optimizer(self, *args: Any, **kwargs: Any) -> torch.optim.Optimizer:
        new = self.optimizer is None
        optimizer = super().create_optimizer(*args, **kwargs)
        if new and self._layer_lr_decay is not None:
            spread_rates(optimizer, self.model, self._layer_lr_decay)
        return optimizer

    def compute_loss(self, model: Any, inputs: dict, return_outputs: bool = False, **kwargs: Any) -> Any:
        if self._frozen_backbone:
            self.accelerator.unwrap_model(model).base_model.eval()  # Trainer has just put the whole model in training
        if self._loss_only and self.compute_loss_func is None and not return_outputs:
            inputs = {**inputs, "loss_only": True}
        return super().compute_loss(model, inputs, return_outputs=return_outputs, **kwargs)

    # --- each example once an epoch, and tokens per second -----------------------------------------------------------

    def get_batch_samples(self, epoch_iterator: Iterator, *args: Any, **kwargs: Any) -> Any:
        if self._window_start is None:
            self._window_start = time.perf_counter()
        return super().get_batch_samples(self._counted(epoch_iterator), *args, **kwargs)

    def _counted(self, batches: Iterator) -> Iterator:
        """Counts the tokens of the batches, and takes the labels off the examples that come again.

        Where an epoch's last batches are too few for all processes, accelerate fills them up with the examples that
        the epoch began with: they would be trained on twice, and the loss would not be that of one process.
        """
        for batch in batches:
            new = self._new_examples(batch)
            if new is not None:
                targets = {name: batch[name] for name in TARGETS if name in batch}
                batch |= {name: torch.cat([one[:new], _unlabelled(one[new:])]) for name, one in targets.items()}
            counted = batch if new is None else {name: value[:new] for name, value in batch.items()}
            self._window_tokens = self._window_tokens + self._count_tokens(counted)
            yield batch

    def _get_num_items_in_batch(self, batch_samples: list, device: torch.device) -> torch.Tensor | int | None:
        """Of weighted classes, the sum of the weights in the place of the number of labels; of spans, their number;
        of labels that NaN takes away, the number of the others."""
        if batch_samples and "labels" not in batch_samples[0] and "start_positions" in batch_samples[0]:
            batch_samples = [{"labels": batch["start_positions"]} for batch in batch_samples]
        if batch_samples and "labels" in batch_samples[0] and self._ignores_nan:  # Trainer counts what is not -100
            batch_samples = [{"labels": IGNORED * batch["labels"].isnan().long()} for batch in batch_samples]
        number = super()._get_num_items_in_batch(batch_samples, device)
        if number is None or not isinstance(self.compute_loss_func, WeightedCrossEntropy):
            return number
        total = sum(self.compute_loss_func.total(batch["labels"]) for batch in batch_samples).to(device)
        if self.args.average_tokens_across_devices and self.args.world_size > 1:
            total = self.accelerator.gather(total).sum()
        return total

    def _new_examples(self, batch: dict[str, torch.Tensor]) -> int | None:
        """How many of the batch's examples, the first, are new in this epoch; None where all of them are."""
        shared = self.args.world_size > 1 and self.accelerator.gradient_state.end_of_dataloader
        if not shared or self.args.dataloader_drop_last or not hasattr(self.train_dataset, "__len__"):
            return None
        if self.accelerator.split_batches:
            return None  # each batch is shared out among the processes: another arithmetic
        labels = batch.get("labels", batch.get("start_positions"))
        takes_number_of_labels = self.model_accepts_loss_kwargs or self.compute_loss_func is not None
        if labels is None or not takes_number_of_labels:
            return None  # a mean over the batch's own labels, which would have none
        if labels.is_floating_point() and not self._ignores_nan:
            return None  # the loss takes every number for a label
        size = self._train_batch_size  # in items of the data set, which may be batches themselves
        left = len(self.train_dataset) % (size * self.args.world_size)
        new = min(max(left - size * self.args.process_index, 0), size)
        return None if left == 0 or new == size else new

    def _count_tokens(self, batch: dict[str, torch.Tensor]) -> torch.Tensor | int:
        """Real tokens of source and target, without pads."""
        tokens = 0
        if "attention_mask" in batch:
            tokens = batch["attention_mask"].sum()
        elif "input_ids" in batch:
            pad = getattr(self.model.config, "pad_token_id", None)
            tokens = batch["input_ids"].numel() if pad is None else batch["input_ids"].ne(pad).sum()
        if getattr(self.model.config, "is_encoder_decoder", False) and "labels" in batch:
            tokens = tokens + batch["labels"].ne(-100).sum()
        return tokens

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Logs, with the real tokens and the seconds of training so far, over all resumed parts of the run."""
        if not math.isfinite(logs.get("loss", 0.0)):
            raise TrainingDiverged(self._divergence(logs["loss"]))
        if ("loss" in logs or "train_loss" in logs) and self._window_start is not None:
            now = time.perf_counter()
            seconds, self._window_start = now - self._window_start, now
            tokens = torch.as_tensor(self._window_tokens, device=self.args.device, dtype=torch.int64)
            tokens, self._window_tokens = int(self.accelerator.gather(tokens).sum()), 0
            before = next((entry for entry in reversed(self.state.log_history) if "tokens" in entry), {})
            logs["tokens"] = before.get("tokens", 0) + tokens
            logs["seconds"] = before.get("seconds", 0.0) + seconds
            if tokens:
                logs["tokens_per_second"] = tokens / seconds
        super().log(logs, *args, **kwargs)

    @contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        start, window = time.perf_counter(), self._window_start
        yield
        if window is not None:  # as it was before: within an evaluation, say, it may have been stopped once more
            self._window_start = window + time.perf_counter() - start

    # --- evaluation --------------------------------------------------------------------------------------------------

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """As Trainer's, with `eval_loss` over targets and, for models that predict tokens, `eval_perplexity`."""
        with self._clock_stopped():
            return super().evaluate(*args, **kwargs)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> EvaluationBatches:
        """This process's share of the evaluation set, in batches of like length."""
        if eval_dataset is None and self.eval_dataset is None:
            raise ValueError("There is no eval_dataset to evaluate on.")
        if isinstance(eval_dataset, str):
            eval_dataset = self.eval_dataset[eval_dataset]
        return self.get_test_dataloader(self.eval_dataset if eval_dataset is None else eval_dataset)

    def get_test_dataloader(self, test_dataset: Any) -> EvaluationBatches:
        if isinstance(test_dataset, Dataset):
            test_dataset = self._remove_unused_columns(test_dataset, description="evaluation")
            collate = self.data_collator
        else:
            collate = self._get_collator_with_removed_columns(self.data_collator, description="evaluation")
        return EvaluationBatches(
            test_dataset, self.args.eval_batch_size, collate, self.args.process_index, self.args.world_size
        )

    def evaluation_loop(
        self,
        dataloader: EvaluationBatches,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """One pass over the batches that `get_eval_dataloader` or `get_test_dataloader` gave."""
        # Not prepared as in Trainer: accelerate would take the model for one that is prepared for training too, and in
        # a later train() the processes would not share their gradients.
        model = self.model_wrapped if self.is_deepspeed_enabled else self.model
        if prediction_loss_only is None:
            prediction_loss_only = self.args.prediction_loss_only
        self.callback_handler.eval_dataloader = dataloader

        def on_step() -> None:
            self.control = self.callback_handler.on_prediction_step(self.args, self.state, self.control)

        predict = not prediction_loss_only
        with self.accelerator.autocast():
            result = measure(model, dataloader, self.args.device, predict=predict, on_step=on_step)
        metrics = {"loss": result.loss}
        if has_vocabulary_head(self.accelerator.unwrap_model(model)):
            metrics["perplexity"] = result.perplexity
        if self.compute_metrics is not None and result.predictions is not None:
            metrics |= denumpify_detensorize(self.compute_metrics(EvalPrediction(result.predictions, result.labels)))
        prefix = f"{metric_key_prefix}_"
        metrics = {prefix + name.removeprefix(prefix): value for name, value in metrics.items()}
        return EvalLoopOutput(result.predictions, result.labels, metrics, result.examples)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Trainer's own steps, into a hidden folder that gets its name when everything is in it."""
        with self._clock_stopped():
            if not torch.isfinite(self._tr_loss).all():
                raise TrainingDiverged(self._divergence(self._tr_loss.item()))
            self.store_flos()
            checkpoint = Path(self._get_output_dir(trial)) / f"checkpoint-{self.state.global_step}"
            folder = str(checkpoints.staging(checkpoint))
            self.accelerator.wait_for_everyone()
            self.save_model(folder, _internal_call=True)
            if self.args.should_save and has_lora(self.model):
                save_apart(self.model, folder)
            if self.state.best_global_step:
                self.state.best_model_checkpoint = str(
                    checkpoint.with_name(f"checkpoint-{self.state.best_global_step}")
                )
            if not self.args.save_only_model:
                self._save_optimizer_and_scheduler(folder)
                self._save_scaler(folder)
                self._save_rng_state(folder)
            if self.args.should_save:
                self._record_callbacks()
                self.state.save_to_json(os.path.join(folder, checkpoints.STATE_FILE))
            self.accelerator.wait_for_everyone()
            if self.args.should_save:
                checkpoints.publish(checkpoint)
                if self.args.push_to_hub:
                    self._push_from_checkpoint(str(checkpoint))
                checkpoints.rotate(checkpoint.parent, self.args.save_total_limit, self.state.best_model_checkpoint)
            self.accelerator.wait_for_everyone()

    def _record_callbacks(self) -> None:
        states: dict[str, list[dict]] = {}
        for callback in [*self.callback_handler.callbacks, self.control]:
            if isinstance(callback, ExportableState):
                states.setdefault(type(callback).__name__, []).append(callback.state())
        self.state.stateful_callbacks = {
            name: several[0] if len(several) == 1 else several for name, several in states.items()
        }

    def _save(self, output_dir: str | None = None, state_dict: dict | None = None) -> None:
        adapted = has_lora(self.model)
        super()._save(output_dir, merged_weights(self.model) if adapted else state_dict)
        folder = Path(output_dir or self.args.output_dir)
        if self.args.should_save:  # Trainer leaves a pickle of its arguments, which nobody needs to open
            (folder / TRAINING_ARGUMENTS_PICKLE).unlink(missing_ok=True)
            if adapted:
                save_adapter(self.model, folder)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        if (Path(resume_from_checkpoint) / APART).is_file():
            load_apart(self.model, resume_from_checkpoint)
        else:
            super()._load_from_checkpoint(resume_from_checkpoint, model)

    def _load_best_model(self) -> None:
        if (Path(self.state.best_model_checkpoint) / APART).is_file():
            load_apart(self.model, self.state.best_model_checkpoint)
        else:
            super()._load_best_model()

    def _finalize_training(self, *args: Any, **kwargs: Any) -> Any:
        if self.state.best_global_step:  # a run that goes on from elsewhere, or was moved, names it by another path
            best = Path(self.args.output_dir) / f"checkpoint-{self.state.best_global_step}"
            self.state.best_model_checkpoint = str(best) if best.is_dir() else self.state.best_model_checkpoint
        return super()._finalize_training(*args, **kwargs)

    # --- the Hub -----------------------------------------------------------------------------------------------------

    def init_hf_repo(self, token: str | None = None, private: bool | None = None) -> None:
        """Makes the repository of `hub_model_id`, a private one unless `hub_private_repo` is False.

        Raises:
            HubError: there is no token that may write, or the Hub cannot be reached.
            ValueError: it is there and public, and `hub_private_repo` is not False.
        """
        if not self.is_world_process_zero():
            return
        from huggingface_hub import HfApi

        from regard.model_cards.publish import open_repository, whole_id

        private = self.args.hub_private_repo if private is None else private
        api = HfApi(token=token or self.args.hub_token)
        self.hub_model_id = whole_id(api, self.args.hub_model_id or Path(self.args.output_dir).absolute().name)
        open_repository(api, self.hub_model_id, public=private is False)
        self.push_in_progress = None

    def push_to_hub(
        self,
        commit_message: str | None = "End of training",
        blocking: bool = True,
        token: str | None = None,
        revision: str | None = None,
        private: bool | None = None,
        **kwargs: Any,
    ) -> Any:
        """Saves the model and publishes its folder, checked, as `regard publish` does.

        Args:
            kwargs: `license`, `language` and `tags` of the card, where no recipe says them.

        Returns:
            a `regard.model_cards.publish.Published`, or without `blocking` a Future of it; in other processes than
            the main one None.

        Raises:
            NotPublishable: the check found something, such as a missing licence.
            HubError: the Hub did not take it.
        """
        token = token or self.args.hub_token
        if self.hub_model_id is None:
            self.init_hf_repo(token=token, private=private)
        self.save_model(_internal_call=True)
        if not self.is_world_process_zero():
            return None
        from huggingface_hub import HfApi

        from regard.model_cards.publish import publish

        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        self.create_model_card(**kwargs)
        self._finish_current_push()
        settings = {"branch": revision or self.args.hub_revision, "message": commit_message, "token": token}
        settings["public"] = (self.args.hub_private_repo if private is None else private) is False
        job = HfApi().run_as_future(publish, self.args.output_dir, self.hub_model_id, **settings)
        return job.result() if blocking else job

    def create_model_card(
        self,
        language: str | list[str] | None = None,
        license: str | None = None,
        tags: str | list[str] | None = None,
        **kwargs: Any,
    ) -> None:
        """The card of a folder without one, or without a recipe to render it from: Trainer's own draft would take the
        place of a better one. Of Trainer's further arguments nothing is known here."""
        folder = Path(self.args.output_dir)
        path = folder / "README.md"
        if not self.is_world_process_zero() or (path.is_file() and (folder / "recipe.yaml").is_file()):
            return
        from huggingface_hub import ModelCard

        from regard.model_cards.card import write_card

        card = ModelCard.load(path if path.is_file() else write_card(folder))
        card.data.language = language or card.data.language
        card.data.license = license or card.data.license
        new = [tags] if isinstance(tags, str) else tags or []
        card.data.tags = list(dict.fromkeys([*(card.data.tags or []), *new]))
        card.save(path)

    def _push_from_checkpoint(self, checkpoint_folder: str) -> None:
        """Publishes a checkpoint's model in the background, if the last one is through or `hub_always_push` is set."""
        if not self.is_world_process_zero() or self.args.hub_strategy == HubStrategy.END:
            return
        if self.push_in_progress is not None and not self.push_in_progress.is_done():
            if not self.args.hub_always_push:
                return
            self._finish_current_push()
        from regard.model_cards.publish import push_checkpoint

        self.callback_handler.on_push_begin(self.args, self.state, self.control)
        steps = self.args.save_strategy == SaveStrategy.STEPS
        at = f"step {self.state.global_step}" if steps else f"epoch {int(self.state.epoch)}"
        settings = {"branch": self.args.hub_revision, "token": self.args.hub_token}
        folders = Path(self.args.output_dir), Path(checkpoint_folder)
        job = push_checkpoint(*folders, self.hub_model_id, f"Training in progress, {at}", **settings)
        self.push_in_progress = PushInProgress([job])

    def _divergence(self, loss: float) -> str:
        last = checkpoints.last_checkpoint(self.args.output_dir)
        return (
            f"The training loss is {loss} at step {self.state.global_step}: the training has diverged. Lower "
            "training.learning_rate, lengthen training.warmup_steps or clip with training.max_grad_norm; "
            + (f"the last checkpoint is {last.name}." if last else "there is no checkpoint yet.")
        )


def _matters(record: logging.LogRecord) -> bool:
    """Not the warning that a checkpoint was logged, evaluated or saved at other steps: the arguments are followed."""
    text = record.getMessage()
    return "do not match the ones in the `trainer_state.json`" not in text or "train_batch_size" in text


def _unlabelled(targets: torch.Tensor) -> torch.Tensor:
    """In the shape of `targets`, the labels that no loss counts: -100, and of real numbers NaN."""
    return torch.full_like(targets, math.nan if targets.is_floating_point() else IGNORED)
