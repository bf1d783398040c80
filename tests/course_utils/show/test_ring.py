"""The picture of a ring shows the algorithm: partial sums travel until every rank has all."""

import pytest

from course_utils.show import ring_steps
from course_utils.show.ring import ring_states
from tests.course_utils.show.texts import overlapping_texts


def test_three_ranks_by_hand():
    states, sent = ring_states(3)
    assert sent == [[0, 1, 2], [2, 0, 1], [1, 2, 0], [0, 1, 2]]
    counts = [[[len(part) for part in rank] for rank in state] for state in states]
    assert counts == [
        [[1, 1, 1], [1, 1, 1], [1, 1, 1]],
        [[1, 1, 2], [2, 1, 1], [1, 2, 1]],  # what arrived from the rank above is added
        [[1, 3, 2], [2, 1, 3], [3, 2, 1]],  # rank 0 owns part 1, rank 1 part 2, rank 2 part 0
        [[3, 3, 2], [2, 3, 3], [3, 2, 3]],
        [[3, 3, 3], [3, 3, 3], [3, 3, 3]],
    ]


@pytest.mark.parametrize("num_ranks", range(2, 7))
def test_a_sum_is_complete_after_the_last_step_and_on_one_rank_in_the_middle(num_ranks):
    states, sent = ring_states(num_ranks)
    complete = [[len(part) == num_ranks for rank in state for part in rank] for state in states]
    assert [sum(each) for each in complete] == [
        *([0] * (num_ranks - 1)),
        *(num_ranks * held for held in range(1, num_ranks + 1)),
    ]
    assert all(sorted(parts) == list(range(num_ranks)) for parts in sent)  # no part twice


def test_picture():
    picture = ring_steps(3)
    titles = [ax.get_title() for ax in picture.figure.axes]
    assert titles[1:3] == ["after turn 1\nadded", "after turn 2\nadded"]
    assert titles[-1] == "after turn 4\nreplaced"
    assert overlapping_texts(picture.figure) == []
    with pytest.raises(ValueError, match="draws 2 to 6 ranks, got 7"):
        ring_steps(7)
