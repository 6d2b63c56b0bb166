// Theme, copying, and timelines to zoom into. Everything is readable without it.
'use strict';
(() => {
  const root = document.documentElement;
  const themes = document.querySelector('button.theme');
  if (themes) {
    const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    const say = () => { themes.textContent = dark() ? 'light' : 'dark'; };
    themes.hidden = false;
    themes.onclick = () => { root.dataset.theme = dark() ? 'light' : 'dark'; say(); };
    say();
  }
  for (const button of document.querySelectorAll('button.copy')) {
    button.hidden = false;
    button.onclick = () => {
      const pre = button.parentElement.querySelector('pre');
      const done = () => { button.textContent = 'copied'; setTimeout(() => { button.textContent = 'copy'; }, 1500); };
      const select = () => { const r = document.createRange(); r.selectNodeContents(pre); const s = getSelection(); s.removeAllRanges(); s.addRange(r); document.execCommand('copy'); done(); };
      if (navigator.clipboard && isSecureContext) navigator.clipboard.writeText(pre.textContent).then(done, select); else select();
    };
  }

  // The trace goes from this page to that one, which answers when it is there; nothing is uploaded.
  const open = document.querySelector('button.trace');
  if (open) {
    open.hidden = false;
    open.onclick = () => {
      const perfetto = window.open('https://ui.perfetto.dev');
      const buffer = new TextEncoder().encode(document.getElementById('trace').textContent).buffer;
      const knock = setInterval(() => perfetto.postMessage('PING', 'https://ui.perfetto.dev'), 50);
      addEventListener('message', function answer(event) {
        if (event.source !== perfetto || event.data !== 'PONG') return;
        clearInterval(knock);
        removeEventListener('message', answer);
        perfetto.postMessage({perfetto: {buffer, title: document.title}}, 'https://ui.perfetto.dev');
      });
    };
  }

  const units = [['s', 1e12], ['ms', 1e9], ['us', 1e6], ['ns', 1e3], ['ps', 1]];
  function timeText(ps, digits = 4) {
    if (ps === 0) return '0';
    const [name, size] = units.find(([, s]) => Math.abs(ps) >= s) || units[4];
    return Number((ps / size).toPrecision(digits)) + ' ' + name;
  }

  // Boxes come as numbers, five each: pause since the last one of the row, duration (both in `unit` picoseconds), what
  // it is, its label, and how many boxes back the one is that it waited for (0: none).
  function unpack(data) {
    const boxes = [];
    for (const row of data.rows) {
      row.first = boxes.length;
      let now = 0;
      for (let i = 0; i < row.b.length; i += 5) {
        const start = now + row.b[i];
        now = start + row.b[i + 1];
        boxes.push({row, start, end: now, what: row.b[i + 2], label: row.b[i + 3], after: row.b[i + 4]});
      }
      row.last = boxes.length;
    }
    boxes.forEach((box, i) => { box.after = box.after ? boxes[i - box.after] : null; });
    return boxes;
  }

  class Timeline {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.querySelector('script').textContent);
      this.boxes = unpack(this.data);
      this.plot = figure.querySelector('.plot');
      this.plane = figure.querySelector('.plane');
      this.labels = figure.querySelector('.labels');
      this.axis = figure.querySelector('.axis');
      this.said = figure.querySelector('.said');
      this.chosen = figure.querySelector('.chosen');
      this.wide = this.plane.viewBox.baseVal.width;   // of the plane, in its own units
      this.high = this.plane.viewBox.baseVal.height;
      this.span = this.data.span / this.data.unit;    // of the timeline, in the units of boxes
      this.from = 0; this.to = this.span;
      this.at = -1;
      figure.querySelector('.bar').hidden = false;
      this.listen();
      new ResizeObserver(() => this.ask()).observe(this.plot);
      this.draw();
    }

    listen() {
      const steps = {in: () => this.zoom(.5), out: () => this.zoom(2), left: () => this.pan(-.25), right: () => this.pan(.25), all: () => this.show(0, this.span)};
      for (const button of this.figure.querySelectorAll('[data-do]')) button.onclick = () => steps[button.dataset.do]();
      const path = this.figure.querySelector('.bar input');
      if (path) path.onchange = () => this.figure.classList.toggle('shows-path', path.checked);
      const keys = {'+': 'in', '=': 'in', '-': 'out', Home: 'all', 0: 'all', ArrowLeft: 'left', ArrowRight: 'right'};
      this.plot.onkeydown = (event) => {
        if (event.ctrlKey || event.metaKey || event.altKey) return;
        if (keys[event.key]) steps[keys[event.key]]();
        else if (event.key === 'n') this.choose(this.next(1));
        else if (event.key === 'p') this.choose(this.next(-1));
        else if (event.key === 'w' && this.at >= 0 && this.boxes[this.at].after) this.choose(this.boxes.indexOf(this.boxes[this.at].after));
        else if (event.key === 'c' && path) { path.checked = !path.checked; path.onchange(); }
        else if (event.key === 'ArrowDown' || event.key === 'ArrowUp') this.choose(this.beside(event.key === 'ArrowDown' ? 1 : -1));
        else return;
        event.preventDefault();
      };
      this.plot.addEventListener('wheel', (event) => {
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan((event.deltaX || event.deltaY) / 800);
        else this.zoom(Math.exp(event.deltaY / 400), this.share(event));
        event.preventDefault();
      }, {passive: false});
      let grabbed = null;
      this.plot.onpointerdown = (event) => { grabbed = {x: event.clientX, from: this.from, to: this.to}; this.plot.setPointerCapture(event.pointerId); };
      this.plot.onpointerup = this.plot.onpointercancel = () => { grabbed = null; };
      this.plot.onpointermove = (event) => {
        if (!grabbed) return this.hover(event);
        const by = (grabbed.x - event.clientX) / this.plot.clientWidth * (grabbed.to - grabbed.from);
        this.show(grabbed.from + by, grabbed.to + by);
      };
    }

    share(event) { const r = this.plot.getBoundingClientRect(); return (event.clientX - r.left) / r.width; }
    zoom(factor, share = .5) {
      const length = this.to - this.from, at = this.from + share * length;
      const now = Math.min(this.span, Math.max(this.span * 1e-6, 20, length * factor));
      this.show(at - share * now, at + (1 - share) * now);
    }
    pan(share) { const by = share * (this.to - this.from); this.show(this.from + by, this.to + by); }
    show(from, to) {
      const length = Math.min(this.span, to - from);
      this.from = Math.min(Math.max(0, from), this.span - length);
      this.to = this.from + length;
      this.ask();
    }
    ask() { if (!this.asked) { this.asked = true; requestAnimationFrame(() => { this.asked = false; this.draw(); }); } }

    draw() {
      const unit = this.wide / this.span, width = this.plot.clientWidth;
      if (!width) return;
      this.plane.setAttribute('viewBox', `${this.from * unit} 0 ${Math.max(1e-3, (this.to - this.from) * unit)} ${this.high}`);
      const px = width / (this.to - this.from);
      this.figure.classList.toggle('near', this.data.typical * px > 5);
      let text = '';
      // All labels or none: a picture with some of them looks broken.
      const longest = Math.max(...this.data.labels.map(([name]) => name.length));
      if (this.data.typical * px > Math.max(9, longest * 7 + 2)) {
        let left = 700;
        for (const row of this.data.rows) {
          if (row.h < 12) continue;
          for (let i = this.firstEndingAfter(row, this.from); i < row.last && left > 0; i++) {
            const box = this.boxes[i];
            if (box.start > this.to) break;
            const [name, ink, half] = this.data.labels[box.label], room = (box.end - box.start) * px;
            if (!name || room < name.length * 7 + 2) continue;
            left--;
            const middle = row.y + row.h * [2, 1, 3][half] / 4;  // of the row, or of its upper or lower half
            text += `<text x="${((box.start + box.end) / 2 - this.from) * px}" y="${middle + 4}" fill="${ink}">${name}</text>`;
          }
        }
      }
      this.labels.innerHTML = text;
      const ps = (this.to - this.from) * this.data.unit, raw = ps / Math.max(2, width / 110);
      const power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].find((d) => d * power >= raw) * power;
      let ticks = '';
      for (let t = Math.ceil(this.from * this.data.unit / step) * step; t <= this.to * this.data.unit; t += step)
        ticks += `<span style="left:${(t - this.from * this.data.unit) / ps * 100}%">${timeText(t, 7)}</span>`;
      this.axis.innerHTML = ticks;
      if (this.at >= 0) this.outline();
    }

    firstEndingAfter(row, time) {
      let low = row.first, high = row.last;
      while (low < high) { const mid = (low + high) >> 1; if (this.boxes[mid].end <= time) low = mid + 1; else high = mid; }
      return low;
    }
    hover(event) {
      const r = this.plot.getBoundingClientRect(), y = event.clientY - r.top;
      const time = this.from + (event.clientX - r.left) / r.width * (this.to - this.from);
      const row = this.data.rows.find((x) => y >= x.y && y < x.y + x.h);
      if (!row) return;
      const slack = (this.to - this.from) / r.width, i = this.firstEndingAfter(row, time - slack);
      if (i < row.last && this.boxes[i].start <= time + slack && i !== this.at) this.choose(i, false);
    }
    next(by) { return this.at < 0 ? this.visible() : Math.min(this.boxes.length - 1, Math.max(0, this.at + by)); }
    visible() { const row = this.data.rows[0]; return Math.min(row.last - 1, this.firstEndingAfter(row, this.from)); }
    beside(by) {
      if (this.at < 0) return this.visible();
      const rows = this.data.rows.filter((x) => x.last > x.first), now = rows.indexOf(this.boxes[this.at].row);
      const row = rows[Math.min(rows.length - 1, Math.max(0, now + by))];
      return Math.min(row.last - 1, this.firstEndingAfter(row, this.boxes[this.at].start));
    }
    name(box) { const [label] = this.data.labels[box.label]; return this.data.words[box.what].replace('#', label || ''); }
    choose(i, follow = true) {
      if (!(i >= 0)) return;
      this.at = i;
      const box = this.boxes[i], u = this.data.unit;
      let said = `${this.name(box)} \u00b7 ${box.row.name} \u00b7 from ${timeText(box.start * u, 6)}, ${timeText((box.end - box.start) * u)} long`;
      if (box.after) said += ` \u00b7 began when ${this.name(box.after)} of ${box.after.row.name} had ended`;
      this.said.textContent = said;
      if (follow && (box.start < this.from || box.end > this.to)) {
        const half = (this.to - this.from) / 2, middle = (box.start + box.end) / 2;
        this.show(middle - half, middle + half);
      }
      this.outline();
    }
    outline() {
      const box = this.boxes[this.at], unit = this.wide / this.span;
      for (const [name, value] of [['x', box.start * unit], ['y', box.row.y], ['width', (box.end - box.start) * unit], ['height', box.row.h]])
        this.chosen.setAttribute(name, value);
    }
  }
  for (const figure of document.querySelectorAll('figure.timeline')) figure.timeline = new Timeline(figure);
})();
