"""Right answers to the exercises of unit 14, in a first style."""

from course_utils.configs import Plan

# === u14-plan


def best_plan(model, num_sequences, machine, costs):
    best, fastest = None, float("inf")
    n = machine.num_devices
    for t in range(1, n + 1):
        for p in range(1, n + 1):
            if n % (t * p) or model.num_kv_heads % t or model.num_layers % p:
                continue
            d = n // (t * p)
            if num_sequences % d:
                continue
            for b in range(1, num_sequences // d + 1):
                if (num_sequences // d) % b:
                    continue
                for z in range(4):
                    for again in (True, False):
                        if d == 1 and z:
                            continue
                        plan = Plan(
                            data=d,
                            tensor=t,
                            pipeline=p,
                            zero_stage=z,
                            micro_batch=b,
                            is_recomputed=again,
                        )
                        if costs.bytes_of(plan) > machine.memory_bytes:
                            continue
                        if costs.seconds_of(plan) < fastest:
                            best, fastest = plan, costs.seconds_of(plan)
    if best is None:
        raise ValueError("take more devices")
    return best
