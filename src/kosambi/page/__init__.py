"""One HTML page about a fitted estimator: verdict, held-out predictions, calibration, effects, convergence, model.

The page is a single file that asks for nothing else: styles and figures are inside, and there are no scripts. It reads
on a telephone, in the dark and on paper. Needs matplotlib: `pip install kosambi[plots]`.
"""

from kosambi.page._render import render
from kosambi.page._write import write

__all__ = [
    "render",
    "write",
]
