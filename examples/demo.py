"""Predict rents from a raw table: nothing to tune, then one network, a picture and a report.

Run it with ``python examples/demo.py``. It takes less than a minute and writes its results to the folder
``demo-output``, or to the folder given by ``--output``.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

import dconnet
from dconnet import AutoDCONRegressor, DCONRegressor, TableEncoder
from dconnet.inspection.examine import examine
from dconnet.inspection.report import write_report

N_ROWS, N_TEST, SEED = 3000, 1000, 0
TARGET = "rent"

# Euros per square metre in each district, and the rent of a heating system relative to gas.
DISTRICTS = {
    "Altstadt": 17.5, "Hafen": 16.0, "Westend": 15.5, "Schlossberg": 15.0, "Nordstadt": 13.0, "Lindenau": 12.5,
    "Bahnhof": 12.0, "Suedpark": 11.5, "Muehlfeld": 10.5, "Industriering": 9.5, "Oststadt": 9.0, "Neudorf": 8.5,
}  # fmt: skip
HEATINGS = {"gas": 1.0, "district heating": 1.02, "heat pump": 1.06, "oil": 0.96, "electric": 0.93}


def make_rents() -> tuple[pd.DataFrame, pd.Series, pd.Series]:
    """Return a table of flats, their monthly rents in euros, and the rents without noise.

    Small flats cost more per square metre; flats of about 1965 are the cheapest; rents rise over the years and in
    summer, and fall with the distance from a station. The noise has a standard deviation of 8 % of the rent.
    """
    rng = np.random.default_rng(SEED)
    area = np.round(np.clip(rng.lognormal(4.2, 0.4, N_ROWS), 18, 220))
    built = rng.integers(1890, 2025, N_ROWS).astype(float)
    district = rng.choice(list(DISTRICTS), N_ROWS)
    heating = rng.choice(list(HEATINGS), N_ROWS, p=[0.4, 0.25, 0.15, 0.12, 0.08]).astype(object)
    station = np.round(rng.gamma(2.0, 0.6, N_ROWS), 2)
    floor = rng.integers(0, 7, N_ROWS)
    has_lift = rng.random(N_ROWS) < np.where(built > 1990, 0.7, 0.25)
    contract = pd.Timestamp("2016-01-01") + pd.to_timedelta(rng.integers(0, 3650, N_ROWS), unit="D")

    per_square_metre = np.array([DISTRICTS[name] for name in district])
    exact = area * per_square_metre * (area / 70.0) ** -0.2
    exact *= 1.0 + 0.25 * ((built - 1965.0) / 60.0) ** 2
    exact *= np.array([HEATINGS[name] for name in heating])
    exact *= 0.9 + 0.2 * np.exp(-station / 0.8)
    exact *= 1.0 + np.where(has_lift, 0.015, -0.03) * (floor - 1)
    exact *= 1.035 ** ((contract - contract.min()).days / 365.25)
    exact *= 1.0 + 0.03 * np.sin(2.0 * np.pi * (contract.day_of_year - 105) / 365.25)
    rent = np.round(exact * np.exp(0.08 * rng.normal(size=N_ROWS)))

    built[rng.random(N_ROWS) < 0.1] = np.nan
    station[rng.random(N_ROWS) < 0.05] = np.nan
    heating[rng.random(N_ROWS) < 0.08] = None
    table = pd.DataFrame({
        "area_m2": area, "built": built, "district": district, "heating": heating, "km_to_station": station,
        "floor": floor, "lift": np.where(has_lift, "yes", "no"), "contract": contract,
    })  # fmt: skip
    return table, pd.Series(rent, name=TARGET), pd.Series(exact, name=TARGET)


def dates_to_days(table: pd.DataFrame) -> pd.DataFrame:
    """Replace the date by two numbers, which scikit-learn's models can use."""
    contract = table["contract"]
    numbers = {
        "contract_days": (contract - pd.Timestamp("2016-01-01")).dt.days,
        "contract_day": contract.dt.day_of_year,
    }
    return table.drop(columns="contract").assign(**numbers)


def text_to_categories(table: pd.DataFrame) -> pd.DataFrame:
    """Mark text columns as categories, for scikit-learn's boosted trees."""
    return table.astype(dict.fromkeys(("district", "heating", "lift"), "category"))


