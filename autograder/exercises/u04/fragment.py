"""Check of a script that fragments memory, played on the course's allocator."""

import random

from autograder.checking.exercise_check import Case, Check
from autograder.checking.judges import Behaviour
from autograder.checking.mistakes import Symptom
from autograder.exercises.model_answers import mistakes_of
from autograder.observing.u04 import fragment
from course_utils.reference.allocator_replay import MIB

# How a script misses its goal, what that is called, and what is asked.
WAYS = {
    "too_many_requests": (
        "The script has more than 1,000 requests.",
        "Your script has more than 1,000 requests. How large may your blocks be, and how many of "
        "them fill the device?",
    ),
    "impossible_requests": (
        "The script has a request that cannot be.",
        "A request in it cannot be: it is no whole number, asks for nothing, or frees a block that "
        "is not in use. From which number on are the blocks of a script counted?",
    ),
    "refused_too_early": (
        "A request of the script is not served.",
        "The device is full before your script ends. Into which segments do your blocks go, and "
        "how much of each is left over?",
    ),
    "too_little_free": (
        "More than half of the device is in use at the end.",
        "When your script is over, less than half of the device is free. How many of the blocks "
        "are still in use, and of how many bytes?",
    ),
    "room_for_a_segment": (
        "There is room for a new segment at the end.",
        "Your script leaves so much of the device in no segment at all that a new one has room for "
        "the last request. How many of your blocks fill the device?",
    ),
    "served_from_whole_segments": (
        "Segments that were given back make room for the last request.",
        "The last request is served: segments that are free altogether go back to the device, and "
        "make room for a new one. Which block must stay in use in each of them?",
    ),
    "served_from_a_block": (
        "A free block is large enough for the last request.",
        "The last request is served from a free block: one that is that large by itself, or free "
        "neighbors that were joined. How large may a hole get, and what must stay in use beside "
        "it?",
    ),
}


def fragment_cases(seed: int) -> list[Case]:
    """Devices of 40 MiB to 1,000 MiB."""
    rng = random.Random(seed)
    sizes = [40, 60, 80, 20 * rng.randint(45, 50), *(20 * rng.randint(5, 50) for _ in range(16))]
    return [{"device_bytes": MIB * size} for size in sizes]


CHECK = Check(
    cases=fragment_cases,
    observe=fragment.observe,
    judge=Behaviour(
        lambda device_bytes: dict.fromkeys(WAYS, 0),
        *mistakes_of("u04-fragment", observe=fragment.observe),
        *(Symptom(hint, lambda *case, way=way: {way: 1}) for way, (_, hint) in WAYS.items()),
        summarise=fragment.summarise,
        labels={way: label for way, (label, _) in WAYS.items()},
    ),
)
