// Curves over several answers, or over what was recorded: the one kind of picture that the page draws by itself.
import {element, scrolling} from "./dom.js";

const kHigh = 300, kLeft = 64, kRight = 92, kTop = 14, kBottom = 46;
const svgNamespace = "http://www.w3.org/2000/svg";

function shape(tag, attributes, ...children) {
  const made = document.createElementNS(svgNamespace, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// About `count` round numbers from `low` to `high`.
function ticks(low, high, count) {
  const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(one => one * power).find(one => one >= rough);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({length: Math.floor(high / step + 1e-9) - first + 1}, (_, i) => Number(((first + i) * step).toPrecision(12)));
}

// {title, x: {label, log, at: [x]}, y: {label, from, to}, lines: [{name, points: [[x, y]], current, dots}]}. What lies above `y.to` is cut
// off. Each line has its name at its end; the current one is thicker.
export function curves({title, x, y, lines}) {
  // As wide as there is room, so that letters are as large as those around.
  const room = document.documentElement.clientWidth, wide = Math.min(880, Math.max(320, room - (room > 960 ? 320 : 56)));
  const points = lines.flatMap(line => line.points);
  const scale = x.log ? Math.log10 : value => value;
  const [left, right] = [Math.min, Math.max].map(pick => scale(pick(...points.map(([value]) => value))));
  const low = y.from ?? Math.min(...points.map(([, value]) => value));
  const high = y.to ?? Math.max(...points.map(([, value]) => value));
  const at = value => kLeft + (wide - kLeft - kRight) * (scale(value) - left) / (right - left || 1);
  const up = value => kHigh - kBottom - (kHigh - kTop - kBottom) * (Math.min(value, high) - low) / (high - low || 1);
  const text = (where, words, more = {}) => shape("text", {...where, "font-size": 13, ...more}, words);
  const svg = shape("svg", {viewBox: `0 0 ${wide} ${kHigh}`, width: wide, role: "img", class: "curves"}, shape("title", {}, title));
  for (const value of ticks(low, high, 5))
    svg.append(shape("path", {class: "grid", d: `M${kLeft} ${up(value)}H${wide - kRight}`}),
               text({x: kLeft - 8, y: up(value) + 4}, value.toLocaleString("en"), {"text-anchor": "end", class: "tick"}));
  for (const value of x.at ?? ticks(left, right, wide > 600 ? 8 : 4))
    svg.append(text({x: at(value), y: kHigh - kBottom + 18}, value.toLocaleString("en"), {"text-anchor": "middle", class: "tick"}));
  svg.append(text({x: (kLeft + wide - kRight) / 2, y: kHigh - 8}, x.label, {"text-anchor": "middle", class: "tick"}),
             text({x: 14, y: (kTop + kHigh - kBottom) / 2}, y.label,
                  {"text-anchor": "middle", class: "tick", transform: `rotate(-90 14 ${(kTop + kHigh - kBottom) / 2})`}));
  // Names at the ends of lines, pushed apart where they would meet.
  const names = lines.map((line, i) => ({i, y: up(line.points.at(-1)[1])})).sort((a, b) => a.y - b.y);
  names.forEach((one, i) => { if (i > 0) one.y = Math.max(one.y, names[i - 1].y + 16); });
  const over = Math.max(0, (names.at(-1)?.y ?? 0) - (kHigh - kBottom));
  lines.forEach((line, i) => {
    const inside = line.points.filter(([, value], k) => value <= high || k === 0 || line.points[k - 1][1] <= high);
    svg.append(shape("path", {class: `curve curve-${i % 5}${line.current ? " current" : ""}`,
                              d: inside.map(([a, b], k) => `${k ? "L" : "M"}${at(a).toFixed(1)} ${up(b).toFixed(1)}`).join("")}));
    if (line.dots) for (const [a, b] of inside) svg.append(shape("circle", {class: `dot curve-${i % 5}`, cx: at(a), cy: up(b),
      r: 4}));
    svg.append(text({x: at(line.points.at(-1)[0]) + 8, y: names.find(one => one.i === i).y - over + 4}, line.name,
                    {class: `name curve-${i % 5}${line.current ? " current" : ""}`}));
  });
  return element("figure", {}, element("figcaption", {}, title), scrolling("picture", title, svg).frame);
}
