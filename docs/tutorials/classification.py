# %% [markdown]
# # Classes and calibration
#
# Is a tumour malignant? 683 rows of the Wisconsin breast cancer data with nine scores each. A probability is of use if it
# keeps its promise: of the cases that are called 90 %, nine in ten should come true.

# %% [markdown]
# The file is looked for in the folder that the environment variable `KOSAMBI_DATA` names and in `reproduction/data` of
# the repository. It is in the repository (UCI, CC BY 4.0). Without it, made-up rows of the same shape stand in, and the output says so.

# %%
import os
from pathlib import Path

folders = [Path(os.environ.get("KOSAMBI_DATA", ".")), Path("../../reproduction/data"), Path("reproduction/data")]
file = next((folder / "breast.csv.gz" for folder in folders if (folder / "breast.csv.gz").is_file()), None)

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import kosambi as ko

if file is None:
    print("STAND-IN: no file, rows are made up")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.integers(1, 11, (683, 9)), columns=[f"score {d}" for d in range(9)])
    y = (X.mean(axis=1) + rng.normal(size=683) > 5.5).astype(int)
else:
    table = pd.read_csv(file)
    X, y = table.iloc[:, :-1], table.iloc[:, -1]
names = np.where(y == 1, "malignant", "benign")
order = np.random.default_rng(0).permutation(len(X))
train, test = order[:400], order[400:]
model = ko.ProjectedLangevinClassifier(progress=False).fit(X.iloc[train], names[train])
print("accuracy", round(model.score(X.iloc[test], names[test]), 3), "on", len(test), "held-out rows")

# %%
prediction = model.predict_distribution(X.iloc[test])
labels = (names[test] == model.classes_[1]).astype(float)
figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
ko.plots.reliability(prediction, labels, panels[0])
ko.plots.roc(prediction, labels, panels[1], classes=list(model.classes_))
plt.show()

# %% [markdown]
# Most probabilities are near 0 or 1, so that the bins in between hold few rows and have long error bars: the picture
# cannot say much about them. Probabilities have credible intervals of their own, which say where the model itself is in
# doubt:

# %%
probability = model.predict_proba(X.iloc[test])[:, 1]
lower, upper = model.predict_interval(X.iloc[test], coverage=0.9)
doubtful = np.argsort(-(upper[:, 1] - lower[:, 1]))[:4]
print(np.column_stack([probability, lower[:, 1], upper[:, 1]])[doubtful].round(2))
