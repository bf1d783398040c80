"""Kinds of cases that the exercises of unit 14 have for every seed."""

import itertools
from functools import cache

from course_utils.configs import Costs, Plan

PAYS = 0.2


def _fitting(case):
    """Seconds of each plan that fits."""
    memory = case["machine"]["memory_bytes"]
    return {key: seconds for key, (taken, seconds) in case["costs"].items() if taken <= memory}


def _narrowest(case, below=True):
    """Bytes between the memory and a plan faster than all others of its bytes or less."""
    memory = case["machine"]["memory_bytes"]
    near = {
        abs(taken - memory) for taken, _ in case["costs"].values() if (taken <= memory) == below
    }
    return min(near, default=None)


def _paying(case):
    """Rows that pay."""
    return [
        row
        for row in case["rows"]
        if row["measured"] - row["predicted"]
        > PAYS * (row["num_micro_batches"] + row["stages"] - 1)
    ]


def _is_measured(case):
    return Costs.OTHERS in case["costs"]


@cache
def _stage_by_key(num_devices, num_sequences):
    """The ZeRO stage of every plan of some devices, by the plan's key."""
    sizes = [n for n in range(1, num_devices + 1) if num_devices % n == 0]
    every = itertools.product(sizes, sizes, range(4), range(1, num_sequences + 1), (False, True))
    return {
        Costs.key(
            Plan(
                data=num_devices // (tensor * pipeline),
                tensor=tensor,
                pipeline=pipeline,
                zero_stage=stage,
                micro_batch=micro_batch,
                is_recomputed=again,
            )
        ): stage
        for tensor, pipeline, stage, micro_batch, again in every
        if num_devices % (tensor * pipeline) == 0
        and (stage == 0 or tensor * pipeline < num_devices)
    }


def _stages(case):
    """The ZeRO stages of the plans that fit, and that of the fastest of them, if there is one."""
    fits = _fitting(case)
    stage = _stage_by_key(case["machine"]["num_devices"], case["num_sequences"])
    fastest = stage[min(fits, key=fits.get)] if fits else None
    return {stage[key] for key in fits}, fastest


FEATURES = {
    "u14-convention": {
        **{
            name: lambda case, name=name: case["convention"] == name
            for name in ("6N", "6N + attention", "with recomputation", "lecture")
        },
        "one layer": lambda case: case["model"]["num_layers"] == 1,
        "without a gate": lambda case: not case["model"].get("is_gated", True),
        "untied": lambda case: not case["model"]["is_tied"],
        "shared keys": lambda case: case["model"]["num_kv_heads"] < case["model"]["num_heads"],
    },
    "u14-work": {
        "gated": lambda case: case["model"].get("is_gated", True),
        "without a gate": lambda case: not case["model"].get("is_gated", True),
        "layers run again": lambda case: case["is_recomputed"],
        "layers run once": lambda case: not case["is_recomputed"],
        "one layer": lambda case: case["model"]["num_layers"] == 1,
    },
    "u14-pace": {
        "the CPU sets the pace of the other": lambda case: (
            case["work_seconds"] < 2e-3 * case["num_layers"]
        ),
        "rows of the sweep": lambda case: {row[0] for row in case["rows"]} <= {16, 28, 32},
        "rows of other software": lambda case: not {row[0] for row in case["rows"]} & {16, 28, 32},
        "a row that the GPU paces": lambda case: any(
            row[2] < 1.05 * row[1] for row in case["rows"]
        ),
    },
    "u14-waits": {
        "one stage pays": lambda case: any(row["stages"] == 1 for row in _paying(case)),
        "only stages pay": lambda case: all(row["stages"] > 1 for row in _paying(case)),
        "not more than two stages": lambda case: all(row["stages"] <= 2 for row in case["rows"]),
        "rows of the sweep": lambda case: len(case["rows"]) == 11,
    },
    "u14-plan": {
        "by the model": lambda case: case["scenario"] == "by the model",
        "by the clock": lambda case: case["scenario"] == "by the clock",
        "several nodes": lambda case: _is_measured(case) and case["machine"]["num_devices"] > 8,
        "plans that failed": lambda case: _is_measured(case) and _narrowest(case, below=False),
        "nothing fits": lambda case: not _fitting(case),
        "slow links": lambda case: case["machine"]["link_bytes_per_second"] <= 20e9,
        "fast links": lambda case: case["machine"]["link_bytes_per_second"] >= 150e9,
        "little memory": lambda case: case["machine"]["memory_bytes"] < 40e9,
        "eight devices": lambda case: case["machine"]["num_devices"] == 8,
        "four devices": lambda case: case["machine"]["num_devices"] == 4,
        "the fastest plan fits to the byte": lambda case: _narrowest(case) == 0,
        "a faster plan lacks a byte": lambda case: _narrowest(case, below=False) == 1,
        "a replica's share is no power of two": lambda case: (
            case["num_sequences"] == 12 and case["machine"]["num_devices"] == 4
        ),
        "replicas do not divide the sequences": lambda case: (
            case["num_sequences"] % case["machine"]["num_devices"] > 0
        ),
        "only stage 3 fits": lambda case: not _is_measured(case) and _stages(case)[0] == {3},
        "stage 3 is fastest, others fit": lambda case: (
            not _is_measured(case) and (of := _stages(case))[1] == 3 and of[0] > {3}
        ),
    },
    "u14-memory": {
        "DDP": lambda case: case["plan"]["zero_stage"] == 0 and case["plan"]["data"] > 1,
        "sharded": lambda case: case["plan"]["zero_stage"] == 1 and case["plan"]["data"] > 1,
        "one replica": lambda case: case["plan"]["data"] == 1,
        "several stages": lambda case: case["plan"]["pipeline"] > 1,
        "few micro-batches": lambda case: case["num_micro_batches"] < case["plan"]["pipeline"],
        "many micro-batches": lambda case: case["num_micro_batches"] > case["plan"]["pipeline"] > 1,
        "tensor ranks": lambda case: case["plan"]["tensor"] > 1,
        "a remainder": lambda case: case["sizes"]["parameters"] % case["plan"]["data"] > 0,
    },
    "u14-budget": {
        "in the median": lambda case: case["scenario"] == "in the median",
        "in each kind": lambda case: case["scenario"] == "in each kind",
        "a size held out": lambda case: case["draw"] > 0 == case["draw"] % 2,
        "a number of nodes held out": lambda case: case["draw"] > 0 < case["draw"] % 2,
        "few micro-batches": lambda case: all(row[4] < row[3] for row in case["asked"]),
        "several nodes on offer": lambda case: any(row[1] > 1 for row in case["offers"]),
        "less than all offers can be paid": lambda case: (
            case["budget"] < sum(row[7] for row in case["offers"])
        ),
    },
}
