"""Compiled programs are kept in the user's cache folder, unless the user says otherwise."""

import os
import subprocess
import sys

import pytest

from kosambi._core import compilation

PROGRAM = """
import jax, kosambi as ko
ko.GaussianProcess(ko.kernels.Matern52()).covariance([[0.0], [1.0]])
print(jax.config.jax_compilation_cache_dir)
"""
LONG = """
import kosambi as ko
ko.log_evidence(ko.GaussianProcess(ko.kernels.Matern52()), ko.likelihoods.Bernoulli(), [[0.0], [1.0]], [0.0, 1.0])
"""


def run(home, program=PROGRAM, **variables):
    kept = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment = kept | {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")} | variables
    found = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stderr == ""
    return found.stdout.strip()


@pytest.mark.slow
def test_programs_are_kept_where_the_system_keeps_caches_and_found_again(tmp_path):
    folder = tmp_path / "cache" / "kosambi" / "compiled"
    assert run(tmp_path, LONG + PROGRAM) == str(folder)
    # Programs that compile in a twentieth of a second may be kept or not.
    (program,) = folder.glob("jit__log_evidence*-cache")
    written = program.stat().st_mtime_ns
    run(tmp_path, LONG)
    assert program.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"KOSAMBI_COMPILATION_CACHE": "off"}, "None"),
        ({"KOSAMBI_COMPILATION_CACHE": "{home}/mine"}, "{home}/mine"),
        pytest.param({"JAX_COMPILATION_CACHE_DIR": "{home}/theirs"}, "{home}/theirs", marks=pytest.mark.slow),
        pytest.param({"KOSAMBI_COMPILATION_CACHE": "{home}/file/below"}, "None", marks=pytest.mark.slow),
    ],
    ids=["off", "another folder", "JAX's own", "no folder can be made there"],
)
def test_the_user_says_where(tmp_path, variables, expected):
    (tmp_path / "file").write_text("")
    variables = {name: value.format(home=tmp_path) for name, value in variables.items()}
    assert run(tmp_path, **variables) == expected.format(home=tmp_path)


def test_options_that_this_version_does_not_know_are_left_out(monkeypatch):
    monkeypatch.setattr(compilation, "_QUICKER", {"cpu": {"xla_cpu_no_such_option": True}})
    assert compilation.quicker_options.__wrapped__("cpu") == {}
    assert compilation.quicker_options.__wrapped__("another") == {}
