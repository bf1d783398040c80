"""Answer banks of unit 12."""

from tests.answer_bank import AnswerBank, Wrong

STAGES = AnswerBank(
    function="cut_into_stages",
    wrong=[
        Wrong(
            "no list",
            """
            def cut_into_stages(seconds, num_stages):
                return len(seconds) // num_stages
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        import functools

        def cut_into_stages(seconds, num_stages):
            @functools.cache
            def best(first, stages):
                if stages == 1:
                    return sum(seconds[first:]), (len(seconds) - first,)
                options = []
                for size in range(1, len(seconds) - first - stages + 2):
                    slowest, sizes = best(first + size, stages - 1)
                    own = sum(seconds[first : first + size])
                    options.append((max(own, slowest), (size, *sizes)))
                return min(options)

            return list(best(0, num_stages)[1])
        """,
        """
        import itertools

        def cut_into_stages(seconds, num_stages):
            answers = []
            for inner in itertools.combinations(range(1, len(seconds)), num_stages - 1):
                cut = (0,) + inner + (len(seconds),)
                parts = [seconds[a:b] for a, b in zip(cut, cut[1:])]
                answers.append((max(map(sum, parts)), [len(each) for each in parts]))
            return min(answers)[1]
        """,
    ],
    features={
        "one stage": lambda case: case["num_stages"] == 1,
        "a piece for each stage": lambda case: len(case["seconds"]) == case["num_stages"],
        "a free piece in front": lambda case: case["seconds"][0] == 0,
        "a heavy end": lambda case: case["seconds"][-1] == 2 * case["seconds"][1] + 1,
        "equal pieces": lambda case: len({*case["seconds"]}) == 1,
    },
)

GPIPE = AnswerBank(
    function="gpipe",
    wrong=[
        Wrong(
            "one list",
            """
            def gpipe(p, m):
                return [("F", k, 0) for k in range(m)] + [("B", k, 0) for k in range(m)]
            """,
            "How many lists does a schedule have?",
        ),
        Wrong(
            "words instead of actions",
            """
            def gpipe(p, m):
                return [[f"F{k}" for k in range(m)] + [f"B{k}" for k in range(m)]] * p
            """,
            "What are the three parts of an action",
        ),
        Wrong(
            "1F1B in its place",
            """
            def gpipe(p, m):
                lists = []
                for s in range(p):
                    n = min(p - 1 - s, m)
                    one = [("F", k, 0) for k in range(n)]
                    for k in range(m - n):
                        one += [("F", n + k, 0), ("B", k, 0)]
                    lists.append(one + [("B", k, 0) for k in range(m - n, m)])
                return lists
            """,
            "Is that GPipe?",
        ),
    ],
    right=[
        """
        import itertools

        def gpipe(p, m):
            return [[(kind, k, 0) for kind, k in itertools.product("FB", range(m))]] * p
        """,
        """
        def gpipe(num_stages, num_micro_batches):
            schedule = [[] for _ in range(num_stages)]
            for one in schedule:
                for k in range(num_micro_batches):
                    one.append(("F", k, 0))
                for k in reversed(range(num_micro_batches)):
                    one.append(("B", k, 0))
            return schedule
        """,
    ],
    features={
        "one stage": lambda case: case["num_stages"] == 1,
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
        "few micro-batches": lambda case: case["num_micro_batches"] < case["num_stages"],
        "many micro-batches": lambda case: case["num_micro_batches"] > case["num_stages"],
    },
)

OF_SCENARIOS = {
    "one stage": lambda case: case["num_stages"] == 1,
    "one micro-batch": lambda case: case["num_micro_batches"] == 1,
    "few micro-batches": lambda case: case["num_micro_batches"] < case["num_stages"],
    "as many": lambda case: case["num_micro_batches"] == case["num_stages"] > 1,
    "many micro-batches": lambda case: case["num_micro_batches"] > case["num_stages"],
}

ONE_F_ONE_B = AnswerBank(
    function="one_forward_one_backward",
    wrong=[
        Wrong(
            "nothing comes back",
            """
            def one_forward_one_backward(p, m):
                [[("F", k, 0), ("B", k, 0)] for k in range(m)]
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "only the first stage's list",
            """
            def one_forward_one_backward(p, m):
                n = min(p - 1, m)
                one = [("F", k, 0) for k in range(n)]
                for k in range(m - n):
                    one += [("F", n + k, 0), ("B", k, 0)]
                return [one + [("B", k, 0) for k in range(m - n, m)]]
            """,
            "How many lists does a schedule have?",
        ),
    ],
    right=[
        """
        def one_forward_one_backward(p, m):
            lists = []
            for s in range(p):
                one, f, b = [], 0, 0
                while b < m:
                    if f < m and f - b < p - s:
                        one.append(("F", f, 0))
                        f += 1
                    else:
                        one.append(("B", b, 0))
                        b += 1
                lists.append(one)
            return lists
        """,
        """
        def one_forward_one_backward(num_stages, num_micro_batches):
            def of(stage):
                begin = num_stages - stage - 1
                for k in range(num_micro_batches + begin):
                    if k < num_micro_batches:
                        yield "F", k, 0
                    if k >= begin:
                        yield "B", k - begin, 0
            return [list(of(stage)) for stage in range(num_stages)]
        """,
    ],
    features=OF_SCENARIOS,
)

COSTS = AnswerBank(
    function="pipeline_costs",
    wrong=[
        Wrong(
            "seconds through a float",
            """
            def pipeline_costs(p, m, f, b, s):
                total = (m + p - 1) * (f + b)
                return {
                    "seconds": float(total),
                    "idle_seconds": float((p - 1) * (f + b)),
                    "gpipe": m,
                    "1f1b": min(m, p - s),
                }
            """,
            "Where does your whole number become a float?",
            points=1.5,
        ),
    ],
    right=[
        """
        def pipeline_costs(p, m, f, b, s):
            down, up = (p - 1) * f, (p - 1) * b
            return {
                "seconds": down + m * f + m * b + up,
                "idle_seconds": down + up,
                "gpipe": m,
                "1f1b": m if m < p - s else p - s,
            }
        """,
        """
        def pipeline_costs(num_stages, num_micro_batches, f, b, stage):
            seconds = (num_micro_batches + num_stages - 1) * (f + b)
            held = len(range(stage, num_stages))
            costs = dict(seconds=seconds, gpipe=num_micro_batches)
            costs["idle_seconds"] = seconds - num_micro_batches * (f + b)
            costs["1f1b"] = sorted([held, num_micro_batches])[0]
            return costs
        """,
    ],
    features={
        "one stage": lambda case: case["num_stages"] == 1,
        "few micro-batches": lambda case: (
            case["num_micro_batches"] < case["num_stages"] - case["stage"]
        ),
        "many micro-batches": lambda case: case["num_micro_batches"] > case["num_stages"],
        "the first stage": lambda case: case["stage"] == 0 < case["num_stages"] - 1,
        "the last stage": lambda case: case["stage"] == case["num_stages"] - 1 > 0,
        "a stage between": lambda case: 0 < case["stage"] < case["num_stages"] - 1,
        "beyond a float": lambda case: case["forward_seconds"] > 2**53,
    },
)

INTERLEAVED = AnswerBank(
    function="interleaved",
    wrong=[
        Wrong(
            "chunks numbered as parts of the model",
            """
            def interleaved(p, m, v):
                lists = []
                for s in range(p):
                    one = [("F", k, c * p + s) for k in range(m) for c in range(v)]
                    lists.append(one + [("B", k, c) for _, k, c in one])
                return lists
            """,
            "which chunks has a stage?",
        ),
        Wrong(
            "micro-batch by micro-batch",
            """
            def interleaved(p, m, v):
                forward = [("F", k, c) for k in range(m) for c in range(v)]
                backward = [("B", k, v - 1 - c) for k in range(m) for c in range(v)]
                return [forward + backward] * p
            """,
            "Which stage has a gap in the middle",
        ),
    ],
    right=[
        """
        def interleaved(p, m, v):
            def place(n):
                group, rest = divmod(n, p * v)
                return group * p + rest % p, rest // p

            total, lists = m * v, []
            for s in range(p):
                ahead = min(total, 2 * (p - s - 1) + (v - 1) * p)
                one = []
                for n in range(total + ahead):
                    if n < total:
                        one.append(("F", *place(n)))
                    if n >= ahead:
                        k, chunk = place(n - ahead)
                        one.append(("B", k, v - 1 - chunk))
                lists.append(one)
            return lists
        """,
        """
        def interleaved(num_stages, num_micro_batches, num_chunks):
            order = []
            for first in range(0, num_micro_batches, num_stages):
                for chunk in range(num_chunks):
                    order += [(first + k, chunk) for k in range(num_stages)]
            schedule = []
            for stage in range(num_stages):
                room = (num_chunks - 1) * num_stages + 2 * (num_stages - stage) - 1
                down, up, actions = list(order), list(order), []
                while up:
                    if down and len(up) - len(down) < room:
                        actions.append(("F", *down.pop(0)))
                    else:
                        k, chunk = up.pop(0)
                        actions.append(("B", k, num_chunks - chunk - 1))
                schedule.append(actions)
            return schedule
        """,
    ],
    features={
        "one stage": lambda case: case["num_stages"] == 1,
        "one chunk": lambda case: case["num_chunks"] == 1,
        "one group": lambda case: case["num_micro_batches"] == case["num_stages"] > 1,
        "several groups": lambda case: case["num_micro_batches"] > case["num_stages"] > 1,
        "three chunks": lambda case: case["num_chunks"] > 2,
    },
)

HALVES = AnswerBank(
    function="backward_in_halves",
    wrong=[
        Wrong(
            "no function",
            """
            def backward_in_halves(weights, kept, upstream):
                return upstream, []
            """,
            "What does the exercise ask your function to return?",
        ),
        Wrong(
            "a tensor for a list",
            """
            def backward_in_halves(weights, kept, upstream):
                return upstream, lambda: upstream
            """,
            "What does the exercise ask your function to return?",
        ),
    ],
    right=[
        """
        def backward_in_halves(weights, kept, upstream):
            zs = {}
            g = upstream
            for l in range(len(weights) - 1, -1, -1):
                zs[l] = g - g * kept[l + 1] * kept[l + 1]
                g = zs[l].mm(weights[l].t())
            return g, lambda: [kept[l].t().mm(zs[l]) for l in range(len(weights))]
        """,
        """
        import functools
        import torch

        def backward_in_halves(weights, kept, upstream):
            def back(after, layers):
                if not layers:
                    return after, []
                *before, (weight, output) = layers
                z = torch.mul(after, 1 - torch.square(output))
                first, others = back(torch.einsum("ro,io->ri", z, weight), before)
                return first, others + [z]

            gradient, zs = back(upstream, list(zip(weights, kept[1:])))

            def later(inputs, zs):
                return [torch.einsum("ri,ro->io", x, z) for x, z in zip(inputs, zs)]

            return gradient, functools.partial(later, kept[:-1], zs)
        """,
    ],
    features={
        "one layer": lambda case: len(case["widths"]) == 2,
        "several layers": lambda case: len(case["widths"]) > 3,
        "one width": lambda case: len({*case["widths"]}) == 1 < len(case["widths"]) - 1,
        "several widths": lambda case: len({*case["widths"]}) > 1,
        "one row": lambda case: case["rows"] == 1,
    },
)

ZERO = AnswerBank(
    function="zero_bubble",
    wrong=[
        Wrong(
            "whole backward passes and W",
            """
            def zero_bubble(p, m):
                one = [("F", k, 0) for k in range(m)]
                return [one + [(kind, k, 0) for k in range(m) for kind in "BW"]] * p
            """,
            "as B beside I or W",
        ),
        Wrong(
            "as many ahead as it takes",
            """
            def zero_bubble(p, m):
                lists = []
                for s in range(p):
                    one, f, i, w = [], 0, 0, 0
                    ahead = min(m, 2 * (p - s) - 1)
                    for k in range(ahead):
                        one.append(("F", k, 0))
                    for k in range(m):
                        one.append(("I", k, 0))
                        if k >= 2 * s:
                            one.append(("W", k - 2 * s, 0))
                        if ahead + k < m:
                            one.append(("F", ahead + k, 0))
                    lists.append(one + [("W", k, 0) for k in range(max(0, m - 2 * s), m)])
                return lists
            """,
            "How many F come ahead of its first W?",
        ),
        Wrong(
            "a greedy loop",
            """
            def zero_bubble(p, m):
                done, lists = {}, [[] for _ in range(p)]

                def number(kind, stage):
                    return sum(each[0] == kind for each in lists[stage])

                def is_done(kind, k, stage, turn):
                    return done.get((kind, k, stage), turn + 1) <= turn

                def choice(stage, turn):
                    f, i, w = (number(kind, stage) for kind in "FIW")
                    if i < f and (stage == p - 1 or is_done("I", i, stage + 1, turn)):
                        return "I", i, 0
                    if f < min(m, w + p) and (stage == 0 or is_done("F", f, stage - 1, turn)):
                        return "F", f, 0
                    return ("W", w, 0) if w < i else None

                for turn in range(9 * (m + p)):
                    for stage, each in enumerate([choice(s, turn) for s in range(p)]):
                        if each:
                            lists[stage].append(each)
                            done[each[0], each[1], stage] = turn + 1
                return lists
            """,
            "which W must then come early too?",
            points=1.5,
        ),
    ],
    right=[
        """
        def zero_bubble(p, m):
            lists = []
            for s in range(p):
                one, f, i, w = [], 0, 0, 0
                while w < m:
                    if f < m and f - i < p - s:
                        one.append(("F", f, 0))
                        f += 1
                    elif i < m and i - w <= s:
                        one.append(("I", i, 0))
                        i += 1
                        if i - w > s:
                            one.append(("W", w, 0))
                            w += 1
                    else:
                        one.append(("W", w, 0))
                        w += 1
                lists.append(one)
            return lists
        """,
        """
        def zero_bubble(num_stages, num_micro_batches):
            m = num_micro_batches

            def of(stage):
                ahead = num_stages - stage - 1
                for turn in range(m + num_stages):
                    if turn < m:
                        yield "F", turn, 0
                    if 0 <= turn - ahead < m:
                        yield "I", turn - ahead, 0
                    if 0 <= turn - ahead - stage < m:
                        yield "W", turn - ahead - stage, 0

            return [list(of(stage)) for stage in range(num_stages)]
        """,
    ],
    features=OF_SCENARIOS,
)

MESSAGES = AnswerBank(
    function="boundary_bytes",
    wrong=[],
    right=[
        """
        def boundary_bytes(p, v, m, e, is_v):
            place = [
                p - 1 - s if is_v and chunk % 2 else s for chunk in range(v) for s in range(p)
            ]
            return 2 * m * e * sum(a != b for a, b in zip(place, place[1:]))
        """,
        """
        def boundary_bytes(p, v, m, e, is_v):
            if p == 1:
                return 0
            hops = v * (p - 1) if is_v else v * p - 1
            return hops * (m + m) * e
        """,
    ],
    features={
        "looped": lambda case: not case["is_v"] and case["num_chunks"] > 1 < case["num_stages"],
        "V": lambda case: case["is_v"] and case["num_chunks"] > 1 < case["num_stages"],
        "one stage": lambda case: case["num_stages"] == 1,
        "one chunk": lambda case: case["num_chunks"] == 1,
        "beyond a float": lambda case: case["tensor_bytes"] > 2**53,
    },
)


def _is_stuck(case: dict) -> bool:
    schedule = case["schedule"]
    done: set = set()
    position = [0] * len(schedule)
    while True:
        before = len(done)
        for stage, actions in enumerate(schedule):
            if position[stage] < len(actions):
                kind, k, _ = actions[position[stage]]
                needs = {("F", k, stage - 1)} if kind == "F" else {("F", k, stage)}
                if kind == "B" and stage + 1 < len(schedule):
                    needs.add(("B", k, stage + 1))
                if (stage == 0 and kind == "F") or needs <= done:
                    done.add((kind, k, stage))
                    position[stage] += 1
        if len(done) == before:
            return before < sum(map(len, schedule))


SIMULATOR = AnswerBank(
    function="follow",
    wrong=[],
    right=[
        """
        def follow(schedule, f, b):
            ends, last = {}, len(schedule) - 1
            queues = [list(each) for each in schedule]
            free = [0 for _ in schedule]

            def ready(s):
                kind, k, _ = queues[s][0]
                if kind == "F":
                    return 0 if s == 0 else ends.get(("F", k, s - 1))
                own = ends.get(("F", k, s))
                after = 0 if s == last else ends.get(("B", k, s + 1))
                return None if own is None or after is None else max(own, after)

            while any(queues):
                can = [s for s in range(last + 1) if queues[s] and ready(s) is not None]
                if not can:
                    return -1
                s = can[0]
                start = max(free[s], ready(s))
                kind, k, _ = queues[s].pop(0)
                free[s] = ends[kind, k, s] = start + (f if kind == "F" else b)
            return max(free)
        """,
        """
        import functools

        def follow(schedule, f, b):
            before = {}
            for s, actions in enumerate(schedule):
                for n, (kind, k, _) in enumerate(actions):
                    needs = [(*actions[n - 1][:2], s)] if n else []
                    if kind == "F" and s:
                        needs.append(("F", k, s - 1))
                    if kind == "B":
                        needs.append(("F", k, s))
                        if s + 1 < len(schedule):
                            needs.append(("B", k, s + 1))
                    before[kind, k, s] = needs
            seen = set()

            @functools.cache
            def end(action):
                if action in seen:
                    raise RecursionError
                seen.add(action)
                own = f if action[0] == "F" else b
                return own + max(map(end, before[action]), default=0)

            try:
                return max(map(end, before))
            except RecursionError:
                return -1
        """,
    ],
    features={
        "deadlock": _is_stuck,
        "followed": lambda case: not _is_stuck(case),
        "one stage": lambda case: len(case["schedule"]) == 1,
        "unequal F and B": lambda case: case["forward_seconds"] != case["backward_seconds"],
    },
)

BANKS = {
    "u12-stages": STAGES,
    "u12-gpipe": GPIPE,
    "u12-one-f-one-b": ONE_F_ONE_B,
    "u12-costs": COSTS,
    "u12-interleaved": INTERLEAVED,
    "u12-halves": HALVES,
    "u12-zero": ZERO,
    "u12-messages": MESSAGES,
    "u12-simulator": SIMULATOR,
}
