// Numbers for people, with the number itself beside the text: cells of tables (dom.js) hold both.
function rounded(value, digits = 3) {
  if (Number.isInteger(value) && Math.abs(value) < 1e6) return value.toLocaleString("en");
  const magnitude = Math.floor(Math.log10(Math.abs(value)));
  return value.toLocaleString("en", {minimumFractionDigits: Math.max(0, digits - 1 - magnitude),
                                     maximumFractionDigits: Math.max(0, digits - 1 - magnitude)});
}

// The largest unit of which there is at least one.
function inUnits(value, units) {
  if (value === 0) return "0";
  const unit = units.find(([size]) => Math.abs(value) >= size) ?? units.at(-1);
  return `${rounded(value / unit[0])} ${unit[1]}`;
}

const cell = (value, text) => value === null || value === undefined ? {text: "–"} : {value, text: text(value)};

export const seconds = value => cell(value, v => inUnits(v, [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]]));
// All sizes of a page, held or sent, have one unit; rates are decimal, as those of links are told.
export const gibibytes = value => cell(value, v => inUnits(v, [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"],
                                                                 [2 ** 10, "KiB"], [1, "B"]]));
export const rate = value => cell(value, v => inUnits(v, [[1e12, "TB/s"], [1e9, "GB/s"], [1e6, "MB/s"], [1, "B/s"]]));
export const percent = value => cell(value, v => `${(100 * v).toFixed(1)} %`);
export const number = (value, digits = 3) => cell(value, v => rounded(v, digits));
export const whole = value => cell(value, v => v.toLocaleString("en"));
export const yes = value => cell(value, v => v ? "yes" : "no");
