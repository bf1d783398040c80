"""Right answers to the exercises of unit 14, in a second style."""

import itertools

import numpy as np

from course_utils.configs import Plan

# === u14-plan


def best_plan(model, num_sequences, machine, costs):
    def every():
        powers = [n for n in range(1, machine.num_devices + 1)]
        for t, p in itertools.product(powers, powers):
            d, rest = divmod(machine.num_devices, t * p)
            divides = d and not (
                rest or model.num_kv_heads % t or model.num_layers % p or num_sequences % d
            )
            if divides:
                for b, z, again in itertools.product(
                    range(1, num_sequences // d + 1), range(4), (0, 1)
                ):
                    if num_sequences // d % b == 0 and (d > 1 or z == 0):
                        yield Plan(
                            data=d,
                            tensor=t,
                            pipeline=p,
                            micro_batch=b,
                            zero_stage=z,
                            is_recomputed=bool(again),
                        )

    fits = [each for each in every() if costs.bytes_of(each) <= machine.memory_bytes]
    return min(fits, key=costs.seconds_of)  # of nothing, it raises a ValueError


# === u14-budget


def predict_runs(shop, asked):
    offers = list(shop.offers)
    work = np.array([each.work_seconds / each.num_layers for each in offers])
    turns = np.array(
        [each.tensor * (each.stages > 1) * (each.nodes > 1) for each in offers], dtype=float
    )
    few = max(1, len(offers) // 8)
    rankings = [
        np.argsort(np.where(turns > 0, work / np.maximum(turns, 1), np.inf)),
        np.argsort(np.where(turns > 0, np.inf, work)),
        np.argsort(np.where(turns > 0, np.inf, -work)),
    ]
    busy, rows, right = [], [], []
    for place in range(few):
        for number, ranking in enumerate(rankings):
            run = offers[ranking[place]]
            if run.price > shop.left or (number == 2 and turns[ranking[place]]):
                continue
            took = shop.buy(run) / (run.num_micro_batches + run.stages - 1)
            if number == 2:
                busy.append(took / run.work_seconds)
            else:
                of_layer = took / run.num_layers
                rows.append([1 / of_layer, turns[ranking[place]] / of_layer])
                right.append(1.0)
    launch, turn = np.linalg.lstsq(np.array(rows), np.array(right), rcond=None)[0]
    gpu = np.mean(busy)
    answers = []
    for run in asked:
        wide = run.stages > 1 and run.nodes > 1
        layers = (launch + wide * turn * run.tensor) * run.num_layers
        passes = run.num_micro_batches + run.stages - 1
        answers.append(passes * np.maximum(gpu * run.work_seconds, layers))
    return np.array(answers)
