"""Keys that are split on the host are JAX's."""

import jax
import numpy as np
import pytest

from kosambi._core.programs import split


@pytest.mark.parametrize("seed", [0, 1, 2**31, 123456789])
@pytest.mark.parametrize("number", [1, 2, 4, 7])
def test_keys_are_those_of_jax(seed, number):
    key = jax.random.key(seed)
    expected = jax.random.key_data(jax.random.split(key, number))
    found = np.stack([np.asarray(jax.random.key_data(each)) for each in split(key, number)])
    assert np.array_equal(found, expected)


def test_keys_without_a_type_stay_so():
    key = jax.random.PRNGKey(3)
    found = split(key, 3)
    assert all(each.dtype == np.uint32 for each in found)
    assert np.array_equal(np.stack(found), jax.random.split(key, 3))


def test_a_key_of_another_generator_is_split_by_jax():
    key = jax.random.key(5, impl="rbg")
    found = np.stack([np.asarray(jax.random.key_data(each)) for each in split(key, 2)])
    assert np.array_equal(found, jax.random.key_data(jax.random.split(key, 2)))


def test_keys_are_split_under_a_trace():
    key = jax.random.key(8)
    found = jax.jit(lambda k: jax.random.key_data(split(k, 2)[1]))(key)
    assert np.array_equal(found, jax.random.key_data(jax.random.split(key))[1])


def test_nothing_is_compiled(caplog):
    key = jax.random.key(4)
    # Building a first key compiles; what follows must not.
    with jax.log_compiles(True), caplog.at_level("WARNING"):
        split(key, 11)
    assert not [record for record in caplog.records if "XLA compilation" in record.getMessage()]
