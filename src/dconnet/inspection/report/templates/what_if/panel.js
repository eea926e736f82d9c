/* The controls of the what-if tool, and the results for the row that they describe. */

const MAX_DRIVERS = 15;
const NEAREST = 5;
const SHOWN_FEATURES = 4;
const ANNOUNCE_AFTER = 600; /* milliseconds without a change */

class Panel {
  constructor(data) {
    this.data = data;
    this.values = data.typical.slice();
    this.field = data.order[0];
    this.output = 0;
    this.frame = null;
    this.announcement = null;
    this.controls = data.fields.map((field, i) => {
      if (field.names !== null || field.choices !== null) return new ListControl(field, i, this);
      return field.kind === "date" ? new DateControl(field, i, this) : new SliderControl(field, i, this);
    });
    this.farAway = data.rows === null ? Infinity : usualDistance(data);
  }

  start() {
    this.buildFields();
    this.buildChoices();
    byId("reset").addEventListener("click", () => this.take(this.data.typical));
    this.refresh();
    byId("tool").hidden = false;
  }

  buildFields() {
    const [first, others] = [byId("fields"), byId("more-fields")];
    this.data.order.forEach((i, place) => {
      (place < this.data.n_shown ? first : others).append(this.controls[i].element);
    });
  }

  /* The lists from which a row, a feature and an output are chosen, and a button for each optimum. */
  buildChoices() {
    const { data } = this;
    const fields = byId("field");
    data.order.forEach((i) => fields.append(new Option(data.fields[i].name, i)));
    fields.addEventListener("change", () => this.choose(Number(fields.value)));
    const outputs = byId("output");
    data.outputs.forEach((name, k) => outputs.append(new Option(name, k)));
    outputs.addEventListener("change", () => { this.output = Number(outputs.value); this.follow = false; this.refresh(); });
    byId("output-choice").hidden = data.outputs.length === 1;
    this.follow = data.classes !== null; /* the winning class is explained until another one is chosen */
    data.optima.forEach((optimum) => byId("optima").append(this.optimumButton(optimum)));
    byId("optima-choice").hidden = data.optima.length === 0;
    byId("row-choice").hidden = data.rows === null;
    if (data.rows !== null) this.buildRows();
  }

  buildRows() {
    const rows = byId("row");
    this.data.rows.forEach((row, j) => rows.append(new Option(`row ${row.number}: ${row.observed}`, j)));
    rows.addEventListener("change", () => {
      if (rows.value !== "") this.take(this.data.rows[Number(rows.value)].values);
    });
  }

  optimumButton(optimum) {
    const button = made("button", { type: "button", title: optimum.note }, [optimum.label]);
    button.addEventListener("click", () => {
      this.output = optimum.output;
      this.follow = false;
      this.take(optimum.values);
    });
    return button;
  }

  /* Takes the values of a whole row. */
  take(values) {
    this.values = values.slice();
    this.controls.forEach((control, i) => control.show(this.values[i]));
    this.changed();
  }

  set(field, value) {
    this.values[field] = value;
    this.field = field;
    this.changed();
  }

  choose(field) {
    if (field === this.field) return;
    this.field = field;
    this.changed();
  }

