"""A table with every kind of column, and labels made from it."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Few draws, for speed.
# One model, which is fitted soonest; averages have a test of their own.
_SHARED = ("--impute", "--samples", "20", "--no-report", "--hyperparameters", "evidence")
REGRESSION = ("-t", "price", "--drop", "is_dear", *_SHARED)
CLASSIFICATION = ("-t", "is_dear", "--drop", "price", "--inducing", "9", *_SHARED)


def houses(num_rows: int = 90, seed: int = 0, *, missing: bool = True) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "size": generator.uniform(20.0, 150.0, num_rows),
            "age": generator.integers(0, 60, num_rows).astype(float),
            "city": generator.choice(["Bonn", "Köln", "Ulm"], num_rows),
            "garden": generator.uniform(size=num_rows) < 0.4,
            "kind": "flat",
        }
    )
    of_city = table["city"].map({"Bonn": 0.0, "Köln": 60.0, "Ulm": -20.0}).to_numpy(dtype=float)
    price = 3.0 * table["size"] - 1.5 * table["age"] + 30.0 * table["garden"] + of_city
    table["price"] = price + 10.0 * generator.normal(size=num_rows)
    table["is_dear"] = np.where(table["price"] > 200.0, "dear", "cheap")
    if missing:
        table.loc[[3, 50, 70], "age"] = np.nan
        table.loc[[5, 9, 44, 71], "city"] = None
        table["garden"] = table["garden"].astype(object)
        table.loc[[1, 8, 60], "garden"] = None
    return table
