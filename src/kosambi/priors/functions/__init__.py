"""Functions drawn from a prior: finite sums that can be evaluated anywhere, and the waves that they are made of."""

__all__: list[str] = []
