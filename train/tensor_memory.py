"""How much memory the tensors of a computation take at most."""

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class _Held(TorchDispatchMode):
    """Counts the bytes of the storages that operations make, for as long as anything holds them."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self.counting = True
        self._known: dict[int, int] = {}

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        out = func(*args, **kwargs or {})
        inputs = {_key(one) for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)}
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and _key(tensor) not in inputs:  # no view, and not in place
                self._hold(tensor.untyped_storage())
        return out

    def _hold(self, storage: torch.UntypedStorage) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key in self._known or not self.counting:
            return
        self._known[key] = size
        weakref.finalize(storage, self._free, key)
        self.now += size
        self.most = max(self.most, self.now)

    def _free(self, key: int) -> None:
        self.now -= self._known.pop(key, 0)


def _key(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def peak_memory(model: nn.Module, work: Callable[[], Any]) -> int:
    """The bytes of the model's weights and of all that is held at once while `work` runs, at most.

    On a GPU the allocator's own count; elsewhere that of the tensors which operations make, without what an operation
    takes for itself. It is the same on every run, which the memory of a process is not.
    """
    weights = sum(parameter.nbytes for parameter in model.parameters())
    device = next(model.parameters()).device
    if device.type == "cuda":
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        work()
        return weights + torch.cuda.max_memory_allocated(device) - before
    with _Held() as held:
        work()
    held.counting = False
    return weights + held.most
