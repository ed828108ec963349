"use strict";
// Curves on a canvas: one picture for each metric, one curve for each replica and attempt.

const LEGEND = 12; // curves that are named; more are drawn
const MARGIN = { left: 62, right: 12, top: 10, bottom: 24 };

const USAGE = {
  cpu_percent: "CPU (100 % is one core)", memory_bytes: "Memory", processes: "Processes",
  gpu_percent: "GPU", gpu_memory_bytes: "GPU memory", cpu_s: "CPU time", memory_peak_bytes: "peak memory",
};
const nameUsage = (name) => (Object.hasOwn(USAGE, name) ? USAGE[name] : name);

/** Return a value of usage with its unit, which its name says. */
function formatUsage(name, value) {
  if (value === null || value === undefined) return "unknown";
  if (/_bytes$/.test(name)) return formatBytes(value);
  if (/_s$/.test(name)) return formatDuration(value);
  return /_percent$/.test(name) ? `${Number(value.toFixed(1))} %` : formatNumber(value);
}

class Charts {
  /** @param options `x`: "x" for steps or "t" for time; `format(name, value)`. */
  constructor(section, curves, options) {
    this.section = section;
    this.curves = curves;
    this.options = options;
    this.charts = new Map();
    this.log = false;
    this.x = options.x;
  }

  draw() {
    this.section.hidden = !this.curves.size;
    if (this.section.hidden) return;
    for (const name of [...this.curves.keys()].sort()) {
      if (!this.charts.has(name)) this.charts.set(name, new Chart(this, name));
    }
    const place = this.section.querySelector(".charts");
    const names = [...this.charts.keys()].sort();
    if (place.children.length !== names.length) place.replaceChildren(...names.map((name) => this.charts.get(name).figure));
    for (const chart of this.charts.values()) chart.redraw();
  }
}

class Chart {
  constructor(charts, name) {
    this.charts = charts;
    this.name = name;
    this.at = null; // where on the x axis somebody looks
    this.canvas = make("canvas", { tabIndex: 0, role: "img" });
    this.legend = make("ul", { className: "legend" });
    this.where = make("span", { className: "quiet" });
    this.figure = make("figure", {}, make("figcaption", {}, make("b", {}, charts.options.title?.(name) ?? name), this.where), this.canvas, this.legend);
    this.canvas.addEventListener("pointermove", (event) => this.look(this.valueAt(event.offsetX)));
    this.canvas.addEventListener("pointerleave", () => this.look(null));
    this.canvas.addEventListener("keydown", (event) => this.press(event));
    this.canvas.addEventListener("blur", () => this.look(null));
    new ResizeObserver(() => this.redraw()).observe(this.canvas);
  }

  look(at) {
    this.at = at;
    this.redraw();
  }

