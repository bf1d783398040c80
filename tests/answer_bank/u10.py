"""Answer banks of unit 10."""

from fractions import Fraction

from tests.answer_bank import AnswerBank, Wrong

STATE = AnswerBank(
    function="sharded_state_bytes",
    wrong=[],
    right=[
        """
        import math
        from course_utils.configs import precision

        def sharded_state_bytes(num_params, num_ranks, stage, recipe):
            p = precision(recipe)
            numbers = [num_params] * 3
            for kind in range(stage):
                numbers[kind] = (num_params + num_ranks - 1) // num_ranks
            optimizer, gradients, weights = numbers
            return {
                "optimizer": optimizer * (p.moment_bytes + p.master_weight_bytes),
                "gradients": gradients * p.gradient_bytes,
                "weights": weights * p.weight_bytes,
            }
        """,
        """
        from course_utils.configs import precision

        def sharded_state_bytes(num_params, num_ranks, stage, recipe):
            padded = num_params + -num_params % num_ranks
            def kept(num_bytes, first):
                return num_bytes * (padded // num_ranks if first <= stage else num_params)
            p = precision(recipe)
            return dict(
                weights=kept(p.weight_bytes, 3),
                gradients=kept(p.gradient_bytes, 2),
                optimizer=kept(p.master_weight_bytes + p.moment_bytes, 1),
            )
        """,
    ],
    features={
        **{f"stage {n}": lambda case, n=n: case["stage"] == n for n in range(4)},
        "ranks that divide": lambda case: case["num_params"] % case["num_ranks"] == 0,
        "ranks that do not divide": lambda case: case["num_params"] % case["num_ranks"] > 0,
        "one rank": lambda case: case["num_ranks"] == 1,
        "more ranks than parameters": lambda case: case["num_ranks"] > case["num_params"],
        "beyond a float": lambda case: case["num_params"] > 2**53,
        "fp32": lambda case: case["recipe"] == "fp32",
    },
)

FLAT = AnswerBank(
    function="FlatShard",
    wrong=[
        Wrong(
            "each rank's own tensors, no parts",
            """
            class FlatShard:
                def __init__(self, comm, tensors):
                    import torch
                    self.part = torch.cat([each.flatten() for each in tensors])
                    self.tensors = tensors
                def whole(self):
                    return self.tensors
            """,
            "?",
        ),
        Wrong(
            "only a part, no whole",
            """
            class FlatShard:
                def __init__(self, comm, tensors):
                    import torch
                    flat = torch.cat([each.flatten() for each in tensors])
                    flat = torch.nn.functional.pad(flat, (0, -len(flat) % comm.size))
                    self.part = flat.chunk(comm.size)[comm.rank].clone()
                def whole(self):
                    return self.part
            """,
            "?",
        ),
    ],
    right=[
        """
        import math
        import torch

        class FlatShard:
            def __init__(self, comm, tensors):
                self.comm = comm
                self.shapes = [tuple(each.shape) for each in tensors]
                total = sum(each.numel() for each in tensors)
                each_has = math.ceil(total / comm.size)
                row = tensors[0].new_zeros(each_has * comm.size)
                torch.cat([each.reshape(-1) for each in tensors], out=row[:total])
                self.part = row.view(comm.size, each_has)[comm.rank].clone()

            def whole(self):
                row = torch.zeros(self.comm.size * self.part.numel(), dtype=self.part.dtype)
                self.comm.all_gather(row, self.part)
                wholes, start = [], 0
                for shape in self.shapes:
                    stop = start + math.prod(shape)
                    wholes.append(row[start:stop].reshape(shape))
                    start = stop
                return wholes
        """,
        """
        import torch

        class FlatShard:
            def __init__(self, comm, tensors):
                self.comm = comm
                self.like = [each.shape for each in tensors]
                row = [number for each in tensors for number in each.reshape(-1)]
                while len(row) % comm.size:
                    row.append(torch.zeros_like(row[0]))
                width = len(row) // comm.size
                self.part = torch.stack(row[comm.rank * width : (comm.rank + 1) * width])

            def whole(self):
                row = self.part.new_empty(self.comm.size, self.part.numel())
                self.comm.all_gather(row, self.part)
                row, wholes = row.flatten(), []
                for each in self.like:
                    wholes.append(row[: each.numel()].clone().view(each))
                    row = row[each.numel() :]
                return wholes
        """,
    ],
    features={
        "ragged": lambda case: _numbers(case) % case["num_ranks"] > 0,
        "even": lambda case: _numbers(case) % case["num_ranks"] == 0 and case["num_ranks"] > 1,
        "fewer numbers than ranks": lambda case: _numbers(case) < case["num_ranks"],
        "one rank": lambda case: case["num_ranks"] == 1,
        "a single number": lambda case: [] in case["shapes"],
        "float32": lambda case: case["dtype"] == "float32",
    },
)


