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
            "live where it died",
            _peak(is_live="born <= op and (died is None or op <= died)"),
            "Who may have its bytes by then?",
        ),
        Wrong(
            "live only after its birth",
            _peak(is_live="born < op and (died is None or op < died)"),
            "Where does a result lie while it is written?",
        ),
        Wrong(
            "None is the last operation",
            _peak(is_live="born <= op < (num_operations if died is None else died)"),
            "is gone at your last operation.",
        ),
        Wrong(
            "None counts nowhere",
            _peak(is_live="died is not None and born <= op < died"),
            "counts nowhere.",
        ),
        Wrong(
            "nothing dies",
            _peak(is_live="born <= op"),
            "What does the second number of a storage say?",
        ),
        Wrong(
            "the last of the highest",
            _peak(operation="max(op for op in range(len(line)) if line[op] == max(line))"),
            "Which one does the exercise ask for?",
            points=1.0,
        ),
        Wrong(
            "from operation 1",
            _peak(operations="range(1, num_operations + 1)", operation="1 + line.index(max(line))"),
            "What is live before any operation has run?",
            points=0.5,
        ),
        Wrong(
            "without the last operation",
            _peak(operations="range(num_operations)"),
            "Which one is the last?",
        ),
        Wrong(
            "counts from one",
            _peak(operation="line.index(max(line)) + 1"),
            "Your operation is one too large.",
            points=1.0,
        ),
        Wrong(
            "the largest storage",
            _peak(peak_bytes="max(size for _, _, size in storages)"),
            "What else is live beside it?",
            points=1.0,
        ),
        Wrong(
            "the end is what never died",
            _peak(end_bytes="sum(size for _, died, size in storages if died is None)"),
            "freed after it?",
            points=1.0,
        ),
        Wrong(
            "no running sum",
            """
            def peak(storages, num_operations):
                line = [0] * (num_operations + 2)
                for born, died, size in storages:
                    line[born] += size
                    if died is not None:
                        line[died] -= size
                line = line[: num_operations + 1]
                top = max(line)
                return {"peak_bytes": top, "operation": line.index(top), "end_bytes": line[-1]}
            """,
            "What is there already from the operations before?",
        ),
        Wrong(
            "the end is the peak",
            _peak(end_bytes="max(line)"),
            "What has been freed since then?",
            points=1.0,
        ),
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
    wrong=[
        Wrong(
            "states from the beginning",
            _moments(states_in="True"),
            "Which line of a training step makes them?",
            points=0.5,
        ),
        Wrong(
            "always the first step",
            _moments(states_in="False", gradients_before="False"),
            "Every step is as the first with you.",
            points=0.5,
        ),
        Wrong(
            "no count of steps",
            _moments(states="8 * n"),
            "How many bytes does it take for each tensor?",
        ),
        Wrong(
            "a count for each parameter",
            _moments(states="12 * n"),
            "For what does the exercise count it?",
        ),
        Wrong(
            "one running mean",
            _moments(states="4 * n + 4 * t"),
            "How many running means has it?",
        ),
        Wrong(
            "three numbers",
            _moments(states="12 * n + 4 * t"),
            "Is one of them the weight or the gradient",
        ),
        Wrong(
            "zeros gone at the start",
            _moments(gradients_before="False"),
            "Who has freed them since the last step?",
            points=1.0,
        ),
        Wrong(
            "activations stay",
            _moments(backward="8 * n + (states if has_states else 0) + kept"),
            "Your activations outlive the backward pass.",
            points=1.5,
        ),
        Wrong(
            "gradients stay",
            _moments(gradients_before="step > 1", end="8 * n + states"),
            "What does the last argument say?",
            points=0.5,
        ),
        Wrong(
            "gradients go",
            _moments(gradients_before="False", end="4 * n + states"),
            "How many bytes does a gradient of zeros take?",
            points=0.5,
        ),
        Wrong(
            "gradients twice",
            _moments(backward="start + 4 * n"),
            "when zeros are there already?",
            points=1.5,
        ),
        Wrong(
            "zeros before the first backward pass",
            _moments(gradients_before="not let_go"),
            "Who made them?",
            points=1.0,
        ),
        Wrong(
            "no gradients",
            _moments(backward="4 * n + (states if has_states else 0)"),
            "What is it for?",
            points=1.5,
        ),
        Wrong(
            "only what is kept",
            _moments(forward="kept"),
            "What was there before it?",
            points=1.5,
        ),
    ],
    right=[
        _moments(states="4 * (n + n + t)"),
        """
        def moments(num_params, num_tensors, kept_bytes, step, is_grad_let_go):
            weights = gradients = 4 * num_params
            live = weights
            for number in range(1, step + 1):
                before = live
                after_backward = weights + gradients
                if number > 1:
                    after_backward += 2 * 4 * num_params + 4 * num_tensors
                live = weights + 2 * 4 * num_params + 4 * num_tensors
                if not is_grad_let_go:
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
        "first step, gradients freed": lambda case: case["step"] == 1 and case["is_grad_let_go"],
        "first step, zeros": lambda case: case["step"] == 1 and not case["is_grad_let_go"],
        "later step, gradients freed": lambda case: case["step"] > 2 and case["is_grad_let_go"],
        "later step, zeros": lambda case: case["step"] > 1 and not case["is_grad_let_go"],
        "one tensor": lambda case: case["num_tensors"] == 1,
        "many tensors": lambda case: case["num_tensors"] > 2,
    },
)


def _temporaries(
    for_loop: str = "(8 + 4 * mixed) * E",
    foreach: str = "(4 + 4 * mixed) * N",
    fused: str = "4 * mixed * E",
) -> str:
    return f"""
    def temporary_bytes(sizes, adamw, is_mixed):
        E, N, mixed = max(sizes), sum(sizes), int(is_mixed)
        if adamw == "for-loop":
            return {for_loop}
        if adamw == "foreach":
            return {foreach}
        return {fused}
    """


TEMPORARIES = AnswerBank(
    function="temporary_bytes",
    wrong=[
        Wrong(
            "a loop that keeps all",
            _temporaries(for_loop="(8 + 4 * mixed) * N"),
            "temporaries of all your tensors are live together.",
        ),
        Wrong(
            "a loop that keeps all, with one copy",
            _temporaries(for_loop="8 * N + 4 * mixed * E"),
            "roots and quotients of all your tensors are live together.",
        ),
        Wrong(
            "a fused kernel that copies all",
            _temporaries(fused="4 * mixed * N"),
            "Your `fused` turns all gradients to fp32 at once.",
        ),
        Wrong(
            "all at once always",
            _temporaries(for_loop="(8 + 4 * mixed) * N", fused="4 * mixed * N"),
            "Which of the three ways does that?",
        ),
        Wrong(
            "one at a time always",
            _temporaries(foreach="(4 + 4 * mixed) * E"),
            "How many does it take at once?",
        ),
        Wrong(
            "no copies of gradients",
            _temporaries(for_loop="8 * E", foreach="4 * N", fused="0"),
            "In which precision does the optimizer want a gradient",
        ),
        Wrong(
            "fused needs nothing",
            _temporaries(fused="0"),
            "What is made before its kernel runs?",
        ),
        Wrong(
            "copies in bf16",
            _temporaries(
                for_loop="(8 + 2 * mixed) * E", foreach="(4 + 2 * mixed) * N", fused="2 * mixed * E"
            ),
            "In which precision is the copy?",
        ),
        Wrong(
            "all in bf16",
            """
            def temporary_bytes(sizes, adamw, is_mixed):
                width, copies = (2, 1) if is_mixed else (4, 0)
                made = {"for-loop": 2, "foreach": 1, "fused": 0}[adamw] + copies
                return width * made * (sum(sizes) if adamw == "foreach" else max(sizes))
            """,
            "In which precision does the optimizer compute?",
        ),
        Wrong(
            "one temporary",
            _temporaries(for_loop="(4 + 4 * mixed) * E"),
            "Which two does the exercise name?",
        ),
        Wrong(
            "quotients too",
            _temporaries(foreach="(8 + 4 * mixed) * N"),
            "Which of the two does it make in place?",
        ),
        Wrong(
            "one copy at a time",
            _temporaries(foreach="4 * N + 4 * mixed * E"),
            "When does it need them?",
        ),
        Wrong(
            "all copies at once",
            _temporaries(for_loop="8 * E + 4 * mixed * N", fused="4 * mixed * N"),
            "Your loop and your kernel turn all gradients",
        ),
    ],
    right=[
        _temporaries(for_loop="12 * E if is_mixed else 8 * E"),
        """
        def temporary_bytes(sizes, adamw, is_mixed):
            most = 0
            for group in [sizes] if adamw == "foreach" else [[size] for size in sizes]:
                numbers = sum(group)
                tensors = ["gradient"] if is_mixed else []
                tensors += {"for-loop": ["root", "quotient"], "foreach": ["root"], "fused": []}[
                    adamw
                ]
                most = max(most, 4 * numbers * len(tensors))
            return most
        """,
    ],
    features={
        "one tensor": lambda case: len(case["sizes"]) == 1,
        "equal tensors": lambda case: case["sizes"].count(max(case["sizes"])) > 1,
        "a single number": lambda case: 1 in case["sizes"],
        "foreach, mixed": lambda case: case["adamw"] == "foreach" and case["is_mixed"],
        "fused, fp32": lambda case: case["adamw"] == "fused" and not case["is_mixed"],
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
    wrong=[
        Wrong("no moments", _peaks(state="4"), "Since when are they there in step 2?"),
        Wrong("one running mean", _peaks(state="8"), "How many running means has it?"),
        Wrong("numbers", _peaks(width="1"), "How many bytes has a number in fp32?", points=1.0),
        Wrong(
            "one gradient at the loss",
            _peaks(loss="state + kept + logits"),
            "and from which other one?",
            points=2.0,
        ),
        Wrong(
            "no gradient at the loss",
            _peaks(loss="state + kept"),
            "Through which two tensors does the gradient come first?",
            points=2.0,
        ),
        Wrong(
            "logits too",
            _peaks(loss="state + kept + 3 * logits"),
            "Who still needs the logits",
            points=2.0,
        ),
        Wrong(
            "all gradients at the loss",
            _peaks(loss="state + 4 * n + kept + 2 * logits"),
            "How many of them has the backward pass made by then?",
            points=2.0,
        ),
        Wrong(
            "nothing kept at the loss",
            _peaks(loss="state + 2 * logits"),
            "How far has the backward pass come?",
            points=2.0,
        ),
        Wrong(
            "16 N",
            _peaks(tied="0", untied="0"),
            "What is the embedding's gradient made from?",
            points=2.0,
        ),
        Wrong(
            "as if never tied",
            _peaks(tied="hidden"),
            "A tied embedding is treated as one of its own.",
            points=2.0,
        ),
        Wrong(
            "as if always tied",
            _peaks(untied="2 * matrix"),
            "How many gradients has it to add up?",
            points=2.0,
        ),
        Wrong(
            "added in place",
            _peaks(tied="matrix"),
            "how many matrices are live while their sum is written?",
            points=2.0,
        ),
        Wrong(
            "three beside the gradients",
            _peaks(tied="3 * matrix"),
            "Which of the three is among the gradients already?",
            points=2.0,
        ),
        Wrong(
            "nothing beside an untied embedding",
            _peaks(untied="0"),
            "From which tensor is its gradient made?",
            points=2.0,
        ),
        Wrong(
            "three always",
            _peaks(tied="3 * matrix", untied="3 * matrix"),
            "what is there where nothing is added up?",
            points=2.0,
        ),
        Wrong(
            "one part and its source",
            _peaks(tied="matrix + hidden"),
            "How many parts are there",
            points=2.0,
        ),
        Wrong(
            "a matrix beside an untied embedding",
            _peaks(untied="matrix"),
            "Is it not one of them already?",
            points=2.0,
        ),
        Wrong(
            "a matrix and its source beside an untied embedding",
            _peaks(untied="matrix + hidden"),
            "Which of the two is one of them already?",
            points=2.0,
        ),
        Wrong(
            "the embedding's gradient alone",
            _peaks(backward="state + (3 * matrix if model.is_tied else matrix + hidden)"),
            "How many parameters have theirs by then?",
            points=2.0,
        ),
        Wrong(
            "the embedding's gradient alone where tied",
            _peaks(tied="3 * matrix - 4 * n"),
            "How many parameters have theirs by then?",
            points=2.0,
        ),
        Wrong(
            "twice the embedding",
            _peaks(step="state + 4 * n + 2 * matrix"),
            "Your temporaries are those of one of the three ways",
            points=2.0,
        ),
        Wrong(
            "the hidden states' gradient stays",
            _peaks(tied="2 * matrix + hidden"),
            "What was it needed for?",
            points=2.0,
        ),
        Wrong(
            "kept to the end",
            _peaks(
                backward="state + 4 * n + kept + (tied if model.is_tied else untied)",
                step="state + 4 * n + kept + temporaries",
            ),
            "When is the last of it freed?",
            points=1.0,
        ),
        Wrong(
            "no temporaries",
            _peaks(step="state + 4 * n"),
            "What does the last argument say?",
            points=2.0,
        ),
        Wrong(
            "no gradients in the step",
            _peaks(step="state + temporaries"),
            "When are they freed?",
            points=2.0,
        ),
        Wrong(
            "no gradients after the loss",
            _peaks(backward="state + (tied if model.is_tied else untied)"),
            "When are they freed?",
            points=2.0,
        ),
    ],
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
    "u04-optimizer-temporaries": TEMPORARIES,
    "u04-peak": PEAKS,
}
