"""What a trained network looks like: paths over gamma, repeated fits, plots and reports."""
