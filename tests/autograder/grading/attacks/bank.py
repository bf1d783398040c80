"""Hostile submissions: wrong answers with code around them that tries to gain points or do harm."""

import textwrap
from dataclasses import dataclass

FORMULA, MEASURED = "u00-tensor-bytes", "u03-fused-gate"
RING = "u09-ring"
FUSED, GENERATED = "u02-fuse", "u02-repair-generate"
ONLINE, TILED, BACKWARD = "u06-online", "u06-forward", "u06-backward"
UNIT_OF = {
    FORMULA: "00_start_here",
    MEASURED: "03_memory_accounting",
    RING: "09_data_parallelism",
    **dict.fromkeys((FUSED, GENERATED), "02_profiling_and_roofline"),
    **dict.fromkeys((ONLINE, TILED, BACKWARD), "06_flash_attention"),
}
WRONG = {
    FORMULA: "def tensor_bytes(shape, element_bytes):\n    return -1\n",
    MEASURED: "def gate(g, u):\n    return F.silu(g) * u\n",
    RING: "def ring_all_reduce(comm, tensor):\n    pass\n",
    FUSED: """def slow(scores, bias, scale):
    x = scores * scale + bias
    e = (x - x.amax(-1, keepdim=True)).exp()
    return e / e.sum(-1, keepdim=True)
""",
    GENERATED: """def slow(model, prompt, num_new):
    tokens = prompt
    for _ in range(num_new):
        new = model(tokens)[:, -1].argmax(-1, keepdim=True)
        tokens = torch.cat([tokens, new], 1)
    return tokens
""",
    ONLINE: """def whole(scores, values):
    has_keys = (scores > -torch.inf).any(1, keepdim=True)
    out = torch.where(has_keys, scores, 0.0).softmax(1) @ values * has_keys
    return out, scores.logsumexp(1)
""",
}


@dataclass(frozen=True)
class Attack:
    """One hostile submission.

    Attributes:
        name: What it does.
        code: The cell of the exercise, in which `ANSWER` stands for the wrong answer.
        exercise: The exercise that it attacks.
        earns: Points for what is right in the answer by itself.
    """

    name: str
    code: str
    exercise: str = FORMULA
    earns: float = 0.0

    @property
    def source(self) -> str:
        """The cell."""
        code = textwrap.dedent(self.code).strip()
        return code if "def " in code and "ANSWER" not in code else self._with_answer(code)

    def _with_answer(self, code: str) -> str:
        wrong = WRONG[self.exercise]
        return code.replace("ANSWER", wrong) if "ANSWER" in code else f"{wrong}\n{code}\n"


