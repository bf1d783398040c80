"""Answer banks of unit 14."""

import numpy as np

from tests.answer_bank import AnswerBank, Wrong

CONVENTION = AnswerBank(
    function="causal_percent",
    wrong=[
        Wrong(
            "all conventions at once",
            """
            def causal_percent(model, num_params, seq_len, percent, convention):
                return {"6N": percent}
            """,
            "What type does the exercise ask for",
        ),
    ],
    right=[
        """
        def causal_percent(m, n, s, percent, convention):
            h, l = m.hidden_size, m.num_layers
            linear = 2 * h * h + 2 * h * h * m.num_kv_heads // m.num_heads
            linear += (2 + m.is_gated) * h * m.ffn_size
            attention, head = 6 * h * s * l, 6 * m.vocab_size * h
            ours = 6 * l * linear + attention + head
            full = 6 * n + 2 * attention
            if convention == "6N":
                counted = 6 * n
            elif convention == "6N + attention":
                counted = full
            elif convention == "with recomputation":
                counted = full + full / 3
            else:
                counted = ours + attention + (l - 1) * head
            return ours / counted * percent
        """,
        """
        from fractions import Fraction

        def causal_percent(model, num_params, seq_len, percent, convention):
            h = Fraction(model.hidden_size)
            inner = 18 if model.is_gated else 12
            group = Fraction(model.num_kv_heads, model.num_heads)
            once = 12 + 12 * group + inner * model.ffn_size / h
            square = model.num_layers * h * h
            head = 6 * model.vocab_size * h
            ours = square * (once + 6 * seq_len / h) + head
            theirs = 6 * num_params
            if convention != "6N":
                theirs += 12 * model.num_layers * h * seq_len
            if convention == "with recomputation":
                theirs *= Fraction(4, 3)
            if convention == "lecture":
                in_layers = once + 12 * seq_len / h + 6 * model.vocab_size / h
                theirs = square * in_layers
            return float(ours / theirs) * percent
        """,
    ],
    features={
        **{
            name: lambda case, name=name: case["convention"] == name
            for name in ("6N", "6N + attention", "with recomputation", "lecture")
        },
        "one layer": lambda case: case["model"]["num_layers"] == 1,
        "without a gate": lambda case: not case["model"].get("is_gated", True),
        "untied": lambda case: not case["model"]["is_tied"],
        "shared keys": lambda case: case["model"]["num_kv_heads"] < case["model"]["num_heads"],
    },
)

