"""The machines that are imitated: libraries of old and new processors, kernels, threads, sums."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A machine that is not the one that recorded what students practise with.

    Attributes:
        environment: What chooses the code paths of ATen, MKL and oneDNN, and the threads.
        seed: Of other last digits of kernels, functions and draws; None leaves them as they are.
        sums_otherwise: Whether the built-in `sum` rounds as that of another Python.
    """

    environment: dict[str, str]
    seed: int | None = None
    sums_otherwise: bool = False


def _libraries(aten: str | None, mkl: str, onednn: str, threads: int) -> dict[str, str]:
    chosen = {
        "MKL_CBWR": mkl,
        "ONEDNN_MAX_CPU_ISA": onednn,
        "OMP_NUM_THREADS": str(threads),
    }
    return chosen if aten is None else chosen | {"ATEN_CPU_CAPABILITY": aten}


OLD = _libraries("default", "COMPATIBLE", "SSE41", 1)
MIDDLE = _libraries("avx2", "AVX2", "AVX2", 2)
# MKL and oneDNN take the newest that a processor has of what they are allowed; ATen takes what it
# is told, has it or not, and by itself the newest.
NEW = _libraries(None, "AVX512", "AVX512_CORE_AMX", 4)

MACHINES = {
    "old": Machine(environment=OLD),
    "middle": Machine(environment=MIDDLE),
    "new": Machine(environment=NEW),
    "other-sums": Machine(environment=MIDDLE, sums_otherwise=True),
    "other-kernels-0": Machine(environment=OLD, seed=0, sums_otherwise=True),
    "other-kernels-1": Machine(environment=NEW, seed=1),
    "other-kernels-2": Machine(environment=MIDDLE, seed=2),
}
