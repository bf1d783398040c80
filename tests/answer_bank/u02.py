"""Answer banks of unit 02."""

from tests.answer_bank import AnswerBank, Wrong

PRODUCT_BYTES = AnswerBank(
    function="product_bytes",
    wrong=[
        Wrong(
            "through a float",
            """
            def product_bytes(rows, inner, columns, element_bytes):
                numbers = float(rows) * inner + float(inner) * columns + float(rows) * columns
                return int(element_bytes * numbers)
            """,
            "Where does your whole number become a float?",
        ),
    ],
    right=[
        """
        import math

        def product_bytes(rows, inner, columns, element_bytes):
            shapes = [(rows, inner), (inner, columns), (rows, columns)]
            return sum(map(math.prod, shapes)) * element_bytes
        """,
        """
        def product_bytes(m, k, n, e):
            return e * (m * (k + n) + k * n)
        """,
    ],
    features={
        "one row": lambda case: case["rows"] == 1,
        "fp8": lambda case: case["element_bytes"] == 1,
        "fp32": lambda case: case["element_bytes"] == 4,
        "beyond a float": lambda case: case["inner"] * case["columns"] > 2**53,
    },
)

FEWEST_TOKENS = AnswerBank(
    function="fewest_tokens",
    wrong=[
        Wrong(
            "a large number instead of infinity",
            """
            from fractions import Fraction
            import math

            def fewest_tokens(k, n, e, peak, bandwidth):
                ridge = Fraction(peak, bandwidth)
                left_over = 2 * k * n - ridge * e * (k + n)
                return 10**9 if left_over <= 0 else math.ceil(ridge * e * k * n / left_over)
            """,
            "?",
        ),
    ],
    right=[
        """
        def fewest_tokens(k, n, e, peak, bandwidth):
            left_over = 2 * k * n * bandwidth - peak * e * (k + n)
            return float("inf") if left_over <= 0 else -(-peak * e * k * n // left_over)
        """,
        """
        def fewest_tokens(k, n, e, peak, bandwidth):
            def reaches(m):
                return 2 * m * k * n * bandwidth >= peak * e * (m * k + k * n + m * n)

            high = 1
            while not reaches(high):
                high *= 2
                if high > 10**15:
                    return float("inf")
            low = high // 2
            while high - low > 1:
                middle = (low + high) // 2
                if reaches(middle):
                    high = middle
                else:
                    low = middle
            return high
        """,
    ],
    features={
        "fp8": lambda case: case["element_bytes"] == 1,
        "a layer of a real model": lambda case: case["columns"] == 28672,
        "a layer too small": lambda case: (
            2 * case["inner"] * case["columns"] * case["bytes_per_second"]
            <= case["element_bytes"] * (case["inner"] + case["columns"]) * case["flops_per_second"]
        ),
    },
)

ROOFLINE_SECONDS = AnswerBank(
    function="roofline_seconds",
    wrong=[
        Wrong(
            "all at the slower rate",
            """
            def roofline_seconds(operations, peak, bandwidth):
                ridge = peak / bandwidth
                flops = sum(pair[0] for pair in operations)
                moved = sum(pair[1] for pair in operations)
                if not operations:
                    return 0.0
                return flops / peak if flops / moved > ridge else moved / bandwidth
            """,
            "Can the last operation compute while the first one still reads?",
        ),
        Wrong(
            "the ratio turned over, without a guard",
            """
            def roofline_seconds(operations, peak, bandwidth):
                return sum(max(peak / flops, bandwidth / moved) for flops, moved in operations)
            """,
            "What do you divide by there, and for which of these sizes is it zero?",
        ),
    ],
    right=[
        """
        def roofline_seconds(operations, flops_per_second, bytes_per_second):
            seconds = 0.0
            for flops, moved in operations:
                computing, moving = flops / flops_per_second, moved / bytes_per_second
                seconds += computing if computing > moving else moving
            return seconds
        """,
        """
        def roofline_seconds(operations, peak, bandwidth):
            ridge = peak / bandwidth
            return sum(
                f / peak if f >= ridge * b else b / bandwidth for f, b in operations
            )
        """,
    ],
    features={
        "no operation": lambda case: not case["operations"],
        "without FLOPs": lambda case: any(pair[0] == 0 for pair in case["operations"]),
        "many": lambda case: len(case["operations"]) == 30,
    },
)

