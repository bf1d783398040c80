"""How far is the planner from measured runs that it has not seen? `python -m` prints one table.

Each figure stands twice: of all rows, and of the rows of a stated class. Constants come from other
model sizes alone, and so does the rule that sorts a row into its class. Beside the model stand what
needs no model; a model that does not beat them is not worth its lines.
"""
