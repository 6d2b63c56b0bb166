// Elements in one call: element("p", {class: "note"}, "text", child).
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat().filter(child => child !== null && child !== undefined));
  return made;
}

const kMostBoxes = 500;  // of a picture whose boxes are elements

// Boxes of one colour in one row as one path, and where each was: [x, y, width, height, tip].
function merged(svg) {
  const boxes = [], paths = new Map();
  const first = svg.replace(
    /<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)" fill="(#\w+)"[^>]*><title>([^<]*)<\/title><\/rect>\n?/g,
    (_, x, y, width, height, fill, tip) => {
      boxes.push([+x, +y, +width, +height, tip]);
      const key = `${fill} ${y}`, piece = `M${x} ${y}h${width}v${height}h-${width}z`, pieces = paths.get(key);
      if (pieces) return pieces.push(piece), "";
      paths.set(key, [piece]);
      return `<path data-boxes="${key}"/>`;
    });
  return {boxes, svg: first.replace(/<path data-boxes="((#\w+)[^"]*)"\/>/g, (_, key, fill) => `<path fill="${fill}" d="${paths.get(key).join("")}"/>`)};
}

// What may be wider than the page scrolls by itself, also by keys. While there is more to the right, its edge says so.
export function scrolling(what, title, ...children) {
  const inside = element("div", {class: what, tabindex: 0, role: "group", "aria-label": title}, ...children);
  const frame = element("div", {class: "frame"}, inside);
  const tell = () => frame.classList.toggle("more", inside.scrollWidth - inside.clientWidth - inside.scrollLeft > 1);
  inside.addEventListener("scroll", tell, {passive: true});
  new ResizeObserver(tell).observe(inside);
  return {frame, inside};
}

// A picture that the program drew. It is its own markup. What a shape says under the pointer is kept beside the picture, not in an element of each of thousands of shapes,
// and many boxes are few paths: what is not there is not read, styled and laid out while somebody moves a slider.
export function picture(drawn, title) {
  // What was set stands beside the picture, and would not fit into its heading, which may have several lines.
  const svg = drawn.replace(/(<text[^>]*>[^<]*?) \(with (?:[^<]|<\/text>\s*<text[^>]*>)*?\)(?=[^<)]*<\/text>)/, "$1");
  const {frame: outside, inside: frame} = scrolling("picture", title);
  const words = element("span");
  const say = tip => {
    words.innerHTML = tip ?? "";  // as markup has it: &lt; and the like
    frame.title = words.textContent;
  };
  if (svg.split("<title>").length > kMostBoxes) {
    const {boxes, svg: few} = merged(svg);
    frame.innerHTML = few;
    frame.addEventListener("pointermove", ({clientX, clientY}) => {
      const {x, y} = new DOMPoint(clientX, clientY).matrixTransform(frame.firstElementChild.getScreenCTM().inverse());
      say(boxes.find(([left, top, width, height]) => x >= left && x < left + width && y >= top && y < top + height)?.[4]);
    });
  } else {
    const tips = [];
    frame.innerHTML = svg.replace(/<(rect|circle|path)([^>]*)><title>([^<]*)<\/title><\/\1>/g,
                                  (_, shape, rest, tip) => `<${shape}${rest} data-tip="${tips.push(tip) - 1}"/>`);
    frame.addEventListener("pointerover", ({target}) => say(tips[target.dataset?.tip]));
  }
  // It shrinks until its smallest letters have 9 pixels, and is scrolled then.
  frame.firstElementChild.style.minWidth = `${frame.firstElementChild.viewBox.baseVal.width * .8}px`;
  return element("figure", {}, element("figcaption", {}, title), outside);
}

// {caption, columns: [text], rows: [{cells: [text or {text, value}], current, pick}]}: `value` is the number as the program
// gave it; `pick` makes a button of the first cell.
export function table({caption, columns, rows}) {
  const head = element("tr", {}, columns.map(name => element("th", {scope: "col"}, name)));
  const body = rows.map(row => {
    const cells = row.cells.map((cell, i) => {
      const {text, value} = typeof cell === "object" ? cell : {text: cell};
      if (i > 0) return element("td", {"data-value": value, class: value === undefined ? "word" : null}, text);
      const name = row.pick ? element("button", {type: "button", onclick: row.pick}, text) : text;
      return element("th", {scope: "row"}, name);
    });
    return element("tr", {"aria-current": row.current ? "true" : null}, cells);
  });
  const all = element("table", {}, element("caption", {}, caption), element("thead", {}, head), element("tbody", {}, body));
  return element("div", {class: "table"}, scrolling("rows", caption, all).frame);
}

export function note(text) {
  return element("p", {class: "note"}, text);
}
