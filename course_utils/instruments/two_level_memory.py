"""How many numbers does a tiled algorithm move between slow and fast memory, and how many fit?

A machine has a slow memory of any size and a small fast one. Arrays lie in slow memory, where
nothing can be computed. `load` copies a part of one into fast memory, as a tile; `store` copies a
tile back. Both are counted. Whatever is computed from tiles is a tile again, takes room in fast
memory, and is freed when nobody holds it any more.

    >>> machine = TwoLevelMemory(capacity=40)
    >>> x, y = (machine.slow(torch.ones(6, 4, dtype=torch.float64), name) for name in "xy")
    >>> for i in range(0, 6, 2):
    ...     machine.store(2 * machine.load(x[i : i + 2]), y[i : i + 2])
    >>> machine
    Machine: loaded 24 numbers, stored 24; at most 16 of 40 in fast memory, 0 there now

The unit is one number, whatever its type. Two tiles that show the same memory count once. Not seen:
what a single operation needs for a moment inside. On the meta device only sizes are followed, so
that arrays may be as long as one likes.

Sources: Hong and Kung, "I/O complexity: the red-blue pebble game" (1981); Dao et al.,
"FlashAttention" (2022), section 2.1.
"""

import weakref
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

OUTSIDE = "this array lies in slow memory: load a part of it, then compute with the tile"
OTHER_MACHINE = "this lies in the memory of another machine, and no bus joins the two"

# What would tell Python the numbers of a tile, or give it another name outside the machine.
LEAVES = {
    "tolist",
    "item",
    "numpy",
    "cpu",
    "cuda",
    "to_dlpack",
    "data_ptr",
    "untyped_storage",
    "as_subclass",
    "share_memory_",
    "storage",
    "__array__",
    "__dlpack__",
    "__float__",
    "__int__",
    "__bool__",
    "__index__",
    "__complex__",
    "__reduce_ex__",
    "__contains__",
}


class OutOfFastMemory(RuntimeError):
    """More numbers are wanted in fast memory than it holds."""


class Move(NamedTuple):
    """One load or store.

    Attributes:
        kind: ``"load"`` or ``"store"``.
        array: Name of the array in slow memory.
        rows: First row, and the one after the last; of a flat array the places in it.
        columns: The same, of columns.
        live_elements: Numbers in fast memory after it.
    """

    kind: str
    array: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    live_elements: int


