"""`python3 -m autograder.grading`: print a line at once, since loading takes seconds."""

import signal
import sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # while it loads, Ctrl-C ends it silently
    print("Loading the grader.", flush=True)
    from autograder.grading.command import main

    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
