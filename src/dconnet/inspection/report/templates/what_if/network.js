/* The model: from the values of the features to outputs, contributions, slopes and curves.

   The first argument of every function is the data of the page. `values` has a number for each feature: the value
   itself, days since 1970 for a date, or the position of a level in a list; null is a missing value. `z` are the inputs
   of the networks, and `k` is the position of an output. */

const SECONDS_PER_DAY = 86400;
const N_PLACES = 200;

/* Inputs of the networks. */
function encode(data, values) {
  return Float64Array.from(data.columns, (column) => encodedColumn(column, values[column.field]));
}

function encodedColumn(column, value) {
  return column.steps.reduce((shifted, [mean, scale]) => (shifted - mean) / scale, rawColumn(column, value));
}

/* A column before it is standardised: a number, a ramp of it, or whether it is some level. */
function rawColumn(column, value) {
  const found = sourceValue(column.source, value);
  if (column.kind === "level") return found === column.level ? 1 : 0;
  const known = found === null ? column.fill : found;
  if (column.kind === "number") return known;
  const share = (known - column.from) / (column.to - column.from);
  const above = column.first ? share : Math.max(share, 0); /* the outer ramps continue beyond the data */
  return column.last ? above : Math.min(above, 1);
}

/* The part of the value of a feature that a column uses: the value, a part of a date, or the mean of the target at a level. */
function sourceValue(source, value) {
  if (source.kind === "value") return value;
  if (source.kind === "missing") return value === null ? 1 : 0;
  if (source.kind === "means") return source.means[value ?? source.means.length - 1];
  return value === null ? null : datePart(source, value);
}

/* Dates are days since 1970, to the second. */
function datePart(source, days) {
  const seconds = Math.round(days * SECONDS_PER_DAY);
  const day = Math.floor(seconds / SECONDS_PER_DAY);
  const rest = seconds - day * SECONDS_PER_DAY;
  if (source.kind === "day") return day + rest / SECONDS_PER_DAY;
  if (source.kind === "hour") return rest / 3600;
  if (source.kind === "weekday") {
    const place = source.weekdays.indexOf((((day + 3) % 7) + 7) % 7); /* 1 January 1970 was a Thursday, Monday is 0 */
    return place < 0 ? null : place;
  }
  const first = new Date(0);
  first.setUTCFullYear(new Date(day * SECONDS_PER_DAY * 1000).getUTCFullYear(), 0, 1);
  return day - first.getTime() / (SECONDS_PER_DAY * 1000) + 1;
}

function preactivations(network, z) {
  return network.W.map((weights, l) => {
    let sum = 0;
    for (let i = 0; i < weights.length; i += 1) sum += weights[i] * z[i];
    return sum + network.b[l];
  });
}

/* Outputs of all networks for one row, in the units of the target. */
function outputsOf(data, z) {
  return data.networks.flatMap((network) => {
    const active = preactivations(network, z).map((p) => Math.max(p, 0));
    return network.intercept.map((c, k) => active.reduce((sum, h, l) => sum + h * network.alpha[l][k], 0) + c);
  });
}

function predict(data, values) {
  return outputsOf(data, encode(data, values));
}

/* The network of an output, and the weights of its neurons there, in the units of the target. */
function outputOf(data, k) {
  let first = 0;
  for (const network of data.networks) {
    const place = k - first;
    if (place < network.intercept.length) {
      return { network, alpha: network.alpha.map((weights) => weights[place]) };
    }
    first += network.intercept.length;
  }
  throw new RangeError(`There is no output ${k}.`);
}

/* The contribution of each feature to the difference of an output between two rows.

   On the straight line between the rows, each neuron is active on a known share of the line, with a constant slope.
   So the integral of the gradient along the line is a finite sum, and the contributions add up to the difference. */
function contributions(data, from, to, k) {
  const { network, alpha } = outputOf(data, k);
  const start = encode(data, from);
  const end = encode(data, to);
  const before = preactivations(network, start);
  const after = preactivations(network, end);
  const slopes = new Float64Array(data.columns.length);
  network.W.forEach((weights, l) => {
    const weight = alpha[l] * activeShare(before[l], after[l]);
    for (let i = 0; weight !== 0 && i < weights.length; i += 1) slopes[i] += weight * weights[i];
  });
  const parts = new Array(data.fields.length).fill(0);
  data.columns.forEach((column, i) => { parts[column.field] += slopes[i] * (end[i] - start[i]); });
  return parts;
}

/* The share of a line on which a function that goes linearly from a to b is positive. */
function activeShare(a, b) {
  if (a <= 0 && b <= 0) return 0;
  if (a >= 0 && b >= 0) return 1;
  return Math.max(a, b) / Math.abs(b - a);
}

