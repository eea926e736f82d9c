"""The HTML report on a fitted estimator: one self-contained file with its figures inside."""

from dconnet.inspection.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
