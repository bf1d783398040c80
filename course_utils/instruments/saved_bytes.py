"""How many bytes does autograd keep for the backward pass of this call, and which operation keeps
them?

Autograd passes every tensor that it saves to a hook. Tensors that share a storage count once, with
the bytes of the whole storage: as long as a view is kept, none of it is freed. Parameters and
buffers are live anyway; give their module to leave them out.

    >>> layer = nn.Linear(3, 5)
    >>> saved = count_saved_bytes(lambda: torch.relu(layer(torch.ones(2, 3))), layer)
    >>> [(each.operation, each.storage_bytes) for each in saved.tensors], saved.total_bytes
    ([('linear', 24), ('relu', 40)], 64)

No hook sees what a student's function keeps elsewhere, on ``ctx`` or in a closure. That is in
`unseen`: storages that the call made and that are still alive after it.

Sources: PyTorch documentation, "Hooks for saved tensors".
"""

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.fake import one_sentence_errors
from course_utils.instruments.operands import tensors_in
from course_utils.instruments.preconditions import older_objects_frozen


class SavedTensor(NamedTuple):
    """One storage that is kept, as the tensor under which it was first seen.

    Attributes:
        operation: What kept it, by its name in the code: ``"linear"``, ``"softmax"``.
        shape: Of the tensor; a view may be smaller than its storage.
        dtype: Of its elements.
        storage_bytes: Of the whole storage.
    """

    operation: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    storage_bytes: int


@dataclass(frozen=True, kw_only=True)
class SavedBytes:
    """What is kept for backward when a call returns.

    Attributes:
        tensors: What autograd keeps, in the order of saving.
        unseen: What the call made and is still alive, but is neither kept by autograd nor returned
            nor a leaf that gets a gradient; here ``operation`` is what made it.
    """

    tensors: tuple[SavedTensor, ...]
    unseen: tuple[SavedTensor, ...]

    @property
    def total_bytes(self) -> int:
        """Bytes that autograd keeps, parameters and buffers left out."""
        return sum(each.storage_bytes for each in self.tensors)

    @property
    def unseen_bytes(self) -> int:
        """Bytes that are kept where autograd does not see them."""
        return sum(each.storage_bytes for each in self.unseen)


@exclusive
@older_objects_frozen()
def count_saved_bytes(call: Callable[[], Tensor], *owners: nn.Module | Tensor) -> SavedBytes:
    """Bytes that autograd keeps for the backward pass of ``call()``, when it returns.

    Zero if there is no gradient to compute: under ``torch.no_grad()``, or if nothing requires one.
    What is freed before the call returns does not count.

    Args:
        call: Takes nothing and returns one tensor.
        owners: Modules and tensors whose storages do not count: parameters and buffers are live
            anyway.

    Returns:
        The total, each storage with the operation that kept it, and what is kept unseen.

    Raises:
        TypeError: If the call does not return a tensor, or an owner is not a module or tensor.
        ValueError: If a tensor without a storage is kept, such as a sparse one, if real and fake
            tensors meet, or if another instrument is running.
    """
    owned = {_storage_key(tensor) for owner in owners for tensor in _tensors_of(owner)}
    operation = _CurrentOperation()
    made, packs = _MadeStorages(operation), _Packs(operation)
    with one_sentence_errors(), saved_tensors_hooks(packs.pack, _Pack.unpack), made, operation:
        result = call()
    if not isinstance(result, Tensor):
        raise TypeError(
            f"count_saved_bytes wants a call that returns one tensor, got {type(result)}"
        )
    saved = {key: each for key, each in packs.kept().items() if key not in owned}
    known = {_storage_key(tensor) for tensor in _dense_tensors([result, *_leaves(result)])}
    unseen = made.alive_except(saved.keys() | owned | known)
    return SavedBytes(tensors=tuple(saved.values()), unseen=tuple(unseen))


def saved_bytes(call: Callable[[], Tensor], parameters: Iterable[Tensor]) -> int:
    """Bytes that autograd keeps for the backward pass of ``call()``, parameters left out."""
    return count_saved_bytes(call, *parameters).total_bytes