PROFILE = AnswerBank(
    function="products_in",
    wrong=[
        Wrong(
            "backward's rows by their names",
            """
            def products_in(rows):
                chosen = [r for r in rows if r["operator"].lower().endswith(("mm", "mmbackward0"))]
                whole = sum(r["own_us"] for r in rows)
                return {
                    "calls": sum(r["calls"] for r in chosen),
                    "share": sum(r["own_us"] for r in chosen) / whole,
                }
            """,
            "Which names does the exercise list?",
        ),
    ],
    right=[
        """
        def products_in(rows):
            calls = own = whole = 0
            for row in rows:
                whole += row["own_us"]
                if row["operator"].endswith("mm"):
                    calls += row["calls"]
                    own += row["own_us"]
            return {"calls": calls, "share": own / whole}
        """,
        """
        import pandas

        def products_in(rows):
            table = pandas.DataFrame(rows).set_index("operator")
            names = ["aten::mm", "aten::addmm", "aten::bmm"]
            products = table.reindex(names).fillna(0)
            return {
                "calls": int(products.calls.sum()),
                "share": float(products.own_us.sum() / table.own_us.sum()),
            }
        """,
    ],
    features={
        name: lambda case, name=name: any(row["operator"] == name for row in case["rows"])
        for name in ("aten::mm", "aten::addmm", "aten::bmm", "aten::matmul", "aten::linear")
    },
)

STEP_BYTES = AnswerBank(
    function="step_bytes",
    wrong=[
        Wrong(
            "through a float",
            """
            def step_bytes(m, b, s, phase):
                h, q, kv = m.hidden_size, m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
                layer = 2.0 * h * q + 2.0 * h * kv + 3.0 * h * m.ffn_size + 2.0 * h
                whole = m.num_layers * layer + h + 1.0 * h * m.vocab_size
                new = b if phase == "decode" else b * s
                seen = b * (s + 1) if phase == "decode" else b * s
                token = 0 if phase == "train" else 4 * m.num_layers * kv
                return {
                    "weights": int(2 * ((1 + (phase == "train")) * whole + new * h)),
                    "cache_read": token * seen,
                    "cache_written": token * new,
                }
            """,
            "Where does your whole number become a float?",
            points=2.0,
        ),
    ],
    right=[
        """
        def step_bytes(m, b, s, phase):
            h, q, kv = m.hidden_size, m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
            layer = h * (2 * q + 2 * kv + 3 * m.ffn_size + 2)
            whole = m.num_layers * layer + h * (1 + m.vocab_size)
            token = 2 * 2 * m.num_layers * kv
            if phase == "train":
                return {"weights": 4 * whole + 2 * b * s * h, "cache_read": 0, "cache_written": 0}
            if phase == "prefill":
                cache = token * b * s
                return {
                    "weights": 2 * (whole + b * s * h),
                    "cache_read": cache,
                    "cache_written": cache,
                }
            return {
                "weights": 2 * (whole + b * h),
                "cache_read": token * b * (s + 1),
                "cache_written": token * b,
            }
        """,
        """
        def step_bytes(model, num_sequences, seq_len, phase):
            h, d = model.hidden_size, model.head_dim
            matrices = [
                (h, model.num_heads * d),
                (h, model.num_kv_heads * d),
                (h, model.num_kv_heads * d),
                (model.num_heads * d, h),
                *[(h, model.ffn_size)] * 3,
            ]
            per_layer = sum(k * n for k, n in matrices) + h + h
            per_pass = per_layer * model.num_layers + h + model.vocab_size * h
            passes = {"prefill": 1, "decode": 1, "train": 2}[phase]
            new = {"prefill": seq_len, "decode": 1, "train": seq_len}[phase]
            there = {"prefill": seq_len, "decode": seq_len + 1, "train": 0}[phase]
            kept = {"prefill": seq_len, "decode": 1, "train": 0}[phase]
            one = sum(2 * model.num_kv_heads * d for _ in "kv") * model.num_layers * num_sequences
            return {
                "weights": 2 * per_pass * passes + 2 * h * new * num_sequences,
                "cache_read": one * there,
                "cache_written": one * kept,
            }
        """,
    ],
    features={
        **{
            phase: lambda case, phase=phase: case["phase"] == phase
            for phase in ("prefill", "decode", "train")
        },
        "several sequences decode": lambda case: (
            case["phase"] == "decode" and case["num_sequences"] > 1
        ),
        "shared keys": lambda case: case["model"]["num_heads"] > case["model"]["num_kv_heads"] > 1,
        "multi-query": lambda case: case["model"]["num_kv_heads"] == 1,
        "heads wider than the model": lambda case: (
            case["model"]["num_heads"] * case["model"]["head_dim"] > case["model"]["hidden_size"]
        ),
        "beyond a float": lambda case: case["model"]["hidden_size"] > 2**26,
    },
)

