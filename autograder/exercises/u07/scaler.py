"""Check of a loss scaler: step by step beside PyTorch's own."""

import random
from collections.abc import Sequence

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import Edit, edited
from autograder.exercises.u07.shared.torch_scaler import measured
from autograder.observing.u07 import scaler

SCENARIOS = ("growth", "overflow", "one after the other", "one without gradient")
NAMES = ("scenario", "scale", "growth_factor", "backoff_factor", "growth_interval", "steps")
# From a small scale to less than one; gradients are so large that fp16 rounds them all alike.
LOW = ["large", "inf", "inf", "inf", "large"]


def scaler_cases(seed: int) -> list[Case]:
    """Growth after 1 to 4 steps; each kind of overflow in the first step, later and in a row."""
    rng = random.Random(seed)
    good = ["good"]
    by_hand = {"scale": 2.0**10, "growth_factor": 2.0, "backoff_factor": 0.5}
    cases = [_case(rng, "growth", good * 5, interval=2) | by_hand]
    cases += [_case(rng, "growth", good * rng.randint(5, 8), interval=n) for n in (1, 2, 3)]
    cases.append(
        _case(rng, "growth", ["huge", *good * rng.randint(5, 12)], interval=4) | {"scale": 1.0}
    )
    for steps in (
        ["inf", *good * 3],
        ["nan", "opposite", *good * 2],
        [*good, "inf in the first", *good * 2],
        [*good, "nan in the second", *good * 2],
        ["inf in the second", "nan in the first", "all", *good],
    ):
        cases.append(_case(rng, "overflow", steps, interval=rng.randint(7, 9)))
    cases.append(_case(rng, "overflow", LOW, interval=rng.randint(7, 9)) | {"scale": 4.0})
    for steps in (
        [*good * 2, "inf", *good * 3],
        [*good * 2, "nan", *good * 3, "inf", *good * 4],
        [*good, "inf", *good * 2, "inf", *good * 3],
        [*good * 4, "inf in the first", *good * 6],
    ):
        cases.append(_case(rng, "one after the other", steps, interval=3))
    cases.append(_case(rng, "one after the other", ["large"] * 8, interval=2) | {"scale": 2.0**22})
    cases.append(_case(rng, "one after the other", [*good, "nan"] * 3, interval=1))
    for steps, interval in (
        (["good", "nothing", "good", "good"], 2),
        (["inf", *good * 3], 2),
        ([*good * 2, "nan", *good * 3], 3),
    ):
        cases.append(_case(rng, "one without gradient", steps, interval=interval))
    lasts = {case["scenario"]: case for case in cases}
    for case in lasts.values():  # in each scenario some factors that are not those by hand
        case |= {"growth_factor": 4.0, "backoff_factor": 0.25}
    return cases


def _case(rng: random.Random, scenario: str, steps: Sequence[str], *, interval: int) -> Case:
    growth_factor, backoff_factor = rng.choice((2.0, 4.0)), rng.choice((0.5, 0.25))
    sizes = (scenario, 2.0 ** rng.randint(12, 15), growth_factor, backoff_factor, interval)
    return dict(zip(NAMES, (*sizes, list(steps)), strict=True))


# The model answer's pieces.
SCALED, DIVIDE = "return self.scale * loss", "weight.grad.div_(self.scale)"
GROUPS, IS_THERE = "in optimizer.param_groups:", "if weight.grad is not None:"
IS_FINITE, BEGIN = "weight.grad.isfinite().all()", "        self.stepped = True\n"
NOTE = f"self.stepped &= bool({IS_FINITE})"
STEP, IF_FINE = "optimizer.step()", "if self.stepped:"
SKIP, RETURN = f"{IF_FINE}\n            {STEP}", "return self.stepped"
SHRINK, GROW = "self.scale * self.backoff_factor, 0", "self.scale * self.growth_factor, 0"
IS_DUE = "self.good_steps == self.growth_interval"

