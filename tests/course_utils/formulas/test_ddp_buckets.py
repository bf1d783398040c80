"""Predicted buckets against what PyTorch's DDP logs on real processes, and against a pencil."""

import pytest

from course_utils.distributed import run_ranks
from course_utils.distributed.ddp_log import logged_buckets
from course_utils.formulas.ddp_buckets import ddp_buckets

MIB = 2**20


# Parameters of 48, 96 and 64 bytes that arrive in reverse, limits 40 and 100. In the order of
# arrival: 64 >= 40 | 96, 96 + 48 >= 100. In the order of definition: 48 >= 40 | 96, 96 + 64 >= 100,
# and the list of these is reversed.
@pytest.mark.parametrize(
    ("finds_unused", "wanted"),
    [(False, ([208], [64, 144])), (True, ([160, 48], [160, 48]))],
)
def test_buckets_by_hand(finds_unused, wanted):
    assert ddp_buckets([48, 96, 64], [2, 1, 0], 40, 100, finds_unused) == wanted


@pytest.mark.parametrize("finds_unused", [False, True])
@pytest.mark.parametrize(
    ("widths", "cap_mb"),
    [((256, 512, 768, 512), None), ((300, 700, 900, 500, 100), 1), ((64, 1024, 2048, 512), 2)],
)
def test_buckets_are_those_that_ddp_logs(widths, cap_mb, finds_unused):
    logs = run_ranks(logged_buckets, 2, widths, finds_unused, cap_mb)
    assert logs[0] == logs[1]
    first_limit, limit = (MIB, 25 * MIB) if cap_mb is None else (cap_mb * MIB,) * 2
    log = logs[0]
    predicted = ddp_buckets(
        log["parameter_bytes"], log["arrival"], first_limit, limit, finds_unused
    )
    assert predicted == (log["first_step"], log["later_steps"])