  /** Move along the longest curve with the arrow keys. */
  press(event) {
    const move = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20, Home: -Infinity, End: Infinity }[event.key];
    if (move === undefined || !this.series().length) return;
    event.preventDefault();
    const xs = this.series().reduce((a, b) => (b.x.length > a.x.length ? b : a))[this.charts.x];
    const now = this.at === null ? (move > 0 ? -1 : xs.length) : nearest(xs, this.at);
    this.look(xs[Math.min(xs.length - 1, Math.max(0, now + move))]);
  }

  series() {
    return this.charts.curves.get(this.name) ?? [];
  }

  redraw() {
    if (this.queued) return;
    this.queued = requestAnimationFrame(() => { this.queued = 0; this.paint(); });
  }

  paint() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(this.canvas);
    this.measure(width, height);
    this.paintAxes(context, style, width, height);
    const series = this.series();
    const latest = latestAttempts(series);
    series.forEach((each) => this.paintCurve(context, style, each, each.attempt === latest.get(each.replica)));
    this.paintLook(context, style, height);
    if (!series.some((each) => each.y.some((y) => y !== null && this.isShown(y)))) {
      context.fillText(this.charts.log ? "no value above zero" : "no value that is a number", width / 2, height / 2);
    }
    this.drawLegend(series, latest);
  }

  /** Learn how values become places. */
  measure(width, height) {
    const xs = range(this.series().map((each) => each[this.charts.x]), () => true);
    const isShown = this.charts.log ? (y) => y > 0 : () => true;
    const ys = range(this.series().map((each) => each.y), isShown);
    this.xAxis = this.charts.x === "t" ? timeTicks(xs, Math.max(2, Math.floor(width / 110))) : ticks(xs, Math.max(2, Math.floor(width / 90)));
    this.yAxis = this.charts.log ? logTicks(ys) : ticks(ys, 5);
    const [x0, x1] = xs[1] > xs[0] ? xs : withRoom(xs);
    const place = this.charts.log ? Math.log10 : (y) => y;
    const [y0, y1] = this.charts.log ? [place(this.yAxis[0]), place(this.yAxis.at(-1))] : withRoom(ys);
    const inner = { width: width - MARGIN.left - MARGIN.right, height: height - MARGIN.top - MARGIN.bottom };
    this.placeX = (x) => MARGIN.left + ((x - x0) / (x1 - x0)) * inner.width;
    this.placeY = (y) => MARGIN.top + inner.height - ((place(y) - y0) / (y1 - y0)) * inner.height;
    this.valueAt = (left) => x0 + ((left - MARGIN.left) / inner.width) * (x1 - x0);
    this.isShown = isShown;
  }

  paintAxes(context, style, width, height) {
    context.font = `11px ${style.fontFamily}`;
    context.strokeStyle = style.getPropertyValue("--line");
    context.fillStyle = style.getPropertyValue("--quiet");
    context.lineWidth = 1;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const value of this.yAxis) {
      const y = Math.round(this.placeY(value)) + 0.5;
      if (y < MARGIN.top - 1 || y > height - MARGIN.bottom + 1) continue;
      context.beginPath();
      context.moveTo(MARGIN.left, y);
      context.lineTo(width - MARGIN.right, y);
      context.stroke();
      context.fillText(this.charts.options.format(this.name, value), MARGIN.left - 6, y, MARGIN.left - 8);
    }
    context.textAlign = "center";
    context.textBaseline = "alphabetic";
    for (const value of this.xAxis) {
      const text = this.charts.x === "t" ? formatClock(value) : formatNumber(value);
      const x = this.placeX(value);
      if (x >= MARGIN.left - 1 && x <= width - MARGIN.right + 1) context.fillText(text, Math.min(x, width - 22), height - 7);
    }
  }

  paintCurve(context, style, series, isLatest) {
    context.strokeStyle = style.getPropertyValue(`--${colourClass(series.number)}`);
    context.fillStyle = context.strokeStyle;
    context.globalAlpha = isLatest ? 1 : 0.55;
    context.setLineDash(isLatest ? [] : [4, 3]);
    context.lineWidth = 1.6;
    context.lineJoin = "round";
    context.beginPath();
    const xs = series[this.charts.x];
    let isDown = false;
    for (let at = 0; at < xs.length; at += 1) {
      const y = series.y[at];
      if (y === null || !this.isShown(y)) { isDown = false; continue; }
      const [left, top] = [this.placeX(xs[at]), this.placeY(y)];
      if (isDown) context.lineTo(left, top);
      else context.moveTo(left, top);
      const isAlone = !isDown && (at + 1 === xs.length || series.y[at + 1] === null);
      if (isAlone) context.rect(left - 1, top - 1, 2, 2);
      isDown = true;
    }
    context.stroke();
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  paintLook(context, style, height) {
    if (this.at === null || !this.series().length) return;
    const left = Math.round(this.placeX(this.at)) + 0.5;
    if (left < MARGIN.left) return;
    context.strokeStyle = style.getPropertyValue("--quiet");
    context.beginPath();
    context.moveTo(left, MARGIN.top);
    context.lineTo(left, height - MARGIN.bottom);
    context.stroke();
    for (const series of this.series()) {
      const at = nearest(series[this.charts.x], this.at);
      const y = series.y[at];
      if (y === null || y === undefined || !this.isShown(y)) continue;
      context.fillStyle = style.getPropertyValue(`--${colourClass(series.number)}`);
      context.beginPath();
      context.arc(this.placeX(series[this.charts.x][at]), this.placeY(y), 3.5, 0, 2 * Math.PI);
      context.fill();
    }
  }

  drawLegend(series, latest) {
    const shown = series.slice(0, LEGEND).map((each) => {
      const at = this.at === null ? each.y.length - 1 : nearest(each[this.charts.x], this.at);
      const again = each.attempt || latest.get(each.replica) !== each.attempt ? `, attempt ${each.attempt + 1}` : "";
      return [colourClass(each.number), `${each.replica}${again}`, this.charts.options.format(this.name, each.y[at])];
    });
    const more = series.length > LEGEND ? [["", `and ${series.length - LEGEND} more`, ""]] : [];
    this.legend.replaceChildren(...[...shown, ...more].map(([colour, name, value]) => (
      make("li", {}, make("span", { className: `dot ${colour}` }), make("span", {}, name), make("b", {}, value))
    )));
    const place = this.charts.x === "t" ? formatClock(this.at ?? 0) : `step ${formatNumber(this.at === null ? 0 : this.stepAt(series))}`;
    say(this.where, this.at === null ? "" : place);
    const words = shown.map(([, name, value]) => `${name} ${value}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.name}${this.at === null ? ", latest" : ` at ${place}`}: ${words}`);
  }

  stepAt(series) {
    const xs = series[0]?.[this.charts.x] ?? [];
    return xs[nearest(xs, this.at)] ?? this.at;
  }
}