  /* Draws once for all the events of a frame. */
  changed() {
    if (this.frame !== null) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = null;
      this.refresh();
    });
  }

  refresh() {
    const { data } = this;
    const outputs = predict(data, this.values);
    if (this.follow) this.output = data.outputs.length === 1 ? 0 : winnerOf(data, outputs);
    byId("output").value = String(this.output);
    byId("field").value = String(this.field);
    const nearest = data.rows === null ? [] : nearestRows(data, this.values);
    this.showPrediction(outputs);
    this.showWarning(nearest);
    this.showCurve(outputs);
    this.showDrivers(outputs);
    this.showNearest(nearest);
    this.announce(outputs);
    const same = data.rows === null ? -1 : data.rows.findIndex((row) => row.values.every((v, i) => v === this.values[i]));
    if (data.rows !== null) byId("row").value = same < 0 ? "" : String(same);
  }

  showPrediction(outputs) {
    const { data } = this;
    const shown = byId("prediction");
    shown.value = predictionText(data, outputs, this.output);
    if (data.classes === null) byId("prediction-target").textContent = data.outputs[this.output];
    shown.setAttribute("data-outputs", JSON.stringify(outputs));
    byId("interval").textContent = intervalText(data, outputs, this.output);
    const lines = data.classes === null
      ? data.outputs.map((name, k) => [name, formatNumber(outputs[k])])
      : classLines(data, outputs);
    const body = byId("scores");
    body.replaceChildren(...lines.map(([name, ...cells]) => tableLine(named(name), cells)));
    byId("scores-table").hidden = data.classes === null && outputs.length === 1;
    const probabilities = data.classes === null ? null : probabilitiesOf(data, outputs);
    if (probabilities !== null) shown.setAttribute("data-probabilities", JSON.stringify(probabilities));
  }

  /* Warns of rows that are unlike the data. */
  showWarning(nearest) {
    const outside = this.data.fields.filter((field, i) => field.kind !== "category" && this.values[i] !== null
      && (this.values[i] < field.low || this.values[i] > field.high)).map((field) => field.name);
    const warning = byId("warning");
    const reasons = [];
    if (outside.length > 0) reasons.push(`Outside the range of the data: ${outside.slice(0, 5).join(", ")}.`);
    if (nearest.length > 0 && nearest[0].distance > this.farAway) reasons.push("No row of the data is near.");
    warning.textContent = reasons.length > 0 ? `${reasons.join(" ")} The prediction is an extrapolation.` : "";
    warning.hidden = reasons.length === 0;
  }

  showCurve(outputs) {
    const { data, values, field: i, output: k } = this;
    const field = data.fields[i];
    const mean = data.dependence[i] === undefined ? [] : data.dependence[i].at.map((at, g) => [at, data.dependence[i].means[g][k]]);
    const low = Math.min(field.low, values[i] ?? field.low);
    const high = Math.max(field.high, values[i] ?? field.high);
    const curve = curveOf(data, values, i, k, low, high);
    const shown = shownOf(data, outputs)[k];
    drawChart(byId("chart"), {
      curve,
      mean,
      point: values[i] === null ? null : [values[i], shown],
      interval: intervalOf(data, outputs, k),
      marks: field.names === null ? [field.low, ...field.quartiles, field.high] : [],
      names: field.names,
      label: field.name,
      text: (value) => this.controls[i].label(value),
    });
    byId("chart").setAttribute("aria-label", `${data.outputs[k]} over ${field.name}: ${formatNumber(shown)} at `
      + `${this.controls[i].text(values[i])}; the row's curve goes from ${formatNumber(curve[0][1])} to `
      + `${formatNumber(curve[curve.length - 1][1])}.`);
  }

  showDrivers(outputs) {
    const { data, output: k } = this;
    const parts = contributions(data, data.typical, this.values, k).map((part) => part * unitOf(data));
    const order = data.order.slice().sort((a, b) => Math.abs(parts[b]) - Math.abs(parts[a]));
    const largest = Math.max(...parts.map(Math.abs)) || 1;
    const shown = order.slice(0, MAX_DRIVERS);
    const lines = shown.map((i) => this.driverLine(i, parts[i], largest));
    const rest = order.slice(MAX_DRIVERS).reduce((sum, i) => sum + parts[i], 0);
    if (order.length > MAX_DRIVERS) {
      lines.push(tableLine(`${order.length - MAX_DRIVERS} other features`, ["", "", formatSigned(rest), bar(rest, largest), "", ""]));
    }
    byId("drivers").replaceChildren(...lines);
    byId("drivers").setAttribute("data-parts", JSON.stringify(parts));
    byId("reference").textContent = shownText(data, predict(data, data.typical), k);
    byId("sum").textContent = shownText(data, outputs, k);
  }

  driverLine(i, part, largest) {
    const found = slopeOf(this.data, this.values, i, this.output);
    const text = (value) => this.controls[i].text(value);
    /* Sums that cancel leave rounding errors, which are no contribution. */
    const kept = Math.abs(part) < 1e-9 * largest ? 0 : part;
    const cells = [text(this.values[i]), text(this.data.typical[i]), formatSigned(kept), bar(kept, largest)];
    if (found === null) return tableLine(named(this.data.fields[i].name), [...cells, "–", "–"]);
    const from = found.low === -Infinity ? "−∞" : formatNumber(found.low, 3);
    const to = found.high === Infinity ? "∞" : formatNumber(found.high, 3);
    return tableLine(named(this.data.fields[i].name), [...cells, formatSigned(found.slope * unitOf(this.data)), `${from} to ${to}`]);
  }

  showNearest(nearest) {
    if (this.data.rows === null) return;
    byId("nearest").replaceChildren(...nearest.map(({ row, distance }) => {
      const button = made("button", { type: "button" }, [`row ${row.number}`]);
      button.addEventListener("click", () => {
        this.take(row.values);
        byId("reset").focus(); /* the button will be removed */
      });
      const shown = this.data.order.slice(0, SHOWN_FEATURES).map((i) => this.controls[i].text(row.values[i]));
      return tableLine(button, [formatNumber(distance, 3), row.part, row.observed, row.predicted, ...shown]);
    }));
  }

  /* Announces the prediction to screen readers when the values have not changed for a while. */
  announce(outputs) {
    clearTimeout(this.announcement);
    this.announcement = setTimeout(() => {
      const { data } = this;
      const interval = intervalText(data, outputs, this.output);
      const of = data.classes === null && data.outputs.length > 1 ? ` of ${data.outputs[this.output]}` : "";
      byId("status").textContent = `Prediction${of}: ${predictionText(data, outputs, this.output)}. ${interval}`;
    }, ANNOUNCE_AFTER);
  }
}

