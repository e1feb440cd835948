"""The lowest versions that pyproject.toml allows, as constraints for pip: what `make test-oldest` installs.

python tests/oldest.py > constraints.txt
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("plots", "pandas", "arviz", "parquet")
"""The optional parts that users install; the versions of developers' tools are free."""


def constraints(text: str) -> list[str]:
    r"""`name==lowest` for each dependency in the text of a pyproject.toml.

    >>> constraints('[project]\ndependencies = ["jax>=0.9"]\n[project.optional-dependencies]\n' +
    ...             'plots = ["matplotlib>=3.9.2"]\npandas = []\narviz = []\nparquet = []')
    ['jax==0.9', 'matplotlib==3.9.2']
    """
    project = tomllib.loads(text)["project"]
    wanted = [*project["dependencies"], *(each for name in EXTRAS for each in project["optional-dependencies"][name])]
    found = [re.fullmatch(r"([A-Za-z0-9_.-]+)>=([0-9][0-9.]*)", requirement) for requirement in wanted]
    if None in found:
        raise ValueError(f"Each dependency must have one lower bound, as in jax>=0.9. Got {wanted}.")
    return [f"{match[1]}=={match[2]}" for match in found if match]


if __name__ == "__main__":
    print("\n".join(constraints((Path(__file__).parents[1] / "pyproject.toml").read_text())))
