"""Check of a flat shard: the part of each rank, the whole, and what stays in memory."""

import random
from typing import Any

import torch

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.exercises.model_answers import Edit, edited
from autograder.observing import replay
from autograder.observing.u10 import flat

FIELDS = ("num_ranks", "shapes", "dtype")


def flat_cases(seed: int) -> list[Case]:
    """Whole parts and ragged ones, fewer numbers than ranks, one rank; two dtypes."""
    rng = random.Random(seed)
    cases: list[tuple[int, list[list[int]], str]] = [(4, [[3, 4], [3]], "float64")]
    for number in range(10):
        ranks = 2 + number % 4
        rows = [[rng.randint(1, 4), rng.randint(2, 5)] for _ in range(rng.randint(1, 3))]
        rest = ranks * 40 - sum(a * b for a, b in rows)
        cases.append((ranks, [*rows, [rest - (number % 2) * rng.randint(1, ranks - 1)]], "float64"))
    for _ in range(3):
        ranks = rng.randint(3, 6)
        cases.append((ranks, [[rng.randint(1, ranks - 2)], []], "float64"))
        cases.append((ranks, [[2, 2], [ranks, rng.randint(2, 9)], [1, 1, 2]], "float32"))
    cases += [(1, [[rng.randint(1, 5), 3], [2]], dtype) for dtype in ("float64", "float32")]
    cases.append((3, [[2, 3], [rng.randint(2, 9)]], "float32"))
    return [dict(zip(FIELDS, each, strict=True)) for each in cases]


def measured(**case: Any) -> dict[str, Any]:
    """Parts cut from the padded row of all numbers, and wholes pieced together by hand."""
    tensors = flat.tensors_of(case)
    numbers = [number for each in tensors for number in each.flatten().tolist()]
    while len(numbers) % case["num_ranks"]:
        numbers.append(0.0)
    row = torch.tensor(numbers, dtype=tensors[0].dtype)
    parts = list(row.tensor_split(case["num_ranks"]))
    later = torch.cat([each + rank + 1 for rank, each in enumerate(parts)])
    pieces = later[: sum(each.numel() for each in tensors)].split([e.numel() for e in tensors])
    return {
        "forged_calls": 0,
        "length": len(parts[0]),
        "length_on_last": len(parts[0]),
        "calls": 2,
        "sent_bytes": 2 * (row.nbytes - parts[0].nbytes),
        "dimensions": 1,
        "wrong_parts": 0,
        "wrong_wholes": 0,
        "stale_wholes": 0,
        "kept_bytes": parts[0].nbytes,
        "parts": parts,
        "whole": tensors,
        "changed": [piece.view_as(each) for piece, each in zip(pieces, tensors, strict=True)],
    }