WORK = AnswerBank(
    function="token_work",
    wrong=[
        Wrong(
            "a sum of everything",
            """
            def token_work(model, forward, is_recomputed):
                return sum(forward.values())
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        def token_work(m, f, again):
            linear = f["projections"] + f["feed_forward"]
            if again:
                products = 4 * linear + 3 * f["head"]
                attention = f["attention"] * 9 // 4
            else:
                products = 3 * linear + 3 * f["head"]
                attention = f["attention"] * 7 // 4
            factors = 1 + m.is_gated
            numbers = 10 * m.hidden_size + (factors + 1) * m.ffn_size
            passes = [1, 2, 1] if again else [1, 2]
            moved = sum(each * numbers * 2 for each in passes) * m.num_layers
            return {
                "products": products,
                "attention": attention,
                "elementwise": moved + 3 * 2 * 4 * m.vocab_size,
            }
        """,
        """
        def token_work(model, forward, is_recomputed):
            runs = 4 if is_recomputed else 3
            half = forward["attention"] // 2
            h, f = model.hidden_size, model.ffn_size
            norm, addition = h + h, h + h + h
            act = f + f + f if model.is_gated else f + f
            kernels = [norm, addition, act, norm, addition]
            head = forward["head"]
            work = dict(attention=half + half // 2 * 5)
            work["products"] = runs * (forward["projections"] + forward["feed_forward"]) + 3 * head
            if is_recomputed:
                work["attention"] += half
            work["elementwise"] = runs * model.num_layers * 2 * sum(kernels)
            work["elementwise"] += 24 * model.vocab_size
            return work
        """,
    ],
    features={
        "gated": lambda case: case["model"].get("is_gated", True),
        "without a gate": lambda case: not case["model"].get("is_gated", True),
        "layers run again": lambda case: case["is_recomputed"],
        "layers run once": lambda case: not case["is_recomputed"],
        "one layer": lambda case: case["model"]["num_layers"] == 1,
    },
)


def _sign(case, first):
    """Whether the unrestricted best constant of a case is below zero."""
    rows = np.array(case["rows"])
    relative = rows[:, :3] / rows[:, 3:]
    solution = np.linalg.lstsq(relative[:, 1:], 1 - relative[:, 0], rcond=None)[0]
    return solution[0 if first else 1] < 0


CALIBRATE = AnswerBank(
    function="calibrate",
    wrong=[
        Wrong(
            "a pair",
            """
            def calibrate(rows):
                return 2.0, 3.0
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        def calibrate(rows):
            table = [(1 - f / m, a / m, e / m) for f, a, e, m in rows]
            ya, ye = (sum(r[0] * r[k] for r in table) for k in (1, 2))
            aa, ee = (sum(r[k] ** 2 for r in table) for k in (1, 2))
            ae = sum(r[1] * r[2] for r in table)
            det = aa * ee - ae * ae
            a, e = (ya * ee - ye * ae) / det, (ye * aa - ya * ae) / det
            if a < 0:
                a, e = 0.0, max(0.0, ye / ee)
            elif e < 0:
                a, e = max(0.0, ya / aa), 0.0
            return {"attention": a, "elementwise": e}
        """,
        """
        def calibrate(rows):
            a = e = 0.0
            x = [(r[1] / r[3], r[2] / r[3], (r[3] - r[0]) / r[3]) for r in rows]
            for _ in range(5000):
                a = max(0.0, sum(u * (y - e * v) for u, v, y in x) / sum(u * u for u, v, y in x))
                e = max(0.0, sum(v * (y - a * u) for u, v, y in x) / sum(v * v for u, v, y in x))
            return {"attention": a, "elementwise": e}
        """,
    ],
    features={
        "attention would be negative": lambda case: _sign(case, first=True),
        "elementwise would be negative": lambda case: _sign(case, first=False),
        "both are above zero": lambda case: not (_sign(case, True) or _sign(case, False)),
        "times of any size": lambda case: (
            max(row[3] for row in case["rows"]) > 5 * min(row[3] for row in case["rows"])
        ),
    },
)

EXPOSED = AnswerBank(
    function="seconds_of_step",
    wrong=[
        Wrong(
            "one number",
            """
            def seconds_of_step(m, p, n, f, r):
                return (m + p - 1) * 3 * f + r
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        def seconds_of_step(m, p, n, f, r):
            now = done = 0
            for layer in range(n):
                now += 2 * f / n
                done = max(done, now) + r / n
            return {"work": 3 * f * m, "bubble": 3 * f * p - 3 * f, "exposed": done - now}
        """,
        """
        def seconds_of_step(num_micro_batches, num_stages, num_layers, f, r):
            whole = (num_micro_batches + num_stages - 1) * 3 * f
            work = num_micro_batches * f + 2 * f * num_micro_batches
            each = r / num_layers
            if r <= 2 * f:
                exposed = each
            else:
                exposed = r - 2 * f + 2 * f / num_layers
            return dict(work=work, bubble=whole - work, exposed=exposed)
        """,
    ],
    features={
        "hidden": lambda case: 0 < case["reduce_seconds"] < 2 * case["forward_seconds"],
        "too much to hide": lambda case: case["reduce_seconds"] > 2 * case["forward_seconds"],
        "nothing to sum": lambda case: case["reduce_seconds"] == 0,
        "one layer": lambda case: case["num_layers"] == 1,
        "one stage": lambda case: case["num_stages"] == 1,
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
    },
)


def _passes(case):
    plan = case["plan"]
    return case["num_sequences"] // (plan["data"] * plan["micro_batch"])


FITS = AnswerBank(
    function="plan_bytes",
    wrong=[
        Wrong(
            "the sum",
            """
            def plan_bytes(model, sizes, seq_len, num_sequences, plan):
                return 16 * sizes["parameters"]
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        import math

        def plan_bytes(m, sizes, s, n, plan):
            d, t, p, b = plan.data, plan.tensor, plan.pipeline, plan.micro_batch
            mine = (sizes["parameters"] + t * p - 1) // (t * p)
            shard = (mine + d - 1) // d
            state = sum(
                each * (shard if plan.zero_stage >= first else mine)
                for first, each in ((1, 12), (2, 2), (3, 2))
            )
            flying = m.num_layers // p * min(p, n // d // b)
            everything = b * sizes["layer_bytes"] // t
            inputs = 2 * b * s * m.hidden_size // t
            again = plan.is_recomputed
            layers = flying * inputs + everything if again else flying * everything
            two = 0
            if plan.zero_stage == 3 and d > 1:
                two = 2 * 2 * sizes["layer_parameters"] // t
            loss = (2 + 4 + 4) * b * s * m.vocab_size // t
            return {"state": state, "gathered": two, "layers": layers, "loss": loss}
        """,
        """
        def plan_bytes(model, sizes, seq_len, num_sequences, plan):
            own = -(-sizes["parameters"] // (plan.tensor * plan.pipeline))
            pieces = {True: -(-own // plan.data), False: own}
            z = plan.zero_stage
            found = {"state": 2 * pieces[z > 2] + 2 * pieces[z > 1] + 12 * pieces[z > 0]}
            found["gathered"] = (z == 3) * (plan.data > 1) * 4 * sizes["layer_parameters"]
            found["gathered"] //= plan.tensor
            m = num_sequences // plan.micro_batch // plan.data
            n = sorted([m, plan.pipeline])[0] * (model.num_layers // plan.pipeline)
            one = sizes["layer_bytes"] * plan.micro_batch // plan.tensor
            found["layers"] = n * one
            if plan.is_recomputed:
                numbers = plan.micro_batch * seq_len * model.hidden_size // plan.tensor
                found["layers"] = one + n * 2 * numbers
            tokens = plan.micro_batch * seq_len
            found["loss"] = tokens * model.vocab_size * 10 // plan.tensor
            return found
        """,
    ],
    features={
        **{
            f"stage {n}": lambda case, n=n: (
                case["plan"]["zero_stage"] == n and case["plan"]["data"] > 1
            )
            for n in range(4)
        },
        "one replica": lambda case: case["plan"]["data"] == 1,
        "several stages": lambda case: case["plan"]["pipeline"] > 1,
        "few micro-batches": lambda case: _passes(case) < case["plan"]["pipeline"],
        "many micro-batches": lambda case: _passes(case) > case["plan"]["pipeline"] > 1,
        "tensor ranks": lambda case: case["plan"]["tensor"] > 1,
        "layers run again": lambda case: case["plan"]["is_recomputed"],
    },
)


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


PLAN = AnswerBank(
    function="best_plan",
    wrong=[
        Wrong(
            "always replicas",
            """
            from course_utils.configs import Plan

            def best_plan(model, num_sequences, machine, costs):
                return Plan(data=machine.num_devices)
            """,
            "Which sizes do you not try",
        ),
        Wrong(
            "a layout that does not fill the machine",
            """
            from course_utils.configs import Plan

            def best_plan(model, num_sequences, machine, costs):
                return Plan()
            """,
            "What do your three sizes multiply to?",
        ),
        Wrong(
            "small micro-batches",
            """
            from course_utils.configs import Plan
            from itertools import product

            def best_plan(model, num_sequences, machine, costs):
                found = []
                sizes = range(1, machine.num_devices + 1)
                for d, t, p, z, b in product(sizes, sizes, sizes, range(4), (1, 2, 4)):
                    for again in (False, True):
                        plan = Plan(
                            data=d, tensor=t, pipeline=p, zero_stage=z,
                            micro_batch=b, is_recomputed=again,
                        )
                        try:
                            if costs.bytes_of(plan) <= machine.memory_bytes:
                                found.append((costs.seconds_of(plan), costs.bytes_of(plan), plan))
                        except ValueError:
                            pass
                return min(found, key=lambda each: each[:2])[2]
            """,
            "larger micro-batches",
        ),
        Wrong(
            "numbers without names",
            """
            from course_utils.configs import Plan

            def best_plan(model, num_sequences, machine, costs):
                return Plan(machine.num_devices, 1, 1)
            """,
            "Which name belongs to each of your numbers?",
        ),
        Wrong(
            "a micro-batch that leaves sequences over",
            """
            from course_utils.configs import Plan

            def best_plan(model, num_sequences, machine, costs):
                plan = Plan(data=machine.num_devices, micro_batch=num_sequences)
                costs.seconds_of(plan)
                return plan
            """,
            "Which of them divide the share of a replica?",
        ),
        Wrong(
            "no plan",
            """
            def best_plan(model, num_sequences, machine, costs):
                return (machine.num_devices, 1, 1)
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        from course_utils.configs import Plan

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
                                    data=d, tensor=t, pipeline=p, zero_stage=z,
                                    micro_batch=b, is_recomputed=again,
                                )
                                if costs.bytes_of(plan) > machine.memory_bytes:
                                    continue
                                if costs.seconds_of(plan) < fastest:
                                    best, fastest = plan, costs.seconds_of(plan)
            return best
        """,
        """
        import itertools
        from course_utils.configs import Plan

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
                                    data=d, tensor=t, pipeline=p, micro_batch=b,
                                    zero_stage=z, is_recomputed=bool(again),
                                )

            fits = [each for each in every() if costs.bytes_of(each) <= machine.memory_bytes]
            return sorted(fits, key=costs.seconds_of)[0]
        """,
    ],
    features={
        "within 2 %": lambda case: case["scenario"] == "within 2 %",
        "within 10 %": lambda case: case["scenario"] == "within 10 %",
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
        "only stage 3 fits": lambda case: {key.split(".")[3] for key in _fitting(case)} == {"3"},
        "stage 3 is fastest, others fit": lambda case: (
            min(fits := _fitting(case), key=fits.get).split(".")[3] == "3"
            and {key.split(".")[3] for key in fits} > {"3"}
        ),
    },
)

DAYS = AnswerBank(
    function="days_and_cost",
    wrong=[
        Wrong(
            "only days",
            """
            def days_and_cost(tokens, per_step, seconds, devices, usd):
                return tokens / per_step * seconds / 86400
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        def days_and_cost(tokens, per_step, seconds, devices, usd):
            steps = -(-tokens // per_step)
            days = steps * seconds / 86400
            hours = 24 * days * devices
            return {"days": days, "device_hours": hours, "usd": hours * usd}
        """,
        """
        from datetime import timedelta

        def days_and_cost(tokens, per_step, seconds, devices, usd):
            steps, rest = divmod(tokens, per_step)
            if rest:
                steps += 1
            length = timedelta(seconds=seconds * steps)
            hours = length / timedelta(hours=1) * devices
            return {"days": length / timedelta(days=1), "device_hours": hours, "usd": hours * usd}
        """,
    ],
    features={
        "a full last step": lambda case: case["num_tokens"] % case["tokens_per_step"] == 0,
        "a last step that is not full": lambda case: (
            case["num_tokens"] % case["tokens_per_step"] > 0
        ),
        "one device": lambda case: case["num_devices"] == 1,
        "many devices": lambda case: case["num_devices"] > 100,
    },
)

BANKS = {
    "u14-convention": CONVENTION,
    "u14-work": WORK,
    "u14-calibrate": CALIBRATE,
    "u14-exposed": EXPOSED,
    "u14-fits": FITS,
    "u14-plan": PLAN,
    "u14-days": DAYS,
}
