/* The model: from the values of the features to outputs, and what its linear pieces say.

   Every function takes the data of the page first. `values` holds a number for each feature: the value itself, or the
   place of a level in a list. `z` are the inputs of the networks, and `k` is the number of an output. */

/* Inputs of the networks. */
function encode(data, values) {
  return Float64Array.from(data.columns, (column) => encodedColumn(column, values[column.field]));
}

function encodedColumn(column, value) {
  return (rawColumn(column, value) - column.mean) / column.scale;
}

/* A column before it is standardised: the value, a ramp of it, or whether it is some level. */
function rawColumn(column, value) {
  if (column.kind === "level") return value === column.level ? 1 : 0;
  if (column.kind === "missing") return value === null ? 1 : 0;
  const known = value === null ? column.fill : value;
  if (column.kind === "number") return known;
  const share = (known - column.from) / (column.to - column.from);
  const above = column.first ? share : Math.max(share, 0); /* the outer ramps go on */
  return column.last ? above : Math.min(above, 1);
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
  const raw = data.networks.flatMap((network) => {
    const active = preactivations(network, z).map((p) => Math.max(p, 0));
    return network.intercept.map((c, k) => active.reduce((sum, h, l) => sum + h * network.alpha[l][k], 0) + c);
  });
  return raw.map((output, k) => data.scaling.mean[k] + data.scaling.scale[k] * output);
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
      return { network, alpha: network.alpha.map((weights) => weights[place] * data.scaling.scale[k]) };
    }
    first += network.intercept.length;
  }
  throw new RangeError(`There is no output ${k}.`);
}

/* What each feature contributes to the difference of an output between two rows.

   On the straight line between the rows, a neuron is active on a share of the way that is known exactly, and where it
   is active, its slope is constant. So the integral of the gradient along the line is a finite sum, and the parts of
   all features add up to the difference. */
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

/* The slope of an output in a feature, to the right, and from where to where it stays the same; null for a list. */
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
    if (column.kind === "number") rise += weights[i] / column.scale;
    if (column.kind === "ramp") {
      const inside = (column.first || value >= column.from) && (column.last || value < column.to);
      if (inside) rise += weights[i] / (column.to - column.from) / column.scale;
    }
  }
  return rise;
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

/* The curve of a row in one feature, exact: its corners are the ends, the edges of ramps and the kinks of neurons. */
function curveOf(data, values, field, k, low, high) {
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
  return [...places].sort((a, b) => a - b).map((value) => [value, predict(data, withValue(values, field, value))[k]]);
}

/* Number of the winning class. */
function winnerOf(data, outputs) {
  if (outputs.length === 1) return outputs[0] > 0 ? 1 : 0;
  const nearness = outputs.map((output) => -Math.abs(output - 1));
  return nearness.indexOf(Math.max(...nearness));
}

/* Probabilities of the classes, if the model has a calibration. */
function probabilitiesOf(data, outputs) {
  if (data.calibration === null) return null;
  const logits = outputs.map((output, k) => data.calibration.slope[k] * output + data.calibration.offset[k]);
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
    const plain = field.kind === "number" && left[i] !== null && right[i] !== null;
    sum += plain ? ((left[i] - right[i]) / field.unit) ** 2 : 1;
  });
  return Math.sqrt(sum);
}
