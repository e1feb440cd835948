"""scikit-learn estimators: from a table to a posterior over functions in one line.

    ProjectedLangevinRegressor().fit(X, y).predict(X_new, return_std=True)

Both follow scikit-learn's contract, so they work in pipelines, searches and calibrations. Inside, inputs are
standardised, hyperparameters learned from the evidence, inducing points chosen, and draws made by `kosambi.infer`;
`posterior_` is what that returned.
"""

from kosambi.estimators._base import AbstractEstimator
from kosambi.estimators.classifier import ProjectedLangevinClassifier
from kosambi.estimators.regressor import ProjectedLangevinRegressor

__all__ = ["AbstractEstimator", "ProjectedLangevinClassifier", "ProjectedLangevinRegressor"]
