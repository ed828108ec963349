"use strict";
// The head of the page, why the app failed, its result, and what was run.

class Overview {
  constructor(model) {
    this.model = model;
    this.drawn = new Map();
    byId("copy-handle").addEventListener("click", (event) => copy(model.app.handle, event.target));
  }

  draw() {
    const { model } = this;
    if (!model.app) return;
    say(byId("name"), model.app.name);
    say(byId("handle"), model.app.handle);
    this.once("title", `${model.state} ${model.app.name}`, (title) => { document.title = title.trim(); });
    const state = byId("state");
    say(state, model.state);
    state.className = `state ${model.state.toLowerCase()}`;
    const message = model.failure ? "" : model.message;
    byId("message").hidden = !message;
    say(byId("message"), message);
    this.drawProgress();
    this.once("services", model.addresses, (addresses) => this.drawServices(addresses));
    this.once("failure", model.failure, (failure) => this.drawFailure(failure));
    this.once("result", model.result, (result) => this.drawResult(result));
    this.once("app", model.app, (app) => this.drawApp(app));
    this.tick();
  }

  /** Draw a part again only when what it shows is another value. */
  once(name, value, draw) {
    if (this.drawn.get(name) === value) return;
    this.drawn.set(name, value);
    draw(value);
  }

  /** Show how long it has taken; called every second. */
  tick() {
    const { start, end } = this.model.span();
    if (!Number.isFinite(start)) return;
    const again = this.model.restarts ? ` · restarted ${this.model.restarts === 1 ? "once" : `${this.model.restarts} times`}` : "";
    say(byId("took"), `${formatDuration((end ?? Date.now() / 1000) - start)} · since ${formatMoment(start).slice(0, -4)}${again}`);
  }

  drawProgress() {
    const told = [...this.model.replicas.values()].filter((replica) => replica.progress);
    byId("progress").hidden = !told.length || this.model.over;
    if (!told.length) return;
    const slowest = told.reduce((a, b) => (b.progress.fraction < a.progress.fraction ? b : a));
    const { fraction, message } = slowest.progress;
    const bar = byId("progress").querySelector(".bar");
    bar.setAttribute("aria-valuenow", Math.round(fraction * 100));
    bar.firstElementChild.style.width = `${fraction * 100}%`;
    const whose = told.length > 1 ? `${slowest.name}, the slowest: ` : "";
    say(byId("progress-text"), `${whose}${Math.floor(fraction * 100)} %${message ? ` · ${message}` : ""}`);
  }

  drawServices(addresses) {
    // An address comes from the app: one of another kind, as javascript:, is shown and leads nowhere.
    byId("services").replaceChildren(...addresses.map(([name, address]) => (
      /^https?:\/\//i.test(address)
        ? make("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, `${name} ↗`)
        : make("span", {}, `${name}: ${address}`)
    )));
  }

  drawResult(result) {
    byId("result").hidden = !result;
    say(byId("result-text"), result);
  }

  drawFailure(failure) {
    const section = byId("failure");
    section.hidden = !failure;
    if (!failure) return;
    section.classList.toggle("cancelled", this.model.state === "CANCELLED");
    const parts = [make("h2", { id: "failure-title" }, failure.headline)];
    if (failure.message) parts.push(make("p", {}, failure.message));
    if (failure.error) parts.push(make("h3", {}, "Its error"), make("pre", { tabIndex: 0, className: "error" }, failure.error));
    const last = failure.last.length || !failure.replica
      ? failure.last
      : [[failure.replica, this.model.lastLines(failure.replica, 50)]]; // a stream that began later has not seen them
    for (const [name, lines] of last) parts.push(...this.lastLines(name, lines, name === failure.replica));
    if (failure.others) parts.push(make("p", {}, `Failed later: ${failure.others}`));
    parts.push(make("h3", {}, "What to do"), make("ul", {}, ...failure.advice.map((text) => make("li", {}, ...withCode(text)))));
    if (failure.log_dir) parts.push(make("p", { className: "quiet" }, "Log files: ", make("code", {}, failure.log_dir)));
    section.replaceChildren(...parts);
    for (const pre of section.querySelectorAll("pre.last")) pre.scrollTop = pre.scrollHeight;
  }

  lastLines(name, lines, isFirst) {
    if (!lines.length) return [];
    const text = make("pre", { tabIndex: 0, className: "last" }, lines.join("\n"));
    const title = `Last lines of ${name}`;
    if (isFirst) return [make("h3", {}, title), text];
    return [make("details", {}, make("summary", {}, title), text)];
  }

  drawApp(app) {
    const roles = app.roles.map((role) => make(
      "div", { className: "role" },
      make("h3", {}, role.name),
      make("div", { className: "command" }, make("code", {}, role.command_shown), copyButton(role.command)),
      this.table(role.facts),
      ...(role.env.length ? [make("details", {}, make("summary", {}, `Environment (${role.env.length})`), this.table(role.env))] : []),
    ));
    const commands = app.commands.map(([name, command]) => make(
      "div", { className: "command" },
      make("span", { className: "command-name" }, name), make("code", {}, command), copyButton(command),
    ));
    const metadata = app.metadata.length ? [make("h3", {}, "Metadata"), this.table(app.metadata)] : [];
    byId("app").replaceChildren(...roles, ...metadata, make("h3", {}, "From a shell"), ...commands);
  }

  table(rows) {
    return make("dl", {}, ...rows.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
  }
}
