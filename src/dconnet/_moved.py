"""Modules that have moved: their old names go on working, with a warning that tells the new one."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

NEW_NAMES = {
    "dconnet.accelerated": "dconnet.training.accelerated",
    "dconnet.convex.clarabel": "dconnet.convex.external.clarabel",
    "dconnet.convex.gurobi": "dconnet.convex.external.gurobi",
    "dconnet.convex.osqp": "dconnet.convex.external.osqp",
    "dconnet.convex.piqp": "dconnet.convex.external.piqp",
    "dconnet.datasets": "dconnet.paper.datasets",
    "dconnet.deep": "dconnet.estimators.layerwise",
    "dconnet.descent": "dconnet.training.descent",
    "dconnet.examination": "dconnet.inspection.examination",
    "dconnet.history": "dconnet.training.result",
    "dconnet.initialization": "dconnet.training.initialization",
    "dconnet.model_file": "dconnet.persistence.model_file",
    "dconnet.network": "dconnet.model.network",
    "dconnet.piecewise": "dconnet.model.piecewise",
    "dconnet.plotting": "dconnet.inspection.plotting",
    "dconnet.problem": "dconnet.model.problem",
    "dconnet.replay": "dconnet.inspection.replay",
    "dconnet.report": "dconnet.inspection.report",
    "dconnet.restart": "dconnet.training.restart",
    "dconnet.selection": "dconnet.inspection.path",
    "dconnet.solution": "dconnet.training.result",
    "dconnet.status": "dconnet.training.result",
    "dconnet.tables": "dconnet.persistence.tables",
    "dconnet.theory": "dconnet.model.theory",
}


class _OldNames(MetaPathFinder, Loader):
    """Finder and loader of modules under their old names; it is asked after all others."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in NEW_NAMES else None

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
