"""Helpers of the course on training large language models efficiently.

Rooms: `configs` (sizes of models), `formulas` (integers in, integers out), `instruments` (what
measures; never imports a formula), `reference` (models in torch), `checks` (cases, probes, judges,
hints), `show` (tables, figures, explorers), `desk` (the commands around a student's work folder)
and `authoring` (text masters to notebooks).
"""

__version__ = "0.1.0"
