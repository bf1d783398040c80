"""The course's colours: the same thing has the same colour in every figure.

Most are from the palette of Okabe and Ito, which colour-blind readers can tell apart.
"""

PARAMETERS = "#0072b2"
GRADIENTS = "#e69f00"
OPTIMIZER_STATES = "#009e73"
ACTIVATIONS = "#d55e00"
TEMPORARIES = "#cc79a7"

# Parts of a transformer, from Tol's muted palette, to differ from the colours above; its indigo is
# brightened, to be seen on dark paper too.
PROJECTIONS = "#88ccee"
ATTENTION_CORE = "#6650c8"
FEED_FORWARD = "#999933"
ROUTER = "#aa4499"
HEAD = "#cc6677"

# Bits of a number, from Tol's bright palette.
SIGN = "#bbbbbb"
EXPONENT = "#4477aa"
MANTISSA = "#ccbb44"

COMPUTE = "#0072b2"
COMMUNICATION = "#e69f00"
IDLE = "#bbbbbb"

# A formula's line, an instrument's dots, and bars for anything else. Black is the ink of a page: on
# a dark one it is drawn in the colour of the page's text.
COMPUTED = "#56b4e9"
MEASURED = "#000000"
NEUTRAL = "#7a7a7a"

# Cards of exercises, white text upon them.
YOUR_TURN = "#0072b2"
EXTRA = "#6b4c9a"

# Texts on coloured areas, which are the same on every page.
ON_BRIGHT = "#111111"
ON_DARK = "#ffffff"

# Verdicts, each shown with a symbol too.
RIGHT = "#007a5a"
PARTLY = "#8fcbb5"
WRONG = "#b84a00"
OPEN = "#7a7a7a"
