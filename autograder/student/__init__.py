"""The commands around a student's work folder: set up, start, repair, submit.

This file imports nothing: the first of these commands runs before anything is installed.
"""
