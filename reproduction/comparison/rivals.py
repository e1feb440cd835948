"""Methods without inducing points: the exact Gaussian process, scikit-learn's classifiers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import kosambi as ko
from reproduction.comparison.data import Part

MOST_ROWS = 2500
"""Training rows up to which methods of cubic cost are run."""


def exact_process(train: Part, seed: int) -> tuple[ko.Posterior, bool]:
    """Matérn-5/2 with a lengthscale for each column, by its marginal likelihood; x must be standardised."""
    kernel, noise, report = ko.fit_hyperparameters(
        jax.random.key(seed),
        ko.kernels.Matern52(np.ones(train.x.shape[1]), 1.0, active_dims=None),
        ko.likelihoods.Gaussian(),
        train.x,
        train.y,
        method="paper",
        max_rows=MOST_ROWS,
    )
    key = jax.random.fold_in(jax.random.key(seed), 2**30)
    points = np.unique(train.x, axis=0)
    return ko.infer(key, kernel, noise, train.x, train.y, inducing_points=points), bool(report.converged)


def gaussian_process_classifier(train: Part, seed: int) -> Any:
    """scikit-learn's Laplace approximation with one lengthscale; x must be standardised."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    kernel = 1.0 * RBF(np.sqrt(train.x.shape[1]))
    return GaussianProcessClassifier(kernel, random_state=seed).fit(train.x, train.y)


def logistic_regression(train: Part) -> Any:
    """scikit-learn's, with its default penalty; x must be standardised."""
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=2000).fit(train.x, train.y)
