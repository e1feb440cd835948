"""Samplers: the paper's diffusion, samplers without its bias and its limit on steps, and draws in closed form."""

from kosambi.samplers._base import AbstractMarkovSampler as AbstractMarkovSampler
from kosambi.samplers._base import AbstractSampler as AbstractSampler
from kosambi.samplers._base import Info as Info
from kosambi.samplers._base import State as State
from kosambi.samplers._base import Work as Work
from kosambi.samplers.euler_maruyama import EulerMaruyama as EulerMaruyama
from kosambi.samplers.exact import Exact as Exact
from kosambi.samplers.hmc import HMC as HMC
from kosambi.samplers.mala import MALA as MALA
from kosambi.samplers.particles import GaussianLaw as GaussianLaw
from kosambi.samplers.particles import Particles as Particles
from kosambi.samplers.run import sample as sample
from kosambi.samplers.tempering import Tempering as Tempering