def make_models() -> dict[str, object]:
    """Return the models that are compared, with the preprocessing that each of them needs."""
    is_text, is_number = make_column_selector(dtype_exclude="number"), make_column_selector(dtype_include="number")
    scaled = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    matrix = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), is_text), (scaled, is_number))
    trees = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=SEED)
    days = FunctionTransformer(dates_to_days)
    return {
        "AutoDCONRegressor": AutoDCONRegressor(random_state=SEED),
        "TableEncoder + DCONRegressor": make_pipeline(TableEncoder(), DCONRegressor(20, random_state=SEED)),
        "HistGradientBoostingRegressor": make_pipeline(days, FunctionTransformer(text_to_categories), trees),
        "one-hot columns + RidgeCV": make_pipeline(days, matrix, RidgeCV(alphas=np.logspace(-2, 4, 25))),
    }


def plot(auto: AutoDCONRegressor, table: pd.DataFrame, rent: pd.Series, path: Path) -> float:
    """Draw held-out rows with their intervals, and importances; return the share of rents inside the intervals."""
    low, high = auto.predict_interval(table, coverage=0.9)
    predicted = auto.predict(table)
    figure = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    order = np.argsort(predicted)
    left.fill_between(predicted[order], low[order], high[order], color="#0072b2", alpha=0.15, label="90 % interval")
    left.scatter(predicted, rent, s=8, color="#0072b2", alpha=0.6, linewidths=0.0, label="held-out flats")
    left.axline((1000.0, 1000.0), slope=1.0, color="black", linewidth=0.8)
    left.set(xlabel="predicted rent (euros)", ylabel="rent (euros)", title="Predictions")
    left.legend(frameon=False)
    importances = pd.Series(auto.feature_importances_, index=table.columns).sort_values()
    right.barh(importances.index, importances, color="#0072b2")
    right.set(xlabel="share of the importance", title="What the rent depends on")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=160)
    return float(np.mean((low <= rent) & (rent <= high)))


def main() -> None:
    """Compare the models on held-out rows; save two of them, a picture and a report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the results")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    table, rent, exact = make_rents()
    print(f"A generated table of {len(table)} flats, with text, dates and missing values:\n")
    print(table.assign(rent=rent).head(4).to_string(index=False), "\n")
    X, X_test, y, y_test = train_test_split(table, rent, test_size=N_TEST, random_state=SEED)
    print(f"Training on {len(X)} flats. Scores on the other {len(X_test)}; errors are in euros of monthly rent:\n")
    print(f"{'model':32}{'R²':>8}{'mean error':>12}{'seconds':>9}")
    models = make_models()
    for name, model in models.items():
        began = perf_counter()
        model.fit(X, y)
        seconds = perf_counter() - began
        predicted = model.predict(X_test)
        print(
            f"{name:32}{r2_score(y_test, predicted):8.3f}{mean_absolute_error(y_test, predicted):12.1f}{seconds:9.1f}"
        )
    best = exact[y_test.index]
    print(f"{'(the rents without noise)':32}{r2_score(y_test, best):8.3f}{mean_absolute_error(y_test, best):12.1f}\n")

    auto, network = models["AutoDCONRegressor"], models["TableEncoder + DCONRegressor"]
    inside = plot(auto, X_test, y_test, output / "rents.png")
    print(f"The 90 % intervals of AutoDCONRegressor contain {100 * inside:.0f} % of the held-out rents.")
    print(f"DCONRegressor is one network of {network[-1].network_.n_hidden} neurons. {network[-1].message_}\n")

    scores = {}
    for part, rows, target in (("train", X, y), ("test", X_test, y_test)):
        predicted = network.predict(rows)
        mse = mean_squared_error(target, predicted)
        scores[part] = {"n_rows": len(rows), "mse": mse, "r2": r2_score(target, predicted)}
    dconnet.save(auto, output / "auto.json", target_names=[TARGET])
    dconnet.save(network, output / "network.json", target_names=[TARGET], scores=scores)
    loaded = dconnet.load(output / "auto.json")
    write_report(examine(loaded, X_test, y_test, source="the held-out rents"), output / "report.html")
    print("Written:")
    for name, content in (
        ("report.html", "the report on AutoDCONRegressor; open it in a browser"),
        ("rents.png", "predictions, intervals and importances of AutoDCONRegressor"),
        ("auto.json, network.json", "both models, for dconnet.load or the command line"),
    ):
        print(f"  {output / name}: {content}")


if __name__ == "__main__":
    main()
