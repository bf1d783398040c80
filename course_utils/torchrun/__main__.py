"""Run the functions of unit 09, 10, 11 or 12 on real ranks, and compare them with one rank.

    torchrun --standalone --nproc-per-node 2 -m course_utils.torchrun 09

`docs/torchrun.md` leads through it.
"""

import argparse
import ast
import datetime
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from course_utils.torchrun.real_comm import RealComm
from course_utils.torchrun.trials import COURSE_FUNCTIONS, NUM_MICRO_BATCHES, TRIALS, Pairs, Sizes

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
NO_NCCL = (
    "torch has no NCCL here, which needs NVIDIA GPUs, Linux and a CUDA build of torch: "
    'use the backend "gloo"'
)
DTYPES = {"float64": torch.float64, "float32": torch.float32}
DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
DIFFERS, REFUSED = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as one rank: 0 if all is as on one rank, 1 if not, 2 if it cannot start."""
    asked = _parsed(arguments)
    try:
        own = functions_of(asked.own) if asked.own else {}
        comm = join(asked.backend, asked.limit_seconds)
        sizes = Sizes(asked.rows, asked.width, DTYPES[asked.dtype], comm.device)
        require_divisible(sizes, comm.size)
    except ValueError as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(error, file=sys.stderr)
        return REFUSED
    worst = 0.0
    for trial, names in TRIALS[asked.unit].items():
        functions = {name: own.get(name, COURSE_FUNCTIONS[name]) for name in names}
        trial(comm, functions, sizes)  # connects the ranks, which takes time
        comm.barrier()
        comm.sent_bytes, start = 0, time.perf_counter()
        found = difference(trial(comm, functions, sizes))
        of_all = comm.gathered(comm.sent_bytes, time.perf_counter() - start, found)
        worst = max(worst, *(each for *_, each in of_all))
        if comm.rank == 0:
            whose = ", ".join(f"{name} ({_owner(name, own)})" for name in names)
            print(f"\n{trial.__doc__} {whose}\n{'rank':>6}{'bytes sent':>16}{'seconds':>10}  error")
            for rank, (sent_bytes, seconds, each) in enumerate(of_all):
                print(f"{rank:>6}{int(sent_bytes):>16,}{seconds:>10.4f}  {each:.1e}")
    allowed = allowed_difference(sizes, comm.size)
    is_equal = worst <= allowed
    if comm.rank == 0:
        verdict = "As" if is_equal else "NOT as"
        print(f"\n{verdict} on one rank; adding in another order may change {allowed:.1e}.")
    dist.destroy_process_group()
    return 0 if is_equal else DIFFERS


def _owner(name: str, own: dict[str, Any]) -> str:
    return "yours" if name in own else "the course’s"


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="course_utils.torchrun", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("unit", choices=TRIALS, help="whose functions to run")
    parser.add_argument("--own", type=Path, help="your notebook: your functions, where written")
    parser.add_argument("--backend", choices=["nccl", "gloo"], help="nccl where there are GPUs")
    parser.add_argument("--rows", type=int, default=64, help="of the batch, or tokens")
    parser.add_argument("--width", type=int, default=64, help="numbers in a row")
    parser.add_argument("--dtype", choices=DTYPES, default="float64")
    parser.add_argument("--limit-seconds", type=float, default=60.0, help="for one call")
    return parser.parse_args(arguments)


def join(backend: str | None, limit_seconds: float) -> RealComm:
    """The group of all ranks that torchrun has started, seen from this process.

    Raises:
        ValueError: If torchrun did not start this process, if there is no NCCL here, or no GPU for
            this rank.
    """
    if missing := [name for name in VARIABLES if name not in os.environ]:
        raise ValueError(
            f"Each rank reads {', '.join(VARIABLES)} from its environment, where torchrun sets "
            f"them. Missing: {', '.join(missing)}. Start it with "
            f"`torchrun --standalone --nproc-per-node 2 -m course_utils.torchrun 09`."
        )
    has_gpus = dist.is_nccl_available() and torch.cuda.is_available()
    backend = backend or ("nccl" if has_gpus else "gloo")
    if backend == "nccl":
        if not has_gpus:
            raise ValueError(NO_NCCL)
        num_gpus, num_ranks = torch.cuda.device_count(), int(os.environ["LOCAL_WORLD_SIZE"])
        if num_ranks > num_gpus:
            raise ValueError(
                f"With NCCL each rank has a GPU of its own: {num_ranks} ranks were started on a "
                f"machine with {num_gpus}. Give `--nproc-per-node {num_gpus}`, or `--backend gloo`."
            )
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=limit_seconds))
    return RealComm("cuda" if backend == "nccl" else "cpu")


def require_divisible(sizes: Sizes, num_ranks: int) -> None:
    """Refuse sizes that ranks and micro-batches cannot share equally.

    Raises:
        ValueError: If they cannot.
    """
    multiple = math.lcm(num_ranks, NUM_MICRO_BATCHES)
    for name, size in (("rows", sizes.rows), ("width", sizes.width)):
        if size < 1 or size % multiple:
            raise ValueError(
                f"`--{name}` must be a multiple of {multiple}, for {num_ranks} ranks and "
                f"{NUM_MICRO_BATCHES} micro-batches, and {size} came: give "
                f"`--{name} {multiple * max(1, round(size / multiple))}`."
            )


def functions_of(notebook: Path) -> dict[str, Any]:
    """Functions and classes that a notebook defines and has written.

    Of its code only imports, definitions and values that call nothing are run: what it prints,
    draws, checks or measures is not.

    Raises:
        ValueError: If the file is no notebook, or if an import or definition fails.
    """
    namespace: dict[str, Any] = {"__name__": notebook.stem}
    own = {}
    try:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        for cell in (each for each in cells if each["cell_type"] == "code"):
            for statement in _statements("".join(cell["source"])):
                code = ast.unparse(statement)
                with suppress(NameError):  # of a value that was computed
                    exec(compile(code, str(notebook), "exec"), namespace)
                if isinstance(statement, ast.FunctionDef | ast.ClassDef):
                    own[statement.name] = namespace.get(statement.name)
                    if "NotImplementedError" in code:
                        del own[statement.name]
    except Exception as error:
        raise ValueError(
            f"--own wants a notebook of yours whose imports and definitions run, and of {notebook} "
            f"they end with {type(error).__name__}: {error}."
        ) from error
    return own


def _statements(source: str) -> list[ast.stmt]:
    """What a cell defines; a cell with IPython's own commands defines nothing."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return []
    return [
        each for each in statements
        if isinstance(each, DEFINITIONS)
        or (isinstance(each, ast.Assign | ast.AnnAssign)
        and not any(isinstance(node, ast.Call) for node in ast.walk(each)))
    ]  # fmt: skip


def difference(pairs: Pairs) -> float:
    """The largest difference, in multiples of the largest number wanted; infinite for a NaN."""
    worst = 0.0
    for got, wanted in pairs:
        if got.shape != wanted.shape:
            return math.inf
        found = float((got - wanted).abs().max() / wanted.abs().max())
        worst = max(worst, math.inf if math.isnan(found) else found)
    return worst


def allowed_difference(sizes: Sizes, num_ranks: int) -> float:
    """How far rounding can move a result when ranks add the same terms in another order.

    A sum of n terms moves by some √n roundings, and products stand one after the other, forward and
    backward. What a function forgets is a term of n, larger by many orders.
    """
    longest_sum, num_products = max(sizes.rows, 2 * sizes.width), 4 * max(4, num_ranks)
    return float(8 * longest_sum**0.5 * num_products * torch.finfo(sizes.dtype).eps)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own end stops threads of torch in an order that aborts some runs after all was said.
    os._exit(code)