/* The slope of an output in a feature, to the right, and the interval on which it is constant; null for a list. */
function slopeOf(data, values, field, k) {
  const value = values[field];
  if (value === null || data.fields[field].kind !== "number") return null;
  const { network, alpha } = outputOf(data, k);
  const p = preactivations(network, encode(data, values));
  let [low, high] = segmentOf(data, field, value);
  let slope = 0;
  network.W.forEach((weights, l) => {
    const rise = riseOf(data, weights, field, value);
    if (p[l] > 0 || (p[l] === 0 && rise > 0)) slope += alpha[l] * rise;
    if (rise === 0 || alpha[l] === 0) return;
    const kink = value - p[l] / rise;
    if (kink > value) high = Math.min(high, kink);
    else low = Math.max(low, kink);
  });
  return { slope, low, high };
}

/* How fast a preactivation rises with a feature. */
function riseOf(data, weights, field, value) {
  let rise = 0;
  for (const i of data.fields[field].columns) {
    const column = data.columns[i];
    if (column.source.kind === "value") rise += weights[i] * slopeOfColumn(column, value);
  }
  return rise;
}

function slopeOfColumn(column, value) {
  const scale = column.steps.reduce((product, step) => product * step[1], 1);
  if (column.kind === "number") return 1 / scale;
  const inside = (column.first || value >= column.from) && (column.last || value < column.to);
  return inside ? 1 / (column.to - column.from) / scale : 0;
}

/* The largest interval around a value in which the columns of its feature are linear. */
function segmentOf(data, field, value) {
  let [low, high] = [-Infinity, Infinity];
  for (const edge of edgesOf(data, field)) {
    if (edge <= value) low = Math.max(low, edge);
    else high = Math.min(high, edge);
  }
  return [low, high];
}

/* The values at which the columns of a feature bend. */
function edgesOf(data, field) {
  const ramps = data.fields[field].columns.map((i) => data.columns[i]).filter((column) => column.kind === "ramp");
  return ramps.filter((column) => !column.last).map((column) => column.to);
}

function withValue(values, field, value) {
  const changed = values.slice();
  changed[field] = value;
  return changed;
}

/* What the page shows of the outputs: numbers, or probabilities of the classes if the model has a calibration. */
function shownOf(data, outputs) {
  const probabilities = data.classes === null ? null : probabilitiesOf(data, outputs);
  if (probabilities === null) return outputs;
  return outputs.length === 1 ? probabilities.slice(1) : probabilities;
}

/* The curve of a row in one feature. The prediction of a number is exact: its corners are the ends, the edges of ramps and
   the kinks of neurons. Dates and probabilities are taken at many places, and a list at all of its levels. */
function curveOf(data, values, field, k, low, high) {
  const { kind, names } = data.fields[field];
  const even = Array.from({ length: N_PLACES }, (_, i) => low + ((high - low) * i) / (N_PLACES - 1));
  const isCurved = kind === "date" || (data.classes !== null && data.calibration !== null);
  let places = isCurved ? even : cornersOf(data, values, field, k, low, high);
  if (names !== null) places = names.map((_, level) => level);
  return places.map((value) => [value, shownOf(data, predict(data, withValue(values, field, value)))[k]]);
}

function cornersOf(data, values, field, k, low, high) {
  const { network } = outputOf(data, k);
  const stops = [low, ...edgesOf(data, field).filter((edge) => edge > low && edge < high).sort((a, b) => a - b), high];
  const places = new Set(stops);
  const at = (value) => preactivations(network, encode(data, withValue(values, field, value)));
  for (let s = 0; s + 1 < stops.length; s += 1) {
    const before = at(stops[s]);
    const after = at(stops[s + 1]);
    before.forEach((p, l) => {
      if (p * after[l] < 0) places.add(stops[s] + (stops[s + 1] - stops[s]) * (p / (p - after[l])));
    });
  }
  return [...places].sort((a, b) => a - b);
}

/* Position of the predicted class: that of the largest output. */
function winnerOf(data, outputs) {
  if (outputs.length === 1) return outputs[0] > 0 ? 1 : 0;
  return outputs.indexOf(Math.max(...outputs));
}

/* Probabilities of the classes, if the model has a calibration. */
function probabilitiesOf(data, outputs) {
  if (data.calibration === null) return null;
  const logits = outputs.map((output) => data.calibration.slope * output + data.calibration.offset);
  if (logits.length === 1) return [1 / (1 + Math.exp(logits[0])), 1 / (1 + Math.exp(-logits[0]))];
  const largest = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp(logit - largest));
  const sum = weights.reduce((total, weight) => total + weight, 0);
  return weights.map((weight) => weight / sum);
}

/* Distance of two rows, each feature in units of its standard deviation; another level counts as one unit. */
function distanceOf(data, left, right) {
  let sum = 0;
  data.fields.forEach((field, i) => {
    if (left[i] === right[i]) return;
    const plain = field.kind !== "category" && left[i] !== null && right[i] !== null;
    sum += plain ? ((left[i] - right[i]) / field.unit) ** 2 : 1;
  });
  return Math.sqrt(sum);
}
