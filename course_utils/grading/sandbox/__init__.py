"""Where students' code runs: a room that bubblewrap closes, and in it a process per submission.

`room` closes the room, `nursery` is the program in it that forks a process for each submission (and
`warmth` what it has loaded), `confine` and `calls` take from that process what it does not need,
`inmate` runs cells in its `shell` and observes answers, `door` and `frames` are how the referee
outside talks to it, `line` how it talks back. `answers` makes it forget what is right, `tamper` and
`alarm` tell who reaches for what observes. `cold` stands in where no room can be closed, `own` says
which sandbox a process uses, and `layers` what holds. Nothing in here knows a hidden case, a right
answer, another submission or the gradebook.
"""
