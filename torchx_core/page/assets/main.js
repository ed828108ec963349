"use strict";
// Puts the parts together, and keeps them up to date while the app runs.

/** Returns the picture of a metric; for the console. */
let lookAt = null;

function start() {
  const { source, increment } = JSON.parse(byId("data").textContent);
  const model = new Model();
  const log = new Log(model);
  const overview = new Overview(model);
  const replicas = new Replicas(model, (replica) => log.only(replica));
  const metrics = new Charts(byId("metrics"), model.curves, { x: "x", format: (_, value) => formatNumber(value) });
  const usage = new Charts(byId("usage"), model.usage, { x: "t", format: formatUsage, title: nameUsage });
  byId("metrics-log").addEventListener("change", (event) => { metrics.log = event.target.checked; metrics.draw(); });
  byId("metrics-x").addEventListener("change", (event) => { metrics.x = event.target.value; metrics.draw(); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { metrics.draw(); usage.draw(); });

  lookAt = (name) => metrics.charts.get(name);
  const draw = () => { overview.draw(); replicas.draw(); metrics.draw(); usage.draw(); };
  const take = (news) => {
    log.grow(model.apply(news));
    draw();
  };
  take(increment);
  if (!increment.lines && !source) log.draw();
  if (source && !(increment.over && increment.cursor)) new Live(source, model, take);
  setInterval(() => { if (!model.over && !document.hidden) { overview.tick(); replicas.draw(); } }, 1000);
}

/** The stream of what happens. A page that nobody sees lets go of it, and goes on later from the same place. */
class Live {
  constructor(source, model, take) {
    this.source = source;
    this.model = model;
    this.take = take;
    this.label = byId("live");
    document.addEventListener("visibilitychange", () => (document.hidden ? this.leave() : this.join()));
    addEventListener("pagehide", () => this.leave());
    addEventListener("pageshow", () => this.join());
    this.join();
  }

  join() {
    if (this.stream || this.isDone || document.hidden) return;
    this.tell(this.place ? "live" : "reading the log", "");
    this.stream = new EventSource(this.place ? `${this.source}?after=${encodeURIComponent(this.place)}` : this.source);
    this.stream.onopen = () => this.tell(this.place ? "live" : "reading the log", "");
    this.stream.onmessage = (event) => this.hear(event);
    this.stream.addEventListener("trouble", (event) => this.hearTrouble(JSON.parse(event.data)));
    this.stream.onerror = () => this.lose();
  }

  leave() {
    this.stream?.close();
    this.stream = null;
  }

  hear(event) {
    this.place = event.lastEventId;
    byId("trouble").hidden = true;
    this.tell("live", "");
    this.take(JSON.parse(event.data));
    if (this.model.over) this.end("");
  }

  hearTrouble({ message, gone }) {
    byId("trouble").hidden = false;
    say(byId("trouble"), gone ? message : `The scheduler does not answer: ${message}. Asking again.`);
    if (gone) this.end("");
  }

  lose() {
    if (this.isDone) return;
    if (this.stream?.readyState === EventSource.CLOSED) {
      // The server answers, but not with a stream: it is another one, or whoever looks may not any more.
      this.leave();
      byId("trouble").hidden = false;
      say(byId("trouble"), "This page is served no more. What it shows is as old as the connection.");
      this.tell("not connected", "lost");
    } else {
      this.tell("connection lost, trying again", "lost");
    }
  }

  end(text) {
    this.isDone = true;
    this.leave();
    this.tell(text, "");
  }

  tell(text, kind) {
    this.label.hidden = !text;
    this.label.className = `live ${kind}`;
    say(this.label, text);
  }
}

start();
