"""Answer banks of unit 11: a layer on several ranks."""

from tests.answer_bank import AnswerBank, Wrong

F_AND_G = AnswerBank(
    function="f_and_g",
    wrong=[
        Wrong(
            "no autograd function",
            """
            import torch

            def f_and_g(comm):
                class Copy(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        return x.clone()

                    @staticmethod
                    def backward(ctx, gradient):
                        total = gradient.contiguous().clone()
                        comm.all_reduce(total)
                        return total

                def g(x):
                    y = x.contiguous() * 1
                    comm.all_reduce(y)
                    return y

                return Copy.apply, g
            """,
            "Autograd sees only one rank.",
            points=1.0,
        ),
        Wrong(
            "a gradient that keeps its strides",
            """
            import torch

            def f_and_g(comm):
                def make(there, back):
                    class Operate(torch.autograd.Function):
                        @staticmethod
                        def forward(ctx, x):
                            return there(x)

                        @staticmethod
                        def backward(ctx, gradient):
                            return back(gradient)

                    return Operate.apply

                def summed(x):
                    x = x.clone()
                    comm.all_reduce(x)
                    return x

                return make(lambda x: x.clone(), summed), make(summed, lambda x: x)
            """,
            "A call sends memory as it lies.",
        ),
        Wrong(
            "everything gathered",
            """
            import torch

            def f_and_g(comm):
                def summed(x):
                    every = x.new_empty(comm.size, *x.shape)
                    comm.all_gather(every, x.contiguous())
                    return every.sum(0)

                class Copy(torch.autograd.Function):
                    forward = staticmethod(lambda ctx, x: x.clone())
                    backward = staticmethod(lambda ctx, gradient: summed(gradient))

                class Sum(torch.autograd.Function):
                    forward = staticmethod(lambda ctx, x: summed(x))
                    backward = staticmethod(lambda ctx, gradient: gradient.clone())

                return Copy.apply, Sum.apply
            """,
            "In forward f copies and g sums.",
        ),
    ],
    right=[
        """
        import torch

        def f_and_g(comm):
            def total(x):
                x = x.contiguous().clone()
                comm.all_reduce(x)
                return x

            class F(torch.autograd.Function):
                forward = staticmethod(lambda ctx, x: x.clone())
                backward = staticmethod(lambda ctx, gradient: total(gradient))

            class G(torch.autograd.Function):
                forward = staticmethod(lambda ctx, x: total(x))
                backward = staticmethod(lambda ctx, gradient: gradient.clone())

            return F.apply, G.apply
        """,
        """
        def f_and_g(comm):
            # hooks on gradients, and a sum that autograd sees as one plus a constant
            def all_reduced(x):
                x = x.detach().contiguous().clone()
                comm.all_reduce(x)
                return x

            def f(x):
                y = x.clone()
                if y.requires_grad:
                    y.register_hook(all_reduced)
                return y

            def g(x):
                return x + (all_reduced(x) - x.detach())

            return f, g
        """,
    ],
    features={
        "one rank": lambda case: case["num_ranks"] == 1,
        "four ranks": lambda case: case["num_ranks"] == 4,
        "a transposed gradient": lambda case: case["kind"] == "transposed",
        "an expanded gradient": lambda case: case["kind"] == "expanded gradient",
        "x used twice": lambda case: case["kind"] == "input used twice",
        "f": lambda case: case["scenario"] == "f",
        "g": lambda case: case["scenario"] == "g",
    },
)

BANKS = {"u11-f-and-g": F_AND_G}