LENGTH = "length = -(-len(flat) // comm.size)"
PADDED = "flat = pad(flat, (0, length * comm.size - len(flat)))"
CUT = "flat[comm.rank * length : (comm.rank + 1) * length].clone()"
GATHER = "self.comm.all_gather(flat, self.part)"
EMPTY = "self.part.new_empty(len(self.part) * self.comm.size)"
LOST = "The last numbers belong to nobody where the ranks do not divide them. Who owns them?"
EDITS = (
    Edit(
        LOST,
        {LENGTH: "length = len(flat) // comm.size"},
        shows=("length",),
    ),
    Edit(
        LOST,
        {
            LENGTH: "length = len(flat) // comm.size",
            PADDED: "flat = flat[: length * comm.size]",
            "flat[: sum(sizes)].split(sizes)": "pad(flat, (0, sum(sizes) - len(flat)))"
            ".split(sizes)",
        },
    ),
    Edit(
        "Where the ranks divide the numbers your parts are one longer. How much padding does "
        "twelve on four need?",
        {LENGTH: "length = len(flat) // comm.size + 1"},
    ),
    Edit(
        "The padding is not zero. What does memory hold that nobody has filled?",
        {PADDED: "flat = pad(flat, (0, length * comm.size - len(flat)), value=1.0)"},
        shows=("wrong_parts",),
    ),
    Edit(
        "Your part keeps all numbers in memory. Whose storage is behind a slice?",
        {CUT: CUT.replace(".clone()", "")},
        shows=("kept_bytes",),
    ),
    Edit(
        "Beside the part something else of the tensors stays in memory. Which attribute holds it?",
        {"self.part = ": "self.flat = flat\n        self.part = "},
        shows=("kept_bytes",),
    ),
    Edit(
        "Beside the part something else of the tensors stays in memory. Which attribute holds it?",
        {
            "[each.shape for each in tensors]": "[each.shape for each in tensors]\n"
            "        self.tensors = tensors"
        },
        shows=("kept_bytes",),
    ),
    Edit(
        "Parts change, and the whole does not. From which numbers do you make it?",
        {
            GATHER: "self.kept = vars(self).get('kept', self.part.clone())\n"
            "        self.comm.all_gather(flat, self.kept)"
        },
        shows=("stale_wholes",),
    ),
    Edit(
        "The whole is gathered once and then remembered. Who has changed its part meanwhile?",
        {
            GATHER: f"if 'kept' in vars(self):\n            return self.kept\n        {GATHER}",
            "        return [piece.view(shape)": "        self.kept = [piece.view(shape)",
            "strict=True)]": "strict=True)]\n        return self.kept",
        },
        shows=("calls",),
    ),
    Edit(
        "All ranks have the same part. Who tells a rank which one is its own?",
        {CUT: "flat[:length].clone()"},
    ),
    Edit(
        "Parts go to the ranks in turn, number by number. Which numbers does a gather put side by "
        "side?",
        {CUT: "flat[comm.rank :: comm.size].clone()"},
    ),
    Edit(
        "Each tensor is padded by itself. How many numbers of padding does one row of all need?",
        {
            "[each.flatten() for each in tensors]": "[pad(each.flatten(), (0, -each.numel() % "
            "comm.size)) for each in tensors]",
        },
    ),
    Edit(
        "The whole comes back flat. What did each tensor look like before?",
        {"[piece.view(shape) for": "[piece for"},
        shows=("wrong_wholes",),
    ),
    Edit(
        "The whole is a sum over ranks, made with zeros. Which call moves each part once?",
        {
            EMPTY: "self.part.new_zeros(len(self.part) * self.comm.size)",
            GATHER: "flat.chunk(self.comm.size)[self.comm.rank].copy_(self.part)\n"
            "        self.comm.all_reduce(flat)",
        },
        shows=(),
    ),
    Edit(
        "Your gathered tensor is float32, whatever the parts are. In which precision are they?",
        {
            EMPTY: "torch.empty(len(self.part) * self.comm.size)",
            GATHER: "self.comm.all_gather(flat, self.part.float())",
        },
        shows=(),
    ),
)

CHECK = Check(
    cases=flat_cases,
    observe=flat.observe,
    judge=Behaviour(
        measured,
        *edited("u10-flat", EDITS, observe=flat.observe),
        summarise=flat.summarise,
        questions={
            "calls": "One gather for each whole, and none before. Which calls do you make?",
            "wrong_parts": "Which numbers does this rank own, and what stands behind the last?",
            "kept_bytes": "A rank keeps its part and nothing else. What still holds the rest?",
        },
        labels=replay.LABELS
        | {
            "calls": "calls in two wholes",
            "sent_bytes": "bytes that rank 0 sends",
            "length": "numbers in the part of rank 0",
            "length_on_last": "numbers in the part of the last rank",
            "dimensions": "dimensions of a part",
            "wrong_parts": "ranks with a wrong part",
            "wrong_wholes": "wrong tensors in the whole",
            "stale_wholes": "wrong tensors in the whole, after each rank has changed its part",
            "kept_bytes": "bytes that a rank keeps",
        },
    ),
    fallback="course_utils.reference.sharding.FlatShard",
    answers=("course_utils.reference.sharding",),
)
