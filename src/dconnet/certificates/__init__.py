"""Certificates of trained networks: stationarity, local and global optimality, rates of convergence."""

from dconnet.certificates.certificate import Certificate, certificate, certify
from dconnet.certificates.gap import global_gap
from dconnet.certificates.kl import hessian, kl_exponent
from dconnet.certificates.local import dead_neurons, local_optimality
from dconnet.certificates.order import DecayLaw, convergence_order, decay_law
from dconnet.certificates.stationarity import stationarity, subgradient
from dconnet.certificates.trajectory import Trajectory

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
