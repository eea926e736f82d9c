"""Certificates of trained networks: stationarity, local and global optimality, rates of convergence."""

from dconnet.certificates.certificate import Certificate, certificate, certify
from dconnet.certificates.gap import GlobalGap, global_gap
from dconnet.certificates.kl import KLExponent, hessian, kl_exponent
from dconnet.certificates.local import LocalOptimality, dead_neurons, local_optimality
from dconnet.certificates.order import ConvergenceOrder, DecayLaw, convergence_order, decay_law
from dconnet.certificates.stationarity import Stationarity, Subgradient, stationarity, subgradient
from dconnet.certificates.trajectory import Condition, Trajectory

__all__ = [
    "Certificate",
    "Condition",
    "ConvergenceOrder",
    "DecayLaw",
    "GlobalGap",
    "KLExponent",
    "LocalOptimality",
    "Stationarity",
    "Subgradient",
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
