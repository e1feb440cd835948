# %% [markdown]
# # Classes and calibration
#
# Who will have diabetes within five years? 768 women, some measurements of each, and what became of them (the Pima Indians
# diabetes data). The classes overlap, so nobody can tell for sure; what is wanted is a *probability* that keeps its
# promise: of the women who are given 30 %, three in ten should fall ill.

# %%
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kosambi as ko
from kosambi.tables import TableTransformer


def find(name):
    """The file in the folder that KOSAMBI_DATA names or in the repository, if it is there."""
    folders = [os.environ.get("KOSAMBI_DATA", "."), "../../reproduction/data", "reproduction/data"]
    return next((path for path in (Path(folder) / name for folder in folders) if path.is_file()), None)


# %% [markdown]
# A zero stands for "not measured" in some columns (nobody has a blood pressure of zero). Said as it is, NaN, it can be
# dealt with: `TableTransformer(impute=True)` fills in the median, and adds a column that says that it did, so that "not
# measured" may matter by itself. Insulin, which half of the women lack, is left out.

# %%
columns = ["glucose", "blood_pressure", "skin_thickness", "bmi"]
if (file := find("diabetes.csv.gz")) is None:
    print("STAND-IN: no file, rows are made up")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.uniform(20.0, 200.0, (768, 4)), columns=columns).assign(age=rng.integers(21, 80, 768))
    ill = rng.uniform(size=768) < 1.0 / (1.0 + np.exp(-(X["glucose"] - 140.0) / 30.0 - (X["age"] - 40.0) / 20.0))
else:
    table = pd.read_csv(file)
    X, ill = table.drop(columns=["target", "insulin"]), table["target"] == 1
X[columns] = X[columns].replace(0.0, np.nan)
print(X.isna().sum()[columns].to_dict(), "not measured;", int(ill.sum()), "of", len(X), "fell ill")

order = np.random.default_rng(0).permutation(len(X))
train, test = order[:500], order[500:]
label = np.where(ill, "ill", "healthy")
coded = TableTransformer(impute=True).fit(X.iloc[train])
rows, new = coded.transform(X.iloc[train]), coded.transform(X.iloc[test])
model = ko.ProjectedLangevinClassifier(progress=False).fit(rows, label[train])
print(model.classes_, "accuracy", round(model.score(new, label[test]), 3), "on", len(test), "held-out rows")

# %% [markdown]
# ## Do probabilities keep their promises?
#
# Left, how often each held-out probability came true. With 268 rows the bars are long, and a fault of five points would
# not be seen. Right, how many of the ill are found against how many of the healthy are alarmed, for every threshold.

# %%
prediction = model.predict_distribution(new)
fell_ill = (label[test] == model.classes_[1]).astype(float)  # probabilities are those of the second class
figure, panels = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
ko.plots.reliability(prediction, fell_ill, panels[0]).set(xlabel="probability of falling ill", ylabel="share that did")
ko.plots.roc(prediction, fell_ill, panels[1], classes=list(model.classes_))
plt.show()

# %% [markdown]
# Beside logistic regression, which is calibrated by construction if effects are linear. The log loss is the mean of
# $-\log p(\text{what happened})$, and what counts is the difference row by row, with its standard error:

# %%
logistic = make_pipeline(StandardScaler(), LogisticRegression()).fit(rows, label[train])
happened = np.searchsorted(model.classes_, label[test])
loss = {
    name: -np.log(each.predict_proba(new)[np.arange(len(test)), happened])
    for name, each in {"kosambi": model, "logistic regression": logistic}.items()
}
difference = loss["kosambi"] - loss["logistic regression"]
error = difference.std(ddof=1) / np.sqrt(len(difference))
print({name: round(float(each.mean()), 3) for name, each in loss.items()})
print(f"difference {difference.mean():+.3f} ± {error:.3f}")

# %% [markdown]
# The difference is within its error: on these rows effects that add up on the log odds are most of what there is. Beyond
# that, the posterior over functions says two things more.
#
# ## What do the measurements do?
#
# The average probability over all rows, with one column set to each value in turn, and its 95 % credible interval. This
# is what the data say the function is, not what somebody assumed; age is not a straight line:

# %%
figure, panels = plt.subplots(1, 3, figsize=(12, 3.6), sharey=True, layout="constrained")
names = list(coded.get_feature_names_out())
for panel, name in zip(panels, ("glucose", "bmi", "age"), strict=True):
    if name in names:
        ko.plots.partial_effect(model, rows, names.index(name), axes=panel)
        panel.set(xlabel=name, ylabel="probability of falling ill" if name == "glucose" else None)
plt.show()

# %% [markdown]
# ## How sure is a probability?
#
# A probability of 40 % can be known well (many women like her, four in ten of them ill) or hardly (nobody like her). The
# posterior of the function tells the two apart; `predict_interval` gives credible intervals of the probabilities
# themselves.

# %%
probability = model.predict_proba(new)[:, 1]
lower, upper = model.predict_interval(new, coverage=0.9)
width = upper[:, 1] - lower[:, 1]
about = np.flatnonzero(np.abs(probability - 0.4) < 0.05)
for which, row in (("best known", about[width[about].argmin()]), ("least known", about[width[about].argmax()])):
    print(f"{which:12s} {probability[row]:.0%}, 90 % credible interval {lower[row, 1]:.0%} to {upper[row, 1]:.0%}")

# %% [markdown]
# That is what a decision can use: a second test helps the one more than the other.
#
# ## More than two classes
#
# The same estimator; three species of iris, and a function for each.

# %%
from sklearn.datasets import load_iris

iris = load_iris()
mixed = np.random.default_rng(1).permutation(150)
flowers = ko.ProjectedLangevinClassifier(progress=False).fit(
    iris.data[mixed[:100]], iris.target_names[iris.target[mixed[:100]]]
)
held_out = iris.target_names[iris.target[mixed[100:]]]
print("accuracy", flowers.score(iris.data[mixed[100:]], held_out))
ko.plots.confusion(held_out, flowers.predict(iris.data[mixed[100:]]))
plt.show()

# %% [markdown]
# ## What to take away
#
# - Probabilities are averages over functions, so that they are not overconfident where rows are few.
# - Look at reliability on held-out rows before using a probability; where it is off,
#   [tempering or conformal sets](../how_to/calibration.md) repair it.
# - Credible intervals of a probability say where the model itself is in doubt.
