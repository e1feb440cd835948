"""The paper's recipe with larger subsets of rows for its kernel.

Where the rows are too many for one exact process, the kernel is averaged over subsets of nearest neighbours: of 1000 or
2000 rows in the paper, of 5000 in its code. Neighbours among inputs that are not scaled may have one label nearly all
of them, and then say little about the kernel.
"""

from __future__ import annotations

from typing import Any

from reproduction.comparison import published, recipe, scores
from reproduction.comparison.data import Split, load


def measure(data: str, likelihood: str, seed: int, rows: int, subsets: int) -> dict[str, Any]:
    """One cell: scores of the recipe with a kernel from the code's start and subsets of so many rows."""
    split = load(data, seed)
    model = recipe.learn(split.train, likelihood, seed, subsets, "published", rows)
    return {"N": len(split.train.y), "rows": rows, "subsets": subsets, **judge(model, split, likelihood, seed)}


def judge(model: recipe.Recipe, split: Split, likelihood: str, seed: int) -> dict[str, Any]:
    """Scores of a recipe and of the code's predictions, with its parameters."""
    posterior = recipe.posterior(model, split.train, seed)
    return {
        **scores.of_split(posterior.predict, split, likelihood, seed),
        "parameters": recipe.parameters(model),
        "code": published.variants(posterior, split, seed, model.exact_noise),
    }