def _tensors_of(owner: nn.Module | Tensor) -> Iterator[Tensor]:
    if isinstance(owner, nn.Module):
        yield from owner.parameters()
        yield from owner.buffers()
    elif isinstance(owner, Tensor):
        yield owner
    else:
        raise TypeError(f"an owner of storages must be a module or a tensor, got {type(owner)}")


def _leaves(result: Tensor) -> Iterator[Tensor]:
    """Leaves of the graph: tensors whose ``grad`` the backward pass fills."""
    nodes, seen = [result.grad_fn], set[Any]()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in seen:
            seen.add(node)
            nodes += [parent for parent, _ in node.next_functions]
            if isinstance(leaf := getattr(node, "variable", None), Tensor):
                yield leaf


def _storage_key(tensor: Tensor) -> StorageWeakRef:
    """A key for the storage that no later storage reuses, even once this one is freed."""
    return StorageWeakRef(tensor.untyped_storage())


def _describe(operation: str, tensor: Tensor) -> SavedTensor:
    num_bytes = tensor.untyped_storage().nbytes()
    return SavedTensor(operation, tuple(tensor.shape), tensor.dtype, num_bytes)


class _CurrentOperation(TorchFunctionMode):
    """Name of the torch function that is running."""

    name = ""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.name = func.__name__.strip("_")
        try:
            return func(*args, **(kwargs or {}))
        finally:
            self.name = ""


class _Pack:
    """What autograd holds in place of a saved tensor, until it frees it."""

    def __init__(self, tensor: Tensor, operation: str) -> None:
        self.tensor, self.operation = tensor, operation

    def unpack(self) -> Tensor:
        return self.tensor


class _Packs:
    """Everything that autograd saved, without keeping it alive."""

    def __init__(self, operation: _CurrentOperation) -> None:
        self.operation = operation
        self.packs: list[weakref.ref[_Pack]] = []

    def pack(self, tensor: Tensor) -> _Pack:
        name = self.operation.name or _name_of_own_function()
        if tensor.layout is not torch.strided:
            raise ValueError(
                f"count_saved_bytes counts dense tensors, and `{name}` keeps a tensor of layout "
                f"{tensor.layout}: make it dense first"
            )
        pack = _Pack(tensor.detach(), name)  # with its graph, the tensor would keep itself alive
        self.packs.append(weakref.ref(pack))
        return pack

    def kept(self) -> dict[StorageWeakRef, SavedTensor]:
        """What autograd still holds, each storage once."""
        kept: dict[StorageWeakRef, SavedTensor] = {}
        for pack in filter(None, (ref() for ref in self.packs)):
            kept.setdefault(_storage_key(pack.tensor), _describe(pack.operation, pack.tensor))
        return kept


def _name_of_own_function() -> str:
    """Name of the `autograd.Function` being applied: that frame has its class as ``cls``.

    Without one, as in a checkpoint, the name of the Python function that keeps the tensor.
    """
    frame = sys._getframe(2)
    while frame.f_code.co_name.startswith("<") and frame.f_back:  # a comprehension has no name
        frame = frame.f_back
    owner = frame.f_locals.get("cls")
    name = owner.__name__ if isinstance(owner, type) else frame.f_code.co_name
    return name.strip("_")


class _MadeStorages(TorchDispatchMode):
    """Every storage that an operation makes, without keeping it alive."""

    def __init__(self, operation: _CurrentOperation) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operation = operation
        self.made: dict[StorageWeakRef, SavedTensor] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        given = {tensor.untyped_storage()._cdata for tensor in _dense_tensors((args, kwargs))}
        name = self.operation.name or func.overloadpacket.__name__
        for tensor in _dense_tensors(result):
            if tensor.untyped_storage()._cdata not in given:
                self.made.setdefault(_storage_key(tensor), _describe(name, tensor))
        return result

    def alive_except(self, others: Iterable[StorageWeakRef]) -> list[SavedTensor]:
        """Storages still alive, without the others; garbage in reference cycles is freed first."""
        rest = self.made.keys() - set(others)
        if any(not key.expired() for key in rest):
            gc.collect()
        return [each for key, each in self.made.items() if key in rest and not key.expired()]


def _dense_tensors(values: object) -> list[Tensor]:
    return [each for each in tensors_in(values) if each.layout is torch.strided]
