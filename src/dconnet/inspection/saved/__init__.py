"""Reports on `SavedModel` and `SavedEnsemble`, until the command line works with fitted estimators.

Delete this folder together with `dconnet.io.model_file`: `dconnet.inspection.saved.examination.examine` and
`dconnet.inspection.saved.report` do the same for fitted estimators.
"""
