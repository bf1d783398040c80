"""The commands around a student's work folder: set up, start, mend, hand in.

Nothing is imported here: the first of these commands runs before anything is installed.
"""