class TwoLevelMemory:
    """A slow memory and a fast one, and what moves between them.

    Attributes:
        capacity: Numbers that fast memory holds; None for as many as one likes.
        loaded_elements: Numbers copied into fast memory.
        stored_elements: Numbers copied back.
        live_elements: Numbers in fast memory now.
        peak_elements: The most that ever were there at once.
        moves: Every load and store, in order.
    """

    def __init__(self, capacity: int | None = None, *, device: str = "cpu") -> None:
        """Build an empty machine; tiles made by `full` lie on its device, in float64."""
        self._capacity, self.device = capacity, device
        self._loaded_elements = self._stored_elements = 0
        self._live_elements = self._peak_elements = 0
        self._moves: list[Move] = []
        self._num_tiles: dict[int, int] = {}  # that show a storage

    def __repr__(self) -> str:
        """What was moved, and how full fast memory was and is."""
        of = "" if self.capacity is None else f" of {self.capacity:,}"
        return (
            f"Machine: loaded {self.loaded_elements:,} numbers, stored {self.stored_elements:,}; "
            f"at most {self.peak_elements:,}{of} in fast memory, {self.live_elements:,} there now"
        )

    # Read only, since programs whose moves are judged hold the machine.
    @property
    def capacity(self) -> int | None:
        """Numbers that fast memory holds; None for as many as one likes."""
        return self._capacity

    @property
    def loaded_elements(self) -> int:
        """Numbers copied into fast memory."""
        return self._loaded_elements

    @property
    def stored_elements(self) -> int:
        """Numbers copied back."""
        return self._stored_elements

    @property
    def live_elements(self) -> int:
        """Numbers in fast memory now."""
        return self._live_elements

    @property
    def peak_elements(self) -> int:
        """The most that ever were there at once."""
        return self._peak_elements

    @property
    def moves(self) -> list[Move]:
        """Every load and store, in order."""
        return [*self._moves]

    @property
    def traffic_elements(self) -> int:
        """Numbers loaded and stored."""
        return self.loaded_elements + self.stored_elements

    def slow(self, data: Tensor, name: str = "") -> "SlowArray":
        """Put a tensor into slow memory; stores write into the tensor itself."""
        return SlowArray(self, data, data, name)

    def load(self, array: "SlowArray") -> "Tile":
        """Copy an array, or a part of one, into fast memory.

        Raises:
            ValueError: If it is not an array in slow memory.
            OutOfFastMemory: If there is no room for it.
        """
        if not isinstance(array, SlowArray):
            raise ValueError(f"load wants an array in slow memory, got {type(array).__name__}")
        self._require_own(array)
        data = _data(array)
        self._loaded_elements += data.numel()
        tile: Tile = self._adopt(data.clone(memory_format=torch.contiguous_format))
        self._moves.append(Move("load", *_place(array), self.live_elements))
        return tile

    def store(self, tile: "Tile", array: "SlowArray") -> None:
        """Copy a tile into an array, or a part of one, of the same shape.

        Raises:
            ValueError: If it is no tile, the other no array, or their shapes differ.
        """
        if not isinstance(tile, Tile) or not isinstance(array, SlowArray):
            given = f"{type(tile).__name__} and {type(array).__name__}"
            raise ValueError(f"store wants a tile and an array in slow memory, got {given}")
        if tuple(tile.shape) != array.shape:
            shapes = f"a tile of {tuple(tile.shape)} does not fit an array of {array.shape}"
            raise ValueError(f"store: {shapes}")
        self._require_own(array, tile)
        self._stored_elements += tile.numel()
        with torch._C.DisableTorchFunctionSubclass():
            _data(array).copy_(tile)
        self._moves.append(Move("store", *_place(array), self.live_elements))

    def _require_own(self, array: "SlowArray", *tiles: "Tile") -> None:
        """Refuse what lies in the memories of another machine."""
        machines = [object.__getattribute__(array, "_SlowArray__machine")]
        machines += [tile._machine for tile in tiles]
        if any(machine is not self for machine in machines):
            raise ValueError(OTHER_MACHINE)

    def full(self, shape: tuple[int, ...], value: float) -> "Tile":
        """A tile of one value, made in fast memory: nothing is moved."""
        made = torch.full(shape, value, dtype=torch.float64, device=self.device)
        tile: Tile = self._adopt(made)
        return tile

    def arange(self, start: int, stop: int) -> "Tile":
        """A tile of whole numbers from start up to stop, made in fast memory."""
        tile: Tile = self._adopt(torch.arange(start, stop, device=self.device))
        return tile

    def _adopt(self, result: Any) -> Any:
        """A new tensor as a tile; its storage takes room if no other tile shows it."""
        if isinstance(result, Tile) and result._machine is self:  # changed in place
            return result
        with torch._C.DisableTorchFunctionSubclass():
            tile = Tile(result.as_subclass(Tensor), self)
            storage = tile.untyped_storage()
            key, size = storage._cdata, storage.nbytes() // tile.element_size()
        self._num_tiles[key] = self._num_tiles.get(key, 0) + 1
        if self._num_tiles[key] == 1:
            self._live_elements += size
        weakref.finalize(tile, self._forget, key, size).atexit = False
        if self.capacity is not None and self.live_elements > self.capacity:
            raise OutOfFastMemory(
                f"fast memory holds {self.capacity:,} numbers, but {self.live_elements:,} are "
                f"needed now, with a new tile of {tuple(tile.shape)}"
            )
        self._peak_elements = max(self.peak_elements, self.live_elements)
        return tile

    def _forget(self, key: int, size: int) -> None:
        self._num_tiles[key] -= 1
        if not self._num_tiles[key]:
            del self._num_tiles[key]
            self._live_elements -= size