OF_GRADIENTS = ("wrong_first", "wrong_second", "doublings")
OF_STEPS = ("steps", "wrong_weights")
SOME_FACTOR = (
    "Your scale changes by the factors of the worked case, whatever factors your scaler is given. "
    "Where does it keep them?"
)
BUT_ONE, BUT_TWO, BUT_THREE = 3.0, 2.0, 1.0  # points of all scenarios but so many


def _after(line: str, *more: str, depth: int = 5) -> str:
    return "".join(f"{each}\n{'    ' * depth}" for each in (line, *more)).rstrip()


NOT_ALL_DIVIDED = (
    "All is right but the gradients of skipped steps: not all of them are divided. Does the "
    "exercise divide them before it looks for an overflow, or only if there is none?"
)
EDITS = (
    Edit(
        "Your loss does not come back multiplied by the scale. What has to be multiplied, so "
        "that every gradient gets the factor?",
        {SCALED: "return loss"},
        shows=("not_scaled",),
    ),
    Edit(
        "You multiply the loss that came in, and whoever prints it later sees the scaled one. "
        "Which operation makes a new tensor?",
        {SCALED: "return loss.mul_(self.scale)"},
        shows=("losses_changed",),
    ),
    Edit(
        "After a good step your gradients are gone. In a training loop, who clears them, and when?",
        {STEP: f"{STEP}; optimizer.zero_grad()"},
        shows=("gone",),
    ),
    Edit(
        "Weights of the second group keep their multiplied gradients. How many groups of weights "
        "can an optimizer have?",
        {GROUPS: "in optimizer.param_groups[:1]:"},
    ),
    Edit(
        "All is right but the gradients of skipped steps: those after the first bad one are "
        "still multiplied. Where does your loop end?",
        {NOTE: _after(NOTE, "if not self.stepped:", "    return False")},
        points=BUT_ONE,
    ),
    Edit(
        NOT_ALL_DIVIDED,
        {DIVIDE: f"weight.grad.div_(self.scale if {IS_FINITE} else 1.0)"},
        points=BUT_ONE,
    ),
    Edit(
        NOT_ALL_DIVIDED,
        {
            DIVIDE: "pass",
            SKIP: f"{IF_FINE}\n            for group {GROUPS}\n                for weight in "
            "group['params']:\n                    if weight.grad is not None:\n"
            f"                        {DIVIDE}\n            {STEP}",
        },
        points=BUT_ONE,
    ),
    Edit(
        "After a skipped step your gradients are gone. The exercise wants them divided: in a "
        "training loop, who clears them?",
        {SKIP: f"{SKIP}\n        else:\n            optimizer.zero_grad()"},
        points=BUT_ONE,
    ),
    *(
        Edit(
            "Your step ends at the first weight without a gradient. Which weights are still to "
            "come, and is the step one to skip?",
            {IS_THERE: _after("if weight.grad is None:", f"    {ending}", IS_THERE, depth=4)},
            points=BUT_ONE,
        )
        for ending in ("return False", "self.stepped = False; return False")
    ),
    Edit(
        "A weight without a gradient makes you skip the step. Is a missing gradient an overflow?",
        {IS_THERE: _after("self.stepped &= weight.grad is not None", IS_THERE, depth=4)},
        points=BUT_ONE,
    ),
    Edit(
        "Where no weight has a gradient you skip the step. Is any number an inf or a NaN there?",
        {
            IF_FINE: "if self.stepped and any(\n                w.grad is not None "
            "for g in optimizer.param_groups for w in g['params']\n            ):"
        },
        points=BUT_ONE,
        shows=("steps",),
    ),
    *(
        Edit(
            "You skip a step whose gradients are all finite: only their sum, or their norm, is "
            "not. What does the exercise ask to be finite?",
            {IS_FINITE: f"weight.grad.{way}().isfinite()"},
            points=BUT_ONE,
        )
        for way in ("sum", "norm")
    ),
    Edit(
        "Your scale never goes below one. What if gradients overflow at one as well?",
        {SHRINK: "max(1.0, self.scale * self.backoff_factor), 0"},
        points=BUT_ONE,
    ),
    Edit(
        "Your scale falls after good steps. How does `update` know that one was taken?",
        {
            BEGIN: BEGIN.replace("self.", ""),
            NOTE: NOTE.replace("self.", "", 1),
            IF_FINE: IF_FINE.replace("self.", ""),
            RETURN: RETURN.replace("self.", ""),
        },
    ),
    Edit(
        "Your scale changes twice per step. Who else calls the method that changes it?",
        {RETURN: f"self.update()\n        {RETURN}"},
    ),
    Edit(
        "After a good step your scale changes twice. Who else calls the method that changes it?",
        {STEP: f"{STEP}; self.update()"},
        points=BUT_THREE,
    ),
    Edit(
        "The optimizer gets gradients that are still multiplied by the scale. Who divides them, "
        "and before which call?",
        {DIVIDE: "pass"},
        shows=OF_GRADIENTS,
    ),
    Edit(
        "The optimizer gets gradients that are multiplied by the scale twice. Which of the two "
        "should be a division?",
        {DIVIDE: "weight.grad.mul_(self.scale)"},
        shows=OF_GRADIENTS,
    ),
    Edit(
        "Your gradients are divided by the scale twice. How often does your code meet each of "
        "them in one step?",
        {DIVIDE: f"{DIVIDE}.div_(self.scale)"},
        shows=OF_GRADIENTS,
    ),
    Edit(
        "You test the loss. Can it be finite while a gradient is not?",
        {
            SCALED: f"self.is_fine = bool(loss.isfinite())\n        {SCALED}",
            f"bool({IS_FINITE})": "self.is_fine",
        },
        points=BUT_TWO,
    ),
    Edit(
        "You forget an overflow in one weight when you look at the next. What do you keep of "
        "each answer?",
        {"self.stepped &=": "self.stepped ="},
        points=BUT_TWO,
        shows=OF_STEPS,
    ),
    Edit(
        "You skip a step only if every gradient is bad. How many bad ones are enough?",
        {BEGIN: BEGIN.replace("True", "False"), "self.stepped &=": "self.stepped |="},
        points=BUT_THREE,
        shows=OF_STEPS,
    ),
    Edit(
        "You find infinities, and let NaN pass. What is inf minus inf, and what does your test "
        "ask?",
        {IS_FINITE: "not weight.grad.isinf().any()"},
        points=BUT_THREE,
        shows=OF_STEPS,
    ),
    Edit(
        "You find NaN, and let infinities pass. What does your test ask of a gradient?",
        {IS_FINITE: "not weight.grad.isnan().any()"},
        points=BUT_THREE,
        shows=OF_STEPS,
    ),
    Edit(
        "You let a gradient pass that has a bad number among good ones. Must one number be "
        "finite, or all?",
        {IS_FINITE: IS_FINITE.replace("all", "any")},
        points=BUT_THREE,
    ),
    Edit(
        "One weight overflows, and you still update the others. Is half a step what the loss "
        "asked for?",
        {
            NOTE: _after(NOTE, f"weight.grad = weight.grad if {IS_FINITE} else None"),
            SKIP: STEP,
        },
        points=BUT_THREE,
    ),
    Edit(
        "You replace bad gradients and run the optimizer. What does momentum do with a gradient "
        "of zero, and which call should be left out?",
        {NOTE: _after(NOTE, "weight.grad.nan_to_num_(0, 0, 0)"), SKIP: STEP},
        points=BUT_THREE,
    ),
    Edit(
        "After one overflow you skip all further steps. Where do you take your note of it back?",
        {
            BEGIN: "        self.stepped |= vars(self).setdefault('is_first', True)\n"
            "        self.is_first = False\n"
        },
        points=BUT_THREE,
        shows=OF_STEPS,
    ),
    *(
        Edit(
            "The optimizer runs with infinite gradients. What must not happen after an overflow?",
            {SKIP: STEP, RETURN: returned},
            points=BUT_THREE,
        )
        for returned in (RETURN, "return True")
    ),
    Edit(
        "You find no overflow, not even where every number of a gradient is infinite. Which "
        "gradients does your test look at, and in which precision are they?",
        {NOTE: "pass"},
        points=BUT_THREE,
    ),
    Edit(
        "After an overflow your scale is larger. Do you multiply by a factor below one, or divide?",
        {SHRINK: SHRINK.replace("*", "/")},
        points=BUT_THREE,
    ),
    Edit(
        "After an overflow the scale stays. Would the next step overflow again?",
        {SHRINK: "self.scale, 0"},
        points=BUT_THREE,
    ),
    Edit(SOME_FACTOR, {SHRINK: "self.scale * 0.5, 0", GROW: "self.scale * 2.0, 0"}),
    Edit(SOME_FACTOR, {SHRINK: "self.scale * 0.5, 0"}, points=BUT_THREE),
    Edit(SOME_FACTOR, {GROW: "self.scale * 2.0, 0"}, points=BUT_THREE),
    Edit(
        "Your scale never grows. When could a larger one have been tried?",
        {GROW: "self.scale, 0"},
        points=BUT_THREE,
    ),
    Edit(
        "Your scale grows one good step too late. Does the count include the current step when "
        "you compare it?",
        {IS_DUE: IS_DUE.replace("==", ">")},
        points=BUT_THREE,
    ),
    Edit(
        "Once it has grown, your scale grows at every step. When does the count start again?",
        {IS_DUE: IS_DUE.replace("==", ">="), GROW: GROW.replace(" 0", " self.good_steps")},
        points=BUT_THREE,
    ),
    Edit(
        "Your scale grows once, and then never again. How large is your count when the next "
        "interval is over?",
        {GROW: GROW.replace(" 0", " self.good_steps")},
        points=BUT_THREE,
    ),
    Edit(
        "From the second time on, your scale grows one good step too early. At which number does "
        "the count start again?",
        {GROW: GROW.replace(" 0", " 1")},
        points=BUT_THREE,
    ),
    Edit(
        "After an overflow your count goes on from where it was. Which steps in a row does the "
        "exercise count?",
        {SHRINK: SHRINK.replace(" 0", " self.good_steps - 1")},
        points=BUT_TWO,
    ),
    Edit(
        "You count a skipped step as a good one. Which steps in a row does the exercise count?",
        {f"{SHRINK}\n        elif": SHRINK.replace(" 0", " self.good_steps") + "\n        if"},
        points=BUT_TWO,
    ),
    Edit(
        "Your `step` says that the step was taken when it was skipped. What does the exercise "
        "want it to return?",
        {RETURN: "return True"},
        points=BUT_THREE,
    ),
)