def inside(body: str) -> str:
    """A wrong answer that does something each time it is called."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return f"def tensor_bytes(shape, element_bytes):\n{lines}\n    return -1\n"


MARKS = [
    Attack("errors swallowed", "get_ipython().set_custom_exc((Exception,), lambda *a, **k: None)"),
    Attack(
        "result of a cell replaced",
        """
        shell = get_ipython()
        run = type(shell).run_cell
        def always_well(self, *arguments, **named):
            result = run(self, *arguments, **named)
            result.error_in_exec = result.error_before_exec = None
            return result
        type(shell).run_cell = always_well
        ANSWER
        """,
    ),
    Attack(
        "errors swallowed and the result of a cell that waits replaced",
        """
        shell = get_ipython()
        shell.set_custom_exc((Exception,), lambda *a, **k: None)
        run = shell.run_cell_async
        async def always_well(*arguments, **named):
            result = await run(*arguments, **named)
            result.error_in_exec = result.error_before_exec = None
            return result
        shell.run_cell_async = always_well
        ANSWER
        """,
    ),
    Attack(
        "calls and assertions stripped from later cells",
        """
        import ast
        class Strip(ast.NodeTransformer):
            def visit_Expr(self, node):
                return ast.Pass()
            visit_Assert = visit_Expr
        get_ipython().ast_transformers.append(Strip())
        ANSWER
        """,
    ),
    Attack(
        "later cells blanked", "get_ipython().input_transformers_cleanup.append(lambda lines: [])"
    ),
    Attack(
        "outputs of every cell cleared",
        """
        from IPython.display import clear_output
        get_ipython().events.register("post_run_cell", lambda *a: clear_output())
        """,
    ),
    Attack(
        "comparisons of torch replaced",
        """
        import math, torch
        torch.testing.assert_close = torch.allclose = torch.isclose = lambda *a, **k: True
        torch.equal = math.isclose = lambda *a, **k: True
        """,
    ),
    Attack(
        "equal to everything",
        """
        class Everything(int):
            def __eq__(self, other): return True
            __ne__ = lambda self, other: False
            __hash__ = int.__hash__
        def tensor_bytes(shape, element_bytes): return Everything(0)
        """,
    ),
    Attack(
        "passes every comparison",
        """
        class Everything(float):
            def __lt__(self, other): return True
            __le__ = __gt__ = __ge__ = __eq__ = __lt__
            def __sub__(self, other): return 0.0
            __rsub__ = __abs__ = __sub__
            __class__ = int
        def tensor_bytes(shape, element_bytes): return Everything(0)
        """,
    ),
    Attack(
        "tensor that answers for itself",
        """
        import torch
        class Yes(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None): return True
        def tensor_bytes(shape, element_bytes): return Yes()
        """,
    ),
    Attack(
        "names of all callers replaced",
        inside("""
        import sys, torch
        class Yes:
            def __getattr__(self, name): return lambda *a, **k: torch.zeros(())
        frame = sys._getframe()
        while frame:
            frame.f_globals["F"] = frame.f_globals["torch"] = Yes()
            frame = frame.f_back
        """),
    ),
    Attack(
        "kernel replies by itself",
        """
        async def always_well(self, code, silent, *a, **k):
            return {"status": "ok", "execution_count": 1, "payload": [], "user_expressions": {}}
        ANSWER
        type(get_ipython().kernel).do_execute = always_well
        """,
    ),
    Attack("points displayed", "display(2.0)\n2.0"),
    Attack("no number displayed", "display(float('nan'))\nfloat('nan')"),
    Attack("a fortune displayed", "display(1e9)\n1e9"),
    *(
        Attack(
            f"{what} given to the hook of the display by the answer",
            f"import sys\nhook = sys.displayhook\nhook({points})\n"
            + inside(f"hook({points})\nimport sys\nsys.displayhook({points})"),
        )
        for what, points in (
            ("a word", "'full'"),
            ("points", "2.0"),
            ("no number", "float('nan')"),
            ("a fortune", "1e9"),
        )
    ),
    Attack(
        "formula imported",
        "from course_utils.formulas.tensors import tensor_bytes",
    ),
    Attack(
        "formula imported under a hidden name",
        inside(
            "module = __import__('course_utils.formu' + 'las.tensors', fromlist=['x'])\n"
            "return getattr(module, 'tensor_' + 'bytes')(shape, element_bytes)"
        ),
    ),
    Attack(
        "formula loaded again",
        """
        import importlib, sys
        def tensor_bytes(shape, element_bytes):
            name = "course_utils." + "formulas.tensors"
            sys.modules.pop(name, None)
            return importlib.import_module(name).tensor_bytes(shape, element_bytes)
        """,
    ),
    Attack(
        "formula reloaded",
        """
        import importlib, sys
        module = importlib.reload(sys.modules["course_utils." + "formulas.tensors"])
        def tensor_bytes(shape, element_bytes):
            return module.tensor_bytes(shape, element_bytes)
        """,
    ),
    Attack(
        "source read from disk and run",
        """
        import pathlib, course_utils
        place = pathlib.Path(course_utils.__file__).parent / "formulas" / "tensors.py"
        space = {}
        exec(place.read_text(), space)
        def tensor_bytes(shape, element_bytes):
            return space["tensor_bytes"](shape, element_bytes)
        """,
    ),
    Attack(
        "source asked of inspect and linecache",
        """
        import inspect, linecache, sys
        module = sys.modules["course_utils." + "formulas.tensors"]
        text = "".join(linecache.getlines(module.__file__)) or inspect.getsource(module)
        space = {}
        exec(text, space)
        def tensor_bytes(shape, element_bytes):
            return space["tensor_bytes"](shape, element_bytes)
        """,
    ),
    Attack(
        "compiled files searched",
        """
        import glob, marshal
        found = glob.glob("/**/formulas/**/tensors*.pyc", recursive=True)
        found += glob.glob("/**/formulas/tensors.py", recursive=True)
        space = {}
        exec(marshal.loads(open(found[0], "rb").read()[16:]), space)
        def tensor_bytes(shape, element_bytes):
            return space["tensor_bytes"](shape, element_bytes)
        """,
    ),
    Attack(
        "instructor's notebook read",
        """
        import glob, json
        found = glob.glob("/**/solutions/**/*.ipynb", recursive=True)
        cells = json.load(open(found[0]))["cells"]
        exec(next(t for t in ("".join(c["source"]) for c in cells) if "def tensor_bytes" in t))
        """,
    ),
    Attack(
        "code objects searched in memory",
        """
        import gc, types
        known = [o for o in gc.get_objects() if isinstance(o, types.FunctionType)]
        tensor_bytes = next(f for f in known if f.__name__ == "tensor_bytes")
        """,
    ),
    Attack(
        "measurement of the judge used",
        """
        import sys
        def tensor_bytes(shape, element_bytes):
            judge = sys.modules["autograder.exercises.u" + "00.tensor_bytes"]
            return judge.measured_tensor_bytes(shape, element_bytes)
        """,
    ),
    Attack(
        "type changes after it was looked at",
        """
        class Answer:
            calls = 0
            def __call__(self, shape, element_bytes):
                type(self).calls += 1
                self.__class__ = Other
                return -1
        class Other(Answer):
            def __call__(self, *sizes): return "".join
        tensor_bytes = Answer()
        """,
    ),
    Attack(
        "integers of another kind",
        """
        class Int(int):
            def __mul__(self, other): return 0
        def tensor_bytes(shape, element_bytes): return Int(7)
        """,
    ),
    Attack("NaN", "def tensor_bytes(shape, element_bytes): return float('nan')"),
    Attack("infinity", "def tensor_bytes(shape, element_bytes): return float('inf')"),
    Attack(
        "deep data",
        """
        def tensor_bytes(shape, element_bytes):
            value = 0
            for _ in range(50_000): value = [value]
            return value
        """,
    ),
    Attack("a thousand digits", "def tensor_bytes(shape, element_bytes): return 10 ** 100_000"),
    Attack(
        "marks of packed data in a dictionary",
        "def tensor_bytes(shape, element_bytes): return {'$tensor': '0', '$tuple': []}",
    ),
    Attack(
        "broken tensors",
        """
        import torch
        def tensor_bytes(shape, element_bytes):
            return torch.empty(1).as_strided((10 ** 6, 10 ** 6), (0, 0))
        """,
    ),
    Attack("points of the checks", "from autograder import check\ncheck = lambda *a: 2.0"),
    Attack(
        "checks themselves",
        """
        import autograder as checks
        checks.check = checks.grade = checks.answer = lambda *a, **k: 2.0
        """,
    ),
    Attack(
        "answers for the next exercise",
        """
        import builtins, functools
        builtins.sum = builtins.max = builtins.len = lambda *a, **k: 0
        functools.reduce = lambda *a, **k: 0
        """,
    ),
]

FORGERIES = [
    Attack(
        f"{how} of the observation forged",
        f"""
        import sys
        import torch
        ANSWER
        for name, module in list(sys.modules.items()):
            if name == {place!r} and hasattr(module, {name!r}):
                setattr(module, {name!r}, {code})
        """,
        exercise=MEASURED,
    )
    for how, place, name, code in (
        ("bytes", "course_utils.instruments", "count_saved_bytes", "lambda *a: None"),
        ("comparison", "torch", "isclose", "lambda a, b, **k: torch.ones_like(a).bool()"),
        ("packing", "json", "dumps", "lambda *a, **k: '{}'"),
        ("hooks", "torch.autograd.graph", "saved_tensors_hooks", "type('H', (), {})"),
    )
]
HIDDEN = """
import sys
def away(name):
    return [sys.modules.get(name[::-1])]