def _numbers(case):
    total = 0
    for shape in case["shapes"]:
        product = 1
        for side in shape:
            product *= side
        total += product
    return total


OWNERS = AnswerBank(
    function="sharded_step",
    wrong=[
        Wrong(
            "scatters into what may be None",
            """
            def sharded_step(comm, weights, gradient, part, optimizer):
                comm.reduce_scatter(part.grad, gradient)
                optimizer.step()
                comm.all_gather(weights, part.detach())
            """,
            "What is None there",
        ),
        Wrong(
            "an optimizer of its own, for all weights",
            """
            import torch

            def sharded_step(comm, weights, gradient, part, optimizer):
                comm.all_reduce(gradient)
                weights -= 0.1 * gradient
            """,
            "?",
        ),
    ],
    right=[
        """
        import torch

        def sharded_step(comm, weights, gradient, part, optimizer):
            optimizer.zero_grad()
            mine = part.new_zeros(part.shape).detach()
            comm.reduce_scatter(mine, gradient)
            part.grad = mine
            optimizer.step()
            with torch.no_grad():
                comm.all_gather(weights, part.clone())
        """,
        """
        import torch

        def sharded_step(comm, weights, gradient, part, optimizer):
            if part.grad is None:
                part.grad = torch.zeros_like(part)
            summing = comm.reduce_scatter(part.grad, gradient, async_op=True)
            summing.wait()
            optimizer.step()
            telling = comm.all_gather(weights, part.data, async_op=True)
            telling.wait()
        """,
    ],
    features={
        **{
            f"{name} on {ranks}": lambda case, name=name, ranks=ranks: (
                (case["scenario"], case["num_ranks"]) == (name, ranks)
            )
            for name in ("sgd", "adam")
            for ranks in (1, 2, 3, 4)
        },
        "parts of one number": lambda case: case["part_length"] == 1,
        "a part without grad, beside others": lambda case: (
            case["rank_without_grad"] is not None and case["num_ranks"] > 1
        ),
    },
)
VOLUME = AnswerBank(
    function="step_sent_bytes",
    wrong=[],
    right=[
        """
        def step_sent_bytes(num_params, num_ranks, stage, num_micro_batches, bytes_per_element):
            part = num_params * bytes_per_element // num_ranks
            whole = part * num_ranks
            rounds = [2, 2, num_micro_batches + 1, 3 * num_micro_batches]
            return (whole - part) * rounds[stage]
        """,
        """
        def step_sent_bytes(num_params, num_ranks, stage, num_micro_batches, bytes_per_element):
            sent = 0
            one = num_params // num_ranks * bytes_per_element * (num_ranks - 1)
            for _ in range(num_micro_batches):
                sent += one * (2 * (stage == 3) + (stage > 1))
            if stage < 3:
                sent += one
            if stage < 2:
                sent += one
            return sent
        """,
    ],
    features={
        **{
            f"stage {stage} with {what}": lambda case, stage=stage, many=many: (
                case["stage"] == stage and (case["num_micro_batches"] > 1) == many
            )
            for stage in range(4)
            for many, what in ((False, "one micro-batch"), (True, "several"))
        },
        "one rank": lambda case: case["num_ranks"] == 1,
        "beyond a float": lambda case: case["num_params"] > 2**54,
    },
)

