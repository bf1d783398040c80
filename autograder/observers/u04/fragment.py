"""A script that fragments memory, as the student's function gives it; the judge plays it."""

from typing import Any

from autograder.checking.fact import Case, Fact, Plain
from autograder.checking.plain_data import describe
from autograder.checking.result_form import WrongForm
from autograder.observers.tools import errors_as_data
from course_utils.reference.allocator import CachingAllocator, new_segment_bytes

MAX_REQUESTS = 1000


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The script, as far as a student may write one, and how long it is."""
    script = answer(case["device_bytes"])
    if not isinstance(script, list | tuple):
        raise WrongForm("a list of requests", describe(script))
    numbers = [each for each in script[:MAX_REQUESTS] if type(each) is int]
    return {"script": numbers, "num_requests": len(script)}


def facts(case: Case, observed: Plain, right: Plain) -> list[Fact]:
    """How the script misses its goal, if it does, on the course's allocator."""
    way = _way_to_miss(case["device_bytes"], **observed)
    return [
        Fact(
            "too_many_requests",
            int(way == "too_many_requests"),
            "The script has more than 1,000 requests.",
            "Your script has more than 1,000 requests. How large may your blocks be, and how many "
            "of them fill the device?",
        ),
        Fact(
            "impossible_requests",
            int(way == "impossible_requests"),
            "The script has a request that cannot be.",
            "One request of yours is impossible: it is not a whole number, asks for 0 bytes, or "
            "frees a block that is not in use. Which one, and which block does `-n` free?",
        ),
        Fact(
            "refused_too_early",
            int(way == "refused_too_early"),
            "A request of the script is not served.",
            "The device is full before your script ends. Into which segments do your blocks go, "
            "and how much of each is left over?",
        ),
        Fact(
            "too_little_free",
            int(way == "too_little_free"),
            "More than half of the device is in use at the end.",
            "When your script is over, less than half of the device is free. How many of the "
            "blocks are still in use, and of how many bytes?",
        ),
        Fact(
            "room_for_a_segment",
            int(way == "room_for_a_segment"),
            "There is room for a new segment at the end.",
            "Your script leaves so much of the device outside of any segment that a new one has "
            "room for the request for a quarter. How many of your blocks fill the device?",
        ),
        Fact(
            "served_from_whole_segments",
            int(way == "served_from_whole_segments"),
            "Segments that were given back make room for the request for a quarter.",
            "The request for a quarter is served: segments that are wholly free go back to the "
            "device and make room for a new one. What keeps a segment from going back?",
        ),
        Fact(
            "served_from_a_block",
            int(way == "served_from_a_block"),
            "A free block is large enough for the request for a quarter.",
            "The request for a quarter is served from a free block: one that is that large by "
            "itself, or free neighbors that were joined. How large may a hole get, and what must "
            "stay in use beside it?",
        ),
    ]


def _way_to_miss(device_bytes: int, script: list[int], num_requests: int) -> str:
    if num_requests > MAX_REQUESTS:
        return "too_many_requests"
    # `observe` has left out what is no whole number.
    if num_requests > len(script):
        return "impossible_requests"
    allocator = CachingAllocator(device_bytes)
    try:
        allocator.play_script(script)
    except ValueError:
        return "impossible_requests"
    except MemoryError:
        return "refused_too_early"
    if 2 * allocator.levels.allocated_bytes > device_bytes:
        return "too_little_free"
    return _place_of_the_last(allocator, device_bytes)


def _place_of_the_last(allocator: CachingAllocator, device_bytes: int) -> str:
    """Where a request of a quarter of the device is served from; empty if it is not."""
    last_bytes = device_bytes // 4
    never_reserved = device_bytes - allocator.levels.reserved_bytes
    try:
        allocator.allocate("the last", last_bytes)
    except MemoryError:
        return ""
    reserved = device_bytes - allocator.levels.reserved_bytes
    if reserved == never_reserved:
        return "served_from_a_block"
    is_new = never_reserved >= new_segment_bytes(last_bytes)
    return "room_for_a_segment" if is_new else "served_from_whole_segments"
