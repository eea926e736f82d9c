"""The nine regression datasets of the paper, where their raw files are at hand.

Set DCONNET_DATA to the folder with the files, or keep it at ../shared/datasets beside the repository.
"""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import MinMaxScaler, RobustScaler

HOME = Path(os.environ.get("DCONNET_DATA", Path(__file__).parents[2] / "shared" / "datasets"))
MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]

needs_data = pytest.mark.skipif(
    not HOME.is_dir(), reason=f"the paper's datasets are not at {HOME.name}; set DCONNET_DATA to their folder"
)


def computer_hardware():
    columns = ["VENDOR", "MODEL", "MYCT", "MMIN", "MMAX", "CACH", "CHMIN", "CHMAX", "PRP", "ERP"]
    frame = pd.read_csv(HOME / "DS1_computer_hardware" / "machine.data", names=columns)
    return frame.drop(columns=["VENDOR", "MODEL", "ERP"]), "PRP"


def forest_fires():
    frame = pd.read_csv(HOME / "DS2_forest_fires" / "forestfires.csv")
    frame["month"] = frame["month"].map(MONTHS.index) + 1
    frame["day"] = frame["day"].map(DAYS.index) + 1
    frame["area"] = np.log1p(frame["area"])
    return frame, "area"


def stock_portfolio():
    path = HOME / "DS3_stock_portfolio" / "stock portfolio performance data set.xlsx"
    periods = ["1st period", "2nd period", "3rd period", "4th period"]
    sheets = pd.read_excel(path, sheet_name=periods, header=1)
    frame = pd.concat([sheet.dropna(how="all") for sheet in sheets.values()], ignore_index=True)
    frame.columns = frame.columns.str.strip()
    weights = ["Large B/P", "Large ROE", "Large S/P", "Large Return Rate in the last quarter"]
    return frame[[*weights, "Large Market Value", "Small systematic Risk", "Annual Return.1"]], "Annual Return.1"


def yacht_hydrodynamics():
    frame = pd.read_csv(HOME / "DS4_yacht_hydrodynamics" / "yacht_hydrodynamics.data", sep=r"\s+", header=None)
    return frame.drop(columns=1).rename(columns=str), "6"


def facebook_metrics():
    frame = pd.read_csv(HOME / "DS5_facebook_metrics" / "dataset_Facebook.csv", sep=";").dropna()
    frame = pd.get_dummies(frame.drop(columns=["comment", "like", "share"]), columns=["Type"], dtype=float)
    return frame, "Total Interactions"


def residential_building():
    frame = pd.read_excel(HOME / "DS6_residential_building" / "Residential-Building-Data-Set.xlsx", header=1)
    dates = ["START YEAR", "START QUARTER", "COMPLETION YEAR", "COMPLETION QUARTER"]
    return frame.drop(columns=[*dates, "V-9"]), "V-10"


def real_estate_valuation():
    frame = pd.read_excel(HOME / "DS7_real_estate_valuation" / "Real estate valuation data set.xlsx")
    return frame.drop(columns="No"), "Y house price of unit area"


def fish_toxicity():
    frame = pd.read_csv(HOME / "DS8_qsar_fish_toxicity" / "qsar_fish_toxicity.csv", sep=";", header=None)
    return frame.rename(columns=str), "6"


def aquatic_toxicity():
    frame = pd.read_csv(HOME / "DS9_qsar_aquatic_toxicity" / "qsar_aquatic_toxicity.csv", sep=";", header=None)
    return frame.rename(columns=str), "8"


LOADERS = {
    "DS1": computer_hardware,
    "DS2": forest_fires,
    "DS3": stock_portfolio,
    "DS4": yacht_hydrodynamics,
    "DS5": facebook_metrics,
    "DS6": residential_building,
    "DS7": real_estate_valuation,
    "DS8": fish_toxicity,
    "DS9": aquatic_toxicity,
}


def load(name):
    """Features and target, scaled as in the paper."""
    frame, target = LOADERS[name]()
    X = RobustScaler().fit_transform(frame.drop(columns=target).to_numpy(dtype=float))
    y = MinMaxScaler().fit_transform(frame[[target]].to_numpy(dtype=float))
    return X, y[:, 0]