# Right; wrong answers replace what its gradient is received in.
SHARDED_LINEAR = """
import torch

class ShardedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, comm, x, part, shape):
        whole = x.new_empty(shape)
        comm.all_gather(whole, part)
        ctx.save_for_backward(x, part)
        ctx.comm, ctx.shape = comm, shape
        return x @ whole.T
    @staticmethod
    def backward(ctx, dy):
        x, part = ctx.saved_tensors
        whole = x.new_empty(ctx.shape)
        ctx.comm.all_gather(whole, part)
        dx = dy @ whole
        del whole
        dpart = torch.empty_like(part)
        ctx.comm.reduce_scatter(dpart, dy.T @ x)
        return None, dx, dpart, None
"""

LAYER = AnswerBank(
    function="ShardedLinear",
    wrong=[
        Wrong(
            "a gradient of the part in the shape of rows",
            SHARDED_LINEAR.replace("torch.empty_like(part)", "x.new_empty(len(part), 1)"),
            "What did you make room for?",
        ),
        Wrong(
            "the gathered weight stays flat",
            """
            import torch

            class ShardedLinear(torch.autograd.Function):
                @staticmethod
                def forward(ctx, comm, x, part, shape):
                    whole = x.new_empty(comm.size * len(part))
                    comm.all_gather(whole, part)
                    ctx.save_for_backward(x, part)
                    return x @ whole.T
                @staticmethod
                def backward(ctx, dy):
                    raise NotImplementedError
            """,
            "which of their sides have to be equal?",
        ),
        Wrong(
            "room for the whole gradient",
            SHARDED_LINEAR.replace("torch.empty_like(part)", "torch.empty_like(dy.T @ x)"),
            "What did you make room for?",
        ),
        Wrong(
            "autograd keeps the gathered weight",
            """
            import torch

            class ShardedLinear(torch.autograd.Function):
                @staticmethod
                def forward(ctx, comm, x, part, shape):
                    whole = x.new_empty(shape)
                    comm.all_gather(whole, part)
                    ctx.save_for_backward(x, whole)
                    ctx.comm, ctx.n = comm, part.numel()
                    return x @ whole.T
                @staticmethod
                def backward(ctx, dy):
                    x, whole = ctx.saved_tensors
                    dpart = x.new_empty(ctx.n)
                    ctx.comm.reduce_scatter(dpart, dy.T @ x)
                    return None, dy @ whole, dpart, None
            """,
            "What do you give to autograd to keep?",
        ),
        Wrong(
            "plain autograd on a gathered weight",
            """
            import torch

            class ShardedLinear:
                @staticmethod
                def apply(comm, x, part, shape):
                    whole = x.new_empty(shape)
                    with torch.no_grad():
                        comm.all_gather(whole, part)
                    return torch.nn.functional.linear(x, whole)
            """,
            "for autograd, the gathered weight comes from nowhere",
        ),
    ],
    right=[
        """
        import torch

        def _gathered(comm, part, shape):
            flat = torch.empty(part.numel() * comm.size, dtype=part.dtype)
            comm.all_gather(flat, part)
            return flat.reshape(shape)

        class ShardedLinear(torch.autograd.Function):
            @staticmethod
            def forward(ctx, comm, x, part, shape):
                ctx.group, ctx.size = comm, shape
                ctx.save_for_backward(part, x)
                return torch.nn.functional.linear(x, _gathered(comm, part, shape))

            @staticmethod
            def backward(ctx, dy):
                part, x = ctx.saved_tensors
                dx = torch.mm(dy, _gathered(ctx.group, part, ctx.size))
                summed = part.new_zeros(part.numel())
                ctx.group.reduce_scatter(summed, torch.mm(dy.t(), x))
                return None, dx, summed, None
        """,
        """
        import torch
        from torch.autograd import Function

        class ShardedLinear(Function):
            @staticmethod
            def forward(ctx, comm, x, part, shape):
                rows, columns = shape
                w = part.new_zeros((rows, columns))
                comm.all_gather(w, part, async_op=True).wait()
                y = torch.einsum("ri,oi->ro", x, w)
                ctx.args = (comm, rows, columns)
                ctx.save_for_backward(x, part)
                return y

            @staticmethod
            def backward(ctx, dy):
                comm, rows, columns = ctx.args
                x, part = ctx.saved_tensors
                of_part = part.new_zeros(part.shape)
                of_w = torch.matmul(dy.mT, x).contiguous()
                comm.reduce_scatter(of_part, of_w)
                del of_w
                w = part.new_zeros((rows, columns))
                comm.all_gather(w, part)
                return (None, torch.matmul(dy, w), of_part, None)
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "two ranks": lambda case: case["num_ranks"] == 2,
        "more ranks": lambda case: case["num_ranks"] > 2,
        "wide": lambda case: case["shape"][1] > case["shape"][0],
        "tall": lambda case: case["shape"][0] > case["shape"][1],
        "memory on several ranks": lambda case: (
            case["scenario"] == "memory" and case["num_ranks"] > 1
        ),
    },
)

PREFETCH = AnswerBank(
    function="prefetched_step",
    wrong=[
        Wrong(
            "waits for every call",
            """
            def prefetched_step(comm, parts, uses, compute, gradients):
                for number, layer in enumerate(uses):
                    whole = parts[layer].new_empty(comm.size * parts[layer].numel())
                    comm.all_gather(whole, parts[layer])
                    g = compute(number, whole)
                    if g is not None:
                        comm.reduce_scatter(gradients[layer], g)
            """,
            "Every transfer is exposed",
            points=2.0,
        ),
        Wrong(
            "prefetches in forward alone",
            """
            def prefetched_step(comm, parts, uses, compute, gradients):
                def ask(layer):
                    whole = parts[layer].new_empty(comm.size * parts[layer].numel())
                    return comm.all_gather(whole, parts[layer], async_op=True), whole
                half = len(uses) // 2
                coming, call = ask(uses[0]), None
                for number, layer in enumerate(uses):
                    if number > half:
                        coming = ask(layer)
                    coming[0].wait()
                    whole = coming[1]
                    if number < half:
                        coming = ask(uses[number + 1])
                    else:
                        coming = None
                    g = compute(number, whole)
                    del whole
                    if call is not None:
                        call.wait()
                        call = None
                    if g is not None:
                        call = comm.reduce_scatter(gradients[layer], g, async_op=True)
                    del g
                call.wait()
            """,
            "?",
            points=2.0,
        ),
    ],
    right=[
        """
        def prefetched_step(comm, parts, uses, compute, gradients):
            def start(number):
                if number == len(uses):
                    return None, None
                part = parts[uses[number]]
                whole = part.new_zeros(comm.size, part.numel())
                return whole, comm.all_gather(whole, part, async_op=True)

            whole, call = start(0)
            sending = []
            for number, layer in enumerate(uses):
                call.wait()
                following = start(number + 1)
                made = compute(number, whole.flatten())
                while sending:
                    sending.pop().wait()
                if made is not None:
                    sending.append(comm.reduce_scatter(gradients[layer], made, async_op=True))
                del made
                whole, call = following
            for each in sending:
                each.wait()
        """,
        """
        from collections import deque

        def prefetched_step(comm, parts, uses, compute, gradients):
            gathers, scatters = deque(), deque()

            def ask(layer):
                flat = parts[layer].new_empty(parts[layer].numel() * comm.size)
                gathers.append((comm.all_gather(flat, parts[layer], async_op=True), flat))

            todo = deque(enumerate(uses))
            ask(uses[0])
            while todo:
                number, layer = todo.popleft()
                handle, flat = gathers.popleft()
                handle.wait()
                if todo:
                    ask(todo[0][1])
                result = compute(number, flat)
                flat = None
                if scatters:
                    scatters.popleft().wait()
                if result is None:
                    continue
                scatters.append(comm.reduce_scatter(gradients[layer], result, async_op=True))
                result = None
            while scatters:
                scatters.popleft().wait()
        """,
    ],
    features={
        "one layer": lambda case: case["num_layers"] == 1,
        "several layers": lambda case: case["num_layers"] > 3,
        "one rank": lambda case: case["num_ranks"] == 1,
        "time on several ranks": lambda case: case["scenario"] == "time" and case["num_ranks"] > 1,
        "memory on several ranks": lambda case: (
            case["scenario"] == "memory" and case["num_ranks"] > 1
        ),
    },
)

NORM = AnswerBank(
    function="clip_sharded",
    wrong=[
        Wrong(
            "gathers all parts",
            """
            import torch

            def clip_sharded(comm, gradients, max_norm):
                mine = torch.cat([each.flatten() for each in gradients])
                length = torch.tensor(len(mine))
                comm.all_reduce(length)
                whole = mine.new_zeros(int(length))
                whole[: len(mine)] = mine
                every = whole.new_empty(comm.size * len(whole))
                comm.all_gather(every, whole)
                norm = every.norm()
                if norm > max_norm:
                    for each in gradients:
                        each *= max_norm / norm
                return norm
            """,
            "one number of each rank is enough",
        ),
        Wrong(
            "torch's own, on each rank",
            """
            import torch

            def clip_sharded(comm, gradients, max_norm):
                norm = sum(float(each.norm()) ** 2 for each in gradients) ** 0.5
                for each in gradients:
                    each *= min(1.0, max_norm / norm)
                return norm
            """,
            "Each rank clips by its own norm",
        ),
    ],
    right=[
        # as PyTorch does, and with a sum that travels in fp32
        """
        import torch

        def clip_sharded(comm, gradients, max_norm):
            total = torch.tensor([sum(float((each ** 2).sum()) for each in gradients)])
            comm.all_reduce(total)
            norm = float(total) ** 0.5
            for each in gradients:
                each *= min(1.0, max_norm / (norm + 1e-6))
            return norm
        """,
        """
        import torch

        def clip_sharded(comm, gradients, max_norm):
            total = torch.zeros(1, dtype=torch.float64)
            for each in gradients:
                total += (each * each).sum()
            comm.all_reduce(total)
            norm = float(total) ** 0.5
            scale = min(1.0, max_norm / norm)
            for number in range(len(gradients)):
                gradients[number] *= scale
            return norm
        """,
        """
        import torch

        def clip_sharded(comm, gradients, max_norm):
            mine = torch.cat([each.reshape(-1) for each in gradients]).norm().square()
            handle = comm.all_reduce(mine, async_op=True)
            handle.wait()
            norm = mine.sqrt()
            factor = torch.clamp(max_norm / norm, max=1.0)
            for position, each in enumerate(gradients):
                gradients[position] = each.copy_(each * factor)
            return norm
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "several ranks": lambda case: case["num_ranks"] > 2,
        "an empty part": lambda case: min(case["lengths"]) < case["num_ranks"],
        "a low limit": lambda case: case["max_norm"] < 1,
        "a high limit": lambda case: case["max_norm"] > 3 * sum(case["lengths"]) ** 0.5,
    },
)

