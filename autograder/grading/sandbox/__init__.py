"""The sandbox in which students' code runs, one process for each submission.

`bubblewrap` isolates a process in which `preload` has imported everything; `fork_server` forks it
for each submission; `confinement` and `seccomp` take away what the fork does not need.
`student_process` runs cells in its `ipython_shell` and observes answers. The referee outside talks
to it through `client` and `framing`. `kept_code` leaves of the course what the observed exercises
need, as `kept.json` says.
`subprocess_fallback` stands in where nothing can be isolated, `process_sandbox` holds the sandbox
of this process, and `protection` describes which layers are in force.
"""
