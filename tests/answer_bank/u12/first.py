"""Right answers to the exercises of unit 12, in a first style."""

import functools
import itertools

# === u12-gpipe


def gpipe(p, m):
    return [[(kind, k, 0) for kind, k in itertools.product("FB", range(m))]] * p


# === u12-one-f-one-b


def one_forward_one_backward(p, m):
    lists = []
    for s in range(p):
        one, f, b = [], 0, 0
        while b < m:
            if f < m and f - b < p - s:
                one.append(("F", f, 0))
                f += 1
            else:
                one.append(("B", b, 0))
                b += 1
        lists.append(one)
    return lists


# === u12-halves


def backward_in_halves(weights, kept, upstream):
    zs = {}
    g = upstream
    for l in range(len(weights) - 1, -1, -1):
        zs[l] = g - g * kept[l + 1] * kept[l + 1]
        g = zs[l].mm(weights[l].t())
    return g, lambda: [kept[l].t().mm(zs[l]) for l in range(len(weights))]


# === u12-zero


def zero_bubble(p, m):
    lists = []
    for s in range(p):
        one, f, i, w = [], 0, 0, 0
        while w < m:
            if f < m and f - i < p - s:
                one.append(("F", f, 0))
                f += 1
            elif i < m and i - w <= s:
                one.append(("I", i, 0))
                i += 1
                if i - w > s:
                    one.append(("W", w, 0))
                    w += 1
            else:
                one.append(("W", w, 0))
                w += 1
        lists.append(one)
    return lists


# === u12-interleaved


def interleaved(p, m, v):
    def place(n):
        group, rest = divmod(n, p * v)
        return group * p + rest % p, rest // p

    total, lists = m * v, []
    for s in range(p):
        ahead = min(total, 2 * (p - s - 1) + (v - 1) * p)
        one = []
        for n in range(total + ahead):
            if n < total:
                one.append(("F", *place(n)))
            if n >= ahead:
                k, chunk = place(n - ahead)
                one.append(("B", k, v - 1 - chunk))
        lists.append(one)
    return lists


# === u12-stages


def cut_into_stages(seconds, num_stages):
    @functools.cache
    def best(first, stages):
        if stages == 1:
            return sum(seconds[first:]), (len(seconds) - first,)
        options = []
        for size in range(1, len(seconds) - first - stages + 2):
            slowest, sizes = best(first + size, stages - 1)
            own = sum(seconds[first : first + size])
            options.append((max(own, slowest), (size, *sizes)))
        return min(options)

    return list(best(0, num_stages)[1])
