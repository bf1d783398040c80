"""What is observed of the answers to an exercise: code that runs beside a student's, in any place.

A module here has the name of its exercise's, and holds nothing that is right: `observe` gives what
an answer made, as it is; `facts` makes numbers of it where the judge is, each with its name in
sentences and its question.
"""
