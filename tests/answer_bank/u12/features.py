"""Kinds of cases that the exercises of unit 12 have for every seed."""

OF_SCENARIOS = {
    "one stage": lambda case: case["num_stages"] == 1,
    "one micro-batch": lambda case: case["num_micro_batches"] == 1,
    "few micro-batches": lambda case: case["num_micro_batches"] < case["num_stages"],
    "as many": lambda case: case["num_micro_batches"] == case["num_stages"] > 1,
    "many micro-batches": lambda case: case["num_micro_batches"] > case["num_stages"],
}


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


FEATURES = {
    "u12-gpipe": {
        "one stage": lambda case: case["num_stages"] == 1,
        "one micro-batch": lambda case: case["num_micro_batches"] == 1,
        "few micro-batches": lambda case: case["num_micro_batches"] < case["num_stages"],
        "many micro-batches": lambda case: case["num_micro_batches"] > case["num_stages"],
    },
    "u12-one-f-one-b": OF_SCENARIOS,
    "u12-costs": {
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
    "u12-halves": {
        "one layer": lambda case: len(case["widths"]) == 2,
        "several layers": lambda case: len(case["widths"]) > 3,
        "one width": lambda case: len({*case["widths"]}) == 1 < len(case["widths"]) - 1,
        "several widths": lambda case: len({*case["widths"]}) > 1,
        "one row": lambda case: case["rows"] == 1,
    },
    "u12-zero": OF_SCENARIOS,
    "u12-interleaved": {
        "one stage": lambda case: case["num_stages"] == 1,
        "one chunk": lambda case: case["num_chunks"] == 1,
        "one group": lambda case: case["num_micro_batches"] == case["num_stages"] > 1,
        "several groups": lambda case: case["num_micro_batches"] > case["num_stages"] > 1,
        "three chunks": lambda case: case["num_chunks"] > 2,
    },
    "u12-stages": {
        "one stage": lambda case: case["num_stages"] == 1,
        "a piece for each stage": lambda case: len(case["seconds"]) == case["num_stages"],
        "a free piece in front": lambda case: case["seconds"][0] == 0,
        "a heavy end": lambda case: case["seconds"][-1] == 2 * case["seconds"][1] + 1,
        "equal pieces": lambda case: len({*case["seconds"]}) == 1,
    },
    "u12-messages": {
        "looped": lambda case: not case["is_v"] and case["num_chunks"] > 1 < case["num_stages"],
        "V": lambda case: case["is_v"] and case["num_chunks"] > 1 < case["num_stages"],
        "one stage": lambda case: case["num_stages"] == 1,
        "one chunk": lambda case: case["num_chunks"] == 1,
        "beyond a float": lambda case: case["tensor_bytes"] > 2**53,
    },
    "u12-simulator": {
        "deadlock": _is_stuck,
        "followed": lambda case: not _is_stuck(case),
        "one stage": lambda case: len(case["schedule"]) == 1,
        "unequal F and B": lambda case: case["forward_seconds"] != case["backward_seconds"],
    },
}
