"use strict";
// The log: of any number of lines, only those on the screen are elements.

const ROW = 20; // pixels, as in the style sheet
const OVER = 10; // rows above and below the screen

class Log {
  constructor(model) {
    this.model = model;
    this.shown = []; // numbers of the lines that pass the filters
    this.matches = []; // places in `shown`
    this.seen = 0; // how many lines the filters have looked at
    this.place = -1; // in `matches`
    this.chosen = -1; // a line's number
    this.filter = { replica: -1, role: "", attempt: -1, level: 0, only: false, text: "" };
    this.list = byId("log-list");
    this.space = this.list.querySelector(".log-space");
    this.rows = this.list.querySelector(".log-rows");
    this.empty = this.list.querySelector(".log-empty");
    this.names = [];
    this.listen();
  }

  listen() {
    const set = (change) => { Object.assign(this.filter, change); this.again(); };
    let timer = 0;
    byId("log-search").addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => { set({ text: event.target.value.toLowerCase() }); this.step(0); }, 120);
    });
    byId("log-search").addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.step(event.shiftKey ? -1 : 1);
    });
    byId("log-only").addEventListener("change", (event) => set({ only: event.target.checked }));
    byId("log-level").addEventListener("change", (event) => set({ level: Number(event.target.value) }));
    byId("log-replica").addEventListener("change", (event) => set(JSON.parse(event.target.value)));
    byId("log-next").addEventListener("click", () => this.step(1));
    byId("log-back").addEventListener("click", () => this.step(-1));
    byId("log-follow").addEventListener("change", () => this.draw());
    this.list.addEventListener("scroll", () => this.scrolled());
    this.list.addEventListener("click", (event) => this.choose(event.target.closest(".line")));
    this.list.addEventListener("keydown", (event) => this.press(event));
    new ResizeObserver(() => this.draw()).observe(this.list);
    document.addEventListener("keydown", (event) => {
      if (event.key !== "/" || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
      event.preventDefault();
      byId("log-search").focus();
    });
  }

  /** Show one replica's lines alone. */
  only(replica) {
    byId("log-replica").value = optionOf({ replica: replica.number });
    Object.assign(this.filter, { replica: replica.number, role: "" });
    this.again();
    this.list.scrollIntoView({ block: "center" });
  }

  /** Learn that there are more lines, and that some of the oldest went. */
  grow(gone) {
    if (gone) {
      this.chosen -= gone;
      this.again();
    } else {
      this.look();
      this.draw();
    }
  }

  /** Look at all lines with the present filters; the line in the middle of the screen stays there. */
  again() {
    const middle = this.shown[Math.round((this.list.scrollTop + this.list.clientHeight / 2) / ROW)];
    [this.shown, this.matches, this.seen] = [[], [], 0];
    this.look();
    this.place = -1;
    this.space.style.height = `${this.shown.length * ROW}px`;
    if (middle !== undefined && !byId("log-follow").checked) this.center(this.shown.findIndex((line) => line >= middle));
    this.draw();
  }

  look() {
    this.offerReplicas();
    const { text, replica, level } = this.model.lines;
    const { filter } = this;
    const wanted = this.wantedReplicas();
    for (; this.seen < text.length; this.seen += 1) {
      const at = this.seen;
      if (wanted && !wanted.has(replica[at])) continue;
      if (level[at] < filter.level) continue;
      const isMatch = filter.text !== "" && text[at].toLowerCase().includes(filter.text);
      if (filter.only && filter.text && !isMatch) continue;
      if (isMatch) this.matches.push(this.shown.length);
      this.shown.push(at);
    }
  }

  wantedReplicas() {
    const { replica, role } = this.filter;
    if (replica >= 0) return new Set([replica]);
    if (!role) return null;
    return new Set([...this.model.replicas.values()].filter((each) => roleOf(each) === role).map((each) => each.number));
  }

  offerReplicas() {
    const replicas = [...this.model.replicas.values()];
    if (this.names.length === replicas.length && this.names.length) return;
    this.names = replicas.map((replica) => replica.name);
    const option = (text, change) => make("option", { value: optionOf(change) }, text);
    const groups = Map.groupBy ? Map.groupBy(replicas, roleOf) : groupBy(replicas, roleOf);
    const select = byId("log-replica");
    const before = select.value;
    select.replaceChildren(option("All replicas", {}), ...[...groups].map(([role, members]) => {
      const whole = groups.size > 1 && members.length > 1 ? [option(`All of ${role}`, { role })] : [];
      return make("optgroup", { label: role }, ...whole, ...members.map((each) => option(each.name, { replica: each.number })));
    }));
    if (before) select.value = before;
  }

  draw() {
    this.space.style.height = `${this.shown.length * ROW}px`;
    if (byId("log-follow").checked) this.toEnd();
    const first = Math.max(0, Math.floor(this.list.scrollTop / ROW) - OVER);
    const last = Math.min(this.shown.length, Math.ceil((this.list.scrollTop + this.list.clientHeight) / ROW) + OVER);
    this.rows.style.transform = `translateY(${first * ROW}px)`;
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.row(at));
    this.rows.replaceChildren(...rows);
    this.empty.hidden = this.shown.length > 0;
    say(this.empty, this.model.lines.text.length ? "No line passes the filters." : this.model.over ? "It has printed nothing." : "Nothing has been printed yet.");
    this.count();
  }

  toEnd() {
    this.expected = Math.max(0, this.shown.length * ROW - this.list.clientHeight + 2);
    this.list.scrollTop = this.expected;
  }

  row(at) {
    const number = this.shown[at];
    const { text, replica, level, time, stderr } = this.model.lines;
    const isCurrent = this.place >= 0 && this.matches[this.place] === at;
    const classes = ["line", LEVELS[level[number]], stderr[number] ? "stderr" : "", number === this.chosen ? "chosen" : "", isCurrent ? "current" : ""];
    return make(
      "div", { className: classes.filter(Boolean).join(" "), dataset: { number } },
      make("span", { className: "time" }, formatClock(time[number], true)),
      make("span", { className: `who ${colourClass(replica[number])}` }, this.names[replica[number]] ?? ""),
      make("span", { className: "text" }, ...this.marked(text[number])),
    );
  }

  /** Return nodes for a line, in which what was searched for is marked. */
  marked(text) {
    const wanted = this.filter.text;
    if (!wanted) return [text];
    const nodes = [];
    const lower = text.toLowerCase();
    let from = 0;
    for (let at = lower.indexOf(wanted); at >= 0 && nodes.length < 200; at = lower.indexOf(wanted, from)) {
      nodes.push(text.slice(from, at), make("mark", {}, text.slice(at, at + wanted.length)));
      from = at + wanted.length;
    }
    return [...nodes, text.slice(from)];
  }

  /** Say where output was lost. */
  drawNotices() {
    const list = byId("log-notices");
    const { notices } = this.model;
    list.hidden = !notices.length;
    if (list.children.length === Math.min(notices.length, 100)) return;
    list.replaceChildren(...notices.slice(-100).map(([name, text, time]) => make("li", {}, `${formatClock(time)} ${name}: ${text}`)));
  }

  count() {
    this.drawNotices();
    const { leftOut, lines } = this.model;
    const all = lines.text.length;
    const count = `${all.toLocaleString("en")} ${all === 1 ? "line" : "lines"}`;
    const parts = [this.shown.length === all ? count : `${this.shown.length.toLocaleString("en")} of ${count}`];
    if (this.filter.text) parts.push(`${this.matches.length.toLocaleString("en")} with a match`);
    if (leftOut) parts.push(`${leftOut.toLocaleString("en")} earlier lines are not here: torchx-core log has them`);
    say(byId("log-count"), parts.join(" · "));
  }

  /** Go to the next match, to the one before, or with 0 to the first one at or below the top of the screen. */
  step(by) {
    if (!this.matches.length) return;
    if (by === 0 || this.place < 0) {
      const top = Math.floor(this.list.scrollTop / ROW);
      const found = this.matches.findIndex((at) => at >= top);
      this.place = found < 0 ? this.matches.length - 1 : found;
    } else {
      this.place = (this.place + by + this.matches.length) % this.matches.length;
    }
    byId("log-follow").checked = false;
    this.center(this.matches[this.place]);
    this.draw();
  }

  center(at) {
    if (at < 0) return;
    this.list.scrollTop = Math.max(0, at * ROW - this.list.clientHeight / 2);
  }

  scrolled() {
    const isAtEnd = this.list.scrollTop + this.list.clientHeight >= this.shown.length * ROW - ROW;
    const isOurs = Math.abs(this.list.scrollTop - (this.expected ?? -9)) < 2;
    if (!isOurs) byId("log-follow").checked = isAtEnd && !this.model.over;
    this.draw();
  }

  press(event) {
    if (event.key === "Escape") this.choose(null);
    if (!/^(ArrowUp|ArrowDown)$/.test(event.key) || this.chosen < 0) return;
    event.preventDefault();
    const at = this.shown.indexOf(this.chosen) + (event.key === "ArrowDown" ? 1 : -1);
    if (at < 0 || at >= this.shown.length) return;
    byId("log-follow").checked = false;
    if (at * ROW < this.list.scrollTop || (at + 1) * ROW > this.list.scrollTop + this.list.clientHeight) this.center(at);
    this.show(this.shown[at]);
  }

  choose(row) {
    if (row && String(getSelection()) !== "") return; // somebody marks text, to copy it
    this.show(row && Number(row.dataset.number) !== this.chosen ? Number(row.dataset.number) : -1);
  }

  /** Show a whole line below the list; long ones do not fit into it. */
  show(number) {
    this.chosen = number;
    const detail = byId("log-detail");
    detail.hidden = number < 0;
    if (number >= 0) {
      const { text, replica, attempt, level, time, stderr } = this.model.lines;
      const facts = [this.names[replica[number]], `attempt ${attempt[number] + 1}`, stderr[number] ? "stderr" : "stdout", LEVELS[level[number]], formatMoment(time[number])];
      detail.replaceChildren(
        make("div", { className: "quiet" }, facts.join(" · ")),
        make("pre", { tabIndex: 0 }, text[number]),
        copyButton(text[number]),
      );
    }
    this.draw();
  }
}

const roleOf = (replica) => replica.name.slice(0, replica.name.lastIndexOf("/"));
const optionOf = (change) => JSON.stringify({ replica: -1, role: "", ...change });

function groupBy(items, keyOf) {
  const groups = new Map();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}
