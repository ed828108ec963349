"use strict";
// Makes elements. What an app has said becomes text nodes only: there is no way here to make HTML of a text.

/** Return a new element; `about` holds properties, `dataset` and attributes with a dash; children are nodes or texts. */
function make(tag, about = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) {
    if (name === "dataset") Object.assign(element.dataset, value);
    else if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

const byId = (id) => document.getElementById(id);

/** Set an element's text if it is another one: writing the same again would trouble selections and screen readers. */
function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Return a button that copies a text. */
function copyButton(text, label = "Copy") {
  const button = make("button", { type: "button", className: "small" }, label);
  button.addEventListener("click", () => copy(text, button));
  return button;
}

async function copy(text, button) {
  const before = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Select it and copy";
  }
  setTimeout(() => { button.textContent = before; }, 1500);
}

/** Return nodes for a text in which what is to be typed stands between backticks. */
function withCode(text) {
  return text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));
}

// --- numbers, times

function formatNumber(value) {
  if (value === null || value === undefined) return "not a number";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e7 || size < 1e-4)) return value.toExponential(3);
  return String(Number(value.toPrecision(5)));
}

function formatBytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (Math.abs(value) >= 1024 && at < units.length - 1) { value /= 1024; at += 1; }
  return `${Number(value.toPrecision(3))} ${units[at]}`;
}

function formatDuration(seconds) {
  seconds = Math.max(0, seconds);
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  const whole = Math.floor(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours ? `${hours} h ${minutes} min` : `${minutes} min ${rest} s`;
}

const pad = (number, digits = 2) => String(number).padStart(digits, "0");

function formatClock(seconds, milliseconds = false) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "";
  const clock = `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}`;
  return milliseconds ? `${clock}.${pad(date.getMilliseconds(), 3)}` : clock;
}

function formatMoment(seconds) {
  const date = new Date(seconds * 1000);
  if (Number.isNaN(date.getTime())) return "";
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${formatClock(seconds, true)}`;
}

// --- colours of replicas, the same in the log, the timeline and the curves

const COLOURS = 10;
const colourClass = (number) => `c${number % COLOURS}`;