HIDE = AnswerBank(
    function="gather_hiding_tokens",
    wrong=[
        Wrong(
            "seconds in floats, rounded up",
            """
            import math

            def gather_hiding_tokens(n, ranks, rate, latency, flops):
                seconds = (ranks - 1) * latency / 1e9 + (ranks - 1) / ranks * 2 * n / rate
                return math.ceil(seconds * flops / (2 * n))
            """,
            "Off by one token where the two times are (nearly) equal.",
        ),
        Wrong(
            "seconds for a token in floats",
            """
            import math

            def gather_hiding_tokens(n, ranks, rate, latency, flops):
                token_seconds = 2 * n / flops
                gather_seconds = (ranks - 1) * (latency * 1e-9 + 2 * n / ranks / rate)
                return math.ceil(gather_seconds / token_seconds)
            """,
            "Off by one token where the two times are (nearly) equal.",
        ),
        Wrong(
            "rounded to nine digits before it is rounded up",
            """
            import math

            def gather_hiding_tokens(n, ranks, rate, latency, flops):
                seconds = (ranks - 1) * (latency / 1e9 + 2 * n / ranks / rate)
                return math.ceil(round(seconds * flops / (2 * n), 9))
            """,
            "Off by one token where the two times are (nearly) equal.",
        ),
    ],
    right=[
        """
        from fractions import Fraction
        import math

        def gather_hiding_tokens(n, ranks, rate, latency, flops):
            seconds = (ranks - 1) * Fraction(latency, 10**9) + Fraction(
                2 * n * (ranks - 1), ranks * rate
            )
            return math.ceil(seconds * flops / (2 * n))
        """,
        """
        def gather_hiding_tokens(
            num_weights, num_ranks, bytes_per_second, latency_ns, flops_per_second
        ):
            others = num_ranks - 1
            # all in nanoseconds, over a common denominator
            top = others * (latency_ns * num_ranks * bytes_per_second + 2 * num_weights * 10**9)
            top *= flops_per_second
            bottom = num_ranks * bytes_per_second * 10**9 * 2 * num_weights
            tokens, rest = divmod(top, bottom)
            return tokens + (rest > 0)
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "no latency": lambda case: case["latency_ns"] == 0,
        "much latency": lambda case: case["latency_ns"] >= 10**6,
        "a whole result": lambda case: _hide_part(case) == 0 and case["num_ranks"] > 1,
        "a rest": lambda case: _hide_part(case) > 0,
        "a little more than a whole result": lambda case: 0 < _hide_part(case) < 1e-11,
    },
)


def _hide_part(case):
    n, d, rate, latency, flops = case.values()
    top = (d - 1) * (latency * d * rate + 2 * n * 10**9) * flops
    return Fraction(top, 2 * n * d * rate * 10**9) % 1


HYBRID = AnswerBank(
    function="hybrid_sum",
    wrong=[],
    right=[
        """
        import torch

        def hybrid_sum(comm, gradient, node_size):
            number, place = divmod(comm.rank, node_size)
            neighbours, twins = comm.split(number), comm.split(place)
            mine = torch.zeros_like(gradient.chunk(node_size)[0])
            neighbours.reduce_scatter(mine, gradient, async_op=True).wait()
            twins.all_reduce(mine, async_op=True).wait()
            return mine
        """,
        """
        def hybrid_sum(comm, gradient, node_size):
            across = comm.split(comm.rank % node_size)
            node = comm.split(comm.rank // node_size)
            part = gradient[: len(gradient) // node_size].clone()
            if node.size > 1:
                node.reduce_scatter(part, gradient)
            if across.size > 1:
                across.all_reduce(part)
            return part
        """,
    ],
    features={
        "several nodes of several ranks": lambda case: (
            min(case["num_nodes"], case["node_size"]) > 1
        ),
        "one node": lambda case: case["num_nodes"] == 1 < case["node_size"],
        "nodes of one rank": lambda case: case["node_size"] == 1 < case["num_nodes"],
        "one rank": lambda case: case["num_nodes"] == case["node_size"] == 1,
    },
)


BANKS = {
    "u10-hybrid": HYBRID,
    "u10-state-bytes": STATE,
    "u10-flat": FLAT,
    "u10-owners": OWNERS,
    "u10-volume": VOLUME,
    "u10-layer": LAYER,
    "u10-prefetch": PREFETCH,
    "u10-norm": NORM,
    "u10-hide": HIDE,
}