FUSE = AnswerBank(
    function="attention_weights",
    wrong=[
        Wrong(
            "untouched",
            """
            def attention_weights(scores, bias, scale):
                scaled = scores * scale
                biased = scaled + bias
                exponents = (biased - biased.amax(-1, keepdim=True)).exp()
                return exponents / exponents.sum(-1, keepdim=True)
            """,
            "Which PyTorch function does the last lines in one?",
        ),
        Wrong(
            "no largest score",
            """
            def attention_weights(scores, bias, scale):
                exponents = (scores * scale + bias).exp()
                return exponents / exponents.sum(-1, keepdim=True)
            """,
            "?",
        ),
    ],
    right=[
        """
        import torch

        def attention_weights(scores, bias, scale):
            return (bias.add(scores, alpha=scale)).softmax(-1)
        """,
        """
        import torch

        def attention_weights(scores, bias, scale):
            factor = torch.tensor(scale, dtype=scores.dtype)
            return torch.nn.functional.softmax(torch.addcmul(bias, scores, factor), dim=3)
        """,
        """
        import torch

        def attention_weights(scores, bias, scale):
            biased = torch.empty_like(scores)
            torch.add(bias, scores, alpha=scale, out=biased)
            return torch.softmax(biased, dim=-1)
        """,
        """
        import torch

        def attention_weights(scores, bias, scale):
            weights = torch.add(bias.expand_as(scores), scores, alpha=scale)
            return torch.softmax(weights, dim=-1, out=weights)
        """,
    ],
    features={
        "causal": lambda case: case["is_causal"],
        "transposed": lambda case: case["is_transposed"],
        "recorded": lambda case: case["is_recording"],
    },
)

