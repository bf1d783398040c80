"""Right answers to the exercises of unit 14, in a first style."""

import math

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


# === u14-budget


def predict_runs(shop, asked):
    def step(run, gpu, launch, turn):
        if run.stages > 1 and run.nodes > 1:
            launch = launch + turn * run.tensor
        layers = launch * run.num_layers
        return (run.num_micro_batches + run.stages - 1) * max(gpu * run.work_seconds, layers)

    # A run tells a constant if its step grows with it alone, whatever the others are.
    guess = [1.0, 0.0045, 0.0022]

    def tells(run, number):
        more = [4 * each if n == number else each for n, each in enumerate(guess)]
        less = [each if n == number else 4 * each for n, each in enumerate(guess)]
        is_wide = run.stages > 1 and run.nodes > 1
        return step(run, *more) / step(run, *less) / (4 if is_wide and number < 2 else 1)

    few = max(1, len(shop.offers) // 8)
    best = [sorted(shop.offers, key=lambda run, n=n: -tells(run, n))[:few] for n in range(3)]
    for place in range(few):
        for number in (2, 1, 0):
            run = best[number][place]
            if run.price <= shop.left:
                shop.buy(run)

    def off(constants, power):
        errors = (abs(math.log(step(run, *constants) / took)) for run, took in shop.bought.items())
        return sum(each**power for each in errors)

    found = guess
    for width, power in ((1.3, 2), (1.1, 2), (1.03, 1), (1.01, 1)):
        for _ in range(16):
            tried = [
                [each * factor if n == number else each for n, each in enumerate(found)]
                for number in range(3)
                for factor in (width, 1 / width)
            ]
            found = min([found, *tried], key=lambda each: off(each, power))
    return [step(run, *found) for run in asked]
