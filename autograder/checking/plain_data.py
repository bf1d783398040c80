"""Plain data: all that may cross between a student's code and the code that judges it.

None, booleans, integers, floats, strings, lists, tuples, dictionaries with string keys, and dense
tensors. The types must be exact, so that nothing that a student's class overrides can affect a
verdict. A message is JSON plus the tensors in safetensors form; never a pickle.

    >>> unpack(pack({"shape": (2, 3), "bytes": 12}))
    {'shape': (2, 3), 'bytes': 12}
"""

import functools
import json
import sys
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

Plain = Any
"""Plain data as above; `pack` checks it at run time."""

MAX_DEPTH = 20
MAX_ITEMS = 100_000
MAX_CHARACTERS = 1_000_000
MAX_NAME = 60  # of a class, where it is described
MAX_DIGITS = 4_000
MAX_TENSOR_BYTES = 2**24
SCALARS = (type(None), bool, float)
DICTIONARIES = (dict, Counter, OrderedDict, defaultdict)  # they all arrive as plain ones


class NotPlain(ValueError):
    """A value that may not cross; the message says what it is, to follow 'it returned'."""


class Message(NamedTuple):
    """A packed value: JSON, and the tensors that it names in safetensors form."""

    json: str
    tensors: bytes


def pack(value: object) -> Message:
    """Turn plain data into a message.

    Raises:
        NotPlain: If the value or a part of it is of another type, too deep or too large.
    """
    packer = _Packer()
    text = json.dumps(packer.encode(value, depth=0))
    if not packer.tensors:
        return Message(text, b"")
    from safetensors.torch import save  # loads torch: only if a tensor crosses

    return Message(text, save(packer.tensors))


def unpack(message: Message) -> Plain:
    """The value that `pack` was given, in new objects."""
    tensors: dict[str, torch.Tensor] = {}
    if message.tensors:
        from safetensors.torch import load

        tensors = load(message.tensors)
    return _decode(json.loads(message.json), tensors)


def copied(value: object) -> Plain:
    """What `unpack` makes of a packed value, without the message.

    Raises:
        NotPlain: As `pack`.
    """
    packer = _Packer()
    return _decode(packer.encode(value, depth=0), packer.tensors)


def key_of(case: dict[str, Plain]) -> str:
    """The JSON of a case, by which what was measured or recorded for it is found.

    Of a case that nobody changes: it is made once for each object, however often it is asked for.
    """
    return _key_of_same(_Identity(case))


@dataclass(frozen=True, eq=False)
class _Identity:
    """An object that is equal to itself alone."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


@functools.lru_cache(maxsize=1024)
def _key_of_same(case: _Identity) -> str:
    return json.dumps(_Packer().encode(case.value, depth=0))


@dataclass
class _Packer:
    tensors: dict[str, "torch.Tensor"] = field(default_factory=dict)
    items: int = 0
    tensor_bytes: int = 0

    def encode(self, value: object, depth: int) -> object:
        self._count(depth)
        kind = type(value)
        if any(kind is each for each in SCALARS):  # a metaclass may be equal to anything
            return value
        if kind.__module__ == "numpy":
            return self.encode(_python_scalar(value), depth)
        if kind is int:
            return _short_integer(value)  # type: ignore[arg-type]
        if kind is str:
            return _short_text(value)  # type: ignore[arg-type]
        if kind is list:
            return self._items(value, depth)
        if kind is tuple:
            return {"$tuple": self._items(value, depth)}
        if any(kind is each for each in DICTIONARIES):
            return {_key(key): self.encode(item, depth + 1) for key, item in value.items()}  # type: ignore[attr-defined]
        return {"$tensor": self._tensor(value)}

    def _items(self, values: Any, depth: int) -> list[object]:
        return [self.encode(item, depth + 1) for item in values]

    def _count(self, depth: int) -> None:
        self.items += 1
        if depth > MAX_DEPTH:
            raise NotPlain(f"something nested more than {MAX_DEPTH} levels deep")
        if self.items > MAX_ITEMS:
            raise NotPlain(f"more than {MAX_ITEMS:,} values")

    def _tensor(self, value: object) -> str:
        import torch

        if type(value) not in (torch.Tensor, torch.nn.Parameter):
            raise NotPlain(describe(value))
        tensor = value.detach()  # type: ignore[attr-defined]
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            raise NotPlain(f"a tensor without dense data ({tensor.layout}, {tensor.device})")
        if tensor.dtype in (torch.complex32, torch.complex128) or tensor.is_quantized:
            raise NotPlain(f"a tensor of {tensor.dtype}")
        self.tensor_bytes += tensor.numel() * tensor.element_size()
        if self.tensor_bytes > MAX_TENSOR_BYTES:
            raise NotPlain(f"more than {MAX_TENSOR_BYTES:,} bytes of tensors")
        name = str(len(self.tensors))
        self.tensors[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
        return name


def describe(value: object) -> str:
    """The type of a value in words that can follow 'it returned'."""
    kind, torch = type(value), sys.modules.get("torch")
    if value is None:
        return "None"
    if torch and kind in (torch.Tensor, torch.nn.Parameter):
        return _described_tensor(value)
    if kind.__module__.split(".")[0] in ("torch", "numpy"):
        return f"a {kind.__module__.split('.')[0]}.{kind.__name__[:MAX_NAME]}"
    name = kind.__name__[:MAX_NAME]
    return _with_article(name)


def _described_tensor(tensor: Any) -> str:
    """As in 'a float32 tensor of shape (2, 3)'; first what keeps it from holding numbers."""
    layout = str(tensor.layout).removeprefix("torch.").replace("_", " ")
    is_plain = layout == "strided" and tensor.device.type == "cpu"
    odd = "" if is_plain else f"{tensor.device.type} " if layout == "strided" else f"{layout} "
    dtype = str(tensor.dtype).removeprefix("torch.")
    return _with_article(f"{odd}{dtype} tensor of shape {tuple(tensor.shape)}")


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _python_scalar(value: object) -> object:
    """A numpy number as a Python number; only numpy's own exact types."""
    import numpy

    kinds = (numpy.int64, numpy.int32, numpy.float64, numpy.float32, numpy.bool_)
    if any(type(value) is each for each in kinds):
        return value.item()  # type: ignore[attr-defined]
    raise NotPlain(describe(value))


def _short_integer(value: int) -> int:
    if value.bit_length() > MAX_DIGITS * 3:
        raise NotPlain("an integer of thousands of digits")
    return value


def _short_text(value: str) -> str:
    if len(value) > MAX_CHARACTERS:
        raise NotPlain(f"a string of {len(value):,} characters")
    return value


def _key(key: object) -> str:
    if type(key) is not str:
        raise NotPlain(f"a dictionary with {describe(key)} as a key; keys must be strings")
    if key.startswith("$"):
        raise NotPlain(f"a dictionary with the key {key[:40]!r}; keys must not begin with '$'")
    return _short_text(key)


def _decode(value: Any, tensors: dict[str, "torch.Tensor"]) -> Plain:
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        return tensors[value["$tensor"]]
    if "$tuple" in value:
        return tuple(_decode(item, tensors) for item in value["$tuple"])
    return {key: _decode(item, tensors) for key, item in value.items()}
