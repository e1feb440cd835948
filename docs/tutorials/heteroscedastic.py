# %% [markdown]
# # Noise that varies
#
# The acceleration of a helmet in a crash: quiet at first, then violent. One number for the noise is too large at the
# beginning and too small later. `"heteroscedastic"` has a second function, the logarithm of the noise:
#
# $$y_n \sim N\bigl(f_1(x_n),\; e^{2 f_2(x_n)}\bigr).$$

# %% [markdown]
# The file is looked for in the folder that the environment variable `KOSAMBI_DATA` names and in `reproduction/data` of
# the repository. It is the table `mcycle` of the R package MASS. Without it, made-up rows of the same shape stand in, and the output says so.

# %%
import os
from pathlib import Path

folders = [Path(os.environ.get("KOSAMBI_DATA", ".")), Path("../../reproduction/data"), Path("reproduction/data")]
file = next((folder / "mcycle.csv.gz" for folder in folders if (folder / "mcycle.csv.gz").is_file()), None)

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko

if file is None:
    print("STAND-IN: no file, rows are made up")
    rng = np.random.default_rng(0)
    t = np.sort(rng.uniform(2.4, 57.6, 133))
    y = -80.0 * np.exp(-0.5 * ((t - 21.0) / 5.0) ** 2) + np.where(t < 14.0, 2.0, 22.0) * rng.normal(size=133)
else:
    table = pd.read_csv(file)
    t, y = table["times"].to_numpy(), table["target"].to_numpy()
X = pd.DataFrame({"milliseconds": t})
figure, panels = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
for panel, name in zip(panels, ("gaussian", "heteroscedastic"), strict=True):
    model = ko.ProjectedLangevinRegressor(name, hyperparameters="evidence", progress=False).fit(X, y)
    ko.plots.posterior(model, axes=panel).set_title(name, loc="right")
    early, late = pd.DataFrame({"milliseconds": [5.0]}), pd.DataFrame({"milliseconds": [30.0]})
    widths = [float(np.ptp(model.predict_interval(new, 0.95))) for new in (early, late)]
    print(f"{name:16s} width of the 95 % interval at 5 ms {widths[0]:6.1f} g, at 30 ms {widths[1]:6.1f} g")
plt.show()