CHECK = Check(
    cases=scaler_cases,
    observe=scaler.observe,
    judge=Behaviour(
        measured,
        *edited("u07-scaler", EDITS, observe=scaler.observe),
        Symptom(
            "All is right but what your `step` returns. Does it say whether it stepped?",
            lambda *case: {"wrong_returns": len(case[-1])},  # in every step
        ),
        scenarios=SCENARIOS,
        summarise=scaler.summarise,
        questions={
            "not_scaled": "What does `scaled` return, a new tensor or an old one?",
            "other_scales": "The scale is wrong after some step. Go through the steps by "
            "hand: how many good ones have been in a row, and who starts the count again?",
            "wrong_first": "Gradients are wrong when the optimizer looks at them. By what are "
            "they divided, and how often in one step?",
            "steps": "The optimizer takes another number of steps. What is in the gradients of a "
            "step that it should skip?",
            "overflow": "Wrong only where numbers overflow. Which gradients may hold an inf or a "
            "NaN, and do you look at all of them before the step?",
        },
        labels=scaler.LABELS,
    ),
    fallback="course_utils.reference.loss_scaling.LossScaler",
    answers=("course_utils.reference.loss_scaling", "torch.amp.grad_scaler.GradScaler"),
    forbidden_modules=("torch.amp", "torch.cuda.amp"),
)
