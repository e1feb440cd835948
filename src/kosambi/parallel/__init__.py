"""Several devices, or several processes, for one posterior: rows of the data and particles, each along an axis of a mesh.

    mesh = kosambi.parallel.mesh(rows=4, particles=2)
    posterior = kosambi.infer(key, prior, likelihood, x, y, mesh=mesh)

Every device has some rows and some particles. A potential and its gradient are sums over rows, D(w) = Σ_n c_n(ψ_nᵀw):
each device sums over its own, and sums of (J, M) numbers are added over the devices that have the same particles.
"""

from kosambi.parallel.hosts import distributed, initialize, processes
from kosambi.parallel.meshes import mesh
from kosambi.parallel.terms import ShardedTerm, spread

__all__ = ["ShardedTerm", "distributed", "initialize", "mesh", "processes", "spread"]
