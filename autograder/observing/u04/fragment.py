"""A script that fragments memory, as the student's function gives it; the judge plays it."""

from typing import Any

from autograder.checking.exercise_check import Case
from autograder.checking.plain_data import Plain, describe
from autograder.observing.observation import errors_as_data
from course_utils.reference.allocator import CachingAllocator, new_segment_bytes

MAX_REQUESTS = 1000


@errors_as_data
def observe(answer: Any, case: Case) -> dict[str, Any]:
    """The script, as far as a student may write one, and how long it is."""
    script = answer(case["device_bytes"])
    if not isinstance(script, list | tuple):
        raise TypeError(f"wanted a list of requests, got {describe(script)}")
    numbers = [each for each in script[:MAX_REQUESTS] if type(each) is int]
    return {"script": numbers, "num_requests": len(script)}


def summarise(case: Case, observed: Plain, right: Plain) -> dict[str, int]:
    """How the script misses its goal, if it does, on the course's allocator."""
    way = _way_to_miss(case["device_bytes"], **observed)
    return {each: int(each == way) for each in right}


def _way_to_miss(device_bytes: int, script: list[int], num_requests: int) -> str:
    if num_requests > MAX_REQUESTS:
        return "too_many_requests"
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
