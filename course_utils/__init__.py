"""The subject of the course: how to train large language models efficiently.

Subpackages: `configs` (sizes of models, runs and devices), `formulas` (integers in, integers out),
`instruments` (measurements; they never import a formula), `distributed` (ranks on a virtual clock
or in processes), `reference` (implementations in torch), `records` (published and measured runs)
and `show` (tables, figures, explorers). Checks and grading are in the package `autograder`.
"""

__version__ = "0.1.0"
