"""Tests of joint normal laws from many independent draws, each with a p-value."""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.stats


def joint_normal_p_value(draws: np.ndarray, covariance: np.ndarray, mean: np.ndarray | float = 0.0) -> float:
    """p-value of J independent rows of `draws` (J, p) being N(mean, covariance), first two moments jointly.

    The likelihood ratio statistic J(tr S − log|S| − p) + J|ȳ|² of the whitened draws, with S their second moment about
    the sample mean: asymptotically chi-squared with p(p+1)/2 + p degrees of freedom.
    """
    count, size = draws.shape
    root = np.linalg.cholesky(covariance)
    white = scipy.linalg.solve_triangular(root, (draws - mean).T, lower=True).T
    centre = white.mean(axis=0)
    second = (white - centre).T @ (white - centre) / count
    statistic = count * (np.trace(second) - np.linalg.slogdet(second)[1] - size + centre @ centre)
    return float(scipy.stats.chi2.sf(statistic, size * (size + 1) / 2 + size))
