"""Attacks on each wall around what is judged: what would answer, what judges, what is not seen.

Those in `NO_RESULT` earn nothing. Those in `RESOURCES` report less work than they did: each is
right in its results, and its points are all that falsifying what stands beside it can gain.
"""

import textwrap
from dataclasses import dataclass

from autograder import catalogue


@dataclass(frozen=True)
class Attack:
    """One hostile cell: what it does, its exercise and code, and the points that it earns."""

    name: str
    exercise: str
    code: str
    earns: float = 0.0

    @property
    def source(self) -> str:
        """The cell."""
        return textwrap.dedent(self.code).strip()


def unit_of(exercise: str) -> str:
    """The folder of an exercise's unit."""
    return next(u.folder for u in catalogue.units() if exercise[1:3] == u.number)


HIDDEN = """
import importlib
def taken(name):
    module, _, part = name[::-1].rpartition(".")
    return getattr(importlib.import_module(module), part)
"""
# What observes every answer, found as a class of the process.
FORGE = """
names = {c.__name__: c for c in object.__subclasses__()}
process = names["StudentProcess"]
true = process._observed
"""

SIBLINGS = [
    Attack(
        "two rounds of the course's ring",
        "u09-ring",
        HIDDEN
        + """
def ring_all_reduce(comm, tensor):
    exchange = taken("egnahcxe_.gnir.ecnerefer.slitu_esruoc")
    parts = tensor.flatten().tensor_split(comm.size)
    for step in range(comm.size - 1):
        mine, theirs = exchange(comm, parts, comm.rank - step)
        mine += theirs
    for step in range(comm.size - 1):
        mine, theirs = exchange(comm, parts, comm.rank + 1 - step)
        mine.copy_(theirs)
""",
    ),
    Attack(
        "the fallback of another unit's exercise",
        "u10-overlap",
        HIDDEN + 'exposed_by_kind = taken("dnik_yb_desopxe.ecart_pets.ecnerefer.slitu_esruoc")',
    ),
    Attack(
        "the fallback of this exercise",
        "u09-read-step",
        HIDDEN
        + """
def read_step(events):
    return taken("pets_daer.ecart_pets.ecnerefer.slitu_esruoc")(events)
""",
    ),
    Attack(
        "a given tool that holds the answer",
        "u13-cached-step",
        HIDDEN
        + """
def decode_attention(*arguments):
    return taken("noitnetta_edoced.kcolb_dehcac.ecnerefer.slitu_esruoc")(*arguments)
""",
    ),
    Attack(
        "the naive version that another cell shows",
        "u10-prefetch",
        HIDDEN
        + """
def prefetched_step(*arguments):
    return taken("pets_gnitiaw.gnidrahs_evian.ecnerefer.slitu_esruoc")(*arguments)
""",
    ),
    Attack(
        "a formula measured on the course's model by the course's instrument",
        "u04-peak",
        HIDDEN
        + """
def peaks(model, num_params, kept_bytes, num_tokens, temporary_bytes):
    training = taken("gniniarT.gniniart.ecnerefer.slitu_esruoc")(model)
    trace = taken("yromem_ecart.recart_yromem.stnemurtsni.slitu_esruoc")(training.step)
    return {name: trace.peak_bytes for name in ("loss", "backward", "step")}
""",
    ),
]
OF_TORCH = [
    Attack(
        "torch's checkpoint out of a list",
        "u05-checkpoint",
        """
import importlib
found = [vars(importlib.import_module("torch.utils." + "check" + "point"))["check" + "point"]]
def checkpoint(function, *tensors):
    return found[0](function, *tensors, use_reentrant=True)
""",
    ),
    Attack(
        "torch's own schedule of a pipeline",
        "u12-one-f-one-b",
        """
import importlib
held = [importlib.import_module("torch.distributed.pipe" + "lining.schedules")]
def one_forward_one_backward(num_stages, num_micro_batches):
    made = vars(held[0])["_get_1f1b_rank_ops"]
    rows = [
        made(1, num_stages, num_stages - 1 - s, num_micro_batches, 1, s) for s in range(num_stages)
    ]
    return [[(str(a.computation_type), a.microbatch_index, 0) for a in row if a] for row in rows]
""",
    ),
    Attack(
        "FLOPs counted by torch",
        "u01-matmul-flops",
        """
import importlib, torch
def matmul_flops(*sizes):
    module = importlib.import_module("torch.utils.flop" + "_counter")
    counter = module.FlopCounterMode(display=False)
    with counter: torch.ones(sizes[0], sizes[1]) @ torch.ones(sizes[1], sizes[2])
    return counter.get_total_flops()
""",
    ),
]
STRINGS = [
    Attack(
        f"{how} lends frames, and replies are set",
        "u00-tensor-bytes",
        f"""
import sys
def reach():
    frame = sys._getframe()
    while frame:
        for held in frame.f_locals.values():
            if type(held).__name__ == "StudentProcess":
                type(held)._observed = lambda *a, **k: {{"value": 0, "printed_characters": 0}}
        frame = frame.f_back
def tensor_bytes(shape, element_bytes):
    {code}
    return -1
""",
    )
    for how, code in (
        (
            "`typing.get_type_hints`",
            "import typing; reach.__annotations__ = {'x': 'reach() or int'}; "
            "typing.get_type_hints(reach)",
        ),
        ("`numpy.testing.measure`", "import numpy; numpy.testing.measure('reach()')"),
        (
            "pandas' `Scope`",
            "from pandas.core.computation.scope import Scope; Scope(1); reach()",
        ),
    )
]
HANDED_OUT = [
    Attack(
        "the plan read from what is handed out",
        "u14-plan",
        """
def best_plan(model, num_sequences, machine, costs):
    fits = {key: row[1] for key, row in costs.table.items() if row[0] <= machine.memory_bytes}
    names = ("data", "tensor", "pipeline", "zero_stage", "micro_batch", "is_recomputed")
    return Plan(**dict(zip(names, map(int, min(fits, key=fits.get).split(".")), strict=True)))
""",
    )
]
UNSEEN = [
    Attack(
        "weights made by NumPy in the memory of torch",
        "u02-fuse",
        """
import numpy
def attention_weights(scores, bias, scale):
    out = scores * scale
    x = out.numpy()
    x += bias.numpy()
    x -= x.max(-1, keepdims=True)
    numpy.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return out
""",
    ),
    Attack(
        "a softmax of Python's numbers",
        "u06-online",
        """
import math
def online_softmax(blocks):
    s, v = zip(*((a.tolist(), b.tolist()) for a, b in blocks))
    rows = [sum((block[r] for block in s), []) for r in range(len(s[0]))]
    values = [row for block in v for row in block]
    scores, v = torch.tensor(rows).double(), torch.tensor(values).double()
    has_keys = (scores > -torch.inf).any(1, keepdim=True)
    out = torch.where(has_keys, scores, 0.0).softmax(1) @ v * has_keys
    return out, scores.logsumexp(1)
""",
    ),
    Attack(
        "a softmax in a thread",
        "u06-online",
        """
import threading
def online_softmax(blocks):
    pairs, done = [*blocks], []
    def work():
        s, v = torch.cat([a for a, _ in pairs], 1), torch.cat([b for _, b in pairs])
        has_keys = (s > -torch.inf).any(1, keepdim=True)
        done.append((torch.where(has_keys, s, 0.0).softmax(1) @ v * has_keys, s.logsumexp(1)))
    one = threading.Thread(target=work)
    one.start()
    one.join()
    return done[0]
""",
    ),
    Attack(
        "nothing loaded into fast memory",
        "u06-forward",
        """
def flash_forward(machine, arrays, block_q, block_k):
    q, k, v, out, lse = (object.__getattribute__(a, "_SlowArray__data") for a in arrays)
    s = q @ k.mT * q.shape[1] ** -0.5
    out.copy_(s.softmax(1) @ v)
    lse.copy_(s.logsumexp(1))
""",
    ),
    Attack(
        "numbers handed from rank to rank by a global name",
        "u10-hybrid",
        """
held = {}
def hybrid_sum(comm, gradient, node_size):
    held[comm.rank] = gradient.clone()
    comm.all_reduce(torch.zeros(1, dtype=gradient.dtype))
    whole = sum(held[rank] for rank in range(comm.size))
    comm.all_reduce(torch.zeros(1, dtype=gradient.dtype))
    return whole.chunk(node_size)[comm.rank % node_size].clone()
""",
    ),
]
RESOURCES = [
    Attack(
        "the observation changed where it is made",
        "u03-fused-gate",
        FORGE
        + """
def forged(self, *arguments):
    made = true(self, *arguments)
    value = made["value"]
    return made | {"value": value | {"saved": value["given"], "left_bytes": value["returned"][1]}}
process._observed = forged
def gate(g, u):
    return F.silu(g) * u
""",
        earns=2.0,
    ),
    Attack(
        "work on the memory of a tensor, by its address",
        "u02-fuse",
        """
import ctypes, numpy
def attention_weights(scores, bias, scale):
    out = torch.add(bias, scores, alpha=scale).contiguous()
    kind = ctypes.c_double * out.numel()
    x = numpy.frombuffer(kind.from_address(out.data_ptr())).reshape(out.shape)
    x -= x.max(-1, keepdims=True)
    numpy.exp(x, out=x)
    x /= x.sum(-1, keepdims=True)
    return out
""",
        earns=1.5,
    ),
]
NO_RESULT = [*SIBLINGS, *OF_TORCH, *STRINGS, *HANDED_OUT, *UNSEEN]
EVERY = [*NO_RESULT, *RESOURCES]
