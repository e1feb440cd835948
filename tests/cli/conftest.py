from __future__ import annotations

import pytest
from typer.testing import CliRunner

from kosambi.cli._app import app
from tests.cli.houses import CLASSIFICATION, REGRESSION, houses


@pytest.fixture(scope="session")
def cli():
    """Run a command in this process, which has compiled already what an earlier one needed."""
    runner = CliRunner()

    def run(*arguments):
        return runner.invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def data(folder):
    path = folder / "houses.csv"
    houses().to_csv(path, index=False)
    return path


@pytest.fixture(scope="session")
def run(cli, folder, data):
    """A regression on a table with categorical, boolean and missing values."""
    out = folder / "run"
    result = cli("fit", data, "--out", out, *REGRESSION)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="session")
def labels_run(cli, folder, data):
    """A classification of the same table."""
    out = folder / "labels"
    result = cli("fit", data, "--out", out, *CLASSIFICATION)
    assert result.exit_code == 0, result.output
    return out
