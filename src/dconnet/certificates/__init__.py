"""Certificates of trained networks: stationarity, local and global optimality, rates of convergence."""

from dconnet.certificates.certificate import Certificate, certificate, certify
from dconnet.certificates.convergence import DecayLaw, Trajectory, convergence_order, decay_law, hessian, kl_exponent
from dconnet.certificates.gap import global_gap
from dconnet.certificates.stationarity import dead_neurons, local_optimality, stationarity, subgradient

__all__ = [
    "Certificate",
    "DecayLaw",
    "Trajectory",
    "certificate",
    "certify",
    "convergence_order",
    "dead_neurons",
    "decay_law",
    "global_gap",
    "hessian",
    "kl_exponent",
    "local_optimality",
    "stationarity",
    "subgradient",
]