function latestAttempts(series) {
  const latest = new Map();
  for (const { replica, attempt } of series) latest.set(replica, Math.max(attempt, latest.get(replica) ?? 0));
  return latest;
}

/** Return where in ascending numbers the nearest one is. */
function nearest(numbers, wanted) {
  let [low, high] = [0, numbers.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - numbers[low - 1] < numbers[low] - wanted ? low - 1 : low;
}

/** Return the lowest and the highest of columns of numbers; 0 and 1 where there are none. */
function range(columns, isShown) {
  let [low, high] = [Infinity, -Infinity];
  for (const column of columns) {
    for (const value of column) {
      if (value === null || !isShown(value)) continue;
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  return low <= high ? [low, high] : [0, 1];
}

/** Return round numbers, the first at or below and the last at or above all values. */
function ticks([low, high], count) {
  if (low === high) [low, high] = [low - (Math.abs(low) || 1) / 2, high + (Math.abs(high) || 1) / 2];
  const rough = (high - low) / count;
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * size).find((each) => each >= rough * (1 - 1e-9)) ?? rough;
  const found = [];
  for (let at = Math.floor(low / step); found.length < 50; at += 1) {
    found.push(at * step);
    if (at * step >= high) break;
  }
  return found;
}

/** Return a little more than the range, so that no curve runs along the edge. */
function withRoom([low, high]) {
  const room = high > low ? (high - low) * 0.06 : (Math.abs(high) || 1) / 2;
  return [low - room, high + room];
}

/** Return powers of ten around the values. */
function logTicks([low, high]) {
  if (!(low > 0)) [low, high] = [1, 10];
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / 6));
  const found = [];
  for (let power = first; power < last + step; power += step) found.push(10 ** power);
  return found.length > 1 ? found : [found[0], found[0] * 10];
}

function timeTicks([start, end], count) {
  return Array.from({ length: count }, (_, at) => start + ((end - start) * (at + 0.5)) / count);
}