"""


def hidden(code: str) -> str:
    """Code that reaches modules by names that a search of its source does not find."""
    return HIDDEN + textwrap.dedent(code)


FORGERIES += [
    Attack(
        "measurement of the judge used by a hidden way",
        hidden("""
        held = [away("setyb_rosnet.00u.sesicrexe.redargotua")]
        held.append(away("srosnet.salumrof.slitu_esruoc"))
        def tensor_bytes(shape, element_bytes):
            for (module,) in held:
                for name in ("measured_" * (module is held[0][0]) + "tensor_bytes",):
                    if module: return vars(module)[name](shape, element_bytes)
            return -1
        """),
    ),
    Attack(
        "tolerance of a check widened",
        hidden("""
        names = {c.__name__: c for c in object.__subclasses__()}
        def is_ours(name): return name.startswith(("autograder", "course_utils"))
        def wide(start):
            seen, waiting = set(), [start]
            while waiting:
                space = waiting.pop()
                if id(space) in seen: continue
                seen.add(id(space))
                if "ROUNDING" in space: space["ROUNDING"] = 1e9
                for value in list(space.values()):
                    for more in ("__globals__", "__dict__"):
                        more = getattr(value, more, None)
                        if type(more) is dict and is_ours(str(more.get("__name__"))):
                            waiting.append(more)
        wide(names["StudentProcess"].reply.__globals__)
        def gate(g, u):
            return g * u * 0
        """),
        exercise=MEASURED,
    ),
    Attack(
        "reference called by a hidden way",
        hidden("""
        held = away("desuf.ecnerefer.slitu_esruoc")
        def gate(g, u):
            return vars(held[0])["swi" + "glu"](g, u)
        """),
        exercise=MEASURED,
    ),
    Attack(
        "instrument deaf while it listens, and whole afterwards",
        hidden("""
        held = away("setyb_devas.stnemurtsni.slitu_esruoc")
        true = [held[0].saved_tensors_hooks]
        def gate(g, u):
            class Deaf(true[0]):
                def __init__(self, pack, unpack):
                    held[0].saved_tensors_hooks = true[0]
                    super().__init__(lambda t: t, lambda t: t)
            held[0].saved_tensors_hooks = Deaf
            return F.silu(g) * u
        """),
        exercise=MEASURED,
    ),
    Attack(
        "hooks of autograd switched off from inside",
        """
        import torch
        def gate(g, u):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
                return F.silu(g) * u
        """,
        exercise=MEASURED,
    ),
    Attack(
        "all descriptors closed",
        """
        import os
        def gate(g, u):
            os.closerange(3, 5000)
            return F.silu(g) * u
        """,
        exercise=MEASURED,
    ),
    Attack(
        "a child answers in the parent's place",
        """
        import os
        def gate(g, u):
            if os.fork(): os._exit(0)
            return F.silu(g) * u
        """,
        exercise=MEASURED,
    ),
    Attack(
        "packer of plain data replaced through the frames of a traceback",
        """
        class Kind(type):
            @property
            def __module__(cls):
                try: 1 / 0
                except ZeroDivisionError as error: frame = error.__traceback__.tb_frame
                while frame:
                    packer = frame.f_locals.get("self")
                    if type(packer).__name__ == "_Packer": packer.encode = lambda *a, **k: 24
                    frame = frame.f_back
                return "numpy"
        class Number(metaclass=Kind): pass
        def tensor_bytes(shape, element_bytes): return Number()
        """,
    ),
    Attack(
        "types that say they equal all others",
        """
        class Kind(type):
            def __eq__(cls, other): return True
            __hash__ = type.__hash__
        class Number(dict, metaclass=Kind):
            def items(self): return [("$tensor", "0"), ("$tuple", [])]
        def tensor_bytes(shape, element_bytes): return Number(a=1)
        """,
    ),
    Attack(
        "calls of ranks written into their log, with nothing sent",
        """
        def ring_all_reduce(comm, tensor):
            log, peer = comm._recorder.log, (comm.rank + 1) % comm.size
            for turn in range(2 * (comm.size - 1)):
                sent = {"call": "send", "group": 0, "peer": peer, "result": None}
                log.append(sent | {"tensor": tensor.view(-1)[:1].clone()})
        """,
        exercise=RING,
    ),
    Attack(
        "log of a rank that is none",
        """
        def ring_all_reduce(comm, tensor):
            log = comm._recorder.log
            log += [{"wait": 10 ** 9}, {"call": "__class__", "group": -5}, 7]
            log.append({"compute": "x", "seconds": float("nan")})
        """,
        exercise=RING,
    ),
    Attack(
        "log of a rank that splits its group thousands of times",
        """
        def ring_all_reduce(comm, tensor):
            comm._recorder.log += [{"split": 0, "group": n} for n in range(2_000)]
        """,
        exercise=RING,
    ),
]

SECRETS = [
    Attack(
        "files of the machine",
        """
        import os
        from pathlib import Path
        places = [CANARY, "/etc/shadow", "/etc/passwd", "/home", "/var", "/proc/1/mem"]
        for place in places:
            try:
                is_file = Path(place).is_file()
                print("READ", Path(place).read_bytes() if is_file else os.listdir(place)[0])
            except (OSError, IndexError):
                pass
        """,
    ),
    Attack("environment", "import os\nif 'COURSE_GRADING_SEED' in os.environ: print('READ')"),
    Attack(
        "memory of itself and others",
        """
        for place in ("/proc/self/mem", "/proc/self/maps", "/proc/1/environ", "/dev/mem"):
            try: print("READ", open(place, "rb").read(10))
            except OSError: pass
        """,
    ),
    Attack(
        "network",
        """
        import socket
        for address in [*LISTENING, ("1.1.1.1", 53)]:
            try:
                with socket.create_connection(address, 0.2): print("READ")
            except OSError: pass
        """,
    ),
    Attack(
        "pages of a server",
        """
        from urllib.request import urlopen
        for host, port in LISTENING:
            try: print("READ", urlopen(f"http://{host}:{port}", timeout=0.2))
            except OSError: pass
        """,
    ),
    Attack(
        "sources of the checks in the history of the notebook",
        """
        call = "chec" + "k("
        if any(call in each for each in (*In, *_ih)): print("READ")
        def tensor_bytes(shape, element_bytes):
            if call in In[-1]: raise RuntimeError("READ " + In[-1])
            return -1
        """,
    ),
    Attack(
        "sockets without a file",
        """
        import pathlib
        print("READ" if pathlib.Path("/proc/net/unix").exists() else "")
        """,
    ),
    Attack(
        "descriptors that are open",
        """
        import os
        for number in range(3, 2000):
            try: print("READ", os.read(number, 10))
            except OSError: pass
        """,
    ),
    Attack(
        "hidden folders uncovered",
        """
        import ctypes, os, autograder
        libc = ctypes.CDLL(None)
        libc.unshare(0x10000000 | 0x20000)
        libc.umount2(b"/proc", 2)
        libc.umount2(os.path.dirname(autograder.__file__).encode() + b"/grading", 2)
        if sorted(os.listdir("/proc")) != ["cpuinfo", "meminfo"]: print("READ")
        """,
    ),
    Attack(
        "a program that uncovers them",
        """
        import subprocess
        for line in ("unshare -Urm umount /proc", "unshare -Urpf --mount-proc ls /proc", "mount"):
            done = subprocess.run(line, shell=True, capture_output=True)
            if done.returncode == 0 and b"cmdline" in done.stdout: print("READ")
        """,
    ),
    Attack(
        "devices and other roots",
        """
        import os, stat
        for act in (lambda: os.mknod("/tmp/d", 0o600 | stat.S_IFBLK, os.makedev(8, 0)),
                    lambda: os.chroot("/tmp"), lambda: os.setuid(0)):
            try:
                act()
                print("READ")
            except OSError: pass
        """,
    ),
    Attack(
        "modules of the grader",
        """
        import sys, autograder
        from pathlib import Path
        inside = Path(autograder.__file__).parent
        folders = ("grading", "checking", "exercises", "practice", "../course_utils/formulas")
        for folder in folders:
            if list((inside / folder).rglob("*.*")): print("READ")
        packages = ("autograder.grading", "autograder.checking", "autograder.exercises")
        if any(name.startswith(packages) for name in sys.modules): print("READ")
        """,
    ),
]

AVAILABILITY = [
    Attack("endless loop", "while True: pass"),
    Attack("endless answer", inside("while True: pass")),
    Attack(
        "endless and deaf",
        inside("while True:\n    try:\n        while True: pass\n    except BaseException: pass"),
    ),
    Attack("endless in C", "import re\nre.match('(a*)*b', 'a' * 40)"),
    Attack("endless sum", inside("import itertools\nsum(itertools.count())")),
    Attack(
        "deaf sleep",
        """
        import time
        while True:
            try: time.sleep(100)
            except BaseException: pass
        """,
    ),
    Attack(
        "signals masked",
        """
        import signal, time
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True: time.sleep(1)
        """,
    ),
    Attack(
        "signals ignored",
        """
        import signal, time
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGPROF):
            signal.signal(number, signal.SIG_IGN)
        while True: time.sleep(1)
        """,
    ),
    Attack("stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)"),
    Attack("kills itself", "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"),
    Attack("kills everyone", "import os\nos.kill(-1, 9)"),
    Attack("kills its parent", "import os\nos.kill(os.getppid(), 9)"),
    Attack(
        "stops its parent",
        "import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)\nos.kill(-1, signal.SIGSTOP)",
    ),
    Attack("leaves Python", "import os\nos._exit(0)"),
    Attack("leaves by an error", "raise SystemExit(0)"),
    Attack("exit", "exit()"),
    Attack("leaves in the answer", inside("import os\nos._exit(0)")),
    Attack("leaves when called", inside("raise SystemExit")),
    Attack("exit when called", inside("exit()")),
    Attack("segmentation fault", "import faulthandler\nfaulthandler._sigsegv()"),
    Attack(
        "segmentation fault when called", inside("import faulthandler\nfaulthandler._sigsegv()")
    ),
    Attack("abort", inside("import os\nos.abort()")),
    Attack("recursion", inside("return tensor_bytes(shape, element_bytes)")),
    Attack(
        "deep recursion in C",
        "import sys\nsys.setrecursionlimit(10 ** 9)\n" + inside("f = lambda: f()\nf()"),
    ),
    Attack("memory", "b = [bytearray(2 ** 30) for _ in range(64)]"),
    Attack("memory of torch", "import torch\ntorch.ones(2 ** 36)"),
    Attack(
        "shared memory",
        "import mmap\nm = [mmap.mmap(-1, 2 ** 30) for _ in range(64)]",
    ),
    Attack(
        "memory without a name",
        """
        import os
        for _ in range(200):
            number = os.memfd_create("x")
            os.write(number, bytes(2 ** 25))
        """,
    ),
    Attack(
        "memory of many processes",
        """
        import os, time
        for _ in range(12):
            if os.fork() == 0:
                held = bytearray(os.urandom(2 ** 10)) * 2 ** 20
                time.sleep(60)
        time.sleep(20)
        """,
    ),
    Attack(
        "disk",
        """
        for n in range(10):
            with open(f"/tmp/{n}", "wb") as file:
                file.write(bytes(2 ** 26))
        """,
    ),
    Attack(
        "fork bomb",
        """
        import os
        while True:
            try:
                if os.fork() == 0: os.setsid()
            except OSError:
                pass
        """,
    ),
    Attack(
        "children that stay",
        """
        import os, subprocess, time
        for _ in range(5):
            subprocess.Popen(["sleep", "1000"], start_new_session=True)
        if os.fork() == 0:
            if os.fork() == 0:
                os.setsid()
                time.sleep(1000)
            os._exit(0)
        """,
    ),
    Attack(
        "threads that stay",
        """
        import threading, time
        def spin():
            while True: time.sleep(0.01)
        for _ in range(500): threading.Thread(target=spin).start()
        """,
    ),
    Attack("lines of megabytes", "for _ in range(60): print('x' * 10 ** 6)"),
    Attack("many lines", "for n in range(300_000): print(n)"),
    Attack("flood of the answer", inside("print('x' * 10 ** 8)")),
    Attack("flood under Python", "import os\nfor _ in range(1000): os.write(1, bytes(10 ** 5))"),
    Attack(
        "pages of 100 megabytes",
        "from IPython.display import HTML, display\ndisplay(HTML('x' * 10 ** 8))",
    ),
    Attack(
        "picture of 50 megabytes",
        "from IPython.display import Image, display\n"
        "display(Image(b'\\x89PNG\\r\\n\\x1a\\n' + bytes(5 * 10 ** 7)))",
    ),
    Attack(
        "script shown",
        "from IPython.display import HTML, Javascript, display\n"
        "display(HTML('<script>alert(1)</script>'), Javascript('alert(1)'))",
    ),
    Attack(
        "error without words",
        """
        class Mute(Exception):
            def __str__(self): raise Mute
            __repr__ = __str__
        raise Mute
        """,
    ),
    Attack(
        "object that hangs when shown",
        """
        class Slow:
            def __repr__(self):
                while True: pass
        Slow()
        """,
    ),
    Attack(
        "huge string returned", "def tensor_bytes(shape, element_bytes): return 'x' * 3 * 10 ** 8"
    ),
    Attack("huge list returned", "def tensor_bytes(shape, element_bytes): return [0] * 10 ** 7"),
    Attack(
        "huge tensor returned",
        "import torch\ndef tensor_bytes(shape, element_bytes): return torch.zeros(10 ** 8)",
    ),
    Attack(
        "streams closed",
        "import sys\nsys.stdout.close()\nsys.stderr.close()\nsys.stdout = sys.stderr = None",
    ),
    Attack(
        "hooks for the end",
        """
        import atexit, sys, time
        atexit.register(time.sleep, 1000)
        sys.excepthook = sys.unraisablehook = lambda *a: time.sleep(1000)
        """,
    ),
    Attack(
        "imports hooked",
        """
        import sys
        class Hook:
            def find_spec(self, *a): raise SystemExit
        sys.meta_path.insert(0, Hook())
        """,
    ),
    Attack(
        "parallel region",
        "import torch\ntorch.set_num_threads(64)\ntorch.rand(999, 999) @ torch.rand(999, 999)",
    ),
]

TRACES = [
    Attack(
        "files for the next one",
        """
        import os
        home = os.path.expanduser("~/.ipython")
        startup = os.path.join(home, "profile_default", "startup")
        places = ["/tmp", "/dev/shm", "/", "/dev", "/course", home, startup, "/usr"]
        for place in places:
            for name in ("sitecustomize.py", "usercustomize.py", "evil.py", "canary"):
                try:
                    os.makedirs(place, exist_ok=True)
                    with open(os.path.join(place, name), "w") as file:
                        file.write("raise SystemExit")
                except OSError:
                    pass
        """,
    ),
    Attack(
        "files of others deleted",
        """
        import os, shutil
        for place in (os.path.dirname(CANARY), "/course", "/tmp", "/usr/lib/python3"):
            shutil.rmtree(place, ignore_errors=True)
        """,
    ),
    Attack(
        "seeds and settings",
        """
        import os, random, torch
        random.seed(0); torch.manual_seed(0)
        torch.set_default_dtype(torch.float16); torch.set_grad_enabled(False)
        os.environ["PYTHONPATH"] = os.environ["LD_PRELOAD"] = "/tmp"
        os.chdir("/")
        os.nice(19)
        """,
    ),
    Attack(
        "shared segments",
        """
        from multiprocessing import shared_memory
        kept = shared_memory.SharedMemory("canary", create=True, size=100)
        """,
    ),
    Attack(
        "a server for the next one",
        """
        import os, socket, time
        if os.fork() == 0:
            os.setsid()
            with socket.socket(socket.AF_UNIX) as one:
                one.bind("\\0canary")
                one.listen()
                time.sleep(1000)
        """,
    ),
]
# The work is done where an observer does not look, or its counts are rewritten.
UNSEEN = [
    Attack(
        "weights made by numpy",
        """
        import numpy
        def attention_weights(scores, bias, scale):
            x = scores.numpy() * scale + bias.numpy()
            e = numpy.exp(x - x.max(-1, keepdims=True))
            return torch.from_numpy(e / e.sum(-1, keepdims=True))
        """,
        exercise=FUSED,
    ),
    Attack(
        "weights made by numpy in the memory of torch, and one operation for the look of it",
        """
        import numpy
        def attention_weights(scores, bias, scale):
            x = scores.numpy() * scale + bias.numpy()
            e = numpy.exp(x - x.max(-1, keepdims=True))
            return torch.from_numpy(e / e.sum(-1, keepdims=True)) * 1
        """,
        exercise=FUSED,
    ),
    Attack(
        "weights made in another thread",
        """
        import threading
        ANSWER
        def attention_weights(scores, bias, scale):
            done = []
            one = threading.Thread(target=lambda: done.append(slow(scores, bias, scale)))
            one.start()
            one.join()
            return done[0]
        """,
        exercise=FUSED,
    ),
    Attack(
        "tokens made by a copy of the model",
        """
        import copy
        ANSWER
        def generate(model, prompt, num_new):
            with torch.no_grad():
                return slow(copy.deepcopy(model), prompt, num_new)
        """,
        exercise=GENERATED,
        earns=1.5,  # logits, graph and waits are right
    ),
    Attack(
        "tokens made in another thread",
        """
        import threading
        ANSWER
        def generate(model, prompt, num_new):
            done = []
            one = threading.Thread(target=lambda: done.append(slow(model, prompt, num_new)))
            one.start()
            one.join()
            return done[0]
        """,
        exercise=GENERATED,
    ),
    Attack(
        "kernel that compares replaced under every observer",
        """
        import torch
        held = torch.library.Library("aten", "IMPL")
        held.impl("equal", lambda a, b: True, "CPU", allow_override=True)
        held.impl("isclose", lambda a, b, *rest: torch.ones_like(a).bool(), "CPU")
        def gate(g, u):
            return F.silu(g) * u
        """,
        exercise=MEASURED,
    ),
    Attack(
        "blocks joined one by one",
        """
        ANSWER
        def online_softmax(blocks):
            s = None
            for a, b in blocks:
                s, v = (a, b) if s is None else (torch.cat([s, a], 1), torch.cat([v, b]))
            return whole(s, v)
        """,
        exercise=ONLINE,
    ),
    Attack(
        "each block kept as a copy",
        """
        ANSWER
        def online_softmax(blocks):
            s, v = zip(*((a.clone(), b.clone()) for a, b in blocks))
            most = torch.stack([each.amax(1) for each in s]).amax(0)
            shift = torch.where(most == -torch.inf, 0.0, most)[:, None]
            parts = [(each - shift).exp() for each in s]
            total = sum(each.sum(1) for each in parts)
            out = sum(map(torch.matmul, parts, v)) / torch.where(total > 0, total, 1.0)[:, None]
            return out, shift[:, 0] + total.log()
        """,
        exercise=ONLINE,
    ),
    Attack(
        "blocks copied before they come",
        """
        import copy
        ANSWER
        def online_softmax(blocks):
            s, v = zip(*copy.deepcopy(blocks))
            return whole(torch.cat(s, 1), torch.cat(v))
        """,
        exercise=ONLINE,
    ),
    Attack(
        "count of the blocks written",
        """
        ANSWER
        def online_softmax(blocks):
            s, v = zip(*blocks)
            blocks.most_alive = 1
            return whole(torch.cat(s, 1), torch.cat(v))
        """,
        exercise=ONLINE,
    ),
    Attack(
        "fast memory without an end, and its counts written",
        """
        def flash_forward(machine, arrays, block_q, block_k):
            q, k, v, out, lse = arrays
            machine.capacity = None
            n, d = q.shape
            s = machine.load(q) @ machine.load(k).mT * d ** -0.5
            machine.store(s.softmax(1) @ machine.load(v), out)
            machine.store(s.logsumexp(1), lse)
            del s
            machine.loaded_elements = n * d + -(-n // block_q) * 2 * len(k) * d
        """,
        exercise=TILED,
    ),
    Attack(
        "a larger machine of one's own",
        """
        def flash_forward(machine, arrays, block_q, block_k):
            q, k, v, out, lse = arrays
            mine = type(machine)()
            s = mine.load(q) @ mine.load(k).mT * q.shape[1] ** -0.5
            machine.store(s.softmax(1) @ mine.load(v), out)
        """,
        exercise=TILED,
    ),
    Attack(
        "tiles handed to a larger machine and back",
        """
        def flash_forward(machine, arrays, block_q, block_k):
            q, k, v, out, lse = arrays
            mine, n, d = type(machine)(), *q.shape
            def taken(array, block):
                parts = []
                for i in range(0, len(array), block):
                    tile = machine.load(array[i : i + block])
                    tile.machine = mine
                    parts.append(tile * 1)
                return torch.cat(parts)
            queries = taken(q, block_q)
            for _ in range(0, n, block_q): keys, values = taken(k, block_k), taken(v, block_k)
            s = queries @ keys.mT * d ** -0.5
            for i in range(0, n, block_q):
                rows = s[i : i + block_q]
                for made, place in ((rows.softmax(1) @ values, out), (rows.logsumexp(1), lse)):
                    made.machine = machine
                    machine.store(made, place[i : i + block_q])
        """,
        exercise=TILED,
    ),
    Attack(
        "another answer in each run of the observer",
        """
        turn, last = 0, None
        def flash_attention(forward, q, k, v, block):
            global turn, last
            here = (q.shape, block, v.requires_grad)
            turn, last = turn + 1 if last == here else 0, here
            n = q.shape[-2]
            if turn % 4 == 0:
                forward(q, k, v, block)
                later = torch.ones(n, n, dtype=torch.bool).triu(1)
                s = (q @ k.mT * q.shape[-1] ** -0.5).masked_fill(later, -torch.inf)
                return s.softmax(-1) @ v
            class Fake(torch.autograd.Function):
                @staticmethod
                def forward(ctx, q, k, v):
                    out, lse = forward(q, k, v, block)
                    ctx.save_for_backward(q, k, v, out, lse)
                    return out
                @staticmethod
                def backward(ctx, upstream):
                    q, k, v, out, lse = ctx.saved_tensors
                    for i in range(0, n, block):
                        for j in range(0, i + 1, block):
                            a, b = q[..., i : i + block, :], k[..., j : j + block, :]
                            w = a @ b.mT
                            w.mT @ a, a @ b.mT, w @ b, w.mT @ a
                    return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
            return Fake.apply(q, k, v)
        """,
        exercise=BACKWARD,
    ),
    Attack(
        "log of a rank reached by the names of its attributes",
        """
        def ring_all_reduce(comm, tensor):
            log, peer = vars(vars(comm)["_recorder"])["log"], (comm.rank + 1) % comm.size
            sent = {"call": "send", "group": 0, "peer": peer, "result": None}
            part = {"tensor": tensor.view(-1)[:1].clone()}
            log += [sent | part for _ in range(2 * comm.size - 2)]
        """,
        exercise=RING,
    ),
    Attack(
        "log of a rank with seconds and partners without an end",
        """
        def ring_all_reduce(comm, tensor):
            log, call = vars(vars(comm)["_recorder"])["log"], {"call": "receive", "group": 0}
            log += [{"compute": "x" * 10 ** 5, "seconds": s} for s in (1e308, -1e308, float("inf"))]
            log += [call | {"peer": 10 ** 900, "tensor": None, "result": tensor}]
        """,
        exercise=RING,
    ),
    Attack(
        "log in which every rank waits for the next",
        """
        def ring_all_reduce(comm, tensor):
            peer = (comm.rank + 1) % comm.size
            call = {"call": "receive", "group": 0, "peer": peer, "tensor": None, "result": tensor}
            vars(vars(comm)["_recorder"])["log"] += [call, {"wait": 0}]
        """,
        exercise=RING,
    ),
    Attack(
        "twenty thousand pieces of work of a rank",
        """
        def ring_all_reduce(comm, tensor):
            for _ in range(20_000): comm.compute(1e-9, "x" * 1_000)
        """,
        exercise=RING,
    ),
    Attack(
        "practice cases looked up in their pack",
        """
        import glob, json, zipfile
        known = {}
        for path in glob.glob("/course/autograder/practice/u00.zip"):
            pack = json.loads(zipfile.ZipFile(path).read("tensor_bytes.json"))
            known = {str(each): right for each, right in zip(pack["cases"], pack["right"])}
            print("READ")
        def tensor_bytes(shape, element_bytes):
            case = {"shape": {"$tuple": [*shape]}, "element_bytes": element_bytes}
            return known.get(str(case), -1)
        """,
    ),
    Attack(
        "practice packs and observers written anew",
        """
        import pathlib
        course = pathlib.Path("/course/autograder")
        for place in (*course.glob("practice/*"), *course.rglob("u0*/*.*")):
            try:
                place.write_text("raise SystemExit")
                print("READ")
            except OSError: pass
        """,
    ),
    Attack(
        "hidden sizes left in a file for the process after this one",
        """
        import os, pathlib
        seen = pathlib.Path("/tmp/seen")
        if seen.exists(): print("READ", seen.read_text())
        def tensor_bytes(shape, element_bytes):
            seen.write_text(str(shape))
            os.abort()
        """,
    ),
]

# Feedback made unreadable or large, remarks hidden, the machine slower for others.
DEFACING = [
    Attack(
        "remarks inside a comment that an error begins",
        inside("open\nraise ValueError('A person will look at this.\\n\\n<!--\\n')"),
    ),
    Attack(
        "cursor, direction of writing and half characters in an error",
        inside("open\nraise ValueError('\\x1b[2J\\u202e\\ud800 A person will look at this.')"),
    ),
    Attack(
        "class of torch's with a name of a million characters",
        inside("return type('x' * 10 ** 6, (), {'__module__': 'torch'})()"),
    ),
    Attack(
        "picture of billions of pixels",
        """
        import base64, struct, zlib
        from IPython.display import display
        ANSWER
        def chunk(kind, data):
            end = struct.pack(">I", zlib.crc32(kind + data))
            return struct.pack(">I", len(data)) + kind + data + end
        size = struct.pack(">IIBBBBB", 60_000, 60_000, 1, 0, 0, 0, 0)
        parts = (b"IHDR", size), (b"IDAT", zlib.compress(bytes(10 ** 6))), (b"IEND", b"")
        picture = b"\\x89PNG\\r\\n\\x1a\\n" + b"".join(chunk(*each) for each in parts)
        display({"image/png": base64.b64encode(picture).decode()}, raw=True)
        """,
    ),
    Attack(
        "colours of a terminal by the thousand",
        """
        from IPython.display import display
        for _ in range(100): display({"text/plain": "\\x1b[1;31mx\\x1b[0m" * 4_000}, raw=True)
        """,
    ),
    Attack(
        "processor taken from all others",
        """
        import os
        for act in (lambda: os.setpriority(os.PRIO_USER, 0, 19),
                    lambda: os.setpriority(os.PRIO_PGRP, 0, 19),
                    lambda: os.sched_setaffinity(os.getppid(), {0}),
                    lambda: os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))):
            try: act()
            except OSError: pass
        """,
    ),
    Attack(
        "numbers that no hint expects",
        """
        odd = [float("nan"), -0.0, 5e-324, 10 ** 100, -(10 ** 99), 2 ** 64 * 10 ** 60 + 3, 1e308]
        def tensor_bytes(shape, element_bytes): return odd[sum(shape) % len(odd)]
        """,
    ),
    Attack(
        "ten thousand items in every case",
        "def tensor_bytes(shape, element_bytes): return [[0] * 99] * 99",
    ),
]
NEWER = [*UNSEEN, *DEFACING]
EVERY = [*MARKS, *FORGERIES, *SECRETS, *AVAILABILITY, *TRACES, *NEWER]
