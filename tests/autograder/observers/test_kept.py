"""What a call keeps is counted as it is: saved, copied, unseen."""

import torch

from autograder.observers.kept import kept_bytes, observe_kept, observe_numbers

NUM_BYTES = 8 * 15


def inputs():
    x, y = (torch.ones(3, 5, dtype=torch.float64, requires_grad=True) * 1 for _ in range(2))
    return [x, y]


def test_inputs_are_saved_and_results_are_not():
    kept = kept_bytes(observe_kept(lambda x, y: x * y, inputs()))
    assert kept == {"saved_bytes": 2 * NUM_BYTES, "copied_bytes": 0, "unseen_bytes": 0}


def test_a_copy_is_saved_beside_what_was_given():
    kept = kept_bytes(observe_kept(lambda x, y: x.clone() * y, inputs()))
    assert kept == {"saved_bytes": 2 * NUM_BYTES, "copied_bytes": NUM_BYTES, "unseen_bytes": 0}


def test_what_is_put_away_by_hand_is_unseen():
    elsewhere = []

    def call(x, y):
        elsewhere.append(x.detach().exp())
        return x + y

    kept = kept_bytes(observe_kept(call, inputs()))
    assert kept == {"saved_bytes": 0, "copied_bytes": 0, "unseen_bytes": NUM_BYTES}


def test_what_is_freed_or_lies_in_a_cycle_is_not_kept():
    def call(x, y):
        cycle = [x.detach().exp()]
        cycle.append(cycle)
        (x.exp() * y).sum()
        return x + y

    kept = kept_bytes(observe_kept(call, inputs()))
    assert kept == {"saved_bytes": 0, "copied_bytes": 0, "unseen_bytes": 0}


def test_weights_of_owners_are_left_out():
    layer = torch.nn.Linear(5, 2, dtype=torch.float64)
    kept = kept_bytes(observe_kept(lambda x, y: layer(x) + 0 * y.sum(), inputs(), layer))
    assert kept["saved_bytes"] == NUM_BYTES


def test_a_write_into_an_input_shows():
    observed = observe_numbers(lambda x, y: x * y.detach().mul_(1), inputs())
    assert observed["writes"] == [0, 1]
    assert observed["gradients"][1] is None
