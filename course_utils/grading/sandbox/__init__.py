"""Where students' code runs: a room that bubblewrap closes, and in it a process per submission.

`room` closes the room, `nursery` is the program in it that forks a process for each submission,
`confine` takes from that process what it does not need, `inmate` runs cells and probes in it, and
`door` is how the referee outside talks to it. Nothing in here knows a hidden case, a right answer,
another submission or the gradebook.
"""
