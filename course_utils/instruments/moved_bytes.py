"""How many bytes must the operations of a call move between memory and the processor?

Each operation reads every input once and writes every output once: the least that these operations
can move, one after the other. Whose bytes they are is known by the storage that a tensor lies in.

    >>> a, b = torch.empty(7, 3, device="meta"), torch.empty(3, 5, device="meta")
    >>> moved = count_bytes(lambda: a @ b, weights=[b])
    >>> moved
    MovedBytes: 284 bytes and 210 FLOPs, 0.739 FLOP/B, in 1 operation
    >>> moved.of("weights")
    Traffic(read_bytes=60, written_bytes=0)

A view moves nothing; elements that a tensor shows several times (`expand`) are read once; of a
table only the rows that are looked up are read; what is overwritten whole is not read. Not seen:
what a kernel reads again because it does not fit in a cache, and its own temporaries. Compiled code
runs operation by operation here, so that its fusions are not seen either.

Sources: PyTorch documentation, "TorchDispatchMode"; Williams, Waterman, Patterson, "Roofline"
(2009).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from course_utils.instruments.exclusive_use import exclusive
from course_utils.instruments.fake import one_sentence_errors
from course_utils.instruments.flop_count import operation_flops
from course_utils.instruments.memory_tracer import IGNORED_NAMESPACES
from course_utils.instruments.operands import tensors_in
from course_utils.instruments.preconditions import require_call

OTHER = "other"
"""Whose bytes are those of tensors that nobody named."""

# These allocate, give a tensor another name though their schemas do not say so, or read one number.
MOVE_NOTHING = {
    "empty",
    "new_empty",
    "empty_like",
    "empty_strided",
    "new_empty_strided",
    "detach",
    "alias",
    "lift_fresh",
    "_unsafe_view",
    "_reshape_alias",
    "_local_scalar_dense",
}
OVERWRITE = {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_"}
LOOK_UP = {"embedding", "index", "index_select", "gather"}  # in a table, their first argument


class Traffic(NamedTuple):
    """Bytes that come from memory, and bytes that go there."""

    read_bytes: int
    written_bytes: int


@dataclass(frozen=True, kw_only=True)
class Operation:
    """What one operation moves, and how much it multiplies and adds.

    Attributes:
        name: PyTorch's, such as ``mm``.
        flops: As `count_flops` counts them: those of matrix products.
        read_bytes: By whose they are.
        written_bytes: By whose they are.
    """

    name: str
    flops: int
    read_bytes: Mapping[str, int]
    written_bytes: Mapping[str, int]

    @property
    def num_bytes(self) -> int:
        """Bytes read and written."""
        return sum(self.read_bytes.values()) + sum(self.written_bytes.values())


@dataclass(frozen=True)
class MovedBytes:
    """The operations of a call that move bytes, in the order in which they ran."""

    operations: tuple[Operation, ...]

    def __repr__(self) -> str:
        """The sums, and how many operations there are."""
        count = len(self.operations)
        return (
            f"MovedBytes: {self.num_bytes:,} bytes and {self.flops:,} FLOPs, "
            f"{self.intensity:.3g} FLOP/B, in {count:,} operation{'s' * (count != 1)}"
        )

    @property
    def num_bytes(self) -> int:
        """Bytes read and written."""
        return sum(each.num_bytes for each in self.operations)

    @property
    def flops(self) -> int:
        """FLOPs of all matrix products."""
        return sum(each.flops for each in self.operations)

    @property
    def intensity(self) -> float:
        """FLOPs for each byte that is moved; zero where nothing is moved."""
        return self.flops / self.num_bytes if self.operations else 0.0

    def of(self, owner: str) -> Traffic:
        """Bytes of one owner, as `count_bytes` was told; of ``"other"`` tensors, all the rest."""
        read = sum(each.read_bytes.get(owner, 0) for each in self.operations)
        return Traffic(read, sum(each.written_bytes.get(owner, 0) for each in self.operations))


@exclusive
def count_bytes(call: Callable[[], object], **owners: Iterable[Tensor]) -> MovedBytes:
    """Bytes that each operation of ``call()`` must move, by whose they are, and its FLOPs.

    Args:
        call: Takes nothing; its result is dropped.
        owners: Tensors by the name under which their storages count, such as
            ``weights=model.parameters()``.

    Returns:
        The operations; they hold no tensor.

    Raises:
        TypeError: If ``call`` cannot be called.
        ValueError: If one storage has two owners, if an operation multiplies and adds but cannot be
            counted, if real and fake tensors meet, or if another instrument is running.
    """
    require_call("count_bytes", call)
    counter = _Counter(owners)
    with one_sentence_errors(), counter:
        call()
    return MovedBytes(tuple(counter.operations))


class _Region(NamedTuple):
    """A part of a storage as a tensor shows it."""

    storage: int
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    element_bytes: int

    @property
    def num_bytes(self) -> int:
        """Of the elements that lie apart: a stride of zero shows one element again and again."""
        elements = 1
        for size, stride in zip(self.shape, self.stride, strict=True):
            elements *= size if stride or not size else 1
        return elements * self.element_bytes


def _region(tensor: Tensor) -> _Region:
    return _Region(
        tensor.untyped_storage()._cdata,
        int(tensor.storage_offset()),
        tuple(tensor.shape),
        tensor.stride(),
        tensor.element_size(),
    )


class _Counter(TorchDispatchMode):
    """Counts each operation; keeps the owners' tensors, so that no other takes their place."""

    def __init__(self, owners: Mapping[str, Iterable[Tensor]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: list[Operation] = []
        self._kept = {name: list(tensors) for name, tensors in owners.items()}
        self._owner_of: dict[int, str] = {}
        for name, tensors in self._kept.items():
            for storage in (_region(each).storage for each in tensors):
                if self._owner_of.setdefault(storage, name) != name:
                    raise ValueError(
                        f"count_bytes: a tensor of {name!r} lies in a storage of "
                        f"{self._owner_of[storage]!r}: give each storage one owner"
                    )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        reads, writes = _moved(func, args, kwargs, result)
        if reads or writes:
            operation = Operation(
                name=func.overloadpacket.__name__,
                flops=operation_flops(func, args, kwargs, result),
                read_bytes=self._by_owner(reads),
                written_bytes=self._by_owner(writes),
            )
            self.operations.append(operation)
        return result

    def _by_owner(self, regions: dict[_Region, int]) -> Mapping[str, int]:
        num_bytes: Counter[str] = Counter()
        for region, each in regions.items():
            num_bytes[self._owner_of.get(region.storage, OTHER)] += each
        return dict(num_bytes)


def _moved(
    func: Any, args: Any, kwargs: dict[str, Any], result: Any
) -> tuple[dict[_Region, int], dict[_Region, int]]:
    """Bytes that an operation reads and writes of each region, every region once."""
    if func.namespace in IGNORED_NAMESPACES:
        return {}, {}
    name = func.overloadpacket.__name__
    reads: dict[_Region, int] = {}
    writes: dict[_Region, int] = {}
    for declared, tensor in _tensors(func, args, kwargs):
        region = _region(tensor)
        is_written = declared.alias_info is not None and declared.alias_info.is_write
        if is_written:
            writes[region] = region.num_bytes
        if not (is_written and (declared.is_out or name in OVERWRITE)):
            reads[region] = region.num_bytes
    is_view = not writes and any(each.alias_info is not None for each in func._schema.returns)
    if is_view or name in MOVE_NOTHING:
        return {}, {}
    for region in map(_region, tensors_in(result)):
        writes[region] = region.num_bytes
    if name in LOOK_UP:
        table = _region(args[0])
        reads[table] = min(reads[table], sum(writes.values()))
    return reads, writes


def _tensors(func: Any, args: Any, kwargs: dict[str, Any]) -> Iterator[tuple[Any, Tensor]]:
    """Each tensor that an operation is given, with what the schema declares of its argument."""
    for position, declared in enumerate(func._schema.arguments):
        is_positional = position < len(args) and not declared.kwarg_only
        given = args[position] if is_positional else kwargs.get(declared.name)
        yield from ((declared, each) for each in tensors_in(given))