function predictionText(data, outputs, k) {
  return data.classes === null ? formatNumber(outputs[k]) : data.classes[winnerOf(data, outputs)];
}

function intervalText(data, outputs, k) {
  if (data.classes !== null) {
    const probabilities = probabilitiesOf(data, outputs);
    return probabilities === null ? "" : `probability ${formatPercent(probabilities[winnerOf(data, outputs)])}`;
  }
  const interval = intervalOf(data, outputs, k);
  return interval === null ? "" : `${data.interval.name}: ${interval.map((end) => formatNumber(end)).join(" to ")}`;
}

/* The ends of the interval around an output, within the limits of the target; null without an interval. */
function intervalOf(data, outputs, k) {
  if (data.interval === null) return null;
  const { half_widths: halves, low, high } = data.interval;
  return [Math.max(outputs[k] - halves[k], low ?? -Infinity), Math.min(outputs[k] + halves[k], high ?? Infinity)];
}

/* Name of each class, and its probability or, without a calibration, its output; two classes have one output. */
function classLines(data, outputs) {
  const probabilities = probabilitiesOf(data, outputs);
  const scores = outputs.length === 1 ? [-outputs[0], outputs[0]] : outputs;
  return data.classes.map((name, c) => [name, probabilities === null ? formatNumber(scores[c], 3) : formatPercent(probabilities[c])]);
}

/* Contributions to a class are in log-odds, which the calibration computes from the outputs. */
const unitOf = (data) => (data.calibration === null ? 1 : data.calibration.slope);

function shownText(data, outputs, k) {
  const shown = shownOf(data, outputs)[k];
  return data.calibration === null ? formatNumber(shown) : formatPercent(shown);
}

function tableLine(heading, cells) {
  const line = made("tr", {}, [made("th", { scope: "row" }, [heading])]);
  cells.forEach((cell) => {
    line.append(cell instanceof Element ? cell : made("td", { className: "number" }, [made("bdi", { textContent: cell })]));
  });
  return line;
}

/* A bar to the right for a positive contribution, to the left for a negative one. */
function bar(part, largest) {
  const width = 50 * Math.min(Math.abs(part) / largest, 1);
  const filled = made("span", { className: part < 0 ? "lowers" : "raises" });
  filled.style.width = `${width}%`;
  filled.style.left = part < 0 ? `${50 - width}%` : "50%";
  return made("td", { className: "both-ways" }, [made("span", { "aria-hidden": "true" }, [filled])]);
}

function nearestRows(data, values) {
  const all = data.rows.map((row) => ({ row, distance: distanceOf(data, row.values, values) }));
  return all.sort((a, b) => a.distance - b.distance).slice(0, NEAREST);
}

/* The distance within which 95 % of the rows have another row. */
function usualDistance(data) {
  const nearest = data.rows.map((row) => Math.min(
    ...data.rows.filter((other) => other !== row).map((other) => distanceOf(data, row.values, other.values)),
  ));
  nearest.sort((a, b) => a - b);
  return nearest[Math.ceil(0.95 * nearest.length) - 1];
}

function startWhatIf() {
  const data = JSON.parse(byId("data").textContent);
  const panel = new Panel(data);
  panel.start();
  /* For the console of the browser: dconnet.predict([...]) gives the outputs for the values of the features. */
  window.dconnet = Object.freeze({
    predict: (values) => predict(data, values),
    probabilities: (values) => probabilitiesOf(data, predict(data, values)),
    contributions: (from, to, k = 0) => contributions(data, from, to, k),
    slope: (values, field, k = 0) => slopeOf(data, values, field, k),
    curve: (values, field, k = 0) => curveOf(data, values, field, k, data.fields[field].low, data.fields[field].high),
    format: formatNumber,
  });
}

startWhatIf();
