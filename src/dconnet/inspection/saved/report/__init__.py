"""The HTML report on a model: one self-contained file, with its figures inside."""

from dconnet.inspection.saved.report.page import report_page, write_report

__all__ = ["report_page", "write_report"]
