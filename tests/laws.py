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


def grouped_normal_p_value(
    draws: np.ndarray, num_groups: int, covariance: np.ndarray, mean: np.ndarray | float = 0.0
) -> float:
    """p-value of rows of `draws` (J, p), dependent within equal groups, having the moments of N(mean, covariance).

    Every first and second moment of the whitened draws is averaged over each group, and Student's t tests what these
    averages, which are independent, have as their mean; the smallest p-value times the number of moments.
    """
    size = draws.shape[1]
    white = scipy.linalg.solve_triangular(np.linalg.cholesky(covariance), (draws - mean).T, lower=True).T
    groups = white.reshape(num_groups, -1, size)
    second = np.einsum("gji,gjk->gik", groups, groups) / groups.shape[1] - np.eye(size)
    moments = np.concatenate([groups.mean(axis=1), second[:, *np.triu_indices(size)]], axis=1)
    found = scipy.stats.ttest_1samp(moments, 0.0, axis=0).pvalue
    return float(min(1.0, np.min(found) * moments.shape[1]))