GENERATE = AnswerBank(
    function="generate",
    wrong=[
        Wrong(
            "untouched",
            """
            import torch

            def generate(model, prompt, num_new):
                tokens = prompt
                for _ in range(num_new):
                    logits = model(tokens)
                    shares = torch.softmax(logits.double(), dim=-1)[:, -1]
                    new = [[int(row.argmax())] for row in shares]
                    tokens = torch.cat([tokens, torch.tensor(new)], dim=1)
                return tokens
            """,
            "What of the earlier tokens will ever be asked for, and who has it?",
        ),
        Wrong(
            "a new cache for each token",
            """
            import torch
            from course_utils.reference.generation import Cache, hidden_states

            @torch.no_grad()
            def generate(model, prompt, num_new):
                (b, s), new = prompt.shape, prompt
                cache = Cache(model, b, s)
                for _ in range(num_new):
                    states = hidden_states(model, new, cache)
                    new = model.head(states[:, -1]).argmax(-1)[:, None]
                    prompt = torch.cat([prompt, new], 1)
                    longer = Cache(model, b, prompt.size(1))
                    for old, large in zip(cache.tensors, longer.tensors):
                        large[:, : cache.length] = old
                    longer.length, cache = cache.length, longer
                return prompt
            """,
            "have to move for one token more?",
            points=2.0,
        ),
        Wrong(
            "a token shown twice, unguarded",
            """
            import torch
            from course_utils.reference.generation import Cache, hidden_states

            @torch.inference_mode()
            def generate(model, prompt, num_new):
                cache = Cache(model, len(prompt), prompt.size(1) + num_new)
                new = prompt
                for _ in range(num_new):
                    states = hidden_states(model, new, cache)
                    cache.length += new.size(1)
                    new = model.head(states[:, -1:]).argmax(-1)
                    prompt = torch.cat([prompt, new], 1)
                return prompt
            """,
            "Who raises `cache.length` already?",
        ),
        Wrong(
            "another error than one of the cache",
            """
            def generate(model, prompt, num_new):
                b, s = prompt.shape[:1]
                return prompt
            """,
            "How many values are there in this case, and how many names take them?",
        ),
        Wrong(
            "a cache as long as the prompt",
            """
            import torch
            from course_utils.reference.generation import Cache, hidden_states

            @torch.no_grad()
            def generate(model, prompt, num_new):
                cache = Cache(model, len(prompt), prompt.size(1))
                new, tokens = prompt, [prompt]
                for _ in range(num_new):
                    new = model.head(hidden_states(model, new, cache)[:, -1:]).argmax(-1)
                    tokens.append(new)
                return torch.cat(tokens, 1)
            """,
            "?",
        ),
    ],
    right=[
        """
        import torch
        from course_utils.reference.generation import Cache, hidden_states

        @torch.inference_mode()
        def generate(model, prompt, num_new):
            b, s = prompt.shape
            tokens = prompt.new_empty(b, s + num_new)
            tokens[:, :s] = prompt
            cache = Cache(model, b, s + num_new)
            states = hidden_states(model, prompt, cache)
            for n in range(s, s + num_new):
                tokens[:, n] = model.head(states[:, -1]).max(-1).indices
                if n + 1 < s + num_new:
                    states = hidden_states(model, tokens[:, n : n + 1], cache)
            return tokens
        """,
        """
        import torch
        from course_utils.reference.generation import Cache, hidden_states

        def generate(model, prompt, num_new):
            with torch.no_grad():
                cache = Cache(model, prompt.size(0), prompt.size(1) + num_new)
                new = prompt
                for _ in range(num_new):
                    logits = model.head(hidden_states(model, new, cache)[:, -1:])
                    new = logits[:, 0].topk(1).indices
                    prompt = torch.cat([prompt, new], 1)
                return prompt
        """,
        """
        import torch
        from course_utils.reference.generation import Cache, hidden_states

        @torch.no_grad()
        def generate(model, prompt, num_new):
            cache = Cache(model, len(prompt), 64)
            for each in cache.tensors:
                each.zero_()
            for token in prompt.split(1, dim=1):
                states = hidden_states(model, token, cache)
            for _ in range(num_new):
                token = model.head(states[:, 0]).max(-1, keepdim=True).indices
                prompt = torch.cat([prompt, token], 1)
                states = hidden_states(model, token, cache)
            return prompt
        """,
        """
        import torch
        from course_utils.reference.generation import Cache, hidden_states

        @torch.no_grad()
        def generate(model, prompt, num_new):
            rows = []
            for row in prompt.split(1):
                cache, new = Cache(model, 1, prompt.size(1) + num_new), row
                for _ in range(num_new):
                    new = model.head(hidden_states(model, new, cache)[:, -1:]).argmax(-1)
                    row = torch.cat([row, new], 1)
                rows.append(row)
            return torch.cat(rows)
        """,
    ],
    features={
        "one sequence": lambda case: case["num_sequences"] == 1,
        "a prompt of one token": lambda case: case["seq_len"] == 1,
        "evaluation": lambda case: not case["is_training"],
        **{
            name: lambda case, name=name: case["scenario"] == name
            for name in ("layers", "head", "logits", "graph", "waits")
        },
    },
)

