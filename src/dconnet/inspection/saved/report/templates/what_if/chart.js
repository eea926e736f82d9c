/* The picture of a feature: mean prediction, prediction of this row, and where the row is. */

const SVG = "http:" + "//www.w3.org/2000/svg";
const CHART = { width: 440, height: 280, left: 52, right: 12, top: 10, bottom: 42 };

function drawn(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

/* About n round numbers between two. */
function roundTicks(low, high, n) {
  const rough = (high - low) / n;
  const unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * [1, 2, 5, 10].find((factor) => factor * unit >= rough);
  const ticks = [];
  const first = Math.ceil(low / step);
  for (let i = 0; i <= 2 * n && (first + i) * step <= high; i += 1) {
    ticks.push(Number(((first + i) * step).toPrecision(12)));
  }
  return ticks;
}

function linearScale([low, high], [start, end]) {
  return (value) => start + ((value - low) / (high - low || 1)) * (end - start);
}

/* Least and largest of some numbers, with a margin. */
function spanOf(numbers) {
  const known = numbers.filter(Number.isFinite);
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const margin = high > low ? 0.05 * (high - low) : Math.max(Math.abs(low), 1) * 0.05;
  return [low - margin, high + margin];
}

/* Draws into an empty svg element.

   curve, mean: [value, output] pairs of the row and of the average over rows; mean may be empty.
   point: where the row is, or null; interval: [low, high] or null; marks: values marked on the axis.
   names: labels of the values 0, 1, ... of a list, or null; text: a value as text. */
function drawChart(svg, { curve, mean, point, interval, marks, names, label, text }) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${CHART.width} ${CHART.height}`);
  const shown = point === null ? [] : [point];
  const ys = [...curve, ...mean, ...shown].map((pair) => pair[1]).concat(interval ?? []);
  const xs = [...curve, ...shown].map((pair) => pair[0]);
  const [xSpan, ySpan] = [names === null ? [Math.min(...xs), Math.max(...xs)] : [-0.5, names.length - 0.5], spanOf(ys)];
  const x = linearScale(xSpan, [CHART.left, CHART.width - CHART.right]);
  const y = linearScale(ySpan, [CHART.height - CHART.bottom, CHART.top]);
  drawAxes(svg, x, y, xSpan, ySpan, names, label, text);
  const base = CHART.height - CHART.bottom;
  marks.forEach((mark) => drawn(svg, "line", { class: "mark", x1: x(mark), x2: x(mark), y1: base, y2: base - 7 }));
  if (interval !== null && point !== null) {
    const [low, high] = interval.map(y);
    drawn(svg, "line", { class: "interval", x1: x(point[0]), x2: x(point[0]), y1: low, y2: high });
  }
  drawLine(svg, "mean", mean, x, y, names !== null);
  drawLine(svg, "row", curve, x, y, names !== null);
  if (point === null) return;
  drawn(svg, "circle", { class: "point", cx: x(point[0]), cy: y(point[1]), r: 5 });
  const level = names === null ? between(mean, point[0]) : new Map(mean).get(point[0]);
  if (level !== undefined) drawn(svg, "circle", { class: "mean-point", cx: x(point[0]), cy: y(level), r: 4 });
}

function drawLine(svg, kind, pairs, x, y, areLevels) {
  const places = pairs.filter((pair) => Number.isFinite(pair[1])).map(([a, b]) => [x(a).toFixed(2), y(b).toFixed(2)]);
  if (areLevels) {
    places.forEach(([cx, cy]) => drawn(svg, "circle", { class: `${kind} level`, cx, cy, r: kind === "row" ? 4 : 3 }));
  } else if (places.length > 0) {
    drawn(svg, "polyline", { class: kind, points: places.map((place) => place.join(",")).join(" ") });
  }
}

function drawAxes(svg, x, y, xSpan, ySpan, names, label, text) {
  const base = CHART.height - CHART.bottom;
  roundTicks(...ySpan, 7).forEach((tick) => {
    drawn(svg, "line", { class: "grid", x1: CHART.left, x2: CHART.width - CHART.right, y1: y(tick), y2: y(tick) });
    drawn(svg, "text", { x: CHART.left - 6, y: y(tick) + 4, "text-anchor": "end" }, formatNumber(tick));
  });
  drawn(svg, "line", { class: "axis", x1: CHART.left, x2: CHART.width - CHART.right, y1: base, y2: base });
  const ticks = names === null ? roundTicks(...xSpan, 4) : names.map((_, i) => i);
  const every = Math.ceil(ticks.length / 6);
  ticks.filter((_, i) => i % every === 0).forEach((tick) => {
    drawn(svg, "text", { x: x(tick), y: base + 17, "text-anchor": "middle" }, shortened(text(tick), 10));
  });
  const middle = (CHART.left + CHART.width - CHART.right) / 2;
  drawn(svg, "text", { x: middle, y: CHART.height - 6, "text-anchor": "middle", class: "name" }, shortened(label, 50));
}

function shortened(text, limit) {
  const letters = [...text];
  return letters.length <= limit ? text : `${letters.slice(0, limit - 1).join("")}…`;
}

/* A polyline at one place; undefined outside of it. */
function between(pairs, place) {
  for (let i = 0; i + 1 < pairs.length; i += 1) {
    const [[a, u], [b, v]] = [pairs[i], pairs[i + 1]];
    if (a <= place && place <= b) return b > a ? u + ((place - a) / (b - a)) * (v - u) : u;
  }
  return undefined;
}
