"""Right answers to the exercises of unit 12, in a second style."""

import functools
import itertools

import torch

# === u12-gpipe


def gpipe(num_stages, num_micro_batches):
    schedule = [[] for _ in range(num_stages)]
    for one in schedule:
        for k in range(num_micro_batches):
            one.append(("F", k, 0))
        for k in reversed(range(num_micro_batches)):
            one.append(("B", k, 0))
    return schedule


# === u12-one-f-one-b


def one_forward_one_backward(num_stages, num_micro_batches):
    def of(stage):
        begin = num_stages - stage - 1
        for k in range(num_micro_batches + begin):
            if k < num_micro_batches:
                yield "F", k, 0
            if k >= begin:
                yield "B", k - begin, 0

    return [list(of(stage)) for stage in range(num_stages)]


# === u12-halves


def backward_in_halves(weights, kept, upstream):
    def back(after, layers):
        if not layers:
            return after, []
        *before, (weight, output) = layers
        z = torch.mul(after, 1 - torch.square(output))
        first, others = back(torch.einsum("ro,io->ri", z, weight), before)
        return first, others + [z]

    gradient, zs = back(upstream, list(zip(weights, kept[1:])))

    def later(inputs, zs):
        return [torch.einsum("ri,ro->io", x, z) for x, z in zip(inputs, zs)]

    return gradient, functools.partial(later, kept[:-1], zs)


# === u12-zero


def zero_bubble(num_stages, num_micro_batches):
    m = num_micro_batches

    def of(stage):
        ahead = num_stages - stage - 1
        for turn in range(m + num_stages):
            if turn < m:
                yield "F", turn, 0
            if 0 <= turn - ahead < m:
                yield "I", turn - ahead, 0
            if 0 <= turn - ahead - stage < m:
                yield "W", turn - ahead - stage, 0

    return [list(of(stage)) for stage in range(num_stages)]


# === u12-interleaved


def interleaved(num_stages, num_micro_batches, num_chunks):
    order = []
    for first in range(0, num_micro_batches, num_stages):
        for chunk in range(num_chunks):
            order += [(first + k, chunk) for k in range(num_stages)]
    schedule = []
    for stage in range(num_stages):
        room = (num_chunks - 1) * num_stages + 2 * (num_stages - stage) - 1
        down, up, actions = list(order), list(order), []
        while up:
            if down and len(up) - len(down) < room:
                actions.append(("F", *down.pop(0)))
            else:
                k, chunk = up.pop(0)
                actions.append(("B", k, num_chunks - chunk - 1))
        schedule.append(actions)
    return schedule


# === u12-stages


def cut_into_stages(seconds, num_stages):
    answers = []
    for inner in itertools.combinations(range(1, len(seconds)), num_stages - 1):
        cut = (0,) + inner + (len(seconds),)
        parts = [seconds[a:b] for a, b in zip(cut, cut[1:])]
        answers.append((max(map(sum, parts)), [len(each) for each in parts]))
    return min(answers)[1]
