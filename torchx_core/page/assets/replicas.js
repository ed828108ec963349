"use strict";
// A row for each replica, with its attempts along one time line.

const FIRST_REPLICAS = 50;
const BY_NEED = ["FAILED", "CANCELLED", "RUNNING", "PENDING", "SUBMITTED", "UNSUBMITTED", "UNKNOWN", "SUCCEEDED"];

class Replicas {
  constructor(model, onChosen) {
    this.model = model;
    this.onChosen = onChosen;
    this.rows = new Map();
    this.all = false;
    this.button = byId("more-replicas");
    this.button.addEventListener("click", () => { this.all = true; this.draw(); });
  }

  draw() {
    const replicas = this.chosen();
    const hidden = this.model.replicas.size - replicas.length;
    this.button.hidden = !hidden;
    say(this.button, `Show ${hidden} more`);
    say(byId("replicas-summary"), this.summary());
    const span = this.span();
    const shown = replicas.map((replica) => this.row(replica, span));
    const list = byId("replicas");
    const wanted = [this.scale(span), ...shown];
    if (wanted.length !== list.children.length || wanted.some((row, at) => list.children[at] !== row)) list.replaceChildren(...wanted);
  }

  /** Return the replicas to show: all, or those that need a look first. */
  chosen() {
    const replicas = [...this.model.replicas.values()];
    if (this.all || replicas.length <= FIRST_REPLICAS) return replicas;
    const need = (replica) => BY_NEED.indexOf(lastAttempt(replica).state ?? "PENDING");
    return replicas.map((replica) => [need(replica), replica]).sort((a, b) => a[0] - b[0]).slice(0, FIRST_REPLICAS).map(([, replica]) => replica);
  }

  summary() {
    const counts = new Map();
    for (const replica of this.model.replicas.values()) {
      const state = lastAttempt(replica).state ?? "PENDING";
      counts.set(state, (counts.get(state) ?? 0) + 1);
    }
    return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
  }

  span() {
    const { start, end } = this.model.span();
    const now = Date.now() / 1000;
    return { start: Number.isFinite(start) ? start : now, end: Math.max(end ?? now, start + 0.001) };
  }

  /** The states of the app itself, and when they began and ended. */
  scale(span) {
    this.top ??= { row: make("div", { className: "replica scale" }), bars: make("div", { className: "bars" }), ends: make("div", { className: "ends quiet" }) };
    const { row, bars, ends } = this.top;
    if (!row.children.length) row.append(make("span", { className: "replica-name" }, "app"), make("div", {}, bars, ends));
    const { states } = this.model;
    bars.replaceChildren(...states.slice(0, 200).map((change, at) => (
      this.bar(change.state, change.time, states[at + 1]?.time ?? span.end, span, change.state)
    )));
    ends.replaceChildren(make("span", {}, formatClock(span.start)), make("span", {}, this.model.over ? formatClock(span.end) : "now"));
    return row;
  }

  row(replica, span) {
    let parts = this.rows.get(replica.name);
    if (!parts) {
      parts = this.newRow(replica);
      this.rows.set(replica.name, parts);
    }
    const last = lastAttempt(replica);
    const state = last.state ?? "PENDING";
    parts.state.className = `state small ${state.toLowerCase()}`;
    say(parts.state, state);
    const attempts = [...replica.attempts.values()].sort((a, b) => a.attempt - b.attempt);
    parts.bars.replaceChildren(...attempts.filter((each) => each.start !== undefined).slice(-100).map((each) => (
      this.bar(each.state, each.start, each.end ?? span.end, span, this.title(each))
    )));
    parts.bars.setAttribute("aria-label", attempts.map((each) => this.title(each)).join("; "));
    say(parts.facts, this.facts(replica, last));
    const { progress } = replica;
    parts.progress.hidden = !progress || progress.attempt !== last.attempt;
    if (progress) parts.progress.firstElementChild.style.width = `${progress.fraction * 100}%`;
    say(parts.message, [progress && progress.attempt === last.attempt ? progress.message : "", last.msg ?? ""].filter(Boolean).join(" · "));
    return parts.row;
  }

  newRow(replica) {
    const name = make("button", { type: "button", className: "replica-name link", title: "Show its lines alone" }, replica.name);
    name.addEventListener("click", () => this.onChosen(replica));
    const parts = {
      state: make("span"),
      bars: make("div", { className: "bars", role: "img" }),
      facts: make("span", { className: "quiet" }),
      progress: make("div", { className: "bar thin" }, make("div")),
      message: make("span", { className: "quiet wrap" }),
    };
    parts.row = make(
      "div", { className: "replica" },
      make("span", { className: "replica-who" }, make("span", { className: `dot ${colourClass(replica.number)}` }), name, parts.state),
      make("div", {}, parts.bars, parts.progress, make("div", { className: "replica-facts" }, parts.facts, parts.message)),
    );
    return parts;
  }

  bar(state, start, end, span, title) {
    const bar = make("span", { className: `span ${(state ?? "").toLowerCase()}`, title });
    const whole = span.end - span.start;
    const left = Math.min(1, Math.max(0, (start - span.start) / whole));
    bar.style.left = `${left * 100}%`;
    bar.style.width = `${Math.min(1 - left, Math.max(0, (end - start) / whole)) * 100}%`;
    return bar;
  }

  title(attempt) {
    const ending = attempt.exit ? `, ${/^\d+$/.test(attempt.exit) ? `exit code ${attempt.exit}` : attempt.exit}` : "";
    const took = attempt.end !== undefined && attempt.start !== undefined ? `, ${formatDuration(attempt.end - attempt.start)}` : "";
    return `attempt ${attempt.attempt + 1}: ${attempt.state ?? "PENDING"}${ending}${took}`;
  }

  facts(replica, last) {
    const facts = [];
    if (replica.attempts.size > 1 || last.attempt > 0) facts.push(`attempt ${last.attempt + 1}`);
    if (last.exit && last.exit !== "0") facts.push(/^\d+$/.test(last.exit) ? `exit code ${last.exit}` : last.exit);
    if (last.start !== undefined) facts.push(formatDuration((last.end ?? Date.now() / 1000) - last.start));
    if (last.host) facts.push(last.host);
    for (const [name, value] of last.usage ?? []) facts.push(`${nameUsage(name)} ${formatUsage(name, value)}`);
    return facts.join(" · ");
  }
}
