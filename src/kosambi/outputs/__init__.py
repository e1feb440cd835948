"""Several outputs: observations of shape (N, P) as rows of one process, and what it says of all outputs together.

An observed cell (n, p) of y is one row, whose inputs are those of row n and the number of the output, p. A kernel with
`kosambi.kernels.Coregionalization` says how outputs vary together; cells that are NaN were not observed, and are no
rows. `infer` and `fit_hyperparameters` take y of shape (N, P) and do this by themselves.
"""

from kosambi.outputs.joint import JointPrediction, predict
from kosambi.outputs.stacking import Cells, every_cell, stack

__all__ = ["Cells", "JointPrediction", "every_cell", "predict", "stack"]
