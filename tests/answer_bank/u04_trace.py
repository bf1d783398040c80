"""Answer banks of unit 04: the memory line and its peak, the moments of a training step."""

from tests.answer_bank import AnswerBank, Wrong


def _peak(
    is_live: str = "born <= op and (died is None or op < died)",
    operations: str = "range(num_operations + 1)",
    operation: str = "line.index(max(line))",
    peak_bytes: str = "max(line)",
    end_bytes: str = "line[-1]",
) -> str:
    return f"""
    def peak(storages, num_operations):
        line = [
            sum(size for born, died, size in storages if {is_live})
            for op in {operations}
        ]
        return {{
            "peak_bytes": {peak_bytes},
            "operation": {operation},
            "end_bytes": {end_bytes},
        }}
    """


PEAK_OF_LINE = AnswerBank(
    function="peak",
    wrong=[
        Wrong(
            "where something is born alone",
            """
            def peak(storages, num_operations):
                def live(at):
                    return sum(n for born, died, n in storages if born <= at < (died or 10**9))

                highest = max(sorted({born for born, _, _ in storages}), key=live)
                return {
                    "peak_bytes": live(highest),
                    "operation": highest,
                    "end_bytes": live(num_operations),
                }
            """,
            "nothing to choose from",
        )
    ],
    right=[
        _peak(is_live="born <= op < (num_operations + 1 if died is None else died)"),
        """
        def peak(storages, num_operations):
            events = []
            for born, died, size in storages:
                events.append((born, size))
                if died is not None and died <= num_operations:
                    events.append((died, -size))
            live, highest, at = 0, -1, 0
            for op in range(num_operations + 1):
                live += sum(size for when, size in events if when == op)
                if live > highest:
                    highest, at = live, op
            return {"end_bytes": live, "operation": at, "peak_bytes": highest}
        """,
    ],
    features={
        "highest at the beginning": lambda c: _line(c).index(max(_line(c))) == 0,
        "highest at the end": lambda c: _line(c).index(max(_line(c))) == c["num_operations"],
        "no storages": lambda case: not case["storages"],
        "highest twice": lambda c: _line(c).count(max(_line(c))) > 1,
        "freed after the last": lambda c: any(
            died == c["num_operations"] + 1 for _, died, _ in c["storages"]
        ),
        "one dies where another is born": lambda c: (
            {died for _, died, _ in c["storages"]} & {born for born, _, _ in c["storages"]}
        ),
    },
)


def _line(case: dict) -> list[int]:
    return [
        sum(size for born, died, size in case["storages"] if born <= op < (died or 10**9))
        for op in range(case["num_operations"] + 1)
    ]


def _moments(**changes: str) -> str:
    parts = {
        "states": "8 * n + 4 * t",
        "states_in": "step > 1",
        "gradients_before": "step > 1 and not let_go",
        "forward": "start + kept",
        "backward": "8 * n + (states if has_states else 0)",
        "end": "4 * n + states + (0 if let_go else 4 * n)",
    } | changes
    return f"""
    def moments(n, t, kept, step, let_go):
        states = {parts["states"]}
        has_states = {parts["states_in"]}
        start = 4 * n + (states if has_states else 0)
        start += 4 * n if {parts["gradients_before"]} else 0
        return {{
            "before_forward": start,
            "after_forward": {parts["forward"]},
            "after_backward": {parts["backward"]},
            "after_step": {parts["end"]},
        }}
    """


MOMENTS = AnswerBank(
    function="moments",
    wrong=[],
    right=[
        _moments(states="4 * (n + n + t)"),
        """
        def moments(num_params, num_tensors, kept_bytes, step, is_grad_freed):
            weights = gradients = 4 * num_params
            live = weights
            for number in range(1, step + 1):
                before = live
                after_backward = weights + gradients
                if number > 1:
                    after_backward += 2 * 4 * num_params + 4 * num_tensors
                live = weights + 2 * 4 * num_params + 4 * num_tensors
                if not is_grad_freed:
                    live += gradients
            return {
                "before_forward": before,
                "after_forward": before + kept_bytes,
                "after_backward": after_backward,
                "after_step": live,
            }
        """,
    ],
    features={
        "first step, gradients freed": lambda case: case["step"] == 1 and case["is_grad_freed"],
        "first step, zeros": lambda case: case["step"] == 1 and not case["is_grad_freed"],
        "later step, gradients freed": lambda case: case["step"] > 2 and case["is_grad_freed"],
        "later step, zeros": lambda case: case["step"] > 1 and not case["is_grad_freed"],
        "one tensor": lambda case: case["num_tensors"] == 1,
        "many tensors": lambda case: case["num_tensors"] > 2,
    },
)


def _peaks(**changes: str) -> str:
    parts = {
        "state": "12",
        "loss": "state + kept + 2 * logits",
        "tied": "2 * matrix",
        "untied": "hidden",
        "step": "state + 4 * n + temporaries",
        "backward": "state + 4 * n + (tied if model.is_tied else untied)",
        "width": "4",
    } | changes
    return f"""
    def peaks(model, n, kept, tokens, temporaries):
        state = {parts["state"]} * n
        logits, hidden, matrix = (
            {parts["width"]} * one * other
            for one, other in (
                (tokens, model.vocab_size),
                (tokens, model.hidden_size),
                (model.vocab_size, model.hidden_size),
            )
        )
        tied, untied = {parts["tied"]}, {parts["untied"]}
        return {{
            "loss": {parts["loss"]},
            "backward": {parts["backward"]},
            "step": {parts["step"]},
        }}
    """


PEAKS = AnswerBank(
    function="peaks",
    wrong=[],
    right=[
        _peaks(tied="matrix * 3 - matrix"),
        """
        def peaks(model, num_params, kept_bytes, num_tokens, temporary_bytes):
            fp32 = 4
            weights = gradients = first_moment = second_moment = fp32 * num_params
            stays = weights + first_moment + second_moment
            rows = [model.vocab_size] * 2 if model.is_tied else [num_tokens]
            beside = sum(fp32 * model.hidden_size * each for each in rows)
            of_logits = fp32 * num_tokens * model.vocab_size
            return {
                "step": stays + gradients + temporary_bytes,
                "backward": stays + gradients + beside,
                "loss": stays + kept_bytes + of_logits * 2,
            }
        """,
    ],
    features={
        "tied": lambda case: case["model"]["is_tied"],
        "untied": lambda case: not case["model"]["is_tied"],
        "grouped-query": lambda case: (
            case["model"].get("num_kv_heads", 1) < case["model"]["num_heads"]
        ),
        "two sequences": lambda case: case["num_tokens"] % 2 == 0,
        "odd length": lambda case: case["num_tokens"] % 2 == 1,
        "fused": lambda case: case["temporary_bytes"] == 0,
        "foreach": lambda case: case["temporary_bytes"] == 4 * case["num_params"],
    },
)

BANKS: dict[str, AnswerBank] = {
    "u04-peak-of-line": PEAK_OF_LINE,
    "u04-moments": MOMENTS,
    "u04-peak": PEAKS,
}
