"use strict";
// What is known of the app: increments, applied in order. The same for the first one, which has everything.

const LEVELS = ["debug", "info", "warning", "error", "critical"];
const MAX_LINES = 200000; // kept; a quarter more may come before the oldest go
const MAX_POINTS = 20000; // of one curve
const MAX_LINKS = 100;
const TERMINAL = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);

class Model {
  constructor() {
    this.app = null;
    this.state = "";
    this.message = "";
    this.over = false;
    this.restarts = 0;
    this.states = [];
    this.replicas = new Map(); // name -> {name, number, attempts: Map, progress}
    this.lines = { text: [], replica: [], attempt: [], level: [], time: [], stderr: [] };
    this.leftOut = 0;
    this.curves = new Map(); // metric -> [series]
    this.usage = new Map();
    this.notices = [];
    this.services = [];
    this.links = new Map();
    this.addresses = [];
    this.result = "";
    this.failure = null;
    this.cursor = "";
  }

  /** Take an increment; return how many of the oldest lines went to make room. */
  apply(increment) {
    for (const name of ["app", "state", "message", "restarts", "over", "services", "result", "failure"]) {
      if (increment[name] !== undefined) this[name] = increment[name];
    }
    for (const [replica, name, target] of increment.links ?? []) this.takeLink(replica, name, target);
    if (increment.services || increment.links) this.addresses = [...this.services, ...this.links.values()];
    if (increment.app) this.addReplicasOf(increment.app);
    for (const change of increment.states ?? []) this.takeState(change);
    for (const attempt of increment.attempts ?? []) this.takeAttempt(attempt);
    for (const [name, attempt, fraction, message, time] of increment.progress ?? []) {
      this.replica(name).progress = { attempt, fraction, message, time };
    }
    for (const curve of increment.curves ?? []) addPoints(this.curves, curve, this.replica(curve.replica).number);
    for (const curve of increment.usage ?? []) addPoints(this.usage, curve, this.replica(curve.replica).number);
    this.notices.push(...(increment.notices ?? []));
    this.leftOut += increment.left_out ?? 0;
    for (const run of increment.lines ?? []) this.takeLines(run);
    return this.makeRoom();
  }

  addReplicasOf(app) {
    for (const role of app.roles) {
      const known = new Map(role.facts).get("Replicas") ?? "1";
      for (let at = 0; at < Math.min(Number(known), 5000); at += 1) this.replica(`${role.name}/${at}`);
    }
  }

  replica(name) {
    let replica = this.replicas.get(name);
    if (!replica) {
      replica = { name, number: this.replicas.size, attempts: new Map(), progress: null };
      this.replicas.set(name, replica);
    }
    return replica;
  }

  /** Remember where a replica has said that there is more; the latest of a name counts. */
  takeLink(replica, name, target) {
    const key = `${replica} ${name}`;
    if (this.links.size < MAX_LINKS || this.links.has(key)) this.links.set(key, [`${name} of ${replica}`, target]);
  }

  takeState([state, time, message]) {
    this.states.push({ state, time, message });
    this.state = state;
    this.message = message || this.message;
    this.over ||= TERMINAL.has(state);
  }

  takeAttempt(news) {
    const attempts = this.replica(news.replica).attempts;
    const known = attempts.get(news.attempt) ?? {};
    attempts.set(news.attempt, { ...known, ...news });
  }

  takeLines([name, attempt, stderr, level, time, texts]) {
    const { lines } = this;
    const { number } = this.replica(name);
    const rank = LEVELS.indexOf(level);
    for (const text of texts) {
      lines.text.push(text);
      lines.replica.push(number);
      lines.attempt.push(attempt);
      lines.level.push(rank);
      lines.time.push(time);
      lines.stderr.push(stderr);
    }
  }

  makeRoom() {
    const extra = this.lines.text.length - MAX_LINES;
    if (extra < MAX_LINES / 4) return 0;
    for (const column of Object.values(this.lines)) column.splice(0, extra);
    this.leftOut += extra;
    return extra;
  }

  /** Return the last lines of a replica. */
  lastLines(name, count) {
    const { text, replica } = this.lines;
    const number = this.replicas.get(name)?.number;
    const found = [];
    for (let at = text.length - 1; at >= 0 && found.length < count; at -= 1) {
      if (replica[at] === number) found.push(text[at]);
    }
    return found.reverse();
  }

  /** Return when the app began and when it ended, as far as that is known, in seconds. */
  span() {
    let start = this.states[0]?.time ?? Infinity;
    let end = this.over ? (this.states.at(-1)?.time ?? 0) : 0;
    for (const { attempts } of this.replicas.values()) {
      for (const attempt of attempts.values()) {
        if (attempt.start !== undefined) start = Math.min(start, attempt.start);
        if (attempt.end !== undefined) end = Math.max(end, attempt.end);
      }
    }
    return { start, end: this.over && end ? end : null };
  }
}

const lastAttempt = (replica) => [...replica.attempts.values()].reduce((a, b) => (b.attempt >= a.attempt ? b : a), { attempt: 0 });

// --- curves

function addPoints(curves, news, number) {
  if (!curves.has(news.name)) curves.set(news.name, []);
  const known = curves.get(news.name);
  let series = known.find((each) => each.replica === news.replica && each.attempt === news.attempt);
  if (!series) {
    series = { replica: news.replica, attempt: news.attempt, number, x: [], y: [], t: [], weight: [], count: 0 };
    known.push(series);
    known.sort((a, b) => a.number - b.number || a.attempt - b.attempt);
  }
  const before = news.steps ? 0 : series.count;
  for (let at = 0; at < news.x.length; at += 1) {
    series.x.push(news.x[at] + before);
    series.y.push(news.y[at]);
    series.t.push(news.t[at]);
    series.weight.push(news.count / news.x.length);
  }
  series.count += news.count;
  if (series.x.length >= 2 * MAX_POINTS) thinOut(series);
}

/** Let groups of neighbours, each of about as many points, be their lowest and their highest; the last one stays. */
function thinOut(series) {
  const share = (2 * series.count) / MAX_POINTS;
  const { y, weight } = series;
  const last = y.length - 1;
  const kept = [];
  const weights = [];
  for (let first = 0, next = 0; first < last; first = next) {
    let [low, high, sum] = [first, first, 0];
    for (next = first; next < last && sum < share; next += 1) {
      if (y[next] !== null && (y[low] === null || y[next] < y[low])) low = next;
      if (y[next] !== null && (y[high] === null || y[next] > y[high])) high = next;
      sum += weight[next];
    }
    const ends = low === high ? [low] : [Math.min(low, high), Math.max(low, high)];
    kept.push(...ends);
    weights.push(...ends.map(() => sum / ends.length));
  }
  kept.push(last);
  for (const column of ["x", "y", "t"]) series[column] = kept.map((at) => series[column][at]);
  series.weight = [...weights, weight[last]];
}
