"""Calls of several ranks matched with each other, and who waits for whom."""

from pathlib import Path

import pytest

from course_utils.distributed import MismatchError
from course_utils.distributed.call_log import CallLog, job_status, read_call_log
from course_utils.distributed.call_matching import (
    Call,
    Group,
    Matcher,
    ranks_in_words,
    states_in_words,
)

WORLD = Group((0, 1, 2))
REDUCE = Call("all_reduce", (3,), "float32", 12)


def test_collectives_match_by_order_and_messages_by_sender_and_receiver():
    matcher = Matcher()
    first, second = (matcher.post(0, REDUCE, WORLD) for _ in range(2))
    message = matcher.post(0, Call("send", (3,), "float32", 12, 2), WORLD)
    assert matcher.post(1, REDUCE, WORLD) is first
    assert matcher.post(2, Call("receive", (3,), "float32", 12, 0), WORLD) is message
    assert matcher.post(2, REDUCE, WORLD) is first
    assert (first.missing, second.missing, message.missing) == ([], [1, 2], [])
    assert (second.name, message.name) == ("all_reduce #1", "message #0 from rank 0 to rank 2")
    assert message.describe(2) == "receive #0 of (3,) float32 from rank 0"


def test_each_group_counts_its_own_calls():
    matcher, pair = Matcher(), Group((0, 2), "/0: 1")
    matcher.post(0, REDUCE, WORLD)
    exchange = matcher.post(0, REDUCE, pair)
    assert exchange.name == "all_reduce #0 among ranks 0, 2"
    with pytest.raises(MismatchError) as caught:
        matcher.post(2, Call("barrier"), pair)
    assert str(caught.value) == (
        "mismatch in collective #0 among ranks 0, 2: rank 0 calls all_reduce of (3,) float32, and "
        "rank 2 barrier"
    )


@pytest.mark.parametrize(
    ("ranks", "words"),
    [
        ([3], "rank 3"),
        ([0, 2], "ranks 0, 2"),
        ([4, 5], "ranks 4, 5"),
        ([0, 1, 2, 3, 7], "ranks 0-3, 7"),
    ],
)
def test_ranks_in_words(ranks, words):
    assert ranks_in_words(ranks) == words


def test_states_in_words():
    states = {0: "waits in x", 1: "has returned", 2: "waits in x", 3: "runs after y"}
    words = "ranks 0, 2 wait in x; rank 1 has returned; rank 3 runs after y"
    assert states_in_words(states) == words


def write_call_log(path: Path, rank: int, *calls: Call, is_waiting: bool) -> None:
    with path.open("wb", buffering=0) as file:
        call_log = CallLog(rank, file)
        for call in calls:
            number, _ = call_log.record(call, WORLD)
            call_log.begin_wait(number)
            if call is not calls[-1] or not is_waiting:
                call_log.end_wait()


def test_call_logs_show_who_waits_and_whether_for_ever(tmp_path):
    paths = [tmp_path / str(rank) for rank in range(3)]
    other = Call("broadcast", (3,), "float32", 12, 0)
    write_call_log(paths[0], 0, REDUCE, other, is_waiting=True)
    write_call_log(paths[1], 1, REDUCE, is_waiting=False)
    states, is_deadlocked = job_status([read_call_log(path) for path in paths], [])
    assert states == {
        0: "waits in broadcast #1 of (3,) float32 from rank 0",
        1: "runs after all_reduce #0 of (3,) float32",
        2: "starts up",
    }
    assert not is_deadlocked
    write_call_log(paths[2], 2, REDUCE, other, is_waiting=True)
    with paths[1].open("ab") as file:
        file.write(b'{"wait": ')  # as if read while a line is written
    histories = [read_call_log(path) for path in paths]
    assert not job_status(histories, []).is_deadlocked
    assert job_status(histories, [1]).is_deadlocked
    assert not job_status(histories, [0, 1, 2]).is_deadlocked
