"""Parameters that several theorems share; the paper prints no experiment for them."""

from companion.exhibit import *

STATED = "a statement: no experiment is printed"
REPEATS = Parameter("int", 4000, 100_000, STATED, "simulated steps per setting", 100)
SIGMA = Parameter("float", 0.3, 0.3, STATED, "noise multiplier", 1e-12)
