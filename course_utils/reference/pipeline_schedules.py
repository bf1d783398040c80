"""In which order do the stages of a pipeline work? One list of actions for each stage.

    gpipe                     all forward passes, then all backward passes
    one_forward_one_backward  1F1B: a backward pass as soon as there can be one
    interleaved               1F1B over several chunks of each stage
    zero_bubble               1F1B with the weight gradients put off: ZB-H1

Sources: Huang et al. 2019, "GPipe"; Narayanan et al. 2021, "Efficient Large-Scale Language Model
Training on GPU Clusters", section 2.2; Qi et al. 2024, "Zero Bubble Pipeline Parallelism",
section 2.
"""

from course_utils.configs.pipeline import Action

Lists = list[list[Action]]


def gpipe(num_stages: int, num_micro_batches: int) -> Lists:
    """All forward passes, then all backward passes; the same on every stage."""
    forward = [("F", k, 0) for k in range(num_micro_batches)]
    backward = [("B", k, 0) for k in range(num_micro_batches)]
    return [forward + backward for _ in range(num_stages)]


def one_forward_one_backward(num_stages: int, num_micro_batches: int) -> Lists:
    """Stage s begins with ``p - s - 1`` forward passes, then F and B alternate."""
    schedule = []
    for stage in range(num_stages):
        ahead = min(num_stages - stage - 1, num_micro_batches)
        actions = [("F", k, 0) for k in range(ahead)]
        for k in range(num_micro_batches - ahead):
            actions += [("F", ahead + k, 0), ("B", k, 0)]
        actions += [("B", k, 0) for k in range(num_micro_batches - ahead, num_micro_batches)]
        schedule.append(actions)
    return schedule


def interleaved(num_stages: int, num_micro_batches: int, num_chunks: int) -> Lists:
    """1F1B over chunks: p micro-batches through one chunk, the same through the next.

    Args:
        num_stages: Stages p.
        num_micro_batches: A multiple of p.
        num_chunks: Chunks of each stage.
    """
    length = num_micro_batches * num_chunks
    forward, backward = list[Action](), list[Action]()
    for first in range(0, num_micro_batches, num_stages):
        group = range(first, first + num_stages)
        forward += [("F", k, chunk) for chunk in range(num_chunks) for k in group]
        backward += [("B", k, chunk) for chunk in reversed(range(num_chunks)) for k in group]
    schedule = []
    for stage in range(num_stages):
        ahead = min(2 * (num_stages - stage - 1) + (num_chunks - 1) * num_stages, length)
        actions = forward[:ahead]
        for pair in zip(forward[ahead:], backward, strict=False):
            actions += pair
        schedule.append(actions + backward[length - ahead :])
    return schedule


def zero_bubble(num_stages: int, num_micro_batches: int) -> Lists:
    """1F1B in halves: stage s puts off s of its weight gradients, and catches up in the end."""
    schedule = []
    for stage in range(num_stages):
        actions = list[Action]()
        for kind, k, _ in one_forward_one_backward(num_stages, num_micro_batches)[stage]:
            actions.append(("I" if kind == "B" else kind, k, 0))
            if kind == "B" and k >= stage:
                actions.append(("W", k - stage, 0))
        first_left = max(num_micro_batches - stage, 0)
        actions += [("W", k, 0) for k in range(first_left, num_micro_batches)]
        schedule.append(actions)
    return schedule


def greedy_halves(num_stages: int, num_micro_batches: int, most_in_flight: int) -> Lists:
    """Halves in the order of need: I before F before W, and F only while there is room.

    With ``2 p - 1`` micro-batches in flight no stage ever waits once it has begun, as in ZB-H2.
    F, I and W are taken to last equally long.

    Args:
        num_stages: Stages p.
        num_micro_batches: Micro-batches.
        most_in_flight: That a stage may hold: forward begun, weight gradients not done.
    """
    done: dict[Action, int] = {}  # by kind, micro-batch and stage: the turn after which it is done
    schedule: Lists = [[] for _ in range(num_stages)]
    turn = 0
    while any(len(actions) < 3 * num_micro_batches for actions in schedule):
        begun = dict(done)
        for stage, actions in enumerate(schedule):
            counts = {kind: sum(each[0] == kind for each in actions) for kind in "IFW"}
            is_ready = {
                "I": counts["I"] < counts["F"]
                and (stage + 1 == num_stages or ("I", counts["I"], stage + 1) in begun),
                "F": counts["F"] < min(num_micro_batches, counts["W"] + most_in_flight)
                and (stage == 0 or ("F", counts["F"], stage - 1) in begun),
                "W": counts["W"] < counts["I"],
            }
            if kind := next((kind for kind in "IFW" if is_ready[kind]), None):
                done[kind, counts[kind], stage] = turn
                actions.append((kind, counts[kind], 0))
        turn += 1
    return schedule