class Tile(Tensor):
    """A tensor in fast memory; what is computed from tiles is a tile."""

    _machine: TwoLevelMemory

    @property
    def machine(self) -> TwoLevelMemory:
        """The machine in whose fast memory it lies."""
        return self._machine

    @staticmethod
    def __new__(cls, data: Tensor, machine: TwoLevelMemory) -> "Tile":
        """Show the same memory as ``data``."""
        tile = Tensor._make_subclass(cls, data)
        tile._machine = machine
        return tile

    def __init__(self, data: Tensor, machine: TwoLevelMemory) -> None:
        """Nothing is left to do."""

    def __repr__(self, **_: Any) -> str:  # type: ignore[override]
        """Its shape: the numbers stay inside."""
        return f"<tile of {tuple(self.shape)} in fast memory>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Its shape."""
        return repr(self)

    def __iter__(self) -> Iterator[Any]:
        """Its rows, which are tiles."""
        return iter(self.unbind(0))

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Compute with tiles, and with nothing else; results are tiles."""
        leaves = tree_leaves((args, kwargs))
        name = getattr(func, "__name__", "")
        if name in LEAVES:
            # A TypeError would be taken for "this type cannot add", and hidden.
            raise ValueError(
                f"`{name.strip('_')}` takes numbers out of fast memory uncounted: store the tile, "
                f"and let sizes alone decide what your program does"
            )
        for leaf in leaves:
            if isinstance(leaf, SlowArray):
                raise ValueError(OUTSIDE)
            if isinstance(leaf, Tensor) and not isinstance(leaf, Tile) and leaf.dim() > 0:
                raise ValueError(
                    f"`{name.strip('_')}` meets a tensor of {tuple(leaf.shape)} that lies in no "
                    f"memory of the machine: make it with machine.full or machine.arange"
                )
        machine, *others = (leaf._machine for leaf in leaves if isinstance(leaf, Tile))
        if any(other is not machine for other in others):
            raise ValueError(OTHER_MACHINE)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            return machine._adopt(result)
        if isinstance(result, torch.Size):
            return result
        return tree_map(lambda each: machine._adopt(each) if _is_tensor(each) else each, result)


def _is_tensor(value: object) -> bool:
    return isinstance(value, Tensor)


class SlowArray:
    """An array in slow memory. It can be cut into parts, not computed with."""

    __slots__ = ("__base", "__data", "__machine", "__name")
    __array_priority__: ClassVar[int] = 1000

    def __init__(self, machine: TwoLevelMemory, data: Tensor, base: Tensor, name: str) -> None:
        self.__machine, self.__data, self.__base, self.__name = machine, data, base, name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sides."""
        return tuple(self.__data.shape)

    @property
    def mT(self) -> "SlowArray":
        """The same array with rows and columns exchanged."""
        return SlowArray(self.__machine, self.__data.mT, self.__base, self.__name)

    T = mT

    def __len__(self) -> int:
        """Rows."""
        return len(self.__data)

    def __getitem__(self, index: Any) -> "SlowArray":
        """A part of it, which still lies in slow memory."""
        return SlowArray(self.__machine, self.__data[index], self.__base, self.__name)

    def __repr__(self) -> str:
        """Its shape: the numbers have to be loaded."""
        return f"<array {self.__name or '?'} of {self.shape} in slow memory>"

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse whatever a tensor has beside this.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(f"{name}: {OUTSIDE}")

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(OUTSIDE)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse
    __rtruediv__ = __matmul__ = __rmatmul__ = __pow__ = __neg__ = __float__ = __bool__ = _refuse
    __array__ = __iter__ = __lt__ = __gt__ = _refuse

    @classmethod
    def __torch_function__(cls, *_: Any, **__: Any) -> NoReturn:
        """Refuse every function of torch.

        Raises:
            ValueError: Always.
        """
        raise ValueError(OUTSIDE)


def _data(array: SlowArray) -> Tensor:
    data: Tensor = object.__getattribute__(array, "_SlowArray__data")
    return data


def _place(array: SlowArray) -> tuple[str, tuple[int, int], tuple[int, int]]:
    """Name of the whole array, and the rows and columns of it that a part covers."""
    data, name = _data(array), str(object.__getattribute__(array, "_SlowArray__name"))
    base: Tensor = object.__getattribute__(array, "_SlowArray__base")
    if not data.numel():
        return name, (0, 0), (0, 0)
    width = base.shape[-1] if base.dim() > 1 else 1
    first = int(data.storage_offset() - base.storage_offset())
    steps = ((side - 1) * step for side, step in zip(data.shape, data.stride(), strict=True))
    last = first + sum(steps)
    return name, (first // width, last // width + 1), (first % width, last % width + 1)
