"""Another machine, imitated in this process: other kernels, other last digits, other sums.

python -m tests.other_machine kernels --answers model --part 0/4
"""
