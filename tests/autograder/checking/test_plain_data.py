"""Plain data crosses unchanged; everything else is refused."""

import math
from collections import Counter, OrderedDict, defaultdict

import numpy as np
import pytest
import torch

from autograder.checking import plain_data
from autograder.checking.plain_data import NotPlain, copied, key_of, pack, unpack


@pytest.fixture(params=["as a message", "in one process"])
def cross(request):
    return copied if request.param == "in one process" else lambda value: unpack(pack(value))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        7,
        -(10**30),
        0.1,
        "naïve",
        [1, [2.0, "x"]],
        (1, (2, 3)),
        {"a": {"b": (1,)}, "c": []},
    ],
    ids=repr,
)
def test_plain_data_comes_back_unchanged(cross, value):
    back = cross(value)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("value", [np.int64(3), np.float32(0.5), np.bool_(True)], ids=repr)
def test_numpy_numbers_become_python_numbers(cross, value):
    back = cross(value)
    assert back == value
    assert type(back) in (int, float, bool)


def test_nan_and_infinity_cross(cross):
    nan, infinite = cross([math.nan, math.inf])
    assert math.isnan(nan)
    assert infinite == math.inf


def test_tensors_cross_as_copies_of_the_same_bits(cross):
    tensor = torch.randn(3, 4, dtype=torch.bfloat16).t()
    back = cross({"w": tensor, "again": [tensor]})
    assert torch.equal(back["w"], tensor)
    assert torch.equal(back["again"][0], tensor)
    assert back["w"].data_ptr() != tensor.data_ptr()


class Liar(int):
    """An integer that equals everything."""

    def __eq__(self, other):
        return True

    __hash__ = int.__hash__


class LyingTensor(torch.Tensor):
    """A tensor class that a student wrote."""


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Liar(3), "a Liar"),
        (object(), "an object"),
        ({1, 2}, "a set"),
        (np.ones(3), "a numpy.ndarray"),
        (np.int64, "a type"),
        (3 + 4j, "a complex"),
        (lambda: 3, "a function"),
        (LyingTensor([1.0]), "a LyingTensor"),
        (torch.empty(2, device="meta"), "without dense data"),
        (torch.eye(2).to_sparse(), "without dense data"),
        ({1: 2}, "with an int as a key"),
        ({"$tensor": "0"}, "must not begin with '$'"),
        (nested(30), "levels deep"),
        ([0] * 200_000, "more than 100,000 values"),
        ("x" * 2_000_000, "a string of 2,000,000 characters"),
        (10**9000, "thousands of digits"),
        (torch.empty(2**26), None),
    ],
    ids=lambda part: str(type(part).__name__),
)
def test_everything_else_is_refused_in_words(value, words):
    if words is None:
        value, words = [value, value], "bytes of tensors"
    with pytest.raises(NotPlain) as refusal:
        pack(value)
    assert words in str(refusal.value)


def test_a_message_holds_no_pickle():
    message = pack({"t": torch.ones(2)})
    assert message.json.startswith("{")
    assert b"torch" not in message.tensors
    assert plain_data.Message._fields == ("json", "tensors")


@pytest.mark.parametrize(
    "kind", [dict, Counter, OrderedDict, lambda pairs: defaultdict(int, pairs)]
)
def test_dictionaries_of_the_standard_library_arrive_as_plain_ones(cross, kind):
    arrived = cross(kind({"bytes": 12}))
    assert type(arrived) is dict
    assert arrived == {"bytes": 12}


def test_the_key_of_a_case_is_its_json():
    case, tensor = {"rows": 2, "shape": (1, 2)}, {"mask": torch.ones(2)}
    for _ in range(2):
        assert key_of(case) == pack(case).json == key_of(dict(case))
        assert key_of(tensor) == pack(tensor).json


def test_what_no_message_can_hold_does_not_cross_at_all():
    for make in (pack, copied):
        with pytest.raises(NotPlain, match="complex128"):
            make(torch.zeros(2, dtype=torch.complex128))
