"""Modules that have moved: their old names go on working, with a warning that tells the new one."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

NEW_NAMES = {
    "dconnet.accelerated": "dconnet.training.accelerated",
    "dconnet.certificates.arrangement": "dconnet.training.arrangement",
    "dconnet.certificates.kinks": "dconnet.training.kinks",
    "dconnet.convex.clarabel": "dconnet.convex.external.clarabel",
    "dconnet.convex.gurobi": "dconnet.convex.external.gurobi",
    "dconnet.convex.osqp": "dconnet.convex.external.osqp",
    "dconnet.convex.piqp": "dconnet.convex.external.piqp",
    "dconnet.datasets": "dconnet.paper.datasets",
    "dconnet.datasets.catalogue": "dconnet.paper.datasets.catalogue",
    "dconnet.datasets.files": "dconnet.paper.datasets.files",
    "dconnet.datasets.mnist": "dconnet.paper.datasets.mnist",
    "dconnet.datasets.splits": "dconnet.paper.datasets.splits",
    "dconnet.datasets.uci": "dconnet.paper.datasets.uci",
    "dconnet.dc": "dconnet.training.dc",
    "dconnet.deep": "dconnet.estimators.layerwise",
    "dconnet.descent": "dconnet.training.descent",
    "dconnet.early_stopping": "dconnet.training.early_stopping",
    "dconnet.examination": "dconnet.inspection.examination",
    "dconnet.history": "dconnet.training.result",
    "dconnet.initialization": "dconnet.training.initialization",
    "dconnet.model_file": "dconnet.persistence.model_file",
    "dconnet.network": "dconnet.model.network",
    "dconnet.newton": "dconnet.training.newton",
    "dconnet.output_layer": "dconnet.training.output_layer",
    "dconnet.piecewise": "dconnet.model.piecewise",
    "dconnet.plotting": "dconnet.inspection.plotting",
    "dconnet.plotting.canvas": "dconnet.inspection.plotting.canvas",
    "dconnet.plotting.convergence": "dconnet.inspection.plotting.convergence",
    "dconnet.plotting.network": "dconnet.inspection.plotting.network",
    "dconnet.plotting.path": "dconnet.inspection.plotting.path",
    "dconnet.problem": "dconnet.model.problem",
    "dconnet.progress": "dconnet.training.progress",
    "dconnet.replay": "dconnet.inspection.replay",
    "dconnet.report": "dconnet.inspection.report",
    "dconnet.restart": "dconnet.training.restart",
    "dconnet.selection": "dconnet.inspection.path",
    "dconnet.solution": "dconnet.training.result",
    "dconnet.status": "dconnet.training.result",
    "dconnet.sweep": "dconnet.training.sweep",
    "dconnet.tables": "dconnet.persistence.tables",
    "dconnet.theory": "dconnet.model.theory",
    "dconnet.whitening": "dconnet.model.whitening",
}


class _OldNames:
    """Finder and loader of modules under their old names; it is asked after all others."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        is_package = any(other.startswith(f"{name}.") for other in NEW_NAMES)
        # Not a subclass of importlib.abc.Loader: importing that would take longer than the rest of the package.
        return ModuleSpec(name, self, is_package=is_package) if name in NEW_NAMES else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = NEW_NAMES[module.__name__]
        warnings.warn(f"{module.__name__} has moved to {new}.", FutureWarning, stacklevel=2)
        names = vars(import_module(new))
        vars(module).update({name: value for name, value in names.items() if not name.startswith("__")})


def keep_old_names() -> None:
    """Let the old names be imported."""
    if not any(isinstance(finder, _OldNames) for finder in sys.meta_path):
        sys.meta_path.append(_OldNames())
