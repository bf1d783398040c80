"""Where students' code runs: an isolated world, and in it a process for each submission.

`bubblewrap` isolates, `fork_server` forks a process for each submission from one that `preload` has
warmed, `confinement` and `seccomp` take from it what it does not need. `student_process` runs cells
in its `ipython_shell` and observes answers; `client` and `framing` are how the referee outside
talks to it, `channel` how it talks back. `answer_removal` takes away what is right; `integrity` and
`audit_hook` report who reaches for what observes. `subprocess_fallback` stands in where nothing can
be isolated, `process_sandbox` keeps the sandbox of this process, and `protection` says in words
what holds.
"""
