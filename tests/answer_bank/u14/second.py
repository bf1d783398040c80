"""Right answers to the exercises of unit 14, in a second style."""

import itertools

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