DECODE_BOUND = AnswerBank(
    function="decode_tokens_per_second",
    wrong=[
        Wrong(
            "the cache of query heads",
            """
            def decode_tokens_per_second(m, hardware, b, context):
                h, q, kv = m.hidden_size, m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
                products = m.num_layers * h * (2 * q + 2 * kv + 3 * m.ffn_size) + h * m.vocab_size
                read = products + (2 * m.num_layers + 1) * h
                cache = 4 * m.num_layers * q * b
                if 2 * (read + h * m.vocab_size) + cache * (context + 1) > hardware.memory_bytes:
                    return 0.0
                moved = 2 * (read + b * h) + cache * (context + 2)
                flops = b * (2 * products + 4 * m.num_layers * q * (context + 1))
                return b / max(
                    flops / hardware.dense_flops_per_second("bf16"),
                    moved / hardware.bandwidth_bytes_per_second,
                )
            """,
            "?",
        ),
    ],
    right=[
        """
        def decode_tokens_per_second(m, hardware, b, context):
            h, q, kv = m.hidden_size, m.num_heads * m.head_dim, m.num_kv_heads * m.head_dim
            products = m.num_layers * h * (2 * q + 2 * kv + 3 * m.ffn_size) + h * m.vocab_size
            read = products + (2 * m.num_layers + 1) * h
            cache = 4 * m.num_layers * kv * b
            if 2 * (read + h * m.vocab_size) + cache * (context + 1) > hardware.memory_bytes:
                return 0.0
            moved = 2 * (read + b * h) + cache * (context + 2)
            flops = b * (2 * products + 4 * m.num_layers * q * (context + 1))
            return min(
                b * hardware.dense_flops_per_second("bf16") / flops,
                b * hardware.bandwidth_bytes_per_second / moved,
            )
        """,
        """
        def decode_tokens_per_second(model, hardware, num_sequences, context):
            h, layers = model.hidden_size, model.num_layers
            q = model.num_heads * model.head_dim
            kv = model.num_kv_heads * model.head_dim
            matrices = layers * (2 * h * q + 2 * h * kv + 3 * h * model.ffn_size)
            head = h * model.vocab_size
            norms = 2 * layers * h + h
            one_token = 2 * 2 * layers * kv
            everything = 2 * (matrices + 2 * head + norms)
            if everything + num_sequences * one_token * (context + 1) > hardware.memory_bytes:
                return 0.0
            moved = 2 * (matrices + head + norms) / num_sequences + 2 * h
            moved += one_token * (context + 1) + one_token
            flops = 2 * (matrices + head) + 4 * layers * q * (context + 1)
            return 1 / max(
                flops / hardware.dense_flops_per_second("bf16"),
                moved / hardware.bandwidth_bytes_per_second,
            )
        """,
    ],
    features={
        "one sequence": lambda case: case["num_sequences"] == 1,
        "many short ones": lambda case: case["num_sequences"] == 1024,
        "far too large": lambda case: case["context"] == 32768,
        "multi-head": lambda case: case["model"]["num_kv_heads"] == 32,
    },
)

LOADER = AnswerBank(
    function="epoch_ms",
    wrong=[
        Wrong(
            "the first batch, then the slower of both",
            """
            def epoch_ms(load_ms, step_ms, num_workers, num_batches):
                each = max(load_ms / num_workers, step_ms)
                return load_ms + (num_batches - 1) * each + step_ms
            """,
            "?",
        ),
    ],
    right=[
        """
        def epoch_ms(load, step, workers, batches):
            return max((i // workers + 1) * load + (batches - i) * step for i in range(batches))
        """,
        """
        def epoch_ms(load_ms, step_ms, num_workers, num_batches):
            ready = [(1 + n // num_workers) * load_ms for n in range(num_batches)]
            end = 0
            for each in ready:
                end = step_ms + (each if each > end else end)
            return end
        """,
    ],
    features={
        "one worker": lambda case: case["num_workers"] == 1,
        "more workers than batches": lambda case: case["num_workers"] > case["num_batches"],
        "steps are slower": lambda case: case["step_ms"] > case["load_ms"],
        "nearly hidden": lambda case: (
            0 < abs(case["load_ms"] - case["num_workers"] * case["step_ms"]) <= 2
        ),
    },
)

BANKS = {
    "u02-profile": PROFILE,
    "u02-product-bytes": PRODUCT_BYTES,
    "u02-fewest-tokens": FEWEST_TOKENS,
    "u02-roofline-seconds": ROOFLINE_SECONDS,
    "u02-step-bytes": STEP_BYTES,
    "u02-fuse": FUSE,
    "u02-repair-generate": GENERATE,
    "u02-decode-bound": DECODE_BOUND,
    "u02-loader": LOADER,
}
