/* Numbers as text, as the report writes them everywhere else. */

const UNKNOWN = "unknown";

/* The format ".4g" of Python, but 52600 instead of 5.26e+04. */
function formatNumber(value, digits = 4) {
  if (!Number.isFinite(value)) return UNKNOWN;
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 10 ** digits && size < 1e9) return value.toFixed(0);
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) return withoutZeros(value.toFixed(digits - 1 - exponent));
  return `${withoutZeros(mantissa)}e${power[0]}${power.slice(1).padStart(2, "0")}`;
}

function withoutZeros(text) {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

function formatPercent(share) {
  return Number.isFinite(share) ? `${(100 * share).toFixed(1)} %` : "–";
}

function formatSigned(value) {
  return value > 0 ? `+${formatNumber(value, 3)}` : formatNumber(value, 3).replace("-", "−");
}
