"""Several devices for one posterior, rows and particles each along an axis of a mesh; or several processes.

    mesh = kosambi.parallel.mesh(rows=4, particles=2)
    posterior = kosambi.infer(key, prior, likelihood, x, y, mesh=mesh)

Every device has some rows and some particles. A potential and its gradient are sums over rows, D(w) = Σ_n c_n(ψ_nᵀw):
each device sums over its own, and sums of (J, M) numbers are added over the devices that have the same particles.
What is computed of rows before there are particles (features, the least squares of Gaussian noise, near rows) is shared
out among all of them by `Target`.
`initialize` and `distributed` are for rows that several processes, on several machines, read and add up.
"""

from kosambi.parallel.hosts import distributed, initialize, processes
from kosambi.parallel.meshes import mesh
from kosambi.parallel.terms import ShardedTerm, spread

__all__ = ["ShardedTerm", "distributed", "initialize", "mesh", "processes", "spread"]
