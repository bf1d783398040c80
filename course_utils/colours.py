"""The course's colours: the same thing has the same colour in every figure.

Most are from the palette of Okabe and Ito, which colour-blind readers can tell apart.
"""

PARAMETERS = "#0072b2"
GRADIENTS = "#e69f00"
OPTIMIZER_STATES = "#009e73"
ACTIVATIONS = "#d55e00"
TEMPORARIES = "#cc79a7"

# Parts of a transformer, from Tol's muted palette, to differ from the colours above.
PROJECTIONS = "#88ccee"
ATTENTION_CORE = "#332288"
FEED_FORWARD = "#999933"
ROUTER = "#aa4499"
HEAD = "#882255"

# Bits of a number, from Tol's bright palette.
SIGN = "#bbbbbb"
EXPONENT = "#4477aa"
MANTISSA = "#ccbb44"

COMPUTE = "#0072b2"
COMMUNICATION = "#e69f00"
IDLE = "#bbbbbb"

# A formula's line, an instrument's dots, and bars for anything else.
COMPUTED = "#56b4e9"
MEASURED = "#000000"
NEUTRAL = "#7a7a7a"

# Verdicts, each shown with a symbol too.
RIGHT = "#007a5a"
PARTLY = "#8fcbb5"
WRONG = "#b84a00"
OPEN = "#7a7a7a"
